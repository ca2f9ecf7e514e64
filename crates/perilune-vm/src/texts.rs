//! What `load` has made of texts that come again.
//!
//! Programs load the same text many times: a template for each page, a formula for each row, what a
//! configuration says for each request. Each time it would be compiled, and its functions would be new ones:
//! machine code, and what has been learnt from running them, belong to prototypes (`machine.rs`), so they
//! would begin from nothing. A domain therefore keeps the prototypes of the few texts that it has loaded
//! before, with the texts to compare them with, and a function that is loaded again is a new closure of known
//! prototypes, as if it were that of an inner function.
//!
//! Most programs that load texts make a new one each time, so a text that comes for the first time leaves a
//! hash and nothing else; the second time it is kept, if it is not long, and there is room. What is kept and
//! has not been used makes room for another one that has the same place. Where the text is one of many that
//! are made of the same pieces, its hash costs nanoseconds, and compiling it microseconds.
//!
//! Rejected: one table for all domains, as for files (`chunks.rs`): a lock at each `load`, for texts that
//! mostly have a number of the domain in them, or of the request; keeping hashes alone, of 128 bits: texts
//! may come from others, who would gain by two with the same hash, unlike those who can change a file.

use foldhash::fast::RandomState;
use perilune_syntax::Proto;
use std::hash::BuildHasher;
use std::sync::Arc;

const PLACES: usize = 64;
/// Bytes of a text that is not too long to be kept.
const LONGEST: usize = 32 << 10;
/// Bytes of all texts that are kept, with their names.
const MOST: usize = 256 << 10;

/// The texts that a domain has loaded.
#[derive(Default)]
pub(crate) struct Texts {
    places: Option<Box<Places>>,
}

struct Places {
    secret: RandomState,
    /// By the hash of what came last, or is kept.
    places: [Place; PLACES],
    /// Bytes that are kept.
    bytes: usize,
}

#[derive(Default)]
struct Place {
    hash: u64,
    chunk: Option<Chunk>,
    /// The chunk has been used since another text has come to its place.
    used: bool,
}

struct Chunk {
    name: Box<[u8]>,
    text: Box<[u8]>,
    proto: Arc<Proto>,
}

impl Chunk {
    fn bytes(&self) -> usize {
        self.name.len() + self.text.len()
    }
}

/// Whether a text is not too long to be kept.
pub(crate) fn may_be_kept(text: &[u8]) -> bool {
    text.len() <= LONGEST
}

impl Texts {
    /// The prototype of the text of that name, if it is kept.
    pub(crate) fn known(&mut self, name: &[u8], text: &[u8]) -> Option<Arc<Proto>> {
        let places = self.places.as_mut().filter(|_| may_be_kept(text))?;
        let hash = places.hash(name, text);
        let place = &mut places.places[hash as usize % PLACES];
        let is_it = |chunk: &&Chunk| *chunk.text == *text && *chunk.name == *name;
        let chunk = place.chunk.as_ref().filter(|_| place.hash == hash).filter(is_it)?;
        place.used = true;
        Some(Arc::clone(&chunk.proto))
    }

    /// A text that is not kept has been compiled to `proto`.
    pub(crate) fn note(&mut self, name: &[u8], text: &[u8], proto: &Arc<Proto>) {
        if !may_be_kept(text) || !may_be_kept(name) {
            return;
        }
        let places = self.places.get_or_insert_with(|| {
            Box::new(Places {
                secret: RandomState::default(),
                places: std::array::from_fn(|_| Place::default()),
                bytes: 0,
            })
        });
        let hash = places.hash(name, text);
        places.note(hash, name, text, proto);
    }
}

impl Places {
    fn hash(&self, name: &[u8], text: &[u8]) -> u64 {
        self.secret.hash_one((text, name))
    }

    /// A text has come that is not kept.
    fn note(&mut self, hash: u64, name: &[u8], text: &[u8], proto: &Arc<Proto>) {
        let place = &mut self.places[hash as usize % PLACES];
        if place.chunk.is_some() && std::mem::take(&mut place.used) {
            return;
        }
        if let Some(chunk) = place.chunk.take() {
            self.bytes -= chunk.bytes();
        }
        let came_before = std::mem::replace(&mut place.hash, hash) == hash;
        if came_before && self.bytes + name.len() + text.len() <= MOST {
            self.bytes += name.len() + text.len();
            place.chunk = Some(Chunk { name: name.into(), text: text.into(), proto: Arc::clone(proto) });
            place.used = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The prototype, and whether it is a new one.
    fn load(texts: &mut Texts, name: &str, text: &str) -> (Arc<Proto>, bool) {
        if let Some(proto) = texts.known(name.as_bytes(), text.as_bytes()) {
            return (proto, false);
        }
        let proto = perilune_syntax::compile(text.as_bytes(), name.as_bytes()).expect("it compiles");
        texts.note(name.as_bytes(), text.as_bytes(), &proto);
        (proto, true)
    }

    #[test]
    fn a_text_that_comes_again_is_kept() {
        let texts = &mut Texts::default();
        let news = [0; 5].map(|_| load(texts, "=a", "return 1").1);
        assert_eq!(news, [true, true, false, false, false]);
        let (first, _) = load(texts, "=a", "return 1");
        assert!(Arc::ptr_eq(&first, &load(texts, "=a", "return 1").0));
        assert!(load(texts, "=b", "return 1").1 && load(texts, "=a", "return 2").1);
        assert!(!load(texts, "=a", "return 1").1);
    }

    #[test]
    fn what_comes_once_is_not_kept_and_takes_no_place() {
        let texts = &mut Texts::default();
        let (kept, _) = load(texts, "=kept", "return 'kept'");
        for n in 0..5_000 {
            let (proto, is_new) = load(texts, "=once", &format!("return {n}"));
            assert!(is_new && Arc::strong_count(&proto) == 1);
            load(texts, "=kept", "return 'kept'");
        }
        let (again, is_new) = load(texts, "=kept", "return 'kept'");
        assert!(!is_new && !Arc::ptr_eq(&kept, &again), "the first one was only noted");
        // It makes room when it is not used.
        for n in 0..PLACES * 50 {
            load(texts, "=other", &format!("return {n}"));
        }
        assert!(texts.places.as_ref().is_some_and(|places| places.bytes == 0));
        assert_eq!(Arc::strong_count(&again), 1);
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let texts = &mut Texts::default();
        for n in 0..PLACES * 4 {
            let text = format!("return {n} --{}", "x".repeat(20 << 10));
            for _ in 0..3 {
                load(texts, "=long", &text);
            }
        }
        let places = texts.places.as_ref().expect("something was loaded");
        let all: usize = places.places.iter().filter_map(|p| p.chunk.as_ref()).map(Chunk::bytes).sum();
        assert!(all == places.bytes && all <= MOST && all > MOST / 2, "{all}");
        let longer = format!("return 1 --{}", "x".repeat(LONGEST));
        assert!((0..4).all(|_| load(texts, "=longer", &longer).1));
    }
}
