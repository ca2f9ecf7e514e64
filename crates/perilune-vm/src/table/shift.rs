//! Insertion and removal inside the array part: one move of memory instead of a load and a store per element.
//!
//! `table.insert(t, i, v)` and `table.remove(t, i)` shift everything behind `i`. For a table without
//! metamethods nobody can see in which steps that happens.

use super::{TABLE_INT_NODES, edit};
use crate::Vm;
use crate::native::LuaResult;
use crate::object::Table;
use crate::value::{Gc, Stores, Value};

impl Table {
    /// Whether the elements are all that the length operator counts.
    fn is_sequence(&self) -> bool {
        !self.has_holes() && (self.array_len < self.array_cap || self.header.flags & TABLE_INT_NODES == 0)
    }
}

impl Vm {
    /// Inserts `v` before element `i` of the sequence, which shifts up. False, and no element changed or
    /// moved, if `i` is not in the array part, `v` is nil, or the array is not the whole sequence.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn raw_insert(&mut self, t: Gc<Table>, i: i64, v: Value) -> LuaResult<bool> {
        self.check_writable(t)?;
        let at = (i as u64).wrapping_sub(1);
        let len = t.array_len as usize;
        if at >= len as u64 || v.is_nil() || !t.is_sequence() {
            return Ok(false);
        }
        let at = at as usize;
        // Appending the last element once more makes room, by all the rules of growth.
        // SAFETY: the array is not empty.
        let last = unsafe { t.element(len - 1) };
        self.raw_set_int(t, len as i64 + 1, last)?;
        if (t.array_len as usize) <= len {
            // The new element is in the hash part. The caller's element-wise shift starts with the store that
            // was just made.
            return Ok(false);
        }
        if !t.accepts(v) {
            self.widen(t)?;
        }
        self.heap.stored_into(t);
        let size = t.kind.element_size();
        // SAFETY: elements `at..len` move up by one; the array has more than `len` elements, and accepts `v`
        // now.
        unsafe {
            let from = t.array.add(at * size);
            std::ptr::copy(from, from.add(size), (len - at) * size);
            edit(&mut self.heap, t).set_element(at, v);
        }
        Ok(true)
    }

    /// Removes element `i` of the sequence, the elements behind it shifting down, and returns it; `None`, and
    /// nothing done, if `i` is not in the array part or the array is not the whole sequence.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn raw_remove(&mut self, t: Gc<Table>, i: i64) -> LuaResult<Option<Value>> {
        self.check_writable(t)?;
        let at = (i as u64).wrapping_sub(1);
        let len = t.array_len as usize;
        if at >= len as u64 || !t.is_sequence() {
            return Ok(None);
        }
        let at = at as usize;
        // SAFETY: within `array_len`.
        let removed = unsafe { t.element(at) };
        if at + 1 < len {
            self.heap.stored_into(t);
            let size = t.kind.element_size();
            // SAFETY: elements `at + 1..len` move down by one.
            unsafe {
                let to = t.array.add(at * size);
                std::ptr::copy(to.add(size), to, (len - at - 1) * size);
            }
        }
        self.raw_set_int(t, len as i64, Value::NIL)?;
        Ok(Some(removed))
    }
}

#[cfg(test)]
mod tests {
    use crate::table::testing::bare_vm;
    use crate::value::Value;

    /// Every insertion and removal against a vector, for arrays of numbers, of booleans, and mixed ones.
    #[test]
    fn like_a_vector() {
        let vm = &mut *bare_vm();
        let mut seed = 1u64;
        let mut random = |n: usize| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) as usize % n
        };
        for (numbers, mixed) in [(true, false), (true, true), (false, false), (false, true)] {
            let t = vm.new_table(0, 0).unwrap_or_else(|_| panic!("no memory"));
            let mut model: Vec<Value> = Vec::new();
            for step in 0..3000 {
                let v = match numbers {
                    _ if mixed && step % 7 == 0 => Value::float(0.5),
                    true => Value::int(step),
                    false => Value::bool(random(2) == 0),
                };
                match random(3) {
                    0 if !model.is_empty() => {
                        let at = random(model.len());
                        let removed = vm.raw_remove(t, at as i64 + 1).ok().flatten().expect("in the array");
                        assert!(removed.same(model.remove(at)));
                    }
                    1 if !model.is_empty() => {
                        let at = random(model.len());
                        assert!(vm.raw_insert(t, at as i64 + 1, v).expect("memory"));
                        model.insert(at, v);
                    }
                    _ => {
                        vm.raw_set_int(t, model.len() as i64 + 1, v).unwrap_or_else(|_| panic!("no memory"));
                        model.push(v);
                    }
                }
                assert_eq!(vm.raw_len(t), model.len() as i64);
            }
            for (i, v) in (1..).zip(&model) {
                assert!(vm.raw_get_int(t, i).same(*v), "{i}");
            }
            let beyond = model.len() as i64 + 1;
            assert!(!vm.raw_insert(t, beyond, Value::int(1)).expect("memory"));
            assert!(!vm.raw_insert(t, 0, Value::int(1)).expect("memory"));
            assert!(!vm.raw_insert(t, 1, Value::NIL).expect("memory"));
            assert!(vm.raw_remove(t, beyond).expect("memory").is_none());
        }
    }
}
