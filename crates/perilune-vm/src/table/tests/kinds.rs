//! Kinds of arrays: which one an array has, and what happens to its elements when it gets another.

use super::super::testing::bare_vm;
use super::check_structure;
use crate::Vm;
use crate::object::{ArrayKind, Table};
use crate::value::{Gc, Tag, Value};

#[test]
fn array_kinds() {
    let vm = &mut bare_vm();
    let t = vm.new_table(0, 0).unwrap();
    for i in 1..=10 {
        vm.raw_set_int(t, i, Value::int(i * i)).unwrap();
    }
    assert_eq!((t.kind, vm.raw_len(t)), (ArrayKind::Int, 10));
    assert_eq!(vm.raw_get_int(t, 7).as_int(), Some(49));
    vm.raw_set_int(t, 3, Value::float(0.5)).unwrap();
    assert_eq!(t.kind, ArrayKind::General);
    assert_eq!(vm.raw_get_int(t, 3).as_float(), Some(0.5));
    assert_eq!(vm.raw_get_int(t, 10).as_int(), Some(100));
    vm.raw_set_int(t, 9, Value::NIL).unwrap();
    assert_eq!(vm.raw_len(t), 10);
    assert!(t.has_holes());
    vm.raw_set_int(t, 10, Value::NIL).unwrap();
    assert_eq!(vm.raw_len(t), 8);
    assert!(!t.has_holes(), "what is left has no holes");
    assert!(vm.raw_get_int(t, 9).is_nil());

    // An emptied array takes the kind of what comes next.
    let t = vm.new_table(4, 0).unwrap();
    assert!(t.array_is_inline());
    vm.raw_set_int(t, 1, Value::float(1.5)).unwrap();
    vm.raw_set_int(t, 2, Value::float(2.5)).unwrap();
    assert_eq!((t.kind, t.array_cap), (ArrayKind::Float, 4));
    vm.raw_set_int(t, 2, Value::NIL).unwrap();
    vm.raw_set_int(t, 1, Value::NIL).unwrap();
    vm.raw_set_int(t, 1, Value::TRUE).unwrap();
    assert_eq!((t.kind, t.array_cap), (ArrayKind::Bool, 4));
    vm.raw_set_int(t, 1, Value::NIL).unwrap();
    let text = vm.intern_bytes(b"text").unwrap();
    vm.raw_set_int(t, 1, text.into()).unwrap();
    assert_eq!((t.kind, t.array_cap), (ArrayKind::General, 4));
    assert!(t.array_is_inline());
}

/// `n` booleans in a table: every third is true.
fn booleans(vm: &mut Vm, n: i64) -> Gc<Table> {
    let t = vm.new_table(0, 0).unwrap();
    for i in 1..=n {
        vm.raw_set_int(t, i, Value::bool(i % 3 == 0)).unwrap();
    }
    assert_eq!((t.kind, vm.raw_len(t)), (ArrayKind::Bool, n));
    t
}

fn are_booleans(vm: &Vm, t: Gc<Table>, mut numbers: std::ops::RangeInclusive<i64>) -> bool {
    numbers.all(|i| vm.raw_get_int(t, i).same(Value::bool(i % 3 == 0)))
}

#[test]
fn arrays_of_booleans() {
    let vm = &mut bare_vm();
    for n in [1, 2, 4, 5, 16, 17, 64, 65, 1000, 100_000] {
        let t = booleans(vm, n);
        assert!(are_booleans(vm, t, 1..=n));
        let bytes = vm.array_storage(t);
        assert!(bytes < 2 * n as usize + 64, "{n} booleans take {bytes} bytes");
        check_structure(t);
        // Nil at the end leaves the kind alone, elsewhere it makes holes.
        vm.raw_set_int(t, n, Value::NIL).unwrap();
        assert_eq!((t.kind, vm.raw_len(t)), (ArrayKind::Bool, n - 1));
        vm.raw_set_int(t, n, Value::TRUE).unwrap();
        vm.raw_set_int(t, n, Value::bool(n % 3 == 0)).unwrap();
        assert_eq!(t.kind, ArrayKind::Bool);
        if n > 1 {
            vm.raw_set_int(t, 1, Value::NIL).unwrap();
            assert!(t.kind == ArrayKind::General && t.has_holes());
            assert!(vm.raw_get_int(t, 1).is_nil() && are_booleans(vm, t, 2..=n));
        }
        check_structure(t);
    }
}

#[test]
fn booleans_make_room_for_other_values() {
    let vm = &mut bare_vm();
    let text = vm.intern_bytes(b"text").unwrap();
    for v in [Value::int(i64::MIN), Value::float(-0.0), text.into()] {
        for n in [1, 4, 15, 64, 65, 1000] {
            // Over an element, behind the last one, and into an array that has been emptied.
            let t = booleans(vm, n);
            vm.raw_set_int(t, n, v).unwrap();
            assert!(t.kind == ArrayKind::General && are_booleans(vm, t, 1..=n - 1));
            assert!(vm.raw_get_int(t, n).same(v));
            let t = booleans(vm, n);
            vm.raw_set_int(t, n + 1, v).unwrap();
            assert!(t.kind == ArrayKind::General && are_booleans(vm, t, 1..=n));
            assert!(vm.raw_get_int(t, n + 1).same(v));
            let t = booleans(vm, n);
            (1..=n).rev().for_each(|i| vm.raw_set_int(t, i, Value::NIL).unwrap());
            assert_eq!((t.kind, vm.raw_len(t)), (ArrayKind::Bool, 0));
            let cap = t.array_cap;
            (1..=n).for_each(|i| vm.raw_set_int(t, i, v).unwrap());
            assert_eq!((t.kind, t.array_cap), (ArrayKind::of(v), cap), "the size stays");
            assert!((1..=n).all(|i| vm.raw_get_int(t, i).same(v)));
            check_structure(t);
            let t = booleans(vm, n);
            assert!(vm.raw_insert(t, 1, v).unwrap());
            assert!(vm.raw_get_int(t, 1).same(v) && vm.raw_get_int(t, 2).same(Value::FALSE));
            assert_eq!((t.kind, vm.raw_len(t)), (ArrayKind::General, n + 1));
            check_structure(t);
        }
    }
}

#[test]
fn kinds_accept_what_they_fit() {
    let vm = &mut bare_vm();
    let text: Value = vm.intern_bytes(b"text").unwrap().into();
    let light = Value::light(1);
    let values = [Value::NIL, Value::FALSE, Value::TRUE, Value::int(1), Value::float(1.0), text, light];
    for v in values {
        for kind in ArrayKind::ALL {
            let tightest = !v.is_nil() && kind == ArrayKind::of(v);
            assert_eq!(kind.accepts(v), tightest || kind == ArrayKind::General && !v.is_nil(), "{kind:?}");
        }
    }
}

#[test]
fn number_tags() {
    assert!(ArrayKind::Int.number_tag() == Tag::INT && ArrayKind::Float.number_tag() == Tag::FLOAT);
}
