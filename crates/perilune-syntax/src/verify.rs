//! The verifier: everything the interpreter takes for granted, checked.
//!
//! The compiler's output is right by construction (tests hold it to that), but a binary chunk may say
//! anything. After [`verify`] has accepted a prototype, running it cannot read or write outside its frame,
//! its tables of constants, caches, upvalues and prototypes, or its code, whatever it computes. What the
//! program *means* is not checked: types are the interpreter's business, at run time, as for compiled code.
//!
//! Values need no data flow: a register always holds a valid value, an uninitialised one nil or some older
//! value. So each instruction is looked at once, with two facts about its surroundings: the instruction
//! before or after it where the pair works together, and whether something jumps between them.
//!
//! What leaves a function open does. An upvalue or a to-be-closed variable that outlives its frame would
//! refer to a stack slot that is no longer its own. So a walk over the control flow ([`Context::exits`])
//! follows the lowest register that may be captured and the lowest that may be marked, and a return that
//! closes nothing must find neither.

use crate::bytecode::{Instr, MAX_REGISTERS, NO_IC, Op, RK_CONST};
use crate::proto::{Constant, Proto, VarKind};

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
        context.instruction(pc, instr).map_err(|what| format!("{what} at instruction {pc}: {instr:?}"))?;
    }
    context.exits()
}

/// What may be open at some point of a function: the lowest register that an open upvalue refers to, and the
/// lowest that is to be closed; 255, which is no register, stands for none.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Pending {
    captured: u8,
    marked: u8,
}

impl Pending {
    const NONE: Pending = Pending { captured: u8::MAX, marked: u8::MAX };

    fn join(self, other: Pending) -> Pending {
        Pending { captured: self.captured.min(other.captured), marked: self.marked.min(other.marked) }
    }

    fn closed_from(self, register: u8) -> Pending {
        let close = |lowest: u8| if lowest >= register { u8::MAX } else { lowest };
        Pending { captured: close(self.captured), marked: close(self.marked) }
    }
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

/// Jumps whose offset is an ordinary one.
fn is_jump(op: Op) -> bool {
    op.format() == crate::bytecode::Format::Jump
}

fn target(pc: usize, instr: Instr) -> i64 {
    pc as i64 + 1 + instr.sj() as i64
}

/// Lowest register that an instruction consuming everything up to the top reads, if it is one.
fn open_consumer(instr: Instr) -> Option<usize> {
    match (instr.op()?, instr.b()) {
        (Op::Call | Op::TailCall, 0) => Some(instr.a() as usize + 3),
        (Op::Return, 0) | (Op::Lift, _) => Some(instr.a() as usize),
        (Op::SetList, 0) => Some(instr.a() as usize + 1),
        _ => None,
    }
}

/// First register that an instruction setting the top writes, if it is one.
fn open_producer(instr: Instr) -> Option<usize> {
    match (instr.op()?, instr.c()) {
        (Op::Call | Op::Vararg, 0) => Some(instr.a() as usize),
        (Op::Lift, _) => Some(instr.a() as usize + instr.b() as usize),
        _ => None,
    }
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
            if is_jump(op) {
                let target = target(pc, instr);
                if target < 0 || target >= proto.code.len() as i64 {
                    return Err(format!("jump out of the code at instruction {pc}"));
                }
                is_target[target as usize] = true;
            }
            if op == Op::LoadFalseSkip && pc + 2 < proto.code.len() {
                is_target[pc + 2] = true;
            }
            if matches!(
                op,
                Op::GetTabUp | Op::SetTabUp | Op::GetField | Op::SetField | Op::SelfCall | Op::NewTable
            ) && instr.d() != NO_IC
            {
                match cache_used.get_mut(instr.d() as usize) {
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

    fn registers(&self, first: u8, count: usize) -> Check {
        require(first as usize + count <= self.proto.max_stack as usize, "register out of range")
    }

    fn register(&self, register: impl Into<u16>) -> Check {
        require(register.into() < self.proto.max_stack as u16, "register out of range")
    }

    fn string(&self, index: u16) -> Check {
        let is_string = matches!(self.proto.constants.get(index as usize), Some(Constant::String(_)));
        require(is_string, "the field's name is no string constant")
    }

    fn number(&self, index: u16) -> Check {
        let constant = self.proto.constants.get(index as usize);
        let is_number = matches!(constant, Some(Constant::Integer(_) | Constant::Float(_)));
        require(is_number, "the operand is no numeric constant")
    }

    fn constant(&self, index: usize) -> Check {
        require(index < self.proto.constants.len(), "constant out of range")
    }

    fn register_or_constant(&self, operand: u16) -> Check {
        match operand & RK_CONST {
            0 => self.register(operand),
            _ => self.constant((operand & !RK_CONST) as usize),
        }
    }

    fn upvalue(&self, index: u16) -> Check {
        require((index as usize) < self.proto.upvalues.len(), "upvalue out of range")
    }

    fn op_at(&self, pc: i64) -> Option<(Op, Instr)> {
        let instr = *self.proto.code.get(usize::try_from(pc).ok()?)?;
        Some((instr.op()?, instr))
    }

    /// A jump that goes forward.
    fn forward(&self, instr: Instr) -> Check {
        require(instr.sj() >= 0, "jumps backward")
    }

    /// An open consumer takes what the instruction just before it has left, at or above `lowest`.
    fn consumes(&self, pc: usize, lowest: usize) -> Check {
        let before = pc.checked_sub(1).and_then(|before| open_producer(self.proto.code[before]));
        require(before.is_some_and(|first| first >= lowest), "nothing sets the top for it")?;
        require(!self.is_target[pc], "a jump avoids what sets the top for it")
    }

    /// Fields are right whatever came before; see [`Op`] for what each means.
    fn instruction(&self, pc: usize, instr: Instr) -> Check {
        let op = instr.op().ok_or("no such opcode")?;
        let (a, b, c) = (instr.a(), instr.b(), instr.c());
        if let Some(lowest) = open_consumer(instr) {
            self.consumes(pc, lowest)?;
        }
        if open_producer(instr).is_some() {
            let next = self.proto.code.get(pc + 1).copied().and_then(open_consumer);
            require(next.is_some(), "nothing takes the results up to the top")?;
        }
        match op {
            Op::Move | Op::Unm | Op::BNot | Op::Not | Op::Len => {
                self.register(a)?;
                self.register(b)
            }
            Op::LoadI | Op::LoadTrue | Op::LoadFalse | Op::Close | Op::Tbc => self.register(a),
            Op::LoadFalseSkip => {
                self.register(a)?;
                require(pc + 2 < self.proto.code.len(), "skips the last instruction")
            }
            Op::LoadK => {
                self.register(a)?;
                self.constant(instr.bx() as usize)
            }
            Op::LoadNil => self.registers(a, b as usize + 1),
            Op::GetUpval => {
                self.register(a)?;
                self.upvalue(b)
            }
            Op::SetUpval => {
                self.register(a)?;
                self.upvalue(b)?;
                let kind = self.proto.upvalues[b as usize].kind;
                require(kind == VarKind::Mutable, "assigns to an upvalue that is said never to be")
            }
            Op::GetTabUp => {
                self.register(a)?;
                self.upvalue(b)?;
                self.string(c)
            }
            Op::SetTabUp => {
                self.upvalue(a as u16)?;
                self.string(b)?;
                self.register_or_constant(c)
            }
            Op::GetField => {
                self.register(a)?;
                self.register(b)?;
                self.string(c)
            }
            Op::SetField => {
                self.register(a)?;
                self.string(b)?;
                self.register_or_constant(c)
            }
            Op::GetIndex => {
                self.register(a)?;
                self.register(b)?;
                self.register(c)
            }
            Op::SetIndex => {
                self.register(a)?;
                self.register(b)?;
                self.register_or_constant(c)
            }
            Op::GetInt => {
                self.register(a)?;
                self.register(b)
            }
            Op::SetInt => {
                self.register(a)?;
                self.register_or_constant(c)
            }
            Op::SelfCall => {
                self.registers(a, 4)?;
                self.register(b)?;
                self.string(c)
            }
            Op::NewTable => self.register(a),
            Op::SetSlot => {
                self.register(a)?;
                let fields = self.template_of.get(instr.d() as usize);
                require(fields.is_some_and(|&fields| b < fields), "slot out of its template")?;
                self.register_or_constant(c)
            }
            Op::SetList => self.registers(a, b as usize + 1),
            Op::Add
            | Op::Sub
            | Op::Mul
            | Op::Div
            | Op::Mod
            | Op::Pow
            | Op::IDiv
            | Op::BAnd
            | Op::BOr
            | Op::BXor
            | Op::Shl
            | Op::Shr => {
                self.register(a)?;
                self.register(b)?;
                self.register(c)
            }
            Op::AddK
            | Op::SubK
            | Op::MulK
            | Op::DivK
            | Op::ModK
            | Op::PowK
            | Op::IDivK
            | Op::BAndK
            | Op::BOrK
            | Op::BXorK => {
                self.register(a)?;
                self.register(b)?;
                self.number(c)?;
                require(instr.d() <= 1, "bad order of operands")
            }
            Op::AddI => {
                self.register(a)?;
                self.register(b)?;
                require(instr.d() <= 2, "bad order of operands")
            }
            Op::Concat => {
                require(b >= 2, "concatenates fewer than two values")?;
                self.registers(a, b as usize)
            }
            Op::Jump => self.forward(instr),
            Op::JumpBack => {
                require(instr.sj() < 0, "jumps forward")?;
                let restarts = self.proto.is_vararg && target(pc, instr) == 0;
                require(!restarts, "jumps to VARARGPREP")
            }
            Op::JumpIf | Op::JumpIfNot => {
                self.register(a)?;
                self.forward(instr)
            }
            Op::JumpIfSet
            | Op::JumpIfNotSet
            | Op::JumpEq
            | Op::JumpNe
            | Op::JumpLt
            | Op::JumpNotLt
            | Op::JumpLe
            | Op::JumpNotLe => {
                self.register(a)?;
                self.register(b)?;
                self.forward(instr)
            }
            Op::JumpEqK | Op::JumpNeK => {
                self.register(a)?;
                self.constant(b as usize)?;
                self.forward(instr)
            }
            Op::JumpLtK
            | Op::JumpNotLtK
            | Op::JumpLeK
            | Op::JumpNotLeK
            | Op::JumpGtK
            | Op::JumpNotGtK
            | Op::JumpGeK
            | Op::JumpNotGeK => {
                self.register(a)?;
                self.number(b)?;
                self.forward(instr)
            }
            Op::ForPrep | Op::ForLoop | Op::TForPrep | Op::TForCall | Op::TForLoop => {
                self.for_loop(pc, op, instr)
            }
            Op::Call => {
                self.call(a, b)?;
                self.registers(a, (c as usize).saturating_sub(1))
            }
            Op::TailCall => self.call(a, b),
            Op::Return => {
                require(instr.d() <= 1, "bad return")?;
                self.registers(a, (b as usize).saturating_sub(1))
            }
            Op::Return0 => require(!self.proto.is_vararg, "simple return in a vararg function"),
            Op::Return1 => {
                require(!self.proto.is_vararg, "simple return in a vararg function")?;
                self.register(a)
            }
            Op::VarargPrep => require(pc == 0 && a == self.proto.num_params, "misplaced VARARGPREP"),
            Op::Vararg => {
                require(self.proto.is_vararg, "VARARG in a function without")?;
                self.register(a)?;
                self.registers(a, (c as usize).saturating_sub(1))
            }
            Op::Lift => self.registers(a, b as usize + 1),
            Op::Closure => {
                self.register(a)?;
                require((instr.bx() as usize) < self.proto.protos.len(), "prototype out of range")
            }
        }
    }

    /// Function, frame slots and counted arguments of a call.
    fn call(&self, a: u8, b: u16) -> Check {
        self.registers(a, 3 + (b as usize).saturating_sub(1))
    }

    /// No return leaves anything open behind. Each instruction is looked at again only when more is open
    /// before it than was known, which happens at most once per register.
    fn exits(&self) -> Result<(), String> {
        let code = &self.proto.code;
        // If nothing ever opens, nothing has to be followed.
        let opens = |op| matches!(op, Some(Op::Closure | Op::Tbc | Op::TForPrep));
        if !code.iter().any(|i| opens(i.op())) {
            return Ok(());
        }
        let mut before: Vec<Option<Pending>> = vec![None; code.len()];
        before[0] = Some(Pending::NONE);
        let mut work = vec![0];
        while let Some(pc) = work.pop() {
            let (instr, mut pending) = (code[pc], before[pc].unwrap_or(Pending::NONE));
            let Some(op) = instr.op() else { continue };
            match op {
                Op::Closure => {
                    let inner = &self.proto.protos[instr.bx() as usize];
                    for upvalue in inner.upvalues.iter().filter(|u| u.in_stack) {
                        pending.captured = pending.captured.min(upvalue.index);
                    }
                }
                Op::Tbc => pending.marked = pending.marked.min(instr.a()),
                Op::TForPrep => pending.marked = pending.marked.min(instr.a() + 3),
                Op::Close => pending = pending.closed_from(instr.a()),
                Op::Return | Op::Return0 | Op::Return1 => {
                    let closes = op == Op::Return && instr.d() == 1;
                    if !closes && pending != Pending::NONE {
                        return Err(format!("a return leaves variables open at instruction {pc}: {instr:?}"));
                    }
                }
                Op::TailCall => {
                    let captured = instr.d() == 0 && pending.captured != u8::MAX;
                    if captured || pending.marked != u8::MAX {
                        return Err(format!(
                            "a tail call leaves variables open at instruction {pc}: {instr:?}"
                        ));
                    }
                }
                _ => {}
            }
            let jumps = is_jump(op).then(|| target(pc, instr) as usize);
            let falls = match op {
                Op::Return | Op::Return0 | Op::Return1 | Op::TailCall => None,
                Op::Jump | Op::JumpBack | Op::TForPrep => None,
                Op::LoadFalseSkip => Some(pc + 2),
                _ => Some(pc + 1),
            };
            for next in jumps.into_iter().chain(falls) {
                let joined = before[next].map_or(pending, |known| known.join(pending));
                if before[next] != Some(joined) {
                    before[next] = Some(joined);
                    work.push(next);
                }
            }
        }
        Ok(())
    }

    /// The instructions of a loop belong together: `FORPREP` and `FORLOOP` jump just past each other;
    /// `TFORPREP` jumps to `TFORCALL`, which stands before its `TFORLOOP`, which jumps behind `TFORPREP`.
    fn for_loop(&self, pc: usize, op: Op, instr: Instr) -> Check {
        let a = instr.a();
        self.registers(a, if op == Op::TForCall { 9 } else { 4 })?;
        let to = target(pc, instr);
        let pair = |at: i64, op: Op| self.op_at(at).filter(|(o, i)| *o == op && i.a() == a);
        let belongs = match op {
            Op::ForPrep => instr.sj() >= 0 && pair(to - 1, Op::ForLoop).is_some(),
            Op::ForLoop => {
                let prep = pair(to - 1, Op::ForPrep);
                instr.sj() < 0 && prep.is_some_and(|(_, p)| to + p.sj() as i64 == pc as i64 + 1)
            }
            Op::TForPrep => instr.sj() >= 0 && pair(to, Op::TForCall).is_some(),
            Op::TForCall => {
                self.registers(a, 4 + instr.b() as usize)?;
                instr.b() >= 1 && pair(pc as i64 + 1, Op::TForLoop).is_some()
            }
            _ => {
                self.register(a as u16 + 4)?;
                let prep = pair(to - 1, Op::TForPrep);
                let calls = pair(pc as i64 - 1, Op::TForCall).is_some();
                let meets = prep.is_some_and(|(_, p)| to + p.sj() as i64 == pc as i64 - 1);
                instr.sj() < 0 && calls && meets
            }
        };
        require(belongs, "a loop's instructions do not belong together")
    }
}
