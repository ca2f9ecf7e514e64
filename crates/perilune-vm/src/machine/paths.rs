//! Where tables have what they inherit, said by shapes alone.
//!
//! A method is found by a chain of tables: the object lacks it, its metatable has `__index`, that table has
//! it or goes on to the next. As long as none of these is a dictionary, shapes say in which slot each next
//! step is, and shapes are numbers of the whole process. So code that is shared by domains can go the way
//! itself, for objects of several classes in turn, where the cache of the site has only one. What is found is
//! always what is there: no version, and nothing to be told when a class changes.
//!
//! That nobody has a field is said by shapes likewise: `while node.next do` of objects comes to their classes
//! with the last one.

use crate::object::{LuaString, Table};
use crate::shape::{is_dict, lookup};
use crate::value::{Gc, Tag, Value};

/// So many tables are gone through, at most, until one has the field.
pub const MOST_STEPS: usize = 4;
/// So many ways are told apart at an instruction.
pub(super) const MOST_PATHS: usize = 8;

/// From a table to where it looks next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The shape of its metatable.
    pub metatable: u32,
    /// The slot in which that has `__index`, a table.
    pub index: u32,
    /// The shape of this one.
    pub class: u32,
}

/// What is at the end of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The last table has the field, in this slot.
    Slot(u32),
    /// Nobody has it, and the last table has no metatable: it is nil.
    Plain,
    /// Nobody has it, and the last table has a metatable of this shape, which has no `__index`: it is nil.
    NoIndex(u32),
}

/// How tables of a shape, with metatables of a shape, come by a field that they lack, or that is nil; or that
/// nobody has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The shape.
    pub shape: u32,
    /// The slot in which tables of that shape have the field themselves: the way is theirs only while that is
    /// nil.
    pub own: Option<u32>,
    /// That of the metatable.
    metatable: u32,
    hops: [Hop; MOST_STEPS],
    count: u8,
    /// What is there.
    pub end: End,
}

impl Path {
    /// The way. It has no hop if it ends with the table that it begins with.
    pub fn hops(&self) -> &[Hop] {
        &self.hops[..self.count as usize]
    }

    /// Whether it begins with tables like these.
    pub(super) fn is_of(&self, shape: u32, metatable: u32) -> bool {
        self.shape == shape && self.metatable == metatable
    }

    /// Nobody has the field.
    pub fn is_absent(&self) -> bool {
        !matches!(self.end, End::Slot(_))
    }
}

/// How `table`, which lacks the field or has nil there, comes by it, or that nobody has it; `None`: shapes
/// alone do not tell.
///
/// # Safety
/// A live table with a metatable, and interned strings of the domain: `event` is `__index`.
pub(super) unsafe fn path(event: Gc<LuaString>, table: *const Table, name: Gc<LuaString>) -> Option<Path> {
    const NONE: Hop = Hop { metatable: 0, index: 0, class: 0 };
    // SAFETY: the caller's promise; tables keep what they refer to, and have a slot for each field of their
    // shape.
    unsafe {
        let (shape, metatable) = ((*table).shape, (*(*table).metatable).shape);
        let own = if is_dict(shape) { None } else { lookup(shape, name) };
        let mut path = Path { shape, own, metatable, hops: [NONE; MOST_STEPS], count: 0, end: End::Plain };
        let mut table = table;
        loop {
            let metatable = (*table).metatable;
            if metatable.is_null() {
                return Some(path);
            }
            if is_dict((*metatable).shape) {
                return None;
            }
            let Some(index) = lookup((*metatable).shape, event) else {
                path.end = End::NoIndex((*metatable).shape);
                return Some(path);
            };
            let class = *(*metatable).slots.add(index as usize);
            if class.tag() != Tag::TABLE || path.count as usize == MOST_STEPS {
                return None;
            }
            table = class.payload() as *const Table;
            if is_dict((*table).shape) {
                return None;
            }
            let hop = Hop { metatable: (*metatable).shape, index, class: (*table).shape };
            path.hops[path.count as usize] = hop;
            path.count += 1;
            if let Some(slot) = lookup((*table).shape, name) {
                path.end = End::Slot(slot);
                return (!(*(*table).slots.add(slot as usize)).is_nil()).then_some(path);
            }
        }
    }
}

/// Where the metamethod of an operator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OperatorPlace {
    /// It is the second operand's; the first is a number.
    pub second: bool,
    /// The shape of the operand's metatable.
    pub metatable: u32,
    /// The slot in which that has the metamethod.
    pub slot: u32,
}

/// Where two operands have the metamethod of this name, a function of Lua; `None`: nowhere, or not by shapes
/// alone.
///
/// # Safety
/// Live values, and an interned string of the domain.
pub(super) unsafe fn operator_place(name: Gc<LuaString>, operands: [Value; 2]) -> Option<OperatorPlace> {
    let [x, y] = operands;
    let (second, table) = match (x.tag(), y.tag()) {
        (Tag::TABLE, _) => (false, x),
        (Tag::INT | Tag::FLOAT, Tag::TABLE) => (true, y),
        _ => return None,
    };
    // SAFETY: the caller's promise.
    let (metatable, slot) = unsafe { function_in_metatable(table.payload() as *const Table, name)? };
    Some(OperatorPlace { second, metatable, slot })
}

/// The shape of the table's metatable, and the slot in which that has a function of Lua under this name.
///
/// # Safety
/// A live table, and an interned string of the domain.
unsafe fn function_in_metatable(table: *const Table, name: Gc<LuaString>) -> Option<(u32, u32)> {
    // SAFETY: the caller's promise; tables keep what they refer to, and have a slot for each field of their
    // shape.
    unsafe {
        let metatable = (*table).metatable;
        if metatable.is_null() || is_dict((*metatable).shape) {
            return None;
        }
        let slot = lookup((*metatable).shape, name)?;
        let is_function = (*(*metatable).slots.add(slot as usize)).tag() == Tag::CLOSURE;
        is_function.then_some(((*metatable).shape, slot))
    }
}

/// Where the metamethod of an access to a field is that a table lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessPlace {
    /// The shape of the table.
    pub shape: u32,
    /// The shape of its metatable.
    pub metatable: u32,
    /// The slot in which that has the metamethod.
    pub slot: u32,
}

/// Where `table`, which lacks the field, has the metamethod of the name `event` for it, a function of Lua;
/// `None`: nowhere, or not by shapes alone.
///
/// # Safety
/// A live table, and interned strings of the domain.
pub(super) unsafe fn access_place(
    event: Gc<LuaString>,
    table: *const Table,
    name: Gc<LuaString>,
) -> Option<AccessPlace> {
    // SAFETY: the caller's promise.
    unsafe {
        let shape = (*table).shape;
        if is_dict(shape) || lookup(shape, name).is_some() {
            return None;
        }
        let (metatable, slot) = function_in_metatable(table, event)?;
        Some(AccessPlace { shape, metatable, slot })
    }
}
