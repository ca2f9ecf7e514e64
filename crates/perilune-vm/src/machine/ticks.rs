//! What a domain does when its specializer, on a thread of its own, says that time has passed, or that there
//! is new machine code.
//!
//! A tick that finds a function running that has no machine code, or is interpreted all the same, makes the
//! domain *warm* by one; from [`WARM`] on what runs is recorded. So nothing is counted in between, and a
//! program pays for looking after it with a little at each tick, and with the recordings: after each from
//! which no machine code has come it takes more ticks until the next, unless the specializer has an
//! appointment ([`super::Specializer::is_due`]).
//!
//! Ticks get rarer with the program's time, and rarer still where all that runs is machine code. Then the program
//! begins something else, and would be interpreted for 10 ms or more until a tick finds that. So where a tick has
//! found machine code running, the domain tells when that comes back to the interpreter, and has a tick soon after
//! ([`super::Specializer::resumed`]). Much machine code comes back now and then and is entered again: each of these
//! ticks that was for nothing doubles how many others come before the next of them, up to [`MOST_RESTS`] times.
//!
//! What is interpreted although it has machine code is so for a callee's sake, as often as not: calls of what
//! has none leave machine code, and a function without loops and calls polls nowhere, so no tick ever finds
//! it. A recording does. (The code of such a function had been given up, for exits, and its callers were
//! interpreted from then on.)

use crate::Vm;
use crate::frame::{CALL_GAP, F_NATIVE, frame};
use crate::interp::frame_closure;
use crate::object::ProtoInst;
use crate::value::{Tag, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// So many ticks that find functions without machine code are worth a recording.
const WARM: u32 = 2;
/// From one recording to the next it takes at least so many ticks, one more for each [`AGE`] that have been
/// seen, up to [`MOST_AGES`], and half the square of how many were fruitless. (Ticks get rarer with the program's
/// time: with twice as many for each, a program whose first tenth of a second is not like the rest was not
/// looked at for a third of a second.)
const GAP: u32 = 2;
/// See [`GAP`].
const AGE: u32 = 64;
/// See [`GAP`].
const MOST_AGES: u32 = 6;
/// More fruitless ones are not counted. (With 16 of them a compiler or a linter, each phase of which has its own
/// functions, was looked at twice in a second, when most of it was interpreted still.)
const MOST_FRUITLESS: u32 = 6;

/// See the module's essay.
const MOST_RESTS: u32 = 5;

/// Ticks that are as near as this are waited for: one may stand for several.
const NEAR: u32 = 4;

/// So many natives that call each other are passed by to find the function that has called them.
const MOST_NATIVES: usize = 4;

/// What a tick counts for when there has been one more.
const FADES: f32 = 0.9;
/// What earlier ones count for once there is new machine code.
const CHANGED: f32 = 0.5;
/// So many ticks are supposed to have found functions without machine code, before there has been any.
const PRIOR: f32 = 1.0;

/// What a tick finds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finds {
    /// A function that a native begins: whether it will be interpreted is not seen yet.
    Beginning,
    /// What polls, or has left machine code to do so.
    Running,
}

/// What ticks have found.
pub(crate) struct Ticks {
    /// How many have been seen.
    seen: u32,
    /// As many of them as the last one stands for.
    last: u32,
    /// How many found a function that has no machine code, since the last recording.
    warm: u32,
    /// None is looked at before that many have been seen.
    next: u32,
    /// Recordings since there was new machine code.
    fruitless: u32,
    /// One is enough.
    eager: bool,
    /// How many were looked at, and how many of them found a function cold; fading.
    looked: f32,
    cold: f32,
    /// The last one found a native: the function of Lua that it calls next is looked at instead.
    put_off: bool,
    /// The last one found machine code: it is to be told when that comes back to the interpreter.
    tells: bool,
    /// It has come back, so there will be a tick soon.
    hurried: bool,
    /// So many more are to come before it is told again.
    rest: u32,
    /// How often in a row it was told for nothing.
    in_vain: u32,
}

impl Default for Ticks {
    fn default() -> Ticks {
        Ticks {
            seen: 0,
            last: 1,
            warm: 0,
            next: 0,
            fruitless: 0,
            eager: true,
            looked: 0.0,
            cold: 0.0,
            put_off: false,
            tells: false,
            hurried: false,
            rest: 0,
            in_vain: 0,
        }
    }
}

impl Ticks {
    /// Whether the next function of Lua that a native begins is to be looked at ([`Vm::handle_ticks`]).
    #[inline(always)]
    pub fn are_put_off(&self) -> bool {
        self.put_off
    }

    /// Whether somebody is to be told that machine code has come back to the interpreter.
    #[inline(always)]
    pub fn are_told(&self) -> bool {
        self.tells
    }

    /// A tick has found machine code, or `cold` what has none; it was a `hurried` one, or not.
    fn finds(&mut self, cold: bool, hurried: bool) {
        if hurried {
            self.in_vain = (self.in_vain + 1).min(MOST_RESTS);
            self.rest = 1 << self.in_vain;
        } else {
            self.rest = self.rest.saturating_sub(self.last);
        }
        self.tells = !cold && self.rest == 0;
    }

    /// A recording begins.
    fn record(&mut self) {
        (self.in_vain, self.rest) = (0, 0);
    }

    /// Which part of the time goes by in functions without machine code, as far as the last ticks tell: few
    /// say little.
    pub fn interpreted(&self) -> f32 {
        (self.cold + PRIOR) / (self.looked + PRIOR)
    }

    /// Whether the next tick that finds a function cold may begin a recording.
    fn may_soon_record(&self) -> bool {
        self.seen.saturating_add(NEAR) >= self.next
    }

    /// There is new machine code: what ticks found before says less.
    fn change(&mut self) {
        (self.looked, self.cold) = (self.looked * CHANGED, self.cold * CHANGED);
    }

    /// One more, whether it finds a function `cold`, without machine code: whether to record.
    fn count(&mut self, cold: bool) -> bool {
        for _ in 0..self.last {
            self.looked = self.looked * FADES + 1.0;
            self.cold = self.cold * FADES + cold as u8 as f32;
        }
        if self.seen < self.next {
            return false;
        }
        self.warm += cold as u32;
        if self.warm < if self.eager { 1 } else { WARM } {
            return false;
        }
        (self.warm, self.eager) = (0, false);
        let gap = GAP + (self.seen / AGE).min(MOST_AGES);
        self.next = self.seen.saturating_add(gap + self.fruitless * self.fruitless / 2);
        self.fruitless = (self.fruitless + 1).min(MOST_FRUITLESS);
        true
    }
}

impl Vm {
    /// A tick of the specializer.
    #[cold]
    pub(crate) fn tick(&mut self, finds: Finds) {
        let machine = &mut self.lua.machine;
        let Some(specializer) = machine.specializer.clone() else { return };
        machine.ticks.last = specializer.ticked();
        machine.ticks.seen = machine.ticks.seen.saturating_add(machine.ticks.last);
        self.look_at_running(finds);
    }

    /// Looks at the function that runs, since there has been a tick. Natives with loops poll more often than
    /// the short functions that they call (a comparator of `table.sort`), so that nearly all ticks find the
    /// native; it is the function that takes the time. If the native has begun none until the next tick, the
    /// function that has called the native is looked at: `pcall` begins functions without a run of their own,
    /// and in a loop with three of its calls one run in twenty had no machine code for a tenth of a second,
    /// since each tick found one of these.
    #[cold]
    pub(crate) fn look_at_running(&mut self, finds: Finds) {
        let machine = &mut self.lua.machine;
        let was_put_off = std::mem::take(&mut machine.ticks.put_off);
        let polled = machine.polled.take();
        let Some(specializer) = machine.specializer.clone() else { return };
        if machine.distrusted || machine.watched || machine.logging.is_some() {
            return;
        }
        // SAFETY: the running frame is complete; that of a Lua function has its closure.
        unsafe {
            let running = self.lua.base;
            let Some(base) = self.nearest_function().filter(|base| *base == running || was_put_off) else {
                self.lua.machine.ticks.put_off = true;
                return;
            };
            let inst = (*frame_closure(base)).proto;
            if let Some(code) = (*inst).machine.as_ref() {
                code.runs();
            }
            self.look_at_entries(inst);
            // Machine code polls at calls, also in loops of functions that have code of their loops alone, and
            // in functions that it has in place and that have none of their own.
            let cold = match polled {
                Some(address) if address == base.addr() => false,
                None if finds == Finds::Running && base == running => true,
                _ => !is_compiled(inst, (*inst).position((*frame(base)).pc)),
            };
            let may_compile = specializer.may_compile();
            let ticks = &mut self.lua.machine.ticks;
            let hurried = std::mem::take(&mut ticks.hurried);
            ticks.finds(cold || !may_compile, hurried);
            let cold = cold && may_compile;
            if ticks.count(cold) || (cold && specializer.is_due()) {
                ticks.record();
                self.begin_log(inst);
            }
            if cold && self.lua.machine.ticks.may_soon_record() {
                specializer.awaited();
            }
        }
    }

    /// Machine code has come back to the interpreter, and that [is to be told](Ticks::are_told): unless it has only
    /// been left for an interrupt, there is a tick soon.
    #[cold]
    #[inline(never)]
    pub(super) fn machine_code_came_back(&mut self) {
        if self.lua.interrupt.load(Ordering::Relaxed) != 0 {
            return;
        }
        let ticks = &mut self.lua.machine.ticks;
        (ticks.tells, ticks.hurried) = (false, true);
        if let Some(specializer) = &self.lua.machine.specializer {
            specializer.resumed();
        }
    }

    /// The running frame, if it is that of a Lua function, else that of the one which has called what runs.
    ///
    /// # Safety
    /// The state is saved, as [`Vm::rounds`] says.
    unsafe fn nearest_function(&self) -> Option<*mut Value> {
        let mut base = self.lua.base;
        // SAFETY: the caller's promise.
        unsafe {
            for _ in 0..MOST_NATIVES {
                let f = frame(base);
                let is_lua = (*f).flags & F_NATIVE == 0 && !(*f).pc.is_null();
                if is_lua && (*base.sub(CALL_GAP)).tag() == Tag::CLOSURE {
                    return Some(base);
                }
                if (*f).delta == 0 {
                    break;
                }
                base = base.sub((*f).delta as usize);
            }
        }
        None
    }

    /// Gives all instances their new machine code.
    #[cold]
    pub(crate) fn install_machine_code(&mut self) {
        let Some(specializer) = self.lua.machine.specializer.clone() else { return };
        let handle = self.interrupt_handle();
        (self.lua.machine.ticks.fruitless, self.lua.machine.ticks.eager) = (0, true);
        self.lua.machine.ticks.change();
        self.open_entries();
        for code in specializer.fetch(&handle) {
            let proto = Arc::as_ptr(code.proto());
            for n in 0..self.lua.gc.protos.len() {
                let inst = self.lua.gc.protos[n];
                // SAFETY: the list has instances that live.
                unsafe {
                    if (*inst).proto == proto && (*inst).machine != Arc::as_ptr(&code) {
                        self.give_machine_code(inst, Arc::clone(&code));
                    }
                }
            }
        }
        self.leave_retired_code();
    }
}

/// Whether what a function runs around instruction `at` has machine code that has not been given up: all of
/// it, or the loop that polls there.
///
/// # Safety
/// The instance lives.
unsafe fn is_compiled(inst: *mut ProtoInst, at: usize) -> bool {
    // SAFETY: the caller's promise; an instance has a count of its machine code.
    let code = unsafe { (*inst).machine.as_ref() };
    code.is_some_and(|code| {
        let is_there = code.starts || code.is_entered_at(at) || code.is_entered_at(at.wrapping_sub(1));
        is_there && !code.is_given_up()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_that_stands_for_several_fades_what_was_found_as_they_would() {
        let (mut one, mut four) = (Ticks::default(), Ticks::default());
        one.count(true);
        four.count(true);
        for _ in 0..4 {
            one.count(false);
        }
        four.last = 4;
        four.count(false);
        assert!((one.interpreted() - four.interpreted()).abs() < 1e-6);
    }

    #[test]
    fn who_is_told_for_nothing_is_told_more_rarely() {
        let mut ticks = Ticks::default();
        ticks.finds(true, false);
        assert!(!ticks.are_told(), "what is interpreted does not come back");
        ticks.finds(false, false);
        assert!(ticks.are_told());
        let waits: Vec<u32> = (0..8)
            .map(|n| {
                // It is interpreted only for a moment, or nothing has come of it.
                ticks.finds(n % 2 == 0, true);
                assert!(!ticks.are_told());
                (1..).find(|_| {
                    ticks.finds(false, false);
                    ticks.are_told()
                })
            })
            .map(|wait| wait.expect("one of them"))
            .collect();
        assert_eq!(waits, [2, 4, 8, 16, 32, 32, 32, 32]);
        ticks.finds(true, true);
        ticks.record();
        ticks.finds(false, false);
        assert!(ticks.are_told());
    }

    #[test]
    fn ticks_are_waited_for_when_the_next_recording_is_near() {
        let mut ticks = Ticks { seen: 10, next: 20, ..Ticks::default() };
        assert!(!ticks.may_soon_record());
        ticks.seen = 20 - NEAR;
        assert!(ticks.may_soon_record());
        ticks.seen = 30;
        assert!(ticks.may_soon_record());
    }
}
