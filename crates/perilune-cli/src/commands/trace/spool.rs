//! A file that is written by a thread of its own, so that whoever drains rings does not wait for a disk.
//!
//! A disk that has much to do lets a write wait for seconds, in which rings go round. What is written
//! collects in buffers, which travel to the thread and come back empty; how many there may be bounds the
//! memory, and only then does the writer wait. An error is told by the next write, and by [`Spool::finish`].

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

/// Bytes of a buffer.
const BUFFER: usize = 1 << 20;
/// Buffers that may wait to be written: a gigabyte.
const MOST: usize = 1 << 10;

/// The writer's side.
pub struct Spool {
    buffer: Vec<u8>,
    full: Option<SyncSender<Vec<u8>>>,
    empty: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Spool {
    /// Writes to `out` from now on.
    ///
    /// # Errors
    /// There can be no thread.
    pub fn new(out: impl Write + Send + 'static) -> io::Result<Spool> {
        let (full, to_write) = sync_channel(MOST);
        let (written, empty) = channel();
        let thread = std::thread::Builder::new().spawn(move || write_all(out, &to_write, &written))?;
        Ok(Spool { buffer: Vec::with_capacity(BUFFER), full: Some(full), empty, thread: Some(thread) })
    }

    fn send(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BUFFER));
        let buffer = std::mem::replace(&mut self.buffer, next);
        match &self.full {
            Some(full) if full.send(buffer).is_ok() => Ok(()),
            // The thread ends early only if it has failed.
            _ => self.join(),
        }
    }

    fn join(&mut self) -> io::Result<()> {
        self.full = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            _ => Err(io::Error::other("the file cannot be written")),
        }
    }

    /// Waits until everything is in the file.
    ///
    /// # Errors
    /// Those of all writes.
    pub fn finish(mut self) -> io::Result<()> {
        self.send()?;
        self.join()
    }
}

impl Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER {
            self.send()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}

fn write_all(mut out: impl Write, full: &Receiver<Vec<u8>>, empty: &Sender<Vec<u8>>) -> io::Result<()> {
    while let Ok(mut buffer) = full.recv() {
        out.write_all(&buffer)?;
        buffer.clear();
        // A few are enough to go round; nobody may want them any more.
        let _ = empty.send(buffer);
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Fails after so many bytes.
    struct Disk(Arc<Mutex<Vec<u8>>>, usize);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut kept = self.0.lock().unwrap();
            if kept.len() >= self.1 {
                return Err(io::Error::new(io::ErrorKind::StorageFull, "full"));
            }
            kept.extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn everything_arrives_in_order() {
        let kept = Arc::default();
        let mut spool = Spool::new(Disk(Arc::clone(&kept), usize::MAX)).unwrap();
        let all: Vec<u8> = (0..3_000_000u32).map(|n| (n / 7) as u8).collect();
        for (n, piece) in all.chunks(70_001).enumerate() {
            spool.write_all(piece).unwrap();
            if n % 5 == 0 {
                spool.flush().unwrap();
            }
        }
        spool.finish().unwrap();
        assert!(*kept.lock().unwrap() == all);
    }

    #[test]
    fn errors_are_told() {
        let mut spool = Spool::new(Disk(Arc::default(), 10)).unwrap();
        let piece = vec![1; BUFFER];
        let failed = (0..5000).find_map(|_| spool.write_all(&piece).err()).expect("an error");
        assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
        let mut spool = Spool::new(Disk(Arc::default(), 0)).unwrap();
        spool.write_all(b"x").unwrap();
        assert_eq!(spool.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
