//! What belongs to the process: the three standard streams, and the list of open streams.
//!
//! A stream is shared behind a mutex, which is free as long as nobody competes for it: standard output is the
//! same for `print`, `io.write` and everybody else in the process. At exit, and before another process is
//! started, all output that is still in buffers has to go out, also that of streams which the program never
//! closes; so each open stream is listed, weakly.

use super::stream::{Buffering, Stream};
use perilune_vm::Vm;
use rustix::fs::OFlags;
use rustix::stdio;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Once, PoisonError, Weak};

/// A stream that several owners use.
pub(super) type Shared = Arc<Mutex<Stream>>;

/// Standard input.
pub(super) static STDIN: LazyLock<Shared> =
    LazyLock::new(|| Arc::new(Mutex::new(Stream::standard(stdio::stdin(), OFlags::RDONLY))));
/// Standard output.
pub(super) static STDOUT: LazyLock<Shared> =
    LazyLock::new(|| Arc::new(Mutex::new(Stream::standard(stdio::stdout(), OFlags::WRONLY))));
/// Standard error, unbuffered.
pub(super) static STDERR: LazyLock<Shared> = LazyLock::new(|| {
    let mut stream = Stream::standard(stdio::stderr(), OFlags::WRONLY);
    // Nothing has been written yet, so nothing can fail.
    let _ = stream.set_buffering(Buffering::No, 1);
    stream.never_detach();
    Arc::new(Mutex::new(stream))
});

static OPEN: Mutex<Vec<Weak<Mutex<Stream>>>> = Mutex::new(Vec::new());

/// A stream in use by an operation of a `Vm`: system calls that take long end when the `Vm` is interrupted.
pub(super) struct Operation<'a>(MutexGuard<'a, Stream>);

/// The stream for one operation of `vm`.
#[inline]
pub(super) fn operate<'a>(vm: &Vm, stream: &'a Mutex<Stream>) -> Operation<'a> {
    let blocker = vm.blocker();
    let mut stream = match stream.try_lock() {
        Ok(stream) => stream,
        // Whoever uses it may need this domain before it is done.
        Err(_) => blocker.blocking(|| lock(stream)),
    };
    stream.blocker = Some(blocker);
    Operation(stream)
}

impl Drop for Operation<'_> {
    #[inline]
    fn drop(&mut self) {
        // The stream may outlive the `Vm`.
        self.0.blocker = None;
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

/// The stream, for somebody who does not stop for interrupts. A panic elsewhere does not make it useless.
#[inline]
pub(super) fn lock(stream: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shares a new stream and lists it.
pub(super) fn share(stream: Stream) -> Shared {
    let shared = Arc::new(Mutex::new(stream));
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if open.len() == open.capacity() {
        open.retain(|stream| stream.strong_count() > 0);
    }
    open.push(Arc::downgrade(&shared));
    shared
}

/// Writes out standard output, unless it is in use right now. Errors wait for the next write.
pub(super) fn flush_output() {
    if let Some(stdout) = LazyLock::get(&STDOUT)
        && let Ok(mut stdout) = stdout.try_lock()
    {
        let _ = stdout.flush();
    }
}

/// Writes out all streams, `fflush(NULL)`.
pub fn flush_all() {
    flush_output();
    let streams: Vec<_> = match OPEN.try_lock() {
        Ok(open) => open.iter().filter_map(Weak::upgrade).collect(),
        Err(_) => return,
    };
    for stream in streams {
        if let Ok(mut stream) = stream.try_lock() {
            let _ = stream.flush();
        }
    }
}

extern "C" fn at_exit() {
    flush_all();
}

/// Makes [`flush_all`] happen at the process's exit, however it comes to it.
pub(super) fn flush_at_exit() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: `at_exit` is a plain function that does not unwind; statics of Rust are never dropped.
        // A refusal leaves flushing to the program.
        let _ = unsafe { libc::atexit(at_exit) };
    });
}
