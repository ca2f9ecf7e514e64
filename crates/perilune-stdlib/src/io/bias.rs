//! Bias: the domain that used last what a lock protects uses it again without the lock.
//!
//! Files and connections have locks, since handles of them may lie in several domains. Nearly always they lie
//! in one, and a program that reads lines takes and leaves the lock for each of them: two atomic exchanges,
//! which cost as much as all the rest of a line. A lock with a bias spares them.
//!
//! # Terms
//! The *lock* is somebody else's (`closable.rs`; a mutex): this is what lies beside it. Under the lock a
//! domain is *given* the bias. From then on it may *use* what is protected, briefly: it runs no Lua code and
//! waits for nothing meanwhile. Whoever takes the lock takes the bias away, before it touches anything. The
//! first domain that was given it is the only one that is given it again.
//!
//! # Protocol
//! ```text
//!   user (owns the domain)             under the lock
//!   busy = true                        lent = nobody
//!   light barrier                      heavy barrier
//!   lent to me? else busy = false      wait while busy
//!   ... uses it ...                    ... uses it ...
//!   busy = false
//! ```
//! `busy` is one domain's to write, for ever: one that was late to find its bias gone would otherwise take
//! back what the next one has written.
//!
//! Each writes its word before it looks at the other's, and between the two lies a barrier, so one of them
//! sees the other at least. The user's has to cost nothing, so it binds the compiler only; the other one makes
//! all processors that run threads of this process pass a full barrier (`membarrier`), which takes up to some
//! ten microseconds. A domain that takes the lock itself needs none: it is not in the middle of a use.
//!
//! The system has to be told of such barriers before, which takes it milliseconds. A thread does that, once
//! the bias has been worth having for some time; until then, and where the system has none, nobody is given
//! it. What others have taken away [`MOST_TAKEN`] times is given to nobody any more.
//!
//! *Rejected.* A count of handles in place of the bias: standard input always has several, and connections
//! are found by the poller. Lines that are taken ahead: a loop may end behind any of them, and then the
//! next byte is somebody else's.

use super::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering, barriers, light_barrier, pause};

use perilune_vm::Vm;

/// See above.
const MOST_TAKEN: u32 = 16;

/// The domain that runs, as far as this file is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct User(pub(super) usize);

impl User {
    /// The domain whose state this is. Another one at the same place begins when this one has ended.
    #[inline(always)]
    pub fn of(vm: &Vm) -> User {
        User(std::ptr::from_ref(vm).addr())
    }
}

/// See the module's essay.
pub struct Bias {
    /// Who has it; 0: nobody. Written under the lock.
    lent: AtomicUsize,
    /// The only one who may have it; 0: nobody has had it. Under the lock.
    first: AtomicUsize,
    /// Written by that domain.
    busy: AtomicBool,
    /// How often others have taken it away. Under the lock.
    taken: AtomicU32,
}

/// The right to use what is protected, until it is dropped.
pub struct Use<'a>(&'a Bias);

impl Bias {
    /// Nobody's.
    #[allow(clippy::new_without_default, reason = "the model's atomics have no default")]
    pub fn new() -> Bias {
        Bias {
            lent: AtomicUsize::new(0),
            first: AtomicUsize::new(0),
            busy: AtomicBool::new(false),
            taken: AtomicU32::new(0),
        }
    }

    /// Uses what is protected, if the bias is this domain's.
    ///
    /// # Safety
    /// The thread owns the domain until the use ends, and the domain is in no other use of this.
    #[inline(always)]
    pub unsafe fn enter(&self, me: User) -> Option<Use<'_>> {
        if self.lent.load(Ordering::Relaxed) != me.0 {
            return None;
        }
        self.busy.store(true, Ordering::Relaxed);
        let used = Use(self);
        light_barrier();
        // What this domain gave itself: nothing is to be acquired.
        if self.lent.load(Ordering::Relaxed) != me.0 {
            return None;
        }
        Some(used)
    }

    /// To be called under the lock: this domain may use it without from now on.
    #[inline]
    pub fn give(&self, me: User) {
        let first = self.first.load(Ordering::Relaxed);
        if (first == me.0 || first == 0) && barriers() {
            debug_assert!([0, me.0].contains(&self.lent.load(Ordering::Relaxed)), "who has the lock took it");
            if self.taken.load(Ordering::Relaxed) < MOST_TAKEN {
                self.first.store(me.0, Ordering::Relaxed);
                self.lent.store(me.0, Ordering::Relaxed);
            }
        }
    }

    /// To be called by who has just taken the lock: nobody uses it without from now on. `me`: the domain that
    /// runs, if the caller knows it, which is in no use of this.
    #[inline]
    pub fn take(&self, me: Option<User>) {
        let user = self.lent.load(Ordering::Relaxed);
        if user != 0 {
            self.lent.store(0, Ordering::Relaxed);
            if me != Some(User(user)) {
                self.wait_for_use();
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_for_use(&self) {
        self.taken.store(self.taken.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        super::sync::heavy_barrier();
        let mut times = 0;
        while self.busy.load(Ordering::Acquire) {
            pause(times);
            times += 1;
        }
    }
}

impl Drop for Use<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.busy.store(false, Ordering::Release);
    }
}
