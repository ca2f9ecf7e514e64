//! What belongs to the process: the three standard streams, and the list of open files.
//!
//! A [`File`] is what all its handles share, in whatever domain they are: a stream behind a lock that can be
//! closed. The lock is free as long as nobody competes for it: standard output is the same for `print`,
//! `io.write` and everybody else in the process. At exit, and before another process is started, all output
//! that is still in buffers has to go out, also that of files which the program never closes; so each open
//! file is listed, weakly.

use super::bias::User;
use super::closable::{Briefly, Closable, Closed, Entered};
use super::patience::Patience;
use super::stream::{Buffering, Debt, Stream};
use crate::errno::Failure;
use perilune_vm::{Blocker, Vm};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::stdio;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once, PoisonError, Weak};

/// An open file, or one that has been closed.
pub(super) struct File {
    stream: Closable<Stream>,
    /// The stream's: it is being closed, so whoever is inside shall not begin to wait again.
    closing: Arc<AtomicBool>,
    /// One of the three standard files, which cannot be closed.
    standard: bool,
}

/// Standard input.
pub(super) static STDIN: LazyLock<Arc<File>> =
    LazyLock::new(|| File::standard(Stream::standard(stdio::stdin(), OFlags::RDONLY)));
/// Standard output.
pub(super) static STDOUT: LazyLock<Arc<File>> =
    LazyLock::new(|| File::standard(Stream::standard(stdio::stdout(), OFlags::WRONLY)));
/// Standard error, unbuffered.
pub(super) static STDERR: LazyLock<Arc<File>> = LazyLock::new(|| {
    let mut stream = Stream::standard(stdio::stderr(), OFlags::WRONLY);
    // Nothing has been written yet, so nothing can fail.
    let _ = stream.set_buffering(Buffering::No, 1);
    stream.never_detach();
    File::standard(stream)
});

static OPEN: Mutex<Vec<Weak<File>>> = Mutex::new(Vec::new());

impl File {
    /// A file over a new stream, listed.
    pub(super) fn new(stream: Stream) -> Arc<File> {
        let file = File::of(stream, false);
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() == open.capacity() {
            open.retain(|file| file.strong_count() > 0);
        }
        open.push(Arc::downgrade(&file));
        file
    }

    fn standard(stream: Stream) -> Arc<File> {
        File::of(stream, true)
    }

    fn of(stream: Stream, standard: bool) -> Arc<File> {
        let closing = stream.closing();
        Arc::new(File { stream: Closable::new(stream), closing, standard })
    }

    pub(super) fn is_standard(&self) -> bool {
        self.standard
    }

    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.stream.is_closed()
    }

    /// The stream, unless somebody uses it or it is closed.
    fn try_enter(&self) -> Option<Entered<'_, Stream>> {
        self.stream.try_enter(None).ok().flatten()
    }

    /// Closes it for all who have a handle: who uses it comes to an end first, who waits for it is sent away.
    /// What closing says, with the wait status if it is a process. `None`: it was closed before.
    ///
    /// # Errors
    /// Also `EINTR`, when `vm` was interrupted while somebody else used the file; it is open still
    /// then.
    pub(super) fn close(&self, vm: &Vm) -> Option<Result<Option<i32>, Failure>> {
        let taken = self.take(vm)?;
        Some(taken.and_then(|mut stream| {
            // SAFETY: the native that `vm` runs closes the file; its stream goes with it.
            stream.blocker = Some(unsafe { vm.blocker() });
            stream.close()
        }))
    }

    /// Whether closing may wait: for a reader or a child, or for a disk. If somebody is in the middle of an
    /// operation it is not known.
    pub(super) fn may_take_long_to_close(&self) -> bool {
        self.try_enter().is_some_and(|stream| stream.is_slow() || stream.is_on_disk() && stream.has_output())
    }

    /// Closes it for all who have a handle, and hands over what is to be closed. `None`: it was closed
    /// before.
    ///
    /// # Errors
    /// As of [`File::close`].
    pub(super) fn take(&self, vm: &Vm) -> Option<Result<Stream, Failure>> {
        // SAFETY: used here only, by the native that `vm` runs.
        let blocker = unsafe { vm.blocker() };
        let mut closing = self.stream.close()?;
        self.closing.store(true, Ordering::Relaxed);
        let taken = match closing.take() {
            Some(stream) => Ok(stream),
            // Whoever uses it may need this domain before it is done.
            None => Patience::of(blocker).repeat(|| {
                loop {
                    match closing.take() {
                        Some(stream) => return Ok(stream),
                        None => closing.sleep()?,
                    }
                }
            }),
        };
        Some(taken.inspect_err(|_| self.closing.store(false, Ordering::Relaxed)))
    }
}

/// A stream in use by an operation of a `Vm`: system calls that take long end when the `Vm` is interrupted.
pub(super) struct Operation<'a>(Entered<'a, Stream>);

/// The stream of a file for one operation of `vm`, which waits while others use it.
///
/// # Errors
/// Somebody closed the file meanwhile; or `EINTR`.
#[inline]
pub(super) fn operate<'a>(vm: &Vm, file: &'a File) -> Result<Operation<'a>, Failure> {
    // SAFETY: the operation is one of the native that `vm` runs, and takes the blocker away at its end.
    let blocker = unsafe { vm.blocker() };
    let me = User::of(vm);
    let mut stream = match file.stream.try_enter(Some(me)) {
        Ok(Some(stream)) => stream,
        Ok(None) => wait_for_turn(blocker, file, me)?,
        Err(Closed) => return Err(Failure::Closed),
    };
    stream.blocker = Some(blocker);
    Ok(Operation(stream))
}

#[cold]
fn wait_for_turn(blocker: Blocker, file: &File, me: User) -> Result<Entered<'_, Stream>, Failure> {
    // Whoever uses it may need this domain before it is done.
    Patience::of(blocker).repeat(|| {
        loop {
            match file.stream.try_enter(Some(me)) {
                Ok(Some(stream)) => return Ok(stream),
                Ok(None) => file.stream.sleep()?,
                Err(Closed) => return Err(Failure::Closed),
            }
        }
    })
}

impl Operation<'_> {
    /// Until somebody else uses the file, what `vm` does with it next may be done by [`briefly`].
    #[inline]
    pub(super) fn give_bias(&self, vm: &Vm) {
        self.0.give_bias(User::of(vm));
    }
}

/// The stream of a file for something that neither waits nor runs Lua code, where that needs no lock. The
/// result may be dropped at once: it is what has come out of it that counts.
#[inline(always)]
pub(super) fn briefly<R>(vm: &mut Vm, file: &File, f: impl FnOnce(&mut Vm, &mut Stream) -> R) -> Option<R> {
    // SAFETY: whoever has the state exclusively owns the domain, and lends it to nobody but `f`.
    let mut stream: Briefly<'_, Stream> = unsafe { file.stream.briefly(User::of(vm)) }?;
    Some(f(vm, &mut stream))
}

impl Drop for Operation<'_> {
    #[inline]
    fn drop(&mut self) {
        // The stream may outlive the `Vm`.
        self.0.blocker = None;
        if self.0.parks() {
            self.0.drop_mark();
        }
    }
}

impl Deref for Operation<'_> {
    type Target = Stream;
    #[inline]
    fn deref(&self) -> &Stream {
        &self.0
    }
}

impl DerefMut for Operation<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Stream {
        &mut self.0
    }
}

/// Writes `text` to standard error, for somebody who does not stop for interrupts.
pub(super) fn write_error(text: &[u8]) -> Result<(), Errno> {
    loop {
        if let Some(mut stderr) = STDERR.try_enter() {
            return stderr.write(text);
        }
        // A signal changes nothing: the loop looks again.
        let _ = STDERR.stream.sleep();
    }
}

/// Writes out standard output, unless it is in use right now. Errors wait for the next write.
pub(super) fn flush_output() {
    if let Some(stdout) = LazyLock::get(&STDOUT)
        && let Some(mut stdout) = stdout.try_enter()
    {
        let _ = stdout.flush();
    }
}

/// Writes out all streams, `fflush(NULL)`; but not what a cancelled operation has left for one that takes
/// nothing now.
pub fn flush_all() {
    flush_each(|stream| {
        let pipe_is_full = stream.was_given_up() && stream.is_slow();
        let _ = if pipe_is_full { stream.flush_ready() } else { stream.flush() };
    });
}

/// The same, but of pipes and the like only what they take at once: nobody waits here, and a child does not
/// have them.
pub(super) fn flush_ready() {
    flush_each(|stream| {
        let _ = if stream.is_slow() { stream.flush_ready() } else { stream.flush() };
    });
}

/// Would [`flush_all`] write something?
pub(super) fn has_unwritten() -> bool {
    let has = |file: &Arc<File>| file.try_enter().is_some_and(|stream| stream.has_unwritten());
    LazyLock::get(&STDOUT).is_some_and(has)
        || OPEN.try_lock().is_ok_and(|open| open.iter().filter_map(Weak::upgrade).any(|file| has(&file)))
}

fn flush_each(flush: impl Fn(&mut Stream)) {
    flush_output();
    let files: Vec<_> = match OPEN.try_lock() {
        Ok(open) => open.iter().filter_map(Weak::upgrade).collect(),
        Err(_) => return,
    };
    for file in files {
        if let Some(mut stream) = file.try_enter() {
            flush(&mut stream);
        }
    }
}

// Does not unwind.
extern "C" fn at_exit() {
    flush_all();
    Debt::wait_for_all();
}

/// Makes [`flush_all`] happen at the process's exit, however it comes to it.
pub(super) fn flush_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        crate::sys::at_exit(at_exit);
    });
}
