//! Objects: descriptions and references by kind.

use super::{Argument, Walk};
use crate::object::{LuaClosure, LuaString, NativeClosure, Node, ProtoInst, Table, Thread, Upval, Userdata};
use crate::shape;
use crate::shared::SharedRef;
use crate::value::{Gc, Tag, Value};
use perilune_heap::Obj;
use perilune_syntax::Proto;
use perilune_syntax::error::chunk_id;
use perilune_trace::heapshot::write::Description;
use perilune_trace::heapshot::{Label, NodeKind};
use std::io::Write;

/// Whether a weak reference to `v` is treated as strong.
fn is_strong(v: Value) -> bool {
    !v.is_collectable() || v.tag() == Tag::STRING
}

impl<W: Write> Walk<'_, W> {
    /// Writes an object.
    ///
    /// # Safety
    /// It is live, and nothing changes it meanwhile.
    pub(super) unsafe fn object(&mut self, o: Obj, number: u32) {
        // SAFETY: the caller's promise; kinds tell layouts.
        unsafe {
            let p = o.as_ptr();
            let own = self.vm.heap.size_of(o) as u64;
            let mut external = 0;
            let mut d = Description::default();
            let mut extra = 0;
            let kind = match Tag((*p).kind) {
                Tag::STRING => {
                    let bytes = Gc::from_ptr(p as *mut LuaString).bytes();
                    let kept = &bytes[..bytes.len().min(perilune_trace::heapshot::format::STRING_BYTES)];
                    d = Description { x: bytes.len() as u64, bytes: kept, ..d };
                    NodeKind::String
                }
                Tag::TABLE => {
                    let t = p as *mut Table;
                    extra = self.table_buffers(t);
                    d = self.table(t, number);
                    NodeKind::Table
                }
                Tag::CLOSURE => {
                    let c = p as *mut LuaClosure;
                    let proto: &Proto = (*(*c).proto).proto();
                    d.text = self.place(proto);
                    let upvals = &raw const (*c).upvals as *const *mut Upval;
                    for n in 0..(*(*c).proto).num_upvalues as usize {
                        let name = proto.upvalues.get(n).and_then(|u| u.name.as_deref()).unwrap_or(b"?");
                        let name = self.out.text(name);
                        self.pointer(Label::Upvalue, name as u64, *upvals.add(n));
                    }
                    self.pointer(Label::Code, 0, (*c).proto);
                    NodeKind::Function
                }
                Tag::UPVAL => {
                    let u = p as *mut Upval;
                    self.value(Label::Variable, 0, *(*u).v);
                    if let Some(owner) = (*u).owner() {
                        let text = self.out.text(b"coroutine of the variable");
                        self.pointer(Label::Other, text as u64, owner);
                    }
                    NodeKind::Upvalue
                }
                Tag::NATIVE_CLOSURE => {
                    let c = p as *mut NativeClosure;
                    d.text = self.out.text((*c).native.name.as_bytes());
                    let v = &raw const (*c).upvals as *const Value;
                    for n in 0..(*c).num_upvalues as usize {
                        let name = self.out.text((n + 1).to_string().as_bytes());
                        self.value(Label::Upvalue, name as u64, *v.add(n));
                    }
                    NodeKind::Native
                }
                Tag::USERDATA => {
                    let u = p as *mut Userdata;
                    d.text = self.class((*u).metatable);
                    self.pointer(Label::Metatable, 0, (*u).metatable);
                    let v = &raw const (*u).user_values as *const Value;
                    for n in 0..(*u).num_user_values as usize {
                        self.value(Label::UserValue, n as u64 + 1, *v.add(n));
                    }
                    NodeKind::Userdata
                }
                Tag::PROTO => {
                    let i = p as *mut ProtoInst;
                    let proto: &Proto = (*i).proto();
                    d.text = self.place(proto);
                    external = proto.heap_bytes() as u64;
                    extra = self.buffer((*i).k.sub((*i).ic_slots as usize)) + self.buffer((*i).children);
                    for n in 0..proto.constants.len() {
                        self.value(Label::Constant, 0, *(*i).k.add(n));
                    }
                    if !(*i).children.is_null() {
                        for n in 0..proto.protos.len() {
                            self.pointer(Label::Code, 0, *(*i).children.add(n));
                        }
                    }
                    NodeKind::Code
                }
                Tag::THREAD => {
                    let th = p as *mut Thread;
                    extra = self.buffer((*th).stack);
                    d = self.thread(th);
                    NodeKind::Thread
                }
                Tag::SHARED => {
                    let r = p as *mut SharedRef;
                    let object = (*r).object();
                    let mut text = object.kind().name.to_owned();
                    if let Some(label) = object.label() {
                        text = format!("{text}: {label}");
                    }
                    d.text = self.out.text(text.as_bytes());
                    external = object.held_bytes() as u64;
                    self.uncharged += external.saturating_sub(object.external_bytes() as u64);
                    NodeKind::Shared
                }
                _ => NodeKind::Other,
            };
            self.out.node(kind, p as u64, own + extra, external, &d);
        }
    }

    /// Where a function is defined, as a text.
    pub(super) fn place(&mut self, proto: &Proto) -> u32 {
        if let Some(&text) = self.places.get(&(proto as *const Proto)) {
            return text;
        }
        let mut place = chunk_id(&proto.source);
        match proto.line_defined {
            0 => place.extend_from_slice(b": main chunk"),
            line => place.extend_from_slice(format!(":{line}").as_bytes()),
        }
        let text = self.out.text(&place);
        self.places.insert(proto, text);
        text
    }

    /// The `__name` of a metatable, as a text.
    fn class(&mut self, metatable: *mut Table) -> u32 {
        if metatable.is_null() {
            return 0;
        }
        // SAFETY: a live table.
        let metatable = unsafe { Gc::from_ptr(metatable) };
        match self.vm.get_field(metatable, "__name").ok().and_then(|v| v.as_string()) {
            Some(name) => self.out.text(&name.bytes()[..name.len().min(80)]),
            None => 0,
        }
    }

    /// Bytes of a table's buffers.
    unsafe fn table_buffers(&mut self, t: *mut Table) -> u64 {
        // SAFETY: a live table.
        unsafe {
            let mut bytes = self.buffer((*t).nodes);
            let (slots_inline, array_inline) = (*t).inline_parts();
            if !slots_inline {
                bytes += self.buffer((*t).slots);
            }
            if !array_inline {
                bytes += self.buffer((*t).array);
            }
            bytes
        }
    }

    /// The number of a shape, and the texts of its fields.
    fn shape(&mut self, id: u32) -> (u32, *const [u32]) {
        let out = &mut self.out;
        let (number, fields) = self.shapes.entry(id).or_insert_with(|| {
            let count = shape::field_count(id);
            let fields: Box<[u32]> = (0..count).map(|n| out.text(shape::name_of(id, n))).collect();
            (if count == 0 { 0 } else { out.shape(&fields) }, fields)
        });
        (*number, &raw const **fields)
    }

    unsafe fn table(&mut self, t: *mut Table, number: u32) -> Description<'static> {
        // SAFETY: a live table that does not change; names of its shape are boxed and stay.
        unsafe {
            let (weak_keys, weak_values) = self.weakness(t);
            let (shape, fields) = self.shape((*t).shape);
            let weak = |this: &mut Self, label, argument, v: Value| match v.obj() {
                Some(o) if weak_values && !is_strong(v) => this.weak.push((number, label, argument, o)),
                Some(o) => {
                    let argument = match argument {
                        Argument::Number(n) => n,
                        Argument::Object(o) => this.number(o) as u64,
                    };
                    let to = this.number(o);
                    this.out.edge(label, argument, false, to);
                }
                None => {}
            };
            for (&field, &v) in (*fields).iter().zip((*t).field_values()) {
                weak(self, Label::Field, Argument::Number(field as u64), v);
            }
            self.pointer(Label::Metatable, 0, (*t).metatable);
            for (n, &v) in (*t).general_elements().iter().enumerate() {
                weak(self, Label::Index, Argument::Number(n as u64 + 1), v);
            }
            let mut keys = 0;
            for node in (*t).node_slice() {
                if !node.is_live() {
                    continue;
                }
                keys += 1;
                let (key, v) = (node.key(), node.value());
                let strong_key = !weak_keys || is_strong(key);
                if !strong_key {
                    if weak_values && !is_strong(v) {
                        self.weak_entry(number, key, v);
                    } else if is_strong(v) || weak_values {
                        // The value is held whatever becomes of the key.
                        if let Some(o) = v.obj() {
                            let to = self.number(o);
                            self.out.edge(Label::OtherKey, 0, false, to);
                        }
                        self.weak_entry(number, key, Value::NIL);
                    } else {
                        self.ephemerons.push((number, node as *const Node));
                    }
                    continue;
                }
                self.value(Label::Key, 0, key);
                let (label, argument) = key_label(key);
                weak(self, label, argument, v);
            }
            Description { x: shape as u64, y: (*t).extent() as u64, z: keys, ..Description::default() }
        }
    }

    /// An entry with a weak key whose value does not depend on it, or is weak too.
    fn weak_entry(&mut self, table: u32, key: Value, v: Value) {
        if let Some(o) = key.obj() {
            self.weak.push((table, Label::Key, Argument::Number(0), o));
        }
        if let Some(o) = v.obj() {
            let (label, argument) = key_label(key);
            self.weak.push((table, label, argument, o));
        }
    }
}

/// How a value under this key is labelled.
fn key_label(key: Value) -> (Label, Argument) {
    match (key.tag(), key.obj()) {
        (Tag::INT, _) => (Label::Index, Argument::Number(key.int_bits() as u64)),
        (Tag::FLOAT, _) => (Label::FloatKey, Argument::Number(key.float_bits().to_bits())),
        (Tag::TRUE | Tag::FALSE, _) => (Label::BooleanKey, Argument::Number((key.tag() == Tag::TRUE) as u64)),
        (Tag::STRING, Some(o)) => (Label::StringKey, Argument::Object(o)),
        (_, Some(o)) => (Label::ObjectKey, Argument::Object(o)),
        _ => (Label::OtherKey, Argument::Number(0)),
    }
}
