//! The report: a summary, the hottest lines, what stayed slow and why, and functions line by line; for
//! people, or as JSON.

use super::model::{Decision, Function, Outcome, Remark, Run, Spent};
use super::{Own, lines_of, words};
use crate::commands::table::{Table, percent};
use perilune_measure::json::Json;
use perilune_see::profile::Unit;
use perilune_see::profile::flame::amount;
use perilune_trace::event::Activity;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Functions and lines below this part of all time are left out, in thousandths.
const SMALL: u64 = 10;
/// Lines that stayed slow are explained from this part on, in thousandths.
const EXPLAINED: u64 = 20;
/// Functions of so many lines are shown whole.
const SHORT: u32 = 40;
/// So many functions are shown line by line.
const FUNCTIONS: usize = 8;

/// A hot line that is not all machine code, and why.
struct Finding<'a> {
    function: &'a Function,
    line: u32,
    spent: Spent,
    why: String,
    help: String,
}

/// A report on a run.
pub struct Report<'a> {
    run: &'a Run,
    own: &'a Own,
    mode: &'a str,
    title: &'a str,
    sources: BTreeMap<&'a str, Vec<String>>,
}

fn time(ns: u64) -> String {
    amount(ns, Unit::Nanoseconds)
}

impl<'a> Report<'a> {
    pub fn new(run: &'a Run, own: &'a Own, mode: &'a str, title: &'a str) -> Report<'a> {
        let names: BTreeSet<&str> = run.functions.iter().map(|f| f.source.as_str()).collect();
        let sources = names.into_iter().map(|name| (name, lines_of(name))).collect();
        Report { run, own, mode, title, sources }
    }

    fn source(&self, source: &str, line: u32) -> Option<&str> {
        let lines = self.sources.get(source)?;
        lines.get((line as usize).checked_sub(1)?).map(String::as_str)
    }

    fn total(&self) -> u64 {
        self.run.spent.total()
    }

    fn is_small(&self, spent: &Spent, thousandths: u64) -> bool {
        spent.total() * 1000 < self.total() * thousandths || spent.total() == 0
    }

    /// Is the function among those that were asked for?
    fn is_wanted(&self, function: &Function) -> bool {
        let Some(wanted) = &self.own.function else { return true };
        let is_at = wanted.rsplit_once(':').is_some_and(|(file, line)| {
            let line: u32 = line.parse().unwrap_or(0);
            let ends = function.source == file || function.source.ends_with(&format!("/{file}"));
            ends && line != 0
                && (line == function.defined || (function.defined..=function.last).contains(&line))
        });
        let name = function.title();
        is_at || name == *wanted || name.rsplit(['.', ':']).next() == Some(wanted)
    }

    /// The functions to be shown line by line.
    fn shown(&self) -> Vec<&'a Function> {
        let functions = self.run.functions.iter().filter(|f| self.is_wanted(f));
        if self.own.all || self.own.function.is_some() {
            return functions.collect();
        }
        functions.filter(|f| !self.is_small(&f.spent, SMALL)).take(FUNCTIONS).collect()
    }

    /// Lines by their time, the hottest first.
    fn hottest(&self) -> Vec<(&'a Function, u32, Spent)> {
        let functions = self.run.functions.iter().filter(|f| self.is_wanted(f));
        let mut lines: Vec<_> = functions
            .flat_map(|f| {
                f.lines.iter().filter(|(line, _)| **line != 0).map(move |(&line, &spent)| (f, line, spent))
            })
            .collect();
        lines.sort_by_key(|(f, line, spent)| (std::cmp::Reverse(spent.total()), f.source.clone(), *line));
        lines
    }

    /// Hot lines that stayed slow.
    fn findings(&self) -> Vec<Finding<'a>> {
        let hot = self.hottest().into_iter().filter(|(_, _, spent)| !self.is_small(spent, EXPLAINED));
        let mut findings = Vec::new();
        for (function, line, spent) in hot.take(self.own.top) {
            findings.extend(self.why_slow(function, line, spent));
        }
        findings
    }

    fn why_slow(&self, function: &'a Function, line: u32, spent: Spent) -> Vec<Finding<'a>> {
        let mut found: Vec<(String, String)> = Vec::new();
        let is_part = |part: u64, of: u64| part * of >= spent.total();
        if is_part(spent.interpreted(), 4) {
            let compiled = function.compiled().any(|(d, ..)| (d.lines.0..=d.lines.1).contains(&line));
            if !compiled {
                found.push(words::not_compiled(function, self.mode, self.run.unavailable.as_deref()));
            }
            let guards = function.guards.iter().filter(|g| g.line == line && compiled);
            found.extend(
                guards.map(|g| (format!("left machine code {} times: {}", g.times, g.why), g.help.clone())),
            );
            let left = function.left.iter().filter(|l| l.line == line).take(3);
            found.extend(left.map(|l| (l.why.clone(), l.help.clone())));
            if found.is_empty() && compiled {
                let is_helped = spent.of(Activity::Helper) > spent.of(Activity::Lua);
                found.push(if is_helped { words::helped() } else { words::not_always(function) });
            }
        }
        if is_part(spent.of(Activity::Collector), 4) {
            found.push(words::collected());
        }
        if is_part(spent.of(Activity::Native), 2) {
            let natives = function.natives.iter().filter(|((at, _), _)| *at == line);
            if let Some(((_, native), _)) = natives.max_by_key(|(_, ns)| **ns) {
                found.push(words::library(native));
            }
        }
        let mut seen = BTreeSet::new();
        found.retain(|(why, _)| seen.insert(why.clone()));
        found.into_iter().map(|(why, help)| Finding { function, line, spent, why, help }).collect()
    }

    /// For people.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let run = self.run;
        let total = self.total();
        writeln!(
            out,
            "{}: {} of processor time in Lua, {} samples (mode {})",
            self.title,
            time(total),
            run.samples,
            self.mode
        )?;
        if let Some(why) = &run.unavailable {
            writeln!(out, "no machine code: {why}; everything was interpreted")?;
        }
        if run.is_cut {
            writeln!(out, "so many functions were looked at that not all decisions were kept")?;
        }
        let share = |activity| percent(run.spent.of(activity), total);
        if total > 0 {
            writeln!(
                out,
                "machine code {}, interpreter {}, interpreter for machine code {}, library {}, collector {}",
                share(Activity::Machine),
                share(Activity::Lua),
                share(Activity::Helper),
                share(Activity::Native),
                share(Activity::Collector)
            )?;
        }
        let (pieces, bytes, ns) = run.compiled();
        match pieces {
            _ if run.unavailable.is_some() => {}
            0 => writeln!(out, "compiler: nothing was compiled")?,
            1 => writeln!(out, "compiler: 1 piece of machine code, {bytes} bytes in {}", time(ns))?,
            n => writeln!(out, "compiler: {n} pieces of machine code, {bytes} bytes in {}", time(ns))?,
        }
        self.text_hottest(out)?;
        self.text_findings(out)?;
        for function in self.shown() {
            self.text_function(function, out)?;
        }
        let small = run.functions.iter().filter(|f| self.is_wanted(f)).count() - self.shown().len();
        if small > 0 {
            writeln!(out, "\n({small} more functions; --all shows all, --function NAME one)")?;
        }
        if self.own.function.is_some() && self.shown().is_empty() {
            writeln!(out, "\nno such function has run long enough to be seen, and none was compiled")?;
        }
        Ok(())
    }

    fn text_hottest(&self, out: &mut dyn Write) -> io::Result<()> {
        let lines = self.hottest();
        if lines.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nhottest lines (share of all time; how much of the line is machine code)")?;
        let mut table = Table::new(["where", "share", "machine", "function", "source"]);
        for (function, line, spent) in lines.iter().take(self.own.top.min(10)) {
            table.row([
                format!("{}:{line}", function.source),
                percent(spent.total(), self.total()),
                percent(spent.of(Activity::Machine), spent.total()),
                function.title(),
                self.source(&function.source, *line).unwrap_or_default().trim().to_owned(),
            ]);
        }
        table.write(out, 2)
    }

    fn text_findings(&self, out: &mut dyn Write) -> io::Result<()> {
        let findings = self.findings();
        if findings.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nwhat stayed slow, and why")?;
        for finding in findings {
            let share = percent(finding.spent.total(), self.total());
            writeln!(out, "  {}:{} ({share}): {}", finding.function.source, finding.line, finding.why)?;
            if !finding.help.is_empty() {
                writeln!(out, "      {}", finding.help)?;
            }
        }
        Ok(())
    }

    fn text_function(&self, function: &Function, out: &mut dyn Write) -> io::Result<()> {
        let share = percent(function.spent.total(), self.total());
        let share = if share.is_empty() { "0%".to_owned() } else { share };
        writeln!(out, "\n{} ({}): {share} of the time", function.title(), function.place())?;
        for decision in &function.decisions {
            writeln!(out, "  {}", words::decision(decision))?;
        }
        if function.decisions.is_empty() {
            let (why, _) = words::not_compiled(function, self.mode, self.run.unavailable.as_deref());
            writeln!(out, "  {why}")?;
        }
        let lines = self.lines(function);
        if lines.is_empty() {
            return Ok(());
        }
        writeln!(out, "   share  machine  left  interp  library  gc    line")?;
        let mut last = None;
        for line in lines {
            if last.is_some_and(|last| last + 1 < line) {
                writeln!(out, "{:47}...", "")?;
            }
            last = Some(line);
            let spent = function.lines.get(&line).copied().unwrap_or_default();
            let part = |ns: u64| if ns == 0 { String::new() } else { percent(ns, self.total()) };
            let text = self.source(&function.source, line).unwrap_or_default();
            let row = format!(
                "{:>8} {:>8} {:>5} {:>7} {:>8} {:>5} {line:>5}  {text}",
                part(spent.total()),
                part(spent.of(Activity::Machine)),
                part(spent.of(Activity::Helper)),
                part(spent.of(Activity::Lua)),
                part(spent.of(Activity::Native)),
                part(spent.of(Activity::Collector)),
            );
            writeln!(out, "{}", row.trim_end())?;
            for remark in remarks(function, line) {
                writeln!(out, "{:52}^ {remark}", "")?;
            }
        }
        Ok(())
    }

    /// The lines of a function that are shown: all of a short one, of others those that matter, with what is
    /// around them.
    fn lines(&self, function: &Function) -> Vec<u32> {
        let known = self.sources.get(function.source.as_str()).map_or(0, Vec::len) as u32;
        let sampled = function.lines.keys().copied().filter(|&line| line != 0);
        let remarked = function.left.iter().chain(&function.guards).map(|remark| remark.line);
        let important: BTreeSet<u32> = sampled.chain(remarked).collect();
        let (Some(&low), Some(&high)) = (important.first(), important.last()) else { return Vec::new() };
        let range = match function.last {
            0 => low..=high,
            last => function.defined.max(1)..=last,
        };
        let is_short = range.end() - range.start() < SHORT && function.defined != 0;
        if self.own.all || is_short {
            return range.collect();
        }
        let matters = |line: &u32| {
            let spent = function.lines.get(line).copied().unwrap_or_default();
            !self.is_small(&spent, SMALL / 2) || !remarks(function, *line).is_empty()
        };
        let around =
            important.iter().filter(|line| matters(line)).flat_map(|line| line.saturating_sub(1)..=line + 1);
        around
            .filter(|line| range.contains(line) && *line <= known.max(high))
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// The same as JSON.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let number = |n: u64| Json::Number(n as f64);
        let text = |s: &str| Json::Text(s.to_owned());
        let (pieces, bytes, ns) = self.run.compiled();
        let hottest = self.hottest().into_iter().take(self.own.top).map(|(function, line, spent)| {
            Json::object([
                ("source", text(&function.source)),
                ("line", number(line as u64)),
                ("function", text(&function.title())),
                ("text", self.source(&function.source, line).map_or(Json::Null, text)),
                ("spent", json_spent(&spent)),
            ])
        });
        let findings = self.findings().into_iter().map(|finding| {
            Json::object([
                ("source", text(&finding.function.source)),
                ("line", number(finding.line as u64)),
                ("function", text(&finding.function.title())),
                ("spent", json_spent(&finding.spent)),
                ("why", text(&finding.why)),
                ("help", text(&finding.help)),
            ])
        });
        let functions =
            self.run.functions.iter().filter(|f| self.is_wanted(f)).map(|f| self.json_function(f));
        let document = Json::object([
            ("title", text(self.title)),
            ("mode", text(self.mode)),
            ("unavailable", self.run.unavailable.as_deref().map_or(Json::Null, text)),
            ("complete", Json::Bool(self.run.is_told && !self.run.is_cut)),
            ("samples", number(self.run.samples)),
            ("spent", json_spent(&self.run.spent)),
            (
                "compiler",
                Json::object([
                    ("pieces", number(pieces as u64)),
                    ("bytes", number(bytes)),
                    ("ns", number(ns)),
                ]),
            ),
            ("hottest", Json::List(hottest.collect())),
            ("slow", Json::List(findings.collect())),
            ("functions", Json::List(functions.collect())),
        ]);
        writeln!(out, "{document}")
    }

    fn json_function(&self, function: &Function) -> Json {
        let number = |n: u64| Json::Number(n as f64);
        let text = |s: &str| Json::Text(s.to_owned());
        let lines = function.lines.iter().map(|(&line, spent)| {
            Json::object([
                ("line", number(line as u64)),
                ("text", self.source(&function.source, line).map_or(Json::Null, text)),
                ("spent", json_spent(spent)),
            ])
        });
        let raw = |remarks: &[Remark]| {
            let with_times = |remark: &Remark| match json_of(&remark.raw) {
                Json::Object(mut members) => {
                    members
                        .iter_mut()
                        .filter(|(name, _)| name == "times")
                        .for_each(|(_, n)| *n = number(remark.times));
                    Json::Object(members)
                }
                other => other,
            };
            Json::List(remarks.iter().map(with_times).collect())
        };
        Json::object([
            ("name", text(&function.title())),
            ("source", text(&function.source)),
            ("defined", number(function.defined as u64)),
            ("spent", json_spent(&function.spent)),
            ("decisions", Json::List(function.decisions.iter().map(json_decision).collect())),
            ("left", raw(&function.left)),
            ("guards", raw(&function.guards)),
            ("lines", Json::List(lines.collect())),
        ])
    }
}

/// What there is to say of a line.
fn remarks(function: &Function, line: u32) -> Vec<String> {
    let mut said = BTreeSet::new();
    let mut remarks = Vec::new();
    for (_, source, defined) in function.compiled().flat_map(|(d, ..)| &d.inlined).filter(|i| i.0 == line) {
        remarks.push(format!("inlined: the function at {source}:{defined}"));
    }
    // What the last code does.
    let last = function.compiled().last();
    let unmade = last.iter().flat_map(|(d, ..)| &d.unmade);
    for (_, source, maker, made) in unmade.filter(|table| table.0 == line) {
        remarks.push(match made {
            None => format!("no table is made: the one of {source}:{maker}"),
            Some(made) => format!("the table of {source}:{maker} is not made before line {made}"),
        });
    }
    let is_compiled = function.compiled().next().is_some();
    for left in function.left.iter().filter(|left| left.line == line) {
        let what = if is_compiled { "left to the interpreter" } else { "would be left to the interpreter" };
        remarks.push(format!("{what}: {}, recorded {} times: {}", left.op, left.times, left.why));
    }
    for guard in function.guards.iter().filter(|guard| guard.line == line) {
        remarks.push(format!("left machine code {} times: {}", guard.times, guard.why));
    }
    remarks.retain(|remark| said.insert(remark.clone()));
    remarks
}

fn json_spent(spent: &Spent) -> Json {
    let names = ["interpreter", "library", "collector", "machine_code", "for_machine_code"];
    let parts = names.iter().zip(spent.0).map(|(name, ns)| (format!("{name}_ns"), Json::Number(ns as f64)));
    let total = ("total_ns".to_owned(), Json::Number(spent.total() as f64));
    Json::Object([total].into_iter().chain(parts).collect())
}

fn json_decision(decision: &Decision) -> Json {
    let number = |n: u64| Json::Number(n as f64);
    let inlined = decision.inlined.iter().map(|(line, source, defined)| {
        Json::object([
            ("line", number(*line as u64)),
            ("source", Json::Text(source.clone())),
            ("defined", number(*defined as u64)),
        ])
    });
    let unmade = decision.unmade.iter().map(|(line, source, maker, made)| {
        Json::object([
            ("line", number(*line as u64)),
            ("source", Json::Text(source.clone())),
            ("maker", number(*maker as u64)),
            ("made", made.map_or(Json::Null, |line| number(line as u64))),
        ])
    });
    let outcome = match decision.outcome {
        Outcome::Compiled { bytes, ns } => ("compiled", vec![("bytes", bytes as f64), ("ns", ns as f64)]),
        Outcome::NoGain { compiled, interpreted } => {
            ("no_gain", vec![("compiled_cost", compiled), ("interpreted_cost", interpreted)])
        }
        Outcome::TooLittle { saves_ns, costs_ns } => {
            ("too_little", vec![("saves_ns", saves_ns), ("costs_ns", costs_ns)])
        }
        Outcome::InPlace => ("in_place", vec![]),
        Outcome::TooLarge => ("too_large", vec![]),
        Outcome::NoRoom => ("no_room", vec![]),
        Outcome::Failed => ("failed", vec![]),
    };
    let mut members = vec![
        ("at_ns", number(decision.at_ns)),
        ("times", number(decision.times)),
        ("what", Json::Text(if decision.starts { "function" } else { "loops" }.into())),
        ("first_line", number(decision.lines.0 as u64)),
        ("last_line", number(decision.lines.1 as u64)),
        ("instructions", number(decision.instructions)),
        ("outcome", Json::Text(outcome.0.into())),
    ];
    members.extend(outcome.1.into_iter().map(|(name, x)| (name, Json::Number(x))));
    members.push(("inlined", Json::List(inlined.collect())));
    members.push(("unmade", Json::List(unmade.collect())));
    Json::object(members)
}

/// What was told, told on.
fn json_of(value: &serde_json::Value) -> Json {
    use serde_json::Value;
    match value {
        Value::Null => Json::Null,
        Value::Bool(b) => Json::Bool(*b),
        Value::Number(n) => Json::Number(n.as_f64().unwrap_or(0.0)),
        Value::String(s) => Json::Text(s.clone()),
        Value::Array(list) => Json::List(list.iter().map(json_of).collect()),
        Value::Object(members) => {
            Json::object(members.iter().map(|(name, value)| (name.as_str(), json_of(value))))
        }
    }
}
