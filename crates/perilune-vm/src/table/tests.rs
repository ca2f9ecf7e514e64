//! Tables against a model, and each part's special cases.

use super::testing::{Collect, bare_vm, collect};
use super::trace::Weak;
use super::{TABLE_INT_NODES, TABLE_REF_NODES, edit_raw};
use crate::Vm;
use crate::edge::Edge;
use crate::object::{ArrayKind, TABLE_IS_PROTO, Table};
use crate::shape;
use crate::value::{Gc, Tag, Value};
use perilune_heap::Obj;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// The table's fields, for a look or a change by hand.
fn fields<'a>(t: Gc<Table>) -> &'a mut Table {
    // SAFETY: a table of the test's own heap; the tests use up each reference at once.
    unsafe { edit_raw(t) }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Key {
    Int(i64),
    /// Bits of a float without integral value.
    Float(u64),
    Str(u16),
    Bool(bool),
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Val {
    Nil,
    Int(i64),
    Float(f64),
    Bool(bool),
    /// A table with this number at 1.
    Table(i64),
}

impl Key {
    fn text(i: u16) -> String {
        match i {
            0 => "__index".to_string(),
            i => format!("name{i}"),
        }
    }

    /// The key as a value; strings are fresh each time.
    fn value(self, vm: &mut Vm) -> Value {
        match self {
            Key::Int(i) => Value::int(i),
            Key::Float(f) => Value::float(f64::from_bits(f)),
            Key::Str(i) => Value::from(vm.new_str(Key::text(i).as_bytes()).unwrap()),
            Key::Bool(b) => Value::bool(b),
        }
    }

    fn of(v: Value) -> Key {
        match v.tag() {
            Tag::INT => Key::Int(v.int_bits()),
            Tag::FLOAT => Key::Float(v.payload()),
            Tag::TRUE | Tag::FALSE => Key::Bool(v.is_truthy()),
            _ => match v.as_string().expect("a key of this test").to_text().strip_prefix("name") {
                Some(digits) => Key::Str(digits.parse().unwrap()),
                None => Key::Str(0),
            },
        }
    }
}

impl Val {
    fn value(self, vm: &mut Vm) -> Value {
        match self {
            Val::Table(i) => {
                let t = vm.new_table(1, 0).unwrap();
                vm.raw_set_int(t, 1, Value::int(i)).unwrap();
                Value::from(t)
            }
            Val::Nil => Value::NIL,
            Val::Int(i) => Value::int(i),
            Val::Float(f) => Value::float(f),
            Val::Bool(b) => Value::bool(b),
        }
    }

    fn of(v: Value) -> Val {
        match v.tag() {
            Tag::NIL => Val::Nil,
            Tag::INT => Val::Int(v.int_bits()),
            Tag::FLOAT => Val::Float(v.float_bits()),
            Tag::TABLE => Val::Table(v.gc::<Table>().get_int(1).as_int().unwrap()),
            _ => Val::Bool(v.is_truthy()),
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Set(Key, Val),
    /// A store through the entry point for constant names.
    SetConst(u16, Val),
    Append(Val),
    Pop,
    /// A run of consecutive integer keys, upwards or downwards.
    Fill {
        from: i64,
        count: u16,
        down: bool,
        v: Val,
    },
    /// Removes `count` keys from `from` on.
    Clear {
        from: i64,
        count: u16,
    },
    List {
        ahead: u8,
        values: Vec<Val>,
    },
    /// A full traversal in which entry number i is removed, replaced or left alone according to digit i of
    /// `pattern`.
    Traverse {
        pattern: Vec<u8>,
        v: Val,
    },
    Resize(u8, u8),
    Collect(Collect),
}

fn val() -> impl Strategy<Value = Val> {
    prop_oneof![
        4 => any::<i16>().prop_map(|i| Val::Int(i as i64)),
        3 => (-9i32..9).prop_map(|f| Val::Float(f as f64 / 2.0)),
        4 => any::<bool>().prop_map(Val::Bool),
        3 => any::<i16>().prop_map(|i| Val::Table(i as i64)),
    ]
}

fn val_or_nil() -> impl Strategy<Value = Val> {
    prop_oneof![3 => val(), 1 => Just(Val::Nil)]
}

fn key() -> impl Strategy<Value = Key> {
    prop_oneof![
        6 => (-2i64..40).prop_map(Key::Int),
        1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(1 << 31), Just(1 << 32)].prop_map(Key::Int),
        2 => (0i64..50).prop_map(|i| Key::Int(i * 1024)),
        4 => (0u16..90).prop_map(Key::Str),
        1 => (0i32..20).prop_map(|i| Key::Float((i as f64 + 0.5).to_bits())),
        1 => any::<bool>().prop_map(Key::Bool),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (key(), val_or_nil()).prop_map(|(k, v)| Op::Set(k, v)),
        5 => (0u16..80, val_or_nil()).prop_map(|(k, v)| Op::SetConst(k, v)),
        6 => val().prop_map(Op::Append),
        3 => Just(Op::Pop),
        2 => (-3i64..200, 0u16..1500, any::<bool>(), val())
            .prop_map(|(from, count, down, v)| Op::Fill { from, count, down, v }),
        2 => (-3i64..200, 0u16..1500).prop_map(|(from, count)| Op::Clear { from, count }),
        1 => (0u8..4, prop::collection::vec(val_or_nil(), 0..12))
            .prop_map(|(ahead, values)| Op::List { ahead, values }),
        2 => (prop::collection::vec(0u8..3, 1..9), val())
            .prop_map(|(pattern, v)| Op::Traverse { pattern, v }),
        1 => (0u8..100, 0u8..100).prop_map(|(a, n)| Op::Resize(a, n)),
        3 => prop_oneof![
            3 => Just(Collect::Minor),
            3 => (1u32..200).prop_map(Collect::Slice),
            1 => Just(Collect::Full),
            1 => Just(Collect::Verify),
        ].prop_map(Op::Collect),
    ]
}

/// A table, and what should be in it.
struct Pair<'a> {
    vm: &'a mut Vm,
    t: Gc<Table>,
    model: HashMap<Key, Val>,
}

impl Pair<'_> {
    fn set(&mut self, k: Key, v: Val) {
        let key = k.value(self.vm);
        let value = v.value(self.vm);
        self.vm.raw_set(self.t, key, value).unwrap();
        self.note(k, v);
    }

    fn note(&mut self, k: Key, v: Val) {
        match v {
            Val::Nil => drop(self.model.remove(&k)),
            v => drop(self.model.insert(k, v)),
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Set(k, v) => self.set(*k, *v),
            Op::SetConst(i, v) => {
                let key = self.vm.intern_bytes(Key::text(*i).as_bytes()).unwrap();
                let value = v.value(self.vm);
                self.vm.raw_set_field_const(self.t, key, value).unwrap();
                self.note(Key::Str(*i), *v);
            }
            Op::Append(v) => self.set(Key::Int(self.vm.raw_len(self.t) + 1), *v),
            Op::Pop => self.set(Key::Int(self.vm.raw_len(self.t)), Val::Nil),
            Op::Fill { from, count, down, v } => {
                for i in 0..*count as i64 {
                    self.set(Key::Int(if *down { from - i } else { from + i }), *v);
                }
            }
            Op::Clear { from, count } => {
                for i in 0..*count as i64 {
                    self.set(Key::Int(from + i), Val::Nil);
                }
            }
            Op::List { ahead, values } => {
                let first = self.vm.raw_len(self.t) + 1 + *ahead as i64;
                let list: Vec<_> = values.iter().map(|v| v.value(self.vm)).collect();
                self.vm.raw_set_list(self.t, first, &list).unwrap();
                for (i, &v) in values.iter().enumerate() {
                    self.note(Key::Int(first + i as i64), v);
                }
            }
            Op::Traverse { pattern, v } => self.traverse(pattern, *v),
            Op::Resize(a, n) => self.vm.table_resize(self.t, *a as usize, *n as usize).unwrap(),
            Op::Collect(how) => collect(self.vm, &[self.t], *how),
        }
    }

    fn traverse(&mut self, pattern: &[u8], v: Val) {
        let before: HashSet<Key> = self.model.keys().copied().collect();
        let mut seen = HashSet::new();
        let mut at = Value::NIL;
        let mut position = 0;
        for step in 0.. {
            let entry = self.vm.raw_next(self.t, at).unwrap_or_else(|_| panic!("lost {at:?}"));
            // By position gives the same as by key.
            let by_position = self.vm.next_at(self.t, &mut position);
            assert_eq!(entry.map(|e| Key::of(e.0)), by_position.map(|e| Key::of(e.0)));
            let Some((key, value)) = entry else { break };
            let k = Key::of(key);
            assert_eq!(self.model.get(&k), Some(&Val::of(value)));
            assert!(seen.insert(k), "{k:?} twice");
            match pattern[step % pattern.len()] {
                0 => self.set(k, Val::Nil),
                1 => self.set(k, v),
                _ => {}
            }
            assert!(self.vm.position_of(self.t, key).is_some());
            at = key;
        }
        assert_eq!(seen, before);
    }

    /// The table holds what the model says, and keeps its invariants.
    fn check(&mut self) {
        let t = self.t;
        for (&k, &v) in &self.model {
            let key = k.value(self.vm);
            assert_eq!(Val::of(self.vm.raw_get(t, key)), v, "{k:?}");
        }
        for i in -3..300 {
            let expected = self.model.get(&Key::Int(i)).copied().unwrap_or(Val::Nil);
            assert_eq!(Val::of(self.vm.raw_get(t, Value::float(i as f64))), expected, "{i}");
        }
        for i in 0..90 {
            let key = Key::Str(i).value(self.vm);
            let expected = self.model.get(&Key::Str(i)).copied().unwrap_or(Val::Nil);
            assert_eq!(Val::of(self.vm.raw_get(t, key)), expected, "{i}");
        }
        let mut position = 0;
        let mut count = 0;
        while let Some((k, v)) = self.vm.next_at(t, &mut position) {
            assert_eq!(self.model.get(&Key::of(k)), Some(&Val::of(v)));
            count += 1;
        }
        assert_eq!(count, self.model.len());
        let len = self.vm.raw_len(t);
        assert!(len == 0 || self.model.contains_key(&Key::Int(len)));
        assert!(!self.model.contains_key(&Key::Int(len + 1)));
        check_structure(t);
        let (need, have) = (t.kind.storage(t.array_cap as usize), self.vm.array_storage(t));
        assert!(need <= have, "{need} bytes of elements in {have}");
    }
}

fn check_structure(t: Gc<Table>) {
    assert!(t.array_len <= t.array_cap);
    if t.has_holes() {
        assert!(t.kind == ArrayKind::General && t.array_len > 0);
        let used = (0..t.array_cap as usize).filter(|&at| !t.is_hole(at)).count();
        assert_eq!(fields(t).used(), used);
    } else {
        assert!((0..t.array_len as usize).all(|at| !t.is_hole(at)));
    }
    assert!(shape::field_count(t.shape) <= t.slot_cap as u32);
    for n in t.node_slice() {
        let refers = n.is_live() && (n.key().is_collectable() || n.value().is_collectable());
        assert!(!refers || t.header.flags & TABLE_REF_NODES != 0);
        match Tag(n.key_tag) {
            Tag::INT => {
                let i = n.key as i64;
                assert!(i < 1 || t.header.flags & TABLE_INT_NODES != 0);
                assert!(i < 1 || i > t.array_cap as i64, "key {i} also has a home in the array");
                assert!(std::ptr::eq(t.find_int(i), n));
            }
            Tag::STRING => {
                assert!(!n.is_live() || t.shape == shape::DICT);
                assert!(!n.is_live() || std::ptr::eq(t.find_str(n.key().gc()), n));
            }
            Tag::FLOAT | Tag::TRUE | Tag::FALSE | Tag::TABLE => {
                assert!(std::ptr::eq(t.find_other(n.key()), n))
            }
            _ => assert!(!n.is_live()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn agrees_with_a_model(
        hints in prop_oneof![3 => Just((0, 0)), 1 => (0usize..80, 0usize..40)],
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let vm = &mut bare_vm();
        let t = vm.new_table(hints.0, hints.1).unwrap();
        let mut pair = Pair { vm, t, model: HashMap::new() };
        for op in &ops {
            pair.apply(op);
            check_structure(t);
        }
        pair.check();
        collect(pair.vm, &[t], Collect::Verify);
        collect(pair.vm, &[t], Collect::Full);
        pair.check();
    }

    #[test]
    fn caches_hear_of_new_fields(
        ops in prop::collection::vec((0u16..12, any::<bool>(), any::<bool>()), 1..60)
    ) {
        let vm = &mut bare_vm();
        let t = vm.new_table(0, 0).unwrap();
        fields(t).header.flags |= TABLE_IS_PROTO;
        for (name, constant, remove) in ops {
            let key = vm.intern_bytes(Key::text(name).as_bytes()).unwrap();
            let was_absent = vm.raw_get_str(t, key).is_nil();
            let place = (t.shape, t.slots, t.nodes);
            let version = vm.lua.proto_version;
            fields(t).absent = 0xff;
            let v = if remove { Value::NIL } else { Value::TRUE };
            if constant {
                vm.raw_set_field_const(t, key, v).unwrap();
            } else {
                vm.raw_set_str(t, key, v).unwrap();
            }
            if (was_absent && !remove) || place != (t.shape, t.slots, t.nodes) {
                assert_ne!(version, vm.lua.proto_version);
            }
            if name == 0 && !(was_absent && remove) {
                assert_eq!(t.absent, 0);
            }
            if name != 0 {
                assert_eq!(t.absent, 0xff);
            }
        }
    }
}

#[test]
fn a_collection_sees_what_went_into_an_old_large_hash_part() {
    let vm = &mut bare_vm();
    let t = vm.new_table(0, 0).unwrap();
    vm.table_resize(t, 0, 4096).unwrap();
    collect(vm, &[t], Collect::Full);
    // The nodes are old and large: each store is reported by its address.
    for i in 0..4000 {
        let key = Value::from(vm.new_str(format!("moved {i}").as_bytes()).unwrap());
        let v = Val::Table(i).value(vm);
        vm.raw_set(t, key, v).unwrap();
        if i % 9 == 0 {
            collect(vm, &[t], Collect::Minor);
        }
    }
    collect(vm, &[t], Collect::Minor);
    for i in 0..4000 {
        let key = Value::from(vm.new_str(format!("moved {i}").as_bytes()).unwrap());
        assert_eq!(Val::of(vm.raw_get(t, key)), Val::Table(i));
    }
}

#[test]
fn constructor_lists_keep_holes() {
    let vm = &mut bare_vm();
    let (one, two) = (Value::int(1), Value::int(2));
    let (yes, no) = (Value::TRUE, Value::FALSE);
    let cases: [(&[Value], i64, ArrayKind); 9] = [
        (&[one, Value::NIL, two], 3, ArrayKind::General),
        (&[Value::NIL, Value::NIL, two, Value::NIL], 3, ArrayKind::General),
        (&[Value::NIL], 0, ArrayKind::General),
        (&[one, two], 2, ArrayKind::Int),
        (&[Value::float(1.0), Value::float(2.0)], 2, ArrayKind::Float),
        (&[yes, no, yes], 3, ArrayKind::Bool),
        (&[no, one], 2, ArrayKind::General),
        (&[yes, Value::NIL, no], 3, ArrayKind::General),
        (&[no, yes, Value::NIL], 2, ArrayKind::Bool),
    ];
    for (list, len, kind) in cases {
        let t = vm.new_table(list.len(), 0).unwrap();
        vm.raw_set_list(t, 1, list).unwrap();
        assert_eq!((vm.raw_len(t), t.kind), (len, kind), "{list:?}");
    }
    // The second batch of a long list, after one that ended in nils.
    let t = vm.new_table(0, 0).unwrap();
    vm.raw_set_list(t, 1, &[one, Value::NIL]).unwrap();
    vm.raw_set_list(t, 3, &[Value::NIL, two]).unwrap();
    assert_eq!(vm.raw_len(t), 4);
}

#[test]
fn lists_of_arguments_keep_holes() {
    let vm = &mut bare_vm();
    let t = vm.new_dictionary(3, 1).unwrap();
    for (i, v) in [Value::int(1), Value::NIL, Value::int(3)].into_iter().enumerate() {
        vm.raw_set_int(t, i as i64 + 1, v).unwrap();
    }
    let n = vm.intern_bytes(b"n").unwrap();
    vm.raw_set_str(t, n, Value::int(3)).unwrap();
    check_structure(t);
    assert_eq!((vm.raw_len(t), t.array_cap), (3, 3));
}

/// Draining a table by its first entry, while entries come in before and behind it.
#[test]
fn the_first_entry_is_the_first_whatever_was_removed() {
    let vm = &mut bare_vm();
    for nodes in [false, true] {
        let t = vm.new_table(0, 0).unwrap();
        let key = |i: i64| if nodes { Value::int(i * 1000 + 1_000_000) } else { Value::int(i) };
        for i in 1..=300 {
            vm.raw_set(t, key(i), Value::TRUE).unwrap();
        }
        let mut step = 0;
        while let Some((k, _)) = vm.raw_next(t, Value::NIL).unwrap() {
            let mut position = 0;
            let first = loop {
                let node = t.node_slice().get(position).map(|n| (n.is_live(), n.key()));
                let element = position < t.extent() && !t.is_hole(position);
                match node {
                    _ if !nodes && element => break Value::int(position as i64 + 1),
                    Some((true, key)) if nodes => break key,
                    _ => position += 1,
                }
            };
            assert!(first.same(k), "{first:?} {k:?}");
            vm.raw_set(t, k, Value::NIL).unwrap();
            step += 1;
            if step % 7 == 0 && step < 700 {
                vm.raw_set(t, key(step % 290 + 1), Value::TRUE).unwrap();
            }
        }
        assert!(step > 300);
    }
}

#[test]
fn keys_set_downwards_end_in_the_array() {
    let vm = &mut bare_vm();
    let t = vm.new_table(0, 0).unwrap();
    for i in (1..=1000).rev() {
        vm.raw_set_int(t, i, Value::int(i)).unwrap();
    }
    assert_eq!(vm.raw_len(t), 1000);
    // Every second one, then the rest.
    let t = vm.new_table(0, 0).unwrap();
    for i in (2..=1000).step_by(2).chain((1..=999).step_by(2)) {
        vm.raw_set_int(t, i, Value::int(i)).unwrap();
    }
    assert_eq!(vm.raw_len(t), 1000);
}

#[test]
fn a_queue_stays_small() {
    let vm = &mut bare_vm();
    let t = vm.new_table(0, 0).unwrap();
    for i in 1..=100_000i64 {
        vm.raw_set_int(t, i, Value::int(i)).unwrap();
        if i > 20 {
            assert_eq!(vm.raw_get_int(t, i - 20).as_int(), Some(i - 20));
            vm.raw_set_int(t, i - 20, Value::NIL).unwrap();
        }
    }
    assert!(t.array_cap < 1000 && t.node_count() < 1000, "{} {}", t.array_cap, t.node_count());
}

#[test]
fn keys_that_are_refused_or_normalised() {
    let vm = &mut Vm::new();
    let t = vm.new_table(0, 0).unwrap();
    for (key, message) in [(Value::NIL, "table index is nil"), (Value::float(f64::NAN), "table index is NaN")]
    {
        assert!(vm.raw_get(t, key).is_nil());
        let e = vm.raw_set(t, key, Value::TRUE).unwrap_err();
        assert!(vm.host_error(e).as_string().unwrap().to_text() == message);
    }
    vm.raw_set(t, Value::float(-0.0), Value::TRUE).unwrap();
    assert!(vm.raw_get_int(t, 0).is_truthy());
    vm.raw_set(t, Value::float(-9_223_372_036_854_775_808.0), Value::TRUE).unwrap();
    assert!(vm.raw_get_int(t, i64::MIN).is_truthy());
    vm.raw_set(t, Value::float(9_223_372_036_854_775_808.0), Value::FALSE).unwrap();
    assert!(vm.raw_get_int(t, i64::MAX).is_nil());
    let e = vm.raw_next(t, Value::int(12)).unwrap_err();
    assert!(vm.host_error(e).as_string().unwrap().to_text() == "invalid key to 'next'");
}

#[test]
fn records_share_shapes_and_dictionaries_do_not() {
    let vm = &mut bare_vm();
    let [a, b, c] = ["rec a", "rec b", "rec c"].map(|s| vm.intern_bytes(s.as_bytes()).unwrap());
    let t = vm.new_table(0, 0).unwrap();
    let u = vm.new_table(0, 3).unwrap();
    for (at, t) in [t, u].into_iter().enumerate() {
        for key in [a, b, c] {
            vm.raw_set_field_const(t, key, Value::int(at as i64)).unwrap();
        }
    }
    assert_eq!(t.shape, u.shape);
    assert!(u.slots_are_inline() && !t.slots_are_inline());
    // A copy by computed keys follows the transitions that exist.
    let copy = vm.new_table(0, 0).unwrap();
    let mut position = 0;
    while let Some((k, v)) = vm.next_at(t, &mut position) {
        vm.raw_set(copy, k, v).unwrap();
    }
    assert_eq!(copy.shape, t.shape);
    // A computed name that nobody wrote down makes a dictionary, and constants leave it one.
    let d = vm.new_str(b"computed name").unwrap();
    vm.raw_set(copy, Value::from(d), Value::TRUE).unwrap();
    vm.raw_set_field_const(copy, a, Value::int(7)).unwrap();
    assert_eq!((copy.shape, d.atom), (shape::DICT, 0));
    assert_eq!(vm.raw_get_str(copy, a).as_int(), Some(7));
    assert_eq!(vm.raw_get_str(copy, c).as_int(), Some(0));
}

#[test]
fn refused_memory_leaves_the_table_alone() {
    let vm = &mut bare_vm();
    let t = vm.new_table(0, 0).unwrap();
    let bytes = vm.heap.live_bytes();
    vm.heap.set_limit(Some(bytes + 100_000));
    let mut n = 0;
    while vm.raw_set_int(t, n + 1, Value::int(n + 1)).is_ok() {
        n += 1;
    }
    assert!(n > 1000);
    assert_eq!(vm.raw_len(t), n);
    let s = Value::from(vm.new_str(b"wide").unwrap());
    assert!(vm.raw_set_int(t, n, s).is_err());
    assert_eq!(vm.raw_get_int(t, n).as_int(), Some(n));
    assert!(vm.new_table(1 << 40, 0).is_err() && vm.new_table(0, 1 << 40).is_err());
    let e = vm.new_table(1 << 40, 0).err().unwrap();
    assert_eq!(vm.host_error(e).as_string().unwrap().bytes(), b"not enough memory");
}

#[test]
fn tracing_reports_parts_keys_and_values() {
    let vm = &mut bare_vm();
    let t = vm.new_table(0, 0).unwrap();
    let mut expected = HashSet::new();
    let fresh = |vm: &mut Vm| vm.new_table(0, 0).unwrap();
    let field = vm.intern_bytes(b"trace field").unwrap();
    for at in 0..3 {
        let (key, v) = (fresh(vm), fresh(vm));
        expected.insert(v.obj());
        match at {
            0 => vm.raw_set_int(t, 1, Value::from(v)).unwrap(),
            1 => vm.raw_set_field_const(t, field, Value::from(v)).unwrap(),
            _ => {
                expected.insert(key.obj());
                vm.raw_set(t, Value::from(key), Value::from(v)).unwrap();
            }
        }
    }
    let gone = fresh(vm);
    vm.raw_set(t, Value::from(gone), Value::TRUE).unwrap();
    vm.raw_set(t, Value::from(gone), Value::NIL).unwrap();
    let meta = fresh(vm);
    fields(t).metatable = meta.ptr();
    expected.insert(meta.obj());
    let mut seen = Vec::new();
    // SAFETY: the table is alive.
    unsafe { t.visit(&mut |_: Edge, o| seen.push(o)) };
    // SAFETY: all objects here are alive.
    let (buffers, others): (Vec<_>, Vec<_>) =
        seen.into_iter().partition(|o| unsafe { o.as_ref() }.kind == Tag::BUFFER.0);
    assert_eq!(buffers.len(), 3);
    assert_eq!(others.iter().copied().collect::<HashSet<_>>(), expected);
    assert_eq!(others.len(), expected.len());
}

#[test]
fn weak_tables() {
    let vm = &mut bare_vm();
    let (dead, live) = (vm.new_table(0, 0).unwrap(), vm.new_table(0, 0).unwrap());
    let text = vm.new_str(b"a weak table's string").unwrap();
    let field = vm.intern_bytes(b"weak field").unwrap();
    let is_dead = |v: Value| v.as_table() == Some(dead) || v.as_string() == Some(text);
    for weak in [
        Weak { keys: true, values: false },
        Weak { keys: false, values: true },
        Weak { keys: true, values: true },
    ] {
        let t = vm.new_table(0, 0).unwrap();
        let list = [live, dead, live, dead].map(Value::from);
        vm.raw_set_list(t, 1, &list).unwrap();
        vm.raw_set_field_const(t, field, Value::from(dead)).unwrap();
        vm.raw_set(t, Value::from(dead), Value::from(live)).unwrap();
        vm.raw_set(t, Value::from(live), Value::from(dead)).unwrap();
        vm.raw_set(t, Value::TRUE, Value::from(text)).unwrap();

        let (mut marked_dead, mut marked_text) = (0, 0);
        // SAFETY: the table is alive.
        unsafe {
            t.visit_weak(weak, super::trace::WHOLE, &mut |_: Edge, o: Obj| {
                marked_dead += (o == dead.obj()) as u32;
                marked_text += (o == text.obj()) as u32;
            })
        };
        assert_eq!(marked_text, 1);
        // Strong values: two elements, one field. The key `dead`, if keys are strong. The value of the key
        // `live` is left to the ephemerons if keys are weak.
        assert_eq!(marked_dead, if weak.values { 0 } else { 3 } + if weak.keys { 0 } else { 1 });
        let mut pairs = Vec::new();
        t.ephemerons(super::trace::WHOLE, |n| {
            // SAFETY: a node of the table, which is alive.
            let n = unsafe { &*n };
            pairs.push((n.key().address(), n.value().address()));
        });
        assert_eq!(pairs.len(), 2);

        fields(t).clear_weak(weak, super::trace::WHOLE, is_dead);
        check_structure(t);
        assert_eq!(vm.raw_len(t), if weak.values { 3 } else { 4 }, "the border that is found from the end");
        assert_eq!(vm.raw_get_int(t, 2).is_nil(), weak.values);
        assert_eq!(vm.raw_get_str(t, field).is_nil(), weak.values);
        assert_eq!(vm.raw_get(t, Value::from(dead)).is_nil(), weak.keys);
        assert_eq!(vm.raw_get(t, Value::from(live)).is_nil(), weak.values);
        assert!(vm.raw_get(t, Value::TRUE).as_string() == Some(text));
    }
}

/// `cargo test --profile fast -p perilune-vm -- --ignored --nocapture table_costs`
#[test]
#[ignore = "a measurement"]
fn table_costs() {
    fn measure(name: &str, per: usize, mut f: impl FnMut()) {
        let best = (0..7)
            .map(|_| {
                let start = std::time::Instant::now();
                f();
                start.elapsed().as_secs_f64()
            })
            .fold(f64::MAX, f64::min);
        println!("{name:32} {:7.2} ns", best * 1e9 / per as f64);
    }
    use std::hint::black_box as bb;
    let vm: &mut Vm = &mut bare_vm();
    const N: i64 = 100_000;
    measure("append int", N as usize, || {
        let t = vm.new_table(0, 0).unwrap();
        for i in 1..=N {
            vm.raw_set_int(bb(t), i, Value::int(i)).unwrap();
        }
    });
    measure("append general", N as usize, || {
        let t = vm.new_table(0, 0).unwrap();
        for i in 1..=N {
            vm.raw_set_int(bb(t), i, Value::bool(i & 1 == 0)).unwrap();
        }
    });
    measure("append 4 to a new table", 10_000, || {
        for _ in 0..10_000 {
            let t = vm.new_table(0, 0).unwrap();
            for i in 1..=4 {
                vm.raw_set_int(bb(t), i, Value::int(i)).unwrap();
            }
        }
    });
    let ints = vm.new_table(0, 0).unwrap();
    let sparse = vm.new_table(0, 0).unwrap();
    for i in 1..=1000 {
        vm.raw_set_int(ints, i, Value::int(i)).unwrap();
        vm.raw_set_int(sparse, i * 1000, Value::int(i)).unwrap();
    }
    measure("get int in array", N as usize, || {
        for i in 0..N {
            bb(vm.raw_get_int(bb(ints), i % 1000 + 1));
        }
    });
    measure("set int in array", N as usize, || {
        for i in 0..N {
            vm.raw_set_int(bb(ints), i % 1000 + 1, Value::int(i)).unwrap();
        }
    });
    measure("get int in nodes", N as usize, || {
        for i in 0..N {
            bb(vm.raw_get_int(bb(sparse), (i % 1000 + 1) * 1000));
        }
    });
    measure("insert int in nodes", N as usize, || {
        let t = vm.new_table(0, 0).unwrap();
        for i in 1..=N {
            vm.raw_set_int(bb(t), i * 1000, Value::int(i)).unwrap();
        }
    });
    let names: Vec<_> = (0..16).map(|i| vm.intern_bytes(format!("cost{i}").as_bytes()).unwrap()).collect();
    let record = vm.new_table(0, 0).unwrap();
    let dict = vm.new_table(0, 40).unwrap();
    for &k in &names {
        vm.raw_set_field_const(record, k, Value::TRUE).unwrap();
        vm.raw_set_str(dict, k, Value::TRUE).unwrap();
    }
    for (what, t) in [("shape", record), ("dictionary", dict)] {
        measure(&format!("get name, {what}"), N as usize, || {
            for i in 0..N as usize {
                bb(vm.raw_get_str(bb(t), names[i % 16]));
            }
        });
        measure(&format!("set name, {what}"), N as usize, || {
            for i in 0..N as usize {
                vm.raw_set_str(bb(t), names[i % 16], Value::int(1)).unwrap();
            }
        });
        let fresh: Vec<_> = (0..16).map(|i| vm.new_str(format!("cost{i}").as_bytes()).unwrap()).collect();
        measure(&format!("get uninterned name, {what}"), N as usize, || {
            for i in 0..N as usize {
                bb(vm.raw_get_string(bb(t), fresh[i % 16]));
            }
        });
    }
    measure("make {} + 4 constant fields", 10_000, || {
        for _ in 0..10_000 {
            let t = vm.alloc_table(shape::ROOT, 4, 0);
            for &k in &names[..4] {
                vm.raw_set_field_const(bb(t), k, Value::TRUE).unwrap();
            }
        }
    });
    measure("new_str, 8 bytes", N as usize, || {
        for _ in 0..N {
            bb(vm.new_str(bb(b"12345678")).unwrap());
        }
    });
    measure("new_str + intern as key", N as usize, || {
        let t = vm.new_table(0, 0).unwrap();
        for i in 0..N {
            let s = vm.new_str(&(i | 0x4000_0000_0000).to_le_bytes()).unwrap();
            vm.raw_set_string(t, s, Value::TRUE).unwrap();
        }
    });
    measure("next_at, array", N as usize, || {
        for _ in 0..N / 1000 {
            let mut position = 0;
            while let Some(e) = vm.next_at(bb(ints), &mut position) {
                bb(e);
            }
        }
    });
    measure("next_at, nodes", N as usize, || {
        for _ in 0..N / 1000 {
            let mut position = 0;
            while let Some(e) = vm.next_at(bb(sparse), &mut position) {
                bb(e);
            }
        }
    });
    measure("raw_next, nodes", N as usize, || {
        for _ in 0..N / 1000 {
            let mut key = Value::NIL;
            while let Some(e) = vm.raw_next(bb(sparse), key).unwrap() {
                key = e.0;
            }
        }
    });
}
