//! What making machine code may cost a program.
//!
//! # Investments
//! Nobody knows how long a program goes on. The best guess is that it does so for as long as it has run ([`Budget::expected`]): the programs of which this is false for the moment at which they are asked
//! are as many as those of which it is true. So what machine code is expected to save in that time has to be [`MARGIN`] times what it costs to make it: a program that ends at once has then lost a small part of what it has run for,
//! and the longer it runs the smaller the gains that are worth something.
//!
//! # The quota
//! However much would be gained, compiling takes at most [`PART`] of the processor time that the program takes, and what has been saved up for it is at most [`SAVED`]. What is spent beyond that is a debt, and nothing is compiled
//! until it is paid; so one function can take more at once, and no more than [`LARGEST`] instructions are a function that is compiled.
//!
//! All times are processor time: a machine on which others run too makes nothing dearer.
//!
//! Rejected: thresholds of rounds and calls alone. They ask how hot a function is, not what is gained by compiling it, nor what has been spent.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is expected to be gained is to be so many times the cost.
const MARGIN: f64 = 5.0;
/// One part of so many of the program's time may be spent.
const PART: i64 = 16;
/// What may have been saved up, in nanoseconds.
const SAVED: i64 = 25_000_000;
/// Functions with more instructions are not compiled.
pub const LARGEST: usize = 800;
/// What an instruction of the interpreter takes, in nanoseconds.
const INSTRUCTION: f64 = 3.0;
/// What it takes to record one.
const RECORDING: f64 = 11.0;

/// Nanoseconds of processor time that this thread has taken.
fn of_thread() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is there. Where there is no such clock it stays 0, and nothing is ever worth compiling.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How much time goes by on this thread.
#[derive(Clone, Copy)]
pub struct Stopwatch(u64);

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch(of_thread())
    }

    pub fn nanos(self) -> u64 {
        of_thread().saturating_sub(self.0)
    }
}

/// What the compiling thread may spend. It belongs to that thread.
pub struct Budget {
    /// What the program has taken, without the compiling thread, when it was last asked.
    program: u64,
    /// What may be spent; below 0: a debt.
    allowance: i64,
    /// What this thread had taken by then.
    own: u64,
}

impl Budget {
    /// Nothing has been spent yet.
    pub fn new() -> Budget {
        Budget { program: 0, allowance: SAVED, own: 0 }
    }

    /// What the program has taken by now, in nanoseconds, without this thread.
    pub fn program(&mut self) -> u64 {
        let own = of_thread();
        let program = clock(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(own);
        let earned = program.saturating_sub(self.program) as i64 / PART;
        let spent = own.saturating_sub(self.own) as i64;
        self.allowance = (self.allowance + earned - spent).min(SAVED);
        (self.program, self.own) = (program.max(self.program), own);
        self.program
    }

    /// For how long the program is expected to go on.
    fn expected(&self) -> u64 {
        self.program
    }

    /// Nothing more is to be spent for now.
    pub fn is_spent(&mut self) -> bool {
        self.program();
        self.allowance <= 0
    }

    /// What is worth this much of a recording's instructions, done by the interpreter, is worth so many nanoseconds until the program ends.
    pub fn worth(&self, instructions: f64, recording: Window) -> f64 {
        instructions * INSTRUCTION / recording.nanos() * self.expected() as f64
    }

    /// Whether to spend so many nanoseconds for that.
    pub fn invests(worth: f64, cost: f64) -> bool {
        worth >= cost * MARGIN
    }
}

/// How long a recording has taken.
#[derive(Clone, Copy)]
pub struct Window {
    /// Processor time of the thread, recording included.
    pub nanos: u64,
    /// Instructions that have been recorded.
    pub instructions: u64,
}

impl Window {
    /// What the program would have taken without being recorded: library functions included.
    fn nanos(self) -> f64 {
        let least = self.instructions as f64 * INSTRUCTION;
        (self.nanos as f64 - self.instructions as f64 * RECORDING).max(least).max(1.0)
    }
}

/// What it costs to compile an instruction, learnt from those that have been.
pub struct Price {
    /// Nanoseconds for an instruction.
    each: AtomicU64,
}

impl Default for Price {
    fn default() -> Price {
        Price { each: AtomicU64::new(60_000) }
    }
}

impl Price {
    /// What so many instructions cost, in nanoseconds; four times as much each time that it is done again: what did not last is less likely to.
    pub fn of(&self, instructions: usize, before: u32) -> f64 {
        (instructions as f64 + 4.0)
            * self.each.load(Ordering::Relaxed) as f64
            * f64::exp2(2.0 * before.min(15) as f64)
    }

    /// So many have cost this.
    pub fn learn(&self, instructions: usize, nanos: u64) {
        let each = nanos / (instructions as u64 + 4);
        let known = self.each.load(Ordering::Relaxed);
        self.each.store((known * 3 + each) / 4, Ordering::Relaxed);
    }
}
