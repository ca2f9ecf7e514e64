//! The hash part: a chained scatter table with Brent's variation.
//!
//! `1 << log2_nodes` nodes; a key's *main position* comes from its hash. Keys with the same main position
//! form a chain of nodes linked by relative distances. A key whose main position is taken goes to a free
//! node; but if the node there is taken by a key that is away from its own main position, that one moves away
//! instead. So a key is found within its own chain, and the part can be filled to the last node.
//!
//! Removing stores nil and leaves the key in its node (dead). A dead node is used again when its key comes
//! back, or as the main position of a new key. When a new key finds no free node, `table/rehash.rs` looks at
//! both parts anew.
//!
//! Main positions of integers and booleans, and the order in which free nodes are taken, are those of the
//! reference implementation: a small table with only such keys is traversed in the same order, on which
//! programs have come to rely (`{[0] = "a", [1] = "b"}` begins with 0). A constructor says how many keys it
//! will store; the nodes are made when the first of them comes ([`Table::expect_nodes`]).
//!
//! The collector may reuse the memory of a dead key. That is harmless: a dead key is only ever compared by
//! address, and a new object that takes the address finds a nil value.

use super::{TABLE_INT_NODES, TABLE_REF_NODES, edit};
use crate::Vm;
use crate::native::LuaResult;
use crate::object::{LuaString, Node, Table};
use crate::shared::SharedRef;
use crate::value::{Gc, Stores, Tag, Value};
use std::ptr::null_mut;

/// Tag of the key of a node that has neither key nor value, but a place in a chain.
const BURIED: u8 = 0xff;

/// Most nodes, as a logarithm.
const MAX_LOG2: u32 = 30;

impl Node {
    /// A node that has never been used.
    pub(crate) const FREE: Node = Node { value: 0, key: 0, value_tag: 0, key_tag: 0, _pad: 0, next: 0 };

    /// Leaves neither key nor value, but the chain as it is.
    pub(crate) fn bury(&mut self) {
        (self.key, self.key_tag) = (0, BURIED);
        self.set_value(Value::NIL);
    }
    #[inline(always)]
    pub(crate) fn value(&self) -> Value {
        Value::raw(Tag(self.value_tag), self.value)
    }
    #[inline(always)]
    pub(crate) fn key(&self) -> Value {
        Value::raw(Tag(self.key_tag), self.key)
    }
    #[inline(always)]
    pub(crate) fn set_value(&mut self, v: Value) {
        self.value = v.payload();
        self.value_tag = v.tag().0;
    }
    /// Has a value.
    #[inline(always)]
    pub(crate) fn is_live(&self) -> bool {
        self.value_tag != Tag::NIL.0
    }
}

#[inline(always)]
fn hash_other(key: Value) -> u32 {
    // The significant bits of a float are its upper ones, those of an address its lower ones: fold, then
    // spread upwards. Machine code does the same.
    ((key.payload() ^ key.payload() >> 32 ^ key.tag().0 as u64).wrapping_mul(HASH_FACTOR) >> 32) as u32
}

/// What [`hash_other`] spreads by.
pub(crate) const HASH_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Table {
    /// Number of nodes, used or not.
    #[inline(always)]
    pub(crate) fn node_count(&self) -> usize {
        if self.nodes.is_null() { 0 } else { 1 << self.log2_nodes }
    }

    /// The nodes.
    #[inline]
    pub(crate) fn node_slice(&self) -> &[Node] {
        if self.nodes.is_null() {
            return &[];
        }
        // SAFETY: the buffer has that many nodes.
        unsafe { std::slice::from_raw_parts(self.nodes, self.node_count()) }
    }

    /// The nodes, if there may be references among them.
    #[inline]
    pub(super) fn ref_nodes(&self) -> &[Node] {
        if self.header.flags & TABLE_REF_NODES == 0 { &[] } else { self.node_slice() }
    }

    /// Keys in the hash part that have a value.
    pub(crate) fn live_nodes(&self) -> usize {
        self.node_slice().iter().filter(|n| n.is_live()).count()
    }

    /// The node at `hash`'s main position; there are nodes.
    #[inline(always)]
    fn main(&self, hash: u32) -> *mut Node {
        // SAFETY: masked to the number of nodes.
        unsafe { self.nodes.add(hash as usize & ((1 << self.log2_nodes) - 1)) }
    }

    /// Main position of an integer key: the key, as an unsigned number, modulo the largest odd number up to
    /// the number of nodes less one. Neighbouring keys get neighbouring nodes.
    #[inline(always)]
    fn main_int(&self, i: i64) -> *mut Node {
        let (key, k) = (i as u64, self.log2_nodes);
        let modulus = ((1u64 << k) - 1) | 1;
        // Digits to base `modulus + 1` sum up to the same remainder; most keys have two.
        let sum = (key & ((1 << k) - 1)) + (key >> k);
        let sum = (sum & ((1 << k) - 1)) + (sum >> k);
        let at = match k {
            // Division by a constant is a multiplication.
            0 | 1 => 0,
            2 => key % 3,
            3 => key % 7,
            4 => key % 15,
            _ if key >> k >> k != 0 => Self::remainder(key, modulus),
            _ if sum >= modulus => sum - modulus,
            _ => sum,
        };
        // SAFETY: below the number of nodes.
        unsafe { self.nodes.add(at as usize) }
    }

    #[inline(always)]
    fn remainder(key: u64, modulus: u64) -> u64 {
        // Division of 32 bits is faster.
        match (u32::try_from(key), u32::try_from(modulus)) {
            (Ok(key), Ok(modulus)) => u64::from(key % modulus),
            _ => key % modulus,
        }
    }

    fn main_of(&self, key: Value) -> *mut Node {
        match key.tag() {
            Tag::INT => self.main_int(key.int_bits()),
            Tag::STRING => self.main(key.gc::<LuaString>().hash()),
            _ => self.main_other(key),
        }
    }

    /// Main position of a key that is neither integer nor string.
    #[inline(always)]
    fn main_other(&self, key: Value) -> *mut Node {
        self.main(match key.tag() {
            Tag::FALSE => 0,
            Tag::TRUE => 1,
            _ => hash_other(key),
        })
    }

    /// The node of a key by tag and payload, starting at a main position; null if there is none.
    #[inline(always)]
    fn find(&self, mut node: *mut Node, key: Value) -> *mut Node {
        loop {
            // SAFETY: chains stay within the nodes.
            unsafe {
                let n = &*node;
                if n.key == key.payload() && n.key_tag == key.tag().0 {
                    return node;
                }
                if n.next == 0 {
                    return null_mut();
                }
                node = node.offset(n.next as isize);
            }
        }
    }

    /// The node of a string key (interned), dead or not; null if there is none.
    #[inline(always)]
    pub(crate) fn find_str(&self, key: Gc<LuaString>) -> *mut Node {
        if self.nodes.is_null() {
            return null_mut();
        }
        // Not `hash()`: interned strings have theirs.
        self.find(self.main(key.hash), Value::from(key))
    }

    /// The node of a string key in a table of an island, whose keys are compared by content; null if there is
    /// none.
    pub(crate) fn find_frozen_str(&self, key: Gc<LuaString>) -> *mut Node {
        if self.nodes.is_null() {
            return null_mut();
        }
        let hash = key.hash();
        let mut node = self.main(hash);
        loop {
            // SAFETY: chains stay within the nodes; keys that are strings are strings of islands.
            unsafe {
                let n = &*node;
                if n.key_tag == Tag::STRING.0 {
                    let s = n.key().gc::<LuaString>();
                    if s == key || (s.hash == hash && crate::string::same_text(s.ptr(), key.ptr())) {
                        return node;
                    }
                }
                if n.next == 0 {
                    return null_mut();
                }
                node = node.offset(n.next as isize);
            }
        }
    }

    /// The node of a key that is a shared object in a table of an island. Addresses of references to it do
    /// not matter, so all nodes are looked at.
    #[cold]
    pub(crate) fn find_frozen_shared(&self, key: Gc<SharedRef>) -> *mut Node {
        let is_it = |n: &Node| {
            n.is_live()
                && n.key_tag == Tag::SHARED.0
                && n.key().gc::<SharedRef>().identity() == key.identity()
        };
        match self.node_slice().iter().position(is_it) {
            // SAFETY: one of the nodes.
            Some(at) => unsafe { self.nodes.add(at) },
            None => null_mut(),
        }
    }

    /// The node of an integer key, dead or not; null if there is none.
    #[inline(always)]
    pub(crate) fn find_int(&self, i: i64) -> *mut Node {
        if self.nodes.is_null() {
            return null_mut();
        }
        self.find(self.main_int(i), Value::int(i))
    }

    /// The node of a key that is neither integer nor string, nor a float that stands for an integer.
    #[inline]
    pub(crate) fn find_other(&self, key: Value) -> *mut Node {
        if self.nodes.is_null() {
            return null_mut();
        }
        self.find(self.main_other(key), key)
    }

    /// The value in `node`; nil if it is null.
    #[inline(always)]
    pub(crate) fn node_value(&self, node: *mut Node) -> Value {
        // SAFETY: not null, so it is one of the table's nodes.
        if node.is_null() { Value::NIL } else { unsafe { (*node).value() } }
    }

    /// Says that keys are about to be stored in a table that has no hash part: for `log2_plus_1` above 0
    /// about `1 << (log2_plus_1 - 1)`.
    pub(crate) fn expect_nodes(&mut self, log2_plus_1: u8) {
        debug_assert!(self.nodes.is_null() && u32::from(log2_plus_1) <= MAX_LOG2);
        self.log2_nodes = log2_plus_1;
    }

    /// Whether the table has no hash part, and is not about to get one.
    #[inline(always)]
    pub(super) fn has_no_nodes(&self) -> bool {
        self.nodes.is_null() && self.log2_nodes == 0
    }

    /// Puts a new key in place and returns its node, and the one that it has moved a key to, if any (else its
    /// own again); `None` if there is no free node.
    #[must_use]
    fn insert(&mut self, key: Value, v: Value) -> Option<(*mut Node, *mut Node)> {
        if self.nodes.is_null() {
            return None;
        }
        let main = self.main_of(key);
        let (mut home, mut moved) = (main, main);
        // SAFETY: `main`, `free` and what the chains lead to are nodes of this table; live nodes have live
        // keys, whose main positions can be computed.
        unsafe {
            if (*main).is_live() {
                let free = self.take_free()?;
                let other = self.main_of((*main).key());
                if other != main {
                    // The node here is a guest: it moves to the free node, and the chain that it is in
                    // follows.
                    let mut before = other;
                    while before.offset((*before).next as isize) != main {
                        before = before.offset((*before).next as isize);
                    }
                    (*before).next = free.offset_from(before) as i32;
                    *free = *main;
                    if (*main).next != 0 {
                        (*free).next += main.offset_from(free) as i32;
                        (*main).next = 0;
                    }
                    moved = free;
                } else {
                    // The key here is at home: the new one goes to the free node, second in the chain.
                    if (*main).next != 0 {
                        (*free).next = main.offset((*main).next as isize).offset_from(free) as i32;
                    }
                    (*main).next = free.offset_from(main) as i32;
                    (home, moved) = (free, free);
                }
            }
            (*home).key = key.payload();
            (*home).key_tag = key.tag().0;
            (*home).set_value(v);
        }
        if key.tag() == Tag::INT && key.int_bits() > 0 {
            self.header.flags |= TABLE_INT_NODES;
        }
        if key.is_collectable() || v.is_collectable() {
            self.header.flags |= TABLE_REF_NODES;
        }
        Some((home, moved))
    }

    /// [`Table::insert`] when there is room.
    pub(crate) fn insert_into_free(&mut self, key: Value, v: Value) {
        let inserted = self.insert(key, v);
        debug_assert!(inserted.is_some());
    }

    /// A node that has never been used.
    fn take_free(&mut self) -> Option<*mut Node> {
        while self.last_free > 0 {
            self.last_free -= 1;
            // SAFETY: below the number of nodes.
            let node = unsafe { self.nodes.add(self.last_free as usize) };
            // SAFETY: as above.
            let n = unsafe { &*node };
            // A main position may have been taken without being handed out here, so look.
            if n.key_tag == Tag::NIL.0 {
                debug_assert!(n.next == 0);
                return Some(node);
            }
        }
        None
    }
}

impl Vm {
    /// Stores under a string key (interned) of a dictionary.
    #[inline]
    pub(super) fn set_str_node(&mut self, t: Gc<Table>, key: Gc<LuaString>, v: Value) -> LuaResult<()> {
        self.name_stored(t, key);
        self.set_node(t, t.find_str(key), Value::from(key), v)
    }

    /// Stores into the node of `key`, or under the new key `key` if `node` is null. Not for integer keys that
    /// belong to the array part.
    #[inline]
    pub(super) fn set_node(&mut self, t: Gc<Table>, node: *mut Node, key: Value, v: Value) -> LuaResult<()> {
        if node.is_null() {
            return if v.is_nil() { Ok(()) } else { self.insert_key(t, key, v) };
        }
        if v.is_collectable() {
            edit(&mut self.heap, t).header.flags |= TABLE_REF_NODES;
        }
        // SAFETY: a node of this table.
        let revived = unsafe { !(*node).is_live() };
        // SAFETY: as above.
        unsafe { (*node).set_value(v) };
        if revived {
            // A dead key is not traced, so that it counts as new.
            self.structure_changed(t);
            self.lua.caches.drained.filled(t.nodes.cast());
            self.new_node_barrier(t, node);
        } else {
            self.node_barrier(t, node, v);
        }
        Ok(())
    }

    /// Adds a key that the table does not have, and that does not belong to the array part.
    #[inline(never)]
    pub(super) fn insert_key(&mut self, t: Gc<Table>, key: Value, v: Value) -> LuaResult<()> {
        self.structure_changed(t);
        self.lua.caches.drained.filled(t.nodes.cast());
        edit(&mut self.heap, t).settle_size();
        let Some((home, moved)) = edit(&mut self.heap, t).insert(key, v) else {
            return self.rehash(t, key, v);
        };
        self.new_node_barrier(t, home);
        if moved != home {
            self.new_node_barrier(t, moved);
        }
        Ok(())
    }

    /// Fresh nodes for `want` keys, none if that is 0: their address, and the logarithm of their number.
    pub(super) fn alloc_nodes(&mut self, want: usize) -> LuaResult<(*mut Node, u8)> {
        if want == 0 {
            return Ok((null_mut(), 0));
        }
        let Some(size) = want.checked_next_power_of_two().filter(|&size| size <= 1 << MAX_LOG2) else {
            return Err(self.out_of_memory());
        };
        let nodes: *mut Node = self.alloc_buffer(size * size_of::<Node>())?.cast();
        for at in 0..size {
            // SAFETY: the buffer has `size` nodes.
            unsafe { nodes.add(at).write(Node::FREE) };
        }
        Ok((nodes, size.trailing_zeros() as u8))
    }

    /// Gives the table other nodes, which are free, and returns those that it had.
    pub(super) fn exchange_nodes<'a>(&mut self, t: Gc<Table>, nodes: (*mut Node, u8)) -> &'a [Node] {
        self.heap.stored_into(t);
        self.structure_changed(t);
        self.lua.caches.drained.forget();
        let table = edit(&mut self.heap, t);
        let old = (table.nodes, table.node_count());
        (table.nodes, table.log2_nodes) = nodes;
        table.last_free = table.node_count() as u32;
        table.header.flags &= !(TABLE_INT_NODES | TABLE_REF_NODES);
        if old.0.is_null() {
            return &[];
        }
        // SAFETY: the buffer had that many nodes, and lives until the caller, who has the only reference,
        // gives it up or a collection.
        unsafe { std::slice::from_raw_parts(old.0, old.1) }
    }

    /// New storage for the hash part with room for `want` keys, those it has included; dead keys are dropped.
    pub(super) fn rebuild_nodes(&mut self, t: Gc<Table>, want: usize) -> LuaResult<()> {
        let new = self.alloc_nodes(want)?;
        let old = self.exchange_nodes(t, new);
        super::count_work(old.len());
        for n in old.iter().filter(|n| n.is_live()) {
            edit(&mut self.heap, t).insert_into_free(n.key(), n.value());
        }
        if !old.is_empty() {
            // SAFETY: the table has others by now.
            unsafe { self.drop_buffer(old.as_ptr().cast_mut().cast()) };
        }
        Ok(())
    }
}
