//! Table access by constant names: globals, fields, methods; constructors. Computed keys are in `index.rs`.

use super::elements::{object_getfield, userdata_getfield};
use super::ic::{
    ADD, EMPTY, FROZEN_NODE, Found, INDEX_CALL, Ic, NEWINDEX_CALL, NODE, OWN, PROTO_NODE, PROTO_SLOT,
    STRINGS, ic,
};
use super::quick::{has_room, push_lua};
use super::{Flow, Step, copy, flow, frame_ceiling, next, next_gc, op, rk, save, tail};
use crate::Vm;
use crate::frame::{CALL_GAP, CONT_DISCARD, CONT_STORE};
use crate::meta::{Event, Store};
use crate::object::{LuaClosure, LuaString, Node, TABLE_IS_PROTO, Table};
use crate::shape;
use crate::value::{Gc, Tag, Value};
use perilune_syntax::bytecode::{NO_IC, sizes_of_table};
use perilune_syntax::{Instr, Op};

/// Writes what a cache has found and goes on, unless it is nil and a metatable might know better.
macro_rules! try_own_get {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $tab:ident, $t:ident, $c:ident, $dest:expr) => {{
        let v = (*$t).slots.add((*$c).slot as usize);
        if !(*v).is_nil() || (*$t).metatable.is_null() {
            copy($dest, v);
            next!($vm, $base, $pc, $k, $tab)
        }
    }};
}

/// As [`try_own_get`], for a dictionary.
macro_rules! try_node_get {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $tab:ident, $t:ident, $c:ident, $key:expr, $dest:expr) => {{
        let slot = (*$c).slot;
        if !(*$t).nodes.is_null() && slot >> (*$t).log2_nodes == 0 {
            let n = (*$t).nodes.add(slot as usize);
            if (*n).key == (*$key).payload() && (*n).key_tag == Tag::STRING.0 && (*n).value_tag != 0 {
                let payload = (*n).value;
                let tag = (*n).value_tag;
                let dest: *mut Value = $dest;
                Value::store(dest, Tag(tag), payload);
                next!($vm, $base, $pc, $k, $tab)
            }
        }
    }};
}

/// As [`try_own_get`], for what a class has.
macro_rules! try_proto_get {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $tab:ident, $t:ident, $c:ident, $dest:expr) => {{
        if (*$t).metatable == (*$c).meta && (*$c).aux == (*$vm).lua.proto_version {
            let kind = (*$c).kind;
            if kind == PROTO_SLOT {
                let v = (*$c).loc as *const Value;
                if !(*v).is_nil() {
                    copy($dest, v);
                    next!($vm, $base, $pc, $k, $tab)
                }
            } else if kind == PROTO_NODE {
                let n = (*$c).loc as *const Node;
                if (*n).value_tag != 0 {
                    let payload = (*n).value;
                    let tag = (*n).value_tag;
                    let dest: *mut Value = $dest;
                    Value::store(dest, Tag(tag), payload);
                    next!($vm, $base, $pc, $k, $tab)
                }
            }
        }
    }};
}

/// Reads through a `FROZEN_NODE`.
macro_rules! try_frozen_get {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $tab:ident, $t:ident, $c:ident, $dest:expr) => {{
        let slot = (*$c).slot;
        if (*$c).kind == FROZEN_NODE
            && (*$c).aux == (*$vm).lua.proto_version
            && !(*$t).nodes.is_null()
            && slot >> (*$t).log2_nodes == 0
        {
            let n = (*$t).nodes.add(slot as usize);
            if (*n).key == (*$c).loc as u64 && (*n).key_tag == Tag::STRING.0 {
                let payload = (*n).value;
                let tag = (*n).value_tag;
                let dest: *mut Value = $dest;
                Value::store(dest, Tag(tag), payload);
                next!($vm, $base, $pc, $k, $tab)
            }
        }
    }};
}

/// Calls the Lua function at `f`, or this domain's own for the one in an island there, as a metamethod of
/// table `t` with these arguments, or falls through: the cache is out of date, the function is another one,
/// there is no room.
macro_rules! call_cached {
    ($vm:ident, $base:ident, $pc:ident, $tab:ident, $t:expr, $c:expr, $f:expr, $cont:expr,
     [$($arg:expr),*]) => {{
        let c: *const Ic = $c;
        let f: *const Value = $f;
        if (*$t).metatable == (*c).meta && (*c).aux == (*$vm).lua.proto_version && (*f).tag() == Tag::CLOSURE {
            let p = (*((*f).payload() as *const LuaClosure)).proto;
            let func = frame_ceiling($base);
            let callee = func.wrapping_add(CALL_GAP);
            let mut end = callee;
            $(let _: *const Value = $arg; end = end.wrapping_add(1);)*
            if has_room($vm, p, callee, end) {
                (*crate::frame::frame($base)).pc = $pc;
                copy(func, f);
                let mut at = callee;
                $(copy(at, $arg); at = at.add(1);)*
                push_lua($vm, $base, callee, p, at, 1, ($cont, 0));
                next!($vm, callee, (*p).code, (*p).k as *const Value, $tab)
            }
        }
    }};
}

// Each of the three readers answers the kind that it usually meets and leaves the others to `other_getfield`:
// with all kinds in one body there are not enough scratch registers, and every execution would save some.

op!(op_gettabup(vm, base, pc, k, i, tab) {
    let env = (*super::moves::upvalue(base, i.b() as usize)).v;
    if (*env).tag() == Tag::TABLE && i.d() != NO_IC {
        let t = (*env).payload() as *mut Table;
        let c = ic(k, i.d());
        if (*t).shape == (*c).shape {
            if (*c).kind == NODE {
                let key = k.add(i.c() as usize);
                try_node_get!(vm, base, pc, k, tab, t, c, key, base.add(i.a() as usize))
            }
            tail!(other_gettabup, vm, base, pc, k, i, tab)
        }
    }
    tail!(slow_getfield, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] other_gettabup(vm, base, pc, k, i, tab) {
    let t = (*(*super::moves::upvalue(base, i.b() as usize)).v).payload() as *mut Table;
    let c = ic(k, i.d());
    if (*c).kind == OWN {
        try_own_get!(vm, base, pc, k, tab, t, c, base.add(i.a() as usize))
    } else if (*c).kind == INDEX_CALL {
        tail!(call_env_index, vm, base, pc, k, i, tab)
    } else {
        try_proto_get!(vm, base, pc, k, tab, t, c, base.add(i.a() as usize))
    }
    tail!(slow_getfield, vm, base, pc, k, i, tab)
});

op!(
    /// GETTABUP that ends in a function in `__index`.
    #[inline(never)] call_env_index(vm, base, pc, k, i, tab) {
    let env = (*super::moves::upvalue(base, i.b() as usize)).v;
    let t = (*env).payload() as *mut Table;
    let f = (*ic(k, i.d())).loc as *const Value;
    call_cached!(vm, base, pc, tab, t, ic(k, i.d()), f, CONT_STORE, [env, k.add(i.c() as usize)]);
    tail!(slow_getfield, vm, base, pc, k, i, tab)
});

op!(op_getfield(vm, base, pc, k, i, tab) {
    let obj = base.add(i.b() as usize);
    if (*obj).tag() == Tag::TABLE && i.d() != NO_IC {
        let t = (*obj).payload() as *mut Table;
        let c = ic(k, i.d());
        if (*t).shape == (*c).shape {
            if (*c).kind == OWN {
                try_own_get!(vm, base, pc, k, tab, t, c, base.add(i.a() as usize))
            }
            tail!(other_getfield, vm, base, pc, k, i, tab)
        }
    }
    tail!(slow_getfield, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] other_getfield(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.b() as usize)).payload() as *mut Table;
    let c = ic(k, i.d());
    if (*c).kind == NODE {
        try_node_get!(vm, base, pc, k, tab, t, c, k.add(i.c() as usize), base.add(i.a() as usize))
    } else if (*c).kind == INDEX_CALL {
        tail!(call_index, vm, base, pc, k, i, tab)
    } else {
        try_proto_get!(vm, base, pc, k, tab, t, c, base.add(i.a() as usize));
        try_frozen_get!(vm, base, pc, k, tab, t, c, base.add(i.a() as usize))
    }
    tail!(slow_getfield, vm, base, pc, k, i, tab)
});

op!(
    /// GETFIELD that ends in a function in `__index`.
    #[inline(never)] call_index(vm, base, pc, k, i, tab) {
    let obj = base.add(i.b() as usize);
    let t = (*obj).payload() as *mut Table;
    let f = (*ic(k, i.d())).loc as *const Value;
    call_cached!(vm, base, pc, tab, t, ic(k, i.d()), f, CONT_STORE, [obj, k.add(i.c() as usize)]);
    tail!(call_shared_index, vm, base, pc, k, i, tab)
});

op!(
    /// As [`call_index`], when the metatable is in an island.
    #[inline(never)] call_shared_index(vm, base, pc, k, i, tab) {
    let obj = base.add(i.b() as usize);
    let t = (*obj).payload() as *mut Table;
    if (*t).metatable == (*ic(k, i.d())).meta && (*ic(k, i.d())).aux == (*vm).lua.proto_version {
        let f = (*vm).own_function_place((*ic(k, i.d())).loc as *const Value);
        call_cached!(vm, base, pc, tab, t, ic(k, i.d()), f, CONT_STORE, [obj, k.add(i.c() as usize)]);
    }
    tail!(slow_getfield, vm, base, pc, k, i, tab)
});

op!(
    /// SETFIELD that ends in a function in `__newindex`.
    #[inline(never)] call_newindex(vm, base, pc, k, i, tab) {
    let obj = base.add(i.a() as usize);
    let t = (*obj).payload() as *mut Table;
    let val = rk(base, k, i.c());
    let f = (*ic(k, i.d())).loc as *const Value;
    call_cached!(vm, base, pc, tab, t, ic(k, i.d()), f, CONT_DISCARD, [obj, k.add(i.b() as usize), val]);
    tail!(slow_setfield, vm, base, pc, k, i, tab)
});

op!(op_self(vm, base, pc, k, i, tab) {
    let obj = base.add(i.b() as usize);
    let a = base.add(i.a() as usize);
    // The receiver is copied first: it may be in R[a].
    copy(a.add(3), obj);
    if (*a.add(3)).tag() == Tag::TABLE && i.d() != NO_IC {
        let t = (*a.add(3)).payload() as *mut Table;
        let c = ic(k, i.d());
        if (*t).shape == (*c).shape {
            try_proto_get!(vm, base, pc, k, tab, t, c, base.add(i.a() as usize));
            tail!(other_self, vm, base, pc, k, i, tab)
        }
    }
    if (*a.add(3)).tag() == Tag::STRING && i.d() != NO_IC {
        tail!(string_self, vm, base, pc, k, i, tab)
    }
    tail!(slow_getfield, vm, base, pc, k, i, tab)
});

op!(
    /// SELF of a string, which has been copied.
    #[inline(never)] string_self(vm, base, pc, k, i, tab) {
    let c = ic(k, i.d());
    if (*c).shape == STRINGS && (*c).aux == (*vm).lua.proto_version && (*c).meta == (*vm).string_metatable() {
        let (payload, tag) = if (*c).kind == PROTO_SLOT {
            let v = (*c).loc as *const Value;
            ((*v).payload(), (*v).tag().0)
        } else {
            let n = (*c).loc as *const Node;
            ((*n).value, (*n).value_tag)
        };
        if tag != Tag::NIL.0 {
            Value::store(base.add(i.a() as usize), Tag(tag), payload);
            next!(vm, base, pc, k, tab)
        }
    }
    tail!(uncached_getfield, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] other_self(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let t = (*a.add(3)).payload() as *mut Table;
    let c = ic(k, i.d());
    if (*c).kind == NODE {
        try_node_get!(vm, base, pc, k, tab, t, c, k.add(i.c() as usize), a)
    } else if (*c).kind == OWN {
        try_own_get!(vm, base, pc, k, tab, t, c, a)
    } else {
        try_frozen_get!(vm, base, pc, k, tab, t, c, a)
    }
    tail!(slow_getfield, vm, base, pc, k, i, tab)
});

op!(
    /// GETTABUP, GETFIELD and SELF past their own caches: asks the shared one. Every 32nd hit, and what is
    /// rarer than fields of objects and their classes, is left to `found_getfield`.
    #[inline(never)] slow_getfield(vm, base, pc, k, i, tab) {
    let obj = base.add(i.b() as usize);
    if i.op_byte() != Op::GetTabUp as u8 && (*obj).tag() == Tag::TABLE {
        let t = (*obj).payload() as *mut Table;
        if (*t).shape == shape::DICT {
            tail!(dict_getfield, vm, base, pc, k, i, tab)
        }
        let key = (*k.add(i.c() as usize)).payload() as *mut LuaString;
        if let Some(slot) = (*vm).lua.caches.shared.find_own((*t).shape, key) {
            let v = (*t).slots.add(slot as usize);
            let ticks = (*vm).lua.caches.shared.ticks;
            if !(*v).is_nil() && !ticks.is_multiple_of(32) {
                (*vm).lua.caches.shared.ticks = ticks.wrapping_add(1);
                copy(base.add(i.a() as usize), v);
                next!(vm, base, pc, k, tab)
            }
        }
        tail!(shared_getfield, vm, base, pc, k, i, tab)
    }
    if i.op_byte() != Op::GetTabUp as u8 && (*obj).tag() == Tag::SHARED {
        tail!(object_getfield, vm, base, pc, k, i, tab)
    }
    if i.op_byte() != Op::GetTabUp as u8 && (*obj).tag() == Tag::USERDATA {
        tail!(userdata_getfield, vm, base, pc, k, i, tab)
    }
    tail!(uncached_getfield, vm, base, pc, k, i, tab)
});

op!(
    /// As [`slow_getfield`], of a dictionary: a field is in another node of each, so what it has is found as
    /// it would be without caches.
    #[inline(never)] dict_getfield(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.b() as usize)).payload() as *mut Table;
    let key = (*k.add(i.c() as usize)).payload() as *mut LuaString;
    let n = (*t).find_str(Gc::from_ptr(key));
    let ticks = (*vm).lua.caches.shared.ticks;
    if !n.is_null() && (*n).value_tag != 0 && !ticks.is_multiple_of(32) {
        (*vm).lua.caches.shared.ticks = ticks.wrapping_add(1);
        let payload = (*n).value;
        let tag = (*n).value_tag;
        Value::store(base.add(i.a() as usize), Tag(tag), payload);
        next!(vm, base, pc, k, tab)
    }
    tail!(shared_getfield, vm, base, pc, k, i, tab)
});

op!(
    /// As [`slow_getfield`], of a table in whose own fields nothing has been found.
    #[inline(never)] shared_getfield(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.b() as usize)).payload() as *mut Table;
    let key = (*k.add(i.c() as usize)).payload() as *mut LuaString;
    let e = (*vm).lua.caches.shared.find((*t).shape, (*t).metatable, key);
    let ticks = (*vm).lua.caches.shared.ticks;
    if !e.is_null() {
        let stale = is_out_of_date(vm, t, k, i.d());
        if !ticks.is_multiple_of(32) && !stale && !shape::is_dict((*t).shape) {
            (*vm).lua.caches.shared.ticks = ticks.wrapping_add(1);
            let c = &raw const (*e).ic;
            let v = if (*c).kind == OWN {
                (*t).slots.add((*c).slot as usize) as *const Value
            } else if (*c).kind == PROTO_SLOT && (*c).aux == (*vm).lua.proto_version {
                (*c).loc as *const Value
            } else {
                tail!(found_getfield, vm, base, pc, k, i, tab)
            };
            if !(*v).is_nil() {
                copy(base.add(i.a() as usize), v);
                next!(vm, base, pc, k, tab)
            }
            tail!(absent_getfield, vm, base, pc, k, i, tab)
        }
        tail!(found_getfield, vm, base, pc, k, i, tab)
    }
    (*vm).lua.caches.shared.ticks = ticks.wrapping_add(1);
    tail!(absent_getfield, vm, base, pc, k, i, tab)
});

op!(
    /// As [`shared_getfield`], where nothing has been found: it may be known that there is nothing.
    #[inline(never)] absent_getfield(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.b() as usize)).payload() as *mut Table;
    let key = (*k.add(i.c() as usize)).payload() as *mut LuaString;
    if (*vm).lua.caches.shared.is_absent(t, key, (*vm).lua.proto_version) {
        Value::store(base.add(i.a() as usize), Tag::NIL, 0);
        next!(vm, base, pc, k, tab)
    }
    tail!(uncached_getfield, vm, base, pc, k, i, tab)
});

/// Whether cache `d` is for tables like this one, and only the version of what classes have is another now.
/// It would be so for good where the shared cache answers, and machine code that relies on the site's own
/// would be left each time.
#[inline(always)]
unsafe fn is_out_of_date(vm: *mut Vm, t: *mut Table, k: *const Value, d: u16) -> bool {
    // SAFETY: called with a live table and a cache of the running prototype.
    unsafe {
        if d == NO_IC {
            return false;
        }
        let c = ic(k, d);
        (*c).shape == (*t).shape
            && (*c).meta == (*t).metatable
            && matches!((*c).kind, PROTO_SLOT | PROTO_NODE)
            && (*c).aux != (*vm).lua.proto_version
    }
}

op!(
    /// The shared cache has an entry: refreshes the site's own, and uses it.
    #[inline(never)] found_getfield(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.b() as usize)).payload() as *mut Table;
    let key = (*k.add(i.c() as usize)).payload() as *mut LuaString;
    let e = (*vm).lua.caches.shared.find((*t).shape, (*t).metatable, key);
    let ticks = (*vm).lua.caches.shared.ticks;
    (*vm).lua.caches.shared.ticks = ticks.wrapping_add(1);
    if !e.is_null() {
        if shape::is_dict((*t).shape) {
            if !(*t).get_str(Gc::from_ptr(key)).is_nil() {
                // The shape of a dictionary does not prove that the key is absent.
                tail!(uncached_getfield, vm, base, pc, k, i, tab)
            }
        } else if i.d() != NO_IC && (ticks.is_multiple_of(32) || is_out_of_date(vm, t, k, i.d())) {
            *ic(k, i.d()) = (*e).ic;
        }
        let c = &raw const (*e).ic;
        if (*c).kind == OWN {
            let v = (*t).slots.add((*c).slot as usize);
            if !(*v).is_nil() {
                copy(base.add(i.a() as usize), v);
                next!(vm, base, pc, k, tab)
            }
        } else {
            try_proto_get!(vm, base, pc, k, tab, t, c, base.add(i.a() as usize));
        }
    }
    tail!(uncached_getfield, vm, base, pc, k, i, tab)
});

op!(
    /// GETTABUP, GETFIELD and SELF past all caches.
    #[inline(never)] uncached_getfield(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, getfield_flow(&mut *vm, base, k, i))
});

#[inline(never)]
unsafe fn getfield_flow(vm: &mut Vm, base: *mut Value, k: *const Value, i: Instr) -> Flow {
    // SAFETY: called with the running frame's registers.
    unsafe {
        let op = i.op_byte();
        let obj = if op == Op::GetTabUp as u8 {
            *(*super::moves::upvalue(base, i.b() as usize)).v
        } else {
            *base.add(i.b() as usize)
        };
        let a = base.add(i.a() as usize);
        if op == Op::SelfCall as u8 {
            copy(a.add(3), &obj);
        }
        let key = *k.add(i.c() as usize);
        let found = match obj.as_table() {
            Some(t) => vm.get_field_filling(t, key.gc(), k, i.d())?,
            None => match obj.as_shared() {
                Some(r) => {
                    let meta = vm.known_shared_metatable(r);
                    vm.get_method_filling(obj, meta, key.gc())?
                }
                None if obj.tag() == Tag::USERDATA => {
                    let meta = vm.metatable_of(obj).filter(|meta| !meta.is_in_island());
                    vm.get_method_filling(obj, meta, key.gc())?
                }
                None if op == Op::SelfCall as u8 && obj.tag() == Tag::STRING => {
                    vm.get_string_method_filling(obj, key.gc(), k, i.d())?
                }
                None => vm.index_lookup(obj, key)?,
            },
        };
        if op == Op::SelfCall as u8
            && let Found::Value(method) = found
            && let Some(method) = method.as_shared_function()
        {
            vm.cache_own_method(method, k, i.d());
        }
        deliver(vm, found, key, a)
    }
}

/// Stores what a lookup found in `dest`, or calls the metamethod that will.
pub(super) unsafe fn deliver(vm: &mut Vm, found: Found, key: Value, dest: *mut Value) -> Flow {
    match found {
        Found::Value(v) => {
            // SAFETY: dest is a register of the running frame, which did not move: nothing was called.
            unsafe { copy(dest, &v) };
            Ok(Step::Continue)
        }
        Found::Call(f, receiver) => vm.call_meta(f, &[receiver, key], CONT_STORE, 0),
    }
}

/// Whether storing `v` into `t` has something to tell the collector, or is to be refused. The quick handlers
/// leave such stores to the full ones: a call in their bodies, even one that is hardly ever made, would have
/// every execution save registers.
#[inline(always)]
pub(super) unsafe fn needs_barrier(vm: *mut Vm, t: *mut Table, v: *const Value) -> bool {
    // SAFETY: called with live objects.
    unsafe { (*t).header.epoch != (*vm).heap.epoch() && ((*v).tag() >= Tag::STRING || (*t).minds_stores()) }
}

/// Stores through the cache; falls through on a miss.
macro_rules! try_cached_set {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident, $t:expr, $c:expr, $key:expr,
     $val:expr) => {{
        let t: *mut Table = $t;
        let c: *const Ic = $c;
        if (*t).shape == (*c).shape && !(*t).minds_stores() {
            let kind = (*c).kind;
            if kind == OWN {
                let v = (*t).slots.add((*c).slot as usize);
                if !(*v).is_nil() || (*t).metatable.is_null() {
                    (*$vm).slot_barrier(Gc::from_ptr(t), *$val);
                    copy(v, $val);
                    next!($vm, $base, $pc, $k, $tab)
                }
            } else if kind == ADD {
                let slot = (*c).slot;
                let meta = (*t).metatable;
                if slot < (*t).slot_cap as u32
                    && (meta.is_null() || (*meta).absent & (1 << Event::NewIndex as u8) != 0)
                    && (*t).header.flags & TABLE_IS_PROTO == 0
                    && !(*$val).is_nil()
                {
                    (*$vm).slot_barrier(Gc::from_ptr(t), *$val);
                    copy((*t).slots.add(slot as usize), $val);
                    (*t).shape = (*c).aux;
                    next!($vm, $base, $pc, $k, $tab)
                }
            } else if kind == NODE {
                let slot = (*c).slot;
                if !(*t).nodes.is_null() && slot >> (*t).log2_nodes == 0 {
                    let n = (*t).nodes.add(slot as usize);
                    if (*n).key == (*$key).payload() && (*n).key_tag == Tag::STRING.0 && (*n).value_tag != 0 {
                        (*$vm).node_barrier(Gc::from_ptr(t), n, *$val);
                        (*n).set_value(*$val);
                        next!($vm, $base, $pc, $k, $tab)
                    }
                }
            }
        }
    }};
}

op!(op_settabup(vm, base, pc, k, i, tab) {
    let env = (*super::moves::upvalue(base, i.a() as usize)).v;
    if (*env).tag() == Tag::TABLE && i.d() != NO_IC {
        let t = (*env).payload() as *mut Table;
        let c = ic(k, i.d());
        let slot = (*c).slot;
        if (*c).kind == NODE
            && (*t).shape == (*c).shape
            && !(*t).nodes.is_null()
            && slot >> (*t).log2_nodes == 0
        {
            let n = (*t).nodes.add(slot as usize);
            let is_ours =
                (*n).key == (*k.add(i.b() as usize)).payload() && (*n).key_tag == Tag::STRING.0
                    && (*n).value_tag != 0;
            let val = rk(base, k, i.c());
            if is_ours && !needs_barrier(vm, t, val) {
                (*n).set_value(*val);
                next!(vm, base, pc, k, tab)
            }
        }
    }
    tail!(full_settabup, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] full_settabup(vm, base, pc, k, i, tab) {
    let env = (*super::moves::upvalue(base, i.a() as usize)).v;
    let d = i.d();
    if (*env).tag() == Tag::TABLE && d != NO_IC {
        let t = (*env).payload() as *mut Table;
        let key = k.add(i.b() as usize);
        let val = rk(base, k, i.c());
        try_cached_set!(vm, base, pc, k, i, tab, t, ic(k, d), key, val)
    }
    tail!(slow_setfield, vm, base, pc, k, i, tab)
});

op!(op_setfield(vm, base, pc, k, i, tab) {
    let obj = base.add(i.a() as usize);
    if (*obj).tag() == Tag::TABLE && i.d() != NO_IC {
        let t = (*obj).payload() as *mut Table;
        let c = ic(k, i.d());
        if (*t).shape != (*c).shape {
            tail!(shared_setfield, vm, base, pc, k, i, tab)
        }
        if (*c).kind == OWN {
            let v = (*t).slots.add((*c).slot as usize);
            let val = rk(base, k, i.c());
            if !(*v).is_nil() && !needs_barrier(vm, t, val) {
                copy(v, val);
                next!(vm, base, pc, k, tab)
            }
        } else if (*c).kind == ADD {
            tail!(add_setfield, vm, base, pc, k, i, tab)
        } else if (*c).kind == NEWINDEX_CALL {
            tail!(call_newindex, vm, base, pc, k, i, tab)
        }
    }
    tail!(full_setfield, vm, base, pc, k, i, tab)
});

op!(
    /// SETFIELD that adds a field, as its cache has seen before.
    #[inline(never)] add_setfield(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.a() as usize)).payload() as *mut Table;
    let c = ic(k, i.d());
    if (*t).metatable.is_null() && (*c).slot < (*t).slot_cap as u32 && (*t).header.flags & TABLE_IS_PROTO == 0 {
        let val = rk(base, k, i.c());
        if !(*val).is_nil() && !needs_barrier(vm, t, val) {
            copy((*t).slots.add((*c).slot as usize), val);
            (*t).shape = (*c).aux;
            next!(vm, base, pc, k, tab)
        }
    }
    tail!(full_setfield, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] full_setfield(vm, base, pc, k, i, tab) {
    let obj = base.add(i.a() as usize);
    let d = i.d();
    if (*obj).tag() == Tag::TABLE && d != NO_IC {
        let t = (*obj).payload() as *mut Table;
        let key = k.add(i.b() as usize);
        let val = rk(base, k, i.c());
        try_cached_set!(vm, base, pc, k, i, tab, t, ic(k, d), key, val)
    }
    tail!(shared_setfield, vm, base, pc, k, i, tab)
});

op!(
    /// SETFIELD past its own cache: asks the shared one for a field that exists. Every 32nd such store, and
    /// what is rarer, is left to `kept_setfield`.
    #[inline(never)] shared_setfield(vm, base, pc, k, i, tab) {
    let obj = base.add(i.a() as usize);
    if (*obj).tag() == Tag::TABLE {
        let t = (*obj).payload() as *mut Table;
        if (*t).shape == shape::DICT {
            tail!(dict_setfield, vm, base, pc, k, i, tab)
        }
        let key = (*k.add(i.b() as usize)).payload() as *mut LuaString;
        if let Some(slot) = (*vm).lua.caches.shared.find_own((*t).shape, key) {
            let v = (*t).slots.add(slot as usize);
            let val = rk(base, k, i.c());
            let ticks = (*vm).lua.caches.shared.ticks;
            if !(*v).is_nil() && !needs_barrier(vm, t, val) && !ticks.is_multiple_of(32) && !Gc::from_ptr(key).is_dunder() {
                (*vm).lua.caches.shared.ticks = ticks.wrapping_add(1);
                copy(v, val);
                next!(vm, base, pc, k, tab)
            }
        }
        tail!(kept_setfield, vm, base, pc, k, i, tab)
    }
    tail!(slow_setfield, vm, base, pc, k, i, tab)
});

op!(
    /// As [`shared_setfield`], of a dictionary: a field is in another node of each, so what it has is found
    /// as it would be without caches.
    #[inline(never)] dict_setfield(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.a() as usize)).payload() as *mut Table;
    let key = (*k.add(i.b() as usize)).payload() as *mut LuaString;
    let n = (*t).find_str(Gc::from_ptr(key));
    let ticks = (*vm).lua.caches.shared.ticks;
    (*vm).lua.caches.shared.ticks = ticks.wrapping_add(1);
    if !n.is_null()
        && (*n).value_tag != 0
        && !(*t).minds_stores()
        && !ticks.is_multiple_of(32)
        && !Gc::from_ptr(key).is_dunder()
    {
        let val = rk(base, k, i.c());
        (*vm).node_barrier(Gc::from_ptr(t), n, *val);
        (*n).set_value(*val);
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_setfield, vm, base, pc, k, i, tab)
});

op!(
    /// As [`shared_setfield`], by what is known of tables with the same metatable.
    #[inline(never)] kept_setfield(vm, base, pc, k, i, tab) {
    let obj = base.add(i.a() as usize);
    if (*obj).tag() == Tag::TABLE {
        let t = (*obj).payload() as *mut Table;
        let key = (*k.add(i.b() as usize)).payload() as *mut LuaString;
        let e = (*vm).lua.caches.shared.find((*t).shape, (*t).metatable, key);
        let ticks = (*vm).lua.caches.shared.ticks;
        (*vm).lua.caches.shared.ticks = ticks.wrapping_add(1);
        if !e.is_null() && (*e).ic.kind == OWN {
            if ticks.is_multiple_of(32) && i.d() != NO_IC {
                *ic(k, i.d()) = (*e).ic;
            }
            let v = (*t).slots.add((*e).ic.slot as usize);
            let val = rk(base, k, i.c());
            if !(*v).is_nil() && !(*t).minds_stores() {
                (*vm).slot_barrier(Gc::from_ptr(t), *val);
                copy(v, val);
                next!(vm, base, pc, k, tab)
            }
        }
    }
    tail!(slow_setfield, vm, base, pc, k, i, tab)
});

op!(
    /// SETTABUP and SETFIELD past their caches.
    #[inline(never)] slow_setfield(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, setfield_flow(&mut *vm, base, k, i))
});

#[inline(never)]
unsafe fn setfield_flow(vm: &mut Vm, base: *mut Value, k: *const Value, i: Instr) -> Flow {
    // SAFETY: called with the running frame's registers.
    unsafe {
        let obj = if i.op_byte() == Op::SetTabUp as u8 {
            *(*super::moves::upvalue(base, i.a() as usize)).v
        } else {
            *base.add(i.a() as usize)
        };
        let key = *k.add(i.b() as usize);
        let val = *rk(base, k, i.c());
        if let Some(t) = obj.as_table() {
            let name: Gc<LuaString> = key.gc();
            let exists = !vm.raw_get_str(t, name).is_nil();
            let newindex = if exists || t.metatable.is_null() {
                Value::NIL
            } else {
                vm.table_metamethod(Gc::from_ptr(t.metatable), Event::NewIndex)
            };
            if exists || newindex.is_nil() {
                let before = t.shape;
                vm.raw_set_field_const(t, name, val)?;
                fill_set(vm, t, name, before, exists, k, i.d());
                vm.safepoint()?;
                return Ok(Step::Continue);
            }
            if newindex.is_function() {
                if i.d() != NO_IC {
                    vm.fill_meta_call(t, name, Event::NewIndex, ic(k, i.d()));
                }
                return vm.call_meta(newindex, &[obj, key, val], CONT_DISCARD, 0);
            }
        }
        store_flow(vm, obj, key, val)
    }
}

/// Remembers a store that has just been done: `before` was the shape then, `exists` whether the field had a
/// value.
unsafe fn fill_set(
    vm: &mut Vm,
    t: Gc<Table>,
    name: Gc<LuaString>,
    before: u32,
    exists: bool,
    k: *const Value,
    d: u16,
) {
    // Metamethod names must go the long way: their stores clear the metatable's absence bits.
    if d == NO_IC || name.bytes().starts_with(b"__") {
        return;
    }
    // SAFETY: a cache of the running prototype.
    unsafe {
        let c = ic(k, d);
        if t.shape == shape::DICT {
            if exists && let Some(node) = super::ic::node_index(t, name) {
                *c = Ic { shape: shape::DICT, kind: NODE, slot: node, ..Ic::CLEAR };
            }
        } else if let Some(slot) = shape::lookup(t.shape, name) {
            if before == t.shape {
                *c = Ic { shape: t.shape, kind: OWN, slot, ..Ic::CLEAR };
                vm.lua.caches.shared.put(*c, t.metatable, name);
                vm.lua.caches.shared.put_own(t.shape, name, slot);
            } else if before != shape::DICT {
                *c = Ic { shape: before, kind: ADD, slot, aux: t.shape, ..Ic::CLEAR };
            }
        }
    }
}

/// `obj[key] = val` in full, for the instruction at hand.
#[inline(never)]
pub(super) unsafe fn store_flow(vm: &mut Vm, obj: Value, key: Value, val: Value) -> Flow {
    match vm.newindex_lookup(obj, key, val)? {
        Store::Done => {
            vm.safepoint()?;
            Ok(Step::Continue)
        }
        Store::Call(f, receiver) => vm.call_meta(f, &[receiver, key, val], CONT_DISCARD, 0),
    }
}

op!(op_newtable(vm, base, pc, k, i, tab) {
    let c = ic(k, i.d());
    // Larger as well if other keys are to come, which are in the upper bits.
    let array = i.c() as usize;
    if i.d() == NO_IC || (*c).shape == EMPTY || array > 16 {
        tail!(slow_newtable, vm, base, pc, k, i, tab)
    }
    // `shape` is the final shape, `slot` the number of slots to have ready.
    let t = (*vm).alloc_table((*c).shape, (*c).slot as usize, array);
    *base.add(i.a() as usize) = t.into();
    next_gc!(vm, base, pc, k, i, tab)
});

op!(
    /// The first execution of a NEWTABLE site, large constructors, and templates that have no shape.
    #[inline(never)] slow_newtable(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, newtable_flow(&mut *vm, base, k, i))
});

#[inline(never)]
unsafe fn newtable_flow(vm: &mut Vm, base: *mut Value, k: *const Value, i: Instr) -> Flow {
    // SAFETY: called with the running frame's registers.
    unsafe {
        let mut fields = 0;
        let mut shape = shape::ROOT;
        let (array, keys) = sizes_of_table(i.c());
        if i.b() > 0 {
            let inst = &*(*super::frame_closure(base)).proto;
            let keys = &inst.proto().templates[i.b() as usize - 1];
            fields = keys.len();
            let mut at = Some(shape::ROOT);
            for &key in keys.iter() {
                at = at.and_then(|s| vm.shape_transition(s, (*k.add(key as usize)).gc()));
            }
            match at {
                Some(s) => shape = s,
                None => {
                    let t = vm.new_table(array, fields + 64)?;
                    *base.add(i.a() as usize) = t.into();
                    return Ok(Step::Continue);
                }
            }
        }
        if i.d() != NO_IC {
            let c = ic(k, i.d());
            *c = Ic { shape, slot: fields as u32, aux: i.b() as u32, ..Ic::CLEAR };
        }
        let t = if array > 16 {
            let t = vm.alloc_table(shape, fields, 0);
            *base.add(i.a() as usize) = t.into();
            vm.table_resize(t, array, 0)?;
            t
        } else {
            vm.alloc_table(shape, fields, array)
        };
        (*t.ptr()).expect_nodes(keys);
        *base.add(i.a() as usize) = t.into();
        vm.safepoint()?;
        Ok(Step::Continue)
    }
}

op!(op_setslot(vm, base, pc, k, i, tab) {
    let t = (*base.add(i.a() as usize)).payload() as *mut Table;
    let val = rk(base, k, i.c());
    if i.d() != NO_IC
        && (*base.add(i.a() as usize)).tag() == Tag::TABLE
        && (*t).shape == (*ic(k, i.d())).shape
        && !needs_barrier(vm, t, val)
    {
        copy((*t).slots.add(i.b() as usize), val);
        next!(vm, base, pc, k, tab)
    }
    tail!(slow_setslot, vm, base, pc, k, i, tab)
});

op!(#[inline(never)] slow_setslot(vm, base, pc, k, i, tab) {
    save!(vm, base, pc);
    (*vm).lua.top = frame_ceiling(base);
    flow!(vm, setslot_flow(&mut *vm, base, pc, k, i))
});

/// A constructor's field when the table did not get the template's shape: an ordinary store.
#[inline(never)]
unsafe fn setslot_flow(vm: &mut Vm, base: *mut Value, pc: *const Instr, k: *const Value, i: Instr) -> Flow {
    // SAFETY: called with the running frame's registers; `pc` is past the SETSLOT.
    unsafe {
        let inst = &*(*super::frame_closure(base)).proto;
        let proto = inst.proto();
        // The NEWTABLE that shares the register is the nearest one before.
        let mut at = inst.position(pc) - 1;
        let template = loop {
            let n = proto.code[at];
            if n.op_byte() == Op::NewTable as u8 && n.a() == i.a() && n.b() > 0 {
                break n.b() as usize - 1;
            }
            if at == 0 {
                return Err(vm.error("invalid opcode"));
            }
            at -= 1;
        };
        let Some(&key) = proto.templates[template].get(i.b() as usize) else {
            return Err(vm.error("invalid opcode"));
        };
        let Some(t) = (*base.add(i.a() as usize)).as_table() else {
            return Err(vm.error("invalid opcode"));
        };
        vm.raw_set_str(t, (*k.add(key as usize)).gc(), *rk(base, k, i.c()))?;
        Ok(Step::Continue)
    }
}
