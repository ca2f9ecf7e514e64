//! `require "perilune.signal"`: signals as messages of a channel.
//!
//! The handler does what handlers may: it sets a bit and writes to an event descriptor. The poller watches
//! that, and sends to the channels: a service that waits in `pl.select` for a connection, a timer or SIGTERM
//! is woken as by anything else. Signals merge, as the system's own do: a channel holds [`MOST`] messages,
//! and more are dropped.
//!
//! # Whose signal it is
//! The first channel for a signal takes it from whoever had it (the system's default action, the command's
//! Ctrl-C). It goes back to them when no channel for it is open any more, at the next signal, which then does
//! what it would have done. So a second Ctrl-C ends a program whose handling of the first one has closed its
//! channel.
//!
//! Rejected: `signalfd` (the signal has to be blocked in every thread, and threads of the process are there
//! already when a program asks for one); the crate signal-hook (a registry of handlers that never gives a
//! signal back, and a pipe or thread of its own beside the poller); a flag that the interpreter polls (a
//! program that waits polls nothing).

use crate::failure::Failure;
use crate::poller::{self, Backlog, Registration};
use crate::signal_names;
use crate::sys::signal::{self as system, Reserved};
use parking_lot::Mutex;
use perilune_domain::outside::{self, Inlet};
use perilune_vm::parcel::Parcel;
use perilune_vm::{LuaResult, Native, Vm};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// Messages that wait in a channel.
const MOST: usize = 16;

/// Signals that have come and were not told, a bit for each.
static PENDING: AtomicU64 = AtomicU64::new(0);
/// The event descriptor, for the handler.
static BELL: AtomicI32 = AtomicI32::new(-1);
/// What is listened to.
static DESK: Mutex<Option<Desk>> = Mutex::new(None);

struct Desk {
    #[allow(dead_code, reason = "the poller knows it weakly")]
    bell: Arc<Bell>,
    signals: HashMap<i32, Listened>,
}

/// A signal that is listened to.
struct Listened {
    /// With the message that goes to each.
    inlets: Vec<(Inlet, Parcel)>,
    before: system::Before,
}

/// What the handler rings.
struct Bell {
    registration: Registration,
    fd: OwnedFd,
}

/// Does nothing but an atomic operation and a write, both safe in a handler.
extern "C" fn on_signal(signal: i32) {
    PENDING.fetch_or(1 << (signal - 1), Ordering::AcqRel);
    // It is never closed.
    system::ring(BELL.load(Ordering::Acquire));
}

impl Bell {
    fn new() -> Result<Arc<Bell>, Errno> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let registration = poller::register(&fd)?;
        BELL.store(fd.as_raw_fd(), Ordering::Release);
        let bell = Arc::new(Bell { registration, fd });
        let owner: Weak<Bell> = Arc::downgrade(&bell);
        bell.registration.source.set_owner(owner);
        bell.read_backlog();
        Ok(bell)
    }
}

impl Backlog for Bell {
    /// The handler has rung.
    fn read_backlog(&self) {
        loop {
            self.registration.source.read.clear();
            let mut count = [0; 8];
            let _ = rustix::io::read(&self.fd, &mut count);
            let pending = PENDING.swap(0, Ordering::AcqRel);
            for signal in (1..=system::LAST).filter(|signal| pending >> (signal - 1) & 1 == 1) {
                tell(signal);
            }
            if self.registration.source.read.set_backlog() {
                return;
            }
        }
    }
}

/// Sends it to all channels. If there are none any more, it is what it was before, and happens.
fn tell(signal: i32) {
    let mut desk = DESK.lock();
    let Some(signals) = desk.as_mut().map(|desk| &mut desk.signals) else { return };
    let Some(listened) = signals.get_mut(&signal) else { return };
    let mut gone = Vec::new();
    let all = std::mem::take(&mut listened.inlets);
    for (inlet, message) in all {
        if inlet.send(message.clone()) {
            listened.inlets.push((inlet, message));
        } else {
            gone.push(inlet);
        }
    }
    let before = if listened.inlets.is_empty() { signals.remove(&signal).map(|l| l.before) } else { None };
    if let Some(before) = &before {
        system::give_back(signal, before);
    }
    drop(desk);
    drop(gone);
    if before.is_some() {
        system::send_to_self(signal);
    }
}

/// Makes a signal a message to this channel.
fn listen(signal: i32, inlet: Inlet, message: Parcel) -> Result<(), Errno> {
    let mut desk = DESK.lock();
    if desk.is_none() {
        let bell = Bell::new()?;
        *desk = Some(Desk { bell, signals: HashMap::new() });
    }
    let Some(signals) = desk.as_mut().map(|desk| &mut desk.signals) else { return Err(Errno::INVAL) };
    if let Some(listened) = signals.get_mut(&signal) {
        let (open, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut listened.inlets).into_iter().partition(|(inlet, _)| inlet.is_open());
        listened.inlets = open;
        listened.inlets.push((inlet, message));
        drop(desk);
        drop(gone);
        return Ok(());
    }
    // The bell that the handler rings is there.
    let before = system::catch(signal, on_signal)?;
    signals.insert(signal, Listened { inlets: vec![(inlet, message)], before });
    Ok(())
}

/// Why nobody may listen to it.
fn refusal(signal: i32) -> Option<&'static str> {
    Some(match system::reserved(signal)? {
        Reserved::Uncatchable => "no program can catch it",
        Reserved::Fault => "it tells of a fault of the process itself",
        Reserved::Urgent => "tools attach by it",
        Reserved::Child => "p:wait() tells the end of a process",
        Reserved::Library => "it belongs to the C library",
    })
}

/// The module.
pub static MODULE: Native = Native::leaf("perilune.signal", |vm| {
    outside::enter(vm);
    let module = vm.new_table(0, 1)?;
    vm.push(module.into());
    vm.register(module, &[&ON])?;
    vm.ret(module)
});

/// `signal.on(name, ...)`: a channel that gets the names of these signals when they come.
static ON: Native = Native::leaf("on", on);

fn on(vm: &mut Vm) -> LuaResult<u32> {
    let mut signals = Vec::new();
    for n in 1..=vm.nargs().max(1) {
        let signal = signal_names::check(vm, n, None)?;
        if let Some(why) = refusal(signal) {
            let text = format!("signal {} cannot be listened to: {why}", signal_names::name(signal));
            return Err(vm.arg_error(n, &text));
        }
        signals.push(signal);
    }
    let names: Vec<String> = signals.iter().map(|signal| signal_names::name(*signal)).collect();
    let (channel, inlets) = outside::inlets(vm, MOST, format!("signal {}", names.join(", ")), signals.len())?;
    vm.push(channel);
    for ((signal, name), inlet) in signals.into_iter().zip(names).zip(inlets) {
        let text = vm.value_str(name.as_bytes())?;
        let Some(message) = Parcel::of_plain(text) else { continue };
        if let Err(error) = listen(signal, inlet, message) {
            return Failure::from(error).of(|| format!("cannot listen to signal {name}")).ret(vm);
        }
    }
    Ok(1)
}
