//! The heap's [`Client`]: how each kind of object is traced, the roots, weak tables, what the end of a cycle frees.

use super::{Old, Weak};
use crate::State;
use crate::call::DEEP;
use crate::frame::{CALL_GAP, frame};
use crate::meta::Event;
use crate::object::{LuaClosure, NativeClosure, Node, ProtoInst, Table, Thread, Upval, Userdata};
use crate::table::trace::{Range, WHOLE};
use crate::value::{Gc, Tag, Value};
use perilune_heap::{Client, Cycle, Marker, Mode, Obj};
use perilune_syntax::Proto;
use std::sync::Arc;

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

/// The state as the heap sees it.
pub(crate) struct LuaClient<'a> {
    pub lua: &'a mut State,
    pub mode: Mode,
}

/// Marks a value.
#[inline(always)]
fn mark_value(m: &mut Marker<'_>, v: Value) {
    if let Some(o) = v.obj() {
        // SAFETY: what a value that can be reached refers to is alive.
        unsafe { m.mark(o) };
    }
}

/// The header of the buffer whose storage starts at `p`.
unsafe fn buffer(p: *mut u8) -> Option<Obj> {
    // SAFETY: storage starts 8 bytes after the header.
    if p.is_null() { None } else { unsafe { Some(std::ptr::NonNull::new_unchecked(p.sub(8)).cast()) } }
}

/// Marks what is at `p`, unless that is null.
///
/// # Safety
/// There is an object of this heap, or of an island that it holds.
unsafe fn mark_ptr<T>(m: &mut Marker<'_>, p: *mut T) {
    if let Some(p) = std::ptr::NonNull::new(p) {
        // SAFETY: the caller's promise.
        unsafe { m.mark(p.cast()) };
    }
}

impl Client for LuaClient<'_> {
    unsafe fn trace(&mut self, obj: Obj, m: &mut Marker<'_>) {
        // SAFETY: the heap passes live, initialised objects; kinds tell layouts.
        unsafe {
            if m.is_verifying() {
                crate::canonical::check_object(self.lua, obj);
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

    unsafe fn fault(&self, obj: Obj) -> Option<String> {
        // SAFETY: the caller's promise: a table has a shape that is there.
        unsafe {
            if (*obj.as_ptr()).kind != Tag::TABLE.0 {
                return None;
            }
            self.lua.interned.shapes.unadopted((*obj.as_ptr().cast::<Table>()).shape)
        }
    }

    fn roots(&mut self, m: &mut Marker<'_>, cycle: Cycle) {
        // SAFETY: the Vm outlives the collection; everything but its heap may be read.
        unsafe {
            mark_ptr(m, self.lua.roots.main_thread);
            // Coroutines that run or wait for one that does change without a barrier.
            let main = self.lua.roots.main_thread;
            let mut th = self.lua.thread;
            let mut met_main = false;
            while !th.is_null() {
                m.trace_again(Gc::from_ptr(th).obj());
                met_main |= th == main;
                th = (*th).resumer;
            }
            if !met_main {
                m.trace_again(Gc::from_ptr(main).obj());
            }
            for th in self.lua.fibers.roots() {
                mark_ptr(m, th);
            }
            {
                let mut threads = Vec::new();
                let mut values = Vec::new();
                let mut ranges = Vec::new();
                self.lua.hosting.owners.scan_aside(
                    &mut |th| threads.push(th),
                    &mut |v| values.push(v),
                    &mut |lo, hi| ranges.push((lo, hi)),
                );
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
            mark_ptr(m, self.lua.roots.registry);
            mark_ptr(m, self.lua.roots.globals);
            mark_ptr(m, self.lua.roots.call_stub);
            self.lua.roots.kept.each(|v| mark_value(m, v));
            for &t in &self.lua.roots.type_metatables {
                mark_ptr(m, t);
            }
            for &t in &self.lua.crossing.shared_refs.metatables {
                mark_ptr(m, t);
            }
            if cycle == Cycle::Minor {
                // In a major, whether the function that one was made of is reachable decides (`converge`).
                self.lua.islands.functions.recent().iter().for_each(|&f| mark_value(m, f));
            }
            for &s in self.lua.roots.event_names.iter().chain(&self.lua.roots.status_names) {
                mark_ptr(m, s);
            }
            self.lua.crossing.parcel.trace(cycle == Cycle::Major, |o| {
                m.mark(o);
            });
            mark_value(m, self.lua.errors.value);
            for &v in &self.lua.gc.pending {
                mark_value(m, v);
            }
            self.lua.interned.shapes.trace(cycle == Cycle::Minor, |o| {
                m.mark(o);
            });
            self.lua.stacks.scan(&mut |lo, hi| {
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
                for (f, own) in self.lua.islands.functions.entries() {
                    if !is_dead(m, f)
                        && let Some(o) = own.obj()
                    {
                        any |= m.mark(o);
                    }
                }
            }
            let mut unsettled = std::mem::take(&mut self.lua.gc.unsettled);
            let mut settle = |n: *mut Node| {
                let key_alive = (*n).key().obj().is_none_or(|o| m.is_marked(o));
                if key_alive && let Some(o) = (*n).value().obj() {
                    any |= m.mark(o);
                }
                key_alive
            };
            unsettled.retain(|&n| !settle(n));
            let tables = &(&self.lua.gc.weak)[cycle as usize];
            for w in tables.get(self.lua.gc.searched..).unwrap_or(&[]) {
                if w.keys && !w.values {
                    (*w.table).ephemerons(w.range, |n| {
                        if !settle(n) {
                            unsettled.push(n);
                        }
                    });
                }
            }
            self.lua.gc.searched = tables.len();
            self.lua.gc.unsettled = unsettled;
        }
        any
    }

    fn finish(&mut self, m: &mut Marker<'_>, cycle: Cycle) {
        // SAFETY: as `roots`.
        unsafe {
            if cycle == Cycle::Major {
                // Ranges that are stored into again and again are traced each time. A minor collection meets each once.
                (&mut self.lua.gc.weak)[cycle as usize].sort_by_key(|w| (w.table, w.range));
                (&mut self.lua.gc.weak)[cycle as usize].dedup_by_key(|w| (w.table, w.range));
            }
            // Weak values go before finalisers resurrect anything.
            let before = (&self.lua.gc.weak)[cycle as usize].len();
            self.lua.gc.searched = before;
            for n in 0..before {
                let w = (&self.lua.gc.weak)[cycle as usize][n];
                if w.values {
                    let weak = crate::table::trace::Weak { keys: false, values: true };
                    (*w.table).clear_weak(weak, w.range, |v| is_dead(m, v));
                }
            }
            // Objects to be finalised: unmarked ones leave the list, last registered first.
            let from = match cycle {
                // The entries of the outside are not touched.
                Cycle::Minor if m.is_scope_end() => self.lua.gc.scope.lists,
                Cycle::Minor => self.lua.gc.old,
                Cycle::Major => Old::default(),
            };
            let mut dead = Vec::new();
            if cycle == Cycle::Minor && self.mode == Mode::Incremental {
                // Finalisers run at the end of a cycle: programs wait for one to know that everything dead is gone.
                let registered: &[Value] = &self.lua.gc.finalizable;
                for &v in registered.iter().skip(from.finalizable) {
                    mark_value(m, v);
                }
                m.drain(self);
                while self.converge(m, cycle) {
                    m.drain(self);
                }
            } else {
                retain_from(&mut self.lua.gc.finalizable, from.finalizable, |v| {
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
                dead.append(&mut self.lua.gc.pending);
                self.lua.gc.pending = dead;
                m.drain(self);
                while self.converge(m, cycle) {
                    m.drain(self);
                }
            }
            // A dead coroutine with native calls in it lives until these have been made to return.
            let mut n = 0;
            while let Some(&th) = {
                let segments = &self.lua.gc.segments;
                segments.get(n)
            } {
                if !m.is_marked(Gc::from_ptr(th).obj()) {
                    m.mark(Gc::from_ptr(th).obj());
                    let cancelled = &mut self.lua.gc.cancelled;
                    cancelled.push(th);
                }
                n += 1;
            }
            for &th in &self.lua.gc.cancelled {
                m.mark(Gc::from_ptr(th).obj());
            }
            m.drain(self);
            while self.converge(m, cycle) {
                m.drain(self);
            }
            let weak = std::mem::take(&mut (&mut self.lua.gc.weak)[cycle as usize]);
            (&mut self.lua.gc.weak_seen)[cycle as usize].clear();
            if cycle == Cycle::Minor {
                (&mut self.lua.gc.weak)[Cycle::Major as usize]
                    .retain(|w| m.is_marked(Gc::from_ptr(w.table).obj()));
            }
            let disturbed = u32::from(!weak.is_empty());
            self.lua.gc.disturbances = self.lua.gc.disturbances.wrapping_add(disturbed);
            for (n, w) in weak.iter().enumerate() {
                // With weak keys only, what may be dead is known.
                let weak =
                    crate::table::trace::Weak { keys: w.keys && w.values, values: w.values && n >= before };
                if weak.keys || weak.values {
                    (*w.table).clear_weak(weak, w.range, |v| is_dead(m, v));
                }
            }
            self.lua.gc.searched = 0;
            for n in std::mem::take(&mut self.lua.gc.unsettled) {
                if is_dead(m, (*n).key()) {
                    (*n).set_value(Value::NIL);
                }
            }
            // At a scope's end, what is young stays young.
            let ageing = !m.is_scope_end();
            let scope = self.lua.gc.scope;
            match cycle {
                Cycle::Minor if !ageing => {
                    self.lua.interned.strings.sweep_scope(scope.strings, |o| m.is_marked(o))
                }
                Cycle::Minor => self
                    .lua
                    .interned
                    .strings
                    .sweep_minor(|o| m.is_marked(o), |o| m.is_object(o) && m.is_marked(o)),
                Cycle::Major => self
                    .lua
                    .interned
                    .strings
                    .sweep_major(|o| m.is_marked(o), |o| m.is_object(o) && m.is_marked(o)),
            }
            self.lua.caches.shared.clear();
            self.lua.caches.drained.forget();
            self.lua.islands.lookups.collected(cycle == Cycle::Major);
            if cycle == Cycle::Major {
                self.lua.islands.scratch.collected();
            }
            if ageing {
                self.lua.interned.shapes.collected();
            }
            self.lua.crossing.parcel.collected(cycle == Cycle::Major, ageing, |o| m.is_marked(o));
            let alive = |f: Value| !is_dead(m, f);
            if ageing {
                self.lua.islands.functions.collected((cycle == Cycle::Major).then_some(&alive));
            }
            // Native resources of the dead.
            let mut freed = 0isize;
            retain_from(&mut self.lua.gc.protos, from.protos, |i| {
                let keep = m.is_marked(Gc::from_ptr(i).obj());
                if !keep {
                    freed += (*(*i).proto).heap_bytes() as isize;
                    self.lua.crossing.parcel.forget_instance(i, (*i).proto as usize);
                    drop(Arc::from_raw((*i).proto));
                    self.lua.machine.forget_instance(i);
                }
                keep
            });
            self.lua.machine.bury(|| self.lua.stacks.running.in_use());
            retain_from(&mut self.lua.gc.userdata, from.userdata, |u| {
                let keep = m.is_marked(Gc::from_ptr(u).obj());
                if !keep && !(*u).data.is_null() {
                    drop(Box::from_raw((*u).data));
                }
                keep
            });
            retain_from(&mut self.lua.gc.deep, 0, |th| m.is_marked(Gc::from_ptr(th).obj()));
            self.lua.gc.stacks_due |= cycle == Cycle::Major;
            let common = self.lua.crossing.shared_refs.sweep(
                (cycle == Cycle::Minor).then_some(scope.shared_refs).filter(|_| !ageing),
                cycle == Cycle::Minor,
                |r| m.is_marked(Gc::from_ptr(r).obj()),
            );
            let lists = &mut self.lua.gc;
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
            if cycle == Cycle::Major || self.lua.gc.flagged_young {
                self.lua.proto_version = self.lua.proto_version.wrapping_add(1);
                self.lua.gc.flagged_young &= !ageing;
            }
            m.drain(self);
        }
    }
}

/// Whether nothing strong refers to `v`. Strings count as values and are never asked about.
fn is_dead(m: &Marker<'_>, v: Value) -> bool {
    // SAFETY: what the state remembers is told when a collection has freed it, not before.
    v.obj().is_some_and(|o| unsafe { !m.is_marked(o) })
}

impl LuaClient<'_> {
    /// What is weak in `t`: (keys, values); `None`: nothing.
    unsafe fn weakness_of(&mut self, t: *mut Table) -> Option<(bool, bool)> {
        // SAFETY: a live table and its metatable.
        unsafe {
            let meta = (*t).metatable;
            // What is frozen is never cleared.
            if meta.is_null() || (*meta).absent & (1 << Event::Mode as u8) != 0 || (*t).is_frozen() {
                return None;
            }
            self.lua.weakness(Gc::from_ptr(meta))
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
                let seen = &mut (&mut self.lua.gc.weak_seen)[cycle];
                if if range == WHOLE { !seen.insert(t) } else { seen.contains(&t) } {
                    return;
                }
                (&mut self.lua.gc.weak)[cycle].push(Weak { table: t, range, keys, values });
            }
            (*t).trace_weak(crate::table::trace::Weak { keys, values }, range, &mut |o| {
                m.mark(o);
            });
        }
    }

    unsafe fn trace_thread(&mut self, th: *mut Thread, m: &mut Marker<'_>) {
        // SAFETY: a live thread; the running one's top is in the Vm.
        unsafe {
            let running = th == self.lua.thread;
            let (base, mut top) =
                if running { (self.lua.base, self.lua.top) } else { ((*th).base, (*th).top) };
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
                if (*th).stack_size > DEEP {
                    m.note_rescan((*th).stack_size * size_of::<Value>());
                }
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
            crate::segment::scan_suspended(th, &mut |lo, hi| {
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

impl State {
    /// What is weak in tables with metatable `mt`: (keys, values); `None`: nothing.
    pub(crate) fn weakness(&mut self, mt: Gc<Table>) -> Option<(bool, bool)> {
        let mode = mt.get_str(self.roots.event_name(Event::Mode));
        let Some(s) = mode.as_string() else {
            if mode.is_nil() && !mt.is_in_island() {
                // SAFETY: this thread owns the heap.
                unsafe { (*mt.ptr()).absent |= 1 << Event::Mode as u8 };
            }
            return None;
        };
        let (k, v) = (s.bytes().contains(&b'k'), s.bytes().contains(&b'v'));
        if k || v { Some((k, v)) } else { None }
    }
}
