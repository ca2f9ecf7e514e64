//! Modules: what the receiver finds again by name, and whether it still is what the receiver will find.
//!
//! A module is a value of `package.loaded`. It never crosses; its name does, and the receiver requires it itself. The same holds for what a
//! module has in a field, or in a field of a field: functions, classes, userdata (`io.stdout`). So a class in a module is
//! found again as the metatable of a message, and a function of a module as a function of the receiver's own.
//!
//! # Sealing
//! That is right as long as the module is what loading it makes. So each is *sealed* when its `require` returns: its fields are remembered, each as
//! a 64-bit mix of key and value. Modules that were loaded before the program first used more than one domain are sealed then; what was
//! done to them before is taken for what they are. The tables of the standard library are compared with what the first state of the
//! process had in them when it had opened its libraries.
//!
//! When a module is referred to, a sum over its fields tells in one pass whether anything changed. If so, the fields that did are looked for: they
//! go along if they could cross (and the receiver's module gets them), else the refusal names them.
//!
//! Tables inside a module are watched in place of being compared (`inside.rs`).
//!
//! What this does not see: changes of fields beyond the
//! first [`MAX_FIELDS`], and what a module keeps in local variables, which is each domain's own by design. Fields of `package` and
//! `_G` are not compared: the former belong to the domain, the latter have rules of their own (`snapshot.rs`).
//!
//! # Addresses
//! The index from addresses to paths is a hint: a hit counts only if the path still leads to the value. What sealed fields held is kept alive in the
//! registry, so that no new object can take its address and pass for it.

use crate::Vm;
use crate::native::LuaResult;
use crate::object::Table;
use crate::shape;
use crate::value::{Gc, Tag, Value};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

/// Fields of a module that are compared.
const MAX_FIELDS: usize = 4096;
/// Fields of a module, or of a table in one, that are found again by path.
const MAX_INDEXED: usize = 1024;
/// Fields that are again what they were, and go along because they have gone along with another value; when there are more, they go along once more, and are forgotten.
/// A program that uses a table of a module as a list of what is under way would send all that it has ever put there.
pub(super) const MAX_BACK: usize = 256;
/// Field of the registry with what was in sealed fields.
const KEPT: &str = "_SEALED";

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
    /// Mixes of key and of both, of the fields when it was sealed, in the order of the former.
    sealed: Vec<(u64, u64)>,
    /// Fields that have arrived from other domains, as what arrived last, in the same form.
    arrived: HashMap<u64, u64, foldhash::fast::FixedState>,
    /// Fields that have gone to other domains, and go along from then on, whatever they are.
    gone_along: BTreeSet<Arc<[u8]>>,
    /// The fingerprint that `changes` belongs to.
    print: Option<u64>,
    changes: Arc<[Change]>,
}

impl Module {
    /// Whether the field with this mix of its key, if it is `v`, is as it was when the module was sealed.
    fn has_sealed(&self, key: u64, v: Value) -> bool {
        match self.sealed.binary_search_by_key(&key, |f| f.0) {
            Ok(at) => self.sealed[at].1 == mix(key, v),
            Err(_) => v.is_nil(),
        }
    }
}

/// A domain's modules.
#[derive(Default)]
pub(crate) struct Modules {
    list: Vec<Module>,
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

/// Calls `f` with the fields of a table: those in slots, in the hash part, in a general array; the first [`MAX_FIELDS`] of each.
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

/// A sum over the fields that changes when one does. Keys count as where they are, which is enough: no key gets another place unless one is added.
pub(super) fn fingerprint(t: Gc<Table>) -> u64 {
    let mut sum = (t.shape as u64) << 32 | t.array_len as u64;
    for slot in 0..shape::field_count(t.shape) {
        // SAFETY: a table has a slot for each field of its shape.
        sum = sum.wrapping_add(mix(slot as u64, unsafe { *t.slots.add(slot as usize) }));
    }
    for node in t.node_slice().iter().take(MAX_FIELDS).filter(|n| n.is_live()) {
        sum = sum.wrapping_add(mix(node.key().payload(), node.value()));
    }
    for at in 0..t.extent().min(MAX_FIELDS) {
        // SAFETY: within `extent`.
        sum = sum.wrapping_add(mix(at as u64, unsafe { t.element(at) }));
    }
    sum
}

impl Vm {
    /// To be called when the standard libraries have been opened and nothing else has run: what changes to their tables are told from.
    /// Costs nothing from the second state of the process on.
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

    /// From now on modules are sealed; those that are loaded already are now. To be called when the program begins to use several
    /// domains; packing does it otherwise.
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
        // Nothing is collected meanwhile, so the list may hold values. The standard library comes first: a field of `_G` may be its table.
        let rank = |name: &[u8]| (name == b"_G", standard_module(name).is_none());
        found.sort_by(|a, b| rank(&a.0).cmp(&rank(&b.0)).then_with(|| a.0.cmp(&b.0)));
        for (name, value) in found {
            self.seal(&name, value);
        }
    }

    /// To be called when `require` has loaded a module.
    pub fn module_required(&mut self, name: &[u8], value: Value) {
        if self.lua.crossing.parcel.modules.active
            && !self.lua.crossing.parcel.modules.list.iter().any(|m| *m.name == *name)
        {
            self.seal(name, value);
        }
    }

    pub(super) fn loaded(&mut self) -> Option<Gc<Table>> {
        self.get_field(self.registry(), "_LOADED").ok()?.as_table()
    }

    fn seal(&mut self, name: &[u8], value: Value) {
        let module = self.lua.crossing.parcel.modules.list.len() as u32;
        let standard = standard_module(name);
        if name == b"string" {
            self.lua.crossing.parcel.modules.string = Some(module);
        }
        let mut sealed = Vec::new();
        let mut kept = vec![value];
        if let Some(t) = value.as_table()
            && standard.is_none()
        {
            fields(self, t, |_, key, v| {
                let key = mix_value(key);
                sealed.push((key, mix(key, v)));
                kept.push(v);
            });
            sealed.sort_unstable();
            kept.extend(self.seal_inside(module, name, value));
        }
        // Only to keep them alive; without memory for that, an address might be taken for another one's.
        if standard.is_none() {
            let _ = self.keep(name, &kept);
        }
        self.lua.crossing.parcel.modules.list.push(Module {
            name: name.into(),
            value: (value.tag().0, value.payload()),
            standard,
            sealed,
            arrived: HashMap::default(),
            gone_along: BTreeSet::new(),
            print: None,
            changes: Arc::new([]),
        });
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

    pub(super) fn keep(&mut self, name: &[u8], values: &[Value]) -> LuaResult<()> {
        let registry = self.registry();
        let all = match self.get_field(registry, KEPT)?.as_table() {
            Some(t) => t,
            None => {
                let t = self.new_table(0, 8)?;
                self.set_field(registry, KEPT, t.into())?;
                t
            }
        };
        let values: Vec<Value> = values.iter().copied().filter(|v| v.is_collectable()).collect();
        let t = self.new_table(values.len(), 0)?;
        self.raw_set_list(t, 1, &values)?;
        let key = self.intern_bytes(name)?;
        self.raw_set_str(all, key, t.into())
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
            // What the program has put into a table of the library, or into a module since it was sealed, is not there elsewhere.
            let is_as_it_was = match standard {
                Some(standard) => standard.has(key.bytes(), v),
                None => {
                    vm.lua.crossing.parcel.modules.list[module as usize].has_sealed(mix_value(key.into()), v)
                }
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
        if self.follow(&path).is_some_and(|found| found.same(v)) {
            return Some(path);
        }
        self.lua.crossing.parcel.modules.paths.remove(&v.payload());
        None
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
        let key = mix_value(name.into());
        let now = self.raw_get_str(t, name);
        let value = Value::from(t);
        let modules = &mut self.lua.crossing.parcel.modules;
        let Some(m) = modules.list.iter_mut().find(|m| m.value == (value.tag().0, value.payload())) else {
            return self.raw_set_str(t, name, v);
        };
        let is_as_it_was = || match m.standard {
            Some(standard) => now.is_nil() || standard.has(field, now),
            None => m.has_sealed(key, now),
        };
        let has_arrived = m.arrived.get(&key) == Some(&mix(key, now));
        let is_ours = || !is_as_it_was() || m.gone_along.contains(field);
        if ours_stay && !has_arrived && is_ours() {
            return Ok(());
        }
        m.arrived.insert(key, mix(key, v));
        self.raw_set_str(t, name, v)
    }

    /// The module of the string functions.
    pub(super) fn string_module(&self) -> Option<u32> {
        self.lua.crossing.parcel.modules.string
    }

    /// The fingerprint of a module, and what has been changed in it since it was sealed.
    pub(super) fn module_changes(&mut self, module: u32) -> (u64, Arc<[Change]>) {
        let m = &self.lua.crossing.parcel.modules.list[module as usize];
        let (tag, payload) = m.value;
        let Some(t) = Value::raw(Tag(tag), payload).as_table() else { return (0, m.changes.clone()) };
        if matches!(&*m.name, b"_G" | b"package") {
            return (0, m.changes.clone());
        }
        let print = fingerprint(t).wrapping_add(self.inside_print(module));
        let m = &self.lua.crossing.parcel.modules.list[module as usize];
        if m.print == Some(print) {
            return (print, m.changes.clone());
        }
        let mut changes = match m.standard {
            Some(standard) => self.standard_changes(t, standard),
            None => self.sealed_changes(t, module),
        };
        let m = &mut self.lua.crossing.parcel.modules.list[module as usize];
        let differ: HashSet<Arc<[u8]>, foldhash::fast::FixedState> =
            changes.iter().map(|c| c.field.clone()).collect();
        let back: Vec<_> = m.gone_along.iter().filter(|field| !differ.contains(*field)).cloned().collect();
        if back.len() > MAX_BACK {
            m.gone_along.retain(|field| differ.contains(field));
        }
        m.gone_along.extend(changes.iter().filter(|c| c.what == What::Set).map(|c| c.field.clone()));
        changes.extend(back.into_iter().map(|field| Change { field, what: What::Set }));
        let changes: Arc<[Change]> = changes.into();
        m.print = Some(print);
        m.changes = changes.clone();
        (print, changes)
    }

    fn standard_changes(&mut self, t: Gc<Table>, standard: &'static StandardModule) -> Vec<Change> {
        let mut changes = Vec::new();
        fields(self, t, |_, key, v| {
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

    fn sealed_changes(&mut self, t: Gc<Table>, module: u32) -> Vec<Change> {
        let mut changes = Vec::new();
        let sealed = std::mem::take(&mut self.lua.crossing.parcel.modules.list[module as usize].sealed);
        let mut still_there = 0;
        fields(self, t, |_, key, v| {
            let key_mix = mix_value(key);
            let at = sealed.partition_point(|f| f.0 < key_mix);
            let known = sealed.get(at).filter(|f| f.0 == key_mix);
            still_there += known.is_some() as usize;
            if known.is_some_and(|f| f.1 == mix(key_mix, v)) {
                return;
            }
            changes.push(match key.as_string() {
                Some(name) => Change { field: name.bytes().into(), what: What::Set },
                None => Change { field: key_text(key), what: What::Odd },
            });
        });
        if still_there < sealed.len() {
            changes.push(Change { field: self.removed_field(t, &sealed), what: What::Removed });
        }
        self.lua.crossing.parcel.modules.list[module as usize].sealed = sealed;
        changes
    }

    /// The name of a sealed field that `t` does not have any more, as far as a string with that hash can still be found.
    fn removed_field(&mut self, t: Gc<Table>, sealed: &[(u64, u64)]) -> Arc<[u8]> {
        let mut present = Vec::new();
        fields(self, t, |_, key, _| present.push(mix_value(key)));
        let gone: Vec<u64> = sealed.iter().map(|f| f.0).filter(|key| !present.contains(key)).collect();
        // A dead key stays in its node until the table is rebuilt; a slot that is nil still has its name.
        for slot in 0..shape::field_count(t.shape) {
            let key = self.key_at(t.shape, slot);
            if gone.contains(&mix_value(key.into())) {
                return key.bytes().into();
            }
        }
        b"?".as_slice().into()
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
