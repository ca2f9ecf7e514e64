//! Semaphores: `pl.semaphore(n)`, so that at most `n` do something at once, in whichever domains they are.
//!
//! A permit that is given back goes to whoever has waited longest, directly: nobody who came later takes it,
//! and no wake-up is lost. The one it goes to has it from the moment in which its wait is claimed; if it
//! never comes to take it (the domain ends), what its wait has put aside gives it back ([`Grant`]).

use crate::sched::{Reason, Waiter};
use crate::surplus;
use crate::time::{opt_limit, refuse_late};
use crate::wait::{self, Object, Turn};
use parking_lot::Mutex;
use perilune_trace::event::Verb;
use perilune_trace::{Identity, ObjectKind};
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use std::collections::VecDeque;
use std::sync::Arc;

/// The kind of semaphores.
pub static SEMAPHORE: SharedKind = SharedKind::new("semaphore", open);

/// Key of the metatable of permits in the registry.
const PERMIT: &str = "perilune.permit";

/// A number of permits.
pub(crate) struct Semaphore {
    total: usize,
    state: Mutex<State>,
    order: crate::races::Order,
    pub identity: Identity,
}

struct State {
    free: usize,
    waiters: VecDeque<Arc<Waiter>>,
    prune_at: usize,
}

impl SharedObject for Semaphore {
    fn kind(&self) -> &'static SharedKind {
        &SEMAPHORE
    }
}

impl Semaphore {
    /// What reports call it.
    pub fn describe(&self) -> String {
        format!("a semaphore of {}", self.total)
    }

    fn try_acquire(&self) -> bool {
        let mut state = self.state.lock();
        let is_free = state.free > 0;
        state.free -= is_free as usize;
        is_free
    }

    /// Waits for a permit; false: there is one.
    fn queue(&self, waiter: &Arc<Waiter>) -> bool {
        let mut state = self.state.lock();
        if state.free > 0 {
            return false;
        }
        if state.waiters.len() >= state.prune_at.max(16) {
            state.waiters.retain(|w| w.woken().is_none());
            state.prune_at = state.waiters.len() * 2;
        }
        state.waiters.push_back(Arc::clone(waiter));
        true
    }

    /// Gives one back. False: there are all already.
    fn release(&self) -> bool {
        loop {
            let mut state = self.state.lock();
            let Some(waiter) = state.waiters.pop_front() else {
                let is_out = state.free < self.total;
                state.free += is_out as usize;
                return is_out;
            };
            drop(state);
            if waiter.claim(Reason::Ready, 0).is_some() {
                return true;
            }
        }
    }
}

/// A permit that may be given while its waiter waits.
struct Grant {
    semaphore: Arc<Semaphore>,
    waiter: Arc<Waiter>,
    taken: bool,
}

impl Drop for Grant {
    fn drop(&mut self) {
        if !self.taken && matches!(self.waiter.woken(), Some((Reason::Ready, _))) {
            self.semaphore.release();
        }
    }
}

/// A permit that somebody has.
struct Permit(Option<Arc<Semaphore>>);

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(semaphore) = self.0.take() {
            semaphore.release();
        }
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    crate::objects::fill(vm, mt, &[&ACQUIRE, &TRY_ACQUIRE, &RELEASE, &TAKE_PERMIT, &FREE], &[])?;
    let methods = vm.get_field(mt, "__index")?;
    if let Some(methods) = methods.as_table() {
        let with = crate::module::prelude(vm, "with_permit")?;
        vm.set_field(methods, "with", with)?;
    }
    Ok(())
}

/// `pl.semaphore(n)`
pub(crate) static NEW: Native = Native::leaf("semaphore", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let n = vm.check_int(1)?;
    if n < 1 {
        return Err(vm.arg_error(1, "a semaphore has at least one permit"));
    }
    let total = usize::try_from(n).unwrap_or(usize::MAX);
    let semaphore = Semaphore {
        total,
        state: Mutex::new(State { free: total, waiters: VecDeque::new(), prune_at: 0 }),
        order: crate::races::Order::new(),
        identity: Identity::new(ObjectKind::Semaphore),
    };
    let semaphore = vm.shared_ref(Arc::new(semaphore));
    vm.ret(semaphore)
});

fn this(vm: &mut Vm) -> LuaResult<Arc<Semaphore>> {
    vm.check_shared_arc(1, &SEMAPHORE)
}

/// Waits for a permit. False: the time was over before there was one.
fn acquire(vm: &mut Vm, semaphore: &Arc<Semaphore>) -> LuaResult<bool> {
    loop {
        match wait::woken(vm)? {
            Turn::First => {
                let limit = opt_limit(vm, 2)?;
                if semaphore.try_acquire() {
                    semaphore.order.enter(vm);
                    return Ok(true);
                }
                if limit.is_over() {
                    return Ok(false);
                }
                let waiter = wait::begin(vm, Verb::Acquires, Object::Semaphore(Arc::clone(semaphore)))?;
                limit.set(vm)?;
                let grant =
                    Grant { semaphore: Arc::clone(semaphore), waiter: Arc::clone(&waiter), taken: false };
                wait::set_data(vm, grant);
                if !semaphore.queue(&waiter) {
                    wait::finish(vm);
                } else if wait::sleeps(vm) {
                    return Err(vm.park());
                }
            }
            Turn::Asleep => return Err(vm.park()),
            Turn::Woken(Reason::Ready, _) => {
                if let Some(grant) = wait::data::<Grant>(vm) {
                    grant.taken = true;
                }
                wait::finish(vm);
                semaphore.order.enter(vm);
                return Ok(true);
            }
            Turn::Woken(..) => {
                wait::finish(vm);
                return Ok(false);
            }
        }
    }
}

/// `s:acquire([seconds])`: true with a permit, or `nil, "timeout"`.
static ACQUIRE: Native = Native::leaf("acquire", |vm| {
    let semaphore = this(vm)?;
    if acquire(vm, &semaphore)? { vm.ret(true) } else { refuse_late(vm) }
});

/// `s:try_acquire()`: whether there was a permit, which the caller has now.
static TRY_ACQUIRE: Native = Native::leaf("try_acquire", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let semaphore = this(vm)?;
    let has = semaphore.try_acquire();
    if has {
        semaphore.order.enter(vm);
    }
    vm.ret(has)
});

/// `s:release()`
static RELEASE: Native = Native::leaf("release", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let semaphore = this(vm)?;
    semaphore.order.leave(vm);
    if semaphore.release() {
        return Ok(0);
    }
    Err(vm.error("the semaphore has all its permits: release without acquire"))
});

/// `s:free()`: how many permits nobody has; others may be taking them.
static FREE: Native = Native::leaf("free", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let free = this(vm)?.state.lock().free;
    vm.ret(i64::try_from(free).unwrap_or(i64::MAX))
});

/// `s:permit([seconds])`: a permit for a to-be-closed variable, or `nil, "timeout"`.
static TAKE_PERMIT: Native = Native::leaf("permit", |vm| {
    let semaphore = this(vm)?;
    if !acquire(vm, &semaphore)? {
        return refuse_late(vm);
    }
    let held = Permit(Some(semaphore));
    let (mt, is_new) = vm.new_metatable(PERMIT)?;
    if is_new {
        crate::objects::fill(vm, mt, &[], &[("__close", &GIVE_BACK)])?;
        vm.set_field(mt, "__metatable", Value::FALSE)?;
    }
    let permit = vm.new_userdata(held, 0)?;
    vm.set_metatable_of(permit.into(), Some(mt))?;
    vm.ret(Value::from(permit))
});

/// The end of the variable that holds a permit.
static GIVE_BACK: Native = Native::leaf("close", |vm| {
    let Some(handle) = vm.arg(1).as_userdata() else { return Ok(0) };
    let semaphore = match vm.userdata_mut::<Permit>(handle) {
        Some(permit) => permit.0.take(),
        None => None,
    };
    if let Some(semaphore) = semaphore {
        semaphore.order.leave(vm);
        semaphore.release();
    }
    Ok(0)
});
