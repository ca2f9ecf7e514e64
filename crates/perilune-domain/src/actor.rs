//! Actors: a task with a mailbox: `pl.actor`, `pool:actor`.
//!
//! An actor is a task of a pool whose first argument is a channel without a bound. Its handle sends to this
//! channel, from any domain. While it waits for a message it costs what a task costs that waits: a fiber, no
//! thread and no domain; so there may be a hundred thousand of them. What it keeps between messages are its
//! local variables, which nobody else sees.
//!
//! # The end
//! The actor ends when its function does: at the end of its loop over the mailbox, which comes when the
//! mailbox is closed and empty. The mailbox is closed by `actor:close()`, and when the last handle is gone:
//! the actor itself has the channel and no handle, so it does not keep itself alive. It is closed by the
//! actor's end too (`actor_body` in the prelude), so that whoever sends to an actor that has failed is told.
//!
//! *Rejected*: a domain for each actor (twenty times the memory, and a collector each); a lane for each actor
//! with its state passed along (state would be copied with each message).

use crate::channel::{Channel, Sent, message};
use crate::module::prelude;
use crate::objects::fill;
use crate::outcome;
use crate::pool::{self, Inner, Task, Work};
use crate::surplus;
use crate::time::opt_limit;
use perilune_trace::event::Verb;
use perilune_vm::cycle_collector::{Held, Holder, Registered};
use perilune_vm::parcel::PackRules;
use perilune_vm::shared::{SharedArc, SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Type, Vm};
use std::any::Any;
use std::sync::Arc;

/// The kind of actors.
pub static ACTOR: SharedKind = SharedKind::new("actor", open);

/// An actor as programs handle it.
struct Actor {
    inbox: SharedArc,
    task: SharedArc,
    registered: Registered,
}

impl SharedObject for Actor {
    fn kind(&self) -> &'static SharedKind {
        &ACTOR
    }
    fn holder(&self) -> Option<&dyn Holder> {
        Some(self)
    }
}

impl Holder for Actor {
    fn held(&self, to: &mut Held<'_>) {
        to.shared(&self.inbox);
        to.shared(&self.task);
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        if let Some(inbox) = inner::<Channel>(&self.inbox) {
            inbox.close();
        }
    }
}

fn inner<T: SharedObject>(object: &SharedArc) -> Option<&T> {
    let object: &dyn Any = &**object;
    object.downcast_ref()
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(vm, mt, &[&SEND, &CLOSE, &TASK, &AWAIT], &[("__len", &LEN), ("__close", &CLOSE)])
}

fn this<'a>(vm: &mut Vm) -> LuaResult<&'a Actor> {
    vm.check_shared(1, &ACTOR)
}

fn inbox<'a>(vm: &mut Vm) -> LuaResult<&'a Channel> {
    match inner::<Channel>(&this(vm)?.inbox) {
        Some(channel) => Ok(channel),
        None => Err(vm.type_error(1, "actor")),
    }
}

/// Starts an actor in a pool: argument `first` is its function.
fn start(vm: &mut Vm, pool: &Arc<Inner>, first: u32) -> LuaResult<u32> {
    vm.check_type(first, Type::Function)?;
    if pool.queue().is_closed() {
        return Err(pool::closed(vm, pool));
    }
    let below = vm.nargs();
    let inbox = SharedArc::from(Channel::new(usize::MAX, None));
    let body = prelude(vm, "actor_body")?;
    let mailbox = vm.shared_ref(inbox.clone());
    vm.push(mailbox.into());
    let mut values = vec![body, mailbox.into()];
    values.extend((first..=below).map(|n| vm.arg(n)));
    let parcel = vm.pack_or_raise(&values, PackRules::TASK)?;
    vm.truncate(below);
    let task = Task::new(vm, parcel, None, "an actor".into());
    task.is_for(vm);
    let f = vm.arg(first);
    task.report_created(vm, f);
    if pool.submit(vm, Work::Task(Arc::clone(&task))).is_err() {
        task.dismiss();
        return Err(pool::closed(vm, pool));
    }
    let task = SharedArc::from(task);
    let actor = SharedArc::from(Arc::new(Actor { inbox, task, registered: Registered::default() }));
    if let Some(made) = inner::<Actor>(&actor) {
        made.registered.shared(|| actor.downgrade());
    }
    let actor = vm.shared_ref(actor);
    vm.ret(actor)
}

/// `pl.actor(f, ...)`: an actor in the default pool, which runs `f(mailbox, ...)`.
pub(crate) static NEW: Native = Native::leaf("actor", |vm| {
    let pool = pool::default(vm)?;
    start(vm, &pool, 1)
});

/// `pool:actor(f, ...)`: one in this pool.
pub(crate) static IN_POOL: Native = Native::leaf("actor", |vm| {
    let pool = pool::this(vm)?;
    start(vm, &pool, 2)
});

/// `actor:send(...)`: never waits; an error if the actor has ended or its mailbox is closed.
static SEND: Native = Native::leaf("send", |vm| {
    let inbox = inbox(vm)?;
    let message = message(vm, 2)?;
    // One that was cancelled before it began has not closed its mailbox.
    let actor = this(vm)?;
    let is_over = inner::<Task>(&actor.task).is_some_and(|task| task.outcome().is_done());
    let sent = if is_over { Sent::Closed } else { inbox.try_send(message) };
    match sent {
        Sent::Done => vm.ret(true),
        Sent::NoMemory => Err(vm.out_of_memory()),
        Sent::Full(_) | Sent::Closed => {
            Err(vm.error("the actor takes no more messages: it has ended or was closed"))
        }
    }
});

/// `actor:close()`: it gets what has been sent, and no more. True: it was open.
static CLOSE: Native = Native::leaf("close", |vm| {
    let inbox = inbox(vm)?;
    inbox.closing.leave(vm);
    let first = inbox.close();
    vm.ret(first)
});

/// `actor:task()`: the task that it is.
static TASK: Native = Native::leaf("task", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let task = this(vm)?.task.clone();
    let task = vm.shared_ref(task);
    vm.ret(task)
});

/// `actor:await([seconds])`: what its function returns, or its error; `nil, "timeout"`.
static AWAIT: Native = Native::hybrid("await", |vm| {
    let actor = this(vm)?;
    let limit = opt_limit(vm, 2)?;
    match inner::<Task>(&actor.task) {
        Some(task) => outcome::wait_for(vm, task.outcome(), Verb::Awaits, limit),
        None => Ok(0),
    }
});

/// `#actor`: messages that it has not received.
static LEN: Native = Native::leaf("len", |vm| {
    let n = inbox(vm)?.len() as i64;
    vm.ret(n)
});
