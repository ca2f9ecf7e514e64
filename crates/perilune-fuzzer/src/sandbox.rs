//! A Lua state that fuzzed code may run in: all libraries, without what reaches out of the process, under a
//! memory limit.

use crate::guard::Guard;
use perilune_heap::HeapOptions;
use perilune_vm::machine::Specializer;
use perilune_vm::{Gc, LoadMode, LuaClosure, Value, Vm};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Bytes that a state may hold.
pub const MEMORY: usize = 64 << 20;

/// What fuzzed code must not have: files, processes, the standard streams, and what reads them.
const FORBID: &str = "
    os = {time = os.time, clock = os.clock, date = os.date, difftime = os.difftime, getenv = os.getenv, setlocale = os.setlocale}
    io, dofile, loadfile, require, package, debug.debug = nil
    print = function(...) return select('#', ...) end
    warn = print
";

/// A state for fuzzed code.
pub fn state(options: HeapOptions) -> Box<Vm> {
    let mut vm = Vm::with_options(options);
    if let Some(specializer) = specializer() {
        vm.set_specializer(specializer);
    }
    perilune_stdlib::open_libs(&mut vm).expect("an empty state has memory for its libraries");
    let forbid = vm.load(FORBID.as_bytes(), b"=sandbox", LoadMode::Text, None).expect("compiles");
    vm.host_call(forbid.into(), &[]).expect("runs");
    let depth = vm.stack_top();
    debug_assert_eq!(depth, 0);
    vm.heap().set_limit(Some(MEMORY));
    vm
}

/// What makes machine code, as `PERILUNE_SPESH` says for the command too; nothing does if it is not set, so
/// that a case runs the same way each time.
fn specializer() -> Option<Arc<dyn Specializer>> {
    static CHOSEN: OnceLock<Option<Arc<dyn Specializer>>> = OnceLock::new();
    let choose = || {
        let mode = std::env::var("PERILUNE_SPESH").unwrap_or_else(|_| "off".into());
        perilune_spesh::specializer(&mode, perilune_spesh::Setup::default).expect("a mode that there is")
    };
    CHOSEN.get_or_init(choose).clone()
}

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// That many results.
    Results(u32),
    /// An error, as text.
    Error(String),
}

/// Calls a function for `time` at most and drops its results.
#[inline(never)]
pub fn call(guard: &Guard, vm: &mut Vm, f: Gc<LuaClosure>, time: Duration) -> Outcome {
    let depth = vm.nargs();
    let outcome = match guard.bounded(vm, time, |vm| vm.host_call(f.into(), &[])) {
        Ok(n) => Outcome::Results(n),
        Err(e) => Outcome::Error(text(e)),
    };
    vm.truncate(depth);
    outcome
}

/// An error value for people.
pub fn text(error: Value) -> String {
    match error.as_string() {
        Some(s) => String::from_utf8_lossy(s.bytes()).into_owned(),
        None => format!("({})", error.type_name()),
    }
}

/// Overwrites what finished calls left on the native stack below: a collection scans it, and would keep what
/// it looks like.
#[inline(never)]
fn forget_calls() {
    std::hint::black_box(&mut [0u64; 8192]);
}

/// Collects everything; finalisers that do not end are interrupted.
///
/// The stack below the caller is forgotten before anything has a frame there: a frame keeps what lay in its
/// place until it writes over it, and not all of a frame is written. So a caller is sure of a collection only
/// of what its own frame has never seen: [`call`] and [`still_works`] have one of their own.
#[inline(always)]
pub fn collect(guard: &Guard, vm: &mut Vm) {
    forget_calls();
    collect_below(guard, vm);
}

#[inline(never)]
fn collect_below(guard: &Guard, vm: &mut Vm) {
    guard.bounded(vm, Duration::from_millis(100), |vm| {
        // What the guard has called is to be forgotten, too.
        forget_calls();
        vm.collect_full();
    });
}

/// Whether the state still works: memory, tables, strings, calls, errors, coroutines, a full collection.
///
/// # Errors
/// What does not.
#[inline(never)]
pub fn still_works(guard: &Guard, vm: &mut Vm) -> Result<(), String> {
    const PROBE: &str = "
        local t = {} for i = 1, 100 do t[i] = i * 2 t['k' .. i] = i end
        local s = 0 for k, v in next, t do s = s + v end
        local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end)
        local ok, e = pcall(error, 'x')
        return s == 15150 and co(1) == 2 and co(4) == 8 and not ok and e == 'x'";
    collect(guard, vm);
    let f = vm.load(PROBE.as_bytes(), b"=probe", LoadMode::Text, None).map_err(text)?;
    let depth = vm.nargs();
    let result = guard.bounded(vm, Duration::from_secs(10), |vm| vm.host_call(f.into(), &[]));
    let right = match result {
        Ok(1) if vm.stack_get(depth + 1).is_truthy() => Ok(()),
        Ok(_) => Err("the state computes something else afterwards".to_string()),
        Err(e) => Err(format!("the state fails afterwards: {}", text(e))),
    };
    vm.truncate(depth);
    right
}
