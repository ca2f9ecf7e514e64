//! A mapped event file: made, opened, checked, and its parts found.
//!
//! # What is believed
//! Sizes and places are read from the header once, checked, and kept in the [`Mapping`]: who changes the
//! header later makes wrong events, but nobody reads or writes beyond the file. Files belong to the user
//! alone (mode 0600).
//!
//! Whoever maps a file that another process may shorten, or that has no room left where it lies, risks
//! SIGBUS. A traced program survives that (`fault.rs`); a tool does not.

use crate::clock;
use crate::layout::*;
use crate::sys;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering;

/// A mapped event file. It stays mapped until it is dropped; the one that the process writes to never is.
pub struct Mapping {
    base: *mut u8,
    bytes: usize,
    /// As the header said when it was checked; no rings and no definitions if it made no sense.
    parts: Geometry,
}

/// Of a file that is none.
const NOTHING: Geometry = Geometry { rings: 0, ring_events: 0, definitions: 0 };

// SAFETY: what is shared through it is atomics, and definitions below `definitions_used`, which nobody
// changes.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us; nobody holds references beyond the life of `self`.
        unsafe { sys::unmap(self.base, self.bytes) };
    }
}

fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// The file is sparse, but a program that wrote where no memory is left would die of SIGBUS: a file that
/// could fill more than most of what is free is made smaller, the number of rings first. (Containers have 64
/// MB of shared memory.)
fn fitting(mut g: Geometry, free: u64) -> Geometry {
    let room = free - free / 5;
    while g.file_bytes() > room {
        match () {
            _ if g.definitions > room / 4 && g.definitions > 1 << 16 => g.definitions /= 2,
            _ if g.rings > 64 => g.rings /= 2,
            _ if g.ring_events > 1 << 14 => g.ring_events /= 2,
            _ if g.rings > 8 => g.rings /= 2,
            _ if g.ring_events > 256 => g.ring_events /= 2,
            _ => break,
        }
        g = g.normal();
    }
    g
}

impl Mapping {
    /// Makes the file, with nothing in it yet, for a program that is to find it ([`State::Offered`]).
    ///
    /// The parts become smaller than `geometry` says where there is little room.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub fn create(path: &Path, geometry: &Geometry) -> io::Result<Mapping> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let g = fitting(geometry.normal(), sys::free_bytes(&file));
        file.set_len(g.file_bytes())?;
        // Without room for the header there is nothing to be said to anybody.
        if let Err(refused) = sys::allocate(&file, PAGE) {
            let _ = std::fs::remove_file(path);
            return Err(refused);
        }
        let mut map = Mapping::map(&file, g.file_bytes() as usize)?;
        // SAFETY: the file is new, at least a page, and nobody else uses it yet.
        unsafe {
            let h = map.base.cast::<FileHeader>();
            (*h).magic = MAGIC;
            (*h).version = VERSION;
            (*h).rings = g.rings;
            (*h).ring_events = g.ring_events;
            (*h).definitions_at = PAGE as u64;
            (*h).definitions_bytes = g.definitions;
            (*h).rings_at = PAGE as u64 + g.definitions;
            (*h).ring_stride = g.ring_stride();
        }
        map.header().state.store(State::Offered as u32, Ordering::Release);
        map.parts = g;
        Ok(map)
    }

    /// Opens one that exists.
    ///
    /// # Errors
    /// It cannot be opened or is none.
    pub fn open(path: &Path) -> io::Result<Mapping> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(sys::NO_LINK).open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() || meta.len() < PAGE as u64 {
            return Err(invalid("not an event file"));
        }
        if meta.uid() != sys::user_id() || meta.mode() & 0o077 != 0 {
            return Err(invalid("an event file must belong to this user alone (mode 0600)"));
        }
        let map = Mapping::map(&file, meta.len() as usize)?;
        map.check()?;
        Ok(map)
    }

    fn map(file: &File, bytes: usize) -> io::Result<Mapping> {
        // SAFETY: a fresh mapping of an open file.
        let base = unsafe { sys::map_shared(file.as_raw_fd(), bytes) };
        if base.is_null() {
            Err(io::Error::last_os_error())
        } else {
            // SAFETY: mapped above, at least a page.
            Ok(unsafe { Mapping::from_raw(base, bytes) })
        }
    }

    /// A mapping that exists already.
    ///
    /// # Safety
    /// `base` is a mapping of `bytes` bytes, at least a page, which nobody else unmaps.
    pub(crate) unsafe fn from_raw(base: *mut u8, bytes: usize) -> Mapping {
        let mut map = Mapping { base, bytes, parts: NOTHING };
        map.parts = map.stated().unwrap_or(NOTHING);
        map
    }

    /// Where it is mapped, and how long it is.
    pub(crate) fn raw(&self) -> (*mut u8, usize) {
        (self.base, self.bytes)
    }

    /// Were the header's numbers consistent with each other and the file's length?
    pub(crate) fn is_valid(&self) -> bool {
        self.parts.rings != 0
    }

    /// The sizes of the file's parts; zeros if it is none.
    pub fn parts(&self) -> &Geometry {
        &self.parts
    }

    /// What the header says, if its numbers are consistent with each other and the file's length. Uses no
    /// memory and no locks, so that a signal handler can call it.
    fn stated(&self) -> Option<Geometry> {
        // SAFETY: at least a page is mapped. Each field is read once: what is checked is what is used.
        let h = unsafe { self.base.cast::<FileHeader>().read_volatile() };
        let g = Geometry { rings: h.rings, ring_events: h.ring_events, definitions: h.definitions_bytes };
        let n = g.normal();
        let fits = h.magic == MAGIC
            && h.version == VERSION
            && (n.rings, n.ring_events, n.definitions) == (g.rings, g.ring_events, g.definitions)
            && h.definitions_at == PAGE as u64
            && h.rings_at == PAGE as u64 + g.definitions
            && h.ring_stride == g.ring_stride()
            && g.file_bytes() <= self.bytes as u64;
        fits.then_some(g)
    }

    fn check(&self) -> io::Result<()> {
        let h = self.header();
        if h.magic == MAGIC && h.version != VERSION {
            return Err(invalid(format!(
                "an event file of version {}; this tool reads version {VERSION}",
                h.version
            )));
        }
        if self.is_valid() { Ok(()) } else { Err(invalid("not an event file, or a damaged one")) }
    }

    /// The first page.
    pub fn header(&self) -> &FileHeader {
        // SAFETY: at least a page is mapped; the fields that change are atomic.
        unsafe { &*self.base.cast() }
    }

    /// The header of ring `n`.
    pub fn ring(&self, n: u32) -> &RingHeader {
        let g = &self.parts;
        assert!(n < g.rings);
        let at = PAGE as u64 + g.definitions + n as u64 * g.ring_stride();
        // SAFETY: within the file (`stated`).
        unsafe { &*self.base.add(at as usize).cast() }
    }

    /// The slots of ring `n`.
    pub fn slots(&self, n: u32) -> &[Slot] {
        let ring: *const RingHeader = self.ring(n);
        // SAFETY: as many slots follow the page of the header (`stated`).
        unsafe {
            std::slice::from_raw_parts(ring.cast::<u8>().add(PAGE).cast(), self.parts.ring_events as usize)
        }
    }

    /// The definitions that are complete.
    pub fn definitions(&self) -> &[u8] {
        let h = self.header();
        let used = h.definitions_used.load(Ordering::Acquire).min(self.parts.definitions);
        // SAFETY: within the file; what lies below `used` is not written any more.
        unsafe { std::slice::from_raw_parts(self.base.add(PAGE), used as usize) }
    }

    /// Appends a definition, if there is room. One at a time: the caller holds the lock of the names.
    pub(crate) fn define(&self, kind: DefinitionKind, bytes: &[u8]) {
        let h = self.header();
        let used = h.definitions_used.load(Ordering::Relaxed);
        let need = (size_of::<DefinitionHeader>() + bytes.len()).next_multiple_of(8) as u64;
        if !used.is_multiple_of(8) || used.saturating_add(need) > self.parts.definitions {
            h.definitions_lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        // SAFETY: within the room for definitions, above what readers look at.
        unsafe {
            let at = self.base.add(PAGE + used as usize);
            at.cast::<DefinitionHeader>().write(DefinitionHeader {
                bytes: bytes.len() as u32,
                kind: kind as u16,
                pad: 0,
            });
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at.add(size_of::<DefinitionHeader>()), bytes.len());
        }
        h.definitions_used.store(used + need, Ordering::Release);
    }

    /// Writes who this is and what time it is. Async-signal-safe.
    pub(crate) fn begin(&self) {
        let h = self.header();
        h.clock.store(clock::clock() as u32, Ordering::Relaxed);
        let (ticks, ns) = clock::pair();
        h.start_ticks.store(ticks, Ordering::Relaxed);
        h.start_mono_ns.store(ns, Ordering::Relaxed);
        h.start_real_ns.store(clock::realtime_ns(), Ordering::Relaxed);
        // The rate is known to a per mille from the beginning, for a program that dies before anybody
        // measures it better.
        while clock::monotonic_ns().wrapping_sub(ns) < 50_000 {
            std::hint::spin_loop();
        }
        self.calibrate();
        h.pid.store(std::process::id(), Ordering::Relaxed);
        h.state.store(State::Live as u32, Ordering::Release);
    }

    /// Renews the second pair of the clock, unless another thread does just that.
    pub fn calibrate(&self) {
        let h = self.header();
        if h.clock.load(Ordering::Relaxed) != clock::clock() as u32 {
            return;
        }
        let seq = h.calibration.load(Ordering::Relaxed);
        if seq & 1 != 0
            || h.calibration.compare_exchange(seq, seq + 1, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            return;
        }
        let (ticks, ns) = clock::pair();
        h.later_ticks.store(ticks, Ordering::Relaxed);
        h.later_mono_ns.store(ns, Ordering::Relaxed);
        h.calibration.store(seq.wrapping_add(2), Ordering::Release);
    }

    /// How ticks become nanoseconds.
    pub fn scale(&self) -> clock::Scale {
        let h = self.header();
        let first = (h.start_ticks.load(Ordering::Relaxed), h.start_mono_ns.load(Ordering::Relaxed));
        if h.clock.load(Ordering::Relaxed) == clock::Clock::Nanoseconds as u32 {
            return clock::Scale { first, ratio: 1.0 };
        }
        // Who was killed just as it wrote the pair left an odd number for ever.
        for left in (0..100_000).rev() {
            let seq = h.calibration.load(Ordering::Acquire);
            let last = (h.later_ticks.load(Ordering::Relaxed), h.later_mono_ns.load(Ordering::Relaxed));
            std::sync::atomic::fence(Ordering::Acquire);
            if h.calibration.load(Ordering::Relaxed) == seq && seq & 1 == 0 || left == 0 {
                return clock::Scale::new(first, last);
            }
            std::hint::spin_loop();
        }
        clock::Scale { first, ratio: 1.0 }
    }

    /// Gives the memory of everything but the header back; what is written later takes memory again. For a
    /// session that is over.
    pub fn discard(&self) {
        // SAFETY: whole pages of our own mapping; readers and writers find zeros.
        unsafe { sys::discard(self.base.add(PAGE), self.bytes - PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_fit_into_what_is_free() {
        let whole = Geometry { rings: 1024, ring_events: 1 << 18, definitions: 64 << 20 };
        assert_eq!(fitting(whole.clone(), u64::MAX).file_bytes(), whole.file_bytes());
        for free in [24 << 30, 1 << 30, 64 << 20, 8 << 20, 1 << 20] {
            let g = fitting(whole.clone(), free);
            assert!(g.file_bytes() <= free, "{g:?} in {free}");
            assert!(g.file_bytes() >= free / 4 || g.file_bytes() == whole.file_bytes(), "{g:?} in {free}");
            let n = g.normal();
            assert_eq!((n.rings, n.ring_events, n.definitions), (g.rings, g.ring_events, g.definitions));
        }
    }
}
