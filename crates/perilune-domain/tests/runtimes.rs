//! Two runtimes in one process know nothing of each other.

#![allow(missing_docs)]

use perilune_domain::{Config, Runtime};
use perilune_stdlib::Paths;
use perilune_vm::{LoadMode, Native, Value, Vm};
use std::sync::{Arc, Barrier, OnceLock};

/// The main state of a program, on the running thread.
fn main_state(config: Config) -> Box<Vm> {
    let runtime = Runtime::new(config);
    let mut vm = Vm::with_options(runtime.config().heap.clone());
    perilune_stdlib::open_libs_with(&mut vm, &runtime.config().paths).expect("memory for the libraries");
    perilune_domain::open(&mut vm, &runtime).expect("memory for a field");
    vm
}

/// The results of a chunk as texts, or its error.
fn run(vm: &mut Vm, source: &str) -> String {
    let f = vm.load(source.as_bytes(), b"=test", LoadMode::Text, None).expect("a sound chunk");
    match vm.protected_call(f.into(), &[]) {
        Ok(Ok(n)) => {
            let top = vm.nargs();
            let results: Vec<String> =
                (top - n + 1..=top).map(|i| format!("{:?}", vm.stack_get(i))).collect();
            vm.truncate(top - n);
            results.join(" ")
        }
        Ok(Err(e)) => e.as_string().map_or_else(|| format!("{e:?}"), |s| s.to_text()),
        Err(e) => panic!("{e:?}"),
    }
}

/// One is busy until the other has found out that it waits for ever.
static MEETING: OnceLock<Barrier> = OnceLock::new();
static MEET: Native = Native::leaf("meet", |_| {
    MEETING.get_or_init(|| Barrier::new(2)).wait();
    Ok(0)
});

#[test]
fn one_that_is_busy_does_not_keep_the_other_waiting() {
    let busy = std::thread::spawn(|| {
        let mut vm = main_state(Config::default());
        vm.set_global("meet", Value::native(&MEET)).expect("memory");
        run(&mut vm, "local pl = require 'perilune' meet() meet() return 'was busy'")
    });
    let mut vm = main_state(Config::default());
    vm.set_global("meet", Value::native(&MEET)).expect("memory");
    let found = run(
        &mut vm,
        "local pl = require 'perilune'
         meet()
         local ok, e = pcall(function() return pl.channel.new():recv() end)
         meet()
         return e:match 'deadlock: nothing can end this wait', select(2, e:gsub('waits to receive', ''))",
    );
    assert_eq!(busy.join().expect("a sound thread"), "\"was busy\"");
    // Its own wait, as what it is and in the list of all.
    assert_eq!(found, "\"deadlock: nothing can end this wait\" 2");
}

#[test]
fn each_has_its_main_domain_its_domains_and_its_pool() {
    let mut one = main_state(Config::default());
    let mut other = main_state(Config::default());
    for vm in [&mut one, &mut other] {
        let got = run(
            vm,
            "pl = require 'perilune'
             pool = pl.pool.default()
             local task = pool:async(function() return pl.domain.self():name() end):await()
             return pl.domain.self():id(), pl.domain.self():name(), task:match 'default/', pool == pl.pool.default()",
        );
        assert_eq!(got, "1 \"main\" \"default/\" true");
    }
    let before = run(&mut other, "return pl.domain.count()");
    let spawn = "gate = pl.channel.new(0)
        d = pl.domain.spawn(function() return gate:recv(), pl.domain.self():id() end)
        return pl.domain.count() - count";
    run(&mut one, "count = pl.domain.count()");
    assert_eq!(run(&mut one, spawn), "1");
    assert_eq!(run(&mut other, "return pl.domain.count()"), before);
    // One program ends; the other goes on.
    drop(other);
    assert!(run(&mut one, "gate:send('through') return d:join()").starts_with("\"through\" "));
}

#[test]
fn what_is_configured_holds_in_all_domains() {
    let paths = Paths { path: b"here/?.lua".to_vec(), cpath: b"there/?.so".to_vec() };
    let config = Config { paths, ..Config::default() };
    let mut vm = main_state(config);
    let got = run(
        &mut vm,
        "local pl = require 'perilune'
         local pool = pl.pool.new { workers = 1 }
         local function paths() return package.path .. ' ' .. package.cpath end
         return paths(), pool:async(paths):await(), pl.domain.spawn(paths):join()",
    );
    assert_eq!(got, ["\"here/?.lua there/?.so\""; 3].join(" "));
}

#[test]
fn a_runtime_goes_with_its_last_domain() {
    let runtime = Runtime::new(Config::default());
    let weak = Arc::downgrade(&runtime);
    let mut vm = Vm::with_options(runtime.config().heap.clone());
    perilune_stdlib::open_libs(&mut vm).expect("memory for the libraries");
    perilune_domain::open(&mut vm, &runtime).expect("memory for a field");
    drop(runtime);
    run(
        &mut vm,
        "local pl = require 'perilune' pl.pool.default():async(function() end):await() \
         pl.domain.spawn(function() end):join()",
    );
    drop(vm);
    // Domains of the pool end on threads of their own.
    for _ in 0..60_000 {
        if weak.strong_count() == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{} counts are left", weak.strong_count());
}
