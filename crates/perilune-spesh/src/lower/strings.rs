//! Single bytes of strings.
//!
//! `s:sub(i, i)` is how Lua programs look at a text byte by byte. A domain keeps its strings of one byte in a
//! table, so the one that it is lies there, unless nobody has asked for it since it was last collected. That
//! the two positions are one value is known if both are copies of one; others are for the quick form.
//!
//! `local a, b, c = s:byte(i, i + 2)` is how they look at several at once: where all are there that the call
//! is asked for, they are loads. At the end of a string the interpreter does it.

use super::{Known, Lowering, Ty};
use crate::ssa::{Block, IntCC, Type, Value};
use perilune_vm::machine::layout;
use perilune_vm::{Intrinsic, Tag};

/// A call for more bytes is not done in line.
const MOST_BYTES: i64 = 8;

impl Lowering<'_, '_> {
    /// `CALL` of `string.byte` for several bytes, if it is that.
    pub(super) fn bytes_of_string(&mut self, at: usize) -> bool {
        let (i, site) = (self.code(at), self.site(at));
        let is_it = |native: &&perilune_vm::Native| matches!(native.intrinsic, Some(Intrinsic::Byte));
        let native = site.native.filter(|_| !site.natives && !site.has_upvalues).filter(is_it);
        let (a, first) = (i.a() as usize, i.a() as usize + layout::GAP as usize);
        let wanted = i.c() as i64 - 1;
        let is_string = i.b() == 4 && self.ty(first) == Ty::Any;
        let Some(native) = native.filter(|_| is_string && (2..=MOST_BYTES).contains(&wanted)) else {
            return false;
        };
        let position = |this: &mut Self, n: usize| this.known(first + n).filter(|known| known.ty == Ty::Int);
        let (Some(from), Some(to)) = (position(self, 1), position(self, 2)) else { return false };
        let slow = self.slow(at);
        self.is_native(a, native, slow.block);
        let string = self.string(first, slow.block);
        let length = self.load(Type::I32, string, layout::STRING_LENGTH);
        let length = self.b.uextend(Type::I64, length);
        // Positions from the end are for the interpreter.
        let is_from_start = self.icmp_imm(IntCC::SignedGreaterThan, from.val, 0);
        self.unless(is_from_start, slow.block);
        let last = self.iadd_imm(from.val, wanted - 1);
        let within = self.b.icmp(IntCC::UnsignedLessThanOrEqual, last, length);
        self.unless(within, slow.block);
        let asked = self.b.icmp(IntCC::SignedLessThanOrEqual, last, to.val);
        self.unless(asked, slow.block);
        let address = self.b.iadd(string, from.val);
        let bytes: Vec<Value> = (0..wanted)
            .map(|n| {
                let byte = self.load(Type::I8, address, layout::STRING_BYTES + n as i32 - 1);
                self.b.uextend(Type::I64, byte)
            })
            .collect();
        self.forget_changed(at);
        for (n, val) in bytes.into_iter().enumerate() {
            self.define(a + n, Known { ty: Ty::Int, val });
        }
        self.join(at, slow, None);
        true
    }

    /// The byte at a position of a string, from its end if the position is negative; that of 0, and what is
    /// beyond the ends, goes to `slow`.
    pub(super) fn byte_at(&mut self, string: Value, position: Value, slow: Block) -> Value {
        let length = self.load(Type::I32, string, layout::STRING_LENGTH);
        let length = self.b.uextend(Type::I64, length);
        let from_end = self.icmp_imm(IntCC::SignedLessThan, position, 0);
        let behind = self.b.iadd(position, length);
        // That of 0 is past all ends.
        let index = self.iadd_imm(position, -1);
        let index = self.b.select(from_end, behind, index);
        let within = self.b.icmp(IntCC::UnsignedLessThan, index, length);
        self.unless(within, slow);
        let address = self.b.iadd(string, index);
        let byte = self.load(Type::I8, address, layout::STRING_BYTES);
        self.b.uextend(Type::I64, byte)
    }

    /// `CALL` of `string.sub` for one byte, if it is that.
    pub(super) fn byte_of_string(&mut self, at: usize) -> bool {
        let (i, site) = (self.code(at), self.site(at));
        let is_it = |native: &&perilune_vm::Native| matches!(native.intrinsic, Some(Intrinsic::Sub));
        let native = site.native.filter(|_| !site.natives && !site.has_upvalues).filter(is_it);
        let (a, first) = (i.a() as usize, i.a() as usize + layout::GAP as usize);
        let Some((native, quick)) = native.and_then(|native| Some((native, native.quick?))) else {
            return false;
        };
        let is_one = self.name_of(first + 1) == self.name_of(first + 2);
        if (i.b(), i.c()) != (4, 2) || !is_one || self.ty(first) != Ty::Any || self.is_suspect(at) {
            return false;
        }
        let Some(position) = self.known(first + 1).filter(|known| known.ty == Ty::Int) else { return false };
        let slow = self.slow(at);
        self.is_native(a, native, slow.block);
        let string = self.string(first, slow.block);
        let miss = self.aside();
        self.b.set_cold_block(miss.block);
        let byte = self.byte_at(string, position.val, miss.block);
        let vm = self.vm;
        let offset = self.ishl_imm(byte, 3);
        let place = self.b.iadd(vm, offset);
        let one = self.load(Type::I64, place, layout::VM_BYTES);
        let there = self.icmp_imm(IntCC::NotEqual, one, 0);
        self.unless(there, miss.block);
        self.forget_changed(at);
        let tag = self.b.iconst(Type::I8, Tag::STRING.0 as i64);
        self.put(a, tag, one);
        self.join_with(at, miss, |this| {
            let [payload, tag] = this.quick_form(at, native, &quick, slow.block, false);
            this.forget_changed(at);
            this.take_answer(at, a, Ty::Any, payload, tag);
            this.collect_if_due(at, true);
        });
        self.join(at, slow, None);
        true
    }
}
