//! `cargo xtask parallel`: what several cores give, and what the pieces of `require "perilune"` cost.
//!
//! Three kinds of figures. A *contest* runs one example in two ways in turns (two domains and one, N domains
//! and N processes), so that a machine that slows down slows both, and sets the best times of the one against
//! the best of the other. The *solver* compares by itself, since what it compares is solves per second after
//! the loading. The programs of `benches/parallel` measure single *pieces*; their lines carry unit and goal
//! ([`crate::figure`]).
//!
//! Times of contests are those that the example itself reports: they leave out the start, the making of input
//! and the check of the result, which run on one domain. The CPU time beside them tells what the wall clock
//! cannot on a busy machine: whether the second domain worked or only waited.

use crate::chore::{self, Error, Outcome};
use crate::figure::{Figure, Goal};
use crate::peers;
use crate::program::{self, Program, Scale};
use lexopt::prelude::*;
use perilune_measure::json::Json;
use perilune_measure::process::{self, Job, Run};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Listing line.
pub const SUMMARY: &str = "what several cores give: domains against one domain and against processes; what \
    the pieces of 'perilune' cost";
/// Arguments.
pub const USAGE: &str = "[--quick] [--only PATTERN] [--runs N] [--index FILE]... [--json FILE] [--md FILE] \
    [--bin PATH] [--profile P] [--timeout S]";

struct Options {
    quick: bool,
    only: Option<String>,
    runs: u32,
    indices: Vec<OsString>,
    json: Option<PathBuf>,
    md: Option<PathBuf>,
    bin: Option<String>,
    profile: String,
    timeout: Duration,
}

impl Options {
    fn parse(args: Vec<OsString>) -> Result<Options, Error> {
        let mut o = Options {
            quick: false,
            only: None,
            runs: 3,
            indices: Vec::new(),
            json: None,
            md: None,
            bin: None,
            profile: "release".into(),
            timeout: Duration::from_secs(600),
        };
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Long("quick") => o.quick = true,
                Long("only") => o.only = Some(parser.value()?.string()?),
                Long("runs") => o.runs = parser.value()?.parse::<u32>()?.max(1),
                Long("index") => o.indices.push(parser.value()?),
                Long("json") => o.json = Some(parser.value()?.into()),
                Long("md") => o.md = Some(parser.value()?.into()),
                Long("bin") => o.bin = Some(parser.value()?.string()?),
                Long("profile") => o.profile = parser.value()?.string()?,
                Long("timeout") => o.timeout = Duration::from_secs(parser.value()?.parse()?),
                _ => return Err(arg.unexpected().into()),
            }
        }
        Ok(o)
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }
}

/// One way to run an example.
struct Side {
    label: String,
    args: Vec<String>,
}

/// An example run in two ways.
struct Contest {
    name: String,
    example: &'static str,
    sides: [Side; 2],
    /// From above: the first side's wall time over the second's. From below: how many times as fast as the
    /// second it is.
    goal: Option<Goal>,
}

impl Contest {
    /// `example` with `sizes`, two domains against one; `goal`: how many times as fast it should be.
    fn scaling(example: &'static str, sizes: &str, flag: &str, goal: Option<f64>) -> Contest {
        let side = |domains: &str, label: &str| Side {
            label: label.into(),
            args: sizes.split_whitespace().chain([flag, domains]).map(String::from).collect(),
        };
        let name = format!("{example} {sizes}");
        Contest {
            name,
            example,
            sides: [side("2", "2 domains"), side("1", "1 domain")],
            goal: goal.map(Goal::AtLeast),
        }
    }

    /// The allocator loop on `n` domains against `n` processes.
    fn allocator(n: u32, iterations: &str) -> Contest {
        let side = |how: &str| Side {
            label: format!("{n} {how}"),
            args: [&format!("--{how}"), n.to_string().as_str(), "--iterations", iterations]
                .map(String::from)
                .to_vec(),
        };
        Contest {
            name: format!("allocator, N = {n}"),
            example: "allocator",
            sides: [side("domains"), side("processes")],
            goal: Some(Goal::AtMost(1.05)),
        }
    }

    /// Binary trees made in arenas against collected ones.
    fn arenas(depth: &str, domains: &str) -> Contest {
        let side = |label: &str, extra: &[&str]| Side {
            label: label.into(),
            args: [depth, "--domains", domains]
                .iter()
                .chain(extra)
                .map(std::string::ToString::to_string)
                .collect(),
        };
        Contest {
            name: format!("binary_trees {depth}, domains: {domains}"),
            example: "binary_trees",
            sides: [side("arenas", &["--arena"]), side("collected", &[])],
            goal: None,
        }
    }
}

fn contests(quick: bool) -> Vec<Contest> {
    let size = |large: &'static str, small: &'static str| if quick { small } else { large };
    let mut all = vec![
        Contest::scaling("matmul", size("1024", "128"), "--workers", Some(1.9)),
        Contest::scaling("float_init", size("20000000", "500000"), "--workers", Some(1.9)),
        Contest::scaling("life", size("1024 100", "128 40"), "--workers", Some(1.9)),
        Contest::scaling("fib", size("38 24", "26 18"), "--workers", None),
        Contest::scaling("distributor", size("20000", "1500"), "--domains", None),
        Contest::scaling("pipeline", size("1000000", "20000"), "--workers", None),
        Contest::scaling("prefix_sum", size("5000000", "200000"), "--workers", None),
    ];
    for n in [1, 2, 4, 8] {
        all.push(Contest::allocator(n, if quick { "300000" } else { "20000000" }));
    }
    for domains in ["1", "2"] {
        all.push(Contest::arenas(if quick { "12" } else { "18" }, domains));
    }
    all
}

/// What one side cost: seconds on the wall and of all processors, the minimum over the runs, and the largest
/// resident set.
#[derive(Debug, Clone, Copy)]
struct Cost {
    wall: f64,
    cpu: f64,
    peak: u64,
}

impl Cost {
    /// The cost that the example reports of its own measured part (`NAME: W s, C CPU s` on standard error;
    /// for the allocator `... in W s, C CPU s: ...`), else that of the process.
    fn of(run: &Run) -> Cost {
        let text = [run.stderr.as_slice(), run.stdout.as_slice()].concat();
        let text = String::from_utf8_lossy(&text);
        let (wall, cpu) = text.lines().find_map(reported).unwrap_or((run.wall, run.cpu));
        Cost { wall, cpu, peak: run.peak }
    }

    fn best(self, other: Cost) -> Cost {
        Cost {
            wall: self.wall.min(other.wall),
            cpu: self.cpu.min(other.cpu),
            peak: self.peak.max(other.peak),
        }
    }
}

/// The seconds in a line that says `W s, C CPU s`.
fn reported(line: &str) -> Option<(f64, f64)> {
    let (before, after) = line.split_once(" s, ")?;
    let wall = before.rsplit(' ').next()?.parse().ok()?;
    let cpu = after.split_once(" CPU s")?.0.parse().ok()?;
    Some((wall, cpu))
}

struct Row {
    contest: Contest,
    costs: Result<[Cost; 2], String>,
}

impl Row {
    /// The ratio of wall times that the goal is about, and that of CPU times: first over second for a goal
    /// from above, else second over first. None where a time is too short to be told.
    fn ratios(&self) -> Option<(f64, f64)> {
        let [a, b] = self.costs.as_ref().ok()?;
        let (a, b) = if matches!(self.contest.goal, Some(Goal::AtMost(_))) { (a, b) } else { (b, a) };
        (b.wall > 0.0 && b.cpu > 0.0).then(|| (a.wall / b.wall, a.cpu / b.cpu))
    }
}

fn run_contest(contest: Contest, bin: &Path, options: &Options) -> Result<Row, Error> {
    let dir = chore::root().join("examples").join(contest.example);
    let mut best: [Option<Cost>; 2] = [None, None];
    for _ in 0..options.runs {
        for (side, best) in contest.sides.iter().zip(&mut best) {
            let args = std::iter::once("main.lua").chain(side.args.iter().map(String::as_str));
            let run = process::run(&Job::new(bin, args, &dir).timeout(options.timeout))?;
            if !run.ok() {
                let costs = Err(format!("{}: {}", side.label, run.failure()));
                return Ok(Row { contest, costs });
            }
            let cost = Cost::of(&run);
            *best = Some(best.map_or(cost, |so_far| so_far.best(cost)));
        }
    }
    let [a, b] = best.map(|c| c.expect("at least one run"));
    Ok(Row { contest, costs: Ok([a, b]) })
}

/// A piece: the figures of one program, or why there are none.
struct Piece {
    program: String,
    figures: Result<Vec<Figure>, String>,
}

fn run_piece(p: &Program, bin: &Path, options: &Options) -> Result<Piece, Error> {
    let scale = if options.quick { Scale::Quick } else { Scale::Normal };
    let size = p.header.argument(scale).to_string();
    let mut contenders = vec![(bin.to_path_buf(), None)];
    if p.header.luajit {
        // What a program that needs no perilune measures elsewhere is what ours is compared with.
        for name in ["luajit", "lua5.4"] {
            if let Some(peer) = perilune_measure::on_path(name) {
                contenders.push((peer.clone(), None));
                contenders.push((peer, Some("cjson")));
            }
        }
    }
    let mut figures = Vec::new();
    for _ in 0..options.runs {
        for (i, (bin, extra)) in contenders.iter().enumerate() {
            let mut args = vec![p.path.clone().into_os_string(), size.clone().into()];
            args.extend(extra.map(OsString::from));
            let run = process::run(&Job::new(bin, args, &chore::root()).timeout(options.timeout))?;
            if run.ok() {
                Figure::gather(&mut figures, &run.stdout);
            } else if i == 0 {
                return Ok(Piece { program: p.name.clone(), figures: Err(run.failure()) });
            }
        }
    }
    if p.name == "message" {
        let ratios = [
            message_ratio(&figures, "cjson", Some(Goal::AtLeast(3.0))),
            message_ratio(&figures, "string.buffer", None),
        ];
        figures.extend(ratios.into_iter().flatten());
    }
    let figures = if figures.is_empty() { Err("no figure in its output".into()) } else { Ok(figures) };
    Ok(Piece { program: p.name.clone(), figures })
}

/// How many times as fast as with `serialiser`, on the peer where that is fastest, a deep table crosses.
fn message_ratio(figures: &[Figure], serialiser: &str, goal: Option<Goal>) -> Option<Figure> {
    let ours = figures.iter().find(|f| f.name.ends_with("channel"))?;
    let others = figures.iter().filter(|f| f.name.ends_with(serialiser)).map(|f| f.value);
    let fastest = perilune_measure::stats::minimum(others)?;
    Some(Figure {
        name: format!("deep table by value, times as fast as {serialiser}"),
        value: fastest / ours.value,
        unit: "x".into(),
        goal,
    })
}

/// The solver compares domains and processes itself; its table becomes figures.
fn run_solver(bin: &Path, options: &Options) -> Result<Piece, Error> {
    let mut args: Vec<OsString> = vec!["main.lua".into()];
    for file in &options.indices {
        args.extend(["--index".into(), std::path::absolute(file)?.into_os_string()]);
    }
    let solves = if options.quick { "500" } else { "20000" };
    let runs = options.runs.to_string();
    args.extend(
        ["--solves", solves, "--together", "2", "--compare", "2", "--rounds", &runs].map(OsString::from),
    );
    let dir = chore::root().join("examples/solver");
    let run = process::run(&Job::new(bin, args, &dir).timeout(options.timeout))?;
    let figures = if run.ok() { solver_figures(&run.stdout) } else { Err(run.failure()) };
    Ok(Piece { program: "solver".into(), figures })
}

/// Figures from the solver's table, whose lines are `domains: 2`, load s, solve s, solves/s, CPU s, peak MiB,
/// resident MiB.
fn solver_figures(output: &[u8]) -> Result<Vec<Figure>, String> {
    let text = String::from_utf8_lossy(output);
    let numbers = |how: &str| -> Option<Vec<f64>> {
        let line = text.lines().find_map(|l| l.strip_prefix(how))?;
        let values: Option<Vec<f64>> = line.split_whitespace().skip(1).map(|w| w.parse().ok()).collect();
        values.filter(|v| v.len() == 6)
    };
    let (domains, processes) = (numbers("domains:"), numbers("processes:"));
    let (Some(d), Some(p)) = (domains, processes) else { return Err("no table in its output".into()) };
    let figure = |name: &str, value, unit: &str, goal| Figure {
        name: format!("solver: {name}"),
        value,
        unit: unit.into(),
        goal,
    };
    Ok(vec![
        figure("on 2 domains", d[2], "solves/s", None),
        figure("in 2 processes", p[2], "solves/s", None),
        figure("solves/s, domains / processes", d[2] / p[2], "x", Some(Goal::AtLeast(1.0))),
        figure("CPU time, domains / processes", d[3] / p[3], "x", None),
        figure("peak memory, domains / processes", d[4] / p[4], "x", None),
        figure("resident memory, domains / processes", d[5] / p[5], "x", Some(Goal::AtMost(0.6))),
    ])
}

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let options = Options::parse(args)?;
    let all = program::find(&chore::root().join("benches/parallel"), None)?;
    let programs: Vec<_> = all.iter().filter(|p| options.wants(&p.name)).collect();
    let contests: Vec<_> = contests(options.quick).into_iter().filter(|c| options.wants(&c.name)).collect();
    let solver = options.wants("solver");
    if programs.is_empty() && contests.is_empty() && !solver {
        return Err(format!("nothing is called {}", options.only.unwrap_or_default()).into());
    }
    let bin = peers::ours(options.bin.as_deref(), &options.profile)?.bin;
    let (mut rows, mut pieces) = (Vec::new(), Vec::new());
    for contest in contests {
        chore::progress(&contest.name);
        rows.push(run_contest(contest, &bin, &options)?);
    }
    if solver {
        chore::progress("solver");
        pieces.push(run_solver(&bin, &options)?);
    }
    for p in programs {
        chore::progress(&p.name);
        pieces.push(run_piece(p, &bin, &options)?);
    }
    chore::progress("");
    let markdown = markdown(&rows, &pieces);
    print!("{markdown}");
    if let Some(path) = &options.md {
        std::fs::write(path, &markdown)?;
    }
    if let Some(path) = &options.json {
        std::fs::write(path, json(&rows, &pieces).to_string())?;
    }
    let sound = rows.iter().all(|r| r.costs.is_ok()) && pieces.iter().all(|p| p.figures.is_ok());
    Ok(Outcome::from_ok(sound))
}

fn markdown(rows: &[Row], pieces: &[Piece]) -> String {
    let mut s = String::new();
    if !rows.is_empty() {
        s.push_str(
            "\n## In two ways\n\nWall and CPU seconds, peak memory of the process that was started; the best \
             of each.\n\n",
        );
        s.push_str(
            "| program | first | s | CPU s | MiB | second | s | CPU s | MiB | ratio | CPU ratio | goal |\n",
        );
        s.push_str("|---|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---|\n");
    }
    for row in rows {
        let [first, second] = &row.contest.sides;
        let Ok([a, b]) = &row.costs else { continue };
        let cells = |c: &Cost| format!("{:.2} | {:.2} | {:.1}", c.wall, c.cpu, c.peak as f64 / 1_048_576.0);
        let (ratio, cpu, goal) = match row.ratios() {
            Some((wall, cpu)) => {
                let goal = row.contest.goal.map_or(String::new(), |g| g.text(wall));
                (format!("{wall:.2}"), format!("{cpu:.2}"), goal)
            }
            None => ("-".into(), "-".into(), String::new()),
        };
        s.push_str(&format!(
            "| {} | {} | {} | {} | {} | {ratio} | {cpu} | {goal} |\n",
            row.contest.name,
            first.label,
            cells(a),
            second.label,
            cells(b),
        ));
    }
    if !pieces.is_empty() {
        s.push_str("\n## Pieces\n\n| figure | value | unit | goal |\n|---|---:|---|---|\n");
    }
    for f in pieces.iter().flat_map(|p| p.figures.iter().flatten()) {
        let goal = f.goal.map_or(String::new(), |g| g.text(f.value));
        s.push_str(&format!("| {} | {:.3} | {} | {goal} |\n", f.name, f.value, f.unit));
    }
    let failures = rows.iter().filter_map(|r| Some((&r.contest.name, r.costs.as_ref().err()?)));
    let failures =
        failures.chain(pieces.iter().filter_map(|p| Some((&p.program, p.figures.as_ref().err()?))));
    for (name, why) in failures {
        s.push_str(&format!("\n- {name}: {why}\n"));
    }
    s
}

fn json(rows: &[Row], pieces: &[Piece]) -> Json {
    let bound = |goal: Option<Goal>| match goal {
        Some(Goal::AtMost(x)) => Json::Text(format!("<= {x}")),
        Some(Goal::AtLeast(x)) => Json::Text(format!(">= {x}")),
        None => Json::Null,
    };
    let contests = rows.iter().map(|row| {
        let mut members = Vec::new();
        if let Ok(costs) = &row.costs {
            for (side, cost) in row.contest.sides.iter().zip(costs) {
                let values = [("wall", cost.wall), ("cpu", cost.cpu), ("peak", cost.peak as f64)];
                members.push((side.label.clone(), Json::object(values.map(|(k, v)| (k, Json::Number(v))))));
            }
        }
        members.push(("ratio".into(), Json::maybe(row.ratios().map(|r| r.0))));
        members.push(("cpu_ratio".into(), Json::maybe(row.ratios().map(|r| r.1))));
        members.push(("goal".into(), bound(row.contest.goal)));
        (row.contest.name.clone(), Json::Object(members))
    });
    let figures = pieces.iter().flat_map(|p| p.figures.iter().flatten()).map(|f| {
        let unit = ("unit", Json::Text(f.unit.clone()));
        (f.name.clone(), Json::object([("value", Json::Number(f.value)), unit, ("goal", bound(f.goal))]))
    });
    Json::object([("contests", Json::object(contests)), ("pieces", Json::object(figures))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_examples_report() {
        assert_eq!(reported("matmul: 1.250 s, 2.500 CPU s"), Some((1.25, 2.5)));
        let line = "2 domains made 100 tables in 0.42 s, 0.80 CPU s: 0.2 million a second";
        assert_eq!(reported(line), Some((0.42, 0.8)));
        assert_eq!(reported("64 x 64: corners 1, 2, sum 3"), None);
    }

    #[test]
    fn ratios_are_what_the_goal_is_about() {
        let cost = |wall, cpu| Cost { wall, cpu, peak: 0 };
        let row = |contest, a, b| Row { contest, costs: Ok([a, b]) };
        let faster =
            row(Contest::scaling("life", "64 4", "--workers", Some(1.9)), cost(1.0, 2.0), cost(2.0, 2.0));
        assert_eq!(faster.ratios(), Some((2.0, 1.0)));
        let dearer = row(Contest::allocator(2, "1"), cost(1.1, 2.0), cost(1.0, 2.0));
        assert_eq!(dearer.ratios(), Some((1.1, 1.0)));
        let text = markdown(&[faster, dearer], &[]);
        assert!(text.contains("| 2.00 | 1.00 | >= 1.9 (met) |"), "{text}");
        assert!(text.contains("| 1.10 | 1.00 | <= 1.05 |"), "{text}");
    }

    #[test]
    fn the_solvers_table_becomes_figures() {
        let table = b"                 load s  solve s  solves/s    CPU s  peak MiB  resident MiB\n\
            domains: 2         0.01     0.01      3000     0.01       7.5           4.0\n\
            processes: 2       0.11     0.01      2000     0.02      12.1           8.0\n";
        let figures = solver_figures(table).unwrap();
        assert_eq!(figures[2].value, 1.5);
        assert_eq!(figures[5].value, 0.5);
        assert!(solver_figures(b"domains: 2 1\n").is_err());
    }

    #[test]
    fn every_program_of_pieces_has_a_header() {
        let found = program::find(&chore::root().join("benches/parallel"), None).unwrap();
        assert!(found.len() >= 7, "{}", found.len());
    }
}
