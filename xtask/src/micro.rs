//! `cargo xtask micro`: nanoseconds per operation.
//!
//! Each program of `benches/micro` times one operation itself, takes off what its empty loop costs, and
//! prints `ns=VALUE`. The implementations take turns as in `bench`; the least value over the runs counts. The
//! `goal=` of a header is shown beside the figure, so that the table answers "is it there yet?" by itself.

use crate::bench::Options;
use crate::chore::{self, Error, Outcome};
use crate::program;
use perilune_measure::json::Json;
use perilune_measure::process::{self, Job};
use std::ffi::OsString;

/// Listing line.
pub const SUMMARY: &str = "nanoseconds per operation of benches/micro on perilune, lua5.4 and luajit";
/// Arguments.
pub const USAGE: &str = crate::bench::USAGE;

struct Line {
    name: String,
    goal: Option<u64>,
    figures: Vec<Result<f64, String>>,
}

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let options = Options::parse(args, 3)?;
    let programs = program::find(&chore::root().join("benches/micro"), options.only.as_deref())?;
    let contenders = options.contenders()?;
    let mut lines = Vec::new();
    for p in &programs {
        chore::progress(&p.name);
        let mut figures: Vec<Result<f64, String>> = vec![Err("not run".into()); contenders.len()];
        for _ in 0..options.runs {
            for (peer, best) in contenders.iter().zip(&mut figures) {
                if peer.is_luajit && !p.header.luajit {
                    continue;
                }
                let args =
                    [p.path.as_os_str().to_os_string(), p.header.argument(options.scale).to_string().into()];
                let run = process::run(&Job::new(&peer.bin, args, &chore::root()).timeout(options.timeout))?;
                let figure = if run.ok() { reading(&run.stdout) } else { Err(run.failure()) };
                *best = match (&*best, figure) {
                    (Ok(a), Ok(b)) => Ok(a.min(b)),
                    (Ok(_), Err(e)) => Err(e),
                    (Err(_), new) => new,
                };
            }
        }
        lines.push(Line { name: p.name.clone(), goal: p.header.goal, figures });
    }
    chore::progress("");
    let names: Vec<&str> = contenders.iter().map(|c| c.name.as_str()).collect();
    let markdown = markdown(&names, &lines);
    print!("{markdown}");
    if let Some(path) = &options.md {
        std::fs::write(path, &markdown)?;
    }
    if let Some(path) = &options.json {
        std::fs::write(path, json(&names, &lines).to_string())?;
    }
    Ok(Outcome::from_ok(lines.iter().all(|l| l.figures[0].is_ok())))
}

/// The value of the `ns=` line in a program's output.
fn reading(output: &[u8]) -> Result<f64, String> {
    let text = String::from_utf8_lossy(output);
    let value = text.lines().find_map(|l| l.strip_prefix("ns=")).ok_or("no line 'ns=VALUE'")?;
    value.trim().parse().map_err(|_| format!("'{value}' is not a number"))
}

fn markdown(names: &[&str], lines: &[Line]) -> String {
    let mut s = format!("\n## Nanoseconds per operation\n\n| operation | {} | goal |\n", names.join(" | "));
    s.push_str(&format!("|---|{}\n", "---:|".repeat(names.len() + 1)));
    for l in lines {
        let cells: Vec<String> =
            l.figures.iter().map(|f| f.as_ref().map_or("-".into(), |x| format!("{x:.1}"))).collect();
        let goal = match (l.goal, &l.figures[0]) {
            (None, _) => String::new(),
            (Some(g), Ok(x)) if *x <= g as f64 => format!("{g} (met)"),
            (Some(g), _) => g.to_string(),
        };
        s.push_str(&format!("| {} | {} | {goal} |\n", l.name, cells.join(" | ")));
    }
    for l in lines {
        if let Err(e) = &l.figures[0] {
            s.push_str(&format!("\n- {} on {}: {e}", l.name, names[0]));
        }
    }
    s
}

fn json(names: &[&str], lines: &[Line]) -> Json {
    Json::object(lines.iter().map(|l| {
        let figures = names.iter().zip(&l.figures).map(|(n, f)| (n.to_string(), Json::maybe(f.clone().ok())));
        let mut members: Vec<(String, Json)> = figures.collect();
        members.push(("goal".into(), Json::maybe(l.goal.map(|g| g as f64))));
        (l.name.clone(), Json::Object(members))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_figure() {
        assert_eq!(reading(b"ns=12.5\n"), Ok(12.5));
        assert_eq!(reading(b"note\nns=3\n"), Ok(3.0));
        assert!(reading(b"12.5\n").is_err());
        assert!(reading(b"ns=fast\n").is_err());
    }

    #[test]
    fn a_goal_that_is_met_says_so() {
        let line = |ns: f64| Line { name: "op".into(), goal: Some(20), figures: vec![Ok(ns)] };
        assert!(markdown(&["ours"], &[line(19.0)]).contains("| op | 19.0 | 20 (met) |"));
        assert!(markdown(&["ours"], &[line(21.0)]).contains("| op | 21.0 | 20 |"));
    }
}
