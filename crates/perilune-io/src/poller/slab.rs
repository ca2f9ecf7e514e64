//! The descriptors that the poller knows, by keys that mean one descriptor each.
//!
//! A key is a place in the table and how often that has been used: what the kernel has fetched of a
//! descriptor before it was closed, and is looked at after another one has taken its number or its place,
//! means nothing.
//!
//! The number is kept for when the kernel has to be told of a descriptor again. It is that descriptor's for
//! as long as the entry is here: who closes a descriptor ends its entry first
//! ([`Registration::end`](super::Registration::end)).

use super::Source;
use std::os::fd::RawFd;
use std::sync::Arc;

/// Bits of a key that say how often its place has been used. The highest one of a key is the ring's own
/// (`ring.rs`).
const USES: u32 = u32::MAX >> 1;

/// What is known of a descriptor.
pub struct Entry {
    /// Whom it concerns.
    pub source: Arc<Source>,
    /// Its number.
    pub fd: RawFd,
}

/// See the module's essay.
#[derive(Default)]
pub struct Slab {
    places: Vec<(u32, Option<Entry>)>,
    free: Vec<u32>,
}

impl Slab {
    /// A key for a descriptor.
    pub fn add(&mut self, source: Arc<Source>, fd: RawFd) -> u64 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push((0, None));
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[at as usize];
        place.1 = Some(Entry { source, fd });
        u64::from(place.0) << 32 | u64::from(at)
    }

    /// What a key means, if it means something still.
    pub fn find(&self, key: u64) -> Option<&Entry> {
        let (uses, entry) = self.places.get(key as u32 as usize)?;
        entry.as_ref().filter(|_| *uses == (key >> 32) as u32)
    }

    /// The key means nothing any more. What it has meant, if it did: to be dropped when nobody holds the
    /// lock.
    pub fn remove(&mut self, key: u64) -> Option<Entry> {
        self.find(key)?;
        let at = key as u32;
        let place = &mut self.places[at as usize];
        place.0 = (place.0 + 1) & USES;
        self.free.push(at);
        place.1.take()
    }

    /// All that there are, with their keys.
    pub fn all(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.places
            .iter()
            .enumerate()
            .filter_map(|(at, (uses, entry))| Some((u64::from(*uses) << 32 | at as u64, entry.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_means_one_descriptor_also_when_its_place_is_used_again() {
        let mut slab = Slab::default();
        let is = |slab: &Slab, key, source: &Arc<Source>| {
            slab.find(key).is_some_and(|entry| Arc::ptr_eq(&entry.source, source))
        };
        let (first, second) = (Source::new(), Source::new());
        let key = slab.add(Arc::clone(&first), 3);
        assert!(is(&slab, key, &first));
        assert!(slab.remove(key).is_some());
        let other = slab.add(Arc::clone(&second), 3);
        assert_eq!(key as u32, other as u32, "the place is used again");
        assert!(slab.find(key).is_none() && slab.remove(key).is_none());
        assert!(is(&slab, other, &second));
        assert!(slab.find(u64::from(u32::MAX)).is_none());
        assert_eq!(slab.all().map(|(key, entry)| (key, entry.fd)).collect::<Vec<_>>(), [(other, 3)]);
    }

    #[test]
    fn the_highest_bit_of_a_key_is_never_used() {
        let mut slab = Slab::default();
        let key = slab.add(Source::new(), 3);
        slab.places[0].0 = USES;
        let last = u64::from(USES) << 32 | key;
        assert!(slab.find(last).is_some() && slab.remove(last).is_some());
        assert_eq!(slab.add(Source::new(), 3), key, "it begins again");
    }
}
