//! What was decided, and what is known of it: for `PERILUNE_SPESH_LOG`, and for `perilune explain`.
//!
//! Whoever starts a program makes [`Decisions`] and hands them to the specialiser, which notes there what it
//! does with each function it looks at. They are written to a log as they come, or kept, and added up to a
//! [`Report`] in the end, or both: text and report are made of the same [`Decision`]. A report holds names,
//! lines and numbers, and nothing that lives in a heap: how it gets to another process is its reader's
//! affair.
//!
//! # What is kept
//! For each function: the decisions, the last log they were made from, and where its machine code was left
//! because something was not as the log says ([`Guard`]), which the VM tells with the types that were there
//! ([`perilune_vm::machine::Unexpected`]). That keeps prototypes alive; so at most [`MOST_FUNCTIONS`] are
//! kept, and nothing of it unless somebody has asked.
//!
//! Rejected: sentences made here. What helps a person who reads of a program is the command's to say; here
//! are reasons ([`Reason`]) with the facts in them.

#![cfg_attr(not(machine_code), allow(dead_code, reason = "nothing is decided where nothing is compiled"))]

use perilune_syntax::bytecode::RK_CONST;
use perilune_syntax::operands::Kind;
use perilune_syntax::{Constant, Op, Proto};
use perilune_trace::event::{self, Category, Count, Name, NotCompiledBecause};
use perilune_vm::Tag;
use perilune_vm::machine::{
    APPENDS, Cache, FILLS, Log, OTHER_KEY, OTHER_OBJECT, Role, Site, Tags, Unexpected, name_of_register,
    place_of,
};
use rustc_hash::{FxHashMap as HashMap, FxHashSet as HashSet};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Of so many functions decisions are kept.
const MOST_FUNCTIONS: usize = 4000;
/// Of one function so many are; then the last one is replaced.
const MOST_DECISIONS: usize = 40;

/// What became of a function, or of its loops.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    /// There is machine code: so many bytes, after so many nanoseconds of processor time.
    Compiled {
        /// Bytes.
        bytes: u64,
        /// Nanoseconds.
        nanos: u64,
    },
    /// Machine code is expected to take about as long as the interpreter: what both would, in instructions of
    /// the interpreter.
    NoGain {
        /// With machine code.
        compiled: f64,
        /// Without.
        interpreted: f64,
    },
    /// Compiling would cost too much for what would be saved in the time that the program is expected to go
    /// on; in nanoseconds.
    TooLittle {
        /// What would be saved.
        worth: f64,
        /// What compiling costs.
        cost: f64,
    },
    /// It is built in place where it is called, so code of its own would hardly run.
    InPlace,
    /// It has more instructions than are compiled.
    TooLarge,
    /// There is as much machine code as there may be. What has not run for longest makes room.
    NoRoom,
    /// The compiler failed, or there is no memory for machine code.
    Failed,
}

impl Outcome {
    /// Why not, if there is no machine code.
    fn refuses(self) -> Option<NotCompiledBecause> {
        Some(match self {
            Outcome::Compiled { .. } => return None,
            Outcome::NoGain { .. } => NotCompiledBecause::NoGain,
            Outcome::TooLittle { .. } => NotCompiledBecause::TooLittle,
            Outcome::InPlace => NotCompiledBecause::InPlace,
            Outcome::TooLarge => NotCompiledBecause::TooLarge,
            Outcome::NoRoom => NotCompiledBecause::NoRoom,
            Outcome::Failed => NotCompiledBecause::Failed,
        })
    }
}

/// A call in whose place a function was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inlined {
    /// The line of the call.
    pub line: u32,
    /// The function's source.
    pub source: String,
    /// The line where it is defined.
    pub defined: u32,
}

/// A table that is not made where the program does, because nobody could look at it there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmade {
    /// The line of the function: that of the call, if what makes it is built in place.
    pub line: u32,
    /// The source of what makes it.
    pub source: String,
    /// The line there.
    pub maker: u32,
    /// A line of the function where it is made after all; `None`: only where machine code is left.
    pub made: Option<u32>,
}

/// One decision, or several alike.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Nanoseconds since the program's beginning.
    pub at: u64,
    /// How often in a row.
    pub times: u32,
    /// Calls of the function enter it; else it is about loops alone.
    pub starts: bool,
    /// The first and the last line that an instruction is of.
    pub lines: (u32, u32),
    /// How many instructions.
    pub instructions: usize,
    /// What came of it.
    pub outcome: Outcome,
    /// The calls that were inlined.
    pub inlined: Vec<Inlined>,
    /// The tables that are not made where the program does.
    pub unmade: Vec<Unmade>,
    /// The instructions that are left to the interpreter.
    pub stepped: Vec<usize>,
}

/// Why an instruction is the interpreter's, with what the recordings have seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It calls this function of the library; `None`: one or another.
    Native(Option<String>),
    /// It calls a function that has no machine code: where that is defined, if it is always the same.
    Interpreted(Option<(String, u32)>),
    /// It makes a table.
    NewTable,
    /// It makes a function.
    NewFunction,
    /// It joins values to a string.
    Concat,
    /// It reads or writes an element of what is not always a table.
    NoTable(Vec<&'static str>),
    /// It reads or writes elements by keys of these types.
    Keys(Vec<&'static str>),
    /// It meets places that the table's array does not have.
    NoElement,
    /// It meets arrays of several kinds.
    Kinds,
    /// It reads a field or a method of what is not always a table.
    NoRecord(Vec<&'static str>),
    /// It meets tables with different fields, or in different order.
    Shapes,
    /// It finds a field by a metatable, or in a table that is a dictionary.
    Indirect,
    /// It asks an iterator that is no function compiled here.
    Iterator,
    /// It handles variable arguments.
    Varargs,
    /// It ends variables that functions refer to, or that are to be closed.
    Close,
    /// It calculates with, or compares, what is not always numbers: what came out.
    Operands(Vec<&'static str>),
    /// It is one that machine code leaves to the interpreter, whatever it meets.
    Plain,
}

/// An instruction that the interpreter does for machine code, or would.
#[derive(Clone, Debug)]
pub struct Left {
    /// Its line.
    pub line: u32,
    /// Its name in listings.
    pub op: &'static str,
    /// How often it was recorded.
    pub times: u32,
    /// The variable, field or function it is about, as the program calls it.
    pub name: Option<String>,
    /// Why.
    pub reason: Reason,
}

/// A place where machine code was left because something was not as expected.
#[derive(Clone, Debug)]
pub struct Guard {
    /// The line.
    pub line: u32,
    /// The name of the instruction in listings.
    pub op: &'static str,
    /// How often.
    pub times: u64,
    /// What the recordings had seen there; nothing: it had never been run, or it is not about a type.
    pub expected: Vec<&'static str>,
    /// What was there, with how often.
    pub seen: Vec<(String, u64)>,
    /// The instruction had not been run while things were recorded.
    pub is_new: bool,
    /// A loop begins there, or comes round, or the function begins.
    pub begins: bool,
    /// It calls the function of the library that it has always called: its arguments are others.
    pub same_native: bool,
    /// A variable, if it is about one.
    pub name: Option<String>,
}

/// All about a function.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its source, as the sampler says it.
    pub source: String,
    /// The line where it is defined; 0: a chunk.
    pub defined: u32,
    /// Its last line.
    pub last: u32,
    /// It takes variable arguments: calls never enter its machine code.
    pub is_vararg: bool,
    /// What was decided, in order.
    pub decisions: Vec<Decision>,
    /// What the last machine code leaves to the interpreter, or would.
    pub left: Vec<Left>,
    /// Where machine code was left.
    pub guards: Vec<Guard>,
}

/// Everything that was decided.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By source and line.
    pub functions: Vec<Function>,
    /// There was no room to keep all of it.
    pub is_cut: bool,
}

/// What is kept of a function.
#[derive(Debug)]
struct Known {
    log: Arc<Log>,
    decisions: Vec<Decision>,
    /// Which of its calls are inlined.
    inlined: HashSet<usize>,
    guards: BTreeMap<usize, Failures>,
}

/// What is known of a guard while the program runs.
#[derive(Debug, Default)]
struct Failures {
    times: u64,
    register: Option<u8>,
    expected: Vec<&'static str>,
    seen: BTreeMap<String, u64>,
    is_new: bool,
    /// See [`Guard::same_native`].
    same_native: bool,
    /// The instruction that it is about.
    about: usize,
}

#[derive(Debug, Default)]
struct Kept {
    functions: HashMap<usize, Known>,
    is_cut: bool,
}

/// Where decisions go. Shared by whoever makes machine code and whoever wants to know of it.
#[derive(Debug)]
pub struct Decisions {
    begun: Instant,
    log: Option<Mutex<File>>,
    kept: Option<Mutex<Kept>>,
}

impl Default for Decisions {
    fn default() -> Decisions {
        Decisions::new(None, false)
    }
}

/// What a decision is about, as the compiler has it.
pub(crate) struct Subject<'a> {
    /// What the function has met.
    pub log: &'a Arc<Log>,
    /// Whether its calls are.
    pub starts: bool,
    /// Which instructions are compiled, in order.
    pub inside: Vec<usize>,
    /// The instructions that are left to the interpreter.
    pub stepped: &'a [usize],
    /// The calls that are inlined.
    pub inlined: &'a HashSet<usize>,
    /// The tables that are not made where the program does.
    pub unmade: &'a [Unmade],
    /// Logs of what may be.
    pub callees: &'a HashMap<usize, Arc<Log>>,
}

impl Decisions {
    /// They are written to `log`, a line each, and kept for a report if that is wanted.
    pub fn new(log: Option<File>, keep: bool) -> Decisions {
        Decisions { begun: Instant::now(), log: log.map(Mutex::new), kept: keep.then(Mutex::default) }
    }

    /// Whether they are kept.
    pub fn are_kept(&self) -> bool {
        self.kept.is_some()
    }

    fn kept(&self) -> Option<MutexGuard<'_, Kept>> {
        Some(self.kept.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn note(&self, of: &Subject<'_>, outcome: Outcome) {
        if perilune_trace::on(Category::Compile)
            && let Some(why) = outcome.refuses()
        {
            let instructions = Count::from(of.inside.len());
            perilune_trace::emit(event::NotCompiled { name: event_name(of.log.proto()), instructions, why });
        }
        if self.log.is_none() && self.kept.is_none() {
            return;
        }
        let proto = of.log.proto();
        let line = |at: usize| proto.line_at(at).unwrap_or(0);
        let inside = &of.inside;
        // A loop ends with an instruction of the line that it begins with.
        let all = || inside.iter().map(|&at| line(at)).filter(|&line| line != 0);
        let lines = (all().min().unwrap_or(0), all().max().unwrap_or(0));
        let inlined = of.inlined.iter().filter_map(|&at| {
            let callee = of.callees.get(&of.log.site(at).callee)?.proto();
            let (source, defined) = (source_of(callee), callee.line_defined);
            Some(Inlined { line: line(at), source, defined })
        });
        let mut decision = Decision {
            at: self.begun.elapsed().as_nanos() as u64,
            times: 1,
            starts: of.starts,
            lines,
            instructions: inside.len(),
            outcome,
            inlined: inlined.collect(),
            unmade: of.unmade.to_vec(),
            stepped: of.stepped.to_vec(),
        };
        decision.inlined.sort_by_key(|inlined| inlined.line);
        if let Some(file) = &self.log {
            let text = text(&decision, of.log);
            // A log that cannot be written is no reason to stop the program.
            let _ = file.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes());
        }
        if let Some(mut kept) = self.kept() {
            kept.add(of, decision);
        }
    }

    /// Machine code has been left because something was not as expected.
    pub(crate) fn unexpected(&self, exit: &Unexpected) {
        let Some(mut kept) = self.kept() else { return };
        let number = Arc::as_ptr(&exit.proto) as usize;
        let Some(known) = kept.functions.get_mut(&number) else { return };
        let log = Arc::clone(&known.log);
        // A result is guarded behind the instruction that it is one of, or before it is taken.
        let (unlike, loaded) = (unlike_result(&log, exit), unlike_loaded(&log, exit));
        let about = if unlike.is_some() { exit.at - 1 } else { exit.at };
        let guard = known.guards.entry(exit.at).or_default();
        guard.times += 1;
        guard.about = about;
        let known_native = log.site(exit.at).native.filter(|_| !log.site(exit.at).natives);
        guard.same_native = exit.calls.zip(known_native).is_some_and(|(one, other)| std::ptr::eq(one, other));
        let (register, expected) = match loaded.filter(|_| unlike.is_none()) {
            Some((_, expected)) => (None, type_names(expected)),
            None => expectation(&log, exit),
        };
        if guard.times == 1 {
            let is_known = register.is_some() || loaded.is_some();
            guard.is_new = !is_known && log.site(exit.at).times() + log.site(exit.at).calls == 0;
            (guard.register, guard.expected) = (register, expected);
        }
        let found = |r: u8| exit.seen.iter().find(|seen| seen.register == r);
        let text = match (guard.register.and_then(found), loaded) {
            (Some(seen), _) => type_name(seen.tag).to_owned(),
            (None, Some((tag, _))) => type_name(tag).to_owned(),
            // It was left for another reason this time.
            (None, None) if !guard.expected.is_empty() => return,
            (None, None) => {
                let types: Vec<&str> = exit.operands().map(|seen| type_name(seen.tag)).collect();
                types.join(" and ")
            }
        };
        let is_expected = guard.expected.contains(&text.as_str());
        if !is_expected && (guard.seen.len() < 10 || guard.seen.contains_key(&text)) {
            *guard.seen.entry(text).or_default() += exit.stands_for as u64;
        }
    }

    /// The same once more: it is counted.
    pub(crate) fn unexpected_again(&self, proto: &Arc<Proto>, at: usize) {
        let Some(mut kept) = self.kept() else { return };
        let known = kept.functions.get_mut(&(Arc::as_ptr(proto) as usize));
        if let Some(guard) = known.and_then(|known| known.guards.get_mut(&at)) {
            guard.times += 1;
        }
    }

    /// What is known by now.
    pub fn report(&self) -> Report {
        let Some(kept) = self.kept() else { return Report::default() };
        let mut functions: Vec<Function> =
            kept.functions.values().map(|known| kept.function(known)).collect();
        functions.retain(|function| !function.decisions.is_empty() || !function.guards.is_empty());
        functions.sort_by(|a, b| (&a.source, a.defined).cmp(&(&b.source, b.defined)));
        Report { functions, is_cut: kept.is_cut }
    }
}

impl Kept {
    fn add(&mut self, of: &Subject<'_>, decision: Decision) {
        // What is inlined is left like everything else.
        for log in of.callees.values().chain([of.log]) {
            if self.functions.len() >= MOST_FUNCTIONS && !self.functions.contains_key(&log.function()) {
                self.is_cut = true;
                continue;
            }
            let known = self.functions.entry(log.function()).or_insert_with(|| Known {
                log: Arc::clone(log),
                decisions: Vec::new(),
                inlined: HashSet::default(),
                guards: BTreeMap::new(),
            });
            if known.log.weight() <= log.weight() {
                known.log = Arc::clone(log);
            }
        }
        let Some(known) = self.functions.get_mut(&of.log.function()) else { return };
        known.inlined = of.inlined.clone();
        let is_alike = |last: &Decision| {
            let same = std::mem::discriminant(&last.outcome) == std::mem::discriminant(&decision.outcome);
            same && !matches!(decision.outcome, Outcome::Compiled { .. }) && last.lines == decision.lines
        };
        let is_full = known.decisions.len() >= MOST_DECISIONS;
        match known.decisions.last_mut() {
            Some(last) if is_alike(last) => *last = Decision { times: last.times + 1, ..decision },
            Some(last) if is_full => *last = decision,
            _ => known.decisions.push(decision),
        }
    }

    fn is_compiled(&self, function: usize) -> bool {
        let compiled = |d: &Decision| d.starts && matches!(d.outcome, Outcome::Compiled { .. });
        self.functions.get(&function).is_some_and(|known| known.decisions.iter().any(compiled))
    }

    fn function(&self, known: &Known) -> Function {
        let (log, proto) = (&known.log, known.log.proto());
        let line = |at: usize| proto.line_at(at).unwrap_or(0);
        let last = known.decisions.iter().rev();
        let decision =
            last.clone().find(|d| matches!(d.outcome, Outcome::Compiled { .. })).or(last.clone().next());
        let stepped = decision.map_or(&[][..], |decision| &decision.stepped[..]);
        let mut left: Vec<Left> = Vec::new();
        for at in 0..proto.code.len() {
            let site = log.site(at);
            let op = proto.code[at].op();
            let reason = if stepped.contains(&at) && site.times() > 0 {
                reason(log, at)
            } else if decision.is_some()
                && site.calls > 0
                && !known.inlined.contains(&at)
                && !self.is_compiled(site.callee)
            {
                // Metamethods are calls, too.
                let callee = self.functions.get(&site.callee).filter(|_| !site.callees);
                Reason::Interpreted(callee.map(|c| (source_of(c.log.proto()), c.log.proto().line_defined)))
            } else {
                continue;
            };
            let times = site.times().max(site.calls);
            left.push(Left {
                line: line(at),
                op: op.map_or("?", Op::name),
                times,
                name: name(proto, at),
                reason,
            });
        }
        left.sort_by_key(|left| std::cmp::Reverse(left.times));
        let guards = known.guards.iter().map(|(&at, guard)| Guard {
            line: line(guard.about),
            op: proto.code[guard.about].op().map_or("?", Op::name),
            times: guard.times,
            expected: guard.expected.clone(),
            seen: guard.seen.iter().map(|(text, times)| (text.clone(), *times)).collect(),
            is_new: guard.is_new,
            begins: known.log.head(at).is_some(),
            same_native: guard.same_native,
            name: match guard.register {
                Some(register) => name_of_register(proto, at, register),
                None => name(proto, guard.about),
            },
        });
        Function {
            source: source_of(proto),
            defined: proto.line_defined,
            last: proto.last_line_defined,
            is_vararg: proto.is_vararg,
            decisions: known.decisions.clone(),
            left,
            guards: guards.collect(),
        }
    }
}

/// What events call a function.
pub(crate) fn event_name(proto: &Proto) -> Name {
    Name(perilune_trace::names::string(&place_of(proto)))
}

/// The source of a function, as the sampler says it.
pub(crate) fn source_of(proto: &Proto) -> String {
    let source = &proto.source;
    let named = source.strip_prefix(b"@").or(source.strip_prefix(b"="));
    match named {
        Some(name) => String::from_utf8_lossy(name).into_owned(),
        None => String::from_utf8_lossy(&perilune_syntax::error::chunk_id(source)).into_owned(),
    }
}

/// The process's processor time, in nanoseconds.
#[cfg(machine_code)]
fn taken() -> u64 {
    crate::sys::clock::of_process()
}

/// Nothing is compiled in this build, so nobody asks.
#[cfg(not(machine_code))]
fn taken() -> u64 {
    0
}

/// A decision as the log has it, with the process's processor time at which it is written.
fn text(decision: &Decision, log: &Log) -> String {
    let proto = log.proto();
    let source = source_of(proto);
    let what = if decision.starts { "the function" } else { "loops" };
    let at = taken() as f64 / 1e6;
    let (line, instructions) = (decision.lines.0, decision.instructions);
    let what = format!("{source}:{line}: {what}, {instructions} instructions");
    let outcome = match decision.outcome {
        Outcome::Failed => "could not be compiled".to_string(),
        Outcome::NoRoom => "not compiled, no room for more machine code: some makes room".to_string(),
        Outcome::TooLarge => "not compiled, too large".to_string(),
        Outcome::InPlace => "not compiled, it is built in place where it is called".to_string(),
        Outcome::NoGain { compiled, interpreted } => {
            format!("not compiled, nothing would be gained ({compiled:.0} for {interpreted:.0})")
        }
        Outcome::TooLittle { worth, cost } => {
            let [worth, cost] = [worth, cost].map(|nanos| nanos / 1000.0);
            format!("not compiled yet, {cost:.0} us to save {worth:.0} us")
        }
        Outcome::Compiled { bytes, nanos } => format!("{bytes} bytes in {} us", nanos / 1000),
    };
    let mut text = format!("{what}: {outcome}, at {at:.1} ms\n");
    for &at in &decision.stepped {
        let name = proto.code[at].op().map_or("?", Op::name);
        let times = log.site(at).times();
        if times > 0 {
            let line = proto.line_at(at).unwrap_or(0);
            _ = writeln!(text, "    line {line}: {name} {times} times, by the interpreter");
        }
    }
    text
}

/// What the type of a value is called.
fn type_name(tag: Tag) -> &'static str {
    match tag {
        Tag::NIL => "nil",
        Tag::FALSE | Tag::TRUE => "boolean",
        Tag::INT => "integer",
        Tag::FLOAT => "float",
        Tag::STRING => "string",
        Tag::TABLE => "table",
        Tag::NATIVE | Tag::CLOSURE | Tag::NATIVE_CLOSURE | Tag::SHARED_FUNCTION => "function",
        Tag::THREAD => "coroutine",
        _ => "userdata",
    }
}

fn type_names(tags: Tags) -> Vec<&'static str> {
    let mut names: Vec<&str> = Vec::new();
    for tag in (0..32).map(Tag).filter(|&tag| tags.contains(tag)) {
        if !names.contains(&type_name(tag)) {
            names.push(type_name(tag));
        }
    }
    names
}

/// The register that the instruction before has defined, if it holds what that never did.
fn unlike_result(log: &Log, exit: &Unexpected) -> Option<(u8, Tags)> {
    let before = exit.at.checked_sub(1)?;
    let i = log.proto().code[before];
    let result = log.site(before).result;
    let only = result.only()?;
    let seen = exit.seen.iter().find(|seen| seen.register == i.a() && seen.role == Role::Result)?;
    (seen.tag != only).then_some((seen.register, result))
}

/// The tag of what the instruction is about to load, if that has always been of one other type, and that.
fn unlike_loaded(log: &Log, exit: &Unexpected) -> Option<(Tag, Tags)> {
    let (tag, known) = (exit.loads?, log.site(exit.at).result);
    known.only().is_some_and(|only| only != tag).then_some((tag, known))
}

/// What the log says should have been there: in which register, and which types.
fn expectation(log: &Log, exit: &Unexpected) -> (Option<u8>, Vec<&'static str>) {
    if let Some((register, tags)) = unlike_result(log, exit) {
        return (Some(register), type_names(tags));
    }
    if let Some(tags) = log.head(exit.at) {
        for seen in &exit.seen {
            let is_variable = seen.role != Role::Variable
                || name_of_register(log.proto(), exit.at, seen.register).is_some();
            if let Some(tags) = tags.get(seen.register as usize)
                && is_variable
                && tags.only().is_some_and(|only| only != seen.tag)
            {
                return (Some(seen.register), type_names(*tags));
            }
        }
    }
    (None, Vec::new())
}

/// What an instruction is about, as the program calls it.
fn name(proto: &Proto, at: usize) -> Option<String> {
    let i = proto.code[at];
    let constant = |n: usize| match proto.constants.get(n) {
        Some(Constant::String(s)) => Some(String::from_utf8_lossy(s).into_owned()),
        _ => None,
    };
    match i.op()? {
        Op::Call | Op::TailCall => name_of_register(proto, at, i.a()),
        Op::GetIndex | Op::GetInt | Op::GetField | Op::Len => {
            let object = name_of_register(proto, at, i.b() as u8)?;
            Some(match i.op() {
                Some(Op::GetField) => format!("{object}.{}", constant(i.c() as usize)?),
                Some(Op::GetIndex) => {
                    format!(
                        "{object}[{}]",
                        name_of_register(proto, at, i.c() as u8).unwrap_or_else(|| "...".into())
                    )
                }
                Some(Op::GetInt) => format!("{object}[{}]", i.c()),
                _ => object,
            })
        }
        Op::GetTabUp => constant(i.c() as usize),
        Op::GetUpval => proto
            .upvalues
            .get(i.b() as usize)
            .and_then(|upvalue| upvalue.name.as_ref().map(|name| String::from_utf8_lossy(name).into_owned())),
        Op::SelfCall => {
            let object = name_of_register(proto, at, i.b() as u8).unwrap_or_else(|| "...".into());
            Some(format!("{object}:{}", constant(i.c() as usize)?))
        }
        Op::SetIndex | Op::SetInt | Op::SetField => {
            let object = name_of_register(proto, at, i.a())?;
            Some(match i.op() {
                Some(Op::SetIndex) => {
                    format!(
                        "{object}[{}]",
                        name_of_register(proto, at, i.b() as u8).unwrap_or_else(|| "...".into())
                    )
                }
                Some(Op::SetInt) => format!("{object}[{}]", i.b()),
                _ => format!("{object}.{}", constant(i.b() as usize)?),
            })
        }
        op => {
            // The first operand that has a name.
            op.operands().iter().find_map(|operand| {
                let value = operand.field.of(i);
                match operand.kind {
                    Kind::Use => name_of_register(proto, at, value as u8),
                    Kind::RK if value as u16 & RK_CONST == 0 => name_of_register(proto, at, value as u8),
                    _ => None,
                }
            })
        }
    }
}

/// Why an instruction is left to the interpreter.
fn reason(log: &Log, at: usize) -> Reason {
    let site = log.site(at);
    let only_tables = |site: &Site| site.objects.is_all_of(&[Tag::TABLE]);
    match log.proto().code[at].op() {
        Some(Op::Call | Op::TailCall) => match site.native {
            Some(native) if !site.natives => Reason::Native(Some(native.name.to_owned())),
            Some(_) => Reason::Native(None),
            None if site.calls > 0 => Reason::Interpreted(None),
            None => Reason::Native(None),
        },
        Some(Op::NewTable | Op::SetList | Op::SetSlot) => Reason::NewTable,
        Some(Op::Closure) => Reason::NewFunction,
        Some(Op::Concat) => Reason::Concat,
        Some(Op::GetIndex | Op::GetInt | Op::SetIndex | Op::SetInt) => {
            let kinds = (site.arrays & !(APPENDS | OTHER_KEY | FILLS | OTHER_OBJECT)).count_ones();
            match site.keys.only() {
                _ if !only_tables(site) => Reason::NoTable(type_names(site.objects)),
                Some(Tag::INT) if kinds > 1 => Reason::Kinds,
                Some(Tag::INT) if site.arrays & OTHER_KEY != 0 => Reason::NoElement,
                Some(Tag::INT) => Reason::Plain,
                _ => Reason::Keys(type_names(site.keys)),
            }
        }
        Some(Op::GetField | Op::SetField | Op::SelfCall) => match site.cache {
            _ if !only_tables(site) => Reason::NoRecord(type_names(site.objects)),
            _ if site.shapes => Reason::Shapes,
            Some(Cache::Own { .. }) => Reason::Plain,
            _ => Reason::Indirect,
        },
        Some(Op::TForCall | Op::TForLoop | Op::TForPrep) => Reason::Iterator,
        Some(Op::Vararg | Op::VarargPrep) => Reason::Varargs,
        Some(Op::Close | Op::Tbc) => Reason::Close,
        Some(op) if op.name().starts_with('J') || is_arithmetic(op) => {
            let types = type_names(site.result);
            match site.result.only() {
                Some(Tag::INT | Tag::FLOAT) => Reason::Plain,
                _ => Reason::Operands(types),
            }
        }
        _ => Reason::Plain,
    }
}

fn is_arithmetic(op: Op) -> bool {
    use Op::*;
    matches!(
        op,
        Add | AddK
            | AddI
            | Sub
            | SubK
            | Mul
            | MulK
            | Div
            | DivK
            | Mod
            | ModK
            | Pow
            | PowK
            | IDiv
            | IDivK
            | BAnd
            | BAndK
            | BOr
            | BOrK
            | BXor
            | BXorK
            | Shl
            | Shr
            | Unm
            | BNot
            | Len
    )
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {} {} times ({:?})", self.line, self.op, self.times, self.reason)
    }
}
