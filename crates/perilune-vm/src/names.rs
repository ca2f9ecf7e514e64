//! Where values of a running instruction came from: names for error messages and tracebacks, found by reading
//! the bytecode backwards (PUC Lua's `getobjname`).

use crate::frame::{F_FIN, F_HOOK, F_NATIVE, F_TAIL, frame};
use crate::interp::frame_closure;
use crate::value::{Tag, Value};
use perilune_syntax::bytecode::Format;
use perilune_syntax::operands::{Effects, Kind};
use perilune_syntax::{Constant, Instr, Op, Proto};

/// What an error is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    /// A register of the running frame.
    Register(u8),
    /// An upvalue of the running function.
    Upvalue(u8),
    /// Nothing that has a name: a constant, a value on the way of a metamethod, or the error is raised for a
    /// native function.
    None,
}

/// Kind and text of a name: ("local", "x").
pub(crate) type Name = (&'static str, Vec<u8>);

/// Index of the instruction that the Lua frame at `base` is executing.
pub(crate) unsafe fn current_pc(base: *mut Value) -> usize {
    // SAFETY: the caller passes a Lua frame with its pc stored.
    unsafe {
        let inst = (*frame_closure(base)).inst();
        inst.position((*frame(base)).pc).saturating_sub(1)
    }
}

/// Line that the Lua frame at `base` is executing.
pub(crate) unsafe fn current_line(base: *mut Value) -> Option<u32> {
    // SAFETY: as `current_pc`.
    unsafe { (*frame_closure(base)).inst().proto().line_at(current_pc(base)) }
}

unsafe fn is_lua(base: *mut Value) -> bool {
    // SAFETY: the caller passes a frame.
    unsafe { (*frame(base)).flags & F_NATIVE == 0 && (*base.sub(3)).tag() == Tag::CLOSURE }
}

/// Which operand of the running instruction of the frame at `base` is `v`. Of two operands alike it is the
/// first one: that is where errors are looked for first.
pub(crate) unsafe fn operand_of(base: *mut Value, v: Value) -> Operand {
    // SAFETY: the caller passes a frame; verified code.
    unsafe {
        if !is_lua(base) {
            return Operand::None;
        }
        let closure = frame_closure(base);
        let i = (*closure).inst().proto().code[current_pc(base)];
        let Some(op) = i.op() else { return Operand::None };
        let reg = |n: u16| -> Option<Operand> {
            (*base.add(n as usize)).same(v).then_some(Operand::Register(n as u8))
        };
        let upvalue = |n: u8| -> Option<Operand> {
            let upvals = &raw const (*closure).upvals as *const *mut crate::object::Upval;
            (*(**upvals.add(n as usize)).v).same(v).then_some(Operand::Upvalue(n))
        };
        // Functions that are called have names of their own making (`call_name`), what is compared has none.
        let called = matches!(op, Op::Call | Op::TailCall);
        if called || op.format() == Format::Jump || !op.effects().has(Effects::CALLS) {
            return Operand::None;
        }
        let one = |o: &perilune_syntax::operands::Operand| match o.kind {
            Kind::Use => reg(o.field.of(i) as u16),
            Kind::Upvalue => upvalue(o.field.of(i) as u8),
            _ => None,
        };
        op.operands().iter().find_map(one).unwrap_or(Operand::None)
    }
}

/// Name of an operand of the running instruction of the frame at `base`.
pub(crate) unsafe fn describe(base: *mut Value, operand: Operand) -> Option<Name> {
    // SAFETY: as `operand_of`.
    unsafe {
        if !is_lua(base) {
            return None;
        }
        let proto = (*frame_closure(base)).inst().proto();
        match operand {
            Operand::Register(r) => register_name(proto, current_pc(base), r),
            Operand::Upvalue(u) => Some(("upvalue", upvalue_name(proto, u as usize))),
            Operand::None => None,
        }
    }
}

/// By which name code of the frame at `base` calls a function just now.
pub(crate) unsafe fn name_of_call(base: *mut Value) -> Option<Name> {
    // SAFETY: as `operand_of`.
    unsafe {
        let flags = (*frame(base)).flags;
        if flags & F_HOOK != 0 {
            Some(("hook", b"?".to_vec()))
        } else if flags & F_FIN != 0 {
            Some(("metamethod", b"__gc".to_vec()))
        } else if is_lua(base) {
            let (proto, pc) = ((*frame_closure(base)).inst().proto(), current_pc(base));
            if divides_numbers(base, proto.code[pc]) { None } else { call_name(proto, pc) }
        } else {
            None
        }
    }
}

/// How the function of the frame at `base` was called, from the caller's instruction.
pub(crate) unsafe fn function_name(base: *mut Value) -> Option<Name> {
    // SAFETY: as `operand_of`.
    unsafe {
        let f = *frame(base);
        if f.delta == 0 || f.flags & F_TAIL != 0 {
            return None;
        }
        name_of_call(base.sub(f.delta as usize))
    }
}

/// Whether the instruction of the frame at `base` divides numbers: it calls no metamethod, but a message
/// handler, where it divides by zero.
unsafe fn divides_numbers(base: *mut Value, i: Instr) -> bool {
    // SAFETY: as `operand_of`; the instruction's registers are in the frame, and its constants are numbers.
    unsafe {
        let is_number = |r: u16| (*base.add(r as usize)).is_number();
        match i.op() {
            Some(Op::IDiv | Op::Mod) => is_number(i.b()) && is_number(i.c()),
            Some(Op::IDivK | Op::ModK) => is_number(i.b()),
            _ => false,
        }
    }
}

/// The name by which the instruction at `pc` calls a function.
fn call_name(proto: &Proto, pc: usize) -> Option<Name> {
    let i = proto.code[pc];
    use Op::*;
    let event = match i.op()? {
        Call | TailCall => return register_name(proto, pc, i.a()),
        TForCall => return Some(("for iterator", b"for iterator".to_vec())),
        GetTabUp | GetField | GetIndex | GetInt | SelfCall => "index",
        SetTabUp | SetField | SetIndex | SetInt => "newindex",
        Add | AddK => "add",
        AddI => {
            if i.d() == 1 {
                "sub"
            } else {
                "add"
            }
        }
        Sub | SubK => "sub",
        Mul | MulK => "mul",
        Div | DivK => "div",
        Mod | ModK => "mod",
        Pow | PowK => "pow",
        IDiv | IDivK => "idiv",
        BAnd | BAndK => "band",
        BOr | BOrK => "bor",
        BXor | BXorK => "bxor",
        Shl => "shl",
        Shr => "shr",
        Unm => "unm",
        BNot => "bnot",
        Len => "len",
        Concat => "concat",
        JumpEq | JumpNe => "eq",
        JumpLt | JumpNotLt | JumpLtK | JumpNotLtK | JumpGtK | JumpNotGtK => "lt",
        JumpLe | JumpNotLe | JumpLeK | JumpNotLeK | JumpGeK | JumpNotGeK => "le",
        Close | Return | TForPrep => "close",
        _ => return None,
    };
    Some(("metamethod", event.as_bytes().to_vec()))
}

/// Name of upvalue `n`.
pub(crate) fn upvalue_name(proto: &Proto, n: usize) -> Vec<u8> {
    proto.upvalues.get(n).and_then(|u| u.name.as_ref()).map_or(b"?".to_vec(), |n| n.to_vec())
}

/// Name of the local variable in `register` at `pc`.
pub(crate) fn local_name(proto: &Proto, pc: usize, register: u8) -> Option<&[u8]> {
    let pc = pc as u32;
    proto
        .locals
        .iter()
        .rev()
        .find(|l| l.register == register && l.start_pc <= pc && pc < l.end_pc)
        .map(|l| &*l.name)
}

/// The last instruction before `pc` that set `register` on every way there.
fn setter(proto: &Proto, pc: usize, register: u8) -> Option<usize> {
    let mut found = None;
    let mut jump_target = 0;
    for (n, &i) in proto.code[..pc].iter().enumerate() {
        if let Some(jump) = i.jump().filter(|&jump| jump > 0)
            && !i.op()?.prepares_loop()
        {
            let target = n + 1 + jump as usize;
            if target <= pc && target > jump_target {
                jump_target = target;
            }
        }
        if i.changes(register) {
            // Set in a branch: which one was taken is not known.
            found = if n < jump_target { None } else { Some(n) };
        }
    }
    found
}

/// A string as a name: C strings to PUC Lua, which end at the first NUL.
fn as_name(s: &[u8]) -> Vec<u8> {
    s.split(|&b| b == 0).next().unwrap_or_default().to_vec()
}

fn constant_name(proto: &Proto, n: usize) -> Vec<u8> {
    match proto.constants.get(n) {
        Some(Constant::String(s)) => as_name(s),
        _ => b"?".to_vec(),
    }
}

/// Name of the variable or constant in `register` as the instruction at `pc` sees it; nothing that was
/// indexed.
fn variable_name(proto: &Proto, pc: usize, register: u8) -> Option<Name> {
    register_name(proto, pc, register).filter(|(kind, _)| matches!(*kind, "local" | "upvalue" | "constant"))
}

/// Is the table in `register` the environment?
fn is_env(proto: &Proto, pc: usize, register: u8) -> bool {
    matches!(variable_name(proto, pc, register), Some(("local" | "upvalue", name)) if name == b"_ENV")
}

/// Name of the value in `register` as the instruction at `pc` sees it.
pub(crate) fn register_name(proto: &Proto, pc: usize, register: u8) -> Option<Name> {
    if let Some(name) = local_name(proto, pc, register) {
        return Some(("local", name.to_vec()));
    }
    let at = setter(proto, pc, register)?;
    let i = proto.code[at];
    let table_kind = |is_env: bool| if is_env { "global" } else { "field" };
    match i.op()? {
        Op::Move if i.b() < i.a() as u16 => register_name(proto, at, i.b() as u8),
        Op::GetTabUp => {
            let is_env = upvalue_name(proto, i.b() as usize) == b"_ENV";
            Some((table_kind(is_env), constant_name(proto, i.c() as usize)))
        }
        Op::GetField => {
            Some((table_kind(is_env(proto, at, i.b() as u8)), constant_name(proto, i.c() as usize)))
        }
        Op::GetIndex => {
            let key = match variable_name(proto, at, i.c() as u8) {
                Some(("constant", name)) => name,
                _ => b"?".to_vec(),
            };
            Some((table_kind(is_env(proto, at, i.b() as u8)), key))
        }
        // Larger keys are in a register in PUC Lua's code, and nothing is said of numbers there.
        Op::GetInt if i.c() > 255 => Some((table_kind(is_env(proto, at, i.b() as u8)), b"?".to_vec())),
        Op::GetInt => Some(("field", b"integer index".to_vec())),
        Op::GetUpval => Some(("upvalue", upvalue_name(proto, i.b() as usize))),
        Op::LoadK => match proto.constants.get(i.bx() as usize) {
            Some(Constant::String(s)) => Some(("constant", as_name(s))),
            _ => None,
        },
        Op::SelfCall if register == i.a() => Some(("method", constant_name(proto, i.c() as usize))),
        _ => None,
    }
}
