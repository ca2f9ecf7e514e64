//! The pump: what a worker thread does with a domain that is ready, until there is nothing to do.
//!
//! In this order: fibers that are to be cancelled, what tools want, fibers that are ready, the pool's work,
//! failures that nobody has been told of. A fiber runs until it parks or ends. When there is nothing left the
//! ownership is given up ([`Ownership::try_leave`](crate::sched::Ownership::try_leave)), which fails if
//! somebody has poked meanwhile. A domain whose body is over is freed when its last fiber has ended.

use super::Domain;
use crate::outcome::Lack;
use crate::pool::{self, Work};
use crate::sched::{Next, Owned, threads, timer};
use crate::spawn;
use crate::wait;
use perilune_trace::emit;
use perilune_trace::event::{self, Bytes, DomainId};
use perilune_vm::parcel::LetGo;
use perilune_vm::{FiberEnd, FiberStep, Host, Vm};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

impl Domain {
    /// Runs a fiber until it parks or ends.
    pub(crate) fn run(self: &Arc<Self>, vm: &mut Vm, id: u64) {
        let Some(slot) = self.owner(vm).slot(id) else { return };
        // A wake that came after its wait had been taken back.
        if slot.wait.as_ref().is_some_and(|w| w.waiter.woken().is_none()) {
            return;
        }
        let (thread, started) = (slot.thread, std::mem::replace(&mut slot.started, true));
        let modules = slot.modules.clone();
        // Or it is in a blocking call by now.
        if started && !vm.is_parked(thread) {
            return;
        }
        if self.is_to_be_cancelled_late(id)
            && let Some(handle) = &*self.interrupt.lock()
        {
            handle.raise_cause(perilune_vm::INTERRUPT_CANCEL);
        }
        // Another task may have brought its own meanwhile.
        if let Some(modules) = modules {
            vm.set_module_search(&modules);
        }
        self.owner(vm).local().operations = 0;
        match vm.run_fiber(thread) {
            FiberStep::Parked => {}
            FiberStep::Done(end) => {
                let local = self.owner(vm).local();
                let at = id as u32;
                let next = Err(((id >> 32) as u32).wrapping_add(1));
                let Ok(slot) = std::mem::replace(&mut local.fibers[at as usize], next) else { return };
                local.free.push(at);
                self.live.fetch_sub(1, Ordering::Relaxed);
                self.interested.fetch_sub(1, Ordering::Relaxed);
                if let Some(wait) = slot.wait {
                    wait::end(self, wait);
                }
                if self.is_to_be_cancelled_late(id) {
                    let mut late = self.late_cancels.lock();
                    late.retain(|late| *late != id);
                    self.has_late_cancels.store(!late.is_empty(), Ordering::Relaxed);
                }
                if slot.strand.is_some() {
                    local.strand = slot.strand;
                }
                let keep = match end {
                    FiberEnd::Returned(n) => n,
                    FiberEnd::Failed { .. } => 1,
                    FiberEnd::Cancelled => 0,
                };
                let below = vm.nargs() - keep;
                (slot.done)(self, vm, end);
                vm.truncate(below);
            }
        }
    }

    /// Runs the domain on a worker thread until there is nothing to do.
    fn pump(self: &Arc<Self>) {
        let Some(mut owned) = self.ownership.begin() else { return };
        let Some(vm) = self.make_state(&mut owned) else {
            return self.go_without_state(owned, &Lack::Memory);
        };
        vm.enter_thread();
        let start = self.owner(vm).local().start.take();
        if let Some(start) = start {
            start(self, Ok(vm));
        }
        loop {
            let vm = self.state_of(&mut owned);
            self.serve_cancels(vm);
            vm.serve_tools();
            if std::mem::take(&mut self.owner(vm).local().work_first) && self.serve_waiting_work(vm) {
                continue;
            }
            match self.ownership.next(&mut owned) {
                Next::Fiber(id) => {
                    if let Some((_, seat)) = &mut self.holder(&mut owned).local().seat {
                        seat.busy();
                    }
                    self.run(self.state_of(&mut owned), id);
                    if self.deferred.is_due() {
                        self.do_deferred();
                    }
                }
                Next::HandOver => {
                    self.state_of(&mut owned).leave_thread();
                    return self.ownership.hand_over(owned);
                }
                Next::Empty => {
                    self.do_deferred();
                    // The pokes until now are forgotten by now: what they have been for is looked for after
                    // that.
                    if self.has_cancels.load(Ordering::Acquire) {
                        continue;
                    }
                    let vm = self.state_of(&mut owned);
                    vm.serve_tools();
                    // Also of one that was asked before it had a state.
                    self.answer_questions(vm);
                    if self.serve_pool(vm) {
                        continue;
                    }
                    if self.looks_for_dead.load(Ordering::Relaxed) {
                        self.collect_dead_handles(vm);
                        continue;
                    }
                    if self.live_fibers() == 0 && self.let_go_of_copies(vm) {
                        continue;
                    }
                    vm.leave_thread();
                    if self.has_ended() && self.live_fibers() == 0 {
                        return self.close(owned);
                    }
                    self.runtime.untold().domain_is_idle();
                    match self.ownership.try_leave(owned) {
                        Ok(()) => return,
                        Err(back) => owned = back,
                    }
                    self.state_of(&mut owned).enter_thread();
                }
            }
        }
    }

    /// There is no memory for a state, or no thread to run it on: what the domain was made for fails. One of
    /// a pool leaves the work to the others; the only one refuses it, and tries again when there is more.
    #[cold]
    fn go_without_state(self: &Arc<Self>, mut owned: Owned, lack: &Lack) {
        let start = self.holder(&mut owned).local().start.take();
        if let Some(start) = start {
            start(self, Err((&mut owned, lack)));
        }
        self.asked.end();
        loop {
            match self.ownership.next(&mut owned) {
                // There are no fibers; what is cancelled or wanted by tools is neither.
                Next::Fiber(_) => {}
                Next::HandOver => return self.ownership.hand_over(owned),
                Next::Empty => {
                    let local = self.holder(&mut owned).local();
                    if let Some((pool, seat)) = &mut local.seat {
                        if pool.has_state() {
                            self.ending.store(true, Ordering::Release);
                            local.seat = None;
                        } else if let Some(work) = seat.take() {
                            let pool = Arc::clone(pool);
                            pool.refuse(work, &self.runtime, lack);
                            continue;
                        } else if pool.queue().is_closed() {
                            self.ending.store(true, Ordering::Release);
                            local.seat = None;
                        } else if !seat.settle() {
                            continue;
                        }
                    }
                    if self.has_ended() {
                        return self.close(owned);
                    }
                    match self.ownership.try_leave(owned) {
                        Ok(()) => return,
                        Err(back) => owned = back,
                    }
                }
            }
        }
    }

    /// Starts what has waited longest for the pool. False: nothing does.
    fn serve_waiting_work(self: &Arc<Self>, vm: &mut Vm) -> bool {
        let Some((pool, seat)) = &mut self.owner(vm).local().seat else { return false };
        if !pool.has_waiting_tasks() {
            return false;
        }
        let Some(work) = seat.take_oldest() else { return false };
        let pool = Arc::clone(pool);
        pool.start(self, vm, work);
        true
    }

    /// Does some of the pool's work. False: there is none; the domain is to be left.
    fn serve_pool(self: &Arc<Self>, vm: &mut Vm) -> bool {
        let local = self.owner(vm).local();
        let Some((pool, seat)) = &mut local.seat else { return false };
        if let Some(work) = seat.take() {
            if let (Work::Task(task), Some(victim)) = (&work, seat.stolen_from()) {
                task.report_stolen(victim);
            }
            let pool = Arc::clone(pool);
            pool.start(self, vm, work);
            return true;
        }
        if pool.queue().is_closed() && self.live_fibers() == 0 {
            self.ending.store(true, Ordering::Release);
            local.seat = None;
            return false;
        }
        !seat.settle()
    }

    /// Collects if a handle of an untold failure may be dead.
    #[cold]
    fn collect_dead_handles(&self, vm: &mut Vm) {
        self.looks_for_dead.store(false, Ordering::Relaxed);
        let Some(newest) = newest_untold(vm) else { return };
        if self.owner(vm).local().sweeps.is_due(newest) {
            vm.collect_full();
            let left = newest_untold(vm);
            self.owner(vm).local().sweeps.done(left);
        }
    }

    /// Without fibers and work: lets go of copies that nothing comes for any more, now or later. True: that
    /// may take more.
    fn let_go_of_copies(self: &Arc<Self>, vm: &mut Vm) -> bool {
        match vm.let_go_of_copies(Instant::now) {
            LetGo::Nothing => false,
            LetGo::Step => true,
            LetGo::Later(due) => {
                if !self.rests.swap(true, Ordering::Relaxed) {
                    let me = Arc::downgrade(self);
                    timer::after(due, move || {
                        if let Some(domain) = me.upgrade() {
                            domain.rests.store(false, Ordering::Relaxed);
                            domain.poke();
                        }
                    });
                }
                false
            }
        }
    }

    /// The state, made if there is none yet; `None`: there is no memory for one.
    fn make_state<'a>(self: &Arc<Self>, owned: &'a mut Owned) -> Option<&'a mut Vm> {
        if !self.has_state() {
            let limit = self.holder(owned).local().limit;
            let mut vm = crate::module::new_state(&self.runtime, limit)?;
            vm.set_domain_number(self.id);
            vm.set_domain_name(self.name());
            vm.set_host(self.clone());
            *self.interrupt.lock() = Some(vm.interrupt_handle());
            self.vm.store(Box::into_raw(vm), Ordering::Relaxed);
        }
        Some(self.state_of(owned))
    }

    /// Frees the domain's state. The owner's last act.
    fn close(self: &Arc<Self>, owned: Owned) {
        self.do_deferred();
        *self.interrupt.lock() = None;
        self.asked.end();
        let vm = self.vm.swap(std::ptr::null_mut(), Ordering::Relaxed);
        let mut young = 0;
        if self.owned && !vm.is_null() {
            // SAFETY: made by `make_state`; nothing runs in it, and only the owner frees it.
            let mut vm = unsafe { Box::from_raw(vm) };
            young = vm.heap().bytes_since_collection();
            drop(vm);
        }
        emit(event::DomainEnd { domain: DomainId(self.id), young: Bytes::from(young) });
        self.ownership.close(owned);
    }
}

/// The newest failure that nobody has been told of and that the state has a handle of.
fn newest_untold(vm: &Vm) -> Option<u64> {
    vm.shared_objects()
        .filter_map(|object| pool::outcome(object).or_else(|| spawn::outcome(object))?.untold())
        .max()
}

/// Ends the process if it is dropped: a pump that panics leaves a domain in the middle of something, and
/// everybody who waits for it would wait for ever.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        eprintln!("perilune: internal error in a worker thread (see above); please report it");
        std::process::abort();
    }
}

impl threads::Job for Domain {
    fn run(self: Arc<Self>) {
        let bomb = Bomb;
        self.pump();
        std::mem::forget(bomb);
    }
    fn refused(self: Arc<Self>, why: &std::io::Error) -> bool {
        // What is in the middle of something has to go on some time.
        if self.has_state() {
            return false;
        }
        if let Some(owned) = self.ownership.begin() {
            let why = why.raw_os_error().map_or(why.kind().into(), std::io::Error::from_raw_os_error);
            self.go_without_state(owned, &Lack::Thread(why));
        }
        true
    }
}
