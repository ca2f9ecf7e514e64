//! Cases of `pl.select`: connections, listeners, sockets for datagrams, watched files, processes.
//!
//! A `select` says which of them is ready and, of those whose things come one by one, hands out the first: a
//! connection that was accepted, a datagram, a change, the end of a process. Of the bytes of a connection it
//! takes none: it says that a read has something to return, so nothing is lost when another case is faster,
//! and the program reads as it likes.
//!
//! The kernel takes no claims: it wakes whoever waits for a descriptor, which asks again. So a case that is
//! dropped with its wait, and may have been told of something that it did not take, passes that on
//! ([`Case`]'s `drop`), as other waits do.

use crate::poller::Source;
use crate::slot::{Left, Slot, Wakes};
use crate::waiting::{Side, Waited};
use parking_lot::Mutex;
use perilune_domain::outside::{Awaited, Waiter};
use perilune_domain::select::{MakeCase, Selectable, register_kind};
use perilune_vm::shared::{SharedArc, SharedKind, SharedObject, downcast_arc};
use perilune_vm::{LuaResult, Value, Vm};
use std::sync::Arc;
use std::time::Instant;

/// What one direction of a descriptor has for a `select`.
pub trait Ready: Waited + SharedObject {
    /// If it is ready, takes and pushes what there is to take, and says how many values that are.
    ///
    /// # Errors
    /// What it has come to.
    fn take_case(self: &Arc<Self>, vm: &mut Vm, side: Side) -> LuaResult<Option<u32>>;
    /// Looks once more and leaves the waiter, both under the lock of the direction. `None`: it may be ready.
    fn leave_case(&self, side: Side, waiter: Arc<Waiter>) -> Option<Left>;
    /// When it is tried again, whatever the kernel tells.
    fn again(&self) -> Option<Instant> {
        None
    }
    /// Whether it can be waited for until something can be written.
    const WRITES: bool = false;
}

/// A case, for as long as its `select` waits.
struct Case<T: Ready> {
    socket: Arc<T>,
    side: Side,
    /// The waiter that was left and has had no turn since.
    left: Mutex<Option<Left>>,
}

fn slot(source: &Source, side: Side) -> &Slot<Arc<Waiter>> {
    match side {
        Side::Read => &source.read,
        Side::Write => &source.write,
    }
}

impl<T: Ready> Case<T> {
    fn slot(&self) -> &Slot<Arc<Waiter>> {
        slot(self.socket.source(), self.side)
    }

    /// Takes back what was left. False: nothing was.
    fn take_back(&self) -> bool {
        let left = self.left.lock().take();
        if let Some(left) = left {
            self.slot().take_back(left);
        }
        left.is_some()
    }
}

impl<T: Ready> Drop for Case<T> {
    fn drop(&mut self) {
        // It may have been woken for what somebody else waits for too.
        if self.take_back() && self.slot().may_be_ready() {
            self.slot().wake(Wakes::One);
        }
    }
}

impl<T: Ready> Selectable for Case<T> {
    fn take(&self, vm: &mut Vm, _: Value) -> LuaResult<Option<u32>> {
        self.take_back();
        self.socket.take_case(vm, self.side)
    }

    fn watch(&self, waiter: &Arc<Waiter>, _: u32) -> bool {
        let left = self.socket.leave_case(self.side, Arc::clone(waiter));
        *self.left.lock() = left;
        left.is_some()
    }

    fn due(&self) -> Option<Instant> {
        self.socket.again()
    }

    fn is_outside(&self) -> bool {
        true
    }

    fn describe(&self) -> String {
        Awaited::kind(&*self.socket).called(&self.socket.name())
    }
}

fn make<T: Ready>(object: &SharedArc, rest: &[Value]) -> Result<Arc<dyn Selectable>, String> {
    let side = match rest {
        [] => Side::Read,
        [v] if T::WRITES && v.as_string().is_some_and(|s| s.bytes() == b"write") => Side::Write,
        _ if T::WRITES => return Err(format!("a {0} alone or {{{0}, \"write\"}} expected", T::NAME)),
        _ => return Err(format!("a {} needs nothing beside it", T::NAME)),
    };
    match downcast_arc::<T>(object.clone()) {
        Ok(socket) => Ok(Arc::new(Case { socket, side, left: Mutex::new(None) })),
        Err(_) => Err("it is of another kind".to_owned()),
    }
}

/// Lets `pl.select` wait for a kind.
pub fn register<T: Ready>(kind: &'static SharedKind) {
    register_kind(kind, make::<T> as MakeCase);
}
