//! Copies, upvalues, fields and elements.

use super::{Known, Lowering, Ty};
use crate::backend::clif::{Block, InstBuilder, Value, condcodes::IntCC, types};
use perilune_syntax::Op;
use perilune_syntax::bytecode::RK_CONST;
use perilune_vm::machine::layout;
use perilune_vm::{ArrayKind, Tag};

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
        let base = self.b.use_var(self.base);
        let payload = self.load(types::I64, address, offset + layout::PAYLOAD);
        let tag = self.load(types::I8, address, offset + layout::TAG);
        self.store(payload, base, Self::slot(a) + layout::PAYLOAD);
        self.store(tag, base, Self::slot(a) + layout::TAG);
        self.set_ty(a, Ty::Any);
    }

    /// Register `a` becomes nil, false or true.
    pub(super) fn define_plain(&mut self, a: usize, tag: Tag) {
        let base = self.b.use_var(self.base);
        let zero = self.b.ins().iconst(types::I64, 0);
        self.store(zero, base, Self::slot(a) + layout::PAYLOAD);
        self.store_tag(tag, base, Self::slot(a));
        self.set_ty(a, Ty::Any);
    }

    pub(super) fn get_upvalue(&mut self, at: usize) {
        let i = self.proto.code[at];
        let base = self.b.use_var(self.base);
        let closure = self.load(types::I64, base, layout::FRAME_FUNCTION + layout::PAYLOAD);
        let upvalue = self.load(types::I64, closure, layout::CLOSURE_UPVALUES + 8 * i.b() as i32);
        let address = self.load(types::I64, upvalue, layout::UPVALUE_VALUE);
        self.fetch(i.a() as usize, address, 0);
        self.guard_result(at);
    }

    /// The value at an address becomes register `a` of instruction `at`, if it is of the type that the log has seen; if it has seen several: if it is not nil.
    fn take(&mut self, at: usize, address: Value, offset: i32, slow: Block) -> Ty {
        let a = self.proto.code[at].a() as usize;
        let ty = self.result(at);
        if ty == Ty::Any {
            let tag = self.load(types::I8, address, offset + layout::TAG);
            let there = self.b.ins().icmp_imm_u(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
            self.unless(there, slow);
            self.fetch(a, address, offset);
        } else {
            let known = self.expect_at(address, offset, ty, slow);
            self.define(a, known);
        }
        ty
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
        let (Some(table), Some((shape, slot))) = (table, self.log.site(at).field) else {
            return self.step_and_guard(at);
        };
        let slow = self.b.create_block();
        let slots = self.has_shape(table.val, shape, slow);
        let ty = self.take(at, slots, Self::slot(slot as usize), slow);
        self.join(at, slow, Some((i.a() as usize, ty)));
    }

    /// The value that a store stores: a number, as yet.
    fn stored(&mut self, x: u16) -> Option<Known> {
        let known = match x & RK_CONST {
            0 => self.known(x as usize),
            _ => self.constant((x & !RK_CONST) as usize),
        };
        known.filter(|k| k.ty.is_number())
    }

    /// Numbers may be stored into the table without asking.
    fn is_writable(&mut self, table: Value, slow: Block) {
        let epoch = self.load(types::I32, table, layout::OBJECT_EPOCH);
        let below = self.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, epoch, layout::WRITABLE as i64);
        self.unless(below, slow);
    }

    /// A value that is there, and not nil, is replaced by a number.
    fn replace(&mut self, address: Value, offset: i32, by: Known, slow: Block) {
        let tag = self.load(types::I8, address, offset + layout::TAG);
        let there = self.b.ins().icmp_imm_u(IntCC::NotEqual, tag, Tag::NIL.0 as i64);
        self.unless(there, slow);
        self.store(by.val, address, offset + layout::PAYLOAD);
        self.store_tag(by.ty.tag().expect("a number"), address, offset);
    }

    /// `SETFIELD` of a number into a field that is there.
    pub(super) fn set_field(&mut self, at: usize) {
        let i = self.proto.code[at];
        let table = self.known(i.a() as usize).filter(|t| t.ty == Ty::Table);
        let (Some(table), Some((shape, slot)), Some(val)) =
            (table, self.log.site(at).field, self.stored(i.c()))
        else {
            return self.step(at);
        };
        let slow = self.b.create_block();
        let slots = self.has_shape(table.val, shape, slow);
        self.is_writable(table.val, slow);
        self.replace(slots, Self::slot(slot as usize), val, slow);
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
        let slow = self.b.create_block();
        let address = self.element(table.val, index, kind, slow);
        let ty = if ty == Ty::Any {
            self.take(at, address, 0, slow)
        } else {
            let class = if ty == Ty::Float { types::F64 } else { types::I64 };
            let val = self.load(class, address, 0);
            self.define(a, Known { ty, val });
            ty
        };
        self.join(at, slow, Some((a, ty)));
    }

    /// `SETINDEX` and `SETINT` of a number over an element of an array.
    pub(super) fn set_element(&mut self, at: usize) {
        let i = self.proto.code[at];
        let table = self.known(i.a() as usize).filter(|t| t.ty == Ty::Table);
        let index = self.index(i.b(), i.op() == Some(Op::SetInt));
        let val = self.stored(i.c());
        let (Some(table), Some(index), Some(kind), Some(val)) = (table, index, self.array_kind(at), val)
        else {
            return self.step(at);
        };
        let ty = Self::type_of_elements(kind);
        if ty != Ty::Any && ty != val.ty {
            return self.step(at);
        }
        let slow = self.b.create_block();
        let address = self.element(table.val, index, kind, slow);
        self.is_writable(table.val, slow);
        if ty == Ty::Any {
            self.replace(address, 0, val, slow);
        } else {
            self.store(val.val, address, 0);
        }
        self.join(at, slow, None);
    }
}
