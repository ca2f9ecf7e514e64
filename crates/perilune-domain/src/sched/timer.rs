//! Deadlines: one queue and one thread for the process.
//!
//! The thread starts with the first timer and sleeps until the earliest deadline, or for ever if there is
//! none. Two things are asked of the kernel for it: a timer slack of 1 ns, since the default of 50 us would
//! be the largest part of its lateness on an idle machine; and slices of 0.1 ms, the least there is, since a
//! thread with short slices goes before those with longer ones when it wakes (Linux 6.12), on a busy machine.
//! An alarm runs on this thread and must be short: it wakes somebody. Alarms with the same deadline ring in
//! the order in which they were set. Time is `CLOCK_MONOTONIC` ([`Instant`]).
//!
//! A periodic timer is a timer that its alarm sets again, for the last *deadline* plus the period: lateness
//! does not add up. [`next_tick`] computes it and leaves out ticks that are over already.
//!
//! # Cancelling
//!
//! A timer's alarm lies in a slot; the heap orders pairs of deadline and slot. Cancelling empties the slot at
//! once (what the alarm owns is dropped by the canceller, not at some later time) and leaves the pair in the
//! heap, where it is skipped. When more than half of the heap are such pairs it is rebuilt, so a program that
//! sets and cancels timeouts for ever keeps no more than twice what is armed. Ids carry the slot's
//! generation: cancelling a timer that has rung does nothing.
//!
//! *Rejected.* A hierarchical wheel: arming is cheaper by some 20 ns, but the thread would wake for cascades,
//! or lateness would be the width of a bucket. A timerfd per domain: system calls to arm.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What happens at the deadline.
pub type Alarm = Box<dyn FnOnce() + Send>;

/// Names a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct TimerId {
    slot: u32,
    generation: u32,
}

struct Slot {
    generation: u32,
    alarm: Option<Alarm>,
}

struct Timers {
    /// Earliest first; the second number orders equal deadlines by age.
    heap: BinaryHeap<Reverse<(Instant, u64, TimerId)>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Pairs in the heap whose slot has been emptied.
    stale: usize,
    set: u64,
    /// Until when the thread sleeps, if it does: an earlier deadline must wake it.
    asleep: Option<Sleep>,
    running: bool,
}

#[derive(Clone, Copy)]
enum Sleep {
    Forever,
    Until(Instant),
}

static TIMERS: Mutex<Timers> = Mutex::new(Timers::new());
static CHANGED: Condvar = Condvar::new();

/// Calls `alarm` at `deadline` (at once, if that is over) on the timer thread. It must not wait.
pub fn after(deadline: Instant, alarm: impl FnOnce() + Send + 'static) -> TimerId {
    let alarm: Alarm = Box::new(alarm);
    let mut timers = lock();
    let id = timers.arm(deadline, alarm);
    if !timers.running {
        timers.running = start();
    }
    let wake = match timers.asleep {
        None => false,
        Some(Sleep::Forever) => true,
        Some(Sleep::Until(until)) => deadline < until,
    };
    if wake {
        // Whoever arms the next one need not wake it again.
        timers.asleep = None;
    }
    drop(timers);
    if wake {
        CHANGED.notify_one();
    }
    id
}

/// Cancels a timer. True: the alarm will not ring, and what it owned has been dropped. False: it has rung, or
/// is ringing, or had been cancelled.
pub fn cancel(id: TimerId) -> bool {
    let mut timers = lock();
    let alarm = timers.disarm(id);
    drop(timers);
    alarm.is_some()
}

/// How many timers are armed.
pub fn armed() -> usize {
    let timers = lock();
    timers.heap.len() - timers.stale
}

/// The first tick of a clock with this period (more than 0) after `last` that is not over at `now`.
pub fn next_tick(last: Instant, period: Duration, now: Instant) -> Instant {
    let next = last + period;
    let late = now.saturating_duration_since(next);
    if late.is_zero() {
        return next;
    }
    let missed = late.as_nanos().div_ceil(period.as_nanos().max(1));
    next + Duration::from_nanos_u128(missed * period.as_nanos())
}

fn lock() -> MutexGuard<'static, Timers> {
    TIMERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// False if the kernel refuses a thread: the next timer tries again.
fn start() -> bool {
    perilune_heap::space::spawn("perilune-timer".into(), 256 << 10, ring_forever).is_ok()
}

fn ring_forever() {
    crate::sys::be_punctual();
    let mut due = Vec::new();
    let mut timers = lock();
    loop {
        let now = Instant::now();
        let next = timers.take_due(now, &mut due);
        if !due.is_empty() {
            drop(timers);
            for alarm in due.drain(..) {
                // An alarm that panics has been reported by the hook; the others must still ring.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(alarm));
            }
            timers = lock();
            continue;
        }
        timers = match next {
            None => {
                timers.asleep = Some(Sleep::Forever);
                CHANGED.wait(timers).unwrap_or_else(PoisonError::into_inner)
            }
            Some(until) => {
                timers.asleep = Some(Sleep::Until(until));
                CHANGED.wait_timeout(timers, until - now).unwrap_or_else(PoisonError::into_inner).0
            }
        };
        timers.asleep = None;
    }
}

impl Timers {
    const fn new() -> Timers {
        Timers {
            heap: BinaryHeap::new(),
            slots: Vec::new(),
            free: Vec::new(),
            stale: 0,
            set: 0,
            asleep: None,
            running: false,
        }
    }

    fn arm(&mut self, deadline: Instant, alarm: Alarm) -> TimerId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, alarm: None });
            self.slots.len() as u32 - 1
        });
        let entry = &mut self.slots[slot as usize];
        entry.alarm = Some(alarm);
        let id = TimerId { slot, generation: entry.generation };
        self.set += 1;
        self.heap.push(Reverse((deadline, self.set, id)));
        id
    }

    /// Empties a timer's slot, if it is armed.
    fn empty(&mut self, id: TimerId) -> Option<Alarm> {
        let slot = self.slots.get_mut(id.slot as usize).filter(|s| s.generation == id.generation)?;
        let alarm = slot.alarm.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        Some(alarm)
    }

    fn disarm(&mut self, id: TimerId) -> Option<Alarm> {
        let alarm = self.empty(id)?;
        self.stale += 1;
        if self.stale > 32 && self.stale * 2 > self.heap.len() {
            let slots = &self.slots;
            self.heap.retain(|Reverse((_, _, id))| slots[id.slot as usize].generation == id.generation);
            self.stale = 0;
            if self.heap.capacity() > 4 * self.heap.len() + 64 {
                self.heap.shrink_to(2 * self.heap.len());
            }
        }
        Some(alarm)
    }

    /// Moves the alarms that are due at `now` to `due`, earliest first; the deadline that comes next.
    fn take_due(&mut self, now: Instant, due: &mut Vec<Alarm>) -> Option<Instant> {
        while let Some(&Reverse((deadline, _, id))) = self.heap.peek() {
            let armed = self.slots[id.slot as usize].generation == id.generation;
            if armed && deadline > now {
                return Some(deadline);
            }
            self.heap.pop();
            match self.empty(id) {
                Some(alarm) => due.push(alarm),
                None => self.stale -= 1,
            }
        }
        None
    }
}

impl PartialOrd for TimerId {
    fn partial_cmp(&self, other: &TimerId) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TimerId {
    fn cmp(&self, other: &TimerId) -> std::cmp::Ordering {
        (self.slot, self.generation).cmp(&(other.slot, other.generation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, mpsc};

    const LONG: Duration = Duration::from_secs(30);

    #[test]
    fn alarms_ring_in_the_order_of_their_deadlines_and_not_early() {
        let (sender, receiver) = mpsc::channel();
        let start = Instant::now();
        for ms in [30u64, 10, 20, 10, 0] {
            let sender = sender.clone();
            let deadline = start + Duration::from_millis(ms);
            after(deadline, move || sender.send((ms, Instant::now() >= deadline)).unwrap());
        }
        let rung: Vec<(u64, bool)> = (0..5).map(|_| receiver.recv_timeout(LONG).unwrap()).collect();
        assert!(rung.iter().all(|r| r.1));
        let order: Vec<u64> = rung.iter().map(|r| r.0).collect();
        assert_eq!(order, [0, 10, 10, 20, 30]);
    }

    #[test]
    fn cancelling_drops_the_alarm_at_once_and_only_once() {
        let owned = Arc::new(());
        let inside = owned.clone();
        let id = after(Instant::now() + LONG, move || drop(inside));
        assert!(cancel(id));
        assert_eq!(Arc::strong_count(&owned), 1);
        assert!(!cancel(id));
        // The slot is used again; the old id means nothing to it.
        let other = after(Instant::now() + LONG, || {});
        assert!(!cancel(id));
        assert!(cancel(other));
    }

    #[test]
    fn a_timer_that_has_rung_cannot_be_cancelled() {
        let (sender, receiver) = mpsc::channel();
        let id = after(Instant::now(), move || sender.send(()).unwrap());
        receiver.recv_timeout(LONG).unwrap();
        assert!(!cancel(id));
    }

    #[test]
    fn an_alarm_that_panics_stops_no_other() {
        let (sender, receiver) = mpsc::channel();
        let now = Instant::now();
        after(now, || std::panic::resume_unwind(Box::new("on purpose")));
        after(now, move || sender.send(()).unwrap());
        receiver.recv_timeout(LONG).unwrap();
    }

    /// A receive with a timeout that always succeeds: the heap must not remember them all.
    #[test]
    fn cancelled_timers_do_not_pile_up() {
        let mut timers = Timers::new();
        let far = Instant::now() + LONG;
        let kept: Vec<TimerId> = (0..100).map(|_| timers.arm(far, Box::new(|| {}))).collect();
        for _ in 0..100_000 {
            let id = timers.arm(far, Box::new(|| {}));
            assert!(timers.disarm(id).is_some());
        }
        assert!(timers.heap.len() <= 300, "{} entries for 100 timers", timers.heap.len());
        assert!(timers.slots.len() <= 101);
        for id in kept {
            assert!(timers.disarm(id).is_some());
        }
        let mut due = Vec::new();
        assert_eq!(timers.take_due(far, &mut due), None);
        assert!(due.is_empty());
        assert_eq!((timers.heap.len(), timers.stale), (0, 0));
    }

    #[test]
    fn ticks_lie_on_a_grid_and_missed_ones_are_left_out() {
        let start = Instant::now();
        let ms = Duration::from_millis;
        assert_eq!(next_tick(start, ms(10), start), start + ms(10));
        assert_eq!(next_tick(start, ms(10), start + ms(10)), start + ms(10));
        assert_eq!(next_tick(start, ms(10), start + ms(11)), start + ms(20));
        assert_eq!(next_tick(start, ms(10), start + ms(95)), start + ms(100));
    }
}
