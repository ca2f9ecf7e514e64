//! What can happen: the dictionary of events. One table declares each kind with its number, category, phase
//! and fields; from it come the structure that a probe fills in ([`crate::emit`]), its encoding, the decoded
//! form that tools match on ([`What`]), and the printed dictionary (`docs/tracing/events.md`).
//!
//! A kind's number never changes its meaning; new kinds get new numbers, a change of fields raises
//! [`crate::layout::VERSION`]. Readers skip numbers that they do not know.
//!
//! # Encoding
//! Every event has two words `a` and `b` and 16 bits `c`. The table says which field lies where; the types of
//! fields (`event/fields.rs`) say what they hold, and that what is put into `c` has no more than 16 bits is
//! checked when the table is compiled.
//!
//! # Spans
//! A kind whose `phase` is [`Phase::Begin`] is followed, in the same ring, by one of [`Phase::End`], the
//! number after its own, unless the ring has been overwritten in between. Spans of one domain nest, with one
//! exception: a wait belongs to a fiber, and other fibers run meanwhile.
//!
//! # Rejected
//! Arguments by position (`emit(kind, c, a, b)`): verbs, reasons and units were prose beside the table, and
//! probes that always said 0 looked like any other. One decoded structure with all fields optional: every
//! reader would have to know again which are there.

mod fields;

pub use fields::*;

/// A switch: probes of a category are on or off together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum Category {
    /// Life of domains, worker threads, fibers; who runs when.
    Life = 1 << 0,
    /// Tasks and parallel loops.
    Task = 1 << 1,
    /// Waits and wakes, channels.
    Wait = 1 << 2,
    /// Timers.
    Timer = 1 << 3,
    /// Collections, scopes, islands, copies between domains.
    Gc = 1 << 4,
    /// Sizes of heaps.
    Heap = 1 << 5,
    /// Contention for shared objects.
    Contention = 1 << 6,
    /// Calls that may sleep in the kernel.
    Block = 1 << 7,
    /// Switches between coroutines.
    Coroutine = 1 << 8,
    /// Modules and chunks loaded.
    Module = 1 << 9,
    /// The program's own marks, spans, counters, logs.
    User = 1 << 10,
    /// Samples of the processor's time.
    Cpu = 1 << 11,
    /// Samples of allocation.
    Alloc = 1 << 12,
    /// Compilation to machine code, and what becomes of that.
    Compile = 1 << 13,
    /// Requests that servers answer; why waits for peers were long.
    Io = 1 << 14,
    /// What the kernel did with threads; tools add it, programs do not write it.
    Sched = 1 << 15,
}

/// All categories with their names in PERILUNE_TRACE and on command lines.
pub const CATEGORIES: [(Category, &str); 16] = [
    (Category::Life, "life"),
    (Category::Task, "task"),
    (Category::Wait, "wait"),
    (Category::Timer, "timer"),
    (Category::Gc, "gc"),
    (Category::Heap, "heap"),
    (Category::Contention, "contention"),
    (Category::Block, "block"),
    (Category::Coroutine, "coroutine"),
    (Category::Module, "module"),
    (Category::User, "user"),
    (Category::Cpu, "cpu"),
    (Category::Alloc, "alloc"),
    (Category::Compile, "compile"),
    (Category::Io, "io"),
    (Category::Sched, "sched"),
];

/// The mask of what is on by default: all but the samplers, which have rates of their own, and switches
/// between coroutines, of which there may be tens of millions in a second.
pub const DEFAULT_CATEGORIES: u32 =
    ((1 << 15) - 1) & !(Category::Cpu as u32 | Category::Alloc as u32 | Category::Coroutine as u32);

/// How an event stands in time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// A moment.
    Instant,
    /// Something begins; the next number ends it.
    Begin,
    /// What the number before began is over.
    End,
    /// A value that holds until the next one.
    Counter,
    /// Belongs to the event before: more of its text.
    More,
}

/// Where a field lies in an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// The first word.
    A,
    /// The second word.
    B,
    /// The 16 bits.
    C,
}

/// What is known of a field.
#[derive(Clone, Copy, Debug)]
pub struct FieldInfo {
    /// Where it lies.
    pub slot: Slot,
    /// Its name.
    pub name: &'static str,
    /// How it is to be read.
    pub notation: Notation,
}

/// What is known of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Info {
    /// The kind.
    pub kind: Kind,
    /// Its name: lower case, words joined by `-`.
    pub name: &'static str,
    /// The switch.
    pub category: Category,
    /// How it stands in time.
    pub phase: Phase,
    /// What it says, in the order of people.
    pub fields: &'static [FieldInfo],
    /// What it means.
    pub doc: &'static str,
}

impl Info {
    /// What lies in a slot.
    pub fn field(&self, slot: Slot) -> Option<&'static FieldInfo> {
        self.fields.iter().find(|f| f.slot == slot)
    }
}

/// The words of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// The first word.
    pub a: u64,
    /// The second word.
    pub b: u64,
    /// The 16 bits.
    pub c: u64,
}

/// An event that a probe can write.
pub trait Probe: Copy {
    /// Its kind.
    const KIND: Kind;
    /// As it lies in a ring.
    fn encode(self) -> Words;
    /// As it was.
    fn decode(words: Words) -> Self;
}

macro_rules! slot {
    (a) => {
        Slot::A
    };
    (b) => {
        Slot::B
    };
    (c) => {
        Slot::C
    };
}

macro_rules! room {
    (c) => {
        16
    };
    ($other:ident) => {
        64
    };
}

macro_rules! events {
    ($(
        $(#[doc = $doc:literal])*
        $kind:ident = $number:literal, $name:literal, $cat:ident, $phase:ident {
            $($slot:ident $field:ident: $ty:ty),*
        }
    )*) => {
        /// A kind of event.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Kind { $($(#[doc = $doc])* $kind = $number,)* }

        $(
            $(#[doc = $doc])*
            #[derive(Clone, Copy, PartialEq, Debug)]
            pub struct $kind {
                $(#[allow(missing_docs)] pub $field: $ty,)*
            }

            impl Probe for $kind {
                const KIND: Kind = Kind::$kind;
                #[inline(always)]
                fn encode(self) -> Words {
                    $(const {
                        assert!(<$ty as Field>::BITS <= room!($slot), "a field has more bits than its slot")
                    };)*
                    #[allow(unused_mut)]
                    let mut words = Words::default();
                    $(words.$slot = Field::encode(self.$field);)*
                    words
                }
                #[inline]
                #[allow(unused_variables)]
                fn decode(words: Words) -> $kind {
                    $kind { $($field: Field::decode(words.$slot),)* }
                }
            }
        )*

        /// An event, decoded.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub enum What { $($(#[doc = $doc])* $kind($kind),)* }

        impl What {
            /// What the words of an event of this kind say.
            #[inline]
            pub fn decode(kind: Kind, words: Words) -> What {
                match kind { $(Kind::$kind => What::$kind(Probe::decode(words)),)* }
            }
            /// Its kind and words.
            pub fn encode(self) -> (Kind, Words) {
                match self { $(What::$kind(e) => (Kind::$kind, e.encode()),)* }
            }
        }

        /// All kinds, in the order of their numbers.
        pub const KINDS: &[Info] = &[$(Info {
            kind: Kind::$kind, name: $name, category: Category::$cat, phase: Phase::$phase,
            fields: &[$(FieldInfo {
                slot: slot!($slot),
                name: stringify!($field),
                notation: <$ty as Field>::NOTATION
            },)*],
            doc: concat!($($doc),*),
        },)*];

        impl Kind {
            /// The kind of this number.
            pub fn from_number(n: u16) -> Option<Kind> {
                match n { $($number => Some(Kind::$kind),)* _ => None }
            }
            /// The switch that it belongs to.
            #[inline(always)]
            pub const fn category(self) -> Category {
                match self { $(Kind::$kind => Category::$cat,)* }
            }
            /// What is known of it.
            pub fn info(self) -> &'static Info {
                match KINDS.binary_search_by_key(&(self as u16), |i| i.kind as u16) {
                    Ok(at) => &KINDS[at],
                    Err(_) => unreachable!("the table holds every kind"),
                }
            }
        }
    };
}

events! {
    // -- Life: 16..
    /// A domain exists. `existed`: it had begun before the session.
    DomainBegin = 16, "domain-begin", Life, Instant { a domain: DomainId, b name: Name, c existed: bool }
    /// A domain has been freed. `young`: bytes allocated since its last collection.
    DomainEnd = 17, "domain-end", Life, Instant { a domain: DomainId, b young: Bytes }
    /// A thread owns the domain from now on and runs its code.
    DomainEnter = 18, "domain", Life, Begin { a domain: DomainId, b thread: Tid }
    /// It gives it up: there is nothing to run, or the code that runs blocks. `fibers` exist then (the code
    /// that is in none counts as one while it is under way).
    DomainLeave = 19, "domain-leave", Life, End { a domain: DomainId, b fibers: Count, c why: Leaving }
    /// A domain that slept has something to do; written by whoever gave it that.
    DomainReady = 20, "domain-ready", Life, Instant { a domain: DomainId }
    /// A worker thread begins.
    WorkerBegin = 21, "worker-begin", Life, Instant { a thread: Tid }
    /// A worker thread ends.
    WorkerEnd = 22, "worker-end", Life, Instant { a thread: Tid }
    /// A fiber exists.
    FiberBegin = 23, "fiber-begin", Life, Instant { a fiber: FiberRef, b name: Name }
    /// A fiber runs.
    FiberRun = 24, "fiber", Life, Begin { a fiber: FiberRef }
    /// It does not run any more.
    FiberPark = 25, "fiber-park", Life, End { a fiber: FiberRef, c why: Parking }
    /// A thread has a name; written by itself.
    ThreadName = 26, "thread-name", Life, Instant { a thread: Tid, b name: Name }
    /// Processor time that a thread has used since it began, by its own clock; written when it enters or
    /// leaves a domain or the collector, if the last was a while ago.
    CpuTime = 27, "cpu-time", Life, Instant { a used: Ns, b thread: Tid }

    // -- Task: 48..
    /// A task was made and queued; `name` is its function's, with the place.
    TaskCreated = 48, "task-created", Task, Instant { a task: ObjectRef, b name: Name }
    /// A task was taken from another worker's queue.
    TaskStolen = 49, "task-stolen", Task, Instant { a task: ObjectRef, c seat: Few }
    /// A task's function begins to run in this domain.
    TaskStart = 50, "task-start", Task, Instant { a task: ObjectRef, b fiber: FiberRef }
    /// A task is over.
    TaskEnd = 51, "task-end", Task, Instant { a task: ObjectRef, b fiber: FiberRef, c ending: Ending }
    /// A parallel loop begins; it ends when its last part has ended. Where: the call path of the wait that
    /// follows.
    LoopBegin = 52, "loop", Task, Begin { a object: ObjectRef, b iterations: Count }
    /// A parallel loop is over.
    LoopEnd = 53, "loop-end", Task, End { a object: ObjectRef, c ending: Ending }
    /// A domain begins to run a part of a loop.
    PartBegin = 54, "part", Task, Begin { a object: ObjectRef, b fiber: FiberRef }
    /// The part is done.
    PartEnd = 55, "part-end", Task, End { a object: ObjectRef, b fiber: FiberRef }
    /// Follows the two: the first index, and the last one that was given (begin), or the one after the last
    /// that was done (end).
    PartRange = 56, "part-range", Task, More { a first: Index, b last: Index }
    /// Follows the begin of a loop: domains of the pool, and the size of a chunk; 0: it splits lazily.
    LoopShape = 57, "loop-shape", Task, More { a domains: Count, b chunk: Count }

    /// What has come from another domain is copied into this one, before the fiber runs that it is for.
    CopyBegin = 58, "copy", Task, Begin { }
    /// It is there.
    CopyEnd = 59, "copy-end", Task, End { }

    // -- Wait: 80..
    /// The running fiber begins to wait for an object.
    WaitBegin = 80, "wait", Wait, Begin { c verb: Verb, a object: ObjectRef, b stack: Stack }
    /// The wait is over.
    WaitEnd = 81, "wait-end", Wait, End { a object: ObjectRef, b fiber: FiberRef, c reason: Reason }
    /// Somebody's wait is ended by the running fiber.
    Wake = 82, "wake", Wait, Instant { a fiber: FiberRef, b object: ObjectRef, c reason: Reason }
    /// A message was sent: so many are in the queue now.
    ChannelSend = 83, "send", Wait, Instant { a object: ObjectRef, b queued: Count }
    /// A message was received: so many are left.
    ChannelRecv = 84, "recv", Wait, Instant { a object: ObjectRef, b queued: Count }

    // -- Timer: 96..
    /// A timer was set, for so long from now.
    TimerSet = 96, "timer-set", Timer, Instant { a span: Ns, b fiber: FiberRef }
    /// A timer rang so long after its deadline.
    TimerFired = 97, "timer-fired", Timer, Instant { a late: Ns, b fiber: FiberRef }

    // -- Gc: 112..
    /// The program stops for the collector: a step, in whole.
    StepBegin = 112, "gc", Gc, Begin { a alive: Bytes, c cause: StepCause }
    /// It goes on. Bytes alive and mapped now; how much of the time the thread was on a processor.
    StepEnd = 113, "gc-end", Gc, End { a alive: Bytes, b mapped: Bytes, c processor: Share }
    /// A minor collection.
    MinorBegin = 114, "minor", Gc, Begin { }
    /// Bytes allocated since the last one, bytes kept.
    MinorEnd = 115, "minor-end", Gc, End { a allocated: Bytes, b promoted: Bytes }
    /// A slice of a major collection marks.
    SliceBegin = 116, "major slice", Gc, Begin { }
    /// Bytes marked; whether the major collection is complete.
    SliceEnd = 117, "major slice-end", Gc, End { a marked: Bytes, c complete: bool }
    /// Sweeping after a major collection.
    SweepBegin = 118, "sweep", Gc, Begin { }
    /// A portion has been swept.
    SweepEnd = 119, "sweep-end", Gc, End { c complete: bool }
    /// Finalisers run.
    FinalizeBegin = 120, "finalizers", Gc, Begin { }
    /// So many have run.
    FinalizeEnd = 121, "finalizers-end", Gc, End { a run: Count }
    /// Open scopes were given up by a collection.
    ScopeDissolved = 123, "scope-dissolved", Gc, Instant { a scopes: Count }
    /// An island was made.
    IslandMade = 124, "island-made", Gc, Instant { a size: Bytes, b island: Count }
    /// An island was freed.
    IslandFreed = 125, "island-freed", Gc, Instant { a size: Bytes, b island: Count }
    /// A major collection was started.
    MajorBegin = 126, "major-begin", Gc, Instant { a alive: Bytes }
    /// Memory was given back to the system.
    Trimmed = 127, "trimmed", Gc, Instant { a returned: Bytes }
    /// A scope (arena) that has allocated something ends: what is let out of it is looked for.
    CloseBegin = 128, "scope-close", Gc, Begin { }
    /// Bytes freed at once, bytes kept.
    CloseEnd = 129, "scope-close-end", Gc, End { a freed: Bytes, b kept: Bytes }
    /// Where the program was when the step that has just ended stopped it for so long; only of long ones.
    PauseAt = 130, "pause-at", Gc, Instant { a stack: Stack, b pause: Ns }
    /// Cycles of counted things are looked for, in the whole process.
    CycleBegin = 131, "cycles", Gc, Begin { }
    /// So many were emptied, so many looked at.
    CycleEnd = 132, "cycles-end", Gc, End { a emptied: Count, b visited: Count }
    /// Values were copied out of this domain, into something that another one is to get: bytes outside all
    /// heaps, objects, and where the program sent them. Numbers and short strings alone are no copies.
    CopiedOut = 133, "copied-out", Gc, Instant { a size: Bytes, b stack: Stack, c objects: Few }
    /// Such values were copied into this domain; where another one has sent them. Within `copy` if it is for
    /// a fiber that has not begun.
    CopiedIn = 134, "copied-in", Gc, Instant { a size: Bytes, b stack: Stack, c objects: Few }
    /// A captured table with all it leads to was packed, for all that are going to be sent it until it
    /// changes (a picture); and where it was sent first.
    PictureMade = 135, "picture-made", Gc, Instant { a size: Bytes, b stack: Stack, c objects: Few }

    // -- Heap: 144..
    /// Bytes that the program holds in this domain.
    HeapLive = 144, "heap", Heap, Counter { a alive: Bytes, b mapped: Bytes }
    /// The nursery has got another size.
    Nursery = 145, "nursery", Heap, Counter { a size: Bytes }
    /// An allocation was refused: the limit or the system.
    MemoryRefused = 146, "memory-refused", Heap, Instant { a wanted: Bytes, b alive: Bytes }

    // -- Contention: 160..
    /// Operations on a shared object had to wait for other processors so long in all, counted by this domain
    /// since the last such event.
    Contended = 160, "contended", Contention, Instant { a object: ObjectRef, b waited: Ns, c operations: Few }

    // -- Block: 176..
    /// The running code is in a call that may sleep in the kernel.
    BlockBegin = 176, "blocking", Block, Begin { a name: Name, b stack: Stack }
    /// It has returned.
    BlockEnd = 177, "blocking-end", Block, End { a name: Name }

    // -- Coroutine: 192..
    /// A coroutine is resumed.
    Resume = 192, "resume", Coroutine, Instant { a coroutine: Coroutine }
    /// The running coroutine yields or ends.
    Yield = 193, "yield", Coroutine, Instant { a coroutine: Coroutine, c ended: bool }

    // -- Module: 208..
    /// A chunk is compiled or a module loaded.
    LoadBegin = 208, "load", Module, Begin { a name: Name, b size: Bytes }
    /// It is there.
    LoadEnd = 209, "load-end", Module, End { a name: Name, c failed: bool }

    // -- User: 224..
    /// `pl.trace.mark`
    Mark = 224, "mark", User, Instant { a name: Name }
    /// `pl.trace.span` begins: `count` tells spans of one name apart.
    SpanBegin = 225, "span", User, Begin { a name: Name, b count: Count }
    /// It ends.
    SpanEnd = 226, "span-end", User, End { a name: Name, b count: Count }
    /// `pl.trace.counter`
    Counter = 227, "counter", User, Counter { a name: Name, b value: f64 }
    /// `pl.trace.log`: the text follows in `More` events.
    Log = 228, "log", User, Instant { a length: Bytes }
    /// An error left the program, a task, or a domain; its message follows.
    Error = 229, "error", User, Instant { a length: Bytes, b object: ObjectRef }
    /// 18 bytes of the text that the last event of this ring has begun, low bytes first.
    More = 230, "more", User, More { a first: Raw, b second: Raw, c third: Raw16 }

    // -- Samples: 240..
    /// This much processor time was used at a place since the last sample of this thread.
    CpuSample = 240, "cpu-sample", Cpu, Instant { a stack: Stack, b used: Ns, c activity: Activity }
    /// A sampled allocation, and the bytes that it stands for.
    AllocSample = 241, "alloc-sample", Alloc, Instant { a stack: Stack, b weight: Bytes, c kind: HeapKind }
    /// What became of sampled allocations, and the bytes that they stood for.
    AllocFate = 242, "alloc-fate", Alloc, Instant { a stack: Stack, b weight: Bytes, c fate: Fate }

    // -- Compile: 256..
    /// What functions have met for a while was recorded in this domain, and is handed to the compiler.
    CompileQueued = 256, "compile-queued", Compile, Instant { a functions: Count, b instructions: Count }
    /// A function, where it is defined, or loops of it, of so many instructions, begin to be compiled.
    CompileBegin = 257, "compile", Compile, Begin { a name: Name, b instructions: Count }
    /// Bytes of machine code (0: it failed), and the processor time that it took.
    CompileEnd = 258, "compile-end", Compile, End { a size: Bytes, b used: Ns, c failed: bool }
    /// A function was looked at and not compiled.
    NotCompiled = 259, "not-compiled", Compile, Instant {
        a name: Name, b instructions: Count, c why: NotCompiledBecause
    }
    /// The function has machine code in this domain from now on.
    CodeInstalled = 260, "code-installed", Compile, Instant { a name: Name, b size: Bytes }
    /// Its machine code was left because something was not as expected, at this line.
    CodeLeft = 261, "code-left", Compile, Instant { a name: Name, b line: Count }
    /// Its machine code was left so often, or entered for so little, that this domain runs it no more.
    CodeGivenUp = 262, "code-given-up", Compile, Instant { a name: Name, b exits: Count }

    // -- Io: 272..
    /// A server begins to answer a request in a fiber, which answers no other one meanwhile. `name`: its
    /// method and route, or the function that is called.
    RequestBegin = 272, "request", Io, Begin { a fiber: FiberRef, b name: Name, c protocol: Protocol }
    /// The answer has been written, and the system or the connection's buffer has it. `status`: that of HTTP;
    /// of a remote call 0, or 1 if it has failed.
    RequestEnd = 273, "request-end", Io, End { a fiber: FiberRef, c status: Few }
    /// Follows the begin: the connection that it came by, and how long it had lain here since then.
    RequestCame = 274, "request-came", Io, More { a queued: Ns, b object: ObjectRef }
    /// The handler has returned: its answer is written from here on.
    RequestHandled = 275, "request-handled", Io, Instant { a fiber: FiberRef }
    /// A wait of the running fiber for a peer is over that was long, and why it was.
    SlowWait = 276, "slow-wait", Io, Instant { a object: ObjectRef, b waited: Ns, c why: Slowness }
    /// So many bytes went to a peer in so many small pieces, one after the other.
    SmallWrites = 277, "small-writes", Io, Instant { a object: ObjectRef, b size: Bytes, c pieces: Few }
    /// Follows it: where the program had the last of them sent.
    SmallWritesAt = 278, "small-writes-at", Io, More { a stack: Stack }

    // -- By tools: 4096..
    /// A thread runs on a processor.
    CpuBegin = 4096, "on-cpu", Sched, Begin { a thread: Tid, b processor: Processor }
    /// It does not: it sleeps, or was displaced by a process.
    CpuEnd = 4097, "on-cpu-end", Sched, End { a thread: Tid, b by: Process, c why: Off }
    /// Another process runs on the processor (0: nobody).
    CpuOther = 4098, "cpu-other", Sched, Instant { a processor: Processor, b process: Process }
    /// Since the last such event the thread has run for `ran`, and was ready to run, without running, for
    /// `waited`.
    SchedStat = 4099, "sched-stat", Sched, Instant { a ran: Ns, b waited: Ns }
    /// Events of this writer that came after the one before this are lost: they were overwritten before they
    /// were read.
    Lost = 4112, "lost", Sched, Instant { a events: Count }
}

/// Reads a list of categories: names joined by commas, `all`, `default`, with `-` in front to leave one out.
///
/// # Errors
/// The word that names none.
pub fn parse_categories(list: &str) -> Result<u32, String> {
    let mut mask = if list.trim_start().starts_with('-') { DEFAULT_CATEGORIES } else { 0 };
    for word in list.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        let (off, name) = word.strip_prefix('-').map_or((false, word), |rest| (true, rest));
        let bits = match name {
            "all" => (1 << CATEGORIES.len()) - 1,
            "default" => DEFAULT_CATEGORIES,
            _ => match CATEGORIES.iter().find(|(_, n)| *n == name) {
                Some((category, _)) => *category as u32,
                None => return Err(name.to_owned()),
            },
        };
        mask = if off { mask & !bits } else { mask | bits };
    }
    Ok(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_and_spans_are_pairs() {
        for pair in KINDS.windows(2) {
            assert!((pair[0].kind as u16) < pair[1].kind as u16, "{:?}", pair[1].kind);
        }
        for info in KINDS {
            assert_eq!(Kind::from_number(info.kind as u16), Some(info.kind));
            if info.phase == Phase::Begin {
                let end = Kind::from_number(info.kind as u16 + 1).expect("an end");
                assert_eq!(
                    (end.info().phase, end.category()),
                    (Phase::End, info.category),
                    "{:?}",
                    info.kind
                );
            }
        }
    }

    #[test]
    fn lists_of_categories() {
        assert_eq!(parse_categories("gc, user"), Ok(Category::Gc as u32 | Category::User as u32));
        assert_eq!(parse_categories("-gc"), Ok(DEFAULT_CATEGORIES & !(Category::Gc as u32)));
        assert_eq!(parse_categories("all,-cpu").map(|m| m & Category::Cpu as u32), Ok(0));
        assert_eq!(parse_categories("gx"), Err("gx".into()));
    }
}
