//! `require "perilune.tty"`: what a program has to know of its terminal, and raw mode.
//!
//! # Raw mode ends with the program
//! A terminal that is left raw is of no use to whoever gets it next. So what it was is kept where everybody
//! finds it ([`KEPT`]): the mode's object restores it when it is closed or collected, at the exit of the
//! process it is restored however that comes about, and so it is by the signals that end the process
//! ([`signal::ENDING`]), unless the program listens to them. Nothing can be done about SIGKILL.
//!
//! Of one terminal at a time: who asks for the same one again has a part of the same mode, which ends with
//! the last part.

use crate::failure::Failure;
use crate::options;
use crate::sys::signal;
use crate::sys::terminal::{self, AtomicModes, Modes};
use parking_lot::Mutex;
use perilune_domain::objects::fill;
use perilune_domain::outside;
use perilune_domain::surplus::{self, Limit};
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Value, Vm};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Once};

/// The module.
pub static MODULE: Native = Native::leaf("perilune.tty", |vm| {
    outside::enter(vm);
    let module = vm.new_table(0, 3)?;
    vm.push(module.into());
    vm.register(module, &[&IS_TERMINAL, &SIZE, &RAW])?;
    vm.ret(module)
});

/// What the terminal was, for whoever restores it, signal handlers too.
struct Kept {
    /// The other fields are valid.
    is_raw: AtomicBool,
    fd: AtomicI32,
    was: AtomicModes,
}

static KEPT: Kept = Kept { is_raw: AtomicBool::new(false), fd: AtomicI32::new(-1), was: AtomicModes::new() };

impl Kept {
    fn set(&self, fd: i32, was: &Modes) {
        self.was.store(was);
        self.fd.store(fd, Ordering::Relaxed);
        self.is_raw.store(true, Ordering::Release);
    }

    fn get(&self) -> Option<(i32, Modes)> {
        let is_raw = self.is_raw.load(Ordering::Acquire);
        is_raw.then(|| (self.fd.load(Ordering::Relaxed), self.was.load()))
    }
}

/// Restores the terminal if it is raw. For a process that is about to end; async-signal-safe.
pub fn restore_terminal() {
    // The descriptor is open while the terminal is raw.
    if let Some((fd, was)) = KEPT.get() {
        was.set_now(fd);
    }
}

extern "C" fn at_exit() {
    restore_terminal();
}

/// Restores the terminal, and does what the signal does without a handler.
extern "C" fn on_ending(signal: i32) {
    restore_terminal();
    signal::do_default(signal);
}

/// Sees to it that the terminal is restored at the process's end. What is refused is left to the mode's
/// object.
fn watch_the_end() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| terminal::at_exit(at_exit));
    // SIGINT is the command's, which calls `restore_terminal`.
    for signal in signal::ENDING {
        signal::catch_if_default(signal, on_ending);
    }
}

/// The mode, as long as anybody has a part of it.
struct Mode {
    fd: OwnedFd,
    device: u64,
    was: Modes,
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
                let set = now.was.set(&now.fd);
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

/// Makes a terminal raw. `signals`: its keys for signals still send them.
fn begin(fd: OwnedFd, signals: bool) -> Result<Arc<Raw>, Failure> {
    let device = rustix::fs::fstat(&fd)?.st_rdev;
    let now = Modes::of(&fd)?;
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
    let to = now.raw(signals);
    let set = mode.as_ref().map_or(Ok(()), |mode| to.set(&mode.fd));
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
    let is = with_descriptor(vm, 0, terminal::is_one)?;
    vm.ret(is == Ok(true))
});

/// `tty.size([file])`: columns and lines.
static SIZE: Native = Native::leaf("size", |vm| {
    surplus::none_behind(vm, 1, Limit::Own)?;
    let size = with_descriptor(vm, 1, terminal::size)?;
    match size.and_then(|size| size) {
        Ok((columns, lines)) => {
            vm.push(Value::int(i64::from(columns)));
            vm.push(Value::int(i64::from(lines)));
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
    let ours = with_descriptor(vm, 0, terminal::duplicate)?;
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
