//! Turns measurements into the tables that people and programs read.
//!
//! Ratios are always "times as fast as the peer" and "memory as a part of the peer's": above 1 is good for
//! time, below 1 is good for memory. The first contender is ours; every other column compares with it. A
//! program counts in a mean only where both sides ran it.

use perilune_measure::json::Json;
use perilune_measure::process::Run;
use perilune_measure::stats::{geometric_mean, minimum};
use std::fmt::Write;

/// One implementation's figures for one program.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// Least CPU seconds.
    pub cpu: Option<f64>,
    /// Least peak of resident memory, bytes.
    pub peak: Option<u64>,
    /// What it printed.
    pub output: Vec<u8>,
    /// Why there are no figures, in one line.
    pub failure: Option<String>,
}

impl Cell {
    /// Takes one more run into account.
    pub fn add(&mut self, run: Run) {
        if !run.ok() {
            *self = Cell { failure: Some(run.failure()), ..Cell::default() };
            return;
        }
        if self.cpu.is_some() && self.output != run.stdout {
            *self = Cell { failure: Some("two runs printed different results".into()), ..Cell::default() };
            return;
        }
        self.cpu = Some(self.cpu.map_or(run.cpu, |c| c.min(run.cpu)));
        self.peak = Some(self.peak.map_or(run.peak, |p| p.min(run.peak)));
        self.output = run.stdout;
    }
}

/// One program.
#[derive(Debug, Clone)]
pub struct Row {
    /// `GROUP/NAME`
    pub name: String,
    /// The group whose means it counts in.
    pub group: String,
    /// One for each contender; `None` where the program is not meant for it.
    pub cells: Vec<Option<Cell>>,
}

impl Row {
    /// Whether ours ran, and agrees with every peer that ran.
    pub fn sound(&self) -> bool {
        self.complaint(0).is_none() && (1..self.cells.len()).all(|i| !self.disagrees(i))
    }

    fn complaint(&self, i: usize) -> Option<&str> {
        self.cells[i].as_ref()?.failure.as_deref()
    }

    fn disagrees(&self, i: usize) -> bool {
        match (&self.cells[0], &self.cells[i]) {
            (Some(a), Some(b)) => a.failure.is_none() && b.failure.is_none() && a.output != b.output,
            _ => false,
        }
    }

    fn cpu(&self, i: usize) -> Option<f64> {
        // A run below the clock's resolution must not become a division by zero.
        self.cells[i].as_ref()?.cpu.map(|c| c.max(1e-6))
    }

    fn peak(&self, i: usize) -> Option<f64> {
        self.cells[i].as_ref()?.peak.map(|p| p as f64)
    }

    /// How many times as fast as contender `i` ours is.
    fn speed(&self, i: usize) -> Option<f64> {
        Some(self.cpu(i)? / self.cpu(0)?)
    }

    /// Our peak memory as a part of contender `i`'s.
    fn memory(&self, i: usize) -> Option<f64> {
        Some(self.peak(0)? / self.peak(i)?)
    }
}

/// What starting costs.
#[derive(Debug, Clone)]
pub struct StartUp {
    /// The contender.
    pub name: String,
    /// Seconds on the wall clock, process creation included.
    pub wall: Option<f64>,
    /// CPU seconds.
    pub cpu: Option<f64>,
    /// Peak of resident memory, bytes.
    pub resident: Option<u64>,
}

/// Everything measured.
#[derive(Debug, Clone)]
pub struct Report {
    /// The contenders, ours first.
    pub names: Vec<String>,
    /// The programs.
    pub rows: Vec<Row>,
    /// One for each contender.
    pub start_up: Vec<StartUp>,
}

impl Report {
    fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = self.rows.iter().map(|r| r.group.as_str()).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    fn mean(&self, group: Option<&str>, figure: impl Fn(&Row) -> Option<f64>) -> Option<f64> {
        geometric_mean(self.rows.iter().filter(|r| group.is_none_or(|g| r.group == g)).filter_map(figure))
    }
}

const MIB: f64 = 1024.0 * 1024.0;

fn cell(text: Option<f64>, digits: usize) -> String {
    text.map_or("-".into(), |x| format!("{x:.digits$}"))
}

/// The report as Markdown tables.
pub fn markdown(r: &Report) -> String {
    let mut s = String::new();
    programs_table(r, &mut s);
    means_table(r, &mut s);
    start_up_table(r, &mut s);
    let complaints = complaints(r);
    if !complaints.is_empty() {
        s.push_str("\n## Failures\n\n");
        for c in complaints {
            writeln!(s, "- {c}").expect("a string takes everything");
        }
    }
    s
}

fn table_head(s: &mut String, title: &str, columns: &[String]) {
    s.push_str(&format!(
        "\n## {title}\n\n| {} |\n|---|{}\n",
        columns.join(" | "),
        "---:|".repeat(columns.len() - 1)
    ));
}

fn programs_table(r: &Report, s: &mut String) {
    let mut columns = vec!["program".to_string()];
    for (i, n) in r.names.iter().enumerate() {
        columns.push(format!("{n} s"));
        if i > 0 {
            columns.push(format!("x {n}"));
        }
    }
    for (i, n) in r.names.iter().enumerate() {
        columns.push(format!("{n} MB"));
        if i > 0 {
            columns.push(format!("of {n}"));
        }
    }
    table_head(s, "CPU seconds (minimum), times as fast as each peer, peak memory", &columns);
    for row in &r.rows {
        let mut line = vec![row.name.clone()];
        for i in 0..r.names.len() {
            line.push(if row.complaint(i).is_some() { "failed".into() } else { cell(row.cpu(i), 3) });
            if i > 0 {
                line.push(cell(row.speed(i), 2));
            }
        }
        for i in 0..r.names.len() {
            line.push(cell(row.peak(i).map(|p| p / MIB), 1));
            if i > 0 {
                line.push(cell(row.memory(i), 2));
            }
        }
        s.push_str(&format!("| {} |\n", line.join(" | ")));
    }
}

fn means_table(r: &Report, s: &mut String) {
    if r.names.len() < 2 {
        return;
    }
    let mut columns = vec!["group (programs)".to_string()];
    for n in &r.names[1..] {
        columns.extend([format!("x {n}"), format!("least x {n}"), format!("memory of {n}")]);
    }
    table_head(s, "Geometric means", &columns);
    let mut line = |title: String, group: Option<&str>| {
        let mut cells = vec![title];
        for i in 1..r.names.len() {
            let rows = r.rows.iter().filter(|row| group.is_none_or(|g| row.group == g));
            cells.push(cell(r.mean(group, |row| row.speed(i)), 2));
            cells.push(cell(minimum(rows.filter_map(|row| row.speed(i))), 2));
            cells.push(cell(r.mean(group, |row| row.memory(i)), 2));
        }
        s.push_str(&format!("| {} |\n", cells.join(" | ")));
    };
    for group in r.groups() {
        let n = r.rows.iter().filter(|row| row.group == group).count();
        line(format!("{group} ({n})"), Some(group));
    }
    line(format!("**all ({})**", r.rows.len()), None);
}

fn start_up_table(r: &Report, s: &mut String) {
    let columns = ["`-e ''`", "wall ms", "CPU ms", "resident MB"].map(String::from);
    table_head(s, "Start-up", &columns);
    for u in &r.start_up {
        let resident = u.resident.map(|b| b as f64 / MIB);
        s.push_str(&format!(
            "| {} | {} | {} | {} |\n",
            u.name,
            cell(u.wall.map(|w| w * 1e3), 2),
            cell(u.cpu.map(|c| c * 1e3), 2),
            cell(resident, 1)
        ));
    }
}

fn complaints(r: &Report) -> Vec<String> {
    let mut all = Vec::new();
    for row in &r.rows {
        for (i, name) in r.names.iter().enumerate() {
            if let Some(why) = row.complaint(i) {
                all.push(format!("{} on {name}: {why}", row.name));
            } else if i > 0 && row.disagrees(i) {
                let text = |j: usize| {
                    let c = row.cells[j].as_ref().expect("both ran");
                    String::from_utf8_lossy(&c.output).trim_end().to_string()
                };
                all.push(format!("{}: {} printed `{}`, {name} `{}`", row.name, r.names[0], text(0), text(i)));
            }
        }
    }
    all
}

/// The report as JSON.
pub fn json(r: &Report) -> Json {
    let contender = |row: &Row, i: usize| {
        Json::object([
            ("cpu_s", Json::maybe(row.cpu(i))),
            ("peak_bytes", Json::maybe(row.peak(i))),
            ("speed_ratio", if i > 0 { Json::maybe(row.speed(i)) } else { Json::Null }),
            ("memory_ratio", if i > 0 { Json::maybe(row.memory(i)) } else { Json::Null }),
            ("failure", row.complaint(i).map_or(Json::Null, |f| Json::Text(f.into()))),
        ])
    };
    let program = |row: &Row| {
        let figures = r.names.iter().enumerate().filter(|(i, _)| row.cells[*i].is_some());
        Json::object([
            ("name", Json::Text(row.name.clone())),
            ("group", Json::Text(row.group.clone())),
            ("agrees", Json::Bool(row.sound())),
            ("contenders", Json::object(figures.map(|(i, n)| (n.clone(), contender(row, i))))),
        ])
    };
    let mean = |group: Option<&str>| {
        Json::object((1..r.names.len()).map(|i| {
            let least =
                r.rows.iter().filter(|x| group.is_none_or(|g| x.group == g)).filter_map(|x| x.speed(i));
            let figures = Json::object([
                ("speed", Json::maybe(r.mean(group, |row| row.speed(i)))),
                ("least_speed", Json::maybe(minimum(least))),
                ("memory", Json::maybe(r.mean(group, |row| row.memory(i)))),
            ]);
            (r.names[i].clone(), figures)
        }))
    };
    let start = |u: &StartUp| {
        let figures = Json::object([
            ("wall_s", Json::maybe(u.wall)),
            ("cpu_s", Json::maybe(u.cpu)),
            ("resident_bytes", Json::maybe(u.resident.map(|b| b as f64))),
        ]);
        (u.name.clone(), figures)
    };
    Json::object([
        ("contenders", Json::List(r.names.iter().map(|n| Json::Text(n.clone())).collect())),
        ("programs", Json::List(r.rows.iter().map(program).collect())),
        ("groups", Json::object(r.groups().into_iter().map(|g| (g, mean(Some(g)))))),
        ("all", mean(None)),
        ("start_up", Json::object(r.start_up.iter().map(start))),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(cpu: f64, peak: u64, output: &str) -> Option<Cell> {
        Some(Cell { cpu: Some(cpu), peak: Some(peak), output: output.into(), failure: None })
    }

    fn report(rows: Vec<Row>) -> Report {
        Report { names: vec!["ours".into(), "peer".into()], rows, start_up: vec![] }
    }

    fn row(name: &str, cells: Vec<Option<Cell>>) -> Row {
        Row { name: name.into(), group: name.split('/').next().unwrap().into(), cells }
    }

    #[test]
    fn means_count_programs_that_both_ran() {
        let r = report(vec![
            row("a/x", vec![ran(1.0, 100, "1"), ran(2.0, 100, "1")]),
            row("a/y", vec![ran(1.0, 100, "1"), ran(8.0, 400, "1")]),
            row("b/z", vec![ran(1.0, 100, "1"), None]),
        ]);
        let text = markdown(&r);
        assert!(text.contains("| a (2) | 4.00 | 2.00 | 0.50 |"), "{text}");
        assert!(text.contains("| b (1) | - | - | - |"), "{text}");
        assert!(text.contains("| **all (3)** | 4.00 | 2.00 | 0.50 |"), "{text}");
        assert!(!text.contains("Failures"));
    }

    #[test]
    fn a_different_result_is_a_failure_of_ours() {
        let r = report(vec![row("a/x", vec![ran(1.0, 1, "1\n"), ran(1.0, 1, "2\n")])]);
        assert!(!r.rows[0].sound());
        assert!(markdown(&r).contains("- a/x: ours printed `1`, peer `2`"));
    }

    #[test]
    fn a_peers_failure_is_only_reported() {
        let broken = Some(Cell { failure: Some("boom".into()), ..Cell::default() });
        let r = report(vec![row("a/x", vec![ran(1.0, 1, "1"), broken.clone()])]);
        assert!(r.rows[0].sound());
        assert!(markdown(&r).contains("- a/x on peer: boom"));
        assert!(!row("a/x", vec![broken, ran(1.0, 1, "1")]).sound());
    }

    #[test]
    fn json_carries_ratios() {
        let text = json(&report(vec![row("a/x", vec![ran(0.5, 10, "1"), ran(1.0, 20, "1")])])).to_string();
        assert!(text.contains("\"speed_ratio\": 2"), "{text}");
        assert!(text.contains("\"memory_ratio\": 0.5"), "{text}");
    }
}
