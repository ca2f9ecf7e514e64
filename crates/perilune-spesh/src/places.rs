//! What an address in machine code stands for: for samplers.
//!
//! A piece of machine code has positions (`positions.rs`): from which offset on it is about which *place*, a
//! number by which the compiler knows an instruction of the function, or of one that is inlined in it. With
//! what was inlined where, that is a chain: the innermost function and its instruction, the call that it was
//! built in place of, and so on.
//!
//! A signal handler notes the address alone; what it stands for is looked up when the sample is taken, by the
//! thread that was interrupted, a moment later. So the map needs no more than a lock. (`ranges.rs` is the map
//! for those who have to know in the handler.)

use crate::positions::Positions;
use perilune_syntax::Proto;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A function that was built: the compiled one, or one in place of a call.
#[derive(Clone, Debug)]
pub struct Built {
    /// The function.
    pub proto: Arc<Proto>,
    /// The place of its first instruction.
    pub first: usize,
    /// The place of the call; `None`: it is the compiled function.
    pub call: Option<usize>,
}

impl Built {
    /// The innermost one that a place belongs to.
    pub fn find(all: &[Built], place: usize) -> Option<&Built> {
        all.iter().rev().find(|built| (built.first..=built.first + built.proto.code.len()).contains(&place))
    }

    /// The instruction at a place of it. One more place is where its results come back.
    pub fn instruction(&self, place: usize) -> usize {
        (place - self.first).min(self.proto.code.len() - 1)
    }

    /// The line of a place of it; 0: it has none.
    pub fn line(&self, place: usize) -> u32 {
        self.proto.line_at(self.instruction(place)).unwrap_or(0)
    }
}

/// Where the pieces of a machine code come from.
#[derive(Debug, Default)]
pub struct Places {
    positions: Positions,
    /// Callers before what they call.
    built: Vec<Built>,
}

impl Places {
    /// Those of a piece.
    pub fn new(positions: Positions, built: Vec<Built>) -> Places {
        Places { positions, built }
    }

    fn built(&self, place: usize) -> Option<&Built> {
        Built::find(&self.built, place)
    }

    /// Functions and their instructions at an offset, the innermost first.
    pub fn chain(&self, offset: u32) -> Vec<(Arc<Proto>, usize)> {
        let mut chain = Vec::new();
        let mut place = self.positions.near(offset).map(|place| place.0 as usize);
        while let Some((at, built)) = place.and_then(|at| Some((at, self.built(at)?))) {
            chain.push((Arc::clone(&built.proto), built.instruction(at)));
            place = built.call;
        }
        chain
    }

    /// From which offset on which line runs, with where that is: the innermost function's.
    pub fn lines(&self) -> Vec<(u32, String, u32)> {
        let line = |(offset, place): (u32, crate::positions::Place)| {
            let built = self.built(place.0 as usize)?;
            Some((offset, crate::report::source_of(&built.proto), built.line(place.0 as usize)))
        };
        self.positions.starts().filter_map(line).collect()
    }
}

/// The pieces of a process, by their first address, with their lengths.
#[derive(Debug, Default)]
pub struct Map(Mutex<BTreeMap<usize, (usize, Arc<Places>)>>);

impl Map {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, (usize, Arc<Places>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A piece is there.
    pub fn insert(&self, address: usize, length: usize, places: Arc<Places>) {
        self.lock().insert(address, (length, places));
    }

    /// It is about to be freed.
    pub fn remove(&self, address: usize) {
        self.lock().remove(&address);
    }

    /// Functions and their instructions at an address, the innermost first; none if no piece lies there.
    pub fn find(&self, address: usize) -> Vec<(Arc<Proto>, usize)> {
        let found = {
            let map = self.lock();
            let last = map.range(..=address).next_back();
            last.filter(|(start, (length, _))| address < **start + length)
                .map(|(start, (_, of))| (*start, Arc::clone(of)))
        };
        found.map_or_else(Vec::new, |(start, places)| places.chain((address - start) as u32))
    }
}
