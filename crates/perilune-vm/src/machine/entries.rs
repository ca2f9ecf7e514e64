//! Whether it is worth while to enter machine code where it is entered.
//!
//! Code that is not is *shut*: the interpreter does not enter it any more, and machine code does. That of a
//! function is called by machine code as before. That of the loops of a coroutine goes on where the coroutine
//! has yielded, if machine code resumes it: there it costs little, and it is what makes the resumer's code
//! worth while. Loops that nobody resumes are given up.
//!
//! Rejected: all code of loops given up, as code that nobody enters. In a chain of generators each is entered
//! for next to nothing as long as the next one is interpreted. So those that were compiled first were given
//! up before the last one was compiled, and made anew when the others had gone: some runs stayed interpreted.

use super::{EXITED, MachineCode, REFUSED};
use crate::Vm;
use crate::object::ProtoInst;
use perilune_trace::clock::{Clock, clock};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One entry of so many is timed: a prime, since every 64th call of a function that calls itself twice is one
/// at the bottom.
const TIMED: u32 = 61;
/// After so many timed ones code is judged by them.
const JUDGED: u32 = 32;
/// An entry that takes less, in nanoseconds, is not worth it: what it does takes the interpreter as long.
/// (Two ticks of a processor's counter are taken for a nanosecond.)
const SHORT: u64 = 80;
/// If entries are this far from each other, in nanoseconds, they cost next to nothing however short they are.
const RARE: u64 = 1000;
/// The ticks until entries are timed again are doubled so often at most.
const MOST_DOUBLED: u32 = 10;

/// How machine code is entered by the interpreter. Entering and leaving cost about as much as ten
/// instructions, so code that is entered for a few at a time makes a program slower than it was: loops are
/// given up, functions left to machine code that calls them. That is asked again, since what calls them may
/// be another by then, or exits that made entries short be gone: when there is new machine code, and when
/// ticks find the function interpreted ([`Entries::are_asked_again`]), after twice as many each time. Domains
/// that count at once may lose an entry.
#[derive(Default)]
pub(super) struct Entries {
    all: AtomicU32,
    timed: AtomicU32,
    short: AtomicU32,
    /// When the first of those that were timed began, in ticks.
    since: AtomicU64,
    /// So many ticks have found the function since entries were judged to be short,
    found: AtomicU32,
    /// and so often that has been asked again.
    again: AtomicU32,
}

impl Entries {
    /// Counts one: whether it is to be timed.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        let all = self.all.load(Ordering::Relaxed).wrapping_add(1);
        self.all.store(all, Ordering::Relaxed);
        all.is_multiple_of(TIMED)
    }

    /// One has taken from `begun` to `ended`, and ended like this. Those that an exit has cut short say
    /// nothing: exits are counted elsewhere (`patience.rs`).
    pub(super) fn timed(&self, exit: u64, begun: u64, ended: u64) {
        if matches!(exit, EXITED | REFUSED) {
            return;
        }
        let ticks = if clock() == Clock::Counter { 2 } else { 1 };
        let timed = self.timed.fetch_add(1, Ordering::Relaxed);
        let short = ended.wrapping_sub(begun) < ticks * SHORT;
        self.short.fetch_add(short as u32, Ordering::Relaxed);
        if timed == 0 {
            self.since.store(begun, Ordering::Relaxed);
        }
        let since = ended.wrapping_sub(self.since.load(Ordering::Relaxed));
        if timed + 1 == JUDGED && since > ticks * RARE * (TIMED * JUDGED) as u64 {
            // They do not matter: most of the time goes by elsewhere, perhaps in this same code.
            self.short.store(0, Ordering::Relaxed);
            self.timed.store(0, Ordering::Relaxed);
        }
    }

    /// Enough have been timed, and most of them were over at once.
    pub(super) fn are_short(&self) -> bool {
        let [timed, short] = [&self.timed, &self.short].map(|count| count.load(Ordering::Relaxed));
        timed >= JUDGED && short > timed / 4 * 3
    }

    /// A tick has found the function whose entries are short: whether they are to be timed again.
    fn are_asked_again(&self) -> bool {
        let again = self.again.load(Ordering::Relaxed);
        let due = self.found.fetch_add(1, Ordering::Relaxed) + 1 >= 1 << again.min(MOST_DOUBLED);
        if due {
            self.again.store(again.saturating_add(1), Ordering::Relaxed);
            self.begin_anew();
        }
        due
    }

    /// Nothing is known of entries from now on.
    pub(super) fn begin_anew(&self) {
        [&self.found, &self.timed, &self.short].iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }
}

impl Vm {
    /// A tick has found `inst` running. Where its machine code is not entered any more, as it was left at
    /// once, that may be tried again.
    ///
    /// # Safety
    /// The instance lives.
    pub(super) unsafe fn look_at_entries(&mut self, inst: *mut ProtoInst) {
        // SAFETY: the caller's promise; an instance has a count of its machine code.
        unsafe {
            let Some(code) = (*inst).machine.as_ref() else { return };
            if code.behind.are_short() {
                code.behind.are_asked_again();
            }
            if is_shut(inst, code) && (!code.entered.are_short() || code.entered.are_asked_again()) {
                open(inst, code);
            }
        }
    }

    /// There is new machine code: what is entered for next to nothing so far may not be from now on.
    pub(super) fn open_entries(&mut self) {
        for &inst in &self.lua.gc.protos {
            // SAFETY: the list has instances that live, and these have counts of their machine code.
            unsafe {
                let Some(code) = (*inst).machine.as_ref() else { continue };
                if code.behind.are_short() {
                    code.behind.begin_anew();
                }
                if is_shut(inst, code) {
                    code.entered.begin_anew();
                    open(inst, code);
                }
            }
        }
    }

    /// The entries of this code are short. Whether it is shut: else it is of no use to anybody.
    ///
    /// # Safety
    /// The instance lives, and has this code.
    pub(super) unsafe fn shut(&self, inst: *mut ProtoInst, code: &MachineCode) -> bool {
        // SAFETY: the caller's promise; there is always a running thread.
        unsafe {
            if code.starts {
                (*inst).code = (*(*inst).proto).code.as_ptr();
                return true;
            }
            let is_resumed = !(*self.lua.thread).resumer.is_null();
            let shut = is_resumed && code.goes_on_behind_calls();
            code.shut.store(shut, Ordering::Relaxed);
            shut
        }
    }
}

impl MachineCode {
    /// Whether it is code of loops that only machine code enters.
    #[inline(always)]
    pub(super) fn is_shut(&self) -> bool {
        self.shut.load(Ordering::Relaxed)
    }
}

/// Whether the function's machine code is entered by machine code alone.
///
/// # Safety
/// The instance lives, with this machine code.
unsafe fn is_shut(inst: *mut ProtoInst, code: &MachineCode) -> bool {
    match code.starts {
        // SAFETY: the caller's promise.
        true => unsafe { (*inst).code != code.stub.as_ptr() },
        false => code.is_shut(),
    }
}

/// The interpreter enters it again.
///
/// # Safety
/// As [`is_shut`].
unsafe fn open(inst: *mut ProtoInst, code: &MachineCode) {
    match code.starts {
        // SAFETY: the caller's promise.
        true => unsafe { (*inst).code = code.stub.as_ptr() },
        false => code.shut.store(false, Ordering::Relaxed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::LEAVE;

    /// Entries of which so many have been timed, each of them short, that ended like this.
    fn short(ended: u64, times: u32) -> Entries {
        let entries = Entries::default();
        (0..times).for_each(|n| entries.timed(ended, n as u64, n as u64 + 1));
        entries
    }

    #[test]
    fn short_entries_are_told() {
        assert!(!short(LEAVE, JUDGED - 1).are_short());
        assert!(short(LEAVE, JUDGED).are_short());
    }

    #[test]
    fn entries_that_exits_have_ended_say_nothing() {
        assert!(!short(EXITED, 10 * JUDGED).are_short());
        assert!(!short(REFUSED, 10 * JUDGED).are_short());
    }

    #[test]
    fn a_call_in_each_power_of_two_is_not_the_one_that_is_timed() {
        let entries = Entries::default();
        let timed = (1..=64 * 61u32).filter(|_| entries.is_due()).count();
        assert_eq!(timed, 64);
        assert!((1..10).all(|n| !(1u32 << n).is_multiple_of(TIMED)));
    }

    #[test]
    fn each_time_it_takes_twice_as_many_ticks_until_it_is_asked_again() {
        let entries = short(LEAVE, JUDGED);
        let asked: Vec<u32> = (1..=31).filter(|_| entries.are_asked_again()).collect();
        assert_eq!(asked, [1, 3, 7, 15, 31]);
        assert!(!entries.are_short(), "nothing is known any more");
    }
}
