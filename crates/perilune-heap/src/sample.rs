//! Samples of allocation: every so many bytes on average one object is picked, and what becomes of it is
//! followed.
//!
//! # Which ones
//! The distances between sample points are random, so that no program's rhythm fools them: geometrically
//! distributed in units of 16 bytes, which is what an exponential distribution is in such steps. An object
//! that has a sample point in it is a sample. It stands for its size divided by the probability that an
//! object of this size is one; so the sum is right on average for small objects and large ones.
//!
//! # Without a price for the others
//! The quick way of allocation knows nothing of this: the end of the span it fills is put forward to the next
//! sample point ([`Heap::put_end_forward`]), so that the object that does not fit takes the slow way, where
//! the real end is put back first. Everything that looks at the end of the span puts it back.
//!
//! # Whose call path
//! The heap does not know. It tells its client that there is a sample ([`Notify`]), which says later from
//! where ([`Heap::name_sample`]), in the same order. The object may be dead by then.
//!
//! # What becomes of them
//! Samples are kept in a list that keeps nothing alive. Before memory is freed the list is looked through:
//! after the marking of a minor collection, at the end of a major, of a scope, and when a buffer is freed at
//! once.

use crate::Obj;
use crate::heap::Heap;
use crate::layout::*;
use perilune_trace::emit;
use perilune_trace::event::{self, Bytes, Fate, HeapKind, Stack};

/// Called when an object has been sampled, with what was given along. It must not allocate from the heap.
pub type Notify = (fn(*mut ()), *mut ());

/// `stack` of a sample that nobody has named.
const UNNAMED: u32 = u32::MAX;
/// Samples that are followed at a time.
const MOST: usize = 1 << 16;

struct Entry {
    obj: Obj,
    /// Bytes that it stands for.
    weight: u64,
    stack: u32,
    kind: u8,
    old: bool,
    /// It had died before it was named.
    dead: bool,
}

/// The sampler of a heap.
#[derive(Default)]
pub(crate) struct Sampling {
    /// Mean distance of sample points in bytes; 0: off.
    interval: u64,
    /// Bytes to the next one from `from` on.
    left: i64,
    /// The span's cursor when its end was put forward.
    from: usize,
    /// The span's real end, while it is.
    end: usize,
    is_forward: bool,
    random: u64,
    notify: Option<SendNotify>,
    entries: Vec<Entry>,
}

struct SendNotify(Notify);

// SAFETY: the pointer is the client's, which goes with the heap.
unsafe impl Send for SendNotify {}

impl Sampling {
    /// Bytes to the next sample point.
    fn draw(&mut self) -> i64 {
        // xorshift64*
        let mut x = self.random;
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.random = x;
        let bits = x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        let u = (bits as f64 + 1.0) / (1u64 << 53) as f64;
        let granules = (u.ln() / (1.0 - self.per_granule()).ln()).floor();
        granules.min(1e12) as i64 * GRANULE as i64
    }

    /// The probability that a granule holds a sample point.
    fn per_granule(&self) -> f64 {
        (GRANULE as f64 / self.interval as f64).min(0.999_999)
    }

    /// The bytes that a sampled object of this size stands for.
    fn weight(&self, size: usize) -> u64 {
        let probability = -((size / GRANULE) as f64 * (-self.per_granule()).ln_1p()).exp_m1();
        (size as f64 / probability).round() as u64
    }
}

impl Heap {
    /// Samples an object every `interval` bytes on average from now on; 0: none. `seed` begins the random
    /// numbers.
    pub fn set_sampling(&mut self, interval: u64, seed: u64, notify: Option<Notify>) {
        self.put_end_back();
        let s = &mut self.sampling;
        s.interval = if notify.is_some() { interval } else { 0 };
        s.notify = notify.map(SendNotify);
        s.random = seed | 1;
        s.entries.clear();
        if s.interval != 0 {
            s.left = s.draw();
        }
        self.put_end_forward();
    }

    #[inline(always)]
    pub(crate) fn is_sampling(&self) -> bool {
        self.sampling.interval != 0
    }

    /// The span ends where it really does.
    #[inline]
    pub(crate) fn put_end_back(&mut self) {
        if self.sampling.is_forward {
            let filled = self.cursor() - self.sampling.from;
            self.sampling.left -= filled as i64;
            self.sampling.is_forward = false;
            let end = self.sampling.end;
            self.set_end(end);
        }
    }

    /// The span ends at the next sample point, if that is in it.
    #[inline]
    pub(crate) fn put_end_forward(&mut self) {
        if self.is_sampling() {
            let (cursor, end) = (self.cursor(), self.end());
            let s = &mut self.sampling;
            s.from = cursor;
            s.end = end;
            s.is_forward = true;
            let room = (end - cursor).min(s.left.max(0) as usize);
            self.set_end(cursor + room);
        }
    }

    /// `size` bytes, of `obj` or added to it, have been allocated by another way than the cursor, or by it
    /// with the end put back. A sample?
    pub(crate) fn count_for_samples(&mut self, obj: Obj, size: usize) {
        self.put_end_back();
        self.sampling.left -= size as i64;
        if self.sampling.left < 0 {
            self.take_sample(obj, size);
        }
        self.put_end_forward();
    }

    #[cold]
    fn take_sample(&mut self, obj: Obj, size: usize) {
        let s = &mut self.sampling;
        s.left = s.draw();
        let Some(SendNotify((notify, argument))) = s.notify else { return };
        if s.entries.len() >= MOST {
            return;
        }
        let weight = s.weight(size);
        // SAFETY: an object whose header has been written.
        let (kind, old) = unsafe { ((*obj.as_ptr()).kind, !self.is_young(obj)) };
        self.sampling.entries.push(Entry { obj, weight, stack: UNNAMED, kind, old, dead: false });
        notify(argument);
    }

    /// The first sample that has no call path yet was allocated from this one.
    pub fn name_sample(&mut self, stack: u32) {
        let entries = &mut self.sampling.entries;
        let Some(at) = entries.iter().position(|e| e.stack == UNNAMED) else { return };
        let e = &mut entries[at];
        e.stack = stack;
        let kind = HeapKind(e.kind as u16);
        emit(event::AllocSample { stack: Stack(stack), weight: Bytes(e.weight), kind });
        if e.dead {
            e.tell(Fate::DiedYoung);
            entries.remove(at);
        }
    }

    /// Tells of the samples that `is_dead` says died, and forgets them; for the others: whether they are old
    /// now.
    pub(crate) fn settle_samples(&mut self, is_dead: impl Fn(&Heap, Obj, bool) -> bool, aged: bool) {
        if self.sampling.entries.is_empty() {
            return;
        }
        let mut entries = core::mem::take(&mut self.sampling.entries);
        entries.retain_mut(|e| {
            if e.dead {
                return true;
            }
            if is_dead(self, e.obj, e.old) {
                if e.stack == UNNAMED {
                    e.dead = true;
                    return true;
                }
                e.tell(if e.old { Fate::DiedOld } else { Fate::DiedYoung });
                return false;
            }
            if aged && !e.old && e.stack != UNNAMED {
                e.old = true;
                e.tell(Fate::Survived);
            }
            true
        });
        self.sampling.entries = entries;
    }

    /// A minor collection has marked: what it has not reached is about to go.
    pub(crate) fn settle_young_samples(&mut self) {
        let side = self.side.offset();
        // SAFETY: nothing has been freed since the object was allocated that this list has not heard of.
        self.settle_samples(|_, obj, old| !old && !unsafe { get_bit(obj.as_ptr() as usize, side) }, true);
    }

    /// A major collection has marked, and its bitmap is the current one.
    pub(crate) fn settle_old_samples(&mut self) {
        let side = self.side.offset();
        // SAFETY: as above.
        self.settle_samples(|_, obj, _| !unsafe { get_bit(obj.as_ptr() as usize, side) }, true);
    }

    /// The marking at the end of the scope of this depth is done.
    pub(crate) fn settle_scope_samples(&mut self, depth: u8) {
        let side = self.side.offset();
        self.settle_samples(
            |heap, obj, old| {
                // SAFETY: as above.
                !old && !heap.is_outside(obj, depth) && !unsafe { get_bit(obj.as_ptr() as usize, side) }
            },
            false,
        );
    }

    /// A buffer has another address now, or none.
    pub(crate) fn move_sample(&mut self, from: Obj, to: Option<Obj>) {
        match to {
            Some(to) if to != from => {
                for e in self.sampling.entries.iter_mut().filter(|e| e.obj == from) {
                    e.obj = to;
                }
            }
            Some(_) => {}
            None => self.settle_samples(|_, obj, _| obj == from, false),
        }
    }
}

impl Entry {
    fn tell(&self, fate: Fate) {
        emit(event::AllocFate { stack: Stack(self.stack), weight: Bytes(self.weight), fate });
    }
}
