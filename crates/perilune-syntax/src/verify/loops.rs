//! Loops of a function's code: that their instructions belong together, that only their preparation leads
//! into them, and which registers hold state of a loop at an instruction.

use super::target;
use crate::bytecode::{Instr, Op};
use crate::operands::{Flow, Loop, Registers};

/// Stands for "in no loop".
const NONE: u32 = u32::MAX;

/// The loops of a function.
pub(super) struct Loops {
    loops: Vec<Loop>,
    /// For each loop the registers that hold the state of it or of a loop around it.
    held: Vec<Registers>,
    /// For each instruction the innermost loop that it is one of.
    innermost: Vec<u32>,
}

impl Loops {
    /// Finds and checks them.
    pub(super) fn new(code: &[Instr]) -> Result<Loops, String> {
        for (pc, &instr) in code.iter().enumerate() {
            if !belongs(code, pc, instr) {
                return Err(super::at("a loop's instructions do not belong together", pc, instr));
            }
        }
        let loops: Vec<Loop> = Loop::all(code).collect();
        let mut found =
            Loops { held: Vec::with_capacity(loops.len()), innermost: vec![NONE; code.len()], loops };
        // In the order of their beginnings, so that an inner loop comes after those around it.
        for (n, l) in found.loops.iter().enumerate() {
            let outer = found.innermost[l.prepared];
            let around = found.held.get(outer as usize).copied().unwrap_or_default();
            if found.loops.get(outer as usize).is_some_and(|o| !o.contains(l.last)) {
                return Err(super::at("loops overlap", l.prepared, code[l.prepared]));
            }
            found.held.push(around.or(l.registers()));
            found.innermost[l.prepared + 1..=l.last].fill(n as u32);
        }
        for (pc, &instr) in code.iter().enumerate() {
            let skips = instr.op().is_some_and(|op| op.flow() == Flow::Skips);
            let to = match instr.jump() {
                Some(jump) => target(pc, jump) as usize,
                None if skips => pc + 2,
                None => continue,
            };
            let into = found.loops.get(found.innermost[to] as usize);
            if into.is_some_and(|l| !l.contains(pc) && l.prepared != pc) {
                return Err(super::at("jumps into a loop", pc, instr));
            }
        }
        Ok(found)
    }

    /// The registers that hold state of loops at `pc`.
    pub(super) fn state_at(&self, pc: usize) -> Registers {
        self.held.get(self.innermost[pc] as usize).copied().unwrap_or_default()
    }

    /// The registers that hold state of loops at `pc`, which only the loops' own instructions may write:
    /// those that the instruction at `pc`, if it is such, owns are left out.
    pub(super) fn held_at(&self, pc: usize, instr: Instr) -> Registers {
        let Some(&held) = self.held.get(self.innermost[pc] as usize) else { return Registers::NONE };
        match instr.op() {
            Some(Op::ForLoop | Op::TForCall | Op::TForLoop) => {
                let own = &self.loops[self.innermost[pc] as usize];
                held.without(own.registers())
            }
            _ => held,
        }
    }
}

/// The instructions of a loop belong together: `FORPREP` and `FORLOOP` jump just past each other;
/// `TFORPREP` jumps to `TFORCALL`, which stands before its `TFORLOOP`, which jumps behind `TFORPREP`.
fn belongs(code: &[Instr], pc: usize, instr: Instr) -> bool {
    let at = |at: i64, op: Op| {
        let i = *code.get(usize::try_from(at).ok()?)?;
        (i.op() == Some(op) && i.a() == instr.a()).then_some(i)
    };
    let to = target(pc, instr.sj());
    match instr.op() {
        Some(Op::ForPrep) => at(to - 1, Op::ForLoop).is_some(),
        Some(Op::ForLoop) => {
            at(to - 1, Op::ForPrep).is_some_and(|p| target(to as usize - 1, p.sj()) == pc as i64 + 1)
        }
        Some(Op::TForPrep) => at(to, Op::TForCall).is_some() && at(to + 1, Op::TForLoop).is_some(),
        Some(Op::TForCall) => at(pc as i64 + 1, Op::TForLoop).is_some(),
        Some(Op::TForLoop) => {
            let prepared = at(to - 1, Op::TForPrep);
            let meets = prepared.is_some_and(|p| target(to as usize - 1, p.sj()) == pc as i64 - 1);
            meets && at(pc as i64 - 1, Op::TForCall).is_some()
        }
        _ => true,
    }
}
