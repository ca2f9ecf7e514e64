//! Recordings that are damaged, and such that are whole but tell what cannot have happened.
//!
//! A trace may lack any of its events: rings go round, tools attach late, programs are killed. So readers
//! must cope with ends without beginnings, names without definitions, fibers that run twice, times that jump.
//! Inputs are recordings of events at random from the dictionary, with arguments from small pools so that
//! they meet; some have bytes changed afterwards. What can be read is given to everything that reads traces.

use crate::guard::Guard;
use crate::rng::Rng;
use crate::runner::{End, Target};
use perilune_see::profile::{Profile, flame, formats};
use perilune_see::recording;
use perilune_see::view::Timeline;
use perilune_see::view::{query, svg};
use perilune_see::{analyse, export};
use perilune_trace::event::{Category, KINDS, Kind};
use perilune_trace::layout::{DefinitionKind, THREAD};
use perilune_trace::recording::{Chunk, Recorder};
use perilune_trace::{FiberRef, ObjectRef};
use std::io;

/// The target.
pub struct Trace;

/// Numbers that meet each other, and some that meet nothing.
fn number(rng: &mut Rng) -> u64 {
    match rng.below(8) {
        0 => 0,
        1..=3 => 1 + rng.below(4) as u64,
        4 => FiberRef::new(1 + rng.below(3) as u32, 0, rng.below(3) as u32).0,
        5 => FiberRef::root(1 + rng.below(3) as u32).0,
        6 => (1 + rng.below(13) as u64) << 56 | rng.below(3) as u64,
        _ => rng.integer() as u64,
    }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_ne_bytes()).collect()
}

/// A definition as the event file has it.
fn define(to: &mut Vec<u8>, kind: DefinitionKind, bytes: &[u8]) {
    to.extend_from_slice(&(bytes.len() as u32).to_ne_bytes());
    to.extend_from_slice(&(kind as u32).to_ne_bytes());
    to.extend_from_slice(bytes);
    to.resize(to.len().next_multiple_of(8), 0);
}

fn definitions(rng: &mut Rng) -> Vec<u8> {
    let mut all = Vec::new();
    for name in ["main", "f", "@a.lua", "", "ein Name mit \u{e4} und <&\"'>"] {
        define(&mut all, DefinitionKind::String, name.as_bytes());
    }
    for n in 0..5u32 {
        // Parents are older, unless something is wrong.
        let parent = if rng.one_in(8) { rng.below(9) as u32 } else { n.min(rng.below(5) as u32) };
        let node = [parent, rng.below(6) as u32, rng.below(5) as u32, rng.below(90) as u32, 1, n % 4];
        let bytes: Vec<u8> = node.iter().flat_map(|w| w.to_ne_bytes()).collect();
        define(&mut all, DefinitionKind::Stack, &bytes);
    }
    let mut label = words(&[number(rng)]);
    label.extend_from_slice(&2u32.to_ne_bytes());
    define(&mut all, DefinitionKind::Label, &label);
    define(&mut all, DefinitionKind::Origin, &label);
    all
}

/// Events of one writer. Begins are followed by their ends most of the time.
fn events(rng: &mut Rng, now: &mut u64) -> Vec<u8> {
    let writer = if rng.one_in(5) { THREAD | (100 + rng.below(3) as u64) } else { 1 + rng.below(3) as u64 };
    let mut body = words(&[writer]);
    let mut open: Vec<(Kind, u64, u64)> = Vec::new();
    for _ in 0..1 + rng.below(60) {
        *now = match rng.below(40) {
            0 => now.wrapping_sub(rng.below(10_000) as u64),
            1 => now.wrapping_add(rng.below(1 << 40) as u64),
            2 if rng.one_in(10) => rng.integer() as u64,
            _ => now.wrapping_add(rng.below(100_000) as u64),
        };
        let (kind, a, b) = match open.pop() {
            Some((kind, a, b)) if !rng.one_in(3) => (kind as u16 + 1, a, b),
            kept => {
                open.extend(kept);
                let info = &KINDS[rng.below(KINDS.len())];
                let (a, b) = (number(rng), number(rng));
                if Kind::from_number(info.kind as u16 + 1).is_some() {
                    open.push((info.kind, a, b));
                }
                (info.kind as u16, a, b)
            }
        };
        let kind = if rng.one_in(200) { rng.below(300) as u16 } else { kind };
        let c = if rng.one_in(6) { rng.below(1 << 16) as u16 } else { rng.below(5) as u16 };
        body.extend(words(&[(kind as u64) << 16 | c as u64, *now, a, b]));
    }
    body
}

/// What the kernel said: names of processes, then who ran when.
fn sched(rng: &mut Rng) -> Vec<u8> {
    let names = rng.below(3) as u32;
    let mut chunk = words(&[names as u64]);
    for n in 0..names {
        let mut name = [b'p'; 32];
        name[..4].copy_from_slice(&(100 + n).to_ne_bytes());
        name[4..8].copy_from_slice(&(rng.below(30) as u32).to_ne_bytes());
        chunk.extend_from_slice(&name);
    }
    let mut now = 5_000_000_000u64;
    for _ in 0..rng.below(40) {
        now = now.wrapping_add(rng.range(-1000, 1_000_000) as u64);
        chunk.extend(words(&[now]));
        for most in [6, 104, 4, 104, 1000, 1] {
            chunk.extend_from_slice(&(rng.below(most) as u32).to_ne_bytes());
        }
    }
    chunk
}

fn recording(rng: &mut Rng) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut recorder = Recorder::new(&mut bytes, "a title")?;
    let mut now = 1_000_000_000;
    let clock = 1 + rng.below(2) as u64;
    recorder.chunk(Chunk::Session as u32, 0, &words(&[77, clock, now, 5_000_000_000, 1 << 60]))?;
    recorder.chunk(Chunk::Definitions as u32, 0, &definitions(rng))?;
    for ring in 0..1 + rng.below(6) as u32 {
        recorder.chunk(Chunk::Events as u32, ring, &events(rng, &mut now))?;
    }
    if rng.one_in(2) {
        recorder.chunk(Chunk::Sched as u32, 0, &sched(rng))?;
    }
    recorder.chunk(Chunk::Clock as u32, 0, &words(&[now, 5_000_000_000 + now / 3]))?;
    recorder.chunk(Chunk::End as u32, 0, &words(&[5_000_000_000 + now / 3]))?;
    recorder.flush()?;
    drop(recorder);
    Ok(bytes)
}

impl Target for Trace {
    fn name(&self) -> &'static str {
        "trace"
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = recording(rng).unwrap_or_default();
        if rng.one_in(3) {
            for _ in 0..1 + rng.below(8) {
                // The head seldom: it is refused.
                let from = if rng.one_in(6) { 0 } else { 24 };
                let at = from + rng.below(bytes.len() - from);
                bytes[at] = rng.byte();
            }
        }
        if rng.one_in(6) {
            bytes.truncate(rng.below(bytes.len()));
        }
        bytes
    }

    fn run(&mut self, _guard: &Guard, input: &[u8]) -> Result<End, String> {
        let Ok(trace) = recording::read(&mut &input[..]) else { return Ok(End::Refused) };
        for at in 0..trace.events.len() {
            let event = &trace.events[at];
            trace.text(at);
            trace.definitions.object(ObjectRef(event.a));
            trace.definitions.place(event.b as u32);
            if event.kind.category() == Category::Cpu {
                trace.definitions.frames(event.a as u32).count();
            }
        }
        analyse::domains::account(&trace);
        analyse::gc::report(&trace);
        analyse::sched::Sched::new(&trace);
        let latency = analyse::latency::latency(&trace, 10);
        latency.slowest(10);
        for profile in [Profile::cpu(&trace), Profile::alloc(&trace)] {
            let failed = |e: io::Error| e.to_string();
            formats::folded(&profile, io::sink()).map_err(failed)?;
            formats::pprof(&profile, io::sink()).map_err(failed)?;
            formats::speedscope(&profile, io::sink()).map_err(failed)?;
            flame::svg(&profile, "title");
        }
        let timeline = Timeline::new(&trace);
        export::chrome::write(&timeline, io::sink()).map_err(|e| e.to_string())?;
        export::perfetto::write(&timeline, io::sink()).map_err(|e| e.to_string())?;
        query::statistics(&timeline, 0, u64::MAX);
        query::search(&timeline, "a");
        svg::picture(&timeline, 0, trace.end_ns, 1000);
        Ok(End::Accepted)
    }
}
