//! A program on a terminal: what is typed, and what appears.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Longest that anything may take, on a machine that has other things to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// A program on a terminal of 250 columns and 40 lines.
pub struct Pty {
    master: File,
    child: Child,
    /// All that has appeared, as it came.
    pub seen: String,
    /// Up to where [`Pty::wait`] has looked.
    at: usize,
}

impl Pty {
    /// Starts a command on a new terminal.
    pub fn spawn(command: &mut Command) -> Pty {
        let (mut master, mut slave) = (0, 0);
        let size = libc::winsize { ws_row: 40, ws_col: 250, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: writes two descriptors, which are ours from then on, and reads `size`.
        let (master, slave) = unsafe {
            let null = std::ptr::null_mut();
            assert_eq!(
                libc::openpty(&mut master, &mut slave, null, null.cast(), (&raw const size).cast_mut()),
                0
            );
            (File::from_raw_fd(master), File::from_raw_fd(slave))
        };
        use std::os::unix::process::CommandExt;
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        // SAFETY: the calls are async-signal-safe. The terminal becomes the session's, so that its keys send
        // signals.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                // Whoever runs the tests may have it ignored, as `nohup` does.
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        // The child alone has the other side from here on.
        command.stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        Pty { master, child, seen: String::new(), at: 0 }
    }

    /// Types a text.
    pub fn write(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until something has appeared that was not there before; what came before it.
    #[track_caller]
    pub fn wait(&mut self, what: &str) -> String {
        let began = Instant::now();
        loop {
            if let Some(found) = self.seen[self.at..].find(what) {
                let text = self.seen[self.at..self.at + found].to_owned();
                self.at += found + what.len();
                return text;
            }
            assert!(began.elapsed() < PATIENCE, "no {what:?} in {:?}", &self.seen[self.at..]);
            assert!(self.read(), "it ended before {what:?}: {:?}", &self.seen[self.at..]);
        }
    }

    /// Types a line at the prompt `> `, waits for the next, and gives what appeared between, without the
    /// line's echo.
    #[track_caller]
    pub fn line(&mut self, text: &str) -> String {
        self.write(text);
        // The editor draws a line anew with every key; when it has been accepted the cursor goes to the next
        // one.
        self.write("\r");
        let drawn = self.wait(PROMPT);
        let plain = plain(&drawn);
        match plain.rfind(&format!("{text}\n")) {
            Some(at) => plain[at + text.len() + 1..].to_owned(),
            None => plain,
        }
    }

    /// Reads what there is, for a while; false at the end.
    fn read(&mut self) -> bool {
        let mut poll = libc::pollfd { fd: self.master.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, which the call fills.
        if unsafe { libc::poll(&mut poll, 1, 100) } == 0 {
            return true;
        }
        let mut buffer = [0; 4096];
        match self.master.read(&mut buffer) {
            Ok(n @ 1..) => self.seen.push_str(&String::from_utf8_lossy(&buffer[..n])),
            // The other side is closed.
            _ => return false,
        }
        true
    }

    /// Waits for the end; the exit code.
    #[track_caller]
    pub fn end(&mut self) -> Option<i32> {
        let began = Instant::now();
        let mut is_open = true;
        loop {
            // Whatever it writes has to go somewhere until it ends.
            is_open = is_open && self.read();
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < PATIENCE, "it has not ended: {:?}", &self.seen[self.at..]);
            if !is_open {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // Does nothing to a child that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the editor draws when it waits for an input.
pub const PROMPT: &str = "\x1b[?2004h";

/// Without the terminal's escape sequences; `\r\n` as newlines.
pub fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' if chars.peek() == Some(&'[') => {
                chars.next();
                while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
            }
            '\r' => {}
            c => out.push(c),
        }
    }
    out
}
