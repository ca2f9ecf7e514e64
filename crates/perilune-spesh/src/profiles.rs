//! What is known of each function, from the logs of all domains: statistics, and its machine code.
//!
//! A function is known by the address of its prototype, as long as that lives. Logs of it are added up, so
//! that code that is made anew knows what the last one was made from. Nothing here keeps a prototype or a
//! code alive: who is gone is forgotten when the next ones are noted.
//!
//! Code that was given up (`perilune_vm::machine`) is not handed out again: it has met what the statistics
//! did not know.
//!
//! # What part of the program a function is
//! A recording is a few ten microseconds long, and begins where a tick has found something that is
//! interpreted. What has the most of it may be a thousandth of the program: with many functions of that kind,
//! one after the other is found, compiled, and gains nothing. So what a function is worth is asked of all
//! recordings together, the last ones counting for more (programs go through phases). How much less one counts
//! for later is a matter of the program's age, not of how many have come since: a quarter when the program is
//! twice as old, and [`FADES`] for each at least.
//!
//! Recordings are samples of the program's time, for ticks come evenly. So which part of the time is library
//! functions is asked of each by itself, and averaged. Added up, one in which a file was loaded counted for forty:
//! `Bounce` of are-we-fast-yet, whose modules are loaded when the first recording is made, was interpreted for 40 to
//! 60 ms in some of its runs, and 10 to 20 in others.
//!
//! Rejected: the last recording alone (`programs/compiler` spent all that compiling may cost on its parser,
//! 5% of it, and interpreted its loop, 68%, for 200 ms); the part of the ticks that found something
//! interpreted as a factor (what is worth compiling came too late: code of `programs/harbour` and `adventure`
//! by a fifth of the program); what ticks have found, by function (they are too few in the first tenth of a
//! second).

use crate::budget::{Window, part_of_lua};
use crate::lower::Cost;
use crate::units::Unit;
use perilune_syntax::Proto;
use perilune_vm::machine::{Exits, Log, MachineCode, Recording};
use rustc_hash::FxHashSet;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Two drafts say the same if their costs are as near as this, as parts of what the interpreter does.
const SAME: f64 = 0.02;

/// What is known of a function. The log keeps the prototype, until the next time that somebody looks whether
/// anybody else does.
struct Profile {
    log: Arc<Log>,
    code: Option<(Unit, Weak<MachineCode>)>,
    /// Where codes of it have been left.
    exits: Arc<Exits>,
    /// How often it has been tried to make code.
    tries: u32,
    /// How many logs have been added.
    logs: u32,
    /// So many logs there have to be until the next draft: the last one said that nothing would be gained.
    next: u32,
    /// Which part of what the interpreter does machine code would have cost by that.
    hopeless: f64,
    /// How often machine code has been made.
    compiled: u32,
    /// What was known when code of its loops had been entered for next to nothing.
    short: Short,
    /// How many of its instructions have been recorded, fading, as of [`Recordings::age`] then.
    weight: (f64, f64),
    /// What the last draft came to, which was not worth compiling.
    forecast: Option<Forecast>,
}

/// What a draft has come to. Drafts cost a quarter of what compiling does, and what is not worth it today may
/// be tomorrow: until there are twice as many logs of the function, or it has got other code, a new draft
/// would say much the same. (`DeltaBlue`, of are-we-fast-yet, spent two thirds of what compiling may cost on
/// drafts of the same functions.)
#[derive(Clone, Debug)]
pub struct Forecast {
    unit: Unit,
    cost: Cost,
    /// What the log weighed.
    weight: u64,
    size: usize,
    inlined: Arc<FxHashSet<usize>>,
    /// How many logs there were, and codes.
    logs: u32,
    compiled: u32,
    /// There has been no draft.
    is_rough: bool,
}

impl Forecast {
    /// Of a draft of a log's function: the code's cost by that log, its size, and the calls that it has in
    /// place.
    pub fn new(log: &Log, unit: &Unit, cost: Cost, size: usize, inlined: &FxHashSet<usize>) -> Forecast {
        let inlined = Arc::new(inlined.clone());
        Forecast {
            unit: unit.clone(),
            cost,
            weight: log.weight().max(1),
            size,
            inlined,
            logs: 0,
            compiled: 0,
            is_rough: false,
        }
    }

    /// The same before there is a draft.
    pub fn rough(self) -> Forecast {
        Forecast { is_rough: true, ..self }
    }

    /// Whether there has been no draft.
    pub fn is_rough(&self) -> bool {
        self.is_rough
    }

    /// The code's cost by a later log of the function.
    pub fn cost(&self, log: &Log) -> Cost {
        self.cost.times(log.weight() as f64 / self.weight as f64)
    }

    /// How many instructions of intermediate form there are.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The calls that are built in place.
    pub fn inlined(&self) -> &FxHashSet<usize> {
        &self.inlined
    }
}

/// Whether one of these functions calls the other, as far as that was noted.
pub fn are_near(one: &Log, other: &Log) -> bool {
    one.calls_from(other.function()) > 0 || other.calls_from(one.function()) > 0
}

/// What a recording counts for when there has been one more, at least.
const FADES: f64 = 0.75;

/// What recordings have been like, fading. An average is this, divided by `count`.
#[derive(Clone, Copy, Debug, Default)]
struct Recordings {
    /// What one that was made when this was less counts for by now is `e` to the power of the difference,
    /// negated.
    age: f64,
    /// What the program had taken when the last one came, in nanoseconds.
    program: u64,
    count: f64,
    instructions: f64,
    /// See [`Window::lua`].
    lua: f64,
    /// What the last one says.
    interpreted: f64,
    /// How long loops go on that were under way in the last one, in nanoseconds.
    ahead: f64,
}

impl Recordings {
    /// There is one more, of a program that has taken so many nanoseconds.
    fn add(&mut self, recording: &Recording, program: u64) {
        let passed = self.program as f64 / program.max(1) as f64;
        let fades = (passed * passed).clamp(FADES, 1.0);
        let fade = |sum: &mut f64, value: f64| *sum = *sum * fades + value;
        self.age -= fades.ln();
        self.program = program;
        fade(&mut self.count, 1.0);
        let instructions = recording.instructions as f64;
        let lua = part_of_lua(instructions, recording.library as f64);
        fade(&mut self.instructions, instructions);
        fade(&mut self.lua, lua);
        self.interpreted = recording.interpreted as f64;
        let own = Window { instructions, lua, interpreted: 1.0, ahead: 0.0 };
        self.ahead = (recording.ahead * own.nanos()).max(recording.ahead_nanos);
    }

    /// What is left by now of what was `weight` at this age.
    fn faded(&self, (weight, age): (f64, f64)) -> f64 {
        weight * (age - self.age).exp()
    }

    /// The average one.
    fn window(&self) -> Window {
        Window {
            instructions: self.instructions / self.count,
            lua: self.lua / self.count,
            interpreted: self.interpreted,
            ahead: self.ahead,
        }
    }
}

/// Code of loops that was entered for next to nothing: what was known when that was last looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Short {
    /// How often it had been.
    times: u32,
    /// How many logs of the function there were.
    logs: u32,
    /// How many functions had been given code.
    made: u32,
}

impl Short {
    /// How many logs there have to be before the like of it is made again: four times as many each time. If
    /// other functions have got code since (`made` have by now), half of that exponent: what the loop left
    /// machine code for may be some by now.
    fn until(self, made: u32) -> u32 {
        let times = self.times.min(12);
        let more = if made == self.made { 4 << (2 * times) } else { 1 << times };
        self.logs.saturating_add(more)
    }
}

impl Profile {
    /// What the function has met since is added. Nothing is copied, unless somebody looks at it just now: what
    /// is known is much more than what one recording says.
    fn add(&mut self, later: Log) {
        Arc::make_mut(&mut self.log).add(later);
    }

    /// The code, if it is alive and has not been given up.
    fn code(&self) -> Option<Arc<MachineCode>> {
        let code = self.code.as_ref()?.1.upgrade()?;
        (!code.is_given_up()).then_some(code)
    }

    /// Nobody but the statistics and the code refer to the prototype.
    fn is_over(&self) -> bool {
        let code = self.code.as_ref().map_or(0, |(_, code)| code.strong_count());
        code == 0 && Arc::strong_count(self.log.proto()) <= 1
    }
}

/// All functions of which something is known.
#[derive(Default)]
pub struct Profiles {
    functions: Mutex<HashMap<usize, Profile>>,
    /// Taken alone.
    recordings: Mutex<Recordings>,
    /// How often a function has been given code.
    made: AtomicU32,
}

impl Profiles {
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, Profile>> {
        self.functions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recordings(&self) -> Recordings {
        *self.recordings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is one more recording, whose logs are about to be added: what the average one is.
    pub fn begins(&self, recording: &Recording, program: u64) -> Window {
        let mut recordings = self.recordings.lock().unwrap_or_else(PoisonError::into_inner);
        recordings.add(recording, program);
        recordings.window()
    }

    /// How many instructions of a log's function the average recording has.
    pub fn usual_weight(&self, log: &Log) -> f64 {
        let recordings = self.recordings();
        let profiles = self.lock();
        let weight = profiles.get(&log.function()).map_or((0.0, 0.0), |profile| profile.weight);
        recordings.faded(weight) / recordings.count.max(1.0)
    }

    /// Adds a log: everything that is known of its function.
    pub fn add(&self, mut log: Log) -> Arc<Log> {
        let recordings = self.recordings();
        let mut profiles = self.lock();
        let key = Arc::as_ptr(log.proto()) as usize;
        let own = log.weight() as f64;
        if let Some(known) = profiles.get_mut(&key) {
            known.weight = (recordings.faded(known.weight) + own, recordings.age);
            known.add(log);
            known.logs = known.logs.saturating_add(1);
            return Arc::clone(&known.log);
        }
        if profiles.len() == profiles.capacity() {
            profiles.retain(|_, profile| !profile.is_over());
        }
        log.shrink();
        let log = Arc::new(log);
        let exits = Exits::new(log.proto());
        let log_of = Arc::clone(&log);
        profiles.insert(
            key,
            Profile {
                log: log_of,
                code: None,
                exits,
                tries: 0,
                logs: 1,
                next: 0,
                hopeless: 0.0,
                compiled: 0,
                short: Short::default(),
                weight: (own, recordings.age),
                forecast: None,
            },
        );
        log
    }

    /// Adds what a function has met behind an exit, if something is known of it.
    pub fn learn(&self, log: Log) {
        if let Some(known) = self.lock().get_mut(&(Arc::as_ptr(log.proto()) as usize)) {
            known.add(log);
        }
    }

    /// What is known of the function of this number ([`Log::function`]).
    pub fn log(&self, function: usize) -> Option<Arc<Log>> {
        self.lock().get(&function).map(|profile| Arc::clone(&profile.log))
    }

    /// Where codes of a log's function have been left, and will be.
    pub fn exits(&self, log: &Log) -> Arc<Exits> {
        let profiles = self.lock();
        let known = profiles.get(&(Arc::as_ptr(log.proto()) as usize));
        known.map_or_else(|| Exits::new(log.proto()), |profile| Arc::clone(&profile.exits))
    }

    /// Whether to try once more: each try takes twice as many logs as the last one.
    pub fn may_try(&self, log: &Log) -> bool {
        let mut profiles = self.lock();
        let Some(profile) = profiles.get_mut(&(Arc::as_ptr(log.proto()) as usize)) else { return true };
        let due = profile.logs >= 1 << profile.tries.min(31);
        profile.tries += due as u32;
        due
    }

    /// Whether code of these loops was entered for next to nothing, and would be again, as far as can be
    /// told.
    pub fn is_short(&self, log: &Log, unit: &Unit) -> bool {
        let made = self.made.load(Ordering::Relaxed);
        let mut profiles = self.lock();
        let Some(profile) = profiles.get_mut(&(Arc::as_ptr(log.proto()) as usize)) else { return false };
        let times = profile.exits.short();
        if times > profile.short.times {
            profile.short = Short { times, logs: profile.logs, made };
        }
        let is_the_same = profile.code.as_ref().is_some_and(|(known, _)| known.covers(unit));
        !unit.starts && is_the_same && times > 0 && profile.logs < profile.short.until(made)
    }

    /// How often it has been tried in vain to make machine code of a log's function.
    pub fn tries(&self, log: &Log) -> u32 {
        let profiles = self.lock();
        let of_nothing = |profile: &Profile| profile.tries.saturating_sub(profile.compiled).min(30);
        profiles.get(&(Arc::as_ptr(log.proto()) as usize)).map_or(0, of_nothing)
    }

    /// Nothing would be gained by code of a log's function, which would cost this part of what the
    /// interpreter does: it is looked at again when there are twice as many logs, or four times, if twice as
    /// many have changed nothing.
    pub fn gains_nothing(&self, log: &Log, part: f64) {
        if let Some(profile) = self.lock().get_mut(&(Arc::as_ptr(log.proto()) as usize)) {
            let is_the_same = (part - profile.hopeless).abs() < SAME;
            profile.hopeless = part;
            profile.next = profile.logs.saturating_mul(if is_the_same { 4 } else { 2 });
        }
    }

    /// A draft of a log's function, which is not worth compiling now, came to this.
    pub fn foresee(&self, log: &Log, forecast: Forecast) {
        if let Some(profile) = self.lock().get_mut(&(Arc::as_ptr(log.proto()) as usize)) {
            let (logs, compiled) = (profile.logs, profile.compiled);
            profile.forecast = Some(Forecast { logs, compiled, ..forecast });
        }
    }

    /// What a draft of this would come to, if the last one still tells.
    pub fn forecast(&self, log: &Log, unit: &Unit) -> Option<Forecast> {
        let profiles = self.lock();
        let profile = profiles.get(&(Arc::as_ptr(log.proto()) as usize))?;
        let is_new = |forecast: &&Forecast| {
            profile.logs < forecast.logs.saturating_mul(2) && profile.compiled == forecast.compiled
        };
        profile.forecast.as_ref().filter(is_new).filter(|known| known.unit == *unit).cloned()
    }

    /// Whether that was said, and there are too few new logs since.
    pub fn is_hopeless(&self, log: &Log) -> bool {
        let profiles = self.lock();
        profiles.get(&(Arc::as_ptr(log.proto()) as usize)).is_some_and(|profile| profile.logs < profile.next)
    }

    /// It is tried now.
    pub fn tries_once_more(&self, log: &Log) {
        if let Some(profile) = self.lock().get_mut(&(Arc::as_ptr(log.proto()) as usize)) {
            profile.tries += 1;
        }
    }

    /// How often there has been machine code of this that did not last: none, if there is some that has only
    /// other loops of the function.
    pub fn compiled(&self, log: &Log, unit: &Unit) -> u32 {
        let profiles = self.lock();
        let Some(profile) = profiles.get(&(Arc::as_ptr(log.proto()) as usize)) else { return 0 };
        let is_more =
            profile.code().is_some() && profile.code.as_ref().is_some_and(|(made, _)| !made.covers(unit));
        if is_more { 0 } else { profile.compiled }
    }

    /// The code of a log's function, if it has all of this.
    pub fn code(&self, log: &Log, unit: &Unit) -> Option<Arc<MachineCode>> {
        let profiles = self.lock();
        let profile = profiles.get(&(Arc::as_ptr(log.proto()) as usize))?;
        profile.code.as_ref()?.0.covers(unit).then(|| profile.code())?
    }

    /// What of a log's function has code, if that is alive and has not been given up.
    pub fn made(&self, log: &Log) -> Option<Unit> {
        let profiles = self.lock();
        let profile = profiles.get(&(Arc::as_ptr(log.proto()) as usize))?;
        profile.code().and(profile.code.as_ref()).map(|(unit, _)| unit.clone())
    }

    /// The code of a function.
    pub fn code_of(&self, proto: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        // A function with code has a log, which has its prototype. Of what programs load and run once, the
        // caller has the only count.
        if Arc::strong_count(proto) == 1 {
            return None;
        }
        self.lock().get(&(Arc::as_ptr(proto) as usize))?.code()
    }

    /// All code that functions have.
    pub fn codes(&self) -> Vec<Arc<MachineCode>> {
        self.lock().values().filter_map(Profile::code).collect()
    }

    /// Whether calls of a function enter machine code.
    pub fn is_compiled(&self, function: usize) -> bool {
        let profiles = self.lock();
        profiles.get(&function).is_some_and(|profile| {
            profile.code().is_some() && profile.code.as_ref().is_some_and(|(unit, _)| unit.starts)
        })
    }

    /// The function of a log has this code from now on. Those that call it, or that it calls, may gain
    /// something now.
    pub fn keep(&self, log: &Log, unit: Unit, code: &Arc<MachineCode>) {
        self.made.fetch_add(1, Ordering::Relaxed);
        let mut profiles = self.lock();
        for other in profiles.values_mut().filter(|other| other.next > 0) {
            if are_near(&other.log, log) {
                other.next = 0;
            }
        }
        if let Some(profile) = profiles.get_mut(&(Arc::as_ptr(log.proto()) as usize)) {
            profile.code = Some((unit, Arc::downgrade(code)));
            profile.compiled += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(instructions: u32, library: u64) -> Recording {
        Recording { logs: Vec::new(), instructions, library, interpreted: 1.0, ahead: 0.0, ahead_nanos: 0.0 }
    }

    #[test]
    fn the_average_recording_follows_the_last_ones() {
        let mut recordings = Recordings::default();
        (0..40).for_each(|_| recordings.add(&recording(10_000, 0), 0));
        assert!((recordings.window().instructions - 10_000.0).abs() < 1.0);
        let lua = recordings.window().nanos();
        recordings.add(&recording(10_000, lua as u64), 0);
        let once = recordings.window().lua;
        assert!((0.87..0.88).contains(&once), "a quarter of the last one, which is half a library: {once}");
        (0..40).for_each(|_| recordings.add(&recording(10_000, lua as u64), 0));
        assert!((recordings.window().nanos() - 2.0 * lua).abs() < 1.0);
    }

    #[test]
    fn a_recording_that_took_long_counts_for_one() {
        let mut recordings = Recordings::default();
        // A file was loaded meanwhile.
        recordings.add(&recording(10_000, 3_000_000), 5_000_000);
        recordings.add(&recording(10_000, 0), 10_000_000);
        let lua = recordings.window().lua;
        assert!((0.5..0.6).contains(&lua), "half of what ticks have found, or more: {lua}");
    }

    #[test]
    fn recordings_of_an_old_program_count_for_as_long_as_it_gets_no_older() {
        let mut recordings = Recordings::default();
        (0..100).for_each(|n| recordings.add(&recording(10_000, 0), 1_000_000_000 + n * 1_000_000));
        let weight = (10_000.0, recordings.age);
        recordings.add(&recording(10_000, 0), 1_200_000_000);
        let soon = recordings.faded(weight);
        assert!((8_000.0..8_500.0).contains(&soon), "{soon}");
        assert!(recordings.count > 60.0, "the average is one of many: {}", recordings.count);
        recordings.add(&recording(10_000, 0), 9_000_000_000);
        let late = recordings.faded(weight);
        assert!(late > 6_000.0 && late < 6_500.0, "not less than {FADES} for each: {late}");
    }

    #[test]
    fn what_is_in_one_of_many_recordings_is_a_small_part_of_the_program() {
        let mut recordings = Recordings::default();
        (0..10).for_each(|_| recordings.add(&recording(10_000, 0), 0));
        let weight = (10_000.0, recordings.age);
        let at_once = recordings.faded(weight) / recordings.count;
        assert!((2_400.0..2_900.0).contains(&at_once), "{at_once}");
        (0..10).for_each(|_| recordings.add(&recording(10_000, 0), 0));
        let later = recordings.faded(weight) / recordings.count;
        assert!(later < 200.0, "{later}");
    }
}
