//! The private heap of one domain. (First landing: the whole interface over bump allocation that never collects.)

use core::ptr::NonNull;

/// First word of every heap object.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Header {
    /// Epoch of birth or of the last entry into the log.
    pub epoch: u32,
    /// The client's kind of object.
    pub kind: u8,
    /// The client's flags.
    pub flags: u8,
    /// Size in units of 16 bytes, header included; 0 for a large object.
    pub granules: u16,
}

/// A heap object, by its header.
pub type Obj = NonNull<Header>;

/// The byte limit or the operating system refused an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// Which collection asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cycle {
    /// Only objects born since the last collection can die.
    Minor,
    /// Everything unreachable dies.
    Major,
}

/// Generational or purely incremental.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Minor collections, and majors when the old generation has grown.
    Generational,
    /// Majors in slices only.
    Incremental,
}

/// Settings of a heap.
#[derive(Clone, Debug)]
pub struct HeapOptions {
    /// Byte limit of what the program may hold.
    pub limit: Option<usize>,
    /// A collection is due at every safepoint.
    pub stress: bool,
    /// Freed memory is overwritten.
    pub poison: bool,
    /// First size of the nursery in bytes.
    pub nursery: usize,
}

impl Default for HeapOptions {
    fn default() -> Self {
        HeapOptions { limit: None, stress: false, poison: cfg!(debug_assertions), nursery: 1 << 20 }
    }
}

/// Tuning parameters, as `collectgarbage` sets them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// Generational or incremental.
    pub mode: Mode,
    /// A major starts when the heap has reached this percentage of what the last one left.
    pub pause: usize,
    /// Percentage of marking effort per allocation.
    pub stepmul: usize,
    /// Logarithm of the step size (manual 2.5.1).
    pub stepsize: usize,
    /// Minor multiplier in percent (manual 2.5.2).
    pub minor_mul: usize,
    /// Major multiplier in percent (manual 2.5.2).
    pub major_mul: usize,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            mode: Mode::Generational,
            pause: 200,
            stepmul: 100,
            stepsize: 13,
            minor_mul: 20,
            major_mul: 100,
        }
    }
}

/// Figures about a heap.
#[derive(Clone, Debug, Default)]
pub struct HeapStats {
    /// Minor collections so far.
    pub minors: u64,
    /// Major collections completed so far.
    pub majors: u64,
}

/// How the heap learns about the client's objects.
pub trait Client {
    /// Reports every child of `obj` with [`Marker::mark`].
    ///
    /// # Safety
    /// `obj` is a live, initialised object of the heap that calls.
    unsafe fn trace(&mut self, obj: Obj, m: &mut Marker<'_>);
    /// Reports the roots.
    fn roots(&mut self, m: &mut Marker<'_>, cycle: Cycle);
    /// Ephemerons: marks more and returns true if anything was marked; called until false.
    fn converge(&mut self, m: &mut Marker<'_>, cycle: Cycle) -> bool;
    /// Marking has reached its fixpoint; the sweep follows.
    fn finish(&mut self, m: &mut Marker<'_>, cycle: Cycle);
}

/// Hands reachable objects to the collector.
pub struct Marker<'a> {
    heap: &'a mut Heap,
}

impl Marker<'_> {
    /// Marks `obj` and queues it for tracing unless it is marked.
    /// Returns true if this call marked it.
    #[inline(always)]
    pub fn mark(&mut self, _obj: Obj) -> bool {
        false
    }
    /// Traces `obj` even if it is already marked.
    pub fn trace_again(&mut self, _obj: Obj) {}
    /// Marks what any aligned word in `lo..hi` may point to.
    ///
    /// # Safety
    /// The range is readable.
    pub unsafe fn mark_conservative_range(&mut self, _lo: *const u8, _hi: *const u8) {}
    /// Marks what `word` may point to.
    pub fn mark_conservative(&mut self, _word: usize) {}
    /// Whether `obj` has been reached in this cycle.
    #[inline(always)]
    pub fn is_marked(&self, _obj: Obj) -> bool {
        true
    }
    /// Traces everything queued, to the fixpoint.
    pub fn drain<C: Client>(&mut self, _c: &mut C) {}
    /// See [`Heap::charge_external`].
    pub fn charge_external(&mut self, bytes: isize) {
        self.heap.charge_external(bytes)
    }
}

const CHUNK: usize = 2 << 20;

/// A private heap.
#[repr(C)]
pub struct Heap {
    cursor: usize,
    end: usize,
    epoch: u32,
    due: bool,
    stopped: bool,
    taken: usize,
    external: isize,
    limit: Option<usize>,
    params: Params,
}

impl Heap {
    /// Byte offset of the current epoch (a `u32`) in [`Heap`].
    pub const EPOCH_OFFSET: usize = core::mem::offset_of!(Heap, epoch);
    /// Byte offset of the flag (a `bool`) that [`Heap::gc_due`] reads.
    pub const DUE_OFFSET: usize = core::mem::offset_of!(Heap, due);

    /// An empty heap.
    pub fn new(options: HeapOptions) -> Heap {
        Heap {
            cursor: 0,
            end: 0,
            epoch: 1,
            due: false,
            stopped: false,
            taken: 0,
            external: 0,
            limit: options.limit,
            params: Params::default(),
        }
    }

    fn map(&self, bytes: usize) -> Option<usize> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        // SAFETY: a fresh anonymous mapping aliases nothing.
        unsafe {
            mmap_anonymous(
                core::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .ok()
        .map(|p| p as usize)
    }

    /// Allocates `bytes` (header included) and initialises the header. The caller initialises the body before the
    /// next allocation. Never collects.
    #[inline(always)]
    pub fn alloc(&mut self, kind: u8, bytes: usize) -> Obj {
        let size = (bytes + 15) & !15;
        let new = self.cursor.wrapping_add(size);
        if size <= 8192 && new <= self.end {
            let at = self.cursor;
            self.cursor = new;
            let header = Header { epoch: self.epoch, kind, flags: 0, granules: (size >> 4) as u16 };
            // SAFETY: `at..new` lies in the current mapping and belongs to nobody else.
            unsafe {
                (at as *mut Header).write(header);
                return Obj::new_unchecked(at as *mut Header);
            }
        }
        self.alloc_slow(kind, size).expect("out of memory")
    }

    #[cold]
    #[inline(never)]
    fn alloc_slow(&mut self, kind: u8, size: usize) -> Option<Obj> {
        if size > 8192 {
            let base = self.map(size + 16)?;
            self.taken += size;
            // SAFETY: the mapping is fresh and holds prefix, header and body.
            unsafe {
                (base as *mut usize).write(size);
                let h = (base + 16) as *mut Header;
                h.write(Header { epoch: self.epoch, kind, flags: 0, granules: 0 });
                return Obj::new(h);
            }
        }
        self.taken += CHUNK - (self.end - self.cursor);
        self.cursor = self.map(CHUNK)?;
        self.end = self.cursor + CHUNK;
        Some(self.alloc(kind, size))
    }

    /// Like [`Heap::alloc`] for sizes that come from the program.
    ///
    /// # Errors
    /// The byte limit or the operating system refuses.
    pub fn try_alloc(&mut self, kind: u8, bytes: usize) -> Result<Obj, OutOfMemory> {
        let total = self.live_bytes().checked_add(bytes).ok_or(OutOfMemory)?;
        if total > isize::MAX as usize / 2 || self.limit.is_some_and(|l| total > l) {
            return Err(OutOfMemory);
        }
        let size = (bytes + 15) & !15;
        if size <= 8192 {
            Ok(self.alloc(kind, bytes))
        } else {
            self.alloc_slow(kind, size).ok_or(OutOfMemory)
        }
    }

    /// Must be called with every store of a reference into `obj`.
    #[inline(always)]
    pub fn barrier(&mut self, obj: Obj) {
        // SAFETY: `obj` is a live object of this heap.
        if unsafe { (*obj.as_ptr()).epoch } != self.epoch {
            self.barrier_slow(obj);
        }
    }

    /// The cold half of [`Heap::barrier`]: logs `obj` and stamps it with the current epoch.
    #[cold]
    #[inline(never)]
    pub fn barrier_slow(&mut self, obj: Obj) {
        // SAFETY: `obj` is a live object of this heap.
        unsafe { (*obj.as_ptr()).epoch = self.epoch };
    }

    /// The current epoch.
    #[inline(always)]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }
    /// Whether [`Heap::step`] has something to do.
    #[inline(always)]
    pub fn gc_due(&self) -> bool {
        self.due
    }
    /// Does what is due. Only at safepoints.
    pub fn step<C: Client>(&mut self, _c: &mut C) {}
    /// Reclaims everything unreachable.
    pub fn collect_full<C: Client>(&mut self, _c: &mut C) {}
    /// Reclaims unreachable young objects.
    pub fn collect_minor<C: Client>(&mut self, _c: &mut C) {}
    /// Size of `obj` in bytes, header included, rounded up to 16.
    pub fn size_of(&self, obj: Obj) -> usize {
        // SAFETY: `obj` is a live object of this heap; large ones have their size before the header.
        unsafe {
            match (*obj.as_ptr()).granules {
                0 => *(obj.as_ptr() as *const usize).sub(2),
                g => g as usize * 16,
            }
        }
    }
    /// Whether `obj` was born since the last collection.
    pub fn is_young(&self, _obj: Obj) -> bool {
        true
    }
    /// Accounts for memory outside the heap that is owned by objects.
    pub fn charge_external(&mut self, bytes: isize) {
        self.external += bytes;
    }
    /// Bytes that the program holds.
    pub fn live_bytes(&self) -> usize {
        (self.taken - (self.end - self.cursor)).saturating_add_signed(self.external)
    }
    /// Sets the byte limit.
    pub fn set_limit(&mut self, bytes: Option<usize>) {
        self.limit = bytes;
    }
    /// Whether the program holds more than the limit.
    pub fn over_limit(&self) -> bool {
        self.limit.is_some_and(|l| self.live_bytes() > l)
    }
    /// Stops automatic collection.
    pub fn stop(&mut self) {
        self.stopped = true;
    }
    /// Restarts automatic collection.
    pub fn restart(&mut self) {
        self.stopped = false;
    }
    /// Whether automatic collection is on.
    pub fn is_running(&self) -> bool {
        !self.stopped
    }
    /// The parameters.
    pub fn params(&self) -> Params {
        self.params
    }
    /// Changes the parameters.
    pub fn set_params(&mut self, params: Params) {
        self.params = params;
    }
    /// Figures about this heap.
    pub fn stats(&self) -> HeapStats {
        HeapStats::default()
    }
    /// The object that `word` points to or into, if any.
    pub fn find_object(&self, _word: usize) -> Option<Obj> {
        None
    }
    /// Checks every invariant.
    ///
    /// # Errors
    /// The first violation, in words.
    pub fn verify<C: Client>(&mut self, _c: &mut C) -> Result<(), String> {
        Ok(())
    }
}
