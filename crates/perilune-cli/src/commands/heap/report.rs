//! What `perilune heap` writes.

use super::super::table::{Table, percent};
use perilune_measure::json::Json;
use perilune_see::heapshot::compare::{changes, growth, same_process};
use perilune_see::heapshot::graph::Step;
use perilune_see::heapshot::summary::{retainers, types};
use perilune_see::heapshot::{Graph, Label};
use perilune_see::profile::flame::amount;
use perilune_see::profile::tree::paths;
use perilune_see::profile::{Profile, Unit};
use std::io::{self, Write};

/// Objects whose paths are shown for a pattern.
const MOST_FOUND: usize = 5;
/// Other holders that are shown of each.
const MOST_HOLDERS: usize = 10;

/// Where to write, and how much.
pub struct Report<'a> {
    pub top: usize,
    pub out: &'a mut dyn Write,
}

fn size(bytes: u64) -> String {
    amount(bytes, Unit::Bytes)
}

fn change(bytes: i128) -> String {
    let sign = if bytes < 0 { "-" } else { "+" };
    format!("{sign}{}", size(bytes.unsigned_abs().min(u64::MAX as u128) as u64))
}

fn count_change(old: u64, new: u64) -> String {
    format!("{:+}", new as i128 - old as i128)
}

fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Objects, bytes, domains, in words.
fn describe(g: &Graph) -> String {
    let s = g.snapshot;
    let live: u64 = s.domains.iter().map(|d| d.live).sum();
    let domains = match s.domains.len() {
        1 => String::new(),
        n => format!(" in {n} domains"),
    };
    format!(
        "{}, {}{domains} (with garbage the program holds {})",
        plural(s.nodes.len(), "object"),
        size(s.bytes()),
        size(live)
    )
}

impl Report<'_> {
    /// One snapshot.
    pub fn snapshot(self, name: &str, g: &Graph) -> io::Result<()> {
        writeln!(self.out, "{name}: {}\n", describe(g))?;
        let total = g.snapshot.bytes();
        let mut table = Table::new(["type", "count", "bytes", "share", "retains"]);
        let all = types(g);
        for t in all.iter().take(self.top) {
            table.row([
                t.name.clone(),
                t.count.to_string(),
                size(t.bytes),
                percent(t.bytes, total),
                size(t.retained),
            ]);
        }
        table.write(self.out, 0)?;
        rest(self.out, all.len(), self.top)?;
        writeln!(self.out, "\nwho retains most:")?;
        let mut table = Table::new(["retains", "share", "own", "what", "where"]);
        for n in retainers(g, self.top) {
            let retained = g.retained[n as usize];
            table.row([
                size(retained),
                percent(retained, total),
                size(g.snapshot.nodes[n as usize].bytes()),
                cut(&g.short_name(n), 60),
                g.path(n),
            ]);
        }
        table.write(self.out, 2)
    }

    /// Two of them.
    pub fn comparison(self, old_name: &str, old: &Graph, name: &str, new: &Graph) -> io::Result<()> {
        writeln!(self.out, "{old_name}: {}\n{name}: {}\n", describe(old), describe(new))?;
        let (before, now) = (old.snapshot.bytes(), new.snapshot.bytes());
        writeln!(self.out, "who holds more ({} in all):", change(now as i128 - before as i128))?;
        if !same_process(old, new) {
            eprintln!("perilune heap: the snapshots are of two runs: objects are matched by their paths");
        }
        let all = growth(old, new);
        let mut table = Table::new(["growth", "new objects", "mostly", "what", "where"]);
        for g in all.iter().filter(|g| g.bytes > 0).take(self.top) {
            let mostly =
                g.mostly.as_ref().map_or(String::new(), |(name, n)| format!("{n} {}", cut(name, 40)));
            let (what, path) = match g.through {
                Some(n) => (format!("new {}", cut(&new.short_name(n), 46)), new.path(n)),
                None => place(new, g.node),
            };
            table.row([change(g.bytes as i128), g.objects.to_string(), mostly, what, path]);
        }
        table.write(self.out, 3)?;
        rest(self.out, all.iter().filter(|g| g.bytes > 0).count(), self.top)?;
        let less: i128 = all.iter().filter(|g| g.bytes < 0).map(|g| g.bytes as i128).sum();
        if less < 0 {
            writeln!(self.out, "  (others hold {} less)", size(less.unsigned_abs() as u64))?;
        }
        writeln!(self.out)?;
        let all = changes(old, new);
        let mut table = Table::new(["type", "count", "change", "bytes", "change"]);
        for c in all.iter().take(self.top) {
            table.row([
                c.name.clone(),
                c.count[1].to_string(),
                count_change(c.count[0], c.count[1]),
                size(c.bytes[1]),
                change(c.grown()),
            ]);
        }
        table.write(self.out, 0)?;
        rest(self.out, all.len(), self.top)
    }

    /// Paths to what patterns name.
    pub fn retainers(mut self, g: &Graph, patterns: &[String]) -> io::Result<()> {
        for pattern in patterns {
            let found = find(g, pattern);
            if found.is_empty() {
                eprintln!("perilune heap: nothing is called '{pattern}'");
            }
            for &n in found.iter().take(MOST_FOUND) {
                self.way(g, n)?;
            }
            if found.len() > MOST_FOUND {
                writeln!(self.out, "(and {} smaller ones)\n", found.len() - MOST_FOUND)?;
            }
        }
        Ok(())
    }

    fn way(&mut self, g: &Graph, n: u32) -> io::Result<()> {
        let text = &mut *self.out;
        let node = &g.snapshot.nodes[n as usize];
        writeln!(
            text,
            "{} at {:#x}, {}, retains {}",
            g.short_name(n),
            node.address,
            size(node.bytes()),
            size(g.retained[n as usize])
        )?;
        let mut table = Table::new(["  path", "retains", "what"]);
        let way = g.way(n);
        for (at, step) in way.iter().enumerate() {
            let to = match step {
                Step::Root(r) => r.to,
                Step::Edge(_, e) => e.to,
            };
            let label = match g.step_text(step) {
                label if label.is_empty() => "<value>".to_owned(),
                label => label,
            };
            if way.len() > 40 && (20..way.len() - 15).contains(&at) {
                if at == 20 {
                    table.row([format!("  ... {} more ...", way.len() - 35)]);
                }
                continue;
            }
            table.row([format!("  {label}"), size(g.retained[to as usize]), cut(&g.short_name(to), 80)]);
        }
        table.write(text, 1)?;
        let last = way.last();
        let is_last = |step: &Step| match (step, last) {
            (Step::Edge(a, x), Some(Step::Edge(b, y))) => a == b && std::ptr::eq(*x, *y),
            (Step::Root(x), Some(Step::Root(y))) => std::ptr::eq(*x, *y),
            _ => false,
        };
        let others: Vec<Step> = g.holders(n).into_iter().filter(|step| !is_last(step)).collect();
        for step in others.iter().take(MOST_HOLDERS) {
            match step {
                Step::Edge(from, _) => writeln!(text, "  also: {} {}", g.path(*from), g.step_text(step))?,
                Step::Root(_) => writeln!(text, "  also: {}", g.step_text(step))?,
            }
        }
        if others.len() > MOST_HOLDERS {
            writeln!(text, "  (and {} more)", others.len() - MOST_HOLDERS)?;
        }
        writeln!(text)
    }

    /// Alive bytes by call path.
    pub fn sites(self, p: &Profile) -> io::Result<()> {
        let total = p.total(0);
        writeln!(
            self.out,
            "\nalive by allocation site ({} in all, by {} samples):",
            size(total),
            p.total(2)
        )?;
        let mut table = Table::new(["alive", "share", "of allocated", "where"]);
        let all: Vec<_> = paths(p).into_iter().filter(|(_, v)| v[0] > 0).collect();
        for (stack, values) in all.iter().take(self.top) {
            table.row([
                size(values[0]),
                percent(values[0], total),
                percent(values[0], values[1]),
                site(p, *stack),
            ]);
        }
        table.write(self.out, 1)?;
        rest(self.out, all.len(), self.top)
    }

    /// Everything, for programs.
    pub fn json(
        self,
        old: Option<&Graph>,
        g: &Graph,
        sites: Option<&Profile>,
        patterns: &[String],
    ) -> io::Result<()> {
        let domains = g.snapshot.domains.iter().map(|d| {
            object([
                ("number", int(d.number as u64)),
                ("name", Json::Text(d.name.clone())),
                ("process", int(d.process as u64)),
                ("taken_ns", int(d.taken)),
                ("live_bytes", int(d.live)),
            ])
        });
        let mut members = vec![
            ("domains", Json::List(domains.collect())),
            ("objects", int(g.snapshot.nodes.len() as u64)),
            ("bytes", int(g.snapshot.bytes())),
        ];
        let kinds = types(g).into_iter().map(|t| {
            object([
                ("name", Json::Text(t.name)),
                ("count", int(t.count)),
                ("bytes", int(t.bytes)),
                ("retained", int(t.retained)),
            ])
        });
        members.push(("types", Json::List(kinds.collect())));
        let largest = retainers(g, self.top).into_iter().map(|n| described(g, n, Vec::new()));
        members.push(("retainers", Json::List(largest.collect())));
        if !patterns.is_empty() {
            let found = patterns.iter().flat_map(|p| find(g, p)).take(self.top).map(|n| {
                let steps = g.way(n).iter().map(|s| Json::Text(g.step_text(s))).collect();
                described(g, n, vec![("steps", Json::List(steps))])
            });
            members.push(("found", Json::List(found.collect())));
        }
        if let Some(old) = old {
            let grown = growth(old, g).into_iter().map(|x| {
                let (what, path) = place(g, x.node);
                object([
                    ("bytes", Json::Number(x.bytes as f64)),
                    ("objects", int(x.objects)),
                    ("what", Json::Text(what)),
                    ("path", Json::Text(path)),
                    ("through", x.through.map_or(Json::Null, |n| Json::Text(g.path(n)))),
                    ("mostly", x.mostly.map_or(Json::Null, |(name, _)| Json::Text(name))),
                ])
            });
            members.push(("old_bytes", int(old.snapshot.bytes())));
            members.push(("growth", Json::List(grown.collect())));
            let changed = changes(old, g).into_iter().map(|c| {
                let pair = |p: [u64; 2]| Json::List(p.map(int).into());
                object([("name", Json::Text(c.name)), ("count", pair(c.count)), ("bytes", pair(c.bytes))])
            });
            members.push(("changes", Json::List(changed.collect())));
        }
        if let Some(p) = sites {
            let all = paths(p).into_iter().map(|(stack, v)| {
                object([
                    ("alive", int(v[0])),
                    ("allocated", int(v[1])),
                    ("samples", int(v[2])),
                    ("where", Json::Text(site(p, stack))),
                ])
            });
            members.push(("sites", Json::List(all.collect())));
        }
        writeln!(self.out, "{}", object(members))
    }
}

fn int(n: u64) -> Json {
    Json::Number(n as f64)
}

fn object<'a>(members: impl IntoIterator<Item = (&'a str, Json)>) -> Json {
    Json::Object(members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
}

fn described(g: &Graph, n: u32, more: Vec<(&str, Json)>) -> Json {
    let node = &g.snapshot.nodes[n as usize];
    let mut members = vec![
        ("address", Json::Text(format!("{:#x}", node.address))),
        ("what", Json::Text(g.short_name(n))),
        ("path", Json::Text(g.path(n))),
        ("bytes", int(node.bytes())),
        ("retained", int(g.retained[n as usize])),
    ];
    members.extend(more);
    object(members)
}

fn place(g: &Graph, node: Option<u32>) -> (String, String) {
    match node {
        Some(n) => (cut(&g.short_name(n), 50), g.path(n)),
        None => ("what is new or held by several".into(), String::new()),
    }
}

/// The innermost Lua function of a call path and who called it.
fn site(p: &Profile, stack: u32) -> String {
    let mut frames: Vec<String> = p
        .path(stack)
        .iter()
        .rev()
        .take(3)
        .map(|node| if node.function == 0 { p.function(node) } else { p.definitions.frame(node) })
        .collect();
    frames.dedup();
    frames.join(" < ")
}

fn rest(out: &mut dyn Write, all: usize, shown: usize) -> io::Result<()> {
    match all.saturating_sub(shown) {
        0 => Ok(()),
        more => writeln!(out, "  (and {more} more; --top N shows N)"),
    }
}

fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// What a pattern names: those that retain most first.
fn find(g: &Graph, pattern: &str) -> Vec<u32> {
    let s = g.snapshot;
    let all = 0..s.nodes.len() as u32;
    let address = pattern.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let mut found: Vec<u32> = match address {
        Some(address) => all.filter(|&n| s.nodes[n as usize].address == address).collect(),
        None => {
            let mut named: Vec<u32> = s
                .edges
                .iter()
                .filter(|e| !e.weak)
                .filter(|e| match e.label {
                    Label::Field | Label::Upvalue => s.text(e.argument as u32) == pattern.as_bytes(),
                    Label::Local => {
                        let text = s.text(e.argument as u32);
                        text.strip_prefix(pattern.as_bytes()).is_some_and(|rest| rest.starts_with(b" of "))
                    }
                    Label::StringKey => s.text(s.nodes[e.argument as usize].text) == pattern.as_bytes(),
                    _ => false,
                })
                .map(|e| e.to)
                .collect();
            // The value of a variable rather than the variable.
            for n in &mut named {
                if let Some(e) = s.edges_of(*n).iter().find(|e| e.label == Label::Variable) {
                    *n = e.to;
                }
            }
            if named.is_empty() && pattern.contains(['.', '[', '_']) {
                named = all.clone().filter(|&n| g.path(n) == pattern).collect();
            }
            if named.is_empty() {
                named = all.filter(|&n| g.type_name(n).contains(pattern)).collect();
            }
            named
        }
    };
    found.sort_unstable();
    found.dedup();
    found.sort_by_key(|&n| std::cmp::Reverse(g.retained[n as usize]));
    found
}
