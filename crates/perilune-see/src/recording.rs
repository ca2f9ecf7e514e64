//! Recordings, read: the other end of [`perilune_trace::recording`], which says what is in the file.
//!
//! # Damage
//! A file may end anywhere. What is complete counts, the reader says that the rest is missing. A chunk whose
//! head makes no sense ends the reading: what follows could be anything. There are no checksums: a wrong
//! event is one wrong event, and every reader copes with those (numbers without names, ends without
//! beginnings).

use crate::trace::Trace;
use perilune_trace::clock::{self, Scale};
use perilune_trace::layout;
use perilune_trace::read::RawEvent;
use perilune_trace::recording::{Chunk, MAGIC, ORDER, VERSION};
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// The longest chunk that makes sense, in bytes.
const LONGEST: u64 = 1 << 40;

fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}

/// Reads a recording.
///
/// # Errors
/// It is none, one of another version or another kind of machine, or cannot be read.
pub fn read(from: &mut dyn Read) -> io::Result<Trace> {
    let mut head = [0; 24];
    if fill(from, &mut head)? < head.len() || head[..8] != MAGIC {
        return Err(invalid("not a recording"));
    }
    let word = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap_or_default());
    match (word(8), word(12), word(16)) {
        (ORDER, VERSION, layout::VERSION) => {}
        (ORDER, version, events) => {
            return Err(invalid(format!(
                "a recording of version {version}.{events}; this tool reads version {VERSION}.{}",
                layout::VERSION
            )));
        }
        (order, ..) if order == ORDER.swap_bytes() => {
            return Err(invalid(
                "a recording from a machine with the other order of bytes: read it on such a machine",
            ));
        }
        _ => return Err(invalid("not a recording, or a damaged one")),
    }
    let mut reading = Reading::default();
    let complete = reading.chunks(from)?;
    let mut trace = reading.finish(complete);
    let (sched, rest) = trace.chunks.drain(..).partition(|(kind, _)| *kind == Chunk::Sched as u32);
    trace.chunks = rest;
    let sched: Vec<(u32, Box<[u8]>)> = sched;
    for (_, records) in &sched {
        crate::kernel::add_to(&mut trace, records);
    }
    Ok(trace)
}

/// Fills the buffer as far as there is something to read.
fn fill(from: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut at = 0;
    while at < buffer.len() {
        match from.read(&mut buffer[at..]) {
            Ok(0) => break,
            Ok(n) => at += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(at)
}

fn word(bytes: &[u8], n: usize) -> u64 {
    bytes.get(n * 8..n * 8 + 8).map_or(0, |w| u64::from_ne_bytes(w.try_into().unwrap_or_default()))
}

#[derive(Default)]
struct Reading {
    trace: Trace,
    first: Option<(u64, u64)>,
    last: Option<(u64, u64)>,
    is_counter: bool,
    end: u64,
    losses: [u64; 3],
    buffer: Vec<u8>,
}

impl Reading {
    /// Reads chunks up to the end of the file; was it a proper one?
    fn chunks(&mut self, from: &mut dyn Read) -> io::Result<bool> {
        let mut ended = false;
        loop {
            let mut head = [0; 16];
            match fill(from, &mut head)? {
                0 => return Ok(ended),
                16 => {}
                _ => return Ok(false),
            }
            let kind = u32::from_ne_bytes([head[0], head[1], head[2], head[3]]);
            let ring = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
            let length = word(&head, 1);
            if kind == 0 || length > LONGEST {
                return Ok(false);
            }
            let whole = if kind == Chunk::Events as u32 {
                self.events(from, ring, length)?
            } else {
                let mut body = std::mem::take(&mut self.buffer);
                body.clear();
                let padded = length.next_multiple_of(8);
                let n = (&mut *from).take(padded).read_to_end(&mut body)? as u64;
                body.truncate(length as usize);
                self.chunk(kind, &body);
                self.buffer = body;
                n == padded
            };
            ended = kind == Chunk::End as u32;
            if !whole {
                return Ok(false);
            }
        }
    }

    /// Takes in the events of a chunk, as many as there are. Were all?
    fn events(&mut self, from: &mut dyn Read, ring: u32, length: u64) -> io::Result<bool> {
        let mut writer = [0; 8];
        if length < 8 || !length.is_multiple_of(8) || fill(from, &mut writer)? < 8 {
            return Ok(false);
        }
        let writer = u64::from_ne_bytes(writer);
        let mut left = length - 8;
        let mut piece = std::mem::take(&mut self.buffer);
        while left > 0 {
            piece.resize(left.min(32 << 10) as usize, 0);
            let n = fill(from, &mut piece)?;
            for slot in piece[..n].chunks_exact(32) {
                let stamp = word(slot, 0);
                let event = RawEvent {
                    ticks: word(slot, 1),
                    ring,
                    kind: (stamp >> 16) as u16,
                    c: stamp as u16,
                    writer,
                    a: word(slot, 2),
                    b: word(slot, 3),
                };
                self.trace.add(&event, event.ticks);
            }
            if n < piece.len() {
                self.buffer = piece;
                return Ok(false);
            }
            left -= n as u64;
        }
        self.buffer = piece;
        Ok(true)
    }

    fn chunk(&mut self, kind: u32, body: &[u8]) {
        let trace = &mut self.trace;
        match kind {
            k if k == Chunk::Session as u32 => {
                trace.pid = word(body, 0) as u32;
                self.is_counter = word(body, 1) == clock::Clock::Counter as u64;
                self.first = Some((word(body, 2), word(body, 3)));
                trace.start_mono_ns = word(body, 3);
                trace.start_real_ns = word(body, 4);
            }
            k if k == Chunk::Title as u32 => trace.title = String::from_utf8_lossy(body).into_owned(),
            k if k == Chunk::Definitions as u32 => _ = trace.definitions.parse(body),
            k if k == Chunk::Clock as u32 => self.last = Some((word(body, 0), word(body, 1))),
            k if k == Chunk::Losses as u32 => self.losses = [word(body, 0), word(body, 1), word(body, 2)],
            k if k == Chunk::End as u32 => self.end = word(body, 0),
            _ => trace.chunks.push((kind, body.into())),
        }
    }

    fn finish(self, complete: bool) -> Trace {
        let mut trace = self.trace;
        let first = self.first.unwrap_or_default();
        let scale = match self.last {
            Some(last) if self.is_counter => Scale::new(first, last),
            _ => Scale { first, ratio: 1.0 },
        };
        for event in &mut trace.events {
            event.ns = scale.ns(event.ns).saturating_sub(first.1);
        }
        trace.lost = self.losses[0];
        trace.remark_losses(self.losses[1], self.losses[2]);
        if !complete {
            trace.remarks.push("the recording breaks off: what came later is missing".into());
        }
        trace.finish(self.end.saturating_sub(first.1));
        trace
    }
}

impl Trace {
    /// Reads an event file or a recording, whichever it is.
    ///
    /// # Errors
    /// It is neither, or cannot be read; the file's name is part of the message.
    pub fn load(path: &Path) -> io::Result<Trace> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
        let mut file = File::open(path).map_err(named)?;
        let mut magic = [0; 8];
        let n = fill(&mut file, &mut magic).map_err(named)?;
        match &magic[..n] {
            [] => Err(invalid("the file is empty")),
            m if *m == layout::MAGIC => Trace::from_ring_file(path),
            m if *m == MAGIC => {
                let mut file = BufReader::with_capacity(1 << 18, file);
                read(&mut magic.chain(&mut file))
            }
            _ => Err(invalid("neither an event file nor a recording")),
        }
        .map_err(named)
    }
}
