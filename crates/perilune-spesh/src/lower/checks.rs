//! What programs check values with, in line: `assert` and `type`.
//!
//! `assert` of what is true gives back its arguments, which are copies of registers; of what is not true, it
//! is the native's to raise. `type` finds the name among its own upvalues, by the tag.

use super::{Lowering, Ty};
use crate::ssa::{IntCC, Type};
use perilune_vm::machine::layout;
use perilune_vm::{Intrinsic, Native, Tag};

impl Lowering<'_, '_> {
    /// `CALL` of one of these, with arguments whose number is known, if the log has seen nothing else there;
    /// whether it has been lowered.
    pub(super) fn check(&mut self, at: usize) -> bool {
        let site = self.site(at);
        let Some(native) = site.native.filter(|_| !site.natives && self.code(at).b() > 1) else {
            return false;
        };
        match native.intrinsic {
            Some(Intrinsic::Assert) if !site.has_upvalues => self.assert(at, native),
            Some(Intrinsic::Type) if site.has_upvalues => self.type_name(at, native),
            _ => false,
        }
    }

    fn assert(&mut self, at: usize, native: &'static Native) -> bool {
        let i = self.code(at);
        let (a, count) = (i.a() as usize, i.b() as usize - 1);
        let first = a + layout::GAP as usize;
        let wanted = match i.c() {
            0 if count == 1 => 1,
            0 => return false,
            c => c as usize - 1,
        };
        if wanted > 1 && self.is_suspect(at) {
            return false;
        }
        let slow = self.slow(at);
        self.is_native(a, native, slow.block);
        // Numbers and tables are true.
        if self.ty(first) == Ty::Any {
            let tag = self.tag_of(first);
            let is_true = self.icmp_imm(IntCC::UnsignedGreaterThan, tag, Tag::FALSE.0 as i64);
            self.unless(is_true, slow.block);
        }
        // They lie above their places, in the same order: none is overwritten before it is taken.
        for n in 0..wanted {
            match n < count {
                true => self.pass_register(a + n, first + n),
                false => self.define_plain(a + n, Tag::NIL),
            }
        }
        self.forget_from(a + wanted, at);
        let ty = self.ty(a);
        let known = (wanted > 0 && ty.tag().is_some()).then_some((a, ty));
        if i.c() == 0 {
            self.one_result(at);
            self.join_one(at, slow, known.unwrap_or((a, Ty::Any)));
        } else {
            self.join(at, slow, known);
        }
        true
    }

    fn type_name(&mut self, at: usize, native: &'static Native) -> bool {
        let i = self.code(at);
        if !matches!(i.c(), 0 | 2) {
            return false;
        }
        let a = i.a() as usize;
        let first = a + layout::GAP as usize;
        let slow = self.slow(at);
        self.is_native_closure(a, std::ptr::from_ref(native) as usize, slow.block);
        let tag = match self.ty(first) {
            Ty::Any => self.tag_of(first),
            Ty::Table => self.b.iconst(Type::I8, Tag::TABLE.0 as i64),
            _ => self.b.iconst(Type::I8, Tag::INT.0 as i64),
        };
        let tag = self.b.uextend(Type::I64, tag);
        let offsets = self.b.iconst(Type::I64, layout::upvalues_of_types() as i64);
        let size = self.b.iconst(Type::I64, 1);
        let place = self.b.ishl(tag, size);
        let place = self.b.iadd(offsets, place);
        let offset = self.load(Type::I16, place, 0);
        let offset = self.b.uextend(Type::I64, offset);
        let closure = self.payload_of(a);
        let name = self.b.iadd(closure, offset);
        let payload = self.load(Type::I64, name, layout::PAYLOAD);
        let tag = self.load(Type::I8, name, layout::TAG);
        self.forget_changed(at);
        self.put(a, tag, payload);
        match i.c() {
            0 => {
                self.one_result(at);
                self.join_one(at, slow, (a, Ty::Any));
            }
            _ => self.join(at, slow, None),
        }
        true
    }
}
