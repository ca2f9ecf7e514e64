//! Table access by computed keys.
//!
//! Integers within the array part are answered by the opcodes' own handlers, strings in dictionaries by
//! `string_getindex` and `string_setindex`; the rest goes through [`Vm::raw_get`] and [`Vm::raw_set`], and
//! where a metatable has a say through `meta.rs`.
//!
//! A string made at run time is not interned (`string.rs`), so a look-up finds its interned twin first. If it
//! has one, the register that holds the key gets the twin instead. No program can tell them apart, and what
//! comes next with the same key, often a store, is quick.

use super::elements::{element_getindex, element_getint, element_setindex, element_setint};
use super::fields::{deliver, needs_barrier, store_flow};
use super::{Flow, Step, copy, flow, frame_ceiling, next, next_gc, op, rk, save, tail};
use crate::Vm;
use crate::frame::frame;
use crate::island::Otherwise;
use crate::meta::Event;
use crate::native::LuaResult;
use crate::object::{ArrayKind, LuaString, Node, STRING_INTERNED, Table};
use crate::shape;
use crate::string::same_text;
use crate::value::{Gc, Tag, Value};
use perilune_heap::is_island;
use perilune_syntax::{Instr, Op};

/// Reads an element that is not nil, or falls through.
macro_rules! get_element {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident, $t:ident, $n:expr) => {{
        let n: u64 = ($n as u64).wrapping_sub(1);
        if n < (*$t).array_len as u64 {
            if (*$t).kind == ArrayKind::General {
                let v = ((*$t).array as *const Value).add(n as usize);
                if !(*v).is_nil() {
                    copy($base.add($i.a() as usize), v);
                    next!($vm, $base, $pc, $k, $tab)
                }
            } else if (*$t).kind == ArrayKind::Bool {
                Value::store($base.add($i.a() as usize), Tag(*(*$t).array.add(n as usize)), 0);
                next!($vm, $base, $pc, $k, $tab)
            } else {
                let payload = *((*$t).array as *const u64).add(n as usize);
                let tag = (*$t).kind.number_tag();
                let dest = $base.add($i.a() as usize);
                Value::store(dest, tag, payload);
                next!($vm, $base, $pc, $k, $tab)
            }
        }
    }};
}

op!(op_getindex(vm, base, pc, k, i, tab) {
    let obj = base.add(i.b() as usize);
    let key = base.add(i.c() as usize);
    if (*obj).tag() == Tag::TABLE && (*key).tag() == Tag::INT {
        let t = (*obj).payload() as *mut Table;
        get_element!(vm, base, pc, k, i, tab, t, (*key).payload());
        tail!(int_getindex, vm, base, pc, k, i, tab)
    } else if (*obj).tag() == Tag::TABLE && (*key).tag() == Tag::STRING {
        tail!(string_getindex, vm, base, pc, k, i, tab)
    } else if (*obj).tag() == Tag::SHARED && (*key).tag() == Tag::INT {
        tail!(element_getindex, vm, base, pc, k, i, tab)
    }
    tail!(other_getindex, vm, base, pc, k, i, tab)
});

/// The node of the string key (interned) `key`, whose hash is `hash`, in dictionary `t`, dead or not: runs
/// `$found` with it, or falls through.
macro_rules! with_string_node {
    ($t:ident, $key:ident, $hash:expr, $n:ident => $found:expr) => {{
        let mut $n: *mut Node = (*$t).nodes;
        if !$n.is_null() {
            $n = $n.add($hash as usize & ((1 << (*$t).log2_nodes) - 1));
            loop {
                if (*$n).key == $key as u64 && (*$n).key_tag == Tag::STRING.0 {
                    $found
                }
                let step = (*$n).next;
                if step == 0 {
                    break;
                }
                $n = $n.offset(step as isize);
            }
        }
    }};
}

op!(
    /// GETINDEX of a table by a string.
    #[inline(never)] string_getindex(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.b() as usize)).payload() as *mut Table;
    let key = (*base.add(i.c() as usize)).payload() as *mut LuaString;
    if (*key).header.flags & STRING_INTERNED == 0 {
        tail!(twin_getindex, vm, base, pc, k, i, tab)
    }
    if (*t).shape != shape::DICT {
        tail!(frozen_getindex, vm, base, pc, k, i, tab)
    }
    with_string_node!(t, key, (*key).hash, n => {
        let payload = (*n).value;
        let tag = Tag((*n).value_tag);
        if tag == Tag::NIL {
            break;
        }
        let dest = base.add(i.a() as usize);
        Value::store(dest, tag, payload);
        next!(vm, base, pc, k, tab)
    });
    if (*t).metatable.is_null() {
        Value::store_nil(base.add(i.a() as usize));
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_getindex, vm, base, pc, k, i, tab)
});

/// Delivers a remembered answer.
macro_rules! deliver_known {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident, $known:expr) => {{
        let payload = (*$known).payload;
        let tag = (*$known).tag;
        let dest = $base.add($i.a() as usize);
        Value::store(dest, tag, payload);
        next!($vm, $base, $pc, $k, $tab)
    }};
}

op!(
    /// GETINDEX by a string, of a table that is no private dictionary: perhaps one in an island, and the
    /// answer is known.
    #[inline(never)] frozen_getindex(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.b() as usize)).payload() as *mut Table;
    let key = (*base.add(i.c() as usize)).payload() as *mut LuaString;
    if (*t).shape == shape::FROZEN_DICT {
        let known = (*vm).lua.islands.lookups.find(t, key);
        if known.is_null() {
            tail!(frozen_getindex_otherwise, vm, base, pc, k, i, tab)
        }
        deliver_known!(vm, base, pc, k, i, tab, known)
    }
    if let Some(slot) = (*vm).lua.caches.shared.slot_of((*t).shape, Gc::from_ptr(key)) {
        let v = (*t).slots.add(slot as usize);
        if !(*v).is_nil() {
            copy(base.add(i.a() as usize), v);
            next!(vm, base, pc, k, tab)
        }
    }
    tail!(other_getindex, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] frozen_getindex_otherwise(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.b() as usize)).payload() as *mut Table;
    let key = (*base.add(i.c() as usize)).payload() as *mut LuaString;
    match (*vm).lua.islands.lookups.otherwise(t, key) {
        Otherwise::Answer(known) => deliver_known!(vm, base, pc, k, i, tab, known),
        Otherwise::Compare => tail!(compared_getindex, vm, base, pc, k, i, tab),
        Otherwise::Ask => tail!(asked_getindex, vm, base, pc, k, i, tab),
    }
});

op!(
    /// GETINDEX by a string, of a dictionary in an island: compares texts.
    #[inline(never)] compared_getindex(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.b() as usize)).payload() as *mut Table;
    let key = (*base.add(i.c() as usize)).payload() as *mut LuaString;
    let hash = (*key).hash;
    if !(*t).nodes.is_null() && hash != 0 {
        let mut n = (*t).nodes.add(hash as usize & ((1 << (*t).log2_nodes) - 1));
        loop {
            let own = (*n).key as *mut LuaString;
            if (*n).key_tag == Tag::STRING.0 && (own == key || same_text(own, key)) {
                let payload = (*n).value;
                let tag = Tag((*n).value_tag);
                let dest = base.add(i.a() as usize);
                Value::store(dest, tag, payload);
                next!(vm, base, pc, k, tab)
            }
            let step = (*n).next;
            if step == 0 {
                break;
            }
            n = n.offset(step as isize);
        }
    }
    tail!(other_getindex, vm, base, pc, k, i, tab)
});

op!(
    /// GETINDEX by a string, of a dictionary in an island that has not been asked for it lately.
    #[inline(never)] asked_getindex(vm, base, pc, k, i, tab) {
    let t: Gc<Table> = (*base.add(i.b() as usize)).gc();
    let v = (*vm).look_up_frozen(t, (*base.add(i.c() as usize)).gc());
    if !v.is_nil() || t.metatable.is_null() {
        copy(base.add(i.a() as usize), &v);
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_getindex, vm, base, pc, k, i, tab)
});

op!(
    /// GETINDEX by a string that is not interned. If it has a twin, that takes its place in the register,
    /// where nobody can tell the difference: what comes next is often a store under the same key.
    #[inline(never)] twin_getindex(vm, base, pc, k, i, tab) {
    let key = base.add(i.c() as usize);
    if (*((*base.add(i.b() as usize)).payload() as *mut Table)).shape == shape::FROZEN_DICT {
        if is_island((*key).payload() as usize) {
            tail!(compared_getindex, vm, base, pc, k, i, tab)
        }
        tail!(frozen_getindex, vm, base, pc, k, i, tab)
    }
    let twin = (*vm).lua.interned.strings.known_twin_anywhere((*key).payload() as *mut LuaString);
    if !twin.is_null() {
        // The two have one hash. The twin itself need not be touched.
        let hash = (*((*key).payload() as *mut LuaString)).hash;
        Value::store_payload(key, Tag::STRING, twin as u64);
        let t = (*base.add(i.b() as usize)).payload() as *mut Table;
        if (*t).shape == shape::DICT {
            with_string_node!(t, twin, hash, n => {
                let payload = (*n).value;
                let tag = Tag((*n).value_tag);
                if tag == Tag::NIL {
                    break;
                }
                let dest = base.add(i.a() as usize);
                Value::store(dest, tag, payload);
                next!(vm, base, pc, k, tab)
            });
        }
        tail!(string_getindex, vm, base, pc, k, i, tab)
    }
    tail!(new_twin_getindex, vm, base, pc, k, i, tab)
});

op!(
    /// As [`twin_getindex`], when the twin is not known yet.
    #[inline(never)] new_twin_getindex(vm, base, pc, k, i, tab) {
    let key = base.add(i.c() as usize);
    let t: Gc<Table> = (*base.add(i.b() as usize)).gc();
    if !t.has_no_strings()
        && let Some(twin) = (*vm).find_twin((*key).gc())
    {
        Value::store_payload(key, Tag::STRING, twin.ptr() as u64);
        tail!(string_getindex, vm, base, pc, k, i, tab)
    }
    if t.metatable.is_null() {
        Value::store_nil(base.add(i.a() as usize));
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_getindex, vm, base, pc, k, i, tab)
});

op!(
    /// GETINDEX of a table by an integer that is not among its first elements: from the hash part.
    #[inline(never)] int_getindex(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.b() as usize)).payload() as *mut Table;
    let n = (*t).find_int((*base.add(i.c() as usize)).int_bits());
    if !n.is_null() && (*n).is_live() {
        Value::store(base.add(i.a() as usize), Tag((*n).value_tag), (*n).value);
        next!(vm, base, pc, k, tab)
    }
    tail!(full_getindex, vm, base, pc, k, i, tab)
});

op!(
    /// GETINDEX by a key that is neither integer nor string, or of something else than a table. An index that
    /// is the result of a division is a float.
    #[inline(never)] other_getindex(vm, base, pc, k, i, tab) {
    let obj = base.add(i.b() as usize);
    let key = base.add(i.c() as usize);
    if (*key).tag() == Tag::FLOAT && (*obj).tag() == Tag::TABLE {
        let f = (*key).float_bits();
        let n = f as i64;
        if n as f64 == f {
            let t = (*obj).payload() as *mut Table;
            get_element!(vm, base, pc, k, i, tab, t, n);
            tail!(full_getindex, vm, base, pc, k, i, tab)
        }
        tail!(keyed_getindex, vm, base, pc, k, i, tab)
    }
    if (*obj).tag() == Tag::TABLE && is_plain_object(*key) {
        tail!(keyed_getindex, vm, base, pc, k, i, tab)
    }
    tail!(full_getindex, vm, base, pc, k, i, tab)
});

/// Whether a key is an object that is one wherever it is looked up: no string, and nothing shared, of which
/// there may be several references.
#[inline(always)]
fn is_plain_object(key: Value) -> bool {
    (Tag::TABLE..=Tag::THREAD).contains(&key.tag())
}

op!(
    /// GETINDEX of a table by an object or a float that is no integer: from the hash part.
    #[inline(never)] keyed_getindex(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.b() as usize)).payload() as *mut Table;
    let n = (*t).find_other(*base.add(i.c() as usize));
    if !n.is_null() && (*n).is_live() {
        let payload = (*n).value;
        let tag = (*n).value_tag;
        Value::store(base.add(i.a() as usize), Tag(tag), payload);
        next!(vm, base, pc, k, tab)
    }
    if (*t).metatable.is_null() {
        Value::store_nil(base.add(i.a() as usize));
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_getindex, vm, base, pc, k, i, tab)
});

op!(
    /// GETINDEX past the quick ways.
    #[inline(never)] full_getindex(vm, base, pc, k, i, tab) {
    let obj = base.add(i.b() as usize);
    if (*obj).tag() == Tag::TABLE {
        let t = (*obj).payload() as *mut Table;
        let v = (*vm).raw_get(Gc::from_ptr(t), *base.add(i.c() as usize));
        if !v.is_nil() || (*t).metatable.is_null() {
            copy(base.add(i.a() as usize), &v);
            next!(vm, base, pc, k, tab)
        }
    }
    tail!(slow_getindex, vm, base, pc, k, i, tab)
});

op!(op_getint(vm, base, pc, k, i, tab) {
    let obj = base.add(i.b() as usize);
    if (*obj).tag() == Tag::TABLE {
        let t = (*obj).payload() as *mut Table;
        get_element!(vm, base, pc, k, i, tab, t, i.c());
        if (*t).metatable.is_null() {
            tail!(other_getint, vm, base, pc, k, i, tab)
        }
    } else if (*obj).tag() == Tag::SHARED {
        tail!(element_getint, vm, base, pc, k, i, tab)
    }
    tail!(slow_getindex, vm, base, pc, k, i, tab)
});

op!(
    /// GETINT past the array part, without metatable.
    #[inline(never)] other_getint(vm, base, pc, k, i, tab) {
    let v = (*vm).raw_get_int((*base.add(i.b() as usize)).gc(), i.c() as i64);
    copy(base.add(i.a() as usize), &v);
    next!(vm, base, pc, k, tab)
});

op!(#[inline(never)] slow_getindex(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, getindex_flow(&mut *vm, base, i))
});

#[inline(never)]
unsafe fn getindex_flow(vm: &mut Vm, base: *mut Value, i: Instr) -> Flow {
    // SAFETY: called with the running frame's registers.
    unsafe {
        let obj = *base.add(i.b() as usize);
        let key = if i.op_byte() == Op::GetInt as u8 {
            Value::int(i.c() as i64)
        } else {
            *base.add(i.c() as usize)
        };
        if let (Some(r), Some(at)) = (obj.as_shared(), key.as_int())
            && let Some(v) = field_of_element(vm, base, i, r, at)
        {
            copy(base.add(i.a() as usize), &v?);
            let f = frame(base);
            (*f).pc = (*f).pc.add(1);
            return Ok(Step::Continue);
        }
        let found = vm.index_lookup(obj, key)?;
        deliver(vm, found, key, base.add(i.a() as usize))
    }
}

/// `r[at].name` at once, if the next instruction is the read of a field that replaces the element in its
/// register: nobody else could have seen the element.
#[inline(never)]
unsafe fn field_of_element(
    vm: &mut Vm,
    base: *mut Value,
    i: Instr,
    r: Gc<crate::shared::SharedRef>,
    at: i64,
) -> Option<LuaResult<Value>> {
    // SAFETY: called with the running frame's registers, whose `pc` has been stored: it is that of the next
    // instruction.
    unsafe {
        // Machine code goes on with the next instruction itself, and a recording wants to see it.
        if vm.lua.machine.running || vm.lua.machine.logging.is_some() {
            return None;
        }
        let f = frame(base);
        let next = *(*f).pc;
        if next.op_byte() != Op::GetField as u8 || next.b() != u16::from(i.a()) || next.a() != i.a() {
            return None;
        }
        vm.indexed_field(r, at, (*(*f).k.add(next.c() as usize)).gc())
    }
}

/// Stores over an element, or appends within the capacity; or falls through.
macro_rules! set_element {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident, $append:ident, $t:ident,
     $n:expr) => {{
        let n: u64 = ($n as u64).wrapping_sub(1);
        if n < (*$t).array_len as u64 {
            let val = rk($base, $k, $i.c());
            if (*$t).kind == ArrayKind::General {
                let v = ((*$t).array as *mut Value).add(n as usize);
                if !(*v).is_nil() && !(*val).is_nil() && !needs_barrier($vm, $t, val) {
                    copy(v, val);
                    next!($vm, $base, $pc, $k, $tab)
                }
            } else if (*$t).kind == ArrayKind::Bool {
                if (*val).tag().is_boolean() && !(*$t).minds_stores() {
                    *(*$t).array.add(n as usize) = (*val).tag().0;
                    next!($vm, $base, $pc, $k, $tab)
                }
            } else if (*val).tag() == (*$t).kind.number_tag() && !(*$t).minds_stores() {
                *((*$t).array as *mut u64).add(n as usize) = (*val).payload();
                next!($vm, $base, $pc, $k, $tab)
            }
        } else if n == (*$t).array_len as u64 {
            tail!($append, $vm, $base, $pc, $k, $i, $tab)
        }
    }};
}

/// Appends to a table without metatable if there is room and the value fits, or falls through.
macro_rules! append_element {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident) => {{
        let t = (*$base.add($i.a() as usize)).payload() as *mut Table;
        let n = (*t).array_len;
        // The first element chooses the kind.
        if n != 0 && n < (*t).array_cap && !(*t).has_holes() && (*t).metatable.is_null() {
            let val = rk($base, $k, $i.c());
            if (*t).kind == ArrayKind::General {
                if !(*val).is_nil() && !needs_barrier($vm, t, val) {
                    copy(((*t).array as *mut Value).add(n as usize), val);
                    (*t).array_len = n + 1;
                    next!($vm, $base, $pc, $k, $tab)
                }
            } else if (*t).kind == ArrayKind::Bool {
                if (*val).tag().is_boolean() && !(*t).minds_stores() {
                    *(*t).array.add(n as usize) = (*val).tag().0;
                    (*t).array_len = n + 1;
                    next!($vm, $base, $pc, $k, $tab)
                }
            } else if (*val).tag() == (*t).kind.number_tag() && !(*t).minds_stores() {
                *((*t).array as *mut u64).add(n as usize) = (*val).payload();
                (*t).array_len = n + 1;
                next!($vm, $base, $pc, $k, $tab)
            }
        }
    }};
}

op!(op_setindex(vm, base, pc, k, i, tab) {
    let obj = base.add(i.a() as usize);
    let key = base.add(i.b() as usize);
    if (*obj).tag() == Tag::TABLE && (*key).tag() == Tag::INT {
        let t = (*obj).payload() as *mut Table;
        set_element!(vm, base, pc, k, i, tab, append_setindex, t, (*key).payload());
        tail!(int_setindex, vm, base, pc, k, i, tab)
    } else if (*obj).tag() == Tag::TABLE && (*key).tag() == Tag::STRING {
        tail!(string_setindex, vm, base, pc, k, i, tab)
    } else if (*obj).tag() == Tag::SHARED && (*key).tag() == Tag::INT {
        tail!(element_setindex, vm, base, pc, k, i, tab)
    }
    tail!(other_setindex, vm, base, pc, k, i, tab)
});

op!(
    /// SETINDEX of a table by a string: over a value that a dictionary has.
    #[inline(never)] string_setindex(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.a() as usize)).payload() as *mut Table;
    let key = (*base.add(i.b() as usize)).payload() as *mut LuaString;
    if (*key).header.flags & STRING_INTERNED != 0
        && (*t).shape == shape::DICT
        && !Gc::from_ptr(key).is_dunder()
    {
        let val = rk(base, k, i.c());
        with_string_node!(t, key, (*key).hash, n => {
            if (*n).value_tag == Tag::NIL.0 || needs_barrier(vm, t, val) {
                break;
            }
            (*n).set_value(*val);
            next!(vm, base, pc, k, tab)
        });
    } else if (*key).header.flags & STRING_INTERNED == 0 {
        tail!(twin_setindex, vm, base, pc, k, i, tab)
    }
    tail!(other_setindex, vm, base, pc, k, i, tab)
});

op!(
    /// SETINDEX by a string that is not interned: as [`twin_getindex`].
    #[inline(never)] twin_setindex(vm, base, pc, k, i, tab) {
    let key = base.add(i.b() as usize);
    let twin = (*vm).lua.interned.strings.known_twin_anywhere((*key).payload() as *mut LuaString);
    if !twin.is_null() {
        Value::store_payload(key, Tag::STRING, twin as u64);
        tail!(string_setindex, vm, base, pc, k, i, tab)
    }
    tail!(other_setindex, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] append_setindex(vm, base, pc, k, i, tab) {
    append_element!(vm, base, pc, k, i, tab);
    tail!(full_setindex, vm, base, pc, k, i, tab)
});

op!(
    /// SETINDEX of a table by an integer that is not among its first elements: over a value in the hash part.
    #[inline(never)] int_setindex(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.a() as usize)).payload() as *mut Table;
    let key = (*base.add(i.b() as usize)).int_bits();
    let n = (*t).find_int(key);
    if n.is_null() {
        if (*t).metatable.is_null() && (key as u64).wrapping_sub(1) > (*t).array_cap as u64 {
            tail!(new_setindex, vm, base, pc, k, i, tab)
        }
    } else if (*n).is_live() {
        let val = rk(base, k, i.c());
        if (*val).tag() < Tag::STRING && !(*t).minds_stores() {
            (*n).set_value(*val);
            next!(vm, base, pc, k, tab)
        }
    }
    tail!(full_setindex, vm, base, pc, k, i, tab)
});

op!(
    /// SETINDEX of a table without metatable by an integer that it has been found not to have, and that its
    /// array part does not grow by.
    #[inline(never)] new_setindex(vm, base, pc, k, i, tab) {
    let t: Gc<Table> = (*base.add(i.a() as usize)).gc();
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    if let Err(e) = (*vm).add_int(t, (*base.add(i.b() as usize)).int_bits(), *rk(base, k, i.c())) {
        flow!(vm, Err(e))
    }
    next_gc!(vm, base, pc, k, i, tab)
});

op!(
    /// SETINDEX by a key that is neither integer nor string, or of something else than a table.
    #[inline(never)] other_setindex(vm, base, pc, k, i, tab) {
    let obj = base.add(i.a() as usize);
    let key = base.add(i.b() as usize);
    if (*key).tag() == Tag::FLOAT && (*obj).tag() == Tag::TABLE {
        let f = (*key).float_bits();
        let n = f as i64;
        if n as f64 == f {
            let t = (*obj).payload() as *mut Table;
            set_element!(vm, base, pc, k, i, tab, append_setindex, t, n);
            tail!(full_setindex, vm, base, pc, k, i, tab)
        }
        tail!(keyed_setindex, vm, base, pc, k, i, tab)
    }
    if (*obj).tag() == Tag::TABLE && is_plain_object(*key) {
        tail!(keyed_setindex, vm, base, pc, k, i, tab)
    }
    tail!(full_setindex, vm, base, pc, k, i, tab)
});

op!(
    /// SETINDEX of a table by an object or a float that is no integer: over a value in the hash part.
    #[inline(never)] keyed_setindex(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.a() as usize)).payload() as *mut Table;
    let n = (*t).find_other(*base.add(i.b() as usize));
    if !n.is_null() && (*n).is_live() {
        let val = rk(base, k, i.c());
        // Nodes of which none has a reference may have to be told of the first.
        let is_told = (*val).tag() >= Tag::STRING && (*n).key_tag == Tag::FLOAT.0;
        if !is_told && !needs_barrier(vm, t, val) {
            (*n).set_value(*val);
            next!(vm, base, pc, k, tab)
        }
    }
    tail!(full_setindex, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] full_setindex(vm, base, pc, k, i, tab) {
    let obj = base.add(i.a() as usize);
    if (*obj).tag() == Tag::TABLE {
        let meta = (*((*obj).payload() as *mut Table)).metatable;
        if meta.is_null() || (*meta).absent & (1 << Event::NewIndex as u8) != 0 {
            tail!(raw_setindex, vm, base, pc, k, i, tab)
        }
    }
    tail!(slow_setindex, vm, base, pc, k, i, tab)
});

op!(op_setint(vm, base, pc, k, i, tab) {
    let obj = base.add(i.a() as usize);
    if (*obj).tag() == Tag::TABLE {
        let t = (*obj).payload() as *mut Table;
        set_element!(vm, base, pc, k, i, tab, append_setint, t, i.b())
    } else if (*obj).tag() == Tag::SHARED {
        tail!(element_setint, vm, base, pc, k, i, tab)
    }
    tail!(slow_setindex, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] append_setint(vm, base, pc, k, i, tab) {
    append_element!(vm, base, pc, k, i, tab);
    tail!(slow_setindex, vm, base, pc, k, i, tab)
});

op!(
    /// A store into a table without `__newindex`, past the array part's fast path.
    #[inline(never)] raw_setindex(vm, base, pc, k, i, tab) {
    let t: Gc<Table> = (*base.add(i.a() as usize)).gc();
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    if let Err(e) = (*vm).raw_set(t, *base.add(i.b() as usize), *rk(base, k, i.c())) {
        flow!(vm, Err(e))
    }
    next_gc!(vm, base, pc, k, i, tab)
});

op!(#[inline(never)] slow_setindex(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, setindex_flow(&mut *vm, base, k, i))
});

#[inline(never)]
unsafe fn setindex_flow(vm: &mut Vm, base: *mut Value, k: *const Value, i: Instr) -> Flow {
    // SAFETY: called with the running frame's registers.
    unsafe {
        let obj = *base.add(i.a() as usize);
        let key = if i.op_byte() == Op::SetInt as u8 {
            Value::int(i.b() as i64)
        } else {
            *base.add(i.b() as usize)
        };
        store_flow(vm, obj, key, *rk(base, k, i.c()))
    }
}

op!(#[inline(never)] op_setlist(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let n = if i.b() == 0 { (*vm).lua.top.offset_from(a) as usize - 1 } else { i.b() as usize };
    save!(vm, base, pc);
    if i.b() != 0 {
        (*vm).lua.top = frame_ceiling(base);
    }
    let result = (*vm).set_list(a, n, i.bx() as i64);
    // Finalisers may have moved the stack.
    (*vm).lua.top = frame_ceiling((*vm).lua.base);
    flow!(vm, result.map(|()| Step::Continue))
});

impl Vm {
    /// Stores the `n` values after `a` in the table at `a`, from index `start + 1`.
    unsafe fn set_list(&mut self, a: *mut Value, n: usize, start: i64) -> crate::LuaResult<()> {
        // SAFETY: `n` values follow `a` on the stack; nothing moves it before the safepoint.
        unsafe {
            let Some(t) = (*a).as_table() else {
                return Err(self.error("invalid opcode"));
            };
            let values = std::slice::from_raw_parts(a.add(1), n);
            self.raw_set_list(t, start + 1, values)?;
            self.safepoint()
        }
    }
}
