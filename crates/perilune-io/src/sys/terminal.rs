//! Terminals. Descriptors are numbers that need not be open: who asks about one that is not is told.

use super::last_error;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// How a terminal treats what is typed and written.
#[derive(Clone, Copy)]
pub struct Modes(libc::termios);

impl Modes {
    /// Those of a terminal.
    ///
    /// # Errors
    /// It is none.
    pub fn of(fd: &OwnedFd) -> Result<Modes, Errno> {
        let mut now = MaybeUninit::zeroed();
        // SAFETY: zero is a valid `termios`, and a valid place for one.
        unsafe {
            if libc::tcgetattr(fd.as_raw_fd(), now.as_mut_ptr()) != 0 {
                return Err(last_error(Errno::IO));
            }
            Ok(Modes(now.assume_init()))
        }
    }

    /// Gives them to a terminal. What has been written goes first, and nothing that was typed is lost.
    ///
    /// # Errors
    /// It is none.
    pub fn set(&self, fd: &OwnedFd) -> Result<(), Errno> {
        // SAFETY: a valid `termios`.
        match unsafe { libc::tcsetattr(fd.as_raw_fd(), libc::TCSADRAIN, &self.0) } {
            0 => Ok(()),
            _ => Err(last_error(Errno::IO)),
        }
    }

    /// Gives them to a terminal at once. Async-signal-safe.
    pub fn set_now(&self, fd: i32) {
        // SAFETY: a system call with a valid `termios`.
        unsafe { libc::tcsetattr(fd, libc::TCSANOW, &self.0) };
    }

    /// Bytes go through as they are. `signals`: keys for signals still send them.
    pub fn raw(&self, signals: bool) -> Modes {
        let mut to = self.0;
        // SAFETY: changes a valid `termios`.
        unsafe { libc::cfmakeraw(&mut to) };
        if signals {
            to.c_lflag |= libc::ISIG;
        }
        Modes(to)
    }
}

/// Modes that signal handlers may read: a `termios` without its padding. Who reads them knows by another way
/// that they have been stored.
pub struct AtomicModes {
    /// Modes for input, output, control and lines, and the two speeds.
    words: [AtomicU32; 6],
    line: AtomicU8,
    characters: [AtomicU8; libc::NCCS],
}

impl AtomicModes {
    pub const fn new() -> AtomicModes {
        AtomicModes {
            words: [const { AtomicU32::new(0) }; 6],
            line: AtomicU8::new(0),
            characters: [const { AtomicU8::new(0) }; libc::NCCS],
        }
    }

    pub fn store(&self, Modes(was): &Modes) {
        let words = [was.c_iflag, was.c_oflag, was.c_cflag, was.c_lflag, was.c_ispeed, was.c_ospeed];
        for (kept, word) in self.words.iter().zip(words) {
            kept.store(word, Ordering::Relaxed);
        }
        for (kept, character) in self.characters.iter().zip(was.c_cc) {
            kept.store(character, Ordering::Relaxed);
        }
        self.line.store(was.c_line, Ordering::Relaxed);
    }

    pub fn load(&self) -> Modes {
        let [c_iflag, c_oflag, c_cflag, c_lflag, c_ispeed, c_ospeed] =
            std::array::from_fn(|n| self.words[n].load(Ordering::Relaxed));
        let c_cc = std::array::from_fn(|n| self.characters[n].load(Ordering::Relaxed));
        let c_line = self.line.load(Ordering::Relaxed);
        Modes(libc::termios { c_iflag, c_oflag, c_cflag, c_lflag, c_line, c_cc, c_ispeed, c_ospeed })
    }
}

/// Whether it is a terminal.
pub fn is_one(fd: i32) -> bool {
    // SAFETY: a system call on a number, which need not be an open descriptor.
    unsafe { libc::isatty(fd) == 1 }
}

/// Columns and lines.
///
/// # Errors
/// It is no terminal.
pub fn size(fd: i32) -> Result<(u16, u16), Errno> {
    let mut size = MaybeUninit::<libc::winsize>::zeroed();
    // SAFETY: zero is a valid `winsize`, and a valid place for one.
    match unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, size.as_mut_ptr()) } {
        0 => {
            // SAFETY: the call has filled it.
            let size = unsafe { size.assume_init() };
            Ok((size.ws_col, size.ws_row))
        }
        _ => Err(last_error(Errno::IO)),
    }
}

/// A descriptor of our own for the same file.
///
/// # Errors
/// It is not open.
pub fn duplicate(fd: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: it is borrowed for one call, which says so if it is not open.
    rustix::io::fcntl_dupfd_cloexec(unsafe { BorrowedFd::borrow_raw(fd) }, 3)
}

/// Has a function called at the process's exit. A refusal leaves what it does undone.
pub fn at_exit(f: extern "C" fn()) {
    // SAFETY: a plain function that does not unwind.
    let _ = unsafe { libc::atexit(f) };
}
