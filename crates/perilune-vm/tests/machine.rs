//! The border between the interpreter and machine code (`perilune_vm::machine`), with machine code that
//! counts how often it is entered and leaves every instruction to the interpreter.

use perilune_syntax::Proto;
use perilune_vm::interrupt::TICK;
use perilune_vm::machine::{Exits, LOOP_ENTRIES, MachineCode, Recording, Run, STAY, Specializer, layout};
use perilune_vm::object::ProtoInst;
use perilune_vm::{LoadMode, LuaResult, Native, Value, Vm};
use std::any::Any;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

thread_local! {
    static STARTS: Cell<usize> = const { Cell::new(0) };
    static ROUNDS: Cell<usize> = const { Cell::new(0) };
    /// Codes that may not be freed, because they run.
    static RUNNING: Cell<usize> = const { Cell::new(0) };
}

type Step = unsafe extern "C-unwind" fn(*mut Vm, *mut Value, *const u8, *const u64) -> u64;

unsafe extern "C-unwind" fn counted(
    vm: *mut Vm,
    mut base: *mut Value,
    inst: *const ProtoInst,
    entry: u32,
) -> u64 {
    let count = if entry == MachineCode::START { &STARTS } else { &ROUNDS };
    count.set(count.get() + 1);
    RUNNING.set(RUNNING.get() + 1);
    // SAFETY: the layouts are those of the VM, and the interpreter calls this as it calls machine code.
    let exit = unsafe {
        let step: Step = std::mem::transmute(layout::step());
        let k = inst.byte_offset(layout::INST_CONSTANTS as isize).cast::<*const u8>().read();
        loop {
            let pc = base.byte_offset(layout::FRAME_PC as isize).cast::<*const u64>().read();
            let exit = step(vm, base, k, pc);
            if exit != STAY {
                break exit;
            }
            base = vm.byte_offset(layout::VM_BASE as isize).cast::<*mut Value>().read();
        }
    };
    RUNNING.set(RUNNING.get() - 1);
    exit
}

/// Stands for the memory of a code.
struct Memory(Arc<AtomicUsize>);

impl Drop for Memory {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
        assert!(RUNNING.get() == 0 || self.0.load(Ordering::Relaxed) > 0, "the code that runs is freed");
    }
}

#[derive(Debug, Default)]
struct Counted {
    /// Codes that live.
    alive: Arc<AtomicUsize>,
    refuse: Mutex<bool>,
}

impl Specializer for Counted {
    fn code_of(&self, proto: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        if *self.refuse.lock().unwrap() {
            return None;
        }
        self.alive.fetch_add(1, Ordering::Relaxed);
        let memory: Box<dyn Any + Send + Sync> = Box::new(Memory(self.alive.clone()));
        let loops = proto.code.iter().enumerate();
        let loops = loops.filter(|(_, i)| i.op().is_some_and(|op| LOOP_ENTRIES.contains(&op)));
        let entries: Vec<_> = loops.map(|(at, _)| (at as u32, 1)).collect();
        // SAFETY: `counted` leaves everything to `step`, and is no memory that could be freed.
        Some(unsafe {
            MachineCode::new(
                Arc::clone(proto),
                (Run::of(counted), 0),
                true,
                &entries,
                &[],
                Exits::new(proto),
                memory,
            )
        })
    }
}

fn state() -> (Box<Vm>, Arc<Counted>) {
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).unwrap();
    let counted = Arc::new(Counted::default());
    vm.set_specializer(counted.clone());
    (vm, counted)
}

/// Runs a chunk: how many functions and loops it has entered.
fn run(vm: &mut Vm, source: &str) -> (usize, usize) {
    let (starts, rounds) = (STARTS.get(), ROUNDS.get());
    let chunk = vm.load(source.as_bytes(), b"=test", LoadMode::Text, None).expect("a chunk");
    if let Err(error) = vm.host_call(chunk.into(), &[]) {
        panic!("{:?}", error.as_string().map(|s| s.to_text()));
    }
    assert_eq!(RUNNING.get(), 0, "a run of machine code has not ended");
    (STARTS.get() - starts, ROUNDS.get() - rounds)
}

#[test]
fn functions_and_loops_are_entered() {
    let (mut vm, _) = state();
    assert_eq!(run(&mut vm, "local x = 1"), (1, 0));
    assert_eq!(run(&mut vm, "local function f() return 1 end local x = f() + f()"), (3, 0));
    // What is called comes back to the caller: its loop goes on in the run that it began in.
    assert_eq!(run(&mut vm, "local function f() end for i = 1, 5 do f() end"), (6, 0));
    assert_eq!(run(&mut vm, "local function f() end local i = 0 while i < 5 do i = i + 1 f() end"), (6, 0));
    assert_eq!(run(&mut vm, "local function f() end for k in pairs {1, 2, 3} do f() end"), (4, 0));
    // A loop without calls is one run.
    assert_eq!(run(&mut vm, "local s = 0 for i = 1, 1000 do s = s + i end assert(s == 500500)"), (1, 0));
    // So is one in a function whose frame `...` has moved.
    assert_eq!(
        run(&mut vm, "local n = select('#', ...) for i = 1, 10 do n = n + i end assert(n == 55)"),
        (1, 0)
    );
}

#[test]
fn hooks_see_every_instruction() {
    let (mut vm, _) = state();
    let source = "local n = 0
        debug.sethook(function() n = n + 1 end, '', 1)
        for i = 1, 100 do end
        debug.sethook()
        assert(n > 100, n)";
    assert_eq!(run(&mut vm, source).0, 1);
}

#[test]
fn machine_code_that_is_set_later_is_for_later_functions() {
    let (mut vm, counted) = state();
    *counted.refuse.lock().unwrap() = true;
    assert_eq!(run(&mut vm, "function late() return 1 end for i = 1, 10 do late() end"), (0, 0));
    *counted.refuse.lock().unwrap() = false;
    // It is no long way through the function without code, and the loop goes on in the run that it began in.
    assert_eq!(run(&mut vm, "for i = 1, 10 do late() end"), (1, 0));
}

#[test]
fn a_long_way_through_what_has_no_machine_code_leaves_it() {
    let (mut vm, counted) = state();
    *counted.refuse.lock().unwrap() = true;
    assert_eq!(run(&mut vm, "function far() for i = 1, 1000 do end end"), (0, 0));
    *counted.refuse.lock().unwrap() = false;
    assert_eq!(run(&mut vm, "for i = 1, 10 do far() end"), (1, 10));
}

#[test]
fn code_lives_as_long_as_somebody_can_run_it() {
    let (mut vm, counted) = state();
    run(&mut vm, "for i = 1, 100 do load 'local x = 1 for i = 1, 2 do x = x + i end return x' () end");
    run(&mut vm, "collectgarbage() collectgarbage()");
    assert!(counted.alive.load(Ordering::Relaxed) <= 3, "{:?}", counted.alive);
    // The function that runs loses its frame to a native, which collects it: machine code returns into what
    // was its own all the same.
    let source = "local function tail() return collectgarbage() end
        local chunk = load 'local collect = ... return collect()'
        chunk(function() chunk = nil return tail() end)
        local co = coroutine.wrap(load 'local yield = ... for i = 1, 3 do yield(i) end return yield(4)')
        for i = 1, 4 do assert(co(coroutine.yield) == i) collectgarbage() end";
    run(&mut vm, source);
    // A coroutine that waits in a native, with machine code below it, is dropped.
    let source = "for i = 1, 10 do
            local co = coroutine.create(load [[local yield = coroutine.yield
                table.sort({3, 1, 2}, function(a, b) yield() return a < b end)]])
            assert(coroutine.resume(co))
        end
        collectgarbage() collectgarbage()";
    run(&mut vm, source);
    vm.close();
    drop(vm);
    assert_eq!(counted.alive.load(Ordering::Relaxed), 0);
}

/// Has code for one function, which is never entered.
#[derive(Default)]
struct Useless {
    code: Mutex<Option<Arc<MachineCode>>>,
    asked: AtomicUsize,
}

impl std::fmt::Debug for Useless {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Useless").finish_non_exhaustive()
    }
}

impl Specializer for Useless {
    fn code_of(&self, _: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        None
    }

    fn threshold(&self) -> u32 {
        5
    }

    fn quota(&self) -> u32 {
        10
    }

    fn compile(&self, recording: Recording) -> Vec<(usize, Arc<MachineCode>)> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let proto = recording.logs[0].proto();
        let mut code = self.code.lock().unwrap();
        let made = code.get_or_insert_with(|| {
            let exits = Exits::new(proto);
            // SAFETY: `counted` leaves everything to `step`, and is no memory that could be freed.
            unsafe {
                MachineCode::new(
                    Arc::clone(proto),
                    (Run::of(counted), 0),
                    false,
                    &[],
                    &[],
                    exits,
                    Box::new(()),
                )
            }
        });
        match Arc::ptr_eq(made.proto(), proto) {
            true => vec![(0, Arc::clone(made))],
            false => Vec::new(),
        }
    }
}

#[test]
fn who_gets_the_code_that_it_has_is_asked_about_ever_more_rarely() {
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).unwrap();
    let useless = Arc::new(Useless::default());
    vm.set_specializer(useless.clone());
    run(&mut vm, "local s = 0 for i = 1, 100000 do s = s + i end assert(s == 5000050000)");
    let asked = useless.asked.load(Ordering::Relaxed);
    assert!((2..25).contains(&asked), "recorded {asked} times");
}

/// Writes down the lines of the functions that ticks have found hot.
#[derive(Debug, Default)]
struct Found(Mutex<Vec<u32>>);

impl Specializer for Found {
    fn code_of(&self, _: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        None
    }

    fn quota(&self) -> u32 {
        1
    }

    fn compile(&self, recording: Recording) -> Vec<(usize, Arc<MachineCode>)> {
        self.0.lock().unwrap().push(recording.logs[0].proto().line_defined);
        Vec::new()
    }
}

/// Calls its argument ten times, as `table.sort` does: it is this native that sees the ticks.
static CALLS: Native = Native::reentrant("calls", |vm: &mut Vm| -> LuaResult<u32> {
    let function = vm.arg(1);
    for n in 0..10 {
        vm.interrupt_handle().raise_cause(TICK);
        vm.poll_interrupt()?;
        assert!(vm.call_test(function, Value::int(n), Value::int(n + 1))?);
    }
    Ok(0)
});

#[test]
fn a_tick_that_finds_a_native_is_for_the_function_that_it_calls() {
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).unwrap();
    let found = Arc::new(Found::default());
    vm.set_specializer(found.clone());
    vm.set_global("calls", Value::native(&CALLS)).unwrap();
    run(&mut vm, "local n = 0\ncalls(function(a, b)\nn = n + 1 return a < b\nend)\nassert(n == 10)");
    assert_eq!(found.0.lock().unwrap().first(), Some(&2));
}

/// Sees a tick itself, and calls nothing.
static POLLS: Native = Native::leaf("polls", |vm: &mut Vm| -> LuaResult<u32> {
    vm.interrupt_handle().raise_cause(TICK);
    vm.poll_interrupt()?;
    Ok(0)
});

#[test]
fn ticks_that_find_natives_which_begin_nothing_are_for_the_function_that_has_called_them() {
    for call in ["polls()", "pcall(polls)", "pcall(pcall, polls)"] {
        let mut vm = Vm::new();
        perilune_stdlib::open_libs(&mut vm).unwrap();
        let found = Arc::new(Found::default());
        vm.set_specializer(found.clone());
        vm.set_global("polls", Value::native(&POLLS)).unwrap();
        run(&mut vm, &format!("\nlocal function loops() for i = 1, 10 do {call} end end\nloops()"));
        assert_eq!(found.0.lock().unwrap().first(), Some(&2), "{call}");
    }
}

/// Writes down how much longer loops were to go on, in times of each recording.
#[derive(Debug, Default)]
struct Ahead(Mutex<Vec<f64>>);

impl Specializer for Ahead {
    fn code_of(&self, _: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        None
    }

    fn quota(&self) -> u32 {
        60
    }

    fn compile(&self, recording: Recording) -> Vec<(usize, Arc<MachineCode>)> {
        self.0.lock().unwrap().push(recording.ahead);
        Vec::new()
    }
}

/// There is a tick.
static TICKS: Native = Native::leaf("ticks", |vm: &mut Vm| -> LuaResult<u32> {
    vm.interrupt_handle().raise_cause(TICK);
    Ok(0)
});

fn ahead(code: &str) -> Vec<f64> {
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).unwrap();
    let specializer = Arc::new(Ahead::default());
    vm.set_specializer(specializer.clone());
    vm.set_global("ticks", Value::native(&TICKS)).unwrap();
    run(&mut vm, code);
    let ahead = specializer.0.lock().unwrap().clone();
    assert!(!ahead.is_empty(), "{code}");
    ahead
}

#[test]
fn recordings_say_how_much_longer_loops_go_on() {
    // Some five instructions a round: a recording is a dozen rounds of a thousand.
    let long = ahead("local n = 0 for i = 1, 1000 do ticks() n = n + i end assert(n == 500500)");
    assert!(long[0] > 40.0 && long[0] < 250.0 && long.last() < long.first(), "{long:?}");
    // So does one further down, of a function that runs in it.
    let called = ahead(
        "local n = 0 local function add(i) ticks() n = n + i end for i = 1, 1000 do add(i) end assert(n == 500500)",
    );
    assert!(called.iter().any(|&ahead| ahead > 40.0 && ahead < 250.0), "{called:?}");
    // What ends by a condition does not know.
    let asks = ahead("local n = 0 while n < 1000 do ticks() n = n + 1 end");
    assert!(asks.iter().all(|&ahead| ahead == 0.0), "{asks:?}");
    let floats = ahead("local n = 0 for i = 1.0, 1000.0 do ticks() n = n + 1 end");
    assert!(floats.iter().all(|&ahead| ahead == 0.0), "{floats:?}");
}
