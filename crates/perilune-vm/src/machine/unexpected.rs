//! What is told of an exit to a specializer that wants to know ([`super::Specializer::wants_exits`]): for
//! people who ask why code is slow.

use super::log::comes_round_to;
use crate::Vm;
use crate::frame::{F_NATIVE, frame};
use crate::interp::frame_closure;
use crate::interp::quick::native_at;
use crate::names;
use crate::native::Native;
use crate::object::Upval;
use crate::value::{Tag, Value};
use perilune_syntax::bytecode::RK_CONST;
use perilune_syntax::operands::Kind;
use perilune_syntax::{Instr, Op, Proto};
use perilune_trace::event::{self, Category, Count};
use std::sync::Arc;

/// What was in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The register.
    pub register: u8,
    /// The tag of its value.
    pub tag: Tag,
    /// What the register is there.
    pub role: Role,
}

/// What a register is where machine code is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The instruction reads it.
    Operand,
    /// The instruction before has defined it.
    Result,
    /// It may be a variable, where a loop begins, or a parameter, where the function does.
    Variable,
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
    /// The tag of what it is about to load, if it loads something and no metamethod is asked.
    pub loads: Option<Tag>,
    /// The native that it is about to call.
    pub calls: Option<&'static Native>,
    /// How many exits there have been at the same place, for the same reason, since the last one that was told
    /// of: this one, and those that were counted only ([`super::Specializer::exited_again`]).
    pub stands_for: u32,
}

/// The first exits at each place are told of, so many, then one of as many: what it takes to find out what
/// was not as expected is thirty times an exit, and a program that is asked why it is slow is not to be slow
/// because it is asked.
const TOLD: u32 = 32;

/// For how many exits the one stands that is the `times`th at its place; `None`: it is one of those that
/// another one stands for.
fn stands_for(times: u32) -> Option<u32> {
    match times {
        0..=TOLD => Some(1),
        _ => times.is_multiple_of(TOLD).then_some(TOLD),
    }
}

impl Unexpected {
    /// What the instruction reads.
    pub fn operands(&self) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(|seen| seen.role == Role::Operand)
    }
}

/// What the program calls the value that is in a register before instruction `at`: a variable, a field, a
/// constant.
pub fn name_of_register(proto: &Proto, at: usize, register: u8) -> Option<String> {
    let (_, name) = names::register_name(proto, at, register)?;
    Some(String::from_utf8_lossy(&name).into_owned())
}

/// Whether a loop comes round to this instruction.
fn is_loop_head(proto: &Proto, at: usize) -> bool {
    proto.code.iter().enumerate().any(|(from, i)| comes_round_to(from, *i) == Some(at))
}

impl Vm {
    /// Machine code has just been left for the frame at the state's `base`, so often by now, there and for the
    /// same reason.
    #[cold]
    pub(super) fn tell_exit(&mut self, times: u32) {
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
        let Some(specializer) = self.lua.machine.specializer.clone() else { return };
        let Some(stands_for) = stands_for(times) else { return specializer.exited_again(&proto, at) };
        let mut seen = Vec::new();
        let mut add = |register: usize, role: Role| {
            if register < proto.max_stack as usize {
                // SAFETY: a register of the frame.
                let tag = unsafe { (*base.add(register)).tag() };
                seen.push(Seen { register: register as u8, tag, role });
            }
        };
        for operand in i.op().into_iter().flat_map(Op::operands) {
            let value = operand.field.of(i) as usize;
            match operand.kind {
                Kind::Use => add(value, Role::Operand),
                Kind::UseAt(above) => add(value + above as usize, Role::Operand),
                Kind::RK if value & RK_CONST as usize == 0 => add(value, Role::Operand),
                _ => {}
            }
        }
        if let Some(before) = at.checked_sub(1).map(|before| proto.code[before]) {
            let defines = before
                .op()
                .is_some_and(|op| op.operands().iter().any(|o| matches!(o.kind, Kind::Def | Kind::Defs(..))));
            if defines {
                add(before.a() as usize, Role::Result);
            }
        }
        let variables = match is_loop_head(&proto, at) {
            true => proto.max_stack as usize,
            false if at == 0 => proto.num_params as usize,
            false => 0,
        };
        (0..variables).for_each(|variable| add(variable, Role::Variable));
        // SAFETY: as above.
        let loads = unsafe { self.about_to_load(base, i) }.map(|value| value.tag());
        let calls = match i.op() {
            // SAFETY: a register of the frame; natives live as long as the program.
            Some(Op::Call | Op::TailCall) => unsafe { native_at(base.add(i.a() as usize)).as_ref() },
            _ => None,
        };
        specializer.exited(&Unexpected { proto, at, seen, loads, calls, stands_for });
    }

    /// What an instruction of the frame at `base` is about to load; `None`: it loads nothing, or not by itself.
    ///
    /// # Safety
    /// The frame is a complete one of a Lua function, which has the instruction.
    unsafe fn about_to_load(&self, base: *mut Value, i: Instr) -> Option<Value> {
        // SAFETY: the caller's promise: verified code names registers, constants and upvalues that there are.
        unsafe {
            let closure = frame_closure(base);
            let constant = |n: u16| *(*(*closure).proto).k.add(n as usize);
            let upvalue = |n: u16| {
                let upvalues = &raw const (*closure).upvals as *const *mut Upval;
                *(**upvalues.add(n as usize)).v
            };
            let register = |n: u16| *base.add(n as usize);
            let (object, key) = match i.op()? {
                Op::GetUpval => return Some(upvalue(i.b())),
                Op::GetTabUp => (upvalue(i.b()), constant(i.c())),
                Op::GetField | Op::SelfCall => (register(i.b()), constant(i.c())),
                Op::GetIndex => (register(i.b()), register(i.c())),
                Op::GetInt => (register(i.b()), Value::int(i.c() as i64)),
                _ => return None,
            };
            let value = self.raw_get(object.as_table()?, key);
            (!value.is_nil()).then_some(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_exits_are_stood_for() {
        let told = |all: u32| (1..=all).filter_map(stands_for).sum::<u32>();
        assert_eq!(
            [1, TOLD, TOLD + 1, 2 * TOLD, 1000 * TOLD].map(told),
            [1, TOLD, TOLD, 2 * TOLD, 1000 * TOLD]
        );
        assert!((1..=1000 * TOLD).filter_map(stands_for).count() < 1100);
    }
}
