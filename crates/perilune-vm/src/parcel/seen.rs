//! Which objects have a number already: from addresses to numbers.
//!
//! Most parcels hold a handful of objects, which are found faster by looking at all of them. From [`FEW`] on
//! an open-addressing table takes over, which is kept from parcel to parcel: entries carry the number of the
//! parcel they are from, so it needs no clearing.

/// Objects that are looked through one by one.
const FEW: usize = 8;
/// Largest table that is kept for the next parcel, in entries.
const KEPT: usize = 1 << 12;

#[derive(Clone, Copy, Default)]
struct Entry {
    address: u64,
    number: u32,
    round: u32,
}

/// Objects by address, and the queue of those whose contents are still to be written: see [`super::graph`].
#[derive(Default)]
pub(crate) struct Seen {
    /// Address and tag, by number.
    pub objects: Vec<(u64, u8)>,
    table: Vec<Entry>,
    round: u32,
    in_table: bool,
}

impl Seen {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.objects.clear();
        if self.objects.capacity() > KEPT {
            self.objects = Vec::new();
        }
        if self.table.len() > KEPT {
            self.table = Vec::new();
        }
        self.in_table = false;
    }

    /// The number of the object at `address`.
    #[inline]
    pub fn number(&self, address: u64) -> Option<u32> {
        if !self.in_table {
            return self.objects.iter().position(|o| o.0 == address).map(|n| n as u32);
        }
        let mask = self.table.len() - 1;
        let mut at = Self::hash(address) & mask;
        loop {
            let e = &self.table[at];
            if e.round != self.round {
                return None;
            }
            if e.address == address {
                return Some(e.number);
            }
            at = (at + 1) & mask;
        }
    }

    /// Gives the object at `address`, which has none yet, the next number.
    #[inline]
    pub fn add(&mut self, address: u64, tag: u8) {
        let number = self.objects.len() as u32;
        self.objects.push((address, tag));
        if self.in_table {
            if (number as usize + 1) * 2 > self.table.len() {
                self.fill_table(self.table.len() * 2);
            } else {
                self.place(address, number);
            }
        } else if number as usize + 1 == FEW {
            self.fill_table(self.table.len().max(64));
        }
    }

    #[cold]
    fn fill_table(&mut self, size: usize) {
        if size != self.table.len() || self.round == u32::MAX {
            self.table.clear();
            self.table.resize(size, Entry::default());
            self.round = 0;
        }
        self.round += 1;
        self.in_table = true;
        for n in 0..self.objects.len() {
            self.place(self.objects[n].0, n as u32);
        }
    }

    #[inline]
    fn place(&mut self, address: u64, number: u32) {
        let mask = self.table.len() - 1;
        let mut at = Self::hash(address) & mask;
        while self.table[at].round == self.round {
            at = (at + 1) & mask;
        }
        self.table[at] = Entry { address, number, round: self.round };
    }

    #[inline(always)]
    fn hash(address: u64) -> usize {
        (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let mut seen = Seen::default();
        for count in [3, 8, 100, 5, 40_000, 70] {
            seen.clear();
            for n in 0..count {
                let address = (n + count) * 16;
                assert_eq!(seen.number(address), None);
                seen.add(address, 9);
                assert_eq!(seen.number(address), Some(n as u32));
            }
            for n in 0..count {
                assert_eq!(seen.number((n + count) * 16), Some(n as u32));
                assert_eq!(seen.number(n * 16 + 8), None);
            }
        }
    }
}
