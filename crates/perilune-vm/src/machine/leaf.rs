//! Leaves: what machine code calls for tables where its own instructions end, and what needs nothing of the
//! frame.
//!
//! An instruction that is left to the interpreter ([`super::step`]) costs storing all values and the
//! position, and whatever is known of tables is forgotten, since anything may happen there. Most of what
//! tables are asked for is far less than that: it neither raises an error, nor calls anything, nor collects.
//! That is what a *leaf* does: it gets values, answers with values, and looks at no frame. Where it would
//! have to do more it does nothing and says so ([`UNKNOWN`], [`NOT_DONE`]); then the instruction is done by
//! the interpreter, from its beginning.
//!
//! A leaf may allocate, since allocating does not collect. If a collection is due afterwards machine code
//! sees that ([`layout::VM_DUE`](super::layout::VM_DUE)), and calls [`collect`], which is no leaf.
//!
//! A leaf that reads may put the interned twin of a string into the register that has it, as the interpreter
//! does (`interp/index.rs`).

use super::{LEAVE, STAY};
use crate::Vm;
use crate::frame::frame;
use crate::interp::ic::{Found, Ic, OWN, PROTO_NODE, PROTO_SLOT, ic};
use crate::interp::{frame_ceiling, proceed, save};
use crate::meta::Event;
use crate::native::Answer;
use crate::object::{LuaClosure, LuaString, Node, ProtoInst, STRING_INTERNED, Table, Upval};
use crate::shape;
use crate::value::{Gc, Tag, Value};
use perilune_syntax::bytecode::NO_IC;
use perilune_syntax::{Instr, Op};

/// The tag of an answer that is none: the interpreter has to do the instruction. No value has it.
pub const UNKNOWN: u64 = Answer::NONE;
/// A store has not been done: the interpreter has to do the instruction.
pub const NOT_DONE: u64 = 0;

/// So many tables are asked one after the other, along `__index`.
const CHAIN: usize = 16;

/// What table `t` and those along its `__index` have for the key, as long as no function has to be called.
/// `own` is what `t` has.
#[inline(always)]
unsafe fn look_up(vm: *mut Vm, t: *mut Table, key: Value, own: Value) -> Answer {
    // SAFETY: the caller's: a live table.
    unsafe {
        if !own.is_nil() || (*t).metatable.is_null() {
            return Answer::of(own);
        }
        inherited(vm, t, key)
    }
}

#[cold]
#[inline(never)]
unsafe fn inherited(vm: *mut Vm, mut t: *mut Table, key: Value) -> Answer {
    // SAFETY: the caller's: a live table, whose metatable and what that names is alive as well.
    unsafe {
        for _ in 0..CHAIN {
            if (*t).metatable.is_null() {
                return Answer::of(Value::NIL);
            }
            let f = (*vm).table_metamethod(Gc::from_ptr((*t).metatable), Event::Index);
            if f.is_nil() {
                return Answer::of(Value::NIL);
            }
            let Some(next) = f.as_table() else { return Answer::UNKNOWN };
            if next.shape == shape::FROZEN_DICT {
                return Answer::UNKNOWN;
            }
            let v = (*vm).raw_get(next, key);
            if !v.is_nil() {
                return Answer::of(v);
            }
            t = next.ptr();
        }
        Answer::UNKNOWN
    }
}

/// `table[key]` for an integer.
pub(super) unsafe extern "C-unwind" fn get_int(vm: *mut Vm, t: *mut Table, key: i64) -> Answer {
    // SAFETY: called by machine code of the domain that owns the state, for a live table.
    unsafe {
        let own = (*vm).raw_get_int(Gc::from_ptr(t), key);
        look_up(vm, t, Value::int(key), own)
    }
}

/// `table[key]` for whatever is in the register at `key`.
pub(super) unsafe extern "C-unwind" fn get(vm: *mut Vm, t: *mut Table, key: *mut Value) -> Answer {
    // SAFETY: called by machine code of the domain that owns the state, for a live table and a register.
    unsafe {
        if (*key).tag() == Tag::TABLE {
            let node = Gc::from_ptr(t).find_other(*key);
            return look_up(vm, t, *key, Gc::from_ptr(t).node_value(node));
        }
        if (*key).tag() != Tag::STRING {
            return look_up(vm, t, *key, (*vm).raw_get(Gc::from_ptr(t), *key));
        }
        if (*t).shape == shape::FROZEN_DICT {
            return Answer::UNKNOWN;
        }
        let s = (*key).payload() as *mut LuaString;
        if (*s).header.flags & STRING_INTERNED == 0 && !intern(vm, t, key) {
            // No table of this domain has it as a key, unless one in an island does: those along `__index` are
            // asked as any.
            return look_up(vm, t, *key, Value::NIL);
        }
        let own = match (*t).shape {
            shape::DICT => Gc::from_ptr(t).get_str((*key).gc()),
            shape => match (*vm).lua.caches.shared.slot_of(shape, (*key).gc()) {
                Some(slot) => *(*t).slots.add(slot as usize),
                None => Value::NIL,
            },
        };
        look_up(vm, t, *key, own)
    }
}

/// Puts the interned twin of the string in the register at `key` there, if there is one.
#[inline(never)]
unsafe fn intern(vm: *mut Vm, t: *mut Table, key: *mut Value) -> bool {
    // SAFETY: the caller's: a live table, and a register with a string that is not interned.
    unsafe {
        let mut twin = (*vm).lua.interned.strings.known_twin_anywhere((*key).payload() as *mut LuaString);
        if twin.is_null() {
            if (*t).metatable.is_null() && (*t).has_no_strings() {
                return false;
            }
            let Some(found) = (*vm).find_twin((*key).gc()) else { return false };
            twin = found.ptr();
        }
        Value::store_payload(key, Tag::STRING, twin as u64);
        true
    }
}

/// Whether a store into the table is one without metamethods, refusals, and others who want to know of it.
#[inline(always)]
unsafe fn is_plain(vm: *mut Vm, t: Gc<Table>, key: Value) -> bool {
    // SAFETY: the caller's: a live table.
    unsafe {
        if t.minds_stores() || t.is_guarded() {
            return false;
        }
        t.metatable.is_null()
            || (*t.metatable).absent & (1 << Event::NewIndex as u8) != 0
            || !(*vm).raw_get(t, key).is_nil()
    }
}

/// Memory was refused: nothing has been stored. The interpreter may find some, or say so.
#[cold]
#[inline(never)]
unsafe fn refused(vm: *mut Vm) -> u64 {
    // SAFETY: the caller's: the state of this domain.
    unsafe {
        (*vm).lua.gc.wanted_room = 0;
        (*vm).lua.errors.take_value();
    }
    NOT_DONE
}

/// `table[key] = value` for an integer, the value in two parts. The answer is not [`NOT_DONE`] if it has been
/// done.
pub(super) unsafe extern "C-unwind" fn set_int(
    vm: *mut Vm,
    t: *mut Table,
    key: i64,
    payload: u64,
    tag: u64,
) -> u64 {
    // SAFETY: called by machine code of the domain that owns the state, for a live table and a value.
    unsafe {
        let t = Gc::from_ptr(t);
        if !is_plain(vm, t, Value::int(key)) {
            return NOT_DONE;
        }
        match (*vm).raw_set_int(t, key, Value::raw(Tag(tag as u8), payload)) {
            Ok(()) => 1,
            Err(_) => refused(vm),
        }
    }
}

/// Appends a value, not nil, to the array of a table that has nothing but an array and fields: nothing but
/// arrays is changed. The answer is not [`NOT_DONE`] if it has been done.
pub(super) unsafe extern "C-unwind" fn append(
    vm: *mut Vm,
    t: *mut Table,
    key: i64,
    payload: u64,
    tag: u64,
) -> u64 {
    // SAFETY: called by machine code of the domain that owns the state, for a live table and a value.
    unsafe {
        let t = Gc::from_ptr(t);
        let is_next = key.wrapping_sub(1) == i64::from(t.array_len);
        if !is_next || t.has_holes() || !t.nodes.is_null() || tag == 0 {
            return NOT_DONE;
        }
        set_int(vm, t.ptr(), key, payload, tag)
    }
}

/// The same for whatever key is in the register at `key`.
pub(super) unsafe extern "C-unwind" fn set(
    vm: *mut Vm,
    t: *mut Table,
    key: *mut Value,
    payload: u64,
    tag: u64,
) -> u64 {
    // SAFETY: called by machine code of the domain that owns the state, for a live table, a register and a
    // value.
    unsafe {
        let t = Gc::from_ptr(t);
        match (*key).tag() {
            Tag::NIL => return NOT_DONE,
            Tag::FLOAT if (*key).float_bits().is_nan() => return NOT_DONE,
            Tag::STRING => {
                let s = (*key).payload() as *mut LuaString;
                if (*s).header.flags & STRING_INTERNED == 0 {
                    let twin = (*vm).lua.interned.strings.known_twin_anywhere(s);
                    if !twin.is_null() {
                        Value::store_payload(key, Tag::STRING, twin as u64);
                    }
                }
            }
            _ => {}
        }
        if !is_plain(vm, t, *key) {
            return NOT_DONE;
        }
        match (*vm).raw_set(t, *key, Value::raw(Tag(tag as u8), payload)) {
            Ok(()) => 1,
            Err(_) => refused(vm),
        }
    }
}

/// `#table` for a table without metatable.
pub(super) unsafe extern "C-unwind" fn length(vm: *mut Vm, t: *mut Table) -> u64 {
    // SAFETY: called by machine code of the domain that owns the state, for a live table.
    unsafe { (*vm).raw_len(Gc::from_ptr(t)) as u64 }
}

/// `table.name`, for a name that is a constant, whatever the shape of the table.
pub(super) unsafe extern "C-unwind" fn get_field(vm: *mut Vm, t: *mut Table, name: *mut LuaString) -> Answer {
    // SAFETY: called by machine code of the domain that owns the state, for a live table and an interned
    // string.
    unsafe {
        if (*t).shape == shape::DICT {
            return field_of_dictionary(vm, t, name);
        }
        if let Some(slot) = (*vm).lua.caches.shared.find_own((*t).shape, name) {
            let v = *(*t).slots.add(slot as usize);
            if !v.is_nil() {
                return Answer::of(v);
            }
        }
        if !shape::is_dict((*t).shape) {
            // Without a metatable it has its own fields and no others.
            let v = if (*t).metatable.is_null() { Value::NIL } else { remembered(vm, t, name) };
            if !v.is_nil() || (*vm).lua.caches.shared.is_absent(t, name, (*vm).lua.proto_version) {
                return Answer::of(v);
            }
        }
        search_field(vm, t, name)
    }
}

/// The same of a dictionary, which the shared cache knows nothing of but what its class has.
#[inline(always)]
unsafe fn field_of_dictionary(vm: *mut Vm, t: *mut Table, name: *mut LuaString) -> Answer {
    // SAFETY: as `get_field`.
    unsafe {
        let v = Gc::from_ptr(t).get_str(Gc::from_ptr(name));
        if !v.is_nil() || (*t).metatable.is_null() {
            return Answer::of(v);
        }
        let v = remembered(vm, t, name);
        if !v.is_nil() { Answer::of(v) } else { search_field(vm, t, name) }
    }
}

/// The same where tables like it have had no field of their own of that name: what their class has is asked
/// for first.
pub(super) unsafe extern "C-unwind" fn get_inherited(
    vm: *mut Vm,
    t: *mut Table,
    name: *mut LuaString,
) -> Answer {
    // SAFETY: as `get_field`; the shape of what is no dictionary tells what it lacks.
    unsafe {
        if !shape::is_dict((*t).shape) {
            let v = remembered(vm, t, name);
            if !v.is_nil() {
                return Answer::of(v);
            }
        }
        get_field(vm, t, name)
    }
}

/// What the shared cache says of field `name` of tables like `t`, which for a dictionary is what its class
/// has; nil: nothing.
#[inline(always)]
unsafe fn remembered(vm: *mut Vm, t: *mut Table, name: *mut LuaString) -> Value {
    // SAFETY: the caller's: a live table; what an entry of this version says is there.
    unsafe {
        let e = (*vm).lua.caches.shared.find((*t).shape, (*t).metatable, name);
        if e.is_null() {
            return of_class(vm, t, name);
        }
        let c = (*e).ic;
        match c.kind {
            OWN => *(*t).slots.add(c.slot as usize),
            PROTO_SLOT if c.aux == (*vm).lua.proto_version => *(c.loc as *const Value),
            PROTO_NODE if c.aux == (*vm).lua.proto_version => (*(c.loc as *const Node)).value(),
            _ => Value::NIL,
        }
    }
}

/// The same of tables that have the class of `t`, each by a metatable of its own.
#[inline(never)]
unsafe fn of_class(vm: *mut Vm, t: *mut Table, name: *mut LuaString) -> Value {
    // SAFETY: the caller's: a live table, whose own field is nil if it is no dictionary.
    unsafe {
        if shape::is_dict((*t).shape) || (*t).metatable.is_null() {
            return Value::NIL;
        }
        let known = (*vm).get_from_class(Gc::from_ptr(t), Gc::from_ptr(name), std::ptr::null_mut());
        known.unwrap_or(Value::NIL)
    }
}

/// The same past the shared cache, which learns of it; of a dictionary, past its own keys.
#[inline(never)]
unsafe fn search_field(vm: *mut Vm, t: *mut Table, name: *mut LuaString) -> Answer {
    // SAFETY: as `get_field`; without a cache of the site no constants are looked at.
    unsafe {
        let (t, name) = (Gc::from_ptr(t), Gc::from_ptr(name));
        if !shape::is_dict(t.shape) {
            if let Some(slot) = shape::lookup(t.shape, name) {
                (*vm).lua.caches.shared.put_own(t.shape, name, slot);
                let v = *t.slots.add(slot as usize);
                if !v.is_nil() {
                    return Answer::of(v);
                }
            }
        } else if t.shape == shape::DICT || t.metatable.is_null() {
            let v = t.get_str(name);
            if t.metatable.is_null() || !v.is_nil() {
                return Answer::of(v);
            }
            let v = remembered(vm, t.ptr(), name.ptr());
            if !v.is_nil() {
                return Answer::of(v);
            }
        }
        match (*vm).get_field_filling(t, name, std::ptr::null(), NO_IC) {
            Ok(Found::Value(v)) => Answer::of(v),
            Ok(Found::Call(..)) => Answer::UNKNOWN,
            Err(_) => {
                // The interpreter comes to the same error.
                (*vm).lua.errors.take_value();
                Answer::UNKNOWN
            }
        }
    }
}

/// A site's cache that was for another class is renewed once in so many times and one, counted for all sites
/// together. A site that sees two classes in turn goes on finding one of them in half of the cases, whichever
/// it is. One that sees one object after the other, each with a metatable of its own, soon has that of today:
/// without this it would have that of an object that is gone for good.
const RENEWED: u32 = 6;

/// Where the class of a table that lacks field `name` has it: the address of a value, or, if `wanted` is
/// [`PROTO_NODE`], of a node. For a site whose cache `d` is not for this table, or out of date; it is renewed
/// if that is so, if nobody knows the place yet, and [now and then](RENEWED). 0: the instruction is to be done
/// by the interpreter.
pub(super) unsafe extern "C-unwind" fn place_in_class(
    vm: *mut Vm,
    t: *mut Table,
    name: *mut LuaString,
    k: *const Value,
    d_and_kind: u64,
) -> u64 {
    // SAFETY: called by machine code of the domain that owns the state, for a live table, an interned string,
    // and a cache of the constants of an instance that lives.
    unsafe {
        let (d, wanted) = (d_and_kind as u16, (d_and_kind >> 32) as u32);
        if shape::is_dict((*t).shape) || (*t).metatable.is_null() {
            return 0;
        }
        let own = ic(k, d);
        let version = (*vm).lua.proto_version;
        let e = (*vm).lua.caches.shared.find((*t).shape, (*t).metatable, name);
        if !e.is_null() && (*e).ic.kind == wanted && (*e).ic.aux == version {
            let missed = &mut (*vm).lua.machine.missed;
            *missed = missed.checked_sub(1).unwrap_or(RENEWED);
            if (*own).meta == (*t).metatable || *missed == 0 {
                *own = (*e).ic;
            }
            return (*e).ic.loc as u64;
        }
        // What has one metatable for each object.
        let by_class = |place: Ic| if place.kind == wanted { place.loc as u64 } else { 0 };
        if let Some(place) = (*vm).place_by_class(Gc::from_ptr(t), Gc::from_ptr(name), own) {
            return by_class(place);
        }
        if (*vm).get_field_filling(Gc::from_ptr(t), Gc::from_ptr(name), k, d).is_err() {
            // The interpreter comes to the same error.
            (*vm).lua.errors.take_value();
            return 0;
        }
        if let Some(place) = (*vm).place_by_class(Gc::from_ptr(t), Gc::from_ptr(name), own) {
            return by_class(place);
        }
        let is_right = (*own).shape == (*t).shape && (*own).kind == wanted && (*own).meta == (*t).metatable;
        if is_right && (*own).aux == version { (*own).loc as u64 } else { 0 }
    }
}

/// `table.name = value`, likewise. The answer is not [`NOT_DONE`] if it has been done.
pub(super) unsafe extern "C-unwind" fn set_field(
    vm: *mut Vm,
    t: *mut Table,
    name: *mut LuaString,
    payload: u64,
    tag: u64,
) -> u64 {
    // SAFETY: called by machine code of the domain that owns the state, for a live table, an interned string
    // and a value.
    unsafe {
        let (t, name) = (Gc::from_ptr(t), Gc::from_ptr(name));
        if !is_plain(vm, t, name.into()) {
            return NOT_DONE;
        }
        match (*vm).raw_set_field_const(t, name, Value::raw(Tag(tag as u8), payload)) {
            Ok(()) => 1,
            Err(_) => refused(vm),
        }
    }
}

/// Where the fields of the table are, which has room for so many from now on. [`NOT_DONE`]: memory was refused.
pub(super) unsafe extern "C-unwind" fn make_room(vm: *mut Vm, t: *mut Table, fields: u64) -> u64 {
    // SAFETY: called by machine code of the domain that owns the state, for a live table that may be written.
    unsafe {
        match (*vm).make_room_for_fields(Gc::from_ptr(t), fields as usize) {
            Ok(()) => (*t).slots as u64,
            Err(_) => refused(vm),
        }
    }
}

/// A new table of a shape that this domain knows, with room for so many fields, at least those of the shape,
/// and elements.
pub(super) unsafe extern "C-unwind" fn new_table(
    vm: *mut Vm,
    shape: u64,
    fields: u64,
    elements: u64,
) -> *mut Table {
    // SAFETY: called by machine code of the domain that owns the state.
    unsafe { (*vm).alloc_table(shape as u32, fields as usize, elements as usize).ptr() }
}

/// The same for so many fields and elements: knowing these, it is half as many instructions.
unsafe extern "C-unwind" fn table_of<const FIELDS: usize, const ELEMENTS: usize>(
    vm: *mut Vm,
    shape: u64,
) -> *mut Table {
    // SAFETY: called by machine code of the domain that owns the state.
    unsafe { (*vm).alloc_table(shape as u32, FIELDS, ELEMENTS).ptr() }
}

type TableOf = unsafe extern "C-unwind" fn(*mut Vm, u64) -> *mut Table;

/// By the number of fields.
const OBJECTS: [TableOf; 9] = [
    table_of::<0, 0>,
    table_of::<1, 0>,
    table_of::<2, 0>,
    table_of::<3, 0>,
    table_of::<4, 0>,
    table_of::<5, 0>,
    table_of::<6, 0>,
    table_of::<7, 0>,
    table_of::<8, 0>,
];

/// By the number of elements, less 1, where there are no fields.
const LISTS: [TableOf; 4] = [table_of::<0, 1>, table_of::<0, 2>, table_of::<0, 3>, table_of::<0, 4>];

/// Which function makes tables with room for so many fields and elements, if there is one of its own.
pub(super) fn table_maker(fields: usize, elements: usize) -> Option<TableOf> {
    match (fields, elements) {
        (_, 0) => OBJECTS.get(fields).copied(),
        (0, _) => LISTS.get(elements - 1).copied(),
        _ => None,
    }
}

/// The collector hears of tables that are not made once for so many bytes.
pub(super) const PORTION: i64 = 64 << 10;

/// Machine code has not made tables: the word at [`layout::VM_UNMADE`](super::layout::VM_UNMADE) is below
/// zero, and is what it was.
pub(super) unsafe extern "C-unwind" fn count_unmade(vm: *mut Vm) -> u64 {
    // SAFETY: called by machine code of the domain that owns the state.
    unsafe {
        let bytes = PORTION - (*vm).lua.machine.unmade;
        (*vm).lua.machine.unmade = PORTION;
        (*vm).heap.count_unmade(bytes as usize);
    }
    0
}

/// `SETLIST`: puts so many values behind the register at `a` into the table that it has, from index
/// `start + 1` on. The answer is not [`NOT_DONE`] if it has been done.
pub(super) unsafe extern "C-unwind" fn set_list(vm: *mut Vm, a: *mut Value, count: u64, start: u64) -> u64 {
    // SAFETY: called by machine code of the domain that owns the state, for registers of its frame.
    unsafe {
        let Some(t) = (*a).as_table() else { return NOT_DONE };
        let values = std::slice::from_raw_parts(a.add(1), count as usize);
        match (*vm).raw_set_list(t, start as i64 + 1, values) {
            Ok(()) => 1,
            Err(_) => refused(vm),
        }
    }
}

/// `CLOSURE`: register `a` of the frame at `base` becomes a function of the prototype `number`. The answer is
/// not [`NOT_DONE`] if it has been done.
pub(super) unsafe extern "C-unwind" fn make_closure(
    vm: *mut Vm,
    base: *mut Value,
    a: u64,
    number: u64,
) -> u64 {
    // SAFETY: called by machine code for its frame; the registers that the function refers to are in their
    // slots.
    unsafe { if (*vm).make_closure(base, a as usize, number as usize) { 1 } else { refused(vm) } }
}

/// The upvalue of the variable in a slot of the running coroutine's stack, which the domain accounts for from now on.
pub(super) unsafe extern "C-unwind" fn find_upvalue(vm: *mut Vm, slot: *mut Value) -> *mut Upval {
    // SAFETY: called by machine code for a register of its frame, which is in its slot.
    unsafe { (*vm).find_upvalue(slot) }
}

/// Makes functions of this instance with so many upvalues.
macro_rules! closures {
    ($($name:ident: $count:literal ($($upvalue:ident),*);)*) => {
        $(
            unsafe extern "C-unwind" fn $name(
                vm: *mut Vm,
                inst: *mut ProtoInst
                $(, $upvalue: *mut Upval)*
            ) -> *mut LuaClosure {
                // SAFETY: called by machine code of the domain that owns the state, for an instance of a prototype
                // with so many upvalues; all of them are there before anything else happens.
                unsafe {
                    let made = (*vm).heap.alloc(Tag::CLOSURE.0, size_of::<LuaClosure>() + 8 * $count);
                    let closure = made.as_ptr() as *mut LuaClosure;
                    (*closure).proto = inst;
                    let upvalues: [*mut Upval; $count] = [$($upvalue),*];
                    (&raw mut (*closure).upvals as *mut [*mut Upval; $count]).write(upvalues);
                    closure
                }
            }
        )*

        /// The address of `fn(vm, instance, upvalues...) -> closure` for so many upvalues; `None`: there is none.
        pub(super) fn closure_maker(upvalues: usize) -> Option<usize> {
            match upvalues {
                $($count => Some($name as *const () as usize),)*
                _ => None,
            }
        }
    };
}

closures! {
    closure_of_none: 0 ();
    closure_of_one: 1 (a);
    closure_of_two: 2 (a, b);
    closure_of_three: 3 (a, b, c);
    closure_of_four: 4 (a, b, c, d);
}

/// `CLOSE`: variables from the register at `level` on are over. The answer is [`NOT_DONE`] if there may be
/// some to be closed.
pub(super) unsafe extern "C-unwind" fn close(vm: *mut Vm, level: *mut Value) -> u64 {
    // SAFETY: called by machine code for its frame.
    unsafe {
        if (*(*vm).lua.thread).tbc != 0 {
            return NOT_DONE;
        }
        (*vm).close_upvalues(level);
        1
    }
}

/// Whether the values of two registers are equal: 0 or 1. [`UNKNOWN`]: metamethods may have a say.
pub(super) unsafe extern "C-unwind" fn equal(x: *const Value, y: *const Value) -> u64 {
    // SAFETY: called by machine code for registers of its frame.
    unsafe {
        let (x, y) = (*x, *y);
        if Vm::raw_equals(x, y) {
            return 1;
        }
        let plain = |v: Value| v.as_table().is_some_and(|t| t.metatable.is_null());
        let userdata = |v: Value| matches!(v.tag(), Tag::USERDATA | Tag::SHARED);
        let tables = x.as_table().is_some() && y.as_table().is_some();
        if tables && !(plain(x) && plain(y)) || userdata(x) && userdata(y) { UNKNOWN } else { 0 }
    }
}

/// A collection is due, in the frame at `base`, whose values are in its registers, and whose instruction at
/// `pc` is about to be done (`done`: 0), or has been. Does a step of it, and what comes with that. [`STAY`]:
/// all that was known of tables holds, whatever the epoch of objects is now, and the frame is where it was.
/// Else machine code returns the answer; the instruction to go on with is in the frame's record.
///
/// # Safety
/// Called by machine code for its frame.
pub(super) unsafe extern "C-unwind" fn collect(
    vm: *mut Vm,
    base: *mut Value,
    pc: *const Instr,
    done: u64,
) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        // Errors name the line of the instruction before this one.
        save!(vm, base, pc.add(1));
        (*vm).lua.top = frame_ceiling(base);
        let i = *pc;
        if matches!(i.op(), Some(Op::NewTable | Op::Closure | Op::Concat)) {
            // As `slow_gc`: the compiler puts a new object above everything live. What is to be overwritten
            // by it is over.
            let mut stale = base.add(i.a() as usize + done as usize);
            while stale < (*vm).lua.top {
                *stale = Value::NIL;
                stale = stale.add(1);
            }
        }
        let before = (*vm).lua.gc.disturbances;
        if let Err(thrown) = (*vm).safepoint() {
            let exit = proceed(vm, Err(thrown)) as u64;
            #[cfg(debug_assertions)]
            if exit == LEAVE {
                (*frame((*vm).lua.base)).pc = (*vm).lua.loop_pc;
            }
            return exit;
        }
        let plain =
            (*vm).lua.base == base && (*vm).lua.gc.disturbances == before && !(*vm).lua.machine.watched;
        (*frame((*vm).lua.base)).pc = pc.add(done as usize);
        if plain { STAY } else { LEAVE }
    }
}

/// Parameters of the function of `inst`, whose frame is at `frame`, that lie behind `end`, where its arguments
/// do, are nil. The top is where they end then.
///
/// # Safety
/// Called by machine code that has found room for the frame.
pub(super) unsafe extern "C" fn pad(
    vm: *mut Vm,
    inst: *const ProtoInst,
    frame: *mut Value,
    mut end: *mut Value,
) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        let wanted = frame.add((*inst).num_params as usize);
        while end < wanted {
            *end = Value::NIL;
            end = end.add(1);
        }
        (*vm).lua.top = end;
    }
    STAY
}
