//! Native stacks.

use std::ptr::null_mut;

/// What of a stack is used at most: an unlimited one is as good as a large one.
const MOST_STACK: usize = 64 << 20;

/// The native stack pointer: an address in the caller's frame, or a little below everything it has spilled.
#[inline(always)]
pub(crate) fn pointer() -> usize {
    let sp: usize;
    // SAFETY: reads a register.
    unsafe { std::arch::asm!("mov {}, rsp", out(reg) sp, options(nomem, nostack, preserves_flags)) };
    sp
}

/// Calls `f` with all callee-saved registers spilled to the stack, where a conservative scan sees them, and
/// the address from which a scan does so.
#[inline(never)]
pub(crate) fn spill_registers<T, R>(with: *mut T, f: impl FnOnce(*mut T, usize) -> R) -> R {
    let mut saved = [0usize; 6];
    // SAFETY: stores registers to a local array.
    unsafe {
        std::arch::asm!(
            "mov [{0}], rbx", "mov [{0} + 8], rbp", "mov [{0} + 16], r12",
            "mov [{0} + 24], r13", "mov [{0} + 32], r14", "mov [{0} + 40], r15",
            in(reg) saved.as_mut_ptr(),
        );
    }
    std::hint::black_box(&mut saved);
    let result = f(with, saved.as_ptr() as usize);
    std::hint::black_box(&mut saved);
    result
}

/// Address space for stacks, of which pages are taken as they are touched, small ones, because most stacks
/// touch one or two. `None`: there is none.
pub(crate) fn map(bytes: usize) -> Option<usize> {
    // SAFETY: a fresh anonymous mapping.
    let at = unsafe {
        libc::mmap(
            null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping just made.
    unsafe { libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE) };
    Some(at as usize)
}

/// Gives pages back; they are zeros when they are touched again.
///
/// # Safety
/// A part of what [`map`] has returned, in which nothing lives.
pub(crate) unsafe fn release(at: usize, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::madvise(at as *mut _, bytes, libc::MADV_DONTNEED) };
}

/// Gives address space back.
///
/// # Safety
/// What [`map`] has returned for so many bytes, in which nothing lives.
pub(crate) unsafe fn unmap(at: usize, bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(at as *mut _, bytes) };
}

/// The native stack of the running thread, as the system knows it: lowest address (as far as it may grow) and
/// end.
pub(crate) fn bounds() -> (usize, usize) {
    if let Some(found) = of_main_thread() {
        return found;
    }
    // SAFETY: the attributes are initialised by the first call and destroyed after their last use.
    unsafe {
        let mut attr: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &mut attr) != 0 {
            let here = 0usize;
            let end = &raw const here as usize;
            return (end - (1 << 20), end);
        }
        let (mut low, mut size) = (null_mut(), 0);
        libc::pthread_attr_getstack(&attr, &mut low, &mut size);
        libc::pthread_attr_destroy(&mut attr);
        let size: usize = size;
        let end = low as usize + size;
        (end - size.min(MOST_STACK), end)
    }
}

/// The stack of the main thread, if that is the one that runs, and where it ends can be told without
/// `/proc/self/maps`, which the C library reads for that: thirty microseconds of each start.
fn of_main_thread() -> Option<(usize, usize)> {
    // SAFETY: these calls only ask.
    if unsafe { libc::syscall(libc::SYS_gettid) != libc::c_long::from(libc::getpid()) } {
        return None;
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call writes a limit to where there is room for one.
    if unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } != 0
        || limit.rlim_cur == libc::RLIM_INFINITY
    {
        return None;
    }
    let (size, end) = (usize::try_from(limit.rlim_cur).ok()?, end_of_main_thread()?);
    let here = &raw const limit as usize;
    let low = end.checked_sub(size)?;
    (low..end).contains(&here).then(|| (end - size.min(MOST_STACK), end))
}

/// Where the main thread's stack ends: the kernel puts the name of the executable there, with a word behind
/// it, before all else. `None` if no mapping ends there after all.
fn end_of_main_thread() -> Option<usize> {
    // SAFETY: asks for an entry of a list that the process has been given.
    let name = unsafe { libc::getauxval(libc::AT_EXECFN) } as *const libc::c_char;
    if name.is_null() {
        return None;
    }
    // SAFETY: the entry is the address of a text that ends in a zero.
    let length = unsafe { std::ffi::CStr::from_ptr(name) }.count_bytes();
    // SAFETY: as above.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    let end = (name as usize + length + 1 + size_of::<usize>()).next_multiple_of(page);
    let is_mapped = |at: usize| {
        let mut resident = 0;
        // SAFETY: the call writes a byte for the page, and fails for one that is not mapped.
        unsafe { libc::mincore(at as *mut libc::c_void, page, &mut resident) == 0 }
    };
    (is_mapped(end - page) && !is_mapped(end)).then_some(end)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_main_stack_ends_where_the_kernel_says() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("there are maps");
        let stack = maps.lines().find(|l| l.ends_with("[stack]")).expect("there is a stack");
        let end = stack.split(['-', ' ']).nth(1).expect("a range has an end");
        let end = usize::from_str_radix(end, 16).expect("a number");
        assert_eq!(super::end_of_main_thread(), Some(end));
    }
}
