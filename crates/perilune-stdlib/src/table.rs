//! The `table` library (manual 6.6); `sort` is in `sort.rs`.
//!
//! The functions respect metamethods. A table without a metatable, which is nearly every one, is accessed
//! raw; anything else goes through `__index`, `__newindex` and `__len` element by element, in the order in
//! which PUC Lua does it. The ends of objects that are lists, of a class without `__len` and `__newindex`, are
//! accessed raw as well: nobody could tell.

use crate::sort;
use crate::string::scratch;
use perilune_syntax::numeral::{format_float, format_integer};
use perilune_vm::meta::Event;
use perilune_vm::{Call, Effect, Gc, LuaResult, Native, Results, Table, Type, Value, Vm};

static CONCAT: Native = Native::hybrid("concat", concat);
static INSERT: Native = Native::hybrid("insert", insert).quick_or_none(Effect::Stores, quick_insert);
static MOVE: Native = Native::hybrid("move", move_);
static PACK: Native = Native::leaf("pack", pack);
static REMOVE: Native = Native::hybrid("remove", remove).quick(Effect::Stores, quick_remove);
static SORT: Native = Native::hybrid("sort", sort::sort);
static UNPACK: Native = Native::hybrid("unpack", unpack).several(Effect::Nothing, quick_unpack);

/// Makes the table `table`.
///
/// # Errors
/// Only when memory runs out.
pub fn open(vm: &mut Vm) -> LuaResult<()> {
    let table = vm.new_table(0, 7)?;
    vm.set_loaded("table", table.into())?;
    vm.set_global("table", table.into())?;
    vm.register(table, &[&CONCAT, &INSERT, &MOVE, &PACK, &REMOVE, &SORT, &UNPACK])
}

/// What a function does with an object that has to be a table or to behave like one.
#[derive(Clone, Copy)]
pub(crate) struct Uses {
    pub read: bool,
    pub write: bool,
    pub length: bool,
}

/// An argument that is a table or behaves like one.
#[derive(Clone, Copy)]
pub(crate) enum Sequence {
    /// A table without a metatable.
    Raw(Gc<Table>),
    /// Anything else.
    Object(Value),
}

impl Sequence {
    /// Argument `i`, which has to be a table or to have the metamethods for what is done with it.
    pub(crate) fn check(vm: &mut Vm, i: u32, uses: Uses) -> LuaResult<Sequence> {
        let object = vm.arg(i);
        if let Some(table) = object.as_table() {
            return Ok(match vm.metatable_of(object) {
                None => Sequence::Raw(table),
                Some(_) => Sequence::Object(object),
            });
        }
        let needs = [(uses.read, "__index"), (uses.write, "__newindex"), (uses.length, "__len")];
        let mut suitable = vm.metatable_of(object).is_some();
        for (_, metamethod) in needs.into_iter().filter(|need| need.0) {
            suitable = suitable && !vm.metafield(object, metamethod)?.is_nil();
        }
        if suitable {
            return Ok(Sequence::Object(object));
        }
        vm.check_type(i, Type::Table)?;
        Ok(Sequence::Object(object))
    }

    /// The table that it is, if that has none of these metamethods, and nobody else minds what is stored.
    fn without(self, vm: &mut Vm, events: &[Event]) -> Option<Gc<Table>> {
        match self {
            Sequence::Raw(table) => Some(table),
            Sequence::Object(object) => {
                object.as_table().filter(|table| vm.may_store_without(*table, events))
            }
        }
    }

    /// Element `i` will soon be looked at.
    #[inline]
    pub(crate) fn foresee(self, vm: &Vm, i: i64) {
        let table = match self {
            Sequence::Raw(table) => Some(table),
            Sequence::Object(object) => object.as_table(),
        };
        if let Some(table) = table {
            vm.foresee(table, i);
        }
    }

    pub(crate) fn len(self, vm: &mut Vm) -> LuaResult<i64> {
        match self {
            Sequence::Raw(table) => Ok(vm.raw_len(table)),
            Sequence::Object(object) => vm.len_int(object),
        }
    }

    #[inline(always)]
    pub(crate) fn get(self, vm: &mut Vm, i: i64) -> LuaResult<Value> {
        // Every loop over elements comes by here, and it may be long: what `__len` says may be any number,
        // and so may the border of a table with holes.
        vm.poll_interrupt()?;
        match self {
            Sequence::Raw(table) => Ok(vm.raw_get_int(table, i)),
            Sequence::Object(object) => vm.index_int(object, i),
        }
    }

    #[inline]
    pub(crate) fn set(self, vm: &mut Vm, i: i64, value: Value) -> LuaResult<()> {
        match self {
            Sequence::Raw(table) => vm.raw_set_int(table, i, value),
            Sequence::Object(object) => vm.set_index_int(object, i, value),
        }
    }

    fn same(self, other: Sequence) -> bool {
        match (self, other) {
            (Sequence::Raw(a), Sequence::Raw(b)) => a == b,
            (Sequence::Object(a), Sequence::Object(b)) => a.same(b),
            _ => false,
        }
    }

    fn value(self) -> Value {
        match self {
            Sequence::Raw(table) => table.into(),
            Sequence::Object(object) => object,
        }
    }
}

pub(crate) const READ_WRITE_LENGTH: Uses = Uses { read: true, write: true, length: true };

/// An array of shared memory has as many elements as it has: it neither grows nor shrinks.
fn refuse_fixed(vm: &mut Vm, what: &str) -> LuaResult<()> {
    let object = vm.arg(1);
    let is_fixed = object.as_shared().is_some_and(|r| {
        r.elements().is_some() || r.object().watched().is_some() || r.object().indexed().is_some()
    });
    if !is_fixed {
        return Ok(());
    }
    let len = vm.len_int(object)?;
    Err(vm
        .arg_error(1, &format!("an array keeps its length, {len} elements, and cannot {what}; a table can")))
}

fn insert(vm: &mut Vm) -> LuaResult<u32> {
    refuse_fixed(vm, "grow")?;
    let sequence = Sequence::check(vm, 1, READ_WRITE_LENGTH)?;
    let end = sequence.len(vm)?.wrapping_add(1);
    match vm.nargs() {
        2 => {
            let value = vm.arg(2);
            sequence.set(vm, end, value)?;
        }
        3 => {
            let position = vm.check_int(2)?;
            if (position as u64).wrapping_sub(1) >= end as u64 {
                return Err(vm.arg_error(2, "position out of bounds"));
            }
            // What is moved is there, so nobody is asked for it; what comes behind it is new.
            if let Some(table) = sequence.without(vm, &[Event::Len, Event::NewIndex]) {
                let value = vm.arg(3);
                if vm.raw_insert(table, position, value)? {
                    return Ok(0);
                }
            }
            let mut i = end;
            while i > position {
                let value = sequence.get(vm, i - 1)?;
                sequence.set(vm, i, value)?;
                i -= 1;
            }
            let value = vm.arg(3);
            sequence.set(vm, position, value)?;
        }
        _ => return Err(vm.error("wrong number of arguments to 'insert'")),
    }
    Ok(0)
}

/// [`insert`] at the end of a table without metamethods for that. (Elements that have been moved are not to be
/// moved again where memory is refused.)
fn quick_insert(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[table, value] = call.arguments else { return Ok(None) };
    let may = |vm: &mut Vm, t| vm.may_store_without(t, &[Event::Len, Event::NewIndex]);
    let Some(table) = table.as_table().filter(|t| may(vm, *t)) else { return Ok(None) };
    let end = vm.raw_len(table).wrapping_add(1);
    vm.raw_set_int(table, end, value)?;
    Ok(Some(Value::NIL))
}

/// [`remove`] of the last element of a table that says by itself how long it is, or of one of its array. All of
/// these are there, and what is there asks for no other metamethod.
fn quick_remove(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let (&[table] | &[table, _]) = call.arguments else { return Ok(None) };
    let may = |vm: &mut Vm, t| vm.may_store_without(t, &[Event::Len]);
    let Some(table) = table.as_table().filter(|t| may(vm, *t)) else { return Ok(None) };
    let size = vm.raw_len(table);
    if let &[_, position] = call.arguments {
        let position = position.as_int().filter(|i| (1..=size).contains(i));
        return position.map_or(Ok(None), |position| vm.raw_remove(table, position));
    }
    if size == 0 {
        let none = vm.may_store_quickly(table) && vm.raw_get_int(table, 0).is_nil();
        return Ok(none.then_some(Value::NIL));
    }
    vm.raw_remove(table, size)
}

fn remove(vm: &mut Vm) -> LuaResult<u32> {
    refuse_fixed(vm, "shrink")?;
    let sequence = Sequence::check(vm, 1, READ_WRITE_LENGTH)?;
    let size = sequence.len(vm)?;
    let mut position = vm.opt_int(2, size)?;
    if position != size && (position as u64).wrapping_sub(1) > size as u64 {
        return Err(vm.arg_error(2, "position out of bounds"));
    }
    if let Some(table) = sequence.without(vm, &[Event::Len])
        && let Some(removed) = vm.raw_remove(table, position)?
    {
        return vm.ret(removed);
    }
    let removed = sequence.get(vm, position)?;
    vm.push(removed);
    while position < size {
        let value = sequence.get(vm, position + 1)?;
        sequence.set(vm, position, value)?;
        position += 1;
    }
    sequence.set(vm, position, Value::NIL)?;
    Ok(1)
}

fn move_(vm: &mut Vm) -> LuaResult<u32> {
    let (from, end, to) = (vm.check_int(2)?, vm.check_int(3)?, vm.check_int(4)?);
    let source = Sequence::check(vm, 1, Uses { read: true, write: false, length: false })?;
    let target_argument = if vm.arg_is_none_or_nil(5) { 1 } else { 5 };
    let target = Sequence::check(vm, target_argument, Uses { read: false, write: true, length: false })?;
    if end >= from {
        if from <= 0 && end >= i64::MAX.wrapping_add(from) {
            return Err(vm.arg_error(3, "too many elements to move"));
        }
        let count = end - from + 1;
        if to > i64::MAX - count + 1 {
            return Err(vm.arg_error(4, "destination wrap around"));
        }
        // Upwards is better for the target's array part, and right unless the ranges overlap in the wrong
        // way.
        let upwards =
            to > end || to <= from || !(source.same(target) || vm.equals(source.value(), target.value())?);
        if let (Sequence::Raw(source), Sequence::Raw(target), true) = (source, target, upwards) {
            for i in 0..count {
                vm.poll_interrupt()?;
                let value = vm.raw_get_int(source, from + i);
                vm.raw_set_int(target, to + i, value)?;
            }
            return vm.ret(target);
        }
        for i in 0..count {
            let i = if upwards { i } else { count - 1 - i };
            let value = source.get(vm, from + i)?;
            target.set(vm, to + i, value)?;
        }
    }
    vm.ret(target.value())
}

fn concat(vm: &mut Vm) -> LuaResult<u32> {
    let sequence = Sequence::check(vm, 1, Uses { read: true, write: false, length: true })?;
    let size = sequence.len(vm)?;
    let separator = vm.opt_str(2)?;
    let separator = separator.map_or(b"".as_slice(), |s| s.bytes());
    let mut i = vm.opt_int(3, 1)?;
    let last = vm.opt_int(4, size)?;
    let mut text = scratch::take();
    while i < last {
        add_field(vm, sequence, i, &mut text)?;
        scratch::append(vm, &mut text, separator)?;
        i += 1;
    }
    if i == last {
        add_field(vm, sequence, i, &mut text)?;
    }
    scratch::ret(vm, text)
}

#[inline(always)]
fn add_field(vm: &mut Vm, sequence: Sequence, i: i64, text: &mut Vec<u8>) -> LuaResult<()> {
    let value = sequence.get(vm, i)?;
    match value.as_string() {
        Some(piece) => scratch::append(vm, text, piece.bytes()),
        None => add_other_field(vm, value, i, text),
    }
}

/// Adds element `i`, which is no string.
#[inline(never)]
fn add_other_field(vm: &mut Vm, value: Value, i: i64, text: &mut Vec<u8>) -> LuaResult<()> {
    if let Some(integer) = value.as_int() {
        format_integer(integer, text);
    } else if let Some(float) = value.as_float() {
        format_float(float, text);
    } else {
        let name = value.type_name();
        return Err(vm.error(format!("invalid value ({name}) at index {i} in table for 'concat'")));
    }
    Ok(())
}

fn pack(vm: &mut Vm) -> LuaResult<u32> {
    let count = vm.nargs();
    if count > 256 {
        vm.ensure_room(count as usize * size_of::<Value>())?;
    }
    let table = vm.new_dictionary(count as usize, 1)?;
    for i in 1..=count {
        let value = vm.arg(i);
        vm.raw_set_int(table, i64::from(i), value)?;
    }
    vm.set_field(table, "n", Value::int(i64::from(count)))?;
    vm.ret(table)
}

fn unpack(vm: &mut Vm) -> LuaResult<u32> {
    let object = vm.arg(1);
    let sequence = match object.as_table() {
        Some(table) if vm.metatable_of(object).is_none() => Sequence::Raw(table),
        _ => Sequence::Object(object),
    };
    let first = vm.opt_int(2, 1)?;
    let last = if vm.arg_is_none_or_nil(3) { sequence.len(vm)? } else { vm.check_int(3)? };
    if first > last {
        return Ok(0);
    }
    let count = (last as u64).wrapping_sub(first as u64);
    if count >= i32::MAX as u64 || !vm.check_stack(count as usize + 1) {
        return Err(vm.error("too many results to unpack"));
    }
    for i in 0..=count {
        let value = sequence.get(vm, first + i as i64)?;
        vm.push(value);
    }
    Ok(count as u32 + 1)
}

/// [`unpack`] of a few elements of a table without a metatable.
fn quick_unpack(vm: &mut Vm, call: Call<'_>, results: &mut Results) -> LuaResult<bool> {
    let (&[list] | &[list, _] | &[list, _, _]) = call.arguments else { return Ok(false) };
    let Some(table) = list.as_table().filter(|_| vm.metatable_of(list).is_none()) else { return Ok(false) };
    let bound = |at: usize| match call.arguments.get(at).filter(|bound| !bound.is_nil()) {
        Some(bound) => bound.as_integral().map(Some),
        None => Some(None),
    };
    let (Some(first), Some(last)) = (bound(1), bound(2)) else { return Ok(false) };
    let (first, last) = (first.unwrap_or(1), last.unwrap_or_else(|| vm.raw_len(table)));
    if (last as i128 - first as i128) >= Results::MOST as i128 {
        return Ok(false);
    }
    Ok((first..=last).all(|i| results.push(vm.raw_get_int(table, i))))
}
