//! Values that cross between two machines.

mod kept;
mod outcomes;
mod random;
mod refusals;
mod stand_in;
mod strings;

use perilune_vm::Value;
use perilune_vm::parcel::{ErrorParcel, PackRules, Parcel};
use stand_in::{new_vm, run};

fn send_and_sync<T: Send + Sync>() {}

#[test]
fn parcels_belong_to_nobody() {
    send_and_sync::<Parcel>();
    send_and_sync::<ErrorParcel>();
    assert!(size_of::<Parcel>() <= 32);
}

#[test]
fn a_parcel_is_unpacked_by_many_threads() {
    let mut vm = new_vm();
    let source = "local n = 3 function double(x) return x * 2 end \
        return function(t) local s = n for _, v in ipairs(t.list) do s = s + double(v) end return t.name .. \
        s end, \
        {name = 'sum', list = {1, 2, 3}}";
    let values = run(&mut vm, source, "parcel.lua").expect("the program runs");
    let parcel = vm.pack(&values, PackRules::TASK).expect("it may cross");
    drop(vm);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut vm = new_vm();
                for _ in 0..200 {
                    assert_eq!(vm.unpack(&parcel).expect("memory"), 2);
                    let (f, t) = (vm.stack_get(1), vm.stack_get(2));
                    let n = vm.host_call(f, &[t]).expect("the function runs");
                    let result = vm.stack_get(vm.nargs() - n + 1).as_string().expect("a text").to_text();
                    assert_eq!(result, "sum15");
                    vm.truncate(0);
                    vm.collect_minor();
                }
                vm.collect_full();
                vm.verify_heap().expect("a sound heap");
            });
        }
    });
}

#[test]
fn unpacking_fails_as_lua_does() {
    let mut vm = new_vm();
    let values = run(&mut vm, "return {('x'):rep(30000000)}", "big.lua").expect("the program runs");
    let big = vm.pack(&values, PackRules::MESSAGE).expect("it may cross");
    let mut small = new_vm();
    let mut limited = small.heap().live_bytes();
    limited += 10_000_000;
    small.heap().set_limit(Some(limited));
    let e = small.unpack(&big).expect_err("there is no memory for it");
    let e = small.host_error(e);
    assert_eq!(e.as_string().expect("a message").to_text(), "not enough memory");
    assert_eq!(small.nargs(), 0);
    small.collect_full();
    small.verify_heap().expect("a sound heap");

    let source = "package.preload.only_here = function() return {f = function() return 1 end} end \
        local m = require 'only_here' package.preload.only_here = nil return function() return m.f() end";
    let values = run(&mut vm, source, "module.lua").expect("the program runs");
    let parcel = vm.pack(&values, PackRules::TASK).expect("it may cross");
    let mut other = new_vm();
    let e = other.unpack(&parcel).expect_err("there is no such module");
    let e = other.host_error(e).as_string().expect("a message").to_text();
    assert!(e.starts_with("module 'only_here' not found:"), "{e}");
}

#[test]
fn channels_in_channels_are_dropped_without_recursion() {
    let source = "local pl = require 'perilune' \
        local c = pl.channel.new() \
        for i = 1, 200000 do local d = pl.channel.new() d:send(c) c = d end \
        for i = 1, 1000 do local d = pl.channel.new() d:send(c, c) c = d end";
    // A small stack, which recursion of that depth would not fit into.
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
        let mut vm = new_vm();
        run(&mut vm, source, "chain.lua").expect("the program runs");
        vm.collect_full();
        drop(vm);
    });
    thread.expect("a thread").join().expect("no overflow");
}

#[test]
fn snapshots_are_used_again_until_something_changes() {
    let mut vm = new_vm();
    let source = "a, b = 1, 'x' function g() return a end function f() return g(), b end return f";
    let f = run(&mut vm, source, "snapshots.lua").expect("the program runs")[0];
    vm.push(f);
    let mut other = new_vm();
    let mut call = |vm: &mut perilune_vm::Vm| {
        let parcel = vm.pack(&[f], PackRules::TASK).expect("it may cross");
        other.unpack(&parcel).expect("memory");
        let f = other.stack_get(1);
        let n = other.host_call(f, &[]).expect("the function runs");
        let top = other.nargs();
        let shown: Vec<String> = (top - n + 1..=top).map(|i| format!("{:?}", other.stack_get(i))).collect();
        other.truncate(0);
        shown.join(" ")
    };
    assert_eq!(call(&mut vm), "1 \"x\"");
    assert_eq!(call(&mut vm), "1 \"x\"");
    vm.set_global("a", Value::int(2)).expect("memory");
    assert_eq!(call(&mut vm), "2 \"x\"");
    vm.collect_full();
    assert_eq!(call(&mut vm), "2 \"x\"");
    run(&mut vm, "function g() return 'new' end", "snapshots.lua").expect("the program runs");
    assert_eq!(call(&mut vm), "\"new\" \"x\"");
    vm.forget_snapshots();
    run(&mut vm, "b = nil", "snapshots.lua").expect("the program runs");
    assert_eq!(call(&mut vm), "\"new\" nil");
}

#[test]
fn what_arrives_again_and_again_survives_collections() {
    let mut vm = new_vm();
    // The first object of a kind that arrives makes the kind's metatable, which may take Lua code, in the
    // middle of everything.
    let source = "local pl = require 'perilune' local pool = pl.pool.new() \
        local function w(n) if n == 0 then return 0 end return w(n - 1) + 1 end return w, 5, {pool, pool}";
    let values = run(&mut vm, source, "again.lua").expect("the program runs");
    let parcel = vm.pack(&values, PackRules::TASK).expect("it may cross");
    let options =
        perilune_heap::HeapOptions { stress: true, verify: true, poison: true, ..Default::default() };
    let mut other = perilune_vm::Vm::with_options(options);
    perilune_stdlib::open_libs(&mut other).expect("memory for the libraries");
    for _ in 0..300 {
        other.unpack(&parcel).expect("memory");
        let (f, n) = (other.stack_get(1), other.stack_get(2));
        assert_eq!(other.nargs(), 3);
        other.truncate(0);
        let fiber = other.new_fiber(f, &[n]).expect("memory");
        match other.run_fiber(fiber) {
            perilune_vm::FiberStep::Done(perilune_vm::FiberEnd::Returned(1)) => {}
            _ => panic!("the function returns"),
        }
        assert_eq!(other.pop().as_int(), Some(5));
    }
}
