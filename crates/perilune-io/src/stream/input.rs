//! What has come to a connection and was not handed out yet, and the two ways to it: under the lock, and
//! without one for the domain that takes line after line.

use super::{End, Stream};
use crate::buffer::Buffer;
use crate::poller::Source;
use crate::slot::Wakes;
use crate::waiting::Waited;
use parking_lot::MutexGuard;
use perilune_stdlib::io::bias::{Bias, Use, User};
use perilune_vm::Vm;
use rustix::fd::OwnedFd;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// What has come.
pub struct Input {
    pub(super) fd: Option<Arc<OwnedFd>>,
    /// Not handed out yet.
    pub buffer: Buffer,
    /// No more will come.
    pub end: Option<End>,
    /// The last read has taken all there was.
    pub(super) drained: bool,
    /// How far the buffer was searched, and for what.
    pub(super) searched: (Vec<u8>, usize),
    /// All who wait, in both directions, are to be woken when the lock is let go of.
    pub(super) announces: bool,
    /// The domain that has the lock may take more without it.
    pub lends: bool,
}

/// The input under its lock. Who lets go of it wakes, after that, those who are to know what has happened to
/// the session.
pub struct InputGuard<'a> {
    // In this order: the lock goes first.
    input: MutexGuard<'a, Input>,
    announcement: Announcement<'a>,
    bias: &'a Bias,
    /// Who has the lock, if it is the domain that runs.
    me: Option<User>,
}

/// The input in the hands of a domain that needs no lock for it.
pub struct BriefInput<'a> {
    input: &'a mut Input,
    #[allow(dead_code, reason = "it is dropped")]
    used: Use<'a>,
}

impl Deref for BriefInput<'_> {
    type Target = Input;
    #[inline]
    fn deref(&self) -> &Input {
        self.input
    }
}

impl DerefMut for BriefInput<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Input {
        self.input
    }
}

/// See [`InputGuard`].
struct Announcement<'a> {
    source: &'a Source,
    is_due: bool,
}

impl Deref for InputGuard<'_> {
    type Target = Input;
    fn deref(&self) -> &Input {
        &self.input
    }
}

impl DerefMut for InputGuard<'_> {
    fn deref_mut(&mut self) -> &mut Input {
        &mut self.input
    }
}

impl Drop for InputGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.announcement.is_due = std::mem::take(&mut self.input.announces);
        if std::mem::take(&mut self.input.lends)
            && let Some(me) = self.me
        {
            self.bias.give(me);
        }
    }
}

impl Drop for Announcement<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_due {
            self.source.read.wake(Wakes::All);
            self.source.write.wake(Wakes::All);
        }
    }
}

impl Input {
    /// Where `wanted` begins in the buffer, if it is there. What was searched already is not searched again.
    #[inline]
    pub fn find(&mut self, wanted: &[u8]) -> Option<usize> {
        let bytes = self.buffer.bytes();
        let goes_on = self.searched.1 > 0 && self.searched.0 == wanted;
        let from = if goes_on { self.searched.1.min(bytes.len()) } else { 0 };
        let found = match wanted {
            [byte] => memchr::memchr(*byte, &bytes[from..]),
            _ => memchr::memmem::find(&bytes[from..], wanted),
        };
        if found.is_none() {
            self.searched.1 = (bytes.len() + 1).saturating_sub(wanted.len());
            if self.searched.0 != wanted {
                self.searched.0 = wanted.to_vec();
            }
        }
        found.map(|at| at + from)
    }

    /// Hands the first `n` bytes out.
    #[inline]
    pub fn consume(&mut self, n: usize) {
        self.buffer.consume(n);
        self.searched.1 = 0;
    }

    /// Whether it is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.fd.is_some()
    }
}

impl Stream {
    /// What has come.
    #[inline]
    pub fn input(&self) -> InputGuard<'_> {
        self.input_for(None)
    }

    /// The same for the domain that runs.
    #[inline]
    pub fn input_of(&self, vm: &Vm) -> InputGuard<'_> {
        self.input_for(Some(User::of(vm)))
    }

    #[inline]
    fn input_for(&self, me: Option<User>) -> InputGuard<'_> {
        let announcement = Announcement { source: self.source(), is_due: false };
        let guard = InputGuard { input: self.input.lock(), announcement, bias: &self.bias, me };
        self.bias.take(me);
        guard
    }

    /// The input without its lock, if the domain that runs was the last one that had it, and lent it to itself
    /// ([`Input::lends`]).
    ///
    /// # Safety
    /// Until it is dropped, nothing waits, no Lua code runs, and the domain asks for this input in no other way.
    #[inline(always)]
    pub unsafe fn input_briefly(&self, vm: &Vm) -> Option<BriefInput<'_>> {
        // SAFETY: who has a reference to the state owns the domain; the rest is the caller's promise.
        let used = unsafe { self.bias.enter(User::of(vm)) }?;
        // SAFETY: whoever locks it takes the bias away before, and waits for the end of this use.
        let input = unsafe { &mut *self.input.data_ptr() };
        Some(BriefInput { input, used })
    }
}
