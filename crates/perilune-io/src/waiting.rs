//! What natives on connections have in common: the turns of `perilune_domain::outside`, with a waiter left in a slot.

use crate::slot::Left;
use crate::stream::Stream;
use parking_lot::MutexGuard;
use perilune_domain::outside::{self, Reason, Turn};
use perilune_trace::event::Verb;
use perilune_vm::{LuaResult, Vm};
use std::sync::Arc;
use std::time::Instant;

/// A direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Bytes that come.
    Read,
    /// Bytes that go.
    Write,
}

/// What is put aside while a native waits. Dropped with the wait, however that ends.
struct Aside {
    stream: Arc<Stream>,
    side: Side,
    left: Left,
    deadline: Option<Instant>,
    done: u64,
}

impl Drop for Aside {
    fn drop(&mut self) {
        let source = self.stream.source();
        match self.side {
            Side::Read => source.read.take_back(self.left),
            Side::Write => source.write.take_back(self.left),
        }
    }
}

/// Where a native is that may have waited.
pub struct Progress {
    /// It is called for the first time.
    pub is_first: bool,
    /// When it has to be done. It waits no more after that.
    pub deadline: Option<Instant>,
    /// That time is over: one last attempt.
    pub is_over: bool,
    /// What it has counted in earlier turns.
    pub done: u64,
}

/// The beginning of each turn.
///
/// # Errors
/// The park, if this is no turn at all; or what ended the wait.
pub fn turn(vm: &mut Vm, stream: &Stream, side: Side) -> LuaResult<Progress> {
    match outside::woken(vm)? {
        Turn::First => {
            outside::give_way(vm)?;
            let deadline = stream.deadline(side == Side::Read);
            Ok(Progress { is_first: true, deadline, is_over: false, done: 0 })
        }
        Turn::Asleep => Err(vm.park()),
        Turn::Woken(reason, _) => {
            let aside = outside::take_data::<Aside>(vm);
            outside::finish(vm);
            Ok(match aside {
                Some(aside) => Progress {
                    is_first: false,
                    deadline: aside.deadline,
                    is_over: reason == Reason::Timeout,
                    done: aside.done,
                },
                // It gave way.
                None => Progress {
                    is_first: true,
                    deadline: stream.deadline(side == Side::Read),
                    is_over: false,
                    done: 0,
                },
            })
        }
    }
}

/// Waits after an attempt under this lock. `Ok`: try again at once.
///
/// # Errors
/// The park; or somebody reads from the connection already.
pub fn wait<T>(
    vm: &mut Vm,
    stream: &Arc<Stream>,
    locked: MutexGuard<'_, T>,
    side: Side,
    progress: &Progress,
) -> LuaResult<()> {
    let source = stream.source();
    let (slot, verb) = match side {
        Side::Read => (&source.read, Verb::Receives),
        Side::Write => (&source.write, Verb::Sends),
    };
    if side == Side::Read {
        let other = slot.with_first(|w| w.woken().is_none().then(|| w.sleeper().describe())).flatten();
        if let Some(other) = other {
            drop(locked);
            return Err(vm.error(format!("the connection is being read already: {other}")));
        }
    }
    let waiter = outside::begin(vm, verb, Arc::clone(stream) as _)?;
    let left = slot.leave(waiter);
    drop(locked);
    if let Ok(left) = left {
        let aside = Aside {
            stream: Arc::clone(stream),
            side,
            left,
            deadline: progress.deadline,
            done: progress.done,
        };
        outside::set_data(vm, aside);
        if progress.deadline.is_some() {
            outside::limit_at(vm, progress.deadline)?;
        }
        if outside::sleeps(vm) {
            return Err(vm.park());
        }
    }
    outside::finish(vm);
    Ok(())
}
