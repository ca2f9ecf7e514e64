//! What is drawn: rows of bars, moments and curves, ordered by domain.
//!
//! A [`Timeline`] is a trace turned by a quarter: not what happened one after the other, but for each domain,
//! fiber and thread what it was at from when to when. The page, the picture and the exporters all work on it;
//! `timeline.rs` makes it from a [`crate::Trace`].
//!
//! # Bars
//! A row has levels; the bars of a level are in order of time and do not overlap. In a fiber's row level 0
//! says what the fiber was at (running, waiting, ...), and the levels above hold what it was doing for the
//! program's author: spans, loops, coroutines. Those go on while the fiber waits, so they do not nest with
//! level 0.
//!
//! # Sums
//! Every [`BLOCK`] bars a level keeps the time spent in each class up to there. So the time by class between
//! any two moments costs two binary searches and at most two short walks, whatever lies between; that is what
//! makes a trace of millions of events one that can be looked at (`tiles.rs`).

/// What somebody is at. The number is also the page's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// Executes the program.
    Run = 0,
    /// Could run: it has been woken, but somebody else's turn it is.
    Ready = 1,
    /// Waits for an object.
    Wait = 2,
    /// In a call that may sleep in the kernel.
    Block = 3,
    /// A minor collection.
    Minor = 4,
    /// A slice of a major collection.
    Major = 5,
    /// Sweeping, and what the end of a scope costs.
    Sweep = 6,
    /// Finalisers.
    Final = 7,
    /// Stopped for the collector: the step as a whole, or what of it is none of the above.
    Gc = 8,
    /// A thread owns the domain; in a domain's row: and looks for something to run.
    Own = 9,
    /// A span of the program.
    Span = 10,
    /// A parallel loop, or a part of one.
    Part = 11,
    /// A chunk is loaded.
    Load = 12,
    /// In a coroutine.
    Coroutine = 13,
    /// The kernel has the thread on a processor.
    OnCpu = 14,
    /// The thread could run, but the kernel has others on the processors.
    Displaced = 15,
}

/// How many classes there are.
pub const CLASSES: usize = 16;

impl Class {
    /// All, by number.
    pub const ALL: [Class; CLASSES] = {
        use Class::*;
        [
            Run, Ready, Wait, Block, Minor, Major, Sweep, Final, Gc, Own, Span, Part, Load, Coroutine, OnCpu,
            Displaced,
        ]
    };

    /// What it is called in legends and exports.
    pub fn name(self) -> &'static str {
        [
            "running",
            "ready",
            "waiting",
            "blocked",
            "minor",
            "major slice",
            "sweep",
            "finalizers",
            "collection",
            "owned",
            "span",
            "loop",
            "load",
            "coroutine",
            "on a processor",
            "displaced",
        ][self as usize]
    }
}

/// Bars between two sums.
pub const BLOCK: usize = 64;

/// A number of a string in [`Timeline::names`], and whether the object's number belongs to the label.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Label(pub u32);

impl Label {
    /// With the object's number behind the name: `awaits task` 7.
    pub fn numbered(name: u32) -> Label {
        Label(name << 1 | 1)
    }
    /// The name alone.
    pub fn plain(name: u32) -> Label {
        Label(name << 1)
    }
    /// The string's number.
    pub fn name(self) -> u32 {
        self.0 >> 1
    }
    /// Is the object's number part of it?
    pub fn is_numbered(self) -> bool {
        self.0 & 1 != 0
    }
}

/// An object in few bits: its number times 16, and its kind.
pub fn compact(object: perilune_trace::ObjectRef) -> u64 {
    object.number() << 4 | object.kind() as u64
}

/// What [`compact`] has made of an object.
pub fn expand(x: u64) -> perilune_trace::ObjectRef {
    perilune_trace::ObjectRef(x >> 4 | (x & 15) << 56)
}

/// A bar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bar {
    /// Nanoseconds since the session began.
    pub start: u64,
    /// The end, likewise.
    pub end: u64,
    /// By class. [`Class::Run`], [`Class::Wait`], [`Class::Part`]: an object ([`compact`]); collections: the
    /// first argument of the event at their end; [`Class::Own`]: the thread; [`Class::Load`]: bytes;
    /// [`Class::Coroutine`]: its number.
    pub x: u64,
    /// Collections: the second argument; [`Class::Gc`]: 1 + ten-thousandths of the time that the thread was
    /// on a processor, 0: not measured. [`Class::Part`]: iterations. [`Class::Wait`]: 1 + why it
    /// ended. [`Class::Run`]: 1 + why the fiber was parked.
    pub y: u64,
    /// What is written on it.
    pub label: Label,
    /// Where: a call path, or 0.
    pub stack: u32,
    /// What it shows.
    pub class: Class,
}

/// Sums before a block of bars.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Block {
    /// Nanoseconds by class in all bars before the block.
    pub before: [u64; CLASSES],
    /// The longest bar of the block.
    pub longest: u64,
}

/// Bars that do not overlap, in order.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// The bars.
    pub bars: Vec<Bar>,
    /// One for every [`BLOCK`] bars, and one behind the last.
    pub blocks: Vec<Block>,
}

impl Level {
    /// The bars are complete: adds them up.
    pub(crate) fn finish(&mut self) {
        let mut before = [0; CLASSES];
        self.blocks.clear();
        for bars in self.bars.chunks(BLOCK) {
            let longest = bars.iter().map(|b| b.end - b.start).max().unwrap_or(0);
            self.blocks.push(Block { before, longest });
            for bar in bars {
                before[bar.class as usize] += bar.end - bar.start;
            }
        }
        self.blocks.push(Block { before, longest: 0 });
    }

    /// Time by class before the bar of this index.
    pub fn sums_before(&self, index: usize) -> [u64; CLASSES] {
        let Some(block) = self.blocks.get(index / BLOCK) else { return [0; CLASSES] };
        let mut sums = block.before;
        for bar in &self.bars[index / BLOCK * BLOCK..index] {
            sums[bar.class as usize] += bar.end - bar.start;
        }
        sums
    }

    /// Time by class before a moment.
    pub fn sums_until(&self, ns: u64) -> [u64; CLASSES] {
        let index = self.bars.partition_point(|b| b.end <= ns);
        let mut sums = self.sums_before(index);
        if let Some(bar) = self.bars.get(index)
            && bar.start < ns
        {
            sums[bar.class as usize] += ns - bar.start;
        }
        sums
    }

    /// Time by class between two moments: exact.
    pub fn sums(&self, from: u64, to: u64) -> [u64; CLASSES] {
        let (a, mut b) = (self.sums_until(from), self.sums_until(to));
        for (b, a) in b.iter_mut().zip(a) {
            *b = b.saturating_sub(a);
        }
        b
    }

    /// The bars that have something between two moments.
    pub fn between(&self, from: u64, to: u64) -> &[Bar] {
        let a = self.bars.partition_point(|b| b.end <= from && b.start < from);
        let b = self.bars.partition_point(|b| b.start < to);
        &self.bars[a.min(b)..b]
    }
}

/// Something without duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// When.
    pub ns: u64,
    /// What happened.
    pub kind: perilune_trace::Kind,
    /// What is written at it.
    pub label: Label,
    /// Where: a call path, or 0.
    pub stack: u32,
    /// A number that belongs to it: an object ([`compact`]), bytes, nanoseconds.
    pub x: u64,
}

/// What a row is about. The order is that of rows in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum RowKind {
    /// What the domain as a whole is at.
    Activity,
    /// Collections.
    Collector,
    /// Which thread owns the domain.
    Owner,
    /// In the kernel's eyes: when the thread that owns the domain ran, and who displaced it.
    Kernel,
    /// The code that is in no fiber.
    Root,
    /// A place for fibers; one at a time uses it.
    Fiber,
    /// A thread outside of all domains.
    Thread,
    /// Samples of the processor's time.
    Samples,
    /// A processor: who ran there.
    Processor,
    /// A curve.
    Counter,
}

impl RowKind {
    /// What the page calls it.
    pub fn name(self) -> &'static str {
        [
            "activity",
            "collector",
            "owner",
            "kernel",
            "root",
            "fiber",
            "thread",
            "samples",
            "processor",
            "counter",
        ][self as usize]
    }
}

/// What a curve's values are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unit {
    /// Whatever the program counts.
    #[default]
    None,
    /// Bytes.
    Bytes,
}

/// A row.
#[derive(Clone, Debug)]
pub struct Row {
    /// What it is about.
    pub kind: RowKind,
    /// Index in [`Timeline::groups`].
    pub group: u32,
    /// A domain's fiber, a thread, or the order among curves.
    pub number: u64,
    /// Its name.
    pub name: String,
    /// Bars.
    pub levels: Vec<Level>,
    /// Moments, in order.
    pub moments: Vec<Moment>,
    /// A curve: moments and values, which hold until the next.
    pub points: Vec<(u64, f64)>,
    /// What the values are.
    pub unit: Unit,
}

/// What a group of rows is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum GroupKind {
    /// A domain.
    Domain(u32),
    /// Processors of the machine.
    Processors,
    /// Threads outside of domains.
    Threads,
}

/// A group of rows.
#[derive(Clone, Debug)]
pub struct Group {
    /// What it is.
    pub kind: GroupKind,
    /// Its name.
    pub name: String,
}

/// How one row acts on another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum LinkKind {
    /// Ends its wait.
    Wake = 0,
    /// Makes a task that begins there.
    Create = 1,
}

/// One row's effect on another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// When it was caused.
    pub from_ns: u64,
    /// When it took effect.
    pub to_ns: u64,
    /// Index of the row that causes.
    pub from_row: u32,
    /// Index of the row that is affected.
    pub to_row: u32,
    /// The object ([`compact`]) by which.
    pub x: u64,
    /// How.
    pub kind: LinkKind,
}

/// A trace as rows.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// What was traced.
    pub title: String,
    /// The process.
    pub pid: u32,
    /// Nanoseconds from the beginning to the end.
    pub end_ns: u64,
    /// Nanoseconds since 1970 at the beginning.
    pub start_real_ns: u64,
    /// `CLOCK_MONOTONIC` at the beginning.
    pub start_mono_ns: u64,
    /// Events that this was made of.
    pub events: u64,
    /// Events that were overwritten before they were read.
    pub lost: u64,
    /// Groups, in the order in which they are shown.
    pub groups: Vec<Group>,
    /// Rows, ordered by group and kind.
    pub rows: Vec<Row>,
    /// Strings that labels refer to; 0 is the empty one.
    pub names: Vec<String>,
    /// Links by the time of their effect.
    pub links: Vec<Link>,
    /// Names and call paths.
    pub definitions: crate::Definitions,
}

impl Timeline {
    /// A label in words. `x` is the bar's or the moment's.
    pub fn text(&self, label: Label, x: u64) -> String {
        let name = self.names.get(label.name() as usize).map_or("", String::as_str);
        if label.is_numbered() { format!("{name} {}", x >> 4) } else { name.to_owned() }
    }

    /// A compact object in words.
    pub fn object(&self, x: u64) -> String {
        self.definitions.object(expand(x))
    }

    /// Bars of all rows.
    pub fn bars(&self) -> usize {
        self.rows.iter().flat_map(|r| &r.levels).map(|l| l.bars.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(start: u64, end: u64, class: Class) -> Bar {
        Bar { start, end, x: 0, y: 0, label: Label::default(), stack: 0, class }
    }

    #[test]
    fn sums_of_any_stretch_are_those_of_its_bars() {
        let mut level = Level::default();
        let (mut at, mut seed) = (0, 1u64);
        for _ in 0..1000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let (gap, length) = (seed >> 60, (seed >> 50) & 31);
            level.bars.push(bar(at + gap, at + gap + length, Class::ALL[(seed >> 40) as usize % CLASSES]));
            at += gap + length;
        }
        level.finish();
        for (from, to) in [(0, at), (0, 0), (100, 101), (777, 9000), (at - 1, at + 10), (5, 6000)] {
            let mut want = [0; CLASSES];
            for b in &level.bars {
                want[b.class as usize] += b.end.min(to).saturating_sub(b.start.max(from));
            }
            assert_eq!(level.sums(from, to), want, "{from}..{to}");
        }
    }
}
