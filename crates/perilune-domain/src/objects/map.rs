//! A map that all domains see: `pl.map()`.
//!
//! Keys and values are [`Plain`]. The map is split into shards by the key's hash, each with a lock of its own that is held for one
//! operation, so domains that use different keys seldom meet. Iteration takes one shard at a time: it sees each key at most once, and every
//! key that is there from its beginning to its end.

use super::plain::{self, Plain};
use super::{fill, register};
use crate::contention::operation;
use crate::races::Orders;
use crate::races::cells::{Cells, Object};
use parking_lot::{Mutex, MutexGuard};
use perilune_heap::charge_messages;
use perilune_trace::{Identity, ObjectKind};
use perilune_vm::cycles::{Freeze, Frozen, Held, Holder, Registered};
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use std::any::Any;
use std::collections::{HashMap, TryReserveError};
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

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
        "Change it in one step, with m:add(k, n), m:update(k, f) or m:cas(k, old, new); or let one begin after the other has ended (await, a channel, a lane)"
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

type Entries = HashMap<Key, Plain, foldhash::fast::RandomState>;
type Shard = Mutex<Entries>;

/// A concurrent map.
pub struct Map {
    shards: Box<[Shard]>,
    seed: foldhash::fast::RandomState,
    len: AtomicI64,
    registered: Registered,
    orders: Orders<Key>,
    watched: Cells<Key>,
    identity: Identity,
}

impl Map {
    /// An empty map, which the running code makes.
    fn new(vm: &Vm) -> Map {
        Map {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            seed: foldhash::fast::RandomState::default(),
            len: AtomicI64::new(0),
            registered: Registered::default(),
            orders: Orders::new(),
            watched: Cells::new(vm),
            identity: Identity::new(ObjectKind::Map),
        }
    }
}

impl Map {
    /// The shard that a key belongs to, locked.
    fn shard(&self, k: &Key) -> MutexGuard<'_, Entries> {
        let shard = &self.shards[(self.seed.hash_one(k) >> 32) as usize % SHARDS];
        operation(&self.identity, || shard.lock())
    }

    /// The value of `k`.
    fn get(&self, k: &Key) -> Plain {
        self.shard(k).get(k).cloned().unwrap_or(Plain::Nil)
    }

    /// Replaces the value `v` of `k` by what `change(v)` gives; nil removes. Gives the old value and the new one. `None` from `change` leaves all as it is.
    ///
    /// # Errors
    /// There is no memory for a further entry; nothing has changed.
    fn change(
        &self,
        k: Key,
        change: impl FnOnce(&Plain) -> Option<Plain>,
    ) -> Result<Changed, TryReserveError> {
        let mut shard = self.shard(&k);
        shard.try_reserve(1)?;
        let old = shard.get(&k).cloned().unwrap_or(Plain::Nil);
        let new = change(&old);
        let key_bytes = ENTRY + k.0.bytes();
        let (grown, change) = match &new {
            None => (0, 0),
            Some(Plain::Nil) => match shard.remove(&k) {
                Some(_) => (-1, -((key_bytes + old.bytes()) as isize)),
                None => (0, 0),
            },
            Some(v) => match shard.insert(k, v.clone()) {
                Some(_) => (0, v.bytes() as isize - old.bytes() as isize),
                None => (1, (key_bytes + v.bytes()) as isize),
            },
        };
        charge_messages(change);
        self.len.fetch_add(grown, Relaxed);
        Ok((old, new))
    }
}

/// The value before, and after if it was to be changed.
type Changed = (Plain, Option<Plain>);

/// Bytes of an entry, what its key and value take beside themselves left out.
const ENTRY: usize = size_of::<(Key, Plain)>() + 1;

/// Bytes that entries of a map take.
fn size<'a>(entries: impl Iterator<Item = (&'a Key, &'a Plain)>) -> usize {
    entries.map(|(k, v)| ENTRY + k.0.bytes() + v.bytes()).sum()
}

/// Takes entries of a map out of the program's account.
fn discharge<'a>(entries: impl Iterator<Item = (&'a Key, &'a Plain)>) {
    charge_messages(-(size(entries) as isize));
}

impl Drop for Map {
    fn drop(&mut self) {
        self.shards.iter_mut().for_each(|s| discharge(s.get_mut().iter()));
    }
}

impl SharedObject for Map {
    fn kind(&self) -> &'static SharedKind {
        &MAP
    }
    fn held_bytes(&self) -> usize {
        self.shards.iter().map(|shard| size(shard.lock().iter())).sum()
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
        for (k, v) in self.shards.iter().flat_map(|s| s.iter()) {
            k.0.held(to);
            v.held(to);
        }
    }
    fn empty(&mut self) -> Box<dyn Any> {
        self.len.store(0, Relaxed);
        self.shards.iter().for_each(|s| discharge(s.iter()));
        Box::new(self.shards.iter_mut().map(|s| std::mem::take(&mut **s)).collect::<Vec<_>>())
    }
}

/// `pl.map()`
pub static NEW: Native = Native::leaf("map", |vm| {
    let map = Map::new(vm);
    super::report_made(vm, &map.identity);
    let r = vm.shared_ref(Arc::new(map));
    vm.ret(r)
});

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(
        vm,
        mt,
        &[&GET, &SET, &ADD, &CAS, &UPDATE, &KEYS, &PAIRS, &CLEAR],
        &[("__len", &LEN), ("__pairs", &PAIRS)],
    )
}

fn this<'a>(vm: &mut Vm) -> LuaResult<&'a Map> {
    vm.check_shared(1, &MAP)
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
    let m = this(vm)?;
    let n = m.len.load(Relaxed);
    m.orders.enter_all(vm);
    vm.ret(n)
});

/// `m:get(k)`
static GET: Native = Native::leaf("get", |vm| {
    let m = this(vm)?;
    let k = key(vm, 2)?;
    let v = m.get(&k);
    m.watched.load(vm, &k, Words);
    m.orders.enter(vm, Some(&k));
    ret(vm, &v)
});

/// `m:set(k, v)`: the value before.
static SET: Native = Native::leaf("set", |vm| {
    let m = this(vm)?;
    let k = key(vm, 2)?;
    let v = plain::check(vm, 3)?;
    Plain::ensure_room(vm, || m.get(&k))?;
    register(vm, &m.registered, &k.0);
    register(vm, &m.registered, &v);
    m.watched.store(vm, &k, Words);
    let left = m.orders.leave(vm, &k);
    let (old, _) = m.change(k, |_| Some(v)).map_err(|_| vm.out_of_memory())?;
    m.orders.enter(vm, left.as_ref());
    ret(vm, &old)
});

/// `m:add(k [, n])`: adds to a number, an absent one counting as 0; the new value.
static ADD: Native = Native::leaf("add", |vm| {
    let m = this(vm)?;
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
    let changed = m.change(k, |old| {
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

/// `m:cas(k, old, new)`: stores `new` if the value is `old`; returns whether it was, and what it was. nil stands for absence.
static CAS: Native = Native::leaf("cas", |vm| {
    let m = this(vm)?;
    let k = key(vm, 2)?;
    let expected = plain::check(vm, 3)?;
    let new = plain::check(vm, 4)?;
    Plain::ensure_room(vm, || m.get(&k))?;
    register(vm, &m.registered, &k.0);
    register(vm, &m.registered, &new);
    let left = m.orders.leave(vm, &k);
    let changed = m.change(k, |old| old.equals(&expected).then_some(new));
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

/// `m:update(k, f)`: replaces the value `v` by `f(v)` and returns that. `f` is called again if the value has changed meanwhile.
static UPDATE: Native = Native::reentrant("update", |vm| {
    let m: Arc<Map> = vm.check_shared_arc(1, &MAP)?;
    let k = key(vm, 2)?;
    let f = vm.arg(3);
    loop {
        let before = m.get(&k);
        m.orders.enter(vm, Some(&k));
        let v = before.to_value(vm)?;
        let new = vm.call(f, &[v])?;
        let new = plain::check_value(vm, new, 3)?;
        register(vm, &m.registered, &k.0);
        register(vm, &m.registered, &new);
        m.orders.leave(vm, &k);
        let changed = m.change(k.clone(), |now| now.equals(&before).then_some(new));
        if let (_, Some(stored)) = changed.map_err(|_| vm.out_of_memory())? {
            m.watched.change(vm, &k, Words);
            return ret(vm, &stored);
        }
    }
});

/// Takes out what a lock protects: it goes when the lock is free, because it may be the last reference to much.
fn contents<T: Default>(mut lock: MutexGuard<'_, T>) -> T {
    std::mem::take(&mut *lock)
}

/// `m:clear()`
static CLEAR: Native = Native::leaf("clear", |vm| {
    let m = this(vm)?;
    for shard in &m.shards {
        let shard = shard.lock();
        m.len.fetch_sub(shard.len() as i64, Relaxed);
        discharge(shard.iter());
        drop(contents(shard));
    }
    Ok(0)
});

/// `m:keys()`: a list of the keys, in no order.
static KEYS: Native = Native::leaf("keys", |vm| {
    let m = this(vm)?;
    m.orders.enter_all(vm);
    let count = usize::try_from(m.len.load(Relaxed)).unwrap_or(0);
    vm.ensure_room(count.saturating_mul(size_of::<Value>()))?;
    let list = vm.new_table(count, 0)?;
    vm.push(list.into());
    let mut n = 0;
    for shard in &m.shards {
        let keys: Vec<Plain> = shard.lock().keys().map(|k| k.0.clone()).collect();
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
    this(vm)?;
    let map = vm.arg(1);
    let pending = vm.new_table(0, 0)?;
    vm.push(pending.into());
    // Upvalues: the map, the next shard, keys and values of the last one, how far these have been handed out.
    let next = vm.new_native_closure(&NEXT, &[map, Value::int(0), pending.into(), Value::int(0)])?;
    vm.ret(next)
});

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
        let entries: Vec<_> = entries.lock().iter().map(|(k, v)| (k.0.clone(), v.clone())).collect();
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
