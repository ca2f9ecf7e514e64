//! Tables inside modules: what a program has written into `conf.opts` since `require "conf"` returned.
//!
//! The fields of a module itself are compared with what they were (`modules.rs`). Tables that they lead to, by keys that are strings or integers, at any depth, are watched
//! instead, by the bit that pictures are watched by (`cache.rs`), so they cost nothing until somebody stores into one.
//!
//! # The first store tells
//! A module keeps state in such tables, too: caches, counters, registries. That is each domain's own, as its local variables are. So whose code stores first decides:
//! - *The module's own*: the table is state. It is not watched any more, and nothing of it crosses. Own are functions that came to be in the module's file, or in that of
//!   a module with the same first word in its name (`log` and `log.sinks`), its main chunk excepted: a file that is loaded later and adds something is a plugin.
//! - *Any other's*: the table is *written*. What it was is noted before the store, and whenever the module is referred to, the fields that differ, or did at an earlier crossing, go along: the
//!   receiver's table gets them, stays the table that it is, and may be written to as before. Values among them are frozen, as are those of a module's fields.
//!
//! # Whose fields these are
//! A receiver passes on what it has been given: a task's task has the same configuration. On the way back it must not undo what the sender has done meanwhile. So in a
//! message, a result or an error, what a domain has written itself stays; arguments and captures bring what the caller has. That holds for a module's fields, too.
//!
//! # Limits
//! So many tables are watched in each module ([`MAX_TABLES`]), and of each so many fields are looked at for more of them. A key that is an object and is removed stays
//! elsewhere. Fields that are removed again are told for a while ([`MAX_BACK`]). Metatables of tables count as a field;
//! what a metatable holds is not looked at, unless a field leads there, as in a class.

use super::modules::{MAX_BACK, all_fields, fields};
use super::pack::{Packed, Packer, Way, index_text};
use super::refusal::{Reason, Step};
use crate::Vm;
use crate::native::LuaResult;
use crate::object::Table;
use crate::value::{Gc, Tag, Value};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Tables of a module that are watched.
const MAX_TABLES: usize = 1024;

/// A key on the way from a module to a table in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Name(Arc<[u8]>),
    /// Tag and payload of anything else. In a path, an integer.
    Plain(u8, u64),
}

impl Key {
    fn of(v: Value) -> Key {
        match v.as_string() {
            Some(s) => Key::Name(s.bytes().into()),
            None => Key::Plain(v.tag().0, v.payload()),
        }
    }

    /// As a value; `None` for an object, which may not be there any more.
    fn value(&self, vm: &mut Vm) -> Option<Value> {
        match self {
            Key::Name(name) => vm.intern_bytes(name).ok().map(Value::from),
            Key::Plain(tag, payload) => Some(Value::raw(Tag(*tag), *payload)).filter(|v| !v.is_collectable()),
        }
    }
}

/// What leads from a module to a table in it.
pub(super) type Path = Arc<[Key]>;

enum State {
    /// As it was when the module's `require` returned.
    Sealed,
    /// The module's own code stored first.
    Own,
    Written(Box<Written>),
}

struct Written {
    /// What it was.
    was: HashMap<Key, u64, foldhash::fast::FixedState>,
    /// Keys whose values go along, whatever they are, since other domains have been given something else than what was at first.
    gone_along: HashSet<Key, foldhash::fast::FixedState>,
    /// What it was, kept as what fields held; `None`: it has gone along.
    metatable: Option<*mut Table>,
    /// By code of this domain, and not only by what has arrived.
    by_us: bool,
}

struct Inner {
    module: u32,
    path: Path,
    state: State,
}

/// A domain's tables inside modules.
#[derive(Default)]
pub(super) struct Inside {
    list: Vec<Inner>,
    /// By address. What is in a sealed table is kept alive (`modules.rs`), so no other object takes the address of one.
    at: HashMap<u64, u32, foldhash::fast::FixedState>,
    /// By module: those that are written, and how often that has been noticed.
    written: HashMap<u32, (Vec<u32>, u64), foldhash::fast::FixedState>,
    /// The first words of the names of modules, by the source of functions in them.
    sources: HashMap<Arc<[u8]>, Arc<[u8]>, foldhash::fast::FixedState>,
    /// What arrives is being stored.
    arriving: bool,
}

/// How a table differs from what it was.
pub(super) struct Difference {
    pub fields: Vec<(Value, Value)>,
    /// Its metatable, or nil, if it is another one.
    pub metatable: Option<Value>,
}

fn first_word(name: &[u8]) -> Arc<[u8]> {
    name.split(|b| matches!(b, b'.' | b'/')).next().unwrap_or(name).into()
}

/// What a field holds, as a number. Objects are what their address is; those that were there at first stay alive.
fn print_of(v: Value) -> u64 {
    match v.as_string() {
        Some(s) => u64::from(s.hash()) << 8 ^ s.bytes().len() as u64,
        None => v.payload().rotate_left(7) ^ u64::from(v.tag().0),
    }
}

impl Vm {
    /// Watches the tables inside a module that is being sealed. Gives what has to be kept alive.
    pub(super) fn seal_inside(&mut self, module: u32, name: &[u8], value: Value) -> Vec<Value> {
        let mut kept = Vec::new();
        let Some(root) = value.as_table() else { return kept };
        let word = first_word(name);
        let excepted = self.excepted(root);
        let mut tables: Vec<(Gc<Table>, Path)> = vec![(root, Arc::new([]))];
        let mut last: Option<Arc<[u8]>> = None;
        let mut at = 0;
        while let Some((t, path)) = tables.get(at).cloned() {
            at += 1;
            if !t.metatable.is_null() {
                // SAFETY: not null, and kept by the table.
                kept.push(unsafe { Gc::from_ptr(t.metatable) }.into());
            }
            let mut found = Vec::new();
            fields(self, t, |vm, key, v| {
                for v in [key, v] {
                    // Strings are told by what they are.
                    if v.is_collectable() && v.as_string().is_none() {
                        kept.push(v);
                    }
                }
                if let Some(c) = v.as_closure() {
                    let source = &c.inst().proto().source;
                    let sources = &mut vm.lua.crossing.parcel.inside.sources;
                    // Mostly it is the one before.
                    if last.as_ref().is_none_or(|last| !Arc::ptr_eq(last, source)) {
                        last = Some(source.clone());
                        if !sources.contains_key(source) {
                            sources.insert(source.clone(), word.clone());
                        }
                    }
                }
                if let Some(inner) = v.as_table()
                    && (key.as_string().is_some() || key.tag() == Tag::INT)
                {
                    found.push((inner, Key::of(key)));
                }
            });
            for (inner, key) in found {
                let address = inner.address() as u64;
                let inside = &mut self.lua.crossing.parcel.inside;
                if tables.len() > MAX_TABLES
                    || inner.is_frozen()
                    || inner.is_in_island()
                    || inner.is_guarded()
                    || excepted.binary_search(&address).is_ok()
                    || inside.at.contains_key(&address)
                {
                    continue;
                }
                let path: Path = path.iter().cloned().chain([key]).collect();
                inside.at.insert(address, inside.list.len() as u32);
                inside.list.push(Inner { module, path: path.clone(), state: State::Sealed });
                // SAFETY: a live table of this heap, which is neither frozen nor in an island.
                unsafe { self.heap.watch(inner.obj()) };
                tables.push((inner, path));
            }
        }
        kept
    }

    /// Tables that belong to no module, or to another one, sorted.
    fn excepted(&mut self, root: Gc<Table>) -> Vec<u64> {
        let mut list = vec![root.address() as u64, self.globals().address() as u64];
        if let Some(loaded) = self.loaded() {
            list.push(loaded.address() as u64);
            fields(self, loaded, |_, _, v| list.extend(v.as_table().map(|t| t.address() as u64)));
        }
        list.sort_unstable();
        list
    }

    /// A store comes to a table that was watched until now.
    pub(super) fn inside_store(&mut self, t: Gc<Table>) {
        let Some(&number) = self.lua.crossing.parcel.inside.at.get(&(t.address() as u64)) else { return };
        let inside = &self.lua.crossing.parcel.inside;
        let (arriving, inner) = (inside.arriving, &inside.list[number as usize]);
        let module = inner.module;
        match inner.state {
            State::Own => return,
            State::Sealed if !arriving && self.is_own_store(module) => {
                self.lua.crossing.parcel.inside.list[number as usize].state = State::Own;
                return;
            }
            State::Sealed => {
                let mut was = HashMap::default();
                all_fields(self, t, |key, v| _ = was.insert(Key::of(key), print_of(v)));
                let gone_along = HashSet::default();
                let written = Written { was, gone_along, metatable: Some(t.metatable), by_us: !arriving };
                let inside = &mut self.lua.crossing.parcel.inside;
                inside.list[number as usize].state = State::Written(Box::new(written));
                inside.written.entry(module).or_default().0.push(number);
            }
            State::Written(_) => {}
        }
        let inside = &mut self.lua.crossing.parcel.inside;
        if let State::Written(written) = &mut inside.list[number as usize].state {
            written.by_us |= !arriving;
        }
        inside.written.entry(module).or_default().1 += 1;
    }

    /// Whether a table, if it is one inside a module and written, has had this field from the start.
    pub(super) fn inside_is_as_it_was(&self, t: Gc<Table>, key: Value, v: Value) -> bool {
        let inside = &self.lua.crossing.parcel.inside;
        match inside.at.get(&(t.address() as u64)).map(|&n| &inside.list[n as usize].state) {
            Some(State::Written(written)) => written.was.get(&Key::of(key)) == Some(&print_of(v)),
            _ => true,
        }
    }

    /// Whether the code that runs is a module's own.
    fn is_own_store(&self, module: u32) -> bool {
        let (name, _) = self.module_name(module);
        let word = first_word(&name);
        self.find_lua_frame(|c| {
            let proto = c.inst().proto();
            let theirs = self.lua.crossing.parcel.inside.sources.get(&proto.source);
            Some(proto.line_defined != 0 && theirs.is_some_and(|theirs| *theirs == word))
        })
        // The host's own doing is nobody else's.
        .unwrap_or(true)
    }

    /// A number that changes when something is stored into a written table of a module; 0: there is none.
    pub(super) fn inside_print(&mut self, module: u32) -> u64 {
        let Some((numbers, times)) = self.lua.crossing.parcel.inside.written.get(&module) else { return 0 };
        let (numbers, times) = (numbers.clone(), *times);
        for number in numbers {
            if let Some(t) = self.inside_table(number)
                && !t.is_frozen()
            {
                // SAFETY: a live table of this heap, which is not frozen.
                unsafe { self.heap.watch(t.obj()) };
            }
        }
        times.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// The paths of a module's tables that are written.
    pub(super) fn inside_written(&mut self, module: u32) -> Vec<Path> {
        let Some((numbers, _)) = self.lua.crossing.parcel.inside.written.get(&module) else {
            return Vec::new();
        };
        let mut numbers = numbers.clone();
        // What the module leads to by another table's path has arrived there, or crosses, as the field that holds it.
        numbers.retain(|&number| self.inside_table(number).is_some());
        numbers.iter().map(|&n| self.lua.crossing.parcel.inside.list[n as usize].path.clone()).collect()
    }

    /// The table of this number, if its path still leads to it.
    fn inside_table(&mut self, number: u32) -> Option<Gc<Table>> {
        let Inner { module, path, .. } = &self.lua.crossing.parcel.inside.list[number as usize];
        let (module, path) = (*module, path.clone());
        let t = self.behind(self.module_value(module), &path)?;
        let at = &self.lua.crossing.parcel.inside.at;
        (at.get(&(t.address() as u64)) == Some(&number)).then_some(t)
    }

    /// The table that a path leads to from a module.
    fn behind(&mut self, module: Value, path: &[Key]) -> Option<Gc<Table>> {
        let mut v = module;
        for key in path {
            let key = key.value(self)?;
            v = self.raw_get(v.as_table()?, key);
        }
        v.as_table()
    }

    /// How the table that a path leads to differs from what it was.
    pub(super) fn inside_difference(&mut self, module: u32, path: &[Key]) -> Difference {
        let mut difference = Difference { fields: Vec::new(), metatable: None };
        let Some(t) = self.behind(self.module_value(module), path) else { return difference };
        let mut now = Vec::new();
        all_fields(self, t, |key, v| now.push((key, v)));
        let inside = &mut self.lua.crossing.parcel.inside;
        let Some(&number) = inside.at.get(&(t.address() as u64)) else { return difference };
        let State::Written(written) = &mut inside.list[number as usize].state else { return difference };
        let mut there: HashSet<Key, foldhash::fast::FixedState> = HashSet::default();
        for (key, v) in now {
            let name = Key::of(key);
            if written.was.get(&name) != Some(&print_of(v)) {
                written.gone_along.insert(name.clone());
                difference.fields.push((key, v));
            } else if written.gone_along.contains(&name) {
                difference.fields.push((key, v));
            }
            there.insert(name);
        }
        let mut gone: Vec<Key> =
            written.gone_along.iter().filter(|key| !written.was.contains_key(*key)).cloned().collect();
        gone.retain(|key| !there.contains(key));
        if gone.len() > MAX_BACK {
            for key in &gone {
                written.gone_along.remove(key);
            }
        }
        for key in written.was.keys().filter(|key| !there.contains(*key)) {
            written.gone_along.insert(key.clone());
            gone.push(key.clone());
        }
        if written.metatable != Some(t.metatable) {
            written.metatable = None;
            difference.metatable = Some(match t.metatable.is_null() {
                true => Value::NIL,
                // SAFETY: not null, and kept by the table.
                false => unsafe { Gc::from_ptr(t.metatable) }.into(),
            });
        }
        for key in gone {
            if let Some(key) = key.value(self) {
                difference.fields.push((key, Value::NIL));
            }
        }
        difference
    }

    /// The table that fields which have arrived are for; `None`: there is none here, or, if `ours_stay`, this domain has written into it.
    pub(super) fn inside_receiver(
        &mut self,
        module: Value,
        path: &[Key],
        ours_stay: bool,
    ) -> Option<Gc<Table>> {
        let t = self.behind(module, path)?;
        let inside = &self.lua.crossing.parcel.inside;
        let inner = inside.at.get(&(t.address() as u64)).map(|&n| &inside.list[n as usize]);
        let is_ours = match inner.map(|inner| &inner.state) {
            Some(State::Written(written)) => written.by_us,
            _ => false,
        };
        (!t.is_frozen() && !t.is_in_island() && !t.is_guarded() && !(ours_stay && is_ours)).then_some(t)
    }

    /// Stores what has arrived.
    pub(super) fn inside_arrives(
        &mut self,
        t: Gc<Table>,
        fields: &[(Value, Value)],
        metatable: Option<Value>,
    ) -> LuaResult<()> {
        self.lua.crossing.parcel.inside.arriving = true;
        let mut store = || {
            for &(key, v) in fields {
                if !self.raw_get(t, key).same(v) {
                    self.raw_set(t, key, v)?;
                }
            }
            match metatable {
                Some(mt) => self.set_metatable_of(t.into(), mt.as_table()),
                None => Ok(()),
            }
        };
        let result = store();
        self.lua.crossing.parcel.inside.arriving = false;
        result
    }
}

impl Packer<'_> {
    /// What has been written into a table inside a module.
    #[cold]
    pub(super) fn inside_entry(&mut self, module: u32, path: &Path, asked_by: u32) -> Packed {
        let (module, _) = self.modules[module as usize];
        let (name, standard) = self.vm.module_name(module);
        let way = path_text(path);
        let difference = self.vm.inside_difference(module, path);
        self.words.push(difference.fields.len() as u64);
        for (key, v) in difference.fields {
            let field = format!("{way}{}", index_text(key));
            self.at(asked_by, || Step::ModuleField {
                module: String::from_utf8_lossy(&name).into_owned(),
                field: field.clone(),
                standard,
            });
            let hold = self.hold_of_patch(&name, field.as_bytes());
            self.value(key, Way { hold, strict: false })?;
            self.value(v, Way { hold, strict: true })?;
        }
        self.words.push(difference.metatable.is_some() as u64);
        if let Some(mt) = difference.metatable {
            self.at(asked_by, || Step::ModuleField {
                module: String::from_utf8_lossy(&name).into_owned(),
                field: way.clone(),
                standard,
            });
            if self.vm.metatable_finalizes(mt) {
                return self.refuse(Reason::Finalizer);
            }
            let hold = self.hold_of_patch(&name, way.as_bytes());
            self.value(mt, Way { hold, strict: false })?;
        }
        Ok(())
    }
}

/// A path as the program writes it behind the module's name, without the first dot.
pub(super) fn path_text(path: &[Key]) -> String {
    let mut text = String::new();
    for key in path {
        match key {
            Key::Name(name) if text.is_empty() => text.push_str(&String::from_utf8_lossy(name)),
            Key::Name(name) => text.push_str(&format!(".{}", String::from_utf8_lossy(name))),
            Key::Plain(tag, payload) => text.push_str(&format!("[{:?}]", Value::raw(Tag(*tag), *payload))),
        }
    }
    text
}
