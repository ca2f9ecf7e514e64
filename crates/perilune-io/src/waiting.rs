//! What natives on sockets have in common: the turns of `perilune_domain::outside`, with a waiter left in a
//! slot.

use crate::poller::Source;
use crate::seen::{self, Before};
use crate::slot::{Left, Wakes};
use perilune_domain::outside::{self, Awaited, Reason, Turn, Waiter};
use perilune_trace::event::Verb;
use perilune_vm::{LuaResult, Thrown, Vm};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A direction of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Bytes that come.
    Read,
    /// Bytes that go.
    Write,
}

/// How long operations may take, in nanoseconds; `u64::MAX`: for ever.
pub struct Timeouts {
    read: AtomicU64,
    write: AtomicU64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { read: AtomicU64::new(u64::MAX), write: AtomicU64::new(u64::MAX) }
    }
}

impl Timeouts {
    fn of(&self, side: Side) -> &AtomicU64 {
        match side {
            Side::Read => &self.read,
            Side::Write => &self.write,
        }
    }

    /// When an operation that begins now is over.
    pub fn deadline(&self, side: Side) -> Option<Instant> {
        match self.of(side).load(Ordering::Relaxed) {
            u64::MAX => None,
            nanos => Instant::now().checked_add(Duration::from_nanos(nanos)),
        }
    }

    /// From now on.
    pub fn set(&self, side: Side, span: Option<Duration>) {
        let nanos = span.map_or(u64::MAX, |s| u64::try_from(s.as_nanos()).unwrap_or(u64::MAX));
        self.of(side).store(nanos, Ordering::Relaxed);
    }
}

/// What can be waited for in both directions.
pub trait Waited: Awaited + 'static {
    /// Its slots.
    fn source(&self) -> &Source;
    /// When an operation that begins now is over.
    fn deadline(&self, side: Side) -> Option<Instant>;
    /// Whether several may wait for bytes at the moment: for the end of a handshake.
    fn is_shared(&self) -> bool {
        false
    }
    /// The time of a read is over, and its last attempt follows: what has come may not have been told yet.
    fn is_late(&self) {}
    /// What is known when a wait for a peer begins, for traces (`seen.rs`).
    fn look(&self, _side: Side) -> Option<Before> {
        None
    }
    /// Such a wait is over.
    fn tell(&self, _before: &Before) {}
    /// What messages call it.
    const NAME: &'static str;
}

/// What is put aside while a native waits. Dropped with the wait, however that ends.
struct Aside<T: Waited> {
    socket: Arc<T>,
    side: Side,
    left: Left,
    /// It has had its turn.
    tried: bool,
    deadline: Option<Instant>,
    done: u64,
    before: Option<Before>,
}

impl<T: Waited> Drop for Aside<T> {
    fn drop(&mut self) {
        let source = self.socket.source();
        match self.side {
            Side::Read => {
                source.read.take_back(self.left);
                // It may have been woken for another one that waits for the same handshake.
                if !self.tried && source.read.may_be_ready() {
                    source.read.wake(Wakes::One);
                }
            }
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
pub fn turn<T: Waited>(vm: &mut Vm, socket: &Arc<T>, side: Side) -> LuaResult<Progress> {
    match outside::woken(vm)? {
        Turn::First => {
            outside::give_way(vm)?;
            let deadline = socket.deadline(side);
            Ok(Progress { is_first: true, deadline, is_over: false, done: 0 })
        }
        Turn::Asleep => Err(vm.park()),
        Turn::Woken(reason, _) => {
            let waited = resume::<T>(vm, reason);
            outside::finish(vm);
            Ok(match waited {
                Some((_, progress)) => progress,
                // It gave way.
                None => Progress { is_first: true, deadline: socket.deadline(side), is_over: false, done: 0 },
            })
        }
    }
}

/// The wait that [`wait`] began, if it was for such a socket: the socket, and where the native is.
pub fn resume<T: Waited>(vm: &mut Vm, reason: Reason) -> Option<(Arc<T>, Progress)> {
    let mut aside = outside::take_data::<Aside<T>>(vm)?;
    aside.tried = true;
    if let Some(before) = &aside.before {
        aside.socket.tell(before);
    }
    let is_over = reason == Reason::Timeout;
    if is_over && aside.side == Side::Read {
        aside.socket.is_late();
    }
    let progress = Progress { is_first: false, deadline: aside.deadline, is_over, done: aside.done };
    Some((Arc::clone(&aside.socket), progress))
}

/// Who waits for what comes, if nobody else may do so meanwhile.
pub fn reader<T: Waited>(socket: &T) -> Option<String> {
    if socket.is_shared() {
        return None;
    }
    let describe = |w: &Arc<Waiter>| w.woken().is_none().then(|| w.sleeper().describe());
    socket.source().read.with_first(describe).flatten()
}

/// The error of a second one.
pub fn read_already<T: Waited>(vm: &mut Vm, other: &str) -> Thrown {
    vm.error(format!("the {} is being read already: {other}", T::NAME))
}

/// Waits after an attempt under the lock of this guard. `Ok`: try again at once.
///
/// # Errors
/// The park; or somebody reads from the connection already.
pub fn wait<T: Waited, L>(
    vm: &mut Vm,
    socket: &Arc<T>,
    locked: L,
    side: Side,
    progress: &Progress,
) -> LuaResult<()> {
    let source = socket.source();
    let (slot, verb) = match side {
        Side::Read => (&source.read, Verb::Reads),
        Side::Write => (&source.write, Verb::Writes),
    };
    if side == Side::Read
        && let Some(other) = reader(&**socket)
    {
        drop(locked);
        return Err(read_already::<T>(vm, &other));
    }
    let waiter = outside::begin(vm, verb, Arc::clone(socket) as _)?;
    let left = slot.leave(waiter);
    drop(locked);
    if let Ok(left) = left {
        let before = if seen::is_on() { socket.look(side) } else { None };
        let aside = Aside {
            socket: Arc::clone(socket),
            side,
            left,
            tried: false,
            deadline: progress.deadline,
            done: progress.done,
            before,
        };
        outside::set_data(vm, aside);
        if progress.deadline.is_some() {
            outside::limit_at(vm, progress.deadline)?;
        }
        if outside::sleeps(vm) {
            return Err(vm.park());
        }
        if let Some(mut aside) = outside::take_data::<Aside<T>>(vm) {
            aside.tried = true;
        }
    }
    outside::finish(vm);
    Ok(())
}
