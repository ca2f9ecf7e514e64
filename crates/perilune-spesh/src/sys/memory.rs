//! Pages.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// When the system sees to it that there is memory for a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reserve {
    /// At once.
    Now,
    /// When it is touched.
    AsTouched,
}

/// A mapping: addresses that nothing else has, until it is dropped. What they hold is reached by raw pointers
/// only; whoever uses one keeps this.
#[derive(Debug)]
pub struct Pages {
    at: usize,
    len: usize,
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: a mapping of ours, and of nobody else any more.
        unsafe { unmap(self.at, self.len) };
    }
}

impl Pages {
    /// Memory of `len` bytes (a multiple of [`PAGE`]), zeros, which children of the process share.
    ///
    /// # Errors
    /// There is none.
    pub fn shared(len: usize, reserve: Reserve) -> io::Result<Pages> {
        let unreserved = if reserve == Reserve::AsTouched { libc::MAP_NORESERVE } else { 0 };
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | unreserved;
        map(len, libc::PROT_READ | libc::PROT_WRITE, flags, -1)
    }

    /// The first page of a file, to be executed and nothing else.
    ///
    /// # Errors
    /// The system refuses.
    pub fn executable_of(file: &File) -> io::Result<Pages> {
        map(PAGE, libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE, file.as_raw_fd())
    }

    /// The same memory, at a second address. For what is [`shared`](Pages::shared).
    ///
    /// # Errors
    /// The system refuses.
    pub fn again(&self) -> io::Result<Pages> {
        // SAFETY: with an old size of 0 the mapping stays, and its pages are mapped a second time, elsewhere.
        let second = unsafe { libc::mremap(self.at as *mut _, 0, self.len, libc::MREMAP_MAYMOVE) };
        mapped(second, self.len)
    }

    /// They can be read and executed from now on, and not be written.
    ///
    /// # Errors
    /// The system allows no new code.
    pub fn make_executable(&self) -> io::Result<()> {
        // SAFETY: a mapping of ours; a pointer for writing is not dereferenced behind this.
        done(unsafe { libc::mprotect(self.at as *mut _, self.len, libc::PROT_READ | libc::PROT_EXEC) })
    }

    /// Children of the process do not have them: nothing is mapped at their addresses there.
    ///
    /// # Errors
    /// The system refuses.
    pub fn keep_from_children(&self) -> io::Result<()> {
        // SAFETY: advice about a mapping of ours.
        done(unsafe { libc::madvise(self.at as *mut _, self.len, libc::MADV_DONTFORK) })
    }

    /// Gives the memory of a part back, for all its addresses; it is zeros afterwards. False: it stays.
    ///
    /// # Safety
    /// The part lies within, begins and ends with a page, is [`shared`](Pages::shared) and mapped in this
    /// process. Nothing lives in it.
    pub unsafe fn discard(&self, part: Range<usize>) -> bool {
        debug_assert!(part.end <= self.len && (part.start | part.end).is_multiple_of(PAGE));
        // SAFETY: the caller's promise.
        unsafe { libc::madvise((self.at + part.start) as *mut _, part.len(), libc::MADV_REMOVE) == 0 }
    }

    /// Where they begin.
    #[inline]
    pub fn address(&self) -> usize {
        self.at
    }

    /// How many bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Keeps them for good: where they begin.
    pub fn leak(self) -> usize {
        ManuallyDrop::new(self).at
    }
}

fn map(len: usize, protection: i32, flags: i32, fd: i32) -> io::Result<Pages> {
    // SAFETY: a fresh mapping at an address of the kernel's choice aliases nothing.
    mapped(unsafe { libc::mmap(null_mut(), len, protection, flags, fd, 0) }, len)
}

fn mapped(at: *mut libc::c_void, len: usize) -> io::Result<Pages> {
    if at == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Pages { at: at as usize, len }) }
}

fn done(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives addresses back. Async-signal-safe.
///
/// # Safety
/// They were mapped by this process, or are inherited from the one that did; nobody uses one any more, nor
/// drops the [`Pages`] that they were.
pub unsafe fn unmap(at: usize, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::munmap(at as *mut _, len) };
}

/// Puts a private, executable copy of `len` bytes in their own place. Whether the system had memory for that.
/// Async-signal-safe.
///
/// # Safety
/// The range is mapped and readable, and no other thread runs.
pub unsafe fn make_private(base: usize, len: usize) -> bool {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping; then a copy into it from a range that the caller vouches for. `mremap` puts it
    // over that range in one step, with the same bytes, so that a return into it finds what was there.
    unsafe {
        let copy = libc::mmap(null_mut(), len, protection, flags, -1, 0);
        if copy == libc::MAP_FAILED {
            return false;
        }
        std::ptr::copy_nonoverlapping(base as *const u8, copy.cast::<u8>(), len);
        let fixed = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        libc::mprotect(copy, len, libc::PROT_READ | libc::PROT_EXEC) == 0
            && libc::mremap(copy, len, len, fixed, base as *mut libc::c_void) != libc::MAP_FAILED
    }
}
