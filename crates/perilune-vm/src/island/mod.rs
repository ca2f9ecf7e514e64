//! Islands: values frozen into memory that every domain can read.
//!
//! [`Vm::share`] copies a graph of values once, deeply, into an *island* (`perilune_heap`'s `island` has the
//! memory and the counts): the same layouts as in a private heap, so that reading goes through the same code
//! and the same inline caches. Nothing in an island is lazy: hashes and absent metamethods are computed by
//! the copy.
//!
//! * `copy.rs`: the copy.
//! * `scratch.rs`: what it needs meanwhile.
//! * `refuse.rs`: what cannot be shared, and the path by which it was reached.
//! * `lookups.rs`: what was found by computed names.
//! * `function.rs`: functions in islands, and the closures that a domain makes of them.
//!
//! # What differs from private objects
//! * Headers carry an epoch that is never current: stores are refused (`Vm::check_writable`).
//! * Strings are never interned; they are compared by content. As a key of a private table a private copy is
//!   used. Dictionaries have a shape of their own ([`crate::shape::FROZEN_DICT`]).
//! * Functions are objects of a kind of their own.
//! * There is no reference out of an island but to older islands, prototypes and shared objects, which it
//!   counts.
//!
//! # Arrival
//! A value in an island may be used in a domain once the domain holds the island: [`Vm::adopt`], which also
//! makes the names of all shapes in it known to the domain. From then on the collector takes care.

mod copy;
mod function;
mod lookups;
mod refuse;
mod scratch;

pub(crate) use function::FunctionCache;
pub use function::SharedFunction;
pub(crate) use lookups::{Lookups, Otherwise};
pub(crate) use scratch::Scratch;

use crate::Vm;
use crate::native::LuaResult;
use crate::shared::SharedArc;
use crate::value::{Tag, Value};
use perilune_heap::{IslandRef, is_island};
use perilune_syntax::Proto;
use std::sync::Arc;

/// Strings shorter than this are not worth an island of their own.
const WORTH_SHARING: usize = 1024;

/// What an island keeps besides its objects.
pub(crate) struct Contents {
    /// Of the functions; never looked at, only kept.
    #[expect(dead_code, reason = "functions refer to these")]
    protos: Vec<Arc<Proto>>,
    shared: Vec<SharedArc>,
    /// Of the tables, each once.
    shapes: Vec<u32>,
}

impl Value {
    /// Whether the value is an object in an island.
    #[inline]
    pub(crate) fn is_in_island(self) -> bool {
        self.is_collectable() && is_island(self.payload() as usize)
    }
}

impl Vm {
    /// A frozen deep copy of `v`, which every domain that holds its island may read. Cycles and sharing are
    /// kept, values in older islands are referred to. What needs no copy comes back as it is: plain values,
    /// native functions, short strings, shared objects, and values in islands.
    ///
    /// # Errors
    /// "cannot share: ..." names the first part that cannot be shared, and why. "not enough memory".
    pub fn share(&mut self, v: Value) -> LuaResult<Value> {
        let short = v.as_string().is_some_and(|s| s.len() < WORTH_SHARING);
        if short || (self.is_shared(v) && v.tag() != Tag::STRING) {
            return Ok(v);
        }
        let (shared, island) = copy::copy(self, v)?;
        self.heap.adopt_island(island, true, |_| ());
        Ok(shared)
    }

    /// A string's copy in an island of its own, which this domain does not hold; `None`: there is no memory
    /// for it.
    pub(crate) fn share_string(&mut self, v: Value) -> Option<(Value, IslandRef)> {
        debug_assert!(v.tag() == Tag::STRING && !v.is_in_island());
        copy::try_copy(self, v).ok()
    }

    /// Whether sharing `v` would change nothing: it is in an island, a shared object, or of a type whose
    /// values have neither state nor identity (nil, booleans, numbers, strings, native functions without
    /// upvalues).
    pub fn is_shared(&self, v: Value) -> bool {
        !v.is_collectable() || matches!(v.tag(), Tag::STRING | Tag::SHARED) || v.is_in_island()
    }

    /// A count of the island that `v` is in, for a parcel; `None` if it is in none.
    pub fn island_ref(&self, v: Value) -> Option<IslandRef> {
        if v.is_in_island() { self.heap.island_at(v.payload() as usize) } else { None }
    }

    /// Whether this domain holds the island that `v` is in.
    pub fn holds_island_of(&self, v: Value) -> bool {
        v.is_in_island() && self.heap.holds_island_at(v.payload() as usize)
    }

    /// Takes over a count of an island: from now on this domain may use its values.
    pub fn adopt(&mut self, island: IslandRef) {
        let mut arrived = Vec::new();
        self.heap.adopt_island(island, false, |island| {
            if let Some(c) = contents(island) {
                arrived.extend_from_slice(&c.shapes);
            }
        });
        for shape in arrived {
            if self.lua.islands.shapes.insert(shape) {
                self.adopt_shape(shape);
            }
        }
    }
}

/// What `island` keeps.
pub(crate) fn contents(island: &IslandRef) -> Option<&Contents> {
    island.contents()?.downcast_ref()
}

/// Contents of an island that holds these, for tests.
#[cfg(test)]
pub(crate) fn test_contents(shared: Vec<SharedArc>) -> perilune_heap::IslandContents {
    Box::new(Contents { protos: Vec::new(), shared, shapes: Vec::new() })
}

/// The shared objects that an island keeps alive, for whoever looks for cycles through them.
pub fn shared_objects(island: &IslandRef) -> &[SharedArc] {
    contents(island).map_or(&[], |c| &c.shared)
}
