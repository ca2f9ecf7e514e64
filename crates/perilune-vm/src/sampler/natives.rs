//! Where natives lie in memory, so that a signal handler does not follow what only looks like a pointer to
//! one.
//!
//! A handler may come between the two words of a store to a stack's slot, and find the tag of a native with
//! the number that it has just returned. Natives are statics (`Value::native`), so their addresses are those
//! of the module that this crate was linked into, and numbers and objects are not. One in another module is
//! taken for Lua code.

use crate::sys::process;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Something that lies in the module.
static HERE: AtomicUsize = AtomicUsize::new(0);
static FIRST: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// Can a native lie here? Async-signal-safe; no before [`find`] was called.
#[inline]
pub(super) fn may_lie_at(address: usize) -> bool {
    address.is_multiple_of(align_of::<crate::native::Native>())
        && (FIRST.load(Ordering::Relaxed)..END.load(Ordering::Relaxed)).contains(&address)
}

/// Finds out where the module lies.
pub(super) fn find() {
    if END.load(Ordering::Relaxed) == 0 {
        let here = (&raw const HERE) as usize;
        if let Some(module) = process::module_of(here) {
            FIRST.store(module.start, Ordering::Relaxed);
            END.store(module.end, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::native::Native;

    static ONE: Native = Native::leaf("one", |_| Ok(0));

    #[test]
    fn natives_lie_in_the_module_and_nothing_else_does() {
        find();
        assert!(may_lie_at((&raw const ONE) as usize));
        let object = Box::new([0u64; 4]);
        let local = 0u64;
        for address in [0, 8, 42, usize::MAX & !7, object.as_ptr() as usize, (&raw const local) as usize] {
            assert!(!may_lie_at(address), "{address:#x}");
        }
        assert!(!may_lie_at((&raw const ONE) as usize + 1));
    }
}
