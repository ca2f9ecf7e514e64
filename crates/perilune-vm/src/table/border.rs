//! Borders: what the length operator answers (manual 3.4.7).
//!
//! A table without holes has one border, and that of a dense array is `array_len`. With holes there are
//! several, and the manual allows any; but programs have come to rely on the one that the reference
//! implementation finds (`#table.pack(1, nil, 3)` is 3), so the search here visits the same elements in the
//! same order. It depends on the size of the array part, which follows the same rule as there
//! (`table/rehash.rs`), and on a *hint*: the element where the last search ended or that was used last beyond
//! it. An array with holes keeps it in `array_len`.
//!
//! A dense array has no room for a hint, and needs none until it gets holes. It then starts from its end if
//! its border has been asked for since it last had another size, and from the end of the array part if not
//! ([`TABLE_UNMEASURED`]): that is where the hint would be.

use super::{TABLE_HOLES, TABLE_INT_NODES, TABLE_UNMEASURED, edit_raw};
use crate::Vm;
use crate::object::Table;
use crate::value::Gc;

impl Vm {
    /// A border of the table (manual 3.4.7), without metamethods.
    #[inline(always)]
    pub fn raw_len(&self, t: Gc<Table>) -> i64 {
        if t.header.flags & (TABLE_HOLES | TABLE_INT_NODES) != 0 {
            return t.search_border();
        }
        t.note_measured();
        t.array_len as i64
    }
}

impl Table {
    /// The search starts from the end of the array part again, since the table has been resized.
    pub(super) fn forget_hint(&mut self) {
        if self.has_holes() {
            self.array_len = self.array_cap;
        } else {
            self.header.flags |= TABLE_UNMEASURED;
        }
    }

    /// The hint of a dense array that is about to get holes.
    pub(super) fn dense_hint(&self) -> u32 {
        let (len, cap) = (self.array_len, self.array_cap);
        if self.header.flags & TABLE_UNMEASURED != 0 || !cap.is_power_of_two() {
            cap
        } else {
            // A hint is never in the lower half.
            len.max(cap / 2 + 1).min(cap)
        }
    }

    /// Halves the distance between `low`, whose element has a value (or 0), and `high`, whose has none, until
    /// they are neighbours.
    fn halve(&self, mut low: usize, mut high: usize) -> usize {
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.is_hole(middle - 1) {
                high = middle;
            } else {
                low = middle;
            }
        }
        low
    }
}

impl Gc<Table> {
    /// Notes that the border of a dense array has been asked for. That leaves a hint only in the upper half.
    #[inline(always)]
    fn note_measured(self) {
        // Not so in islands, to which nothing is written.
        if self.header.flags & TABLE_UNMEASURED != 0 && self.array_len > self.array_cap / 2 {
            // SAFETY: a table of this domain, and the reference is used up here.
            unsafe { edit_raw(self) }.header.flags &= !TABLE_UNMEASURED;
        }
    }

    #[inline(never)]
    fn search_border(self) -> i64 {
        if !self.has_holes() {
            self.note_measured();
            return self.border_from(self.array_len as usize);
        }
        let border = self.search_holes();
        if !self.is_frozen() && border <= self.array_cap as i64 {
            // SAFETY: a table of this domain, and nothing else refers to it until the end of this block.
            let table = unsafe { edit_raw(self) };
            if table.used() as i64 == border {
                table.fill_up(border as usize);
            }
        }
        border
    }

    fn search_holes(self) -> i64 {
        let (hint, cap) = (self.array_len as usize, self.array_cap as usize);
        let keep = |hint: usize| {
            if !self.is_frozen() {
                // SAFETY: a table of this domain, and the reference is used up here.
                unsafe { edit_raw(self) }.array_len = hint as u32;
            }
        };
        if self.is_hole(hint - 1) {
            if hint >= 2 && !self.is_hole(hint - 2) {
                if cap.is_power_of_two() && !(hint - 1).is_power_of_two() {
                    keep(hint - 1);
                }
                return hint as i64 - 1;
            }
            let border = self.halve(0, hint);
            if cap.is_power_of_two() && border > cap / 2 {
                keep(border);
            }
            return border as i64;
        }
        if hint < cap {
            if self.is_hole(hint) {
                return hint as i64;
            }
            if self.is_hole(cap - 1) {
                let border = self.halve(hint, cap);
                keep(border);
                return border as i64;
            }
        }
        self.border_from(cap)
    }

    /// A border from `end` on, the number of elements of an array without nil at its end.
    fn border_from(self, end: usize) -> i64 {
        let has = |i: u64| !self.node_value(self.find_int(i as i64)).is_nil();
        if end < self.array_cap as usize || self.header.flags & TABLE_INT_NODES == 0 || !has(end as u64 + 1) {
            return end as i64;
        }
        // Doubles the key until one is absent, then halves the distance to the last one that was there.
        let mut low = (end as u64).max(1);
        let mut high = low;
        loop {
            low = low.max(high);
            high = if low <= i64::MAX as u64 / 2 { low * 2 } else { i64::MAX as u64 };
            if !has(high) {
                break;
            }
            if high == i64::MAX as u64 {
                return i64::MAX;
            }
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if has(middle) { low = middle } else { high = middle }
        }
        low as i64
    }
}
