//! Room for machine code, when there is no more: what has not run for longest is retired
//! (`perilune_vm::machine`, `room.rs`).
//!
//! What is retired is free when each domain has let go of it: a moment later, where domains run, and later
//! where one waits. The function for which there was no room stays interpreted until it is found again. As
//! long as there is hope that enough will be free soon ([`SOON`]), nothing more is retired.
//!
//! An eighth of all is retired at a time, so that a program with more hot code than there is room for spends
//! most of its time in what it has, and not on making it anew.

use perilune_trace::clock::monotonic_ns;
use perilune_vm::machine::MachineCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One part of so many is retired at a time.
const PART: usize = 8;
/// Nanoseconds from then on in which nothing more is.
const SOON: u64 = 100_000_000;

/// When code was retired for the last time, and how often.
#[derive(Debug, Default)]
pub struct Room {
    last: AtomicU64,
    times: AtomicU32,
}

impl Room {
    /// There was no room for code of `wanted` bytes, of `capacity` in all: some of `codes` are retired, if
    /// none have been just now.
    pub fn make(&self, wanted: usize, capacity: usize, mut codes: Vec<Arc<MachineCode>>) {
        if self.is_awaited() {
            return;
        }
        self.last.store(monotonic_ns().max(1), Ordering::Relaxed);
        codes.sort_by_key(|code| code.last_seen());
        let enough = wanted.max(capacity / PART);
        let mut retired = 0;
        for code in codes {
            if retired >= enough {
                break;
            }
            code.retire();
            retired += code.size();
        }
        // Who sees it sees what has been retired.
        self.times.fetch_add(1, Ordering::Release);
    }

    /// Whether code has been retired just now, so that there may be room soon.
    pub fn is_awaited(&self) -> bool {
        let last = self.last.load(Ordering::Relaxed);
        last != 0 && monotonic_ns().saturating_sub(last) < SOON
    }

    /// How often code has been retired.
    pub fn retirements(&self) -> u32 {
        self.times.load(Ordering::Acquire)
    }
}

/// A number of KiB, as bytes that code memory can have.
pub fn parse(word: &str) -> Option<usize> {
    let kib: usize = word.parse().ok()?;
    (64..=crate::memory::MAX_CAPACITY >> 10).contains(&kib).then_some((kib << 10) & !0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_a_number_of_kib() {
        assert_eq!(parse("64"), Some(64 << 10));
        assert_eq!(parse("100"), Some(64 << 10), "whole steps of 64");
        assert_eq!(parse("65536"), Some(64 << 20));
        assert_eq!(["", "0", "63", "65537", "-1", "1M"].map(parse), [None; 6]);
    }
}
