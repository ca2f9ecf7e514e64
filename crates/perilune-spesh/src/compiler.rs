//! From logs to machine code: what is worth compiling is compiled, and written down.

use crate::Unavailable;
use crate::backend::{Backend, Options, Unsupported};
use crate::budget::{self, Budget, Price, Stopwatch, Window};
use crate::lower::{self, Cost, Draft, Task};
use crate::memory::{Code, CodeMemory, Kind, MAX_CAPACITY};
use crate::profiles::Profiles;
use crate::units::{self, Unit};
use perilune_syntax::Proto;
use perilune_syntax::operands::Registers;
use perilune_syntax::verify::in_use;
use perilune_vm::machine::{Exits, Log, MachineCode, Recording, Run};
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Of what is recorded, a function has to be one part of so many to be compiled.
const SHARE: u64 = 200;

/// So many functions, at most, are looked at to be inlined in one.
const MOST_CALLEES: usize = 50;
/// Machine code is made if it is expected to cost less than this part of what the interpreter does.
const WORTH: f64 = 0.85;
/// The same where it must not be a loss: what a recording says of the time after it is not exact.
const SURE: f64 = 0.7;
/// What a draft costs, of what compiling does.
const DRAFT: f64 = 0.25;

/// Why something is not compiled.
#[derive(Clone, Copy, Debug)]
enum Why {
    NoGain(Cost),
    /// What would be saved in the time that the program is expected to go on, and what compiling would cost; in nanoseconds.
    TooLittle(f64, f64),
    Failed,
}

/// A function that may be compiled.
struct Candidate {
    number: usize,
    log: Arc<Log>,
    unit: Unit,
    used: Vec<Registers>,
    draft: Draft,
    exits: Arc<Exits>,
    callees: HashMap<usize, Arc<Log>>,
    /// The code that it has already.
    code: Option<Arc<MachineCode>>,
    /// Of all that is known of the function, which part this recording is.
    part: f64,
    /// What compiling it is expected to cost, in nanoseconds.
    price: f64,
}

/// Compiles what logs tell, on whichever thread asks.
pub struct Compiler {
    /// `None`: the system refuses it. Made when something is compiled for the first time.
    memory: OnceLock<Option<Arc<CodeMemory>>>,
    /// Taken while it is in use; it is made anew if it was lost to a panic.
    backend: Mutex<Option<Backend>>,
    quota: u32,
    profiles: Profiles,
    price: Price,
    /// Where every decision is written down.
    report: Option<Mutex<File>>,
}

/// Owns the memory of a piece of machine code.
struct Installed(Option<Code>);

impl Drop for Installed {
    fn drop(&mut self) {
        if let Some(code) = self.0.take() {
            // SAFETY: the VM drops machine code when no instance has it and no run of it is under way (`perilune_vm::machine`), and nothing else has its address.
            unsafe { code.free() }
        }
    }
}

impl Compiler {
    /// Logs are of `quota` instructions. What compiling needs is made when something is to be compiled; if there is no memory for machine code then, everything is interpreted.
    ///
    /// # Errors
    /// There can be no machine code here.
    pub fn new(quota: u32, report: Option<File>) -> Result<Compiler, Unavailable> {
        crate::target::features().map_err(|lack| Unavailable::Processor(Unsupported(lack)))?;
        Ok(Compiler {
            memory: OnceLock::new(),
            backend: Mutex::new(None),
            quota,
            profiles: Profiles::default(),
            price: Price::default(),
            report: report.map(Mutex::new),
        })
    }

    /// Makes now what compiling needs.
    ///
    /// # Errors
    /// There can be no machine code here.
    pub fn prepare(&self) -> Result<(), Unavailable> {
        let memory = CodeMemory::reserve(MAX_CAPACITY).map_err(Unavailable::Memory)?;
        let _ = self.memory.set(Some(memory));
        Ok(())
    }

    fn memory(&self) -> Option<&Arc<CodeMemory>> {
        self.memory.get_or_init(|| CodeMemory::reserve(MAX_CAPACITY).ok()).as_ref()
    }

    /// See [`perilune_vm::machine::Specializer::quota`].
    pub fn quota(&self) -> u32 {
        self.quota
    }

    /// The machine code of a function, if there is some.
    pub fn code_of(&self, proto: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        self.profiles.code_of(proto)
    }

    fn code(&self, task: Task<'_>, draft: Draft) -> Result<Code, Why> {
        let memory = self.memory().ok_or(Why::Failed)?;
        let taken = self.backend.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut backend =
            taken.map_or_else(|| Backend::new(Options::default()).ok(), Some).ok_or(Why::Failed)?;
        // Whatever is wrong with what is built: the loop stays with the interpreter.
        let build = |b: &mut crate::backend::clif::FunctionBuilder<'_>| lower::lower(b, task, draft);
        let compiled = catch_unwind(AssertUnwindSafe(|| backend.compile(lower::signature(), build)));
        let compiled = match compiled {
            Ok(compiled) => {
                *self.backend.lock().unwrap_or_else(PoisonError::into_inner) = Some(backend);
                compiled
            }
            Err(_) if cfg!(debug_assertions) => panic!("the compiler has failed"),
            Err(_) => return Err(Why::Failed),
        };
        match compiled {
            Ok(compiled) => memory.install(&compiled.bytes, Kind::Function).map_err(|_| Why::Failed),
            Err(error) if cfg!(debug_assertions) => panic!("{error}"),
            Err(_) => Err(Why::Failed),
        }
    }

    /// What has come of a unit, of which these instructions are left to the interpreter: bytes, and nanoseconds.
    fn report(&self, log: &Log, unit: &Unit, stepped: &[usize], code: Result<(usize, u64), Why>) {
        let Some(report) = &self.report else { return };
        let proto = log.proto();
        let source = String::from_utf8_lossy(
            proto.source.strip_prefix(b"@").or(proto.source.strip_prefix(b"=")).unwrap_or(&proto.source),
        );
        let line = |at: usize| proto.line_at(at).unwrap_or(0);
        let first = (0..proto.code.len()).find(|&at| unit.contains(at)).unwrap_or(0);
        let what = if unit.starts { "the function" } else { "loops" };
        let what = format!("{source}:{}: {what}, {} instructions", line(first), unit.len());
        let text = match code {
            Err(Why::Failed) => format!("{what}: could not be compiled\n"),
            Err(Why::NoGain(cost)) => format!("{what}: not compiled, nothing would be gained ({cost})\n"),
            Err(Why::TooLittle(worth, cost)) => {
                let [worth, cost] = [worth, cost].map(|nanos| nanos / 1000.0);
                format!("{what}: not compiled yet, {cost:.0} us to save {worth:.0} us\n")
            }
            Ok((bytes, nanos)) => format!("{what}: {bytes} bytes in {} us\n", nanos / 1000),
        };
        let mut text = text;
        for &at in stepped {
            let i = proto.code[at];
            let name = i.op().map_or("?", |op| op.name());
            let times = log.site(at).times();
            if times > 0 {
                text += &format!("    line {}: {name} {times} times, by the interpreter\n", line(at));
            }
        }
        // A report that cannot be written is no reason to stop the program.
        let _ = report.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes());
    }

    /// Machine code for the functions of logs that were made together, by their number, as far as something is to be gained by it. Without a budget it may cost what it will.
    ///
    /// Whether it is depends on the others: a call of what is not compiled leaves machine code, and a function is entered at a cost by callers that are not.
    pub fn compile(
        &self,
        recording: Recording,
        mut budget: Option<&mut Budget>,
    ) -> Vec<(usize, Arc<MachineCode>)> {
        if budget.as_deref_mut().is_some_and(Budget::is_spent) {
            return Vec::new();
        }
        let window = Window { nanos: recording.nanos, instructions: recording.instructions as u64 };
        let purse = budget.map(|budget| (&*budget, window));
        let add = |log: Log| (log.weight(), self.profiles.add(log));
        let logs: Vec<(u64, Arc<Log>)> = recording.logs.into_iter().map(add).collect();
        let heavy = logs.iter().enumerate();
        let heavy = heavy.filter(|(_, (weight, _))| weight * SHARE >= self.quota as u64);
        let mut candidates: Vec<Candidate> = heavy
            .filter_map(|(number, (weight, log))| {
                self.candidate(number, *weight as f64, Arc::clone(log), purse)
            })
            .collect();
        loop {
            let before = candidates.len();
            let costs: Vec<Cost> = candidates.iter().map(|one| self.cost_among(one, &candidates)).collect();
            let groups = groups(&candidates);
            let part = if purse.is_some() { SURE } else { WORTH };
            let whys: Vec<Option<Why>> = candidates
                .iter()
                .enumerate()
                .map(|(n, one)| match costs[n].is_below(part) {
                    _ if one.code.is_some() => None,
                    false => Some(Why::NoGain(costs[n])),
                    true => {
                        let group = (0..candidates.len()).filter(|&m| groups[m] == groups[n]);
                        too_little(group.map(|m| (&candidates[m], costs[m])), purse)
                    }
                })
                .collect();
            let mut whys = whys.into_iter();
            candidates.retain(|one| {
                let why = whys.next().flatten();
                if let Some(why) = why {
                    self.report(&one.log, &one.unit, &one.draft.stepped, Err(why));
                }
                why.is_none()
            });
            if candidates.len() == before {
                break;
            }
        }
        candidates.into_iter().filter_map(|one| Some((one.number, self.made(one)?))).collect()
    }

    /// The function of a log, if it may be compiled.
    fn candidate(
        &self,
        number: usize,
        recent: f64,
        log: Arc<Log>,
        purse: Option<(&Budget, Window)>,
    ) -> Option<Candidate> {
        let unit = units::choose(&log)?;
        let code = self.profiles.code(&log, &unit);
        let price = self.price.of(unit.len(), self.profiles.compiled(&log));
        if code.is_none() {
            // Before the draft, which costs some of what compiling does: what would be saved if every instruction were done as well as can be.
            let best = purse.map(|(budget, window)| budget.worth(Cost::best(recent), window));
            // Others may depend on it, so it need not be worth it alone. Drafts of which nothing came get dearer.
            let price = price * DRAFT * f64::exp2(self.profiles.tries(&log) as f64);
            if unit.len() > budget::LARGEST
                || best.is_some_and(|best| !Budget::invests(best, price))
                || (best.is_none() && !self.profiles.may_try(&log))
            {
                return None;
            }
            if best.is_some() {
                self.profiles.tries_once_more(&log);
            }
        }
        let used = in_use(log.proto()).ok()?;
        let exits = self.profiles.exits(&log);
        let callees = self.callees(&log);
        let task = Task { log: &log, unit: &unit, in_use: &used, exits: &exits, callees: &callees };
        let draft = catch_unwind(AssertUnwindSafe(|| lower::draft(task)));
        let draft = match draft {
            Ok(draft) => draft,
            Err(_) if cfg!(debug_assertions) => panic!("the compiler has failed"),
            Err(_) => return None,
        };
        let part = recent / (log.weight() as f64).max(1.0);
        Some(Candidate { number, log, unit, used, draft, exits, callees, code, part, price })
    }

    /// What the functions have met that may be inlined in that of a log, by their number.
    fn callees(&self, log: &Log) -> HashMap<usize, Arc<Log>> {
        let called = |log: &Log| -> Vec<usize> {
            (0..log.proto().code.len()).map(|at| log.site(at).callee).filter(|&callee| callee != 0).collect()
        };
        let (mut known, mut wanted) = (HashMap::new(), called(log));
        while let Some(function) = wanted.pop() {
            if known.contains_key(&function) || known.len() == MOST_CALLEES {
                continue;
            }
            if let Some(log) = self.profiles.log(function).filter(|log| lower::is_inlinable(log)) {
                wanted.extend(called(&log));
                known.insert(function, log);
            }
        }
        known
    }

    /// What a function costs if only the candidates, and what is compiled already, are machine code.
    fn cost_among(&self, one: &Candidate, candidates: &[Candidate]) -> Cost {
        let is_compiled = |function: usize| {
            candidates.iter().any(|other| other.log.function() == function && other.unit.starts)
                || self.profiles.is_compiled(function)
        };
        let mut cost = one.draft.cost;
        let function = one.log.function();
        let sites = (0..one.log.proto().code.len()).map(|at| (at, one.log.site(at)));
        let called = sites.filter(|(at, _)| one.unit.contains(*at) && !one.draft.inlined.contains(at));
        let (mut calls, mut direct) = (0u32, 0u32);
        for (_, site) in called.filter(|(_, site)| site.calls > 0) {
            calls = calls.saturating_add(site.calls);
            if !site.callees && is_compiled(site.callee) {
                direct = direct.saturating_add(site.calls);
            }
        }
        // Calls of one function or another: those of candidates know who called them.
        let others = candidates.iter().filter(|other| other.unit.starts);
        let known = others.fold(0u32, |sum, other| sum.saturating_add(other.log.calls_from(function)));
        cost.leaves(calls.saturating_sub(direct.max(known)));
        let entered = candidates.iter().fold(0u32, |sum, other| {
            let calls = one.log.calls_from(other.log.function());
            sum.saturating_add(calls)
        });
        if one.unit.starts {
            cost.enters(one.log.calls().saturating_sub(entered));
            let others = candidates.iter().filter(|other| other.log.function() != function);
            let called =
                others.fold(0u32, |sum, other| sum.saturating_add(one.log.calls_from(other.log.function())));
            cost.is_called(called);
        } else {
            cost.enters(units::entered(&one.log, &one.unit));
        }
        cost
    }

    /// The code of a candidate.
    fn made(&self, one: Candidate) -> Option<Arc<MachineCode>> {
        if one.code.is_some() {
            return one.code;
        }
        let Candidate { log, unit, used, draft, exits, callees, .. } = one;
        let begun = Stopwatch::start();
        let task = Task { log: &log, unit: &unit, in_use: &used, exits: &exits, callees: &callees };
        let protos = draft.protos.clone();
        let stepped = draft.stepped.clone();
        let code = self.code(task, draft);
        let nanos = begun.nanos();
        self.price.learn(unit.len(), nanos);
        self.report(&log, &unit, &stepped, code.as_ref().map(|code| (code.len(), nanos)).map_err(|why| *why));
        let code = code.ok()?;
        let entries = unit.entries(log.proto());
        // SAFETY: the address is that of a function of this signature, which does what `lower` says.
        let code = unsafe {
            let run = std::mem::transmute::<usize, Run>(code.address());
            let length = code.len();
            let memory = Box::new((Installed(Some(code)), protos));
            MachineCode::new(Arc::clone(log.proto()), (run, length), unit.starts, &entries, exits, memory)
        };
        self.profiles.keep(&log, unit, &code);
        Some(code)
    }
}

/// For each candidate the number of its group: those of a group call each other, one way or another.
fn groups(candidates: &[Candidate]) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..candidates.len()).collect();
    for (n, one) in candidates.iter().enumerate() {
        for at in (0..one.log.proto().code.len()).filter(|&at| one.unit.contains(at)) {
            let site = one.log.site(at);
            let callee = candidates.iter().position(|other| other.log.function() == site.callee);
            let Some(callee) = callee.filter(|_| site.calls > 0) else { continue };
            let (own, other) = (groups[n], groups[callee]);
            groups.iter_mut().filter(|group| **group == other).for_each(|group| *group = own);
        }
    }
    groups
}

/// Why not to compile a group of functions at these costs of running them: what they save together is too little for what compiling them costs.
fn too_little<'a>(
    group: impl Iterator<Item = (&'a Candidate, Cost)>,
    purse: Option<(&Budget, Window)>,
) -> Option<Why> {
    let (budget, window) = purse?;
    let (mut worth, mut price) = (0.0, 0.0);
    for (one, cost) in group {
        worth += budget.worth(cost.saves() * one.part, window);
        price += if one.code.is_none() { one.price } else { 0.0 };
    }
    (!Budget::invests(worth, price)).then_some(Why::TooLittle(worth, price))
}
