//! Roots, with labels: those of `LuaClient::roots`.

use super::Walk;
use crate::object::Thread;
use crate::value::{Gc, Type, Value};
use perilune_heap::Obj;
use perilune_trace::heapshot::RootKind;
use std::io::Write;

impl<W: Write> Walk<'_, W> {
    fn root<T>(&mut self, kind: RootKind, text: &str, p: *mut T) {
        if let Some(o) = Obj::new(p.cast()) {
            let to = self.number(o);
            self.out.root(kind, text.as_bytes(), to);
        }
    }

    fn root_value(&mut self, kind: RootKind, text: &str, v: Value) {
        if let Some(o) = v.obj() {
            let to = self.number(o);
            self.out.root(kind, text.as_bytes(), to);
        }
    }

    /// Reaches everything that is a root by itself.
    pub(super) fn roots(&mut self) {
        // SAFETY: as for a collection: the state is at rest, its roots are live objects.
        unsafe {
            let (globals, registry) = (self.vm.lua.roots.globals, self.vm.lua.roots.registry);
            self.root(RootKind::Globals, "", globals);
            self.root(RootKind::Registry, "", registry);
            let kept = std::rc::Rc::clone(&self.vm.lua.roots.kept);
            kept.each(|v| self.root_value(RootKind::Registry, "kept by the host", v));
            let main = self.vm.lua.roots.main_thread;
            let name = if self.vm.domain_number() == 1 { "main program" } else { "main coroutine" };
            self.root(RootKind::Stack, name, main);
            for fiber in crate::fiber::live_fibers_of(self.vm) {
                let text =
                    format!("fiber {}", crate::fiber::held_by_fiber(fiber.ptr()).2.unwrap_or(0) as u32);
                self.root(RootKind::Stack, &text, fiber.ptr());
            }
            let mut th = self.vm.lua.thread;
            while !th.is_null() {
                if th != main && (*th).fiber.is_null() {
                    self.root(RootKind::Stack, "running coroutine", th);
                }
                th = (*th).resumer;
            }
            let mut threads: Vec<*mut Thread> = Vec::new();
            let mut values = Vec::new();
            self.vm.lua.hosting.owners.scan_aside(
                &mut |th| threads.push(th),
                &mut |v| values.push(v),
                &mut |_, _| {},
            );
            for th in threads {
                if !th.is_null() && th != main && (*th).fiber.is_null() {
                    self.root(RootKind::Runtime, "coroutine of a thread", th);
                }
            }
            for v in values {
                self.root_value(RootKind::Runtime, "error of a blocked call", v);
            }
            for spare in crate::fiber::spare_fibers_of(self.vm) {
                self.root(RootKind::Runtime, "ended fiber, to be used again", spare.ptr());
            }
            let stub = self.vm.lua.roots.call_stub;
            self.root(RootKind::Runtime, "call stub", stub);
            for (n, t) in self.vm.lua.roots.type_metatables.into_iter().enumerate() {
                let text = format!("metatable of {}", Type::ALL.get(n).map_or("?", |t| t.name()));
                self.root(RootKind::Runtime, &text, t);
            }
            for t in self.vm.lua.crossing.shared_refs.metatables.clone() {
                self.root(RootKind::Runtime, "metatable of shared objects", t);
            }
            for (_, own) in self.vm.lua.islands.functions.entries().collect::<Vec<_>>() {
                self.root_value(RootKind::Runtime, "function of an island", own);
            }
            for s in self.vm.lua.roots.event_names {
                self.root(RootKind::Runtime, "names of metamethods", s);
            }
            for s in self.vm.lua.roots.status_names {
                self.root(RootKind::Runtime, "names of states of coroutines", s);
            }
            let mut objects: Vec<Obj> = Vec::new();
            self.vm.lua.crossing.parcel.trace(true, |o| objects.push(o));
            for o in objects.drain(..) {
                self.root(RootKind::Runtime, "modules that functions came with", o.as_ptr());
            }
            self.vm.lua.interned.shapes.trace(false, |o| objects.push(o));
            for o in objects {
                self.root(RootKind::Runtime, "names of fields", o.as_ptr());
            }
            let error = self.vm.lua.errors.value;
            self.root_value(RootKind::Runtime, "error", error);
            for v in self.vm.lua.gc.pending.clone() {
                self.root_value(RootKind::Finalizer, "", v);
            }
            for th in self.vm.lua.gc.cancelled.clone() {
                let _: Gc<Thread> = Gc::from_ptr(th);
                self.root(RootKind::Finalizer, "", th);
            }
        }
    }

    /// Reaches what native stacks may hold and nothing else does.
    pub(super) fn stray_roots(&mut self) {
        let mut ranges = Vec::new();
        self.vm.lua.stacks.scan(&mut |lo, hi| ranges.push((lo, hi)));
        self.vm.lua.hosting.owners.scan_aside(&mut |_| {}, &mut |_| {}, &mut |lo, hi| ranges.push((lo, hi)));
        for (lo, hi) in ranges {
            for at in (lo & !7..hi).step_by(8) {
                // SAFETY: ranges of native stacks in use.
                let word = unsafe { perilune_heap::stack_word(at) };
                if let Some(found) = self.word(word) {
                    self.root(RootKind::NativeStack, "", found.as_ptr());
                    self.drain();
                }
            }
        }
    }
}
