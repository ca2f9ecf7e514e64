//! What is Linux: all that this crate asks of the system beyond the language's library. A test
//! (`perilune-test/tests/sys.rs`) finds calls that stand elsewhere.

use perf_event_open_sys as perf;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// The number of the user whose rights the process has.
pub(crate) fn user_id() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() }
}

/// Whether a process that this user may send signals to has this number.
pub(crate) fn process_exists(pid: u32) -> bool {
    // SAFETY: asks whether the process exists; 0 would be ourselves.
    pid != 0 && unsafe { libc::kill(pid as i32, 0) == 0 }
}

/// Sends a signal with a word.
///
/// # Errors
/// There is no such process ([`is_foreign`]: it belongs to somebody else).
pub(crate) fn send(pid: u32, signal: i32, word: usize) -> io::Result<()> {
    let value = libc::sigval { sival_ptr: word as *mut libc::c_void };
    // SAFETY: sends a signal that is ignored by whoever does not expect it.
    match unsafe { libc::sigqueue(pid as i32, signal, value) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether an error says that something belongs to another user.
pub(crate) fn is_foreign(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::EPERM)
}

/// Whether an error says that a device, or processor, is not there.
pub(crate) fn is_absent(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::ENODEV)
}

/// The signals that a process has handlers for: a bit for each.
///
/// # Errors
/// There is no such process.
pub(crate) fn caught_signals(pid: u32) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let mask = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).unwrap_or("0");
    Ok(u64::from_str_radix(mask.trim(), 16).unwrap_or(0))
}

/// A process's name, as `ps` shows it; empty if there is none.
pub(crate) fn name_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// The threads of a process.
pub(crate) fn threads(pid: u32) -> Vec<u32> {
    let Ok(dir) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    dir.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Nanoseconds that a thread has run, and been ready without running.
pub(crate) fn schedstat(pid: u32, tid: u32) -> Option<(u64, u64)> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).ok()?;
    let mut words = text.split_ascii_whitespace().map(|w| w.parse().ok());
    Some((words.next()??, words.next()??))
}

/// How many processors the machine may have.
pub(crate) fn processors() -> i32 {
    // SAFETY: asks for a number.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1) as i32
}

/// A ring that the kernel fills with context switches.
pub(crate) struct SwitchRing {
    _event: OwnedFd,
    /// A page that describes the ring, then the ring.
    pub base: *mut u8,
    /// Of the ring.
    pub bytes: usize,
}

// SAFETY: the mapping is this structure's, and used by whoever has it.
unsafe impl Send for SwitchRing {}

impl Drop for SwitchRing {
    fn drop(&mut self) {
        // SAFETY: mapped by `open`.
        unsafe { libc::munmap(self.base.cast(), self.bytes + PAGE) };
    }
}

impl SwitchRing {
    /// Asks for the context switches of a thread, or of a processor (-1: of none).
    ///
    /// # Errors
    /// The kernel refuses ([`is_absent`]: the processor is switched off).
    pub fn open(tid: i32, cpu: i32, pages: usize) -> io::Result<SwitchRing> {
        let mut attr = perf::bindings::perf_event_attr::default();
        attr.type_ = perf::bindings::PERF_TYPE_SOFTWARE;
        attr.size = size_of::<perf::bindings::perf_event_attr>() as u32;
        attr.config = perf::bindings::PERF_COUNT_SW_DUMMY as u64;
        attr.sample_type = (perf::bindings::PERF_SAMPLE_TID
            | perf::bindings::PERF_SAMPLE_TIME
            | perf::bindings::PERF_SAMPLE_CPU) as u64;
        attr.clockid = libc::CLOCK_MONOTONIC;
        attr.set_context_switch(1);
        attr.set_sample_id_all(1);
        attr.set_use_clockid(1);
        attr.set_exclude_kernel(1);
        attr.set_exclude_hv(1);
        let flags = perf::bindings::PERF_FLAG_FD_CLOEXEC as libc::c_ulong;
        // SAFETY: a complete structure; the other arguments are numbers.
        let fd = unsafe { perf::perf_event_open(&mut attr, tid, cpu, -1, flags) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        let bytes = pages * PAGE;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a page of the kernel's and a ring of a power of two of pages, at an address that it
        // chooses.
        let base = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes + PAGE, prot, libc::MAP_SHARED, event.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(SwitchRing { _event: event, base: base.cast(), bytes })
    }
}
