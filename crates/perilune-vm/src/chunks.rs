//! Chunks of files, which the domains of a process have in common.
//!
//! Each domain that requires a module reads its file and gets a function of its own, with caches of its own.
//! But the prototypes below it are the same, as long as name and content are: they are verified code that
//! nobody changes. So the file is compiled once, however many domains require it; machine code, and what has
//! been learnt from running it, belong to prototypes (`machine.rs`) and are there for all; and a domain that
//! comes later begins with both.
//!
//! A chunk is known by its name, how long it is, and two hashes of its content, with secrets of the process:
//! 128 bits, so that a file that has changed is another chunk for all that can happen. Whoever could find
//! two contents with the same hashes gains nothing: the one would run in place of the other, under a name
//! that both were loaded from.
//!
//! Nothing here keeps a prototype alive. What is gone is forgotten when there are twice as many chunks as
//! were alive the last time.
//!
//! Rejected: sharing what `load` makes of strings (programs that generate code make millions of chunks, each
//! once; hashing them is in vain); asking the file system whether a file has changed, instead of reading it
//! (clocks of file systems are coarse, and a file may be a pipe); keeping the source to compare it (it is
//! several times as large as what is made of it, and needed by nobody).

use foldhash::fast::RandomState;
use perilune_syntax::Proto;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

/// What a chunk is known by.
#[derive(PartialEq, Eq, Hash)]
struct Id {
    name: Box<[u8]>,
    length: usize,
    content: [u64; 2],
}

/// The chunks that are known.
struct Known {
    chunks: HashMap<Id, Weak<Proto>, RandomState>,
    /// With so many, those that are gone are looked for.
    most: usize,
}

/// So many chunks are no reason to look for those that are gone.
const FEW: usize = 64;

static SECRETS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
static KNOWN: LazyLock<Mutex<Known>> =
    LazyLock::new(|| Mutex::new(Known { chunks: HashMap::default(), most: FEW }));

/// The prototype of the chunk of that name and content: the one that some domain of the process has, or what
/// `compile` makes of it.
pub(crate) fn shared<E>(
    name: &[u8],
    source: &[u8],
    compile: impl FnOnce() -> Result<Arc<Proto>, E>,
) -> Result<Arc<Proto>, E> {
    let content = [0, 1].map(|n| SECRETS[n].hash_one(source));
    let id = Id { name: name.into(), length: source.len(), content };
    let known = |known: &Known| known.chunks.get(&id).and_then(Weak::upgrade);
    if let Some(proto) = known(&lock()) {
        return Ok(proto);
    }
    // Not under the lock: it may take long. Of two domains that do so at once the first one to be ready wins.
    let proto = compile()?;
    let mut chunks = lock();
    if let Some(first) = known(&chunks) {
        return Ok(first);
    }
    chunks.note(id, &proto);
    Ok(proto)
}

impl Known {
    fn note(&mut self, id: Id, proto: &Arc<Proto>) {
        if self.chunks.len() >= self.most {
            self.chunks.retain(|_, proto| proto.strong_count() > 0);
            self.most = (2 * self.chunks.len()).max(FEW);
        }
        self.chunks.insert(id, Arc::downgrade(proto));
    }
}

fn lock() -> std::sync::MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(name: &[u8], source: &[u8]) -> Arc<Proto> {
        shared(name, source, || perilune_syntax::compile(source, name)).expect("compiles")
    }

    #[test]
    fn a_chunk_is_compiled_once_while_somebody_has_it() {
        let first = load(b"@chunks/a.lua", b"return 1");
        let again = shared::<()>(b"@chunks/a.lua", b"return 1", || panic!("it is known")).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        drop((first, again));
        let mut compiled = false;
        let _new = shared(b"@chunks/a.lua", b"return 1", || {
            compiled = true;
            perilune_syntax::compile(b"return 1", b"@chunks/a.lua")
        });
        assert!(compiled, "nothing keeps it alive");
    }

    #[test]
    fn other_names_and_contents_are_other_chunks() {
        let one = load(b"@chunks/b.lua", b"return 1");
        assert!(!Arc::ptr_eq(&one, &load(b"@chunks/c.lua", b"return 1")));
        assert!(!Arc::ptr_eq(&one, &load(b"@chunks/b.lua", b"return 2")));
        assert!(!Arc::ptr_eq(&one, &load(b"@chunks/b.lua", b"return 1 ")));
    }

    #[test]
    fn what_does_not_compile_is_not_known() {
        let refused = shared(b"@chunks/d.lua", b"return", || Err::<Arc<Proto>, _>("refused"));
        assert_eq!(refused.err(), Some("refused"));
        load(b"@chunks/d.lua", b"return");
    }

    #[test]
    fn chunks_that_are_gone_are_forgotten() {
        let mut known = Known { chunks: HashMap::default(), most: FEW };
        let id = |n: u64| Id { name: b"@x".as_slice().into(), length: 1, content: [n, n] };
        let kept = perilune_syntax::compile(b"return 1", b"@x").unwrap();
        known.note(id(0), &kept);
        for n in 1..10_000 {
            known.note(id(n), &perilune_syntax::compile(b"return 2", b"@x").unwrap());
        }
        assert!(known.chunks.len() <= 2 * FEW, "{}", known.chunks.len());
        assert!(known.chunks.contains_key(&id(0)));
    }
}
