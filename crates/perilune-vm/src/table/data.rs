//! Tables made from data, and what tables are as data: for decoders and encoders.
//!
//! A decoder reads a *list* (values one after the other) or a *record* (names with values) completely before
//! it makes the table: so the table has its final size, its array the tightest kind, and nothing is moved.
//!
//! # Shapes of records
//! Records of a list mostly have the same names in the same order, and programs look at fields of all of
//! them: they are to share a shape, as tables from one constructor do. But names of data are not bounded by a
//! program's text: a record can be a dictionary whose keys are numbers of customers. So a record gets a shape
//! if all transitions to it are there already, or if its list of names has been met before in this domain;
//! the first one of its kind is a dictionary. What data can make at most says `shape.rs`. Names are then
//! found without hashing: a [`Guess`] is the shape of the last record in a place, and tells the decoder the
//! name to compare with.
//!
//! *Rejected.* A shape at the first meeting: every dictionary in a document would leave its keys behind as
//! shapes for ever. Dictionaries only: a field of a record then costs a probe of a hash part where it costs a
//! load now, and inline caches do not help.
//!
//! Nothing here contains a safepoint, so a decoder keeps values in memory of its own until the tables are
//! made.

use super::edit;
use crate::Vm;
use crate::native::LuaResult;
use crate::object::{ArrayKind, LuaString, Table};
use crate::shape;
use crate::value::{Gc, Tag, Value};

/// What names the next record in some place is likely to have.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Guess(u32);

impl Guess {
    /// How many names.
    #[inline(always)]
    pub fn count(self) -> usize {
        if self.0 == 0 { 0 } else { shape::field_count(self.0) as usize }
    }
}

/// A record that has been made.
#[derive(Clone, Copy)]
pub struct Record {
    /// It.
    pub table: Gc<Table>,
    /// For the next one.
    pub guess: Guess,
    /// Place of the first name that was there before, if there is any; the later value counts.
    pub repeated: Option<usize>,
}

/// What a table is as data.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// It has no entries.
    Empty,
    /// Its keys are the integers from 1 to this one.
    List(usize),
    /// Its keys are strings.
    Names,
    /// Neither: it has this key, which is no string; if that is an integer, some before it is missing or
    /// there are strings, too.
    Odd(Value),
}

impl Vm {
    /// The interned string of a name.
    ///
    /// # Errors
    /// "not enough memory"
    #[inline]
    pub fn new_name(&mut self, bytes: &[u8]) -> LuaResult<Gc<LuaString>> {
        self.intern_bytes(bytes)
    }

    /// The name in place `at` of a guess.
    #[inline(always)]
    pub fn guessed_name(&mut self, guess: Guess, at: usize) -> Option<Gc<LuaString>> {
        if at < guess.count() { Some(self.key_at(guess.0, at as u32)) } else { None }
    }

    /// A list of these values, none of which is nil.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn new_list(&mut self, items: &[Value]) -> LuaResult<Gc<Table>> {
        assert!(items.iter().all(|v| !v.is_nil()), "a list with nil");
        let kind = ArrayKind::of_all(items);
        if items.len() > super::array::MAX_ARRAY {
            return Err(self.out_of_memory());
        }
        let t = self.new_table_of(shape::ROOT, kind, items.len(), 0)?;
        let table = edit(&mut self.heap, t);
        for (at, &v) in items.iter().enumerate() {
            // SAFETY: the table has been made with room for all items, and its kind fits them; a newborn
            // needs no barrier.
            unsafe { table.set_element(at, v) };
        }
        if !items.is_empty() {
            // SAFETY: all elements have been written, and none is nil.
            unsafe { t.init_length(false) };
        }
        Ok(t)
    }

    /// A record of names and values, which take turns in `entries`; no value is nil. The names are interned,
    /// the first `matched` of them those of the guess.
    ///
    /// # Errors
    /// "not enough memory"
    #[inline]
    pub fn new_record(&mut self, entries: &[Value], guess: Guess, matched: usize) -> LuaResult<Record> {
        let count = entries.len() / 2;
        if matched == count && count == guess.count() && count > 0 {
            debug_assert!(
                (0..count).all(|i| Value::from(self.key_at(guess.0, i as u32)).same(entries[2 * i]))
            );
            return Ok(Record { table: self.record_of(guess.0, entries), guess, repeated: None });
        }
        self.new_record_slow(entries)
    }

    #[inline(never)]
    fn new_record_slow(&mut self, entries: &[Value]) -> LuaResult<Record> {
        assert!(entries.len().is_multiple_of(2) && entries.iter().all(|v| !v.is_nil()), "names with values");
        let count = entries.len() / 2;
        let names = entries.iter().step_by(2).map(|v| v.as_string().expect("a name"));
        assert!(names.clone().all(Gc::<LuaString>::is_interned), "names are interned");
        if count == 0 {
            return Ok(Record { table: self.new_table(0, 0)?, guess: Guess(0), repeated: None });
        }
        if count <= shape::MAX_FIELDS as usize
            && let Some(shape) = self.shape_of_names(names.clone())
        {
            let table = self.record_of(shape, entries);
            return Ok(Record { table, guess: Guess(shape), repeated: None });
        }
        let t = self.new_table_of(shape::DICT, ArrayKind::General, 0, count)?;
        let mut repeated = None;
        for (at, name) in names.enumerate() {
            if !t.get_str(name).is_nil() {
                repeated = repeated.or(Some(at));
            }
            self.raw_set_str(t, name, entries[2 * at + 1])?;
        }
        Ok(Record { table: t, guess: Guess(0), repeated })
    }

    /// A table of a shape whose names are adopted here, with the values behind them.
    #[inline(always)]
    fn record_of(&mut self, shape: u32, entries: &[Value]) -> Gc<Table> {
        let count = shape::field_count(shape) as usize;
        assert!(entries.len() == 2 * count);
        let t = self.alloc_table(shape, count, 0);
        for slot in 0..count {
            // SAFETY: the table is new and has a slot for each field of its shape.
            unsafe { t.init_slot(slot, entries[2 * slot + 1]) };
        }
        // As for a constructor: a class's names make no cached absence true, since nothing knows the table
        // yet, and `absent` is 0.
        t
    }

    /// What the table is as data.
    #[inline]
    pub fn form(&mut self, t: Gc<Table>) -> Form {
        if t.has_no_nodes() && !t.has_holes() {
            match (t.array_len, shape::field_count(t.shape)) {
                (0, 0) => return Form::Empty,
                (n, 0) => return Form::List(n as usize),
                _ => {}
            }
        }
        self.form_slow(t)
    }

    #[inline(never)]
    fn form_slow(&mut self, t: Gc<Table>) -> Form {
        let (mut position, mut integers, mut most, mut names) = (0, 0usize, 0i64, 0usize);
        let mut odd = None;
        while let Some((key, _)) = self.next_at(t, &mut position) {
            match key.tag() {
                Tag::STRING => names += 1,
                Tag::INT if key.int_bits() > 0 => {
                    integers += 1;
                    if key.int_bits() > most {
                        most = key.int_bits();
                    }
                }
                _ => odd = odd.or(Some(key)),
            }
        }
        match odd {
            Some(key) => Form::Odd(key),
            None if integers == 0 => {
                if names == 0 {
                    Form::Empty
                } else {
                    Form::Names
                }
            }
            None if names == 0 && most as usize == integers => Form::List(integers),
            None => Form::Odd(Value::int(most)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::testing::bare_vm;

    fn entries(vm: &mut Vm, names: &[String]) -> Vec<Value> {
        names
            .iter()
            .enumerate()
            .flat_map(|(i, n)| [Value::from(vm.new_name(n.as_bytes()).unwrap()), Value::int(i as i64)])
            .collect()
    }

    #[test]
    fn the_second_record_of_a_kind_has_a_shape() {
        let vm = &mut bare_vm();
        let names: Vec<String> = (0..5).map(|i| format!("record field {i}")).collect();
        let entries = entries(vm, &names);
        let first = vm.new_record(&entries, Guess::default(), 0).unwrap();
        assert_eq!((first.guess, first.table.shape), (Guess::default(), shape::DICT));
        let second = vm.new_record(&entries, first.guess, 0).unwrap();
        assert_eq!(second.guess.count(), 5);
        assert_eq!(second.table.shape, second.guess.0);
        let third = vm.new_record(&entries, second.guess, 5).unwrap();
        for record in [first, second, third] {
            for i in 0..5 {
                assert_eq!(vm.raw_get(record.table, entries[2 * i]).as_int(), Some(i as i64));
            }
            assert!(record.repeated.is_none() && matches!(vm.form(record.table), Form::Names));
        }
        assert!(vm.guessed_name(second.guess, 4).unwrap().bytes() == b"record field 4");
        assert!(vm.guessed_name(second.guess, 5).is_none());
    }

    #[test]
    fn repeated_names_and_many_names() {
        let vm = &mut bare_vm();
        let twice = ["a", "b", "a"].map(String::from);
        let entries_twice = entries(vm, &twice);
        for _ in 0..3 {
            let record = vm.new_record(&entries_twice, Guess::default(), 0).unwrap();
            assert_eq!(record.repeated, Some(2));
            assert_eq!(vm.raw_get(record.table, entries_twice[0]).as_int(), Some(2));
        }
        let many: Vec<String> = (0..200).map(|i| format!("one of many {i}")).collect();
        let many = entries(vm, &many);
        for _ in 0..2 {
            let record = vm.new_record(&many, Guess::default(), 0).unwrap();
            assert_eq!(record.table.shape, shape::DICT);
            assert_eq!(vm.raw_get(record.table, many[398]).as_int(), Some(199));
        }
    }

    #[test]
    fn data_cannot_take_all_children_of_a_shape() {
        let vm = &mut bare_vm();
        let mut made = 0;
        for i in 0..shape::FAN_OUT {
            let names = ["children of data".to_owned(), format!("child of data {i}")];
            let entries = entries(vm, &names);
            vm.new_record(&entries, Guess::default(), 0).unwrap();
            let second = vm.new_record(&entries, Guess::default(), 0).unwrap();
            made += usize::from(second.guess != Guess::default());
        }
        assert_eq!(made, shape::FAN_OUT as usize / 2);
        // A program's text still gets its own.
        let parent = vm.new_name(b"children of data").unwrap();
        let id = vm.shape_transition(shape::ROOT, parent).unwrap();
        let own = vm.new_name(b"a constant of a program").unwrap();
        assert!(vm.shape_transition(id, own).is_some());
    }

    #[test]
    fn lists_are_as_tight_as_their_elements() {
        let vm = &mut bare_vm();
        let kinds = [
            (vec![Value::int(1), Value::int(2)], ArrayKind::Int),
            (vec![Value::float(1.0); 100], ArrayKind::Float),
            (vec![Value::int(1), Value::float(2.0)], ArrayKind::General),
            (vec![Value::TRUE, Value::FALSE, Value::TRUE], ArrayKind::Bool),
            (vec![Value::FALSE; 1000], ArrayKind::Bool),
            (vec![Value::TRUE, Value::int(2)], ArrayKind::General),
        ];
        for (items, kind) in kinds {
            let t = vm.new_list(&items).unwrap();
            assert!(t.kind == kind && matches!(vm.form(t), Form::List(n) if n == items.len()));
            assert!(items.iter().enumerate().all(|(i, v)| vm.raw_get_int(t, i as i64 + 1).same(*v)));
        }
        let empty = vm.new_list(&[]).unwrap();
        assert!(matches!(vm.form(empty), Form::Empty));
        vm.raw_set_int(empty, 2, Value::TRUE).unwrap();
        assert!(matches!(vm.form(empty), Form::Odd(_)));
    }
}
