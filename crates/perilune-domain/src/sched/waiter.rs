//! One wait of one sleeper, ended exactly once.
//!
//! A fiber (or the main program) that waits makes a [`Waiter`], leaves it with everything that may end the
//! wait (channels, a timer, the task's cancellation, the list of its domain for reports) and sleeps. Whoever
//! calls [`Waiter::wake`] first ends it; all others are told that they came too late, and must keep what they
//! wanted to deliver. So a `select` over several channels, a timeout and a cancellation may race freely.
//!
//! # States
//!
//! *open* (being left with sources; the owner still runs) -> *asleep* -> *woken(reason, case)*, or straight
//! from *open* to *woken*. Only the owner goes from open to asleep ([`Waiter::sleep`]), and is told if it
//! need not. Only if the wait was asleep does its end rouse the sleeper: a fiber that has not parked is never
//! posted, so no stale fiber ids reach a domain's queue.
//!
//! # Delivering
//!
//! A sender that finds a receiver must know that it has won before it parts with the message, and the
//! receiver must not run before the message is there: [`Waiter::claim`] ends the wait and returns a
//! [`Claim`]; the sleeper is roused when that is dropped.
//!
//! A waiter is not reused: the reference that a slow source still has to an old one must find it woken.

use super::sync::{AtomicU64, Ordering};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Reason {
    /// What was waited for is there.
    Ready = 1,
    /// The time is over.
    Timeout,
    /// The task has been cancelled.
    Cancelled,
    /// What was waited for was closed.
    Closed,
    /// Nothing in the program can end this wait any more (`quiescence.rs`).
    Deadlock,
}

impl Reason {
    fn from_bits(bits: u64) -> Option<Reason> {
        Some(match bits & 0xff {
            1 => Reason::Ready,
            2 => Reason::Timeout,
            3 => Reason::Cancelled,
            4 => Reason::Closed,
            5 => Reason::Deadlock,
            _ => return None,
        })
    }
}

impl From<Reason> for perilune_trace::event::Reason {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Ready => Self::Ready,
            Reason::Timeout => Self::Timeout,
            Reason::Cancelled => Self::Cancelled,
            Reason::Closed => Self::Closed,
            Reason::Deadlock => Self::Deadlock,
        }
    }
}

/// Whom a waiter wakes: a fiber in a domain, or a thread.
pub trait Sleeper: Send + Sync {
    /// Makes the sleeper run. Called at most once, by any thread, holding no lock of this module. The sleeper
    /// must have its unit (`quiescence.rs`) before this returns.
    fn rouse(&self, reason: Reason);

    /// Who waits for what and where, one line, for reports:
    /// `task 'parse' waits for channel 'in' (main.lua:12)`.
    fn describe(&self) -> String;

    /// The same as facts, for whoever knows their type: what a domain lists of its fibers.
    fn facts(&self) -> Option<&dyn Any> {
        None
    }
}

const OPEN: u64 = 0;
const ASLEEP: u64 = 0xff;

/// One wait. Made as `Waiter::new(sleeper)`, an `Arc<Waiter>` of any sleeper.
pub struct Waiter<S: ?Sized = dyn Sleeper> {
    /// Bits 0..8: open, asleep or the reason; bits 32..64: the case.
    state: AtomicU64,
    sleeper: S,
}

impl<S: Sleeper> Waiter<S> {
    /// A wait that is open.
    #[allow(clippy::new_ret_no_self)]
    #[inline(always)]
    pub fn new(sleeper: S) -> Arc<Waiter<S>> {
        Arc::new(Waiter { state: AtomicU64::new(OPEN), sleeper })
    }
}

impl<S: Sleeper + ?Sized> Waiter<S> {
    /// The owner has left the waiter everywhere and wants to sleep. False: it was woken already, don't.
    pub fn sleep(&self) -> bool {
        self.state.compare_exchange(OPEN, ASLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Why the wait ended, and which of its cases ended it, if it has ended.
    pub fn woken(&self) -> Option<(Reason, u32)> {
        let state = self.state.load(Ordering::Acquire);
        Reason::from_bits(state).map(|r| (r, (state >> 32) as u32))
    }

    /// Ends the wait and rouses the sleeper. False: it had ended before.
    pub fn wake(&self, reason: Reason) -> bool {
        self.claim(reason, 0).is_some()
    }

    /// Ends the wait for the source that the owner calls `case`. The sleeper is roused when the claim is
    /// dropped.
    pub fn claim(&self, reason: Reason, case: u32) -> Option<Claim<'_, S>> {
        let new = (u64::from(case) << 32) | reason as u64;
        let mut old = self.state.load(Ordering::Relaxed);
        loop {
            if old != OPEN && old != ASLEEP {
                return None;
            }
            match self.state.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some(Claim { waiter: self, reason, asleep: old == ASLEEP }),
                Err(now) => old = now,
            }
        }
    }

    /// Who is woken.
    pub fn sleeper(&self) -> &S {
        &self.sleeper
    }
}

impl<S: Sleeper + ?Sized> fmt::Debug for Waiter<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Waiter({}, {:?})", self.sleeper.describe(), self.woken())
    }
}

/// A wait that the holder has ended: the time to deliver.
#[must_use = "dropping it rouses the sleeper"]
pub struct Claim<'a, S: Sleeper + ?Sized> {
    waiter: &'a Waiter<S>,
    reason: Reason,
    asleep: bool,
}

impl<S: Sleeper + ?Sized> Drop for Claim<'_, S> {
    fn drop(&mut self) {
        if self.asleep {
            self.waiter.sleeper.rouse(self.reason);
        }
    }
}
