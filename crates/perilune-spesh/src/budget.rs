//! What making machine code may cost a program.
//!
//! # Investments
//! Nobody knows how long a program goes on. The best guess is that it does so for as long as it has run
//! ([`Budget::expected`]): the programs of which this is false for the moment at which they are asked are as
//! many as those of which it is true. So what machine code is expected to save in that time has to be
//! [`MARGIN`] times what it costs to make it: the longer a program runs, the smaller the gains that are worth
//! something. With 1, programs of half a second lose more by waiting than others save, and so they do where
//! what gains little has to gain more.
//!
//! But many programs have no hot spot: their time is in dozens of functions, each a hundredth of it, and code of
//! them saves about as much as it costs until the program has run for a tenth of a second, if it does. Those that
//! ended before paid a sixth of their time for nothing. So the first [`FREE`] are spent by
//! that margin: a small program has its one or two hot loops compiled by that, which is worth it nearly always, and
//! functions that gain together are compiled together. What is spent beyond has to be *earned*: each nanosecond that
//! goes by in machine code is taken to have saved [`EARNS`]. What has been spent and not been earned yet, as a part of
//! the program's time, raises the margin, by [`RISES`] times that, up to [`MOST_MARGIN`]. So code that runs pays for
//! more, and who gets little of it is made to wait until the program is old enough to bear it. And what is saved
//! while a numeric loop goes on that knows how many rounds it has left ([`Window::ahead`],
//! `perilune_vm::machine`, `rounds.rs`) is hardly a guess: [`MARGIN_OF_LOOPS`].
//!
//! A recording shows what the interpreter does. Once most of the time goes by in machine code, that is a
//! small part of the program, whatever its parts are to each other. So what is saved is a part of the
//! interpreter's time only, of which the last ticks tell how much there is ([`Window::interpreted`]). Without
//! that, `programs/compiler` spent 50 ms on its parser, 5% of it, in one run of four.
//!
//! # The quota
//! However much would be gained, compiling takes at most [`FIRST`] to begin with, one part in [`EARLY_PART`]
//! of the processor time that the program takes until that is [`EARLY`] more, then one part in [`PART`]; and
//! what has been saved up for it is at most [`SAVED`]. A program of a few thousand lines has all of its hot
//! functions compiled after a fifth of a second; where they have to wait, those that are compiled go on
//! leaving machine code for those that are not. What is spent beyond that is a debt, and nothing is recorded,
//! nor compiled, until it is paid; so one function can take more at once, and of a function that is compiled
//! no more than [`LARGEST`] instructions have run: what has not is an exit at most. Several at once are to
//! leave half of what there is, for what turns out to be wrong; but what is worth [`CERTAIN`] times its price
//! may be a debt, of [`DEBT`] at most: else a group of functions that gain nothing one by one waits for a sum
//! that never comes together, since looking at it again and again takes what comes in.
//!
//! That is enough for programs whose time goes by in a few dozen functions. A compiler or a linter has some
//! hundred, each a hundredth of its time: it had spent all of that after a third of a second, and was
//! interpreted for most of its time from then on, however long it ran. So there is a *reserve*, of one part in
//! [`RESERVE_PART`] of the program's time, for what is worth [`DEAR`] times its cost when nothing else is left.
//! Whatever may be spent by all of that, in no second of the process's time is it more than [`MOST`].
//!
//! Ticks, and adding up what recordings say, are no part of it: a program pays for these as long as it runs,
//! some hundredth of its time.
//!
//! # Appointments
//! What is worth something, but not enough yet, will be if the program goes on: the budget knows when
//! ([`Budget::returns_at`]), and what runs then is recorded once more.
//!
//! All times are processor time: a machine on which others run too makes nothing dearer.
//!
//! Recording once more costs half a millisecond or more, so the program takes at least one part in [`SOONEST`] of what it has taken
//! until then: with 16 a program of a twentieth of a second was recorded each 3 ms, for as long as nothing came of it.
//!
//! Rejected: a margin by the program's age alone (2.5 until 12 ms, falling to 0.35 until 30 ms). It is as large for a
//! program whose first code has doubled its speed as for one that has nothing of it. A smaller sum for the beginning
//! (3 to 15 ms in place of 35): long programs take 1.01 to 1.06 of the time, short ones what they took.
//! Thresholds of rounds and calls alone. They ask how hot a function is, not what is gained by
//! compiling it, nor what has been spent.

use crate::sys::clock;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A function is expected to be used for so many times as long as it has been there.
const LIVES: f64 = 2.0;
/// What is expected to be gained is to be so many times the cost,
const MARGIN: f64 = 0.35;
/// and so many times more for each part of the program's time that has been spent and not been earned,
const RISES: f64 = 15.0;
/// but no more than this.
const MOST_MARGIN: f64 = 2.5;
/// Each nanosecond that goes by in machine code is taken to have saved so many.
const EARNS: f64 = 1.5;
/// A program that has taken so many nanoseconds does more than the last recordings show.
const ADULT: u64 = 100_000_000;
/// Until so much has been spent, in nanoseconds, nothing has to be earned.
const FREE: f64 = 3.0e6;
/// What is saved while loops go on that are under way is to be so many times the cost.
const MARGIN_OF_LOOPS: f64 = 1.3;
/// What may be spent at the beginning, in nanoseconds.
const FIRST: i64 = 35_000_000;
/// So much more,
const EARLY: i64 = 45_000_000;
/// as one part of so many of the program's time;
const EARLY_PART: i64 = 5;
/// and one part of so many from then on.
const PART: i64 = 50;
/// What may have been saved up, in nanoseconds.
const SAVED: i64 = FIRST + EARLY;
/// When that is spent, one part in so many of the program's time is there for
const RESERVE_PART: i64 = 16;
/// what is worth so many times its cost;
const DEAR: f64 = 1.5;
/// as much of it may have been saved up, in nanoseconds.
const MOST_RESERVE: i64 = 40_000_000;
/// In so much of the process's time, in nanoseconds,
const SECOND: u64 = 1_000_000_000;
/// so much is spent at most, but for the last function.
const MOST: i64 = 92_000_000;
/// This part of what may be spent is spent at once, if it is for several functions.
const AT_ONCE: f64 = 0.5;
/// As much more may be spent, in nanoseconds, on what is
const DEBT: f64 = 10.0e6;
/// worth so many times as much.
const CERTAIN: f64 = 8.0;
/// Functions of which more instructions have run are not compiled,
pub const LARGEST: usize = 800;
/// nor those that have more, whether they have run or not.
pub const LONGEST: usize = 10_000;
/// What a draft costs, of what compiling does.
const DRAFT: f64 = 0.35;
/// A draft is made of what is worth so much of what compiling would cost, if all goes as well as can be.
pub const PROMISING: f64 = 0.5;
/// What an instruction of the interpreter takes, in nanoseconds.
const INSTRUCTION: f64 = 3.0;

/// How much time goes by on this thread.
#[derive(Clone, Copy)]
pub struct Stopwatch(u64);

impl Stopwatch {
    pub fn start() -> Stopwatch {
        Stopwatch(clock::of_thread())
    }

    pub fn nanos(self) -> u64 {
        clock::of_thread().saturating_sub(self.0)
    }
}

/// What the compiling thread may spend. It belongs to that thread.
pub struct Budget {
    /// What the program has taken, without the compiling thread, when it was last asked.
    program: u64,
    /// What may be spent; below 0: a debt.
    allowance: i64,
    /// The same of what is worth [`DEAR`] times its cost, once the allowance is spent.
    reserve: i64,
    /// What is left of [`EARLY`].
    early: i64,
    /// What has been spent.
    spent: u64,
    /// What machine code has saved, in nanoseconds, by when the program had taken so much.
    earned: (f64, u64),
    /// The same of the last [`SECOND`]: when, in the process's time, and how much.
    lately: VecDeque<(u64, u64)>,
    /// When the program has taken so much, something may be worth its cost that was not.
    later: Cell<u64>,
}

/// From one recording to the next appointment the program takes at least one part in so many of what it has
/// taken.
const SOONEST: u64 = 8;

impl Budget {
    /// Nothing has been spent yet.
    pub fn new() -> Budget {
        Budget {
            program: 0,
            allowance: FIRST,
            reserve: 0,
            early: EARLY,
            spent: 0,
            earned: (0.0, 0),
            lately: VecDeque::new(),
            later: Cell::new(u64::MAX),
        }
    }

    /// What the process has taken, in nanoseconds: the program and this.
    fn process(&self) -> u64 {
        self.program.saturating_add(self.spent)
    }

    /// What may be spent by now, whatever is there: [`MOST`] of the last [`SECOND`], less what has been.
    fn room(&self) -> i64 {
        let since = self.process().saturating_sub(SECOND);
        let lately = self.lately.iter().filter(|(when, _)| *when >= since);
        MOST.saturating_sub_unsigned(lately.map(|(_, nanos)| nanos).sum())
    }

    /// What the program has taken by now, in nanoseconds, without this thread.
    pub fn program(&mut self) -> u64 {
        let own = clock::of_thread();
        let program = clock::of_process().saturating_sub(own);
        let taken = program.saturating_sub(self.program) as i64;
        let early = (taken / EARLY_PART).min(self.early);
        self.early -= early;
        let earned = early + (taken - early * EARLY_PART) / PART;
        self.allowance = (self.allowance + earned).min(SAVED);
        self.reserve = (self.reserve + taken / RESERVE_PART).min(MOST_RESERVE);
        self.program = program.max(self.program);
        self.program
    }

    /// So many nanoseconds have been spent.
    pub fn spend(&mut self, nanos: u64) {
        self.spent = self.spent.saturating_add(nanos);
        let account = if self.allowance > 0 { &mut self.allowance } else { &mut self.reserve };
        *account = account.saturating_sub_unsigned(nanos);
        let since = self.process().saturating_sub(SECOND);
        self.lately.retain(|(when, _)| *when >= since);
        self.lately.push_back((self.process(), nanos));
    }

    /// Since it was last told, this part of the program's time was the interpreter's.
    pub fn earn(&mut self, interpreted: f64) {
        let (earned, since) = self.earned;
        let compiled = self.program.saturating_sub(since) as f64 * (1.0 - interpreted);
        self.earned = (earned + compiled * EARNS, self.program);
    }

    /// What has been spent and not been earned, if `cost` is spent as well.
    fn unearned(&self, cost: f64) -> f64 {
        (self.spent as f64 + cost - self.earned.0).max(0.0)
    }

    /// How many times its cost something has to be worth that costs so much.
    fn margin(&self, cost: f64) -> f64 {
        (MARGIN + RISES * self.unearned(cost) / (self.program as f64).max(1.0)).min(MOST_MARGIN)
    }

    /// What the program will have taken when what is worth `worth` by now, and costs `cost`, is worth enough: it is
    /// worth more with each nanosecond, and has to be worth less.
    fn enough_at(&self, worth: f64, cost: f64) -> f64 {
        let each = worth / cost / (self.program as f64).max(1.0);
        let falling =
            (MARGIN + (MARGIN * MARGIN + 4.0 * each * RISES * self.unearned(cost)).sqrt()) / (2.0 * each);
        falling.min(MOST_MARGIN / each)
    }

    /// Whether what is compiled now is likely to be all that runs for a while: later a function is called from
    /// more places than the last recordings show.
    pub fn is_young(&self) -> bool {
        self.program < ADULT
    }

    /// For how long the program is expected to go on.
    fn expected(&self) -> u64 {
        self.program
    }

    /// Nothing more is to be spent for now.
    pub fn is_spent(&self) -> bool {
        if self.room() <= 0 {
            self.returns_at(self.program);
            return true;
        }
        let is_spent = self.allowance <= 0 && self.reserve <= 0;
        if is_spent {
            self.returns_at(self.program + self.reserve.unsigned_abs() * RESERVE_PART as u64);
        }
        is_spent
    }

    /// What is worth this much of the average recording's instructions, done by the interpreter, is worth so
    /// many nanoseconds until the program ends.
    pub fn worth(&self, instructions: f64, recording: Window) -> f64 {
        instructions * INSTRUCTION / recording.nanos() * recording.interpreted * self.expected() as f64
    }

    /// Which part of what a function would save until the program ends it does save, if it has been there for
    /// `age` nanoseconds of real time: it is expected to be used for [`LIVES`] times as long again, and the less
    /// sure to be the less that is of the program's time. A template, or whatever else a program loads, runs
    /// and forgets, is over before code of it has come.
    pub fn lasts(&self, age: u64) -> f64 {
        let part = (LIVES * age as f64 / self.expected().max(1) as f64).min(1.0);
        part * part
    }

    /// Whether to spend `cost` nanoseconds to save what is worth `worth`, where loops go on for `ahead`
    /// nanoseconds, or `at_most` if all of it [lasted](Budget::lasts) until the program ends. If not, there is
    /// an appointment.
    pub fn invests(&self, worth: f64, at_most: f64, cost: f64, ahead: f64) -> bool {
        let program = self.program as f64;
        if at_most / program.max(1.0) * ahead >= cost * MARGIN_OF_LOOPS {
            return true;
        }
        let margin = match self.allowance > 0 {
            true if self.spent as f64 + cost <= FREE => MARGIN,
            true => self.margin(cost),
            false => DEAR,
        };
        let enough = worth >= cost * margin;
        if !enough && worth > 0.0 {
            self.returns_at(self.enough_at(worth, cost) as u64);
        }
        enough
    }

    /// Whether so many nanoseconds may be spent at once, on several functions, for what is worth `worth`:
    /// [half](AT_ONCE) of what may be spent, or what is certain to be worth it.
    pub fn affords(&self, cost: f64, worth: f64) -> bool {
        let allowance = self.allowance as f64;
        let is_there = cost <= allowance * AT_ONCE
            || worth >= cost * CERTAIN && cost <= allowance + DEBT
            || worth >= cost * DEAR && cost <= self.reserve as f64 * AT_ONCE;
        let enough = is_there && cost <= self.room() as f64;
        if !enough {
            self.returns_at(self.program);
        }
        enough
    }

    /// When the program has taken so much, what runs is recorded again.
    fn returns_at(&self, program: u64) {
        let soonest = self.program + self.program / SOONEST;
        self.later.set(self.later.get().min(program.max(soonest)));
    }

    /// Whether it is time for an appointment, which is over then.
    pub fn is_due(&self) -> bool {
        let due = self.program >= self.later.get();
        if due {
            self.later.set(u64::MAX);
        }
        due
    }
}

/// How long a recording has taken, on average.
#[derive(Clone, Copy)]
pub struct Window {
    /// Instructions that have been recorded.
    pub instructions: f64,
    /// Which part of the time goes by in these; the rest in library functions and allocations. Above 0.
    pub lua: f64,
    /// Which part of the program's time recordings stand for: the interpreter's.
    pub interpreted: f64,
    /// How long loops go on that are under way, in nanoseconds; 0: nothing is known.
    pub ahead: f64,
}

impl Window {
    /// What the program would have taken without being recorded. (To take what recording costs from what all
    /// has taken does not do: on a busy machine the rest is anything.)
    pub fn nanos(self) -> f64 {
        (self.instructions * INSTRUCTION / self.lua).max(1.0)
    }
}

/// What so many instructions, recorded beside so many nanoseconds of library functions and allocations, are of
/// the time that all of it takes.
pub fn part_of_lua(instructions: f64, library: f64) -> f64 {
    let lua = (instructions * INSTRUCTION).max(1.0);
    lua / (lua + library)
}

/// What it costs to compile, learnt from what has been compiled.
pub struct Price {
    /// Nanoseconds for an instruction of intermediate form.
    each: AtomicU64,
    /// Nothing has been compiled yet.
    guessed: AtomicBool,
}

impl Default for Price {
    fn default() -> Price {
        Price { each: AtomicU64::new(800), guessed: AtomicBool::new(true) }
    }
}

/// So many instructions of intermediate form are expected of one of bytecode.
const EXPANSION: usize = 32;

impl Price {
    /// What so many instructions of intermediate form cost, in nanoseconds; half as much again each time that
    /// it is done again: what did not last is less likely to, but knows what the one before has failed at.
    pub fn of(&self, size: usize, before: u32) -> f64 {
        size as f64 * self.each.load(Ordering::Relaxed) as f64 * (1.0 + before as f64 / 2.0)
    }

    /// The same of so many of bytecode, before anything has been built.
    pub fn of_bytecode(&self, instructions: usize, before: u32) -> f64 {
        self.of(Price::expected_size(instructions), before)
    }

    /// So many instructions of intermediate form are expected of so many of bytecode.
    pub fn expected_size(instructions: usize) -> usize {
        instructions * EXPANSION
    }

    /// The draft of so many has cost this: until something has been compiled that tells how fast the machine
    /// is. Others may run on it, too.
    pub fn learn_from_draft(&self, size: usize, nanos: u64) {
        if self.guessed.load(Ordering::Relaxed) {
            let each = (nanos as f64 / DRAFT / (size as f64).max(1.0)) as u64;
            self.each.store(self.each.load(Ordering::Relaxed).midpoint(each), Ordering::Relaxed);
        }
    }

    /// So many have cost this.
    pub fn learn(&self, size: usize, nanos: u64) {
        self.guessed.store(false, Ordering::Relaxed);
        let each = nanos / (size as u64).max(1);
        let known = self.each.load(Ordering::Relaxed);
        self.each.store((known * 3 + each) / 4, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_just_come_is_not_expected_to_last() {
        let mut budget = Budget::new();
        budget.program = 100_000_000;
        assert_eq!([50_000_000, 100_000_000, u64::MAX].map(|age| budget.lasts(age)), [1.0; 3]);
        assert!((budget.lasts(5_000_000) - 0.01).abs() < 1e-9 && budget.lasts(0) == 0.0);
        // Loops that say how long they go on are asked for that alone.
        budget.spend(FREE as u64);
        assert!(!budget.invests(0.1e6, 10.0e6, 1.0e6, 0.0) && budget.invests(0.1e6, 10.0e6, 1.0e6, 20.0e6));
    }

    #[test]
    fn what_is_certain_to_be_worth_it_may_be_a_debt() {
        let mut budget = Budget::new();
        assert!(budget.affords(17.0e6, 0.0) && !budget.affords(18.0e6, 0.0));
        budget.spend(FIRST as u64 - 1_000_000);
        assert!(!budget.affords(2.0e6, 4.0e6) && budget.affords(2.0e6, 40.0e6));
        assert!(!budget.affords(12.0e6, 1.0e9), "debts have an end");
    }

    #[test]
    fn in_no_second_is_more_spent_than_a_tenth() {
        let mut budget = Budget::new();
        budget.program = 3 * SECOND;
        (budget.allowance, budget.reserve) = (SAVED, MOST_RESERVE);
        budget.spend(70_000_000);
        budget.program += 200_000_000;
        assert!(budget.affords(20.0e6, 1.0e9) && !budget.affords(25.0e6, 1.0e9));
        budget.spend(22_000_000);
        assert_eq!(budget.room(), 0);
        // What was spent first is a second ago by then.
        budget.program += 800_000_000;
        assert_eq!(budget.room(), 70_000_000);
        budget.program += SECOND;
        assert_eq!(budget.room(), MOST);
    }

    #[test]
    fn when_the_allowance_is_spent_there_is_a_reserve_for_what_is_worth_more() {
        let mut budget = Budget::new();
        budget.program = 1_000_000_000;
        assert!(budget.invests(0.5e6, 0.5e6, 1.0e6, 0.0));
        budget.spend(FIRST as u64 + 1_000_000);
        budget.reserve = 10_000_000;
        assert!(!budget.invests(0.5e6, 0.5e6, 1.0e6, 0.0) && budget.invests(1.6e6, 1.6e6, 1.0e6, 0.0));
        assert!(budget.affords(5.0e6, 8.0e6), "half of it at once");
        assert!(!budget.affords(5.1e6, 8.0e6) && !budget.affords(5.0e6, 7.0e6));
        let debt = budget.allowance;
        budget.spend(4_000_000);
        assert_eq!((budget.allowance, budget.reserve), (debt, 6_000_000));
    }

    #[test]
    fn what_is_saved_while_a_loop_goes_on_is_no_guess() {
        let mut budget = Budget::new();
        budget.spend(FREE as u64);
        budget.program = 5_000_000;
        // As much as it costs, if the program goes on for as long as it has: not of a young one.
        assert!(!budget.invests(1.0e6, 1.0e6, 1.0e6, 0.0) && !budget.invests(1.0e6, 1.0e6, 1.0e6, 6.0e6));
        assert!(budget.invests(1.0e6, 1.0e6, 1.0e6, 7.0e6));
        assert!(!budget.invests(0.0, 0.0, 1.0e6, f64::MAX));
    }

    #[test]
    fn what_is_spent_has_to_be_earned() {
        let mut budget = Budget::new();
        budget.program = 10_000_000;
        assert!(budget.invests(1.1e6, 1.1e6, 2.9e6, 0.0), "a small loop is compiled at once");
        assert!(!budget.invests(3.0e6, 3.0e6, 3.1e6, 0.0) && budget.invests(8.0e6, 8.0e6, 3.1e6, 0.0));
        budget.spend(3_000_000);
        assert!(!budget.invests(1.0e6, 1.0e6, 1.0e6, 0.0));
        // With what is asked for a tenth of the time has been spent for nothing, then two hundredths.
        budget.program = 40_000_000;
        assert!(!budget.invests(1.8e6, 1.8e6, 1.0e6, 0.0) && budget.invests(1.9e6, 1.9e6, 1.0e6, 0.0));
        budget.program = 200_000_000;
        assert!(!budget.invests(0.6e6, 0.6e6, 1.0e6, 0.0) && budget.invests(0.7e6, 0.7e6, 1.0e6, 0.0));
        // Half of that time has gone by in machine code.
        budget.earn(0.5);
        assert!(budget.invests(0.36e6, 0.36e6, 1.0e6, 0.0) && !budget.invests(0.3e6, 0.3e6, 1.0e6, 0.0));
        let earned = budget.earned;
        budget.earn(0.0);
        assert_eq!(budget.earned, earned, "no time has gone by since");
    }

    #[test]
    fn appointments_are_made_for_when_it_is_enough() {
        for spent in [0, 1_000_000, 10_000_000] {
            for (program, part) in [(5.0e6, 0.9), (10.0e6, 0.4), (20.0e6, 1.0), (40.0e6, 0.1), (200.0e6, 0.3)]
            {
                let mut budget = Budget::new();
                budget.program = program as u64;
                budget.spend(spent);
                let (worth, cost) = (part * 3.0e6, 3.0e6);
                let is_enough = part >= budget.margin(cost);
                let then = budget.enough_at(worth, cost);
                assert!(is_enough || then >= program);
                budget.program = then as u64;
                let worth = part * then / program;
                assert!((worth - budget.margin(cost)).abs() < 1e-3, "{program} {part}: {worth} at {then}");
            }
        }
    }

    #[test]
    fn drafts_tell_how_fast_the_machine_is_until_something_is_compiled() {
        let (slow, quick) = (Price::default(), Price::default());
        slow.learn_from_draft(1000, 1_000_000);
        assert!(slow.of(100, 0) > 1.5 * quick.of(100, 0));
        quick.learn(1000, 1_400_000);
        let known = quick.of(100, 0);
        quick.learn_from_draft(1000, 1_000_000);
        assert!((quick.of(100, 0) - known).abs() < 1e-9);
    }
}
