//! What an operation of a stream does that parks instead of sleeping; see the essays of `stream.rs` and
//! `park.rs`.

use super::*;

impl Stream {
    /// Whether it is known that nothing here takes long.
    #[inline]
    pub(in crate::io) fn is_quick(&self) -> bool {
        self.kind.get() == Some(Kind::Quick)
    }

    /// From here on the operation parks instead of sleeping, and can be rolled back to here.
    pub(in crate::io) fn set_mark(&mut self) {
        self.mark = Some(self.start);
    }

    /// The operation has come to an end.
    pub(in crate::io) fn drop_mark(&mut self) {
        self.mark = None;
        self.searched = 0;
        self.forget_arrival();
        self.shrink();
    }

    /// What has been read since the mark is unread again.
    pub(in crate::io) fn roll_back(&mut self) {
        if let Some(mark) = self.mark.take() {
            self.start = mark;
        }
    }

    /// A buffer that has grown is given back when it is empty.
    pub(super) fn shrink(&mut self) {
        if self.start == self.end && self.input.len() > BUFFER_SIZE {
            self.input = Box::default();
            (self.start, self.end) = (0, 0);
        }
    }

    /// Who tells when the descriptor is ready; none if it cannot be watched.
    pub(in crate::io) fn watch(
        &mut self,
        make: impl FnOnce(BorrowedFd<'_>) -> Option<Arc<dyn Watch>>,
    ) -> Option<Arc<dyn Watch>> {
        if self.watch.is_none() {
            self.watch = make(self.fd());
        }
        self.watch.clone()
    }

    /// Before a look at what the operation would wait for.
    pub(in crate::io) fn clear(&self, way: Way) {
        if let Some(watch) = &self.watch {
            watch.clear(way);
        }
    }

    /// Whoever else waits looks again.
    pub(in crate::io) fn pass_on(&self, way: Way) {
        if let Some(watch) = &self.watch {
            watch.pass_on(way);
        }
    }

    /// The descriptor's number.
    pub(in crate::io) fn number(&self) -> i32 {
        self.fd().as_raw_fd()
    }

    /// Whether somebody tells when the descriptor is ready.
    pub(in crate::io) fn is_watched(&self) -> bool {
        self.watch.is_some()
    }

    /// Whether the present operation parks.
    #[inline]
    pub(in crate::io) fn parks(&self) -> bool {
        self.mark.is_some()
    }

    /// Whether something has to go before the present operation is over; `all`: everything has.
    pub(in crate::io) fn has_to_write(&self, all: bool) -> bool {
        match self.buffering {
            _ if all => !self.output.is_empty() || self.is_in_flight(),
            Buffering::Full if self.parks() && self.is_on_disk() => self.output.len() > self.gathers(),
            Buffering::Full => self.output.len() > self.capacity,
            Buffering::Line => {
                memchr::memrchr(b'\n', &self.output).is_some() || self.output.len() > self.capacity
            }
            Buffering::No => !self.output.is_empty(),
        }
    }

    /// Writes out what can be written without sleeping.
    pub(in crate::io) fn flush_ready(&mut self) -> Result<(), Errno> {
        self.set_mark();
        let flushed = self.flush();
        self.drop_mark();
        flushed
    }

    /// A write begins to wait for its bytes to go. What it gets is set if that is given up.
    pub(in crate::io) fn begin_writing_out(&mut self) -> Arc<AtomicBool> {
        self.writing = true;
        self.given_up.store(false, Ordering::Relaxed);
        Arc::clone(&self.given_up)
    }

    /// Its bytes have gone.
    pub(in crate::io) fn end_writing_out(&mut self) {
        self.writing = false;
        self.given_up.store(false, Ordering::Relaxed);
    }

    /// Whether a write waits for its bytes to go.
    pub(in crate::io) fn is_writing(&self) -> bool {
        self.writing && !self.was_given_up()
    }

    /// A write has left something that nobody waits for.
    pub(in crate::io) fn was_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// What was not written is dropped.
    pub(in crate::io) fn forget_output(&mut self) {
        self.output.clear();
    }

    /// Takes the child away, whose end is waited for by somebody else.
    pub(in crate::io) fn take_child(&mut self) -> Option<Child> {
        self.child.take()
    }

    /// Reads more behind what there is, which stays; false at the end of the file. So many bytes more are
    /// wanted, at least.
    #[cold]
    pub(super) fn append(&mut self, wanted: usize) -> Result<bool, Failure> {
        if self.end_of_file {
            return Ok(false);
        }
        let mark = self.mark.unwrap_or(self.start);
        if mark > 0 {
            self.input.copy_within(mark..self.end, 0);
            (self.start, self.end) = (self.start - mark, self.end - mark);
            self.mark = Some(0);
        }
        if self.end > self.room {
            return Err(Errno::NOMEM.into());
        }
        if self.input.len() - self.end < BUFFER_SIZE / 2 {
            self.grow(self.input.len().max(BUFFER_SIZE))?;
        }
        if self.interactive {
            standard::flush_output();
        }
        if self.closing.load(Ordering::Relaxed) {
            return Err(Failure::Closed);
        }
        if self.is_on_disk() {
            let count = self.read_now(wanted)?;
            self.end_of_file = count == 0;
            return Ok(count != 0);
        }
        if let Some(watch) = &self.watch {
            watch.clear(Way::Read);
        }
        let patience = self.patience();
        let fd = self.handle.fd();
        let count = patience.read(fd, || rustix::io::read(fd, &mut self.input[self.end..]))?;
        self.end += count;
        self.end_of_file = count == 0;
        Ok(count != 0)
    }

    /// Makes the input buffer longer.
    pub(super) fn grow(&mut self, more: usize) -> Result<(), Failure> {
        let mut larger = std::mem::take(&mut self.input).into_vec();
        reserve(&mut larger, more)?;
        larger.resize(larger.len() + more, 0);
        self.input = larger.into_boxed_slice();
        Ok(())
    }

    /// As [`Stream::line`], parking: where the next line is, without its newline, and whether it has one.
    #[cold]
    pub(super) fn find_line(&mut self) -> Result<Option<(usize, bool)>, Failure> {
        // The mark moves with the buffer, and the line begins where it did.
        let mut from = if self.mark == Some(self.start) { self.searched } else { 0 };
        loop {
            if let Some(at) = newline(&self.unread()[from..]) {
                return Ok(Some((from + at, true)));
            }
            from = self.end - self.start;
            if self.mark == Some(self.start) {
                self.searched = from;
            }
            if !self.append(0)? {
                return Ok(if from == 0 { None } else { Some((from, false)) });
            }
        }
    }
}
