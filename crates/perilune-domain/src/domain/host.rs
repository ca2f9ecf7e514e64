//! What the domain is to its state: whom it gives the domain up to while code blocks, how the root chain
//! waits, what tools are told.
//!
//! [`Host::detach`] and [`Host::wait_root`] give the domain up although `&mut Vm` exists further up the
//! stack. Whoever calls them has shown by that reference that it is the owner, and does not use it before it
//! has the domain again; so the ownership's proof is made anew for the hand-over (`Ownership::reclaim`).

use super::Domain;
use crate::listing;
use crate::module::error_text;
use crate::sched::Reason;
use crate::{untold, wait};
use perilune_trace::event::{self, Name};
use perilune_trace::fibers::Line;
use perilune_trace::{Category, FiberRef, emit, on};
use perilune_vm::host::Descriptors;
use perilune_vm::{Host, Value, Vm};
use std::sync::atomic::Ordering;

impl Host for Domain {
    fn is_wanted(&self) -> bool {
        self.interested.load(Ordering::Relaxed) != 0
    }
    unsafe fn detach(&self) {
        // SAFETY: the caller owns the domain, by its state, and uses neither before it has it again.
        let mut owned = unsafe { self.ownership.reclaim() };
        if let Some((_, seat)) = &mut self.holder(&mut owned).local().seat
            && seat.lend()
        {
            self.ownership.poke();
        }
        self.do_deferred();
        self.runtime.untold().domain_is_idle();
        self.ownership.detach(owned);
    }
    unsafe fn attach(&self) {
        let Some(mut owned) = self.ownership.attach() else {
            unreachable!("a domain is not closed while a fiber of it is alive");
        };
        self.pass_interrupt();
        if let Some((_, seat)) = &mut self.holder(&mut owned).local().seat {
            seat.busy();
        }
        owned.lend();
    }
    unsafe fn wait_root(&self) {
        // SAFETY: as in `detach`.
        let mut owned = unsafe { self.ownership.reclaim() };
        let wait = self.holder(&mut owned).local().root_wait.as_ref();
        let Some(root) = wait.and_then(|w| w.root.clone()) else { return owned.lend() };
        *self.root_waiter.lock() = Some(root.clone());
        // An interrupt that came before the waiter was there to be woken.
        if !self.is_interrupted() {
            self.do_deferred();
            self.runtime.untold().domain_is_idle();
            match self.ownership.wait(owned, &root) {
                Some(back) => owned = back,
                None => unreachable!("the main domain is not closed while its program runs"),
            }
        }
        owned.lend();
        *self.root_waiter.lock() = None;
        if self.is_interrupted() {
            root.wake(Reason::Cancelled);
        }
        self.pass_interrupt();
    }
    fn withdraw(&self, vm: &mut Vm, fiber: Option<u64>) {
        if let Some(wait) = self.owner(vm).wait_place(fiber).and_then(Option::take) {
            wait::end(self, wait);
        }
    }
    fn takes_interrupt(&self) -> bool {
        if self.is_main {
            self.interrupted.store(true, Ordering::SeqCst);
            self.interrupt_root();
        }
        self.is_main
    }
    fn descriptors(&self) -> Option<&'static dyn Descriptors> {
        self.runtime.config().descriptors
    }
    fn live_fibers(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }
    fn error_is_lost(&self, fiber: Option<u64>, error: Value) {
        let who = self.who(fiber);
        untold::say(&format!(
            "perilune: {who}, which is being cancelled, has failed as it closed a variable: {}\n",
            error_text(error)
        ));
    }
    fn process_ends(&self) {
        self.runtime.domains().iter().for_each(|d| d.do_deferred());
        self.runtime.untold().tell_all();
    }
    fn report_waits(&self, vm: &mut Vm) {
        // There may be very many, and a session that wants neither.
        if !on(Category::Life) && !on(Category::Wait) {
            return;
        }
        for (id, thread) in self.fibers(vm) {
            let (fiber, stack) = (vm.fiber_ref(id), vm.parked_stack(Some(thread)));
            let name = Name(self.name_of_fiber(vm, id, thread));
            emit(event::FiberBegin { fiber, name });
            if let Some(wait) = self.owner(vm).slot(id).and_then(|slot| slot.wait.as_ref()) {
                wait.report(fiber, stack);
            }
        }
        let stack = vm.parked_stack(None);
        if let Some(wait) = &self.owner(vm).local().root_wait {
            wait.report(FiberRef::root(self.id), stack);
        }
    }
    fn answer_questions(&self, vm: &mut Vm) {
        for part in self.asked.take() {
            part.answer(self.name(), listing::seen(self, vm));
        }
    }
    fn list_fibers(&self, vm: &mut Vm) -> Vec<Line> {
        listing::fibers(self, vm)
    }
    fn gives_up(&self, vm: &mut Vm, fiber: Option<u64>) -> bool {
        let place = self.owner(vm).wait_place(fiber);
        if place.and_then(|wait| wait.as_ref()).is_none_or(wait::give_up) {
            return true;
        }
        if let Some(id) = fiber {
            self.cancels.lock().retain(|(other, _)| *other != id);
            if !self.is_to_be_cancelled_late(id) {
                self.late_cancels.lock().push(id);
                self.has_late_cancels.store(true, Ordering::Relaxed);
            }
        }
        false
    }
    fn is_cancelled(&self, fiber: Option<u64>) -> bool {
        fiber.is_some_and(|id| {
            let is_listed = self.cancels.lock().iter().any(|(listed, _)| *listed == id);
            is_listed || self.is_to_be_cancelled_late(id)
        })
    }
}
