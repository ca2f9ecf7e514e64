//! When snapshots are taken: on a tool's request, at the end of a program.
//!
//! # Requests
//! A tool asks through the header of the event file (`perilune_trace::attach`), and whoever runs a domain learns of it by the interrupt `TRACE`, at its next call or loop iteration.
//! Each domain writes a file of its own beside the meeting place of tools, [`path_for`]. A program without domains answers the request itself; otherwise
//! the domain room does, when all domains have written theirs or will not.

use crate::Vm;
use perilune_trace::attach::{self, Request};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Where the domain with this number writes its snapshot for request `request`.
pub fn path_for(request: u32, domain: u32) -> PathBuf {
    attach::path_for(std::process::id()).with_extension(format!("heap-{request}-{domain}"))
}

/// When the process began, in the kernel's units.
pub(super) fn process_start() -> u64 {
    static START: OnceLock<u64> = OnceLock::new();
    *START.get_or_init(|| {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The name, in parentheses, may contain anything.
        let rest = stat.rsplit(')').next().unwrap_or_default();
        rest.split_whitespace().nth(19).and_then(|n| n.parse().ok()).unwrap_or(0)
    })
}

static AT_EXIT: Mutex<Option<PathBuf>> = Mutex::new(None);

/// The main program writes a snapshot to this file when it ends.
pub fn set_file_at_exit(path: &Path) {
    *AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner) = Some(path.to_owned());
}

/// Where a snapshot is to be written at the end, the first time that this is asked.
pub fn file_at_exit() -> Option<PathBuf> {
    AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl Vm {
    /// The program is about to end: writes the snapshot that was asked for. Finalisers have not been called.
    pub fn write_snapshot_at_exit(&mut self) {
        if self.domain_number() != 1 {
            return;
        }
        let Some(path) = file_at_exit() else { return };
        if perilune_trace::emit::alloc_interval() != 0 {
            // The sampler of allocation is to tell what of its samples is alive now.
            self.with_client(|heap, client| heap.collect_full(client));
        }
        if let Err(e) = self.write_heap_snapshot(&path) {
            eprintln!("perilune: {}: {e}", path.display());
        }
    }

    /// A tool may have asked for something: does it, once. By the owner.
    pub fn serve_tools(&mut self) {
        if self.lua.interrupt.load(std::sync::atomic::Ordering::Relaxed) & crate::interrupt::TRACE != 0 {
            self.lua.interrupt.fetch_and(!crate::interrupt::TRACE, std::sync::atomic::Ordering::Relaxed);
            self.follow_switches();
            self.report_presence();
            self.answer_request();
        }
    }

    /// The switches of the trace have changed, or a tool has asked for something.
    pub(crate) fn answer_request(&mut self) {
        let Some((n, kind)) = attach::pending_request() else { return };
        if kind != Request::Heap as u32 || !self.is_new_request(n) {
            return;
        }
        let path = path_for(n, self.domain_number());
        if let Err(e) = self.write_heap_snapshot(&path) {
            // There is nobody else to tell.
            let _ = std::fs::write(path.with_extension(format!("heap-{n}-error")), e.to_string());
        }
        if self.host().is_none() {
            attach::answer(n);
        }
    }
}
