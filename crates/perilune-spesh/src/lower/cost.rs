//! What machine code is expected to cost, and what the interpreter would.

use super::Lowering;
use crate::units::Unit;
use perilune_syntax::{Instr, Op};
use perilune_vm::machine::{Log, OTHER_KEY, Site};
use perilune_vm::{Effect, Intrinsic, Kind, Native};
use rustc_hash::FxHashSet;

/// What the function would cost with and without machine code, as often as the log has seen each instruction,
/// in instructions of the interpreter.
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

    /// The interpreter would call machine code so often.
    pub fn spares_entries(&mut self, calls: u32) {
        self.interpreted += calls as f64 * LEAVING / 2.0;
    }

    /// Natives call the function: its machine code is begun directly.
    pub fn begins(&mut self, calls: u32) {
        self.compiled -= calls as f64 * BEGINNING;
    }

    /// Machine code makes so many calls of the function, and would leave for it.
    pub fn is_called(&mut self, calls: u32) {
        self.compiled -= calls as f64 * LEAVING;
    }

    /// Both together.
    pub fn add(&mut self, other: Cost) {
        self.interpreted += other.interpreted;
        self.compiled += other.compiled;
    }

    /// The same where all of it is done so many times as often.
    pub fn times(self, times: f64) -> Cost {
        Cost { interpreted: self.interpreted * times, compiled: self.compiled * times }
    }

    /// What so many instructions of the interpreter could save at best.
    pub fn best(instructions: f64) -> f64 {
        instructions * (1.0 - DONE)
    }

    /// What machine code is expected to cost.
    pub fn compiled(self) -> f64 {
        self.compiled
    }

    /// What the interpreter would.
    pub fn interpreted(self) -> f64 {
        self.interpreted
    }

    /// What machine code saves.
    pub fn saves(self) -> f64 {
        self.interpreted - self.compiled
    }

    /// Which part machine code is expected to cost of what the interpreter does.
    pub fn part(self) -> f64 {
        self.compiled / self.interpreted.max(1.0)
    }

    /// Machine code is expected to cost less than this part of what the interpreter does.
    pub fn is_below(self, part: f64) -> bool {
        self.compiled < self.interpreted * part
    }
}

/// What an instruction costs that machine code does itself.
const DONE: f64 = 0.35;
/// What one costs that is a call of a leaf.
const LEAF: f64 = 1.0;
/// What an allocation costs.
const ALLOCATED: f64 = 8.0;
/// What it costs to leave one to the interpreter, with what has to be stored before and guarded after it.
const STEPPED: f64 = 2.5;
/// What a call and its return cost in the interpreter, and in machine code.
const CALL: f64 = 3.0;
/// What it costs to find a metamethod that machine code calls itself.
const FOUND: f64 = 2.0 * LEAF;
/// What a call costs that an instruction makes which is no call, if the interpreter has to: it begins it, the
/// driver runs it, and its return takes the general way. An estimate, from one program of proxies.
const DRIVEN: f64 = 12.0;
/// What it costs to go on in another coroutine, in the interpreter and in machine code.
const SWITCH: f64 = 16.0;
/// What it costs less to begin a function as machine code, where a native calls it: no run of the interpreter
/// has to be prepared. (It is about twice that, of what a short one costs.)
const BEGINNING: f64 = 3.0;
/// What it costs to leave machine code, and to enter it again.
pub const LEAVING: f64 = 15.0;

/// What a native costs that machine code does itself, in line or by its quick form.
fn native(native: &Native) -> f64 {
    let in_line =
        native.intrinsic.is_some_and(|intrinsic| !matches!(intrinsic, Intrinsic::Select | Intrinsic::Sub));
    let form = native.quick.map(|quick| quick.effect).or(native.several.map(|several| several.effect));
    match form.filter(|_| !in_line) {
        None => DONE,
        Some(Effect::Allocates) => 0.6 * ALLOCATED,
        Some(_) => 2.0 * LEAF,
    }
}

/// Whether another coroutine goes on where this is called.
fn switches(native: &Native) -> bool {
    matches!(native.kind, Kind::Resume | Kind::Yield | Kind::Wrap)
}

/// Whether a generic loop over this calls it: the steps of some are instructions.
fn is_called(native: &Native) -> bool {
    !matches!(native.kind, Kind::Next | Kind::IpairsStep)
}

/// What an instruction costs in the interpreter, without the function of Lua that it calls.
fn alone(i: Instr, site: &Site) -> f64 {
    match i.op() {
        Some(Op::NewTable | Op::Closure | Op::Concat) => 15.0,
        Some(Op::Call | Op::TForCall) if site.native.is_some_and(switches) => SWITCH,
        Some(Op::Call | Op::TailCall) if site.calls == 0 => 8.0,
        Some(Op::SetList) => 10.0,
        Some(Op::GetIndex | Op::SetIndex) if site.arrays & OTHER_KEY != 0 => 2.0,
        Some(Op::GetField | Op::SetField | Op::SelfCall) if site.shapes => 2.0,
        Some(Op::TForCall) if site.native.is_some_and(is_called) => 8.0,
        Some(Op::TForCall) => 4.0,
        _ => 1.0,
    }
}

/// Whether machine code does no better at a call than the interpreter: it is one of a native that there is
/// nothing quicker for.
fn is_plainly_called(i: Instr, site: &Site) -> bool {
    let calls = matches!(i.op(), Some(Op::Call | Op::TForCall)) && site.calls == 0;
    let has_form = |native: &Native| native.quick.is_some() || native.several.is_some();
    let is_slow = |native: &Native| native.intrinsic.is_none() && !has_form(native) && native.calls_no_lua();
    calls && site.native.is_some_and(|native| is_slow(native) && native.kind != Kind::Next)
}

impl Cost {
    /// What the unit costs if machine code does all of it as well as can be, but for what natives do, and is
    /// what calls it: no draft says less. With the instructions that there is nothing quicker for. The log
    /// alone tells it, unless the unit calls functions of Lua, which may be built in place.
    pub fn at_best(log: &Log, unit: &Unit) -> Option<(Cost, Vec<usize>)> {
        let code = &log.proto().code;
        let (mut cost, mut plain) = (Cost::default(), Vec::new());
        for (at, &i) in code.iter().enumerate().filter(|(at, _)| unit.contains(*at)) {
            let site = log.site(at);
            if site.calls > 0 {
                return None;
            }
            let (times, own) = (site.times() as f64, alone(i, site));
            let is_plain = is_plainly_called(i, site);
            plain.extend(is_plain.then_some(at));
            cost.interpreted += times * own;
            cost.compiled += times * if is_plain { own } else { DONE };
        }
        cost.is_called(log.calls());
        Some((cost, plain))
    }
}

/// What an instruction costs that machine code does, without the function of Lua that it calls.
fn done(i: Instr, site: &Site) -> f64 {
    match i.op() {
        Some(Op::NewTable | Op::Closure) => ALLOCATED,
        Some(Op::SetList) => ALLOCATED / 2.0,
        Some(Op::Concat) => 1.5 * ALLOCATED,
        Some(Op::Call | Op::TailCall) if site.calls == 0 => site.native.map_or(DONE, native),
        Some(Op::GetIndex | Op::SetIndex) if site.arrays & OTHER_KEY != 0 => LEAF,
        Some(Op::SelfCall) if site.shapes => LEAF,
        Some(Op::GetField) if !site.fields.lacking().is_empty() => DONE,
        Some(Op::GetField | Op::SetField) if site.shapes && site.fields.own().is_empty() => LEAF,
        _ => DONE,
    }
}

/// The same of one that is left to the interpreter, where it costs `own`.
fn stepped(site: &Site, own: f64) -> f64 {
    match site.native {
        Some(native) if native.calls_no_lua() && site.calls == 0 => own + STEPPED / 2.0,
        Some(native) if switches(native) => own * 0.5,
        _ => own + STEPPED,
    }
}

/// What it costs that a function is called, which is built in place or not.
fn called(i: Instr, inlined: bool) -> f64 {
    let is_call = matches!(i.op(), Some(Op::Call | Op::TailCall | Op::TForCall));
    match inlined {
        true if is_call => 0.0,
        true => FOUND,
        false if is_call => CALL * 0.5,
        false if super::metamethods::is_called(i) => FOUND + CALL * 0.5,
        false => DRIVEN,
    }
}

/// How often it has left machine code.
fn left(i: Instr, site: &Site) -> f64 {
    let ends = matches!(i.op(), Some(Op::Return | Op::Return0 | Op::Return1 | Op::TailCall));
    // What comes back to machine code has not left it, as far as can be told.
    if ends || site.is_special() { 0.0 } else { site.leaves as f64 }
}

impl Cost {
    /// What the unit would cost by the log alone, before there is a draft, if functions of Lua of which
    /// `built` is true are built in place of their calls, and if it has to be told by what is known of the
    /// instruction alone whether the interpreter does it. With the calls that are built in place.
    pub fn at_a_glance(log: &Log, unit: &Unit, built: impl Fn(usize) -> bool) -> (Cost, FxHashSet<usize>) {
        let (mut cost, mut inlined) = (Cost::default(), FxHashSet::default());
        for (at, &i) in log.proto().code.iter().enumerate().filter(|(at, _)| unit.contains(*at)) {
            let site = log.site(at);
            let (times, own) = (site.times() as f64, alone(i, site));
            let is_built = site.calls > 0 && !site.callees && built(site.callee);
            if is_built {
                inlined.insert(at);
            }
            cost.interpreted += times * own + site.calls as f64 * CALL;
            let what = if is_plainly_called(i, site) { stepped(site, own) } else { done(i, site) };
            cost.compiled += times * what + site.calls as f64 * called(i, is_built) + left(i, site) * LEAVING;
        }
        (cost, inlined)
    }
}

impl Lowering<'_, '_> {
    /// Instruction `at` has been lowered.
    pub(super) fn count(&mut self, at: usize) {
        if self.stepped {
            self.all_stepped.push(at);
        }
        let (i, site) = (self.code(at), self.site(at));
        let (times, own) = (site.times() as f64, alone(i, site));
        self.cost.interpreted += times * own + site.calls as f64 * CALL;
        let what = if self.stepped { stepped(site, own) } else { done(i, site) };
        let inlined = self.frames.iter().any(|frame| frame.call == Some(at));
        self.cost.compiled += times * what + site.calls as f64 * called(i, inlined) + left(i, site) * LEAVING;
    }
}
