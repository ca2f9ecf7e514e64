//! `table.sort`.
//!
//! Two roads. An array of integers, floats or strings only, sorted by `<`, is copied out of the table, sorted
//! by the standard library and copied back: nobody can tell, since equal elements cannot be told apart and
//! comparisons have no effects. (A NaN has no order and a negative zero can be told from a positive one, so
//! arrays with them take the other road.)
//!
//! Everything else is sorted in place by quicksort (Sedgewick 1978, median of three, the smaller side by
//! recursion) in which every element stays in the table or on the Lua stack, so that it survives collections
//! while a comparator runs. The pivots and the sequence of comparisons are PUC Lua's, for two reasons:
//! programs get the same order of equal elements, and an inconsistent comparator is found in the same cases:
//! when the scan for an element to swap runs off its side. A merge sort needs fewer comparisons but has
//! neither property.

use crate::table::{READ_WRITE_LENGTH, Sequence};
use perilune_vm::{Gc, LuaResult, LuaString, Table, Thrown, Type, Value, Vm};

/// Intervals longer than this may get a random pivot.
const RANDOM_LIMIT: i64 = 100;

/// The processor fetches elements so many before they are compared: objects lie anywhere, and a comparator that
/// is machine code takes less time than their memory does.
const AHEAD: i64 = 4;

/// Longest string that is sorted outside of its table.
const MAX_SORTED_STRING: usize = 4096;

const NEGATIVE_ZERO: u64 = 1 << 63;

/// `table.sort(list [, comp])`
pub(crate) fn sort(vm: &mut Vm) -> LuaResult<u32> {
    let sequence = Sequence::check(vm, 1, READ_WRITE_LENGTH)?;
    let size = sequence.len(vm)?;
    if size < 2 {
        return Ok(0);
    }
    if size >= i64::from(i32::MAX) {
        return Err(vm.arg_error(1, "array too big"));
    }
    let comparator = if vm.arg_is_none_or_nil(2) {
        None
    } else {
        vm.check_type(2, Type::Function)?;
        Some(vm.arg(2))
    };
    if comparator.is_none()
        && let Sequence::Raw(table) = sequence
        && sort_uniform(vm, table, size)?
    {
        return Ok(0);
    }
    let sorter = Sorter { sequence, comparator };
    sorter.quicksort(vm, 1, size, 0)?;
    Ok(0)
}

/// Sorts an array whose elements are all of one plain type; false (and nothing done) if they are not.
fn sort_uniform(vm: &mut Vm, table: Gc<Table>, size: i64) -> LuaResult<bool> {
    match vm.raw_get_int(table, 1).type_of() {
        Type::Number if vm.raw_get_int(table, 1).is_int() => {
            let Some(mut elements) = collect(vm, table, size, Value::as_int) else { return Ok(false) };
            elements.sort_unstable();
            store(vm, table, &elements, |&i| Value::int(i))
        }
        Type::Number => {
            let sortable =
                |value: Value| value.as_float().filter(|f| !f.is_nan() && f.to_bits() != NEGATIVE_ZERO);
            let Some(mut elements) = collect(vm, table, size, sortable) else { return Ok(false) };
            elements.sort_unstable_by(f64::total_cmp);
            store(vm, table, &elements, |&f| Value::float(f))
        }
        Type::String => {
            // The strings' references are in malloc'd memory meanwhile, but nothing is collected: no Lua code
            // runs until they are back.
            let Some(mut elements) = collect(vm, table, size, SortedString::of) else { return Ok(false) };
            elements.sort_unstable_by(SortedString::compare);
            store(vm, table, &elements, |element| element.string.into())
        }
        _ => Ok(false),
    }
}

/// A string with its first eight bytes as a number that orders as they do, which decides most comparisons.
/// None of them is long: the sort cannot be interrupted, so it must not take long for what it compares.
struct SortedString {
    prefix: u64,
    string: Gc<LuaString>,
}

impl SortedString {
    fn of(value: Value) -> Option<SortedString> {
        let string = value.as_string().filter(|s| s.len() <= MAX_SORTED_STRING)?;
        let bytes = string.bytes();
        let mut prefix = [0; 8];
        let known = bytes.len().min(8);
        prefix[..known].copy_from_slice(&bytes[..known]);
        Some(SortedString { prefix: u64::from_be_bytes(prefix), string })
    }

    fn compare(&self, other: &SortedString) -> std::cmp::Ordering {
        self.prefix.cmp(&other.prefix).then_with(|| self.string.bytes().cmp(other.string.bytes()))
    }
}

fn collect<T>(vm: &mut Vm, table: Gc<Table>, size: i64, of: impl Fn(Value) -> Option<T>) -> Option<Vec<T>> {
    (1..=size).map(|i| of(vm.raw_get_int(table, i))).collect()
}

fn store<T>(vm: &mut Vm, table: Gc<Table>, elements: &[T], value: impl Fn(&T) -> Value) -> LuaResult<bool> {
    for (i, element) in (1..).zip(elements) {
        vm.raw_set_int(table, i, value(element))?;
    }
    Ok(true)
}

struct Sorter {
    sequence: Sequence,
    comparator: Option<Value>,
}

impl Sorter {
    /// Whether `a` comes before `b`. Both are on the stack or in arguments of the call.
    #[inline]
    fn before(&self, vm: &mut Vm, a: Value, b: Value) -> LuaResult<bool> {
        match self.comparator {
            None => vm.less_than(a, b),
            Some(comparator) => vm.call_test(comparator, a, b),
        }
    }

    /// Reads element `i` onto the stack, where it survives collections.
    #[inline]
    fn push(&self, vm: &mut Vm, i: i64) -> LuaResult<Value> {
        let value = self.sequence.get(vm, i)?;
        vm.push(value);
        Ok(value)
    }

    /// Orders the elements at `low` and `high`.
    fn order(&self, vm: &mut Vm, low: i64, high: i64) -> LuaResult<()> {
        let top = vm.stack_top() as u32;
        let at_low = self.push(vm, low)?;
        let at_high = self.push(vm, high)?;
        if self.before(vm, at_high, at_low)? {
            self.sequence.set(vm, low, at_high)?;
            self.sequence.set(vm, high, at_low)?;
        }
        vm.truncate(top);
        Ok(())
    }

    fn quicksort(&self, vm: &mut Vm, mut low: i64, mut high: i64, mut seed: u32) -> LuaResult<()> {
        while low < high {
            self.order(vm, low, high)?;
            if high - low == 1 {
                return Ok(());
            }
            let middle = if high - low < RANDOM_LIMIT || seed == 0 {
                (low + high) / 2
            } else {
                let quarter = (high - low) / 4;
                i64::from(seed) % (quarter * 2) + low + quarter
            };
            self.order_middle(vm, low, middle, high)?;
            if high - low == 2 {
                return Ok(());
            }
            let top = vm.stack_top() as u32;
            let pivot = self.push(vm, middle)?;
            let last = self.push(vm, high - 1)?;
            self.sequence.set(vm, middle, last)?;
            self.sequence.set(vm, high - 1, pivot)?;
            let middle = self.partition(vm, pivot, low, high)?;
            vm.truncate(top);
            let smaller = if middle - low < high - middle {
                self.quicksort(vm, low, middle - 1, seed)?;
                let smaller = middle - low;
                low = middle + 1;
                smaller
            } else {
                self.quicksort(vm, middle + 1, high, seed)?;
                let smaller = high - middle;
                high = middle - 1;
                smaller
            };
            if (high - low) / 128 > smaller {
                seed = random_seed();
            }
        }
        Ok(())
    }

    /// Puts the median of the three elements at `middle`, the ends being in order already.
    fn order_middle(&self, vm: &mut Vm, low: i64, middle: i64, high: i64) -> LuaResult<()> {
        let top = vm.stack_top() as u32;
        let at_middle = self.push(vm, middle)?;
        let at_low = self.push(vm, low)?;
        if self.before(vm, at_middle, at_low)? {
            self.sequence.set(vm, middle, at_low)?;
            self.sequence.set(vm, low, at_middle)?;
        } else {
            let at_high = self.push(vm, high)?;
            if self.before(vm, at_high, at_middle)? {
                self.sequence.set(vm, middle, at_high)?;
                self.sequence.set(vm, high, at_middle)?;
            }
        }
        vm.truncate(top);
        Ok(())
    }

    /// Splits `low..=high` around `pivot`, which is also the element before the last; returns where it ends
    /// up. The first element is not above the pivot and the last not below, so a consistent comparator stops
    /// both scans in time.
    fn partition(&self, vm: &mut Vm, pivot: Value, low: i64, high: i64) -> LuaResult<i64> {
        let top = vm.stack_top() as u32;
        let (mut i, mut j) = (low, high - 1);
        loop {
            i += 1;
            self.sequence.foresee(vm, i + AHEAD);
            let mut at_i = self.push(vm, i)?;
            while self.before(vm, at_i, pivot)? {
                if i == high - 1 {
                    return Err(invalid_order(vm));
                }
                vm.truncate(top);
                i += 1;
                self.sequence.foresee(vm, i + AHEAD);
                at_i = self.push(vm, i)?;
            }
            j -= 1;
            self.sequence.foresee(vm, j - AHEAD);
            let mut at_j = self.push(vm, j)?;
            while self.before(vm, pivot, at_j)? {
                if j < i {
                    return Err(invalid_order(vm));
                }
                vm.truncate(top + 1);
                j -= 1;
                self.sequence.foresee(vm, j - AHEAD);
                at_j = self.push(vm, j)?;
            }
            if j < i {
                self.sequence.set(vm, high - 1, at_i)?;
                self.sequence.set(vm, i, pivot)?;
                vm.truncate(top);
                return Ok(i);
            }
            self.sequence.set(vm, i, at_j)?;
            self.sequence.set(vm, j, at_i)?;
            vm.truncate(top);
        }
    }
}

#[cold]
fn invalid_order(vm: &mut Vm) -> Thrown {
    vm.error("invalid order function for sorting")
}

/// Something that an adversary who prepares the array does not know.
#[cold]
fn random_seed() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) as u32 | 1
}
