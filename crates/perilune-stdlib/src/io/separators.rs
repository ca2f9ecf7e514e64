//! Where lines end: the search that `io.lines` and `perilune.text` share.
//!
//! Lua's own lines end at newlines ([`newline`]). A [`Separators`] is any set of byte strings. What separates
//! is the leftmost one in the text, and of those that begin there the longest. A text may come in pieces, so
//! its end may be the beginning of a separator, or of a longer one: then the answer waits for more.
//!
//! Candidates are found by SIMD as long as at most three different bytes begin separators; a table of bytes
//! serves beyond that. Newlines with and without a carriage return, the usual pair, are found by the newline,
//! which is the rarer byte to stop at.

use crate::sys;

/// The first newline. Most lines are short, so the first bytes are looked at here, without a call.
#[inline(always)]
pub fn newline(text: &[u8]) -> Option<usize> {
    let Some((first, rest)) = text.split_first_chunk::<64>() else { return memchr::memchr(b'\n', text) };
    match sys::newlines(first) {
        0 => memchr::memchr(b'\n', rest).map(|at| at + first.len()),
        found => Some(found.trailing_zeros() as usize),
    }
}

/// Most separators in a set.
pub const MOST: usize = 64;
/// Longest separator, in bytes.
pub const LONGEST: usize = 256;

/// A set of separators.
#[derive(Clone, Debug)]
pub struct Separators {
    /// Longest first.
    list: Vec<Box<[u8]>>,
    firsts: Firsts,
}

/// How to find where a separator may begin.
#[derive(Clone, Debug)]
enum Firsts {
    /// The separators are `\n` and `\r\n`.
    Newlines,
    One(u8),
    Two(u8, u8),
    Three(u8, u8, u8),
    Table(Box<[bool; 256]>),
}

/// What a search comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A separator begins at the first offset and ends before the second.
    At(usize, usize),
    /// There is none before this offset; what follows has to be looked at again when there is more.
    NotBefore(usize),
}

impl Separators {
    /// A set of separators, of which there is at least one. `None`: there are too many, or one is empty or
    /// too long.
    pub fn new(separators: impl IntoIterator<Item = impl Into<Box<[u8]>>>) -> Option<Separators> {
        let mut list: Vec<Box<[u8]>> = separators.into_iter().take(MOST + 1).map(Into::into).collect();
        if list.is_empty() || list.len() > MOST || list.iter().any(|s| s.is_empty() || s.len() > LONGEST) {
            return None;
        }
        list.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        list.dedup();
        let mut firsts: Vec<u8> = list.iter().map(|s| s[0]).collect();
        firsts.sort_unstable();
        firsts.dedup();
        let firsts = match firsts[..] {
            _ if list.len() == 2 && *list[0] == *b"\r\n" && *list[1] == *b"\n" => Firsts::Newlines,
            [a] => Firsts::One(a),
            [a, b] => Firsts::Two(a, b),
            [a, b, c] => Firsts::Three(a, b, c),
            _ => {
                let mut table = Box::new([false; 256]);
                firsts.iter().for_each(|&b| table[usize::from(b)] = true);
                Firsts::Table(table)
            }
        };
        Some(Separators { list, firsts })
    }

    /// `\n` and `\r\n`.
    pub fn newlines() -> Separators {
        Separators { list: vec![(*b"\r\n").into(), (*b"\n").into()], firsts: Firsts::Newlines }
    }

    /// The first separator of `text`, where nothing is to be found before `from`, an offset that an earlier
    /// search has given, or 0; `ended`: there is no more text.
    #[inline]
    pub fn find(&self, text: &[u8], from: usize, ended: bool) -> Found {
        if let Firsts::Newlines = self.firsts {
            return match newline(&text[from..]) {
                Some(at) => {
                    let at = from + at;
                    let start = if at > 0 && text[at - 1] == b'\r' { at - 1 } else { at };
                    Found::At(start, at + 1)
                }
                None => Found::NotBefore(text.len()),
            };
        }
        self.find_any(text, from, ended)
    }

    fn find_any(&self, text: &[u8], from: usize, ended: bool) -> Found {
        let mut at = from;
        loop {
            let rest = &text[at..];
            let candidate = match &self.firsts {
                Firsts::Newlines => newline(rest),
                Firsts::One(a) => memchr::memchr(*a, rest),
                Firsts::Two(a, b) => memchr::memchr2(*a, *b, rest),
                Firsts::Three(a, b, c) => memchr::memchr3(*a, *b, *c, rest),
                Firsts::Table(table) => rest.iter().position(|&b| table[usize::from(b)]),
            };
            let Some(candidate) = candidate else { return Found::NotBefore(text.len()) };
            at += candidate;
            let rest = &text[at..];
            for separator in &self.list {
                if rest.starts_with(separator) {
                    return Found::At(at, at + separator.len());
                }
                if !ended && separator.starts_with(rest) {
                    return Found::NotBefore(at);
                }
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By the definition: the leftmost, and of those the longest.
    fn naive(list: &[Vec<u8>], text: &[u8]) -> Option<(usize, usize)> {
        (0..text.len()).find_map(|at| {
            let longest = list.iter().filter(|s| text[at..].starts_with(s)).map(Vec::len).max()?;
            Some((at, at + longest))
        })
    }

    fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'a'), Just(b'b'), Just(b'|')],
            1..=most,
        )
    }

    proptest! {
        #[test]
        fn the_leftmost_longest(list in prop::collection::vec(bytes(3), 1..6), text in bytes(40), cut in 0usize..40) {
            let separators = Separators::new(list.clone()).unwrap();
            let whole = match separators.find(&text, 0, true) {
                Found::At(start, end) => Some((start, end)),
                Found::NotBefore(at) => {
                    prop_assert_eq!(at, text.len());
                    None
                }
            };
            prop_assert_eq!(whole, naive(&list, &text));
            // The beginning first, then all: the same.
            let cut = cut.min(text.len());
            match separators.find(&text[..cut], 0, false) {
                Found::At(start, end) => prop_assert_eq!(whole, Some((start, end))),
                Found::NotBefore(at) => {
                    let then = match separators.find(&text, at, true) {
                        Found::At(start, end) => Some((start, end)),
                        Found::NotBefore(_) => None,
                    };
                    prop_assert_eq!(whole, then);
                }
            }
        }

        #[test]
        fn newlines(text in bytes(40), cut in 0usize..40) {
            let cut = cut.min(text.len());
            let wanted = naive(&[b"\n".to_vec(), b"\r\n".to_vec()], &text);
            let from = match Separators::newlines().find(&text[..cut], 0, false) {
                Found::At(start, end) => {
                    prop_assert_eq!(wanted, Some((start, end)));
                    return Ok(());
                }
                Found::NotBefore(at) => at,
            };
            let then = Separators::newlines().find(&text, from, true);
            prop_assert_eq!(then, wanted.map_or(Found::NotBefore(text.len()), |(start, end)| Found::At(start, end)));
        }
    }

    #[test]
    fn newlines_wherever_they_are() {
        for length in [0, 1, 31, 63, 64, 65, 127, 200] {
            let mut text = vec![b'x'; length];
            assert_eq!(newline(&text), None);
            for at in (0..length).rev() {
                text[at] = b'\n';
                assert_eq!(newline(&text), Some(at), "of {length}");
            }
        }
    }

    #[test]
    fn sets_that_are_refused() {
        assert!(Separators::new(Vec::<Vec<u8>>::new()).is_none());
        assert!(Separators::new([b"".to_vec()]).is_none());
        assert!(Separators::new([vec![b'x'; LONGEST + 1]]).is_none());
        assert!(Separators::new((0..=MOST).map(|i| vec![i as u8, 1])).is_none());
    }
}
