//! The process: when it began, where a module of it lies.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::OnceLock;

/// When the process began, in the kernel's units; 0 if the system does not say.
pub(crate) fn start() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    *START.get_or_init(|| {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name, in parentheses, may contain anything.
        let rest = stat.rsplit(')').next().unwrap_or_default();
        rest.split_whitespace().nth(19).and_then(|n| n.parse().ok()).unwrap_or(0)
    })
}

/// For how long the process has existed, in nanoseconds; 0 if the system does not say.
pub(crate) fn age() -> u64 {
    // SAFETY: asks for a number.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let now = super::clock::read(libc::CLOCK_BOOTTIME);
    match start() {
        0 => 0,
        start => now.saturating_sub(start * (1_000_000_000 / per_second)),
    }
}

/// A search for a module.
struct Search {
    /// An address in it.
    within: usize,
    found: Option<Range<usize>>,
}

/// The addresses of the module, an executable or a shared library, in which `within` lies.
pub(crate) fn module_of(within: usize) -> Option<Range<usize>> {
    let mut search = Search { within, found: None };
    // SAFETY: the function has the type that is asked for, and gets the search.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> i32 {
    // SAFETY: the linker passes a valid structure, and what `module_of` has given it.
    let (base, headers, search) = unsafe {
        let info = &*info;
        let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum as usize);
        (info.dlpi_addr as usize, headers, &mut *search.cast::<Search>())
    };
    let loaded = headers.iter().filter(|h| h.p_type == libc::PT_LOAD && h.p_memsz != 0);
    let range = |h: &libc::Elf64_Phdr| {
        let first = base.wrapping_add(h.p_vaddr as usize);
        (first, first.wrapping_add(h.p_memsz as usize))
    };
    if !loaded.clone().map(range).any(|(first, end)| (first..end).contains(&search.within)) {
        return 0;
    }
    let first = loaded.clone().map(|h| range(h).0).min().unwrap_or(0);
    let end = loaded.map(|h| range(h).1).max().unwrap_or(0);
    search.found = Some(first..end);
    1
}
