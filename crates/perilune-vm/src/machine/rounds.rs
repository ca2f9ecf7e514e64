//! How long loops go on that are under way: a numeric one knows how many rounds it has before it.
//!
//! Whether machine code is worth what it costs depends on how long the program goes on, which nobody knows;
//! but a program that has come through a hundredth of a loop does the rest, too, unless something leaves the
//! loop early. So the rounds that loops of the running coroutine have left are noted where a recording
//! begins, and where it ends: what a round takes follows from how many have gone by in between, or since the
//! recording before, for loops of which no round ends in a recording.
//!
//! Only loops over integers count their rounds (manual 3.3.5); what a `while`, or a loop over the elements of
//! a table, has before it is not known.

use crate::Vm;
use crate::frame::{CALL_GAP, F_NATIVE, frame};
use crate::interp::frame_closure;
use crate::object::ProtoInst;
use crate::value::{Tag, Value};
use perilune_syntax::{Instr, Op};

/// As many frames are looked at, from the running one down.
const MOST_FRAMES: usize = 32;
/// As many loops are noted.
const MOST_LOOPS: usize = 16;

/// A loop under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Loop {
    /// Which frame: of a function and a place on the stack of a coroutine. All that is done with these is to
    /// compare them: a loop that is taken for another one is a wrong guess.
    function: *mut ProtoInst,
    place: (usize, isize),
    /// The instruction that comes round.
    back: usize,
    /// How many more times.
    left: u64,
}

/// The loops that were under way at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds(Vec<Loop>);

impl Rounds {
    /// How much longer the loops go on that were also under way `before`, and have come round since: the
    /// longest, in times of what has gone by in between. 0: there is none.
    pub fn ahead(&self, before: &Rounds) -> f64 {
        let ratio = |now: &Loop| {
            let then = before.0.iter().find(|then| Loop { left: now.left, ..**then } == *now)?;
            let done = then.left.checked_sub(now.left).filter(|&done| done > 0)?;
            Some(now.left as f64 / done as f64)
        };
        self.0.iter().filter_map(ratio).fold(0.0, f64::max)
    }
}

impl Vm {
    /// The loops that are under way now.
    ///
    /// # Safety
    /// The state is saved: its base is that of the running frame, whose record says where it is, and the
    /// frames below it are as calls leave them.
    pub(super) unsafe fn rounds(&self) -> Rounds {
        let mut rounds = Rounds::default();
        // SAFETY: the caller's promise; a frame of a Lua function has its registers above its base.
        unsafe {
            let thread = self.lua.thread;
            let mut base = self.lua.base;
            for _ in 0..MOST_FRAMES {
                let f = frame(base);
                let (pc, is_lua) = ((*f).pc, (*f).flags & F_NATIVE == 0);
                if is_lua && !pc.is_null() && (*base.sub(CALL_GAP)).tag() == Tag::CLOSURE {
                    let function = (*frame_closure(base)).proto;
                    let place = (thread as usize, base.offset_from((*thread).stack));
                    // What comes next: where a loop has just come round that lies in it, unlike the
                    // instruction before.
                    let next = (*function).position(pc);
                    for (back, left) in loops_around(base, function, next) {
                        rounds.0.push(Loop { function, place, back, left });
                        if rounds.0.len() == MOST_LOOPS {
                            return rounds;
                        }
                    }
                }
                if (*f).delta == 0 {
                    break;
                }
                base = base.sub((*f).delta as usize);
            }
        }
        rounds
    }
}

/// The loops over integers that instruction `at` of a frame lies in, or comes behind: the instruction that
/// comes round, and how many more times it does. (Of a loop that is over it does so no more.)
///
/// # Safety
/// The frame is one of this function. (If it is at another instruction the numbers mean nothing.)
unsafe fn loops_around(
    base: *mut Value,
    function: *mut ProtoInst,
    at: usize,
) -> impl Iterator<Item = (usize, u64)> {
    // SAFETY: the instance of a frame's function lives as long as the frame does.
    let code = unsafe { &(*function).proto().code };
    let is_around = move |(back, i): &(usize, &Instr)| {
        i.op() == Some(Op::ForLoop) && *back as i64 + 1 + i.sj() as i64 <= at as i64
    };
    code.iter().enumerate().skip(at.saturating_sub(1)).filter(is_around).filter_map(move |(back, i)| {
        // SAFETY: a loop's registers are in the frame.
        let [left, step] = unsafe { [1, 2].map(|n| *base.add(i.a() as usize + n)) };
        (step.tag() == Tag::INT && left.tag() == Tag::INT).then_some((back, left.payload()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    fn at(back: usize, left: u64) -> Loop {
        Loop { function: null_mut(), place: (1, 5), back, left }
    }

    #[test]
    fn the_loop_that_goes_on_for_longest_counts() {
        let (before, now) = (Rounds(vec![at(9, 5), at(20, 1000)]), Rounds(vec![at(9, 3), at(20, 990)]));
        assert_eq!(now.ahead(&before), 99.0);
        // The inner one has begun anew.
        let now = Rounds(vec![at(9, 8), at(20, 900)]);
        assert_eq!(now.ahead(&before), 9.0);
    }

    #[test]
    fn of_a_loop_that_has_not_come_round_nothing_is_known() {
        let before = Rounds(vec![at(9, 5)]);
        assert_eq!(before.ahead(&before), 0.0);
        assert_eq!(Rounds(vec![at(10, 4)]).ahead(&before), 0.0);
        assert_eq!(Rounds(vec![Loop { place: (1, 6), ..at(9, 4) }]).ahead(&before), 0.0);
    }
}
