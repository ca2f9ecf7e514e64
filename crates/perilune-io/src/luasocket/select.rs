//! `select`: one wait for many descriptors, which leaves its waiter in the slots of all of them.

use super::{Handle, open_handle};
use crate::slot::{Left, Wakes};
use crate::waiting::{Side, Waited};
use perilune_domain::outside::{self, Awaited, Turn, Waiter};
use perilune_trace::ObjectKind;
use perilune_trace::event::Verb;
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a `select` has left.
struct Selecting {
    handles: Vec<(Arc<Handle>, Side)>,
    left: Vec<Left>,
    deadline: Option<Instant>,
}

impl Drop for Selecting {
    fn drop(&mut self) {
        for ((handle, side), left) in self.handles.iter().zip(&self.left) {
            let slot = match side {
                Side::Read => &handle.source().read,
                Side::Write => &handle.source().write,
            };
            slot.take_back(*left);
            // Another fiber may have waited for the same.
            if slot.may_be_ready() {
                slot.wake(Wakes::One);
            }
        }
    }
}

fn handles(vm: &mut Vm, n: u32, side: Side, found: &mut Vec<(Arc<Handle>, Side)>) -> LuaResult<()> {
    let list: Gc<Table> = vm.check_table(n)?;
    for at in 1..=vm.raw_len(list) {
        match open_handle(vm.raw_get_int(list, at).as_int()) {
            Some(handle) => found.push((handle, side)),
            None => return Err(vm.error("select failed: a descriptor that is none of LuaSocket's")),
        }
    }
    Ok(())
}

/// `wait_for(reads, writes, seconds)`: lists of descriptors become two lists of those that are ready, with
/// gaps: entry n is the descriptor, or false.
pub(super) static WAIT_FOR: Native = Native::leaf("wait_for", |vm| {
    let mut progress = match outside::woken(vm)? {
        Turn::First => {
            outside::give_way(vm)?;
            let span = vm.opt_num(3, -1.0)?;
            let span = (span >= 0.0).then(|| Duration::try_from_secs_f64(span).ok()).flatten();
            (span.and_then(|s| Instant::now().checked_add(s)), false)
        }
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(..) => {
            let selecting = outside::take_data::<Selecting>(vm);
            outside::finish(vm);
            (selecting.and_then(|s| s.deadline), false)
        }
    };
    let mut all = Vec::new();
    handles(vm, 1, Side::Read, &mut all)?;
    handles(vm, 2, Side::Write, &mut all)?;
    loop {
        progress.1 = progress.0.is_some_and(|d| d <= Instant::now());
        for (handle, side) in &all {
            match side {
                Side::Read => handle.source().read.clear(),
                Side::Write => handle.source().write.clear(),
            }
        }
        let ready = look(&all);
        if progress.1 || ready.iter().any(|&r| r) {
            return push_ready(vm, &all, &ready);
        }
        let words = Arc::new(Several(all.len()));
        let waiter = outside::begin(vm, Verb::Selects, words)?;
        let mut selecting = Selecting { handles: all.clone(), left: Vec::new(), deadline: progress.0 };
        if !leave(&mut selecting, &waiter) {
            drop(selecting);
            outside::finish(vm);
            continue;
        }
        outside::set_data(vm, selecting);
        if progress.0.is_some() {
            outside::limit_at(vm, progress.0)?;
        }
        if outside::sleeps(vm) {
            return Err(vm.park());
        }
        drop(outside::take_data::<Selecting>(vm));
        outside::finish(vm);
    }
});

fn leave(selecting: &mut Selecting, waiter: &Arc<Waiter>) -> bool {
    for (handle, side) in &selecting.handles {
        let slot = match side {
            Side::Read => &handle.source().read,
            Side::Write => &handle.source().write,
        };
        match slot.leave(Arc::clone(waiter)) {
            Ok(left) => selecting.left.push(left),
            Err(_) => return false,
        }
    }
    true
}

/// Which of them are ready now.
fn look(all: &[(Arc<Handle>, Side)]) -> Vec<bool> {
    let mut fds: Vec<PollFd<'_>> = all
        .iter()
        .map(|(handle, side)| {
            PollFd::new(&handle.fd, if *side == Side::Read { PollFlags::IN } else { PollFlags::OUT })
        })
        .collect();
    let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    match rustix::event::poll(&mut fds, Some(&zero)) {
        Ok(_) => fds.iter().map(|fd| !fd.revents().is_empty()).collect(),
        Err(_) => vec![false; all.len()],
    }
}

fn push_ready(vm: &mut Vm, all: &[(Arc<Handle>, Side)], ready: &[bool]) -> LuaResult<u32> {
    for wanted in [Side::Read, Side::Write] {
        let list = vm.new_table(all.len(), 0)?;
        vm.push(list.into());
        let mut at = 0;
        for ((handle, side), &ready) in all.iter().zip(ready) {
            if *side == wanted {
                at += 1;
                let value = if ready { Value::int(i64::from(handle.fd.as_raw_fd())) } else { Value::FALSE };
                vm.raw_set_int(list, at, value)?;
            }
        }
    }
    Ok(2)
}

/// What a `select` waits for.
struct Several(usize);

impl Awaited for Several {
    fn kind(&self) -> ObjectKind {
        ObjectKind::Several
    }
    fn name(&self) -> String {
        format!("{} sockets", self.0)
    }
}
