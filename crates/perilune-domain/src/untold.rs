//! Failures that nobody has been told of: who tells them, and when.
//!
//! A task or domain that fails has somebody to tell: whoever waits for it. If nobody ever will, standard
//! error is told, by the first of these to notice:
//!
//! * The call that made it wanted no result (`pool:async(f)` as a statement): it is *nobody's* from the
//!   start, and is told as soon as it fails.
//! * No handle of it is left: the collection that finds the last one dead tells it, because the outcome is
//!   dropped then (`outcome.rs`).
//! * The program ends, in whatever way, while handles are still alive: [`Untold::tell_all`].
//!
//! Three kinds of failures are told where they happen, because nobody can ever get them: that of a fiber that
//! fails after another one of its scope, whose error the scope raises (`scope/fiber.rs`); that of a scope
//! whose caller is being cancelled, as that of a `pl.shield` may be; and that of a closing method while a
//! cancellation unwinds (`Host::error_is_lost`).
//!
//! # Domains that sleep
//! A domain that is idle collects nothing, so a dead handle in it would stay untold for as long as it sleeps.
//! While there is an untold failure, domains that go idle ask for an alarm ([`PATIENCE`]), and so does the
//! failure itself. The alarm has each domain that is idle by then and may have handles look through its
//! references (`Domain::look_for_dead_handles`); one that finds an untold failure among them collects. If
//! that failure is in use, the collection was for nothing: until there is another failure the domain collects
//! again after twice the time only. Because a domain may have been about to fall asleep when the alarm came,
//! or may have to look again, alarms follow each other as long as there is an untold failure, ever more
//! rarely. A program without untold failures sets none.

use crate::outcome::Outcome;
use crate::runtime::Runtime;
use crate::sched::timer;
use parking_lot::Mutex;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long a domain is idle before it looks for dead handles.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest time between two collections that find nothing dead.
const LONGEST: Duration = Duration::from_secs(64);

/// The failures of a program that may still have to be told.
pub(crate) struct Untold {
    runtime: Weak<Runtime>,
    /// In the order in which they failed.
    list: Mutex<Vec<Weak<Outcome>>>,
    /// Whether the list may have any. A hint for [`Untold::domain_is_idle`].
    any: AtomicBool,
    alarm: Mutex<Alarm>,
    /// Failures so far.
    count: AtomicU64,
}

/// When domains are asked to look for dead handles next.
#[derive(Default)]
struct Alarm {
    /// The earliest of the times that are set.
    at: Option<Instant>,
    /// How long after an alarm the next one comes if nothing else happens.
    pause: Duration,
}

impl Untold {
    /// Those of a runtime in which nothing has happened yet.
    pub fn new(runtime: Weak<Runtime>) -> Untold {
        Untold {
            runtime,
            list: Mutex::default(),
            any: AtomicBool::new(false),
            alarm: Mutex::default(),
            count: AtomicU64::new(0),
        }
    }

    /// The number of the next failure, from 1.
    pub fn next_number(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Something has failed, and whoever has a handle of it may still ask.
    pub fn enter(&self, outcome: &Arc<Outcome>) {
        let mut list = self.list.lock();
        if list.len() == list.capacity() {
            drop(list);
            self.prune();
            list = self.list.lock();
        }
        list.push(Arc::downgrade(outcome));
        self.any.store(true, Ordering::Relaxed);
        drop(list);
        self.alarm.lock().pause = PATIENCE;
        self.set_alarm(PATIENCE);
    }

    /// A domain has nothing to do for now.
    #[inline]
    pub fn domain_is_idle(&self) {
        if self.any.load(Ordering::Relaxed) {
            self.set_alarm(PATIENCE);
        }
    }

    #[cold]
    fn set_alarm(&self, pause: Duration) {
        let at = Instant::now() + pause;
        let mut alarm = self.alarm.lock();
        if alarm.at.is_some_and(|set| set <= at) {
            return;
        }
        alarm.at = Some(at);
        drop(alarm);
        let runtime = self.runtime.clone();
        timer::after(at, move || {
            if let Some(runtime) = runtime.upgrade() {
                runtime.untold().ring(&runtime, at);
            }
        });
    }

    fn ring(&self, runtime: &Runtime, at: Instant) {
        let pause = {
            let mut alarm = self.alarm.lock();
            if alarm.at != Some(at) {
                // An earlier one has come in between.
                return;
            }
            alarm.at = None;
            alarm.pause = (alarm.pause * 2).clamp(PATIENCE, LONGEST);
            alarm.pause
        };
        if self.prune() {
            for domain in runtime.domains() {
                domain.look_for_dead_handles();
            }
            self.set_alarm(pause);
        }
    }

    /// Forgets what has been told. Whether anything is left.
    fn prune(&self) -> bool {
        // Dropped after the lock: it may be the last count.
        let mut counts = Vec::new();
        let mut list = self.list.lock();
        list.retain(|weak| match weak.upgrade() {
            Some(outcome) => {
                let keep = outcome.is_untold();
                counts.push(outcome);
                keep
            }
            None => false,
        });
        let any = !list.is_empty();
        self.any.store(any, Ordering::Relaxed);
        drop(list);
        any
    }

    /// The program ends: tells all that nobody has asked for.
    pub fn tell_all(&self) {
        let list = std::mem::take(&mut *self.list.lock());
        for outcome in list.iter().filter_map(Weak::upgrade) {
            outcome.tell();
        }
    }
}

/// When a domain collected last because of an untold failure, and whether that is worth repeating.
#[derive(Default)]
pub(crate) struct Sweeps {
    /// The newest failure that the last one left untold.
    left: u64,
    /// Without a newer one, not before then.
    not_before: Option<Instant>,
    pause: Duration,
}

impl Sweeps {
    /// Whether to collect now that the newest untold failure in the domain is this one.
    pub fn is_due(&self, newest: u64) -> bool {
        newest > self.left || self.not_before.is_none_or(|then| Instant::now() >= then)
    }

    /// A collection has left this one as the newest.
    pub fn done(&mut self, left: Option<u64>) {
        match left {
            None => *self = Sweeps::default(),
            Some(newest) => {
                self.pause = if newest > self.left { PATIENCE } else { (self.pause * 2).min(LONGEST) };
                self.left = newest;
                self.not_before = Instant::now().checked_add(self.pause);
            }
        }
    }
}

/// Writes to standard error in one piece. There is nobody to tell that it cannot be written.
pub(crate) fn say(text: &str) {
    if !perilune_stdlib::io::takes_error(text.as_bytes()) {
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_for_nothing_become_rare_and_a_new_failure_is_looked_for_at_once() {
        let mut sweeps = Sweeps::default();
        assert!(sweeps.is_due(1));
        sweeps.done(Some(1));
        assert!(!sweeps.is_due(1) && sweeps.is_due(2));
        for _ in 0..20 {
            sweeps.done(Some(1));
        }
        assert_eq!(sweeps.pause, LONGEST);
        sweeps.done(Some(2));
        assert_eq!(sweeps.pause, PATIENCE);
        sweeps.done(None);
        assert!(sweeps.is_due(1));
    }
}
