//! A lock that can be closed: one user at a time, until somebody closes it for all.
//!
//! Handles of one file lie in several domains. While one of them reads or writes, the others wait; when one
//! of them closes the file, those that wait leave at once, whoever is inside finishes first, and then the
//! closer gets what the lock protected. From the first moment of closing nobody else enters.
//!
//! # The word
//! | bit | set by | cleared by |
//! |---|---|---|
//! | `HELD` | who enters | who leaves |
//! | `WAITED` | who is going to sleep, only while `HELD` is set | who leaves, which wakes all sleepers |
//! | `CLOSED` | the closer | the closer, if it gives up before it got the value |
//!
//! Beside it lies a bias (`bias.rs`): who enters takes it away, and may give it to its own domain before it
//! leaves. A domain that has it uses the value without entering, as long as the word is 0.
//!
//! A sleeper sleeps on the word itself, so a change between its look and its sleep keeps it awake. Without
//! competition entering is one exchange and leaving is one.
//!
//! Rejected: a mutex beside a flag (who waits for the mutex would not hear of the flag); a mutex with a
//! condition variable (a signal does not end its wait, so SIGINT would not either).

use super::bias::{Bias, Use, User};
use super::sync::{Interrupted, Ordering, Word};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

const HELD: u32 = 1;
const WAITED: u32 = 2;
const CLOSED: u32 = 4;

/// See the module's essay.
pub(super) struct Closable<T> {
    word: Word,
    bias: Bias,
    /// `None` once the closer has it.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is touched by the holder only (`Entered`, `Closing::take`), or by a domain in a use (`Briefly`)
// while there is no holder that has taken its bias away. So sharing the lock moves the value between threads
// and nothing else.
unsafe impl<T: Send> Sync for Closable<T> {}

/// It has been closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Closed;

impl<T> Closable<T> {
    pub(super) fn new(value: T) -> Closable<T> {
        Closable { word: Word::new(0), bias: Bias::new(), value: UnsafeCell::new(Some(value)) }
    }

    /// Has somebody closed it, or begun to?
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.word.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// The value, if the domain has the bias, and nobody is inside or has closed it.
    ///
    /// # Safety
    /// The thread owns the domain for as long as the value is used, which is brief: nothing waits and no Lua
    /// code runs meanwhile, and the domain enters nowhere and uses nothing else of this lock.
    #[inline(always)]
    pub(super) unsafe fn briefly(&self, me: User) -> Option<Briefly<'_, T>> {
        if self.word.load(Ordering::Relaxed) != 0 {
            return None;
        }
        // SAFETY: the caller's promise.
        let used = unsafe { self.bias.enter(me) }?;
        // SAFETY: whoever enters takes the bias away first, and waits for the end of this use.
        let value = unsafe { &mut *self.value.get() }.as_mut()?;
        Some(Briefly { value, used })
    }

    /// Enters, unless somebody else is inside (`Ok(None)`). `me`: the domain that runs, if the caller knows it.
    #[inline]
    pub(super) fn try_enter(&self, me: Option<User>) -> Result<Option<Entered<'_, T>>, Closed> {
        if self.word.compare_exchange(0, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            // SAFETY: this thread has just set `HELD`.
            return unsafe { self.entered(me) };
        }
        self.try_enter_contended(me)
    }

    #[cold]
    fn try_enter_contended(&self, me: Option<User>) -> Result<Option<Entered<'_, T>>, Closed> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            if word & CLOSED != 0 {
                return Err(Closed);
            }
            if word & HELD != 0 {
                return Ok(None);
            }
            match self.word.compare_exchange(word, word | HELD, Ordering::Acquire, Ordering::Relaxed) {
                // SAFETY: this thread has just set `HELD`.
                Ok(_) => return unsafe { self.entered(me) },
                Err(now) => word = now,
            }
        }
    }

    /// # Safety
    /// The caller has set `HELD`.
    #[inline]
    unsafe fn entered(&self, me: Option<User>) -> Result<Option<Entered<'_, T>>, Closed> {
        let hold = Hold(self);
        self.bias.take(me);
        // SAFETY: only the holder touches the value, and that is the caller.
        match unsafe { &mut *self.value.get() } {
            Some(value) => Ok(Some(Entered { value, hold })),
            None => Err(Closed),
        }
    }

    /// Sleeps until whoever is inside has left, or it is closed; not at all if that is so already. It may
    /// wake for no reason.
    ///
    /// # Errors
    /// A signal handler ran in this thread.
    pub(super) fn sleep(&self) -> Result<(), Interrupted> {
        self.sleep_while(|word| word & HELD != 0 && word & CLOSED == 0)
    }

    fn sleep_while(&self, held: impl Fn(u32) -> bool) -> Result<(), Interrupted> {
        let word = self.word.load(Ordering::Relaxed);
        if !held(word) {
            return Ok(());
        }
        if word & WAITED == 0
            && self.word.compare_exchange(word, word | WAITED, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return Ok(());
        }
        self.word.sleep(word | WAITED)
    }

    /// Closes it for everybody who is not inside. `None`: somebody has done so before.
    pub(super) fn close(&self) -> Option<Closing<'_, T>> {
        let before = self.word.fetch_or(CLOSED, Ordering::Relaxed);
        if before & CLOSED != 0 {
            return None;
        }
        if before & WAITED != 0 {
            self.word.wake_all();
        }
        Some(Closing { lock: self, taken: false })
    }

    fn leave(&self) {
        if self.word.fetch_and(!(HELD | WAITED), Ordering::Release) & WAITED != 0 {
            self.word.wake_all();
        }
    }
}

/// Leaves when it is dropped.
struct Hold<'a, T>(&'a Closable<T>);

impl<T> Drop for Hold<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// The right to use the value: whoever has it is the only one inside.
pub(super) struct Entered<'a, T> {
    value: &'a mut T,
    hold: Hold<'a, T>,
}

impl<T> Entered<'_, T> {
    /// Once this has left, the domain may use the value without entering.
    #[inline]
    pub(super) fn give_bias(&self, me: User) {
        self.hold.0.bias.give(me);
    }
}

/// The value in a use by the domain that has the bias.
pub(super) struct Briefly<'a, T> {
    value: &'a mut T,
    #[allow(dead_code, reason = "it is dropped")]
    used: Use<'a>,
}

impl<T> Deref for Briefly<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for Briefly<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

impl<T> Deref for Entered<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for Entered<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.value
    }
}

/// The closer, of which there is one. Dropped before it has taken the value, it opens the lock again.
pub(super) struct Closing<'a, T> {
    lock: &'a Closable<T>,
    taken: bool,
}

impl<T> Closing<'_, T> {
    /// The value, unless somebody is inside still; then [`Closing::sleep`] waits.
    pub(super) fn take(&mut self) -> Option<T> {
        let word = &self.lock.word;
        let before = word.fetch_or(HELD, Ordering::Acquire);
        if before & HELD != 0 {
            return None;
        }
        let _hold = Hold(self.lock);
        self.lock.bias.take(None);
        self.taken = true;
        // SAFETY: this thread has just set `HELD`.
        unsafe { (*self.lock.value.get()).take() }
    }

    /// Sleeps until whoever is inside has left. It may wake for no reason.
    ///
    /// # Errors
    /// A signal handler ran in this thread.
    pub(super) fn sleep(&self) -> Result<(), Interrupted> {
        self.lock.sleep_while(|word| word & HELD != 0)
    }
}

impl<T> Drop for Closing<'_, T> {
    fn drop(&mut self) {
        if !self.taken {
            self.lock.word.fetch_and(!CLOSED, Ordering::Relaxed);
        }
    }
}
