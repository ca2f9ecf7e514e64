//! The verifier: everything the interpreter takes for granted, checked.
//!
//! The compiler's output is right by construction (tests hold it to that), but a binary chunk may say
//! anything. After [`verify`] has accepted a prototype, running it cannot read or write outside its frame,
//! its tables of constants, caches, upvalues and prototypes, or its code, and cannot make a value up,
//! whatever it computes. What the program *means* is not checked: types are the interpreter's business, at
//! run time, as for compiled code.
//!
//! # What is guaranteed
//! Of each instruction by itself ([`Context::instruction`]), from its declared operands (`operands.rs`):
//! - its registers are within the frame, and its constants, upvalues, prototypes, templates and caches exist
//!   and are of the kind that it wants; no two instructions share a cache, except `SETSLOT` with its
//!   `NEWTABLE`;
//! - jumps end within the code, and go forward where they must; the code ends in a return, and nothing jumps
//!   to `VARARGPREP`;
//! - what takes values up to the top stands right behind what sets the top, at or below it, and nothing jumps
//!   between the two.
//!
//! Of loops (`loops.rs`): only `FORPREP` and `TFORPREP` lead into a loop; within it no instruction but the
//! loop's own writes the registers of its state or captures them, and no variable captured before lies there.
//! So `FORLOOP` finds what `FORPREP` left, three integers or three floats, and writes payloads alone.
//!
//! Of each way through the code (`paths.rs`):
//! - a register is read only where every way there has written it, and never when a callee's frame, or what
//!   the machine keeps for itself, may lie there: no program sees half a frame record;
//! - no frame is laid over a variable that may be captured: no function can assign to a frame record;
//! - a variable that may be marked to be closed is not overwritten;
//! - nothing stays open: a return that closes nothing leaves no captured and no marked variable behind.
//!
//! Not guaranteed, and checked by the handlers: every type; that the table of `SETSLOT` and `SETLIST` is one
//! and has the template's shape; that a to-be-closed variable still has its metamethod; that arguments fit
//! the stack.

mod loops;
mod paths;

use crate::bytecode::{Instr, MAX_REGISTERS, NO_IC, Op, RK_CONST};
use crate::operands::{Kind, Operand, Registers, Span};
use crate::proto::{Constant, Proto, VarKind};
use loops::Loops;

/// Fields of a template at most.
const MAX_TEMPLATE: usize = 64;
/// Upvalues at most.
const MAX_UPVALUES: usize = 255;

/// Checks a prototype and all prototypes inside it. The error says what is wrong and where, for people.
pub fn verify(proto: &Proto) -> Result<(), String> {
    let mut pending = vec![proto];
    while let Some(proto) = pending.pop() {
        verify_one(proto)?;
        for inner in &proto.protos {
            verify_upvalues(inner, proto)?;
            pending.push(inner);
        }
    }
    Ok(())
}

fn verify_upvalues(inner: &Proto, parent: &Proto) -> Result<(), String> {
    for upvalue in &inner.upvalues {
        let limit = if upvalue.in_stack { parent.max_stack as usize } else { parent.upvalues.len() };
        if upvalue.index as usize >= limit {
            return Err("an upvalue refers to nothing in the enclosing function".into());
        }
    }
    Ok(())
}

fn verify_one(proto: &Proto) -> Result<(), String> {
    let check = |ok: bool, what: &str| if ok { Ok(()) } else { Err(what.to_string()) };
    let code = &proto.code;
    check((2..=MAX_REGISTERS).contains(&(proto.max_stack as usize)), "bad number of registers")?;
    check(proto.num_params <= proto.max_stack, "more parameters than registers")?;
    check(proto.upvalues.len() <= MAX_UPVALUES, "too many upvalues")?;
    check(proto.constants.len() <= i32::MAX as usize, "too many constants")?;
    check(!code.is_empty() && code.len() < i32::MAX as usize, "bad code size")?;
    check(proto.lines.is_empty() || proto.lines.len() == code.len(), "bad number of lines")?;
    let ends = code[code.len() - 1].op();
    check(matches!(ends, Some(Op::Return | Op::Return0 | Op::Return1)), "the code does not end in a return")?;
    let prepares = code[0].op() == Some(Op::VarargPrep);
    check(prepares == proto.is_vararg, "VARARGPREP in the wrong function")?;
    for template in &proto.templates {
        check(!template.is_empty() && template.len() <= MAX_TEMPLATE, "bad template size")?;
        for (slot, &name) in template.iter().enumerate() {
            let is_string = matches!(proto.constants.get(name as usize), Some(Constant::String(_)));
            check(is_string, "a template's field is no string")?;
            let same = |&other: &u32| proto.constants[other as usize] == proto.constants[name as usize];
            check(!template[..slot].iter().any(same), "a template's fields are not distinct")?;
        }
    }
    for local in &proto.locals {
        check(local.register < proto.max_stack, "a local's register is out of range")?;
        check(local.start_pc <= local.end_pc, "a local's scope is empty backwards")?;
        check(local.end_pc as usize <= code.len(), "a local's scope leaves the code")?;
    }
    let context = Context::new(proto)?;
    for (pc, &instr) in code.iter().enumerate() {
        context.instruction(pc, instr).map_err(|what| at(what, pc, instr))?;
    }
    let loops = Loops::new(code)?;
    paths::check(proto, &loops, |_, _| ())
}

/// For each instruction of an accepted function the registers that hold something before it: values that the
/// program may still read, or what the machine keeps there. The others may be overwritten with anything.
///
/// # Errors
/// The function is not accepted.
pub fn in_use(proto: &Proto) -> Result<Vec<Registers>, String> {
    verify_one(proto)?;
    let mut used = vec![Registers::NONE; proto.code.len()];
    paths::check(proto, &Loops::new(&proto.code)?, |pc, registers| used[pc] = registers)?;
    Ok(used)
}

/// A message about the instruction at `pc`.
fn at(what: &str, pc: usize, instr: Instr) -> String {
    format!("{what} at instruction {pc}: {instr:?}")
}

/// What is known of a whole function before its instructions are checked one by one.
struct Context<'p> {
    proto: &'p Proto,
    /// Which instructions something jumps (or skips) to.
    is_target: Vec<bool>,
    /// For each cache the number of fields of the template of its `NEWTABLE`, 0 if it has none.
    template_of: Vec<u16>,
}

type Check = Result<(), &'static str>;

fn require(ok: bool, what: &'static str) -> Check {
    if ok { Ok(()) } else { Err(what) }
}

fn target(pc: usize, jump: i32) -> i64 {
    pc as i64 + 1 + jump as i64
}

impl<'p> Context<'p> {
    fn new(proto: &'p Proto) -> Result<Context<'p>, String> {
        let mut is_target = vec![false; proto.code.len()];
        let mut template_of = vec![0; proto.ic_count as usize];
        let mut cache_used = vec![false; proto.ic_count as usize];
        for (pc, &instr) in proto.code.iter().enumerate() {
            let Some(op) = instr.op() else {
                return Err(format!("no such opcode at instruction {pc}"));
            };
            if let Some(jump) = instr.jump() {
                let target = target(pc, jump);
                if target < 0 || target >= proto.code.len() as i64 {
                    return Err(format!("jump out of the code at instruction {pc}"));
                }
                is_target[target as usize] = true;
            }
            if op == Op::LoadFalseSkip && pc + 2 < proto.code.len() {
                is_target[pc + 2] = true;
            }
            if let Some(cache) = instr.cache().filter(|_| op != Op::SetSlot) {
                match cache_used.get_mut(cache as usize) {
                    Some(used) if !*used => *used = true,
                    _ => return Err(format!("bad inline cache at instruction {pc}")),
                }
            }
            if op == Op::NewTable && instr.b() != 0 {
                let fields = proto.templates.get(instr.b() as usize - 1).map(|t| t.len() as u16);
                let (Some(fields), true) = (fields, instr.d() != NO_IC) else {
                    return Err(format!("bad template at instruction {pc}"));
                };
                template_of[instr.d() as usize] = fields;
            }
        }
        Ok(Context { proto, is_target, template_of })
    }

    /// The registers exist, of an open span those before the top.
    fn registers(&self, span: Span) -> Check {
        let end = span.first + span.count.unwrap_or(0);
        let room = self.proto.max_stack as usize;
        require(end <= room && (span.count.is_some() || span.first < room), "register out of range")
    }

    fn constant(&self, index: u32, is_right: impl Fn(&Constant) -> bool, what: &'static str) -> Check {
        require(self.proto.constants.get(index as usize).is_some_and(is_right), what)
    }

    /// One operand is right whatever came before.
    fn operand(&self, pc: usize, instr: Instr, operand: Operand) -> Check {
        for span in operand.reads(instr).into_iter().chain(operand.writes(instr)) {
            self.registers(span)?;
        }
        let value = operand.field.of(instr);
        match operand.kind {
            Kind::Clobber(n) => self.registers(Span { first: value as usize + n as usize, count: Some(0) }),
            Kind::Room(n) => self.registers(Span { first: value as usize, count: Some(n as usize) }),
            Kind::Close => self.registers(Span { first: value as usize, count: Some(1) }),
            Kind::RK if value as u16 & RK_CONST != 0 => {
                self.constant(value & !(RK_CONST as u32), |_| true, "constant out of range")
            }
            Kind::Constant => self.constant(value, |_| true, "constant out of range"),
            Kind::Name => self.constant(
                value,
                |k| matches!(k, Constant::String(_)),
                "the field's name is no string constant",
            ),
            Kind::Number => self.constant(
                value,
                |k| matches!(k, Constant::Integer(_) | Constant::Float(_)),
                "the operand is no numeric constant",
            ),
            Kind::Upvalue => require((value as usize) < self.proto.upvalues.len(), "upvalue out of range"),
            Kind::SetUpvalue => {
                let upvalue = self.proto.upvalues.get(value as usize).ok_or("upvalue out of range")?;
                require(upvalue.kind == VarKind::Mutable, "assigns to an upvalue that is said never to be")
            }
            Kind::Proto => require((value as usize) < self.proto.protos.len(), "prototype out of range"),
            Kind::Slot => {
                let fields = self.template_of.get(instr.d() as usize);
                require(fields.is_some_and(|&fields| value < fields as u32), "slot out of its template")
            }
            Kind::Params => require(pc == 0 && value == self.proto.num_params as u32, "misplaced VARARGPREP"),
            Kind::Choice(most) => require(value <= most as u32, "no such choice"),
            Kind::Forward => require(instr.sj() >= 0, "jumps backward"),
            Kind::Backward => {
                require(instr.sj() < 0, "jumps forward")?;
                let restarts = self.proto.is_vararg && target(pc, instr.sj()) == 0;
                require(!restarts, "jumps to VARARGPREP")
            }
            // Templates and caches have been looked at all together.
            _ => Ok(()),
        }
    }

    /// Fields are right whatever came before; see [`Op`] for what each means.
    fn instruction(&self, pc: usize, instr: Instr) -> Check {
        let op = instr.op().ok_or("no such opcode")?;
        for &operand in op.operands() {
            self.operand(pc, instr, operand)?;
        }
        if let Some(lowest) = instr.open_use() {
            let before = pc.checked_sub(1).and_then(|before| self.proto.code[before].open_def());
            require(before.is_some_and(|first| first >= lowest), "nothing sets the top for it")?;
            require(!self.is_target[pc], "a jump avoids what sets the top for it")?;
        }
        if instr.open_def().is_some() {
            let next = self.proto.code.get(pc + 1).and_then(|next| next.open_use());
            require(next.is_some(), "nothing takes the results up to the top")?;
        }
        match op {
            Op::LoadFalseSkip => require(pc + 2 < self.proto.code.len(), "skips the last instruction"),
            Op::Concat => require(instr.b() >= 2, "concatenates fewer than two values"),
            Op::TForCall => require(instr.b() >= 1, "a loop without a variable"),
            Op::Return0 | Op::Return1 => require(!self.proto.is_vararg, "simple return in a vararg function"),
            Op::Vararg => require(self.proto.is_vararg, "VARARG in a function without"),
            _ => Ok(()),
        }
    }
}

/// The registers of a span; of an open one all from the first on.
fn set(span: Span) -> Registers {
    Registers::range(span.first, span.count.unwrap_or(256))
}
