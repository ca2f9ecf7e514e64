//! From logs to machine code: what is worth compiling is compiled, and written down.

use crate::backend::{Backend, Options, Unsupported};
use crate::budget::{self, Budget, PROMISING, Price, Stopwatch, Window};
use crate::lower::{self, Cost, Draft, Failures, Task};
use crate::memory::{self, Code, CodeMemory, InstallError, Kind, Refused};
use crate::perf::{Perf, Source};
use crate::places::{Map, Places};
use crate::profiles::{Forecast, Profiles, are_near};
use crate::report::{self, Decisions, Outcome, Subject};
use crate::room::{self, Room};
use crate::trials::Trials;
use crate::units::{self, Region, Unit};
use crate::{Setup, Unavailable};
use perilune_syntax::Proto;
use perilune_syntax::operands::Registers;
use perilune_syntax::verify::in_use;
use perilune_trace::event::{self, Bytes, Category, Count, Ns};
use perilune_vm::machine::{Departures, Log, MachineCode, Recording, Run, Site};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Of what is recorded, a function has to be one part of so many to be compiled, with what its calls cost if
/// it is not.
const SHARE: u64 = 200;

/// Of a group that gains too little, one part of so many is dropped at once.
const DROPPED: usize = 4;
/// So many functions, at most, are looked at to be inlined in one.
const MOST_CALLEES: usize = 50;
/// So often in each instruction recorded a call has to be made for each instruction of the function that it
/// calls if that is to be built in its place, beside an instruction that has been built in place of others
/// already. So what is hot is built in place, what is small too, and larger functions do not become several
/// times as large by calls that are hardly made (8 calls in 10,000 beside a hundred).
const LEAST_CALLS: f64 = 8.0e-6;
/// Machine code is made if it is expected to cost less than this part of what the interpreter does.
const WORTH: f64 = 0.85;
/// The same where it must not be a loss: what a recording says of the time after it is not exact.
const SURE: f64 = 0.7;

/// A function is not compiled by itself if this part of its calls is built in place of them.
const IN_PLACE: f64 = 0.9;

/// An instruction of intermediate form becomes at least so many bytes.
const LEAST_BYTES: usize = 3;

/// Why something is not compiled.
#[derive(Clone, Copy, Debug)]
enum Why {
    NoGain(Cost),
    /// What would be saved in the time that the program is expected to go on, and what compiling would cost;
    /// in nanoseconds.
    TooLittle(f64, f64),
    /// It is built in place where it is called.
    InPlace,
    /// There is no room for more code.
    NoRoom,
    Failed,
}

impl Why {
    fn outcome(self) -> Outcome {
        match self {
            Why::NoGain(cost) => {
                Outcome::NoGain { compiled: cost.compiled(), interpreted: cost.interpreted() }
            }
            Why::TooLittle(worth, cost) => Outcome::TooLittle { worth, cost },
            Why::InPlace => Outcome::InPlace,
            Why::NoRoom => Outcome::NoRoom,
            Why::Failed => Outcome::Failed,
        }
    }
}

/// What a candidate has.
enum What {
    /// The code that was made of it before.
    Code(Arc<MachineCode>),
    Draft(Box<Drafted>),
    /// What an earlier draft came to, which was not worth it then.
    Forecast(Forecast),
}

/// A function that has no code, and how far it has come.
struct Drafted {
    used: Vec<Registers>,
    draft: Draft,
    failures: Failures,
    callees: HashMap<usize, Arc<Log>>,
    failures_of_callees: HashMap<usize, Failures>,
    /// See [`Task::least`].
    least: f64,
}

impl Drafted {
    fn task<'a>(&'a self, log: &'a Log, unit: &'a Unit, trials: Trials) -> Task<'a> {
        let Drafted { used, failures, callees, failures_of_callees, least, .. } = self;
        Task { log, unit, in_use: used, failures, callees, failures_of_callees, least: *least, trials }
    }
}

/// A function that may be compiled, or is.
struct Candidate {
    number: usize,
    log: Arc<Log>,
    unit: Unit,
    what: What,
    /// Of all that is known of the function, which part the average recording has.
    part: f64,
    /// What compiling it is expected to cost, in nanoseconds.
    price: f64,
    /// See [`Budget::lasts`].
    lasts: f64,
}

impl Candidate {
    /// It has no code yet.
    fn is_new(&self) -> bool {
        !matches!(self.what, What::Code(_))
    }

    /// What code of it is expected to cost when it runs, and the calls that are built in place; `None`: it
    /// has code.
    fn expected(&self) -> Option<(Cost, &HashSet<usize>)> {
        match &self.what {
            What::Code(_) => None,
            What::Draft(drafted) => Some((drafted.draft.cost, &drafted.draft.inlined)),
            What::Forecast(forecast) => Some((forecast.cost(&self.log), forecast.inlined())),
        }
    }
}

/// Compiles what logs tell, on whichever thread asks.
pub struct Compiler {
    /// `None`: the system refuses it. Made when something is compiled for the first time.
    memory: OnceLock<Option<Arc<CodeMemory>>>,
    /// Taken while it is in use; it is made anew if it was lost to a panic.
    backend: Mutex<Option<Backend>>,
    /// How much code there may be, in bytes.
    capacity: usize,
    room: Room,
    quota: u32,
    profiles: Profiles,
    price: Price,
    /// Where every decision goes.
    decisions: Arc<Decisions>,
    trials: Trials,
    /// What addresses stand for.
    map: Arc<Map>,
    perf: Option<Perf>,
}

/// Owns the memory of a piece of machine code.
struct Installed {
    code: Option<Code>,
    /// The code has its address.
    _departures: Option<Box<Departures>>,
    map: Arc<Map>,
}

impl Drop for Installed {
    fn drop(&mut self) {
        if let Some(code) = self.code.take() {
            self.map.remove(code.address());
            // SAFETY: the VM drops machine code when no instance has it and no run of it is under way
            // (`perilune_vm::machine`), and nothing else has its address.
            unsafe { code.free() }
        }
    }
}

/// Memory for so many bytes of machine code, where samplers find it.
fn reserve(capacity: usize) -> Result<Arc<CodeMemory>, Refused> {
    let memory = CodeMemory::reserve(capacity)?;
    perilune_vm::machine::set_code_region(memory.range());
    Ok(memory)
}

impl Compiler {
    /// Logs are of `quota` instructions. What compiling needs is made when something is to be compiled; if
    /// there is no memory for machine code then, everything is interpreted.
    ///
    /// # Errors
    /// There can be no machine code here.
    pub fn new(quota: u32, setup: Setup) -> Result<Compiler, String> {
        crate::target::supported().map_err(|lack| Unsupported(lack).to_string())?;
        let perf = match setup.perf.as_str() {
            "" => None,
            word => {
                let format = word.parse().map_err(|e| format!("PERILUNE_PERF: {e}"))?;
                Some(Perf::create(format).map_err(|e| format!("PERILUNE_PERF: {e}"))?)
            }
        };
        let capacity = match setup.room.as_str() {
            "" => memory::capacity(),
            word => room::parse(word).ok_or_else(|| {
                format!("PERILUNE_SPESH_ROOM: '{word}' is no number of KiB from 64 to 65536")
            })?,
        };
        Ok(Compiler {
            capacity,
            room: Room::default(),
            memory: OnceLock::new(),
            backend: Mutex::new(None),
            quota,
            profiles: Profiles::default(),
            price: Price::default(),
            decisions: setup.decisions,
            trials: Trials::parse(&setup.guards, &setup.leave, &setup.generator)?,
            map: Arc::default(),
            perf,
        })
    }

    /// Makes now what compiling needs.
    ///
    /// # Errors
    /// There can be no machine code here.
    pub fn prepare(&self) -> Result<(), Unavailable> {
        let memory = reserve(self.capacity).map_err(Unavailable::Memory)?;
        let _ = self.memory.set(Some(memory));
        Ok(())
    }

    fn memory(&self) -> Option<&Arc<CodeMemory>> {
        self.memory.get_or_init(|| reserve(self.capacity).ok()).as_ref()
    }

    /// See [`perilune_vm::machine::Specializer::retirements`].
    pub fn retirements(&self) -> u32 {
        self.room.retirements()
    }

    /// See [`perilune_vm::machine::Specializer::quota`].
    pub fn quota(&self) -> u32 {
        self.quota
    }

    /// The machine code of a function, if there is some.
    pub fn code_of(&self, proto: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        self.profiles.code_of(proto)
    }

    /// What an address in machine code stands for.
    pub fn locate(&self, address: usize) -> Vec<(Arc<Proto>, usize)> {
        self.map.find(address)
    }

    fn code(&self, task: Task<'_>, draft: &mut Draft) -> Result<(Installed, Places), Why> {
        let memory = self.memory().ok_or(Why::Failed)?;
        // Before it costs something.
        let free = memory.usage().map_or(0, |usage| usage.capacity - usage.installed);
        if self.room.is_awaited() && free < draft.size * LEAST_BYTES {
            return Err(Why::NoRoom);
        }
        let options = Options { verify: self.trials.verify };
        let taken = self.backend.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut backend = taken.map_or_else(|| Backend::new(options).ok(), Some).ok_or(Why::Failed)?;
        // Whatever is wrong with what is built: the loop stays with the interpreter.
        let mut passes = 0;
        let build = |b: &mut crate::ssa::Builder<'_>| {
            passes += 1;
            lower::lower(b, task, draft) || passes == lower::MOST_PASSES
        };
        let compiled = catch_unwind(AssertUnwindSafe(|| backend.compile_when(lower::signature(), build)));
        let compiled = match compiled {
            Ok(compiled) => {
                *self.backend.lock().unwrap_or_else(PoisonError::into_inner) = Some(backend);
                compiled
            }
            Err(_) if cfg!(debug_assertions) => panic!("the compiler has failed"),
            Err(_) => return Err(Why::Failed),
        };
        match compiled {
            Ok(compiled) => {
                let code = memory.install(&compiled.bytes, Kind::Function).map_err(|error| match error {
                    InstallError::Full { wanted, .. } => {
                        self.room.make(wanted, self.capacity, self.profiles.codes());
                        Why::NoRoom
                    }
                    InstallError::Inherited => Why::Failed,
                })?;
                let places = Places::new(compiled.positions, std::mem::take(&mut draft.built));
                let (_departures, map) = (compiled.departures, Arc::clone(&self.map));
                Ok((Installed { code: Some(code), _departures, map }, places))
            }
            Err(error) if cfg!(debug_assertions) => panic!("{error}"),
            Err(_) => Err(Why::Failed),
        }
    }

    /// Where decisions go.
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// What functions have met behind exits.
    pub fn learn(&self, logs: Vec<Log>) {
        logs.into_iter().for_each(|log| self.profiles.learn(log));
    }

    /// Machine code for the functions of logs that were made together, by their number, as far as something
    /// is to be gained by it. Without a budget it may cost what it will.
    ///
    /// Whether something is gained depends on the others: a call of what is not compiled leaves machine code,
    /// and a function is entered at a cost by callers that are not.
    pub fn compile(
        &self,
        recording: Recording,
        budget: Option<&mut Budget>,
    ) -> Vec<(usize, Arc<MachineCode>)> {
        let Some(budget) = budget else { return self.compile_worthy(recording, None).0 };
        let (codes, spent) = self.compile_worthy(recording, Some(budget));
        budget.spend(spent);
        codes
    }

    /// The same, with what it has cost, in nanoseconds.
    fn compile_worthy(
        &self,
        recording: Recording,
        mut budget: Option<&mut Budget>,
    ) -> (Vec<(usize, Arc<MachineCode>)>, u64) {
        let program = budget.as_deref_mut().map_or(0, |budget| {
            let program = budget.program();
            budget.earn(recording.interpreted.into());
            program
        });
        let window = self.profiles.begins(&recording, program);
        let is_spent = budget.as_deref().is_some_and(Budget::is_spent);
        let purse = budget.map(|budget| (&*budget, window));
        // A call that leaves machine code costs its caller more than a small function does.
        let counts = |log: &Log| log.weight() + log.calls() as u64 * lower::LEAVING as u64;
        let add = |log: Log| {
            let (heavy, rounds) = (counts(&log) * SHARE >= self.quota as u64, units::rounds(&log));
            (heavy, rounds, self.profiles.add(log))
        };
        let logs: Vec<(bool, Vec<Region>, Arc<Log>)> = recording.logs.into_iter().map(add).collect();
        // What has been recorded is known from now on, whether there is time to make something of it or not.
        if is_spent {
            return (Vec::new(), 0);
        }
        let begun = Stopwatch::start();
        let heavy = logs.iter().enumerate().filter(|(_, (heavy, ..))| *heavy);
        let is_hopeless = |log: &Log| purse.is_some() && self.profiles.is_hopeless(log);
        let (hopeless, hopeful): (Vec<_>, Vec<_>) = heavy.partition(|(_, (.., log))| is_hopeless(log));
        let candidate = |(number, (_, rounds, log)): &(usize, &(bool, Vec<Region>, Arc<Log>))| {
            self.candidate(*number, Arc::clone(log), rounds, purse)
        };
        let mut candidates: Vec<Candidate> = hopeful.iter().filter_map(candidate).collect();
        // What gains nothing alone may, with those that call it, or that it calls.
        let is_near = |log: &Log| candidates.iter().any(|one| one.is_new() && are_near(&one.log, log));
        let near: Vec<_> = hopeless.iter().filter(|(_, (.., log))| is_near(log)).collect();
        candidates.extend(near.into_iter().filter_map(candidate));
        let part = if purse.is_some() { SURE } else { WORTH };
        loop {
            while self.drops_one_by_one(&mut candidates, part)
                || self.drops_groups(&mut candidates, part, purse)
                || self.drops_excess(&mut candidates, purse)
            {}
            // What earlier drafts came to was enough: now they are made again, and asked once more.
            if candidates.iter().all(|one| !matches!(one.what, What::Forecast(_))) {
                break;
            }
            candidates = candidates.into_iter().filter_map(|one| self.drafted_anew(one, purse)).collect();
        }
        if purse.is_some_and(|(budget, _)| budget.is_young()) {
            self.drops_what_is_in_place(&mut candidates);
        }
        // Beside the program each domain has got what there was before, and what is no news makes it look for
        // more at once: a server was recorded a hundred times a second by that, for as long as it ran.
        let news = candidates.into_iter().filter(|one| purse.is_none() || one.is_new());
        let codes = news.filter_map(|one| Some((one.number, self.made(one)?))).collect();
        (codes, begun.nanos())
    }

    /// Drops candidates by which the others would gain nothing. Whether there was one: then the others cost
    /// something else.
    fn drops_one_by_one(&self, candidates: &mut Vec<Candidate>, part: f64) -> bool {
        let costs = candidates.iter().map(|one| self.cost_among(one, candidates, true));
        let whys: Vec<Option<Why>> = costs
            .map(|cost| Some(Why::NoGain(cost?)).filter(|_| !cost.is_some_and(|c| c.is_below(part))))
            .collect();
        self.drop_for(candidates, whys)
    }

    /// Of groups of functions that call each other, and gain too little all together, drops those by which
    /// the group loses most. Without them the rest may be worth it.
    fn drops_groups(
        &self,
        candidates: &mut Vec<Candidate>,
        part: f64,
        purse: Option<(&Budget, Window)>,
    ) -> bool {
        let costs: Vec<Option<Cost>> =
            candidates.iter().map(|one| self.cost_among(one, candidates, false)).collect();
        let groups = groups(candidates);
        let mut whys: Vec<Option<Why>> = vec![None; candidates.len()];
        for group in 0..candidates.len() {
            let members = (0..candidates.len()).filter(|&n| groups[n] == group && costs[n].is_some());
            let members: Vec<usize> = members.collect();
            let with_costs = members.iter().filter_map(|&n| Some((&candidates[n], costs[n]?)));
            let Some(why) = too_little(with_costs, part, purse).filter(|_| !members.is_empty()) else {
                continue;
            };
            self.worst(candidates, &members).into_iter().for_each(|n| whys[n] = Some(why));
        }
        self.drop_for(candidates, whys)
    }

    /// Drops those by which least is gained, if all together cost more than may be spent at once.
    fn drops_excess(&self, candidates: &mut Vec<Candidate>, purse: Option<(&Budget, Window)>) -> bool {
        let Some((budget, window)) = purse else { return false };
        let drafts = (0..candidates.len()).filter(|&n| candidates[n].is_new());
        let drafts: Vec<usize> = drafts.collect();
        let price: f64 = drafts.iter().map(|&n| candidates[n].price).sum();
        let worth_of = |n: usize, alone: bool| {
            let saves = self.cost_among(&candidates[n], candidates, alone).map_or(0.0, Cost::saves);
            budget.worth(saves * candidates[n].part * candidates[n].lasts, window)
        };
        let worth: f64 = drafts.iter().map(|&n| worth_of(n, false)).sum();
        if drafts.len() < 2 || budget.affords(price, worth) {
            return false;
        }
        let mut whys: Vec<Option<Why>> = vec![None; candidates.len()];
        for n in self.worst(candidates, &drafts) {
            whys[n] = Some(Why::TooLittle(worth_of(n, true), candidates[n].price));
        }
        self.drop_for(candidates, whys)
    }

    /// Drops functions that nearly all who call them have in place: nobody would run their own code. One after
    /// the other: of two that call each other one stays.
    fn drops_what_is_in_place(&self, candidates: &mut Vec<Candidate>) {
        while let Some(n) = (0..candidates.len()).find(|&n| self.is_in_place(&candidates[n], candidates)) {
            let whys = (0..candidates.len()).map(|other| (other == n).then_some(Why::InPlace)).collect();
            self.drop_for(candidates, whys);
        }
    }

    /// Whether the others have a function in place of nearly all calls of it.
    fn is_in_place(&self, one: &Candidate, candidates: &[Candidate]) -> bool {
        if !one.unit.starts || !one.is_new() {
            return false;
        }
        let function = one.log.function();
        let mut calls = HashSet::default();
        for other in candidates.iter().filter(|other| other.log.function() != function) {
            // What is interpreted although code is there that has it in place is so for a reason.
            let What::Draft(drafted) = &other.what else { continue };
            let of_it = drafted.draft.in_place.iter().filter(|(_, callee)| **callee == function);
            // A call of a function that several of them have in place is one call.
            calls.extend(of_it.map(|(call, _)| *call));
        }
        let made =
            |&(caller, at): &(usize, usize)| self.profiles.log(caller).map_or(0, |log| log.calls_at(at));
        let built: f64 = calls.iter().map(|call| made(call) as f64).sum();
        built > 0.0 && built >= one.log.calls() as f64 * IN_PLACE
    }

    /// Those of `members` without which the others lose least, for what they cost: some of them.
    fn worst(&self, candidates: &[Candidate], members: &[usize]) -> Vec<usize> {
        let gain = |n: usize| {
            let one = &candidates[n];
            let saves = self.cost_among(one, candidates, true).map_or(0.0, Cost::saves);
            saves * one.part / one.price.max(1.0)
        };
        let mut gains: Vec<(f64, usize)> = members.iter().map(|&n| (gain(n), n)).collect();
        gains.sort_by(|one, other| one.0.total_cmp(&other.0));
        gains.into_iter().map(|(_, n)| n).take(members.len().div_ceil(DROPPED)).collect()
    }

    /// Whether any is dropped.
    fn drop_for(&self, candidates: &mut Vec<Candidate>, whys: Vec<Option<Why>>) -> bool {
        let before = candidates.len();
        let mut whys = whys.into_iter();
        candidates.retain(|one| {
            let why = whys.next().flatten();
            if let Some(Why::NoGain(cost)) = why {
                self.profiles.gains_nothing(&one.log, cost.part());
            }
            let of = (&one.log, &one.unit);
            match (why, &one.what) {
                (Some(why), What::Draft(drafted)) => {
                    let draft = &drafted.draft;
                    self.decisions.note(&subject(of, draft, &drafted.callees), why.outcome());
                    let forecast = Forecast::new(&one.log, &one.unit, draft.cost, draft.size, &draft.inlined);
                    self.profiles.foresee(&one.log, forecast);
                }
                (Some(why), What::Forecast(forecast)) if forecast.is_rough() => {
                    let (draft, callees) = (Draft::default(), HashMap::default());
                    self.decisions.note(&subject(of, &draft, &callees), why.outcome());
                }
                _ => {}
            }
            why.is_none()
        });
        candidates.len() < before
    }

    /// The function of a log, if it may be compiled. These loops have come round in the last recording.
    fn candidate(
        &self,
        number: usize,
        log: Arc<Log>,
        rounds: &[Region],
        purse: Option<(&Budget, Window)>,
    ) -> Option<Candidate> {
        let usual = self.profiles.usual_weight(&log);
        let unit = units::choose(&log, rounds, self.profiles.made(&log).as_ref())?;
        let part = usual / (log.weight() as f64).max(1.0);
        let what = match self.profiles.code(&log, &unit) {
            Some(code) => What::Code(code),
            None if self.profiles.is_short(&log, &unit) => return None,
            None => match self.profiles.forecast(&log, &unit).filter(|_| purse.is_some()) {
                Some(forecast) => What::Forecast(forecast),
                // Who wants to have everything explained gets the draft.
                None if purse.is_some() && !self.decisions.are_kept() => {
                    What::Forecast(self.at_a_glance(usual, &log, &unit, purse)?)
                }
                None => What::Draft(Box::new(self.drafted(usual, &log, &unit, purse)?)),
            },
        };
        let size = match &what {
            What::Code(_) => 0,
            What::Draft(drafted) => drafted.draft.size,
            What::Forecast(forecast) => forecast.size(),
        };
        let price = self.price.of(size, self.profiles.compiled(&log, &unit));
        let lasts = purse.map_or(1.0, |(budget, _)| lasts(budget, &log));
        Some(Candidate { number, log, unit, what, part, price, lasts })
    }

    /// The candidate with a draft in place of what an earlier one came to, if it may be worth compiling.
    fn drafted_anew(&self, one: Candidate, purse: Option<(&Budget, Window)>) -> Option<Candidate> {
        if !matches!(one.what, What::Forecast(_)) {
            return Some(one);
        }
        let usual = one.part * one.log.weight() as f64;
        let drafted = Box::new(self.drafted(usual, &one.log, &one.unit, purse)?);
        let price = self.price.of(drafted.draft.size, self.profiles.compiled(&one.log, &one.unit));
        Some(Candidate { what: What::Draft(drafted), price, ..one })
    }

    /// What code of a function may come to, if it may be worth a draft. Two of three drafts were made of what
    /// gains nothing, or not yet, and all of them cost more than compiling did: with what is known without one
    /// some of these are dropped.
    fn at_a_glance(
        &self,
        usual: f64,
        log: &Arc<Log>,
        unit: &Unit,
        purse: Option<(&Budget, Window)>,
    ) -> Option<Forecast> {
        if !self.may_draft(usual, log, unit, purse) {
            return None;
        }
        let built =
            |function: usize| self.profiles.log(function).is_some_and(|log| lower::is_inlinable(&log));
        let (cost, inlined) = Cost::at_a_glance(log, unit, built);
        let size = (Price::expected_size(unit.seen(log)) as f64 * PROMISING) as usize;
        Some(Forecast::new(log, unit, cost, size, &inlined).rough())
    }

    /// Whether a draft of a function may be made.
    fn may_draft(&self, usual: f64, log: &Arc<Log>, unit: &Unit, purse: Option<(&Budget, Window)>) -> bool {
        // Before the draft, which costs some of what compiling does: what would be saved if every instruction
        // were done as well as can be. Others may depend on it, so it need not be worth it alone. Drafts of
        // which nothing came get dearer.
        let price = self.price.of_bytecode(unit.seen(log), self.profiles.compiled(log, unit));
        let price = price * PROMISING * f64::exp2(self.profiles.tries(log) as f64);
        let is_worth_it = match purse {
            Some((budget, window)) => {
                let worth = budget.worth(Cost::best(usual), window);
                budget.invests(worth * lasts(budget, log), worth, price, window.ahead)
            }
            None => self.profiles.may_try(log),
        };
        is_worth_it && !self.is_too_large(log, unit) && !(purse.is_some() && self.cannot_gain(log, unit))
    }

    /// Whether the function is larger than what is compiled: that is told.
    fn is_too_large(&self, log: &Arc<Log>, unit: &Unit) -> bool {
        let too_large = unit.seen(log) > budget::LARGEST || unit.len() > budget::LONGEST;
        if too_large {
            let (draft, callees) = (Draft::default(), HashMap::default());
            self.decisions.note(&subject((log, unit), &draft, &callees), Outcome::TooLarge);
        }
        too_large
    }

    /// The draft of a function, if it may be worth compiling.
    fn drafted(
        &self,
        usual: f64,
        log: &Arc<Log>,
        unit: &Unit,
        purse: Option<(&Budget, Window)>,
    ) -> Option<Drafted> {
        if !self.may_draft(usual, log, unit, purse) {
            return None;
        }
        if purse.is_some() {
            self.profiles.tries_once_more(log);
        }
        let used = in_use(log.proto()).ok()?;
        let failures = Failures::of(self.profiles.exits(log), log.proto());
        let callees = self.callees(log);
        let of_callee = |(&number, log): (&usize, &Arc<Log>)| {
            (number, Failures::of(self.profiles.exits(log), log.proto()))
        };
        let failures_of_callees = callees.iter().map(of_callee).collect();
        // Counts of the log are those of so many usual recordings.
        let recordings = log.weight() as f64 / usual.max(1.0);
        let least = purse.map_or(0.0, |_| LEAST_CALLS * recordings * self.quota as f64);
        let mut drafted =
            Drafted { used, draft: Draft::default(), failures, callees, failures_of_callees, least };
        let begun = Stopwatch::start();
        match catch_unwind(AssertUnwindSafe(|| lower::draft(drafted.task(log, unit, self.trials)))) {
            Ok(draft) => {
                self.price.learn_from_draft(draft.size, begun.nanos());
                drafted.draft = draft;
            }
            Err(_) if cfg!(debug_assertions) => panic!("the compiler has failed"),
            Err(_) => return None,
        }
        Some(drafted)
    }

    /// Whether no draft of it could say that enough is gained: it is natives nearly all the time. Who wants
    /// to have everything explained gets the draft.
    fn cannot_gain(&self, log: &Arc<Log>, unit: &Unit) -> bool {
        let Some((cost, plain)) = Cost::at_best(log, unit) else { return false };
        if cost.is_below(SURE) || self.decisions.are_kept() {
            return false;
        }
        self.profiles.gains_nothing(log, cost.part());
        let (mut draft, callees) = (Draft::default(), HashMap::default());
        draft.stepped = plain;
        let subject = subject((log, unit), &draft, &callees);
        self.decisions.note(&subject, Why::NoGain(cost).outcome());
        true
    }

    /// What the functions have met that a log's calls, or may be called where they are inlined in it, by
    /// their number.
    fn callees(&self, log: &Log) -> HashMap<usize, Arc<Log>> {
        let called = |log: &Log| -> Vec<usize> {
            (0..log.proto().code.len()).map(|at| log.site(at).callee).filter(|&callee| callee != 0).collect()
        };
        let (mut known, mut wanted) = (HashMap::default(), called(log));
        while let Some(function) = wanted.pop() {
            if known.contains_key(&function) || known.len() == MOST_CALLEES {
                continue;
            }
            if let Some(log) = self.profiles.log(function) {
                if lower::is_inlinable(&log) {
                    wanted.extend(called(&log));
                }
                known.insert(function, log);
            }
        }
        known
    }

    /// What a function without code costs if only the candidates, and what is compiled already, are machine
    /// code; `None`: it has code.
    ///
    /// Without it its callers would leave machine code. That is what it saves if `alone`, if it is asked
    /// whether to leave it out; else callers of which there is no code yet save that themselves.
    fn cost_among(&self, one: &Candidate, candidates: &[Candidate], alone: bool) -> Option<Cost> {
        let is_compiled = |function: usize| {
            candidates.iter().any(|other| other.log.function() == function && other.unit.starts)
                || self.profiles.is_compiled(function)
        };
        let (mut cost, inlined) = one.expected()?;
        let function = one.log.function();
        let sites = (0..one.log.proto().code.len()).map(|at| (at, one.log.site(at)));
        let called = sites.filter(|(at, _)| one.unit.contains(*at) && !inlined.contains(at));
        // What has code already is entered by the interpreter for each call that it makes.
        let made = |site: &Site| site.calls > 0 && self.profiles.is_compiled(site.callee);
        let inside = (0..one.log.proto().code.len()).filter(|&at| one.unit.contains(at));
        let entered = inside.map(|at| one.log.site(at)).filter(|site| made(site));
        cost.spares_entries(entered.fold(0u32, |sum, site| sum.saturating_add(site.calls)));
        let (mut calls, mut direct) = (0u32, 0u32);
        for (_, site) in called.filter(|(_, site)| site.calls > 0) {
            calls = calls.saturating_add(site.calls);
            // Of several the last one stands for all.
            if is_compiled(site.callee) {
                direct = direct.saturating_add(site.calls);
            }
        }
        let calls_from = |callee: &Log, callers: &mut dyn Iterator<Item = &Candidate>| {
            callers.fold(0u32, |sum, other| sum.saturating_add(callee.calls_from(other.log.function())))
        };
        // Calls of one function or another: those of candidates know who called them.
        let others = candidates.iter().filter(|other| other.unit.starts);
        let known = others.fold(0u32, |sum, other| sum.saturating_add(other.log.calls_from(function)));
        cost.leaves(calls.saturating_sub(direct.max(known)));
        if one.unit.starts {
            let entered = calls_from(&one.log, &mut candidates.iter());
            let begun = one.log.calls_from_natives();
            cost.begins(begun);
            cost.enters(one.log.calls().saturating_sub(entered).saturating_sub(begun));
            let leave = |other: &&Candidate| {
                other.log.function() != function && (alone || matches!(other.what, What::Code(_)))
            };
            cost.is_called(calls_from(&one.log, &mut candidates.iter().filter(leave)));
        } else {
            cost.enters(units::entered(&one.log, &one.unit));
        }
        Some(cost)
    }

    /// The code of a candidate.
    fn made(&self, one: Candidate) -> Option<Arc<MachineCode>> {
        let Candidate { log, unit, what, .. } = one;
        let mut drafted = match what {
            What::Code(code) => return Some(code),
            What::Draft(drafted) => drafted,
            What::Forecast(_) => return None,
        };
        let begun = Stopwatch::start();
        let mut draft = std::mem::take(&mut drafted.draft);
        if perilune_trace::on(Category::Compile) {
            let (name, instructions) = (report::event_name(log.proto()), Count::from(unit.len()));
            perilune_trace::emit(event::CompileBegin { name, instructions });
        }
        let code = self.code(drafted.task(&log, &unit, self.trials), &mut draft);
        let nanos = begun.nanos();
        let length = |of: &Installed| of.code.as_ref().map_or(0, Code::len);
        let size = Bytes::from(code.as_ref().map_or(0, |(installed, _)| length(installed)));
        perilune_trace::emit(event::CompileEnd { size, used: Ns(nanos), failed: code.is_err() });
        self.price.learn(draft.size, nanos);
        let of = (&log, &unit);
        let subject = subject(of, &draft, &drafted.callees);
        let outcome = match &code {
            Ok((installed, _)) => Outcome::Compiled { bytes: length(installed) as u64, nanos },
            Err(why) => why.outcome(),
        };
        self.decisions.note(&subject, outcome);
        let (installed, places) = code.ok()?;
        let code = installed.code.as_ref().expect("nobody has taken it");
        let (address, length) = (code.address(), code.len());
        let places = Arc::new(places);
        if let Some(perf) = &self.perf {
            tell_perf(perf, code, &places, log.proto());
        }
        self.map.insert(address, length, places);
        let mut entries = unit.entries(log.proto());
        let returns = unit.returns(log.proto()).into_iter();
        let built = returns.filter(|(call, _)| draft.entered.contains(&(*call as usize)));
        entries.extend(built.map(|(call, entry)| (call + 1, entry)));
        // SAFETY: the address is that of a function of this signature, which does what `lower` says.
        let code = unsafe {
            let run = Run::at(address);
            // What the code refers to: functions, counts, and points.
            let counts: Vec<_> =
                drafted.failures_of_callees.values().map(|f| Arc::clone(f.exits())).collect();
            let memory = (installed, draft.protos, counts, draft.points);
            let memory = Box::new(memory);
            let proto = Arc::clone(log.proto());
            MachineCode::new(
                proto,
                (run, length),
                unit.starts,
                &entries,
                &draft.shapes,
                Arc::clone(drafted.failures.exits()),
                memory,
            )
        };
        self.profiles.keep(&log, unit, &code);
        Some(code)
    }
}

/// Tells `perf` of a piece; a file that cannot be written is no reason to stop the program.
fn tell_perf(perf: &Perf, code: &Code, places: &Places, proto: &Proto) {
    let lines = places.lines();
    let pairs: Vec<(u32, u32)> = lines.iter().map(|(offset, _, line)| (*offset, *line)).collect();
    let file = report::source_of(proto);
    let name = String::from_utf8_lossy(&perilune_vm::machine::place_of(proto)).into_owned();
    let _ = perf.record(code, &name, Source { file: &file, lines: &pairs });
}

/// See [`Budget::lasts`].
fn lasts(budget: &Budget, log: &Log) -> f64 {
    budget.lasts(log.proto().born.age())
}

/// What a decision is about.
fn subject<'a>(
    (log, unit): (&'a Arc<Log>, &Unit),
    draft: &'a Draft,
    callees: &'a HashMap<usize, Arc<Log>>,
) -> Subject<'a> {
    let inside = (0..log.proto().code.len()).filter(|&at| unit.contains(at)).collect();
    let (stepped, inlined) = (&draft.stepped, &draft.inlined);
    Subject { log, starts: unit.starts, inside, stepped, inlined, unmade: &draft.unmade, callees }
}

/// For each candidate the number of its group: those of a group call each other, one way or another.
fn groups(candidates: &[Candidate]) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..candidates.len()).collect();
    for (n, one) in candidates.iter().enumerate() {
        for (m, other) in candidates.iter().enumerate() {
            if groups[m] != groups[n] && other.log.calls_from(one.log.function()) > 0 {
                let (own, others) = (groups[n], groups[m]);
                groups.iter_mut().filter(|group| **group == others).for_each(|group| *group = own);
            }
        }
    }
    groups
}

/// Why not to compile a group of functions at these costs of running them: together they gain nothing that is
/// sure, or too little for what compiling them costs.
fn too_little<'a>(
    group: impl Iterator<Item = (&'a Candidate, Cost)>,
    part: f64,
    purse: Option<(&Budget, Window)>,
) -> Option<Why> {
    let (mut cost, mut saves, mut lasting, mut price) = (Cost::default(), 0.0, 0.0, 0.0);
    for (one, own) in group {
        cost.add(own);
        saves += own.saves() * one.part;
        lasting += own.saves() * one.part * one.lasts;
        price += one.price;
    }
    if !cost.is_below(part) {
        return Some(Why::NoGain(cost));
    }
    let (budget, window) = purse?;
    let (worth, at_most) = (budget.worth(lasting, window), budget.worth(saves, window));
    (!budget.invests(worth, at_most, price, window.ahead)).then_some(Why::TooLittle(worth, price))
}
