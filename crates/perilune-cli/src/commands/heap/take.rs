//! Getting snapshots from programs.

use super::super::answers;
use super::super::observe::{self, Request, Source};
use super::{Own, Taken};
use perilune_see::Reader;
use perilune_see::heapshot::Snapshot;
use perilune_see::profile::{Measure, Profile, Unit};
use perilune_see::tool;
use perilune_see::trace::Trace;
use perilune_trace::attach::{self, Request as Wish};
use perilune_trace::event::{Category, Kind};
use perilune_trace::read::RawEvent;
use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How long a program may take to answer, unless its domains write.
const PATIENCE: Duration = Duration::from_secs(5);

/// A request on its way.
struct Pending {
    number: u32,
    until: Instant,
}

struct Taker<'a> {
    own: &'a Own,
    pid: u32,
    /// When snapshots are still to be taken.
    times: Vec<Duration>,
    pending: Option<Pending>,
    began: Instant,
    snapshots: Vec<(String, Snapshot)>,
}

/// Runs the script or attaches to the process.
pub fn take(request: &Request, own: &Own) -> io::Result<Taken> {
    let mut session = request.session();
    session.categories = Category::Life as u32 | request.events.unwrap_or(0);
    if own.sites {
        session.alloc_interval = own.rate;
    }
    let script = matches!(request.source, Source::Script(_));
    let at_exit = attach::path_for(std::process::id()).with_extension("heap-exit");
    let _ = std::fs::remove_file(&at_exit);
    let mut observation =
        request.begin_with(&session, |command| _ = command.env("PERILUNE_HEAP_AT_EXIT", &at_exit))?;
    let mut times = own.at.clone();
    if times.is_empty() && !script {
        let rest = if own.sites { Duration::from_secs(10) } else { Duration::ZERO };
        times.push(request.duration.unwrap_or(rest));
    }
    observation.set_end(None);
    times.reverse();
    let mut taker = Taker {
        own,
        pid: observation.target.pid,
        times,
        pending: None,
        began: Instant::now(),
        snapshots: Vec::new(),
    };
    let mut raw: Vec<RawEvent> = Vec::new();
    let result = observation.run(&mut |reader, batch| {
        if own.sites {
            let of_interest = |e: &&RawEvent| {
                [Kind::AllocSample, Kind::AllocFate, Kind::DomainBegin].iter().any(|k| *k as u16 == e.kind)
            };
            raw.extend(batch.iter().filter(of_interest));
        }
        let done = taker.step(reader)?;
        // A script is watched to its end if anything of it is wanted then.
        let over = done && (!script || (!own.at.is_empty() && !own.sites));
        Ok(if over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    let code = match result {
        Ok(code) => code,
        Err(e) => {
            let _ = std::fs::remove_file(&at_exit);
            return Err(e);
        }
    };
    if script && at_exit.exists() {
        let bytes = std::fs::read(&at_exit);
        let _ = std::fs::remove_file(&at_exit);
        if own.at.is_empty() || !taker.times.is_empty() || taker.pending.is_some() {
            if !own.at.is_empty() {
                eprintln!("perilune heap: the script ended early: the last snapshot is of its end");
            }
            taker.add("the end", &[bytes?])?;
        }
    } else if script && taker.snapshots.is_empty() {
        return Err(io::Error::other("the script ended (by a signal?) without a snapshot"));
    }
    let sites = own.sites.then(|| {
        let mut trace = Trace::from_raw(&observation.target.reader, raw);
        trace.title = observation.title.clone();
        alive(&trace)
    });
    Ok(Taken { snapshots: taker.snapshots, sites, code })
}

impl Taker<'_> {
    /// Asks if it is time, and takes in what has come. True: there is nothing left to do.
    fn step(&mut self, reader: &Reader) -> io::Result<bool> {
        if let Some(pending) = &mut self.pending {
            let n = pending.number;
            let answered = tool::is_answered(reader, n);
            let late = Instant::now() > pending.until;
            if !answered && late && answers::is_writing(self.pid, Wish::Heap, n) {
                pending.until = Instant::now() + PATIENCE;
                return Ok(false);
            }
            if !answered && !late {
                return Ok(false);
            }
            self.pending = None;
            let files = answers::files(self.pid, Wish::Heap, n);
            let mut bytes = Vec::new();
            for (domain, path) in &files {
                let content = std::fs::read(path);
                let _ = std::fs::remove_file(path);
                match domain.as_str() {
                    "0" | "error" => {
                        String::from_utf8_lossy(&content?)
                            .lines()
                            .for_each(|l| eprintln!("perilune heap: {l}"));
                    }
                    _ => bytes.push(content?),
                }
            }
            if !answered {
                eprintln!(
                    "perilune heap: process {} does not answer: its main program is in a system call or in \
                     native code",
                    self.pid
                );
            }
            if !bytes.is_empty() {
                let name = format!("{:.1} s", self.began.elapsed().as_secs_f64());
                self.add(&name, &bytes)?;
            }
        }
        if let Some(&at) = self.times.last()
            && self.began.elapsed() >= at
        {
            self.times.pop();
            let number = tool::request(reader, self.pid, Wish::Heap)?;
            self.pending = Some(Pending { number, until: Instant::now() + PATIENCE });
            return Ok(false);
        }
        Ok(self.times.is_empty())
    }

    /// Keeps a snapshot of some domains.
    fn add(&mut self, name: &str, files: &[Vec<u8>]) -> io::Result<()> {
        let bad = |e| io::Error::new(io::ErrorKind::InvalidData, format!("the program's snapshot: {e}"));
        let mut snapshot = Snapshot::default();
        for bytes in files {
            snapshot.add(bytes).map_err(bad)?;
        }
        self.snapshots.push((name.to_owned(), snapshot));
        if let Some(path) = &self.own.save {
            let mut path = path.clone();
            if self.own.at.len() > 1 {
                let mut name = path.into_os_string();
                name.push(format!(".{}", self.snapshots.len()));
                path = name.into();
            }
            let mut file = observe::create(&path)?;
            files.iter().try_for_each(|bytes| io::Write::write_all(&mut file, bytes))?;
            eprintln!("perilune heap: wrote {}", path.display());
        }
        Ok(())
    }
}

/// What was allocated and has not been found dead, by call path.
fn alive(trace: &Trace) -> Profile {
    let mut profile = Profile::alloc(trace);
    let mut dead: HashMap<u32, u64> = HashMap::new();
    for e in &trace.events {
        if e.kind == Kind::AllocFate && e.c != 1 {
            *dead.entry(e.a as u32).or_default() += e.b;
        }
    }
    // Domains are not told apart: what one allocates never dies in another.
    let mut by_stack: HashMap<u32, [u64; 3]> = HashMap::new();
    for s in &profile.samples {
        let sum = by_stack.entry(s.stack).or_default();
        sum[1] += s.values[0];
        sum[2] += s.values[1];
    }
    profile.samples.clear();
    for (stack, mut values) in by_stack {
        values[0] = values[1].saturating_sub(dead.get(&stack).copied().unwrap_or(0));
        let values = values.to_vec();
        profile.samples.push(perilune_see::profile::Sample { stack, domain: 0, values });
    }
    profile.samples.sort_by_key(|s| (std::cmp::Reverse(s.values[0]), s.stack));
    let bytes = |name| Measure { name, unit: Unit::Bytes };
    profile.measures =
        vec![bytes("alive"), bytes("allocated"), Measure { name: "samples", unit: Unit::Count }];
    profile
}
