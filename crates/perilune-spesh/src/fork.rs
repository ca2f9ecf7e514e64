//! What a fork does to code memory, and who may write after it.
//!
//! # The trouble
//! Code memory is mapped twice, which only shared mappings can be. A child of `fork` gets a mapping of the
//! *same* pages: if the child wrote to them, it would change its parent's code; when the parent frees code
//! and puts other code there, the child would run that. The child's thread may be in the middle of machine
//! code, below a C function that forked.
//!
//! # What is done
//! 1. The writable view is not inherited at all (`MADV_DONTFORK`): in a child it does not exist.
//! 2. In the child, before `fork` returns, each region's executable view is replaced by a private copy of the
//!    part in use, at the same address. Until that is done the parent holds back what is freed and does not
//!    use it again. It knows from a counter in memory that both processes share: `prepare` counts up before
//!    the process divides, the child counts down when it has its copies.
//! 3. A [`Lineage`] tells objects with a lock that they are in a child now. They do nothing there: the lock
//!    may be held by a thread that only the parent has.
//!
//! 4. What a child reads without a lock, the map of code ranges and how much is in use, does not change while
//!    the process divides ([`changing`]): the system copies page by page, and other threads go on meanwhile,
//!    so a child would get a pointer from before a change and what it led to from after it.
//!
//! All of the child's part is system calls and a copy, without allocation or locks, as is fit for a handler
//! of `pthread_atfork`.
//!
//! # What can go wrong, and then
//! If the fork fails, or the child is killed or finds no memory before it has its copies, the counter never
//! falls, and what the parent frees from then on is held back for good. Machine code goes on, until memory is
//! used up and further code is interpreted. `vfork` and `posix_spawn` (`io.popen` and the like) run no
//! handlers and need none: their child runs no Lua code. A child of a bare `clone` system call has no copies;
//! its process number gives it away, so that it installs nothing either. A signal handler that forks above a
//! change does not wait for that one, and its child has the map as it was found.
//!
//! # Rejected
//! *Never using again what was there at a fork* needs no copy, but a program that compiles all the time and
//! forks now and then would run out of code memory. *Leaving machine code in the child* needs machine code to
//! return through. *Waiting in the parent* until the child has its copies would stop a thread for as long as
//! the scheduler likes.

use crate::sys;
use crate::sys::memory::{self, PAGE, Pages, Reserve};
use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How many forks lie between this process and the one that first made code memory.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The counter of forks whose children have no copies yet, in a page that children share until they have.
/// Null before [`register`], and in a child that could not get a page of its own.
static PENDING: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());

/// How many regions there can be at once. A program has one; tests have more.
const REGIONS: usize = 64;

/// The executable views of this process's own regions. A slot is free if `base` is 0.
static TABLE: [Slot; REGIONS] = [const { Slot::new() }; REGIONS];

/// How many changes are under way of what children read without a lock,
static CHANGES: AtomicUsize = AtomicUsize::new(0);
/// and how many forks, which wait for them, and hold off others.
static DIVISIONS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// How many changes this thread is at: the one that forks does not wait for its own.
    static OWN_CHANGES: Cell<usize> = const { Cell::new(0) };
}

/// A fork waits so long for changes of others. A change is a few instructions, but on a busy machine the
/// thread at it may wait for a processor; ten milliseconds were too little now and then.
const PATIENCE: Duration = Duration::from_secs(2);

struct Slot {
    base: AtomicUsize,
    /// How many bytes from `base` on may hold code.
    used: AtomicUsize,
}

impl Slot {
    const fn new() -> Slot {
        Slot { base: AtomicUsize::new(0), used: AtomicUsize::new(0) }
    }
}

/// Which process made something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lineage {
    generation: u32,
    pid: u32,
}

impl Lineage {
    /// This process.
    pub fn current() -> Lineage {
        // Without handlers the generation would not count; the process number still tells.
        let _ = register();
        Lineage { generation: GENERATION.load(Ordering::Relaxed), pid: std::process::id() }
    }

    /// Whether it was made by a process of which this one is a child.
    pub fn is_inherited(self) -> bool {
        self.generation != GENERATION.load(Ordering::Relaxed) || self.pid != std::process::id()
    }
}

/// Whether a child may still be running the same memory as we do: what is freed must not be used again yet.
pub fn copies_pending() -> bool {
    // SAFETY: the page is never unmapped in the process that mapped it.
    unsafe { PENDING.load(Ordering::Acquire).as_ref() }.is_none_or(|n| n.load(Ordering::Acquire) != 0)
}

/// An executable view that children are to copy. Dropping it ends that.
#[derive(Debug)]
pub struct Watched(usize);

impl Watched {
    /// Registers the view at `base` (page-aligned, not 0), of which nothing is in use yet.
    pub fn new(base: usize) -> io::Result<Watched> {
        register()?;
        let free =
            |slot: &Slot| slot.base.compare_exchange(0, base, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        let index = TABLE.iter().position(free).ok_or_else(sys::no_room)?;
        Ok(Watched(index))
    }

    /// Says that the first `bytes` (a multiple of the page size) may hold code from now on. To be called
    /// before they are written: not while the process divides, or a child could have the address of code
    /// that it has not copied.
    pub fn set_used(&self, bytes: usize) {
        let used = &TABLE[self.0].used;
        if used.load(Ordering::SeqCst) != bytes {
            let _changing = changing();
            used.store(bytes, Ordering::SeqCst);
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        TABLE[self.0].used.store(0, Ordering::SeqCst);
        TABLE[self.0].base.store(0, Ordering::SeqCst);
    }
}

/// A change of what children of this process read without a lock: it is made before a fork, or after it.
/// It is ended by the thread that has begun it.
#[derive(Debug)]
pub struct Changing(PhantomData<*const ()>);

/// Waits until no fork is under way.
pub fn changing() -> Changing {
    loop {
        let guard = Changing::begin();
        if DIVISIONS.load(Ordering::SeqCst) == 0 {
            return guard;
        }
        drop(guard);
        std::thread::yield_now();
    }
}

impl Changing {
    fn begin() -> Changing {
        OWN_CHANGES.set(OWN_CHANGES.get() + 1);
        CHANGES.fetch_add(1, Ordering::SeqCst);
        Changing(PhantomData)
    }
}

impl Drop for Changing {
    fn drop(&mut self) {
        CHANGES.fetch_sub(1, Ordering::SeqCst);
        OWN_CHANGES.set(OWN_CHANGES.get() - 1);
    }
}

/// Maps the shared counter and registers the handlers, once in a process and its children.
fn register() -> io::Result<()> {
    // The number of the error; 0: there is none.
    static DONE: OnceLock<i32> = OnceLock::new();
    let errno = *DONE.get_or_init(|| {
        let register = |page| {
            // The counter is there before a handler can look for it, so a child counts down what its parent
            // counted up.
            PENDING.store(page, Ordering::Release);
            sys::at_fork(prepare, parent, child)
        };
        let registered = shared_counter().and_then(register);
        registered.map_or_else(|e| e.raw_os_error().unwrap_or(-1), |()| 0)
    });
    match errno {
        0 if PENDING.load(Ordering::Relaxed).is_null() => Err(sys::no_memory()),
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// A counter that children share, 0, for good.
fn shared_counter() -> io::Result<*mut AtomicU32> {
    Pages::shared(PAGE, Reserve::Now).map(|page| page.leak() as *mut AtomicU32)
}

/// Before the process divides: from now on nothing freed is used again, until the child has its copies, and
/// nothing changes that it reads without a lock, until it is there.
extern "C" fn prepare() {
    DIVISIONS.fetch_add(1, Ordering::SeqCst);
    let begun = Instant::now();
    while CHANGES.load(Ordering::SeqCst) > OWN_CHANGES.get() && begun.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    // SAFETY: as in `copies_pending`.
    if let Some(pending) = unsafe { PENDING.load(Ordering::Acquire).as_ref() } {
        pending.fetch_add(1, Ordering::SeqCst);
    }
}

/// In the parent, when the process has divided, or could not.
extern "C" fn parent() {
    DIVISIONS.fetch_sub(1, Ordering::SeqCst);
}

/// In the child, before `fork` returns. Its only thread runs this.
extern "C" fn child() {
    DIVISIONS.store(0, Ordering::SeqCst);
    CHANGES.store(OWN_CHANGES.get(), Ordering::SeqCst);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    let mut complete = true;
    for slot in &TABLE {
        let (base, used) = (slot.base.load(Ordering::SeqCst), slot.used.load(Ordering::SeqCst));
        // A region of a parent is none of ours: a child of this child inherits the copy as it does all
        // private memory.
        slot.used.store(0, Ordering::SeqCst);
        slot.base.store(0, Ordering::SeqCst);
        if base != 0 && used != 0 {
            // SAFETY: a region in the table is mapped, its first `used` bytes can be read, and no other
            // thread is here.
            complete &= unsafe { memory::make_private(base, used) };
        }
    }
    let parents = PENDING.load(Ordering::Relaxed);
    PENDING.store(shared_counter().unwrap_or(null_mut()), Ordering::Release);
    // SAFETY: still mapped, and shared with the parent.
    if let Some(pending) = unsafe { parents.as_ref() } {
        if complete {
            pending.fetch_sub(1, Ordering::SeqCst);
        }
        // SAFETY: mapped by the parent's `shared_counter`; nobody in this process has its address any more.
        unsafe { memory::unmap(parents as usize, PAGE) };
    }
}
