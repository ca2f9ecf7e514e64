//! What the heap needs to know about Lua: how to trace each kind, the roots, weak tables, ephemerons,
//! finalisers, native resources.
//!
//! # The client
//! [`client::LuaClient`] is what the heap's [`Client`](perilune_heap::Client) sees: a [`Vm`]'s state without
//! its heap, which the collection holds meanwhile.
//!
//! # Stacks
//! Large ones of which little is used are shrunk (`gc/stacks.rs`). Every slot of a stack from its bottom to
//! its top is marked; every slot above is set to nil. So a slot never holds a reference that a collection did
//! not see, however stale it is, and registers need no clearing on entry. A coroutine that did not run since
//! the last collection has not changed: resuming one logs it. Native stacks are scanned conservatively.
//!
//! # Weak tables and ephemerons (manual 2.5.4)
//! A table whose metatable has `__mode` is traced only for what it holds strongly and put on a list for the
//! rest of the cycle: ephemerons are looked at again until nothing new is marked, dead weak values are
//! cleared before finalisers mark what they resurrect, dead weak keys after. In a minor collection an old
//! weak table takes part only if it was logged, a large one with the parts that were: the rest holds nothing
//! young.
//!
//! # Finalisers (manual 2.5.3)
//! Objects are registered when they get a metatable with `__gc`, and listed in that order. When one is found
//! dead it moves to the queue of those to be finalised, in reverse order, is marked again with all it
//! reaches, and its finaliser runs at the safepoint after the collection.

mod client;
mod finalize;
mod stacks;

use self::client::LuaClient;
use crate::Vm;
use crate::native::LuaResult;
use crate::object::{Node, ProtoInst, Table, Thread, Userdata};
use crate::table::trace::Range;
use crate::value::Value;
use perilune_trace::event::{self, Bytes, Ns, Stack};
use perilune_trace::{Category, emit, on};
use std::collections::HashSet;
use std::sync::Arc;

/// Nanoseconds of a step after which a trace gets to know where the program was.
const LONG_PAUSE: u64 = 250_000;

/// The collector's Lua-side state.
#[derive(Default)]
pub(crate) struct GcState {
    /// Bytes that the table wanted whose growth has just been refused; 0: none.
    pub wanted_room: usize,
    /// How often collections have done more than free memory: cleared weak references, or called finalisers.
    /// See `machine/leaf.rs`.
    pub disturbances: u32,
    /// How often memory has been refused.
    pub refusals: u32,
    /// Lengths of the parts of `protos`, `userdata` and `finalizable` that have survived a collection: minor
    /// ones look behind them.
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
    pub native_stacks: Vec<*mut Thread>,
    /// Threads whose value stack is large (`stacks.rs`).
    pub deep: Vec<*mut Thread>,
    /// A major has ended since those were looked at.
    stacks_due: bool,
    /// The process is about to end ([`Vm::leave_memory`]).
    leaves_memory: bool,
    /// Running finalisers: none is started inside another.
    pub finalizing: bool,
    /// Unreachable coroutines whose native calls are to be discarded.
    pub cancelled: Vec<*mut Thread>,
    /// Weak tables seen in the running minor collection, and in the running major: a minor may come between a
    /// major's slices.
    weak: [Vec<Weak>; 2],
    /// While the program is stopped at the end of a cycle: how many of those tables have been searched for
    /// ephemerons.
    searched: usize,
    /// Entries under weak keys whose key was not marked when they were last looked at. A minor collection
    /// notes them when it meets them, also those whose value was not marked; a major at its end.
    unsettled: Vec<*mut Node>,
    /// Weak tables traced since the program stopped for this step, by cycle: once is enough, nothing changes
    /// meanwhile.
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

#[derive(Clone, Copy)]
struct Weak {
    table: *mut Table,
    /// The part of the table that may hold what can die.
    range: Range,
    keys: bool,
    values: bool,
}

impl Vm {
    /// The lengths of the collector's lists now, for a scope that begins.
    #[inline]
    pub(crate) fn scope_start(&self) -> ScopeStart {
        let lists = Old {
            protos: self.lua.gc.protos.len(),
            userdata: self.lua.gc.userdata.len(),
            finalizable: self.lua.gc.finalizable.len(),
        };
        ScopeStart {
            lists,
            shared_refs: self.lua.crossing.shared_refs.len(),
            strings: self.lua.interned.strings.count_in_scope(),
        }
    }

    /// A step of collection if one is due, then finalisers. The running frame must be complete: `base`,
    /// `top`, `pc` stored.
    pub(crate) fn safepoint(&mut self) -> LuaResult<()> {
        if self.heap.gc_due() { self.collect_due() } else { Ok(()) }
    }

    /// As [`Vm::safepoint`], where what lies up to the top is still to be used: finalisers leave the top
    /// where it was.
    pub(crate) fn safepoint_open(&mut self) -> LuaResult<()> {
        if self.heap.gc_due() {
            // SAFETY: offsets into the running stack.
            let (top, depth) =
                unsafe { (self.lua.top.offset_from((*self.lua.thread).stack), self.lua.thread) };
            self.collect_due()?;
            debug_assert!(depth == self.lua.thread);
            // SAFETY: finalisers leave the stack as it was, though perhaps elsewhere.
            unsafe { self.lua.top = (*self.lua.thread).stack.offset(top) };
        }
        Ok(())
    }

    /// A safepoint in a native that has put something of others into this domain and can still put it back (a
    /// message, a value of a map): if memory does not suffice for it, the native learns it here, before it
    /// returns. Runs no Lua code: finalisers come at the next safepoint.
    ///
    /// # Errors
    /// "not enough memory"
    #[inline]
    pub fn settle(&mut self) -> LuaResult<()> {
        if self.heap.gc_due() || !self.heap.has_room(0) { self.settle_due() } else { Ok(()) }
    }

    /// As [`Vm::settle`], if what has been put here was in the program's account before: the program's limit
    /// does not refuse it, the heap's own does.
    ///
    /// # Errors
    /// "not enough memory"
    #[inline]
    pub(crate) fn settle_moved(&mut self) -> LuaResult<()> {
        if self.heap.gc_due() || !self.heap.has_room(0) { self.settle_moved_due() } else { Ok(()) }
    }

    #[cold]
    #[inline(never)]
    fn settle_moved_due(&mut self) -> LuaResult<()> {
        self.collect_memory();
        let result = if self.heap.is_over_own_limit() { self.check_memory() } else { Ok(()) };
        if !self.lua.gc.pending.is_empty() {
            self.heap.make_due();
        }
        result
    }

    #[cold]
    #[inline(never)]
    fn settle_due(&mut self) -> LuaResult<()> {
        self.collect_memory();
        let result = self.check_memory();
        if !self.lua.gc.pending.is_empty() {
            self.heap.make_due();
        }
        result
    }

    /// For a native that is going to take something of so many bytes: looks for room, with a complete
    /// collection if there is none. As [`Vm::settle`], runs no Lua code.
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
        self.lua.crossing.parcel.memory_is_short();
        self.with_client(|heap, client| heap.collect_full(client));
        if !self.heap.has_room(bytes) && crate::cycle_collector::collect() > 0 {
            self.with_client(|heap, client| heap.collect_full(client));
        }
        if !self.lua.gc.pending.is_empty() {
            self.heap.make_due();
        }
        if self.heap.has_room(bytes) { Ok(()) } else { Err(self.out_of_memory()) }
    }

    /// A complete collection where no Lua code may run: finalisers have to wait.
    #[cold]
    #[inline(never)]
    pub(crate) fn collect_garbage_now(&mut self) {
        self.with_client(|heap, client| heap.collect_full(client));
        if !self.lua.gc.pending.is_empty() {
            self.heap.make_due();
        }
    }

    #[cold]
    #[inline(never)]
    fn collect_due(&mut self) -> LuaResult<()> {
        self.collect_memory();
        self.check_memory()?;
        self.run_finalizers();
        Ok(())
    }

    /// As [`Vm::safepoint_open`], where an error has just been caught: if memory is short, the next safepoint
    /// says so.
    #[cold]
    pub(crate) fn safepoint_after_error(&mut self) {
        // SAFETY: offsets into the running stack.
        let top = unsafe { self.lua.top.offset_from((*self.lua.thread).stack) };
        self.collect_memory();
        self.run_finalizers();
        // SAFETY: finalisers leave the stack as it was, though perhaps elsewhere.
        unsafe { self.lua.top = (*self.lua.thread).stack.offset(top) };
    }

    /// The step that is due, and all that can be done if memory is short.
    fn collect_memory(&mut self) {
        self.with_client(|heap, client| heap.step(client));
        self.report_long_pause();
        crate::cycle_collector::collect_if_due();
        if self.heap.over_limit() || self.heap.takes_full() {
            self.lua.crossing.parcel.memory_is_short();
            self.with_client(|heap, client| heap.collect_full(client));
            self.report_long_pause();
            if self.heap.over_limit() && crate::cycle_collector::collect() > 0 {
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
        // The collection then frees what the running thread's was.
        self.shrink_stacks_now();
        self.with_client(|heap, client| heap.collect_full(client));
        self.report_long_pause();
        crate::cycle_collector::collect();
        self.run_finalizers();
    }

    /// A complete collection is to be done in steps ([`Vm::collect_towards`]): returns how many majors are
    /// completed when it has ended.
    pub(crate) fn collect_in_steps(&mut self) -> u64 {
        self.trim_fibers();
        self.shrink_stacks_now();
        self.heap.majors_to_come()
    }

    /// A step of a complete collection; `majors` is what [`Vm::collect_in_steps`] has returned. True if it
    /// was the last one.
    pub(crate) fn collect_towards(&mut self, majors: u64) -> bool {
        let mut ended = false;
        self.with_client(|heap, client| ended = heap.step_towards(client, majors));
        self.report_long_pause();
        if ended {
            crate::cycle_collector::collect();
        }
        self.run_finalizers();
        ended
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
        let outer = self.lua.seen.sampler.set_collecting(true);
        crate::sys::stack::spill_registers(vm, |vm, here| {
            // SAFETY: as below.
            let mode = unsafe { (*vm).heap.params().mode };
            // SAFETY: as below.
            unsafe { (*vm).lua.gc.weak_seen.iter_mut().for_each(HashSet::clear) };
            // SAFETY: as below.
            let Vm { lua, heap } = unsafe { &mut *vm };
            let scan_from = lua.stacks.running.scan_from;
            if scan_from == 0 {
                // The collector's own frames lie below: what it has traced, and times, half a word each over
                // what lay there before.
                lua.stacks.running.scan_from = here;
            }
            f(heap, &mut LuaClient { lua, mode });
            lua.stacks.running.scan_from = scan_from;
        });
        self.lua.seen.sampler.set_collecting(outer);
    }

    /// Bytes in use.
    #[inline]
    pub fn heap_bytes(&self) -> usize {
        self.heap.live_bytes()
    }

    /// The process is about to end: when the state is dropped, what objects own is dropped too, but what is
    /// memory and nothing else stays for the system to take. A large program's prototypes alone take a
    /// thirtieth of the time of loading them.
    pub fn leave_memory(&mut self) {
        self.lua.gc.leaves_memory = true;
        self.heap.stay_mapped();
    }

    /// Drops what objects own outside the heap.
    pub(crate) fn release_native_resources(&mut self) {
        self.release_fibers();
        self.lua.gc.cancelled = self.lua.gc.native_stacks.clone();
        self.cancel_dead_native_stacks();
        // SAFETY: the state is going away; nothing reads these objects afterwards.
        unsafe {
            for i in self.lua.gc.protos.drain(..) {
                if !self.lua.gc.leaves_memory {
                    drop(Arc::from_raw((*i).proto));
                }
                self.lua.machine.forget_instance(i);
            }
            self.lua.machine.abandon(|| self.lua.stacks.running.in_use());
            self.lua.crossing.shared_refs.release();
            for u in self.lua.gc.userdata.drain(..) {
                if !(*u).data.is_null() {
                    drop(Box::from_raw((*u).data));
                    (*u).data = std::ptr::null_mut();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Gc;
    use std::hint::black_box;

    #[test]
    fn what_objects_own_is_dropped_though_memory_is_left() {
        let counted = Arc::new(());
        for leaves in [false, true] {
            let mut vm = Vm::new();
            vm.new_userdata(Arc::clone(&counted), 0).expect("memory");
            assert_eq!(Arc::strong_count(&counted), 2);
            if leaves {
                vm.leave_memory();
            }
            drop(vm);
            assert_eq!(Arc::strong_count(&counted), 1);
        }
    }

    /// Entries under keys that are `held`, each with another entry under its value; and as many of each kind
    /// under keys that are not.
    #[inline(never)]
    fn fill_weak_keys(vm: &mut Vm, t: Gc<Table>, old: Value, held: &mut Vec<crate::Rooted>) {
        for n in 0..400 {
            let key: Value = vm.new_table(0, 0).expect("memory").into();
            if n % 2 == 0 {
                held.push(vm.root(key).expect("memory"));
            }
            let value = match n / 2 % 4 {
                0 => Value::int(n),
                1 => vm
                    .value_str(format!("value {n} of its own, too long to be interned").as_bytes())
                    .expect("memory"),
                2 => old,
                _ => {
                    let link: Value = vm.new_table(0, 0).expect("memory").into();
                    let last: Value = vm.new_table(0, 0).expect("memory").into();
                    vm.raw_set(t, link, last).expect("memory");
                    link
                }
            };
            vm.raw_set(t, key, value).expect("memory");
        }
    }

    #[test]
    fn a_minor_collection_alone_clears_dead_weak_keys_and_keeps_what_live_ones_hold() {
        let options = perilune_heap::HeapOptions { verify: true, poison: true, ..Default::default() };
        let mut vm = Vm::with_options(options);
        let t = vm.new_table(0, 0).expect("memory");
        let mode = vm.new_table(0, 0).expect("memory");
        let k = vm.value_str(b"k").expect("memory");
        vm.set_field(mode, "__mode", k).expect("memory");
        vm.set_metatable_of(t.into(), Some(mode)).expect("memory");
        let _table = vm.root(t.into()).expect("memory");
        let old = vm.new_table(0, 0).expect("memory");
        let _old = vm.root(old.into()).expect("memory");
        let mut held = Vec::new();
        // First the table is young, and small; then old, and what is stored is looked at in parts.
        for round in 1..=4 {
            fill_weak_keys(&mut vm, t, old.into(), &mut held);
            vm.collect_minor();
            let (mut position, mut entries) = (0, 0);
            while vm.next_at(t, &mut position).is_some() {
                entries += 1;
            }
            // A quarter of the held keys lead to one more. Stray words may hold a few of the others.
            let live = round * 250;
            assert!((live..live + 10 * round).contains(&entries), "round {round}: {entries}");
        }
        for (n, key) in held.iter().enumerate() {
            let v = vm.raw_get(t, key.get(&vm));
            match n % 4 {
                0 => assert_eq!(v.as_int(), Some(n as i64 % 200 * 2)),
                1 => assert!(v.as_string().is_some_and(|s| s.to_text().starts_with("value "))),
                2 => assert!(v.as_table().is_some_and(|v| v.ptr() == old.ptr())),
                _ => assert!(vm.raw_get(t, v).as_table().is_some()),
            }
        }
    }

    #[test]
    fn what_a_weak_table_refers_to_is_marked_though_the_marker_has_no_memory() {
        for (mode, is_full) in [("v", true), ("v", false), ("k", true), ("k", false)] {
            let options = perilune_heap::HeapOptions { verify: true, poison: true, ..Default::default() };
            let mut vm = Vm::with_options(options);
            vm.heap.limit_lists(64);
            let t = vm.new_table(0, 0).expect("memory");
            let metatable = vm.new_table(0, 0).expect("memory");
            let word = vm.value_str(mode.as_bytes()).expect("memory");
            vm.set_field(metatable, "__mode", word).expect("memory");
            vm.set_metatable_of(t.into(), Some(metatable)).expect("memory");
            let _table = vm.root(t.into()).expect("memory");
            for n in 0..1_000 {
                // Each leads to more, and nobody else refers to it. Numbers are never weak.
                let [strong, inner] = [(); 2].map(|()| vm.new_table(0, 0).expect("memory"));
                let text = vm.value_str(format!("the strong one of number {n}, a long string").as_bytes());
                vm.raw_set(inner, Value::int(1), text.expect("memory")).expect("memory");
                vm.raw_set(strong, Value::int(1), inner.into()).expect("memory");
                let number = Value::float(n as f64 + 0.5);
                let (key, value) =
                    if mode == "v" { (strong.into(), number) } else { (number, strong.into()) };
                vm.raw_set(t, key, value).expect("memory");
            }
            if is_full {
                vm.collect_full()
            } else {
                vm.collect_minor()
            }
            let (mut position, mut entries) = (0, 0);
            while let Some((key, value)) = vm.next_at(t, &mut position) {
                let strong = if mode == "v" { key } else { value }.as_table().expect("a table");
                let inner = vm.raw_get(strong, Value::int(1)).as_table().expect("a table");
                let text = vm.raw_get(inner, Value::int(1)).as_string().expect("a string").to_text();
                assert!(text.starts_with("the strong one"), "{text}");
                entries += 1;
            }
            assert_eq!(entries, 1_000);
        }
    }

    /// The address of a string that nothing refers to, inverted: as it is here, it is nobody's.
    #[inline(never)]
    fn hidden(vm: &mut Vm) -> usize {
        let text = vm.value_str(b"a text of its own, too long to be interned anywhere").expect("memory");
        !(text.obj().expect("an object").as_ptr() as usize)
    }

    #[inline(never)]
    fn is_there(vm: &Vm, hidden: usize) -> bool {
        vm.heap.find_object(!black_box(hidden)).is_some()
    }

    /// Overwrites what calls that have ended left on the native stack.
    #[inline(never)]
    fn forget_calls() {
        black_box(&mut [0u64; 8192]);
    }

    /// Collects everything while the address lies in a frame of the collection's: is there an object still?
    #[inline(never)]
    fn survives(heap: &mut perilune_heap::Heap, client: &mut LuaClient, hidden: usize) -> bool {
        let mut words = [!black_box(hidden); 4];
        black_box(&mut words);
        heap.collect_full(client);
        black_box(&mut words);
        heap.find_object(words[0]).is_some()
    }

    /// A native stack is scanned from where its collection was asked for: what the collector has left on it
    /// holds nothing.
    #[test]
    fn frames_of_the_collector_are_not_scanned() {
        let mut vm = Vm::new();
        let hidden = hidden(&mut vm);
        assert!(is_there(&vm, hidden));
        let mut found = true;
        forget_calls();
        vm.with_client(|heap, client| found = survives(heap, client, hidden));
        assert!(!found, "it lives by a word below the frames of those who asked");
        assert_eq!(vm.lua.stacks.running.scan_from, 0);
    }
}
