//! Promotion en masse: a minor collection that traces nothing.
//!
//! A program that keeps what it allocates for longer than a nursery lasts (a cache, a ring of records, an
//! index that is built) gains nothing from minor collections: each traces all that was allocated, finds it
//! alive, and a major traces it again. While nearly everything survives, most minor collections therefore
//! make all young objects old without looking at them: their start bits become their marks. The garbage
//! among them stays until the next major, as does all that dies old.
//!
//! **Why this is right.** What is marked then is a superset of what tracing would have marked, and no
//! young object is left, so no old one can refer to one, logged or not. An object that was dead refers to
//! what was alive when it was stored, and minor collections free nothing old, so all that it refers to is
//! there until a major finds both dead. Weak references to it stay too, as they do to all that has died
//! old. For a major in progress the promoted are old and white, like survivors, and the log is handed on
//! to it.
//!
//! **When.** [`crate::pace::Tenuring`].

use crate::heap::Heap;
use crate::layout::*;

impl Heap {
    /// Whether the minor collection that is due is to trace nothing.
    pub(crate) fn promotes_all(&mut self) -> bool {
        if self.stress {
            return self.stats.minors % STRESS_PROMOTES == STRESS_PROMOTES - 1;
        }
        // Who has no memory left wants back what there is.
        !self.over_limit() && self.pace.tenuring.promotes(self.live_bytes())
    }

    /// Marks all young objects in the current bitmap, with the lines that they cover.
    pub(crate) fn mark_young(&mut self) {
        for &block in &self.blocks.touched {
            mark_block(block, self.side);
        }
        for &obj in &self.large.young {
            // SAFETY: a listed object's chunk is mapped, and this thread's.
            unsafe { set_bit(obj.as_ptr() as usize, self.side.offset()) };
        }
    }
}

/// In stress mode one minor collection in so many promotes all.
const STRESS_PROMOTES: u64 = 4;

/// Marks all objects of a block that has no start bits of the dead.
fn mark_block(block: BlockRef, side: Side) {
    debug_assert!(block.chunk().head().unswept.get() & block.bit() == 0);
    // SAFETY: the tables of a mapped chunk are mapped, distinct, and only this thread uses them.
    let (starts, marks, lines) =
        unsafe { (&*block.words(STARTS), &mut *block.words(side.offset()), &mut *block.lines()) };
    for (word, (&starts, marks)) in starts.iter().zip(marks).enumerate() {
        let mut new = starts & !*marks;
        *marks |= new;
        while new != 0 {
            // Only the last object that begins in a line reaches into another.
            let bit = 63 - new.leading_zeros() as usize;
            let granule = word * 64 + bit;
            // SAFETY: an object that begins here has an intact header.
            let granules = unsafe { (*obj_at(block.at() + granule * GRANULE).as_ptr()).granules as usize };
            let per_line = LINE / GRANULE;
            let (first, last) = (granule / per_line, (granule + granules - 1) / per_line);
            for line in &mut lines[first + 1..=last] {
                *line |= side.line_bit();
            }
            new &= (1 << (bit / per_line * per_line)) - 1;
        }
    }
}
