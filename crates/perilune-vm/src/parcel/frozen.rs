//! What crosses frozen: the packer's records of it, tables that cross in part, weak tables.
//!
//! # Tables that cross in part
//! A table in a captured variable or global is mostly there for a few of its fields: `Config.width`,
//! `Vec.add`. If the code that crosses uses it only to read constant names, which are fields of the table
//! itself, only these fields cross. The table is written as one without contents ([`code::PARTIAL`]), and the
//! fields follow as entries. Should something else in the crossing lead to it, all the rest follows as an
//! entry, too.
//!
//! # Weak tables
//! A frozen table is never cleared by a collector, so a weak one crosses as a strong one, with those entries
//! whose weak parts are in the crossing anyway. Which these are is known when nothing else is left to be
//! written, and may grow by what the entries lead to.

use super::cache::Listed;
use super::graph::{Entry, OWN, Origin, code};
use super::origin::{Held, is_frozen_copy};
use super::pack::{Packed, Packer, Way, index_text, push};
use super::refusal::{Reason, Step};
use crate::meta::Event;
use crate::object::{LuaClosure, Table};
use crate::value::{Gc, Tag, Value};
use perilune_syntax::error::chunk_id;
use perilune_syntax::{Proto, UpvalueDesc};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const FROZEN: u8 = 1;
/// A function that must keep the rules for variables.
const STRICT: u8 = 2;
/// A table whose contents come as entries.
const PARTIAL: u8 = 4;

/// What a packer knows of objects beside their numbers. Empty as long as nothing is frozen.
#[derive(Default)]
pub(super) struct Marks {
    /// By number; objects beyond the end have none.
    flags: Vec<u8>,
    /// By number: what holds it, as [`Way::hold`].
    holds: Vec<u32>,
    /// The variables that hold something.
    held: Vec<Held>,
    /// Objects whose marks have changed after their contents were written.
    again: Vec<u32>,
    parts: HashMap<u32, Part, foldhash::fast::FixedState>,
    /// Weak tables, with the keys that have been written.
    weak: Vec<(u32, HashSet<u64>)>,
}

/// A table that crosses in part.
#[derive(Default)]
struct Part {
    asked: HashSet<Arc<[u8]>>,
    all: bool,
}

impl Packer<'_> {
    fn flags(&self, number: u32) -> u8 {
        self.marks.flags.get(number as usize).copied().unwrap_or(0)
    }

    fn add_flag(&mut self, number: u32, flag: u8) {
        let flags = &mut self.marks.flags;
        if flags.len() <= number as usize {
            flags.resize(number as usize + 1, 0);
        }
        flags[number as usize] |= flag;
    }

    pub(super) fn is_partial(&self, number: u32) -> bool {
        self.flags(number) & PARTIAL != 0
    }

    pub(super) fn is_strict(&self, number: u32) -> bool {
        self.flags(number) & STRICT != 0
    }

    /// How what an object refers to is reached.
    pub(super) fn way_from(&self, number: u32) -> Way {
        if self.flags(number) & FROZEN == 0 {
            return Way::SENT;
        }
        Way { hold: self.marks.holds[number as usize], strict: false }
    }

    /// The object is frozen over there.
    pub(super) fn hold(&mut self, number: u32, hold: u32) {
        if self.flags(number) & FROZEN != 0 {
            return;
        }
        self.add_flag(number, FROZEN);
        let holds = &mut self.marks.holds;
        if holds.len() <= number as usize {
            holds.resize(number as usize + 1, 0);
        }
        holds[number as usize] = hold;
        if (number as usize) < self.done && Tag(self.seen.objects[number as usize].1) == Tag::TABLE {
            self.marks.again.push(number);
        }
    }

    /// The function must keep the rules for variables.
    pub(super) fn be_strict(&mut self, number: u32) {
        if self.is_strict(number) {
            return;
        }
        self.add_flag(number, STRICT);
        if (number as usize) < self.done {
            self.marks.again.push(number);
        }
    }

    // -- What holds something -------------------------------------------------------------------------------

    fn add_held(&mut self, name: Option<&[u8]>, is_global: bool, source: &[u8], line: u32) -> u32 {
        let source: Arc<[u8]> = chunk_id(source)[..].into();
        self.marks.held.push(Held { name: name.map(Into::into), is_global, source, line });
        self.marks.held.len() as u32
    }

    /// What the variable number `hold` is called.
    pub(super) fn held(&self, hold: u32) -> Held {
        self.marks.held[hold as usize - 1].clone()
    }

    pub(super) fn hold_of(&mut self, held: Held) -> u32 {
        self.marks.held.push(held);
        self.marks.held.len() as u32
    }

    pub(super) fn hold_of_variable(&mut self, proto: &Proto, desc: &UpvalueDesc) -> u32 {
        let line = proto.line_defined;
        self.add_held(Some(desc.name.as_deref().unwrap_or(b"?")), false, &proto.source, line)
    }

    pub(super) fn hold_of_global(&mut self, name: &[u8], source: &[u8], line: u32) -> u32 {
        self.add_held(Some(name), true, source, line)
    }

    pub(super) fn hold_of_patch(&mut self, module: &[u8], field: &[u8]) -> u32 {
        let name = [module, b".", field].concat();
        self.add_held(Some(&name), true, b"=?", 0)
    }

    pub(super) fn hold_of_metatable(&mut self, mt: Value) -> u32 {
        let name = self.vm.find_str(mt, b"__name");
        let name = name.as_string().map(|s| s.bytes().to_vec());
        self.add_held(name.as_deref(), false, b"=?", 0)
    }

    // -- In part --------------------------------------------------------------------------------------------

    /// Writes the value of a variable; unless it is used as a whole, only for `fields`.
    pub(super) fn value_in_part<'n>(
        &mut self,
        v: Value,
        way: Way,
        whole: bool,
        fields: impl Iterator<Item = &'n [u8]> + Clone,
    ) -> Packed {
        if whole
            || v.tag() != Tag::TABLE
            || self.is_snapshot
            || self.has_picture(v)
            || self.is_weak(v.gc())
            || !self.has_fields(v.gc(), fields.clone())
        {
            return self.value(v, way);
        }
        if self.table_by_name(v)? {
            return Ok(());
        }
        match self.refer(v, way) {
            Some(n) => self.ask_for(n, v.gc(), fields),
            None => {
                let n = self.seen.objects.len() as u32 - 1;
                self.add_flag(n, PARTIAL);
                self.marks.parts.insert(n, Part::default());
                self.list(Listed::Metatable(v.gc(), v.gc::<Table>().metatable));
                self.words.push(code::PARTIAL as u64);
                self.ask_for(n, v.gc(), fields);
            }
        }
        Ok(())
    }

    /// The same where the value has been written already, or will be with what else is in the variable.
    pub(super) fn reach_again<'n>(
        &mut self,
        v: Value,
        way: Way,
        whole: bool,
        fields: impl Iterator<Item = &'n [u8]> + Clone,
    ) -> Packed {
        let Some(n) = v.obj().and_then(|_| self.seen.number(v.payload())) else { return Ok(()) };
        if way.hold != 0 && v.tag() == Tag::TABLE {
            self.hold(n, way.hold);
        }
        match v.tag() {
            Tag::TABLE if whole || self.is_weak(v.gc()) || !self.has_fields(v.gc(), fields.clone()) => {
                self.all_of(n)
            }
            Tag::TABLE => self.ask_for(n, v.gc(), fields),
            Tag::CLOSURE if way.strict => self.be_strict(n),
            _ => {}
        }
        Ok(())
    }

    /// Whether the names are fields of the table itself, or could be nowhere else.
    fn has_fields<'n>(&mut self, t: Gc<Table>, mut fields: impl Iterator<Item = &'n [u8]>) -> bool {
        t.metatable.is_null()
            || fields.all(|name| {
                let key = self.vm.intern_bytes(name);
                key.is_ok_and(|key| !self.vm.raw_get_str(t, key).is_nil())
            })
    }

    fn ask_for<'n>(&mut self, number: u32, t: Gc<Table>, fields: impl Iterator<Item = &'n [u8]>) {
        let by = number;
        for name in fields {
            let Some(part) = self.marks.parts.get_mut(&number).filter(|part| !part.all) else { return };
            let name: Arc<[u8]> = name.into();
            let Ok(key) = self.vm.intern_bytes(&name) else { continue };
            if !part.asked.insert(name.clone()) {
                continue;
            }
            let v = self.vm.raw_get_str(t, key);
            self.list(Listed::Field(t, key, v));
            if !v.is_nil() {
                self.ask(Entry::Field { object: number, name }, by, 0);
            }
        }
    }

    /// All of a table crosses.
    pub(super) fn all_of(&mut self, number: u32) {
        if let Some(part) = self.marks.parts.get_mut(&number)
            && !std::mem::replace(&mut part.all, true)
        {
            self.ask(Entry::Rest { object: number }, number, 0);
        }
    }

    /// Only fields of the table cross.
    pub(super) fn is_in_part(&self, number: u32) -> bool {
        self.marks.parts.get(&number).is_some_and(|part| !part.all)
    }

    fn table_at(&self, number: u32) -> Gc<Table> {
        Value::raw(Tag::TABLE, self.seen.objects[number as usize].0).gc()
    }

    pub(super) fn field_entry(&mut self, object: u32, name: &[u8]) -> Packed {
        let t = self.table_at(object);
        let Ok(key) = self.vm.intern_bytes(name) else {
            self.words.push(Tag::NIL.0 as u64);
            return Ok(());
        };
        let v = self.vm.raw_get_str(t, key);
        self.at(object, || Step::Field(index_text(key.into())));
        self.value(v, self.way_from(object))
    }

    pub(super) fn rest_entry(&mut self, object: u32) -> Packed {
        let t = self.table_at(object);
        let mut pairs = Vec::new();
        super::modules::all_fields(self.vm, t, |key, v| pairs.push((key, v)));
        if let Some(at) = self.marks.weak.iter().position(|w| w.0 == object) {
            let (_, mut written) = std::mem::take(&mut self.marks.weak[at]);
            pairs.retain(|&(key, v)| !written.contains(&key_word(key)) && self.is_kept(t, key, v));
            written.extend(pairs.iter().map(|&(key, _)| key_word(key)));
            self.marks.weak[at] = (object, written);
        }
        self.words.push(pairs.len() as u64);
        let way = self.way_from(object);
        for (key, v) in pairs {
            self.at(object, || Step::Key);
            self.value(key, way)?;
            self.at(object, || Step::Field(index_text(key)));
            self.value(v, way)?;
        }
        if t.metatable.is_null() {
            self.words.push(Tag::NIL.0 as u64);
            return Ok(());
        }
        self.metatable(object, t)
    }

    // -- Weak tables ----------------------------------------------------------------------------------------

    pub(super) fn is_weak(&mut self, t: Gc<Table>) -> bool {
        self.vm.is_weak(t)
    }

    /// The object met last is a weak table.
    pub(super) fn weak_table(&mut self) {
        let number = self.seen.objects.len() as u32 - 1;
        self.add_flag(number, PARTIAL);
        self.marks.weak.push((number, HashSet::new()));
        self.words.push(code::PARTIAL as u64);
        // Its metatable, and what is there already.
        self.ask(Entry::Rest { object: number }, number, 0);
    }

    /// Whether the weak parts of an entry are in the crossing.
    fn is_kept(&mut self, t: Gc<Table>, key: Value, v: Value) -> bool {
        let (keys, values) = self.vm.weak_parts(t);
        let mut is_here = |v: Value| {
            let is_weak = matches!(
                v.tag(),
                Tag::TABLE | Tag::CLOSURE | Tag::USERDATA | Tag::THREAD | Tag::NATIVE_CLOSURE | Tag::SHARED
            );
            !is_weak
                || v.is_in_island()
                || self.seen.number(v.payload()).is_some()
                || self.vm.known_path(v).is_some()
                || self.is_in_used_picture(v)
        };
        (!keys || is_here(key)) && (!values || is_here(v))
    }

    /// Asks for entries of weak tables that are there by now; false if there are none.
    pub(super) fn weak_entries(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.marks.weak.len() {
            let number = self.marks.weak[at].0;
            let t = self.table_at(number);
            let mut pairs = Vec::new();
            super::modules::all_fields(self.vm, t, |key, v| pairs.push((key, v)));
            let written = std::mem::take(&mut self.marks.weak[at].1);
            let more =
                pairs.iter().any(|&(key, v)| !written.contains(&key_word(key)) && self.is_kept(t, key, v));
            self.marks.weak[at].1 = written;
            if more {
                self.ask(Entry::Rest { object: number }, number, 0);
                any = true;
            }
        }
        any
    }

    // -- Marks that come late -------------------------------------------------------------------------------

    /// Passes on the marks of one object whose contents had been written before it got them; false if there
    /// is none.
    pub(super) fn go_over_again(&mut self) -> Packed<bool> {
        let Some(number) = self.marks.again.pop() else { return Ok(false) };
        let (address, tag) = self.seen.objects[number as usize];
        match Tag(tag) {
            Tag::TABLE => {
                let t: Gc<Table> = Value::raw(Tag::TABLE, address).gc();
                let hold = self.way_from(number).hold;
                let mut inside = Vec::new();
                super::modules::all_fields(self.vm, t, |key, v| inside.extend([key, v]));
                if !t.metatable.is_null() {
                    // SAFETY: not null, and kept by the table.
                    inside.push(unsafe { Gc::from_ptr(t.metatable) }.into());
                }
                for v in inside {
                    if matches!(v.tag(), Tag::TABLE | Tag::CLOSURE)
                        && let Some(n) = self.seen.number(v.payload())
                    {
                        self.hold(n, hold);
                    }
                }
            }
            Tag::CLOSURE => {
                let c: Gc<LuaClosure> = Value::raw(Tag::CLOSURE, address).gc();
                let proto = super::pack::shared_proto(c);
                self.check_closure(number, c, &proto)?;
                for (n, desc) in proto.upvalues.iter().enumerate() {
                    // SAFETY: the upvalue is kept by the closure; its value is on a live stack or its own.
                    let v = unsafe { *(*c.upvalue(n)).v };
                    if let Some(env) = self.captured_environment(desc, v) {
                        if self.unit.is_some() {
                            self.at(number, || super::pack::upvalue_step(desc, 0));
                            self.own_environment(&proto, n as u8, env, true)?;
                        }
                    } else if v.tag() == Tag::CLOSURE
                        && let Some(n) = self.seen.number(v.payload())
                    {
                        self.be_strict(n);
                    }
                }
            }
            _ => {}
        }
        Ok(true)
    }

    // -- What may not cross ---------------------------------------------------------------------------------

    /// Refuses an instance that would be finalised on both sides.
    pub(super) fn metatable_can_cross(&mut self, t: Gc<Table>) -> Packed {
        // SAFETY: not null, and kept by the table.
        let mt = Value::from(unsafe { Gc::from_ptr(t.metatable) });
        if self.vm.metatable_finalizes(mt) { self.refuse(Reason::Finalizer) } else { Ok(()) }
    }

    // -- The end --------------------------------------------------------------------------------------------

    /// Notes in the graph what is frozen over there, and what objects are copies of.
    pub(super) fn note_origins(&mut self) {
        if self.marks.holds.is_empty() && !self.vm.has_copies() {
            return;
        }
        let own = self.gather_origins();
        if own.objects.is_empty() {
            return;
        }
        let crossing = self.vm.new_crossing(own.held, own.objects, own.by);
        let refs = self.refs();
        let at = push(&mut refs.crossings, crossing) as u32;
        refs.origins.iter_mut().filter(|o| o.crossing == OWN).for_each(|o| o.crossing = at);
    }

    /// The same without a crossing for what is this domain's own.
    pub(super) fn gather_origins(&mut self) -> Own {
        let mut frozen = Vec::new();
        let mut own = Own::default();
        let mut origins = Vec::new();
        for number in 0..self.seen.objects.len() as u32 {
            let (address, tag) = self.seen.objects[number as usize];
            if !matches!(Tag(tag), Tag::TABLE | Tag::CLOSURE) {
                continue;
            }
            let is_frozen = self.flags(number) & FROZEN != 0;
            if is_frozen {
                frozen.push(number);
            }
            let v = Value::raw(Tag(tag), address);
            if is_frozen_copy(v) {
                if let Some((crossing, index)) = self.vm.origin(v) {
                    let crossing = crossing.clone();
                    let crossings = &mut self.refs().crossings;
                    let at = match crossings.iter().rev().take(8).position(|c| Arc::ptr_eq(c, &crossing)) {
                        Some(back) => crossings.len() as u64 - 1 - back as u64,
                        None => push(crossings, crossing),
                    };
                    origins.push(Origin { object: number, crossing: at as u32, index });
                }
            } else if is_frozen {
                own.objects.push((address, tag));
                own.numbers.push(number);
                own.by.push(self.marks.holds[number as usize].saturating_sub(1));
                origins.push(Origin { object: number, crossing: OWN, index: own.objects.len() as u32 - 1 });
            }
        }
        if !own.objects.is_empty() {
            own.held = std::mem::take(&mut self.marks.held);
        }
        if !frozen.is_empty() || !origins.is_empty() {
            let refs = self.refs();
            (refs.frozen, refs.origins) = (frozen, origins);
        }
        own
    }
}

/// What a graph freezes of the domain's own.
#[derive(Default)]
pub(super) struct Own {
    pub held: Vec<Held>,
    /// Address and tag.
    pub objects: Vec<(u64, u8)>,
    /// Their numbers in the graph, ascending.
    pub numbers: Vec<u32>,
    /// For each the variable that led there first.
    pub by: Vec<u32>,
}

/// What tells keys apart.
fn key_word(key: Value) -> u64 {
    key.payload() ^ (key.tag().0 as u64) << 56
}

impl crate::Vm {
    /// Field `name` of a table, without metamethods; nil if it has none.
    pub(super) fn find_str(&mut self, v: Value, name: &[u8]) -> Value {
        match (v.as_table(), self.intern_bytes(name)) {
            (Some(t), Ok(key)) => self.raw_get_str(t, key),
            _ => Value::NIL,
        }
    }

    /// Whether keys and values of a table are weak.
    fn weak_parts(&mut self, t: Gc<Table>) -> (bool, bool) {
        if t.metatable.is_null() {
            return (false, false);
        }
        // SAFETY: not null, and kept by the table.
        let mt = Value::from(unsafe { Gc::from_ptr(t.metatable) });
        let mode = self.find_str(mt, b"__mode");
        mode.as_string().map_or((false, false), |s| (s.bytes().contains(&b'k'), s.bytes().contains(&b'v')))
    }

    pub(super) fn is_weak(&mut self, t: Gc<Table>) -> bool {
        self.weak_parts(t) != (false, false)
    }

    /// Whether instances with this metatable are finalised.
    pub(super) fn metatable_finalizes(&mut self, mt: Value) -> bool {
        mt.as_table().is_some_and(|mt| !self.raw_get_str(mt, self.event_name(Event::Gc)).is_nil())
    }
}

/// The name of a function of the standard library that needs no state, if `v` is one.
pub(super) fn library_function(vm: &mut crate::Vm, v: Value) -> Option<&'static str> {
    let native = v.as_native()?;
    let is_its = |vm: &mut crate::Vm, t: Value| vm.find_str(t, native.name.as_bytes()).same(v);
    let globals = vm.globals().into();
    let loaded = vm.get_field(vm.registry(), "_LOADED").ok()?;
    let (table, base) = (vm.find_str(loaded, b"table"), vm.find_str(loaded, b"_G"));
    [table, base, globals].into_iter().any(|t| is_its(vm, t)).then_some(native.name)
}
