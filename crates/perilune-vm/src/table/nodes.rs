//! The hash part: a chained scatter table with Brent's variation.
//!
//! `1 << log2_nodes` nodes; a key's *main position* comes from its hash. Keys with the same main position form a chain of nodes linked
//! by relative distances. A key whose main position is taken goes to a free node; but if the node there is taken by a key
//! that is away from its own main position, that one moves away instead. So a key is found within its own chain, and the part
//! can be filled to the last node.
//!
//! Removing stores nil and leaves the key in its node (dead). A dead node is used again when its key comes back, or
//! as the main position of a new key. When a new key finds no free node, the part is rebuilt: the dead go, and integer keys that would fill more than
//! half of a larger array part move there.
//!
//! A key that has moved to the array part is *buried*: its tag becomes one that no value has. The traversal would otherwise find
//! the dead key here after the element has been removed from the array, and go on from the wrong place.
//!
//! The collector may reuse the memory of a dead key. That is harmless: a dead key is only ever compared by address, and a new
//! object that takes the address finds a nil value.

use super::{TABLE_INT_NODES, TABLE_REF_NODES, array, edit};
use crate::Vm;
use crate::native::LuaResult;
use crate::object::{ArrayKind, LuaString, Node, Table};
use crate::shared::SharedRef;
use crate::value::{Gc, Tag, Value};
use std::ptr::null_mut;

/// Tag of a key that has moved to the array part.
pub(super) const BURIED: u8 = 0xff;

/// Most nodes, as a logarithm.
const MAX_LOG2: u32 = 30;

/// Fewest nodes when a key needs the first ones.
const MIN_GROWN: usize = 4;

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
    // The significant bits of a float are its upper ones, those of an address its lower ones: fold, then spread upwards.
    ((key.payload() ^ key.payload() >> 32 ^ key.tag().0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32)
        as u32
}

/// How many integer keys there are between consecutive powers of two.
#[derive(Default)]
pub(super) struct Census {
    /// `[b]`: keys in `2^(b-1) + 1 ..= 2^b`
    counts: [u32; 32],
}

impl Census {
    /// Counts `key` if it could be in an array part.
    fn add(&mut self, key: Value) {
        if key.tag() == Tag::INT {
            let i = key.int_bits();
            if 1 <= i && i <= array::MAX_ARRAY as i64 {
                self.counts[(i as u64).next_power_of_two().trailing_zeros() as usize] += 1;
            }
        }
    }

    /// Counts the elements of the array part.
    pub(super) fn add_array(&mut self, t: &Table) {
        let len = t.array_len as usize;
        let mut from = 0;
        for (b, count) in self.counts.iter_mut().enumerate() {
            let to = len.min(1 << b);
            // SAFETY: all within `array_len`.
            let is_used = |&at: &usize| !unsafe { t.element(at) }.is_nil();
            *count += match t.kind {
                ArrayKind::General => (from..to).filter(is_used).count() as u32,
                _ => (to - from) as u32,
            };
            from = to;
        }
    }

    /// The largest power of two such that more than half of an array of that size would be used; 0: none.
    pub(super) fn best_size(&self) -> usize {
        let mut total = 0;
        let mut best = 0;
        for (b, &count) in self.counts.iter().enumerate() {
            total += count as usize;
            if count > 0 && total > (1 << b) / 2 {
                best = 1 << b;
            }
        }
        best
    }
}

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
    pub(super) fn live_nodes(&self) -> usize {
        self.node_slice().iter().filter(|n| n.is_live()).count()
    }

    /// The node at `hash`'s main position; there are nodes.
    #[inline(always)]
    fn main(&self, hash: u32) -> *mut Node {
        // SAFETY: masked to the number of nodes.
        unsafe { self.nodes.add(hash as usize & ((1 << self.log2_nodes) - 1)) }
    }

    /// Main position of an integer key: the key modulo (about) one less than the number of nodes, by folding. Neighbouring keys get neighbouring nodes.
    /// The upper half is spread over the lower one before, as three folds would not reach it: keys that differ in a few upper bits are common.
    #[inline(always)]
    fn main_int(&self, i: i64) -> *mut Node {
        let upper = ((i as u64 >> 32) as u32).wrapping_mul(0x9e37_79b1);
        let (x, k) = (u64::from((i as u32).wrapping_add(upper)), self.log2_nodes);
        self.main(x.wrapping_add(x >> k).wrapping_add(x >> k >> k) as u32)
    }

    fn main_of(&self, key: Value) -> *mut Node {
        match key.tag() {
            Tag::INT => self.main_int(key.int_bits()),
            Tag::STRING => self.main(key.gc::<LuaString>().hash()),
            _ => self.main(hash_other(key)),
        }
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

    /// The node of a string key in a table of an island, whose keys are compared by content; null if there is none.
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

    /// The node of a key that is a shared object in a table of an island. Addresses of references to it do not matter, so all nodes are looked at.
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
    #[inline]
    pub(crate) fn find_int(&self, i: i64) -> *mut Node {
        if self.nodes.is_null() {
            return null_mut();
        }
        self.find(self.main_int(i), Value::int(i))
    }

    /// The node of a key that is neither integer nor string, nor a float that stands for an integer.
    pub(crate) fn find_other(&self, key: Value) -> *mut Node {
        if self.nodes.is_null() {
            return null_mut();
        }
        self.find(self.main(hash_other(key)), key)
    }

    /// The value in `node`; nil if it is null.
    #[inline(always)]
    pub(crate) fn node_value(&self, node: *mut Node) -> Value {
        // SAFETY: not null, so it is one of the table's nodes.
        if node.is_null() { Value::NIL } else { unsafe { (*node).value() } }
    }

    /// Takes the key out of a node for good: its home is the array part now.
    pub(super) fn bury(&mut self, node: *mut Node) {
        // SAFETY: one of this table's nodes.
        unsafe {
            (*node).key_tag = BURIED;
            (*node).set_value(Value::NIL);
        }
    }

    /// [`Table::bury`] by key, if it is there.
    pub(super) fn bury_int(&mut self, i: i64) {
        let node = self.find_int(i);
        if !node.is_null() {
            self.bury(node);
        }
    }

    /// Puts a new key in place and returns its node, and the one that it has moved a key to, if any (else its own again); `None` if
    /// there is no free node.
    #[must_use]
    fn insert(&mut self, key: Value, v: Value) -> Option<(*mut Node, *mut Node)> {
        if self.nodes.is_null() {
            return None;
        }
        let main = self.main_of(key);
        let (mut home, mut moved) = (main, main);
        // SAFETY: `main`, `free` and what the chains lead to are nodes of this table; live nodes have live keys, whose
        // main positions can be computed.
        unsafe {
            if (*main).is_live() {
                let free = self.take_free()?;
                let other = self.main_of((*main).key());
                if other != main {
                    // The node here is a guest: it moves to the free node, and the chain that it is in follows.
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
        if key.tag() == Tag::INT && key.int_bits() > 1 {
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

    /// Stores into the node of `key`, or under the new key `key` if `node` is null. Not for integer keys that belong to the array part.
    #[inline]
    pub(super) fn set_node(&mut self, t: Gc<Table>, node: *mut Node, key: Value, v: Value) -> LuaResult<()> {
        if node.is_null() {
            return if v.is_nil() { Ok(()) } else { self.insert_key(t, key, v) };
        }
        if v.is_collectable() {
            edit(t).header.flags |= TABLE_REF_NODES;
        }
        // SAFETY: a node of this table.
        let revived = unsafe { !(*node).is_live() };
        // SAFETY: as above.
        unsafe { (*node).set_value(v) };
        if revived {
            // A dead key is not traced, so that it counts as new.
            self.structure_changed(t);
            self.new_node_barrier(t, node);
        } else {
            self.node_barrier(t, node, v);
        }
        Ok(())
    }

    /// Adds a key that the table does not have.
    #[inline(never)]
    pub(super) fn insert_key(&mut self, t: Gc<Table>, key: Value, v: Value) -> LuaResult<()> {
        self.structure_changed(t);
        let Some((home, moved)) = edit(t).insert(key, v) else { return self.rehash(t, key, v) };
        self.new_node_barrier(t, home);
        if moved != home {
            self.new_node_barrier(t, moved);
        }
        Ok(())
    }

    /// Rebuilds the parts to make room for a new key, and stores it.
    #[cold]
    #[inline(never)]
    fn rehash(&mut self, t: Gc<Table>, key: Value, v: Value) -> LuaResult<()> {
        let size = self.better_array_size(t, key);
        if size > t.array_len as usize {
            self.nodes_to_array(t, size)?;
            if key.tag() == Tag::INT && 1 <= key.int_bits() && key.int_bits() as u64 <= size as u64 {
                let at = key.int_bits() as usize - 1;
                if at < t.array_len as usize {
                    self.replace_element(t, at, v)?;
                } else {
                    self.store_far(t, at, v)?;
                }
                // The key is stored; storage that cannot be had for the smaller hash part changes nothing.
                let _ = self.drop_dead_nodes(t);
                return Ok(());
            }
        }
        self.rebuild_nodes(t, (t.live_nodes() + 1).max(MIN_GROWN))?;
        edit(t).insert_into_free(key, v);
        if t.header.flags & TABLE_INT_NODES != 0 {
            self.take_over(t)?;
        }
        Ok(())
    }

    /// The size of array that suits the table once `key` is in it; 0 if there is nothing to move to the array.
    fn better_array_size(&self, t: Gc<Table>, key: Value) -> usize {
        if t.header.flags & TABLE_INT_NODES == 0 && key.tag() != Tag::INT {
            return 0;
        }
        let mut census = Census::default();
        census.add(key);
        t.node_slice().iter().filter(|n| n.is_live()).for_each(|n| census.add(n.key()));
        census.add_array(&t);
        census.best_size()
    }

    /// Moves the integer keys up to `size` from the hash part to the array part.
    fn nodes_to_array(&mut self, t: Gc<Table>, size: usize) -> LuaResult<()> {
        let last = t
            .node_slice()
            .iter()
            .filter(|n| n.is_live() && n.key_tag == Tag::INT.0)
            .map(|n| n.key as i64)
            .filter(|&i| 1 <= i && i <= size as i64)
            .max();
        let Some(last) = last else { return Ok(()) };
        if size > t.array_cap as usize {
            self.reserve_array(t, size)?;
        }
        let v = t.node_value(t.find_int(last));
        self.store_far(t, last as usize - 1, v)
    }

    /// After keys have moved to the array: smaller storage for the rest.
    fn drop_dead_nodes(&mut self, t: Gc<Table>) -> LuaResult<()> {
        let live = t.live_nodes();
        if live == 0 {
            let table = edit(t);
            let old = std::mem::replace(&mut table.nodes, null_mut());
            table.last_free = 0;
            table.header.flags &= !(TABLE_INT_NODES | TABLE_REF_NODES);
            if !old.is_null() {
                self.structure_changed(t);
                self.heap.barrier(t.obj());
                self.drop_buffer(old.cast());
            }
            return Ok(());
        }
        self.rebuild_nodes(t, live)
    }

    /// New storage for the hash part with room for `want` keys, those it has included; dead keys are dropped.
    pub(super) fn rebuild_nodes(&mut self, t: Gc<Table>, want: usize) -> LuaResult<()> {
        let old_size = t.node_count();
        let mut size = want.max(1).next_power_of_two();
        // Nearly full at the same size means that keys come and go: without some slack, each one that comes would rebuild.
        if size == old_size && want > size - size / 8 {
            size *= 2;
        }
        if size > 1 << MAX_LOG2 {
            return Err(self.out_of_memory());
        }
        let new: *mut Node = self.alloc_buffer(size * size_of::<Node>())?.cast();
        self.heap.barrier(t.obj());
        self.structure_changed(t);
        let table = edit(t);
        let old = table.nodes;
        // SAFETY: the new buffer has `size` nodes, the old one `old_size`; both stay where they are, for nothing is collected here.
        unsafe {
            for i in 0..size {
                new.add(i).write(Node::FREE);
            }
            table.nodes = new;
            table.log2_nodes = size.trailing_zeros() as u8;
            table.last_free = size as u32;
            table.header.flags &= !(TABLE_INT_NODES | TABLE_REF_NODES);
            for i in (0..old_size).rev() {
                let n = *old.add(i);
                if n.is_live() {
                    table.insert_into_free(n.key(), n.value());
                }
            }
        }
        if !old.is_null() {
            self.drop_buffer(old.cast());
        }
        Ok(())
    }
}
