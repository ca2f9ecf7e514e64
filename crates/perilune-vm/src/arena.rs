//! `arena(f, ...)`: what `f` allocates and does not let out is freed when it returns.
//!
//! The heap does the work (`perilune_heap`, `arena.rs`); this file says when a scope begins and ends. It
//! begins before the call and ends after it, whether the call returned or failed: then the results lie on the
//! stack, or the error is in [`Vm`], where the collector finds them. All doors through which something may be
//! let out are known to the collector anyway, because a minor collection has to know them: stores pass the
//! barrier, stacks and other roots are scanned, what is interned, weak, to be finalised or owns something
//! outside the heap is in lists (`gc.rs`).
//!
//! A function that yields leaves its scope without ending it, and may never come back: the scope is spoilt,
//! that is, its objects become ordinary young ones. The same happens when the fiber parks and another one
//! runs. Coroutines that are resumed inside and yield to the inside are no trouble: resuming one logs it.
//!
//! The native is a reentrant one, so that a yield works, at the price of a native stack inside coroutines.

use crate::Vm;
use crate::gc::ScopeStart;
use crate::native::{LuaResult, Native};
use crate::value::{Type, Value};

/// `arena(f, ...)`: the results of `f(...)`.
pub static ARENA: Native = Native::reentrant("arena", arena);

fn arena(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_type(1, Type::Function)?;
    let n = vm.nargs();
    // A collection that is due comes now rather than into the scope.
    if vm.heap.gc_due() {
        vm.safepoint_open()?;
    }
    vm.ensure_stack(n as usize + 8)?;
    let f = vm.arg(1);
    let mut few = [Value::NIL; 6];
    let many: Vec<Value>;
    let args = match few.get_mut(..n as usize - 1) {
        Some(few) => {
            (2..=n).zip(few.iter_mut()).for_each(|(i, v)| *v = vm.arg(i));
            &*few
        }
        None => {
            // The arguments stay in their stack slots meanwhile, which is what keeps them alive.
            many = (2..=n).map(|i| vm.arg(i)).collect();
            &many
        }
    };
    let start = vm.scope_start();
    let scope = vm.heap.open_scope(vm.lua.thread as usize);
    let result = vm.unwound_call(f, args);
    if !vm.heap.close_idle_scope(scope) {
        vm.end_arena(scope, start);
    }
    if !vm.heap.in_scope() {
        vm.lua.interned.strings.leave_scopes();
    }
    result
}

impl Vm {
    /// Ends a scope in which something was allocated. The results, if there are any, are on top of the stack.
    #[inline(never)]
    fn end_arena(&mut self, scope: u32, start: ScopeStart) {
        if self.lua.errors.is_discarding() {
            // Native calls are being discarded, perhaps by the collector's own hand.
            return self.heap.spoil_scopes();
        }
        self.lua.gc.scope = start;
        forget_the_past();
        self.with_client(|heap, client| {
            heap.close_scope(client, scope);
        });
        if !self.lua.gc.pending.is_empty() {
            // SAFETY: offsets into the running stack; finalisers leave it as it was, though perhaps
            // elsewhere.
            unsafe {
                let top = self.lua.top.offset_from((*self.lua.thread).stack);
                self.run_finalizers();
                self.lua.top = (*self.lua.thread).stack.offset(top);
            }
        }
    }
}

/// Bytes of native stack that are overwritten before a scope ends.
const PAST: usize = 4096;

/// Overwrites the native stack below the caller. The frames of what follows have holes that nobody
/// initialises, which the conservative scan reads: what the scope's own code has left there would keep a
/// whole tree alive, in every scope in the same way.
#[inline(never)]
fn forget_the_past() {
    let mut past = [0u8; PAST];
    std::hint::black_box(&mut past);
}
