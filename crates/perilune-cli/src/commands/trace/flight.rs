//! The flight recorder: the last moments of a program stay in memory, and are written when something happens.
//!
//! Batches are kept as they will lie in the file (32 bytes an event), with the time at which they arrived;
//! the oldest go when they are older than what is to be kept, or when all together exceed [`MOST`]. When a
//! trigger has fired a little of what follows belongs to the picture ([`AFTERMATH`]), then the snapshot is
//! due.
//!
//! Triggers look at every event, so they do little: what does not concern them is left at a comparison of its
//! kind. A task's start may be seen before its creation, which lies in another ring; both are remembered
//! until the other comes.

use perilune_see::Reader;
use perilune_see::kernel::Kernel;
use perilune_trace::Kind;
use perilune_trace::clock;
use perilune_trace::read::RawEvent;
use perilune_trace::recording::{self, Chunk, Recorder};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Bytes that are kept at most.
const MOST: usize = 1 << 30;
/// How much is recorded after a trigger.
const AFTERMATH: Duration = Duration::from_millis(100);
/// Tasks of which only one end has been seen.
const TASKS: usize = 1 << 20;

/// What makes a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub enum Trigger {
    /// The collector stops a domain for longer, in ns.
    Pause(u64),
    /// A task waits longer in queues.
    TaskLate(u64),
    /// A timer rings later.
    TimerLate(u64),
    /// An error leaves the program, a task or a domain.
    Error,
    /// `pl.trace.mark` with this name.
    Mark(String),
}

impl Trigger {
    /// Reads one: `pause>5ms`, `error`, `mark:NAME`.
    pub fn parse(text: &str) -> Result<Trigger, String> {
        if text == "error" {
            return Ok(Trigger::Error);
        }
        if let Some(name) = text.strip_prefix("mark:").filter(|name| !name.is_empty()) {
            return Ok(Trigger::Mark(name.to_owned()));
        }
        let unknown =
            || format!("'{text}' is none of pause>TIME, task-late>TIME, timer-late>TIME, error, mark:NAME");
        let (what, time) = text.split_once('>').ok_or_else(unknown)?;
        let make = match what.trim() {
            "pause" => Trigger::Pause,
            "task-late" => Trigger::TaskLate,
            "timer-late" => Trigger::TimerLate,
            _ => return Err(unknown()),
        };
        let time = crate::commands::observe::read_duration(time.trim().trim_start_matches('='), "ms")?;
        Ok(make(time.as_nanos() as u64))
    }
}

/// Keeps the last moments.
pub struct Flight {
    triggers: Vec<Trigger>,
    keep: Duration,
    /// Chunks of events with the time of their arrival, oldest first.
    batches: VecDeque<(Instant, Vec<u8>)>,
    bytes: usize,
    /// Vectors to be used again.
    spare: Vec<Vec<u8>>,
    watch: Watch,
    fired: Option<(Instant, String)>,
    /// What the kernel says, if it is asked.
    kernel: Option<Rc<RefCell<Kernel>>>,
}

/// What has begun and not ended.
#[derive(Default)]
struct Watch {
    /// Ticks at which the collector has stopped the owner of a ring; 0: it has not.
    stopped: Vec<u64>,
    created: HashMap<u64, u64>,
    started: HashMap<u64, u64>,
}

impl Flight {
    /// Keeps so much, and watches for these.
    pub fn new(triggers: Vec<Trigger>, keep: Duration, kernel: Option<Rc<RefCell<Kernel>>>) -> Flight {
        Flight {
            triggers,
            keep,
            batches: VecDeque::new(),
            bytes: 0,
            spare: Vec::new(),
            watch: Watch::default(),
            fired: None,
            kernel,
        }
    }

    /// Takes new events in.
    pub fn add(&mut self, reader: &Reader, batch: &[RawEvent]) {
        if let Some(kernel) = &self.kernel {
            let keep = self.keep.as_nanos().min(u64::MAX as u128) as u64;
            kernel.borrow_mut().forget_before(clock::monotonic_ns().saturating_sub(keep));
        }
        if batch.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut chunks = self.spare.pop().unwrap_or_default();
        recording::encode(batch, &mut chunks);
        self.bytes += chunks.len();
        self.batches.push_back((now, chunks));
        while let Some((arrived, _)) = self.batches.front()
            && (now - *arrived > self.keep || self.bytes > MOST)
            && let Some((_, mut chunks)) = self.batches.pop_front()
        {
            self.bytes -= chunks.len();
            chunks.clear();
            self.spare.push(chunks);
        }
        self.spare.truncate(16);
        let ratio = reader.scale().ratio;
        for event in batch {
            let Some(what) = self.watch.look(event, ratio) else { continue };
            if self.fired.is_none()
                && let Some(why) = self.triggers.iter().find_map(|t| what.fires(t, reader))
            {
                self.fired = Some((now, why));
            }
        }
    }

    /// Has a trigger fired whose snapshot has not been written?
    pub fn has_fired(&self) -> bool {
        self.fired.is_some()
    }

    /// Is it time to write a snapshot?
    pub fn is_due(&self) -> bool {
        self.fired.as_ref().is_some_and(|(at, _)| at.elapsed() >= AFTERMATH)
    }

    /// Writes a snapshot and arms the triggers again. Why it was written, for people.
    pub fn write(&mut self, reader: &Reader, out: impl Write, title: &str) -> io::Result<String> {
        let why = self.fired.take().map_or_else(|| "on demand".to_owned(), |(_, why)| why);
        let mut recorder = Recorder::new(out, &format!("{title} ({why})"))?;
        for (_, chunks) in &self.batches {
            recorder.add_encoded(reader, chunks)?;
        }
        if let Some(kernel) = &self.kernel {
            recorder.chunk(Chunk::Sched as u32, 0, &kernel.borrow().encode())?;
        }
        recorder.finish(reader)?;
        Ok(why)
    }
}

/// Something that a trigger may care for; times in ns.
enum Happened {
    Pause(u64),
    TaskLate(u64),
    TimerLate(u64),
    Error,
    Mark(u64),
}

impl Watch {
    fn look(&mut self, e: &RawEvent, ratio: f64) -> Option<Happened> {
        let ns = |from: u64, to: u64| (to.saturating_sub(from) as f64 * ratio) as u64;
        match Kind::from_number(e.kind)? {
            Kind::StepBegin => {
                let ring = e.ring as usize;
                if self.stopped.len() <= ring {
                    self.stopped.resize(ring + 1, 0);
                }
                self.stopped[ring] = e.ticks;
                None
            }
            Kind::StepEnd => {
                let begun = std::mem::take(self.stopped.get_mut(e.ring as usize)?);
                (begun != 0).then(|| Happened::Pause(ns(begun, e.ticks)))
            }
            Kind::TaskCreated => match self.started.remove(&e.a) {
                Some(start) => Some(Happened::TaskLate(ns(e.ticks, start))),
                None => remember(&mut self.created, e),
            },
            Kind::TaskStart => match self.created.remove(&e.a) {
                Some(created) => Some(Happened::TaskLate(ns(created, e.ticks))),
                None => remember(&mut self.started, e),
            },
            Kind::TaskEnd => {
                self.created.remove(&e.a);
                None
            }
            Kind::TimerFired => Some(Happened::TimerLate(e.a)),
            Kind::Error => Some(Happened::Error),
            Kind::Mark => Some(Happened::Mark(e.a)),
            _ => None,
        }
    }
}

/// Keeps the moment of one end of a task's wait, unless the other end was lost so often that there are too
/// many.
fn remember(to: &mut HashMap<u64, u64>, e: &RawEvent) -> Option<Happened> {
    if to.len() >= TASKS {
        to.clear();
    }
    to.insert(e.a, e.ticks);
    None
}

impl Happened {
    fn fires(&self, trigger: &Trigger, reader: &Reader) -> Option<String> {
        use super::describe::time;
        match (self, trigger) {
            (Happened::Pause(ns), Trigger::Pause(limit)) if ns > limit => {
                Some(format!("a pause of {}", time(*ns)))
            }
            (Happened::TaskLate(ns), Trigger::TaskLate(limit)) if ns > limit => {
                Some(format!("a task that waited {}", time(*ns)))
            }
            (Happened::TimerLate(ns), Trigger::TimerLate(limit)) if ns > limit => {
                Some(format!("a timer that was {} late", time(*ns)))
            }
            (Happened::Error, Trigger::Error) => Some("an error".into()),
            (Happened::Mark(name), Trigger::Mark(wanted))
                if reader.definitions().string(*name) == *wanted =>
            {
                Some(format!("mark '{wanted}'"))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers() {
        assert_eq!(Trigger::parse("pause>5ms"), Ok(Trigger::Pause(5_000_000)));
        assert_eq!(Trigger::parse("task-late > 10"), Ok(Trigger::TaskLate(10_000_000)));
        assert_eq!(Trigger::parse("timer-late>=1.5s"), Ok(Trigger::TimerLate(1_500_000_000)));
        assert_eq!(Trigger::parse("error"), Ok(Trigger::Error));
        assert_eq!(Trigger::parse("mark:here: now"), Ok(Trigger::Mark("here: now".into())));
        for bad in ["", "pause", "pause>", "pause>x", "naps>5ms", "mark:", "errors"] {
            assert!(Trigger::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_watched() {
        let mut watch = Watch::default();
        let mut look = |kind: Kind, ring: u32, ticks: u64, a: u64| {
            let e = RawEvent { ticks, ring, kind: kind as u16, c: 0, writer: 1, a, b: 0 };
            match watch.look(&e, 0.5) {
                Some(Happened::Pause(ns) | Happened::TaskLate(ns) | Happened::TimerLate(ns)) => Some(ns),
                _ => None,
            }
        };
        assert_eq!(look(Kind::StepEnd, 3, 5, 0), None, "its beginning was lost");
        assert_eq!(look(Kind::StepBegin, 0, 100, 0), None);
        assert_eq!(look(Kind::StepBegin, 2, 110, 0), None);
        assert_eq!(look(Kind::StepEnd, 0, 140, 0), Some(20));
        assert_eq!(look(Kind::StepEnd, 2, 210, 0), Some(50));
        // Rings are read one after the other: the start may be seen first.
        assert_eq!(look(Kind::TaskStart, 0, 300, 7), None);
        assert_eq!(look(Kind::TaskCreated, 1, 200, 7), Some(50));
        assert_eq!(look(Kind::TaskCreated, 1, 200, 8), None);
        assert_eq!(look(Kind::TaskEnd, 0, 250, 8), None);
        assert_eq!(look(Kind::TaskStart, 0, 260, 8), None, "cancelled before");
        assert_eq!(look(Kind::TimerFired, 0, 1, 33), Some(33));
    }
}
