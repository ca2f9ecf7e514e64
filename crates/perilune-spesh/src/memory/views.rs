//! The same pages, mapped twice: to be written, and to be executed.
//!
//! Anonymous shared memory is mapped once, and `mremap` with an old size of 0 makes the second mapping of the
//! same pages. The alternative, a `memfd_create` file mapped twice, takes two steps more, a descriptor for a
//! moment (which may be out of reach, or be inherited by a program that another thread starts just then), and
//! hides from `perf` what it shows: addresses in a mapping of `/memfd:name` are looked up in a file of that
//! name instead of in the process's perf map, while `/dev/zero`, as shared anonymous memory is called there,
//! counts as anonymous.
//!
//! The executable view becomes executable by `mprotect`, which is where systems that allow no new code
//! (SELinux without `execmem`, `MemoryDenyWriteExecute`, `PR_SET_MDWE`) refuse. Mapping it executable from
//! the start would get past some of them; whoever sets them up means to have no code made at run time, and is
//! heard.

use crate::fork::{Lineage, Watched};
use crate::sys::memory::{PAGE, Pages, Reserve};
use crate::target;
use perilune_heap::space;
use std::fmt;
use std::io;
use std::mem::ManuallyDrop;

/// Which step the system refused in mapping memory for code, and why. Everything is interpreted.
#[derive(Debug)]
pub struct Refused {
    step: &'static str,
    reason: io::Error,
}

impl Refused {
    fn at(step: &'static str) -> impl FnOnce(io::Error) -> Refused {
        move |reason| Refused { step, reason }
    }

    /// What the system said.
    pub fn reason(&self) -> &io::Error {
        &self.reason
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the system refuses memory for machine code ({}: {})", self.step, self.reason)
    }
}

impl std::error::Error for Refused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.reason)
    }
}

/// Both views of a region. Unmapped when dropped.
#[derive(Debug)]
pub struct Views {
    writable: Mapping,
    executable: Mapping,
    watched: Watched,
}

#[derive(Debug)]
struct Mapping {
    pages: ManuallyDrop<Pages>,
    lineage: Lineage,
}

impl Mapping {
    fn new(pages: Pages) -> Mapping {
        Mapping { pages: ManuallyDrop::new(pages), lineage: Lineage::current() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // A child does not have the writable view, and something else may lie there.
        if !self.lineage.is_inherited() {
            // SAFETY: dropped here only. Whoever drops a mapping has no address in it in use (`Code` keeps
            // the region alive).
            unsafe { ManuallyDrop::drop(&mut self.pages) };
        }
    }
}

impl Views {
    /// Maps `len` bytes (a multiple of the page size) twice.
    pub fn map(len: usize) -> Result<Views, Refused> {
        let both = || {
            let writable = Mapping::new(Pages::shared(len, Reserve::AsTouched).map_err(Refused::at("mmap"))?);
            let executable = Mapping::new(writable.pages.again().map_err(Refused::at("mremap"))?);
            Ok((writable, executable))
        };
        let (writable, executable) = space::claim(2 * len, || Some(both()))
            .unwrap_or_else(|| Err(Refused::at("mmap")(io::ErrorKind::OutOfMemory.into())))?;
        executable.pages.make_executable().map_err(Refused::at("mprotect"))?;
        writable.pages.keep_from_children().map_err(Refused::at("madvise"))?;
        let watched = Watched::new(executable.pages.address()).map_err(Refused::at("preparing for forks"))?;
        Ok(Views { writable, executable, watched })
    }

    /// The address of the executable view.
    pub fn executable(&self) -> usize {
        self.executable.pages.address()
    }

    /// The address of the writable view.
    #[cfg(test)]
    pub fn writable(&self) -> usize {
        self.writable.pages.address()
    }

    /// Bytes of each view.
    pub fn len(&self) -> usize {
        self.executable.pages.len()
    }

    /// Says that the first `bytes` hold code from now on.
    pub fn set_used(&self, bytes: usize) {
        self.watched.set_used(bytes.next_multiple_of(PAGE));
    }

    /// Gives the memory of the whole pages in `range` back to the system, and says how many bytes these have.
    /// They are zeros afterwards.
    ///
    /// # Safety
    /// As for [`write`](Views::write).
    pub unsafe fn discard(&self, range: std::ops::Range<usize>) -> usize {
        debug_assert!(range.end <= self.len() && !self.writable.lineage.is_inherited());
        let (start, end) = (range.start.next_multiple_of(PAGE), range.end / PAGE * PAGE);
        let len = end.saturating_sub(start);
        // SAFETY: pages of a mapping of ours that the caller owns.
        if len > 0 && unsafe { self.writable.pages.discard(start..end) } { len } else { 0 }
    }

    /// Writes `bytes` at `offset` and fills up with traps to `len` bytes.
    ///
    /// # Safety
    /// The `len` bytes at `offset` belong to the caller, lie in the region, and are executed by nobody. The
    /// process is the one that made the views.
    pub unsafe fn write(&self, offset: usize, bytes: &[u8], len: usize) {
        debug_assert!(
            bytes.len() <= len && offset + len <= self.len() && !self.writable.lineage.is_inherited()
        );
        let at = (self.writable.pages.address() + offset) as *mut u8;
        // SAFETY: the caller owns the range, which is mapped for writing.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
            std::ptr::write_bytes(at.add(bytes.len()), target::TRAP, len - bytes.len());
        }
    }
}
