//! A map that all domains see: `pl.map()`.
//!
//! Keys and values are [`Plain`]. The map is split into shards by the key's hash, each with a lock of its own
//! that is held for one operation, so domains that use different keys seldom meet. Iteration takes one shard
//! at a time: it sees each key at most once, and every key that is there from its beginning to its end; the
//! value is one that the key had between the beginning and the step that gives it.
//!
//! # Expiry
//! An entry may have a time at which it ends (`m:set(k, v, {ttl = seconds})`, `pl.map{ttl = seconds}`). From
//! then on no operation finds it. Each shard has a heap of these times with their keys; whoever locks the
//! shard takes out what is over, so what is there costs a comparison, and what is not used is found by the
//! timers' thread, which looks at a map with such entries when the first of them is over, [`SLACK`] late at
//! most, and takes out [`PORTION`] at a time. A time that no longer holds, because the entry has another or
//! is gone, stays in the heap until it comes; when more than half of the heap is such, it is made anew. So an
//! entry that is over is kept for a second at most, and a key that is set for ever has two times.
//!
//! `set` begins the time anew; `add`, `cas` and `update` change a value and leave the time as it is.
//! *Rejected*: a thread or fiber per map; looking at all entries now and then (it takes longer the more there
//! are that are not over); counting on use (a cache's memory would stay where nobody comes).
//!
//! # Names
//! On the map itself names are methods, and any other name is an error, since `m.count` would be nil where
//! `m:get "count"` was meant. [`View`] is the same map as programs index tables.

use super::plain::{self, Plain};
use super::{fill, refuse_other_names, register};
use crate::contention::operation;
use crate::options;
use crate::races::Orders;
use crate::races::cells::{Cells, Object};
use crate::sched::timer;
use crate::surplus::ANY;
use parking_lot::{Mutex, MutexGuard};
use perilune_heap::charge_messages;
use perilune_trace::{Identity, ObjectKind, clock};
use perilune_vm::cycle_collector::{Freeze, Frozen, Held, Holder, Registered};
use perilune_vm::shared::{SharedArc, SharedKind, SharedObject, downcast_arc};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use std::any::Any;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap, TryReserveError};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The kind of maps.
pub static MAP: SharedKind = SharedKind::new("map", open);

const SHARDS: usize = 64;

/// What reports of lost updates say.
#[derive(Clone, Copy)]
struct Words;

impl Object<Key> for Words {
    fn cell(&self, key: &Key) -> String {
        let key = match &key.0 {
            Plain::String(s) => format!("'{}'", String::from_utf8_lossy(s)),
            Plain::Integer(i) => i.to_string(),
            Plain::Float(x) => x.to_string(),
            Plain::Boolean(b) => b.to_string(),
            _ => return "a key of the map".to_owned(),
        };
        format!("key {key} of the map")
    }
    fn remedy(&self) -> &'static str {
        "Change it in one step, with m:add(k, n), m:update(k, f) or m:cas(k, old, new); or let one begin \
         after the other has ended (await, a channel, a lane)"
    }
}

/// A key: equal if `==` says so in Lua.
#[derive(Clone)]
pub(crate) struct Key(pub(crate) Plain);

impl PartialEq for Key {
    fn eq(&self, o: &Key) -> bool {
        self.0.equals(&o.0)
    }
}
impl Eq for Key {}
impl Hash for Key {
    fn hash<H: Hasher>(&self, h: &mut H) {
        match &self.0 {
            Plain::Nil => 0.hash(h),
            Plain::Boolean(b) => b.hash(h),
            Plain::Integer(i) => i.hash(h),
            // Floats with integral values are integers by then.
            Plain::Float(f) => f.to_bits().hash(h),
            Plain::String(s) => s.hash(h),
            Plain::Native(n) => (*n as *const Native as usize).hash(h),
            Plain::Island(_, address) => address.hash(h),
            Plain::Shared(o) => o.address().hash(h),
        }
    }
}

/// A value, and when it ends ([`now`]); [`NEVER`]: it does not.
struct Entry {
    value: Plain,
    until: u64,
}

const NEVER: u64 = 0;

/// How late the timers' thread may take out what nobody has come by.
const SLACK: Duration = Duration::from_millis(500);
/// How many entries it takes out before it lets others ring.
const PORTION: usize = 256;

/// The time by which entries end, in nanoseconds; never [`NEVER`].
fn now() -> u64 {
    clock::monotonic_ns().max(1)
}

/// A time at which an entry may end.
struct Due(u64, Key);

impl PartialEq for Due {
    fn eq(&self, o: &Due) -> bool {
        self.0 == o.0
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, o: &Due) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}
impl Ord for Due {
    fn cmp(&self, o: &Due) -> Ordering {
        self.0.cmp(&o.0)
    }
}

/// What becomes of an entry's time when its value is changed.
#[derive(Clone, Copy)]
enum Life {
    /// It stays; a new entry gets the map's.
    Keep,
    /// From now on this.
    Until(u64),
}

/// A part of the entries.
#[derive(Default)]
struct Entries {
    all: HashMap<Key, Entry, foldhash::fast::RandomState>,
    /// When entries end, the first at the top. An entry that ends has an element with its time; other
    /// elements are over.
    due: BinaryHeap<Reverse<Due>>,
}

impl Entries {
    /// Takes out entries that are over, `most` at most.
    #[cold]
    fn expire(&mut self, len: &AtomicI64, most: usize) -> Vec<(Key, Entry)> {
        let (now, mut dead) = (now(), Vec::new());
        while dead.len() < most
            && let Some(Reverse(Due(at, _))) = self.due.peek()
            && *at <= now
            && let Some(Reverse(Due(at, key))) = self.due.pop()
        {
            charge_messages(-(DUE as isize));
            if self.all.get(&key).is_some_and(|entry| entry.until == at)
                && let Some(entry) = self.all.remove_entry(&key)
            {
                dead.push(entry);
            }
        }
        discharge(dead.iter().map(|(k, e)| (k, e)));
        len.fetch_sub(dead.len() as i64, Relaxed);
        dead
    }

    /// An entry has got a time.
    fn note(&mut self, key: Key, until: u64) {
        if self.due.len() > 2 * self.all.len() + 32 {
            charge_messages(-((self.due.len() * DUE) as isize));
            let ends = self.all.iter().filter(|(_, e)| e.until != NEVER);
            self.due = ends.map(|(k, e)| Reverse(Due(e.until, k.clone()))).collect();
            charge_messages((self.due.len() * DUE) as isize);
        }
        charge_messages(DUE as isize);
        self.due.push(Reverse(Due(until, key)));
    }
}

type Shard = Mutex<Entries>;

/// A locked shard without entries that are over. These go when the lock is free: one may be the last
/// reference to much.
struct Locked<'a> {
    entries: MutexGuard<'a, Entries>,
    _dead: Vec<(Key, Entry)>,
}

/// A concurrent map.
pub struct Map {
    shards: Box<[Shard]>,
    seed: foldhash::fast::RandomState,
    len: AtomicI64,
    /// How long an entry lasts if nothing else is said; `None`: for ever.
    ttl: Option<Duration>,
    /// When the timers' thread is going to look; [`NEVER`]: no entry ends.
    looks_at: AtomicU64,
    me: Weak<Map>,
    registered: Registered,
    orders: Orders<Key>,
    watched: Cells<Key>,
    identity: Identity,
}

impl Map {
    /// An empty map, which the running code makes.
    fn new(vm: &Vm, ttl: Option<Duration>) -> Arc<Map> {
        Arc::new_cyclic(|me| Map {
            ttl,
            looks_at: AtomicU64::new(NEVER),
            me: me.clone(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            seed: foldhash::fast::RandomState::default(),
            len: AtomicI64::new(0),
            registered: Registered::default(),
            orders: Orders::new(),
            watched: Cells::new(vm),
            identity: Identity::new(ObjectKind::Map),
        })
    }
}

impl Map {
    /// The shard that a key belongs to, locked.
    fn shard(&self, k: &Key) -> Locked<'_> {
        self.lock(&self.shards[(self.seed.hash_one(k) >> 32) as usize % SHARDS])
    }

    fn lock<'a>(&self, shard: &'a Shard) -> Locked<'a> {
        let mut entries = operation(&self.identity, || shard.lock());
        let dead = if entries.due.is_empty() { Vec::new() } else { entries.expire(&self.len, usize::MAX) };
        Locked { entries, _dead: dead }
    }

    /// The value of `k`.
    fn get(&self, k: &Key) -> Plain {
        self.shard(k).entries.all.get(k).map_or(Plain::Nil, |e| e.value.clone())
    }

    /// When an entry ends that is made or set now.
    fn end(&self) -> u64 {
        self.ttl.map_or(NEVER, end_after)
    }

    /// Sets when the entry of `k` ends; whether there is one.
    fn touch(&self, k: Key, until: u64) -> bool {
        let mut shard = self.shard(&k);
        let Some(entry) = shard.entries.all.get_mut(&k) else { return false };
        entry.until = until;
        if until != NEVER {
            shard.entries.note(k, until);
            drop(shard);
            self.await_end(until);
        }
        true
    }

    /// Has the timers' thread look soon after this time, unless it is going to look earlier.
    fn await_end(&self, until: u64) {
        let at = until.saturating_add(SLACK.as_nanos() as u64);
        let mut looks = self.looks_at.load(Relaxed);
        while looks == NEVER || at < looks {
            match self.looks_at.compare_exchange_weak(looks, at, SeqCst, Relaxed) {
                Ok(_) => return self.look_at(at),
                Err(now) => looks = now,
            }
        }
    }

    fn look_at(&self, at: u64) {
        let (me, time) = (self.me.clone(), Duration::from_nanos(at.saturating_sub(now())));
        // Beyond what a clock can say nobody waits.
        let Some(deadline) = Instant::now().checked_add(time) else { return };
        timer::after(deadline, move || {
            if let Some(map) = me.upgrade() {
                map.look(at);
            }
        });
    }

    /// By the timers' thread, at the time that it was asked for: takes out what is over.
    fn look(&self, at: u64) {
        if self.looks_at.load(SeqCst) != at {
            // There has been an earlier look, which has asked for the next one.
            return;
        }
        let mut left = PORTION;
        for shard in &self.shards {
            let dead = shard.lock().expire(&self.len, left);
            left -= dead.len();
        }
        self.looks_at.store(NEVER, SeqCst);
        // What has come behind this look is seen here, or sees that nobody is going to look. What is left of
        // a portion follows at once.
        let next = self.shards.iter().filter_map(|s| Some(s.lock().due.peek()?.0.0)).min();
        if let Some(next) = next {
            let soon = (SLACK - Duration::from_millis(1)).as_nanos() as u64;
            self.await_end(if left == 0 { now().saturating_sub(soon) } else { next.max(now()) });
        }
    }

    /// Replaces the value `v` of `k` by what `change(v)` gives; nil removes. Gives the old value and the new
    /// one. `None` from `change` leaves all as it is.
    ///
    /// # Errors
    /// There is no memory for a further entry; nothing has changed.
    fn change(
        &self,
        k: Key,
        life: Life,
        change: impl FnOnce(&Plain) -> Option<Plain>,
    ) -> Result<Changed, TryReserveError> {
        let mut shard = self.shard(&k);
        let entries = &mut *shard.entries;
        let there = entries.all.get(&k);
        let is_there = there.is_some();
        let (old, ends) = there.map_or((Plain::Nil, None), |e| (e.value.clone(), Some(e.until)));
        let new = change(&old);
        let key_bytes = ENTRY + k.0.bytes();
        let mut ending = NEVER;
        let (grown, change) = match &new {
            None => (0, 0),
            Some(Plain::Nil) => match entries.all.remove(&k) {
                Some(_) => (-1, -((key_bytes + old.bytes()) as isize)),
                None => (0, 0),
            },
            Some(v) => {
                let until = match (life, ends) {
                    (Life::Until(until), _) => until,
                    (Life::Keep, Some(until)) => until,
                    (Life::Keep, None) => self.end(),
                };
                // Whoever replaces a value needs no room, and gets on where there is none.
                if !is_there {
                    entries.all.try_reserve(1)?;
                }
                if until != NEVER && ends != Some(until) {
                    entries.due.try_reserve(1)?;
                    ending = until;
                    entries.note(k.clone(), until);
                }
                let entry = Entry { value: v.clone(), until };
                // `insert` would make room also where it replaces.
                if is_there && let Some(there) = entries.all.get_mut(&k) {
                    *there = entry;
                    (0, v.bytes() as isize - old.bytes() as isize)
                } else {
                    entries.all.insert(k, entry);
                    (1, (key_bytes + v.bytes()) as isize)
                }
            }
        };
        charge_messages(change);
        self.len.fetch_add(grown, Relaxed);
        drop(shard);
        if ending != NEVER {
            self.await_end(ending);
        }
        Ok((old, new))
    }
}

/// The value before, and after if it was to be changed.
type Changed = (Plain, Option<Plain>);

/// Bytes of an entry, what its key and value take beside themselves left out.
const ENTRY: usize = size_of::<(Key, Entry)>() + 1;
/// Bytes of a time in a shard's heap.
const DUE: usize = size_of::<Due>();

/// The time that is so far from now.
fn end_after(ttl: Duration) -> u64 {
    now().saturating_add(u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX))
}

/// Bytes that entries of a map take.
fn size<'a>(entries: impl Iterator<Item = (&'a Key, &'a Entry)>) -> usize {
    entries.map(|(k, e)| ENTRY + k.0.bytes() + e.value.bytes()).sum()
}

/// Takes entries of a map out of the program's account.
fn discharge<'a>(entries: impl Iterator<Item = (&'a Key, &'a Entry)>) {
    charge_messages(-(size(entries) as isize));
}

/// Takes a whole shard out of the program's account.
fn discharge_all(entries: &Entries) {
    discharge(entries.all.iter());
    charge_messages(-((entries.due.len() * DUE) as isize));
}

impl Drop for Map {
    fn drop(&mut self) {
        self.shards.iter_mut().for_each(|s| discharge_all(s.get_mut()));
    }
}

impl SharedObject for Map {
    fn kind(&self) -> &'static SharedKind {
        &MAP
    }
    fn held_bytes(&self) -> usize {
        let held = |entries: &Entries| size(entries.all.iter()) + entries.due.len() * DUE;
        self.shards.iter().map(|shard| held(&shard.lock())).sum()
    }
    fn holder(&self) -> Option<&dyn Holder> {
        Some(self)
    }
}

impl Holder for Map {
    fn freeze(&self) -> Freeze<'_> {
        match self.shards.iter().map(Shard::try_lock).collect() {
            Some(shards) => Freeze::Frozen(Box::new(FrozenMap { shards, len: &self.len })),
            None => Freeze::Busy,
        }
    }
}

/// A map of which a search has all locks.
struct FrozenMap<'a> {
    shards: Vec<MutexGuard<'a, Entries>>,
    len: &'a AtomicI64,
}

impl Frozen for FrozenMap<'_> {
    fn held(&self, to: &mut Held<'_>) {
        for (k, e) in self.shards.iter().flat_map(|s| s.all.iter()) {
            k.0.held(to);
            e.value.held(to);
        }
        for Reverse(Due(_, k)) in self.shards.iter().flat_map(|s| s.due.iter()) {
            k.0.held(to);
        }
    }
    fn empty(&mut self) -> Box<dyn Any> {
        self.len.store(0, Relaxed);
        self.shards.iter().for_each(|s| discharge_all(s));
        Box::new(self.shards.iter_mut().map(|s| std::mem::take(&mut **s)).collect::<Vec<_>>())
    }
}

/// `pl.map{ttl = seconds}`
pub static NEW: Native = Native::leaf("map", |vm| {
    vm.check_none_behind(1)?;
    let ttl = ttl(vm, 1)?;
    let map = Map::new(vm, ttl.flatten());
    super::report_made(vm, &map.identity);
    let r = vm.shared_ref(map);
    vm.ret(r)
});

/// The option `ttl` of argument `n`, if it is given; `false` says for ever.
fn ttl(vm: &mut Vm, n: u32) -> LuaResult<Option<Option<Duration>>> {
    let Some(options) = options::check(vm, n, &["ttl"])? else { return Ok(None) };
    let v = options.get(vm, "ttl")?;
    match v.as_number() {
        _ if v.is_nil() => Ok(None),
        None if v.is_falsy() => Ok(Some(None)),
        Some(seconds) if seconds > 0.0 => Ok(Some(Duration::try_from_secs_f64(seconds).ok())),
        _ => Err(options.wrong(vm, "ttl", "a number of seconds above 0, or false", v)),
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(
        vm,
        mt,
        &[&GET, &SET, &HAS, &ADD, &CAS, &UPDATE, &KEYS, &PAIRS, &CLEAR, &TTL, &TOUCH, &VIEWED],
        &[("__len", &LEN), ("__pairs", &PAIRS), ("__newindex", &NEW_INDEX)],
    )?;
    refuse_other_names(vm, mt, "a map", "m:get(k) reads a key, and m:view() is indexed as a table is")
}

static NEW_INDEX: Native = Native::leaf("newindex", |vm| {
    this(vm, ANY)?;
    Err(vm
        .error("a map has no fields to set: m:set(k, v) writes a key, and m:view() is indexed as a table is"))
});

fn this<'a>(vm: &mut Vm, last: u32) -> LuaResult<&'a Map> {
    let object = vm.check_shared(1, &MAP)?;
    vm.check_none_behind(last)?;
    Ok(object)
}

/// Argument `n` as a key.
pub(crate) fn key(vm: &mut Vm, n: u32) -> LuaResult<Key> {
    match plain::check(vm, n)? {
        Plain::Nil => Err(vm.arg_error(n, "a key must not be nil")),
        Plain::Float(f) if f.is_nan() => Err(vm.arg_error(n, "a key must not be NaN")),
        Plain::Float(f) if f.fract() == 0.0 && (-9.3e18..9.2e18).contains(&f) && (f as i64) as f64 == f => {
            Ok(Key(Plain::Integer(f as i64)))
        }
        k => Ok(Key(k)),
    }
}

fn ret(vm: &mut Vm, v: &Plain) -> LuaResult<u32> {
    let v = v.to_value(vm)?;
    vm.ret(v)
}

/// `#m`: how many keys there are; other domains may be changing it.
static LEN: Native = Native::leaf("len", |vm| {
    let m = this(vm, ANY)?;
    let n = length(vm, m);
    vm.ret(n)
});

fn length(vm: &mut Vm, m: &Map) -> i64 {
    if m.looks_at.load(Relaxed) != NEVER {
        // Some entry ends, and may be over.
        m.shards.iter().for_each(|shard| drop(m.lock(shard)));
    }
    m.orders.enter_all(vm);
    m.len.load(Relaxed)
}

/// `m:get(k)`
static GET: Native = Native::leaf("get", |vm| {
    let m = this(vm, 2)?;
    let k = key(vm, 2)?;
    let v = get(vm, m, &k);
    ret(vm, &v)
});

fn get(vm: &mut Vm, m: &Map, k: &Key) -> Plain {
    let v = m.get(k);
    m.watched.load(vm, k, Words);
    m.orders.enter(vm, Some(k));
    v
}

/// `m:has(k)`
static HAS: Native = Native::leaf("has", |vm| {
    let m = this(vm, 2)?;
    let k = key(vm, 2)?;
    let has = !matches!(get(vm, m, &k), Plain::Nil);
    vm.ret(has)
});

/// `m:set(k, v [, {ttl = seconds}])`: the value before.
static SET: Native = Native::leaf("set", |vm| {
    let m = this(vm, 4)?;
    let k = key(vm, 2)?;
    let v = plain::check(vm, 3)?;
    let until = match ttl(vm, 4)? {
        None => m.end(),
        Some(ttl) => ttl.map_or(NEVER, end_after),
    };
    Plain::ensure_room(vm, || m.get(&k))?;
    register(vm, &m.registered, &k.0);
    register(vm, &m.registered, &v);
    let old = set(vm, m, k, v, until)?;
    ret(vm, &old)
});

fn set(vm: &mut Vm, m: &Map, k: Key, v: Plain, until: u64) -> LuaResult<Plain> {
    m.watched.store(vm, &k, Words);
    let left = m.orders.leave(vm, &k);
    let (old, _) = m.change(k, Life::Until(until), |_| Some(v)).map_err(|_| vm.out_of_memory())?;
    m.orders.enter(vm, left.as_ref());
    Ok(old)
}

/// `m:ttl(k)`: for how many seconds the entry still lasts; nil: for ever, or there is none.
static TTL: Native = Native::leaf("ttl", |vm| {
    let m = this(vm, 2)?;
    let k = key(vm, 2)?;
    let until = m.shard(&k).entries.all.get(&k).map_or(NEVER, |e| e.until);
    m.orders.enter(vm, Some(&k));
    if until == NEVER {
        return vm.ret(Value::NIL);
    }
    vm.ret(until.saturating_sub(now()) as f64 / 1e9)
});

/// `m:touch(k [, seconds])`: the entry lasts for so long from now on, by default as long as the map says;
/// false: for ever. Whether there is one.
static TOUCH: Native = Native::leaf("touch", |vm| {
    let m = this(vm, 3)?;
    let k = key(vm, 2)?;
    let v = vm.arg(3);
    let until = match v.as_number() {
        _ if v.is_nil() => m.end(),
        None if v.is_falsy() => NEVER,
        Some(s) if s > 0.0 => Duration::try_from_secs_f64(s).map_or(NEVER, end_after),
        Some(s) if s.is_nan() => {
            return Err(vm.arg_error(3, "a number of seconds above 0, or false, expected, got nan"));
        }
        _ => return Err(vm.arg_error(3, "a number of seconds above 0, or false, expected")),
    };
    let is_there = m.touch(k, until);
    vm.ret(is_there)
});

/// `m:add(k [, n])`: adds to a number, an absent one counting as 0; the new value.
static ADD: Native = Native::leaf("add", |vm| {
    let m = this(vm, 3)?;
    let k = key(vm, 2)?;
    let n = if vm.arg_is_none(3) {
        Value::int(1)
    } else {
        vm.check_num(3)?;
        vm.arg(3)
    };
    register(vm, &m.registered, &k.0);
    m.watched.change(vm, &k, Words);
    let left = m.orders.leave(vm, &k);
    let changed = m.change(k, Life::Keep, |old| {
        let old = if matches!(old, Plain::Nil) { Value::int(0) } else { old.number()? };
        Some(match (old.as_int(), n.as_int()) {
            (Some(x), Some(y)) => Plain::Integer(x.wrapping_add(y)),
            _ => Plain::Float(old.as_number()? + n.as_number()?),
        })
    });
    let (old, new) = changed.map_err(|_| vm.out_of_memory())?;
    m.orders.enter(vm, left.as_ref());
    match new {
        Some(v) => ret(vm, &v),
        None => {
            let found = old.to_value(vm)?.type_name();
            Err(vm.arg_error(2, &format!("the value of this key is no number (a {found})")))
        }
    }
});

/// `m:cas(k, old, new)`: stores `new` if the value is `old`; returns whether it was, and what it was. nil
/// stands for absence.
static CAS: Native = Native::leaf("cas", |vm| {
    let m = this(vm, 4)?;
    let k = key(vm, 2)?;
    let expected = plain::check(vm, 3)?;
    let new = plain::check(vm, 4)?;
    Plain::ensure_room(vm, || m.get(&k))?;
    register(vm, &m.registered, &k.0);
    register(vm, &m.registered, &new);
    let left = m.orders.leave(vm, &k);
    let changed = m.change(k, Life::Keep, |old| old.equals(&expected).then_some(new));
    let (old, done) = changed.map_err(|_| vm.out_of_memory())?;
    if let (Some(k), true) = (&left, done.is_some()) {
        m.watched.change(vm, k, Words);
    }
    m.orders.enter(vm, left.as_ref());
    vm.push(done.is_some().into());
    let old = old.to_value(vm)?;
    vm.push(old);
    Ok(2)
});

/// `m:update(k, f)`: replaces the value `v` by `f(v)` and returns that. `f` is called again if the value has
/// changed meanwhile.
static UPDATE: Native = Native::reentrant("update", |vm| {
    vm.check_none_behind(3)?;
    let m: Arc<Map> = vm.check_shared_arc(1, &MAP)?;
    let k = key(vm, 2)?;
    let f = super::check_changer(vm, 3)?;
    loop {
        let before = m.get(&k);
        m.orders.enter(vm, Some(&k));
        let v = before.to_value(vm)?;
        let new = vm.call(f, &[v])?;
        let new = plain::check_value(vm, new, 3)?;
        register(vm, &m.registered, &k.0);
        register(vm, &m.registered, &new);
        m.orders.leave(vm, &k);
        let changed = m.change(k.clone(), Life::Keep, |now| now.equals(&before).then_some(new));
        if let (_, Some(stored)) = changed.map_err(|_| vm.out_of_memory())? {
            m.watched.change(vm, &k, Words);
            return ret(vm, &stored);
        }
    }
});

/// Takes out what a lock protects: it goes when the lock is free, because it may be the last reference to
/// much.
fn contents<T: Default>(mut lock: MutexGuard<'_, T>) -> T {
    std::mem::take(&mut *lock)
}

/// `m:clear()`
static CLEAR: Native = Native::leaf("clear", |vm| {
    let m = this(vm, 1)?;
    for shard in &m.shards {
        let shard = shard.lock();
        m.len.fetch_sub(shard.all.len() as i64, Relaxed);
        discharge_all(&shard);
        drop(contents(shard));
    }
    Ok(0)
});

/// `m:keys()`: a list of the keys, in no order.
static KEYS: Native = Native::leaf("keys", |vm| {
    let m = this(vm, 1)?;
    m.orders.enter_all(vm);
    let count = usize::try_from(length(vm, m)).unwrap_or(0);
    vm.ensure_room(count.saturating_mul(size_of::<Value>()))?;
    let list = vm.new_table(count, 0)?;
    vm.push(list.into());
    let mut n = 0;
    for shard in &m.shards {
        let keys: Vec<Plain> = m.lock(shard).entries.all.keys().map(|k| k.0.clone()).collect();
        for k in keys {
            n += 1;
            let k = k.to_value(vm)?;
            vm.raw_set_int(list, n, k)?;
        }
        vm.settle()?;
    }
    Ok(1)
});

/// `m:pairs()`, `pairs(m)`: an iterator over keys and values.
static PAIRS: Native = Native::leaf("pairs", |vm| {
    this(vm, 1)?;
    let map = vm.arg(1);
    iterate(vm, map)
});

fn iterate(vm: &mut Vm, map: Value) -> LuaResult<u32> {
    let pending = vm.new_table(0, 0)?;
    vm.push(pending.into());
    // Upvalues: the map, the next shard, keys and values of the last one, how far these have been handed out.
    let next = vm.new_native_closure(&NEXT, &[map, Value::int(0), pending.into(), Value::int(0)])?;
    vm.ret(next)
}

static NEXT: Native = Native::leaf("next", |vm| {
    let Some(map) = vm.upvalue(1).as_shared() else { return Ok(0) };
    let Some(map) = map.downcast::<Map>() else { return Ok(0) };
    loop {
        let Some(list) = vm.upvalue(3).as_table() else { return Ok(0) };
        let at = vm.upvalue(4).as_int().unwrap_or(0);
        if at < vm.raw_len(list) {
            vm.set_upvalue(4, Value::int(at + 2));
            let (k, v) = (vm.raw_get_int(list, at + 1), vm.raw_get_int(list, at + 2));
            vm.push(k);
            vm.push(v);
            return Ok(2);
        }
        let shard = vm.upvalue(2).as_int().unwrap_or(0) as usize;
        let Some(entries) = map.shards.get(shard) else { return vm.ret(Value::NIL) };
        map.orders.enter_all(vm);
        let entries: Vec<_> = {
            let shard = map.lock(entries);
            shard.entries.all.iter().map(|(k, e)| (k.0.clone(), e.value.clone())).collect()
        };
        vm.ensure_room(entries.len() * 2 * size_of::<Value>())?;
        let list = vm.new_table(entries.len() * 2, 0)?;
        let below = vm.nargs();
        vm.push(list.into());
        for (n, (k, v)) in entries.iter().enumerate() {
            let k = k.to_value(vm)?;
            vm.raw_set_int(list, n as i64 * 2 + 1, k)?;
            let v = v.to_value(vm)?;
            vm.raw_set_int(list, n as i64 * 2 + 2, v)?;
        }
        // If there is no memory for these, the next call tries again.
        vm.settle()?;
        vm.set_upvalue(2, Value::int(shard as i64 + 1));
        vm.set_upvalue(3, list.into());
        vm.set_upvalue(4, Value::int(0));
        vm.truncate(below);
    }
});

// -- Views --------------------------------------------------------------------------------------------------

/// The kind of views.
pub static VIEW: SharedKind = SharedKind::new("map view", open_view);

/// A map as a table is used: `v[k]`, `v.name = x`, `pairs(v)`, `#v`.
struct View {
    map: SharedArc,
}

impl SharedObject for View {
    fn kind(&self) -> &'static SharedKind {
        &VIEW
    }
    fn holder(&self) -> Option<&dyn Holder> {
        Some(self)
    }
}

impl Holder for View {
    fn held(&self, to: &mut Held<'_>) {
        to.shared(&self.map);
    }
}

fn open_view(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    for (name, native) in [
        ("__index", &VIEW_INDEX),
        ("__newindex", &VIEW_NEW_INDEX),
        ("__len", &VIEW_LEN),
        ("__pairs", &VIEW_PAIRS),
    ] {
        vm.set_field(mt, name, Value::native(native))?;
    }
    Ok(())
}

/// The map behind argument 1, a view.
fn viewed(vm: &mut Vm) -> LuaResult<Arc<Map>> {
    let view: &View = vm.check_shared(1, &VIEW)?;
    match downcast_arc(view.map.clone()) {
        Ok(map) => Ok(map),
        Err(_) => Err(vm.type_error(1, VIEW.name)),
    }
}

/// `m:view()`
static VIEWED: Native = Native::leaf("view", |vm| {
    vm.check_none_behind(1)?;
    let map: Arc<Map> = vm.check_shared_arc(1, &MAP)?;
    let view = vm.shared_ref(Arc::new(View { map: SharedArc::from(map) }));
    vm.ret(view)
});

static VIEW_INDEX: Native = Native::leaf("index", |vm| {
    let m = viewed(vm)?;
    let k = vm.arg(2);
    // No entry has such a key.
    if k.is_nil() || k.as_float().is_some_and(f64::is_nan) {
        return vm.ret(Value::NIL);
    }
    let k = key(vm, 2)?;
    let v = get(vm, &m, &k);
    ret(vm, &v)
});

static VIEW_NEW_INDEX: Native = Native::leaf("newindex", |vm| {
    let m = viewed(vm)?;
    let k = key(vm, 2)?;
    let v = plain::check(vm, 3)?;
    let object = || SharedArc::from(Arc::clone(&m)).downgrade();
    for held in [&k.0, &v] {
        if held.holds_counts() {
            m.registered.shared(object);
        }
    }
    let until = m.end();
    drop(set(vm, &m, k, v, until)?);
    Ok(0)
});

static VIEW_LEN: Native = Native::leaf("len", |vm| {
    let m = viewed(vm)?;
    let n = length(vm, &m);
    vm.ret(n)
});

static VIEW_PAIRS: Native = Native::leaf("pairs", |vm| {
    let map = viewed(vm)?;
    let map = vm.shared_ref(map).into();
    vm.push(map);
    iterate(vm, map)
});
