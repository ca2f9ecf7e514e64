//! Snapshots of globals: what a function sees as its globals in another domain.
//!
//! # Making one
//! When a function crosses, the globals that it mentions ([`perilune_syntax::mentions`]) cross with it, those
//! that functions among them mention too, and so on: a [`Snapshot`] is a graph of their values. A captured
//! variable of a function that may cross never changes again, so whether a snapshot still holds depends on
//! the named globals alone: each must be the same value as before, and each module in it must have the same
//! fingerprint. If so, the one from last time is used: a loop of `pool:async(f)` pays for a few look-ups.
//! Snapshots kept for this purpose are forgotten at the next collection, because they compare addresses.
//!
//! `_G.x` names the global `x`. Code that reads `_G` other than for constant names may mean whatever the
//! program has: all of its globals cross then, functions in them as those in frozen tables do. If that is
//! refused (an instance with `__gc` is among them, say), only what is named crosses, as if `_G` was not read.
//!
//! # Using one
//! In the receiver a snapshot becomes two tables. The function's `_ENV` is empty and has a metatable: reading
//! goes to the second table, which has the globals that travelled, and from there to the receiver's own
//! globals; assigning raises. So an assignment to a global is an error even if that global travelled, and
//! costs nothing as long as nobody tries. All functions that arrive with the same snapshot share these
//! tables.
//!
//! To these functions the first table is `_G`, too, wherever they have it from: their own code, an argument,
//! a captured variable. It stays empty, by whatever way somebody stores into it (`TABLE_GUARDED`), and its
//! metatable is hidden. So whose code it is that stores a global, a task's or a module's, needs no question
//! at the store: the chunks that `require` loads in the receiver have the receiver's own globals, and nothing
//! else has. What is loaded by `load` has the environment of the code that called it.
//!
//! In a domain that has been spawned for a function, globals are put into the domain's globals instead: it
//! may do with them what it likes.
//!
//! Rejected: one table with the globals themselves, which `x = x + 1` would change silently; refusing
//! functions that contain an assignment to a global when they cross, since it may never run.

use super::graph::Graph;
use super::inside::Applied;
use super::modules::key_text;
use super::pack::{Packed, Packer, Taken, Unit};
use super::refusal::{Reason, Refusal, Role};
use crate::Vm;
use crate::meta::Event;
use crate::native::{LuaResult, Native, Thrown};
use crate::object::{LuaString, TABLE_GUARDED, Table};
use crate::value::{Gc, Tag, Value};
use perilune_syntax::Proto;
use std::sync::{Arc, LazyLock};

/// Globals on their way. Environment 0 is that of the function it was made for.
pub(super) struct Snapshot {
    pub graph: Graph,
}

impl Snapshot {
    /// Whether it owns counts of what may own counts itself. Its graph refers to no further snapshots.
    pub fn holds_counts(&self) -> bool {
        self.graph.refs.as_ref().is_some_and(|refs| refs.hold_counts())
    }
}

/// That of functions that name no globals.
pub(super) static EMPTY: LazyLock<Arc<Snapshot>> =
    LazyLock::new(|| Arc::new(Snapshot { graph: Graph::default() }));

/// A snapshot that may be used again.
pub(super) struct Cached {
    snapshot: Arc<Snapshot>,
    taken: Vec<Taken>,
    modules: Vec<(u32, u64)>,
    /// Environments whose globals are all in it, with their number.
    all: Vec<(Gc<Table>, usize)>,
}

/// What a function's environment is, by prototype, environment and upvalue, whether functions in it must keep
/// the rules for variables, and whether only globals that are named are in it.
pub(super) type CacheKey = (usize, usize, u8, bool, bool);

/// The tables of a snapshot in a receiver.
pub(super) struct Instance {
    pub snapshot: Arc<Snapshot>,
    /// The environments. Roots.
    pub tables: Vec<*mut Table>,
    /// Used since the last major collection.
    pub used: bool,
    /// What modules were when it had been made.
    pub applied: Option<Applied>,
}

/// What each domain has of its own.
fn is_standard(name: &[u8]) -> bool {
    const NAMES: &str = " assert collectgarbage dofile error getmetatable ipairs load loadfile next pairs \
        pcall print rawequal rawget rawlen rawset require select \
        setmetatable tonumber tostring type warn xpcall _G _VERSION coroutine debug io math os package \
        string table utf8 ";
    std::str::from_utf8(name).is_ok_and(|name| NAMES.split_ascii_whitespace().any(|known| known == name))
}

/// Snapshots kept by a receiver.
pub(super) const MAX_INSTANCES: usize = 64;

/// `__newindex` of environments made from a snapshot.
static ASSIGN: Native = Native::leaf("assign_global", assign_global);

fn assign_global(vm: &mut Vm) -> LuaResult<u32> {
    let key = vm.arg(2);
    Err(vm.global_error(Some(key)))
}

/// `__pairs` of environments made from a snapshot: all that can be read there.
static PAIRS: Native = Native::leaf("pairs", |vm| {
    let all = vm.new_table(0, 64)?;
    vm.push(Value::native(&NEXT));
    vm.push(all.into());
    let travelled = vm.arg(1).as_table().and_then(|env| vm.snapshot_globals(env));
    for t in [Some(vm.globals()), travelled].into_iter().flatten() {
        let mut key = Value::NIL;
        while let Some((k, v)) = vm.raw_next(t, key)? {
            vm.raw_set(all, k, v)?;
            key = k;
        }
    }
    Ok(2)
});

static NEXT: Native = Native::leaf("next", |vm| {
    let table = vm.check_table(1)?;
    let key = vm.arg(2);
    match vm.raw_next(table, key)? {
        Some((key, value)) => {
            vm.push(key);
            vm.push(value);
            Ok(2)
        }
        None => vm.ret(Value::NIL),
    }
});

/// The snapshot of what a function of this prototype names in `env`, its upvalue number `upvalue`.
pub(super) fn obtain(
    vm: &mut Vm,
    proto: &Arc<Proto>,
    upvalue: u8,
    env: Gc<Table>,
    tracing: bool,
    strict: bool,
) -> Packed<Arc<Snapshot>> {
    let named_only = vm.lua.crossing.parcel.named_globals_only;
    let key = (Arc::as_ptr(proto) as usize, env.ptr() as usize, upvalue, strict, named_only);
    if let Some(cached) = vm.lua.crossing.parcel.snapshots.remove(&key)
        && vm.still_holds(&cached)
    {
        let snapshot = cached.snapshot.clone();
        vm.lua.crossing.parcel.snapshots.insert(key, cached);
        return Ok(snapshot);
    }
    if vm.lua.crossing.parcel.without_snapshot.contains(&key) {
        return Err(Box::new(Refusal {
            role: Role::Argument,
            count: 0,
            path: Vec::new(),
            reason: Reason::Travels,
        }));
    }
    let mut packer = Packer::new(vm, Role::Argument, tracing, Some(Unit::default()), true);
    let result = packer.own_environment(proto, upvalue, env, strict).and_then(|_| packer.entries());
    if let Err(refusal) = result {
        packer.give_up();
        if refusal.reason == Reason::Travels {
            vm.lua.crossing.parcel.without_snapshot.insert(key);
        }
        return Err(refusal);
    }
    let (graph, modules, unit) = packer.finish(0);
    let unit = unit.unwrap_or_default();
    let all = unit.environments.iter().filter_map(|e| Some((e.table, e.all?))).collect();
    let snapshot = match &graph.refs {
        Some(refs) if !refs.entries.is_empty() => Arc::new(Snapshot { graph }),
        _ => EMPTY.clone(),
    };
    vm.lua
        .crossing
        .parcel
        .snapshots
        .insert(key, Cached { snapshot: snapshot.clone(), taken: unit.taken, modules, all });
    Ok(snapshot)
}

impl Vm {
    /// Whether this snapshot is kept by that key.
    pub(super) fn is_snapshot_of(&self, key: &CacheKey, snapshot: &Arc<Snapshot>) -> bool {
        let cached = self.lua.crossing.parcel.snapshots.get(key);
        cached.is_some_and(|cached| Arc::ptr_eq(&cached.snapshot, snapshot))
    }

    /// Whether making a snapshot again, which was kept by that key, would give the same.
    pub(super) fn snapshot_holds(&mut self, key: &CacheKey, snapshot: &Arc<Snapshot>) -> bool {
        if !self.is_snapshot_of(key, snapshot) {
            return false;
        }
        let Some(cached) = self.lua.crossing.parcel.snapshots.remove(key) else { return false };
        let holds = self.still_holds(&cached);
        if holds {
            self.lua.crossing.parcel.snapshots.insert(*key, cached);
        }
        holds
    }

    /// Whether making the snapshot again would give the same.
    fn still_holds(&mut self, cached: &Cached) -> bool {
        cached.taken.iter().all(|t| self.environment_get(t.environment, t.name).same(t.value))
            && cached.modules.iter().all(|&(module, print)| self.module_changes(module).0 == print)
            // None has been added: those that were there are above.
            && cached.all.iter().all(|&(env, count)| self.program_globals(env).len() == count)
    }

    /// The names of what a program has added to the globals of an environment and may cross as such: for code
    /// that computes names. Coroutines and userdata are never found so in another domain.
    pub(super) fn program_globals(&mut self, env: Gc<Table>) -> Vec<Arc<[u8]>> {
        let mut names = Vec::new();
        for t in [Some(self.globals()), self.snapshot_globals(env)].into_iter().flatten() {
            let mut key = Value::NIL;
            while let Ok(Some((k, v))) = self.raw_next(t, key) {
                key = k;
                let Some(name) = k.as_string() else { continue };
                if v.as_userdata().is_none() && v.tag() != Tag::THREAD && !is_standard(name.bytes()) {
                    names.push(Arc::from(name.bytes()));
                }
            }
        }
        names
    }

    /// The error of a task that assigns a global, under this key if it is known.
    #[cold]
    pub fn global_error(&mut self, key: Option<Value>) -> Thrown {
        let which = match key {
            None => "a global".to_owned(),
            Some(key) => match key.as_string() {
                Some(name) => format!("the global '{}'", name.to_text()),
                None => format!("the global {}", String::from_utf8_lossy(&key_text(key))),
            },
        };
        self.error(format!(
            "a task may not assign {which}: no other domain would see it, but later tasks of this one would. \
             Make it a local variable and return it, or use pl.share, pl.atomic, pl.array or a channel"
        ))
    }

    /// Whether a table is what the code of a task has as its globals.
    pub fn is_task_environment(&self, t: Gc<Table>) -> bool {
        t.is_guarded()
    }

    /// The environment of the Lua code that has called the running native, if that is a task's: what it loads
    /// without saying in which has the same.
    pub fn caller_environment(&self) -> Option<Value> {
        if !self.lua.crossing.parcel.has_environments {
            return None;
        }
        self.find_lua_frame(|c| {
            let upvalues = (0..c.inst().num_upvalues as usize).map(|n| {
                // SAFETY: the upvalue is kept by the closure; its value is on a live stack or its own.
                unsafe { *(*c.upvalue(n)).v }
            });
            upvalues.into_iter().find_map(|v| self.environment(v))
        })
        .filter(|env| env.is_guarded())
        .map(Value::from)
    }

    /// `v` as an environment: the table of globals, or one made from a snapshot.
    #[inline]
    pub(crate) fn environment(&self, v: Value) -> Option<Gc<Table>> {
        let t = v.as_table()?;
        if t == self.globals() || self.snapshot_globals(t).is_some() { Some(t) } else { None }
    }

    /// The table with the globals that travelled, if `env` was made from a snapshot.
    fn snapshot_globals(&self, env: Gc<Table>) -> Option<Gc<Table>> {
        if !env.is_guarded() || env.metatable.is_null() {
            return None;
        }
        // SAFETY: not null, and kept by the table.
        let mt: Gc<Table> = unsafe { Gc::from_ptr(env.metatable) };
        let assign = self.raw_get_str(mt, self.event_name(Event::NewIndex));
        if !assign.same(Value::native(&ASSIGN)) {
            return None;
        }
        self.raw_get_str(mt, self.event_name(Event::Index)).as_table()
    }

    /// A global of an environment.
    #[inline]
    pub(super) fn environment_get(&self, env: Gc<Table>, name: Gc<LuaString>) -> Value {
        if env != self.globals()
            && let Some(travelled) = self.snapshot_globals(env)
        {
            let v = self.raw_get_str(travelled, name);
            if !v.is_nil() {
                return v;
            }
        }
        self.raw_get_str(self.globals(), name)
    }

    /// From now on `package.loaded._G` is what `_G` is to the code of tasks: it reads as the table of globals
    /// does, and takes no assignment. For domains that run tasks.
    pub fn guard_loaded_globals(&mut self) {
        // The globals are known by their name before somebody else has it.
        self.seal_modules();
        let view = self.new_environment().map_or(Value::NIL, |(env, _)| env.into());
        // Without memory for a view there is none: the key exists, so this needs no memory.
        if let Some(loaded) = self.loaded() {
            let _ = self.set_field(loaded, "_G", view);
        }
    }

    /// What `package.loaded._G` is.
    pub(super) fn loaded_globals(&mut self) -> Option<Value> {
        let loaded = self.loaded()?;
        self.get_field(loaded, "_G").ok().filter(|v| !v.is_nil())
    }

    /// The table of globals if `v`, which is in `package.loaded`, is the view of it; else `v`.
    pub(super) fn behind_view(&self, v: Value) -> Value {
        match v.as_table() {
            Some(t) if t.is_guarded() => self.globals().into(),
            _ => v,
        }
    }

    /// An environment for functions that arrive, and the table for the globals that travel with them.
    pub(super) fn new_environment(&mut self) -> LuaResult<(Gc<Table>, Gc<Table>)> {
        self.lua.crossing.parcel.has_environments = true;
        let travelled = self.new_table(0, 4)?;
        let fallback = self.new_table(0, 1)?;
        self.set_field(fallback, "__index", self.globals().into())?;
        self.set_metatable_of(travelled.into(), Some(fallback))?;
        let mt = self.new_table(0, 2)?;
        self.set_field(mt, "__index", travelled.into())?;
        self.set_field(mt, "__newindex", Value::native(&ASSIGN))?;
        self.set_field(mt, "__pairs", Value::native(&PAIRS))?;
        self.set_field(mt, "__metatable", Value::FALSE)?;
        let env = self.new_table(0, 0)?;
        self.set_metatable_of(env.into(), Some(mt))?;
        // SAFETY: just made; this thread owns the heap.
        unsafe { (*env.ptr()).header.flags |= TABLE_GUARDED };
        self.set_field(travelled, "_G", env.into())?;
        Ok((env, travelled))
    }
}
