//! `require "perilune.tty"`: what a program has to know of its terminal, and raw mode.
//!
//! # Raw mode ends with the program
//! A terminal that is left raw is of no use to whoever gets it next. So what it was is kept where everybody
//! finds it ([`KEPT`]): the mode's object restores it when it is closed or collected, at the exit of the
//! process it is restored however that comes about, and so it is by the signals that end the process
//! ([`ENDING`]), unless the program listens to them. Nothing can be done about SIGKILL.
//!
//! Of one terminal at a time: who asks for the same one again has a part of the same mode, which ends with
//! the last part.

use crate::failure::Failure;
use crate::options;
use parking_lot::Mutex;
use perilune_domain::objects::fill;
use perilune_domain::outside;
use perilune_domain::surplus::{self, Limit};
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Once};

/// The module.
pub static MODULE: Native = Native::leaf("perilune.tty", |vm| {
    outside::enter(vm);
    let module = vm.new_table(0, 3)?;
    vm.push(module.into());
    vm.register(module, &[&IS_TERMINAL, &SIZE, &RAW])?;
    vm.ret(module)
});

/// Signals that end a process that does nothing about them. SIGINT is the command's, which calls
/// [`restore_terminal`].
const ENDING: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// What the terminal was, for whoever restores it, signal handlers too: a `termios` without its padding.
struct Kept {
    /// The other fields are valid.
    is_raw: AtomicBool,
    fd: AtomicI32,
    /// Modes for input, output, control and lines, and the two speeds.
    words: [AtomicU32; 6],
    line: AtomicU8,
    characters: [AtomicU8; libc::NCCS],
}

static KEPT: Kept = Kept {
    is_raw: AtomicBool::new(false),
    fd: AtomicI32::new(-1),
    words: [const { AtomicU32::new(0) }; 6],
    line: AtomicU8::new(0),
    characters: [const { AtomicU8::new(0) }; libc::NCCS],
};

impl Kept {
    fn set(&self, fd: i32, was: &libc::termios) {
        let words = [was.c_iflag, was.c_oflag, was.c_cflag, was.c_lflag, was.c_ispeed, was.c_ospeed];
        for (kept, word) in self.words.iter().zip(words) {
            kept.store(word, Ordering::Relaxed);
        }
        for (kept, character) in self.characters.iter().zip(was.c_cc) {
            kept.store(character, Ordering::Relaxed);
        }
        self.line.store(was.c_line, Ordering::Relaxed);
        self.fd.store(fd, Ordering::Relaxed);
        self.is_raw.store(true, Ordering::Release);
    }

    fn get(&self) -> Option<(i32, libc::termios)> {
        if !self.is_raw.load(Ordering::Acquire) {
            return None;
        }
        let [c_iflag, c_oflag, c_cflag, c_lflag, c_ispeed, c_ospeed] =
            std::array::from_fn(|n| self.words[n].load(Ordering::Relaxed));
        let c_cc = std::array::from_fn(|n| self.characters[n].load(Ordering::Relaxed));
        let c_line = self.line.load(Ordering::Relaxed);
        let was = libc::termios { c_iflag, c_oflag, c_cflag, c_lflag, c_line, c_cc, c_ispeed, c_ospeed };
        Some((self.fd.load(Ordering::Relaxed), was))
    }
}

/// Restores the terminal if it is raw. For a process that is about to end; async-signal-safe.
pub fn restore_terminal() {
    if let Some((fd, was)) = KEPT.get() {
        // SAFETY: a system call with a valid `termios`; the descriptor is open while the terminal is raw.
        unsafe { libc::tcsetattr(fd, libc::TCSANOW, &was) };
    }
}

extern "C" fn at_exit() {
    restore_terminal();
}

/// Restores the terminal, and does what the signal does without a handler.
extern "C" fn on_ending(signal: libc::c_int) {
    restore_terminal();
    // SAFETY: both calls are async-signal-safe. The signal is blocked here, and happens when this returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Sees to it that the terminal is restored at the process's end.
fn watch_the_end() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a plain function that does not unwind. A refusal leaves it to the mode's object.
        let _ = unsafe { libc::atexit(at_exit) };
    });
    for signal in ENDING {
        // SAFETY: zero is a valid `sigaction`; the handler is async-signal-safe.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            if libc::sigaction(signal, std::ptr::null(), &mut now) != 0 || now.sa_sigaction != libc::SIG_DFL {
                continue;
            }
            now.sa_sigaction = on_ending as extern "C" fn(libc::c_int) as libc::sighandler_t;
            libc::sigaction(signal, &now, std::ptr::null_mut());
        }
    }
}

/// The mode, as long as anybody has a part of it.
struct Mode {
    fd: OwnedFd,
    device: u64,
    was: libc::termios,
    parts: usize,
}

static MODE: Mutex<Option<Mode>> = Mutex::new(None);

/// A part of the raw mode of a terminal.
struct Raw(AtomicBool);

/// The kind of these.
static RAW_MODE: SharedKind = SharedKind::new("raw mode", open);

impl Raw {
    /// False: that had been done.
    fn end(&self) -> Result<bool, Errno> {
        if self.0.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        let mut mode = MODE.lock();
        if let Some(now) = mode.as_mut() {
            now.parts -= 1;
            if now.parts == 0 {
                let set = set(&now.fd, &now.was);
                KEPT.is_raw.store(false, Ordering::Release);
                *mode = None;
                set?;
            }
        }
        Ok(true)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Nobody is left to hear about an error.
        let _ = self.end();
    }
}

impl SharedObject for Raw {
    fn kind(&self) -> &'static SharedKind {
        &RAW_MODE
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(vm, mt, &[&RESTORE], &[("__close", &AT_SCOPE_END)])
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

fn get(fd: &OwnedFd) -> Result<libc::termios, Errno> {
    let mut now = MaybeUninit::zeroed();
    // SAFETY: zero is a valid `termios`, and a valid place for one.
    unsafe {
        if libc::tcgetattr(fd.as_raw_fd(), now.as_mut_ptr()) != 0 {
            return Err(last_error());
        }
        Ok(now.assume_init())
    }
}

fn set(fd: &OwnedFd, to: &libc::termios) -> Result<(), Errno> {
    // SAFETY: a valid `termios`. What has been written goes first, and nothing that was typed is lost.
    match unsafe { libc::tcsetattr(fd.as_raw_fd(), libc::TCSADRAIN, to) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// Makes a terminal raw. `signals`: its keys for signals still send them.
fn begin(fd: OwnedFd, signals: bool) -> Result<Arc<Raw>, Failure> {
    let device = rustix::fs::fstat(&fd)?.st_rdev;
    let now = get(&fd)?;
    let mut mode = MODE.lock();
    match mode.as_mut() {
        Some(other) if other.device != device => {
            return Err(Failure::Busy("another terminal is raw".into()));
        }
        Some(same) => same.parts += 1,
        None => {
            KEPT.set(fd.as_raw_fd(), &now);
            *mode = Some(Mode { fd, device, was: now, parts: 1 });
        }
    }
    let raw = Arc::new(Raw(AtomicBool::new(false)));
    watch_the_end();
    let mut to = now;
    // SAFETY: changes a valid `termios`.
    unsafe { libc::cfmakeraw(&mut to) };
    if signals {
        to.c_lflag |= libc::ISIG;
    }
    let set = mode.as_ref().map_or(Ok(()), |mode| set(&mode.fd, &to));
    drop(mode);
    set?;
    Ok(raw)
}

/// Calls `f` with the descriptor of the file that is argument 1, or of `default`.
fn with_descriptor<R>(vm: &mut Vm, default: i32, f: impl FnOnce(i32) -> R) -> LuaResult<Result<R, Errno>> {
    if vm.arg_is_none_or_nil(1) {
        return Ok(Ok(f(default)));
    }
    perilune_stdlib::io::descriptor_of(vm, 1, f)
}

/// `tty.is_terminal([file])`
static IS_TERMINAL: Native = Native::leaf("is_terminal", |vm| {
    surplus::none_behind(vm, 1, Limit::Own)?;
    // SAFETY: a system call on a number, which need not be an open descriptor.
    let is = with_descriptor(vm, 0, |fd| unsafe { libc::isatty(fd) } == 1)?;
    vm.ret(is == Ok(true))
});

/// `tty.size([file])`: columns and lines.
static SIZE: Native = Native::leaf("size", |vm| {
    surplus::none_behind(vm, 1, Limit::Own)?;
    let size = with_descriptor(vm, 1, |fd| {
        let mut size = MaybeUninit::<libc::winsize>::zeroed();
        // SAFETY: zero is a valid `winsize`, and a valid place for one.
        match unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, size.as_mut_ptr()) } {
            // SAFETY: the call has filled it.
            0 => Ok(unsafe { size.assume_init() }),
            _ => Err(last_error()),
        }
    })?;
    match size.and_then(|size| size) {
        Ok(size) => {
            vm.push(Value::int(i64::from(size.ws_col)));
            vm.push(Value::int(i64::from(size.ws_row)));
            Ok(2)
        }
        Err(error) => Failure::from(error).of(|| "no size of a terminal".into()).ret(vm),
    }
});

/// `tty.raw([file [, {signals=}]])`: an object, with which raw mode ends.
static RAW: Native = Native::leaf("raw", |vm| {
    surplus::none_behind(vm, 2, Limit::Own)?;
    let mut signals = false;
    if !vm.arg_is_none_or_nil(2) {
        let table = vm.check_table(2)?;
        options::check(vm, table, &["signals"])?;
        signals = options::flag(vm, table, "signals")?.unwrap_or(false);
    }
    let ours = with_descriptor(vm, 0, |fd| {
        // SAFETY: the descriptor of a file that is open for the time of this call, or of standard input; if
        // that is closed, the call says so.
        rustix::io::fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(fd) }, 3)
    })?;
    match ours.and_then(|fd| fd).map_err(Failure::from).and_then(|fd| begin(fd, signals)) {
        Ok(raw) => {
            let raw = vm.shared_ref(raw);
            vm.ret(raw)
        }
        Err(failure) => failure.of(|| "no raw mode".into()).ret(vm),
    }
});

/// `raw:restore()`: the terminal is what it was, if nobody else has a part of the mode. True: this has ended
/// it.
static RESTORE: Native = Native::leaf("restore", |vm| {
    let raw: Arc<Raw> = surplus::this(vm, &RAW_MODE, 1, Limit::Own)?;
    match raw.end() {
        Ok(first) => vm.ret(first),
        Err(error) => Failure::from(error).of(|| "the terminal cannot be restored".into()).ret(vm),
    }
});

static AT_SCOPE_END: Native = Native::leaf("close", |vm| {
    let raw: Arc<Raw> = vm.check_shared_arc(1, &RAW_MODE)?;
    let _ = raw.end();
    Ok(0)
});
