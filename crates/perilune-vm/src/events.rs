//! What a domain reports of itself: who owns it, which fiber runs.
//!
//! The code of a domain runs between `FiberRun` and `FiberPark`, and these lie between `DomainEnter` and `DomainLeave`, always: a fiber that detaches
//! (`host.rs`) is parked in the eyes of a reader, and runs again when it has attached. The code that is in no fiber counts as one, the *root*.
//! The probes themselves are `perilune-trace`'s; what natives wait for and which tasks there are is reported by `perilune-domain`.

use crate::Vm;
use perilune_trace::{FiberRef, Kind, Writer, emit, names};

/// Where the events of a domain go.
pub(crate) struct Events {
    writer: Box<Writer>,
    domain: u32,
}

impl Default for Events {
    fn default() -> Events {
        Events { writer: Box::new(Writer::new(1)), domain: 1 }
    }
}

/// `c` of `FiberPark`: why a fiber does not run any more.
#[derive(Clone, Copy)]
#[repr(u16)]
pub(crate) enum Parking {
    Waits = 0,
    Returned = 1,
    Failed = 2,
    Cancelled = 3,
    Detached = 4,
}

impl Vm {
    /// The number under which this domain reports its events; 1 until it is set.
    pub fn domain_number(&self) -> u32 {
        self.events.domain
    }

    /// Gives the domain another number. Before anybody has entered.
    pub fn set_domain_number(&mut self, number: u32) {
        self.events.domain = number;
        self.events.writer.set_domain(number);
    }

    /// A fiber as events name it: the one that runs, or the root.
    pub fn running_fiber_ref(&self) -> FiberRef {
        match self.current_fiber() {
            Some(fiber) => self.fiber_ref(self.fiber_tag(fiber)),
            None => FiberRef::root(self.events.domain),
        }
    }

    /// The fiber with this tag as events name it: the low half is the index, the high one the generation.
    pub fn fiber_ref(&self, tag: u64) -> FiberRef {
        FiberRef::new(self.events.domain, (tag >> 32) as u32, tag as u32)
    }

    /// The calling thread made this state and runs it from now on without entering (`Vm::enter_thread`): the main program.
    pub fn enter_main(&mut self) {
        self.report_enter();
        // Nobody has to look the name up while nothing is on.
        if perilune_trace::is_live() {
            emit(Kind::DomainBegin, 0, self.events.domain as u64, names::string(b"main") as u64);
        }
        self.report_run();
    }

    /// The main program is over.
    pub fn leave_main(&mut self) {
        self.report_park(Parking::Returned);
        self.report_leave(false);
        emit(Kind::DomainEnd, 0, self.events.domain as u64, self.heap.bytes_since_collection() as u64);
    }

    /// The calling thread owns the domain.
    pub(crate) fn report_enter(&mut self) {
        // SAFETY: the owner's events; it calls `report_leave` before another thread can own the domain, and the box outlives that.
        unsafe { perilune_trace::emit::enter(&raw mut *self.events.writer) };
        self.sampler_enter();
        if perilune_trace::is_live() {
            emit(Kind::DomainEnter, 0, self.events.domain as u64, perilune_trace::emit::thread_id() as u64);
            perilune_trace::cputime::report();
        }
    }

    /// It gives it up. `detached`: in the middle of something.
    pub(crate) fn report_leave(&mut self, detached: bool) {
        perilune_trace::cputime::report();
        emit(Kind::DomainLeave, if detached { 2 } else { 0 }, self.events.domain as u64, 0);
        self.sampler_leave();
        perilune_trace::emit::leave();
    }

    /// The current fiber (or the root) runs.
    pub(crate) fn report_run(&self) {
        if perilune_trace::is_live() {
            emit(Kind::FiberRun, 0, self.running_fiber_ref().0, 0);
        }
    }

    /// The current fiber (or the root) does not run any more.
    pub(crate) fn report_park(&self, why: Parking) {
        if perilune_trace::is_live() {
            emit(Kind::FiberPark, why as u16, self.running_fiber_ref().0, 0);
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // The writer must not be current any more when it goes.
        perilune_trace::emit::leave_if(&raw mut *self.writer);
    }
}
