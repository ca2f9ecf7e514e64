//! A coroutine's status, and what machine code has found out about the coroutine that holds as long as that
//! lasts: where one that has yielded goes on, and where the one that runs gives its values to.
//!
//! Both can be read off the frames, and are, by whoever does not find them here. That takes six loads one
//! after the other, each of what the one before has given, before it is clear where to jump to; and a coroutine
//! switches at the same few places, again and again.

use crate::object::{ProtoInst, Status};
use crate::value::Value;
use perilune_syntax::Instr;
use std::ptr::{null, null_mut};

/// See the module's essay. Whatever gives a coroutine another status ends what is known of it. There are many
/// coroutines that never come to machine code, so it is small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    status: Status,
    knows_yielded: bool,
    knows_resumed: bool,
    resumed: Resumed,
    yielded: Yielded,
}

/// Where a coroutine that has yielded goes on as machine code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Yielded {
    /// The frame that goes on: it has called `coroutine.yield`, or a function that has ended by that.
    pub running: *mut Value,
    /// How far it is from its caller's.
    pub distance: Slots,
    /// Where it takes what a resume brings,
    pub to: *mut Value,
    /// so many values; -1: all.
    pub wanted: i16,
    /// Which code it has ([`MachineCode`](crate::machine::MachineCode)'s number),
    pub serial: u32,
    /// and the entry of that at `pc`.
    pub entry: u32,
    /// Where it goes on.
    pub pc: *const Instr,
    /// The instance of its function: the frame's closure keeps it alive.
    pub inst: *mut ProtoInst,
}

/// A distance between slots of a stack.
pub(crate) type Slots = u32;

/// Who has resumed a coroutine that has not yielded since, a frame that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resumed {
    /// From the frame of the function of Lua to that of `coroutine.resume`, or of the coroutine's function, which
    /// it has called.
    pub delta: Slots,
    /// So many results are wanted; -1: all.
    pub wanted: i16,
    /// It was the coroutine's function that was called: no `true` comes first.
    pub wraps: bool,
}

impl Standing {
    /// Nothing is known but the status.
    pub const fn new(status: Status) -> Standing {
        let yielded = Yielded {
            running: null_mut(),
            distance: 0,
            to: null_mut(),
            wanted: 0,
            serial: 0,
            entry: 0,
            pc: null(),
            inst: null_mut(),
        };
        let resumed = Resumed { delta: 0, wanted: 0, wraps: false };
        Standing { status, knows_yielded: false, knows_resumed: false, resumed, yielded }
    }

    /// The status.
    #[inline(always)]
    pub fn status(&self) -> Status {
        self.status
    }

    /// From now on it has this one. While it waits for others it goes on being the one that was resumed.
    #[inline(always)]
    pub fn set(&mut self, status: Status) {
        self.status = status;
        self.knows_yielded = false;
        self.knows_resumed &= matches!(status, Status::Running | Status::Normal);
    }

    /// Its stack lies somewhere else now.
    pub fn stack_has_moved(&mut self) {
        self.knows_yielded = false;
    }

    /// Where it goes on, if that is known.
    #[inline(always)]
    pub fn yielded(&self) -> Option<&Yielded> {
        self.knows_yielded.then_some(&self.yielded)
    }

    /// What was known when that was known last: it may be so again.
    #[inline(always)]
    pub fn last_yielded(&self) -> &Yielded {
        &self.yielded
    }

    /// It has yielded there; `None`: as last time.
    #[inline(always)]
    pub fn has_yielded(&mut self, at: Option<Yielded>) {
        debug_assert!(self.status == Status::Suspended);
        if let Some(at) = at {
            self.yielded = at;
        }
        self.knows_yielded = true;
    }

    /// Who has resumed it, if that is known.
    #[inline(always)]
    pub fn resumed(&self) -> Option<&Resumed> {
        self.knows_resumed.then_some(&self.resumed)
    }

    /// It is resumed by this one.
    #[inline(always)]
    pub fn is_resumed(&mut self, by: Resumed) {
        debug_assert!(self.status == Status::Running);
        self.resumed = by;
        self.knows_resumed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_status_ends_what_is_known() {
        let mut standing = Standing::new(Status::Suspended);
        assert!(standing.yielded().is_none() && standing.resumed().is_none());
        standing.has_yielded(None);
        assert!(standing.yielded().is_some());
        standing.set(Status::Running);
        assert!(standing.yielded().is_none() && standing.resumed().is_none());
        standing.is_resumed(standing.resumed);
        standing.set(Status::Normal);
        standing.set(Status::Running);
        assert!(standing.resumed().is_some(), "it has waited for another one");
        standing.set(Status::Suspended);
        standing.set(Status::Running);
        assert!(standing.resumed().is_none(), "somebody else has resumed it");
    }

    #[test]
    fn a_stack_that_moves_takes_its_addresses_along() {
        let mut standing = Standing::new(Status::Suspended);
        standing.has_yielded(None);
        standing.stack_has_moved();
        assert!(standing.yielded().is_none());
    }

    #[test]
    fn it_is_small() {
        assert_eq!(size_of::<Standing>(), 64);
    }
}
