//! What fields of events hold: types with a unit or a set of words, each of which knows how it becomes a
//! number and what a number stands for.
//!
//! Any number decodes to something: files may be damaged, and a newer program may know more words. What is
//! not known becomes the word that says least.

/// How a field is to be read, for dumps, exports and the printed dictionary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Notation {
    /// Number of a domain.
    Domain,
    /// The kernel's number of a thread.
    Thread,
    /// Number of a processor.
    Processor,
    /// Number of a string in the definitions; 0: none.
    Name,
    /// Number of a call path in the definitions; 0: none.
    Stack,
    /// A [`FiberRef`].
    Fiber,
    /// An [`ObjectRef`].
    Object,
    /// A process: its number (high half) and its name's.
    Process,
    /// A coroutine.
    Coroutine,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// A number of things.
    Count,
    /// A signed number: an index.
    Index,
    /// A float's bits.
    Float,
    /// A share of processor time, see [`Share`].
    Share,
    /// Yes or no.
    Flag,
    /// One of these words.
    Words(&'static [(u16, &'static str)]),
    /// Bits without a meaning of their own.
    Raw,
}

impl Notation {
    /// The unit or type, for people.
    pub fn name(self) -> String {
        match self {
            Notation::Domain => "domain".into(),
            Notation::Thread => "thread".into(),
            Notation::Processor => "processor".into(),
            Notation::Name => "name".into(),
            Notation::Stack => "call path".into(),
            Notation::Fiber => "fiber".into(),
            Notation::Object => "object".into(),
            Notation::Process => "process".into(),
            Notation::Coroutine => "coroutine".into(),
            Notation::Bytes => "bytes".into(),
            Notation::Nanoseconds => "ns".into(),
            Notation::Count => "count".into(),
            Notation::Index => "index".into(),
            Notation::Float => "float".into(),
            Notation::Share => "share: 0 if not measured, else 1 + ten-thousandths".into(),
            Notation::Flag => "flag".into(),
            Notation::Words(words) => {
                let words: Vec<_> = words.iter().map(|(n, w)| format!("{n} {w}")).collect();
                words.join(", ")
            }
            Notation::Raw => "bits".into(),
        }
    }
}

/// What a field of an event can hold.
pub trait Field: Copy {
    /// How it is to be read.
    const NOTATION: Notation;
    /// How many bits it takes at most.
    const BITS: u32;
    /// As it lies in the event.
    fn encode(self) -> u64;
    /// What a number stands for; any number stands for something.
    fn decode(word: u64) -> Self;
}

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident($of:ty) $notation:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $of);

        impl Field for $name {
            const NOTATION: Notation = Notation::$notation;
            const BITS: u32 = <$of>::BITS;
            #[inline(always)]
            fn encode(self) -> u64 { self.0 as u64 }
            #[inline(always)]
            fn decode(word: u64) -> $name { $name(word as $of) }
        }
    )*};
}

quantities! {
    /// A domain's number; 1 is the main one.
    DomainId(u32) Domain;
    /// The kernel's number of a thread.
    Tid(u32) Thread;
    /// A processor's number.
    Processor(u32) Processor;
    /// Number of a string in the definitions; 0: none.
    Name(u32) Name;
    /// Number of a call path in the definitions; 0: none.
    Stack(u32) Stack;
    /// A process: its number in the high half, its name's in the low one; 0: not known, or nobody.
    Process(u64) Process;
    /// A coroutine.
    Coroutine(u64) Coroutine;
    /// Bytes.
    Bytes(u64) Bytes;
    /// Nanoseconds.
    Ns(u64) Nanoseconds;
    /// So many.
    Count(u64) Count;
    /// So many, 65,535 if it is more.
    Few(u16) Count;
    /// The heap's number of a kind of object.
    HeapKind(u16) Count;
    /// An index of a loop.
    Index(i64) Index;
    /// Part of a text.
    Raw(u64) Raw;
    /// Part of a text.
    Raw16(u16) Raw;
}

impl From<usize> for Bytes {
    fn from(n: usize) -> Bytes {
        Bytes(n as u64)
    }
}

impl From<usize> for Count {
    fn from(n: usize) -> Count {
        Count(n as u64)
    }
}

impl Few {
    /// As many as can be told.
    pub fn of(n: u64) -> Few {
        Few(n.min(u16::MAX as u64) as u16)
    }
}

impl Field for f64 {
    const NOTATION: Notation = Notation::Float;
    const BITS: u32 = 64;
    fn encode(self) -> u64 {
        self.to_bits()
    }
    fn decode(word: u64) -> f64 {
        f64::from_bits(word)
    }
}

impl Field for bool {
    const NOTATION: Notation = Notation::Flag;
    const BITS: u32 = 1;
    #[inline(always)]
    fn encode(self) -> u64 {
        self as u64
    }
    fn decode(word: u64) -> bool {
        word == 1
    }
}

/// How much of a stretch of time the thread was on a processor, in ten-thousandths; nothing if that was not
/// measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share(pub Option<u16>);

impl Field for Share {
    const NOTATION: Notation = Notation::Share;
    const BITS: u32 = 16;
    fn encode(self) -> u64 {
        self.0.map_or(0, |share| 1 + share.min(10_000) as u64)
    }
    fn decode(word: u64) -> Share {
        Share(word.checked_sub(1).map(|share| share.min(10_000) as u16))
    }
}

macro_rules! words {
    ($($(#[$doc:meta])* $name:ident, else $other:ident {
        $($(#[$d:meta])* $variant:ident = $n:literal, $word:literal;)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum $name { $($(#[$d])* $variant = $n,)* }

        impl $name {
            /// All of them with their words, in order.
            pub const ALL: &'static [($name, &'static str)] = &[$(($name::$variant, $word),)*];
            /// For people.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }

        impl Field for $name {
            const NOTATION: Notation = Notation::Words(&[$(($n, $word),)*]);
            const BITS: u32 = 16;
            #[inline(always)]
            fn encode(self) -> u64 { self as u64 }
            fn decode(word: u64) -> $name {
                match word { $($n => $name::$variant,)* _ => $name::$other }
            }
        }
    )*};
}

words! {
    /// Why a thread gives a domain up.
    Leaving, else Idle {
        /// There is nothing to run.
        Idle = 0, "";
        /// Somebody else takes over at once.
        HandedOver = 1, "somebody else takes over";
        /// The code that runs is in a call that may block.
        Detached = 2, "detached";
    }
    /// Why a fiber does not run any more.
    Parking, else Waits {
        /// It waits for something.
        Waits = 0, "waits";
        /// Its function has returned.
        Returned = 1, "returned";
        /// Its function has failed.
        Failed = 2, "failed";
        /// It was cancelled.
        Cancelled = 3, "cancelled";
        /// It is in a call that may block, outside of the domain.
        Detached = 4, "in a blocking call";
    }
    /// What a task or a loop came to.
    Ending, else Unknown {
        /// Not told.
        Unknown = 0, "";
        /// It returned.
        Returned = 1, "returned";
        /// It failed.
        Failed = 2, "failed";
        /// It was cancelled.
        Cancelled = 3, "cancelled";
    }
    /// What a wait does: the kinds of waits, for events, tables and reports alike. What it is for is the
    /// object's to say.
    Verb, else WaitsFor {
        /// Something else than the following.
        WaitsFor = 0, "waits for";
        /// A message of a channel.
        Receives = 1, "receives from";
        /// Room in a channel.
        Sends = 2, "sends to";
        /// The end of a domain.
        Joins = 3, "joins";
        /// The result of a task.
        Awaits = 4, "awaits";
        /// A time.
        Sleeps = 5, "sleeps";
        /// Any of several things.
        Selects = 6, "selects from";
        /// The end of what is under way in what is to be closed.
        Closes = 7, "closes";
        /// Bytes of a connection, socket, pipe.
        Reads = 8, "reads from";
        /// Room for bytes in one.
        Writes = 9, "writes to";
        /// Somebody who connects.
        Accepts = 10, "accepts at";
        /// A connection that is being made.
        Connects = 11, "connects to";
        /// The addresses of a name.
        Resolves = 12, "looks up";
        /// The end of a child.
        Ends = 13, "waits for the end of";
        /// A lock, a place in a semaphore.
        Acquires = 14, "acquires";
        /// Whatever else the domain can do.
        Yields = 15, "gives way";
        /// The answer to a remote call.
        Asks = 16, "waits for an answer of";
        /// A remote call.
        Serves = 17, "waits for a call of";
    }
    /// Why a wait ended.
    Reason, else Other {
        /// What was waited for is there.
        Ready = 0, "ready";
        /// What was waited for was closed.
        Closed = 1, "closed";
        /// The time was over.
        Timeout = 2, "timeout";
        /// Whoever waited was cancelled.
        Cancelled = 3, "cancelled";
        /// Nothing could have ended it any more.
        Deadlock = 4, "deadlock";
        /// The wait was given up.
        Other = 5, "other";
    }
    /// What a request and its answer are written in.
    Protocol, else Other {
        /// Something else than the following.
        Other = 0, "";
        /// HTTP.
        Http = 1, "HTTP";
        /// A remote call.
        Rpc = 2, "RPC";
    }
    /// Why a wait for a peer was long.
    Slowness, else Peer {
        /// The peer had all it needs, and took its time.
        Peer = 0, "the peer has not answered";
        /// Our system held bytes back until the peer's system had acknowledged earlier ones (Nagle's
        /// algorithm).
        Held = 1, "Nagle's algorithm held bytes back";
        /// A part of what was read had come, and the rest came later.
        Pieces = 2, "the peer's message came in pieces";
        /// Segments were lost on their way, and sent again.
        Lost = 3, "segments were lost";
        /// The peer takes nothing.
        Full = 4, "the peer does not read";
    }
    /// Why a step of the collector begins.
    StepCause, else Budget {
        /// So much has been allocated.
        Budget = 0, "budget";
        /// The program asked for a step.
        Explicit = 1, "explicit step";
        /// A whole collection: the program asked for one, or memory is short.
        Full = 2, "full";
        /// The program asked for a minor collection.
        Minor = 3, "minor asked for";
    }
    /// What a thread was at when it was sampled.
    Activity, else Lua {
        /// Lua code.
        Lua = 0, "Lua";
        /// A native function.
        Native = 1, "native";
        /// The collector.
        Collector = 2, "collector";
        /// Machine code.
        Machine = 3, "machine code";
        /// What machine code leaves to the interpreter, and other helpers of it.
        Helper = 4, "for machine code";
    }
    /// What became of sampled allocations.
    Fate, else DiedYoung {
        /// They died before a minor collection looked at them.
        DiedYoung = 0, "died young";
        /// They survived a minor collection.
        Survived = 1, "survived";
        /// They survived, and are dead now.
        DiedOld = 2, "died old";
    }
    /// Why a function is not compiled.
    NotCompiledBecause, else NoGain {
        /// Machine code would take about as long as the interpreter.
        NoGain = 0, "nothing would be gained";
        /// Compiling would cost too much for what it would save.
        TooLittle = 1, "too little would be saved";
        /// It has too many instructions.
        TooLarge = 2, "too large";
        /// The compiler failed, or there is no memory.
        Failed = 3, "failed";
        /// There is as much machine code as there may be; some makes room.
        NoRoom = 4, "no room";
        /// It is built in place where it is called.
        InPlace = 5, "in place where it is called";
    }
    /// Why a thread is not on a processor any more.
    Off, else Sleeps {
        /// It sleeps.
        Sleeps = 0, "sleeps";
        /// It could go on; another runs instead.
        Displaced = 1, "displaced";
    }
}

impl Verb {
    /// How reports of waits say it, where the table's word would sound as if it were done:
    /// `waits to receive from channel 'in'`.
    pub fn waits(self) -> &'static str {
        match self {
            Verb::WaitsFor | Verb::Awaits => "waits for",
            Verb::Receives => "waits to receive from",
            Verb::Sends => "waits to send to",
            Verb::Joins => "waits for the end of",
            Verb::Selects => "waits for one of",
            Verb::Closes => "waits for the work of",
            Verb::Reads => "waits to read from",
            Verb::Writes => "waits to write to",
            Verb::Accepts => "waits to accept at",
            Verb::Acquires => "waits to acquire",
            Verb::Sleeps | Verb::Connects | Verb::Resolves | Verb::Ends | Verb::Yields => self.word(),
            Verb::Asks | Verb::Serves => self.word(),
        }
    }
}

impl Parking {
    /// The fiber is gone.
    pub fn is_end(self) -> bool {
        matches!(self, Parking::Returned | Parking::Failed | Parking::Cancelled)
    }
}

/// A fiber of a domain in one word: domain (24 bits), generation (16), index (24). The root chain of a domain
/// has the index [`FiberRef::ROOT`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct FiberRef(pub u64);

impl FiberRef {
    /// Index of the code that is in no fiber.
    pub const ROOT: u32 = 0xff_ffff;

    /// Puts one together; numbers that are too large are cut.
    pub fn new(domain: u32, generation: u32, index: u32) -> FiberRef {
        FiberRef((domain as u64) << 40 | (generation as u64 & 0xffff) << 24 | (index as u64 & 0xff_ffff))
    }
    /// The code of a domain that is in no fiber.
    pub fn root(domain: u32) -> FiberRef {
        FiberRef::new(domain, 0, Self::ROOT)
    }
    /// The domain's number.
    pub fn domain(self) -> u32 {
        (self.0 >> 40) as u32
    }
    /// Times that the index had been used before.
    pub fn generation(self) -> u32 {
        (self.0 >> 24) as u32 & 0xffff
    }
    /// The place in the domain's list of fibers.
    pub fn index(self) -> u32 {
        self.0 as u32 & 0xff_ffff
    }
    /// Is it the code that is in no fiber?
    pub fn is_root(self) -> bool {
        self.index() == Self::ROOT
    }
}

impl Field for FiberRef {
    const NOTATION: Notation = Notation::Fiber;
    const BITS: u32 = 64;
    #[inline(always)]
    fn encode(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn decode(word: u64) -> FiberRef {
        FiberRef(word)
    }
}

/// What a shared object is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ObjectKind {
    /// Nothing that has a number.
    None = 0,
    /// A channel.
    Channel = 1,
    /// A task of a pool.
    Task = 2,
    /// A domain that is joined.
    Domain = 3,
    /// A parallel loop.
    Loop = 4,
    /// A pool.
    Pool = 5,
    /// An atomic.
    Atomic = 6,
    /// A map.
    Map = 7,
    /// An array.
    Array = 8,
    /// A timer, or a sleep.
    Timer = 9,
    /// Several of them (`select`, `await_any`).
    Several = 10,
    /// A lock inside of the runtime, named by its definition.
    Lock = 11,
    /// An open file or stream.
    File = 12,
    /// A queue of ordered tasks.
    Lane = 13,
    /// A fiber that a program has started.
    Fiber = 14,
    /// A scope, a timeout, a shield.
    Scope = 15,
    /// A semaphore.
    Semaphore = 16,
    /// A connection, called by its two ends.
    Connection = 17,
    /// What connections come to, called by its address.
    Listener = 18,
    /// A child process, called by its number and command.
    Process = 19,
    /// Where somebody connects to, or a name that is looked up.
    Address = 20,
    /// What is done to a file.
    Operation = 21,
    /// A socket that is no connection.
    Socket = 22,
    /// A pipe, FIFO or terminal.
    Stream = 23,
}

impl ObjectKind {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        [
            "",
            "channel",
            "task",
            "domain",
            "loop",
            "pool",
            "atomic",
            "map",
            "array",
            "timer",
            "several",
            "lock",
            "file",
            "lane",
            "fiber",
            "scope",
            "semaphore",
            "connection",
            "listener",
            "process",
            "address",
            "file operation",
            "socket",
            "stream",
        ][self as usize]
    }
    /// An object of this kind with its name, for people: `channel 'jobs'`, `process 17 (sort)`.
    pub fn called(self, name: &str) -> String {
        use ObjectKind::*;
        match self {
            None => format!("'{name}'"),
            // These say what they are.
            Timer | Several => name.to_owned(),
            Connection | Listener | Process | Address | Operation | Socket | Stream => {
                format!("{} {name}", self.name())
            }
            _ => format!("{} '{name}'", self.name()),
        }
    }
    /// Are there so many, each used once or for a short time, that tables count them together?
    pub fn is_fleeting(self) -> bool {
        use ObjectKind::*;
        matches!(self, Several | Connection | Process | Operation | Socket | Stream)
    }
    /// What a number stands for; any number stands for something.
    pub const fn from_number(n: u8) -> ObjectKind {
        use ObjectKind::*;
        const ALL: [ObjectKind; 24] = [
            None, Channel, Task, Domain, Loop, Pool, Atomic, Map, Array, Timer, Several, Lock, File, Lane,
            Fiber, Scope, Semaphore, Connection, Listener, Process, Address, Operation, Socket, Stream,
        ];
        if (n as usize) < ALL.len() { ALL[n as usize] } else { None }
    }
}

/// A shared object in one word: kind (8 bits) and a number that is unique within the kind for the life of the
/// process (56).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct ObjectRef(pub u64);

impl ObjectRef {
    /// No object.
    pub const NONE: ObjectRef = ObjectRef(0);

    /// Puts one together.
    pub const fn new(kind: ObjectKind, number: u64) -> ObjectRef {
        ObjectRef((kind as u64) << 56 | number & ((1 << 56) - 1))
    }
    /// What it is.
    pub const fn kind(self) -> ObjectKind {
        ObjectKind::from_number((self.0 >> 56) as u8)
    }
    /// Its number.
    pub const fn number(self) -> u64 {
        self.0 & ((1 << 56) - 1)
    }
}

impl Field for ObjectRef {
    const NOTATION: Notation = Notation::Object;
    const BITS: u32 = 64;
    #[inline(always)]
    fn encode(self) -> u64 {
        self.0
    }
    #[inline(always)]
    fn decode(word: u64) -> ObjectRef {
        ObjectRef(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both_ways<T: Field + PartialEq + std::fmt::Debug>(x: T) {
        assert_eq!(T::decode(x.encode()), x);
        assert!(T::BITS == 64 || x.encode() >> T::BITS == 0);
    }

    #[test]
    fn fields_are_encoded_and_decoded() {
        both_ways(Index(-3));
        both_ways(Name(u32::MAX));
        both_ways(2.5);
        both_ways(true);
        both_ways(Share(None));
        both_ways(Share(Some(10_000)));
        Verb::ALL.iter().for_each(|(v, _)| both_ways(*v));
        Reason::ALL.iter().for_each(|(r, _)| both_ways(*r));
        Parking::ALL.iter().for_each(|(p, _)| both_ways(*p));
        assert_eq!((Verb::decode(99), Reason::decode(99)), (Verb::WaitsFor, Reason::Other));
        assert_eq!((Few::of(70_000), Few::of(7)), (Few(65_535), Few(7)));
    }

    #[test]
    fn references_hold_their_parts() {
        let f = FiberRef::new(70_000, 65_535, 12_345);
        assert_eq!((f.domain(), f.generation(), f.index()), (70_000, 65_535, 12_345));
        assert_eq!(ObjectKind::Process.called("17 (sort)"), "process 17 (sort)");
        assert_eq!(ObjectKind::Channel.called("jobs"), "channel 'jobs'");
        let o = ObjectRef::new(ObjectKind::Lane, 1 << 50);
        assert_eq!((o.kind(), o.number()), (ObjectKind::Lane, 1 << 50));
    }
}
