//! How much work tables do for what is stored in them: counted, not timed.
//!
//! The unit is a node or an element that is gone through, copied, moved or initialised (`table/rehash.rs` has
//! the argument). Each pattern runs with n and with 4n stores; both must stay below the same number of units
//! for each store, whatever the constants.

use super::testing::bare_vm;
use crate::Vm;
use crate::object::Table;
use crate::value::{Gc, Value};
use std::cell::Cell;

thread_local! {
    static WORK: Cell<usize> = const { Cell::new(0) };
}

/// Counts units of work.
pub(super) fn count(units: usize) {
    WORK.with(|work| work.set(work.get() + units));
}

/// A table and the stores into it.
struct Run<'a> {
    vm: &'a mut Vm,
    t: Gc<Table>,
    stores: usize,
    seed: u64,
}

impl Run<'_> {
    fn put(&mut self, i: i64) {
        self.stores += 1;
        self.vm.raw_set_int(self.t, i, Value::int(i)).unwrap();
    }

    /// A value that is no number.
    fn put_any(&mut self, i: i64) {
        self.stores += 1;
        self.vm.raw_set_int(self.t, i, Value::TRUE).unwrap();
    }

    fn remove(&mut self, i: i64) {
        self.stores += 1;
        self.vm.raw_set_int(self.t, i, Value::NIL).unwrap();
    }

    fn put_float(&mut self, f: f64) {
        self.stores += 1;
        self.vm.raw_set(self.t, Value::float(f), Value::TRUE).unwrap();
    }

    fn remove_float(&mut self, f: f64) {
        self.stores += 1;
        self.vm.raw_set(self.t, Value::float(f), Value::NIL).unwrap();
    }

    fn len(&mut self) -> i64 {
        self.vm.raw_len(self.t)
    }

    fn random(&mut self, below: i64) -> i64 {
        self.seed = self.seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.seed >> 33) as i64 % below
    }
}

type Pattern = fn(&mut Run<'_>, i64);

const PATTERNS: &[(&str, Pattern)] = &[
    ("ascending", |r, n| (1..=n).for_each(|i| r.put(i))),
    ("descending", |r, n| (1..=n).rev().for_each(|i| r.put(i))),
    ("from zero down", |r, n| (-n..=0).rev().for_each(|i| r.put(i))),
    ("two of three", |r, n| (1..=n).filter(|i| i % 3 != 0).for_each(|i| r.put(i))),
    ("three of four, down", |r, n| (1..=n).rev().filter(|i| i % 4 != 0).for_each(|i| r.put(i))),
    ("one of two", |r, n| (1..=n).for_each(|i| r.put(i * 2))),
    ("odd, then even", |r, n| {
        (1..=n).for_each(|i| r.put(i * 2 - 1));
        (1..=n).for_each(|i| r.put(i * 2));
    }),
    ("strides", |r, n| {
        for stride in [3, 5, 7, 64, 1000, 1 << 33] {
            (1..=n / 6).for_each(|i| r.put(i * stride));
        }
    }),
    ("blocks with gaps", |r, n| (0..n).for_each(|i| r.put(i / 10 * 16 + i % 10 + 1))),
    ("powers", |r, n| (0..n).for_each(|i| r.put(1 << (i % 62) | i))),
    ("random", |r, n| {
        for _ in 0..n {
            let i = r.random(n) + 1;
            r.put(i);
        }
    }),
    ("random, sparse", |r, n| {
        for _ in 0..n {
            let i = r.random(n * 50);
            r.put(i);
        }
    }),
    ("shuffled halves", |r, n| {
        (1..=n).for_each(|i| r.put(if i % 2 == 0 { n + 1 - i / 2 } else { i / 2 + 1 }))
    }),
    ("from the middle", |r, n| (1..=n).for_each(|i| r.put(n / 2 + if i % 2 == 0 { i / 2 } else { -i / 2 }))),
    ("stack", |r, n| {
        for i in 0..n {
            let len = r.len();
            if i % 3 == 2 { r.remove(len) } else { r.put(len + 1) }
        }
    }),
    ("deep stack", |r, n| {
        (1..=n).for_each(|i| r.put(i));
        for _ in 0..n {
            let len = r.len();
            r.remove(len);
            r.remove(len - 1);
            r.put(len - 1);
        }
    }),
    ("queue", |r, n| {
        for i in 1..=n {
            r.put(i);
            r.remove(i - 20);
        }
    }),
    ("long queue", |r, n| {
        for i in 1..=n {
            r.put(i);
            r.remove(i - n / 3);
        }
    }),
    ("sparse keys coming and going", |r, n| {
        for i in 1..=n {
            r.put(i * 7);
            r.remove((i - 100) * 7);
        }
    }),
    ("exactly a power of two alive", |r, n| {
        for i in 1..=n {
            r.remove((i - 64) * 1000);
            r.put(i * 1000);
        }
    }),
    ("filled and emptied, up", |r, n| {
        for _ in 0..10 {
            (1..=n / 10).for_each(|i| r.put(i));
            (1..=n / 10).for_each(|i| r.remove(i));
        }
    }),
    ("filled and emptied, down", |r, n| {
        for _ in 0..10 {
            (1..=n / 10).for_each(|i| r.put(i));
            (1..=n / 10).rev().for_each(|i| r.remove(i));
        }
    }),
    ("large once, then small", |r, n| {
        (1..=n).for_each(|i| r.put(i));
        (1..=n).rev().for_each(|i| r.remove(i));
        for _ in 0..n / 20 {
            (1..=10).for_each(|i| r.put(i));
            (1..=10).for_each(|i| r.remove(i));
        }
    }),
    ("large once, then holes and none", |r, n| {
        (1..=n).for_each(|i| r.put_any(i));
        (11..=n).rev().for_each(|i| r.remove(i));
        for _ in 0..n {
            r.remove(5);
            r.len();
            r.put_any(5);
            r.len();
        }
    }),
    ("the last element far away, again and again", |r, n| {
        (1..=n).for_each(|i| r.put(i));
        (2..=n).rev().for_each(|i| r.remove(i));
        for _ in 0..n {
            r.put(n);
            r.len();
            r.remove(n);
            r.len();
        }
    }),
    ("around half density", |r, n| {
        let half = (n as u64).next_power_of_two() as i64 / 2;
        (1..=half).for_each(|i| r.put(i));
        for i in 0..n {
            r.put(half + 1);
            r.remove(half + 1);
            r.put(-i);
            r.remove(-i + 3);
        }
    }),
    ("a large array beside keys that come and go", |r, n| {
        (1..=n).for_each(|i| r.put(i));
        r.remove(n / 2);
        for i in 0..n {
            r.put_float(i as f64 + 0.5);
            r.remove_float(i as f64 - 2.5);
        }
    }),
    ("a large array, half empty, beside keys that come and go", |r, n| {
        (1..=n).for_each(|i| r.put(i));
        (1..=n).filter(|i| i % 3 != 0).for_each(|i| r.remove(i));
        for i in 0..n {
            r.put(-i);
            r.remove(-i + 5);
        }
    }),
    ("kinds by turns", |r, n| {
        for i in 1..=n {
            if i % 2 == 0 { r.put(i) } else { r.put_any(i) }
        }
    }),
    ("emptied and refilled with other kinds", |r, n| {
        (1..=n).for_each(|i| r.put(i));
        (1..=n).rev().for_each(|i| r.remove(i));
        for i in 0..n {
            if i % 2 == 0 {
                r.put(1)
            } else {
                r.put_any(1)
            }
            r.remove(1);
        }
    }),
    ("floats", |r, n| (0..n).for_each(|i| r.put_float(i as f64 / 7.0 + 0.01))),
    ("integral floats", |r, n| (1..=n).for_each(|i| r.put_float(i as f64))),
    ("anything", |r, n| {
        for _ in 0..n {
            let i = r.random(n / 4) - 10;
            match r.random(8) {
                0..=3 => r.put(i),
                4 => {
                    let len = r.len();
                    r.put_any(len + 1);
                }
                5 => {
                    let len = r.len();
                    r.remove(len);
                }
                _ => r.remove(i),
            }
        }
    }),
];

#[test]
fn stores_cost_a_constant_whatever_the_keys() {
    for (name, pattern) in PATTERNS {
        for n in [3000, 12_000, 48_000] {
            let vm = &mut bare_vm();
            let t = vm.new_table(0, 0).unwrap();
            WORK.with(|work| work.set(0));
            let mut run = Run { vm, t, stores: 0, seed: 1 };
            pattern(&mut run, n);
            let each = WORK.with(Cell::get) as f64 / run.stores as f64;
            println!("{name:60} {n:6} {each:6.2}");
            assert!(each < 12.0, "{name}: {each} units of work for each of {} stores", run.stores);
        }
    }
}
