//! The heap's [`Client`]: what is marked of the object graph (`graph.rs`), weak tables, what the end of a
//! cycle frees.

use super::{Old, Weak};
use crate::State;
use crate::call::DEEP;
use crate::edge::{Edge, EdgeVisitor, Root, RootVisitor};
use crate::graph::{self, GraphVisitor, Which};
use crate::object::{Node, Table, Thread};
use crate::table::trace::{self as table, Range, WHOLE};
use crate::value::{Gc, Tag, Value};
use perilune_heap::{Client, Cycle, Marker, Mode, Obj};
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

/// Marks what it is told of.
struct Marking<'a, 'm> {
    lua: &'a mut State,
    m: &'a mut Marker<'m>,
}

impl EdgeVisitor for Marking<'_, '_> {
    #[inline(always)]
    fn edge(&mut self, edge: Edge, to: Obj) {
        // The variable of an open upvalue is a register of a coroutine, which accounts for it whoever stores
        // there: by being traced in each collection while it runs, by the log of `switch_to` when it stops,
        // by that of `barrier_upvalue` while it is suspended. Its function's own stores pass the upvalue by,
        // so the verifier, which asks of each object that it was told of its newborns, must ask the coroutine
        // and not the upvalue. That is no gap: the upvalue keeps the coroutine alive, and became old no
        // earlier than it, since tracing the one marks the other.
        if matches!(edge, Edge::OpenVariable) && self.m.is_verifying() {
            return;
        }
        // SAFETY: what an object that can be reached refers to is alive, in this heap or in an island that it
        // holds.
        unsafe { self.m.mark(to) };
    }

    /// In a minor collection nothing changes until its end, so what it has to look at again is known when the
    /// entry is met: most keys and values are old. (Marking the value here would be in vain where the marker
    /// forgets, since the table is not met again.) Between the slices of a major, entries move.
    #[inline(always)]
    fn mortal(&mut self, entry: *mut Node) {
        if self.m.cycle() != Cycle::Minor || self.m.is_verifying() {
            return;
        }
        // SAFETY: an entry of a table that can be reached.
        let (key, value) = unsafe { ((*entry).key(), (*entry).value()) };
        if is_dead(self.m, key) || is_dead(self.m, value) {
            self.lua.gc.unsettled.push(entry);
        }
    }

    fn words(&mut self, lo: usize, hi: usize) {
        // The words of a suspended native stack do not change until its coroutine is resumed, which logs it:
        // whatever they referred to when it stopped was marked then and is old. But a word that was no
        // reference may since have become the address of a newborn, for which the coroutine need not be
        // logged, since it will never use it. The verifier would take that for a store nobody was told of.
        if !self.m.is_verifying() {
            RootVisitor::words(self.m, lo, hi);
        }
    }

    fn unused_slots(&mut self, th: *mut Thread, top: *mut Value) {
        if self.m.is_verifying() {
            return;
        }
        // SAFETY: slots of a live coroutine's stack. Stale ones: see the module's essay.
        unsafe {
            let end = (*th).stack.add((*th).stack_size);
            std::ptr::write_bytes(top as *mut u8, 0, end.offset_from(top) as usize * size_of::<Value>());
            if (*th).stack_size > DEEP {
                self.m.note_rescan((*th).stack_size * size_of::<Value>());
            }
        }
    }
}

impl GraphVisitor for Marking<'_, '_> {
    #[inline(always)]
    fn state(&mut self) -> &mut State {
        self.lua
    }

    /// Lists the table for the end of the cycle, but where it is met again. Then it is not traced either,
    /// unless the marker has forgotten something: that may be what the table refers to.
    fn meets_weak(&mut self, t: *mut Table, weak: table::Weak, range: Range) -> bool {
        if self.m.is_verifying() {
            return true;
        }
        let cycle = self.m.cycle() as usize;
        let gc = &mut self.lua.gc;
        let seen = &mut gc.weak_seen[cycle];
        let is_new = if range == WHOLE { seen.insert(t) } else { !seen.contains(&t) };
        if is_new {
            let table::Weak { keys, values } = weak;
            // What may die of a table with weak keys is noted while it is traced (`mortal`).
            if values || cycle == Cycle::Major as usize {
                gc.weak[cycle].push(Weak { table: t, range, keys, values });
            }
        }
        is_new || self.m.finds_lost()
    }
}

impl RootVisitor for Marker<'_> {
    fn root(&mut self, _: Root, to: Obj) {
        // SAFETY: roots are alive.
        unsafe { self.mark(to) };
    }

    fn busy(&mut self, _: Root, th: Gc<Thread>) {
        // SAFETY: as above.
        unsafe { self.trace_again(th.obj()) };
    }

    fn words(&mut self, lo: usize, hi: usize) {
        // SAFETY: a native stack in use.
        unsafe { self.mark_conservative_range((lo & !7) as *const u8, hi.next_multiple_of(8) as *const u8) };
    }
}

impl Client for LuaClient<'_> {
    unsafe fn trace(&mut self, obj: Obj, m: &mut Marker<'_>) {
        // SAFETY: the heap passes live, initialised objects of its own.
        unsafe {
            if m.is_verifying() {
                crate::canonical::check_object(self.lua, obj);
            }
            let next = graph::visit_edges(obj, &mut Marking { lua: self.lua, m });
            if let Some(next) = next {
                m.trace_later(obj, next);
            }
        }
    }

    unsafe fn trace_part(&mut self, obj: Obj, at: usize, m: &mut Marker<'_>) {
        // SAFETY: only tables are traced in portions.
        unsafe {
            let next = graph::visit_part(obj, at, &mut Marking { lua: self.lua, m });
            if let Some(next) = next {
                m.trace_later(obj, next);
            }
        }
    }

    unsafe fn trace_range(&mut self, owner: Obj, lo: usize, hi: usize, m: &mut Marker<'_>) {
        // SAFETY: only tables report stores by address.
        unsafe { graph::visit_range(owner, (lo, hi), &mut Marking { lua: self.lua, m }) }
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
        let which = match cycle {
            Cycle::Minor => Which::Young,
            Cycle::Major => Which::All,
        };
        // SAFETY: the program is stopped.
        unsafe { graph::visit_roots(self.lua, which, m) };
    }

    fn converge(&mut self, m: &mut Marker<'_>, cycle: Cycle) -> bool {
        let mut any = false;
        // SAFETY: as `roots`; the list is not changed by marking keys and values of its tables, which stay as
        // they are while the program is stopped.
        unsafe {
            if cycle == Cycle::Major {
                graph::visit_dependent_roots(self.lua, |holder, own| {
                    if !is_dead(m, holder) {
                        any |= m.mark(own);
                    }
                });
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
                if cycle == Cycle::Major && w.keys && !w.values {
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
                // Ranges that are stored into again and again are traced each time. A minor collection meets
                // each once.
                (&mut self.lua.gc.weak)[cycle as usize].sort_by_key(|w| (w.table, w.range));
                (&mut self.lua.gc.weak)[cycle as usize].dedup_by_key(|w| (w.table, w.range));
            }
            // Weak values go before finalisers resurrect anything.
            let before = (&self.lua.gc.weak)[cycle as usize].len();
            self.lua.gc.searched = before;
            for n in 0..before {
                let w = (&self.lua.gc.weak)[cycle as usize][n];
                if w.values {
                    let weak = table::Weak { keys: false, values: true };
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
                // Finalisers run at the end of a cycle: programs wait for one to know that everything dead is
                // gone.
                let registered: &[Value] = &self.lua.gc.finalizable;
                for &v in registered.iter().skip(from.finalizable) {
                    m.root_value(Root::Pending, v);
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
                    m.root_value(Root::Pending, v);
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
                let native_stacks = &self.lua.gc.native_stacks;
                native_stacks.get(n)
            } {
                if !m.is_marked(Gc::from_ptr(th).obj()) {
                    m.mark(Gc::from_ptr(th).obj());
                    let cancelled = &mut self.lua.gc.cancelled;
                    cancelled.push(th);
                }
                n += 1;
            }
            graph::visit_late_roots(self.lua, m);
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
            let disturbed = u32::from(!weak.is_empty() || !self.lua.gc.unsettled.is_empty());
            self.lua.gc.disturbances = self.lua.gc.disturbances.wrapping_add(disturbed);
            for (n, w) in weak.iter().enumerate() {
                // With weak keys only, what may be dead is known (`unsettled`).
                let weak = table::Weak { keys: w.keys && w.values, values: w.values && n >= before };
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
