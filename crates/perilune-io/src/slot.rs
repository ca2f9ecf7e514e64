//! One direction of a descriptor: whether something may have happened, and who waits for it.
//!
//! The poller is told of *edges*: that something has become readable or writable, once. Whoever tries without
//! success and then waits must not miss the edge between the two.
//!
//! 1. Before it tries, it clears the ready flag ([`Slot::clear`]).
//! 2. If the system says "would block", it leaves its waiter and looks at the flag again, which is one step
//!    here ([`Slot::leave`]): if the flag is up, the waiter comes back, and it tries again.
//! 3. The poller raises the flag and wakes whoever is there ([`Slot::raise`]).
//!
//! Of the two changes to one word, "ready" and "somebody waits", one comes first. If it is the former, who
//! leaves the waiter sees it; if the latter, the poller does.
//!
//! Steps 1 and 2 of *one* object are done under the lock of its direction (`stream.rs`). Otherwise another
//! one that tries meanwhile could clear the flag, find the last thing that there will ever be (the end of the
//! stream), and leave the first one asleep.
//!
//! *Sticky* is what stays true: the peer has hung up, or there is an error to be fetched. While it is so,
//! nobody saves the attempt because the last one took all there was.

use super::sync::{AtomicU32, Mutex, Ordering, lock};

/// Something may have happened since the flag was cleared.
const READY: u32 = 1;
/// What has happened stays so.
const STICKY: u32 = 2;
/// The list of waiters is not empty. Changed under the lock.
const WAITED: u32 = 4;
/// The owner wants to be told of the next edge itself (`Source`).
const BACKLOG: u32 = 8;

/// Who can be left in a slot.
pub trait Wake {
    /// Ends the wait. False: it had ended before.
    fn wake(&self) -> bool;
}

/// Names a waiter that was left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left(u64);

/// How many of those who wait are woken by an edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wakes {
    /// The one that waits longest; whoever takes what is there wakes the next one if there may be more.
    One,
    /// All.
    All,
}

/// See the module's essay.
pub struct Slot<W> {
    state: AtomicU32,
    list: Mutex<List<W>>,
}

struct List<W> {
    /// Nearly always the only one.
    first: Option<(Left, W)>,
    more: Vec<(Left, W)>,
    left: u64,
}

impl<W> Default for List<W> {
    fn default() -> Self {
        List { first: None, more: Vec::new(), left: 0 }
    }
}

impl<W> List<W> {
    fn pop(&mut self) -> Option<(Left, W)> {
        let first = self.first.take()?;
        if !self.more.is_empty() {
            self.first = Some(self.more.remove(0));
        }
        Some(first)
    }

    fn remove(&mut self, left: Left) -> Option<W> {
        if self.first.as_ref().is_some_and(|(id, _)| *id == left) {
            return self.pop().map(|(_, w)| w);
        }
        let at = self.more.iter().position(|(id, _)| *id == left)?;
        Some(self.more.remove(at).1)
    }
}

impl<W> Default for Slot<W> {
    fn default() -> Self {
        Slot { state: AtomicU32::new(0), list: Mutex::new(List::default()) }
    }
}

impl<W: Wake> Slot<W> {
    /// Before an attempt.
    pub fn clear(&self) {
        self.state.fetch_and(!READY, Ordering::AcqRel);
    }

    /// Whether an attempt may succeed although the last one took all there was.
    pub fn may_be_ready(&self) -> bool {
        self.state.load(Ordering::Acquire) & (READY | STICKY) != 0
    }

    /// Leaves a waiter after an attempt that failed.
    ///
    /// # Errors
    /// Something has happened since [`Slot::clear`]: the waiter comes back; try again.
    pub fn leave(&self, waiter: W) -> Result<Left, W> {
        let mut list = lock(&self.list);
        list.left += 1;
        let left = Left(list.left);
        match &list.first {
            None => list.first = Some((left, waiter)),
            Some(_) => list.more.push((left, waiter)),
        }
        if self.state.fetch_or(WAITED, Ordering::AcqRel) & READY == 0 {
            return Ok(left);
        }
        match self.remove(&mut list, left) {
            Some(waiter) => Err(waiter),
            None => unreachable!("it was put there under this lock"),
        }
    }

    fn remove(&self, list: &mut List<W>, left: Left) -> Option<W> {
        let removed = list.remove(left);
        if list.first.is_none() {
            self.state.fetch_and(!WAITED, Ordering::AcqRel);
        }
        removed
    }

    /// Takes a waiter back, if it is still there.
    pub fn take_back(&self, left: Left) {
        let removed = self.remove(&mut lock(&self.list), left);
        drop(removed); // after the lock
    }

    /// Something has happened. `sticky`: and stays so.
    pub fn raise(&self, sticky: bool, wakes: Wakes) {
        let bits = if sticky { READY | STICKY } else { READY };
        if self.state.fetch_or(bits, Ordering::AcqRel) & WAITED != 0 {
            self.wake(wakes);
        }
    }

    /// Wakes those who wait, without anything having happened.
    #[cold]
    pub fn wake(&self, wakes: Wakes) {
        loop {
            let next = {
                let mut list = lock(&self.list);
                let next = list.pop();
                if list.first.is_none() {
                    self.state.fetch_and(!WAITED, Ordering::AcqRel);
                }
                next
            };
            match next {
                None => return,
                Some((_, waiter)) => {
                    if waiter.wake() && wakes == Wakes::One {
                        return;
                    }
                }
            }
        }
    }

    /// Calls `f` with the first one that waits.
    pub fn with_first<R>(&self, f: impl FnOnce(&W) -> R) -> Option<R> {
        lock(&self.list).first.as_ref().map(|(_, w)| f(w))
    }

    /// The owner has something left to do when the next edge comes. False: one has come since
    /// [`Slot::clear`]; do it now.
    pub fn set_backlog(&self) -> bool {
        self.state.fetch_or(BACKLOG, Ordering::AcqRel) & READY == 0
    }

    /// Whether the owner has, which is told now. Only after [`Slot::raise`].
    pub fn take_backlog(&self) -> bool {
        self.state.load(Ordering::Acquire) & BACKLOG != 0
            && self.state.fetch_and(!BACKLOG, Ordering::AcqRel) & BACKLOG != 0
    }
}
