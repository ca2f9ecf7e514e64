//! How a tool turns tracing on in a program that runs.
//!
//! # Protocol
//! 1. The tool makes an event file at [`path_for`]`(pid)`, in a directory that only this user can enter, puts
//!    the switches in its header, and sends the process [`SIGNAL`] with the value [`COOKIE`].
//! 2. The program's signal handler finds the file, checks owner, mode and contents, maps it, and turns the
//!    probes on. This needs no thread and no memory, so it works at once, also while all domains sleep or
//!    compute. Rings are taken and names written by those who have something to write.
//! 3. To change a switch or make a request the tool writes to the header and sends the signal again. To end,
//!    it stores 0 to `enabled` and [`State::Ended`] to `state`, sends the signal, and removes the file.
//!
//! If another session is live the handler marks the offered file as ended, and the tool can say so.
//!
//! The signal is SIGURG, which processes that do not expect it ignore: sending it to the wrong one does no
//! harm. Go's runtime chose it for the same reason.
//!
//! What has to be done by threads themselves (starting a sampler, writing a snapshot of a heap) is passed on
//! by hooks ([`on_change`]).
//!
//! *Rejected.* A thread that listens on a socket: it costs memory and start-up time in every process, for
//! something most never need. A debugger's interface (ptrace): it stops the program, and is forbidden in many
//! places. Files in the working directory.

use crate::emit::{self, Busy};
use crate::layout::State;
use crate::map::Mapping;
use crate::sys::{self, SignalInfo};
use std::ffi::{CStr, c_void};
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// The signal that asks a program to look at its event file.
pub const SIGNAL: i32 = sys::REQUEST;
/// The value that comes with it.
pub const COOKIE: i32 = 0x504c_5452;

/// What a tool may ask for, in `request_kind`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Request {
    /// Every domain writes a snapshot of its heap to files beside the event file.
    Heap = 1,
    /// Every domain writes a list of its fibers to a file beside the event file ([`crate::fibers`]).
    Fibers = 2,
}

impl Request {
    /// The request of this number.
    pub fn from_number(n: u32) -> Option<Request> {
        [Request::Heap, Request::Fibers].into_iter().find(|request| *request as u32 == n)
    }

    /// In the names of files that answer it.
    pub fn word(self) -> &'static str {
        match self {
            Request::Heap => "heap",
            Request::Fibers => "fibers",
        }
    }

    /// What the name of each file begins with that answers request `n` of this kind, beside the event file.
    pub fn prefix(self, n: u32) -> String {
        format!("{}-{n}-", self.word())
    }
}

/// Hooks that have been set.
static HOOKS: [AtomicPtr<()>; 8] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 8];
static HOOK_COUNT: AtomicUsize = AtomicUsize::new(0);
/// Path of this process's event file, with a zero at the end.
static mut PATH: [u8; 256] = [0; 256];
static LISTENING: AtomicBool = AtomicBool::new(false);

/// Where a tool and the program of this number meet. The tool makes the directory.
pub fn path_for(pid: u32) -> PathBuf {
    let base = if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
    let uid = sys::user_id();
    PathBuf::from(format!("{base}/perilune-{uid}/{pid}.events"))
}

/// Has `hook` called whenever a session begins or ends or its switches change, and when a request was made.
/// It may run in a signal handler, on any thread.
pub fn on_change(hook: fn()) {
    let n = HOOK_COUNT.fetch_add(1, Ordering::AcqRel);
    assert!(n < HOOKS.len(), "too many hooks");
    HOOKS[n].store(hook as *mut (), Ordering::Release);
}

pub(crate) fn tell_hooks() {
    for hook in &HOOKS {
        let hook = hook.load(Ordering::Acquire);
        if !hook.is_null() {
            // SAFETY: stored by `on_change` from a function of this type.
            let hook: fn() = unsafe { std::mem::transmute(hook) };
            hook();
        }
    }
}

/// Makes this process answer tools. Once, at its start.
pub fn listen() {
    use std::os::unix::ffi::OsStrExt;
    if LISTENING.swap(true, Ordering::AcqRel) {
        return;
    }
    let path = path_for(std::process::id());
    let bytes = path.as_os_str().as_bytes();
    // SAFETY: written before the handler is there, read by it alone.
    unsafe {
        let to = &raw mut PATH;
        (&mut (*to))[..bytes.len()].copy_from_slice(bytes);
    }
    sys::on_request(on_signal);
}

/// The signals that handlers hold back.
pub use crate::sys::all_but_faults as handlers_alone;

extern "C" fn on_signal(_: i32, info: *mut SignalInfo, _: *mut c_void) {
    // SAFETY: the kernel passes a valid structure.
    if unsafe { sys::queued_word(info) }.is_none_or(|word| word as i32 != COOKIE) {
        return;
    }
    sys::keeping_errno(|| {
        // SAFETY: the path that they look at was there before the handler.
        unsafe {
            if emit::has_session() {
                refuse_offer();
            } else {
                take_offer();
            }
        }
        emit::obey();
        tell_hooks();
    });
}

/// Opens and maps what lies at the meeting place.
unsafe fn open_offer() -> Option<ManuallyDrop<Mapping>> {
    // SAFETY: a path that ends in a zero and does not change, and a mapping that is checked before it is
    // used.
    unsafe {
        let path = CStr::from_ptr((&raw const PATH).cast());
        let (base, bytes) = sys::map_own(path, crate::layout::PAGE)?;
        crate::fault::guard(base, bytes);
        let map = ManuallyDrop::new(Mapping::from_raw(base, bytes));
        if map.is_valid() && map.header().state.load(Ordering::Acquire) == State::Offered as u32 {
            return Some(map);
        }
        discard(map);
        None
    }
}

/// Unmaps a file that is not written to.
unsafe fn discard(map: ManuallyDrop<Mapping>) {
    crate::fault::forget(map.raw().0);
    drop(ManuallyDrop::into_inner(map));
}

unsafe fn take_offer() {
    // SAFETY: a checked mapping, which stays.
    unsafe {
        let Some(map) = open_offer() else { return };
        let (base, bytes) = map.raw();
        if let Err(Busy::Live | Busy::Beginning) = emit::begin(base, bytes) {
            map.header().state.store(State::Ended as u32, Ordering::Release);
            discard(map);
        }
    }
}

/// A session is live. If the file at the meeting place is another one, whoever made it is to know.
unsafe fn refuse_offer() {
    // SAFETY: as `take_offer`.
    unsafe {
        if let Some(map) = open_offer() {
            map.header().pid.store(std::process::id(), Ordering::Relaxed);
            map.header().state.store(State::Ended as u32, Ordering::Release);
            discard(map);
        }
    }
}

/// The request that has not been answered yet: its number and kind.
pub fn pending_request() -> Option<(u32, Request)> {
    let map = emit::mapping()?;
    let h = map.header();
    let n = h.request.load(Ordering::Acquire);
    if n == h.answered.load(Ordering::Acquire) {
        return None;
    }
    Request::from_number(h.request_kind.load(Ordering::Relaxed)).map(|kind| (n, kind))
}

/// Request `n` has been answered.
pub fn answer(n: u32) {
    if let Some(map) = emit::mapping() {
        map.header().answered.store(n, Ordering::Release);
    }
}
