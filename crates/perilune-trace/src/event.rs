//! What can happen: the kinds of events, what their arguments mean, and which switch turns them on.
//!
//! This file is the format's dictionary. A kind's number never changes its meaning; new kinds get new numbers, a change of
//! arguments raises [`crate::layout::VERSION`]. Readers skip numbers that they do not know.
//!
//! # Arguments
//! Every event has two words `a` and `b` and 16 bits `c`. Their meaning is in the table below, by these notations:
//!
//! | notation | |
//! |---|---|
//! | bytes, ns, count | what they say |
//! | name | number of a string in the definitions ([`crate::names`]) |
//! | stack | number of a call path in the definitions; 0: none |
//! | domain | a domain's number, 1 is the main one |
//! | fiber | a [`FiberRef`] |
//! | object | an [`ObjectRef`]: channel, task, atomic, ... |
//! | tid | the kernel's number of a thread |
//! | bits | a float's bits |
//!
//! # Spans
//! A kind whose `phase` is [`Phase::Begin`] is followed, in the same ring, by one of [`Phase::End`], the number after its own, unless the ring has been
//! overwritten in between. Spans of one domain nest, with one exception: a wait belongs to a fiber, and other fibers run meanwhile.

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
    /// Collections, scopes, islands.
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
    /// Reserved for background compilation.
    Compile = 1 << 13,
    /// Reserved for asynchronous I/O.
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

/// The mask of what is on by default: all but the samplers, which have rates of their own, and switches between coroutines, of which there may be
/// tens of millions in a second.
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
    /// Meaning of `a`, empty if unused.
    pub a: &'static str,
    /// Meaning of `b`.
    pub b: &'static str,
    /// Meaning of `c`.
    pub c: &'static str,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $number:literal, $name:literal, $cat:ident, $phase:ident, $a:literal, $b:literal, $c:literal;)*) => {
        /// A kind of event.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Kind { $($(#[$doc])* $kind = $number,)* }

        /// All kinds, in the order of their numbers.
        pub const KINDS: &[Info] = &[$(Info {
            kind: Kind::$kind, name: $name, category: Category::$cat, phase: Phase::$phase, a: $a, b: $b, c: $c,
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

kinds! {
    // -- Life: 16..
    /// A domain exists.
    DomainBegin = 16, "domain-begin", Life, Instant, "domain", "name", "1: has existed before";
    /// A domain has been freed.
    DomainEnd = 17, "domain-end", Life, Instant, "domain", "bytes allocated since its last collection", "";
    /// A thread owns the domain from now on and runs its code.
    DomainEnter = 18, "domain", Life, Begin, "domain", "tid", "";
    /// It gives it up: there is nothing to run, or the code that runs blocks.
    DomainLeave = 19, "domain-leave", Life, End, "domain", "", "1: somebody else takes over, 2: detached";
    /// A domain that slept has something to do; written by whoever gave it that.
    DomainReady = 20, "domain-ready", Life, Instant, "domain", "", "";
    /// A worker thread begins.
    WorkerBegin = 21, "worker-begin", Life, Instant, "tid", "", "";
    /// A worker thread ends.
    WorkerEnd = 22, "worker-end", Life, Instant, "tid", "", "";
    /// A fiber exists.
    FiberBegin = 23, "fiber-begin", Life, Instant, "fiber", "name", "";
    /// A fiber runs.
    FiberRun = 24, "fiber", Life, Begin, "fiber", "", "";
    /// It does not run any more.
    FiberPark = 25, "fiber-park", Life, End, "fiber", "", "0: waits, 1: returned, 2: failed, 3: cancelled, 4: in a blocking call";
    /// A thread has a name; written by itself.
    ThreadName = 26, "thread-name", Life, Instant, "tid", "name", "";
    /// Processor time that a thread has used since it began, by its own clock; written when it enters or leaves a domain or the collector, if the last was
    /// [`crate::cputime::INTERVAL`] ago.
    CpuTime = 27, "cpu-time", Life, Instant, "ns", "tid", "";

    // -- Task: 48..
    /// A task was made and queued; its function's name (with place) is `b`.
    TaskCreated = 48, "task-created", Task, Instant, "object", "name", "";
    /// A task was taken from another worker's queue.
    TaskStolen = 49, "task-stolen", Task, Instant, "object", "", "seat";
    /// A task's function begins to run in this domain, as fiber `b`.
    TaskStart = 50, "task-start", Task, Instant, "object", "fiber", "";
    /// A task is over.
    TaskEnd = 51, "task-end", Task, Instant, "object", "fiber", "1: returned, 2: failed, 3: cancelled";
    /// A parallel loop begins; it ends when its last part has ended. Where: the stack of the wait that follows.
    LoopBegin = 52, "loop", Task, Begin, "object", "count", "chunk, 0: splits lazily";
    /// A parallel loop is over.
    LoopEnd = 53, "loop-end", Task, End, "object", "", "1: returned, 2: failed";
    /// A domain begins to run a part of a loop, as fiber `b`.
    PartBegin = 54, "part", Task, Begin, "object", "fiber", "";
    /// The part is done.
    PartEnd = 55, "part-end", Task, End, "object", "fiber", "";
    /// Follows the two: the first index, and the last one that was given (begin), or the one after the last that was done (end).
    PartRange = 56, "part-range", Task, More, "index", "index", "";
    /// Follows the begin of a loop: domains of the pool, and the whole size of a chunk.
    LoopShape = 57, "loop-shape", Task, More, "count", "chunk, 0: splits lazily", "";

    // -- Wait: 80..
    /// A fiber begins to wait for an object; where: a stack.
    WaitBegin = 80, "wait", Wait, Begin, "object", "stack", "verb";
    /// The wait is over.
    WaitEnd = 81, "wait-end", Wait, End, "object", "fiber", "reason";
    /// Somebody's wait is ended by the running fiber.
    Wake = 82, "wake", Wait, Instant, "fiber", "object", "reason";
    /// A message was sent: `b` messages are in the queue now.
    ChannelSend = 83, "send", Wait, Instant, "object", "count", "";
    /// A message was received.
    ChannelRecv = 84, "recv", Wait, Instant, "object", "count", "";

    // -- Timer: 96..
    /// A timer was set for `a` nanoseconds from now.
    TimerSet = 96, "timer-set", Timer, Instant, "ns", "fiber", "";
    /// A timer rang so many nanoseconds after its deadline.
    TimerFired = 97, "timer-fired", Timer, Instant, "ns late", "fiber", "";

    // -- Gc: 112..
    /// The program stops for the collector: a step, in whole.
    StepBegin = 112, "gc", Gc, Begin, "bytes alive", "", "0: budget, 1: explicit step, 2: full, 3: minor asked for";
    /// It goes on. Bytes alive and mapped now; how much of the time the thread was on a processor, if that was measured.
    StepEnd = 113, "gc-end", Gc, End, "bytes alive", "bytes mapped", "0: not measured, 1 + ten-thousandths";
    /// A minor collection.
    MinorBegin = 114, "minor", Gc, Begin, "", "", "";
    /// Bytes allocated since the last one, bytes kept.
    MinorEnd = 115, "minor-end", Gc, End, "bytes allocated", "bytes promoted", "";
    /// A slice of a major collection marks.
    SliceBegin = 116, "major slice", Gc, Begin, "", "", "";
    /// Bytes marked; whether the major is complete.
    SliceEnd = 117, "major slice-end", Gc, End, "bytes marked", "", "1: complete";
    /// Sweeping after a major collection.
    SweepBegin = 118, "sweep", Gc, Begin, "", "", "";
    /// A portion has been swept.
    SweepEnd = 119, "sweep-end", Gc, End, "", "", "1: complete";
    /// Finalisers run.
    FinalizeBegin = 120, "finalizers", Gc, Begin, "", "", "";
    /// So many have run.
    FinalizeEnd = 121, "finalizers-end", Gc, End, "count", "", "";
    /// Not written any more: `CloseBegin` and `CloseEnd` say it with its duration.
    ScopeEnd = 122, "scope-end", Gc, Instant, "bytes freed", "bytes kept", "";
    /// Open scopes were given up by a collection.
    ScopeDissolved = 123, "scope-dissolved", Gc, Instant, "count", "", "";
    /// An island was made.
    IslandMade = 124, "island-made", Gc, Instant, "bytes", "number", "";
    /// An island was freed.
    IslandFreed = 125, "island-freed", Gc, Instant, "bytes", "number", "";
    /// A major collection was started: bytes alive then.
    MajorBegin = 126, "major-begin", Gc, Instant, "bytes alive", "", "";
    /// Memory was given back to the system.
    Trimmed = 127, "trimmed", Gc, Instant, "bytes", "", "";
    /// A scope (arena) that has allocated something ends: what is let out of it is looked for.
    CloseBegin = 128, "scope-close", Gc, Begin, "", "", "";
    /// Bytes freed at once, bytes kept.
    CloseEnd = 129, "scope-close-end", Gc, End, "bytes freed", "bytes kept", "";
    /// Where the program was when the step that has just ended stopped it for so long; only of long ones.
    PauseAt = 130, "pause-at", Gc, Instant, "stack", "ns", "";
    /// Cycles of counted things are looked for, in the whole process.
    CycleBegin = 131, "cycles", Gc, Begin, "", "", "";
    /// So many were emptied, so many looked at.
    CycleEnd = 132, "cycles-end", Gc, End, "count", "count", "";

    // -- Heap: 144..
    /// Bytes that the program holds in this domain.
    HeapLive = 144, "heap", Heap, Counter, "bytes", "bytes mapped", "";
    /// The nursery has got another size.
    Nursery = 145, "nursery", Heap, Counter, "bytes", "", "";
    /// An allocation was refused: the limit or the system.
    MemoryRefused = 146, "memory-refused", Heap, Instant, "bytes wanted", "bytes alive", "";

    // -- Contention: 160..
    /// Operations on a shared object had to wait for other processors so long in all, counted by this domain since the last such event.
    Contended = 160, "contended", Contention, Instant, "object", "ns", "count";

    // -- Block: 176..
    /// The running code is in a call that may sleep in the kernel. `b`: a stack.
    BlockBegin = 176, "blocking", Block, Begin, "name", "stack", "";
    /// It has returned.
    BlockEnd = 177, "blocking-end", Block, End, "name", "", "";

    // -- Coroutine: 192..
    /// A coroutine is resumed.
    Resume = 192, "resume", Coroutine, Instant, "coroutine", "", "";
    /// The running coroutine yields or ends.
    Yield = 193, "yield", Coroutine, Instant, "coroutine", "", "1: ended";

    // -- Module: 208..
    /// A chunk is compiled or a module loaded.
    LoadBegin = 208, "load", Module, Begin, "name", "bytes", "1: require";
    /// It is there.
    LoadEnd = 209, "load-end", Module, End, "name", "", "1: failed";

    // -- User: 224..
    /// `pl.trace.mark`
    Mark = 224, "mark", User, Instant, "name", "", "";
    /// `pl.trace.span` begins: `b` tells spans of one name apart.
    SpanBegin = 225, "span", User, Begin, "name", "count", "";
    /// It ends.
    SpanEnd = 226, "span-end", User, End, "name", "count", "";
    /// `pl.trace.counter`
    Counter = 227, "counter", User, Counter, "name", "bits", "";
    /// `pl.trace.log`: the text follows in `More` events; `a` is its length in bytes.
    Log = 228, "log", User, Instant, "bytes", "", "";
    /// An error left the program, a task, or a domain; its message follows.
    Error = 229, "error", User, Instant, "bytes", "object", "";
    /// 18 bytes of the text that the last event of this ring has begun: in `a`, `b`, `c`, low bytes first.
    More = 230, "more", User, More, "", "", "";

    // -- Samples: 240..
    /// This much processor time was used by `a` since the last sample of this thread.
    CpuSample = 240, "cpu-sample", Cpu, Instant, "stack", "ns", "0: Lua, 1: native, 2: collector";
    /// A sampled allocation: it stands for `b` bytes. `c` the kind of object.
    AllocSample = 241, "alloc-sample", Alloc, Instant, "stack", "bytes", "kind";
    /// What became of sampled allocations of `a` that stood for `b` bytes: `c` 0: died young, 1: survived a minor, 2: died old.
    AllocFate = 242, "alloc-fate", Alloc, Instant, "stack", "bytes", "fate";

    // -- Sched: 4096.. by tools
    /// A thread runs on a processor.
    CpuBegin = 4096, "on-cpu", Sched, Begin, "tid", "cpu", "";
    /// It does not: it sleeps, or was displaced by a process (its number in the high half of `b`, its name in the low one; 0: not known).
    CpuEnd = 4097, "on-cpu-end", Sched, End, "tid", "process", "0: sleeps, 1: displaced";
    /// Another process runs on the processor (number 0: nobody).
    CpuOther = 4098, "cpu-other", Sched, Instant, "cpu", "process", "";
    /// Since the last such event the thread has run for `a`, and was ready to run, without running, for `b`.
    SchedStat = 4099, "sched-stat", Sched, Instant, "ns", "ns", "";
}

/// A fiber of a domain in one word: domain (24 bits), generation (16), index (24). The root chain of a domain has the index [`FiberRef::ROOT`].
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
}

impl ObjectKind {
    /// Its name, for people.
    pub fn name(self) -> &'static str {
        [
            "", "channel", "task", "domain", "loop", "pool", "atomic", "map", "array", "timer", "several",
            "lock", "file", "lane",
        ][self as usize]
    }
    const fn from_number(n: u8) -> ObjectKind {
        use ObjectKind::*;
        const ALL: [ObjectKind; 14] =
            [None, Channel, Task, Domain, Loop, Pool, Atomic, Map, Array, Timer, Several, Lock, File, Lane];
        if (n as usize) < ALL.len() { ALL[n as usize] } else { None }
    }
}

/// A shared object in one word: kind (8 bits) and a number that is unique within the kind for the life of the process (56).
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

/// Why a wait ended (`c` of [`Kind::WaitEnd`] and [`Kind::Wake`]).
pub const REASONS: [&str; 6] = ["ready", "closed", "timeout", "cancelled", "deadlock", "other"];

/// What a wait does (`c` of [`Kind::WaitBegin`]).
pub const VERBS: [&str; 8] =
    ["waits for", "receives from", "sends to", "joins", "awaits", "sleeps", "selects from", "closes"];

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
    fn references_hold_their_parts() {
        let f = FiberRef::new(70_000, 65_535, 12_345);
        assert_eq!((f.domain(), f.generation(), f.index()), (70_000, 65_535, 12_345));
        let o = ObjectRef::new(ObjectKind::Lane, 1 << 50);
        assert_eq!((o.kind(), o.number()), (ObjectKind::Lane, 1 << 50));
    }

    #[test]
    fn lists_of_categories() {
        assert_eq!(parse_categories("gc, user"), Ok(Category::Gc as u32 | Category::User as u32));
        assert_eq!(parse_categories("-gc"), Ok(DEFAULT_CATEGORIES & !(Category::Gc as u32)));
        assert_eq!(parse_categories("all,-cpu").map(|m| m & Category::Cpu as u32), Ok(0));
        assert_eq!(parse_categories("gx"), Err("gx".into()));
    }
}
