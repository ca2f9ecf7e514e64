//! In the program that is explained: what the compiler has decided is written to a file when the program
//! ends, however it does (unless it is killed).
//!
//! The file is named by `PERILUNE_EXPLAIN`, which `perilune explain` sets. It is JSON, between two processes
//! of one executable: `model.rs` reads it.

use super::words;
use perilune_measure::json::Json;
use perilune_spesh::report::{Decision, Decisions, Function, Guard, Left, Outcome, Report};
use std::ffi::OsString;
use std::sync::{Arc, Mutex, OnceLock};

/// The variable that names the file.
pub const VARIABLE: &str = "PERILUNE_EXPLAIN";

/// The file, if the program is explained. The programs that this one starts are not.
fn file() -> Option<&'static OsString> {
    static FILE: OnceLock<Option<OsString>> = OnceLock::new();
    let find = || {
        let file = std::env::var_os(VARIABLE).filter(|file| !file.is_empty())?;
        // SAFETY: asked for before domains are made: the process has one thread yet.
        unsafe { std::env::remove_var(VARIABLE) };
        Some(file)
    };
    FILE.get_or_init(find).as_ref()
}

/// Whether somebody wants to know.
pub fn is_wanted() -> bool {
    file().is_some()
}

/// What is told at the end: the decisions, or why there are none.
static TOLD: Mutex<Option<(Arc<Decisions>, Option<String>)>> = Mutex::new(None);

/// Has the decisions written when the process ends; `problem` is why there is no machine code.
pub fn tell_at_exit(decisions: Arc<Decisions>, problem: Option<String>) {
    *TOLD.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some((decisions, problem));
    crate::sys::at_exit(tell);
}

extern "C" fn tell() {
    let told = std::panic::catch_unwind(|| {
        // Other threads may still run, and whoever ends the process may hold the lock of neither.
        let (Ok(told), Some(file)) = (TOLD.try_lock(), file()) else { return };
        if let Some((decisions, problem)) = &*told {
            let document = document(&decisions.report(), problem.as_deref());
            // Whoever asked says that there is nothing.
            let _ = std::fs::write(file, format!("{document}\n"));
        }
    });
    drop(told);
}

fn number(n: u64) -> Json {
    Json::Number(n as f64)
}

fn text(text: &str) -> Json {
    Json::Text(text.to_owned())
}

fn names(names: &[&'static str]) -> Json {
    Json::List(names.iter().map(|name| text(name)).collect())
}

fn document(report: &Report, problem: Option<&str>) -> Json {
    Json::object([
        ("unavailable", problem.map_or(Json::Null, text)),
        ("cut", Json::Bool(report.is_cut)),
        ("functions", Json::List(report.functions.iter().map(function).collect())),
    ])
}

fn function(function: &Function) -> Json {
    Json::object([
        ("source", text(&function.source)),
        ("defined", number(function.defined as u64)),
        ("last", number(function.last as u64)),
        ("vararg", Json::Bool(function.is_vararg)),
        ("decisions", Json::List(function.decisions.iter().map(decision).collect())),
        ("left", Json::List(function.left.iter().map(left).collect())),
        ("guards", Json::List(function.guards.iter().map(guard).collect())),
    ])
}

fn decision(decision: &Decision) -> Json {
    let inlined = decision.inlined.iter().map(|inlined| {
        Json::object([
            ("line", number(inlined.line as u64)),
            ("source", text(&inlined.source)),
            ("defined", number(inlined.defined as u64)),
        ])
    });
    let unmade = decision.unmade.iter().map(|table| {
        Json::object([
            ("line", number(table.line as u64)),
            ("source", text(&table.source)),
            ("maker", number(table.maker as u64)),
            ("made", table.made.map_or(Json::Null, |line| number(line as u64))),
        ])
    });
    let (outcome, figures) = match decision.outcome {
        Outcome::Compiled { bytes, nanos } => ("compiled", [("bytes", bytes as f64), ("ns", nanos as f64)]),
        Outcome::NoGain { compiled, interpreted } => {
            ("no_gain", [("compiled_cost", compiled), ("interpreted_cost", interpreted)])
        }
        Outcome::TooLittle { worth, cost } => ("too_little", [("saves_ns", worth), ("costs_ns", cost)]),
        Outcome::InPlace => ("in_place", [("", 0.0), ("", 0.0)]),
        Outcome::TooLarge => ("too_large", [("", 0.0), ("", 0.0)]),
        Outcome::NoRoom => ("no_room", [("", 0.0), ("", 0.0)]),
        Outcome::Failed => ("failed", [("", 0.0), ("", 0.0)]),
    };
    let mut members = vec![
        ("at_ns", number(decision.at)),
        ("times", number(decision.times as u64)),
        ("what", text(if decision.starts { "function" } else { "loops" })),
        ("first_line", number(decision.lines.0 as u64)),
        ("last_line", number(decision.lines.1 as u64)),
        ("instructions", number(decision.instructions as u64)),
        ("outcome", text(outcome)),
        ("inlined", Json::List(inlined.collect())),
        ("unmade", Json::List(unmade.collect())),
    ];
    members
        .extend(figures.into_iter().filter(|(name, _)| !name.is_empty()).map(|(n, x)| (n, Json::Number(x))));
    Json::object(members)
}

fn left(left: &Left) -> Json {
    let (reason, why, help) = words::left(left);
    Json::object([
        ("line", number(left.line as u64)),
        ("op", text(left.op)),
        ("times", number(left.times as u64)),
        ("name", left.name.as_deref().map_or(Json::Null, text)),
        ("reason", text(reason)),
        ("why", text(&why)),
        ("help", text(&help)),
    ])
}

fn guard(guard: &Guard) -> Json {
    let seen = guard
        .seen
        .iter()
        .map(|(types, times)| Json::object([("types", text(types)), ("times", number(*times))]));
    let (why, help) = words::guard(guard);
    Json::object([
        ("line", number(guard.line as u64)),
        ("op", text(guard.op)),
        ("times", number(guard.times)),
        ("name", guard.name.as_deref().map_or(Json::Null, text)),
        ("expected", names(&guard.expected)),
        ("seen", Json::List(seen.collect())),
        ("why", text(&why)),
        ("help", text(&help)),
    ])
}
