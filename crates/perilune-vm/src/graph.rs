//! The object graph: what each object refers to and where it is entered, described once, for whoever walks
//! it.
//!
//! The collector's client (`gc/client.rs`) marks what it is told of. Heap snapshots (`snapshot.rs`) write it
//! down with names, made of the labels (`edge.rs`). What an object refers to is a matter of its kind:
//! [`visit_edges`] here, `table/trace.rs` for tables, `fiber.rs` for what fibers add to coroutines. Roots are
//! in `graph/roots.rs`.
//!
//! The order of reports is the collector's: its marking goes through memory in that order. Whoever wants
//! another one sorts.
//!
//! Patterns here name every field of what they take apart. So a field that is added does not compile before
//! it is said here whether it is a reference.
//!
//! Not here: words of native stacks are reported as ranges of addresses, since what they mean depends on who
//! asks; and islands, whose objects refer to nothing outside and are counted as a whole.

mod roots;

pub(crate) use self::roots::{Which, visit_dependent_roots, visit_late_roots, visit_roots};

use crate::State;
use crate::edge::{Edge, EdgeVisitor};
use crate::frame::{CALL_GAP, frame};
use crate::meta::Event;
use crate::object::{LuaClosure, NativeClosure, ProtoInst, Table, Thread, Upval, Userdata};
use crate::table::trace::{Range, WHOLE, Weak};
use crate::value::{Gc, Tag, Value};
use perilune_heap::Obj;
use perilune_syntax::Proto;
use std::ops::Range as Span;

/// Who is told of edges, and knows the state whose objects they join.
pub(crate) trait GraphVisitor: EdgeVisitor {
    /// The state.
    fn state(&mut self) -> &mut State;
    /// What `range` of a table with weak references holds is going to be reported, if that is wanted.
    fn meets_weak(&mut self, t: *mut Table, weak: Weak, range: Range) -> bool;
}

/// Tells of what `obj` refers to. Of a large table, only of the first portion: then returns the next one, for
/// [`visit_part`].
///
/// # Safety
/// A live, initialised object of the visitor's state, which nothing changes meanwhile.
#[inline(always)]
pub(crate) unsafe fn visit_edges(obj: Obj, v: &mut impl GraphVisitor) -> Option<usize> {
    // SAFETY: the caller's promise; kinds tell layouts.
    unsafe {
        let p = obj.as_ptr();
        match Tag((*p).kind) {
            Tag::TABLE => return visit_table(p as *mut Table, 0, v),
            Tag::CLOSURE => {
                let c = p as *mut LuaClosure;
                let LuaClosure { header: _, proto, upvals: _ } = *c;
                v.pointer(Edge::Code, proto);
                let upvals = &raw const (*c).upvals as *const *mut Upval;
                for n in 0..(*proto).num_upvalues as usize {
                    v.pointer(Edge::Upvalue(n), *upvals.add(n));
                }
            }
            Tag::UPVAL => {
                let u = p as *mut Upval;
                let Upval { header: _, v: at, closed: _ } = *u;
                match (*u).owner() {
                    Some(owner) => {
                        v.pointer(Edge::VariableOwner, owner);
                        v.value(Edge::OpenVariable, *at);
                    }
                    None => v.value(Edge::Variable, *at),
                }
            }
            Tag::NATIVE_CLOSURE => {
                let c = p as *mut NativeClosure;
                let NativeClosure { header: _, native: _, num_upvalues, upvals: _ } = *c;
                let upvals = &raw const (*c).upvals as *const Value;
                for n in 0..num_upvalues as usize {
                    v.value(Edge::NativeUpvalue(n), *upvals.add(n));
                }
            }
            Tag::USERDATA => {
                let u = p as *mut Userdata;
                let Userdata {
                    header: _,
                    metatable,
                    data: _,
                    value: _,
                    type_id: _,
                    num_user_values,
                    user_values: _,
                } = *u;
                v.pointer(Edge::Metatable, metatable);
                let values = &raw const (*u).user_values as *const Value;
                for n in 0..num_user_values as usize {
                    v.value(Edge::UserValue(n), *values.add(n));
                }
            }
            Tag::PROTO => visit_instance(p as *mut ProtoInst, v),
            Tag::THREAD => visit_thread(p as *mut Thread, v),
            _ => {}
        }
        None
    }
}

/// Tells of the portion of a table that begins at `at`, and returns the next one.
///
/// # Safety
/// As [`visit_edges`].
#[inline(always)]
pub(crate) unsafe fn visit_part(obj: Obj, at: usize, v: &mut impl GraphVisitor) -> Option<usize> {
    // SAFETY: the caller's promise; only tables have portions.
    unsafe { visit_table(obj.as_ptr() as *mut Table, at, v) }
}

/// Tells of what a table keeps at addresses in `range`.
///
/// # Safety
/// As [`visit_edges`]; a table.
#[inline(always)]
pub(crate) unsafe fn visit_range(obj: Obj, range: Range, v: &mut impl GraphVisitor) {
    let t = obj.as_ptr() as *mut Table;
    // SAFETY: the caller's promise.
    unsafe {
        match weakness_of(t, v.state()) {
            Some(weak) => visit_weak(t, weak, range, v),
            None => (*t).visit_range(range, v),
        }
    }
}

#[inline(always)]
unsafe fn visit_table(t: *mut Table, at: usize, v: &mut impl GraphVisitor) -> Option<usize> {
    // SAFETY: a live table.
    unsafe {
        if let Some(weak) = weakness_of(t, v.state()) {
            visit_weak(t, weak, WHOLE, v);
            return None;
        }
        // Most tables have neither elements nor a hash part to look at.
        if at == 0 && (*t).visit_record(v) {
            return None;
        }
        (*t).visit_portion(at, v)
    }
}

unsafe fn visit_weak(t: *mut Table, weak: Weak, range: Range, v: &mut impl GraphVisitor) {
    if v.meets_weak(t, weak, range) {
        // SAFETY: a live table.
        unsafe { (*t).visit_weak(weak, range, v) };
    }
}

/// What is weak in `t`; `None`: nothing.
#[inline(always)]
unsafe fn weakness_of(t: *mut Table, lua: &mut State) -> Option<Weak> {
    // SAFETY: a live table and its metatable.
    unsafe {
        let meta = (*t).metatable;
        // What is frozen is never cleared.
        if meta.is_null() || (*meta).absent & (1 << Event::Mode as u8) != 0 || (*t).is_frozen() {
            return None;
        }
        lua.weakness(Gc::from_ptr(meta))
    }
}

unsafe fn visit_instance(i: *mut ProtoInst, v: &mut impl EdgeVisitor) {
    // SAFETY: a live instance.
    unsafe {
        let ProtoInst {
            header: _,
            code: _,
            k,
            max_stack: _,
            num_params: _,
            is_vararg: _,
            num_upvalues: _,
            ic_slots,
            children,
            proto,
            machine: _,
            native: _,
            heat: _,
            setbacks: _,
            takes: _,
            frame_bytes: _,
        } = *i;
        let proto: &Proto = &*proto;
        v.buffer(k.sub(ic_slots as usize));
        for n in 0..proto.constants.len() {
            v.value(Edge::Constant, *k.add(n));
        }
        v.buffer(children);
        if !children.is_null() {
            for n in 0..proto.protos.len() {
                v.pointer(Edge::Code, *children.add(n));
            }
        }
    }
}

/// The slots of a stack that are in use, those of the running frame included.
///
/// # Safety
/// A live coroutine of this state; if it runs, its frame is complete.
pub(crate) unsafe fn slots_in_use(lua: &State, th: *mut Thread) -> Span<*mut Value> {
    // SAFETY: the caller's promise; the running one's top is in the state.
    unsafe {
        let running = th == lua.thread;
        let (base, mut top) = if running { (lua.base, lua.top) } else { ((*th).base, (*th).top) };
        if !(*frame(base)).pc.is_null() && (*base.sub(CALL_GAP)).tag() == Tag::CLOSURE {
            top = top.max(crate::interp::frame_ceiling(base));
        }
        // A coroutine that is over may have a smaller stack than it had.
        (*th).stack..top.min((*th).stack.add((*th).stack_size))
    }
}

unsafe fn visit_thread(th: *mut Thread, v: &mut impl GraphVisitor) {
    // SAFETY: a live coroutine.
    unsafe {
        let Span { start: mut at, end: top } = slots_in_use(v.state(), th);
        let Thread {
            header: _,
            hook_mask: _,
            in_hook: _,
            started: _,
            tbc: _,
            stack,
            stack_size: _,
            base: _,
            top: _,
            open_upvals,
            resumer,
            native_stack: _,
            // The frames hold all that it refers to.
            standing: _,
            hook,
            hook_count: _,
            hook_left: _,
            failure,
            hook_pc: _,
            hook_looped: _,
            transfer_first: _,
            transfer_count: _,
            calls_below: _,
            handler_floor: _,
            handler_search: _,
            no_yield: _,
            depth: _,
            pcalls: _,
            closing: _,
            escaped: _,
            fiber: _,
        } = *th;
        v.buffer(stack);
        while at < top {
            v.value(Edge::Slot(at), *at);
            at = at.add(1);
        }
        v.unused_slots(th, top);
        let mut uv = open_upvals;
        while !uv.is_null() {
            v.pointer(Edge::OpenUpvalue, uv);
            uv = (*uv).closed.payload() as *mut Upval;
        }
        v.value(Edge::Hook, hook);
        v.value(Edge::Failure, failure.unwrap_or(Value::NIL));
        v.pointer(Edge::Resumer, resumer);
        crate::fiber::visit_fiber(th, v);
        if let Some((lo, hi)) = crate::native_stack::suspended_words(th) {
            v.words(lo, hi);
        }
    }
}

impl State {
    /// What is weak in tables with metatable `mt`; `None`: nothing.
    pub(crate) fn weakness(&mut self, mt: Gc<Table>) -> Option<Weak> {
        let mode = mt.get_str(self.roots.event_name(Event::Mode));
        let Some(s) = mode.as_string() else {
            if mode.is_nil() && !mt.is_in_island() {
                // SAFETY: this thread owns the heap.
                unsafe { (*mt.ptr()).absent |= 1 << Event::Mode as u8 };
            }
            return None;
        };
        let (keys, values) = (s.bytes().contains(&b'k'), s.bytes().contains(&b'v'));
        (keys || values).then_some(Weak { keys, values })
    }
}
