//! When snapshots are taken: on a tool's request, at the end of a program. And what else a tool may ask for:
//! a list of fibers.
//!
//! # Requests
//! A tool asks through the header of the event file (`perilune_trace::attach`), and whoever runs a domain
//! learns of it by the interrupt `TRACE`, at its next call or loop iteration. Each domain writes a file of
//! its own beside the meeting place of tools, [`path_for`]. A program without domains answers the request
//! itself; otherwise the domain room does, when all domains have written theirs or will not.

use crate::Vm;
use crate::interp::frame_closure;
use crate::object::LuaClosure;
use crate::sys::process;
use crate::value::{Gc, Value};
use perilune_trace::attach::{self, Request};
use perilune_trace::fibers::{FiberState, Line};
use perilune_trace::{FiberRef, names};
use std::io::Write;
use std::num::NonZeroUsize;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Where the domain with this number writes what request `request` asks for.
pub fn path_for(kind: Request, request: u32, domain: u32) -> PathBuf {
    attach::path_for(std::process::id()).with_extension(format!("{}{domain}", kind.prefix(request)))
}

/// For how long the process has existed, in nanoseconds; 0 if the system does not say.
pub fn age_of_process() -> u64 {
    process::age()
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
    /// The program is this function: the snapshot of the end, if one was asked for, is taken when it returns,
    /// while its variables are there.
    pub fn snapshot_when_over(&mut self, f: Gc<LuaClosure>) {
        let asked = AT_EXIT.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        // SAFETY: a function has its instance for as long as it lives.
        let own = unsafe { (*(*f.ptr()).proto).proto };
        self.lua.seen.last = NonZeroUsize::new(own as usize).filter(|_| asked);
    }

    /// The frame at `base` returns in the general way, as one that a native has called does.
    ///
    /// # Safety
    /// It is the running one, that of a function of Lua, with all that it has in its slots.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn ends(&mut self, base: *mut Value) {
        // SAFETY: the caller's promise.
        let own = unsafe { (*(*frame_closure(base)).proto).proto };
        if self.lua.seen.last.is_some_and(|last| last.get() == own as usize) {
            self.lua.seen.last = None;
            self.write_snapshot_at_exit();
        }
    }

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

    /// Writes the list of this domain's fibers to a new file that only this user can read.
    fn write_fibers(&mut self, path: &Path) -> std::io::Result<()> {
        let mut text = String::new();
        let (number, name) = (self.domain_number(), self.domain_name().to_owned());
        Line::Domain { number, name }.write(&mut text);
        match self.host().cloned() {
            Some(host) => host.list_fibers(self).iter().for_each(|line| line.write(&mut text)),
            None => {
                let line = Line::Fiber {
                    fiber: FiberRef::root(number),
                    state: FiberState::Runs,
                    label: String::new(),
                    function: 0,
                    stack: self.event_stack(),
                    age_ns: age_of_process(),
                    wait: None,
                };
                line.write(&mut text);
            }
        }
        // The session may be new, and nobody may have emitted anything in it.
        names::bring_up_to_date();
        // Under another name first: who waits for the file finds a whole one.
        let mut part = path.as_os_str().to_owned();
        part.push(".part");
        let part = PathBuf::from(part);
        let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&part)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(&part, path)
    }

    /// The switches of the trace have changed, or a tool or another domain has asked for something.
    pub(crate) fn answer_request(&mut self) {
        if let Some(host) = self.host().cloned() {
            host.answer_questions(self);
        }
        let Some((n, kind)) = attach::pending_request() else { return };
        if !self.is_new_request(n) {
            return;
        }
        let path = path_for(kind, n, self.domain_number());
        let written = match kind {
            Request::Heap => self.write_heap_snapshot(&path),
            Request::Fibers => self.write_fibers(&path),
        };
        if let Err(e) = written {
            // There is nobody else to tell.
            let _ = std::fs::write(path.with_extension(format!("{}error", kind.prefix(n))), e.to_string());
        }
        if self.host().is_none() {
            attach::answer(n);
        }
    }
}
