//! Channels: messages from domain to domain, and from fiber to fiber.
//!
//! A channel is a queue of parcels behind a lock that is held for a push or a pop, and two lists of those who
//! wait: to receive, because nothing is there; to send, because there is no room. A sender that finds a
//! receiver waiting gives it the message directly; so capacity 0 is a rendezvous, and no receiver that came
//! later can take what a woken one was woken for.
//!
//! # Order
//! First in, first out, for messages of one sender to one receiver, and for those who wait. Whoever finds a
//! message in the queue while others are waiting takes it before them: they have been given theirs already.
//!
//! # Waits that have ended otherwise
//! A wait that a timeout, another case of a `select` or a cancellation has ended leaves its entry in the
//! list. Whoever meets it cannot claim it and goes on to the next; and a list that has doubled is rid of such
//! entries first.
//!
//! # The end
//! A closed channel takes no more messages and gives those it has. Then `recv` returns `nil, "closed"`, and a
//! `for` loop over it ends.

use crate::contention::operation;
use crate::domain::Domain;
use crate::objects::{Contents, freeze};
use crate::races::{self, Order};
use crate::sched::{Reason, Waiter};
use crate::select::SELECT;
use crate::surplus;
use crate::time::{Limit, check_span, opt_limit};
use crate::wait::{self, Object, Turn};
use parking_lot::{Mutex, MutexGuard};
use perilune_heap::{charge_messages, program_has_room};
use perilune_trace::event::{ChannelRecv, ChannelSend, Count, Verb};
use perilune_trace::{Category, Identity, ObjectKind, ObjectRef, emit, names, on};
use perilune_vm::cycle_collector::{Freeze, Held, Holder, Registered};
use perilune_vm::parcel::{PackRules, Parcel};
use perilune_vm::shared::{SharedKind, SharedObject, downcast_arc};
use perilune_vm::{Gc, LuaResult, Native, Table, Thrown, Value, Vm};
use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The kind of channels.
pub static CHANNEL: SharedKind = SharedKind::new("channel", open);

/// Lists of waits shorter than this are not looked through for ended ones.
const PRUNE: usize = 16;

/// Who waits to receive. The message is left with the wait ([`wait::letter`]).
pub(crate) struct Ask {
    pub waiter: Arc<Waiter>,
    pub case: u32,
}

/// Who waits to send, and what.
pub(crate) struct Offer {
    pub waiter: Arc<Waiter>,
    pub case: u32,
    pub message: Parcel,
}

#[derive(Default)]
struct Inner {
    queue: VecDeque<Parcel>,
    asks: VecDeque<Ask>,
    offers: VecDeque<Offer>,
    prune_at: usize,
    closed: bool,
    /// What the program's account has of the queue itself, in bytes. Messages are entered by themselves, but
    /// for what a queue has in its own memory: numbers, short strings.
    charged: usize,
}

/// Room for so many messages is kept when the queue is empty.
const KEPT: usize = 1024;

impl Inner {
    /// Makes room for one more message, if memory and the program's limit permit it.
    fn has_place(&mut self) -> bool {
        let queued = self.queue.len();
        queued < self.queue.capacity()
            || (program_has_room(queued * size_of::<Parcel>()) && self.queue.try_reserve(1).is_ok())
    }

    /// The queue has been added to, or taken from: its memory is the program's.
    fn charge(&mut self) {
        if self.queue.is_empty() && self.queue.capacity() > 2 * KEPT {
            self.queue.shrink_to(KEPT);
        }
        let bytes = self.queue.capacity() * size_of::<Parcel>();
        if bytes != self.charged {
            charge_messages(bytes as isize - self.charged as isize);
            self.charged = bytes;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        charge_messages(-(self.charged as isize));
    }
}

/// A channel.
pub struct Channel {
    me: Weak<Channel>,
    inner: Mutex<Inner>,
    /// Messages that wait in it at most.
    capacity: usize,
    name: Option<String>,
    registered: Registered,
    /// Those who receive come before those who find room.
    pub(crate) room: Order,
    /// Who closes it comes before those who find it closed.
    pub(crate) closing: Order,
    identity: Identity,
}

/// What an attempt to receive came to.
pub(crate) enum Received {
    Message(Parcel),
    Empty,
    Closed,
}

/// What an attempt to send came to. The message comes back if it was not taken.
pub(crate) enum Sent {
    Done,
    Full(Parcel),
    Closed,
    /// There is no memory for a longer queue.
    NoMemory,
}

impl Channel {
    /// A channel for `capacity` messages; `usize::MAX`: as many as there is memory for.
    pub fn new(capacity: usize, name: Option<String>) -> Arc<Channel> {
        Arc::new_cyclic(|me| Channel {
            me: Weak::clone(me),
            inner: Mutex::default(),
            capacity,
            name,
            registered: Registered::default(),
            room: Order::new(),
            closing: Order::new(),
            identity: Identity::new(ObjectKind::Channel),
        })
    }

    pub(crate) fn try_recv(&self) -> Received {
        loop {
            let mut inner = self.lock();
            // A message from the queue makes room for one who waits to send.
            let message = inner.queue.pop_front();
            // What a receiver has put back may be more than there is room for.
            let no_room = inner.queue.len() >= self.capacity;
            if message.is_some() && (no_room || inner.offers.is_empty()) {
                inner.charge();
                self.report_received(inner.queue.len());
                return message.map_or(Received::Empty, Received::Message);
            }
            let Some(offer) = inner.offers.pop_front() else {
                return if inner.closed { Received::Closed } else { Received::Empty };
            };
            match (offer.waiter.claim(Reason::Ready, offer.case), message) {
                (Some(claim), Some(message)) => {
                    inner.queue.push_back(offer.message);
                    self.report_received(inner.queue.len());
                    drop(inner);
                    drop(claim);
                    return Received::Message(message);
                }
                (Some(claim), None) => {
                    drop(inner);
                    self.report_received(0);
                    drop(claim);
                    return Received::Message(offer.message);
                }
                (None, Some(message)) => inner.queue.push_front(message),
                (None, None) => {}
            }
        }
    }

    /// The channel is going to keep a message.
    fn register(&self, message: &Parcel) {
        if message.holds_counts() {
            self.registered.shared(|| {
                let weak: Weak<Channel> = Weak::clone(&self.me);
                weak
            });
        }
    }

    /// What reports call it, as long as it is there. The waiting native's argument keeps it.
    fn object(&self) -> Object {
        Object::Channel(Weak::clone(&self.me))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        operation(&self.identity, || self.inner.lock())
    }

    pub(crate) fn try_send(&self, message: Parcel) -> Sent {
        let mut inner = self.lock();
        if inner.closed {
            return Sent::Closed;
        }
        while let Some(ask) = inner.asks.pop_front() {
            let mut letter = wait::letter(&ask.waiter).lock();
            if let Some(claim) = ask.waiter.claim(Reason::Ready, ask.case) {
                *letter = Some(message);
                drop(letter);
                drop(inner);
                self.report_sent(0);
                drop(claim);
                return Sent::Done;
            }
        }
        if inner.queue.len() < self.capacity {
            if !inner.has_place() {
                return Sent::NoMemory;
            }
            self.register(&message);
            inner.queue.push_back(message);
            inner.charge();
            self.report_sent(inner.queue.len());
            return Sent::Done;
        }
        Sent::Full(message)
    }

    /// A receiver has no memory for the message that it has just taken, or is not to have it after all: it is
    /// the next one again.
    pub(crate) fn put_back(&self, message: Parcel) {
        let mut inner = self.lock();
        while let Some(ask) = inner.asks.pop_front() {
            let mut letter = wait::letter(&ask.waiter).lock();
            if let Some(claim) = ask.waiter.claim(Reason::Ready, ask.case) {
                *letter = Some(message);
                drop(letter);
                drop(inner);
                drop(claim);
                return;
            }
        }
        self.register(&message);
        inner.queue.push_front(message);
        inner.charge();
        self.report_sent(inner.queue.len());
    }

    /// Waits to receive, unless there is something to receive, or the channel is closed: then false.
    pub(crate) fn ask(&self, ask: Ask) -> bool {
        let mut inner = self.inner.lock();
        // The other cases of the same `select` do not count.
        let offered = inner.offers.iter().any(|o| !Arc::ptr_eq(&o.waiter, &ask.waiter));
        if !inner.queue.is_empty() || offered || inner.closed {
            return false;
        }
        if inner.asks.len() >= inner.prune_at.max(PRUNE) {
            inner.asks.retain(|a| a.waiter.woken().is_none());
            inner.prune_at = inner.asks.len() * 2;
        }
        inner.asks.push_back(ask);
        true
    }

    /// Waits to send, unless there is room or a receiver, or the channel is closed: then the offer comes
    /// back.
    pub(crate) fn offer(&self, offer: Offer) -> Result<(), Offer> {
        let mut inner = self.inner.lock();
        let asked = inner.asks.iter().any(|a| !Arc::ptr_eq(&a.waiter, &offer.waiter));
        if asked || inner.queue.len() < self.capacity || inner.closed {
            return Err(offer);
        }
        if inner.offers.len() >= inner.prune_at.max(PRUNE) {
            inner.offers.retain(|o| o.waiter.woken().is_none());
            inner.prune_at = inner.offers.len() * 2;
        }
        self.register(&offer.message);
        inner.offers.push_back(offer);
        Ok(())
    }

    /// Whether it takes no more messages.
    pub(crate) fn is_closed(&self) -> bool {
        self.inner.lock().closed
    }

    /// How many messages wait in it.
    pub(crate) fn len(&self) -> usize {
        self.inner.lock().queue.len()
    }

    /// Closes it; false if it was closed.
    pub(crate) fn close(&self) -> bool {
        let mut inner = self.inner.lock();
        let first = !std::mem::replace(&mut inner.closed, true);
        let asks = std::mem::take(&mut inner.asks);
        let offers = std::mem::take(&mut inner.offers);
        drop(inner);
        for a in asks {
            drop(a.waiter.claim(Reason::Closed, a.case));
        }
        for o in offers {
            drop(o.waiter.claim(Reason::Closed, o.case));
        }
        first
    }

    /// Something was sent: after those who made room for it, if there is a bound.
    pub(crate) fn found_room(&self, vm: &mut Vm) {
        if self.capacity != usize::MAX {
            self.room.enter(vm);
        }
    }

    /// What events call it.
    pub(crate) fn reference(&self) -> ObjectRef {
        self.identity.get_or_name(|object| {
            if let Some(name) = &self.name {
                names::label(object, name.as_bytes());
            }
        })
    }

    /// A message went in: how many are in the queue now.
    fn report_sent(&self, queued: usize) {
        if on(Category::Wait) {
            emit(ChannelSend { object: self.reference(), queued: Count::from(queued) });
        }
    }

    /// A message went out: how many are left.
    fn report_received(&self, queued: usize) {
        if on(Category::Wait) {
            emit(ChannelRecv { object: self.reference(), queued: Count::from(queued) });
        }
    }

    pub(crate) fn describe(&self) -> String {
        match &self.name {
            Some(name) => format!("channel '{name}'"),
            None => format!("channel {:p}", self),
        }
    }
}

impl SharedObject for Channel {
    fn kind(&self) -> &'static SharedKind {
        &CHANNEL
    }
    fn label(&self) -> Option<String> {
        self.name.clone()
    }
    fn held_bytes(&self) -> usize {
        let inner = self.lock();
        let offered = inner.offers.iter().map(|o| &o.message);
        inner.charged + inner.queue.iter().chain(offered).map(Parcel::bytes).sum::<usize>()
    }
    fn holder(&self) -> Option<&dyn Holder> {
        Some(self)
    }
}

impl Holder for Channel {
    fn freeze(&self) -> Freeze<'_> {
        freeze(&self.inner)
    }
}

impl Contents for Inner {
    fn held(&self, to: &mut Held<'_>) {
        let offered = self.offers.iter().map(|o| &o.message);
        self.queue.iter().chain(offered).for_each(|m| m.held(to));
    }
    fn empty(&mut self) -> Box<dyn Any> {
        let all = (std::mem::take(&mut self.queue), std::mem::take(&mut self.offers));
        self.charge();
        Box::new(all)
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    crate::objects::fill(
        vm,
        mt,
        &[&SEND, &RECV, &TRY_SEND, &TRY_RECV, &SEND_TIMEOUT, &RECV_TIMEOUT, &CLOSE, &IS_CLOSED],
        &[("__len", &LEN), ("__call", &NEXT), ("__close", &CLOSE)],
    )
}

/// Adds `pl.channel`.
pub(crate) fn register(vm: &mut Vm, pl: Gc<Table>) -> LuaResult<()> {
    let t = vm.new_table(0, 2)?;
    vm.set_field(pl, "channel", t.into())?;
    vm.register(t, &[&NEW, &SELECT])?;
    vm.register(pl, &[&SELECT])
}

/// `pl.channel.new([capacity [, name]])`
static NEW: Native = Native::leaf("new", |vm| {
    surplus::none_behind(vm, 2, surplus::Limit::Own)?;
    let capacity = if vm.arg_is_none_or_nil(1) { i64::MAX } else { vm.check_int(1)? };
    if capacity < 0 {
        return Err(vm.arg_error(1, "capacity must not be negative"));
    }
    let name = vm.opt_str(2)?.map(|s| s.to_text());
    let c = vm.shared_ref(Channel::new(usize::try_from(capacity).unwrap_or(usize::MAX), name));
    vm.ret(c)
});

#[inline]
fn this<'a>(vm: &mut Vm) -> LuaResult<&'a Channel> {
    vm.check_shared(1, &CHANNEL)
}

pub(crate) fn refuse(vm: &mut Vm, why: &str) -> LuaResult<u32> {
    vm.push(Value::NIL);
    vm.push_str(why.as_bytes())?;
    Ok(2)
}

/// The arguments from `from` on as a message.
#[inline(always)]
pub(crate) fn message(vm: &mut Vm, from: u32) -> LuaResult<Parcel> {
    let mut message = with_values(vm, from, |vm, values| vm.pack_or_raise(values, PackRules::MESSAGE));
    if let Ok(message) = &mut message {
        races::sent(vm, message);
    }
    message
}

/// Calls `f` with the values on the running frame's stack from `from` on.
#[inline(always)]
pub(crate) fn with_values<R>(vm: &mut Vm, from: u32, f: impl FnOnce(&mut Vm, &[Value]) -> R) -> R {
    const FEW: usize = 6;
    let count = (vm.nargs() + 1).saturating_sub(from) as usize;
    if count <= FEW {
        let mut values = [Value::NIL; FEW];
        for (n, v) in values.iter_mut().enumerate().take(count) {
            *v = vm.stack_get(from + n as u32);
        }
        return f(vm, &values[..count]);
    }
    let values: Vec<Value> = (from..=vm.nargs()).map(|n| vm.stack_get(n)).collect();
    f(vm, &values)
}

/// What a send that waits keeps for its next turn: whether it has a time limit, and when that is.
fn send(vm: &mut Vm, first: u32, limit: Option<Option<Duration>>) -> LuaResult<u32> {
    let c = this(vm)?;
    match wait::woken(vm)? {
        Turn::First => {}
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(reason, _) => {
            wait::finish(vm);
            return match reason {
                Reason::Timeout => refuse(vm, "timeout"),
                Reason::Closed => Err(vm.error(format!("{} was closed while a send waited", c.describe()))),
                _ => {
                    c.found_room(vm);
                    vm.ret(true)
                }
            };
        }
    }
    let mut message = message(vm, first)?;
    loop {
        message = match c.try_send(message) {
            Sent::Done => {
                wait::finish(vm);
                c.found_room(vm);
                return vm.ret(true);
            }
            Sent::Closed => {
                wait::finish(vm);
                return Err(vm.error(format!("{} is closed", c.describe())));
            }
            Sent::Full(m) => m,
            Sent::NoMemory => {
                wait::finish(vm);
                return Err(vm.out_of_memory());
            }
        };
        let waiter = wait::begin(vm, Verb::Sends, c.object())?;
        match c.offer(Offer { waiter, case: 0, message }) {
            Ok(()) => break,
            Err(offer) => message = offer.message,
        }
        wait::finish(vm);
    }
    if let Some(span) = limit {
        wait::limit(vm, span.unwrap_or(Duration::MAX))?;
    }
    if wait::sleeps(vm) {
        return Err(vm.park());
    }
    send(vm, first, limit)
}

/// `c:send(...)`: waits while there is no room, or, with capacity 0, until somebody receives.
static SEND: Native = Native::leaf("send", |vm| send(vm, 2, None));

/// `c:send_timeout(seconds, ...)`: true, or `nil, "timeout"`.
static SEND_TIMEOUT: Native = Native::leaf("send_timeout", |vm| {
    let span = check_span(vm, 2)?;
    send(vm, 3, Some(span))
});

/// `c:try_send(...)`: true, or `false, "full"`, or `false, "closed"`; never waits.
static TRY_SEND: Native = Native::leaf("try_send", |vm| {
    let c = this(vm)?;
    let why = match c.try_send(message(vm, 2)?) {
        Sent::Done => {
            c.found_room(vm);
            return vm.ret(true);
        }
        Sent::Full(_) => "full",
        Sent::Closed => "closed",
        Sent::NoMemory => return Err(vm.out_of_memory()),
    };
    vm.push(Value::FALSE);
    vm.push_str(why.as_bytes())?;
    Ok(2)
});

/// Pushes the values of a message that was taken from `c`. If the native is called again for it, the message
/// is kept for that time; if there is no memory for it, it goes back.
pub(crate) fn unpack(vm: &mut Vm, c: &Channel, message: Parcel, case: u32) -> LuaResult<u32> {
    races::received(vm, &message);
    let refusals = vm.memory_refusals();
    let result = vm.unpack(&message);
    match result {
        Err(Thrown::Park(_) | Thrown::RunAgain(_)) => {
            if let Some(stash) = Domain::of(vm)?.stash() {
                *stash = Some((case, message));
            }
        }
        Err(_) if vm.memory_refusals() != refusals => c.put_back(message),
        _ => {}
    }
    result
}

/// The message that the native had when it was called before, and its case.
pub(crate) fn stashed(vm: &mut Vm) -> LuaResult<Option<(u32, Parcel)>> {
    Ok(Domain::of(vm)?.stash().and_then(Option::take))
}

/// The outcome of a receive: a message, or why there is none.
type Reception = Result<Parcel, &'static str>;

/// Receives, or parks: `Err` then holds the park.
fn receive(vm: &mut Vm, c: &Channel, limit: Option<Option<Duration>>) -> LuaResult<Reception> {
    c.room.leave(vm);
    if let Some((_, message)) = stashed(vm)? {
        return Ok(Ok(message));
    }
    loop {
        match wait::woken(vm)? {
            Turn::First => match c.try_recv() {
                Received::Message(m) => return Ok(Ok(m)),
                Received::Closed => {
                    c.closing.enter(vm);
                    return Ok(Err("closed"));
                }
                Received::Empty => {
                    let waiter = wait::begin(vm, Verb::Receives, c.object())?;
                    if !c.ask(Ask { waiter, case: 0 }) {
                        wait::finish(vm);
                        continue;
                    }
                    if let Some(span) = limit {
                        wait::limit(vm, span.unwrap_or(Duration::MAX))?;
                    }
                    if wait::sleeps(vm) {
                        return Err(vm.park());
                    }
                }
            },
            Turn::Asleep => return Err(vm.park()),
            Turn::Woken(reason, _) => {
                let message = wait::take_letter(vm);
                wait::finish(vm);
                return Ok(match (reason, message) {
                    (_, Some(m)) => Ok(m),
                    (Reason::Timeout, None) => Err("timeout"),
                    _ => {
                        c.closing.enter(vm);
                        Err("closed")
                    }
                });
            }
        }
    }
}

fn recv(vm: &mut Vm, limit: Option<Option<Duration>>) -> LuaResult<u32> {
    let c = this(vm)?;
    match receive(vm, c, limit)? {
        Ok(m) => unpack(vm, c, m, 0),
        Err(why) => refuse(vm, why),
    }
}

/// `c:recv([seconds])`: the values of the next message, or `nil, "closed"`, or `nil, "timeout"`.
static RECV: Native = Native::hybrid("recv", |vm| {
    let limit = match opt_limit(vm, 2)? {
        Limit::None => None,
        Limit::Span(span) => Some(span),
    };
    recv(vm, limit)
});

/// `c:recv_timeout(seconds)`: as `recv`, or `nil, "timeout"`.
static RECV_TIMEOUT: Native = Native::hybrid("recv_timeout", |vm| {
    surplus::none_behind(vm, 2, surplus::Limit::Own)?;
    let span = check_span(vm, 2)?;
    recv(vm, Some(span))
});

/// `for v in c do`: the values of the next message; ends when the channel is closed and empty.
static NEXT: Native = Native::hybrid("recv", |vm| {
    let c = this(vm)?;
    match receive(vm, c, None)? {
        Ok(m) => unpack(vm, c, m, 0),
        Err(_) => vm.ret(Value::NIL),
    }
});

/// `c:try_recv()`: true and the values, or `false, "empty"`, or `false, "closed"`; never waits.
static TRY_RECV: Native = Native::hybrid("try_recv", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let c = this(vm)?;
    c.room.leave(vm);
    let received = match stashed(vm)? {
        Some((_, m)) => Received::Message(m),
        None => c.try_recv(),
    };
    let why = match received {
        Received::Message(m) => {
            vm.push(Value::TRUE);
            return Ok(unpack(vm, c, m, 0)? + 1);
        }
        Received::Empty => "empty",
        Received::Closed => {
            c.closing.enter(vm);
            "closed"
        }
    };
    vm.push(Value::FALSE);
    vm.push_str(why.as_bytes())?;
    Ok(2)
});

/// `c:close()`: true if it was open.
static CLOSE: Native = Native::leaf("close", |vm| {
    let c = this(vm)?;
    c.closing.leave(vm);
    let first = c.close();
    vm.ret(first)
});

/// `c:is_closed()`
static IS_CLOSED: Native = Native::leaf("is_closed", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let c = this(vm)?;
    let closed = c.inner.lock().closed;
    c.closing.enter(vm);
    vm.ret(closed)
});

/// `#c`: messages in the queue.
static LEN: Native = Native::leaf("len", |vm| {
    let c = this(vm)?;
    let n = c.len() as i64;
    c.room.enter(vm);
    vm.ret(n)
});

/// The channel in a value, if it is one.
pub(crate) fn as_channel(v: Value) -> Option<Arc<Channel>> {
    downcast_arc(v.as_shared()?.object().clone()).ok()
}
