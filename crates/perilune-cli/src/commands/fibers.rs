//! `perilune fibers`: what every fiber and task of a program is at, like a dump of all stacks.
//!
//! The program is asked once, by the same way that `heap --attach` takes (`perilune_trace::attach`): each
//! domain writes a list of its own when it looks at its interrupts next, so that none is stopped for longer
//! than it takes to walk its stacks, and none waits for another. Names and call paths come as numbers of the
//! session's definitions. Here the lists are got; `fibers/report.rs` folds and writes them.

mod report;

use super::answers;
use super::observe::{self, Request, Source};
use perilune_see::Definitions;
use perilune_see::tool;
use perilune_trace::attach::Request as Wish;
use perilune_trace::event::Category;
use perilune_trace::fibers::{FiberState, Line, Waiting};
use perilune_trace::{FiberRef, fibers};
use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a program may take to answer, unless its domains write.
const PATIENCE: Duration = Duration::from_secs(5);

/// Options of this command.
struct Own {
    top: usize,
    flat: bool,
    domain: Option<u32>,
}

/// A fiber with its names.
pub struct Fiber {
    /// Its number.
    pub fiber: FiberRef,
    /// What it is called, as many others may be.
    pub name: String,
    /// What it is called if it stands alone: of one that works for a module, with whom, too.
    pub title: String,
    /// What it is at.
    pub state: FiberState,
    /// Where it is: number of a call path.
    pub stack: u32,
    /// How old it is.
    pub age_ns: u64,
    /// What it waits for.
    pub wait: Option<Waiting>,
}

/// What a program has answered.
#[derive(Default)]
pub struct Listing {
    /// Names of domains.
    pub domains: HashMap<u32, String>,
    /// All fibers, the oldest first.
    pub fibers: Vec<Fiber>,
    /// Pools that have tasks which have not begun: what they are called, and how many.
    pub pools: Vec<(String, u64)>,
    /// Domains that have not answered, and why.
    pub remarks: Vec<String>,
}

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let mut own = Own { top: 40, flat: false, domain: None };
    let request = observe::read("fibers", &words[2..], &mut |name, parser| {
        use lexopt::ValueExt;
        match name {
            "--top" => own.top = parser.value()?.parse()?,
            "--flat" => own.flat = true,
            "--domain" => own.domain = Some(parser.value()?.parse()?),
            _ => return Ok(false),
        }
        Ok(true)
    });
    match request {
        Ok(request) if matches!(request.source, Source::Attach(_)) => {
            request.finish(carry_out(&request, &own))
        }
        Ok(request) => request.refuse("name a process that runs: --attach PID"),
        Err(code) => code,
    }
}

fn carry_out(request: &Request, own: &Own) -> io::Result<u8> {
    let mut session = request.session();
    // Nothing needs to be recorded: the session is there for its definitions. So it has the switch that is
    // used least.
    session.categories = Category::Module as u32;
    session.geometry.ring_events = 1 << 12;
    let mut observation = request.begin(&session)?;
    let pid = observation.target.pid;
    let title = observation.title.clone();
    let number = observation.target.request(Wish::Fibers)?;
    let mut until = Instant::now() + PATIENCE;
    observation.run(&mut |reader, _| {
        let late = Instant::now() > until;
        if !tool::is_answered(reader, number) && (!late || answers::is_writing(pid, Wish::Fibers, number)) {
            if late {
                until = Instant::now() + PATIENCE;
            }
            return Ok(ControlFlow::Continue(()));
        }
        Ok(ControlFlow::Break(()))
    })?;
    let reader = &mut observation.target.reader;
    reader.drain(&mut |_| {});
    let is_answered = tool::is_answered(reader, number);
    let mut listing = Listing::default();
    for (what, path) in answers::files(pid, Wish::Fibers, number) {
        let text = std::fs::read_to_string(&path);
        let _ = std::fs::remove_file(&path);
        match what.as_str() {
            "0" | "error" => listing.remarks.extend(text?.lines().map(str::to_owned)),
            _ => listing.add(&text?, reader.definitions()),
        }
    }
    if !is_answered && listing.domains.is_empty() {
        return Err(io::Error::other(format!(
            "process {pid} does not answer: its main program is in a system call or in native code"
        )));
    }
    listing.fibers.retain(|fiber| own.domain.is_none_or(|domain| fiber.fiber.domain() == domain));
    listing.fibers.sort_by_key(|fiber| (std::cmp::Reverse(fiber.age_ns), fiber.fiber));
    let mut out = request.output()?;
    if request.json {
        writeln!(out, "{}", report::json(&listing, reader.definitions(), pid, &title))?;
    } else {
        for remark in &listing.remarks {
            eprintln!("perilune fibers: {remark}");
        }
        report::text(&listing, reader.definitions(), own, &mut *out)?;
    }
    out.flush()?;
    Ok(0)
}

impl Listing {
    /// Takes in what a domain has written.
    fn add(&mut self, text: &str, definitions: &Definitions) {
        for line in text.lines().filter_map(fibers::Line::parse) {
            match line {
                Line::Domain { number, name } => _ = self.domains.insert(number, name),
                Line::Fiber { fiber, state, label, function, stack, age_ns, wait } => {
                    let mut title = None;
                    let name = match (fiber.is_root(), label.is_empty(), function) {
                        (true, ..) => "the main program".to_owned(),
                        (_, false, 0) => label,
                        (_, false, n) if label.starts_with("fiber '") => {
                            format!("{label} ({})", definitions.string(n as u64))
                        }
                        (_, _, 0) => "fiber".to_owned(),
                        (_, false, n) if label.starts_with(&*definitions.string(n as u64)) => {
                            title = Some(label);
                            definitions.string(n as u64)
                        }
                        (_, _, n) => definitions.string(n as u64),
                    };
                    let title = title.unwrap_or_else(|| name.clone());
                    self.fibers.push(Fiber { fiber, name, title, state, stack, age_ns, wait });
                }
                Line::Pool { name, queued, .. } => {
                    // Each of its domains tells of it.
                    if queued > 0 && !self.pools.iter().any(|(n, _)| *n == name) {
                        self.pools.push((name, queued));
                    }
                }
            }
        }
    }
}
