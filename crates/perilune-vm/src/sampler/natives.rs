//! Where natives lie in memory, so that a signal handler does not follow what only looks like a pointer to one.
//!
//! A handler may come between the two words of a store to a stack's slot, and find the tag of a native with the number that it has just returned. Natives are statics
//! (`Value::native`), so their addresses are those of the module that this crate was linked into, and numbers and objects are not. One in another module is taken for Lua code.

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
        // SAFETY: the function has the type that is asked for, and keeps nothing.
        unsafe { libc::dl_iterate_phdr(Some(look), std::ptr::null_mut()) };
    }
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, _: *mut libc::c_void) -> i32 {
    // SAFETY: the linker passes a valid structure.
    let (base, headers) = unsafe {
        let info = &*info;
        (info.dlpi_addr as usize, std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize))
    };
    let loaded = headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_memsz != 0);
    let range = |h: &libc::Elf64_Phdr| {
        let first = base.wrapping_add(h.p_vaddr as usize);
        (first, first.wrapping_add(h.p_memsz as usize))
    };
    let here = (&raw const HERE) as usize;
    if !loaded.clone().map(range).any(|(first, end)| (first..end).contains(&here)) {
        return 0;
    }
    let first = loaded.clone().map(|h| range(h).0).min().unwrap_or(0);
    let end = loaded.map(|h| range(h).1).max().unwrap_or(0);
    FIRST.store(first, Ordering::Relaxed);
    END.store(end, Ordering::Relaxed);
    1
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
