//! Copies, upvalues, fields and elements.

use super::{Known, Lowering, Ty};
use crate::backend::clif::{Block, InstBuilder, Value, condcodes::IntCC, types};
use perilune_syntax::bytecode::RK_CONST;
use perilune_syntax::{Constant, Op};
use perilune_vm::machine::{Cache, EXITED, layout};
use perilune_vm::{ArrayKind, Tag};

/// A value to be stored.
struct Stored {
    payload: Value,
    tag: Value,
    /// What the tag is, if that is known.
    known: Option<Tag>,
}

impl Lowering<'_, '_> {
    /// Register `a` gets the value of `b`, of which perhaps nothing is known.
    pub(super) fn copy(&mut self, at: usize, a: usize, b: usize) {
        if self.ty(b) == Ty::Any {
            self.copy_slot(a, b);
            self.guard_result(at);
        } else {
            self.copy_known(a, b);
        }
    }

    pub(super) fn copy_known(&mut self, a: usize, b: usize) {
        if let Some(known) = self.known(b) {
            self.define(a, known);
        }
    }

    pub(super) fn copy_slot(&mut self, a: usize, b: usize) {
        let base = self.b.use_var(self.base);
        self.fetch(a, base, Self::slot(b));
    }

    /// The slot of register `a` gets the value at an address; it is not looked at.
    fn fetch(&mut self, a: usize, address: Value, offset: i32) {
        let tag = self.load(types::I8, address, offset + layout::TAG);
        let payload = self.load(types::I64, address, offset + layout::PAYLOAD);
        self.put(a, tag, payload);
    }

    /// Register `a` becomes a value of which nothing is known.
    fn put(&mut self, a: usize, tag: Value, payload: Value) {
        let base = self.b.use_var(self.base);
        self.store(payload, base, Self::slot(a) + layout::PAYLOAD);
        self.store(tag, base, Self::slot(a) + layout::TAG);
        self.set_unknown(a);
    }

    /// Register `a` becomes nil, false or true.
    pub(super) fn define_plain(&mut self, a: usize, tag: Tag) {
        let base = self.b.use_var(self.base);
        let zero = self.b.ins().iconst(types::I64, 0);
        self.store(zero, base, Self::slot(a) + layout::PAYLOAD);
        self.store_tag(tag, base, Self::slot(a));
        self.set_unknown(a);
    }

    /// Register `a` becomes whether `b`, of which nothing is known, is nil or false.
    pub(super) fn negate(&mut self, a: usize, b: usize) {
        let base = self.b.use_var(self.base);
        let own = self.load(types::I8, base, Self::slot(b) + layout::TAG);
        let no = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, own, Tag::FALSE.0 as i64);
        let [yes_tag, no_tag] =
            [Tag::TRUE, Tag::FALSE].map(|tag| self.b.ins().iconst(types::I8, tag.0 as i64));
        let tag = self.b.ins().select(no, yes_tag, no_tag);
        let zero = self.b.ins().iconst(types::I64, 0);
        self.put(a, tag, zero);
    }

    /// The upvalue of this number.
    fn upvalue(&mut self, number: u16) -> Value {
        let base = self.b.use_var(self.base);
        let closure = self.load(types::I64, base, layout::FRAME_FUNCTION + layout::PAYLOAD);
        self.load(types::I64, closure, layout::CLOSURE_UPVALUES + 8 * number as i32)
    }

    pub(super) fn get_upvalue(&mut self, at: usize) {
        let i = self.proto.code[at];
        let variable = self.upvalue(i.b());
        let address = self.load(types::I64, variable, layout::UPVALUE_VALUE);
        match self.result(at) {
            Ty::Any => self.fetch(i.a() as usize, address, 0),
            ty => {
                let exit = self.exit_block(at, EXITED);
                let known = self.expect_at(address, 0, ty, exit);
                self.define(i.a() as usize, known);
            }
        }
    }

    /// The value at an address becomes register `a` of instruction `at`, if it is of the type that the log has seen; if it has seen several: if it is not nil.
    fn take(&mut self, at: usize, address: Value, offset: i32, slow: Block) -> Ty {
        self.take_apart(at, address, offset + layout::PAYLOAD, offset + layout::TAG, slow)
    }

    /// The same where payload and tag lie as told.
    fn take_apart(&mut self, at: usize, address: Value, payload: i32, tag: i32, slow: Block) -> Ty {
        let a = self.proto.code[at].a() as usize;
        let ty = self.result(at);
        let own = self.load(types::I8, address, tag);
        match ty.tag() {
            None => {
                let there = self.b.ins().icmp_imm_u(IntCC::NotEqual, own, Tag::NIL.0 as i64);
                self.unless(there, slow);
                let payload = self.load(types::I64, address, payload);
                self.put(a, own, payload);
            }
            Some(tag) => {
                let is = self.b.ins().icmp_imm_u(IntCC::Equal, own, tag.0 as i64);
                self.unless(is, slow);
                let class = if ty == Ty::Float { types::F64 } else { types::I64 };
                let val = self.load(class, address, payload);
                self.define(a, Known { ty, val });
            }
        }
        ty
    }

    /// `GETTABUP` of a global that is in a node.
    pub(super) fn get_global(&mut self, at: usize) {
        let i = self.proto.code[at];
        if self.log.site(at).cache != Some(Cache::Node) {
            return self.step_and_guard(at);
        }
        let slow = self.slow();
        let variable = self.upvalue(i.b());
        let address = self.load(types::I64, variable, layout::UPVALUE_VALUE);
        let table = self.expect_at(address, 0, Ty::Table, slow.block).val;
        let constants = self.b.use_var(self.constants);
        let cache = layout::cache(i.d());
        self.is_cached(table, cache, layout::CACHE_NODE, slow.block);
        let nodes = self.load(types::I64, table, layout::TABLE_NODES);
        let there = self.b.ins().icmp_imm_u(IntCC::NotEqual, nodes, 0);
        self.unless(there, slow.block);
        let number = self.load(types::I32, constants, cache + layout::CACHE_SLOT);
        let log2 = self.load(types::I8, table, layout::TABLE_LOG2_NODES);
        let log2 = self.b.ins().uextend(types::I32, log2);
        let beyond = self.b.ins().ushr(number, log2);
        let within = self.b.ins().icmp_imm_u(IntCC::Equal, beyond, 0);
        self.unless(within, slow.block);
        let number = self.b.ins().uextend(types::I64, number);
        let size = self.b.ins().iconst(types::I64, layout::NODE_SIZE as i64);
        let offset = self.b.ins().imul(number, size);
        let node = self.b.ins().iadd(nodes, offset);
        let key = self.load(types::I64, node, layout::NODE_KEY);
        let wanted = self.load(types::I64, constants, Self::slot(i.c() as usize) + layout::PAYLOAD);
        let same = self.b.ins().icmp(IntCC::Equal, key, wanted);
        self.unless(same, slow.block);
        let tag = self.load(types::I8, node, layout::NODE_KEY_TAG);
        let string = self.b.ins().icmp_imm_u(IntCC::Equal, tag, Tag::STRING.0 as i64);
        self.unless(string, slow.block);
        let ty = self.take_apart(at, node, layout::NODE_VALUE, layout::NODE_VALUE_TAG, slow.block);
        self.join(at, slow, Some((i.a() as usize, ty)));
    }

    /// The table has the shape of this cache, which is of this kind.
    fn is_cached(&mut self, table: Value, cache: i32, kind: u64, slow: Block) {
        let constants = self.b.use_var(self.constants);
        let shape = self.load(types::I32, table, layout::TABLE_SHAPE);
        let shape = self.b.ins().uextend(types::I64, shape);
        let wanted = self.b.ins().bor_imm_u(shape, kind as i64);
        let cached = self.load(types::I64, constants, cache + layout::CACHE_SHAPE);
        let same = self.b.ins().icmp(IntCC::Equal, cached, wanted);
        self.unless(same, slow);
    }

    /// Where the class of the table has what this cache is for.
    fn place_in_class(&mut self, table: Value, d: u16, slow: Block) -> Value {
        let cache = layout::cache(d);
        self.is_cached(table, cache, layout::CACHE_CLASS, slow);
        let [vm, constants] = [self.vm, self.constants].map(|v| self.b.use_var(v));
        let own = self.load(types::I64, table, layout::TABLE_METATABLE);
        let cached = self.load(types::I64, constants, cache + layout::CACHE_METATABLE);
        let same = self.b.ins().icmp(IntCC::Equal, own, cached);
        self.unless(same, slow);
        let version = self.load(types::I32, vm, layout::VM_VERSION);
        let cached = self.load(types::I32, constants, cache + layout::CACHE_VERSION);
        let same = self.b.ins().icmp(IntCC::Equal, version, cached);
        self.unless(same, slow);
        self.load(types::I64, constants, cache + layout::CACHE_PLACE)
    }

    /// `SELF` of a table whose class has the method.
    pub(super) fn get_method(&mut self, at: usize) {
        let i = self.proto.code[at];
        let table = self.known(i.b() as usize).filter(|t| t.ty == Ty::Table);
        let (Some(table), Some(Cache::Class)) = (table, self.log.site(at).cache) else {
            return self.step_and_guard(at);
        };
        let slow = self.slow();
        let place = self.place_in_class(table.val, i.d(), slow.block);
        let a = i.a() as usize;
        let ty = self.take(at, place, 0, slow.block);
        self.define(a + layout::GAP as usize, table);
        self.join(at, slow, Some((a, ty)));
        // The slow way has copied it, too.
        self.found(a + layout::GAP as usize, table);
    }

    fn has_shape(&mut self, table: Value, shape: u32, slow: Block) -> Value {
        let own = self.load(types::I32, table, layout::TABLE_SHAPE);
        let same = self.b.ins().icmp_imm_u(IntCC::Equal, own, shape as i64);
        self.unless(same, slow);
        self.load(types::I64, table, layout::TABLE_SLOTS)
    }

    /// `GETFIELD` of a table of the shape that the log has seen.
    pub(super) fn get_field(&mut self, at: usize) {
        let i = self.proto.code[at];
        let table = self.known(i.b() as usize).filter(|t| t.ty == Ty::Table);
        let (Some(table), Some(cache)) = (table, self.log.site(at).cache) else {
            return self.step_and_guard(at);
        };
        let slow = self.slow();
        let (address, offset) = match cache {
            Cache::Own { shape, slot } => {
                (self.has_shape(table.val, shape, slow.block), Self::slot(slot as usize))
            }
            Cache::Class => (self.place_in_class(table.val, i.d(), slow.block), 0),
            Cache::Node => return self.step_and_guard(at),
        };
        let ty = self.take(at, address, offset, slow.block);
        self.join(at, slow, Some((i.a() as usize, ty)));
    }

    /// The value that a store stores: what operand `x` stands for. `None`: nil, which takes something away.
    fn stored(&mut self, x: u16) -> Option<Stored> {
        let r = (x & !RK_CONST) as usize;
        let (address, tag) = match x & RK_CONST {
            0 => match self.known(r) {
                Some(known) => return Some(self.number(known)),
                None => (self.b.use_var(self.base), None),
            },
            _ => match self.constant(r) {
                Some(known) => return Some(self.number(known)),
                None => match self.proto.constants[r] {
                    Constant::Nil => return None,
                    Constant::Boolean(false) => (self.b.use_var(self.constants), Some(Tag::FALSE)),
                    Constant::Boolean(true) => (self.b.use_var(self.constants), Some(Tag::TRUE)),
                    _ => (self.b.use_var(self.constants), Some(Tag::STRING)),
                },
            },
        };
        let payload = self.load(types::I64, address, Self::slot(r) + layout::PAYLOAD);
        let own = self.load(types::I8, address, Self::slot(r) + layout::TAG);
        Some(Stored { payload, tag: own, known: tag })
    }

    fn number(&mut self, known: Known) -> Stored {
        let tag = known.ty.tag().expect("a known type");
        let own = self.b.ins().iconst(types::I8, tag.0 as i64);
        Stored { payload: known.val, tag: own, known: Some(tag) }
    }

    /// The value may be stored into the object without asking, and is not nil.
    fn is_writable(&mut self, object: Value, stored: &Stored, slow: Block) {
        let vm = self.b.use_var(self.vm);
        let epoch = self.load(types::I32, object, layout::OBJECT_EPOCH);
        let below = |this: &mut Self| {
            this.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, epoch, layout::WRITABLE as i64)
        };
        let current = |this: &mut Self| {
            let current = this.load(types::I32, vm, layout::VM_EPOCH);
            this.b.ins().icmp(IntCC::Equal, epoch, current)
        };
        let writable = match stored.known {
            Some(tag) if tag < Tag::STRING => below(self),
            Some(_) => current(self),
            None => {
                let there = self.b.ins().icmp_imm_u(IntCC::NotEqual, stored.tag, Tag::NIL.0 as i64);
                self.unless(there, slow);
                let (below, current) = (below(self), current(self));
                let plain =
                    self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, stored.tag, Tag::STRING.0 as i64);
                let plain = self.b.ins().band(plain, below);
                self.b.ins().bor(plain, current)
            }
        };
        self.unless(writable, slow);
    }

    fn store_stored(&mut self, stored: &Stored, address: Value, offset: i32) {
        self.store(stored.payload, address, offset + layout::PAYLOAD);
        self.store(stored.tag, address, offset + layout::TAG);
    }

    /// A value that is there, and not nil, is replaced.
    fn replace(&mut self, address: Value, offset: i32, by: &Stored, slow: Block) {
        let tag = self.load(types::I8, address, offset + layout::TAG);
        let there = self.b.ins().icmp_imm_u(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
        self.unless(there, slow);
        self.store_stored(by, address, offset);
    }

    /// `SETUPVAL`.
    pub(super) fn set_upvalue(&mut self, at: usize) {
        let i = self.proto.code[at];
        let slow = self.slow();
        let Some(stored) = self.stored(i.a() as u16) else { return self.step(at) };
        let variable = self.upvalue(i.b());
        self.is_writable(variable, &stored, slow.block);
        let address = self.load(types::I64, variable, layout::UPVALUE_VALUE);
        self.store_stored(&stored, address, 0);
        self.join(at, slow, None);
    }

    /// `SETFIELD` into a field that is there.
    pub(super) fn set_field(&mut self, at: usize) {
        let i = self.proto.code[at];
        let table = self.known(i.a() as usize).filter(|t| t.ty == Ty::Table);
        let (Some(table), Some(Cache::Own { shape, slot })) = (table, self.log.site(at).cache) else {
            return self.step(at);
        };
        let slow = self.slow();
        let Some(stored) = self.stored(i.c()) else { return self.step(at) };
        let slots = self.has_shape(table.val, shape, slow.block);
        self.is_writable(table.val, &stored, slow.block);
        self.replace(slots, Self::slot(slot as usize), &stored, slow.block);
        self.join(at, slow, None);
    }

    /// The array of the table at `table`, an element of it by number from 0, if the table has one, and an array of this kind.
    fn element(&mut self, table: Value, index: Value, kind: ArrayKind, slow: Block) -> Value {
        let own = self.load(types::I8, table, layout::TABLE_KIND);
        let same = self.b.ins().icmp_imm_u(IntCC::Equal, own, kind as i64);
        self.unless(same, slow);
        let length = self.load(types::I32, table, layout::TABLE_LENGTH);
        let length = self.b.ins().uextend(types::I64, length);
        let within = self.b.ins().icmp(IntCC::UnsignedLessThan, index, length);
        self.unless(within, slow);
        let array = self.load(types::I64, table, layout::TABLE_ARRAY);
        let shift = if kind == ArrayKind::General { 4 } else { 3 };
        let shift = self.b.ins().iconst(types::I64, shift);
        let offset = self.b.ins().ishl(index, shift);
        self.b.ins().iadd(array, offset)
    }

    /// The only kind of array that the log has seen at `at`.
    fn array_kind(&self, at: usize) -> Option<ArrayKind> {
        let kinds = [ArrayKind::General, ArrayKind::Int, ArrayKind::Float];
        kinds.into_iter().find(|&kind| self.log.site(at).arrays == 1 << kind as u8)
    }

    fn type_of_elements(kind: ArrayKind) -> Ty {
        match kind {
            ArrayKind::General => Ty::Any,
            ArrayKind::Int => Ty::Int,
            ArrayKind::Float => Ty::Float,
        }
    }

    /// The number of an element from 0, for the key in register `r` or, if it is one, a constant.
    fn index(&mut self, r: u16, constant: bool) -> Option<Value> {
        if constant {
            return Some(self.b.ins().iconst(types::I64, r as i64 - 1));
        }
        let key = self.known(r as usize).filter(|k| k.ty == Ty::Int)?;
        Some(self.b.ins().iadd_imm_s(key.val, -1))
    }

    /// `GETINDEX` and `GETINT` of an element of an array.
    pub(super) fn get_element(&mut self, at: usize) {
        let i = self.proto.code[at];
        let a = i.a() as usize;
        let table = self.known(i.b() as usize).filter(|t| t.ty == Ty::Table);
        let index = self.index(i.c(), i.op() == Some(Op::GetInt));
        let (Some(table), Some(index), Some(kind)) = (table, index, self.array_kind(at)) else {
            return self.step_and_guard(at);
        };
        let ty = Self::type_of_elements(kind);
        if ty != Ty::Any && ty != self.result(at) {
            return self.step_and_guard(at);
        }
        let slow = self.slow();
        let address = self.element(table.val, index, kind, slow.block);
        let ty = if ty == Ty::Any {
            self.take(at, address, 0, slow.block)
        } else {
            let class = if ty == Ty::Float { types::F64 } else { types::I64 };
            let val = self.load(class, address, 0);
            self.define(a, Known { ty, val });
            ty
        };
        self.join(at, slow, Some((a, ty)));
    }

    /// `SETINDEX` and `SETINT` over an element of an array.
    pub(super) fn set_element(&mut self, at: usize) {
        let i = self.proto.code[at];
        let table = self.known(i.a() as usize).filter(|t| t.ty == Ty::Table);
        let index = self.index(i.b(), i.op() == Some(Op::SetInt));
        let (Some(table), Some(index), Some(kind)) = (table, index, self.array_kind(at)) else {
            return self.step(at);
        };
        let slow = self.slow();
        let Some(stored) = self.stored(i.c()) else { return self.step(at) };
        let ty = Self::type_of_elements(kind);
        if ty != Ty::Any && ty.tag() != stored.known {
            return self.step(at);
        }
        let address = self.element(table.val, index, kind, slow.block);
        self.is_writable(table.val, &stored, slow.block);
        if ty == Ty::Any {
            self.replace(address, 0, &stored, slow.block);
        } else {
            self.store(stored.payload, address, 0);
        }
        self.join(at, slow, None);
    }
}
