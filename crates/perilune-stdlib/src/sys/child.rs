//! Child processes: the shell's commands of `io.popen` and `os.execute`, and what rooms above start
//! ([`Program`]).
//!
//! A child starts with the default actions of the signals that this process may have changed, and with an
//! empty signal mask; of our descriptors it inherits the standard ones, or what is put in their places.
//! Nothing here changes an action of this process: that is up to the program that the library is part of.
//!
//! Children are started by `posix_spawn`, which says why a program cannot be executed, and does not copy the
//! address space. Rejected: `fork` (a process of many threads and a large heap), `std::process::Command` (it
//! leaves the signals that its runtime ignores ignored, and owns the only wait).
//!
//! A child is waited for by whoever has it. One that is dropped before it has ended is remembered, and taken
//! off the system's list when the next one is started.

use crate::errno;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Where all commands are run.
const SHELL: &CStr = c"/bin/sh";

/// Children that nobody waits for.
static ABANDONED: Mutex<Vec<libc::pid_t>> = Mutex::new(Vec::new());
/// How many commands of `os.execute` run.
static FOREGROUND: AtomicU32 = AtomicU32::new(0);

/// Whether a command of `os.execute` runs: signals that the terminal sends are meant for it then, as while
/// C's `system` runs. Async-signal-safe.
pub(crate) fn in_foreground() -> bool {
    FOREGROUND.load(Ordering::Relaxed) > 0
}

/// A process that this one has started.
pub struct Child {
    pid: libc::pid_t,
    /// Its number may belong to another process by now.
    reaped: bool,
}

/// A descriptor that becomes a standard stream of the child.
pub struct Connection<'a> {
    /// The descriptor.
    pub end: BorrowedFd<'a>,
    /// In whose place.
    pub becomes: BorrowedFd<'static>,
}

/// A program with its arguments, and what it finds when it begins.
pub struct Program<'a> {
    /// Its name, which is looked for along PATH if it has no slash, and the arguments. Not empty.
    pub arguments: &'a [CString],
    /// All variables of its environment, as `NAME=value`; `None`: those of this process.
    pub environment: Option<&'a [CString]>,
    /// Where it runs; `None`: where this process does.
    pub directory: Option<&'a CStr>,
    /// What becomes its standard streams, one after the other.
    pub connections: &'a [Connection<'a>],
    /// It leads a process group of its own.
    pub leads_group: bool,
}

impl Program<'_> {
    /// Starts it.
    ///
    /// # Errors
    /// The system's: the program is not found, or cannot be executed.
    pub fn start(&self) -> Result<Child, Errno> {
        reap_abandoned();
        let mut setup = Setup::new()?;
        if self.leads_group {
            setup.lead_group()?;
        }
        if let Some(directory) = self.directory {
            setup.go_to(directory)?;
        }
        for connection in self.connections {
            setup.connect(connection.end, connection.becomes)?;
        }
        let list = |strings: &[CString]| -> Vec<*mut libc::c_char> {
            strings.iter().map(|s| s.as_ptr().cast_mut()).chain([null_mut()]).collect()
        };
        let arguments = list(self.arguments);
        let environment = self.environment.map(list);
        let Some(file) = self.arguments.first() else { return Err(Errno::INVAL) };
        let mut pid = 0;
        // SAFETY: the strings are terminated and outlive the call, which does not write to them; the lists
        // end with null pointers; attributes and actions are initialised. The environment of the process is
        // read as in `run`.
        check(unsafe {
            libc::posix_spawnp(
                &mut pid,
                file.as_ptr(),
                &setup.actions,
                &setup.attributes,
                arguments.as_ptr(),
                environment.as_ref().map_or(environ, |list| list.as_ptr()),
            )
        })?;
        Ok(Child { pid, reaped: false })
    }
}

unsafe extern "C" {
    static environ: *const *mut libc::c_char;
}

/// Whether there is a shell.
pub(crate) fn has_shell() -> bool {
    rustix::fs::access(SHELL, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Starts the shell with `command`.
pub(crate) fn start(command: &[u8], connection: Option<Connection<'_>>) -> Result<Child, Errno> {
    reap_abandoned();
    let command = CString::new(errno::c_bytes(command)).map_err(|_| Errno::INVAL)?;
    let mut setup = Setup::new()?;
    if let Some(Connection { end, becomes }) = connection {
        setup.connect(end, becomes)?;
    }
    setup.run(&command)
}

/// A pipe whose ends children do not inherit: what is read, what is written.
///
/// # Errors
/// There are no descriptors left.
pub fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
}

/// For as long as it lives, a command has the terminal.
pub(crate) struct Foreground(());

impl Foreground {
    pub(crate) fn new() -> Foreground {
        FOREGROUND.fetch_add(1, Ordering::Relaxed);
        Foreground(())
    }
}

impl Drop for Foreground {
    fn drop(&mut self) {
        FOREGROUND.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Child {
    /// Its number, which is its own until it has been waited for.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Its wait status, if it has ended. Not after that has been told.
    ///
    /// # Errors
    /// `ECHILD`, as of [`Child::wait`].
    pub fn try_wait(&mut self) -> Result<Option<i32>, Errno> {
        loop {
            match wait_for(self.pid, libc::WNOHANG) {
                Err(Errno::INTR) => {}
                Ok((0, _)) => return Ok(None),
                result => {
                    self.reaped = true;
                    return result.map(|(_, status)| Some(status));
                }
            }
        }
    }

    /// Sleeps until it has ended; its wait status.
    ///
    /// # Errors
    /// `EINTR`: a signal handler ran in this thread. `ECHILD`: the system does not know it any more, because
    /// the program ignores SIGCHLD or waits for any child.
    pub fn wait(&mut self) -> Result<i32, Errno> {
        match wait_for(self.pid, 0) {
            Err(Errno::INTR) => Err(Errno::INTR),
            result => {
                self.reaped = true;
                result.map(|(_, status)| status)
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped && is_running(self.pid) {
            ABANDONED.lock().unwrap_or_else(PoisonError::into_inner).push(self.pid);
        }
    }
}

/// Takes abandoned children that have ended off the system's list.
fn reap_abandoned() {
    ABANDONED.lock().unwrap_or_else(PoisonError::into_inner).retain(|&pid| is_running(pid));
}

/// Whether this child of ours runs still; one that has ended is gone afterwards.
fn is_running(pid: libc::pid_t) -> bool {
    matches!(wait_for(pid, libc::WNOHANG), Ok((0, _)) | Err(Errno::INTR))
}

/// `waitpid`: the child that has ended, and its status.
fn wait_for(pid: libc::pid_t, options: libc::c_int) -> Result<(libc::pid_t, i32), Errno> {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the status.
    match unsafe { libc::waitpid(pid, &mut status, options) } {
        -1 => Err(errno::of(&std::io::Error::last_os_error())),
        ended => Ok((ended, status)),
    }
}

/// What `posix_spawn` is to do: two objects of the C library that have to be destroyed.
struct Setup {
    attributes: libc::posix_spawnattr_t,
    actions: libc::posix_spawn_file_actions_t,
}

impl Setup {
    fn new() -> Result<Setup, Errno> {
        let mut attributes = MaybeUninit::uninit();
        let mut actions = MaybeUninit::uninit();
        // SAFETY: each object is used after the call that initialises it has succeeded; the sets are
        // initialised before they are read.
        unsafe {
            check(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
            if let Err(error) = check(libc::posix_spawn_file_actions_init(actions.as_mut_ptr())) {
                libc::posix_spawnattr_destroy(attributes.as_mut_ptr());
                return Err(error);
            }
            let mut setup = Setup { attributes: attributes.assume_init(), actions: actions.assume_init() };
            let mut signals = MaybeUninit::uninit();
            libc::sigemptyset(signals.as_mut_ptr());
            check(libc::posix_spawnattr_setsigmask(&mut setup.attributes, signals.as_ptr()))?;
            for signal in [libc::SIGPIPE, libc::SIGCHLD, libc::SIGINT] {
                libc::sigaddset(signals.as_mut_ptr(), signal);
            }
            check(libc::posix_spawnattr_setsigdefault(&mut setup.attributes, signals.as_ptr()))?;
            let flags = libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF;
            check(libc::posix_spawnattr_setflags(&mut setup.attributes, flags as libc::c_short))?;
            Ok(setup)
        }
    }

    fn connect(&mut self, end: BorrowedFd<'_>, becomes: BorrowedFd<'static>) -> Result<(), Errno> {
        let (end, becomes) = (end.as_fd().as_raw_fd(), becomes.as_raw_fd());
        // SAFETY: the actions are initialised; both descriptors are open.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&mut self.actions, end, becomes) })
    }

    fn lead_group(&mut self) -> Result<(), Errno> {
        // SAFETY: the attributes are initialised, their flags have been set by `new`.
        unsafe {
            check(libc::posix_spawnattr_setpgroup(&mut self.attributes, 0))?;
            let flags =
                libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETPGROUP;
            check(libc::posix_spawnattr_setflags(&mut self.attributes, flags as libc::c_short))
        }
    }

    fn go_to(&mut self, directory: &CStr) -> Result<(), Errno> {
        // SAFETY: the actions are initialised; the call copies the terminated string.
        check(unsafe { libc::posix_spawn_file_actions_addchdir_np(&mut self.actions, directory.as_ptr()) })
    }

    fn run(&self, command: &CStr) -> Result<Child, Errno> {
        let arguments =
            [c"sh".as_ptr().cast_mut(), c"-c".as_ptr().cast_mut(), command.as_ptr().cast_mut(), null_mut()];
        let mut pid = 0;
        // SAFETY: the path and the arguments are terminated strings that outlive the call, which does not
        // write to them; the list ends with a null pointer; attributes and actions are initialised. The
        // environment is the process's: who changes it has promised that nobody reads it meanwhile.
        check(unsafe {
            libc::posix_spawn(
                &mut pid,
                SHELL.as_ptr(),
                &self.actions,
                &self.attributes,
                arguments.as_ptr(),
                environ,
            )
        })?;
        Ok(Child { pid, reaped: false })
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used afterwards.
        unsafe {
            libc::posix_spawn_file_actions_destroy(&mut self.actions);
            libc::posix_spawnattr_destroy(&mut self.attributes);
        }
    }
}

/// The result of a function that returns an error number.
fn check(number: libc::c_int) -> Result<(), Errno> {
    if number == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(number)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_statuses() {
        let execute = |command: &[u8]| start(command, None).unwrap().wait();
        assert_eq!(execute(b"exit 3").map(|status| libc::WEXITSTATUS(status)), Ok(3));
        assert_eq!(execute(b"kill -9 $$").map(|status| libc::WTERMSIG(status)), Ok(9));
        assert!(has_shell());
        assert!(!in_foreground());
    }

    #[test]
    fn a_child_that_is_dropped_is_reaped_later() {
        let (read, write) = pipe().unwrap();
        let child = start(b"read x", Some(Connection { end: read.as_fd(), becomes: rustix::stdio::stdin() }));
        let pid = child.as_ref().unwrap().pid;
        drop(child);
        assert!(ABANDONED.lock().unwrap().contains(&pid));
        drop((read, write));
        // It has ended when the system says so; then it is forgotten.
        let file = rustix::process::pidfd_open(
            rustix::process::Pid::from_raw(pid).unwrap(),
            rustix::process::PidfdFlags::empty(),
        );
        let file = file.unwrap();
        let mut ended = [rustix::event::PollFd::new(&file, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut ended, None).unwrap();
        reap_abandoned();
        assert!(!ABANDONED.lock().unwrap().contains(&pid));
    }
}
