//! Values that live outside all heaps and cross by reference.
//!
//! Shared objects are `SHARED` values (`shared.rs`) and counted one by one. A value in an island is an
//! address; the graph holds one count of each island that it has values of, and the receiver takes over a
//! copy of each before it makes the first value.

use super::graph::{Refs, code};
use crate::Vm;
use crate::value::{Tag, Value};

/// The words of a value in an island. The graph gets a count of the island if it has none.
pub(super) fn island_words(vm: &Vm, v: Value, refs: &mut Refs) -> [u64; 2] {
    if let Some(island) = vm.island_ref(v) {
        // Values met one after the other are mostly of the same island.
        let known = refs.islands.iter().rev().any(|i| i.number() == island.number());
        if !known {
            refs.islands.push(island);
        }
    }
    [code::ISLAND as u64 | (v.tag().0 as u64) << 8, v.payload()]
}

/// The value of these words; its island is held here.
pub(super) fn island_value(argument: usize, address: u64) -> Value {
    Value::raw(Tag(argument as u8), address)
}

impl Vm {
    /// Takes counts of the islands that a graph has values of.
    pub(super) fn adopt_all(&mut self, refs: &Refs) {
        for island in &refs.islands {
            self.adopt(island.clone());
        }
    }
}
