//! Elements of shared arrays (`shared.rs`): `a[i]`, `a[i] = x`, `a:at(i, j)`, `a:put(i, j, x)`, steps of
//! `ipairs`.
//!
//! The handlers of tables come here by one jump when the object is a shared one. Everything that the quick
//! way needs is in the `SharedRef`: the address, the length (0 for what is no array, and for arrays that are
//! watched), the kind of the elements, rows and columns. So an access is three comparisons and a load or
//! store, as for an element of a table; what is out of range, of the wrong kind or no array goes on to the
//! general way, which starts over.
//!
//! `at` and `put` are natives of a kind of their own: where nobody watches calls, CALL does their work
//! without a frame. The method itself is found by the cache that all sites share ([`object_getfield`]), whose
//! entries for methods of shared objects have the shape [`METHODS`].

use super::ic::{Ic, METHODS, PROTO_NODE, PROTO_SLOT};
use super::{copy, flow, next, op, rk, tail};
use crate::frame::{CALL_GAP, CONT_NONE};
use crate::native::Kind;
use crate::object::{LuaString, Node, Userdata};
use crate::shared::{Element, SharedRef};
use crate::value::{Tag, Value};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

const F64: u8 = Element::F64 as u8;
const F32: u8 = Element::F32 as u8;
const I64: u8 = Element::I64 as u8;
const I32: u8 = Element::I32 as u8;
const U8: u8 = Element::U8 as u8;

/// Reads element `$at`, which is below the length, into `$dest` and goes on with the next instruction at
/// `$pc`.
macro_rules! load_element {
    ($vm:ident, $base:ident, $pc:expr, $k:ident, $tab:ident, $r:expr, $at:expr, $dest:expr) => {{
        let (r, at): (*const SharedRef, usize) = ($r, $at);
        let (element, data): (u8, *mut u8) = ((*r).element, (*r).data);
        let dest: *mut Value = $dest;
        if element == F64 {
            Value::store(dest, Tag::FLOAT, (*data.cast::<AtomicU64>().add(at)).load(Relaxed));
            next!($vm, $base, $pc, $k, $tab)
        }
        if element == F32 {
            let x = f32::from_bits((*data.cast::<AtomicU32>().add(at)).load(Relaxed));
            Value::store(dest, Tag::FLOAT, f64::from(x).to_bits());
            next!($vm, $base, $pc, $k, $tab)
        }
        let n = if element == I32 {
            i64::from((*data.cast::<AtomicI32>().add(at)).load(Relaxed))
        } else if element == U8 {
            i64::from((*data.cast::<AtomicU8>().add(at)).load(Relaxed))
        } else {
            (*data.cast::<AtomicI64>().add(at)).load(Relaxed)
        };
        Value::store(dest, Tag::INT, n as u64);
        next!($vm, $base, $pc, $k, $tab)
    }};
}

/// Stores `$val` as element `$at`, which is below the length, and goes on; or falls through: the value needs
/// a conversion, or is none for the element.
macro_rules! store_element {
    ($vm:ident, $base:ident, $pc:expr, $k:ident, $tab:ident, $r:expr, $at:expr, $val:expr) => {{
        let (r, at): (*const SharedRef, usize) = ($r, $at);
        let (element, data): (u8, *mut u8) = ((*r).element, (*r).data);
        let val: *const Value = $val;
        let (tag, payload) = ((*val).tag(), (*val).payload());
        if tag == Tag::FLOAT {
            if element == F64 {
                (*data.cast::<AtomicU64>().add(at)).store(payload, Relaxed);
                next!($vm, $base, $pc, $k, $tab)
            }
            if element == F32 {
                let x = f64::from_bits(payload) as f32;
                (*data.cast::<AtomicU32>().add(at)).store(x.to_bits(), Relaxed);
                next!($vm, $base, $pc, $k, $tab)
            }
        } else if tag == Tag::INT {
            let n = payload as i64;
            if element == U8 {
                if n as u8 as i64 == n {
                    (*data.cast::<AtomicU8>().add(at)).store(n as u8, Relaxed);
                    next!($vm, $base, $pc, $k, $tab)
                }
            } else if element == I32 {
                if n as i32 as i64 == n {
                    (*data.cast::<AtomicI32>().add(at)).store(n as i32, Relaxed);
                    next!($vm, $base, $pc, $k, $tab)
                }
            } else if element == I64 {
                (*data.cast::<AtomicI64>().add(at)).store(n, Relaxed);
                next!($vm, $base, $pc, $k, $tab)
            } else if element == F64 {
                (*data.cast::<AtomicU64>().add(at)).store((n as f64).to_bits(), Relaxed);
                next!($vm, $base, $pc, $k, $tab)
            }
        }
    }};
}

op!(
    /// GETINDEX of a shared object by an integer.
    #[inline(never)] element_getindex(vm, base, pc, k, i, tab) {
    let r = (*base.add(i.b() as usize)).payload() as *const SharedRef;
    let at = ((*base.add(i.c() as usize)).payload() as usize).wrapping_sub(1);
    if at < (*r).len {
        load_element!(vm, base, pc, k, tab, r, at, base.add(i.a() as usize))
    }
    tail!(super::index::slow_getindex, vm, base, pc, k, i, tab)
});

op!(
    /// GETINT of a shared object.
    #[inline(never)] element_getint(vm, base, pc, k, i, tab) {
    let r = (*base.add(i.b() as usize)).payload() as *const SharedRef;
    let at = (i.c() as usize).wrapping_sub(1);
    if at < (*r).len {
        load_element!(vm, base, pc, k, tab, r, at, base.add(i.a() as usize))
    }
    tail!(super::index::slow_getindex, vm, base, pc, k, i, tab)
});

op!(
    /// SETINDEX of a shared object by an integer.
    #[inline(never)] element_setindex(vm, base, pc, k, i, tab) {
    let r = (*base.add(i.a() as usize)).payload() as *const SharedRef;
    let at = ((*base.add(i.b() as usize)).payload() as usize).wrapping_sub(1);
    if at < (*r).len {
        store_element!(vm, base, pc, k, tab, r, at, rk(base, k, i.c()))
    }
    tail!(super::index::slow_setindex, vm, base, pc, k, i, tab)
});

op!(
    /// SETINT of a shared object.
    #[inline(never)] element_setint(vm, base, pc, k, i, tab) {
    let r = (*base.add(i.a() as usize)).payload() as *const SharedRef;
    let at = (i.b() as usize).wrapping_sub(1);
    if at < (*r).len {
        store_element!(vm, base, pc, k, tab, r, at, rk(base, k, i.c()))
    }
    tail!(super::index::slow_setindex, vm, base, pc, k, i, tab)
});

op!(
    /// CALL of `a:at(i, j)` or `a:put(i, j, x)`, whatever its arguments are. `pc` is in the frame, and the
    /// top behind the arguments.
    #[inline(never)] call_element(vm, base, pc, k, i, tab) {
    let func = base.add(i.a() as usize);
    let own = func.add(CALL_GAP);
    if (*own).tag() == Tag::SHARED
        && i.b() >= 4
        && (*own.add(1)).tag() == Tag::INT
        && (*own.add(2)).tag() == Tag::INT
        && tab != &raw const super::HOOKED
    {
        let r = (*own).payload() as *const SharedRef;
        let row = ((*own.add(1)).payload() as usize).wrapping_sub(1);
        let column = ((*own.add(2)).payload() as usize).wrapping_sub(1);
        if row < (*r).rows && column < (*r).columns {
            let at = row * (*r).columns + column;
            if (*super::quick::native_at(func)).kind == Kind::ElementAt {
                if i.b() == 4 && i.c() == 2 {
                    load_element!(vm, base, pc, k, tab, r, at, func)
                }
            } else if i.b() == 5 && i.c() == 1 {
                store_element!(vm, base, pc, k, tab, r, at, own.add(3))
            }
        }
    }
    flow!(vm, (*vm).start_call(func, i.c() as i16 - 1, 0, CONT_NONE, 0))
});

/// Goes on with what the shared cache knows of the method `$key` of objects with that metatable, if anything.
macro_rules! try_method {
    ($vm:ident, $base:ident, $pc:ident, $k:ident, $i:ident, $tab:ident, $meta:expr, $key:ident) => {{
        let e = (*$vm).lua.caches.shared.find(METHODS, $meta, $key);
        if !e.is_null() && (*e).ic.aux == (*$vm).lua.proto_version {
            let c: *const Ic = &raw const (*e).ic;
            if (*c).kind == PROTO_SLOT {
                let v = (*c).loc as *const Value;
                if !(*v).is_nil() {
                    copy($base.add($i.a() as usize), v);
                    next!($vm, $base, $pc, $k, $tab)
                }
            } else if (*c).kind == PROTO_NODE {
                let n = (*c).loc as *const Node;
                if (*n).key == $key as u64 && (*n).key_tag == Tag::STRING.0 && (*n).value_tag != 0 {
                    let (payload, tag) = ((*n).value, (*n).value_tag);
                    Value::store($base.add($i.a() as usize), Tag(tag), payload);
                    next!($vm, $base, $pc, $k, $tab)
                }
            }
        }
    }};
}

op!(
    /// GETFIELD and SELF of a userdata. What methods of userdata have been found is in the cache that all
    /// sites share.
    #[inline(never)] userdata_getfield(vm, base, pc, k, i, tab) {
    let u = (*base.add(i.b() as usize)).payload() as *const Userdata;
    let key = (*k.add(i.c() as usize)).payload() as *mut LuaString;
    try_method!(vm, base, pc, k, i, tab, (*u).metatable, key);
    tail!(super::fields::uncached_getfield, vm, base, pc, k, i, tab)
});

op!(
    /// GETFIELD and SELF of a shared object: a method that the shared cache knows. For SELF the receiver has
    /// been copied.
    #[inline(never)] object_getfield(vm, base, pc, k, i, tab) {
    let r = (*base.add(i.b() as usize)).payload() as *const SharedRef;
    let key = (*k.add(i.c() as usize)).payload() as *mut LuaString;
    let metatables = &(*vm).lua.crossing.shared_refs.metatables;
    let kind = (*r).kind as usize;
    if kind < metatables.len() {
        try_method!(vm, base, pc, k, i, tab, *metatables.as_ptr().add(kind), key);
    }
    tail!(super::fields::uncached_getfield, vm, base, pc, k, i, tab)
});

op!(
    /// A step of `ipairs` through an array.
    #[inline(never)] element_tforcall(vm, base, pc, k, i, tab) {
    let a = base.add(i.a() as usize);
    let r = (*a.add(1)).payload() as *const SharedRef;
    let at = (*a.add(2)).payload() as usize;
    // The control variable is the number of elements that have been visited.
    if at < (*r).len && i.b() == 2 && (*vm).lua.interrupt.load(Relaxed) == 0 {
        Value::store(a.add(2), Tag::INT, at as u64 + 1);
        Value::store(a.add(4), Tag::INT, at as u64 + 1);
        let jump = *pc;
        let pc = pc.add(1).offset(jump.sj() as isize);
        load_element!(vm, base, pc, k, tab, r, at, a.add(5))
    }
    tail!(super::loops::slow_tforcall, vm, base, pc, k, i, tab)
});
