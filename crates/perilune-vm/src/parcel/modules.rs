//! Modules: what the receiver finds again by name, and whether it still is what the receiver will find.
//!
//! A module is a value of `package.loaded`. It never crosses; its name does, and the receiver requires it
//! itself. The same holds for what a module has in a field, or in a field of a field: functions, classes,
//! userdata (`io.stdout`). So a class in a module is found again as the metatable of a message, and a
//! function of a module as a function of the receiver's own.
//!
//! # Sealing
//! That is right as long as the module is what loading it makes. So each is *sealed* when its `require`
//! returns: it and the tables inside it are watched from then on (`inside.rs`), and what they were is noted
//! before the first store. Modules that were loaded before the program first used more than one domain are
//! sealed then; what was done to them before is taken for what they are. The tables of the standard library
//! are compared with what the first state of the process had in them when it had opened its libraries.
//!
//! When a module is referred to, the number of stores that have been noticed (of a library's table, a sum
//! over its fields) tells whether anything has changed. If so, the fields that differ are looked for: they go
//! along if they could cross (and the receiver's module gets them), else the refusal names them.
//!
//! What this does not see: what a module keeps in local variables, which is each domain's own by design.
//! Fields of `package` and `_G` are not compared: the former belong to the domain, the latter have rules of
//! their own (`snapshot.rs`).
//!
//! # Addresses
//! The index from addresses to paths is a hint: a hit counts only if the path still leads to the value.
//! Modules are roots, so that no new object can take the address of one and pass for it.

use super::inside::Path;
use crate::Vm;
use crate::native::LuaResult;
use crate::object::{LuaString, Table};
use crate::shape;
use crate::value::{Gc, Tag, Value};
use perilune_heap::Obj;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// Fields of a module that are compared.
pub(super) const MAX_FIELDS: usize = 4096;
/// Fields of a module, or of a table in one, that are found again by path.
const MAX_INDEXED: usize = 1024;
/// So many fields of a module are remembered as written by this domain; of one with more, all are its own.
const MAX_OURS: usize = 1024;

/// What has been done to a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Added, or assigned another value.
    Set,
    /// Removed.
    Removed,
    /// Its key is no string.
    Odd,
}

/// A field that is not what it was when the module was sealed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub field: Arc<[u8]>,
    pub what: What,
}

/// A path to a value.
#[derive(Clone, Debug)]
pub(super) struct KnownPath {
    pub module: u32,
    pub fields: [Option<Arc<[u8]>>; 2],
}

struct Module {
    name: Arc<[u8]>,
    value: Plain,
    standard: Option<&'static StandardModule>,
    /// Its number in the list of `inside.rs`, if it is a table that can be changed, and no library's.
    root: Option<u32>,
    /// Fields that have arrived from other domains: the key, what arrived last, and what was there at first.
    /// Roots.
    arrived: Vec<(Value, Value, Value)>,
    ours: Ours,
    /// The fingerprint that `changes` belongs to.
    print: Option<u64>,
    changes: Arc<[Change]>,
}

/// Which fields of a module this domain has written to and sent to others.
enum Ours {
    These(BTreeSet<Arc<[u8]>>),
    All,
}

impl Ours {
    fn contains(&self, field: &[u8]) -> bool {
        match self {
            Ours::These(names) => names.contains(field),
            Ours::All => true,
        }
    }

    fn add<'a>(&mut self, fields: impl Iterator<Item = &'a Arc<[u8]>>) {
        if let Ours::These(names) = self {
            names.extend(fields.cloned());
            if names.len() > MAX_OURS {
                *self = Ours::All;
            }
        }
    }
}

impl Module {
    fn trace(&self, mark: &mut impl FnMut(Obj)) {
        Value::raw(Tag(self.value.0), self.value.1).obj().map(&mut *mark);
    }
}

/// A domain's modules.
#[derive(Default)]
pub(crate) struct Modules {
    list: Vec<Module>,
    /// How many of the list a collection has made old.
    old: usize,
    /// Tables of the list, by address.
    tables: HashSet<u64, foldhash::fast::FixedState>,
    paths: HashMap<u64, KnownPath, foldhash::fast::FixedState>,
    /// Whether modules are sealed at all: not before the program uses more than one domain.
    active: bool,
    /// The first so many modules have their paths in `paths`.
    indexed: u32,
    string: Option<u32>,
}

impl Modules {
    /// Whether there may be a path to `v`.
    #[inline(always)]
    pub fn may_know(&self, v: Value) -> bool {
        self.paths.contains_key(&v.payload())
    }

    /// Whether the table with this address is a module.
    pub fn is_module(&self, table: u64) -> bool {
        self.tables.contains(&table)
    }

    /// Reports the roots. `all`: also what an earlier collection has made old.
    pub fn trace(&self, all: bool, mark: &mut impl FnMut(Obj)) {
        self.list[if all { 0 } else { self.old }..].iter().for_each(|m| m.trace(mark));
        for v in self.list.iter().flat_map(|m| &m.arrived).flat_map(|a| [a.0, a.1, a.2]) {
            v.obj().map(&mut *mark);
        }
    }

    /// At the end of a collection.
    pub fn collected(&mut self, ageing: bool) {
        if ageing {
            self.old = self.list.len();
        }
    }
}

/// Tag and payload of a value that means the same everywhere.
type Plain = (u8, u64);

/// What a table of the standard library holds at the start.
struct StandardModule {
    name: Box<[u8]>,
    /// Fields and their values, as far as these are the same in every domain.
    fields: Vec<(Box<[u8]>, Option<Plain>)>,
}

static STANDARD: OnceLock<Vec<StandardModule>> = OnceLock::new();

impl StandardModule {
    /// Whether `v` is what field `name` holds at the start, as far as that is known.
    fn has(&self, name: &[u8], v: Value) -> bool {
        match self.fields.iter().find(|f| *f.0 == *name) {
            None => false,
            Some((_, None)) => true,
            Some((_, Some(value))) => same_everywhere(v) == Some(*value),
        }
    }
}

impl StandardModule {
    /// What a field holds at the start, if that is no object; nil, too, if there is no such field.
    fn value(&self, name: &[u8]) -> Value {
        match self.fields.iter().find(|f| *f.0 == *name) {
            Some((_, Some((tag, payload)))) if Tag(*tag) != Tag::NATIVE_CLOSURE => {
                Value::raw(Tag(*tag), *payload)
            }
            _ => Value::NIL,
        }
    }
}

/// A value that means the same in every domain, or a native closure by its native function.
fn same_everywhere(v: Value) -> Option<Plain> {
    match v.tag() {
        Tag::NIL | Tag::FALSE | Tag::TRUE | Tag::INT | Tag::FLOAT | Tag::NATIVE => {
            Some((v.tag().0, v.payload()))
        }
        Tag::NATIVE_CLOSURE => v.as_native().map(|n| (v.tag().0, n as *const _ as u64)),
        _ => None,
    }
}

/// Whether two values are the same; strings, if they have the same text.
pub(super) fn is_same(a: Value, b: Value) -> bool {
    a.same(b) || matches!((a.as_string(), b.as_string()), (Some(a), Some(b)) if a.bytes() == b.bytes())
}

fn mix_value(v: Value) -> u64 {
    let payload = match v.as_string() {
        Some(s) => s.hash() as u64,
        None => v.payload(),
    };
    payload.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ v.tag().0 as u64
}

fn mix(key: u64, v: Value) -> u64 {
    let x = (key.rotate_left(23) ^ mix_value(v)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ x >> 32
}

/// Calls `f` with all fields of a table.
pub(super) fn all_fields(vm: &mut Vm, t: Gc<Table>, mut f: impl FnMut(Value, Value)) {
    for slot in 0..shape::field_count(t.shape) {
        // SAFETY: a table has a slot for each field of its shape.
        let v = unsafe { *t.slots.add(slot as usize) };
        if !v.is_nil() {
            f(vm.key_at(t.shape, slot).into(), v);
        }
    }
    for node in t.node_slice().iter().filter(|n| n.is_live()) {
        f(node.key(), node.value());
    }
    for at in 0..t.extent() {
        // SAFETY: within `extent`.
        let v = unsafe { t.element(at) };
        if !v.is_nil() {
            f(Value::int(at as i64 + 1), v);
        }
    }
}

/// Calls `f` with the fields of a table: those in slots, in the hash part, in a general array; the first
/// [`MAX_FIELDS`] of each.
pub(super) fn fields(vm: &mut Vm, t: Gc<Table>, mut f: impl FnMut(&mut Vm, Value, Value)) {
    for slot in 0..shape::field_count(t.shape) {
        // SAFETY: a table has a slot for each field of its shape.
        let v = unsafe { *t.slots.add(slot as usize) };
        if !v.is_nil() {
            let key = vm.key_at(t.shape, slot);
            f(vm, key.into(), v);
        }
    }
    for node in t.node_slice().iter().take(MAX_FIELDS).filter(|n| n.is_live()) {
        f(vm, node.key(), node.value());
    }
    for at in 0..t.extent().min(MAX_FIELDS) {
        // SAFETY: within `extent`.
        let v = unsafe { t.element(at) };
        f(vm, Value::int(at as i64 + 1), v);
    }
}

/// A sum over the fields that changes when one does. Keys count as where they are, which is enough: no key
/// gets another place unless one is added.
pub(super) fn fingerprint(t: Gc<Table>) -> u64 {
    let mut sum = (t.shape as u64) << 32 | t.array_len as u64;
    for slot in 0..shape::field_count(t.shape) {
        // SAFETY: a table has a slot for each field of its shape.
        sum = sum.wrapping_add(mix(slot as u64, unsafe { *t.slots.add(slot as usize) }));
    }
    for node in t.node_slice().iter().filter(|n| n.is_live()) {
        sum = sum.wrapping_add(mix(node.key().payload(), node.value()));
    }
    for at in 0..t.extent() {
        // SAFETY: within `extent`.
        sum = sum.wrapping_add(mix(at as u64, unsafe { t.element(at) }));
    }
    sum
}

impl Vm {
    /// To be called when the standard libraries have been opened and nothing else has run: what changes to
    /// their tables are told from. Costs nothing from the second state of the process on.
    pub fn record_standard_library(&mut self) {
        if STANDARD.get().is_some() {
            return;
        }
        let mut list = Vec::new();
        let Some(loaded) = self.loaded() else { return };
        fields(self, loaded, |vm, name, value| {
            let (Some(name), Some(t)) = (name.as_string(), value.as_table()) else { return };
            let mut module = StandardModule { name: name.bytes().into(), fields: Vec::new() };
            fields(vm, t, |_, key, v| {
                if let Some(key) = key.as_string() {
                    module.fields.push((key.bytes().into(), same_everywhere(v)));
                }
            });
            list.push(module);
        });
        // Another thread may have been faster: it has recorded the same.
        let _ = STANDARD.set(list);
    }

    /// From now on modules are sealed; those that are loaded already are now. To be called when the program
    /// begins to use several domains; packing does it otherwise.
    pub fn seal_modules(&mut self) {
        if std::mem::replace(&mut self.lua.crossing.parcel.modules.active, true) {
            return;
        }
        let Some(loaded) = self.loaded() else { return };
        let mut found = Vec::new();
        fields(self, loaded, |_, name, value| {
            if let Some(name) = name.as_string() {
                found.push((name.bytes().to_vec(), value));
            }
        });
        // Nothing is collected meanwhile, so the list may hold values. The standard library comes first: a
        // field of `_G` may be its table.
        let rank = |name: &[u8]| (name == b"_G", standard_module(name).is_none());
        found.sort_by(|a, b| rank(&a.0).cmp(&rank(&b.0)).then_with(|| a.0.cmp(&b.0)));
        for (name, value) in found {
            self.seal(&name, value, Value::NIL);
        }
    }

    /// To be called when `require` has loaded a module by this loader.
    pub fn module_required(&mut self, name: &[u8], value: Value, loader: Value) {
        if self.lua.crossing.parcel.modules.active
            && !self.lua.crossing.parcel.modules.list.iter().any(|m| *m.name == *name)
        {
            self.seal(name, value, self.called_loader(loader));
        }
    }

    pub(super) fn loaded(&mut self) -> Option<Gc<Table>> {
        self.get_field(self.registry(), "_LOADED").ok()?.as_table()
    }

    fn seal(&mut self, name: &[u8], value: Value, loader: Value) {
        let module = self.lua.crossing.parcel.modules.list.len() as u32;
        let standard = standard_module(name);
        let modules = &mut self.lua.crossing.parcel.modules;
        if name == b"string" {
            modules.string = Some(module);
        }
        modules.tables.extend(value.as_table().map(|t| t.address() as u64));
        modules.list.push(Module {
            name: name.into(),
            value: (value.tag().0, value.payload()),
            standard,
            root: None,
            arrived: Vec::new(),
            ours: Ours::These(BTreeSet::new()),
            print: None,
            changes: Arc::new([]),
        });
        if let Some(t) = value.as_table()
            && standard.is_none()
        {
            let root = self.seal_inside(module, t, loader);
            self.lua.crossing.parcel.modules.list[module as usize].root = root;
        }
    }

    /// Seals what is loaded, and makes paths to it known: before packing.
    #[inline]
    pub(super) fn modules_ready(&mut self) {
        let modules = &self.lua.crossing.parcel.modules;
        if !modules.active || (modules.indexed as usize) < modules.list.len() {
            self.index_modules();
        }
    }

    #[inline(never)]
    fn index_modules(&mut self) {
        self.seal_modules();
        while let Some(m) =
            self.lua.crossing.parcel.modules.list.get(self.lua.crossing.parcel.modules.indexed as usize)
        {
            let value = Value::raw(Tag(m.value.0), m.value.1);
            // What has been a captured table is found by name now.
            self.changed_unseen();
            self.index_module(self.lua.crossing.parcel.modules.indexed, value);
            self.lua.crossing.parcel.modules.indexed += 1;
        }
    }

    /// Makes what is in a module known by path.
    fn index_module(&mut self, module: u32, value: Value) {
        self.add_path(value, || KnownPath { module, fields: [None, None] });
        let Some(t) = value.as_table() else { return };
        let Module { name, standard, .. } = &self.lua.crossing.parcel.modules.list[module as usize];
        let (name, standard) = (name.clone(), *standard);
        let mut tables = Vec::new();
        let mut count = 0;
        fields(self, t, |vm, key, v| {
            let Some(key) = key.as_string() else { return };
            count += 1;
            // A program's own globals are no part of the library.
            if count > MAX_INDEXED || (*name == *b"_G" && v.tag() != Tag::NATIVE_CLOSURE) {
                return;
            }
            // What the program has put into a table of the library, or into a module since it was sealed, is
            // not there elsewhere.
            let is_as_it_was = match standard {
                Some(standard) => standard.has(key.bytes(), v),
                None => vm.inside_is_as_it_was(t, key.into(), v),
            };
            if !is_as_it_was {
                return;
            }
            vm.add_path(v, || KnownPath { module, fields: [Some(key.bytes().into()), None] });
            if standard.is_none()
                && let Some(inner) = v.as_table()
            {
                tables.push((Arc::from(key.bytes()), inner));
            }
        });
        for (field, inner) in tables {
            if self.is_weak(inner) {
                continue;
            }
            let mut count = 0;
            fields(self, inner, |vm, key, v| {
                let Some(key) = key.as_string() else { return };
                count += 1;
                if count <= MAX_INDEXED && vm.inside_is_as_it_was(inner, key.into(), v) {
                    let field: &Arc<[u8]> = &field;
                    let fields = || [Some(field.clone()), Some(key.bytes().into())];
                    vm.add_path(v, || KnownPath { module, fields: fields() });
                }
            });
        }
    }

    /// The first path to something stays.
    fn add_path(&mut self, v: Value, path: impl FnOnce() -> KnownPath) {
        if matches!(v.tag(), Tag::TABLE | Tag::CLOSURE | Tag::NATIVE_CLOSURE | Tag::USERDATA) {
            self.lua.crossing.parcel.modules.paths.entry(v.payload()).or_insert_with(path);
        }
    }

    /// The path to `v`, if it is part of a module.
    pub(super) fn known_path(&mut self, v: Value) -> Option<KnownPath> {
        let path = self.lua.crossing.parcel.modules.paths.get(&v.payload())?.clone();
        // It may be put back there.
        self.follow(&path).filter(|found| found.same(v)).map(|_| path)
    }

    /// What a path leads to here.
    fn follow(&mut self, path: &KnownPath) -> Option<Value> {
        let name = self.lua.crossing.parcel.modules.list[path.module as usize].name.clone();
        let loaded = self.loaded()?;
        let key = self.intern_bytes(&name).ok()?;
        let mut v = self.behind_view(self.raw_get_str(loaded, key));
        for field in path.fields.iter().flatten() {
            let key = self.intern_bytes(field).ok()?;
            v = self.raw_get_str(v.as_table()?, key);
        }
        Some(v)
    }

    /// The name of a module, and whether it is the standard library's.
    pub(super) fn module_name(&self, module: u32) -> (Arc<[u8]>, bool) {
        let m = &self.lua.crossing.parcel.modules.list[module as usize];
        (m.name.clone(), m.standard.is_some())
    }

    /// What `require` has returned for a module.
    pub(super) fn module_value(&self, module: u32) -> Value {
        let (tag, payload) = self.lua.crossing.parcel.modules.list[module as usize].value;
        Value::raw(Tag(tag), payload)
    }

    /// A field of a module as it is now.
    pub(super) fn module_field(&mut self, module: u32, field: &[u8]) -> Value {
        let value = self.module_value(module);
        self.find_str(value, field)
    }

    /// A field of a module has arrived. It is stored, but if `ours_stay` and this domain has written to it.
    pub(super) fn module_field_arrives(
        &mut self,
        t: Gc<Table>,
        field: &[u8],
        v: Value,
        ours_stay: bool,
    ) -> LuaResult<()> {
        let name = self.intern_bytes(field)?;
        let now = self.raw_get_str(t, name);
        if let Some(n) = self.module_of(t) {
            let at_first = self.at_first(n, name, now);
            let m = &mut self.lua.crossing.parcel.modules.list[n];
            match m.arrived.iter_mut().find(|a| a.0.same(name.into())) {
                // Somebody here has written to it since.
                Some(arrived) if ours_stay && !is_same(arrived.1, now) => return Ok(()),
                Some(arrived) => arrived.1 = v,
                None if ours_stay && (!is_same(at_first, now) || m.ours.contains(field)) => return Ok(()),
                None => m.arrived.push((name.into(), v, at_first)),
            }
        }
        if !is_same(now, v) {
            self.lua.crossing.parcel.inside.arrivals += 1;
            self.raw_set_str(t, name, v)?;
        }
        Ok(())
    }

    /// What a field of a module was at first, if `now` is what it is. Of the library only what is the same
    /// everywhere is known.
    fn at_first(&self, module: usize, field: Gc<LuaString>, now: Value) -> Value {
        let m = &self.lua.crossing.parcel.modules.list[module];
        match m.standard {
            Some(standard) if standard.has(field.bytes(), now) => now,
            Some(standard) => standard.value(field.bytes()),
            None => self.first_value(m.root, field.into(), now),
        }
    }

    fn module_of(&self, t: Gc<Table>) -> Option<usize> {
        let value = Value::from(t);
        let modules = &self.lua.crossing.parcel.modules;
        modules.list.iter().position(|m| m.value == (value.tag().0, value.payload()))
    }

    /// Whether anything has arrived in modules here that may have to be taken back.
    pub(super) fn has_arrived(&self) -> bool {
        self.lua.crossing.parcel.inside.arrivals != 0
    }

    /// Takes back what has arrived in a module and a parcel that refers to it does not tell: `fields` and
    /// `paths` are what it does.
    pub(super) fn take_back(&mut self, module: Value, fields: &[&[u8]], paths: &[&Path]) -> LuaResult<()> {
        let Some(t) = module.as_table() else { return Ok(()) };
        let Some(n) = self.module_of(t) else { return Ok(()) };
        let m = &mut self.lua.crossing.parcel.modules.list[n];
        if !m.arrived.is_empty() {
            let told: HashSet<&[u8], foldhash::fast::FixedState> = fields.iter().copied().collect();
            let is_told =
                |a: &(Value, Value, Value)| a.0.as_string().is_some_and(|s| told.contains(s.bytes()));
            let (arrived, gone): (Vec<_>, Vec<_>) = m.arrived.drain(..).partition(is_told);
            m.arrived = arrived;
            for (name, _, at_first) in gone {
                if !is_same(self.raw_get(t, name), at_first) {
                    self.lua.crossing.parcel.inside.arrivals += 1;
                    self.raw_set(t, name, at_first)?;
                }
            }
        }
        self.inside_take_back(n as u32, paths)
    }

    /// The number of the module of this name.
    pub(super) fn module_number(&self, name: &[u8]) -> Option<u32> {
        self.lua.crossing.parcel.modules.list.iter().position(|m| *m.name == *name).map(|n| n as u32)
    }

    /// A fingerprint of a module, which changes when something in it does.
    pub(super) fn module_print(&mut self, module: u32) -> u64 {
        let m = &self.lua.crossing.parcel.modules.list[module as usize];
        match (m.root, m.standard, self.module_value(module).as_table()) {
            (Some(root), ..) => self.inside_print(module, root),
            (None, Some(_), Some(t)) => fingerprint(t),
            _ => 0,
        }
    }

    /// The module of the string functions.
    pub(super) fn string_module(&self) -> Option<u32> {
        self.lua.crossing.parcel.modules.string
    }

    /// The fingerprint of a module, and what has been changed in it since it was sealed.
    pub(super) fn module_changes(&mut self, module: u32) -> (u64, Arc<[Change]>) {
        let m = &self.lua.crossing.parcel.modules.list[module as usize];
        let Some(t) = self.module_value(module).as_table() else { return (0, m.changes.clone()) };
        if matches!(&*m.name, b"_G" | b"package") {
            return (0, m.changes.clone());
        }
        let print = self.module_print(module);
        let m = &self.lua.crossing.parcel.modules.list[module as usize];
        if m.print == Some(print) {
            return (print, m.changes.clone());
        }
        let changes: Arc<[Change]> = match m.standard {
            Some(standard) => self.standard_changes(t, standard),
            None => self.sealed_changes(module),
        }
        .into();
        let m = &mut self.lua.crossing.parcel.modules.list[module as usize];
        m.ours.add(changes.iter().filter(|c| c.what == What::Set).map(|c| &c.field));
        m.print = Some(print);
        m.changes = changes.clone();
        (print, changes)
    }

    fn standard_changes(&mut self, t: Gc<Table>, standard: &'static StandardModule) -> Vec<Change> {
        let mut changes = Vec::new();
        all_fields(self, t, |key, v| {
            let Some(name) = key.as_string() else {
                changes.push(Change { field: key_text(key), what: What::Odd });
                return;
            };
            if !standard.has(name.bytes(), v) {
                changes.push(Change { field: name.bytes().into(), what: What::Set });
            }
        });
        for (name, _) in &standard.fields {
            let missing = match self.intern_bytes(name) {
                Ok(key) => self.raw_get_str(t, key).is_nil(),
                Err(_) => false,
            };
            if missing {
                changes.push(Change { field: name.as_ref().into(), what: What::Removed });
            }
        }
        changes
    }

    fn sealed_changes(&mut self, module: u32) -> Vec<Change> {
        let root = self.lua.crossing.parcel.modules.list[module as usize].root;
        let differ = root.map_or(Vec::new(), |root| self.fields_that_differ(root));
        let change = |(key, v): (Value, Value)| {
            let field = key.as_string().map_or_else(|| key_text(key), |name| name.bytes().into());
            let what = match (key.as_string(), v.is_nil()) {
                (_, true) => What::Removed,
                (Some(_), false) => What::Set,
                (None, false) => What::Odd,
            };
            Change { field, what }
        };
        let mut changes: Vec<Change> = differ.into_iter().map(change).collect();
        // Which one a refusal names does not depend on hashes.
        changes.sort_by(|a, b| (a.what as u8, &a.field).cmp(&(b.what as u8, &b.field)));
        changes
    }
}

fn standard_module(name: &[u8]) -> Option<&'static StandardModule> {
    STANDARD.get()?.iter().find(|m| *m.name == *name)
}

/// A key that is no string, for texts.
pub(super) fn key_text(key: Value) -> Arc<[u8]> {
    let text = if key.is_number() || key.tag() <= Tag::TRUE {
        format!("[{key:?}]")
    } else {
        format!("[a {}]", key.type_name())
    };
    text.into_bytes().into()
}
