//! What is known of a run: the decisions that the program has told, and the samples of its time, put together
//! by function and line.
//!
//! A function is known by its source and the line where it is defined, in both. Functions of one place (a
//! module that several domains have loaded, a chunk that was loaded twice) are one here.

use perilune_see::Trace;
use perilune_trace::event::{Activity, What};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;

/// Time by what it went to, as [`Activity::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent(pub [u64; Activity::ALL.len()]);

impl Spent {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// What went to one of them.
    pub fn of(&self, activity: Activity) -> u64 {
        self.0[activity as usize]
    }

    /// What machine code might still take over.
    pub fn interpreted(&self) -> u64 {
        self.of(Activity::Lua) + self.of(Activity::Helper)
    }

    fn add(&mut self, activity: Activity, ns: u64) {
        self.0[activity as usize] += ns;
    }
}

/// A decision on a function.
#[derive(Clone, Debug)]
pub struct Decision {
    pub at_ns: u64,
    pub times: u64,
    /// The function, or else its loops.
    pub starts: bool,
    pub lines: (u32, u32),
    pub instructions: u64,
    pub outcome: Outcome,
    /// Lines of calls, and where the functions are defined that were built in their place.
    pub inlined: Vec<(u32, String, u32)>,
    /// Tables that are not made where the program does: the line, source and line of what makes them, and a
    /// line where they are made after all.
    pub unmade: Vec<(u32, String, u32, Option<u32>)>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outcome {
    Compiled { bytes: u64, ns: u64 },
    NoGain { compiled: f64, interpreted: f64 },
    TooLittle { saves_ns: f64, costs_ns: f64 },
    InPlace,
    TooLarge,
    NoRoom,
    Failed,
}

/// Something that happened at a line, so many times, with a sentence on why and one on what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    pub line: u32,
    pub op: String,
    pub times: u64,
    pub why: String,
    pub help: String,
    /// As it was told.
    pub raw: Value,
}

/// A function.
#[derive(Clone, Debug, Default)]
pub struct Function {
    pub source: String,
    pub defined: u32,
    /// Its last line; 0: it was not told of, or it is a chunk.
    pub last: u32,
    pub is_vararg: bool,
    /// What it is called, if it was sampled.
    pub name: Option<String>,
    pub decisions: Vec<Decision>,
    /// What machine code leaves to the interpreter, or would.
    pub left: Vec<Remark>,
    /// Where machine code was left.
    pub guards: Vec<Remark>,
    pub spent: Spent,
    /// By line.
    pub lines: BTreeMap<u32, Spent>,
    /// Natives that it has called, by line, with their time.
    pub natives: BTreeMap<(u32, String), u64>,
}

impl Function {
    /// How people find it.
    pub fn place(&self) -> String {
        match self.defined {
            0 => self.source.clone(),
            line => format!("{}:{line}", self.source),
        }
    }

    /// What it is called.
    pub fn title(&self) -> String {
        match (&self.name, self.defined) {
            (Some(name), _) => name.clone(),
            (None, 0) => "main chunk".into(),
            (None, _) => "a function".into(),
        }
    }

    /// The decisions that came to machine code: bytes and nanoseconds.
    pub fn compiled(&self) -> impl Iterator<Item = (&Decision, u64, u64)> {
        self.decisions.iter().filter_map(|d| match d.outcome {
            Outcome::Compiled { bytes, ns } => Some((d, bytes, ns)),
            _ => None,
        })
    }
}

/// A run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Why there was no machine code at all.
    pub unavailable: Option<String>,
    /// Not all decisions were kept.
    pub is_cut: bool,
    /// The program has told its decisions.
    pub is_told: bool,
    /// The most expensive first.
    pub functions: Vec<Function>,
    /// All time that was sampled.
    pub spent: Spent,
    pub samples: u64,
}

fn field<'a>(value: &'a Value, name: &str) -> io::Result<&'a Value> {
    value.get(name).ok_or_else(|| io::Error::other(format!("the program's report has no '{name}'")))
}

fn text(value: &Value, name: &str) -> io::Result<String> {
    Ok(field(value, name)?.as_str().unwrap_or_default().to_owned())
}

fn float(value: &Value, name: &str) -> io::Result<f64> {
    Ok(field(value, name)?.as_f64().unwrap_or(0.0))
}

fn number(value: &Value, name: &str) -> io::Result<u64> {
    Ok(float(value, name)? as u64)
}

fn list<'a>(value: &'a Value, name: &str) -> io::Result<&'a [Value]> {
    Ok(field(value, name)?.as_array().map_or(&[], Vec::as_slice))
}

impl Run {
    /// What the program has told (nothing, if it was killed), and its samples.
    ///
    /// # Errors
    /// What it has told is no such report.
    pub fn new(told: &[u8], trace: &Trace) -> io::Result<Run> {
        let mut run = Run::default();
        let mut functions: BTreeMap<(String, u32), Function> = BTreeMap::new();
        if !told.is_empty() {
            let told: Value = serde_json::from_slice(told).map_err(io::Error::other)?;
            run.is_told = true;
            run.unavailable = field(&told, "unavailable")?.as_str().map(str::to_owned);
            run.is_cut = field(&told, "cut")?.as_bool().unwrap_or(false);
            for value in list(&told, "functions")? {
                let key = (text(value, "source")?, number(value, "defined")? as u32);
                let function = functions.entry(key.clone()).or_default();
                (function.source, function.defined) = key;
                function.add(value)?;
            }
        }
        run.add_samples(trace, &mut functions);
        run.functions = functions.into_values().collect();
        for function in &mut run.functions {
            function.decisions.sort_by_key(|decision| decision.at_ns);
            function.left.sort_by_key(|left| std::cmp::Reverse(left.times));
        }
        run.functions.sort_by_key(|f| std::cmp::Reverse(f.spent.total()));
        Ok(run)
    }

    fn add_samples(&mut self, trace: &Trace, functions: &mut BTreeMap<(String, u32), Function>) {
        let names = &trace.definitions;
        for event in &trace.events {
            let What::CpuSample(sample) = event.what() else { continue };
            self.samples += 1;
            self.spent.add(sample.activity, sample.used.0);
            let mut frames = names.frames(sample.stack.0);
            let mut native = None;
            let Some(lua) = frames.find(|node| {
                if node.source == 0 && native.is_none() {
                    native = Some(names.string(node.function as u64));
                }
                node.source != 0
            }) else {
                continue;
            };
            let key = (names.string(lua.source as u64), lua.defined);
            let function = functions.entry(key.clone()).or_default();
            (function.source, function.defined) = key;
            function.name.get_or_insert_with(|| names.string(lua.function as u64));
            function.spent.add(sample.activity, sample.used.0);
            function.lines.entry(lua.line).or_default().add(sample.activity, sample.used.0);
            if let (Activity::Native, Some(native)) = (sample.activity, native) {
                *function.natives.entry((lua.line, native)).or_default() += sample.used.0;
            }
        }
    }

    /// What compiling came to: pieces of machine code, bytes, nanoseconds.
    pub fn compiled(&self) -> (usize, u64, u64) {
        let all = self.functions.iter().flat_map(Function::compiled);
        all.fold((0, 0, 0), |sum, (_, bytes, ns)| (sum.0 + 1, sum.1 + bytes, sum.2 + ns))
    }
}

impl Function {
    fn add(&mut self, value: &Value) -> io::Result<()> {
        self.last = number(value, "last")? as u32;
        self.is_vararg = field(value, "vararg")?.as_bool().unwrap_or(false);
        for decision in list(value, "decisions")? {
            let mut inlined = Vec::new();
            for one in list(decision, "inlined")? {
                let defined = number(one, "defined")? as u32;
                inlined.push((number(one, "line")? as u32, text(one, "source")?, defined));
            }
            let mut unmade = Vec::new();
            for one in list(decision, "unmade")? {
                let (line, maker) = (number(one, "line")? as u32, number(one, "maker")? as u32);
                let made = one.get("made").and_then(Value::as_f64).map(|line| line as u32);
                unmade.push((line, text(one, "source")?, maker, made));
            }
            let outcome = match text(decision, "outcome")?.as_str() {
                "compiled" => {
                    Outcome::Compiled { bytes: number(decision, "bytes")?, ns: number(decision, "ns")? }
                }
                "no_gain" => Outcome::NoGain {
                    compiled: float(decision, "compiled_cost")?,
                    interpreted: float(decision, "interpreted_cost")?,
                },
                "too_little" => Outcome::TooLittle {
                    saves_ns: float(decision, "saves_ns")?,
                    costs_ns: float(decision, "costs_ns")?,
                },
                "in_place" => Outcome::InPlace,
                "too_large" => Outcome::TooLarge,
                "no_room" => Outcome::NoRoom,
                _ => Outcome::Failed,
            };
            self.decisions.push(Decision {
                at_ns: number(decision, "at_ns")?,
                times: number(decision, "times")?,
                starts: text(decision, "what")? == "function",
                lines: (number(decision, "first_line")? as u32, number(decision, "last_line")? as u32),
                instructions: number(decision, "instructions")?,
                outcome,
                inlined,
                unmade,
            });
        }
        for (name, to) in [("left", &mut self.left), ("guards", &mut self.guards)] {
            for raw in list(value, name)? {
                let (line, op) = (number(raw, "line")? as u32, text(raw, "op")?);
                let (times, why) = (number(raw, "times")?, text(raw, "why")?);
                match to.iter_mut().find(|known| (known.line, &known.op, &known.why) == (line, &op, &why)) {
                    Some(known) => known.times += times,
                    None => {
                        let help = text(raw, "help")?;
                        to.push(Remark { line, op, times, why, help, raw: raw.clone() });
                    }
                }
            }
        }
        Ok(())
    }
}
