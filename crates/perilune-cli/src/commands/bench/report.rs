//! The figures of `perilune bench`, as a table, as JSON, and what to think of them.
//!
//! Of one program under one contender: median and minimum of wall clock and CPU time, the spread of the wall
//! clock (largest less least, as a part of the median), the largest peak of memory. Of two contenders: how
//! many times as fast the first is, by wall clock and by CPU time, and which part of the other's memory it
//! takes. The mean of ratios is formed within each round too, so it has an interval like every other ratio.

use perilune_measure::json::Json;
use perilune_measure::process::Run;
use perilune_measure::stats::{Interval, geometric_mean, median, median_interval, minimum};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What one contender did with one program.
#[derive(Debug, Default)]
pub struct Cell {
    wall: Vec<f64>,
    cpu: Vec<f64>,
    peak: Vec<f64>,
    output: Option<u64>,
    output_varies: bool,
    failure: Option<String>,
}

impl Cell {
    /// Takes one more run into account; its cost only if it `counts`.
    pub fn add(&mut self, run: Run, counts: bool) {
        if !run.ok() {
            *self = Cell { failure: Some(run.failure()), ..Cell::default() };
            return;
        }
        let mut hasher = DefaultHasher::new();
        run.stdout.hash(&mut hasher);
        let output = Some(hasher.finish());
        self.output_varies |= self.output.is_some() && self.output != output;
        self.output = output;
        if counts {
            // Below the clock's resolution must not become a division by zero.
            self.wall.push(run.wall.max(1e-6));
            self.cpu.push(run.cpu.max(1e-6));
            self.peak.push(run.peak as f64);
        }
    }

    /// Whether a run of it failed; there are no figures then.
    pub fn failed(&self) -> bool {
        self.failure.is_some()
    }

    fn spread(&self) -> Option<f64> {
        let largest = self.wall.iter().copied().reduce(f64::max)?;
        Some((largest - minimum(self.wall.iter().copied())?) / median(&self.wall)?)
    }

    fn peak(&self) -> Option<f64> {
        self.peak.iter().copied().reduce(f64::max)
    }
}

/// One program.
#[derive(Debug)]
pub struct Row {
    /// As it was named.
    pub name: String,
    /// One for each contender.
    pub cells: Vec<Cell>,
}

/// Everything measured.
#[derive(Debug)]
pub struct Report {
    /// The contenders, ours first.
    pub names: Vec<String>,
    /// The programs.
    pub rows: Vec<Row>,
    /// Rounds that did not count.
    pub warmup: u32,
    /// Rounds that did.
    pub rounds: u32,
    /// The machine's load before and after.
    pub load: [Option<f64>; 2],
}

/// How the first contender compares with another.
struct Comparison {
    wall: Ratio,
    cpu: Ratio,
    memory: f64,
}

/// The ratios of all rounds.
struct Ratio(Vec<f64>);

impl Ratio {
    fn of(theirs: &[f64], ours: &[f64]) -> Ratio {
        Ratio(theirs.iter().zip(ours).map(|(t, o)| t / o).collect())
    }

    /// Round by round.
    fn mean(all: &[&Ratio]) -> Option<Ratio> {
        let rounds = all.iter().map(|r| r.0.len()).min()?;
        (0..rounds).map(|i| geometric_mean(all.iter().map(|r| r.0[i]))).collect::<Option<Vec<_>>>().map(Ratio)
    }

    fn shows_nothing(&self) -> bool {
        median_interval(&self.0).is_none_or(|i| i.low <= 1.0 && 1.0 <= i.high)
    }

    fn text(&self) -> [String; 2] {
        let Some(middle) = median(&self.0) else { return ["-".into(), "-".into()] };
        let mark = if self.shows_nothing() { "~" } else { "" };
        let interval = median_interval(&self.0);
        [
            format!("{mark}{middle:.2}"),
            interval.map_or("-".into(), |Interval { low, high, .. }| format!("{low:.2}..{high:.2}")),
        ]
    }

    fn json(&self) -> Json {
        let interval = median_interval(&self.0);
        Json::object([
            ("median", Json::maybe(median(&self.0))),
            ("low", Json::maybe(interval.map(|i| i.low))),
            ("high", Json::maybe(interval.map(|i| i.high))),
            ("confidence", Json::maybe(interval.map(|i| i.confidence))),
        ])
    }
}

impl Comparison {
    fn of(ours: &Cell, theirs: &Cell) -> Option<Comparison> {
        Some(Comparison {
            memory: ours.peak()? / theirs.peak()?,
            wall: Ratio::of(&theirs.wall, &ours.wall),
            cpu: Ratio::of(&theirs.cpu, &ours.cpu),
        })
    }

    fn mean(all: &[Comparison]) -> Option<Comparison> {
        Some(Comparison {
            wall: Ratio::mean(&all.iter().map(|c| &c.wall).collect::<Vec<_>>())?,
            cpu: Ratio::mean(&all.iter().map(|c| &c.cpu).collect::<Vec<_>>())?,
            memory: geometric_mean(all.iter().map(|c| c.memory))?,
        })
    }

    fn line(&self, program: String, peer: &str) -> Vec<String> {
        let [wall, wall_interval] = self.wall.text();
        let [cpu, cpu_interval] = self.cpu.text();
        let memory = format!("{:.2}", self.memory);
        vec![program, peer.into(), wall, wall_interval, cpu, cpu_interval, memory]
    }

    fn json(&self) -> Json {
        Json::object([
            ("wall", self.wall.json()),
            ("cpu", self.cpu.json()),
            ("memory", Json::Number(self.memory)),
        ])
    }
}

const MIB: f64 = 1024.0 * 1024.0;

impl Report {
    /// Whether no run failed.
    pub fn all_ran(&self) -> bool {
        self.rows.iter().flat_map(|r| &r.cells).all(|c| !c.failed())
    }

    /// The first contender against number `i`, for each program that both ran.
    fn comparisons(&self, i: usize) -> Vec<Comparison> {
        self.rows.iter().filter_map(|r| Comparison::of(&r.cells[0], &r.cells[i])).collect()
    }

    /// The tables.
    pub fn text(&self) -> String {
        let mut lines = vec![
            ["program", "with", "wall s", "least", "spread", "cpu s", "least", "peak MB"]
                .map(String::from)
                .to_vec(),
        ];
        let number = |x: Option<f64>, digits: usize| x.map_or("-".into(), |x| format!("{x:.digits$}"));
        for row in &self.rows {
            for (name, cell) in self.names.iter().zip(&row.cells) {
                if cell.failed() {
                    lines.push(vec![row.name.clone(), name.clone(), "failed".into()]);
                    continue;
                }
                lines.push(vec![
                    row.name.clone(),
                    name.clone(),
                    number(median(&cell.wall), 4),
                    number(minimum(cell.wall.iter().copied()), 4),
                    cell.spread().map_or("-".into(), |s| format!("{:.0}%", s * 100.0)),
                    number(median(&cell.cpu), 4),
                    number(minimum(cell.cpu.iter().copied()), 4),
                    number(cell.peak().map(|p| p / MIB), 1),
                ]);
            }
        }
        let mut text = aligned(&lines);
        if self.names.len() > 1 {
            text.push_str("\ntimes as fast as, and peak memory as a part of:\n");
            let mut lines =
                vec![["program", "with", "wall", "", "cpu", "", "memory"].map(String::from).to_vec()];
            for row in &self.rows {
                for (i, name) in self.names.iter().enumerate().skip(1) {
                    if let Some(c) = Comparison::of(&row.cells[0], &row.cells[i]) {
                        lines.push(c.line(row.name.clone(), name));
                    }
                }
            }
            for (i, name) in self.names.iter().enumerate().skip(1) {
                let all = self.comparisons(i);
                if let Some(mean) = Comparison::mean(&all) {
                    lines.push(mean.line(format!("geometric mean of {}", all.len()), name));
                }
            }
            text.push_str(&aligned(&lines));
        }
        text
    }

    /// What there is to say about the figures.
    pub fn remarks(&self) -> String {
        let mut s = String::new();
        let mut say = |line: std::fmt::Arguments| writeln!(s, "{line}").expect("a string takes everything");
        let cells = || {
            self.rows.iter().flat_map(|r| {
                self.names.iter().zip(&r.cells).map(|(name, cell)| (r.name.as_str(), name, cell))
            })
        };
        for (program, name, cell) in cells() {
            if let Some(failure) = &cell.failure {
                say(format_args!("{program} failed with {name}: {failure}"));
            }
        }
        for row in &self.rows {
            let ours = &row.cells[0];
            for (name, theirs) in self.names.iter().zip(&row.cells).skip(1) {
                let both = !ours.failed() && !theirs.failed() && !ours.output_varies && !theirs.output_varies;
                if both && ours.output != theirs.output {
                    say(format_args!("{}: {name} prints something else", row.name));
                }
            }
        }
        say(format_args!(
            "{} rounds after {} to warm up; a process for each run, contenders in turns, in reverse order \
             every other round.",
            self.rounds, self.warmup
        ));
        let noisiest =
            cells().filter_map(|(p, n, c)| Some((c.spread()?, p, n))).max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((spread, program, name)) = noisiest {
            let spreads: Vec<f64> = cells().filter_map(|(_, _, c)| c.spread()).collect();
            say(format_args!(
                "Spread (largest less least wall time, as a part of the median): usually {:.0}%, at most \
                 {:.0}% ({program}, {name}).",
                median(&spreads).unwrap_or(0.0) * 100.0,
                spread * 100.0
            ));
        }
        if self.names.len() > 1 {
            let rounds = vec![0.0; self.rounds as usize];
            match median_interval(&rounds) {
                Some(i) => say(format_args!(
                    "A ratio is the median of the rounds' ratios; a..b holds the true one with {:.1}% \
                     confidence, if rounds do not depend on each other. ~ marks those that may be 1.",
                    i.confidence * 100.0
                )),
                None => say(format_args!("One round says nothing about noise.")),
            }
        }
        let short = cells().filter(|(_, _, c)| median(&c.wall).is_some_and(|w| w < 0.02));
        let short: Vec<String> = short.map(|(p, n, _)| format!("{p} ({n})")).collect();
        if !short.is_empty() {
            say(format_args!(
                "Less than 20 ms, where starting and the clock weigh much: {}.",
                short.join(", ")
            ));
        }
        if let [Some(before), Some(after)] = self.load {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            let busy = if before > 0.5 * processors as f64 {
                ": others were using the machine, trust CPU times more than the wall clock"
            } else {
                ""
            };
            say(format_args!("Load {before:.1} before, {after:.1} after, on {processors} processors{busy}."));
        }
        s
    }

    /// Everything, all runs included.
    pub fn json(&self) -> Json {
        let list = |xs: &[f64]| Json::List(xs.iter().map(|x| Json::Number(*x)).collect());
        let times = |xs: &[f64]| {
            Json::object([
                ("median", Json::maybe(median(xs))),
                ("least", Json::maybe(minimum(xs.iter().copied()))),
                ("all", list(xs)),
            ])
        };
        let cell = |c: &Cell| {
            Json::object([
                ("wall_s", times(&c.wall)),
                ("cpu_s", times(&c.cpu)),
                ("spread", Json::maybe(c.spread())),
                ("peak_bytes", Json::maybe(c.peak())),
                ("failure", c.failure.clone().map_or(Json::Null, Json::Text)),
            ])
        };
        let program = |row: &Row| {
            let peers = self.names.iter().zip(&row.cells).skip(1);
            let ratios = peers
                .map(|(n, c)| (n.clone(), Comparison::of(&row.cells[0], c).map_or(Json::Null, |c| c.json())));
            Json::object([
                ("name", Json::Text(row.name.clone())),
                (
                    "contenders",
                    Json::object(self.names.iter().zip(&row.cells).map(|(n, c)| (n.clone(), cell(c)))),
                ),
                ("times_as_fast_as", Json::object(ratios)),
            ])
        };
        let means = self.names.iter().enumerate().skip(1).map(|(i, n)| {
            (n.clone(), Comparison::mean(&self.comparisons(i)).map_or(Json::Null, |c| c.json()))
        });
        Json::object([
            ("rounds", Json::Number(f64::from(self.rounds))),
            ("warmup", Json::Number(f64::from(self.warmup))),
            ("load", Json::List(self.load.map(Json::maybe).into())),
            ("contenders", Json::List(self.names.iter().cloned().map(Json::Text).collect())),
            ("programs", Json::List(self.rows.iter().map(program).collect())),
            ("geometric_means", Json::object(means)),
        ])
    }
}

/// Lines of cells as columns: the first two to the left, the others to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |i: usize| lines.iter().filter_map(|l| l.get(i)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (i, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let gap = if i == 0 { "" } else { "  " };
            let written = match i {
                0 | 1 => write!(row, "{gap}{cell:<width$}"),
                _ => write!(row, "{gap}{cell:>width$}"),
            };
            written.expect("a string takes everything");
        }
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use perilune_measure::process::End;

    fn ran(wall: &[f64], output: &str) -> Cell {
        let mut cell = Cell::default();
        for &wall in wall {
            let (stdout, stderr) = (output.into(), Vec::new());
            cell.add(Run { end: End::Exit(0), cpu: wall / 2.0, wall, peak: 1 << 20, stdout, stderr }, true);
        }
        cell
    }

    fn report(cells: Vec<Vec<Cell>>) -> Report {
        let rows = cells.into_iter().zip(["a.lua", "b.lua"]);
        let rows = rows.map(|(cells, name)| Row { name: name.into(), cells }).collect();
        Report { names: vec!["perilune".into(), "peer".into()], rows, warmup: 1, rounds: 3, load: [None; 2] }
    }

    #[test]
    fn ratios_are_taken_within_rounds() {
        // The machine became three times as slow in the second round; the ratio knows nothing of that.
        let r = report(vec![
            vec![ran(&[1.0, 3.0, 1.0], "x"), ran(&[2.0, 6.0, 2.0], "x")],
            vec![ran(&[1.0, 1.0, 1.0], "x"), ran(&[8.0, 8.0, 8.0], "x")],
        ]);
        let text = r.text();
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert!(
            lines.contains(&vec!["a.lua", "perilune", "1.0000", "1.0000", "200%", "0.5000", "0.5000", "1.0"]),
            "{text}"
        );
        assert!(
            lines.contains(&vec!["a.lua", "peer", "2.00", "2.00..2.00", "2.00", "2.00..2.00", "1.00"]),
            "{text}"
        );
        assert!(text.contains("geometric mean of 2"), "{text}");
        assert!(lines.iter().any(|l| l.first() == Some(&"geometric") && l.contains(&"4.00..4.00")), "{text}");
        assert!(r.remarks().contains("at most 200% (a.lua, "), "{}", r.remarks());
        assert!(r.json().to_string().contains("\"times_as_fast_as\""));
    }

    #[test]
    fn what_may_be_noise_is_marked() {
        let r = report(vec![vec![ran(&[1.0, 1.0, 1.0], "x"), ran(&[0.9, 1.2, 1.1], "y")]]);
        assert!(r.text().contains("~1.10"), "{}", r.text());
        assert!(r.remarks().contains("a.lua: peer prints something else"), "{}", r.remarks());
        assert!(r.all_ran());
    }

    #[test]
    fn a_failure_leaves_the_program_out() {
        let mut failed = ran(&[1.0], "x");
        failed.add(
            Run { end: End::Exit(1), cpu: 0.0, wall: 0.0, peak: 0, stdout: vec![], stderr: b"boom".to_vec() },
            true,
        );
        let r = report(vec![vec![ran(&[1.0, 1.0, 1.0], "x"), failed]]);
        assert!(!r.all_ran());
        assert!(r.remarks().contains("a.lua failed with peer: boom"));
        assert!(!r.text().contains("geometric"), "{}", r.text());
    }
}
