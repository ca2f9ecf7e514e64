//! Names and texts of literals, counted: one word wherever a prototype has one.
//!
//! An `Arc<[u8]>` is two words, and prototypes are mostly names: a large program has five for each function,
//! and each page that a program fills while it is loaded is a fault. So the length is beside the count, in
//! front of the bytes.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// A name or the text of a literal, in any bytes. All prototypes of a chunk share what they mention: large
/// programs are mostly names, and each would be an allocation at each place that has it.
pub struct Text(NonNull<Head>);

/// What stands before the bytes.
#[repr(C)]
struct Head {
    /// How many `Text`s there are of it.
    count: AtomicUsize,
    length: usize,
}

// SAFETY: what a `Text` points at is bytes that nobody changes, and a count that is atomic; whoever finds
// that it was the last one frees it, behind all that the others have done.
unsafe impl Send for Text {}
// SAFETY: as above.
unsafe impl Sync for Text {}

/// More can only come from a program that forgets them, and would let the count begin anew.
const MOST: usize = isize::MAX as usize;

impl Text {
    fn layout(length: usize) -> Layout {
        Layout::new::<Head>()
            .extend(Layout::array::<u8>(length).expect("slices are no longer than that"))
            .expect("and leave room for two words")
            .0
            .pad_to_align()
    }

    /// Where the bytes start.
    fn bytes(&self) -> *mut u8 {
        // SAFETY: the bytes are behind the head, in the same allocation.
        unsafe { self.0.as_ptr().add(1).cast() }
    }
}

impl Text {
    /// With so many counts, of which one is that of the `Text` returned.
    fn with_count(bytes: &[u8], count: usize) -> Text {
        let layout = Text::layout(bytes.len());
        // SAFETY: the layout has a head at least.
        let Some(head) = NonNull::new(unsafe { alloc(layout) }.cast::<Head>()) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the allocation has room for a head, and for the bytes behind it.
        unsafe { head.write(Head { count: AtomicUsize::new(count), length: bytes.len() }) };
        let text = Text(head);
        // SAFETY: as above; it is too new to overlap anything.
        unsafe { text.bytes().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        text
    }

    /// Takes counts for more.
    #[inline]
    fn take(&self, count: usize) {
        // SAFETY: what a text points at lives as long as it does. (Whoever has one needs no order to count
        // others.)
        if unsafe { self.0.as_ref() }.count.fetch_add(count, Ordering::Relaxed) > MOST {
            std::process::abort();
        }
    }

    /// Gives counts back, its own among them: nobody uses it any more.
    #[inline]
    fn release(&self, count: usize) {
        // SAFETY: as in `take`: what is given back is there.
        if unsafe { self.0.as_ref() }.count.fetch_sub(count, Ordering::Release) == count {
            fence(Ordering::Acquire);
            free(self.0);
        }
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Text {
        Text::with_count(bytes, 1)
    }
}

/// A text that will be had often: counts of it are taken many at a time, and what nobody needed is given back
/// at the end. One by one they would be an atomic instruction for each name that a prototype has.
pub struct Shared {
    text: ManuallyDrop<Text>,
    /// Counts that have been taken and belong to no `Text` yet.
    spare: Cell<u32>,
}

impl Shared {
    /// Counts taken at a time.
    const AT_ONCE: u32 = 32;

    /// One more.
    #[inline]
    pub fn text(&self) -> Text {
        if self.spare.get() == 0 {
            self.text.take(Shared::AT_ONCE as usize);
            self.spare.set(Shared::AT_ONCE);
        }
        self.spare.set(self.spare.get() - 1);
        // One of the spare counts is its.
        Text(self.text.0)
    }

    /// The only one that there will be from here.
    pub fn into_text(self) -> Text {
        self.text()
    }
}

impl From<&[u8]> for Shared {
    fn from(bytes: &[u8]) -> Shared {
        let text = Text::with_count(bytes, 1 + Shared::AT_ONCE as usize);
        Shared { text: ManuallyDrop::new(text), spare: Cell::new(Shared::AT_ONCE) }
    }
}

impl Deref for Shared {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.text
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.text.release(1 + self.spare.get() as usize);
    }
}

impl Deref for Text {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes have been written when the text was made, and stay as long as it does.
        unsafe { std::slice::from_raw_parts(self.bytes(), self.0.as_ref().length) }
    }
}

impl Clone for Text {
    #[inline]
    fn clone(&self) -> Text {
        self.take(1);
        Text(self.0)
    }
}

impl Drop for Text {
    #[inline]
    fn drop(&mut self) {
        self.release(1);
    }
}

/// Frees what nobody has any more.
#[inline(never)]
fn free(head: NonNull<Head>) {
    // SAFETY: the last text has just gone, and what others did with theirs is done (the fence); it was
    // allocated with this layout.
    unsafe { dealloc(head.as_ptr().cast(), Text::layout(head.as_ref().length)) };
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.0 == other.0 || **self == **other
    }
}

impl Eq for Text {}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_word_and_so_is_none() {
        assert_eq!((size_of::<Text>(), size_of::<Option<Text>>()), (8, 8));
    }

    #[test]
    fn texts_have_the_bytes_that_they_were_made_of() {
        for length in [0, 1, 7, 8, 9, 1000] {
            let bytes: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let text = Text::from(&bytes[..]);
            assert_eq!(*text, bytes[..]);
            assert_eq!(text, Text::from(&bytes[..]));
            assert_ne!(text, Text::from(&b"else"[..]));
        }
    }

    #[test]
    fn counts_that_were_taken_at_once_are_given_back() {
        for more in [0, 1, 31, 32, 33, 100] {
            let shared = Shared::from(&b"name"[..]);
            let texts: Vec<Text> = (0..more).map(|_| shared.text()).collect();
            let last = shared.into_text();
            assert_eq!(counts(&last), more + 1);
            drop(texts);
            assert_eq!((counts(&last), &*last), (1, &b"name"[..]));
        }
    }

    fn counts(text: &Text) -> usize {
        // SAFETY: a text that is there.
        unsafe { text.0.as_ref() }.count.load(Ordering::Relaxed)
    }

    /// Each thread drops its own; the last one frees what all of them have read.
    #[test]
    fn texts_are_counted_by_all_threads() {
        let text = Text::from(&b"name"[..]);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let text = text.clone();
                scope.spawn(move || {
                    let more: Vec<Text> = (0..100).map(|_| text.clone()).collect();
                    assert!(more.iter().all(|t| **t == *b"name"));
                });
            }
        });
        assert_eq!(counts(&text), 1);
    }
}
