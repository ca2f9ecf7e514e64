//! The system gives no thread at all: what would need one fails, and says which limit it is. In a process of
//! its own, because threads are the process's.

#![allow(missing_docs)]

use perilune_domain::sched::threads;
use perilune_domain::{Config, Runtime};
use perilune_vm::{LoadMode, Vm};

/// The result of a chunk as text.
fn run(vm: &mut Vm, source: &str) -> String {
    let f = vm.load(source.as_bytes(), b"=test", LoadMode::Text, None).expect("a sound chunk");
    let results = vm.protected_call(f.into(), &[]).expect("no way out but an error");
    assert!(results.is_ok(), "{:?}", results.err());
    let top = vm.nargs();
    let result = format!("{:?}", vm.stack_get(top));
    vm.truncate(0);
    result
}

#[test]
fn what_needs_the_first_thread_fails_by_name_and_runs_when_there_are_threads() {
    let runtime = Runtime::new(Config::default());
    let mut vm = Vm::with_options(runtime.config().heap.clone());
    perilune_stdlib::open_libs_with(&mut vm, &runtime.config().paths).expect("memory for the libraries");
    perilune_domain::open(&mut vm, &runtime).expect("memory for a field");
    threads::refuse_threads(true);
    let failed = run(
        &mut vm,
        r#"
        pl = require "perilune"
        pool = pl.pool.new { workers = 3 }
        local failures = {}
        for i = 1, 20 do
          local ok, e = pcall(function() return pool:async(function() return 1 end):await() end)
          assert(not ok)
          failures[tostring(e)] = true
        end
        local ok, e = pcall(function() return pl.domain.spawn(function() return 1 end):join() end)
        assert(not ok)
        failures[tostring(e)] = true
        assert(not pcall(pool.parallel_for, pool, 1, 100, function() end))
        local list = {}
        for e in pairs(failures) do list[#list + 1] = e end
        return table.concat(list, "|")
        "#,
    );
    for line in failed.split('|') {
        assert!(line.contains("no worker thread can be started"), "{line}");
        assert!(line.contains("ulimit -u"), "{line}");
    }
    threads::refuse_threads(false);
    assert_eq!(run(&mut vm, "return pool:async(function() return 17 end):await()"), "17");
    assert_eq!(run(&mut vm, "return pl.domain.spawn(function() return 18 end):join()"), "18");
}
