//! The account of the whole program: what all heaps hold, and what lies outside of them; and its limit.
//!
//! A heap has a limit of its own, and knows to the byte what it holds. Of a program with many heaps, islands,
//! shared arrays and messages on their way somebody has to keep the sum. It is kept in a few words that all
//! threads add to, in portions:
//!
//! * A heap reports when it has handed out [`PORTION`] bytes since its last report, and after each
//!   collection.
//! * An island's pages and an array are added when they are taken, and subtracted when they are given back.
//! * Messages are many and small: each thread gathers what they add and free, and passes a portion on
//!   ([`charge_messages`]).
//!
//! So the sum is exact to a portion for each heap and thread, and nobody waits for anybody. It is kept
//! whether there is a limit or not, which cannot be measured.
//!
//! # The limit
//! What can be refused at once is refused at once: an island, an array, a message, an object of more than 8
//! KiB. Small objects cannot be refused. A heap that reports more than there is room for has a collection
//! due, and a complete one if that was not enough; what the program holds then is what it cannot do without,
//! and the domain gets its error. Nothing is ever aborted.
//!
//! **Whom it meets.** If one of many domains fills the memory, another one that asks for a little at that
//! moment is not at fault. So of the last [`RESERVE`]th part of the limit a heap may take the more, the less
//! it holds of the whole, and nothing if it holds such a part itself: those who hold much are refused first.
//! That goes for what is large, too, and there the request counts as held: a table that doubles, granted up
//! to the limit, would have its neighbours refused until its own domain comes to a safepoint. Whose islands,
//! arrays and messages are is not known, since many domains may use the same. So what is large there leaves
//! half of that part alone, and what is small a quarter ([`program_has_room`]): who has filled the memory
//! with arrays can still be sent a message.
//!
//! **Before that.** What other heaps could free is not known to the one that is refused, and it cannot make
//! them collect. So majors come earlier the less room there is (`pace.rs` takes it for a limit of the heap's
//! own), and in the last [`PRESSURE`]th part each heap makes a complete one that has grown notably since its
//! last, or whose domain has given notably much to others: channels and maps that it has dropped are freed by
//! its collections only. After an error, too, a complete one comes next, so that whoever tries again finds
//! what there is.
//!
//! *Rejected.* The sum of mapped chunks: a domain of a few KiB has a chunk of 2 MiB mapped, most of it never
//! touched. To stop all domains and collect everything: no domain ever stops another one. One counter for
//! each message: two threads that send to each other would take turns on its cache line.

use crate::heap::LARGEST_SMALL;
use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering::Relaxed};

/// Bytes that a heap or a thread adds or frees before it says so.
pub const PORTION: usize = 64 << 10;
/// Part of the limit that is kept for heaps that hold little.
const RESERVE: usize = 16;
/// Part of the limit in which heaps collect completely.
const PRESSURE: usize = 8;
/// Part of the limit that is a notable growth of one heap.
const NOTABLE: usize = 64;

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static HEAPS: AtomicUsize = AtomicUsize::new(0);
/// How many heaps there are.
static COUNT: AtomicUsize = AtomicUsize::new(0);
static ARRAYS: AtomicUsize = AtomicUsize::new(0);
/// A thread may have passed on that it has freed what another one has not yet said that it has added.
static MESSAGES: AtomicIsize = AtomicIsize::new(0);

/// What a program holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgramBytes {
    /// Objects in heaps, and external memory that belongs to them; garbage that has not been found counts.
    pub heaps: usize,
    /// Pages of islands.
    pub islands: usize,
    /// Shared arrays.
    pub arrays: usize,
    /// What is on its way between domains, and what shared maps hold.
    pub messages: usize,
}

impl ProgramBytes {
    /// The sum.
    pub fn total(self) -> usize {
        self.heaps + self.islands + self.arrays + self.messages
    }
}

/// What the program holds now.
pub fn program_bytes() -> ProgramBytes {
    ProgramBytes {
        heaps: HEAPS.load(Relaxed),
        islands: crate::island_bytes(),
        arrays: ARRAYS.load(Relaxed),
        messages: MESSAGES.load(Relaxed).max(0) as usize,
    }
}

/// Limits what the program may hold; `None`: no limit. The limit before.
pub fn set_program_limit(bytes: Option<usize>) -> Option<usize> {
    let before = LIMIT.swap(bytes.unwrap_or(usize::MAX), Relaxed);
    (before != usize::MAX).then_some(before)
}

/// Least limit of a program, in bytes: it has libraries, and other domains may come.
pub const LEAST_PROGRAM_LIMIT: usize = 4 << 20;

/// Limits the program as `PERILUNE_MEMORY` says, if it is set and not empty: a number of bytes, or of `K`,
/// `M` or `G` (2^10, 2^20, 2^30 bytes).
///
/// # Errors
/// A text for people, if it is no such number or less than [`LEAST_PROGRAM_LIMIT`].
pub fn limit_program_from_env() -> Result<(), String> {
    let Some(value) = std::env::var_os("PERILUNE_MEMORY").filter(|v| !v.is_empty()) else { return Ok(()) };
    match value.to_str().and_then(parse_bytes) {
        Some(bytes) if bytes >= LEAST_PROGRAM_LIMIT => {
            set_program_limit(Some(bytes));
            Ok(())
        }
        _ => Err("PERILUNE_MEMORY must be a number of bytes, or of K, M or G, of at least 4M".to_owned()),
    }
}

fn parse_bytes(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: usize = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<usize>().ok()?.checked_mul(unit)
}

/// The limit of what the program may hold.
pub fn program_limit() -> Option<usize> {
    let limit = LIMIT.load(Relaxed);
    (limit != usize::MAX).then_some(limit)
}

/// Whether the program may hold `more` bytes more outside of its heaps. Of what is kept for heaps that hold
/// little, half is not for what is large there, a quarter not for what is small.
#[inline]
pub fn program_has_room(more: usize) -> bool {
    let limit = LIMIT.load(Relaxed);
    if limit == usize::MAX {
        return true;
    }
    let kept = limit / RESERVE / if more > LARGEST_SMALL { 2 } else { 4 };
    program_bytes().total().checked_add(more).is_some_and(|total| total <= limit - kept)
}

/// What is left for a heap that holds `own` bytes; `None`: more than anybody needs.
fn room_for(own: usize) -> Option<usize> {
    let limit = LIMIT.load(Relaxed);
    if limit == usize::MAX {
        return None;
    }
    let total = program_bytes().total();
    let share = own as f64 / total.max(own).max(1) as f64;
    let reserve = ((limit / RESERVE) as f64 * (share * RESERVE as f64).min(1.0)) as usize;
    Some((limit - reserve).saturating_sub(total))
}

/// Shared arrays and the like have been made or freed.
pub fn charge_arrays(change: isize) {
    if change >= 0 {
        ARRAYS.fetch_add(change as usize, Relaxed);
    } else {
        ARRAYS.fetch_sub(change.unsigned_abs(), Relaxed);
    }
}

/// What a thread has not passed on.
struct Gathered(Cell<isize>);

impl Drop for Gathered {
    fn drop(&mut self) {
        MESSAGES.fetch_add(self.0.get(), Relaxed);
    }
}

thread_local! {
    static GATHERED: Gathered = const { Gathered(Cell::new(0)) };
}

/// Something between domains has been made or freed.
#[inline]
pub fn charge_messages(change: isize) {
    // At the end of a thread there is nothing to gather in.
    let pass_on = GATHERED.try_with(|g| {
        let sum = g.0.get() + change;
        let enough = sum.unsigned_abs() >= PORTION;
        g.0.set(if enough { 0 } else { sum });
        if enough { sum } else { 0 }
    });
    let pass_on = pass_on.unwrap_or(change);
    if pass_on != 0 {
        MESSAGES.fetch_add(pass_on, Relaxed);
    }
}

/// One heap's part of the account.
pub(crate) struct Reported {
    /// What the sum has of this heap.
    bytes: usize,
    /// Handed out since the last report.
    pub since: usize,
    /// Bytes held when the last major was complete, with what is counted elsewhere.
    pub at_major: usize,
    /// Bytes of messages that its domain has made since.
    pub given: usize,
    /// A complete collection is wanted at the next safepoint.
    pub wanted: bool,
    /// Part of the heap's external memory that is in the sum by itself: islands, arrays.
    pub elsewhere: usize,
    /// Bytes held when a limit was exceeded and the program was told so, or fewer since; the largest number
    /// if it is not exceeded.
    pub refused_at: usize,
    /// The limit is not for this heap.
    pub exempt: bool,
}

impl Default for Reported {
    fn default() -> Reported {
        COUNT.fetch_add(1, Relaxed);
        Reported {
            bytes: 0,
            since: 0,
            at_major: 0,
            given: 0,
            wanted: false,
            elsewhere: 0,
            refused_at: usize::MAX,
            exempt: false,
        }
    }
}

impl Reported {
    /// The heap holds so many bytes, what is counted elsewhere not included.
    pub fn report(&mut self, bytes: usize) {
        self.since = 0;
        if bytes >= self.bytes {
            HEAPS.fetch_add(bytes - self.bytes, Relaxed);
        } else {
            HEAPS.fetch_sub(self.bytes - bytes, Relaxed);
        }
        self.bytes = bytes;
    }

    /// What is left for this heap, as last reported.
    pub fn room(&self) -> Option<usize> {
        if self.exempt { None } else { room_for(self.bytes) }
    }

    /// Whether this heap may hold `more` bytes more: what is left for one that holds them already.
    pub fn has_room(&self, more: usize) -> bool {
        self.exempt || room_for(self.bytes.saturating_add(more)).is_none_or(|room| more <= room)
    }

    /// A major is complete; the heap holds so many bytes, with what is counted elsewhere.
    pub fn major_done(&mut self, held: usize) {
        self.at_major = held;
        self.given = 0;
    }

    /// Whether memory is so short that this heap should collect completely, since it and what its domain has
    /// given away have grown. It holds so many bytes now, with what is counted elsewhere.
    pub fn is_pressed(&self, held: usize) -> bool {
        let Some(room) = self.room() else { return false };
        let limit = LIMIT.load(Relaxed);
        let grown = held.saturating_sub(self.at_major) + self.given;
        room < limit / PRESSURE && grown > (self.at_major / 4).max(limit / NOTABLE)
    }
}

impl Drop for Reported {
    fn drop(&mut self) {
        self.report(0);
        COUNT.fetch_sub(1, Relaxed);
    }
}

/// How many heaps the program has.
pub(crate) fn heap_count() -> usize {
    COUNT.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_gather_is_passed_on_when_they_end() {
        let before = MESSAGES.load(Relaxed);
        let made = std::thread::spawn(|| {
            for _ in 0..1000 {
                charge_messages(1000);
            }
        });
        made.join().unwrap();
        assert_eq!(MESSAGES.load(Relaxed) - before, 1_000_000);
        for _ in 0..10 {
            std::thread::spawn(|| charge_messages(-100_000)).join().unwrap();
        }
        assert_eq!(MESSAGES.load(Relaxed), before);
    }

    #[test]
    fn numbers_of_bytes() {
        let sizes = [("4096", 4096), ("8K", 8192), ("512m", 512 << 20), ("3G", 3 << 30)];
        assert!(sizes.iter().all(|&(text, bytes)| parse_bytes(text) == Some(bytes)));
        assert!(["", "M", "-1", "1.5G", "10MB", "99999999999G"].iter().all(|t| parse_bytes(t).is_none()));
    }

    #[test]
    fn a_heap_that_holds_all_is_refused_before_one_that_holds_little() {
        // No other test sets a limit; heaps of others only make the room smaller for both.
        let mut large = Reported::default();
        large.report(100 << 30);
        set_program_limit(Some(program_bytes().total() + (3 << 30)));
        let small = Reported::default();
        let (little, much) = (small.room().unwrap(), large.room().unwrap());
        assert_eq!(much, 0);
        assert!(little > 2 << 30, "{little}");
        // What is large leaves the same to others, and what is outside of heaps half of it.
        assert!(small.has_room(1 << 20) && !large.has_room(1 << 20) && !small.has_room(3 << 30));
        set_program_limit(Some(program_bytes().total() + (8 << 30)));
        assert!(large.has_room(1 << 30) && !large.has_room(2 << 30));
        assert!(program_has_room(4 << 30) && !program_has_room(6 << 30));
        set_program_limit(None);
        assert_eq!(large.room(), None);
    }
}
