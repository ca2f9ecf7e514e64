//! Servers of a listener, and what they are owed when it is closed.
//!
//! The system resets those who have connected and whom nobody has accepted when a listener is closed. They
//! are clients that were told "connected". So as long as a server *keeps* the listener (`l:serve`,
//! `rpc.serve`), whoever closes it accepts them first: they are its *rest*, which `accept` hands out before
//! it says "closed". Each keeper is told of the close, by a channel: a server that has no room for more does
//! not accept, and would not hear of it.
//!
//! Who closes a listener may wait for the keepers to leave, and say how long that may take
//! (`l:close(grace)`): they are told, and tell whether they had to cancel anything.
//!
//! A listener without keepers is closed as it is: nobody would take the rest, and a connection that lies
//! there answers nobody and is not reset either. For the same reason the rest goes with the last keeper.
//!
//! Rejected: counting those who wait in `accept` as keepers (a loop that computes is none then, though it
//! goes on; and who waits has taken all there was).

use crate::listener::{LISTENER, Listener};
use crate::slot::{Left, Slot, Wakes};
use crate::stream::Stream;
use parking_lot::Mutex;
use perilune_domain::objects::fill;
use perilune_domain::outside::{self, Inlet, Turn, Waiter};
use perilune_trace::event::Verb;
use perilune_vm::parcel::Parcel;
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use std::collections::VecDeque;
use std::sync::Arc;

/// The kind of keepers.
static KEEPER: SharedKind = SharedKind::new("keeper of a listener", open);

/// Of a listener: who keeps it, and what was accepted when it was closed.
#[derive(Default)]
pub struct Kept {
    state: Mutex<State>,
    /// Who waits until nobody keeps it.
    left: Slot<Arc<Waiter>>,
}

#[derive(Default)]
struct State {
    /// By their numbers, with what tells each of them.
    keepers: Vec<(u64, Inlet)>,
    begun: u64,
    rest: VecDeque<Arc<Stream>>,
    /// A keeper has cancelled what was going on.
    gave_up: bool,
}

impl Kept {
    /// Whether somebody goes on accepting when it is closed.
    pub fn is_kept(&self) -> bool {
        !self.state.lock().keepers.is_empty()
    }

    /// One that is accepted by whoever closes the listener.
    pub fn put(&self, stream: Arc<Stream>) {
        self.state.lock().rest.push_back(stream);
    }

    /// The next one of the rest.
    pub fn take(&self) -> Option<Arc<Stream>> {
        self.state.lock().rest.pop_front()
    }

    /// Tells the keepers that the listener is closed, and how many seconds there are for what is going on, if
    /// whoever closes it says so. Under no lock.
    pub fn tell(&self, grace: Option<f64>) {
        for (_, inlet) in &self.state.lock().keepers {
            if let Some(message) = Parcel::of_plain(grace.map_or(Value::TRUE, Value::float)) {
                inlet.send(message);
            }
        }
    }
}

/// What is put aside by who waits for the keepers: dropped with the wait, it takes the waiter back.
struct Waits {
    listener: Arc<Listener>,
    left: Left,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.listener.kept.left.take_back(self.left);
    }
}

/// Waits until nobody keeps a listener that is closed. True: nothing had to be cancelled. Nothing is pushed
/// before.
///
/// # Errors
/// The park, or what ended the wait; or nothing can wait here.
pub fn wait_for_keepers(vm: &mut Vm, listener: &Arc<Listener>) -> LuaResult<bool> {
    let kept = &listener.kept;
    loop {
        kept.left.clear();
        {
            let state = kept.state.lock();
            if state.keepers.is_empty() {
                return Ok(!state.gave_up);
            }
        }
        let waiter = outside::begin(vm, Verb::Ends, Arc::clone(listener) as _)?;
        if let Ok(left) = kept.left.leave(waiter) {
            outside::set_data(vm, Waits { listener: Arc::clone(listener), left });
            if outside::sleeps(vm) {
                return Err(vm.park());
            }
            drop(outside::take_data::<Waits>(vm));
        }
        outside::finish(vm);
    }
}

/// The beginning of a turn of a native that may have waited for keepers. True: it has.
///
/// # Errors
/// The park, or what ended the wait.
pub fn has_waited_for_keepers(vm: &mut Vm) -> LuaResult<bool> {
    match outside::woken(vm)? {
        Turn::First => Ok(false),
        Turn::Asleep => Err(vm.park()),
        Turn::Woken(..) => {
            drop(outside::take_data::<Waits>(vm));
            outside::finish(vm);
            Ok(true)
        }
    }
}

/// One server of a listener.
struct Keeper {
    listener: Arc<Listener>,
    number: u64,
}

impl Keeper {
    /// False: it has left before.
    fn leave(&self) -> bool {
        let mut state = self.listener.kept.state.lock();
        let Some(at) = state.keepers.iter().position(|(number, ..)| *number == self.number) else {
            return false;
        };
        let keeper = state.keepers.swap_remove(at);
        let is_last = state.keepers.is_empty();
        let rest = if is_last { std::mem::take(&mut state.rest) } else { VecDeque::new() };
        drop(state);
        drop(keeper);
        if is_last {
            self.listener.kept.left.raise(false, Wakes::All);
        }
        for stream in rest {
            stream.abort();
        }
        true
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.leave();
    }
}

impl SharedObject for Keeper {
    fn kind(&self) -> &'static SharedKind {
        &KEEPER
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(vm, mt, &[&GIVE_UP], &[("__close", &AT_SCOPE_END)])
}

/// `keeper:give_up()`: it cancels what is going on.
static GIVE_UP: Native = Native::leaf("give_up", |vm| {
    let keeper: Arc<Keeper> = vm.check_shared_arc(1, &KEEPER)?;
    keeper.listener.kept.state.lock().gave_up = true;
    Ok(0)
});

static AT_SCOPE_END: Native = Native::leaf("close", |vm| {
    let keeper: Arc<Keeper> = vm.check_shared_arc(1, &KEEPER)?;
    keeper.leave();
    Ok(0)
});

/// `keep(listener)`: a keeper, which is one until it is closed, and a channel that gets a message when the
/// listener is closed: for how many seconds things may go on, or true. Nothing for what is no listener. For
/// servers written in Lua.
pub static KEEP: Native = Native::leaf("keep", |vm| {
    if vm.arg(1).as_table().is_some() {
        return Ok(0);
    }
    let listener: Arc<Listener> = vm.check_shared_arc(1, &LISTENER)?;
    let (channel, inlets) = outside::inlets(vm, 1, "the end of a listener".into(), 1)?;
    let mut number = 0;
    {
        let mut state = listener.kept.state.lock();
        for inlet in inlets {
            state.begun += 1;
            number = state.begun;
            state.keepers.push((number, inlet));
        }
    }
    if listener.is_closed() {
        listener.kept.tell(None);
    }
    let keeper = vm.shared_ref(Arc::new(Keeper { listener, number }));
    vm.push(keeper.into());
    vm.push(channel);
    Ok(2)
});
