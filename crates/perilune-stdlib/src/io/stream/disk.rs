//! Files on disks, where others can use the domain: what needs no disk is done at once, the rest by helper
//! threads.
//!
//! # Reading
//! A read is tried with `RWF_NOWAIT`, which gives what the system has in memory. If that is nothing, it fails
//! with `EAGAIN`, and the native has an [`Order`] carried out by a helper: it reads *at* the position, which
//! does not move. What it got is an [`Arrival`], used up by the native's next turn if nothing has moved the
//! position or written meanwhile. So a read that is cancelled has taken nothing.
//!
//! # Writing
//! Bytes that have to go are tried with `RWF_NOWAIT` too, where the file system knows it for writing. Where
//! it does not (ext4), they are written at once as long as the device has been quick (`pace.rs`). Else they
//! are *in flight*: a helper has them and writes them, whatever becomes of who waits. Until they have
//! *landed* nothing else is written, and whatever depends on the position waits. What could not be written is
//! in front of the output buffer again, as after any failed write, so the next attempt meets the error. A
//! helper costs more than writing a few pages, so more is gathered for it than otherwise ([`GATHERED`]).
//!
//! File systems that live in memory and do not know `RWF_NOWAIT` wait for nobody: their files are quick from
//! then on.

use super::pace::{self, Pace};
use super::*;
use perilune_vm::host::Work;
use rustix::fs::FsWord;
use rustix::io::{IoSlice, IoSliceMut, ReadWriteFlags};
use std::sync::atomic::AtomicU64;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// So many bytes are gathered before a helper is asked to write them.
const GATHERED: usize = 256 << 10;
/// A helper reads so much, unless more is wanted.
const AT_ONCE: usize = 128 << 10;
/// It reads no more than this.
const MOST_AT_ONCE: usize = 8 << 20;

/// The present position, for `preadv2` and `pwritev2`.
const HERE: u64 = u64::MAX;

/// What a stream knows of its disk.
#[derive(Default)]
pub(super) struct State {
    /// The file system does not know `RWF_NOWAIT` for reading.
    reads_wait: bool,
    writes: Writes,
    /// Changed by whatever makes bytes stale that were read before.
    generation: u64,
    /// What a helper has read for the present operation.
    arrived: Option<Arrival>,
    /// So many bytes are wanted.
    wanted: usize,
    /// Who has parked in an operation has a clone of it.
    sleepers: Option<Arc<()>>,
    flight: Option<Arc<Flight>>,
}

/// How bytes are written without waiting.
#[derive(Clone, Copy, Default)]
enum Writes {
    /// By `RWF_NOWAIT`, unless that turns out not to be known.
    #[default]
    Tried,
    /// In any way: nothing waits.
    InMemory,
    /// At once, as long as the device is quick.
    Paced(&'static Pace),
}

/// A read for a helper.
pub(in crate::io) struct Order {
    handle: Handle,
    at: u64,
    generation: u64,
    wanted: usize,
}

/// What came of it.
pub(in crate::io) struct Arrival {
    at: u64,
    generation: u64,
    bytes: Result<Vec<u8>, Errno>,
}

impl Order {
    /// Reads; may take long.
    pub(in crate::io) fn carry_out(self) -> Arrival {
        let mut bytes = Vec::new();
        let read = match bytes.try_reserve_exact(self.wanted) {
            Ok(()) => rustix::io::retry_on_intr(|| {
                rustix::io::pread(self.handle.fd(), rustix::buffer::spare_capacity(&mut bytes), self.at)
            }),
            Err(_) => Err(Errno::NOMEM),
        };
        Arrival { at: self.at, generation: self.generation, bytes: read.map(|_| bytes) }
    }
}

/// Bytes that a helper writes.
struct Flight {
    landed: Mutex<Option<Landed>>,
    over: Condvar,
}

/// What came of them.
struct Landed {
    /// Those that were not written.
    rest: Vec<u8>,
    result: Result<(), Errno>,
}

/// Bytes that a helper has and that have to be written before the process ends.
pub(in crate::io) struct Debt(());

static DEBTS: Mutex<usize> = Mutex::new(0);
static PAID: Condvar = Condvar::new();

impl Debt {
    pub(in crate::io) fn new() -> Debt {
        *DEBTS.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Debt(())
    }

    /// Waits until there is none.
    pub(in crate::io) fn wait_for_all() {
        let mut debts = DEBTS.lock().unwrap_or_else(PoisonError::into_inner);
        while *debts > 0 {
            debts = PAID.wait(debts).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Debt {
    fn drop(&mut self) {
        *DEBTS.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        PAID.notify_all();
    }
}

impl Flight {
    fn write(&self, handle: &Handle, mut bytes: Vec<u8>, pace: Option<&Pace>) {
        pretend_to_be_slow();
        let mut written = 0;
        let mut result = Ok(());
        while written < bytes.len() {
            let rest = &bytes[written..(written + pace::LARGEST).min(bytes.len())];
            let write = || rustix::io::retry_on_intr(|| rustix::io::write(handle.fd(), rest));
            match pace.map_or_else(write, |pace| pace.patiently(write)) {
                Ok(count) => written += count,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        bytes.drain(..written);
        *self.landed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Landed { rest: bytes, result });
        self.over.notify_all();
    }
}

/// For tests: no file is in memory, and each takes so many microseconds.
static PRETENDED: AtomicU64 = AtomicU64::new(0);

/// For tests: from now on no file is in memory, and reading and writing take so long.
pub fn pretend_that_disks_are_slow(span: Duration) {
    PRETENDED.store(u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1), Ordering::Relaxed);
}

/// For tests: whether that is so.
pub fn is_slow_pretended() -> bool {
    PRETENDED.load(Ordering::Relaxed) != 0
}

/// A helper takes the time that is pretended.
pub fn pretend_to_be_slow() {
    let micros = PRETENDED.load(Ordering::Relaxed);
    if micros != 0 {
        std::thread::sleep(Duration::from_micros(micros));
    }
}

/// Is the file in a file system that has no disk?
fn is_in_memory(fd: BorrowedFd<'_>) -> bool {
    /// tmpfs, ramfs, proc, sysfs, cgroup2, debugfs, tracefs, securityfs, hugetlbfs, devpts
    const IN_MEMORY: [FsWord; 10] = [
        0x0102_1994,
        0x8584_58f6,
        0x9fa0,
        0x6265_6572,
        0x6367_7270,
        0x6462_6720,
        0x7472_6163,
        0x7363_6673,
        0x9584_58f6,
        0x1cd1,
    ];
    rustix::fs::fstatfs(fd).is_ok_and(|system| IN_MEMORY.contains(&system.f_type))
}

impl Stream {
    /// Reads behind what there is in the input buffer what needs no disk, or what a helper has read; 0 at the
    /// end of the file.
    pub(super) fn read_now(&mut self, wanted: usize) -> Result<usize, Failure> {
        if let Some(arrival) = self.disk.arrived.take()
            && arrival.generation == self.disk.generation
            && rustix::fs::tell(self.fd()) == Ok(arrival.at)
        {
            let bytes = arrival.bytes?;
            if self.input.len() - self.end < bytes.len() {
                self.grow(bytes.len())?;
            }
            self.input[self.end..self.end + bytes.len()].copy_from_slice(&bytes);
            rustix::fs::seek(self.fd(), SeekFrom::Start(arrival.at + bytes.len() as u64))?;
            self.end += bytes.len();
            return Ok(bytes.len());
        }
        if !self.disk.reads_wait && !is_slow_pretended() {
            let fd = self.handle.fd();
            let mut room = [IoSliceMut::new(&mut self.input[self.end..])];
            match rustix::io::preadv2(fd, &mut room, HERE, ReadWriteFlags::NOWAIT) {
                Ok(count) if count > 0 || self.is_at_end() => {
                    self.end += count;
                    return Ok(count);
                }
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) if is_in_memory(fd) => {
                    self.kind.set(Some(Kind::Quick));
                    let patience = self.patience();
                    let fd = self.handle.fd();
                    let count = patience.repeat(|| rustix::io::read(fd, &mut self.input[self.end..]))?;
                    self.end += count;
                    return Ok(count);
                }
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.disk.reads_wait = true,
                Err(error) => return Err(error.into()),
            }
        }
        self.disk.wanted = wanted;
        Err(Errno::AGAIN.into())
    }

    /// Makes room in the input buffer for the rest of the file.
    pub(super) fn grow_for_rest(&mut self) -> Result<(), Failure> {
        if !self.is_on_disk() || self.end_of_file {
            return Ok(());
        }
        if let (Ok(status), Ok(position)) = (rustix::fs::fstat(self.fd()), rustix::fs::tell(self.fd())) {
            let rest = (status.st_size as u64).saturating_sub(position) as usize;
            let free = self.input.len() - self.end;
            if rest > self.room {
                return Err(Errno::NOMEM.into());
            }
            // `append` wants to have so much when it begins.
            let needed = rest.saturating_add(BUFFER_SIZE / 2);
            if rest > 0 && needed > free {
                self.grow(needed - free)?;
            }
        }
        Ok(())
    }

    /// Some kernels say so of bytes that are not in memory, too.
    fn is_at_end(&self) -> bool {
        match (rustix::fs::fstat(self.fd()), rustix::fs::tell(self.fd())) {
            (Ok(status), Ok(position)) => position >= status.st_size as u64,
            _ => false,
        }
    }

    /// What a helper is to read, after a read has failed with `EAGAIN`.
    pub(in crate::io) fn order(&self) -> Result<Order, Errno> {
        let at = rustix::fs::tell(self.fd())?;
        let mut wanted = self.disk.wanted;
        if let Ok(status) = rustix::fs::fstat(self.fd())
            && FileType::from_raw_mode(status.st_mode) == FileType::RegularFile
        {
            wanted = wanted.min((status.st_size as u64).saturating_sub(at) as usize);
        }
        let wanted = wanted.clamp(AT_ONCE, MOST_AT_ONCE);
        Ok(Order { handle: self.handle.clone(), at, generation: self.disk.generation, wanted })
    }

    /// A helper has read this.
    pub(in crate::io) fn take_delivery(&mut self, arrival: Arrival) {
        self.disk.arrived = Some(arrival);
    }

    /// The operation that it was read for is over.
    pub(super) fn forget_arrival(&mut self) {
        self.disk.arrived = None;
    }

    /// What was read before is not what is there now.
    pub(super) fn has_changed(&mut self) {
        self.disk.generation += 1;
    }

    /// For who parks in an operation: kept until its native is called again.
    pub(in crate::io) fn sleeper(&mut self) -> Arc<()> {
        Arc::clone(self.disk.sleepers.get_or_insert_default())
    }

    /// Whether somebody has parked in an operation.
    #[inline]
    pub(in crate::io) fn has_sleepers(&self) -> bool {
        self.disk.sleepers.as_ref().is_some_and(|sleepers| Arc::strong_count(sleepers) > 1)
    }

    /// Writes out what needs no disk.
    pub(super) fn write_now(&mut self) -> Result<(), Errno> {
        let mut written = 0;
        let mut result = Ok(());
        while written < self.output.len() {
            match self.try_to_write(written) {
                Ok(count) => written += count,
                Err(Errno::INTR) => {}
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.output.drain(..written);
        result
    }

    /// Writes some of what is in the output buffer from `start` on, if no disk has to be waited for.
    fn try_to_write(&mut self, start: usize) -> Result<usize, Errno> {
        if is_slow_pretended() {
            return Err(Errno::AGAIN);
        }
        let (fd, rest) = (self.handle.fd(), &self.output[start..]);
        if let Writes::Tried = self.disk.writes {
            match rustix::io::pwritev2(fd, &[IoSlice::new(rest)], HERE, ReadWriteFlags::NOWAIT) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                tried => return tried,
            }
            self.disk.writes = if is_in_memory(fd) { Writes::InMemory } else { Writes::Paced(Pace::of(fd)) };
        }
        match self.disk.writes {
            Writes::Paced(pace) if self.output.len() <= pace::LARGEST => {
                pace.at_once(|| rustix::io::write(fd, rest)).unwrap_or(Err(Errno::AGAIN))
            }
            Writes::Paced(_) => Err(Errno::AGAIN),
            Writes::Tried | Writes::InMemory => rustix::io::write(fd, rest),
        }
    }

    /// So many bytes are gathered where operations park.
    pub(super) fn gathers(&self) -> usize {
        match self.disk.writes {
            Writes::Paced(pace) if pace.is_trusted() && !is_slow_pretended() => self.capacity,
            Writes::InMemory => self.capacity,
            _ => self.capacity.max(GATHERED),
        }
    }

    /// Whether a helper has bytes to write, or has had.
    #[inline]
    pub(in crate::io) fn is_in_flight(&self) -> bool {
        self.disk.flight.is_some()
    }

    /// Whether closing has something to write.
    pub(in crate::io) fn has_output(&self) -> bool {
        !self.output.is_empty() || self.is_in_flight()
    }

    /// What is in the output buffer leaves it: the work that writes it.
    pub(in crate::io) fn take_off(&mut self) -> Option<Work> {
        if self.is_in_flight() {
            return None;
        }
        let bytes = std::mem::take(&mut self.output);
        let flight = Arc::new(Flight { landed: Mutex::new(None), over: Condvar::new() });
        self.disk.flight = Some(Arc::clone(&flight));
        let (handle, watch, debt) = (self.handle.clone(), self.watch.clone(), Debt::new());
        let pace = match self.disk.writes {
            Writes::Paced(pace) => Some(pace),
            Writes::Tried | Writes::InMemory => None,
        };
        Some(Box::new(move || {
            flight.write(&handle, bytes, pace);
            drop((handle, debt));
            if let Some(watch) = watch {
                watch.give_up(Way::Write);
            }
        }))
    }

    /// Waits for what is in flight; where the operation parks: fails with `EAGAIN` if it still is.
    #[cold]
    pub(super) fn land(&mut self) -> Result<(), Errno> {
        let Some(flight) = self.disk.flight.clone() else { return Ok(()) };
        if self.mark.is_some()
            && let Some(watch) = &self.watch
        {
            watch.clear(Way::Write);
        }
        let lock = || flight.landed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut landed = lock().take();
        if landed.is_none() {
            if self.mark.is_some() {
                return Err(Errno::AGAIN);
            }
            let wait = || {
                let mut landed = lock();
                loop {
                    match landed.take() {
                        Some(landed) => return Some(landed),
                        None => landed = flight.over.wait(landed).unwrap_or_else(PoisonError::into_inner),
                    }
                }
            };
            landed = match self.blocker {
                Some(blocker) => blocker.blocking(wait),
                None => wait(),
            };
        }
        self.disk.flight = None;
        let Some(Landed { mut rest, result }) = landed else { return Ok(()) };
        rest.append(&mut self.output);
        self.output = rest;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::open::temporary;
    use super::*;

    /// A stream on a device that is known to be so, with output.
    fn with(pace: &'static Pace) -> Stream {
        let mut stream = temporary().expect("it can be made");
        stream.kind.set(Some(Kind::Disk));
        stream.disk.writes = Writes::Paced(pace);
        stream.write(b"one\n").expect("it is gathered");
        stream
    }

    fn size(stream: &Stream) -> u64 {
        rustix::fs::fstat(stream.fd()).expect("it is open").st_size as u64
    }

    #[test]
    fn a_quick_device_is_written_to_at_once() {
        let mut stream = with(Box::leak(Box::new(Pace::trusted())));
        assert_eq!(stream.flush_ready(), Ok(()));
        assert_eq!(size(&stream), 4);
        assert!(!stream.has_output());
    }

    #[test]
    fn a_slow_one_is_left_to_helpers() {
        let mut stream = with(Box::leak(Box::new(Pace::new())));
        assert_eq!(stream.flush_ready(), Err(Errno::AGAIN));
        assert_eq!(size(&stream), 0);
        let work = stream.take_off().expect("there is something to write");
        assert_eq!(stream.flush_ready(), Err(Errno::AGAIN), "it has not landed");
        work();
        assert_eq!(stream.flush_ready(), Ok(()));
        assert_eq!(size(&stream), 4);
    }

    #[test]
    fn much_is_left_to_helpers_however_quick_the_device_is() {
        let mut stream = with(Box::leak(Box::new(Pace::trusted())));
        stream.set_mark();
        stream.write(&vec![b'x'; pace::LARGEST]).expect("it is gathered");
        assert_eq!(stream.flush(), Err(Errno::AGAIN));
        assert_eq!(size(&stream), 0);
        stream.drop_mark();
        assert_eq!(stream.flush(), Ok(()));
        assert_eq!(size(&stream), 4 + pace::LARGEST as u64);
    }
}
