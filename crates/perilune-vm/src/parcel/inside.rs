//! Modules, and tables inside them: what a program has written into `conf` and `conf.opts` since
//! `require "conf"` returned.
//!
//! A module, and the tables that its fields lead to, by keys that are strings or integers, at any depth, are
//! watched, by the bit that pictures are watched by (`cache.rs`). So they cost nothing until somebody stores
//! into one, and then what it was is noted before the store.
//!
//! # The first store tells
//! A module keeps state in such tables, too: caches, counters, registries. That is each domain's own, as its
//! local variables are. So whose code stores first decides:
//! - *The module's own*: the table is state. It is not watched any more, and nothing of it crosses. Own are
//!   functions that came to be in the text of the module, or of one below it (`log.sinks` below `log`), main
//!   chunks excepted: a file that is loaded later and adds something is a plugin. The text of a module is the
//!   file that its loader is, or the lines of the loader where that is a function in another file
//!   (`package.preload`).
//! - *Any other's*: the table is *written*. Whenever the module is referred to, the fields that differ from
//!   what they were go along: the receiver's table gets them, stays the table that it is, and may be written
//!   to as before. Values among them are frozen.
//!
//! The module itself is never state, whoever stores: its fields are what it offers.
//!
//! # What keeps them alive
//! Tables are known by their addresses, so none in the list may be freed. A module is a root. What is in a
//! table that is as it was is kept by that table; what was in one that has been stored into is a root from
//! the store on ([`State`]). A table with a metatable may become weak without a store; what it leads to is a
//! root from the start.
//!
//! # Whose fields these are
//! A parcel tells all that differs, and nothing of what does not. So a receiver remembers what has *arrived*,
//! and over what: what the next parcel that refers to the module does not tell is taken back. Nobody else has
//! to know what a receiver was told, and whichever worker takes a task, and whatever it has done before, the
//! task finds its caller's.
//!
//! A receiver passes on what it has been given: a task's task has the same configuration. On the way back it
//! must not undo what the sender has done meanwhile. So in a message, a result or an error, what a domain has
//! written itself stays; arguments and captures bring what the caller has. That holds for a module's fields,
//! too.
//!
//! What parcels share (`snapshot.rs`, `received.rs`, `again.rs`) is made once in a receiver, and by then
//! somebody else's may have arrived, or a task has stored something. So the receiver notes what modules were
//! when it was made ([`Applied`]), and makes it again if they are not.
//!
//! # Limits
//! A module's tables are watched down to a depth at which they are at most [`MAX_TABLES`]. Tables in larger
//! ones than [`MAX_FIELDS`] are not, nor weak tables, whose contents depend on collections. A key that is an
//! object and is removed stays elsewhere. Metatables of tables count as a field; what a metatable holds is
//! not looked at, unless a field leads there, as in a class.

mod arrived;

pub(super) use arrived::Applied;

use super::modules::{MAX_FIELDS, all_fields, fields, is_same};
use super::pack::{Packed, Packer, Way, index_text};
use super::refusal::{Reason, Step};
use crate::Vm;
use crate::object::{ArrayKind, LuaClosure, Table};
use crate::shape;
use crate::value::{Gc, Tag, Value};
use arrived::Arrived;
use perilune_heap::Obj;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Tables of a module that are watched.
const MAX_TABLES: usize = 1 << 14;

/// A key on the way from a module to a table in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Name(Arc<[u8]>),
    Int(i64),
}

impl Key {
    fn of(v: Value) -> Key {
        match v.as_string() {
            Some(s) => Key::Name(s.bytes().into()),
            None => Key::Int(v.payload() as i64),
        }
    }
}

/// What leads from a module to a table in it.
pub(super) type Path = Arc<[Key]>;

/// Tag and payload of a key. Those that are objects are kept alive where this is kept, and strings that are
/// keys are interned.
type Id = (u8, u64);

type ById<T> = HashMap<Id, T, foldhash::fast::FixedState>;

fn id(v: Value) -> Id {
    (v.tag().0, v.payload())
}

/// Whether anybody may store into a table.
fn may_change(t: Gc<Table>) -> bool {
    !(t.is_frozen() || t.is_in_island() || t.is_guarded())
}

fn metatable_of(t: Gc<Table>) -> Value {
    match t.metatable.is_null() {
        true => Value::NIL,
        // SAFETY: not null, and kept by the table.
        false => unsafe { Gc::from_ptr(t.metatable) }.into(),
    }
}

fn trace_fields(fields: &ById<Value>, mark: &mut impl FnMut(Obj)) {
    for (key, v) in fields {
        Value::raw(Tag(key.0), key.1).obj().map(&mut *mark);
        v.obj().map(&mut *mark);
    }
}

enum State {
    /// As it was when the module's `require` returned.
    Sealed,
    /// The module's own code stored first. What it was. Roots.
    Own(Box<ById<Value>>),
    Written(Box<Written>),
}

struct Written {
    /// What it was. Roots.
    was: ById<Value>,
    /// Nil if it had none. A root.
    metatable: Value,
    /// By code of this domain, and not only by what has arrived.
    by_us: bool,
    /// How often a store has been noticed.
    times: u64,
}

/// Stands for no table where the number of one that leads to another is expected.
const NONE: u32 = u32::MAX;

struct Inner {
    table: Gc<Table>,
    /// The number of the table that leads here, and by which key; none: it is a module.
    parent: u32,
    key: Value,
    module: u32,
    /// It is a module, whatever else leads here.
    is_root: bool,
    state: State,
}

/// Lines whose functions are a module's own.
struct Lines {
    module: u32,
    first: u32,
    last: u32,
}

/// A domain's tables inside modules.
#[derive(Default)]
pub(super) struct Inside {
    list: Vec<Inner>,
    /// By address; of the first so many in the list. Most programs never ask.
    at: HashMap<u64, u32, foldhash::fast::FixedState>,
    indexed: usize,
    /// What tables with a metatable lead to, and by which keys. Roots.
    held: Vec<Value>,
    /// How much of that a collection has made old.
    old: usize,
    /// Those that are not as they were.
    stored_into: Vec<u32>,
    /// How many of these a collection has made old.
    old_stores: usize,
    /// By module: tables inside it that are written.
    written: HashMap<u32, Vec<u32>, foldhash::fast::FixedState>,
    arrived: HashMap<u32, Arrived, foldhash::fast::FixedState>,
    /// By source.
    own: HashMap<Arc<[u8]>, Vec<Lines>, foldhash::fast::FixedState>,
    /// What arrives is being stored.
    arriving: bool,
    /// How often something that arrived has changed a module.
    pub arrivals: u64,
}

impl Inside {
    pub fn trace(&self, all: bool, mark: &mut impl FnMut(Obj)) {
        for v in &self.held[if all { 0 } else { self.old }..] {
            v.obj().map(&mut *mark);
        }
        for &number in &self.stored_into[if all { 0 } else { self.old_stores }..] {
            match &self.list[number as usize].state {
                State::Sealed => {}
                State::Own(was) => trace_fields(was, mark),
                State::Written(written) => {
                    written.metatable.obj().map(&mut *mark);
                    trace_fields(&written.was, mark);
                }
            }
        }
        for arrived in self.arrived.values() {
            arrived.metatable.and_then(Value::obj).map(&mut *mark);
            for v in arrived.fields.iter().flat_map(|f| [f.0, f.1]) {
                v.obj().map(&mut *mark);
            }
        }
    }

    /// At the end of a collection.
    pub fn collected(&mut self, ageing: bool, is_marked: &impl Fn(Obj) -> bool) {
        debug_assert!(
            self.list.iter().all(|i| is_marked(i.table.obj()) && i.key.obj().is_none_or(is_marked)),
            "a table in the list, or what leads to it, has been freed"
        );
        if ageing {
            (self.old, self.old_stores) = (self.held.len(), self.stored_into.len());
        }
    }

    /// The number of a table.
    fn number(&mut self, t: Gc<Table>) -> Option<u32> {
        if self.indexed < self.list.len() {
            self.at.reserve(self.list.len() - self.indexed);
            for (n, inner) in self.list.iter().enumerate().skip(self.indexed) {
                self.at.insert(inner.table.address() as u64, n as u32);
            }
            self.indexed = self.list.len();
        }
        self.at.get(&(t.address() as u64)).copied()
    }

    /// What leads to a table.
    fn path(&self, mut number: u32) -> Path {
        let mut keys = Vec::new();
        while let Some(inner) = self.list.get(number as usize).filter(|inner| inner.parent != NONE) {
            keys.push(Key::of(inner.key));
            number = inner.parent;
        }
        keys.into_iter().rev().collect()
    }
}

/// How a table differs from what it was.
struct Difference {
    fields: Vec<(Value, Value)>,
    /// Its metatable, or nil, if it is another one.
    metatable: Option<Value>,
}

/// The text of the module that is being sealed.
struct Text {
    /// Source and lines of the loader, if it is known and a Lua function.
    loader: Option<(Arc<[u8]>, u32, u32)>,
    /// The source of the function met last, if others of it tell nothing new.
    last: Option<Arc<[u8]>>,
}

impl Vm {
    /// Watches a module that is being sealed, and the tables inside it. Gives its number, if it can be
    /// changed at all. `loader`: what has made it, nil if that is not known.
    pub(super) fn seal_inside(&mut self, module: u32, root: Gc<Table>, loader: Value) -> Option<u32> {
        if !may_change(root) {
            return None;
        }
        let loader = loader.lua_proto().map(|p| match p.line_defined {
            0 => (p.source.clone(), 0, u32::MAX),
            line => (p.source.clone(), line, p.last_line_defined),
        });
        if let Some((source, first, last)) = &loader {
            let lines = Lines { module, first: *first, last: *last };
            self.lua.crossing.parcel.inside.own.entry(source.clone()).or_default().push(lines);
        }
        let mut text = Text { loader, last: None };
        let mut excepted = None;
        let number = self.root_number(module, root);
        let begin = self.lua.crossing.parcel.inside.list.len();
        let mut level = vec![(root, number)];
        let mut found = Vec::new();
        while !level.is_empty() {
            let start = self.lua.crossing.parcel.inside.list.len();
            for (t, parent) in level {
                self.look_inside(t, module, &mut text, &mut found);
                for (key, inner) in found.drain(..) {
                    if inner == t || !self.may_be_inside(inner, root, &mut excepted) {
                        continue;
                    }
                    if !t.metatable.is_null() {
                        self.lua.crossing.parcel.inside.held.extend([key, inner.into()]);
                    }
                    self.list_inner(Inner {
                        table: inner,
                        parent,
                        key,
                        module,
                        is_root: false,
                        state: State::Sealed,
                    });
                }
            }
            let inside = &mut self.lua.crossing.parcel.inside;
            if inside.list.len() - begin > MAX_TABLES {
                // Which of them come first may depend on hashes. Those that stay watched are told of for
                // nothing, once.
                for inner in inside.list.drain(start..) {
                    inside.at.remove(&(inner.table.address() as u64));
                }
                inside.indexed = inside.indexed.min(start);
                break;
            }
            level = (start..).zip(&inside.list[start..]).map(|(n, inner)| (inner.table, n as u32)).collect();
        }
        Some(number)
    }

    fn list_inner(&mut self, inner: Inner) {
        // SAFETY: a live table of this heap, which is neither frozen nor in an island.
        unsafe { self.heap.watch(inner.table.obj()) };
        self.lua.crossing.parcel.inside.list.push(inner);
    }

    /// The number of a table that is a module.
    fn root_number(&mut self, module: u32, root: Gc<Table>) -> u32 {
        let inside = &mut self.lua.crossing.parcel.inside;
        // One under two names, or one that another module leads to.
        let known = match root.minds_stores() || !inside.stored_into.is_empty() {
            true => inside.number(root),
            false => None,
        };
        let Some(number) = known else {
            let number = inside.list.len() as u32;
            let (parent, key) = (NONE, Value::NIL);
            self.list_inner(Inner { table: root, parent, key, module, is_root: true, state: State::Sealed });
            return number;
        };
        let inner = &mut inside.list[number as usize];
        inner.is_root = true;
        if matches!(inner.state, State::Own(_)) {
            self.note_what_was(number, false);
        }
        number
    }

    /// The tables that a table leads to. Functions in it tell what is the module's text.
    fn look_inside(
        &mut self,
        t: Gc<Table>,
        module: u32,
        text: &mut Text,
        found: &mut Vec<(Value, Gc<Table>)>,
    ) {
        for slot in 0..shape::field_count(t.shape) {
            // SAFETY: a table has a slot for each field of its shape.
            let v = unsafe { *t.slots.add(slot as usize) };
            match v.tag() {
                Tag::TABLE => found.push((self.key_at(t.shape, slot).into(), v.gc())),
                Tag::CLOSURE => self.note_text(module, v.gc(), text),
                _ => {}
            }
        }
        let mut look = |vm: &mut Vm, key: Value, v: Value| match v.tag() {
            Tag::TABLE if matches!(key.tag(), Tag::STRING | Tag::INT) => found.push((key, v.gc())),
            Tag::CLOSURE => vm.note_text(module, v.gc(), text),
            _ => {}
        };
        if t.node_slice().len() <= MAX_FIELDS {
            for node in t.node_slice().iter().filter(|n| n.is_live()) {
                look(self, node.key(), node.value());
            }
        }
        if t.kind == ArrayKind::General && t.extent() <= MAX_FIELDS {
            for at in 0..t.extent() {
                // SAFETY: within `extent`.
                look(self, Value::int(at as i64 + 1), unsafe { t.element(at) });
            }
        }
    }

    /// A module that is being sealed has this function.
    fn note_text(&mut self, module: u32, c: Gc<LuaClosure>, text: &mut Text) {
        let proto = c.inst().proto();
        let source = &proto.source;
        if text.last.as_ref().is_some_and(|last| Arc::ptr_eq(last, source)) {
            return;
        }
        let is_loaders = text.loader.as_ref().is_some_and(|loader| loader.0 == *source);
        let known = self.lua.crossing.parcel.inside.own.get(source);
        // The file of another module, whose function this one hands on.
        let is_others = known.is_some_and(|known| known.iter().any(|l| l.last == u32::MAX));
        if is_loaders || (is_others && text.loader.is_some()) {
            text.last = Some(source.clone());
            return;
        }
        // A chunk that runs still is no module's; one without a name may be anybody's.
        let is_whole = !is_others && **source != *b"=?" && !self.is_main_chunk_running(source);
        let lines = match is_whole || is_others {
            true => Lines { module, first: 0, last: u32::MAX },
            false => Lines { module, first: proto.line_defined, last: proto.last_line_defined },
        };
        if lines.last == u32::MAX {
            text.last = Some(source.clone());
        }
        self.lua.crossing.parcel.inside.own.entry(source.clone()).or_default().push(lines);
    }

    fn is_main_chunk_running(&self, source: &Arc<[u8]>) -> bool {
        self.find_lua_frame(|c| {
            let proto = c.inst().proto();
            (proto.line_defined == 0 && proto.source == *source).then_some(())
        })
        .is_some()
    }

    /// Whether a table that a module leads to is one inside it, and no other module's. `excepted`: values of
    /// `package.loaded` that are not sealed, once they have been looked for.
    fn may_be_inside(&mut self, t: Gc<Table>, root: Gc<Table>, excepted: &mut Option<Vec<u64>>) -> bool {
        if !may_change(t) {
            return false;
        }
        let inside = &mut self.lua.crossing.parcel.inside;
        if (t.minds_stores() || !inside.stored_into.is_empty()) && inside.number(t).is_some() {
            return false;
        }
        let address = t.address() as u64;
        if t == root || self.lua.crossing.parcel.modules.is_module(address) {
            return false;
        }
        if excepted.is_none() {
            *excepted = Some(self.unsealed());
        }
        !excepted.as_ref().is_some_and(|e| e.contains(&address)) && !self.is_weak(t)
    }

    /// The globals, and tables of `package.loaded` that are not sealed: modules that are being loaded.
    fn unsealed(&mut self) -> Vec<u64> {
        let mut list = vec![self.globals().address() as u64];
        if let Some(loaded) = self.loaded() {
            list.push(loaded.address() as u64);
            fields(self, loaded, |vm, _, v| {
                if let Some(t) = v.as_table().map(|t| t.address() as u64)
                    && !vm.lua.crossing.parcel.modules.is_module(t)
                {
                    list.push(t);
                }
            });
        }
        list
    }

    /// A store comes to a table that was watched until now.
    pub(super) fn inside_store(&mut self, t: Gc<Table>) {
        if self.lua.crossing.parcel.inside.list.is_empty() {
            return;
        }
        let Some(number) = self.lua.crossing.parcel.inside.number(t) else { return };
        let inside = &self.lua.crossing.parcel.inside;
        let (arriving, inner) = (inside.arriving, &inside.list[number as usize]);
        match inner.state {
            State::Own(_) => return,
            State::Sealed if !inner.is_root && !arriving && self.is_own_store(inner.module) => {
                let was = self.fields_by_id(t);
                let inside = &mut self.lua.crossing.parcel.inside;
                inside.stored_into.push(number);
                inside.list[number as usize].state = State::Own(Box::new(was));
                return;
            }
            State::Sealed => self.note_what_was(number, !arriving),
            State::Written(_) => {}
        }
        if let State::Written(written) = &mut self.lua.crossing.parcel.inside.list[number as usize].state {
            written.by_us |= !arriving;
            written.times += 1;
        }
    }

    fn fields_by_id(&mut self, t: Gc<Table>) -> ById<Value> {
        let mut fields = HashMap::default();
        all_fields(self, t, |key, v| _ = fields.insert(id(key), v));
        fields
    }

    /// A table is written from now on; what it is now is what it was at first.
    fn note_what_was(&mut self, number: u32, by_us: bool) {
        let t = self.lua.crossing.parcel.inside.list[number as usize].table;
        let was = self.fields_by_id(t);
        let inside = &mut self.lua.crossing.parcel.inside;
        let inner = &mut inside.list[number as usize];
        if let State::Own(was) = &inner.state {
            // It may lead to them no more.
            inside.held.extend(was.iter().flat_map(|(key, v)| [Value::raw(Tag(key.0), key.1), *v]));
        }
        let written = Written { was, metatable: metatable_of(t), by_us, times: 0 };
        inner.state = State::Written(Box::new(written));
        inside.stored_into.push(number);
        if inner.parent != NONE {
            inside.written.entry(inner.module).or_default().push(number);
        }
    }

    /// Whether a table, if it is a module or inside one, has had this field from the start.
    pub(super) fn inside_is_as_it_was(&mut self, t: Gc<Table>, key: Value, v: Value) -> bool {
        let inside = &mut self.lua.crossing.parcel.inside;
        if inside.stored_into.is_empty() {
            return true;
        }
        let was = match inside.number(t).map(|n| &inside.list[n as usize].state) {
            Some(State::Written(written)) => &written.was,
            Some(State::Own(was)) => was,
            _ => return true,
        };
        was.get(&id(key)).is_some_and(|was| is_same(*was, v))
    }

    /// Whether the code that runs is a module's own.
    fn is_own_store(&self, module: u32) -> bool {
        let (name, _) = self.module_name(module);
        self.find_lua_frame(|c| {
            let proto = c.inst().proto();
            let is_own = |lines: &Lines| {
                let theirs = || self.module_name(lines.module).0;
                (lines.first..=lines.last).contains(&proto.line_defined)
                    && (lines.module == module || is_below(&theirs(), &name))
            };
            let known = self.lua.crossing.parcel.inside.own.get(&proto.source);
            Some(proto.line_defined != 0 && known.is_some_and(|known| known.iter().any(is_own)))
        })
        // The host's own doing is nobody else's.
        .unwrap_or(true)
    }

    /// A number that changes when something is stored into a module, `root`, or a written table inside it.
    pub(super) fn inside_print(&mut self, module: u32, root: u32) -> u64 {
        let mut times = self.watch_again(root);
        if let Some(numbers) = self.lua.crossing.parcel.inside.written.get(&module).cloned() {
            // Each store is counted once, so no two states of the module have the same sum.
            times += numbers.into_iter().map(|number| self.watch_again(number)).sum::<u64>();
        }
        times
    }

    /// The next store into a written table is noticed, too. Gives how many have been.
    fn watch_again(&mut self, number: u32) -> u64 {
        let inner = &self.lua.crossing.parcel.inside.list[number as usize];
        let (t, State::Written(written)) = (inner.table, &inner.state) else { return 0 };
        let times = written.times;
        if !t.is_frozen() && self.is_attached(number) {
            // SAFETY: a live table of this heap, which is not frozen.
            unsafe { self.heap.watch(t.obj()) };
        }
        times
    }

    /// The paths of a module's tables that are written. What the module leads to in place of one has arrived
    /// there, or crosses, as the field that holds it.
    pub(super) fn inside_written(&self, module: u32) -> Vec<Path> {
        let inside = &self.lua.crossing.parcel.inside;
        let Some(mut numbers) = inside.written.get(&module).cloned() else { return Vec::new() };
        // What leads to another one comes first: in the receiver it may have to be put back for the path to
        // lead there.
        numbers.sort_unstable();
        numbers.iter().filter(|&&number| self.is_attached(number)).map(|&n| inside.path(n)).collect()
    }

    /// Whether the path of a table still leads to it.
    fn is_attached(&self, mut number: u32) -> bool {
        loop {
            let inner = &self.lua.crossing.parcel.inside.list[number as usize];
            let Some(parent) = self.lua.crossing.parcel.inside.list.get(inner.parent as usize) else {
                return true;
            };
            if self.raw_get(parent.table, inner.key).as_table() != Some(inner.table) {
                return false;
            }
            number = inner.parent;
        }
    }

    /// Whether a table is one inside a module, which leads to it still.
    pub(super) fn is_inside(&mut self, t: Gc<Table>) -> bool {
        let inside = &mut self.lua.crossing.parcel.inside;
        !inside.list.is_empty() && inside.number(t).is_some_and(|n| self.is_attached(n))
    }

    /// The table that a path leads to from a module.
    fn behind(&mut self, module: Value, path: &[Key]) -> Option<Gc<Table>> {
        let mut v = module;
        for key in path {
            let key = match key {
                Key::Name(name) => self.intern_bytes(name).ok()?.into(),
                Key::Int(n) => Value::int(*n),
            };
            v = self.raw_get(v.as_table()?, key);
        }
        v.as_table()
    }

    /// How the table that a path leads to differs from what it was.
    fn inside_difference(&mut self, module: u32, path: &[Key]) -> Difference {
        let mut difference = Difference { fields: Vec::new(), metatable: None };
        let Some(t) = self.behind(self.module_value(module), path) else { return difference };
        // What a weak table holds depends on collections.
        if self.is_weak(t) {
            return difference;
        }
        let Some(number) = self.lua.crossing.parcel.inside.number(t) else { return difference };
        difference.fields = self.fields_that_differ(number);
        // An object that was a key is another one elsewhere.
        difference.fields.retain(|(key, v)| !v.is_nil() || key.obj().is_none() || key.as_string().is_some());
        if let State::Written(written) = &self.lua.crossing.parcel.inside.list[number as usize].state {
            let metatable = metatable_of(t);
            difference.metatable = (!written.metatable.same(metatable)).then_some(metatable);
        }
        difference
    }

    /// The fields of a table that are not as they were; nil: it has them no more.
    pub(super) fn fields_that_differ(&mut self, number: u32) -> Vec<(Value, Value)> {
        let inner = &self.lua.crossing.parcel.inside.list[number as usize];
        if !matches!(inner.state, State::Written(_)) {
            return Vec::new();
        }
        let mut now = Vec::new();
        let t = inner.table;
        all_fields(self, t, |key, v| now.push((key, v)));
        let State::Written(written) = &self.lua.crossing.parcel.inside.list[number as usize].state else {
            return Vec::new();
        };
        let there: HashSet<Id, foldhash::fast::FixedState> = now.iter().map(|f| id(f.0)).collect();
        now.retain(|(key, v)| !written.was.get(&id(*key)).is_some_and(|was| is_same(*was, *v)));
        let gone = written.was.keys().filter(|key| !there.contains(*key));
        now.extend(gone.map(|key| (Value::raw(Tag(key.0), key.1), Value::NIL)));
        now
    }

    /// What a field of a table was at first, as far as that is known: not where the module's own code has
    /// stored.
    pub(super) fn first_value(&self, number: Option<u32>, key: Value, now: Value) -> Value {
        match number.map(|n| &self.lua.crossing.parcel.inside.list[n as usize].state) {
            Some(State::Written(written)) => written.was.get(&id(key)).copied().unwrap_or(Value::NIL),
            _ => now,
        }
    }
}

/// Whether a module is below another one.
fn is_below(name: &[u8], other: &[u8]) -> bool {
    name.strip_prefix(other).is_some_and(|rest| matches!(rest.first(), Some(b'.' | b'/')))
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
fn path_text(path: &[Key]) -> String {
    let mut text = String::new();
    for key in path {
        match key {
            Key::Name(name) if text.is_empty() => text.push_str(&String::from_utf8_lossy(name)),
            Key::Name(name) => text.push_str(&format!(".{}", String::from_utf8_lossy(name))),
            Key::Int(n) => text.push_str(&format!("[{n}]")),
        }
    }
    text
}
