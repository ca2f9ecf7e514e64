//! What machine code is expected to cost, and what the interpreter would.

use super::Lowering;
use perilune_syntax::Op;

/// What the function would cost with and without machine code, as often as the log has seen each instruction, in instructions of the interpreter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub(super) interpreted: f64,
    pub(super) compiled: f64,
}

impl Cost {
    /// Calls leave machine code.
    pub fn leaves(&mut self, calls: u32) {
        self.compiled += calls as f64 * LEAVING;
    }

    /// The interpreter calls the function.
    pub fn enters(&mut self, calls: u32) {
        self.compiled += calls as f64 * LEAVING / 2.0;
    }

    /// Machine code makes so many calls of the function, and would leave for it.
    pub fn is_called(&mut self, calls: u32) {
        self.compiled -= calls as f64 * LEAVING;
    }

    /// What so many instructions of the interpreter could save at best.
    pub fn best(instructions: f64) -> f64 {
        instructions * (1.0 - DONE)
    }

    /// What machine code saves.
    pub fn saves(self) -> f64 {
        self.interpreted - self.compiled
    }

    /// Machine code is expected to cost less than this part of what the interpreter does.
    pub fn is_below(self, part: f64) -> bool {
        self.compiled < self.interpreted * part
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.0} for {:.0}", self.compiled, self.interpreted)
    }
}

/// What an instruction costs that machine code does itself.
const DONE: f64 = 0.35;
/// What it costs to leave one to the interpreter, with what has to be stored before and guarded after it.
const STEPPED: f64 = 2.5;
/// What a call and its return cost in the interpreter, and in machine code.
const CALL: f64 = 3.0;
/// What it costs to leave machine code, and to enter it again.
const LEAVING: f64 = 15.0;

impl Lowering<'_, '_> {
    /// Instruction `at` has been lowered.
    pub(super) fn count(&mut self, at: usize) {
        if self.stepped {
            self.all_stepped.push(at);
        }
        let site = self.site(at);
        let ends = self
            .code(at)
            .op()
            .is_some_and(|op| matches!(op, Op::Return | Op::Return0 | Op::Return1 | Op::TailCall));
        let (times, leaves) = (site.times() as f64, if ends { 0.0 } else { site.leaves as f64 });
        let own = match self.code(at).op() {
            Some(Op::NewTable | Op::Closure | Op::Concat) => 15.0,
            Some(Op::Call) if site.calls == 0 => 8.0,
            Some(Op::TForCall) => 4.0,
            _ => 1.0,
        };
        self.cost.interpreted += times * own + site.calls as f64 * CALL;
        self.cost.compiled += times * if self.stepped { own + STEPPED } else { DONE };
        let inlined = self.frames.iter().any(|frame| frame.call == Some(at));
        let call = if inlined { 0.0 } else { CALL * 0.5 };
        self.cost.compiled += site.calls as f64 * call + leaves * LEAVING;
    }
}
