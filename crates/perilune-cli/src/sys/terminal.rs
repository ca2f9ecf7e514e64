//! The terminal that is standard input and output.

use std::mem::zeroed;
use std::os::fd::BorrowedFd;

/// How the terminal treats what is typed and written.
#[derive(Clone, Copy)]
pub struct Modes(libc::termios);

impl Modes {
    /// Those of standard input; `None`: it is no terminal.
    pub fn now() -> Option<Modes> {
        // SAFETY: zero is a valid `termios`, which the call fills in or leaves.
        unsafe {
            let mut now: libc::termios = zeroed();
            (libc::tcgetattr(libc::STDIN_FILENO, &mut now) == 0).then_some(Modes(now))
        }
    }

    /// Keys come as they are pressed, and are not shown.
    pub fn by_key(mut self) -> Modes {
        self.0.c_lflag &= !(libc::ICANON | libc::ECHO);
        self
    }

    /// Standard input has them from now on.
    pub fn set(&self) {
        // SAFETY: a system call with a valid `termios`; standard input is open, or the call fails.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &self.0) };
    }
}

/// A byte of standard input, if one is there.
pub fn key() -> Option<u8> {
    let mut poll = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    let mut key = 0u8;
    // SAFETY: valid local structures; a byte is read only if one is there.
    let read = unsafe {
        libc::poll(&mut poll, 1, 0) > 0 && libc::read(libc::STDIN_FILENO, (&raw mut key).cast(), 1) == 1
    };
    read.then_some(key)
}

/// Columns and rows of standard output; zeros where that is not known.
pub fn size() -> (u16, u16) {
    // SAFETY: zero is a valid `winsize`, which the call fills or leaves.
    unsafe {
        let mut size: libc::winsize = zeroed();
        libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size);
        (size.ws_col, size.ws_row)
    }
}

/// Writes to standard output, past all buffers. What cannot be written is left.
pub fn write(bytes: &[u8]) {
    // SAFETY: standard output is open, or writing to it fails.
    let out = unsafe { BorrowedFd::borrow_raw(libc::STDOUT_FILENO) };
    let _ = rustix::io::write(out, bytes);
}
