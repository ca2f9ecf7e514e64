//! Stores that fill and make holes.
//!
//! An array has holes (`perilune_vm::table`, `array.rs`) if it was not filled in the order of its keys, or if nil was
//! stored into it: a sieve that begins at 2, what has been seen or counted by number, what backtracking sets and
//! takes back. Loads of its elements are like those of any array. A store that makes a value of nil, or nil of a value,
//! changes how many elements there are, and a leaf took 8 ns for that. Here it is done in line where the array stays
//! one with holes for sure: a large one counts its elements behind the last one, of a small one a neighbour tells
//! that it is neither full nor empty. Where that may change, a leaf does it all.
//!
//! Rejected: a count for small arrays, too. They are made in great numbers, and most have no holes.

use super::facts::Fact;
use super::memory::Key;
use super::stores::Stored;
use super::{Lowering, Name};
use crate::ssa::{Block, IntCC, Type, Value};
use perilune_vm::machine::layout;
use perilune_vm::{ArrayKind, Tag};

impl Lowering<'_, '_> {
    /// The value, nil or not, becomes an element that was nil, or was not, of an array that has holes and has them
    /// afterwards; else goes to `other`, where nothing has been done. Instruction `at` stores it.
    pub(super) fn store_among_holes(
        &mut self,
        at: usize,
        (name, table): (Name, Value),
        key: Key,
        stored: &Stored,
        other: Block,
    ) {
        let takes_away = stored.known == Some(Tag::NIL);
        let flags = self.load(Type::I8, table, layout::OBJECT_FLAGS);
        let holes = self.band_imm(flags, layout::HOLES as i64);
        self.unless(holes, other);
        let index = self.number_of_element(key, other);
        let [length, room] = [layout::TABLE_LENGTH, layout::TABLE_ROOM].map(|part| {
            let count = self.load(Type::I32, table, part);
            self.b.uextend(Type::I64, count)
        });
        let within = self.b.icmp(IntCC::UnsignedLessThan, index, room);
        self.unless(within, other);
        let array = self.load(Type::I64, table, layout::TABLE_ARRAY);
        let address = self.place_of(array, index, ArrayKind::General);
        let was_nil = self.is_nil_at(address);
        if takes_away {
            let was_there = self.icmp_imm(IntCC::Equal, was_nil, 0);
            self.unless(was_there, other);
        } else {
            self.unless(was_nil, other);
            self.is_something(stored, other);
            self.lacks_metamethod(table, layout::NO_NEWINDEX, other);
        }
        let [small, large, done] = [(); 3].map(|()| self.b.create_block());
        let is_small = self.icmp_imm(IntCC::UnsignedLessThanOrEqual, room, layout::SMALL_ARRAY as i64);
        self.is_writable((Some(name), table), index, stored, other);
        self.b.brif(is_small, small, &[], large, &[]);
        self.go_to(small);
        self.neighbour_stays(array, index, room, takes_away, other);
        self.b.jump(done, &[]);
        self.go_to(large);
        self.tally(array, room, takes_away, other);
        self.b.jump(done, &[]);
        self.go_to(done);
        self.store_element(ArrayKind::General, stored, address);
        if !takes_away {
            // What traversals have found to be empty is not.
            let (vm, none) = (self.vm, self.b.iconst(Type::I64, 0));
            self.store(none, vm, layout::VM_DRAINED);
        }
        // The hint: where the last element is that was used.
        let next = self.iadd_imm(index, 1);
        let behind = self.b.icmp(IntCC::UnsignedGreaterThan, next, length);
        let hint = self.b.select(behind, next, length);
        let hint = self.b.ireduce(Type::I32, hint);
        self.store(hint, table, layout::TABLE_LENGTH);
        if let Some(now) = &mut self.now {
            now.facts.retain(|fact| !matches!(fact, Fact::Array(..)));
            now.forget_elements(at);
        }
    }

    /// Whether there is nil at an address.
    fn is_nil_at(&mut self, address: Value) -> Value {
        let tag = self.load(Type::I8, address, layout::TAG);
        self.icmp_imm(IntCC::Equal, tag, Tag::NIL.0 as i64)
    }

    /// The element beside this one is nil, so the array does not get full, or it is not and the array does not get
    /// empty, if something is taken away; else goes to `other`.
    fn neighbour_stays(&mut self, array: Value, index: Value, room: Value, takes_away: bool, other: Block) {
        let one = self.b.iconst(Type::I64, 1);
        let beside = self.b.bxor(index, one);
        let within = self.b.icmp(IntCC::UnsignedLessThan, beside, room);
        self.unless(within, other);
        let address = self.place_of(array, beside, ArrayKind::General);
        let is_nil = self.is_nil_at(address);
        let stays = if takes_away { self.icmp_imm(IntCC::Equal, is_nil, 0) } else { is_nil };
        self.unless(stays, other);
    }

    /// A large array has one element more, or less, and is neither full nor empty then; else goes to `other`.
    fn tally(&mut self, array: Value, room: Value, takes_away: bool, other: Block) {
        let tally = self.place_of(array, room, ArrayKind::General);
        let used = self.load(Type::I32, tally, layout::TALLY_USED);
        let changes = self.load(Type::I32, tally, layout::TALLY_CHANGES);
        let used = self.iadd_imm(used, if takes_away { -1 } else { 1 });
        let end = if takes_away {
            self.icmp_imm(IntCC::NotEqual, used, 0)
        } else {
            let full = self.b.ireduce(Type::I32, room);
            self.b.icmp(IntCC::NotEqual, used, full)
        };
        self.unless(end, other);
        // It may begin anew at 0: then an array is asked later whether it is dense.
        let changes = self.iadd_imm(changes, 1);
        self.store(used, tally, layout::TALLY_USED);
        self.store(changes, tally, layout::TALLY_CHANGES);
    }
}
