//! What a server was asked and has not answered yet, and who works on it.
//!
//! # Workers
//! A *worker* is a fiber that takes a request, calls its function, sends what it returns, and takes the next
//! one. A function that does not wait is done before anybody else runs, so one worker works off all requests
//! that have come together, without a switch between fibers. For the functions that wait, each worker that
//! takes a request while there are more *summons* another one, which is an idle one, or a new one that the
//! connection's control fiber starts. So there are as many workers as functions that wait, and one that is
//! idle; at most [`Jobs::most`].
//!
//! # Bounds
//! While [`QUEUE`] requests or [`QUEUE_BYTES`] wait to be taken, no more is read; when half of them are left,
//! the worker that took the last one pumps.
//!
//! # Cancelling
//! A worker whose job is cancelled is *doomed*: its fiber is going to be cancelled by the control fiber. It
//! takes no other job meanwhile, as that would be cancelled in its place.
//!
//! # The end
//! When the connection is over nobody waits for an answer, so calls are dropped, and cancelled where they
//! run. A notification is a message that has arrived: a client may send it and close. Those that run go on to
//! their end, and those in the queue are carried out by the control fiber.

use super::frame::{Asked, Code, asked};
use crate::seen;
use perilune_data::wire::Malformed;
use perilune_domain::outside::Waiter;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Requests that wait to be taken.
const QUEUE: usize = 1024;
/// Bytes of them; one request may be longer.
const QUEUE_BYTES: usize = 1 << 20;
/// Idle workers that are kept.
const IDLE: usize = 32;
/// Number of the worker of a job that is still in the queue.
const NOBODY: i64 = 0;

/// The requests of a connection.
pub struct Jobs {
    /// Workers at most.
    pub most: usize,
    /// With the time at which they came, if somebody wants to know.
    queue: VecDeque<(Vec<u8>, Option<Instant>)>,
    queued: usize,
    stopped: bool,
    /// It is to end when nothing is left to be done.
    drains: bool,
    under_way: HashMap<u64, Job>,
    workers: usize,
    last_worker: i64,
    idle: Vec<Arc<Waiter>>,
    /// A worker has been woken or is being started, and has not looked yet.
    summoned: bool,
    doomed: HashSet<i64>,
    /// Those that carry out a notification.
    notified: HashSet<i64>,
    /// What the control fiber is to do.
    cancels: VecDeque<u64>,
    wants_worker: bool,
    control: Option<Arc<Waiter>>,
    /// When times are looked at next.
    alarm: Option<Instant>,
}

struct Job {
    worker: i64,
    /// It is to end, and why.
    cancelled: Option<Code>,
    deadline: Option<Instant>,
    /// Bytes that its stream may send.
    credit: i64,
    waiter: Option<Arc<Waiter>>,
}

/// What a worker finds.
pub enum Next {
    /// A request, when it came, and why it was cancelled if it was before anybody took it; whether to pump.
    Job { frame: Vec<u8>, came: Option<Instant>, cancelled: Option<Code>, pump: bool },
    /// Nothing: wait.
    Wait,
    /// Enough others wait.
    Leave,
}

/// What the control fiber is to do.
pub enum Event {
    /// Start a worker of this number.
    Start(i64),
    /// Cancel this one.
    Cancel(i64),
}

impl Jobs {
    /// Without requests.
    pub fn new(most: usize) -> Jobs {
        Jobs {
            most,
            queue: VecDeque::new(),
            queued: 0,
            stopped: false,
            drains: false,
            under_way: HashMap::new(),
            workers: 0,
            last_worker: NOBODY,
            idle: Vec::new(),
            summoned: false,
            doomed: HashSet::new(),
            notified: HashSet::new(),
            cancels: VecDeque::new(),
            wants_worker: false,
            control: None,
            alarm: None,
        }
    }

    /// A frame has come. Whether to go on, and when times are to be looked at if nobody is going to by then.
    ///
    /// # Errors
    /// It is none that may come now.
    pub fn take(
        &mut self,
        frame: &[u8],
        wakes: &mut Vec<Arc<Waiter>>,
    ) -> Result<(bool, Option<Instant>), Malformed> {
        let mut alarm = None;
        let (asked, _) = asked(frame)?;
        match asked {
            Asked::Call { id, micros } | Asked::Stream { id, micros, .. } => {
                let credit = match asked {
                    Asked::Stream { credit, .. } => i64::try_from(credit).unwrap_or(i64::MAX),
                    _ => 0,
                };
                let span = (micros > 0).then(|| Duration::from_micros(micros));
                let deadline = span.and_then(|span| Instant::now().checked_add(span));
                if deadline.is_some() && (self.alarm.is_none() || self.alarm > deadline) {
                    self.alarm = deadline;
                    alarm = deadline;
                }
                let job = Job { worker: NOBODY, cancelled: None, deadline, credit, waiter: None };
                if self.under_way.insert(id, job).is_some() {
                    return Err(Malformed::Bytes("an id that is in use"));
                }
            }
            Asked::Notify => {}
            Asked::Cancel { id } => {
                self.cancel(id, Code::Cancelled, wakes);
                return Ok((true, None));
            }
            Asked::Credit { id, bytes } => {
                if let Some(job) = self.under_way.get_mut(&id) {
                    job.credit = job.credit.saturating_add_unsigned(bytes);
                    wakes.extend(job.waiter.take());
                }
                return Ok((true, None));
            }
        }
        self.queued += frame.len();
        self.queue.push_back((frame.to_vec(), seen::is_on().then(Instant::now)));
        self.summon(wakes);
        self.stopped = self.queue.len() >= QUEUE || self.queued >= QUEUE_BYTES;
        Ok((!self.stopped, alarm))
    }

    /// A job is to end.
    fn cancel(&mut self, id: u64, why: Code, wakes: &mut Vec<Arc<Waiter>>) {
        if let Some(job) = self.under_way.get_mut(&id)
            && job.cancelled.is_none()
        {
            job.cancelled = Some(why);
            if job.worker != NOBODY {
                self.cancels.push_back(id);
                wakes.extend(self.control.take());
            }
        }
    }

    /// Looks at times; when to do so again.
    pub fn expire(&mut self, wakes: &mut Vec<Arc<Waiter>>) -> Option<Instant> {
        let now = Instant::now();
        let late = |job: &Job| job.cancelled.is_none() && job.deadline.is_some_and(|at| at <= now);
        let late: Vec<u64> = self.under_way.iter().filter(|(_, job)| late(job)).map(|(&id, _)| id).collect();
        for id in late {
            self.cancel(id, Code::Timeout, wakes);
        }
        let left = self.under_way.values().filter(|job| job.cancelled.is_none());
        self.alarm = left.filter_map(|job| job.deadline).min();
        self.alarm
    }

    /// Sees to it that somebody looks at the queue.
    fn summon(&mut self, wakes: &mut Vec<Arc<Waiter>>) {
        if self.summoned || self.queue.is_empty() {
            return;
        }
        if let Some(waiter) = self.idle.pop() {
            self.summoned = true;
            wakes.push(waiter);
        } else if self.workers < self.most {
            self.summoned = true;
            self.wants_worker = true;
            wakes.extend(self.control.take());
        }
    }

    /// The one that was summoned does not come: another one, if it has to be woken.
    pub fn replace(&mut self) -> Option<Arc<Waiter>> {
        self.summoned = false;
        let mut wakes = Vec::new();
        self.summon(&mut wakes);
        wakes.pop()
    }

    /// What worker `n` does next. `came`: it was summoned. `waiter` is left if there is nothing.
    pub fn next(
        &mut self,
        n: i64,
        came: bool,
        waiter: Option<Arc<Waiter>>,
        wakes: &mut Vec<Arc<Waiter>>,
    ) -> Next {
        self.summoned &= !came;
        self.notified.remove(&n);
        if self.doomed.contains(&n) {
            // It was perhaps the one that was summoned.
            self.summon(wakes);
            return Next::Leave;
        }
        let Some((frame, since)) = self.queue.pop_front() else {
            if self.idle.len() >= IDLE {
                return Next::Leave;
            }
            self.idle.extend(waiter);
            return Next::Wait;
        };
        self.queued -= frame.len();
        let pump = self.stopped && self.queue.len() <= QUEUE / 2 && self.queued <= QUEUE_BYTES / 2;
        self.stopped &= !pump;
        let mut cancelled = None;
        match asked(&frame) {
            Ok((Asked::Call { id, .. } | Asked::Stream { id, .. }, _)) => {
                if let Some(job) = self.under_way.get_mut(&id) {
                    job.worker = n;
                    cancelled = job.cancelled;
                }
            }
            _ => {
                self.notified.insert(n);
            }
        }
        self.summon(wakes);
        Next::Job { frame, came: since, cancelled, pump }
    }

    /// A worker does not wait any more for another reason than that it was woken.
    pub fn take_back(&mut self, waiter: &Arc<Waiter>) {
        self.idle.retain(|w| !Arc::ptr_eq(w, waiter));
    }

    /// A worker has ended; the job that it had not done, and why.
    pub fn gone(&mut self, n: i64) -> Option<(u64, Code)> {
        self.workers -= 1;
        self.doomed.remove(&n);
        self.notified.remove(&n);
        let id = self.under_way.iter().find(|(_, job)| job.worker == n).map(|(&id, _)| id);
        let job = id.and_then(|id| Some((id, self.under_way.remove(&id)?)));
        job.map(|(id, job)| (id, job.cancelled.unwrap_or(Code::Cancelled)))
    }

    /// Whether worker `n` carries out a notification.
    pub fn is_notified(&self, n: i64) -> bool {
        self.notified.contains(&n)
    }

    /// The connection is over: the next notification that has not been taken. Calls before it are dropped.
    pub fn left(&mut self) -> Option<Vec<u8>> {
        loop {
            let (frame, _) = self.queue.pop_front()?;
            self.queued -= frame.len();
            match asked(&frame) {
                Ok((Asked::Call { id, .. } | Asked::Stream { id, .. }, _)) => {
                    self.under_way.remove(&id);
                }
                _ => return Some(frame),
            }
        }
    }

    /// From now on the connection is to end when nothing is left to be done.
    pub fn drain(&mut self) {
        self.drains = true;
    }

    /// Whether that is so.
    pub fn is_drained(&self) -> bool {
        self.drains && self.queue.is_empty() && self.under_way.is_empty() && self.notified.is_empty()
    }

    /// The job is being answered. False: it has been.
    pub fn finish(&mut self, id: u64) -> bool {
        self.under_way.remove(&id).is_some()
    }

    /// Whether a stream may send; if not, the waiter is left. `None`: it has been answered.
    pub fn may_send(&mut self, id: u64, waiter: Option<Arc<Waiter>>) -> Option<bool> {
        let job = self.under_way.get_mut(&id)?;
        if job.credit <= 0 {
            job.waiter = waiter;
        }
        Some(job.credit > 0)
    }

    /// It has sent so many bytes.
    pub fn sent(&mut self, id: u64, bytes: usize) {
        if let Some(job) = self.under_way.get_mut(&id) {
            job.credit -= bytes as i64;
        }
    }

    /// What the control fiber is to do; the waiter is left if there is nothing.
    pub fn event(&mut self, waiter: Option<Arc<Waiter>>) -> Option<Event> {
        while let Some(id) = self.cancels.pop_front() {
            if let Some(job) = self.under_way.get(&id)
                && self.doomed.insert(job.worker)
            {
                return Some(Event::Cancel(job.worker));
            }
        }
        if std::mem::take(&mut self.wants_worker) {
            self.workers += 1;
            self.last_worker += 1;
            return Some(Event::Start(self.last_worker));
        }
        self.control = waiter;
        None
    }

    /// Everybody who waits: it is over.
    pub fn everybody(&mut self) -> Vec<Arc<Waiter>> {
        let mut all: Vec<Arc<Waiter>> = self.idle.drain(..).chain(self.control.take()).collect();
        all.extend(self.under_way.values_mut().filter_map(|job| job.waiter.take()));
        all
    }
}
