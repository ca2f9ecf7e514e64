//! The patterns used last, compiled.
//!
//! Programs use few patterns many times, so compiling is paid once: a small direct-mapped table per operating system thread, indexed by a cheap hash of the pattern's
//! text and compared byte by byte. It holds no heap objects, so it needs no care from the collector, and nothing depends on it: a
//! miss compiles again. Long patterns are not kept, so the table stays small.
//!
//! An entry is an `Arc`: `gsub` keeps its pattern across callbacks, which may replace the entry or go on on another thread.

use super::pattern::Pattern;
use std::cell::RefCell;
use std::sync::Arc;

const ENTRIES: usize = 64;
/// Longer patterns are compiled at every use.
const MAX_LENGTH: usize = 256;

struct Entry {
    text: Box<[u8]>,
    anchor: bool,
    pattern: Arc<Pattern>,
}

thread_local! {
    static CACHE: RefCell<[Option<Entry>; ENTRIES]> = const { RefCell::new([const { None }; ENTRIES]) };
}

/// First and last bytes and the length tell patterns apart well enough.
#[inline]
fn index(text: &[u8], anchor: bool) -> usize {
    let word = |bytes: &[u8]| bytes.iter().fold(0u64, |h, &b| h << 8 | u64::from(b));
    let (head, tail) = match text.len() {
        n @ 0..8 => (word(&text[..n / 2]), word(&text[n / 2..])),
        n => (
            u64::from_le_bytes(text[..8].try_into().unwrap_or_default()),
            u64::from_le_bytes(text[n - 8..].try_into().unwrap_or_default()),
        ),
    };
    let mix = (head ^ tail.rotate_left(29) ^ text.len() as u64 ^ u64::from(anchor) << 32)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mix >> 58) as usize
}

/// Runs `f` with the compiled form of `text`. `f` must not look for patterns itself.
pub fn with<R>(text: &[u8], anchor: bool, f: impl FnOnce(&Pattern) -> R) -> R {
    if text.len() > MAX_LENGTH {
        return f(&Pattern::new(text, anchor));
    }
    CACHE.with_borrow_mut(|entries| f(&lookup(entries, text, anchor).pattern))
}

/// The compiled form of `text`, to keep.
pub fn get(text: &[u8], anchor: bool) -> Arc<Pattern> {
    if text.len() > MAX_LENGTH {
        return Arc::new(Pattern::new(text, anchor));
    }
    CACHE.with_borrow_mut(|entries| lookup(entries, text, anchor).pattern.clone())
}

#[inline]
fn lookup<'e>(entries: &'e mut [Option<Entry>; ENTRIES], text: &[u8], anchor: bool) -> &'e Entry {
    let slot = &mut entries[index(text, anchor)];
    if slot.as_ref().is_some_and(|e| e.anchor != anchor || *e.text != *text) {
        *slot = None;
    }
    slot.get_or_insert_with(|| Entry {
        text: text.into(),
        anchor,
        pattern: Arc::new(Pattern::new(text, anchor)),
    })
}
