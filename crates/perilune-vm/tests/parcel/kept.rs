//! What is packed once for many crossings: counted, not timed.

use crate::stand_in::{new_vm, run};
use perilune_vm::parcel::{LetGo, PackRules};
use perilune_vm::{Value, Vm};
use std::time::{Duration, Instant};

/// Calls the function of a parcel that `f` is packed into, in `to`, and returns its first result.
fn cross(from: &mut Vm, to: &mut Vm, f: Value, args: &[Value]) -> Value {
    let parcel = from.pack(&[f], PackRules::TASK).expect("it may cross");
    to.unpack(&parcel).expect("memory");
    let there = to.stack_get(1);
    let n = to.host_call(there, args).expect("the function runs");
    assert_eq!(n, 1);
    let result = to.pop();
    to.truncate(0);
    result
}

/// Instances of a class are packed and copied once; a store into one, or into the class, is seen.
#[test]
fn instances_are_copied_when_they_have_changed() {
    const COUNT: i64 = 2000;
    let source = "local P = {} P.__index = P function P:sum() return self.x + self.y end local list = {} \
        for i = 1, 2000 do list[i] = setmetatable({x = i, y = i * 2}, P) end \
        return function() local s = 0 for i, p in ipairs(list) do s = s + p:sum() end return s end, \
        function(i, x) list[i].x = x end, function() P.sum = function(p) return p.x end end";
    let (mut vm, mut other) = (new_vm(), new_vm());
    let values = run(&mut vm, source, "instances.lua").expect("the program runs");
    values.iter().for_each(|&v| vm.push(v));
    let [f, write, redefine] = values[..] else { panic!("three functions") };
    let (mut x, y) = (COUNT * (COUNT + 1) / 2, COUNT * (COUNT + 1));

    assert_eq!(cross(&mut vm, &mut other, f, &[]).as_int(), Some(x + y));
    let [made, ..] = vm.picture_counts().1;
    assert_eq!(made, 2, "the list and the class");

    let arrived = other.heap().stats().allocated_bytes;
    for _ in 0..5 {
        let parcel = vm.pack(&[f], PackRules::TASK).expect("it may cross");
        assert!(parcel.bytes() < 1024, "{}: the instances are no part of it", parcel.bytes());
        assert_eq!(cross(&mut vm, &mut other, f, &[]).as_int(), Some(x + y));
    }
    assert_eq!(vm.picture_counts().1[0], made, "none is made again");
    other.collect_minor();
    let copied = other.heap().stats().allocated_bytes - arrived;
    assert!(copied < 32 * COUNT as u64, "{copied} bytes: nothing is copied again");

    // Collections on both sides change nothing of that.
    vm.collect_full();
    other.collect_full();
    assert_eq!(cross(&mut vm, &mut other, f, &[]).as_int(), Some(x + y));
    assert_eq!(vm.picture_counts().1[0], made);

    vm.host_call(write, &[Value::int(7), Value::int(1007)]).expect("the function runs");
    x += 1000;
    assert_eq!(cross(&mut vm, &mut other, f, &[]).as_int(), Some(x + y));
    assert_eq!(vm.picture_counts().1[0], made + 1, "the list; its class is the same");

    vm.host_call(redefine, &[]).expect("the function runs");
    assert_eq!(cross(&mut vm, &mut other, f, &[]).as_int(), Some(x));
    assert_eq!(vm.picture_counts().1[0], made + 3, "the class, and so the list");
}

/// A domain without work keeps what it may be asked for again for a while, then lets it go, step by step.
#[test]
fn copies_go_when_nothing_has_come_for_them() {
    let source = "local list = {} for i = 1, 20000 do list[i] = {x = i} end \
        return function() local s = 0 for i, p in ipairs(list) do s = s + p.x end return s end";
    let (mut vm, mut other) = (new_vm(), new_vm());
    let f = run(&mut vm, source, "copies.lua").expect("the program runs")[0];
    vm.push(f);
    let sum = Some(20000 * 20001 / 2);
    assert_eq!(other.let_go_of_copies(|| panic!("there is nothing to wait for")), LetGo::Nothing);
    assert_eq!(cross(&mut vm, &mut other, f, &[]).as_int(), sum);
    let start = Instant::now();
    let LetGo::Later(due) = other.let_go_of_copies(|| start) else { panic!("not at once") };
    assert!(due > start);
    // Somebody comes for them.
    let before = other.heap().stats().allocated_bytes;
    assert_eq!(cross(&mut vm, &mut other, f, &[]).as_int(), sum);
    let later = start + Duration::from_millis(1);
    assert_eq!(other.let_go_of_copies(|| later), LetGo::Later(due + Duration::from_millis(1)));
    assert_eq!(other.let_go_of_copies(|| due), LetGo::Later(due + Duration::from_millis(1)));
    other.collect_minor();
    let copied = other.heap().stats().allocated_bytes - before;
    assert!(copied < 20000 * 16, "{copied} bytes: they are there still");
    // Nobody does.
    let mut steps = 0;
    while other.let_go_of_copies(|| due + Duration::from_millis(1)) != LetGo::Nothing {
        steps += 1;
        assert!(steps < 100_000, "it comes to an end");
    }
    assert!(steps > 0);
    let before = other.heap().stats().allocated_bytes;
    assert_eq!(cross(&mut vm, &mut other, f, &[]).as_int(), sum);
    other.collect_minor();
    let copied = other.heap().stats().allocated_bytes - before;
    assert!(copied > 20000 * 16, "{copied} bytes: they are made again");
}

/// A function that is sent again and again is packed twice, and made once over there; what it shows is as of
/// each crossing.
#[test]
fn functions_are_sent_again_until_something_changes() {
    let source = "local k <const>, name = 40, 'n' local function two() return 2 end \
        step = 0 function extra() return step end \
        local function f() return k + two() + extra() + #name end \
        return f, function() return extra() end, function() local i = 1 \
        while debug.getupvalue(f, i) ~= 'name' do i = i + 1 end debug.setupvalue(f, i, 'four') end";
    let (mut vm, mut other) = (new_vm(), new_vm());
    let values = run(&mut vm, source, "again.lua").expect("the program runs");
    values.iter().for_each(|&v| vm.push(v));
    let [f, g, rename] = values[..] else { panic!("three functions") };
    let mut expect = |vm: &mut Vm, f, result, counts| {
        assert_eq!(cross(vm, &mut other, f, &[]).as_int(), Some(result));
        assert_eq!([vm.again_counts()[0], other.again_counts()[1]], counts);
    };
    // Sent once, it may never be sent again; the second time it is kept.
    expect(&mut vm, f, 43, [0, 0]);
    expect(&mut vm, f, 43, [0, 0]);
    expect(&mut vm, f, 43, [1, 1]);
    // Two that take turns are kept both, once each has been sent twice in a row.
    expect(&mut vm, g, 0, [1, 1]);
    expect(&mut vm, g, 0, [1, 1]);
    expect(&mut vm, f, 43, [2, 2]);
    expect(&mut vm, g, 0, [3, 3]);
    // A global.
    vm.set_global("step", Value::int(1)).expect("memory");
    expect(&mut vm, f, 44, [3, 3]);
    expect(&mut vm, g, 1, [3, 3]);
    expect(&mut vm, f, 44, [3, 3]);
    expect(&mut vm, f, 44, [3, 3]);
    expect(&mut vm, f, 44, [4, 4]);
    // Collections: here addresses may be those of others now; over there what is kept is a root.
    vm.collect_full();
    expect(&mut vm, f, 44, [4, 4]);
    expect(&mut vm, f, 44, [4, 4]);
    expect(&mut vm, f, 44, [5, 5]);
    // What modules are found by.
    run(&mut vm, "package.path = package.path .. ';elsewhere/?.lua'", "path.lua").expect("the program runs");
    expect(&mut vm, f, 44, [5, 5]);
    // What only functions of `debug` change.
    expect(&mut vm, f, 44, [6, 6]);
    vm.host_call(rename, &[]).expect("the function runs");
    expect(&mut vm, f, 47, [6, 6]);
}

/// What could change without being seen is packed each time.
#[test]
fn what_may_change_is_packed_each_time() {
    let source = "local t = {1} \
        local function reads() return t[1] end \
        local function calls() return (('x'):rep(2)) == 'xx' and 1 end \
        local n = 1 local function waited() return n end n = 2 \
        return reads, calls, waited, function(x) t[1] = x end, function(x) n = x end";
    let (mut vm, mut other) = (new_vm(), new_vm());
    let values = run(&mut vm, source, "each.lua").expect("the program runs");
    values.iter().for_each(|&v| vm.push(v));
    let [reads, calls, waited, set_t, set_n] = values[..] else { panic!("five functions") };
    for i in 1..=4 {
        vm.host_call(set_t, &[Value::int(i)]).expect("the function runs");
        assert_eq!(cross(&mut vm, &mut other, reads, &[]).as_int(), Some(i));
        assert_eq!(cross(&mut vm, &mut other, calls, &[]).as_int(), Some(1));
    }
    for i in 1..=4 {
        assert_eq!(cross(&mut vm, &mut other, calls, &[]).as_int(), Some(1));
        vm.host_call(set_n, &[Value::int(i)]).expect("the function runs");
        let parcel = vm.pack(&[waited], PackRules::LOOP).expect("it may cross");
        other.unpack(&parcel).expect("memory");
        let f = other.stack_get(1);
        other.host_call(f, &[]).expect("the function runs");
        assert_eq!(other.pop().as_int(), Some(i));
        other.truncate(0);
    }
    assert_eq!([vm.again_counts()[0], other.again_counts()[1]], [0, 0]);
}
