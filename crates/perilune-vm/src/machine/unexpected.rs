//! What is told of an exit to a specializer that wants to know ([`super::Specializer::wants_exits`]): for
//! people who ask why code is slow.

use crate::Vm;
use crate::frame::{F_NATIVE, frame};
use crate::interp::frame_closure;
use crate::names;
use crate::value::Tag;
use perilune_syntax::bytecode::RK_CONST;
use perilune_syntax::operands::Kind;
use perilune_syntax::{Op, Proto};
use perilune_trace::event::{self, Category, Count};
use std::sync::Arc;

/// What was in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The register.
    pub register: u8,
    /// The tag of its value.
    pub tag: Tag,
    /// The instruction before has defined it; else this one reads it.
    pub is_result: bool,
}

/// Machine code has been left, or was not entered, because something was not as expected.
#[derive(Debug)]
pub struct Unexpected {
    /// The function, the innermost one if some are inlined.
    pub proto: Arc<Proto>,
    /// The instruction that the interpreter goes on with.
    pub at: usize,
    /// What that reads, and what the one before it has defined.
    pub seen: Vec<Seen>,
}

impl Unexpected {
    /// What the instruction reads.
    pub fn operands(&self) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(|seen| !seen.is_result)
    }
}

/// What the program calls the value that is in a register before instruction `at`: a variable, a field, a
/// constant.
pub fn name_of_register(proto: &Proto, at: usize, register: u8) -> Option<String> {
    let (_, name) = names::register_name(proto, at, register)?;
    Some(String::from_utf8_lossy(&name).into_owned())
}

impl Vm {
    /// Machine code has just been left for the frame at the state's `base`.
    #[cold]
    pub(super) fn tell_exit(&mut self) {
        let base = self.lua.base;
        // SAFETY: the frame is complete, its position stored; that of a Lua function has its closure, and an
        // instance owns a count of its prototype.
        let (proto, at) = unsafe {
            let f = frame(base);
            if (*f).flags & F_NATIVE != 0 || (*f).pc.is_null() {
                return;
            }
            let inst = (*frame_closure(base)).proto;
            let at = (*inst).position((*f).pc);
            Arc::increment_strong_count((*inst).proto);
            (Arc::from_raw((*inst).proto), at)
        };
        let Some(&i) = proto.code.get(at) else { return };
        if perilune_trace::on(Category::Compile) {
            let line = Count::from(proto.line_at(at).unwrap_or(0) as usize);
            perilune_trace::emit(event::CodeLeft { name: Vm::code_name(&proto), line });
        }
        if !self.lua.machine.wants_exits {
            return;
        }
        let mut seen = Vec::new();
        let mut add = |register: usize, is_result: bool| {
            if register < proto.max_stack as usize && seen.len() < 8 {
                // SAFETY: a register of the frame.
                let tag = unsafe { (*base.add(register)).tag() };
                seen.push(Seen { register: register as u8, tag, is_result });
            }
        };
        for operand in i.op().into_iter().flat_map(Op::operands) {
            let value = operand.field.of(i) as usize;
            match operand.kind {
                Kind::Use => add(value, false),
                Kind::UseAt(above) => add(value + above as usize, false),
                Kind::RK if value & RK_CONST as usize == 0 => add(value, false),
                _ => {}
            }
        }
        if let Some(before) = at.checked_sub(1).map(|before| proto.code[before]) {
            let defines = before
                .op()
                .is_some_and(|op| op.operands().iter().any(|o| matches!(o.kind, Kind::Def | Kind::Defs(..))));
            if defines {
                add(before.a() as usize, true);
            }
        }
        if let Some(specializer) = self.lua.machine.specializer.clone() {
            specializer.exited(&Unexpected { proto, at, seen });
        }
    }
}
