//! Basic functions in line: `assert` of what is true, and `type`.
//!
//! Both are on the quickest ways of many programs, and take a few cycles where their quick forms take three nanoseconds, which is more than all the rest of a short loop. `assert` gives back what it gets; so what is known of its argument
//! is known of its result. What is not true is the interpreter's, which raises the error.

use super::{EXITED, Lowering, Ty};
use crate::backend::clif::{InstBuilder, condcodes::IntCC, types};
use perilune_vm::machine::layout;
use perilune_vm::{Intrinsic, Native, Tag, Type};

impl Lowering<'_, '_> {
    /// The native that the call at `at` has always called, if it is known as what is asked for, has arguments, and has never been the reason of an exit here.
    fn known_native(&self, at: usize, is: impl Fn(Intrinsic) -> bool) -> Option<&'static Native> {
        let site = self.site(at);
        let native = site.native.filter(|_| !site.natives && site.calls == 0)?;
        (native.intrinsic.is_some_and(is) && self.code(at).b() >= 2 && !self.is_suspect(at)).then_some(native)
    }

    /// `CALL` of `assert`, for one result or none.
    pub(super) fn assert_in_line(&mut self, at: usize) -> bool {
        let Some(native) = self.known_native(at, |own| matches!(own, Intrinsic::Assert)) else {
            return false;
        };
        let i = self.code(at);
        let a = i.a() as usize;
        let first = a + layout::GAP as usize;
        let other = self.exit_block(at, EXITED);
        self.is_native(a, native, other);
        // Numbers and tables are true.
        if self.ty(first) == Ty::Any {
            let tag = self.tag_of(first);
            let is_true = self.b.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, tag, Tag::FALSE.0 as i64);
            self.unless(is_true, other);
        }
        let gives = i.c() == 2;
        if gives {
            self.pass_register(a, first);
        }
        self.forget_but(at, gives.then_some(a));
        true
    }

    /// `CALL` of `type`.
    pub(super) fn type_in_line(&mut self, at: usize) -> bool {
        let Some(native) = self.known_native(at, |own| matches!(own, Intrinsic::Type)) else { return false };
        let i = self.code(at);
        let a = i.a() as usize;
        let first = a + layout::GAP as usize;
        let other = self.exit_block(at, EXITED);
        self.is_native_closure(a, std::ptr::from_ref(native) as usize, other);
        let closure = self.payload_of(a);
        let upvalue = |kind: Type| layout::NATIVE_UPVALUES + kind as i32 * layout::VALUE_SIZE;
        let name = match self.ty(first) {
            Ty::Int | Ty::Float | Ty::Number => self.load(types::I64, closure, upvalue(Type::Number)),
            Ty::Table | Ty::Unmade => self.load(types::I64, closure, upvalue(Type::Table)),
            Ty::Any => {
                let tag = self.tag_of(first);
                let tag = self.b.ins().uextend(types::I64, tag);
                let all = self.b.ins().iconst(types::I64, layout::TYPES.as_ptr() as i64);
                let place = self.b.ins().iadd(all, tag);
                let kind = self.load(types::I8, place, 0);
                let kind = self.b.ins().uextend(types::I64, kind);
                let size = self.b.ins().iconst(types::I64, layout::VALUE_SIZE.trailing_zeros() as i64);
                let offset = self.b.ins().ishl(kind, size);
                let upvalue = self.b.ins().iadd(closure, offset);
                self.load(types::I64, upvalue, layout::NATIVE_UPVALUES)
            }
        };
        self.forget_but(at, None);
        if i.c() == 2 {
            let tag = self.b.ins().iconst(types::I8, Tag::STRING.0 as i64);
            self.put(a, tag, name);
        }
        true
    }
}
