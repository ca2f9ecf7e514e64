//! Shared values in Lua programs: what reads as before, what is refused, what several domains do with them at
//! once.

use perilune_heap::{HeapOptions, IslandRef, protect_islands};
use perilune_stdlib::open_libs;
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{LoadMode, LuaResult, Native, Value, Vm};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

static SHARE: Native = Native::leaf("share", |vm| {
    let v = vm.share(vm.arg(1))?;
    vm.ret(v)
});
static IS_SHARED: Native = Native::leaf("is_shared", |vm| vm.ret(vm.is_shared(vm.arg(1))));
static IN_ISLAND: Native = Native::leaf("in_island", |vm| vm.ret(vm.island_ref(vm.arg(1)).is_some()));
static VERIFY: Native = Native::leaf("verify", |vm| {
    if let Err(e) = vm.verify_heap() {
        panic!("{e}");
    }
    Ok(0)
});

fn new_vm(options: HeapOptions) -> Box<Vm> {
    protect_islands();
    let mut vm = Vm::with_options(options);
    let set_up = |vm: &mut Vm| -> LuaResult<()> {
        open_libs(vm)?;
        for native in [&SHARE, &IS_SHARED, &IN_ISLAND, &VERIFY] {
            vm.set_global(native.name, Value::native(native))?;
        }
        Ok(())
    };
    set_up(&mut vm).unwrap_or_else(|_| panic!("the libraries do not open"));
    vm
}

fn run(vm: &mut Vm, name: &str, text: &str, args: &[Value]) -> Value {
    let chunk = format!("={name}");
    let f = match vm.load(text.as_bytes(), chunk.as_bytes(), LoadMode::Both, None) {
        Ok(f) => f,
        Err(e) => panic!("{name}: {e:?}"),
    };
    match vm.host_call(f.into(), args) {
        Ok(0) => Value::NIL,
        Ok(n) => {
            let v = vm.stack_get(vm.nargs() - n + 1);
            for _ in 0..n {
                vm.pop();
            }
            v
        }
        Err(e) => panic!("{name}: {e:?}"),
    }
}

fn scripts(options: impl Fn() -> HeapOptions) {
    for (name, text) in [
        ("read", include_str!("islands/read.lua")),
        ("refuse", include_str!("islands/refuse.lua")),
        ("write", include_str!("islands/write.lua")),
        ("functions", include_str!("islands/functions.lua")),
        ("lifetime", include_str!("islands/lifetime.lua")),
        ("random", include_str!("islands/random.lua")),
    ] {
        let mut vm = new_vm(options());
        run(&mut vm, "graphs", include_str!("islands/graphs.lua"), &[]);
        run(&mut vm, name, text, &[]);
        vm.close();
    }
}

/// Look-ups with everything that may happen between them, and with epochs that begin anew meanwhile.
#[test]
fn lookups_are_forgotten_in_time() {
    let text = include_str!("islands/lookups.lua");
    let plain = HeapOptions::default;
    let small = || HeapOptions { nursery: 64 << 10, fixed_nursery: true, ..plain() };
    for (options, rounds, many) in [
        (plain(), 2000, true),
        (HeapOptions { verify: true, poison: true, ..small() }, 100, false),
        (HeapOptions { first_epoch: perilune_heap::WATCHED - 300, verify: true, ..small() }, 400, false),
        (HeapOptions { stress: true, poison: true, ..plain() }, 30, false),
    ] {
        let mut vm = new_vm(options);
        let set = |vm: &mut Vm| -> LuaResult<()> {
            vm.set_global("ROUNDS", Value::int(rounds))?;
            vm.set_global("MANY", Value::bool(many))
        };
        set(&mut vm).unwrap_or_else(|_| panic!("no memory"));
        run(&mut vm, "lookups", text, &[]);
        vm.close();
    }
}

#[test]
fn programs_under_the_verifier() {
    for (name, text) in [
        ("lifetime", include_str!("islands/lifetime.lua")),
        ("functions", include_str!("islands/functions.lua")),
    ] {
        let mut vm = new_vm(HeapOptions {
            verify: true,
            nursery: 64 << 10,
            fixed_nursery: true,
            ..HeapOptions::default()
        });
        run(&mut vm, name, text, &[]);
    }
}

/// A shared object that counts how many there are.
struct Thing(i64);

static THINGS: AtomicUsize = AtomicUsize::new(0);
static THING: SharedKind = SharedKind::new("thing", |vm, mt| {
    let methods = vm.new_table(0, 1)?;
    vm.set_field(methods, "get", Value::native(&THING_GET))?;
    vm.set_field(mt, "__index", methods.into())
});
static THING_GET: Native = Native::leaf("get", |vm| {
    let n = vm.check_shared::<Thing>(1, &THING)?.0;
    vm.ret(n)
});
static NEW_THING: Native = Native::leaf("thing", |vm| {
    THINGS.fetch_add(1, Ordering::Relaxed);
    let n = vm.check_int(1)?;
    let r = vm.shared_ref(Arc::new(Thing(n)));
    vm.ret(r)
});

impl SharedObject for Thing {
    fn kind(&self) -> &'static SharedKind {
        &THING
    }
}

impl Drop for Thing {
    fn drop(&mut self) {
        THINGS.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn islands_keep_shared_objects() {
    let mut vm = new_vm(HeapOptions::default());
    if vm.set_global("thing", Value::native(&NEW_THING)).is_err() {
        panic!("no memory");
    }
    let text = r#"
        local a = thing(1)
        local s = share { a = a, list = { a, thing(2) }, [a] = "key", by = { [thing(3)] = 3, x = 1 } }
        assert(s.a == a and s.list[1] == a and s[a] == "key" and s[s.a] == "key" and s.list[2]:get() == 2)
        assert(type(s.a) == "userdata" and s.a:get() == 1 and is_shared(a) and not in_island(a) and in_island(s.a))
        assert(share(a) == a)
        local private = { [s.a] = 5 }
        assert(private[a] == 5 and private[s.list[1]] == 5)
        for k, v in pairs(s.by) do if v == 3 then assert(k:get() == 3 and s.by[k] == 3 and next(s.by, k) ~= k) end end
        verify()
        kept = s.list
    "#;
    run(&mut vm, "things", text, &[]);
    vm.collect_full();
    vm.collect_full();
    assert_eq!(THINGS.load(Ordering::Relaxed), 3);
    let all: Vec<_> = vm.heap().islands();
    assert_eq!(all.len(), 1);
    assert_eq!(perilune_vm::island::shared_objects(&all[0]).len(), 3);
    drop(all);
    run(&mut vm, "things", "assert(kept[1]:get() == 1 and kept[2]:get() == 2) kept = nil", &[]);
    vm.collect_full();
    vm.collect_full();
    assert_eq!(THINGS.load(Ordering::Relaxed), 0);
}

#[test]
fn programs() {
    scripts(HeapOptions::default);
}

#[test]
fn programs_under_stress() {
    scripts(|| HeapOptions { stress: true, poison: true, verify: false, ..HeapOptions::default() });
}

/// Values on their way between the domains of a test, with the seed of the graph that they are.
static QUEUE: Mutex<Vec<(IslandRef, Frozen, i64)>> = Mutex::new(Vec::new());

/// A value in an island, beside which the island's count travels.
struct Frozen(Value);

// SAFETY: islands are immutable and belong to no domain; the receiver adopts the count before it uses the
// value.
unsafe impl Send for Frozen {}

static SEND: Native = Native::leaf("send", |vm| {
    let (v, seed) = (vm.arg(1), vm.check_int(2)?);
    let island = vm.island_ref(v).unwrap_or_else(|| panic!("not in an island"));
    let mut queue = QUEUE.lock().unwrap_or_else(|e| e.into_inner());
    let at = seed as usize * 31 % (queue.len() + 1);
    queue.insert(at, (island, Frozen(v), seed));
    Ok(0)
});

static RECEIVE: Native = Native::leaf("receive", |vm| {
    let mut queue = QUEUE.lock().unwrap_or_else(|e| e.into_inner());
    let Some((island, Frozen(v), seed)) = queue.pop() else { return vm.ret(Value::NIL) };
    drop(queue);
    vm.adopt(island);
    vm.push(v);
    vm.push(Value::int(seed));
    Ok(2)
});

/// Domains on threads of their own build random graphs, share them and send them around; whoever gets one
/// builds it anew and compares.
fn exchange(threads: u64, rounds: i64, options: impl Fn() -> HeapOptions + Sync) {
    std::thread::scope(|scope| {
        for n in 0..threads {
            let options = &options;
            scope.spawn(move || {
                let mut vm = new_vm(options());
                for native in [&SEND, &RECEIVE] {
                    if vm.set_global(native.name, Value::native(native)).is_err() {
                        panic!("no memory");
                    }
                }
                let text = include_str!("islands/exchange.lua");
                run(&mut vm, "graphs", include_str!("islands/graphs.lua"), &[]);
                run(&mut vm, "exchange", text, &[Value::int(n as i64 * 1000 + 1), Value::int(rounds)]);
                vm.close();
            });
        }
    });
}

#[test]
fn graphs_travel_between_domains() {
    exchange(4, 60, HeapOptions::default);
    exchange(2, 6, || HeapOptions { stress: true, poison: true, ..HeapOptions::default() });
    QUEUE.lock().unwrap_or_else(|e| e.into_inner()).clear();
}
