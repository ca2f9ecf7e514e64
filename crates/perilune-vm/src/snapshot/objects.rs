//! Objects: descriptions by kind, and what their references are called.

use super::stacks::Stack;
use super::{Argument, Walk};
use crate::State;
use crate::edge::{Edge, EdgeVisitor};
use crate::graph::{self, GraphVisitor};
use crate::object::{LuaClosure, LuaString, NativeClosure, Node, ProtoInst, Table, Thread, Userdata};
use crate::shape;
use crate::shared::SharedRef;
use crate::table::trace::{Range, Weak};
use crate::value::{Gc, Tag, Value};
use perilune_heap::Obj;
use perilune_syntax::Proto;
use perilune_syntax::error::chunk_id;
use perilune_trace::heapshot::write::Description;
use perilune_trace::heapshot::{Label, NodeKind};
use std::io::Write;

/// The object that is being written, as `graph.rs` tells of it.
pub(super) struct Described<'w, 'a, W: Write> {
    walk: &'w mut Walk<'a, W>,
    object: Obj,
    /// Of a table: the texts of its fields.
    fields: &'w [u32],
    /// Of a coroutine: what lies on its stack.
    stack: Stack,
    /// Its number.
    number: u32,
    /// Bytes of its buffers.
    buffers: u64,
}

impl<W: Write> Described<'_, '_, W> {
    /// How a reference is labelled; `None`: it is left out. Inlined, so that of these cases each place has
    /// its own.
    #[inline(always)]
    fn label(&mut self, edge: Edge) -> Option<(Label, Argument)> {
        let number = |label, n: u64| Some((label, Argument::Number(n)));
        let out = &mut self.walk.out;
        let mut text = |label, text: &[u8]| Some((label, Argument::Number(out.text(text) as u64)));
        match edge {
            Edge::Buffer => None,
            // Each fiber of the list is a root.
            Edge::NextFiber => None,
            Edge::Metatable => number(Label::Metatable, 0),
            Edge::Field(n) => number(Label::Field, self.fields[n] as u64),
            Edge::Element(n) => number(Label::Index, n as u64),
            Edge::Key => number(Label::Key, 0),
            Edge::Entry(key) => Some(key_label(key)),
            Edge::UnderWeakKey => number(Label::OtherKey, 0),
            Edge::Upvalue(n) => {
                // SAFETY: only Lua functions have such edges.
                let proto = unsafe { (*(*(self.object.as_ptr() as *mut LuaClosure)).proto).proto() };
                let name = proto.upvalues.get(n).and_then(|u| u.name.as_deref());
                text(Label::Upvalue, name.unwrap_or(b"?"))
            }
            Edge::NativeUpvalue(n) => text(Label::Upvalue, (n + 1).to_string().as_bytes()),
            Edge::Code => number(Label::Code, 0),
            Edge::Constant => number(Label::Constant, 0),
            Edge::Variable | Edge::OpenVariable => number(Label::Variable, 0),
            Edge::VariableOwner => text(Label::Other, b"coroutine of the variable"),
            Edge::UserValue(n) => number(Label::UserValue, n as u64 + 1),
            Edge::Slot(at) => {
                let (label, name) = self.stack.slot(at);
                text(label, name.as_bytes())
            }
            Edge::OpenUpvalue => text(Label::Stack, b"variable of a closure"),
            Edge::Hook => text(Label::Other, b"hook"),
            Edge::Failure | Edge::FiberError => text(Label::Other, b"error"),
            Edge::Resumer | Edge::FiberTop => number(Label::Resumer, 0),
        }
    }
}

impl<W: Write> EdgeVisitor for Described<'_, '_, W> {
    #[inline(always)]
    fn edge(&mut self, edge: Edge, to: Obj) {
        if matches!(edge, Edge::Buffer) {
            // SAFETY: a live buffer.
            self.buffers += unsafe { self.walk.vm.heap.size_of(to) } as u64;
        }
        let Some((label, argument)) = self.label(edge) else { return };
        let argument = match argument {
            Argument::Number(n) => n,
            Argument::Object(o) => self.walk.number(o) as u64,
        };
        let to = self.walk.number(to);
        self.walk.out.edge(label, argument, false, to);
    }

    fn weak(&mut self, edge: Edge, to: Obj) {
        if let Some((label, argument)) = self.label(edge) {
            self.walk.weak.push((self.number, label, argument, to));
        }
    }

    fn ephemeron(&mut self, entry: *const Node) {
        self.walk.ephemerons.push((self.number, entry));
    }

    fn words(&mut self, lo: usize, hi: usize) {
        for at in (lo & !7..hi).step_by(8) {
            // SAFETY: a suspended native stack.
            if let Some(found) = self.walk.word(unsafe { perilune_heap::stack_word(at) }) {
                let to = self.walk.number(found);
                self.walk.out.edge(Label::NativeStack, 0, false, to);
            }
        }
    }
}

impl<W: Write> GraphVisitor for Described<'_, '_, W> {
    fn state(&mut self) -> &mut State {
        &mut self.walk.vm.lua
    }

    fn meets_weak(&mut self, _: *mut Table, _: Weak, _: Range) -> bool {
        true
    }
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
            let mut fields: &[u32] = &[];
            let mut stack = Stack::default();
            let kind = match Tag((*p).kind) {
                Tag::STRING => {
                    let bytes = Gc::from_ptr(p as *mut LuaString).bytes();
                    let kept = &bytes[..bytes.len().min(perilune_trace::heapshot::format::STRING_BYTES)];
                    d = Description { x: bytes.len() as u64, bytes: kept, ..d };
                    NodeKind::String
                }
                Tag::TABLE => {
                    let t = p as *mut Table;
                    let (shape, names) = self.shape((*t).shape);
                    fields = &*names;
                    let keys = (*t).live_nodes() as u64;
                    d = Description { x: shape as u64, y: (*t).extent() as u64, z: keys, ..d };
                    NodeKind::Table
                }
                Tag::CLOSURE => {
                    d.text = self.place((*(*(p as *mut LuaClosure)).proto).proto());
                    NodeKind::Function
                }
                Tag::UPVAL => NodeKind::Upvalue,
                Tag::NATIVE_CLOSURE => {
                    d.text = self.out.text((*(p as *mut NativeClosure)).native.name.as_bytes());
                    NodeKind::Native
                }
                Tag::USERDATA => {
                    d.text = self.class((*(p as *mut Userdata)).metatable);
                    NodeKind::Userdata
                }
                Tag::PROTO => {
                    let proto: &Proto = (*(p as *mut ProtoInst)).proto();
                    d.text = self.place(proto);
                    external = proto.heap_bytes() as u64;
                    NodeKind::Code
                }
                Tag::THREAD => {
                    let th = p as *mut Thread;
                    stack = self.stack(th);
                    if let Some(name) = stack.innermost() {
                        d.text = self.out.text(name.as_bytes());
                    }
                    let fiber = crate::fiber::tag_of_fiber(th);
                    d.x = (*th).standing.status() as u64;
                    d.y = fiber.map_or(0, |tag| (tag as u32 as u64).saturating_add(1).min(u32::MAX as u64));
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
            let mut described = Described { walk: self, object: o, fields, stack, number, buffers: 0 };
            let mut next = graph::visit_edges(o, &mut described);
            while let Some(at) = next {
                next = graph::visit_part(o, at, &mut described);
            }
            let buffers = described.buffers;
            self.out.node(kind, p as u64, own + buffers, external, &d);
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
}

/// How a value under this key is labelled.
#[inline]
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
