//! Locks of files: `f:lock`, `f:unlock`.
//!
//! `flock` would keep a helper for as long as somebody else has the lock, and 48 of them would keep all files
//! from everybody. So it is only asked whether the lock is free, again and again with pauses that grow from 1
//! ms to [`LONGEST_PAUSE`].

use super::{done, this};
use crate::failure::Failure;
use crate::options;
use perilune_domain::outside::{self, Turn};
use perilune_domain::surplus::Limit;
use perilune_trace::event::Verb;
use perilune_vm::Native;
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Between two looks at a lock that somebody else has.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// What is put aside by one who waits for a lock.
struct Queued {
    deadline: Option<Instant>,
    pause: Duration,
}

/// `f:lock([{shared=, timeout=}])`: waits until this open file has the lock (`flock`). A timeout of 0 only
/// looks.
pub(super) static LOCK: Native = Native::leaf("lock", |vm| {
    let file = this(vm, 2, Limit::Own)?;
    let (mut shared, mut deadline) = (false, None);
    if !vm.arg_is_none_or_nil(2) {
        let table = vm.check_table(2)?;
        options::check(vm, table, &["shared", "timeout"])?;
        shared = options::flag(vm, table, "shared")?.unwrap_or(false);
        deadline = options::deadline(vm, table)?;
    }
    let queued = match outside::woken(vm)? {
        Turn::First => None,
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(..) => {
            let queued = outside::take_data::<Queued>(vm);
            outside::finish(vm);
            queued
        }
    };
    let mut queued = match queued {
        Some(queued) => *queued,
        None => Queued { deadline, pause: Duration::from_millis(1) },
    };
    let how =
        if shared { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
    loop {
        let fd = match file.descriptor() {
            Ok(fd) => fd,
            Err(failure) => return failure.ret(vm),
        };
        match rustix::fs::flock(&*fd, how) {
            Ok(()) => return vm.ret(true),
            Err(Errno::INTR) => continue,
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return file.failure("lock", error).ret(vm),
        }
        let now = Instant::now();
        if queued.deadline.is_some_and(|deadline| deadline <= now) {
            return Failure::Timeout.ret(vm);
        }
        outside::begin(vm, Verb::Acquires, file.waits("lock"))?;
        let next = now.checked_add(queued.pause);
        let at = match (next, queued.deadline) {
            (Some(next), Some(deadline)) => Some(next.min(deadline)),
            (next, _) => next,
        };
        let pause = (queued.pause * 2).min(LONGEST_PAUSE);
        outside::set_data(vm, Queued { deadline: queued.deadline, pause });
        outside::limit_at(vm, at)?;
        if outside::sleeps(vm) {
            return Err(vm.park());
        }
        if let Some(aside) = outside::take_data::<Queued>(vm) {
            queued = *aside;
        }
        outside::finish(vm);
    }
});

/// `f:unlock()`
pub(super) static UNLOCK: Native = Native::leaf("unlock", |vm| {
    let file = this(vm, 1, Limit::Own)?;
    let unlock = |fd: Arc<OwnedFd>| {
        rustix::fs::flock(&*fd, FlockOperation::Unlock).map_err(|error| file.failure("unlock", error))
    };
    let outcome = file.descriptor().and_then(unlock);
    done(vm, outcome)
});
