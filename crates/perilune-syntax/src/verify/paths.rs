//! What holds on every way through a function: which registers have been written, which variables may be
//! captured or marked to be closed.
//!
//! The walk starts at the first instruction with the parameters and follows every way, in the order of the
//! code. Where ways meet, a register counts as written if all have written it, and as captured or marked if
//! one has. An instruction is looked at again only when one of these sets has changed before it, which for a
//! register happens three times at most.

use super::loops::Loops;
use super::{at, require, set, target};
use crate::bytecode::{Instr, Op};
use crate::operands::{Flow, Kind, Loop, Registers};
use crate::proto::Proto;
use std::collections::{BTreeSet, HashMap};

/// What is known before an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
struct State {
    /// Registers that hold values on every way here.
    written: Registers,
    /// Registers to which an open upvalue may refer.
    captured: Registers,
    /// Registers that may be marked to be closed.
    marked: Registers,
}

impl State {
    fn join(self, other: State) -> State {
        State {
            written: self.written.and(other.written),
            captured: self.captured.or(other.captured),
            marked: self.marked.or(other.marked),
        }
    }
}

/// Checks every way through the function, and tells which registers hold something before an instruction, for
/// each way that comes to it: what is told last holds for all.
pub(super) fn check(
    proto: &Proto,
    loops: &Loops,
    mut tell: impl FnMut(usize, Registers),
) -> Result<(), String> {
    let start = State {
        written: Registers::range(0, proto.num_params as usize),
        captured: Registers::NONE,
        marked: Registers::NONE,
    };
    // States are kept where ways can meet; between such places the walk just goes on.
    let mut known: HashMap<usize, State> = HashMap::new();
    let mut meets = vec![false; proto.code.len()];
    for (pc, &instr) in proto.code.iter().enumerate() {
        let skips = instr.op().is_some_and(|op| op.flow() == Flow::Skips);
        if let Some(jump) = instr.jump() {
            meets[target(pc, jump) as usize] = true;
        } else if skips {
            meets[pc + 2] = true;
        }
    }
    meets[0] = true;
    known.insert(0, start);
    let mut work = BTreeSet::from([0]);
    while let Some(first) = work.pop_first() {
        let mut pc = first;
        let Some(mut state) = known.get(&pc).copied() else { continue };
        loop {
            let instr = proto.code[pc];
            let op = instr.op().ok_or("no such opcode")?;
            tell(pc, Step { proto, loops, pc, instr }.in_use(&state));
            let after =
                Step { proto, loops, pc, instr }.take(op, state).map_err(|what| at(what, pc, instr))?;
            let mut arrive = |to: usize, state: State| {
                let joined = known.get(&to).map_or(state, |k| k.join(state));
                if known.get(&to) != Some(&joined) {
                    known.insert(to, joined);
                    work.insert(to);
                }
            };
            if let Some(jump) = instr.jump() {
                arrive(target(pc, jump) as usize, after.jumped);
            }
            pc = match op.flow() {
                Flow::Ends => break,
                Flow::Skips => {
                    arrive(pc + 2, after.stayed);
                    break;
                }
                Flow::Next => pc + 1,
            };
            if meets[pc] {
                arrive(pc, after.stayed);
                break;
            }
            state = after.stayed;
        }
    }
    Ok(())
}

/// The states after an instruction.
struct After {
    jumped: State,
    stayed: State,
}

struct Step<'p> {
    proto: &'p Proto,
    loops: &'p Loops,
    pc: usize,
    instr: Instr,
}

impl Step<'_> {
    /// Checks the instruction in the state before it.
    fn take(&self, op: Op, mut state: State) -> Result<After, &'static str> {
        let i = self.instr;
        let held = self.loops.held_at(self.pc, i);
        self.reads(op, &state)?;
        let captures = self.captures(op);
        require(held.is_apart(captures), "captures the state of a loop")?;
        require(state.written.or(Registers::range(i.a() as usize, 1)).has(captures), "captures nothing")?;
        state.captured = state.captured.or(captures);

        let mut clobbered = Registers::NONE;
        let (mut always, mut if_jumps, mut if_stays) = Default::default();
        let mut hidden = Registers::NONE;
        for &operand in op.operands() {
            if let Some(first) = operand.clobbers(i) {
                clobbered = clobbered.or(Registers::from(first));
            }
            let Some(span) = operand.writes(i) else { continue };
            let to: &mut Registers = match operand.kind {
                Kind::DefIfJumps(_) => &mut if_jumps,
                Kind::DefIfStays(_) => &mut if_stays,
                Kind::Hide(_) => &mut hidden,
                _ => &mut always,
            };
            *to = to.or(set(span));
        }
        let written = always.or(if_jumps).or(if_stays);
        let touched = clobbered.or(written).or(hidden);
        require(held.is_apart(touched), "writes the state of a loop")?;
        require(state.captured.is_apart(clobbered), "lays a frame over a captured variable")?;
        require(state.marked.is_apart(touched), "writes a variable that is to be closed")?;
        if op.prepares_loop() {
            let own = Loop::prepared_at(self.pc, i).map_or(Registers::NONE, |l| l.registers());
            require(state.captured.is_apart(own), "a captured variable in the state of a loop")?;
        }
        for operand in op.operands() {
            match operand.kind {
                Kind::Mark(n) => {
                    state.marked = state.marked.or(Registers::range(i.a() as usize + n as usize, 1))
                }
                Kind::Close => self.closed_from(i.a() as usize, &mut state),
                _ => {}
            }
        }
        self.leaves(op, &state)?;

        // What an open definition writes ends at the top, and what follows takes it as a whole.
        let open = i.open_def().map_or(Registers::NONE, Registers::from);
        state.written = state.written.without(clobbered).without(hidden).or(always).without(open);
        let with = |more: Registers| State { written: state.written.or(more), ..state };
        Ok(After { jumped: with(if_jumps), stayed: with(if_stays) })
    }

    /// What holds something before the instruction.
    fn in_use(&self, state: &State) -> Registers {
        let open = self.pc.checked_sub(1).and_then(|before| self.proto.code[before].open_def());
        let gathered = match self.instr.op() {
            // The arguments, whatever their number.
            Some(Op::VarargPrep) => Registers::from(0),
            _ => open.map_or(Registers::NONE, Registers::from),
        };
        state.written.or(state.captured).or(state.marked).or(self.loops.state_at(self.pc)).or(gathered)
    }

    /// Every register that it reads has been written.
    fn reads(&self, op: Op, state: &State) -> Result<(), &'static str> {
        for operand in op.operands() {
            let Some(span) = operand.reads(self.instr) else { continue };
            let registers = match span.count {
                Some(_) => set(span),
                // Up to what the instruction before has written, which goes on to the top.
                None => {
                    let open = self.pc.checked_sub(1).and_then(|before| self.proto.code[before].open_def());
                    Registers::range(span.first, open.unwrap_or(256).saturating_sub(span.first))
                }
            };
            require(state.written.has(registers), "reads a register that holds nothing")?;
        }
        Ok(())
    }

    /// The registers that the new function's upvalues refer to.
    fn captures(&self, op: Op) -> Registers {
        if op != Op::Closure {
            return Registers::NONE;
        }
        let inner = &self.proto.protos[self.instr.bx() as usize];
        let captured = inner.upvalues.iter().filter(|u| u.in_stack);
        captured.fold(Registers::NONE, |set, u| set.or(Registers::range(u.index as usize, 1)))
    }

    fn closed_from(&self, register: usize, state: &mut State) {
        state.captured = state.captured.without(Registers::from(register));
        state.marked = state.marked.without(Registers::from(register));
    }

    /// What leaves the function leaves nothing open behind.
    fn leaves(&self, op: Op, state: &State) -> Result<(), &'static str> {
        let closes = self.instr.d() == 1;
        match op {
            Op::Return | Op::Return0 | Op::Return1 => {
                let open = !state.captured.is_empty() || !state.marked.is_empty();
                require(!open || op == Op::Return && closes, "a return leaves variables open")
            }
            Op::TailCall => {
                let open = !state.captured.is_empty() && !closes || !state.marked.is_empty();
                require(!open, "a tail call leaves variables open")
            }
            _ => Ok(()),
        }
    }
}
