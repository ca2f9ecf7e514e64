//! Where the state's thread and the editor's meet: the editor has a thread of its own, so that timers and
//! fibers run while somebody types.
//!
//! The editor's thread leaves an [`Event`] here, a line or a word that is to be completed, since only the
//! owner of the state knows names. The owner waits for it in a native that parks, if the state is a domain;
//! else nothing else could run, and the thread sleeps.

use crate::repl::complete::{self, Candidate};
use crate::terminal::Line;
use perilune_domain::outside::{self, Awaited, Reason, Turn, Waiter};
use perilune_trace::ObjectKind;
use perilune_trace::event::Verb;
use perilune_vm::{LuaResult, Native, Value, Vm};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What the editor has for the owner of the state.
pub enum Event {
    /// A line, or what else somebody did at the prompt.
    Line(Line),
    /// A word of a line that ends at a byte; where it begins, and what it may become, goes back.
    Complete(String, usize, Sender<(usize, Vec<Candidate>)>),
}

/// There is one terminal.
static DESK: Desk = Desk { state: Mutex::new(State { event: None, waiter: None }), changed: Condvar::new() };
static WAIT: Native = Native::leaf("readline", wait);

struct Desk {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// A later one replaces an earlier one, which was a completion that took too long.
    event: Option<Event>,
    /// The owner, while it is parked.
    waiter: Option<Arc<Waiter>>,
}

fn lock() -> MutexGuard<'static, State> {
    DESK.state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves an event for the owner. For the editor's thread.
pub fn put(event: Event) {
    let mut state = lock();
    state.event = Some(event);
    let waiter = state.waiter.take();
    drop(state);
    DESK.changed.notify_all();
    if let Some(waiter) = waiter {
        waiter.wake(Reason::Ready);
    }
}

/// Whether the owner takes what is there within this time. For the editor's thread.
pub fn is_taken_within(time: Duration) -> bool {
    let state = lock();
    let waited = DESK.changed.wait_timeout_while(state, time, |state| state.event.is_some());
    waited.unwrap_or_else(PoisonError::into_inner).0.event.is_none()
}

/// The line that the editor reads. Completes words meanwhile, and lets others use the domain.
pub fn line(vm: &mut Vm) -> Line {
    let mut may_park = vm.host().is_some();
    loop {
        if may_park {
            let depth = vm.stack_top() as u32;
            // An error ended the wait: the owner waits for this line without letting others run.
            may_park = vm.host_call(Value::native(&WAIT), &[]).is_ok();
            vm.truncate(depth);
        }
        let state = lock();
        let state = DESK.changed.wait_while(state, |state| state.event.is_none());
        let event = state.unwrap_or_else(PoisonError::into_inner).event.take();
        DESK.changed.notify_all();
        match event {
            Some(Event::Line(line)) => return line,
            Some(Event::Complete(line, end, answer)) => {
                // Who asked may have given up.
                let _ = answer.send(complete::complete(Some(vm), &line, end));
            }
            None => {}
        }
    }
}

/// Waits until there is an event.
fn wait(vm: &mut Vm) -> LuaResult<u32> {
    loop {
        match outside::woken(vm)? {
            Turn::Asleep => return Err(vm.park()),
            Turn::Woken(..) => outside::finish(vm),
            Turn::First => {}
        }
        if lock().event.is_some() {
            return Ok(0);
        }
        let waiter = outside::begin(vm, Verb::WaitsFor, Arc::new(Typing))?;
        let mut state = lock();
        if state.event.is_none() {
            state.waiter = Some(waiter);
            drop(state);
            if outside::sleeps(vm) {
                return Err(vm.park());
            }
        }
        outside::finish(vm);
    }
}

/// What the owner waits for, in reports.
struct Typing;

impl Awaited for Typing {
    fn kind(&self) -> ObjectKind {
        ObjectKind::File
    }

    fn name(&self) -> String {
        "the terminal".to_owned()
    }
}
