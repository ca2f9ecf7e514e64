//! What a heap may hold: its own limit, the program's, and what the system gives.
//!
//! Small objects do not ask. They are allocated, and the next safepoint looks at [`Heap::over_limit`]: it
//! collects everything, and the program is told ("not enough memory") if that did not help
//! ([`Heap::refuses`]). What a program's size decides asks first ([`Heap::has_room`], [`Heap::room`]), and is
//! refused without having been allocated.
//!
//! The program's account (`account.rs`) hears of a heap now and then, by portions ([`Heap::report`]). What
//! lives outside the heap counts for the limits, too, if it is charged ([`Heap::charge_external`]).

use super::{Heap, LARGEST_SMALL};
use crate::account::{PORTION, program_limit};
use crate::{OutOfMemory, shortage};
use perilune_trace::emit;
use perilune_trace::event::{self, Bytes};

impl Heap {
    /// Accounts for memory outside the heap that objects own (native stacks, prototypes): it counts for the
    /// trigger, for [`Heap::live_bytes`] and for the limit. Negative when such memory is freed.
    pub fn charge_external(&mut self, bytes: isize) {
        debug_assert!(
            self.external.checked_add_signed(bytes).is_some(),
            "more external memory freed than charged"
        );
        self.external = self.external.saturating_add_signed(bytes);
        if bytes > 0 {
            self.spend(bytes as usize);
        }
    }

    /// As [`Heap::charge_external`], for memory that several heaps may be charged for, and that the program's
    /// account has by itself: arrays, islands.
    pub fn charge_common(&mut self, bytes: isize) {
        self.account.elsewhere = self.account.elsewhere.saturating_add_signed(bytes);
        self.charge_external(bytes);
    }

    /// External memory charged now.
    pub fn external_bytes(&self) -> usize {
        self.external
    }

    /// Whether the heap may hold `more` bytes more, and the program too; of the program small objects do not
    /// ask.
    #[inline]
    pub fn has_room(&self, more: usize) -> bool {
        self.live_bytes().checked_add(more).is_some_and(|total| total <= self.limit)
            && (more <= LARGEST_SMALL || self.account.has_room(more))
    }

    /// The program's limit is not for this heap, or is again: for libraries that are being opened, which has
    /// no one to fail.
    pub fn set_exempt(&mut self, exempt: bool) {
        self.account.exempt = exempt;
    }

    /// Sets the byte limit for [`Heap::live_bytes`]; `None` for no limit.
    pub fn set_limit(&mut self, bytes: Option<usize>) {
        self.limit = bytes.unwrap_or(usize::MAX);
    }

    /// The byte limit.
    pub fn limit(&self) -> Option<usize> {
        (self.limit != usize::MAX).then_some(self.limit)
    }

    /// The bytes that this heap may hold, as far as can be said now: its limit, or what it holds and what is
    /// left for the program.
    pub(crate) fn limit_or_max(&self) -> usize {
        match self.account.room() {
            Some(room) => self.limit.min(self.live_bytes().saturating_add(room)),
            None => self.limit,
        }
    }

    /// The bytes that may be added to this heap, as far as can be said now.
    pub fn room(&self) -> usize {
        self.limit_or_max().saturating_sub(self.live_bytes())
    }

    /// Whether the heap holds more than its limit (small allocations do not ask) or the program more than
    /// its, or the system has refused memory and the heap lives on its reserve of 2 MiB. The interpreter
    /// looks at safepoints: it collects fully and raises an error if that did not help.
    pub fn over_limit(&self) -> bool {
        self.is_over_own_limit() || self.account.room() == Some(0)
    }

    /// As [`Heap::over_limit`], the program's limit left out.
    pub fn is_over_own_limit(&self) -> bool {
        self.live_bytes() > self.limit || self.blocks.refused || shortage::is_short()
    }

    /// Whether the system has refused memory and the heap lives on its reserve.
    #[inline]
    pub fn is_refused(&self) -> bool {
        self.blocks.refused
    }

    /// Whether there is any limit that this heap may meet: its own, or the program's.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.limit != usize::MAX || program_limit().is_some()
    }

    /// Whether the program's memory is short and this heap has grown notably since its last major.
    pub(super) fn is_pressed(&self) -> bool {
        self.account.is_pressed(self.live_bytes())
    }

    /// The domain has given so many bytes away: into messages, maps.
    #[inline]
    pub fn note_given(&mut self, bytes: usize) {
        if program_limit().is_some() {
            self.account.given += bytes;
            self.account.since += bytes;
            if self.account.since >= PORTION {
                self.report();
            }
        }
    }

    /// Tells the program's account what this heap holds now. A collection is due if that is too much.
    #[cold]
    #[inline(never)]
    pub(crate) fn report(&mut self) {
        let elsewhere = self.account.elsewhere;
        self.account.report(self.live_bytes().saturating_sub(elsewhere));
        if self.account.room() == Some(0) || self.is_pressed() {
            self.due |= self.running;
        }
    }

    #[cold]
    pub(crate) fn refuse(&self, bytes: usize) -> OutOfMemory {
        emit(event::MemoryRefused { wanted: Bytes::from(bytes), alive: Bytes::from(self.live_bytes()) });
        OutOfMemory
    }

    /// Memory has been refused: a complete collection is due at the next safepoint, for whoever tries again.
    pub fn want_full(&mut self) {
        self.account.wanted = true;
        self.due |= self.running;
    }

    /// Whether a complete collection is called for though no limit is exceeded: one was wanted, or memory is
    /// short and this heap has grown notably since its last major.
    pub fn takes_full(&mut self) -> bool {
        std::mem::take(&mut self.account.wanted) || self.is_pressed()
    }

    /// Whether the program is to be told that there is no memory, after a complete collection. One that has
    /// been told and has not grown by more than a portion since is not told again: what it has given up may
    /// still be in its registers.
    pub fn refuses(&mut self) -> bool {
        shortage::is_over();
        if !self.over_limit() {
            self.account.refused_at = usize::MAX;
            return false;
        }
        let live = self.live_bytes();
        let known = self.account.refused_at;
        self.account.refused_at = known.min(live);
        known == usize::MAX || live > known.saturating_add(PORTION) || self.blocks.refused
    }
}
