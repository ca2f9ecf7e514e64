//! Numbers of shared objects, for events.
//!
//! An address would come back when the object is gone and another lies there; a number does not. It is drawn
//! when an event first needs it, so that objects that no event names cost nothing.

use crate::event::{ObjectKind, ObjectRef};
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(1);

/// What events call an object.
#[derive(Debug)]
pub struct Identity {
    kind: ObjectKind,
    number: AtomicU64,
}

impl Identity {
    /// For an object of this kind.
    pub const fn new(kind: ObjectKind) -> Identity {
        Identity { kind, number: AtomicU64::new(0) }
    }

    /// For an object that has a number of its own.
    pub const fn given(object: ObjectRef) -> Identity {
        Identity { kind: object.kind(), number: AtomicU64::new(object.number()) }
    }

    /// The object's own number, if it gets to know it only now; before that no event may have named it.
    pub fn settle(&self, number: u64) {
        let _ = self.number.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// What it is.
    pub fn kind(&self) -> ObjectKind {
        self.kind
    }

    /// The object.
    pub fn get(&self) -> ObjectRef {
        self.get_or_name(|_| {})
    }

    /// The object; `name` is called when it has got its number just now.
    pub fn get_or_name(&self, name: impl FnOnce(ObjectRef)) -> ObjectRef {
        let known = self.number.load(Ordering::Relaxed);
        if known != 0 {
            return ObjectRef::new(self.kind, known);
        }
        let mine = NEXT.fetch_add(1, Ordering::Relaxed);
        match self.number.compare_exchange(0, mine, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                let object = ObjectRef::new(self.kind, mine);
                name(object);
                object
            }
            Err(other) => ObjectRef::new(self.kind, other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_drawn_once() {
        let (a, b) = (Identity::new(ObjectKind::Task), Identity::new(ObjectKind::Task));
        let mut named = 0;
        let first = a.get_or_name(|_| named += 1);
        assert_eq!((a.get(), a.get_or_name(|_| named += 1), named), (first, first, 1));
        assert_ne!(a.get(), b.get());
        let domain = ObjectRef::new(ObjectKind::Domain, 7);
        assert_eq!(Identity::given(domain).get(), domain);
    }
}
