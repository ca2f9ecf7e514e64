//! Packing: from values of a domain to a [`Graph`].
//!
//! One [`Packer`] makes one graph: the root graph of a parcel, or that of a snapshot of globals
//! (`snapshot.rs`). It runs no Lua code and allocates nothing in the domain's heap except interned names, so
//! nothing is collected meanwhile and addresses stay what they are.
//!
//! # Ways
//! How a value is reached decides how it crosses, see [`Way`]: what captured variables, named globals and
//! metatables lead to is frozen over there, everything else is a copy to write to. What is reached both ways
//! is frozen; if that turns out when its contents have been written, the mark is passed on by going over them
//! once more (`frozen.rs`).
//!
//! When something may not cross, the packer stops with the bare reason. The caller then packs once more with
//! [`Packer::trace`] set, which notes for each object how it was reached, and that run's refusal has the path
//! in it.

mod entries;

use super::graph::{Entry, Graph, Known, ModuleRef, Refs, SHORT_STRING, TableHead, code, put_bytes};
use super::outside::island_words;
use super::refusal::{Node, Place, Reason, Refusal, Role, Step};
use super::seen::Seen;
use super::snapshot;
use super::strings::LARGE_STRING;
use crate::Vm;
use crate::object::{ArrayKind, LuaClosure, LuaString, Table, Upval};
use crate::shape;
use crate::value::{Gc, Tag, Value};
use perilune_syntax::error::chunk_id;
use perilune_syntax::mentions::NamedField;
use perilune_syntax::{Proto, UpvalueDesc};
use std::sync::Arc;

/// What packing gives.
pub(super) type Packed<T = ()> = Result<T, Box<Refusal>>;

/// How each object was reached.
pub(super) struct Trace {
    /// By object: the one that led to it (`ROOT`: none), and how.
    nodes: Vec<(u32, Node)>,
    /// The object whose contents are being written, and where in it.
    pub(super) current: u32,
    step: Option<Step>,
}

const ROOT: u32 = u32::MAX;

/// How a value is reached.
#[derive(Clone, Copy)]
pub(super) struct Way {
    /// It is frozen over there: one more than the number of the variable that leads to it; 0: a copy to write
    /// to.
    pub hold: u32,
    /// If it is a function, it must keep the rules for variables, as it may be called over there without
    /// anything in between: it is no field of a frozen table.
    pub strict: bool,
}

impl Way {
    /// A value of a message, or in a table of one.
    pub const SENT: Way = Way { hold: 0, strict: true };
}

/// An environment of a snapshot under way.
pub(super) struct Environment {
    pub table: Gc<Table>,
    /// Names asked for so far.
    names: Vec<Asked>,
    /// All of the program's globals have been: so many.
    pub all: Option<usize>,
}

/// A global that has been asked for.
struct Asked {
    name: Arc<[u8]>,
    strict: bool,
    /// Other than for the fields `inner`.
    whole: bool,
    inner: Vec<Arc<[u8]>>,
    /// Its value has been written.
    is_done: bool,
    /// Where it is named first.
    source: Arc<[u8]>,
    line: u32,
}

/// A global as a snapshot has it.
#[derive(Clone, Copy)]
pub(super) struct Taken {
    pub environment: Gc<Table>,
    pub name: Gc<LuaString>,
    pub value: Value,
}

/// What a snapshot under way keeps.
#[derive(Default)]
pub(super) struct Unit {
    pub environments: Vec<Environment>,
    /// The globals in it, for telling whether it still holds.
    pub taken: Vec<Taken>,
}

/// Makes one graph.
pub(super) struct Packer<'v> {
    pub vm: &'v mut Vm,
    pub words: Vec<u64>,
    pub refs: Option<Box<Refs>>,
    pub(super) seen: Seen,
    /// Modules met, by their number in the graph: the domain's number, and the fingerprint when it was looked
    /// at.
    pub modules: Vec<(u32, u64)>,
    /// Of a snapshot, or of a root graph with environments of its own.
    pub unit: Option<Unit>,
    /// Tables are for the root graph.
    pub(super) is_snapshot: bool,
    pub(super) role: Role,
    /// The caller waits for what crosses, so variables are taken as they are.
    pub(super) waits: bool,
    pub(super) trace: Option<Box<Trace>>,
    /// First object whose contents have not been written.
    pub(super) done: usize,
    pub(super) marks: super::frozen::Marks,
    /// First entry whose value has not been written.
    entries_done: usize,
    /// By entry, while tracing: the object that asked for it, and the line where it does.
    asked_by: Vec<u32>,
    lines: Vec<u32>,
    /// How pictures are used; `None`: not at all.
    pub(super) plan: Option<Box<super::picture::Plan>>,
    /// Of a packer that makes a picture: what the packers around it have met.
    pub(super) around: Vec<&'v Seen>,
}

impl<'v> Packer<'v> {
    pub fn new(
        vm: &'v mut Vm,
        role: Role,
        tracing: bool,
        unit: Option<Unit>,
        is_snapshot: bool,
    ) -> Packer<'v> {
        let (words, seen) = vm.lua.crossing.parcel.buffers.packing.pop().unwrap_or_default();
        Packer {
            vm,
            words,
            refs: None,
            seen,
            modules: Vec::new(),
            unit,
            is_snapshot,
            role,
            waits: false,
            marks: super::frozen::Marks::default(),
            trace: tracing.then(|| Box::new(Trace { nodes: Vec::new(), current: ROOT, step: None })),
            done: 0,
            entries_done: 0,
            asked_by: Vec::new(),
            lines: Vec::new(),
            plan: None,
            around: Vec::new(),
        }
    }

    /// Packs `values` as roots; `waits`: the caller does, for all that is called over there.
    pub fn roots(&mut self, values: &[Value], waits: bool) -> Packed {
        self.waits = waits;
        self.first_pictures();
        for (n, &v) in values.iter().enumerate() {
            self.at(ROOT, || Step::Root(n as u32 + 1));
            self.value(v, Way::SENT)?;
        }
        self.everything()
    }

    /// The buffers go back to the domain.
    pub fn give_up(mut self) {
        self.words.clear();
        self.seen.clear();
        self.vm.lua.crossing.parcel.buffers.packing.push((self.words, self.seen));
    }

    /// The graph. The buffers go back to the domain.
    pub fn finish(mut self, roots: u32) -> (Graph, Vec<(u32, u64)>, Option<Unit>) {
        self.note_origins();
        self.finish_graph(roots)
    }

    /// The same without a look at what comes home.
    pub(super) fn finish_graph(mut self, roots: u32) -> (Graph, Vec<(u32, u64)>, Option<Unit>) {
        if let (Some(unit), Some(refs)) = (&self.unit, &mut self.refs) {
            refs.environments = unit.environments.len() as u32;
        }
        // A domain that is idle keeps no more than this many words for the next parcel.
        const LARGE: usize = 1 << 13;
        let words = if self.words.len() > LARGE {
            std::mem::take(&mut self.words)
        } else {
            self.words.as_slice().to_vec()
        };
        self.words.clear();
        self.seen.clear();
        self.vm.lua.crossing.parcel.buffers.packing.push((self.words, self.seen));
        let mut graph = Graph::new(words, roots, self.refs);
        graph.objects = u32::try_from(self.done).unwrap_or(u32::MAX);
        (graph, self.modules, self.unit)
    }

    // -- Where we are, for refusals -------------------------------------------------------------------------

    #[inline(always)]
    pub(super) fn at(&mut self, object: u32, step: impl FnOnce() -> Step) {
        if let Some(trace) = &mut self.trace {
            (trace.current, trace.step) = (object, Some(step()));
        }
    }

    #[cold]
    #[inline(never)]
    pub(super) fn refuse<T>(&self, reason: Reason) -> Packed<T> {
        let mut path = Vec::new();
        if let Some(trace) = &self.trace {
            path.extend(trace.step.clone().map(|step| Node { step, function: None }));
            let mut at = trace.current;
            while let Some((parent, node)) = trace.nodes.get(at as usize) {
                path.push(node.clone());
                at = *parent;
            }
            path.reverse();
        }
        Err(Box::new(Refusal { role: self.role, count: 0, path, reason }))
    }

    /// Notes how a new object was reached.
    #[inline(always)]
    pub(super) fn note(&mut self, v: Value) {
        if self.trace.is_some() {
            self.note_slow(v);
        }
    }

    #[cold]
    fn note_slow(&mut self, v: Value) {
        let function = v.as_closure().map(|c| place(c.inst().proto()));
        let Some(trace) = &mut self.trace else { return };
        let step = trace.step.clone().unwrap_or(Step::Key);
        trace.nodes.push((trace.current, Node { step, function }));
    }

    // -- Values ---------------------------------------------------------------------------------------------

    /// Writes a value.
    #[inline]
    pub(super) fn value(&mut self, v: Value, way: Way) -> Packed {
        match v.tag() {
            Tag::NIL | Tag::FALSE | Tag::TRUE => self.words.push(v.tag().0 as u64),
            Tag::INT | Tag::FLOAT | Tag::LIGHT | Tag::NATIVE => {
                self.words.extend_from_slice(&[v.tag().0 as u64, v.payload()]);
            }
            Tag::STRING => self.string(v.gc()),
            Tag::TABLE => return self.table(v, way),
            _ => return self.other(v, way),
        }
        Ok(())
    }

    #[inline]
    fn string(&mut self, s: Gc<LuaString>) {
        let bytes = s.bytes();
        if bytes.len() <= SHORT_STRING {
            self.words.push(code::STRING as u64 | (bytes.len() as u64) << 8);
            put_bytes(&mut self.words, bytes);
        } else {
            self.long_string(s.into(), bytes);
        }
    }

    #[inline(never)]
    fn long_string(&mut self, v: Value, bytes: &[u8]) {
        if v.is_in_island() {
            return self.island(v);
        }
        if self.refer(v, Way::SENT).is_some() {
            return;
        }
        if bytes.len() >= LARGE_STRING && self.large_string(v) {
            return;
        }
        self.words.push(code::LONG_STRING as u64 | (bytes.len() as u64) << 8);
        put_bytes(&mut self.words, bytes);
    }

    /// Writes a reference if the object has a number; otherwise gives it one, and the caller writes what it
    /// takes to make it.
    #[inline]
    pub(super) fn refer(&mut self, v: Value, way: Way) -> Option<u32> {
        match self.seen.number(v.payload()) {
            Some(n) => {
                self.words.push(code::REF as u64 | (n as u64) << 8);
                if way.hold != 0 {
                    self.hold(n, way.hold);
                }
                Some(n)
            }
            None => {
                self.note(v);
                self.seen.add(v.payload(), v.tag().0);
                if way.hold != 0 {
                    self.hold(self.seen.objects.len() as u32 - 1, way.hold);
                }
                None
            }
        }
    }

    /// Writes how the receiver comes by a table that is no copy: in an island, in a module, or the globals.
    #[inline]
    pub(super) fn table_by_name(&mut self, v: Value) -> Packed<bool> {
        if v.is_in_island() {
            self.island(v);
            return Ok(true);
        }
        if self.vm.lua.crossing.parcel.modules.may_know(v) && self.known(v)? {
            return Ok(true);
        }
        if v.gc::<Table>().is_guarded() {
            // To the code of a task it is what `_G` is.
            let globals = self.vm.globals().into();
            return self.known(globals);
        }
        Ok(false)
    }

    #[inline]
    fn table(&mut self, v: Value, way: Way) -> Packed {
        let t: Gc<Table> = v.gc();
        if self.table_by_name(v)? {
            return Ok(());
        }
        if self.is_snapshot {
            return self.refuse(Reason::Travels);
        }
        if self.plan.is_some()
            && self.is_new(v, way.hold != 0 || t.minds_stores())
            && self.by_picture(v, way)?
        {
            return Ok(());
        }
        if let Some(n) = self.refer(v, way) {
            self.all_of(n);
            return Ok(());
        }
        if !t.metatable.is_null() {
            self.metatable_can_cross(t)?;
            if way.hold != 0 && self.is_weak(t) {
                if self.makes_picture() {
                    // Which entries cross depends on what else the parcel has.
                    return self.refuse(Reason::Travels);
                }
                self.weak_table();
                return Ok(());
            }
        }
        let live = t.node_slice().iter().filter(|n| n.is_live()).count();
        let head = TableHead {
            shape: t.shape,
            array: t.extent() as u32,
            nodes: live as u32,
            kind: t.kind as u8,
            has_metatable: !t.metatable.is_null(),
            has_holes: t.has_holes(),
        };
        self.words.extend_from_slice(&head.words());
        Ok(())
    }

    #[inline(never)]
    fn other(&mut self, v: Value, way: Way) -> Packed {
        if v.tag() == Tag::SHARED {
            let object = v.gc::<crate::shared::SharedRef>().object().clone();
            let n = push(&mut self.refs().shared, object);
            self.words.push(code::SHARED as u64 | n << 8);
            return Ok(());
        }
        if v.is_in_island() {
            self.island(v);
            return Ok(());
        }
        if self.known(v)? {
            return Ok(());
        }
        match v.tag() {
            Tag::CLOSURE => self.closure(v, way),
            Tag::THREAD => self.refuse(Reason::Coroutine),
            Tag::NATIVE_CLOSURE => {
                let native = v.as_native().expect("just looked at");
                let wrap = native.kind == crate::native::Kind::Wrap;
                self.refuse(if wrap { Reason::Wrap } else { Reason::NativeFunction(native.name) })
            }
            _ => {
                if let (Some(carry), Some(u)) = (self.vm.lua.crossing.carry_userdata, v.as_userdata())
                    && let Some(object) = carry(u)
                {
                    let n = push(&mut self.refs().shared, object);
                    self.words.push(code::SHARED as u64 | n << 8);
                    return Ok(());
                }
                let name = self.vm.typename_for_message(v);
                self.refuse(Reason::Userdata(name.into_owned()))
            }
        }
    }

    fn island(&mut self, v: Value) {
        let words = island_words(self.vm, v, self.refs.get_or_insert_default());
        self.words.extend_from_slice(&words);
    }

    /// Whether the packer has not met the object, which may be in a picture.
    #[inline]
    fn is_new(&self, v: Value, may_be: bool) -> bool {
        (may_be || !self.around.is_empty()) && self.seen.number(v.payload()).is_none()
    }

    fn closure(&mut self, v: Value, way: Way) -> Packed {
        if self.plan.is_some() && self.is_new(v, true) && self.by_picture(v, way)? {
            return Ok(());
        }
        // What a variable holds is the function that the text shows; only one that is found in a table comes
        // home as the one it was there.
        let hold = if way.strict { 0 } else { way.hold };
        if let Some(n) = self.refer(v, Way { hold, ..way }) {
            if way.strict {
                self.be_strict(n);
            }
            return Ok(());
        }
        if way.strict {
            self.be_strict(self.seen.objects.len() as u32 - 1);
        }
        let proto = shared_proto(v.gc());
        let protos = &mut self.refs().protos;
        let n = match protos.iter().rev().take(8).position(|p| Arc::ptr_eq(p, &proto)) {
            Some(back) => protos.len() as u64 - 1 - back as u64,
            None => push(protos, proto),
        };
        self.words.push(code::CLOSURE as u64 | n << 8);
        Ok(())
    }

    pub(super) fn refs(&mut self) -> &mut Refs {
        self.refs.get_or_insert_default()
    }

    // -- Contents -------------------------------------------------------------------------------------------

    /// Writes the contents of all objects, and all entries.
    fn everything(&mut self) -> Packed {
        loop {
            while self.done < self.seen.objects.len() {
                let number = self.done as u32;
                let (address, tag) = self.seen.objects[self.done];
                self.done += 1;
                match Tag(tag) {
                    Tag::TABLE if self.is_partial(number) => {}
                    Tag::TABLE => self.table_contents(number, Value::raw(Tag::TABLE, address).gc())?,
                    Tag::CLOSURE => self.closure_contents(number, Value::raw(Tag::CLOSURE, address).gc())?,
                    _ => {}
                }
            }
            if !self.go_over_again()? && !self.next_entry()? && !self.weak_entries() {
                return Ok(());
            }
        }
    }

    #[inline]
    fn table_contents(&mut self, number: u32, t: Gc<Table>) -> Packed {
        let way = self.way_from(number);
        for slot in 0..shape::field_count(t.shape) {
            // SAFETY: a table has a slot for each field of its shape.
            let v = unsafe { *t.slots.add(slot as usize) };
            if self.trace.is_some() {
                let key = self.vm.key_at(t.shape, slot);
                self.at(number, || Step::Field(index_text(key.into())));
            }
            self.value(v, way)?;
        }
        match t.kind {
            ArrayKind::General => {
                for at in 0..t.extent() {
                    self.at(number, || Step::Field(format!("[{}]", at + 1)));
                    // SAFETY: within `extent`.
                    self.value(unsafe { t.element(at) }, way)?;
                }
            }
            ArrayKind::Int | ArrayKind::Float => self.words.extend_from_slice(t.number_words()),
            ArrayKind::Bool => put_bytes(&mut self.words, t.boolean_tags()),
        }
        if !t.nodes.is_null() {
            self.nodes(number, t, way)?;
        }
        if !t.metatable.is_null() {
            self.metatable(number, t)?;
        }
        Ok(())
    }

    /// The metatable of a table that has one: frozen, whatever the table is.
    pub(super) fn metatable(&mut self, number: u32, t: Gc<Table>) -> Packed {
        // SAFETY: not null, and kept by the table.
        let mt = Value::from(unsafe { Gc::from_ptr(t.metatable) });
        let hold = match self.way_from(number).hold {
            0 => self.hold_of_metatable(mt),
            hold => hold,
        };
        self.at(number, || Step::Metatable);
        self.of_class(true);
        let written = self.value(mt, Way { hold, strict: false });
        self.of_class(false);
        written
    }

    fn of_class(&mut self, is_class: bool) {
        if let Some(plan) = &mut self.plan {
            plan.is_class = is_class;
        }
    }

    #[inline(never)]
    fn nodes(&mut self, number: u32, t: Gc<Table>, way: Way) -> Packed {
        for node in t.node_slice().iter().filter(|n| n.is_live()) {
            self.at(number, || Step::Key);
            self.value(node.key(), way)?;
            self.at(number, || Step::Field(index_text(node.key())));
            self.value(node.value(), way)?;
        }
        Ok(())
    }

    fn closure_contents(&mut self, number: u32, c: Gc<LuaClosure>) -> Packed {
        let proto = shared_proto(c);
        let strict = self.is_strict(number);
        if strict {
            self.check_closure(number, c, &proto)?;
        }
        for (n, desc) in proto.upvalues.iter().enumerate() {
            let uv = c.upvalue(n);
            // SAFETY: the upvalue is kept by the closure; its value is on a live stack or its own.
            let v = unsafe { *(*uv).v };
            self.at(number, || upvalue_step(desc, 0));
            if let Some(env) = self.captured_environment(desc, v) {
                self.environment(&proto, n as u8, env, strict)?;
                continue;
            }
            let address = uv as u64;
            let known = self.seen.number(address);
            match known {
                Some(n) => self.words.push(code::REF as u64 | (n as u64) << 8),
                None => {
                    self.note(Value::NIL);
                    self.seen.add(address, Tag::UPVAL.0);
                    self.words.push(code::UPVALUE as u64);
                }
            }
            if self.makes_picture() {
                self.list_variable(c, n, desc.kind, v);
            }
            let mentions = proto.mentions();
            let fields =
                || mentions.fields.iter().filter(move |f| f.upvalue == n as u8 && f.reads).map(|f| &*f.name);
            // What is stored into goes to its `__newindex` (others have been refused), which belongs to the
            // whole.
            let is_stored_into = mentions.fields.iter().any(|f| f.upvalue == n as u8 && f.assigns);
            let whole = is_stored_into || mentions.whole.contains(&(n as u8));
            let hold = match v.tag() {
                Tag::TABLE | Tag::CLOSURE => self.hold_of_variable(&proto, desc),
                _ => 0,
            };
            let way = Way { hold, strict };
            if known.is_some() {
                self.reach_again(v, way, whole, fields())?;
            } else {
                self.value_in_part(v, way, whole, fields())?;
            }
        }
        self.methods(&proto)
    }

    pub(super) fn captured_environment(&self, desc: &UpvalueDesc, v: Value) -> Option<Gc<Table>> {
        self.vm.captured_environment(desc, v)
    }

    /// An upvalue that is an environment.
    fn environment(&mut self, proto: &Arc<Proto>, upvalue: u8, env: Gc<Table>, strict: bool) -> Packed {
        if self.unit.is_some() {
            let n = self.own_environment(proto, upvalue, env, strict)?;
            let code = if self.is_snapshot { code::ENVIRONMENT } else { code::OWN_ENVIRONMENT };
            self.words.push(code as u64 | n << 8);
            return Ok(());
        }
        let tracing = self.trace.is_some();
        let taken = snapshot::obtain(self.vm, proto, upvalue, env, tracing, strict);
        let snapshot = taken.map_err(|mut inner| {
            // The path goes on inside the snapshot.
            let mut path = self.refuse::<()>(Reason::OddField).unwrap_err().path;
            path.pop();
            path.append(&mut inner.path);
            inner.path = path;
            inner
        })?;
        let snapshots = &mut self.refs().snapshots;
        let n = match snapshots.iter().position(|s| Arc::ptr_eq(s, &snapshot)) {
            Some(n) => n as u64,
            None => push(snapshots, snapshot),
        };
        self.words.push(code::ENVIRONMENT as u64 | n << 8);
        Ok(())
    }

    /// In a graph with environments: the number of `env`, and the names that the function mentions are asked
    /// for.
    pub fn own_environment(
        &mut self,
        proto: &Proto,
        upvalue: u8,
        env: Gc<Table>,
        strict: bool,
    ) -> Packed<u64> {
        let unit = self.unit.as_mut().expect("such a graph has a unit");
        let n = unit.environments.iter().position(|e| e.table == env).unwrap_or_else(|| {
            unit.environments.push(Environment { table: env, names: Vec::new(), all: None });
            unit.environments.len() - 1
        });
        self.refs.get_or_insert_default();
        for field in proto.mentions().fields.iter().filter(|f| f.upvalue == upvalue && f.reads) {
            let environment = &mut self.unit.as_mut().expect("as above").environments[n];
            let inner = || field.inner.iter().map(|name| Arc::from(&**name));
            if let Some(asked) = environment.names.iter_mut().find(|asked| *asked.name == *field.name) {
                asked.strict |= strict;
                asked.whole |= field.whole;
                for name in inner() {
                    if !asked.inner.contains(&name) {
                        asked.inner.push(name);
                    }
                }
                if asked.is_done
                    && let Ok(name) = self.vm.intern_bytes(&field.name)
                {
                    let way = Way { hold: 0, strict };
                    let v = self.vm.environment_get(env, name);
                    self.reach_again(v, way, field.whole, field.inner.iter().map(|name| &**name))?;
                }
                continue;
            }
            let name: Arc<[u8]> = field.name.as_ref().into();
            let asked = Asked {
                name: name.clone(),
                strict,
                whole: field.whole,
                inner: inner().collect(),
                is_done: false,
                source: proto.source.clone(),
                line: field.line,
            };
            environment.names.push(asked);
            let by = self.trace.as_ref().map_or(ROOT, |trace| trace.current);
            self.ask(Entry::Global { environment: n as u32, name }, by, field.line);
        }
        let through = |f: &&NamedField| f.upvalue == upvalue && f.reads && *f.name == *b"_G";
        for field in proto.mentions().fields.iter().filter(through) {
            let source = &proto.source;
            for name in &field.inner {
                self.ask_too(source, n, name.as_ref().into(), strict, field.line);
            }
            if field.whole {
                self.all_globals(source, n, env, field.line);
            }
        }
        Ok(n as u64)
    }

    /// `_G[name]`: whatever the program has may be meant. Asks for all of its globals, unless it is known
    /// that they cannot all cross.
    #[cold]
    fn all_globals(&mut self, source: &Arc<[u8]>, n: usize, env: Gc<Table>, line: u32) {
        let state = &mut self.vm.lua.crossing.parcel;
        state.takes_all_globals = true;
        if state.named_globals_only {
            return;
        }
        let all = self.vm.program_globals(env);
        let environment = &mut self.unit.as_mut().expect("such a graph has a unit").environments[n];
        if environment.all.replace(all.len()).is_some() {
            return;
        }
        for name in all {
            // As what is found in a frozen table.
            self.ask_too(source, n, name, false, line);
        }
    }

    /// Asks for a global that code comes by through `_G`, if it has not been asked for.
    fn ask_too(&mut self, source: &Arc<[u8]>, n: usize, name: Arc<[u8]>, strict: bool, line: u32) {
        let environment = &mut self.unit.as_mut().expect("such a graph has a unit").environments[n];
        if environment.names.iter().any(|asked| asked.name == name) {
            return;
        }
        let (inner, source) = (Vec::new(), source.clone());
        let asked = Asked { name: name.clone(), strict, whole: true, inner, is_done: false, source, line };
        environment.names.push(asked);
        let by = self.trace.as_ref().map_or(ROOT, |trace| trace.current);
        self.ask(Entry::Global { environment: n as u32, name }, by, line);
    }

    /// Asks for the value of an entry.
    pub(super) fn ask(&mut self, entry: Entry, by: u32, line: u32) {
        let refs = self.refs();
        refs.entries.push(entry);
        let n = refs.entries.len();
        if self.trace.is_some() {
            self.asked_by.resize(n, ROOT);
            self.lines.resize(n, 0);
            (self.asked_by[n - 1], self.lines[n - 1]) = (by, line);
        }
    }

    /// A method that the program has added to the strings is used without naming the table it is in.
    fn methods(&mut self, proto: &Proto) -> Packed {
        if proto.mentions().methods.is_empty() {
            return Ok(());
        }
        let Some(string) = self.vm.string_module() else { return Ok(()) };
        let (print, changed) = self.vm.module_changes(string);
        if let Some(plan) = &mut self.plan {
            plan.prints.push((string, print));
        }
        let methods = &proto.mentions().methods;
        if changed.iter().any(|c| methods.iter().any(|m| **m == *c.field)) {
            self.module(string)?;
        }
        Ok(())
    }

    // -- What is found again by name ------------------------------------------------------------------------

    /// Writes how the receiver finds `v`, if it is part of a module.
    fn known(&mut self, v: Value) -> Packed<bool> {
        let Some(path) = self.vm.known_path(v) else { return Ok(false) };
        let module = self.module(path.module)?;
        let known = Known { module, fields: path.fields };
        let list = &mut self.refs().known;
        let n = match list.iter().rev().take(8).position(|k| *k == known) {
            Some(back) => list.len() as u64 - 1 - back as u64,
            None => push(list, known),
        };
        self.words.push(code::KNOWN as u64 | n << 8);
        Ok(true)
    }

    /// The number of a module in the graph. When it is met first, what has been changed in it is asked for.
    fn module(&mut self, module: u32) -> Packed<u32> {
        if let Some(n) = self.modules.iter().position(|m| m.0 == module) {
            return Ok(n as u32);
        }
        let (print, changed) = self.vm.module_changes(module);
        let (name, standard) = self.vm.module_name(module);
        let refs = self.refs();
        refs.has_own_modules |= !standard;
        let n = push(&mut refs.modules, ModuleRef { name: name.clone() }) as u32;
        self.modules.push((module, print));
        let by = self.trace.as_ref().map_or(ROOT, |trace| trace.current);
        for change in changed.iter() {
            let step = || Step::ModuleField {
                module: String::from_utf8_lossy(&name).into_owned(),
                field: String::from_utf8_lossy(&change.field).into_owned(),
                standard,
            };
            let reason = match change.what {
                super::modules::What::Set => {
                    self.ask(Entry::Patch { module: n, field: change.field.clone() }, by, 0);
                    continue;
                }
                super::modules::What::Removed => Reason::Removed,
                super::modules::What::Odd => Reason::OddField,
            };
            self.at(by, step);
            return self.refuse(reason);
        }
        for path in self.vm.inside_written(module) {
            self.ask(Entry::Inside { module: n, path }, by, 0);
        }
        Ok(n)
    }
}

impl Vm {
    /// `v`, in the captured variable `desc`, as an environment, if it is one and is there as such.
    pub(super) fn captured_environment(&self, desc: &UpvalueDesc, v: Value) -> Option<Gc<Table>> {
        let own_env = desc.name.as_deref().is_none_or(|n| n == b"_ENV");
        self.environment(v).filter(|&env| own_env || env != self.globals())
    }
}

/// A captured variable as a step; `assigned`: the line that matters.
pub(super) fn upvalue_step(desc: &UpvalueDesc, assigned: u32) -> Step {
    let name = desc.name.as_deref().map_or("?".into(), |n| String::from_utf8_lossy(n).into_owned());
    Step::Upvalue { name, line: desc.line, assigned }
}

/// Appends and returns the index.
pub(super) fn push<T>(list: &mut Vec<T>, v: T) -> u64 {
    list.push(v);
    list.len() as u64 - 1
}

/// A count of a function's prototype.
pub(super) fn shared_proto(c: Gc<LuaClosure>) -> Arc<Proto> {
    let proto: *const Proto = c.inst().proto();
    // SAFETY: an instance owns a count of its prototype, which came from an `Arc`.
    unsafe {
        Arc::increment_strong_count(proto);
        Arc::from_raw(proto)
    }
}

/// Where a prototype stands.
fn place(proto: &Proto) -> Place {
    Place { source: String::from_utf8_lossy(&chunk_id(&proto.source)).into_owned(), line: proto.line_defined }
}

/// A key as the program would write it after the table.
pub(super) fn index_text(key: Value) -> String {
    match key.as_string() {
        Some(s) => {
            let text = s.to_text();
            let is_name = text
                .bytes()
                .enumerate()
                .all(|(n, b)| b == b'_' || b.is_ascii_alphabetic() || (n > 0 && b.is_ascii_digit()));
            if is_name && !text.is_empty() { format!(".{text}") } else { format!("[{text:?}]") }
        }
        None if key.is_number() || key.tag() <= Tag::TRUE => format!("[{key:?}]"),
        None => format!("[a {}]", key.type_name()),
    }
}

impl Gc<LuaClosure> {
    /// Upvalue `n` (from 0), which the closure has.
    #[inline]
    pub(super) fn upvalue(self, n: usize) -> *mut Upval {
        debug_assert!(n < self.inst().num_upvalues as usize);
        // SAFETY: a closure has as many references as its prototype says.
        unsafe { *(&raw const (*self.ptr()).upvals as *const *mut Upval).add(n) }
    }
}
