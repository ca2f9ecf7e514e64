//! Questions that a page asks about more than it has: statistics of a stretch, searching, who acted on whom.
//!
//! Answers are exact, whatever the page has been given to draw.

use super::model::*;
use crate::export::chrome::quote;
use perilune_trace::Kind;
use std::collections::HashMap;
use std::fmt::Write;

/// Most lines of a table.
const LINES: usize = 40;
/// Most hits that are told one by one.
const HITS: usize = 2000;

/// Time, number, longest.
#[derive(Default, Clone, Copy)]
struct Tally {
    ns: u64,
    count: u64,
    longest: u64,
}

impl Tally {
    fn add(&mut self, ns: u64) {
        self.ns += ns;
        self.count += 1;
        self.longest = self.longest.max(ns);
    }
}

/// What happened between two moments, as JSON: `groups`: index and time by class of every domain's activity;
/// `bars`: label, class, ns, count, longest of what fibers and threads were at; `collections`: class, ns,
/// count, longest; `functions`: label and ns of samples; `moments`: kind and count.
pub fn statistics(t: &Timeline, from: u64, to: u64) -> String {
    let (mut groups, mut bars) = (String::new(), HashMap::<(Label, u64, Class), Tally>::new());
    let (mut collections, mut functions) = (HashMap::<Class, Tally>::new(), HashMap::<Label, Tally>::new());
    let mut kinds = HashMap::<Kind, u64>::new();
    for row in &t.rows {
        match row.kind {
            RowKind::Activity => {
                let sums = row.levels.first().map_or([0; CLASSES], |l| l.sums(from, to));
                let _ = write!(groups, "{}[{},{sums:?}]", comma(&groups), row.group);
            }
            RowKind::Owner | RowKind::Counter => {}
            _ => {
                for bar in row.levels.iter().flat_map(|l| l.between(from, to)) {
                    let ns = bar.end.min(to) - bar.start.max(from);
                    if row.kind == RowKind::Collector {
                        collections.entry(bar.class).or_default().add(ns);
                    } else {
                        let x = if bar.label.is_numbered() { bar.x } else { 0 };
                        bars.entry((bar.label, x, bar.class)).or_default().add(ns);
                    }
                }
            }
        }
        let a = row.moments.partition_point(|m| m.ns < from);
        let b = row.moments.partition_point(|m| m.ns < to);
        for m in &row.moments[a..b.max(a)] {
            if m.kind == Kind::CpuSample {
                let tally = functions.entry(m.label).or_default();
                (tally.ns, tally.count) = (tally.ns + m.x, tally.count + 1);
            } else {
                *kinds.entry(m.kind).or_default() += 1;
            }
        }
    }
    let mut bars: Vec<_> = bars.into_iter().collect();
    bars.sort_by_key(|(key, b)| (std::cmp::Reverse(b.ns), key.0.0, key.1));
    let total = bars.len();
    let mut lines = String::new();
    for ((label, x, class), b) in bars.into_iter().take(LINES) {
        let text = quote(&t.text(label, x));
        let comma = comma(&lines);
        let _ = write!(lines, "{comma}[{text},{},{},{},{}]", class as u8, b.ns, b.count, b.longest);
    }
    let mut phases = String::new();
    for class in Class::ALL {
        if let Some(b) = collections.get(&class) {
            let comma = comma(&phases);
            let _ = write!(phases, "{comma}[{},{},{},{}]", class as u8, b.ns, b.count, b.longest);
        }
    }
    let mut functions: Vec<_> = functions.into_iter().collect();
    functions.sort_by_key(|(_, f)| std::cmp::Reverse(f.ns));
    let mut sampled = String::new();
    for (label, f) in functions.into_iter().take(LINES) {
        let comma = comma(&sampled);
        let _ = write!(sampled, "{comma}[{},{},{}]", quote(&t.text(label, 0)), f.ns, f.count);
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(k, n)| (std::cmp::Reverse(*n), *k));
    let mut moments = String::new();
    for (kind, n) in kinds {
        let comma = comma(&moments);
        let _ = write!(moments, "{comma}[\"{}\",{n}]", kind.info().name);
    }
    format!(
        "{{\"from\":{from},\"to\":{to},\"groups\":[{groups}],\"bars\":[{lines}],\"distinct\":{total},\
         \"collections\":[{phases}],\"functions\":[{sampled}],\"moments\":[{moments}]}}"
    )
}

fn comma(before: &str) -> &'static str {
    if before.is_empty() { "" } else { "," }
}

/// Bars and moments whose text contains `word`, whatever the case, as JSON: `total`, and of the first of them
/// in order of time: row, level (-1: a moment), start, end, class (or kind), label, stack, x, y.
pub fn search(t: &Timeline, word: &str) -> String {
    let word = word.to_lowercase();
    let matches: Vec<bool> = t.names.iter().map(|n| n.to_lowercase().contains(&word)).collect();
    let digits: &str = word.rsplit(' ').next().unwrap_or("");
    let number = digits.parse::<u64>().ok();
    let hit = |label: Label, x: u64| {
        matches[label.name() as usize]
            || label.is_numbered()
                && number == Some(x >> 4)
                && t.text(label, x).to_lowercase().contains(&word)
    };
    let mut total = 0u64;
    let mut hits: Vec<(u64, String)> = Vec::new();
    for (n, row) in t.rows.iter().enumerate() {
        if word.is_empty() || matches!(row.kind, RowKind::Activity | RowKind::Owner) {
            continue;
        }
        let (mut here, before) = (0, hits.len());
        for (l, level) in row.levels.iter().enumerate() {
            for b in level.bars.iter().filter(|b| hit(b.label, b.x)) {
                total += 1;
                here += 1;
                if here <= HITS {
                    hits.push((
                        b.start,
                        format!(
                            "[{n},{l},{},{},{},{},{},{},{}]",
                            b.start, b.end, b.class as u8, b.label.0, b.stack, b.x, b.y
                        ),
                    ));
                }
            }
        }
        for m in row.moments.iter().filter(|m| hit(m.label, m.x)) {
            total += 1;
            here += 1;
            if here <= HITS {
                let kind = m.kind as u16;
                hits.push((
                    m.ns,
                    format!("[{n},-1,{0},{0},{kind},{1},{2},{3},0]", m.ns, m.label.0, m.stack, m.x),
                ));
            }
        }
        debug_assert!(hits.len() - before <= HITS);
    }
    hits.sort_by_key(|h| h.0);
    hits.truncate(HITS);
    let hits: Vec<String> = hits.into_iter().map(|h| h.1).collect();
    format!("{{\"total\":{total},\"hits\":[{}]}}", hits.join(","))
}

/// Links that begin or end in a row between two moments, and the last one before that ends there: at most so
/// many.
pub fn links(t: &Timeline, row: u32, from: u64, to: u64, most: usize) -> Vec<&Link> {
    let end = t.links.partition_point(|l| l.to_ns <= to);
    let begin = t.links.partition_point(|l| l.to_ns < from);
    let before = t.links[..begin].iter().rev().take(1 << 16).find(|l| l.to_row == row);
    let mut found: Vec<&Link> = before.into_iter().collect();
    let touches =
        |l: &&Link| l.to_row == row && l.to_ns <= to || l.from_row == row && (from..=to).contains(&l.from_ns);
    found.extend(t.links[begin..end].iter().filter(touches).take(most));
    // Tasks that were made here and begin later.
    let left = most.saturating_sub(found.len());
    let later = |l: &&Link| l.from_row == row && (from..=to).contains(&l.from_ns);
    found.extend(t.links[end..].iter().take(1 << 20).filter(later).take(left));
    found
}
