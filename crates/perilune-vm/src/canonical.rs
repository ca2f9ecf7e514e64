//! What the heap's verifier asks of values: each is the one representation of what it stands for
//! (`value.rs`), and none that an object holds is a word of the machine's own.
//!
//! Collections take this for granted and look at tags alone; a nil with another payload is harmless to them
//! and wrong as a key.

use crate::State;
use crate::object::{ArrayKind, LuaClosure, NativeClosure, ProtoInst, Table, Thread, Upval, Userdata};
use crate::value::{Tag, Value};
use perilune_heap::Obj;

/// Panics if an object holds a value that is not canonical.
///
/// # Safety
/// `obj` is a live, initialised object of the heap beside `lua`.
pub(crate) unsafe fn check_object(lua: &State, obj: Obj) {
    // SAFETY: the caller's promise; kinds tell layouts, as in `graph.rs`.
    unsafe {
        let p = obj.as_ptr();
        let kind = Tag((*p).kind);
        let held = |v: Value, what: &str| {
            let ok = v.is_canonical() && v.tag() != Tag::FRAME;
            assert!(ok, "{what} holds the tag {:?} with the payload {:#x}", v.tag(), v.payload());
        };
        match kind {
            Tag::TABLE => {
                let t = &*(p as *mut Table);
                t.general_elements().iter().for_each(|&v| held(v, "an array part"));
                check_booleans(t);
                t.field_values().iter().for_each(|&v| held(v, "a field"));
                for node in t.node_slice() {
                    held(node.value(), "a node");
                    if node.is_live() {
                        held(node.key(), "a key");
                    }
                }
            }
            Tag::CLOSURE => debug_assert!(!(*(p as *mut LuaClosure)).proto.is_null()),
            Tag::UPVAL => {
                let u = p as *mut Upval;
                if (*u).owner().is_none() {
                    held((*u).closed, "an upvalue");
                }
            }
            Tag::NATIVE_CLOSURE => {
                let c = p as *mut NativeClosure;
                let first = &raw const (*c).upvals as *const Value;
                (0..(*c).num_upvalues as usize).for_each(|n| held(*first.add(n), "a native function"));
            }
            Tag::USERDATA => {
                let u = p as *mut Userdata;
                let first = &raw const (*u).user_values as *const Value;
                (0..(*u).num_user_values as usize).for_each(|n| held(*first.add(n), "a userdata"));
            }
            Tag::PROTO => {
                let inst = p as *mut ProtoInst;
                (0..(*inst).proto().constants.len()).for_each(|n| held(*(*inst).k.add(n), "a constant"));
            }
            Tag::THREAD => check_stack(lua, p as *mut Thread),
            _ => {}
        }
    }
}

/// The elements of an array of booleans are the tags of such.
fn check_booleans(t: &Table) {
    if t.kind == ArrayKind::Bool {
        assert!(!t.has_holes(), "an array of booleans has holes");
        for at in 0..t.extent() {
            // SAFETY: within `extent`, and elements are bytes.
            let tag = Tag(unsafe { *t.array.add(at) });
            assert!(tag.is_boolean(), "an array of booleans holds the tag {tag:?}");
        }
    }
}

/// The slots of a stack may hold frame records; their values are canonical.
unsafe fn check_stack(lua: &State, th: *mut Thread) {
    // SAFETY: as `check_object`; the running coroutine's top is in the Vm.
    unsafe {
        let running = th == lua.thread;
        let top = if running { lua.top } else { (*th).top };
        // As the collector sees it: a coroutine that is over may have a smaller stack than it had.
        let top = top.min((*th).stack.add((*th).stack_size));
        let mut at = (*th).stack;
        while at < top {
            let v = *at;
            assert!(
                v.is_canonical(),
                "slot {} of a coroutine that is {:?} holds the tag {:?} with the payload {:#x}",
                at.offset_from((*th).stack),
                (*th).standing.status(),
                v.tag(),
                v.payload()
            );
            at = at.add(1);
        }
    }
}
