//! Snapshots of heaps: nothing is missing, sizes add up, paths have the names that programs use.
//!
//! What objects refer to is described once, for the collector too. Here is looked at what a snapshot makes of
//! that: its own marking, its treatment of what is weak, its names.

use perilune_see::heapshot::{Graph, NodeKind, Snapshot};
use perilune_trace::heapshot::Label;
use perilune_vm::{LoadMode, Native, Value, Vm};
use std::collections::HashSet;
use std::sync::Mutex;

fn take(vm: &mut Vm) -> Snapshot {
    Snapshot::read(&vm.heap_snapshot(Vec::new()).unwrap()).unwrap()
}

fn run(vm: &mut Vm, source: &str) {
    let f = vm.load(source.as_bytes(), b"=test", LoadMode::Text, None).unwrap();
    vm.host_call(f.into(), &[]).unwrap();
}

fn state() -> Box<Vm> {
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).unwrap();
    vm
}

fn find(g: &Graph, path: &str) -> u32 {
    let all = (0..g.snapshot.nodes.len() as u32).find(|&n| g.path(n) == path);
    all.unwrap_or_else(|| {
        let paths: Vec<_> = (0..g.snapshot.nodes.len() as u32).map(|n| g.path(n)).collect();
        panic!("no {path} in {paths:#?}")
    })
}

#[test]
fn all_that_a_collection_leaves_is_there_and_the_sizes_add_up() {
    let mut vm = state();
    run(
        &mut vm,
        "g = {a = {1, 2, 3, x = 'a string that is long enough'}, [2.5] = {}, [true] = {}}
         g.self = g
         for i = 1, 1000 do g[i] = {i, tostring = function() return i + #g end} end
         for i = 1, 500 do g['key' .. i] = {['other' .. i] = 'value ' .. i} end
         w = setmetatable({}, {__mode = 'k'}) w[g] = {g.a} w[g.a] = {} w[{}] = {}
         v = setmetatable({}, {__mode = 'v'}) v.x = g.a v.y = {} v[1] = {}
         co = coroutine.create(function(a) local t = {a} coroutine.yield(t) end)
         coroutine.resume(co, {5})",
    );
    let garbage = "for i = 1, 1000 do local t = {{}, {}} end";
    run(&mut vm, garbage);
    vm.collect_full();
    vm.collect_full();
    let live = vm.heap_bytes() as u64;
    run(&mut vm, garbage);
    let s = take(&mut vm);
    let sum: u64 = s.nodes.iter().map(|n| n.bytes()).sum();
    assert!(sum.abs_diff(live) <= live / 50, "{sum} of {live}");
    // Everything is reachable by its strong references.
    let g = Graph::new(&s);
    assert_eq!(g.order.len(), s.nodes.len());
    assert!(vm.verify_heap().is_ok());
    let count = |kind| s.nodes.iter().filter(|n| n.kind == kind).count();
    assert!((1000..1010).contains(&count(NodeKind::Function)), "{}", count(NodeKind::Function));
}

#[test]
fn paths_have_the_names_of_the_program() {
    let mut vm = state();
    run(
        &mut vm,
        "local cache = {}
         function add(k) cache[k] = {items = {k}} end
         add('first') add(17) add('two words') add(1.5)
         co = coroutine.create(function(a) local t = {a} coroutine.yield(t) end)
         coroutine.resume(co, 5)
         w = setmetatable({}, {__mode = 'k', __index = {}})
         key = {} w[key] = {'held by its key'}
         v = setmetatable({}, {__mode = 'v'}) v.x = key",
    );
    let s = take(&mut vm);
    let g = Graph::new(&s);
    for path in [
        "_G.add <upvalue cache>.first.items",
        "_G.add <upvalue cache>[17].items",
        "_G.add <upvalue cache>[\"two words\"]",
        "_G.add <upvalue cache>[1.5].items",
        "_G.w <metatable>.__index",
    ] {
        find(&g, path);
    }
    let local = (0..s.nodes.len() as u32).map(|n| g.path(n)).find(|p| p.contains("<local t of "));
    assert_eq!(local.unwrap(), "_G.co <local t of function <4> (test:4)>");
    let held = (0..s.nodes.len() as u32).map(|n| g.path(n)).find(|p| p.contains("value in weak"));
    assert!(held.as_ref().unwrap().starts_with("_G.key <value in weak table"), "{held:?}");
    // A weak reference is there and holds nothing.
    let key = find(&g, "_G.key");
    let weak = s.edges.iter().filter(|e| e.to == key && e.weak).count();
    assert_eq!(weak, 2);
}

static TAKEN: Mutex<Vec<Snapshot>> = Mutex::new(Vec::new());
static TAKE: Native = Native::leaf("take", |vm| {
    let taken = take(vm);
    TAKEN.lock().unwrap().push(taken);
    Ok(0)
});
static SHARE: Native = Native::leaf("share", |vm| {
    let v = vm.arg(1);
    let v = vm.share(v)?;
    vm.ret(v)
});

#[test]
fn each_kind_of_reference_has_its_label() {
    let mut vm = state();
    for native in [&TAKE, &SHARE] {
        vm.set_global(native.name, Value::native(native)).unwrap();
    }
    let with_values = vm.new_userdata((), 1).unwrap();
    let held = vm.new_table(0, 0).unwrap();
    assert!(vm.set_user_value(with_values, 1, held.into()));
    vm.set_global("with_values", with_values.into()).unwrap();
    run(
        &mut vm,
        "local t = {}
         g = {{}, field = t, [1.5] = {}, [true] = {}, [print] = {}, [t] = {}}
         for n = 1, 200 do g['key ' .. n] = {} end
         w = setmetatable({}, {__mode = 'k'}) w[t] = {}
         closed = (function(x) return function() return x, 'a constant' end end)({})
         shared = share{'a field of an island'}
         local inner = coroutine.wrap(function() local here = {} take() return here end)
         coroutine.wrap(function() inner() end)()",
    );
    let s = TAKEN.lock().unwrap().pop().unwrap();
    let seen: HashSet<Label> = s.edges.iter().map(|e| e.label).collect();
    for label in [
        Label::Field,
        Label::Index,
        Label::StringKey,
        Label::FloatKey,
        Label::BooleanKey,
        Label::ObjectKey,
        Label::OtherKey,
        Label::Key,
        Label::Metatable,
        Label::Upvalue,
        Label::Variable,
        Label::Local,
        Label::Stack,
        Label::Constant,
        Label::Code,
        Label::Ephemeron,
        Label::Resumer,
        Label::UserValue,
        Label::Other,
    ] {
        assert!(seen.contains(&label), "no reference is labelled {label:?}");
    }
}

/// What a domain has made of a function in an island is alive as long as that is, for snapshots as for the
/// collector.
#[test]
fn what_is_made_of_functions_in_islands_depends_on_them() {
    let mut vm = state();
    vm.set_global(SHARE.name, Value::native(&SHARE)).unwrap();
    run(
        &mut vm,
        "shared = share{f = function() return 'made of a function of an island' end}
         assert(shared.f())",
    );
    // What an old word on the native stack seems to refer to is there by chance.
    let functions = |s: &Snapshot| {
        let g = Graph::new(s);
        let all = (0..s.nodes.len() as u32).filter(|&n| s.nodes[n as usize].kind == NodeKind::Function);
        all.filter(|&n| !g.path(n).starts_with("(native stack)")).count()
    };
    let with = take(&mut vm);
    let g = Graph::new(&with);
    let made =
        (0..with.nodes.len() as u32).map(|n| g.path(n)).find(|p| p.contains("function made of one there"));
    assert!(made.is_some(), "nothing is called so");
    run(&mut vm, "shared = nil");
    let without = take(&mut vm);
    assert_eq!(functions(&without), functions(&with) - 1);
    vm.collect_full();
    assert_eq!(functions(&take(&mut vm)), functions(&without), "the collector thinks so, too");
}
