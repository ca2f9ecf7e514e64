//! What `require` looks for modules by, in another domain: `package.path` and `cpath`, what is in
//! `package.preload`, `package.searchers`.
//!
//! Code that crosses may call `require`, itself or through a module, and is to find there what it would have
//! found at home when it crossed. So what runs code in another domain (a task, a spawned domain, a loop), or
//! refers to modules, brings a [`Search`]; the receiver makes it its own before it loads anything, unless it
//! has it already.
//!
//! Functions in `preload` and `searchers` cross by the rules for captured functions, each by itself
//! ([`Loader`]). One that may not cross refuses nothing: the module may never be asked for. It is replaced by
//! one that says, when `require` comes to it, which one did not cross and why.
//!
//! What a loader runs is a module of the receiver's: its globals are the receiver's, which it may define.
//! Globals that travel with it are put there if they are not there yet.
//!
//! A [`Search`] is made anew only when something has changed. Whether it has is told by the addresses of the
//! functions, so those are kept alive (`KEPT`).

use super::modules::fingerprint;
use super::{Globals, PackRules, Parcel};
use crate::Vm;
use crate::cycle_collector::{Held, Holder};
use crate::native::{LuaResult, Native};
use crate::object::{LuaString, Table};
use crate::value::{Gc, Tag, Value};
use perilune_heap::Obj;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Field of the registry with the functions that a [`Search`] was made of, which keeps them alive.
const KEPT: &str = "_SEARCH";
/// The same for what has arrived.
const KEPT_ARRIVED: &str = "_SEARCH_ARRIVED";
/// Field of the registry with the searchers that a state has at the start.
const STANDARD: &str = "_SEARCHERS";

/// What modules are found by.
pub(super) struct Search {
    /// No other one has it.
    number: i64,
    path: Option<Arc<[u8]>>,
    cpath: Option<Arc<[u8]>>,
    preload: Vec<(Arc<[u8]>, Loader)>,
    /// `None`: those that every state has at the start.
    searchers: Option<Vec<Searcher>>,
}

/// Where `require` of some code looks; see [`Vm::module_search`].
#[derive(Clone)]
pub struct ModuleSearch(Rc<Ours>);

/// A count of a search that this domain's fibers count by themselves: all domains of a pool have the same
/// search.
struct Ours(Arc<Search>);

/// A function that loads or finds modules.
#[derive(Clone)]
enum Loader {
    Function(Parcel),
    /// It may not cross, for this reason.
    Refused(String),
}

enum Searcher {
    /// One that every state has at the start.
    Standard(usize),
    Other(Loader),
}

/// A domain's own, and the one that it has taken over.
#[derive(Default)]
pub(super) struct Searching {
    /// What the domain has now, as far as it was looked at.
    known: Option<(Print, Arc<Search>)>,
    /// The last one that has arrived, and how the domain looked with it.
    arrived: Option<(Print, Arc<Search>)>,
    /// The same for the fibers of this domain, by a count that no other domain touches.
    shared: Option<ModuleSearch>,
    tables: Option<Tables>,
    /// How the domain looks, as long as nobody has stored into one of these tables: they are watched
    /// (`cache.rs`).
    print: Option<Print>,
}

impl Searching {
    /// Reports the roots.
    pub fn trace(&self, mark: &mut impl FnMut(Obj)) {
        if let Some(Tables { package, preload, keys }) = &self.tables {
            mark(package.obj());
            mark(preload.obj());
            keys.iter().for_each(|key| mark(key.obj()));
        }
    }
}

/// By what a change is told.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Print {
    path: u64,
    cpath: u64,
    preload: u64,
    searchers: u64,
}

/// Where `require` of a domain looks. Roots.
#[derive(Clone, Copy)]
struct Tables {
    package: Gc<Table>,
    preload: Gc<Table>,
    /// "path", "cpath", "searchers"
    keys: [Gc<LuaString>; 3],
}

const NAMES: [&str; 3] = ["path", "cpath", "searchers"];

impl Tables {
    fn field(&self, vm: &Vm, n: usize) -> Value {
        vm.raw_get_str(self.package, self.keys[n])
    }

    fn searchers(&self, vm: &Vm) -> Option<Gc<Table>> {
        self.field(vm, 2).as_table()
    }

    fn print(&self, vm: &Vm) -> Print {
        let text = |n| {
            let v = self.field(vm, n);
            if v.as_string().is_some() { v.payload() } else { 0 }
        };
        let searchers = self.searchers(vm).map_or(0, |t| fingerprint(t) ^ t.address() as u64);
        Print { path: text(0), cpath: text(1), preload: fingerprint(self.preload), searchers }
    }
}

impl Vm {
    fn search_tables(&mut self) -> Option<Tables> {
        if self.lua.crossing.parcel.searching.tables.is_none() {
            let registry = self.registry();
            // `require` looks into the table that it was made with, whatever `package` is by now.
            let require = self.get_field(registry, "_REQUIRE").ok()?.as_native_closure()?;
            let package = require.upvalue(0)?.as_table()?;
            let preload = self.get_field(registry, "_PRELOAD").ok()?.as_table()?;
            let [path, cpath, searchers] = NAMES.map(|name| self.intern_bytes(name.as_bytes()).ok());
            let keys = [path?, cpath?, searchers?];
            self.lua.crossing.parcel.searching.tables = Some(Tables { package, preload, keys });
        }
        self.lua.crossing.parcel.searching.tables
    }

    /// How the domain looks now.
    #[inline]
    fn search_print(&mut self, tables: &Tables) -> Print {
        match self.lua.crossing.parcel.searching.print {
            Some(print) => print,
            None => self.new_print(tables),
        }
    }

    #[cold]
    #[inline(never)]
    fn new_print(&mut self, tables: &Tables) -> Print {
        let print = tables.print(self);
        let all = [Some(tables.package), Some(tables.preload), tables.searchers(self)];
        let all = all.iter().flatten();
        if all.clone().all(|t| !t.is_frozen() && !t.is_in_island()) {
            for t in all {
                // SAFETY: a live table of this heap, which is neither frozen nor in an island.
                unsafe { self.heap.watch(t.obj()) };
            }
            self.lua.crossing.parcel.searching.print = Some(print);
        }
        print
    }

    /// Somebody stores into a table that is watched: it may be one of those that modules are found by.
    pub(super) fn search_may_change(&mut self) {
        self.lua.crossing.parcel.searching.print = None;
    }

    /// What modules are found by here. Runs no Lua code and collects nothing.
    pub(super) fn search(&mut self) -> Option<Arc<Search>> {
        let tables = self.search_tables()?;
        let print = self.search_print(&tables);
        let searching = &self.lua.crossing.parcel.searching;
        // What has arrived cannot change.
        let known = searching.known.iter().filter(|(_, search)| !search.holds_copies());
        for (known, search) in known.chain(&searching.arrived) {
            if *known == print {
                return Some(search.clone());
            }
        }
        let search = Arc::new(self.make_search(&tables));
        self.lua.crossing.parcel.searching.known = Some((print, search.clone()));
        Some(search)
    }

    fn make_search(&mut self, tables: &Tables) -> Search {
        static NUMBERS: AtomicI64 = AtomicI64::new(1);
        let text = |n| tables.field(self, n).as_string().map(|s| Arc::from(s.bytes()));
        let (path, cpath) = (text(0), text(1));
        let mut entries = Vec::new();
        super::modules::all_fields(self, tables.preload, |key, v| entries.push((key, v)));
        let mut kept: Vec<Value> = entries.iter().map(|e| e.1).collect();
        kept.extend([tables.field(self, 0), tables.field(self, 1)]);
        let mut preload = Vec::new();
        for (key, v) in entries {
            // What the host has put there it has put into every state.
            if let Some(name) = key.as_string()
                && v.tag() != Tag::NATIVE
                && v.is_function()
            {
                let what = format!("package.preload['{}']", name.to_text());
                preload.push((Arc::from(name.bytes()), self.loader(v, &what)));
            }
        }
        let searchers = tables.searchers(self).and_then(|t| {
            let list: Vec<Value> = (1..=self.raw_len(t)).map(|i| self.raw_get_int(t, i)).collect();
            kept.extend(&list);
            kept.push(t.into());
            let standard = self.standard_searchers();
            let is_standard =
                list.len() == standard.len() && list.iter().zip(&standard).all(|(a, b)| a.same(*b));
            let mut n = 0;
            (!is_standard).then(|| {
                list.iter()
                    .map(|&v| {
                        n += 1;
                        match standard.iter().position(|s| s.same(v)) {
                            Some(at) => Searcher::Standard(at),
                            None => Searcher::Other(self.loader(v, &format!("package.searchers[{n}]"))),
                        }
                    })
                    .collect()
            })
        });
        // Without memory for it, an address might be taken for another one's: then the list is made again
        // next time.
        let _ = self.keep(KEPT, &kept);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Search { number, path, cpath, preload, searchers }
    }

    fn standard_searchers(&mut self) -> Vec<Value> {
        let registry = self.registry();
        match self.get_field(registry, STANDARD).ok().and_then(Value::as_table) {
            Some(t) => (1..=self.raw_len(t)).map(|i| self.raw_get_int(t, i)).collect(),
            None => Vec::new(),
        }
    }

    /// Keeps values alive under this name, in place of those before.
    fn keep(&mut self, name: &str, values: &[Value]) -> LuaResult<()> {
        let values: Vec<Value> = values.iter().copied().filter(|v| v.is_collectable()).collect();
        let t = self.new_table(values.len(), 0)?;
        self.raw_set_list(t, 1, &values)?;
        let registry = self.registry();
        self.set_field(registry, name, t.into())
    }

    /// The function that a loader stands for, if it is one that has arrived and been called.
    pub(super) fn called_loader(&self, loader: Value) -> Value {
        let c = loader.as_native_closure().filter(|_| is_arrived(loader));
        c.and_then(|c| c.upvalue(2)).unwrap_or(loader)
    }

    fn loader(&mut self, v: Value, what: &str) -> Loader {
        // One that has arrived here stands for what it was at home.
        if let Some(loader) = self.arrived_loader(v) {
            return loader.clone();
        }
        match self.pack_plainly(&[v], PackRules::LOADER) {
            Ok(parcel) => Loader::Function(parcel),
            Err(refusal) => Loader::Refused(format!("{what} did not come along: {}", refusal.text())),
        }
    }

    /// What modules are found by, if it came from another domain: for code that goes on later, when others
    /// may have brought theirs.
    pub fn module_search(&self) -> Option<ModuleSearch> {
        self.lua.crossing.parcel.searching.shared.clone()
    }

    /// Modules are found by this again. What the running code has changed itself stays, if nobody else's came
    /// in between. Without memory for it, they are found by some of it; whatever asks for them will lack
    /// memory too.
    #[inline]
    pub fn set_module_search(&mut self, search: &ModuleSearch) {
        let now = self.lua.crossing.parcel.searching.shared.as_ref();
        if !now.is_some_and(|now| Arc::ptr_eq(&now.0.0, &search.0.0)) {
            let _ = self.adopt_search(&search.0.0);
        }
    }

    // -- In the receiver ------------------------------------------------------------------------------------

    /// Modules are found by this from now on.
    pub(super) fn adopt_search(&mut self, search: &Arc<Search>) -> LuaResult<()> {
        let Some(tables) = self.search_tables() else { return Ok(()) };
        let print = self.search_print(&tables);
        let searching = &self.lua.crossing.parcel.searching;
        if searching
            .known
            .iter()
            .chain(&searching.arrived)
            .any(|(p, s)| *p == print && Arc::ptr_eq(s, search))
        {
            return Ok(());
        }
        self.set_paths(search)?;
        let mut kept = Vec::new();
        let before = self.lua.crossing.parcel.searching.arrived.take().map(|(_, search)| search);
        if let Some(before) = &before {
            // What came with the last one and not with this one is gone.
            for (name, _) in &before.preload {
                let name = self.intern_bytes(name)?;
                let v = self.raw_get_str(tables.preload, name);
                if is_arrived(v) {
                    self.raw_set_str(tables.preload, name, Value::NIL)?;
                }
            }
        }
        for (at, (name, _)) in search.preload.iter().enumerate() {
            let key = self.intern_bytes(name)?;
            let loader = self.stand_in(&LOAD, search, at)?;
            kept.push(loader);
            self.raw_set_str(tables.preload, key, loader)?;
        }
        let had_others = before.is_some_and(|b| b.searchers.is_some());
        if search.searchers.is_some() || had_others {
            self.set_searchers(&tables, search, &mut kept)?;
        }
        let print = self.search_print(&tables);
        kept.extend([0, 1, 2].map(|n| tables.field(self, n)));
        self.keep(KEPT_ARRIVED, &kept)?;
        self.lua.crossing.parcel.searching.known = None;
        self.lua.crossing.parcel.searching.arrived = Some((print, search.clone()));
        self.lua.crossing.parcel.searching.shared = Some(ModuleSearch(Rc::new(Ours(search.clone()))));
        Ok(())
    }

    /// `package.path` and `cpath` as they were over there.
    pub(super) fn set_paths(&mut self, search: &Search) -> LuaResult<()> {
        let Some(tables) = self.search_tables() else { return Ok(()) };
        for (n, text) in [&search.path, &search.cpath].into_iter().enumerate() {
            if let Some(text) = text {
                let v = self.value_str(text)?;
                self.raw_set_str(tables.package, tables.keys[n], v)?;
            }
        }
        Ok(())
    }

    /// The function that stands for loader `at` of `search`.
    fn stand_in(&mut self, native: &'static Native, search: &Search, at: usize) -> LuaResult<Value> {
        self.new_native_closure(native, &[Value::int(at as i64), Value::int(search.number), Value::NIL])
    }

    fn set_searchers(&mut self, tables: &Tables, search: &Search, kept: &mut Vec<Value>) -> LuaResult<()> {
        let standard = self.standard_searchers();
        let list = self.new_table(standard.len(), 0)?;
        match &search.searchers {
            None => {
                for (at, &v) in standard.iter().enumerate() {
                    self.raw_set_int(list, at as i64 + 1, v)?;
                }
            }
            Some(searchers) => {
                for (at, searcher) in searchers.iter().enumerate() {
                    let v = match searcher {
                        Searcher::Standard(n) => standard.get(*n).copied().unwrap_or(Value::NIL),
                        Searcher::Other(_) => self.stand_in(&SEARCH, search, at)?,
                    };
                    kept.push(v);
                    self.raw_set_int(list, at as i64 + 1, v)?;
                }
            }
        }
        self.raw_set_str(tables.package, tables.keys[2], list.into())
    }

    /// What has arrived as this function of `preload` or `searchers`.
    fn arrived_loader(&self, v: Value) -> Option<&Loader> {
        if !is_arrived(v) {
            return None;
        }
        let c = v.as_native_closure()?;
        let (at, number) = (c.upvalue(0)?.as_int()? as usize, c.upvalue(1)?.as_int()?);
        let (_, search) =
            self.lua.crossing.parcel.searching.arrived.as_ref().filter(|(_, s)| s.number == number)?;
        if std::ptr::eq(c.native, &LOAD) {
            return search.preload.get(at).map(|(_, loader)| loader);
        }
        match search.searchers.as_ref()?.get(at)? {
            Searcher::Other(loader) => Some(loader),
            Searcher::Standard(_) => None,
        }
    }

    /// Calls the function that the running native, which has arrived, stands for, with the same arguments.
    fn call_arrived(&mut self) -> LuaResult<Result<u32, String>> {
        let count = self.nargs();
        let mut f = self.upvalue(3);
        if f.is_nil() {
            let me = self.running_function();
            let parcel = match self.arrived_loader(me).cloned() {
                Some(Loader::Function(parcel)) => parcel,
                Some(Loader::Refused(text)) => return Ok(Err(text)),
                None => {
                    return Ok(Err("a function of 'package' that another domain has changed since".into()));
                }
            };
            f = self.unpack_one(&parcel)?;
            self.set_upvalue(3, f);
        }
        let args: Vec<Value> = (1..=count).map(|n| self.arg(n)).collect();
        self.call_multi(f, &args, -1).map(Ok)
    }
}

/// Whether a function is one that stands for another domain's.
fn is_arrived(v: Value) -> bool {
    v.as_native().is_some_and(|n| std::ptr::eq(n, &LOAD) || std::ptr::eq(n, &SEARCH))
}

impl Search {
    /// Whether functions in it have brought copies of tables, which may be others by now.
    fn holds_copies(&self) -> bool {
        self.parcels().any(Parcel::holds_copies)
    }

    /// Whether it owns counts of what may own counts itself.
    pub fn holds_counts(&self) -> bool {
        self.parcels().any(Parcel::holds_counts)
    }

    fn parcels(&self) -> impl Iterator<Item = &Parcel> {
        let others = self.searchers.iter().flatten().filter_map(|s| match s {
            Searcher::Other(loader) => Some(loader),
            Searcher::Standard(_) => None,
        });
        self.preload.iter().map(|(_, loader)| loader).chain(others).filter_map(|loader| match loader {
            Loader::Function(parcel) => Some(parcel),
            Loader::Refused(_) => None,
        })
    }
}

impl Holder for Search {
    fn held(&self, to: &mut Held<'_>) {
        self.parcels().for_each(|parcel| parcel.held(to));
    }
}

impl PackRules {
    /// A function that loads modules.
    pub(super) const LOADER: PackRules =
        PackRules { role: super::Role::Loader, globals: Globals::Module, waits: false };
}

/// Stands for a function in another domain's `package.preload`.
static LOAD: Native = Native::reentrant("loader", |vm| match vm.call_arrived()? {
    Ok(count) => Ok(count),
    Err(why) => Err(vm.error(why)),
});

/// Stands for a function in another domain's `package.searchers`.
static SEARCH: Native = Native::reentrant("searcher", |vm| match vm.call_arrived()? {
    Ok(count) => Ok(count),
    Err(why) => vm.ret_str(why.as_bytes()),
});
