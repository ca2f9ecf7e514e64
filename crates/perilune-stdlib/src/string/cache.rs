//! The patterns used last, compiled.
//!
//! Programs use few patterns many times, so compiling is paid once: a small table per operating system thread,
//! indexed by a cheap hash of the pattern's text, with four places for each index, and compared byte by byte. It
//! holds no heap objects, so it needs no care from the collector, and nothing depends on it: a miss compiles
//! again. Long patterns are not kept, so the table stays small. (With one place for each index two patterns
//! that a loop uses in turn compiled each other anew where they had the same one: 5% of `luacheck`'s time. A
//! converter of Markdown makes its patterns of what it looks for, and uses 256 in turn: with 64 times two places
//! it spent a quarter of its time on compiling them.)
//!
//! An entry is *taken* while it is in use and put back after. So nothing is shared: a callback of `gsub` that
//! uses the same pattern compiles its own, and a call that never comes back (an error, a coroutine that is
//! dropped) just loses its entry. Who calls nobody meanwhile, as quick forms do, uses the one that was used
//! last in its place ([`with`]).

use super::matcher::{MAX_LENGTH as MAX_SUBJECT, Matcher, Slots};
use super::pattern::{MAX_CAPTURES, Pattern};
use perilune_vm::{InterruptHandle, Vm};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering};

const ENTRIES: usize = 128;
/// As many patterns have the same index. The one that was used last is the first.
const WAYS: usize = 4;
/// Longer patterns are compiled at every use.
const MAX_LENGTH: usize = 256;

/// A compiled pattern, with room for its captures.
pub struct Entry {
    key: Key,
    /// What the key does not say: empty if that is all.
    rest: Box<[u8]>,
    index: u8,
    /// Says which text and `anchor` it was compiled from, and its index: process-wide unique. -1: not kept.
    ticket: i64,
    pattern: Pattern,
    slots: Slots,
    /// What ended the last search early, or could have.
    interrupt: InterruptHandle,
}

impl Entry {
    /// What [`with_again`] finds it by; -1 if it will not be kept.
    pub fn ticket(&self) -> i64 {
        self.ticket
    }

    /// Whether it is that of a text with this key.
    #[inline]
    fn is_of(&self, key: Key, text: &[u8]) -> bool {
        // (To compare nothing with nothing takes the C library 60 ns where there is no memory at that address.)
        self.key == key && (self.rest.is_empty() || *self.rest == *text)
    }

    /// The pattern at work on `subject`; an interrupt of `vm` ends it.
    #[inline]
    pub fn matcher<'a>(&'a mut self, vm: &Vm, subject: &'a [u8]) -> Matcher<'a> {
        debug_assert!(subject.len() <= MAX_SUBJECT);
        if !self.interrupt.is_of(vm) {
            self.interrupt = vm.interrupt_handle();
        }
        Matcher::new(&self.pattern, subject, &mut self.slots, Some(&self.interrupt))
    }
}

/// Tickets count in steps of `ENTRIES`, so that the index fits below.
static NEXT: AtomicI64 = AtomicI64::new(0);

thread_local! {
    static CACHE: [[Cell<Option<Box<Entry>>>; WAYS]; ENTRIES] =
        const { [const { [const { Cell::new(None) }; WAYS] }; ENTRIES] };
}

/// What tells patterns apart: the first and the last bytes, how many there are, and whether `^` anchors. Of no
/// more than [`WHOLE`] that is all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    head: u64,
    tail: u64,
    /// Twice the length, and 1 if `^` anchors.
    form: u64,
}

/// See [`Key`].
const WHOLE: usize = 16;

impl Key {
    #[inline]
    fn of(text: &[u8], anchor: bool) -> Key {
        let word = |bytes: &[u8]| bytes.iter().fold(0u64, |h, &b| h << 8 | u64::from(b));
        let (head, tail) = match (text.first_chunk::<8>(), text.last_chunk::<8>()) {
            (Some(head), Some(tail)) => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
            _ => match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
                (Some(head), Some(tail)) => {
                    (u32::from_le_bytes(*head).into(), u32::from_le_bytes(*tail).into())
                }
                _ => (word(text), 0),
            },
        };
        Key { head, tail, form: (text.len() as u64) << 1 | u64::from(anchor) }
    }

    #[inline]
    fn index(self) -> u8 {
        let mix =
            (self.head ^ self.tail.rotate_left(29) ^ self.form << 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mix >> (64 - ENTRIES.trailing_zeros())) as u8
    }
}

/// Takes the compiled form of `text`; `anchor` as in [`Pattern::new`].
#[inline]
pub fn take(vm: &Vm, text: &[u8], anchor: bool) -> Box<Entry> {
    let key = Key::of(text, anchor);
    take_from(usize::from(key.index()), |entry| entry.is_of(key, text))
        .unwrap_or_else(|| compile(vm, text, anchor, key))
}

/// What `f` makes of the compiled form of `text`. It does not use the cache itself.
#[inline]
pub fn with<R>(vm: &mut Vm, text: &[u8], anchor: bool, f: impl FnOnce(&mut Vm, &mut Entry) -> R) -> R {
    let key = Key::of(text, anchor);
    CACHE.with(|entries| {
        let place = &entries[usize::from(key.index())][0];
        let mut entry = place.take();
        if let Some(own) = entry.as_deref_mut().filter(|own| own.is_of(key, text)) {
            let result = f(vm, own);
            place.set(entry);
            return result;
        }
        place.set(entry);
        let mut entry = take(vm, text, anchor);
        let result = f(vm, &mut entry);
        put(entry);
        result
    })
}

/// What `f` makes of the entry with this ticket, if it is the one that was used last in its place: cheaper than
/// looking at the text again. It does not use the cache itself.
#[inline]
pub fn with_again<R>(
    vm: &mut Vm,
    ticket: i64,
    f: impl FnOnce(&mut Vm, &mut Entry) -> Option<R>,
) -> Option<R> {
    let index = usize::try_from(ticket).ok()? % ENTRIES;
    CACHE.with(|entries| {
        let place = &entries[index][0];
        let mut entry = place.take();
        let result = entry.as_deref_mut().filter(|own| own.ticket == ticket).and_then(|own| f(vm, own));
        place.set(entry);
        result
    })
}

#[cold]
fn compile(vm: &Vm, text: &[u8], anchor: bool, key: Key) -> Box<Entry> {
    let interrupt = vm.interrupt_handle();
    let pattern = Pattern::new(text, anchor);
    let slots = [(0, 0); MAX_CAPTURES];
    if text.len() > MAX_LENGTH {
        return Box::new(Entry {
            key,
            rest: [].into(),
            index: u8::MAX,
            ticket: -1,
            pattern,
            slots,
            interrupt,
        });
    }
    let (index, rest) = (key.index(), if text.len() > WHOLE { text } else { &[] }.into());
    let ticket = NEXT.fetch_add(ENTRIES as i64, Ordering::Relaxed) | i64::from(index);
    Box::new(Entry { key, rest, index, ticket, pattern, slots, interrupt })
}

/// Puts an entry back: it is the first of its index, and the last one is given up if there is no room.
#[inline(never)]
pub fn put(entry: Box<Entry>) {
    let index = usize::from(entry.index);
    CACHE.with(|entries| {
        let Some(ways) = entries.get(index) else { return };
        let mut moved = Some(entry);
        for way in ways {
            moved = way.replace(moved);
            if moved.is_none() {
                break;
            }
        }
    });
}

/// Takes the entry of this index that it is, if there is one.
// Not inlined: native code may go on in another OS thread after it has called Lua, so nothing about this
// thread may be remembered across a call.
#[inline(never)]
fn take_from(index: usize, is_it: impl Fn(&Entry) -> bool) -> Option<Box<Entry>> {
    CACHE.with(|entries| {
        for way in entries.get(index)? {
            let entry = way.take();
            if entry.as_deref().is_some_and(&is_it) {
                return entry;
            }
            way.set(entry);
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_one_index_keep_their_places() {
        let vm = Vm::new();
        let texts: Vec<Vec<u8>> = (0..10_000u32).map(|n| n.to_string().into_bytes()).collect();
        let same: Vec<&[u8]> =
            texts.iter().map(|text| &text[..]).filter(|text| Key::of(text, true).index() == 7).collect();
        let ticket = |text: &[u8]| {
            let entry = take(&vm, text, true);
            let ticket = entry.ticket();
            put(entry);
            ticket
        };
        let first: Vec<i64> = same[..WAYS].iter().map(|text| ticket(text)).collect();
        for _ in 0..3 {
            assert!(same[..WAYS].iter().map(|text| ticket(text)).eq(first.iter().copied()));
        }
        // Those that were used last stay where there is one more.
        ticket(same[WAYS]);
        for n in (1..WAYS).rev() {
            assert_eq!(ticket(same[n]), first[n]);
        }
        assert_ne!(ticket(same[0]), first[0]);
        // What is taken is nobody else's.
        let mut other = Vm::new();
        let mut is_there = || with_again(&mut other, first[1], |_, entry| Some(entry.ticket()));
        let entry = take(&vm, same[1], true);
        assert_eq!(is_there(), None);
        put(entry);
        assert_eq!(is_there(), Some(first[1]));
    }

    #[test]
    fn patterns_of_one_beginning_and_end_are_told_apart() {
        let vm = Vm::new();
        let same = |one: &str, other: &str| {
            let entry = take(&vm, one.as_bytes(), true);
            let ticket = entry.ticket();
            put(entry);
            let entry = take(&vm, other.as_bytes(), true);
            let again = entry.ticket();
            put(entry);
            ticket == again
        };
        for (one, other) in [
            ("", "a"),
            ("a", "aa"),
            ("abc", "acc"),
            ("abcdefg", "abceefg"),
            ("abcdabcd", "abcdabcdabcd"),
            ("12345678abcdefgh", "12345678.abcdefgh"),
            ("12345678.abcdefgh", "12345678,abcdefgh"),
        ] {
            assert!(!same(one, other) && same(one, one) && same(other, other), "{one} {other}");
        }
    }

    #[test]
    fn many_patterns_that_are_used_in_turn_are_compiled_once() {
        let vm = Vm::new();
        let texts: Vec<String> = (0..256).map(|n| format!("^%s*{n}(.-){}$", n * 7 % 256)).collect();
        let tickets = || -> Vec<i64> {
            let of = |text: &String| {
                let entry = take(&vm, text.as_bytes(), true);
                let ticket = entry.ticket();
                put(entry);
                ticket
            };
            texts.iter().map(of).collect()
        };
        let (first, second) = (tickets(), tickets());
        let kept = first.iter().zip(&second).filter(|(one, other)| one == other).count();
        assert!(kept > 128, "{kept}");
    }
}
