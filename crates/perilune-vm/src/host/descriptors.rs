//! Waiting for descriptors without a thread: what a host offers to natives of rooms below it, such as the
//! standard library's.
//!
//! A native that reads from a pipe asks the system first. If there is nothing, and others could use the
//! domain meanwhile ([`Vm::can_park`]), it undoes what it has done, begins a wait ([`Watch::wait`]) and
//! returns the park, with nothing pushed; when the descriptor may be ready it is called again, from its
//! beginning, and finds out by [`Vm::wait_over`] that it has waited. Where nothing can wait (a finaliser, a
//! hook) it blocks its thread, as it does without a host.

use crate::Vm;
use crate::native::LuaResult;
use std::any::Any;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// A direction of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Bytes that come.
    Read,
    /// Bytes that go.
    Write,
}

/// What a descriptor is, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watchable {
    /// A pipe, FIFO or terminal: bytes come from it or go to it.
    Stream,
    /// A child of this number, whose end is waited for.
    Process(i32),
}

/// What a native puts aside for the time of a wait. It is dropped if the wait ends otherwise.
pub type Aside = Box<dyn Any + Send>;

/// Work for a thread that may block.
pub type Work = Box<dyn FnOnce() + Send>;

/// What is done to a file while somebody waits for it, for reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Doing {
    /// "read", "open".
    pub verb: &'static str,
    /// Which file.
    pub what: Subject,
}

/// A file, for reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The one of this name.
    Name(Vec<u8>),
    /// The one that has this descriptor.
    Descriptor(i32),
}

/// What of a host knows descriptors.
pub trait Descriptors: Send + Sync + std::fmt::Debug {
    /// Begins to watch a descriptor, until this is dropped or ended ([`Watch::end`]): before the descriptor
    /// is closed.
    ///
    /// # Errors
    /// It cannot be watched: it is a plain file, or there is too much to watch.
    fn watch(&self, fd: BorrowedFd<'_>, what: Watchable) -> std::io::Result<Arc<dyn Watch>>;
    /// How the kernel tells that a descriptor is ready, or would: "epoll", "uring".
    fn backend(&self) -> &'static str;
    /// The beginning of each turn of a native that may wait: what it has put aside, if it has waited.
    ///
    /// # Errors
    /// The park, if this is no turn; or what ended the wait.
    fn turn(&self, vm: &mut Vm) -> LuaResult<Option<Aside>>;
    /// Waits for a while. `what` is the operation on a file that is tried again then, for reports.
    ///
    /// # Errors
    /// The park.
    fn pause(&self, vm: &mut Vm, span: Duration, what: String, aside: Aside) -> LuaResult<Option<Aside>>;
    /// What is waited for as a descriptor is, and belongs to none: who has done what is waited for calls
    /// [`Watch::give_up`].
    fn bell(&self, what: Doing) -> Arc<dyn Watch>;
    /// Has `work` done by a thread that may block, also if nobody waits for it.
    ///
    /// # Errors
    /// There is too much to do, or there is no thread: the work comes back.
    fn put(&self, work: Work) -> Result<(), Work>;
}

/// A descriptor that natives can wait for.
pub trait Watch: Send + Sync {
    /// To be called before each attempt.
    fn clear(&self, direction: Direction);
    /// Waits after an attempt that failed, under the lock under which it was made. `Ok`: something has
    /// happened since; try again at once, with what was to be put aside.
    ///
    /// # Errors
    /// The park; or nothing can wait here.
    fn wait(self: Arc<Self>, vm: &mut Vm, direction: Direction, aside: Aside) -> LuaResult<Option<Aside>>;
    /// Something was taken: whoever else waits looks again.
    fn pass_on(&self, direction: Direction);
    /// Somebody who had waited does not use the descriptor after all, and nobody knows what it has been told:
    /// whoever else waits, or has looked and is about to wait, looks again.
    fn give_up(&self, direction: Direction);
    /// The descriptor is about to be closed: nothing is told of it any more, and nobody keeps it open.
    fn end(&self);
}

impl Vm {
    /// Can a native that is called now wait without its thread, and would others use the domain meanwhile?
    pub fn can_park(&self) -> bool {
        self.detaches() && self.descriptors().is_some() && self.wait_obstacle().is_none()
    }

    /// What of the host knows descriptors.
    pub fn descriptors(&self) -> Option<&'static dyn Descriptors> {
        self.host()?.descriptors()
    }

    /// The beginning of each turn of a native that may wait for a descriptor: what it has put aside, if it
    /// has waited.
    ///
    /// # Errors
    /// The park, or what ended the wait.
    pub fn wait_over(&mut self) -> LuaResult<Option<Aside>> {
        match self.descriptors() {
            Some(descriptors) => descriptors.turn(self),
            None => Ok(None),
        }
    }
}
