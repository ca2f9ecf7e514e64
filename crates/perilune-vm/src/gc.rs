//! What the heap needs to know about Lua: how to trace each kind, the roots, weak tables, ephemerons, finalisers, native resources.
//!
//! # The client
//! [`LuaClient`] is the state as the heap's [`Client`] sees it: a raw pointer to the `Vm`, whose `heap` field the heap itself holds at the
//! time. The client therefore touches every field but `heap`.
//!
//! # Stacks
//! Every slot of a stack from its bottom to its top is marked; every slot above is set to nil. So a slot never holds a reference that a collection did
//! not see, however stale it is, and registers need no clearing on entry. A coroutine that did not run since the last collection has not changed: resuming one logs it.
//! Native stacks are scanned conservatively.
//!
//! # Weak tables and ephemerons (manual 2.5.4)
//! A table whose metatable has `__mode` is traced only for what it holds strongly and put on a list for the rest of the cycle: ephemerons are looked at again until
//! nothing new is marked, dead weak values are cleared before finalisers mark what they resurrect, dead weak keys after. In a minor collection an old weak table
//! takes part only if it was logged, a large one with the parts that were: the rest holds nothing young.
//!
//! # Finalisers (manual 2.5.3)
//! Objects are registered when they get a metatable with `__gc`, and listed in that order. When one is found dead it moves to the queue of those
//! to be finalised, in reverse order, is marked again with all it reaches, and its finaliser runs at the safepoint after the collection.

use crate::Vm;
use crate::frame::{CALL_GAP, F_FIN, frame};
use crate::meta::Event;
use crate::native::LuaResult;
use crate::object::{
    LuaClosure, NativeClosure, Node, ProtoInst, TABLE_FINALIZE, Table, Thread, Upval, Userdata,
};
use crate::table::trace::{Range, WHOLE};
use crate::value::{Gc, Tag, Value};
use perilune_heap::{Client, Cycle, Marker, Mode, Obj};
use perilune_syntax::Proto;
use perilune_trace::event::{self, Bytes, Count, Ns, Stack};
use perilune_trace::{Category, emit, on};
use std::collections::HashSet;
use std::sync::Arc;

/// Nanoseconds of a step after which a trace gets to know where the program was.
const LONG_PAUSE: u64 = 250_000;

/// The collector's Lua-side state.
#[derive(Default)]
pub(crate) struct GcState {
    /// Lengths of the parts of `protos`, `userdata` and `finalizable` that have survived a collection: minor ones look behind them.
    old: Old,
    /// The scope that is being ended.
    pub scope: ScopeStart,
    /// Instances that own a strong count of their prototype.
    pub protos: Vec<*mut ProtoInst>,
    /// Userdata that own a Rust value.
    pub userdata: Vec<*mut Userdata>,
    /// Objects with a finaliser, in the order of registration.
    pub finalizable: Vec<Value>,
    /// Dead objects whose finaliser is still to be called, last one first.
    pub pending: Vec<Value>,
    /// A table was flagged `TABLE_IS_PROTO` since the last collection.
    pub flagged_young: bool,
    /// Coroutines that own a native stack.
    pub segments: Vec<*mut Thread>,
    /// Running finalisers: none is started inside another.
    pub finalizing: bool,
    /// Unreachable coroutines whose native calls are to be discarded.
    pub cancelled: Vec<*mut Thread>,
    /// Weak tables seen in the running minor collection, and in the running major: a minor may come between a major's slices.
    weak: [Vec<Weak>; 2],
    /// While the program is stopped at the end of a cycle: how many of those tables have been searched for ephemerons.
    searched: usize,
    /// And the entries found in them whose key was not marked.
    unsettled: Vec<*mut Node>,
    /// Weak tables traced since the program stopped for this step, by cycle: once is enough, nothing changes meanwhile.
    weak_seen: [HashSet<*mut Table>; 2],
}

/// Lengths of lists when a scope began: what its end looks at lies behind them.
#[derive(Clone, Copy, Default)]
pub(crate) struct ScopeStart {
    lists: Old,
    shared_refs: usize,
    strings: usize,
}

#[derive(Clone, Copy, Default)]
struct Old {
    protos: usize,
    userdata: usize,
    finalizable: usize,
}

/// Keeps the entries behind the first `from` that `keep` wants, in their order.
fn retain_from<T: Copy>(list: &mut Vec<T>, from: usize, mut keep: impl FnMut(T) -> bool) {
    let mut to = from;
    for at in from..list.len() {
        if keep(list[at]) {
            list[to] = list[at];
            to += 1;
        }
    }
    list.truncate(to);
}

#[derive(Clone, Copy)]
struct Weak {
    table: *mut Table,
    /// The part of the table that may hold what can die.
    range: Range,
    keys: bool,
    values: bool,
}

/// The state as the heap sees it.
pub(crate) struct LuaClient {
    vm: *mut Vm,
    mode: Mode,
}

/// Marks a value.
#[inline(always)]
fn mark_value(m: &mut Marker<'_>, v: Value) {
    if let Some(o) = v.obj() {
        m.mark(o);
    }
}

/// The header of the buffer whose storage starts at `p`.
unsafe fn buffer(p: *mut u8) -> Option<Obj> {
    // SAFETY: storage starts 8 bytes after the header.
    if p.is_null() { None } else { unsafe { Some(std::ptr::NonNull::new_unchecked(p.sub(8)).cast()) } }
}

fn mark_ptr<T>(m: &mut Marker<'_>, p: *mut T) {
    if let Some(p) = std::ptr::NonNull::new(p) {
        m.mark(p.cast());
    }
}

impl Client for LuaClient {
    unsafe fn trace(&mut self, obj: Obj, m: &mut Marker<'_>) {
        // SAFETY: the heap passes live, initialised objects; kinds tell layouts.
        unsafe {
            if m.is_verifying() {
                crate::canonical::check_object(self.vm, obj);
            }
            let p = obj.as_ptr();
            match Tag((*p).kind) {
                Tag::TABLE => self.trace_table(p as *mut Table, 0, m),
                Tag::CLOSURE => {
                    let c = p as *mut LuaClosure;
                    mark_ptr(m, (*c).proto);
                    let upvals = &raw const (*c).upvals as *const *mut Upval;
                    for n in 0..(*(*c).proto).num_upvalues as usize {
                        mark_ptr(m, *upvals.add(n));
                    }
                }
                Tag::UPVAL => {
                    let u = p as *mut Upval;
                    let owner = (*u).owner();
                    mark_ptr(m, owner.unwrap_or(std::ptr::null_mut()));
                    // The variable of an open upvalue is a register of a coroutine, which accounts for it whoever stores there: by being
                    // traced in each collection while it runs, by the log of `switch_to` when it stops, by that of `barrier_upvalue` while
                    // it is suspended. Its function's own stores pass the upvalue by, so the verifier, which asks of each object that
                    // it was told of its newborns, must ask the coroutine (`trace_thread`) and not the upvalue. That is no gap: the upvalue
                    // keeps the coroutine alive, and became old no earlier than it, since tracing the one marks the other.
                    if owner.is_none() || !m.is_verifying() {
                        mark_value(m, *(*u).v);
                    }
                }
                Tag::NATIVE_CLOSURE => {
                    let c = p as *mut NativeClosure;
                    let v = &raw const (*c).upvals as *const Value;
                    for n in 0..(*c).num_upvalues as usize {
                        mark_value(m, *v.add(n));
                    }
                }
                Tag::USERDATA => {
                    let u = p as *mut Userdata;
                    mark_ptr(m, (*u).metatable);
                    let v = &raw const (*u).user_values as *const Value;
                    for n in 0..(*u).num_user_values as usize {
                        mark_value(m, *v.add(n));
                    }
                }
                Tag::PROTO => {
                    let i = p as *mut ProtoInst;
                    let proto: &Proto = &*(*i).proto;
                    let start = (*i).k.sub((*i).ic_slots as usize);
                    if let Some(b) = buffer(start as *mut u8) {
                        m.mark(b);
                    }
                    for n in 0..proto.constants.len() {
                        mark_value(m, *(*i).k.add(n));
                    }
                    if let Some(b) = buffer((*i).children as *mut u8) {
                        m.mark(b);
                        for n in 0..proto.protos.len() {
                            mark_ptr(m, *(*i).children.add(n));
                        }
                    }
                }
                Tag::THREAD => self.trace_thread(p as *mut Thread, m),
                _ => {}
            }
        }
    }

    unsafe fn trace_part(&mut self, obj: Obj, at: usize, m: &mut Marker<'_>) {
        // SAFETY: only tables are traced in portions.
        unsafe { self.trace_table(obj.as_ptr() as *mut Table, at, m) }
    }

    unsafe fn trace_range(&mut self, owner: Obj, lo: usize, hi: usize, m: &mut Marker<'_>) {
        let t = owner.as_ptr() as *mut Table;
        // SAFETY: only tables report stores by address.
        unsafe {
            match self.weakness_of(t) {
                Some((keys, values)) => self.trace_weak(t, keys, values, (lo, hi), m),
                None => (*t).trace_range(lo, hi, &mut |o| {
                    m.mark(o);
                }),
            }
        }
    }

    fn owns_epoch(&self, kind: u8) -> bool {
        // `island/lookups.rs` keeps numbers there.
        kind == Tag::STRING.0
    }

    fn roots(&mut self, m: &mut Marker<'_>, cycle: Cycle) {
        // SAFETY: the Vm outlives the collection; everything but its heap may be read.
        unsafe {
            let vm = self.vm;
            mark_ptr(m, (*vm).main_thread);
            // Coroutines that run or wait for one that does change without a barrier.
            let mut th = (*vm).thread;
            while !th.is_null() {
                m.trace_again(Gc::from_ptr(th).obj());
                th = (*th).resumer;
            }
            m.trace_again(Gc::from_ptr((*vm).main_thread).obj());
            for th in (*vm).fiber_roots() {
                mark_ptr(m, th);
            }
            {
                let mut threads = Vec::new();
                let mut values = Vec::new();
                let mut ranges = Vec::new();
                (*vm).scan_aside(&mut |th| threads.push(th), &mut |v| values.push(v), &mut |lo, hi| {
                    ranges.push((lo, hi))
                });
                for th in threads {
                    if !th.is_null() {
                        m.trace_again(Gc::from_ptr(th).obj());
                    }
                }
                for v in values {
                    mark_value(m, v);
                }
                for (lo, hi) in ranges {
                    m.mark_conservative_range(lo as *const u8, hi as *const u8);
                }
            }
            mark_ptr(m, (*vm).registry);
            mark_ptr(m, (*vm).globals);
            mark_ptr(m, (*vm).call_stub);
            for &t in &(*vm).type_metatables {
                mark_ptr(m, t);
            }
            for &t in &(*vm).shared_refs.metatables {
                mark_ptr(m, t);
            }
            if cycle == Cycle::Minor {
                // In a major, whether the function that one was made of is reachable decides (`converge`).
                (*vm).functions.recent().iter().for_each(|&f| mark_value(m, f));
            }
            for &s in &(*vm).event_names {
                mark_ptr(m, s);
            }
            (*vm).parcel.trace(|o| {
                m.mark(o);
            });
            mark_value(m, (*vm).errors.value);
            for &v in &(*vm).gc.pending {
                mark_value(m, v);
            }
            (*vm).shapes.trace(cycle == Cycle::Minor, |o| {
                m.mark(o);
            });
            (*vm).scan_native_stacks(&mut |lo, hi| {
                let mut at = lo & !7;
                while at < hi {
                    // SAFETY: a range of a live native stack.
                    m.mark_conservative(perilune_heap::stack_word(at));
                    at += 8;
                }
            });
        }
    }

    fn converge(&mut self, m: &mut Marker<'_>, cycle: Cycle) -> bool {
        let mut any = false;
        // SAFETY: as `roots`; the list is not changed by marking keys and values of its tables, which stay as they are while the program is stopped.
        unsafe {
            if cycle == Cycle::Major {
                for (f, own) in (*self.vm).functions.entries() {
                    if !is_dead(m, f)
                        && let Some(o) = own.obj()
                    {
                        any |= m.mark(o);
                    }
                }
            }
            let mut unsettled = std::mem::take(&mut (*self.vm).gc.unsettled);
            let mut settle = |n: *mut Node| {
                let key_alive = (*n).key().obj().is_none_or(|o| m.is_marked(o));
                if key_alive && let Some(o) = (*n).value().obj() {
                    any |= m.mark(o);
                }
                key_alive
            };
            unsettled.retain(|&n| !settle(n));
            let tables = &(&(*self.vm).gc.weak)[cycle as usize];
            for w in tables.get((*self.vm).gc.searched..).unwrap_or(&[]) {
                if w.keys && !w.values {
                    (*w.table).ephemerons(w.range, |n| {
                        if !settle(n) {
                            unsettled.push(n);
                        }
                    });
                }
            }
            (*self.vm).gc.searched = tables.len();
            (*self.vm).gc.unsettled = unsettled;
        }
        any
    }

    fn finish(&mut self, m: &mut Marker<'_>, cycle: Cycle) {
        // SAFETY: as `roots`.
        unsafe {
            let vm = self.vm;
            (&mut (*vm).gc.weak)[cycle as usize].sort_by_key(|w| (w.table, w.range));
            (&mut (*vm).gc.weak)[cycle as usize].dedup_by_key(|w| (w.table, w.range));
            // Weak values go before finalisers resurrect anything.
            let before = (&(*vm).gc.weak)[cycle as usize].len();
            (*vm).gc.searched = before;
            for n in 0..before {
                let w = (&(*vm).gc.weak)[cycle as usize][n];
                if w.values {
                    let weak = crate::table::trace::Weak { keys: false, values: true };
                    (*w.table).clear_weak(weak, w.range, |v| is_dead(m, v));
                }
            }
            // Objects to be finalised: unmarked ones leave the list, last registered first.
            let from = match cycle {
                // The entries of the outside are not touched.
                Cycle::Minor if m.is_scope_end() => (*vm).gc.scope.lists,
                Cycle::Minor => (*vm).gc.old,
                Cycle::Major => Old::default(),
            };
            let mut dead = Vec::new();
            if cycle == Cycle::Minor && self.mode == Mode::Incremental {
                // Finalisers run at the end of a cycle: programs wait for one to know that everything dead is gone.
                let registered: &[Value] = &(*vm).gc.finalizable;
                for &v in registered.iter().skip(from.finalizable) {
                    mark_value(m, v);
                }
                m.drain(self);
                while self.converge(m, cycle) {
                    m.drain(self);
                }
            } else {
                retain_from(&mut (*vm).gc.finalizable, from.finalizable, |v| {
                    let alive = v.obj().is_some_and(|o| m.is_marked(o));
                    if !alive {
                        dead.push(v);
                    }
                    alive
                });
            }
            if !dead.is_empty() {
                for &v in &dead {
                    mark_value(m, v);
                }
                // Called from the end: the queue's older entries first, then these, last registered first.
                dead.append(&mut (*vm).gc.pending);
                (*vm).gc.pending = dead;
                m.drain(self);
                while self.converge(m, cycle) {
                    m.drain(self);
                }
            }
            // A dead coroutine with native calls in it lives until these have been made to return.
            let mut n = 0;
            while let Some(&th) = {
                let segments = &(*vm).gc.segments;
                segments.get(n)
            } {
                if !m.is_marked(Vm::thread_obj(th)) {
                    m.mark(Vm::thread_obj(th));
                    let cancelled = &mut (*vm).gc.cancelled;
                    cancelled.push(th);
                }
                n += 1;
            }
            for &th in &(*vm).gc.cancelled {
                m.mark(Vm::thread_obj(th));
            }
            m.drain(self);
            while self.converge(m, cycle) {
                m.drain(self);
            }
            let weak = std::mem::take(&mut (&mut (*vm).gc.weak)[cycle as usize]);
            (&mut (*vm).gc.weak_seen)[cycle as usize].clear();
            if cycle == Cycle::Minor {
                (&mut (*vm).gc.weak)[Cycle::Major as usize]
                    .retain(|w| m.is_marked(Gc::from_ptr(w.table).obj()));
            }
            for (n, w) in weak.iter().enumerate() {
                // With weak keys only, what may be dead is known.
                let weak =
                    crate::table::trace::Weak { keys: w.keys && w.values, values: w.values && n >= before };
                if weak.keys || weak.values {
                    (*w.table).clear_weak(weak, w.range, |v| is_dead(m, v));
                }
            }
            (*vm).gc.searched = 0;
            for n in std::mem::take(&mut (*vm).gc.unsettled) {
                if is_dead(m, (*n).key()) {
                    (*n).set_value(Value::NIL);
                }
            }
            // At a scope's end, what is young stays young.
            let ageing = !m.is_scope_end();
            let scope = (*vm).gc.scope;
            match cycle {
                Cycle::Minor if !ageing => (*vm).strings.sweep_scope(scope.strings, |o| m.is_marked(o)),
                Cycle::Minor => {
                    (*vm).strings.sweep_minor(|o| m.is_marked(o), |o| m.is_object(o) && m.is_marked(o))
                }
                Cycle::Major => {
                    (*vm).strings.sweep_major(|o| m.is_marked(o), |o| m.is_object(o) && m.is_marked(o))
                }
            }
            (*vm).shared.clear();
            (*vm).drained.forget();
            (*vm).lookups.collected(cycle == Cycle::Major);
            if cycle == Cycle::Major {
                (*vm).scratch.collected();
            }
            if ageing {
                (*vm).shapes.collected();
            }
            (*vm).parcel.collected(cycle == Cycle::Major);
            let alive = |f: Value| !is_dead(m, f);
            if ageing {
                (*vm).functions.collected((cycle == Cycle::Major).then_some(&alive));
            }
            // Native resources of the dead.
            let mut freed = 0isize;
            retain_from(&mut (*vm).gc.protos, from.protos, |i| {
                let keep = m.is_marked(Gc::from_ptr(i).obj());
                if !keep {
                    freed += (*(*i).proto).heap_bytes() as isize;
                    (*vm).parcel.forget_instance(i, (*i).proto as usize);
                    drop(Arc::from_raw((*i).proto));
                }
                keep
            });
            retain_from(&mut (*vm).gc.userdata, from.userdata, |u| {
                let keep = m.is_marked(Gc::from_ptr(u).obj());
                if !keep && !(*u).data.is_null() {
                    drop(Box::from_raw((*u).data));
                }
                keep
            });
            let common = (*vm).shared_refs.sweep(
                (cycle == Cycle::Minor).then_some(scope.shared_refs).filter(|_| !ageing),
                cycle == Cycle::Minor,
                |r| m.is_marked(Gc::from_ptr(r).obj()),
            );
            let lists = &mut (*vm).gc;
            if ageing {
                lists.old = Old {
                    protos: lists.protos.len(),
                    userdata: lists.userdata.len(),
                    finalizable: lists.finalizable.len(),
                };
            }
            m.charge_external(-freed);
            m.charge_common(-common);
            // An address may be used again: caches that compare addresses are stale.
            if cycle == Cycle::Major || (*vm).gc.flagged_young {
                (*vm).proto_version = (*vm).proto_version.wrapping_add(1);
                (*vm).gc.flagged_young &= !ageing;
            }
            m.drain(self);
        }
    }
}

/// Whether nothing strong refers to `v`. Strings count as values and are never asked about.
fn is_dead(m: &Marker<'_>, v: Value) -> bool {
    v.obj().is_some_and(|o| !m.is_marked(o))
}

impl LuaClient {
    /// What is weak in `t`: (keys, values); `None`: nothing.
    unsafe fn weakness_of(&mut self, t: *mut Table) -> Option<(bool, bool)> {
        // SAFETY: a live table and its metatable.
        unsafe {
            let meta = (*t).metatable;
            if meta.is_null() || (*meta).absent & (1 << Event::Mode as u8) != 0 {
                return None;
            }
            (*self.vm).weakness(Gc::from_ptr(meta))
        }
    }

    /// Traces a table from portion `at` on.
    unsafe fn trace_table(&mut self, t: *mut Table, at: usize, m: &mut Marker<'_>) {
        // SAFETY: a live table.
        unsafe {
            if let Some((keys, values)) = self.weakness_of(t) {
                return self.trace_weak(t, keys, values, WHOLE, m);
            }
            // Most tables have neither elements nor a hash part to look at.
            if at == 0
                && (*t).trace_record(&mut |o| {
                    m.mark(o);
                })
            {
                return;
            }
            let next = (*t).trace_portion(at, &mut |o| {
                m.mark(o);
            });
            if let Some(next) = next {
                m.trace_later(Gc::from_ptr(t).obj(), next);
            }
        }
    }

    /// Traces what a table with weak references, stored into in `range`, holds strongly, and lists it for the end of the cycle.
    unsafe fn trace_weak(
        &mut self,
        t: *mut Table,
        keys: bool,
        values: bool,
        range: Range,
        m: &mut Marker<'_>,
    ) {
        // SAFETY: a live table.
        unsafe {
            let cycle = m.cycle() as usize;
            if !m.is_verifying() {
                let seen = &mut (&mut (*self.vm).gc.weak_seen)[cycle];
                if if range == WHOLE { !seen.insert(t) } else { seen.contains(&t) } {
                    return;
                }
                (&mut (*self.vm).gc.weak)[cycle].push(Weak { table: t, range, keys, values });
            }
            (*t).trace_weak(crate::table::trace::Weak { keys, values }, range, &mut |o| {
                m.mark(o);
            });
        }
    }

    unsafe fn trace_thread(&mut self, th: *mut Thread, m: &mut Marker<'_>) {
        // SAFETY: a live thread; the running one's top is in the Vm.
        unsafe {
            let running = th == (*self.vm).thread;
            let (base, mut top) =
                if running { ((*self.vm).base, (*self.vm).top) } else { ((*th).base, (*th).top) };
            let f = frame(base);
            if !(*f).pc.is_null() && (*base.sub(CALL_GAP)).tag() == Tag::CLOSURE {
                let ceiling = crate::interp::frame_ceiling(base);
                if top < ceiling {
                    top = ceiling;
                }
            }
            if let Some(b) = buffer((*th).stack as *mut u8) {
                m.mark(b);
            }
            let end = (*th).stack.add((*th).stack_size);
            let top = top.min(end);
            let mut at = (*th).stack;
            while at < top {
                mark_value(m, *at);
                at = at.add(1);
            }
            if !m.is_verifying() {
                // Stale slots: see the module's essay.
                std::ptr::write_bytes(top as *mut u8, 0, end.offset_from(top) as usize * size_of::<Value>());
            }
            let mut uv = (*th).open_upvals;
            while !uv.is_null() {
                mark_ptr(m, uv);
                uv = (*uv).closed.payload() as *mut Upval;
            }
            mark_value(m, (*th).hook);
            mark_value(m, (*th).failure.unwrap_or(Value::NIL));
            mark_ptr(m, (*th).resumer);
            {
                let mut mark = |v: Value| {
                    if let Some(o) = v.obj() {
                        m.mark(o);
                    }
                };
                let mut threads = [std::ptr::null_mut(); 2];
                let mut count = 0;
                crate::fiber::trace_fiber(
                    th,
                    &mut |t| {
                        threads[count] = t;
                        count += 1;
                    },
                    &mut mark,
                );
                for t in threads {
                    mark_ptr(m, t);
                }
            }
            if m.is_verifying() {
                // What is left is the native stack of a suspended coroutine. Its words do not change until it is resumed, which
                // logs it: whatever they referred to when it stopped was marked then and is old. But a word that was no reference
                // may since have become the address of a newborn, for which the coroutine need not be logged, since it
                // will never use it. The verifier would take that for a store nobody was told of.
                return;
            }
            (*self.vm).scan_segment(th, &mut |lo, hi| {
                let mut at = lo & !7;
                while at < hi {
                    // SAFETY: a range of the coroutine's suspended native stack.
                    m.mark_conservative(perilune_heap::stack_word(at));
                    at += 8;
                }
            });
        }
    }
}

impl Vm {
    /// What is weak in tables with metatable `mt`: (keys, values); `None`: nothing.
    pub(crate) fn weakness(&mut self, mt: Gc<Table>) -> Option<(bool, bool)> {
        let mode = self.raw_get_str(mt, self.event_name(Event::Mode));
        let Some(s) = mode.as_string() else {
            if mode.is_nil() && !mt.is_frozen() {
                // SAFETY: this thread owns the heap.
                unsafe { (*mt.ptr()).absent |= 1 << Event::Mode as u8 };
            }
            return None;
        };
        let (k, v) = (s.bytes().contains(&b'k'), s.bytes().contains(&b'v'));
        if k || v { Some((k, v)) } else { None }
    }

    /// Lists `v` for finalisation, once.
    pub(crate) fn register_finalizer(&mut self, v: Value) {
        let Some(o) = v.obj() else { return };
        // SAFETY: a live object; its client flags belong to this thread.
        unsafe {
            let h = o.as_ptr();
            if (*h).flags & TABLE_FINALIZE == 0 {
                (*h).flags |= TABLE_FINALIZE;
                self.gc.finalizable.push(v);
            }
        }
    }

    /// The lengths of the collector's lists now, for a scope that begins.
    #[inline]
    pub(crate) fn scope_start(&self) -> ScopeStart {
        let lists = Old {
            protos: self.gc.protos.len(),
            userdata: self.gc.userdata.len(),
            finalizable: self.gc.finalizable.len(),
        };
        ScopeStart { lists, shared_refs: self.shared_refs.len(), strings: self.strings.count_in_scope() }
    }

    /// A step of collection if one is due, then finalisers. The running frame must be complete: `base`, `top`, `pc` stored.
    pub(crate) fn safepoint(&mut self) -> LuaResult<()> {
        if self.heap.gc_due() { self.collect_due() } else { Ok(()) }
    }

    /// As [`Vm::safepoint`], where what lies up to the top is still to be used: finalisers leave the top where it was.
    pub(crate) fn safepoint_open(&mut self) -> LuaResult<()> {
        if self.heap.gc_due() {
            // SAFETY: offsets into the running stack.
            let (top, depth) = unsafe { (self.top.offset_from((*self.thread).stack), self.thread) };
            self.collect_due()?;
            debug_assert!(depth == self.thread);
            // SAFETY: finalisers leave the stack as it was, though perhaps elsewhere.
            unsafe { self.top = (*self.thread).stack.offset(top) };
        }
        Ok(())
    }

    /// A safepoint in a native that has put something of others into this domain and can still put it back (a message, a value of a map): if memory
    /// does not suffice for it, the native learns it here, before it returns. Runs no Lua code: finalisers come at the next safepoint.
    ///
    /// # Errors
    /// "not enough memory"
    #[inline]
    pub fn settle(&mut self) -> LuaResult<()> {
        if self.heap.gc_due() || !self.heap.has_room(0) { self.settle_due() } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn settle_due(&mut self) -> LuaResult<()> {
        self.collect_memory();
        let result = self.check_memory();
        if !self.gc.pending.is_empty() {
            self.heap.make_due();
        }
        result
    }

    /// For a native that is going to take something of so many bytes: looks for room, with a complete collection if there is none. As [`Vm::settle`], runs
    /// no Lua code.
    ///
    /// # Errors
    /// "not enough memory"
    #[inline]
    pub fn ensure_room(&mut self, bytes: usize) -> LuaResult<()> {
        if self.heap.has_room(bytes) { Ok(()) } else { self.find_room(bytes) }
    }

    #[cold]
    #[inline(never)]
    fn find_room(&mut self, bytes: usize) -> LuaResult<()> {
        self.with_client(|heap, client| heap.collect_full(client));
        if !self.heap.has_room(bytes) && crate::cycles::collect() > 0 {
            self.with_client(|heap, client| heap.collect_full(client));
        }
        if !self.gc.pending.is_empty() {
            self.heap.make_due();
        }
        if self.heap.has_room(bytes) { Ok(()) } else { Err(self.out_of_memory()) }
    }

    #[cold]
    #[inline(never)]
    fn collect_due(&mut self) -> LuaResult<()> {
        self.collect_memory();
        self.check_memory()?;
        self.run_finalizers();
        Ok(())
    }

    /// As [`Vm::safepoint_open`], where an error has just been caught: if memory is short, the next safepoint says so.
    #[cold]
    pub(crate) fn safepoint_after_error(&mut self) {
        // SAFETY: offsets into the running stack.
        let top = unsafe { self.top.offset_from((*self.thread).stack) };
        self.collect_memory();
        self.run_finalizers();
        // SAFETY: finalisers leave the stack as it was, though perhaps elsewhere.
        unsafe { self.top = (*self.thread).stack.offset(top) };
    }

    /// The step that is due, and all that can be done if memory is short.
    fn collect_memory(&mut self) {
        self.with_client(|heap, client| heap.step(client));
        self.report_long_pause();
        crate::cycles::collect_if_due();
        if self.heap.over_limit() || self.heap.takes_full() {
            self.with_client(|heap, client| heap.collect_full(client));
            self.report_long_pause();
            if self.heap.over_limit() && crate::cycles::collect() > 0 {
                // What has been emptied may have been the last to hold islands that were made here.
                self.with_client(|heap, client| heap.collect_full(client));
            }
        }
    }

    /// After [`Vm::collect_memory`]: an error if memory is short all the same.
    fn check_memory(&mut self) -> LuaResult<()> {
        if self.heap.refuses() {
            emit(event::MemoryRefused { wanted: Bytes(0), alive: Bytes::from(self.heap.live_bytes()) });
            return Err(self.out_of_memory());
        }
        Ok(())
    }

    /// A complete collection, then finalisers.
    pub fn collect_full(&mut self) {
        self.trim_fibers();
        self.with_client(|heap, client| heap.collect_full(client));
        self.report_long_pause();
        crate::cycles::collect();
        self.run_finalizers();
    }

    /// If the step that has just ended took long, where the program was.
    #[inline]
    fn report_long_pause(&mut self) {
        let ns = self.heap.last_pause_ns();
        if ns >= LONG_PAUSE && on(Category::Gc) {
            let stack = self.event_stack();
            emit(event::PauseAt { stack: Stack(stack), pause: Ns(ns) });
        }
    }

    /// A step of collection as if `kb` KiB had been allocated; true if a cycle ended.
    pub fn collect_step(&mut self, kb: i64) -> bool {
        let bytes = (kb.max(0) as usize) << 10;
        if bytes > self.heap.live_bytes() * 4 {
            self.collect_full();
            return true;
        }
        let mut ended = false;
        self.with_client(|heap, client| ended = heap.step_cycle(client, bytes));
        self.run_finalizers();
        ended
    }

    /// A minor collection, then finalisers.
    pub fn collect_minor(&mut self) {
        self.with_client(|heap, client| heap.collect_minor(client));
        self.run_finalizers();
    }

    /// Checks the whole heap. The error says what is wrong.
    pub fn verify_heap(&mut self) -> Result<(), String> {
        let mut result = Ok(());
        self.with_client(|heap, client| result = heap.verify(client));
        result
    }

    #[inline(never)]
    pub(crate) fn with_client(&mut self, f: impl FnOnce(&mut perilune_heap::Heap, &mut LuaClient)) {
        let vm: *mut Vm = self;
        let outer = self.sampler.set_collecting(true);
        crate::segment::spill_registers(vm, |vm, _| {
            // SAFETY: as below.
            let mode = unsafe { (*vm).heap.params().mode };
            // SAFETY: as below.
            unsafe { (*vm).gc.weak_seen.iter_mut().for_each(HashSet::clear) };
            let mut client = LuaClient { vm, mode };
            // SAFETY: the client leaves `heap` alone (module essay).
            f(unsafe { &mut (*vm).heap }, &mut client);
        });
        self.sampler.set_collecting(outer);
    }

    /// Bytes in use.
    pub fn heap_bytes(&self) -> usize {
        self.heap.live_bytes()
    }

    /// Calls the finalisers of the objects found dead. An error in one is a warning.
    pub(crate) fn run_finalizers(&mut self) {
        if self.gc.finalizing || self.errors.is_discarding() {
            return;
        }
        self.cancel_dead_segments();
        if self.gc.pending.is_empty() {
            return;
        }
        self.gc.finalizing = true;
        emit(event::FinalizeBegin {});
        let mut count = 0;
        self.no_yield += 1;
        let outer = self.errors.set_aside();
        // SAFETY: the running frame is complete; what finalisers push goes above its ceiling.
        unsafe {
            let stack = (*self.thread).stack;
            let top = self.top.offset_from(stack);
            self.set_top_for_call();
            // The error that was on its way stays reachable.
            *self.top = outer.value;
            self.top = self.top.add(1);
            while let Some(v) = self.gc.pending.pop() {
                count += 1;
                if let Some(o) = v.obj() {
                    (*o.as_ptr()).flags &= !TABLE_FINALIZE;
                }
                let f = self.metamethod(v, Event::Gc);
                // Whatever it is: what cannot be called is an error, and so a warning.
                if !f.is_nil() {
                    self.finalize(f, v);
                }
            }
            self.top = (*self.thread).stack.offset(top);
        }
        self.errors = outer;
        self.no_yield -= 1;
        emit(event::FinalizeEnd { run: Count(count) });
        self.gc.finalizing = false;
    }

    fn finalize(&mut self, f: Value, v: Value) {
        if let Err(e) = self.protected_call_flagged(f, v) {
            let text = match e.as_string() {
                Some(s) => s.to_text(),
                None => "error object is not a string".to_string(),
            };
            self.warning(&format!("error in __gc ({text})"));
        }
    }

    fn protected_call_flagged(&mut self, f: Value, v: Value) -> Result<(), Value> {
        // SAFETY: offsets into the running stack.
        let top = unsafe { self.top.offset_from((*self.thread).stack) };
        // SAFETY: base is the running frame before and after, wherever the stack has moved. No hook sees a finaliser.
        unsafe {
            let in_hook = std::mem::replace(&mut (*self.thread).in_hook, true);
            (*frame(self.base)).flags |= F_FIN;
            let result = match self.protected_call(f, &[v]) {
                Ok(outcome) => outcome.map(|_| ()),
                // Nothing else reaches a finaliser: the state begins with nothing on its way, waits and cancellations wait until it is over.
                Err(thrown) => Err(self.host_error(thrown)),
            };
            (*frame(self.base)).flags &= !F_FIN;
            (*self.thread).in_hook = in_hook;
            self.top = (*self.thread).stack.offset(top);
            result
        }
    }

    /// Calls all finalisers that are left, in reverse order of registration (`lua_close`).
    pub fn close(&mut self) {
        self.gc.old.finalizable = 0;
        let mut all = std::mem::take(&mut self.gc.finalizable);
        all.append(&mut self.gc.pending);
        self.gc.pending = all;
        self.gc.finalizing = false;
        self.run_finalizers();
    }

    /// Drops what objects own outside the heap.
    pub(crate) fn release_native_resources(&mut self) {
        self.release_fibers();
        self.gc.cancelled = self.gc.segments.clone();
        self.cancel_dead_segments();
        // SAFETY: the state is going away; nothing reads these objects afterwards.
        unsafe {
            for i in self.gc.protos.drain(..) {
                drop(Arc::from_raw((*i).proto));
            }
            self.shared_refs.release();
            for u in self.gc.userdata.drain(..) {
                if !(*u).data.is_null() {
                    drop(Box::from_raw((*u).data));
                    (*u).data = std::ptr::null_mut();
                }
            }
        }
    }
}
