//! The end of a child, waited for without a thread where that can be: a descriptor of the process (`pidfd`)
//! becomes readable when it ends.
//!
//! The native that waits is called again; this is what it puts aside. If the wait ends otherwise, the child
//! goes on, and is reaped when the next one is started.

use crate::child::{Child, Foreground};
use crate::errno::{self, Failure};
use perilune_vm::host::{Direction, Watch, Watchable};
use perilune_vm::{LuaResult, Vm};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::sync::Arc;

/// A child whose end is waited for.
pub(crate) struct Ended {
    child: Child,
    /// Before the descriptor. `None`: it is not watched yet, or cannot be.
    watch: Option<Arc<dyn Watch>>,
    fd: Option<OwnedFd>,
    /// What went wrong before, which is told at the end.
    failure: Option<Failure>,
    #[allow(dead_code, reason = "it is dropped")]
    foreground: Option<Foreground>,
}

impl Ended {
    /// Nobody waits yet. `failure` is the result whatever the child comes to.
    pub(crate) fn new(child: Child, failure: Option<Failure>) -> Box<Ended> {
        Box::new(Ended { child, watch: None, fd: None, failure, foreground: None })
    }

    /// The child has the terminal until then.
    pub(crate) fn in_foreground(mut self: Box<Ended>, foreground: Foreground) -> Box<Ended> {
        self.foreground = Some(foreground);
        self
    }

    /// Waits for it; pushes what `os.execute` returns. Nothing was pushed before.
    ///
    /// # Errors
    /// The park: the native is called again, and has this then.
    pub(crate) fn wait(mut self: Box<Ended>, vm: &mut Vm) -> LuaResult<u32> {
        loop {
            if let Some(watch) = &self.watch {
                watch.clear(Direction::Read);
            }
            match self.child.try_wait() {
                Ok(None) => {}
                result => return self.tell(vm, result.map(Option::unwrap_or_default)),
            }
            let was_watched = self.watch.is_some();
            if !vm.can_park() || !self.is_watched(vm) {
                let result = loop {
                    match vm.blocking(|| self.child.wait()) {
                        Err(rustix::io::Errno::INTR) => vm.poll_interrupt()?,
                        result => break result,
                    }
                };
                return self.tell(vm, result);
            }
            if let (true, Some(watch)) = (was_watched, self.watch.clone()) {
                match watch.wait(vm, Direction::Read, self)?.and_then(|aside| aside.downcast().ok()) {
                    Some(me) => self = me,
                    None => return Ok(0),
                }
            }
        }
    }

    fn is_watched(&mut self, vm: &Vm) -> bool {
        if self.watch.is_none()
            && let Some(descriptors) = vm.descriptors()
            && let Some(pid) = Pid::from_raw(self.child.pid())
            && let Ok(fd) = pidfd_open(pid, PidfdFlags::empty())
        {
            self.watch = descriptors.watch(fd.as_fd(), Watchable::Process(self.child.pid())).ok();
            self.fd = Some(fd);
        }
        self.watch.is_some()
    }

    fn tell(self, vm: &mut Vm, result: Result<i32, rustix::io::Errno>) -> LuaResult<u32> {
        match (self.failure, result) {
            (Some(failure), _) => errno::failure(vm, failure, None),
            (None, Ok(status)) => errno::exec_result(vm, status),
            (None, Err(error)) => errno::failure(vm, error, None),
        }
    }
}
