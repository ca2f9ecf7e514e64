//! The flag that a task, its wait and its domain share.
//!
//! Cancelling sets the flag and calls every hook once: the waiter of the wait that the task is in, the interrupt of
//! the domain that runs it, the tokens of tasks that it has started. Who adds a hook when the flag is already set has it
//! called at once, so there is no moment in which a cancellation is missed. Hooks are called under no lock.

use super::waiter::{Reason, Waiter};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a cancellation does beside setting the flag.
pub enum Hook {
    /// Ends a wait with [`Reason::Cancelled`].
    Wake(Arc<Waiter>),
    /// Cancels another token too.
    Child(CancelToken),
    /// Anything else that is short and does not wait: interrupting a domain.
    Call(Box<dyn FnOnce() + Send>),
}

/// A shared flag that is set once. Clones share it.
#[derive(Clone, Default)]
pub struct CancelToken(Arc<Shared>);

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    hooks: Mutex<Hooks>,
}

#[derive(Default)]
struct Hooks {
    list: Vec<(u64, Hook)>,
    added: u64,
}

/// Names a hook, for [`CancelToken::remove`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HookId(u64);

impl CancelToken {
    /// A flag that is not set.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Whether the task has been cancelled. Costs a load.
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::Acquire)
    }

    /// Sets the flag and calls the hooks. False: it was set.
    pub fn cancel(&self) -> bool {
        let hooks = {
            let mut hooks = self.lock();
            if self.0.cancelled.swap(true, Ordering::AcqRel) {
                return false;
            }
            std::mem::take(&mut hooks.list)
        };
        for (_, hook) in hooks {
            hook.call();
        }
        true
    }

    /// Adds a hook; calls it at once if the flag is set.
    pub fn add(&self, hook: Hook) -> HookId {
        let mut hooks = self.lock();
        hooks.added += 1;
        let id = HookId(hooks.added);
        if self.is_cancelled() {
            drop(hooks);
            hook.call();
        } else {
            hooks.list.push((id.0, hook));
        }
        id
    }

    /// Takes a hook back. False: it has been called, or is about to be.
    pub fn remove(&self, id: HookId) -> bool {
        let mut hooks = self.lock();
        let found = hooks.list.iter().rposition(|(i, _)| *i == id.0).map(|at| hooks.list.swap_remove(at));
        drop(hooks); // before the hook: what it owns may be dropped with it
        found.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Hooks> {
        self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hook {
    fn call(self) {
        match self {
            Hook::Wake(waiter) => {
                waiter.wake(Reason::Cancelled);
            }
            Hook::Child(token) => {
                token.cancel();
            }
            Hook::Call(f) => f(),
        }
    }
}
