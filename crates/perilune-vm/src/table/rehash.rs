//! Where keys live when a table grows: how large the array part and the hash part are.
//!
//! A key in `1..=array_cap` lives in the array part, any other in the hash part. When a new key finds no free
//! node, the sizes are chosen anew: the array part gets the largest power of two such that more than half of
//! its elements will have values, the hash part room for the rest. This is the rule of the reference
//! implementation, and for small tables it is followed to the letter, because borders and the order of
//! traversals show it (`table/border.rs`, `table/nodes.rs`). A dense array that is full and has no hash part
//! beside it simply doubles, which is what the rule comes to.
//!
//! # n insertions cost O(n)
//! Count as work each node that is gone through or filled, and each element that is copied, counted or
//! initialised. Claim: whatever keys are stored and removed, in any order, n stores cause O(n) work.
//!
//! *Nodes.* A rehash goes through all nodes, of which there are h. With h below [`SLACK_FROM`] that is a
//! constant. Above, nodes for `want` keys are at least `want` + `want`/4 in number, doubling if need be
//! ([`nodes_for`]): so at least h/5 insertions have filled them since they were made, and pay for going
//! through them and for making the next ones.
//!
//! *Counting the array.* A dense array needs none: the counts follow from its length. An array with holes of
//! at most [`SMALL_ARRAY`] elements costs a constant. A larger one keeps account of how many elements it has
//! (`Tally`), which is all that growing needs, because a size above the present one depends on the sum alone.
//! Only shrinking needs the counts by size, and see below.
//!
//! *Resizing the array.* An array of size a > [`SMALL_ARRAY`] is made with more than a/2 elements present, by
//! this rule, or by a constructor, which pays for its own size. It shrinks only once no more than a/4 of its
//! elements are left. So at least a/4 removals have come before, and pay for going through it and for what is
//! made instead. While an array does not shrink, its sizes at least double from one to the next; together
//! they are less than twice the last one, and so less than four times the elements that were there when it
//! was made. Of these, those that were there already after the last shrinking are fewer than the removals
//! that paid for that, and each other has been inserted since.
//!
//! *Holes.* Initialising the rest of a dense array that gets holes costs up to its size. It happens once for
//! each time that an array has become dense, which a large one does for nothing when it is full, and
//! otherwise only after changes in number a quarter of its size. A full one has been emptied at its end, by
//! removals, as far as it has to be initialised.
//!
//! `table/work.rs` counts the work of many patterns.

use super::array::{MAX_ARRAY, SMALL_ARRAY};
use super::{count_work, edit};
use crate::Vm;
use crate::native::LuaResult;
use crate::object::{ArrayKind, Node, Table};
use crate::value::{Gc, Tag, Value};

/// Number of nodes from which on some stay free.
const SLACK_FROM: usize = 32;
/// Fewest nodes when a key that is no integer needs the first ones.
const FIRST_NODES: usize = 4;
/// A table of so many nodes and no array is *tiny*: with one key more, elements up to twice as many are all
/// that an array could have.
const TINY: usize = 4;

/// How many nodes to make for `want` keys of a table whose keys come and go.
fn nodes_for(want: usize) -> usize {
    let size = want.next_power_of_two();
    if size >= SLACK_FROM && want > size - size / 4 { size * 2 } else { want }
}

/// The integer that `key` is, if it could be an element's.
fn array_key(key: Value) -> Option<usize> {
    if key.tag() == Tag::INT && (1..=MAX_ARRAY as i64).contains(&key.int_bits()) {
        Some(key.int_bits() as usize)
    } else {
        None
    }
}

/// How many integer keys there are between consecutive powers of two.
#[derive(Default)]
struct Census {
    /// `[b]`: keys in `2^(b-1) + 1 ..= 2^b`
    counts: [u32; 32],
    /// All of these keys.
    total: usize,
}

impl Census {
    /// Counts `key` if it could be in an array part.
    fn add(&mut self, key: Value) {
        if let Some(i) = array_key(key) {
            self.counts[i.next_power_of_two().trailing_zeros() as usize] += 1;
            self.total += 1;
        }
    }

    /// Counts the elements of the array part.
    fn add_array(&mut self, t: &Table) {
        let end = t.extent();
        let mut from = 0;
        for (b, count) in self.counts.iter_mut().enumerate() {
            let to = end.min(1 << b);
            let used = if t.has_holes() {
                count_work(to - from);
                (from..to).filter(|&at| !t.is_hole(at)).count()
            } else {
                to - from
            };
            *count += used as u32;
            self.total += used;
            if to == end {
                break;
            }
            from = to;
        }
    }

    /// The largest power of two above `least` such that more than half of an array of that size would be
    /// used, `below` elements being used up to `least`; 0: none. Second, how many would be used.
    fn best_size(&self, least: usize, below: usize) -> (usize, usize) {
        let mut total = below;
        let mut best = (0, 0);
        // All that there are do not fill half of a larger one.
        let most = below + self.total;
        let sizes = self.counts.iter().enumerate().take_while(|(b, _)| (1 << b) / 2 < most.max(1));
        for (b, &count) in sizes.filter(|(b, _)| 1 << b > least) {
            total += count as usize;
            if count > 0 && total > (1 << b) / 2 {
                best = (1 << b, total);
            }
        }
        best
    }
}

/// The rule for a tiny table with these nodes that gets another key: how large its array is to be, and for how
/// many keys it has to have nodes. Tables that are made for a handful of keys come here for every other one.
fn sizes_of_tiny(nodes: &[Node], key: Value) -> (usize, usize) {
    let (mut keys, mut elements) = (0, 0u32);
    for key in nodes.iter().filter(|n| n.is_live()).map(Node::key).chain([key]) {
        keys += 1;
        elements |= array_key(key).filter(|i| *i <= 2 * TINY).map_or(0, |i| 1 << (i - 1));
    }
    let (mut size, mut inside) = (0, 0);
    for log2 in 0..=(2 * TINY).trailing_zeros() {
        let (all, half) = (1u32 << log2, 1u32 << log2 >> 1);
        let within = elements & ((1 << all) - 1);
        let total = within.count_ones();
        if within >> half != 0 && total > half {
            (size, inside) = (all as usize, total as usize);
        }
    }
    (size, keys - inside)
}

impl Vm {
    /// Makes room for a new key that found no free node, and stores it.
    #[cold]
    #[inline(never)]
    pub(super) fn rehash(&mut self, t: Gc<Table>, key: Value, v: Value) -> LuaResult<()> {
        edit(&mut self.heap, t).settle_size();
        if t.nodes.is_null() && t.log2_nodes > 0 {
            return self.resize(t, t.array_cap as usize, 1 << (t.log2_nodes - 1), Some((key, v)));
        }
        count_work(t.node_count());
        let least = if key.tag() == Tag::INT { 0 } else { FIRST_NODES };
        if t.array_cap == 0 && t.node_count() <= TINY {
            let (size, rest) = sizes_of_tiny(t.node_slice(), key);
            return self.resize(t, size, rest.max(least), Some((key, v)));
        }
        let mut census = Census::default();
        let mut keys = 1;
        census.add(key);
        for n in t.node_slice().iter().filter(|n| n.is_live()) {
            census.add(n.key());
            keys += 1;
        }
        let used = edit(&mut self.heap, t).used();
        let (size, inside) = self.best_array(t, &mut census, used);
        let rest = keys + used - inside;
        self.resize(t, size, nodes_for(rest).max(least), Some((key, v)))
    }

    /// The size of array that suits the table, and how many of its elements will have values. `census` has
    /// the keys that are not in the array now, `used` elements of which have values.
    fn best_array(&self, t: Gc<Table>, census: &mut Census, used: usize) -> (usize, usize) {
        let cap = t.array_cap as usize;
        if cap > SMALL_ARRAY {
            let (size, inside) = census.best_size(cap, used);
            if size > 0 {
                return (size, inside);
            }
            if used > cap / 4 {
                return (cap, used);
            }
        }
        census.add_array(&t);
        census.best_size(0, 0)
    }

    /// Gives the array part `size` elements and the hash part room for `want` keys, puts every key where it
    /// belongs, and then stores the new one. `want` is enough.
    ///
    /// # Errors
    /// "not enough memory"; the table is as it was.
    pub(super) fn resize(
        &mut self,
        t: Gc<Table>,
        size: usize,
        want: usize,
        new: Option<(Value, Value)>,
    ) -> LuaResult<()> {
        edit(&mut self.heap, t).settle_size();
        let nodes = self.alloc_nodes(want)?;
        let cap = t.array_cap as usize;
        if size > cap {
            self.grow_array(t, size, new)?;
        }
        let old = self.exchange_nodes(t, nodes);
        count_work(old.len() + t.node_count());
        if size < cap {
            self.shrink_array(t, size);
        }
        edit(&mut self.heap, t).forget_hint();
        for n in old.iter().filter(|n| n.is_live()) {
            match array_key(n.key()).filter(|&i| i <= size) {
                Some(i) => edit(&mut self.heap, t).place(i - 1, n.value()),
                None => edit(&mut self.heap, t).insert_into_free(n.key(), n.value()),
            }
        }
        if !old.is_empty() {
            // SAFETY: the table has others by now.
            unsafe { self.drop_buffer(old.as_ptr().cast_mut().cast()) };
        }
        let Some((key, v)) = new else { return Ok(()) };
        match array_key(key).filter(|&i| i <= size) {
            Some(i) => edit(&mut self.heap, t).place(i - 1, v),
            None => edit(&mut self.heap, t).insert_into_free(key, v),
        }
        Ok(())
    }

    /// Makes the array larger and fit for what [`Table::place`] is going to store in it: keys from the hash
    /// part and `new`.
    fn grow_array(&mut self, t: Gc<Table>, size: usize, new: Option<(Value, Value)>) -> LuaResult<()> {
        let cap = t.array_cap as usize;
        let nodes = t.node_slice().iter().filter(|n| n.is_live()).map(|n: &Node| (n.key(), n.value()));
        let coming = || nodes.clone().chain(new).filter(|e| array_key(e.0).is_some_and(|i| i <= size));
        let (mut count, mut last) = (0, 0);
        for (key, _) in coming() {
            count += 1;
            last = last.max(key.int_bits() as usize);
        }
        let dense = !t.has_holes() && t.array_len as usize == cap && (count == 0 || last == cap + count);
        if dense || count == 0 {
            let kind = if cap > 0 { t.kind } else { coming().next().map_or(t.kind, |e| ArrayKind::of(e.1)) };
            let uniform = coming().all(|e| kind.accepts(e.1));
            if cap == 0 {
                edit(&mut self.heap, t).kind = if uniform { kind } else { ArrayKind::General };
            } else if !uniform {
                self.widen(t)?;
            }
            return self.set_array_size(t, size);
        }
        self.widen(t)?;
        self.set_array_size(t, size)?;
        self.open_holes(t)
    }

    /// Makes the array smaller: what it has beyond `size` moves to the hash part, which has room for it.
    fn shrink_array(&mut self, t: Gc<Table>, size: usize) {
        let end = t.extent();
        count_work(end.saturating_sub(size));
        let mut moved = 0;
        for at in size..end {
            // SAFETY: within the array.
            let v = unsafe { t.element(at) };
            if !v.is_nil() {
                edit(&mut self.heap, t).insert_into_free(Value::int(at as i64 + 1), v);
                moved += 1;
            }
        }
        edit(&mut self.heap, t).cut(size, moved);
        // Nothing is larger than before.
        let shrunk = self.set_array_size(t, size);
        debug_assert!(shrunk.is_ok());
        if t.has_holes() && edit(&mut self.heap, t).used() == size {
            edit(&mut self.heap, t).make_dense(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_for_tiny_tables_is_that_for_all() {
        let mut seed = 1u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for _ in 0..20_000 {
            let mut key = || match random(8) {
                0 => Value::int(-(random(3) as i64)),
                1 => Value::TRUE,
                2 => Value::int(1 + random(40) as i64),
                _ => Value::int(1 + random(9) as i64),
            };
            let (new, mut nodes) = (key(), vec![Node::FREE; TINY]);
            for node in &mut nodes {
                let key = key();
                (node.key, node.key_tag) = (key.payload(), key.tag().0);
            }
            // A key is there once, or is dead.
            for at in 0..nodes.len() {
                let known = nodes[..at].iter().any(|n| n.is_live() && n.key == nodes[at].key);
                if !known && nodes[at].key != new.payload() && random(5) > 0 {
                    nodes[at].set_value(Value::TRUE);
                }
            }
            let mut census = Census::default();
            census.add(new);
            let live = nodes.iter().filter(|n| n.is_live());
            live.clone().for_each(|n| census.add(n.key()));
            let (size, inside) = census.best_size(0, 0);
            assert_eq!(sizes_of_tiny(&nodes, new), (size, live.count() + 1 - inside));
        }
    }
}
