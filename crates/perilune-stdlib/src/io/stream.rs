//! Streams: buffered access to file descriptors with the habits of C's stdio.
//!
//! A [`Stream`] has an input buffer (unread bytes `start..end`) and an output buffer; at most one of them
//! holds anything. Going from reading to writing gives unread bytes back to the file by moving its position;
//! going from writing to reading writes out. Both happen by themselves, where C asks the program for a `seek`
//! or `flush` in between. Buffers are made when first needed.
//!
//! Buffering modes are those of `setvbuf`: *full* writes when the buffer is full, *line* also when a newline
//! was written, *no* at once. A failed write leaves the unwritten bytes in the buffer: the next attempt meets
//! them again, and `close` reports them.
//!
//! End of file is remembered until the program starts another read operation, so that one operation with
//! several formats asks a terminal only once.
//!
//! Reads and writes may wait for ever. Each looks for an interrupt of the `Vm` before it starts and when a
//! signal ends it, and fails with `EINTR` then; what had been read of a result that was not complete is lost.
//! Those that may really sleep, on pipes and terminals, leave the domain to others meanwhile. A read
//! operation also stops between two system calls when somebody begins to close the stream.
//!
//! # Parking
//! Where others can use the domain and the native may wait, nothing sleeps in the kernel (`park.rs`). The
//! operation runs *parking*: each call of the system comes after a look whether it would sleep, and if so the
//! operation fails with `EAGAIN`. What has been read since its beginning, the *mark*, stays in the buffer,
//! which grows, so that it can be rolled back and begin again; what is to be written stays in the output
//! buffer. Files on disks are in `stream/disk.rs`.
//!
//! Writing to a pipe that nobody reads is an error, not a signal, except on the standard streams: what
//! happens to a process whose own output is closed is not up to us.
//!
//! A line that lies in the buffer is handed out as a slice of it: the only copy is the one into the Lua
//! string.

mod disk;
pub mod pace;
mod parking;

use super::patience::Patience;
use super::separators::newline;
use super::standard;
use crate::child::Child;
use crate::errno::Failure;
pub(super) use disk::{Arrival, Debt};
pub use disk::{is_slow_pretended, pretend_that_disks_are_slow, pretend_to_be_slow};
use perilune_vm::Blocker;
use perilune_vm::host::{Direction as Way, Watch};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, OFlags, SeekFrom};
use rustix::io::Errno;
use std::cell::Cell;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of an input buffer, and of an output buffer unless `setvbuf` says otherwise.
pub(super) const BUFFER_SIZE: usize = 32 * 1024;
/// What a read is given room for at least. A file whose size is known is read into a list of that size and so
/// much more, where its end is found without a larger one.
const LEAST_ROOM: usize = 32;

/// When written bytes leave the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Buffering {
    /// At once.
    No,
    /// When the buffer is full.
    Full,
    /// Also after a newline.
    Line,
}

#[derive(Clone)]
enum Handle {
    /// Shared with helpers that read or write.
    Owned(Arc<OwnedFd>),
    /// A standard stream: never closed.
    Standard(BorrowedFd<'static>),
}

impl Handle {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Handle::Owned(fd) => fd.as_fd(),
            Handle::Standard(fd) => *fd,
        }
    }
}

/// How long reading and writing may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// No time: nothing is waited for.
    Quick,
    /// As long as a disk needs: helpers do it where others can use the domain (`disk.rs`).
    Disk,
    /// Any time: a pipe, a terminal.
    Slow,
}

/// What a stream did last.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Neither,
    Reading,
    Writing,
}

/// An open file, pipe or terminal.
pub(super) struct Stream {
    handle: Handle,
    child: Option<Child>,
    /// Somebody waits to close it: nothing may begin to wait for input.
    closing: Arc<AtomicBool>,
    /// Of the `Vm` that the present operation is for.
    pub(super) blocker: Option<Blocker>,
    /// `None`: not asked yet.
    kind: Cell<Option<Kind>>,
    readable: bool,
    writable: bool,
    append: bool,
    /// Reading asks someone: standard output has to be out before.
    interactive: bool,
    direction: Direction,
    end_of_file: bool,
    /// Longest result of the present read operation; beyond that there is not enough memory.
    room: usize,
    input: Box<[u8]>,
    start: usize,
    end: usize,
    output: Vec<u8>,
    buffering: Buffering,
    capacity: usize,
    /// Pieces of a line that is longer than the buffer.
    spill: Vec<u8>,
    /// Who tells when the descriptor is ready, once somebody has had to wait.
    watch: Option<Arc<dyn Watch>>,
    /// The present operation parks instead of sleeping: where it began in the input buffer.
    mark: Option<usize>,
    /// Bytes from the mark on that have no newline.
    searched: usize,
    /// A write waits for its bytes to go.
    writing: bool,
    /// That write was cancelled.
    given_up: Arc<AtomicBool>,
    disk: disk::State,
}

impl Stream {
    fn new(handle: Handle, flags: OFlags) -> Stream {
        let access = flags & OFlags::RWMODE;
        Stream {
            handle,
            child: None,
            closing: Arc::default(),
            blocker: None,
            kind: Cell::new(None),
            readable: access != OFlags::WRONLY,
            writable: access != OFlags::RDONLY,
            append: flags.contains(OFlags::APPEND),
            interactive: false,
            direction: Direction::Neither,
            end_of_file: false,
            room: usize::MAX,
            input: Box::default(),
            start: 0,
            end: 0,
            output: Vec::new(),
            buffering: Buffering::Full,
            capacity: BUFFER_SIZE,
            spill: Vec::new(),
            watch: None,
            mark: None,
            searched: 0,
            writing: false,
            given_up: Arc::default(),
            disk: disk::State::default(),
        }
    }

    /// A stream over a descriptor that was opened with `flags`. One that appends starts at the end, if it
    /// cannot read.
    pub(super) fn owned(fd: OwnedFd, flags: OFlags) -> Stream {
        if flags.contains(OFlags::APPEND) && flags & OFlags::RWMODE == OFlags::WRONLY {
            // A pipe has no position; its writes append anyway.
            let _ = rustix::fs::seek(&fd, SeekFrom::End(0));
        }
        Stream::new(Handle::Owned(Arc::new(fd)), flags)
    }

    /// The stream of a `popen`.
    pub(super) fn process(fd: OwnedFd, flags: OFlags, child: Child) -> Stream {
        let mut stream = Stream::new(Handle::Owned(Arc::new(fd)), flags);
        stream.child = Some(child);
        stream.kind.set(Some(Kind::Slow));
        stream
    }

    /// A standard stream; a terminal is line-buffered.
    pub(super) fn standard(fd: BorrowedFd<'static>, flags: OFlags) -> Stream {
        let mut stream = Stream::new(Handle::Standard(fd), flags);
        let terminal = fd.is_terminal();
        stream.interactive = terminal && stream.readable;
        if terminal {
            stream.buffering = Buffering::Line;
        }
        stream
    }

    /// Set by others: somebody waits to close it.
    pub(super) fn closing(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.closing)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.handle.fd()
    }

    /// Operations that wait keep their thread and their domain: for standard error, to which anybody may
    /// write at any time.
    pub(super) fn never_detach(&mut self) {
        self.kind.set(Some(Kind::Quick));
    }

    /// How long reading and writing may take.
    fn kind(&self) -> Kind {
        self.kind.get().unwrap_or_else(|| {
            let on_disk = |status: rustix::fs::Stat| {
                matches!(
                    FileType::from_raw_mode(status.st_mode),
                    FileType::RegularFile | FileType::BlockDevice
                )
            };
            let kind = if rustix::fs::fstat(self.fd()).is_ok_and(on_disk) { Kind::Disk } else { Kind::Slow };
            self.kind.set(Some(kind));
            kind
        })
    }

    /// Whether reading and writing may take any time.
    pub(super) fn is_slow(&self) -> bool {
        self.kind() == Kind::Slow
    }

    /// Whether they may take as long as a disk needs.
    pub(super) fn is_on_disk(&self) -> bool {
        self.kind() == Kind::Disk
    }

    /// What system calls for the present operation are made with.
    fn patience(&mut self) -> Patience {
        let slow = self.is_slow();
        Patience {
            blocker: self.blocker,
            slow,
            parks: self.mark.is_some(),
            signal_free: slow && matches!(self.handle, Handle::Owned(_)),
        }
    }

    // Reading

    /// Starts a read operation, none of whose results may be longer than `room`: forgets about the end of the
    /// file.
    pub(super) fn begin_reading(&mut self, room: usize) -> Result<(), Failure> {
        self.end_of_file = false;
        self.room = room;
        if self.mark.is_none() {
            self.searched = 0;
        }
        if self.direction != Direction::Reading {
            if !self.readable {
                return Err(Errno::BADF.into());
            }
            // What is to be written before sleeps, as nothing else of the operation could be undone.
            let mark = self.mark.take();
            let flushed = self.flush();
            self.mark = mark;
            flushed?;
            self.direction = Direction::Reading;
        }
        Ok(())
    }

    /// Unread bytes in the buffer.
    #[inline]
    pub(super) fn unread(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// Refills the empty buffer; false at the end of the file.
    fn fill(&mut self) -> Result<bool, Failure> {
        debug_assert_eq!(self.start, self.end);
        if self.mark.is_some() {
            return self.append(0);
        }
        if self.end_of_file {
            return Ok(false);
        }
        if self.interactive {
            standard::flush_output();
        }
        if self.input.is_empty() {
            self.input = vec![0; BUFFER_SIZE].into_boxed_slice();
        }
        self.start = 0;
        self.end = 0;
        if self.closing.load(Ordering::Relaxed) {
            return Err(Failure::Closed);
        }
        let patience = self.patience();
        let fd = self.handle.fd();
        let count = patience.read(fd, || rustix::io::read(fd, &mut self.input[..]))?;
        self.end = count;
        self.end_of_file = count == 0;
        Ok(count != 0)
    }

    /// Reads to memory of others, past the buffer, which is empty.
    pub(super) fn read_into(&mut self, into: &mut [u8]) -> Result<usize, Failure> {
        debug_assert_eq!(self.start, self.end);
        let patience = self.patience();
        let fd = self.fd();
        Ok(patience.read(fd, || rustix::io::read(fd, &mut *into))?)
    }

    /// The next byte, left unread; `None` at the end.
    pub(super) fn peek(&mut self) -> Result<Option<u8>, Failure> {
        if self.start == self.end && !self.fill()? {
            return Ok(None);
        }
        Ok(Some(self.input[self.start]))
    }

    /// Takes the byte that [`Stream::peek`] showed.
    pub(super) fn skip_byte(&mut self) {
        debug_assert!(self.start < self.end);
        self.start += 1;
    }

    /// Takes so many bytes, which are [`Stream::unread`].
    pub(super) fn skip(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
    }

    /// Gives the next line to `f`, without its newline, if all of it is in the buffer: nothing is waited for.
    #[inline]
    pub(super) fn line_at_hand<R>(&mut self, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let length = newline(self.unread())?;
        let start = self.start;
        self.start += length + 1;
        self.searched = 0;
        Some(f(&self.input[start..start + length]))
    }

    /// Whether what is read next may be taken out of the buffer, if it is there: nothing is to be written
    /// before.
    #[inline]
    pub(super) fn reads_at_hand(&self) -> bool {
        self.direction == Direction::Reading && self.mark.is_none()
    }

    /// Where in the buffer the unread bytes begin; see [`Stream::go_back`].
    #[inline]
    pub(super) fn position(&self) -> usize {
        self.start
    }

    /// What has been taken out of the buffer since then is unread again: nothing has been read from the file
    /// meanwhile.
    #[inline]
    pub(super) fn go_back(&mut self, position: usize) {
        debug_assert!(position <= self.start);
        self.start = position;
    }

    /// Takes so many bytes, if they are in the buffer.
    #[inline]
    pub(super) fn bytes_at_hand<R>(&mut self, count: usize, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let start = self.start;
        let bytes = self.input[start..self.end].get(..count)?;
        self.start += count;
        Some(f(bytes))
    }

    /// Gives the next line to `f`, with its newline if `keep_newline`; `None` at the end of the file.
    #[inline]
    pub(super) fn line<R>(
        &mut self,
        keep_newline: bool,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Failure> {
        if self.mark.is_some() {
            let Some((length, ends)) = self.find_line()? else { return Ok(None) };
            let start = self.start;
            self.start += length + usize::from(ends);
            self.searched = 0;
            return Ok(Some(f(&self.input[start..start + length + usize::from(keep_newline && ends)])));
        }
        if let Some(length) = newline(self.unread()) {
            let start = self.start;
            self.start += length + 1;
            return Ok(Some(f(&self.input[start..start + length + usize::from(keep_newline)])));
        }
        if !self.long_line(keep_newline)? {
            return Ok(None);
        }
        let result = f(&self.spill);
        self.spill.clear();
        if self.spill.capacity() > BUFFER_SIZE {
            self.spill = Vec::new();
        }
        Ok(Some(result))
    }

    /// Collects a line that is not wholly in the buffer in `spill`; false at the end of the file.
    #[cold]
    fn long_line(&mut self, keep_newline: bool) -> Result<bool, Failure> {
        self.spill.clear();
        loop {
            if self.spill.len() > self.room {
                self.spill = Vec::new();
                return Err(Errno::NOMEM.into());
            }
            reserve(&mut self.spill, self.end - self.start)?;
            self.spill.extend_from_slice(&self.input[self.start..self.end]);
            self.start = self.end;
            if !self.fill()? {
                return Ok(!self.spill.is_empty());
            }
            if let Some(length) = newline(self.unread()) {
                let piece = &self.input[..length + usize::from(keep_newline)];
                reserve(&mut self.spill, piece.len())?;
                self.spill.extend_from_slice(piece);
                self.start += length + 1;
                return Ok(true);
            }
        }
    }

    /// Gives up to `count` bytes to `f`: fewer at the end of the file, `None` if there are none.
    pub(super) fn bytes<R>(
        &mut self,
        count: usize,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, Failure> {
        if self.start == self.end && !self.fill()? {
            return Ok(None);
        }
        if self.mark.is_some() {
            while self.end - self.start < count && self.append(count - (self.end - self.start))? {}
            let start = self.start;
            self.start = self.end.min(start.saturating_add(count));
            return Ok(Some(f(&self.input[start..self.start])));
        }
        let available = self.unread();
        if available.len() >= count {
            let start = self.start;
            self.start += count;
            return Ok(Some(f(&self.input[start..start + count])));
        }
        let mut text = available.to_vec();
        self.start = self.end;
        while text.len() < count && self.fill()? {
            if text.len() > self.room {
                return Err(Errno::NOMEM.into());
            }
            let taken = (count - text.len()).min(self.end);
            reserve(&mut text, taken)?;
            text.extend_from_slice(&self.input[..taken]);
            self.start = taken;
        }
        Ok(Some(f(&text)))
    }

    /// Everything up to the end of the file.
    pub(super) fn rest(&mut self) -> Result<Vec<u8>, Failure> {
        if self.mark.is_some() {
            self.grow_for_rest()?;
            while self.append(usize::MAX)? {}
            if self.start > 0 {
                let text = self.unread().to_vec();
                self.start = self.end;
                return Ok(text);
            }
            let mut text = std::mem::take(&mut self.input).into_vec();
            text.truncate(self.end);
            (self.start, self.end, self.mark) = (0, 0, Some(0));
            return Ok(text);
        }
        let mut text = self.unread().to_vec();
        self.start = self.end;
        if self.end_of_file {
            return Ok(text);
        }
        if self.interactive {
            standard::flush_output();
        }
        if let Ok(status) = rustix::fs::fstat(self.fd())
            && let Ok(position) = rustix::fs::seek(self.fd(), SeekFrom::Current(0))
        {
            // Room for the rest and for the read that finds the end; a size that lies costs only speed.
            let rest = (status.st_size as u64).saturating_sub(position);
            if rest as usize > self.room || text.try_reserve_exact(rest as usize + LEAST_ROOM).is_err() {
                return Err(Errno::NOMEM.into());
            }
        }
        let patience = self.patience();
        loop {
            if text.len() > self.room {
                return Err(Errno::NOMEM.into());
            }
            if text.capacity() - text.len() < LEAST_ROOM && text.try_reserve(BUFFER_SIZE).is_err() {
                return Err(Errno::NOMEM.into());
            }
            if self.closing.load(Ordering::Relaxed) {
                return Err(Failure::Closed);
            }
            let count = patience
                .read(self.fd(), || rustix::io::read(self.fd(), rustix::buffer::spare_capacity(&mut text)))?;
            if count == 0 {
                self.end_of_file = true;
                return Ok(text);
            }
        }
    }

    // Writing

    /// Prepares for writing.
    #[inline]
    fn begin_writing(&mut self) -> Result<(), Errno> {
        if self.direction == Direction::Writing { Ok(()) } else { self.turn_to_writing() }
    }

    #[cold]
    fn turn_to_writing(&mut self) -> Result<(), Errno> {
        if !self.writable {
            return Err(Errno::BADF);
        }
        self.discard_input()?;
        self.has_changed();
        self.direction = Direction::Writing;
        self.output.reserve(if self.buffering == Buffering::No { 0 } else { self.capacity.min(BUFFER_SIZE) });
        Ok(())
    }

    /// Gives unread bytes back to the file.
    fn discard_input(&mut self) -> Result<(), Errno> {
        let unread = self.end - self.start;
        (self.start, self.end) = (0, 0);
        if unread > 0 {
            match rustix::fs::seek(self.fd(), SeekFrom::Current(-(unread as i64))) {
                Ok(_) | Err(Errno::SPIPE) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes `bytes`, or at least takes them over.
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        self.begin_writing()?;
        if self.buffering == Buffering::Full && self.output.len() + bytes.len() <= self.capacity {
            self.output.extend_from_slice(bytes);
            return Ok(());
        }
        self.write_through(bytes)
    }

    /// The output buffer, and how long it may become, if what is written next only goes there.
    #[inline]
    pub(super) fn buffer_at_hand(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let is_plain =
            self.direction == Direction::Writing && self.buffering == Buffering::Full && self.mark.is_none();
        is_plain.then_some((&mut self.output, self.capacity))
    }

    fn write_through(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        if self.mark.is_some() {
            // Taken whole, and written out before the operation is over.
            self.output.try_reserve(bytes.len()).map_err(|_| Errno::NOMEM)?;
            self.output.extend_from_slice(bytes);
            return Ok(());
        }
        match self.buffering {
            Buffering::Line => {
                if self.output.len() + bytes.len() > self.capacity {
                    self.flush()?;
                }
                self.output.extend_from_slice(bytes);
                if self.output.len() > self.capacity || memchr::memchr(b'\n', bytes).is_some() {
                    self.flush()?;
                }
                Ok(())
            }
            Buffering::Full if bytes.len() < self.capacity => {
                self.flush()?;
                self.output.extend_from_slice(bytes);
                Ok(())
            }
            _ => {
                self.flush()?;
                let patience = self.patience();
                let mut rest = bytes;
                while !rest.is_empty() {
                    let count = patience.write(self.fd(), rest)?;
                    rest = &rest[count..];
                }
                Ok(())
            }
        }
    }

    /// Writes the text that `f` appends, at most 32 bytes of it.
    #[inline]
    pub(super) fn write_short(&mut self, f: impl FnOnce(&mut Vec<u8>)) -> Result<(), Errno> {
        self.begin_writing()?;
        if self.buffering == Buffering::Full && self.output.len() + 32 <= self.capacity {
            f(&mut self.output);
            return Ok(());
        }
        let mut text = Vec::with_capacity(32);
        f(&mut text);
        self.write_through(&text)
    }

    /// Is something buffered, or on its way, that has been written?
    pub(super) fn has_unwritten(&self) -> bool {
        self.is_in_flight() || !self.output.is_empty()
    }

    /// Writes out what is buffered.
    pub(super) fn flush(&mut self) -> Result<(), Errno> {
        if self.is_in_flight() {
            self.land()?;
        }
        if self.output.is_empty() {
            return Ok(());
        }
        if self.mark.is_some() && self.is_on_disk() {
            return self.write_now();
        }
        let patience = self.patience();
        if let (true, Some(watch)) = (patience.parks, &self.watch) {
            watch.clear(Way::Write);
        }
        let mut written = 0;
        let mut result = Ok(());
        while written < self.output.len() {
            match patience.write(self.fd(), &self.output[written..]) {
                Ok(count) => written += count,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        self.output.drain(..written);
        result
    }

    /// `setvbuf`.
    pub(super) fn set_buffering(&mut self, buffering: Buffering, capacity: usize) -> Result<(), Errno> {
        self.flush()?;
        self.buffering = buffering;
        self.capacity = capacity.clamp(1, 1 << 26);
        Ok(())
    }

    /// Moves the position; returns the new one, in bytes from the beginning.
    pub(super) fn seek(&mut self, to: SeekFrom) -> Result<u64, Errno> {
        self.end_of_file = false;
        if to == SeekFrom::Current(0) {
            if self.append || self.is_in_flight() {
                self.flush()?;
            }
            let position = rustix::fs::seek(self.fd(), to)?;
            return Ok(position - (self.end - self.start) as u64 + self.output.len() as u64);
        }
        self.flush()?;
        let to = match to {
            SeekFrom::Current(offset) => {
                SeekFrom::Current(offset.checked_sub((self.end - self.start) as i64).ok_or(Errno::INVAL)?)
            }
            SeekFrom::Start(offset) if offset > i64::MAX as u64 => return Err(Errno::INVAL),
            to => to,
        };
        let position = rustix::fs::seek(self.fd(), to)?;
        self.has_changed();
        (self.start, self.end) = (0, 0);
        self.direction = Direction::Neither;
        Ok(position)
    }

    /// Closes the descriptor, reporting what could not be written; for a process, waits for it and returns
    /// its wait status.
    pub(super) fn close(mut self) -> Result<Option<i32>, Failure> {
        let flushed = self.flush();
        self.output.clear();
        let (child, blocker) = (self.child.take(), self.blocker);
        drop(self);
        let status = match child {
            // `EINTR` leaves the child to whoever starts the next one.
            Some(mut child) => Some(
                Patience { blocker, slow: true, parks: false, signal_free: false }.repeat(|| child.wait())?,
            ),
            None => None,
        };
        flushed?;
        Ok(status)
    }
}

/// Room for `more` bytes of what a program reads: it decides how much that is.
fn reserve(text: &mut Vec<u8>, more: usize) -> Result<(), Failure> {
    text.try_reserve(more).map_err(|_| Errno::NOMEM.into())
}

impl Drop for Stream {
    fn drop(&mut self) {
        // Nobody is left to hear about an error.
        let _ = self.flush();
        if let Some(watch) = &self.watch {
            watch.end();
        }
        // Those who wait find it closed.
        self.pass_on(Way::Read);
        self.pass_on(Way::Write);
    }
}

#[cfg(test)]
mod tests {
    use super::super::open::temporary;
    use super::*;

    fn lines(stream: &mut Stream) -> Vec<Vec<u8>> {
        let mut lines = Vec::new();
        stream.begin_reading(usize::MAX).unwrap();
        while let Some(line) = stream.line(true, <[u8]>::to_vec).unwrap() {
            lines.push(line);
        }
        lines
    }

    fn with(content: &[u8]) -> Stream {
        let mut stream = temporary().unwrap();
        stream.write(content).unwrap();
        stream.seek(SeekFrom::Start(0)).unwrap();
        stream
    }

    #[test]
    fn lines_of_all_lengths() {
        for length in [0, 1, 7, BUFFER_SIZE - 1, BUFFER_SIZE, BUFFER_SIZE + 1, 3 * BUFFER_SIZE + 5] {
            let line = [vec![b'x'; length], b"\n".to_vec()].concat();
            let mut stream = with(&[line.as_slice(), b"middle\n", &line, b"end"].concat());
            assert_eq!(lines(&mut stream), [line.as_slice(), b"middle\n", &line, b"end"], "{length}");
        }
    }

    #[test]
    fn bytes_across_buffers() {
        let content: Vec<u8> = (0..3 * BUFFER_SIZE).map(|i| (i % 251) as u8).collect();
        for size in [1, 1000, BUFFER_SIZE, BUFFER_SIZE + 1, 10 * BUFFER_SIZE] {
            let mut stream = with(&content);
            stream.begin_reading(usize::MAX).unwrap();
            let mut read = Vec::new();
            while stream.bytes(size, |piece| read.extend_from_slice(piece)).unwrap().is_some() {}
            assert_eq!(read, content, "{size}");
        }
    }

    #[test]
    fn reading_and_writing_take_turns() {
        let mut stream = with(b"0123456789");
        stream.begin_reading(usize::MAX).unwrap();
        assert_eq!(stream.bytes(3, <[u8]>::to_vec).unwrap().unwrap(), b"012");
        stream.write(b"ab").unwrap();
        assert_eq!(stream.seek(SeekFrom::Current(0)).unwrap(), 5);
        stream.begin_reading(usize::MAX).unwrap();
        assert_eq!(stream.rest().unwrap(), b"56789");
        stream.seek(SeekFrom::Start(0)).unwrap();
        stream.begin_reading(usize::MAX).unwrap();
        assert_eq!(stream.rest().unwrap(), b"012ab56789");
    }

    #[test]
    fn positions_count_what_is_buffered() {
        let mut stream = with(b"0123456789");
        stream.begin_reading(usize::MAX).unwrap();
        stream.bytes(4, |_| ()).unwrap();
        assert_eq!(stream.seek(SeekFrom::Current(0)).unwrap(), 4);
        assert_eq!(stream.seek(SeekFrom::Current(-1)).unwrap(), 3);
        stream.begin_reading(usize::MAX).unwrap();
        assert_eq!(stream.peek().unwrap(), Some(b'3'));
        assert_eq!(stream.seek(SeekFrom::Start(u64::MAX)), Err(Errno::INVAL));
    }

    #[test]
    fn what_cannot_be_written_stays() {
        let flags = OFlags::WRONLY;
        let full = rustix::fs::open("/dev/full", flags, rustix::fs::Mode::empty()).unwrap();
        let mut stream = Stream::owned(full, flags);
        stream.write(b"abc").unwrap();
        assert_eq!(stream.flush(), Err(Errno::NOSPC));
        assert_eq!(stream.begin_reading(usize::MAX), Err(Errno::BADF.into()));
        assert_eq!(stream.close(), Err(Errno::NOSPC.into()));
    }
}
