//! Recordings: what a tool has read from rings, in a file that lasts.
//!
//! ```text
//! FileHead    magic, order of bytes, version, version of the events         24 bytes
//! chunk       kind u32, number u32, length u64, then so many bytes, padded to 8
//! chunk       ...
//! ```
//! Chunks are appended as things happen, so that a recording whose tool was killed can be read up to there.
//! Kinds: [`Chunk`]; readers hand on kinds that they do not know (`Trace::chunks`). Events lie as in rings,
//! 32 bytes each: `kind << 16 | c`, ticks, `a`, `b`; definitions as in the event file. All numbers are in the
//! order of the machine that wrote them: a recording is copied from memory and not taken apart, and machines
//! of the other order that run Perilune are rare. One that comes from there is refused with a message.
//!
//! Times are ticks; they become nanoseconds when the file is read, by the first and the last pair of clocks
//! in it.
//!
//! # Damage
//! A file may end anywhere. What is complete counts, the reader says that the rest is missing. A chunk whose
//! head makes no sense ends the reading: what follows could be anything. There are no checksums: a wrong
//! event is one wrong event, and every reader copes with those (numbers without names, ends without
//! beginnings).
//!
//! *Rejected.* Compression and numbers of varying length: half the size for twice the time, and it could not
//! keep up with eight domains. A table of contents: readers need all of it anyway. Common formats (CTF,
//! Perfetto): they are exported to, but cannot hold call paths and identities as the tools want them.

use crate::clock;
use crate::emit;
use crate::layout::{self, State};
use crate::read::{RawEvent, RingReader};
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::mem::ManuallyDrop;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;

/// First bytes of the file; a transfer as text breaks them.
pub const MAGIC: [u8; 8] = *b"PLTREC\r\n";
/// Version of the frame; kinds of chunks may be added without a new one.
pub const VERSION: u32 = 1;
/// Reads differently in the other order of bytes.
pub const ORDER: u32 = 0x0102_0304;
/// What a chunk holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Chunk {
    /// The session: process, [`clock::Clock`] (both u32), ticks, `CLOCK_MONOTONIC` and time of day when it
    /// began (u64, ns).
    Session = 1,
    /// What was traced, for people: the command line.
    Title = 2,
    /// Definitions, as in the event file; all chunks of this kind together.
    Definitions = 3,
    /// Events of one ring (the chunk's number) and one writer (u64): 32 bytes each.
    Events = 4,
    /// A later pair of ticks and `CLOCK_MONOTONIC` (u64).
    Clock = 5,
    /// Up to now: events lost, writers that found no ring, definitions that found no room (u64).
    Losses = 6,
    /// The recording is complete: `CLOCK_MONOTONIC` when the session ended (u64).
    End = 7,
    /// What the kernel said of threads (`kernel.rs`).
    Sched = 64,
}

/// Appends a chunk to `out`.
fn frame(out: &mut Vec<u8>, kind: u32, number: u32, parts: &[&[u8]]) {
    let length: usize = parts.iter().map(|p| p.len()).sum();
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&number.to_ne_bytes());
    out.extend_from_slice(&(length as u64).to_ne_bytes());
    for part in parts {
        out.extend_from_slice(part);
    }
    out.resize(out.len() + length.next_multiple_of(8) - length, 0);
}

fn words<const N: usize>(words: [u64; N]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

/// Appends events, as they were drained, to `out` in the form of chunks. 32 bytes an event, and 24 for each
/// run of one writer.
pub fn encode(batch: &[RawEvent], out: &mut Vec<u8>) {
    for run in batch.chunk_by(|x, y| (x.ring, x.writer) == (y.ring, y.writer)) {
        let length = 8 + 32 * run.len() as u64;
        out.reserve(16 + length as usize);
        out.extend_from_slice(&(Chunk::Events as u32).to_ne_bytes());
        out.extend_from_slice(&run[0].ring.to_ne_bytes());
        out.extend_from_slice(&length.to_ne_bytes());
        out.extend_from_slice(&run[0].writer.to_ne_bytes());
        for e in run {
            let mut slot = [0; 32];
            slot[..8].copy_from_slice(&((e.kind as u64) << 16 | e.c as u64).to_ne_bytes());
            slot[8..16].copy_from_slice(&e.ticks.to_ne_bytes());
            slot[16..24].copy_from_slice(&e.a.to_ne_bytes());
            slot[24..].copy_from_slice(&e.b.to_ne_bytes());
            out.extend_from_slice(&slot);
        }
    }
}

/// Writes a recording as events arrive.
pub struct Recorder<W: Write> {
    out: W,
    buffer: Vec<u8>,
    /// Bytes of definitions that are in the file.
    definitions: usize,
    /// The session is in the file.
    begun: bool,
    /// `CLOCK_MONOTONIC` of the last pair, and the losses then.
    paired: u64,
    losses: [u64; 3],
}

impl<W: Write> Recorder<W> {
    /// Begins a recording. `title`: what is traced, for people.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W, title: &str) -> io::Result<Recorder<W>> {
        let mut buffer = MAGIC.to_vec();
        for word in [ORDER, VERSION, layout::VERSION, 0] {
            buffer.extend_from_slice(&word.to_ne_bytes());
        }
        frame(&mut buffer, Chunk::Title as u32, 0, &[title.as_bytes()]);
        out.write_all(&buffer)?;
        Ok(Recorder { out, buffer, definitions: 0, begun: false, paired: 0, losses: [0; 3] })
    }

    /// Adds what [`RingReader::drain`] has just given.
    ///
    /// # Errors
    /// Those of the output.
    pub fn add(&mut self, reader: &RingReader, batch: &[RawEvent]) -> io::Result<()> {
        self.buffer.clear();
        self.facts(reader, false);
        encode(batch, &mut self.buffer);
        self.out.write_all(&self.buffer)
    }

    /// Adds what [`encode`] has made earlier.
    ///
    /// # Errors
    /// Those of the output.
    pub fn add_encoded(&mut self, reader: &RingReader, chunks: &[u8]) -> io::Result<()> {
        self.add(reader, &[])?;
        self.out.write_all(chunks)
    }

    /// Adds a chunk of another kind.
    ///
    /// # Errors
    /// Those of the output.
    pub fn chunk(&mut self, kind: u32, number: u32, bytes: &[u8]) -> io::Result<()> {
        self.buffer.clear();
        frame(&mut self.buffer, kind, number, &[bytes]);
        self.out.write_all(&self.buffer)
    }

    /// What was added reaches the file.
    ///
    /// # Errors
    /// Those of the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// What belongs to the events that are written next, as far as it is new.
    fn facts(&mut self, reader: &RingReader, all: bool) {
        let h = reader.mapping().header();
        let start = h.start_mono_ns.load(Ordering::Relaxed);
        // A program that has been started may not have come to begin its session.
        if !self.begun && h.pid.load(Ordering::Acquire) != 0 {
            self.begun = true;
            let pid = h.pid.load(Ordering::Relaxed) as u64;
            let clock = h.clock.load(Ordering::Relaxed) as u64;
            let ticks = h.start_ticks.load(Ordering::Relaxed);
            let session = words([pid, clock, ticks, start, h.start_real_ns.load(Ordering::Relaxed)]);
            frame(&mut self.buffer, Chunk::Session as u32, 0, &[&session]);
        }
        let definitions = reader.raw_definitions(self.definitions);
        if !definitions.is_empty() {
            frame(&mut self.buffer, Chunk::Definitions as u32, 0, &[definitions]);
            self.definitions += definitions.len();
        }
        let losses = [
            reader.lost(),
            h.writers_refused.load(Ordering::Relaxed),
            h.definitions_lost.load(Ordering::Relaxed),
        ];
        if losses != self.losses {
            self.losses = losses;
            frame(&mut self.buffer, Chunk::Losses as u32, 0, &[&words(losses)]);
        }
        let now = clock::monotonic_ns();
        if self.begun && (all || now - self.paired > 1_000_000_000) {
            self.paired = now;
            let scale = reader.scale();
            // Two points of the same line, the second far enough away to keep the rate exact.
            let ticks = scale.first.0.wrapping_add(1 << 40);
            let pair = words([ticks, scale.ns(ticks)]);
            frame(&mut self.buffer, Chunk::Clock as u32, 0, &[&pair]);
        }
    }

    /// Completes the recording.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self, reader: &RingReader) -> io::Result<W> {
        self.buffer.clear();
        self.facts(reader, true);
        let h = reader.mapping().header();
        let end = match h.state.load(Ordering::Acquire) == State::Live as u32 {
            true => clock::monotonic_ns(),
            false => h.later_mono_ns.load(Ordering::Relaxed),
        };
        frame(&mut self.buffer, Chunk::End as u32, 0, &[&words([end])]);
        self.out.write_all(&self.buffer)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Makes the file, for this user's eyes only; one that exists is emptied.
///
/// # Errors
/// It cannot be made.
pub fn create(path: &Path) -> io::Result<BufWriter<File>> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    Ok(BufWriter::with_capacity(1 << 18, file))
}

/// Writes a recording of what this process's own rings hold now: the last moments of all its domains.
///
/// # Errors
/// Nothing is being traced; the file cannot be written.
pub fn snapshot(path: &Path) -> io::Result<()> {
    let Some(map) = emit::mapping().filter(|_| emit::has_session()) else {
        return Err(io::Error::other("nothing is being traced"));
    };
    let mut reader = ManuallyDrop::new(RingReader::new(ManuallyDrop::into_inner(map)));
    let result = snapshot_of(&mut reader, path);
    // The mapping stays where it is; the rest of the reader goes.
    std::mem::forget(ManuallyDrop::into_inner(reader).into_mapping());
    result
}

fn snapshot_of(reader: &mut RingReader, path: &Path) -> io::Result<()> {
    let title = crate::sys::command_line();
    let title: Vec<_> = title.split(|&b| b == 0).map(String::from_utf8_lossy).collect();
    let mut recorder = Recorder::new(create(path)?, title.join(" ").trim_end())?;
    let mut batch = Vec::new();
    reader.drain(&mut |e| batch.push(e));
    recorder.add(reader, &batch)?;
    recorder.finish(reader)?;
    Ok(())
}
