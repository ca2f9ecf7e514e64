//! The memory of islands comes back. One process of its own: the figures are those of the process.

use perilune_heap::{HeapOptions, IslandRef, island_stats};
use perilune_stdlib::open_libs;
use perilune_vm::{LoadMode, Native, Value, Vm};

static SHARE: Native = Native::leaf("share", |vm| {
    let v = vm.share(vm.arg(1))?;
    vm.ret(v)
});

fn run(vm: &mut Vm, text: &str) {
    let f = vm.load(text.as_bytes(), b"=test", LoadMode::Text, None).unwrap_or_else(|e| panic!("{e:?}"));
    if let Err(e) = vm.host_call(f.into(), &[]) {
        panic!("{e:?}");
    }
}

fn new_vm(options: HeapOptions) -> Box<Vm> {
    let mut vm = Vm::with_options(options);
    if open_libs(&mut vm).is_err() || vm.set_global("share", Value::native(&SHARE)).is_err() {
        panic!("no memory");
    }
    vm
}

/// Takes the value of global `name` out of a domain. In a box: the stack of the test is scanned.
#[inline(never)]
fn take(vm: &mut Vm, name: &str) -> Box<(IslandRef, Value)> {
    let v = vm.get_field(vm.globals(), name).unwrap_or_else(|_| panic!("no memory"));
    let island = vm.island_ref(v).unwrap_or_else(|| panic!("{name} is in no island"));
    if vm.set_global(name, Value::NIL).is_err() {
        panic!("no memory");
    }
    Box::new((island, v))
}

#[inline(never)]
#[expect(clippy::boxed_local, reason = "the caller's stack must not have the value")]
fn put(vm: &mut Vm, name: &str, taken: Box<(IslandRef, Value)>) {
    let (island, v) = *taken;
    vm.adopt(island);
    if vm.set_global(name, v).is_err() {
        panic!("no memory");
    }
}

#[test]
fn all_of_it() {
    let most = std::cell::Cell::new(0);
    let note = || most.set(most.get().max(island_stats().bytes));
    let mut vm = new_vm(HeapOptions::default());
    for round in 0..10 {
        // Nothing tells the collector but the bytes that islands are charged with.
        run(&mut vm, "for i = 1, 10000 do share { i, name = 'n' .. i, f = function() return i end } end");
        note();
        assert!(most.get() < 32 << 20, "round {round}: {} bytes of islands", most.get());
    }
    vm.collect_full();
    assert_eq!((island_stats().islands, island_stats().bytes), (0, 0));

    // Large ones, and one that outlives its maker.
    run(
        &mut vm,
        "big = share { list = {}, ints = {} } for i = 1, 20 do local t = {} for j = 1, 300000 do t[j] = j * \
         i end big = share(t) end",
    );
    vm.collect_full();
    let one = island_stats();
    assert!(one.islands == 1 && one.bytes >= 300_000 * 8 && one.bytes < 300_000 * 8 + (4 << 20), "{one:?}");
    let taken = take(&mut vm, "big");
    drop(vm);
    assert_eq!(island_stats().islands, 1);
    let mut other = new_vm(HeapOptions::default());
    put(&mut other, "big", taken);
    run(&mut other, "assert(#big == 300000 and big[300000] == 300000 * 20)");
    other.collect_full();
    run(&mut other, "assert(#big == 300000 and big[1] == 20) big = nil");
    other.collect_full();
    assert_eq!(island_stats().islands, 0);

    // A chain is freed without recursion, whether the collector does it or the state ends.
    run(&mut other, "chain = nil for i = 1, 200000 do chain = share { prev = chain } end");
    let head = take(&mut other, "chain");
    // Native stacks are scanned as they are: what calls have left there is written over.
    run(
        &mut other,
        "local function deep(n) return n == 0 and 0 or 1 + select(2, pcall(deep, n - 1)) end assert(deep(50) \
         == 50)",
    );
    other.collect_full();
    assert_eq!(island_stats().islands, 200_000);
    drop(head);
    assert_eq!(island_stats().islands, 0);
    run(&mut other, "chain = nil for i = 1, 200000 do chain = share { prev = chain } end");
    drop(other);
    let end = island_stats();
    assert!(end.islands == 0 && end.bytes == 0 && end.mapped_bytes <= 8 << 20, "{end:?}");

    // A limit is a limit: the domain that makes islands is charged for them.
    let mut small = new_vm(HeapOptions { limit: Some(16 << 20), ..HeapOptions::default() });
    run(
        &mut small,
        "local all = {} local ok, e = pcall(function() for i = 1, 1000 do local t = {} for j = 1, 10000 do t[j] = j end all[i] = share(t) end end)
         assert(not ok and e:find 'not enough memory', e)
         all = nil collectgarbage() assert(collectgarbage 'count' < 8 * 1024)
         for i = 1, 1000 do local t = {} for j = 1, 10000 do t[j] = j end share(t) end",
    );
    drop(small);
    assert_eq!(island_stats().islands, 0);
}
