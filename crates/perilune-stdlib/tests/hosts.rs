//! A state on several OS threads: the root chain waits, blocking calls detach, and meanwhile other threads
//! run fibers and collect.

use perilune_test::Folder;
use perilune_vm::{FiberEnd, FiberStep, Gc, Host, LoadMode, Native, Thread, Value, Vm};
use std::cell::Cell;
use std::sync::{Arc, Condvar, Mutex};

/// Who owns the state, and how many turns others have had.
#[derive(Default)]
struct State {
    owned: bool,
    turns: u64,
    withdrawn: u64,
    cancel_root: bool,
    finished: bool,
}

#[derive(Default)]
struct Toy {
    state: Mutex<State>,
    changed: Condvar,
}

impl Toy {
    fn take(&self) {
        let mut s = self.state.lock().unwrap();
        while s.owned {
            s = self.changed.wait(s).unwrap();
        }
        s.owned = true;
    }
    fn release(&self) {
        self.state.lock().unwrap().owned = false;
        self.changed.notify_all();
    }
    fn turns(&self) -> u64 {
        self.state.lock().unwrap().turns
    }
    /// Sleeps until another thread has had a turn since there were `seen`.
    fn await_turn(&self, seen: u64) {
        let mut s = self.state.lock().unwrap();
        while s.turns <= seen {
            s = self.changed.wait(s).unwrap();
        }
    }
}

impl Host for Toy {
    fn is_wanted(&self) -> bool {
        true
    }
    unsafe fn detach(&self) {
        self.release();
    }
    unsafe fn attach(&self) {
        self.take();
    }
    unsafe fn wait_root(&self) {
        let seen = self.turns();
        self.release();
        self.await_turn(seen);
        self.take();
    }
    fn withdraw(&self, _vm: &mut Vm, _fiber: Option<u64>) {
        self.state.lock().unwrap().withdrawn += 1;
    }
    fn is_cancelled(&self, fiber: Option<u64>) -> bool {
        match fiber {
            None => self.state.lock().unwrap().cancel_root,
            Some(tag) => tag == 666 || tag == RECEIVED,
        }
    }
    fn gives_up(&self, _vm: &mut Vm, fiber: Option<u64>) -> bool {
        fiber != Some(RECEIVED)
    }
}

/// The tag of fibers that are cancelled when what they wait for has come.
const RECEIVED: u64 = 667;

/// `receive(cancel)`: parks once; if `cancel`, its fiber is to be cancelled just then.
static RECEIVE: Native = Native::leaf("receive", |vm| {
    if WAITED.replace(0) == 0 {
        vm.end_grace()?;
        WAITED.set(1);
        if vm.arg(1).is_truthy() {
            vm.interrupt_handle().raise_cause(perilune_vm::interrupt::CANCEL);
        }
        return Err(vm.park());
    }
    vm.has_delivered();
    vm.ret_str(b"message")
});

thread_local! {
    static WAITED: Cell<i64> = const { Cell::new(0) };
}

/// `wait(n, ...)`: parks `n` times, in the root chain and in fibers that stay on one thread.
static WAIT: Native = Native::leaf("wait", |vm| {
    let times = vm.check_int(1)?;
    vm.may_wait()?;
    let waited = WAITED.replace(0);
    if waited < times {
        WAITED.set(waited + 1);
        return Err(vm.park());
    }
    Ok(vm.nargs() - 1)
});

/// `block(...)`: blocks until another thread has run something in this state.
static BLOCK: Native = Native::leaf("block", |vm| {
    let t = vm.new_table(0, 4)?;
    vm.set_field(t, "kept", Value::int(17))?;
    let toy = TOY.with(|t| t.borrow().clone()).expect("set");
    vm.blocking(|| toy.await_turn(toy.turns()));
    // Held by this frame alone.
    let kept = vm.get_field(t, "kept")?;
    assert!(kept.same(Value::int(17)));
    Ok(vm.nargs())
});

/// `nap(...)`: blocks for a moment.
static NAP: Native = Native::leaf("nap", |vm| {
    let nanoseconds = WAITED.get().unsigned_abs() * 7919 % 300_000;
    vm.blocking(|| std::thread::sleep(std::time::Duration::from_nanos(nanoseconds)));
    Ok(vm.nargs())
});

thread_local! {
    static TOY: std::cell::RefCell<Option<Arc<Toy>>> = const { std::cell::RefCell::new(None) };
}

fn new_vm(toy: &Arc<Toy>) -> Box<Vm> {
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).expect("opens");
    vm.set_global("wait", Value::native(&WAIT)).expect("room");
    vm.set_global("nap", Value::native(&NAP)).expect("room");
    vm.set_global("block", Value::native(&BLOCK)).expect("room");
    vm.set_host(toy.clone());
    vm.heap().set_stress(true);
    vm
}

/// The state's address, for threads that take turns.
#[derive(Clone, Copy)]
struct Address(*mut Vm);
// SAFETY: the toy's ownership flag lets one thread at a time use it.
unsafe impl Send for Address {}

impl Address {
    /// # Safety
    /// The caller owns the state.
    unsafe fn vm<'a>(self) -> &'a mut Vm {
        // SAFETY: the caller's promise.
        unsafe { &mut *self.0 }
    }
}

fn load(vm: &mut Vm, source: &str) -> Value {
    match vm.load(source.as_bytes(), b"=test", LoadMode::Text, None) {
        Ok(f) => f.into(),
        Err(e) => panic!("{e:?}"),
    }
}

fn show(v: Value) -> String {
    v.as_string().map_or_else(|| format!("{v:?}"), |s| s.to_text())
}

/// Runs a fiber to its end and shows its first result or error.
fn finish(vm: &mut Vm, fiber: Gc<Thread>) -> String {
    loop {
        match vm.run_fiber(fiber) {
            FiberStep::Parked => {}
            FiberStep::Done(FiberEnd::Returned(n)) => {
                let total = vm.nargs();
                let text = if n == 0 { String::new() } else { show(vm.stack_get(total - n + 1)) };
                vm.truncate(total - n);
                return text;
            }
            FiberStep::Done(FiberEnd::Failed { .. }) => {
                let text = format!("error: {}", show(vm.stack_get(vm.nargs())));
                vm.pop();
                return text;
            }
            FiberStep::Done(FiberEnd::Cancelled) => return "cancelled".into(),
        }
    }
}

/// A thread that enters, runs a fiber that makes garbage and looks at everything, and leaves, until the root
/// has finished.
fn pump(toy: Arc<Toy>, address: Address) -> u64 {
    TOY.set(Some(toy.clone()));
    let mut count = 0;
    loop {
        toy.take();
        if toy.state.lock().unwrap().finished {
            toy.release();
            return count;
        }
        // SAFETY: just taken.
        let vm = unsafe { address.vm() };
        vm.enter_thread();
        let f = load(
            vm,
            "local t = {} for i = 1, 20 do t[i] = {i} end
             local s = string.gsub('abc', '.', function(c) return wait(1, nap(c .. c)) end)
             assert(s == 'aabbcc' and nap('n') == 'n')
             return 'pumped'",
        );
        let fiber = vm.new_fiber(f, &[]).unwrap();
        assert_eq!(finish(vm, fiber), "pumped");
        vm.verify_heap().expect("sound");
        vm.leave_thread();
        count += 1;
        toy.state.lock().unwrap().turns += 1;
        toy.release();
        std::thread::yield_now();
    }
}

/// Runs each source on this thread as the main program while another thread takes turns.
fn with_pump(run: impl FnOnce(&mut Vm, &Toy)) {
    let toy = Arc::new(Toy::default());
    TOY.set(Some(toy.clone()));
    toy.take();
    let mut vm = new_vm(&toy);
    let address = Address(&raw mut *vm);
    let other = {
        let toy = toy.clone();
        std::thread::spawn(move || pump(toy, address))
    };
    // SAFETY: taken above; the runs below give it up and take it again by the host.
    run(unsafe { address.vm() }, &toy);
    toy.state.lock().unwrap().finished = true;
    toy.release();
    assert_eq!(other.join().expect("no panic"), toy.turns());
    assert!(!vm.has_detached());
    vm.collect_full();
    vm.verify_heap().expect("sound");
}

const PLACES: &[(&str, &str)] = &[
    ("return wait(1, 'top')", "top"),
    ("return block('top')", "top"),
    ("return pcall(wait, 2) and 'ok'", "ok"),
    ("return coroutine.wrap(function() return wait(1, 'in') end)()", "in"),
    ("return coroutine.wrap(function() return block('in') end)()", "in"),
    ("return (string.gsub('ab', '.', function(c) return wait(1, c .. c) end))", "aabb"),
    ("return (string.gsub('ab', '.', function(c) return block(c .. c) end))", "aabb"),
    ("return (string.gsub('12', '.', wait))", "12"),
    (
        "local co = coroutine.wrap(function() local t = {'b', 'a'} table.sort(t, function(a, b) \
         coroutine.yield('y') return block(a < b) end) return t[1] end) local r repeat r = co() until r ~= \
         'y' return r",
        "a",
    ),
    (
        "local t = setmetatable({}, {__index = function(_, k) return block(wait(1, k)) end}) return t.key",
        "key",
    ),
    (
        "local log do local c <close> = setmetatable({}, {__close = function() log = wait(1, 'closed') end}) \
         end return log",
        "closed",
    ),
    ("local s = '' for w in string.gmatch('x y z', '%a') do s = s .. block(w) end return s", "xyz"),
];

#[test]
fn the_root_chain_waits() {
    with_pump(|vm, toy| {
        for (source, expected) in PLACES {
            let f = load(vm, source);
            let n = vm.host_call(f, &[]).unwrap_or_else(|e| panic!("{source}: {}", show(e)));
            let first = vm.stack_get(vm.nargs() - n + 1);
            assert_eq!(show(first), *expected, "{source}");
            vm.truncate(vm.nargs() - n);
        }
        assert!(toy.turns() > 10);
    });
}

/// The same in fibers of a thread that has entered: while they block, the other thread enters too.
#[test]
fn fibers_detach() {
    with_pump(|vm, toy| {
        vm.enter_thread();
        for (source, expected) in PLACES {
            let f = load(vm, source);
            let fiber = vm.new_fiber(f, &[]).unwrap();
            assert_eq!(finish(vm, fiber), *expected, "{source}");
        }
        vm.leave_thread();
        // Let the other thread have a turn at least.
        let seen = toy.turns();
        toy.release();
        toy.await_turn(seen);
        toy.take();
    });
}

#[test]
fn interrupts_end_the_root_chains_wait() {
    with_pump(|vm, toy| {
        let handle = vm.interrupt_handle();
        handle.raise();
        let f = load(vm, "return select(2, pcall(wait, 1))");
        vm.host_call(f, &[]).unwrap();
        assert_eq!(show(vm.pop()), "interrupted!");
        assert_eq!(toy.state.lock().unwrap().withdrawn, 1);
        WAITED.set(0);
        handle.raise();
        let e = vm.host_call(Value::native(&WAIT), &[Value::int(1)]);
        // Called by native code without an interpreter between.
        assert_eq!(show(e.unwrap_err()), "interrupted!");
        assert_eq!(toy.state.lock().unwrap().withdrawn, 2);
        WAITED.set(0);
        // Cancelling the root chain.
        toy.state.lock().unwrap().cancel_root = true;
        handle.raise_cause(perilune_vm::interrupt::CANCEL);
        let f = load(
            vm,
            "closed = 0 local c <close> = setmetatable({}, {__close = function() closed = 1 end}) \
             pcall(function() while true do end end) return 'caught'",
        );
        let e = vm.host_call(f, &[]).unwrap_err();
        assert_eq!(show(e), "cancelled");
        toy.state.lock().unwrap().cancel_root = false;
        handle.raise_cause(perilune_vm::interrupt::CANCEL);
        let f = load(vm, "return 'goes on'");
        vm.host_call(f, &[]).unwrap();
        assert_eq!(show(vm.pop()), "goes on");
    });
}

#[test]
fn running_fibers_are_cancelled_by_the_host() {
    let toy = Arc::new(Toy::default());
    let mut vm = new_vm(&toy);
    let handle = vm.interrupt_handle();
    let f = load(
        &mut vm,
        "local n = 0
         local c <close> = setmetatable({}, {__close = function() closed = true end})
         coroutine.resume(coroutine.create(function() pcall(function() while true do n = n + 1 end end) end))
         return 'caught'",
    );
    for (tag, expected) in [(1, "interrupted!"), (666, "cancelled")] {
        let fiber = vm.new_fiber(f, &[]).unwrap();
        vm.set_fiber_tag(fiber, tag);
        let handle = handle.clone();
        let stop = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            handle.raise_cause(perilune_vm::interrupt::CANCEL);
            if tag == 1 {
                // Not its cancellation: it goes on.
                std::thread::sleep(std::time::Duration::from_millis(20));
                handle.raise();
            }
        });
        let text = finish(&mut vm, fiber);
        stop.join().unwrap();
        if tag == 1 {
            assert_eq!(text, "caught", "{expected}");
        } else {
            assert_eq!(text, expected);
            let g = vm.globals();
            assert!(vm.get_field(g, "closed").unwrap().is_truthy());
        }
    }
}

/// A cancellation that comes when a wait has begun, or while it lasts, takes nothing away that has come by
/// then.
#[test]
fn what_has_come_is_taken_before_a_cancellation() {
    let toy = Arc::new(Toy::default());
    let mut vm = new_vm(&toy);
    vm.set_global("receive", Value::native(&RECEIVE)).expect("room");
    let f = load(&mut vm, "local soon = ... got = nil got = receive(soon) receive() missed = false");
    for (tag, soon, expected) in
        [(RECEIVED, true, "message"), (RECEIVED, false, "message"), (666, true, "nil"), (666, false, "nil")]
    {
        WAITED.set(0);
        let fiber = vm.new_fiber(f, &[Value::bool(soon)]).unwrap();
        vm.set_fiber_tag(fiber, tag);
        if let FiberStep::Parked = vm.run_fiber(fiber) {
            if soon {
                vm.interrupt_handle().raise_cause(perilune_vm::interrupt::CANCEL);
            } else {
                vm.cancel_fiber(fiber);
            }
            assert_eq!(finish(&mut vm, fiber), "cancelled", "{tag} {soon}");
        }
        let g = vm.globals();
        let got = vm.get_field(g, "got").unwrap();
        assert_eq!(got.as_string().map_or("nil".into(), |s| s.to_text()), expected, "{tag} {soon}");
        assert!(vm.get_field(g, "missed").unwrap().is_nil());
    }
}

/// Code of three threads blocks at the same time in one state, and goes on in any order.
#[test]
fn blocked_code_goes_on_in_any_order() {
    with_pump(|vm, toy| {
        let address = Address(&raw mut *vm);
        let third = {
            let host: Arc<dyn Host> = vm.host().expect("set").clone();
            std::thread::spawn(move || {
                for _ in 0..30 {
                    // SAFETY: the test's other code of this state blocks, or runs after this has detached.
                    unsafe { host.attach() };
                    // SAFETY: just taken.
                    let vm = unsafe { address.vm() };
                    vm.enter_thread();
                    let f =
                        load(vm, "local s = '' for i = 1, 5 do s = s .. coroutine.wrap(nap)(i) end return s");
                    let fiber = vm.new_fiber(f, &[]).unwrap();
                    assert_eq!(finish(vm, fiber), "12345");
                    vm.leave_thread();
                    // SAFETY: nothing of the state is used before it is taken again.
                    unsafe { host.detach() };
                }
            })
        };
        let f = load(
            vm,
            "local t = {}
             for i = 1, 100 do t[i] = nap({i}) end
             for i = 1, 100 do assert(t[i][1] == i) end
             return 'whole'",
        );
        vm.host_call(f, &[]).unwrap();
        assert_eq!(show(vm.pop()), "whole");
        toy.release();
        third.join().unwrap();
        toy.take();
    });
}

/// A state made on one thread, used by others only, one after the other.
#[test]
fn states_move_between_threads() {
    let toy = Arc::new(Toy::default());
    let vm = std::thread::spawn({
        let toy = toy.clone();
        move || Address(Box::into_raw(new_vm(&toy)))
    })
    .join()
    .unwrap();
    for round in 0..3 {
        let address = vm;
        std::thread::spawn(move || {
            // SAFETY: one thread at a time.
            let vm = unsafe { address.vm() };
            vm.enter_thread();
            let f = load(vm, "n = (n or 0) + 1 return tostring(n)");
            let fiber = vm.new_fiber(f, &[]).unwrap();
            assert_eq!(finish(vm, fiber), (round + 1).to_string());
            // One that outlives the thread.
            let f = load(
                vm,
                "local t = {1} table.sort({2, 1}, function(a, b) wait(1) return a < b end) return t",
            );
            let fiber = vm.new_fiber(f, &[]).unwrap();
            assert!(matches!(vm.run_fiber(fiber), FiberStep::Parked));
            WAITED.set(0);
            vm.collect_full();
            vm.leave_thread();
        })
        .join()
        .unwrap();
    }
    // SAFETY: nobody else has it.
    let mut vm = unsafe { Box::from_raw(vm.0) };
    vm.enter_thread();
    assert_eq!(vm.live_fibers(), 3);
    for fiber in vm.fibers() {
        vm.cancel_fiber(fiber);
        assert_eq!(finish(&mut vm, fiber), "cancelled");
    }
    vm.leave_thread();
}

/// What sleeps in the kernel leaves the state to others, who let it go on.
#[test]
fn pipes_and_processes_leave_the_state_to_others() {
    let folder = Folder::new();
    let place = folder.path().display().to_string();
    let toy = Arc::new(Toy::default());
    toy.take();
    let mut vm = new_vm(&toy);
    vm.heap().set_stress(false);
    let address = Address(&raw mut *vm);
    let cases = [
        // The child ends only when somebody else has run in this state.
        ("return io.popen('while [ ! -e @ ]; do sleep 0.01; done; echo done'):read('a')", "done\n"),
        (
            "local f = io.popen('while [ ! -e @ ]; do sleep 0.01; done') held = f f:close() return 'closed'",
            "closed",
        ),
        ("return (os.execute('while [ ! -e @ ]; do sleep 0.01; done') and 'executed')", "executed"),
        (
            "local f = io.popen('while [ ! -e @ ]; do sleep 0.01; done; cat >/dev/null', 'w') \
             f:write(('x'):rep(1 << 20)) f:close() return 'written'",
            "written",
        ),
        (
            "local f = io.popen('while [ ! -e @ ]; do sleep 0.01; done; echo l') held = f for l in f:lines() \
             do return l end",
            "l",
        ),
    ];
    for (n, (source, expected)) in cases.into_iter().enumerate() {
        let file = format!("{place}/{n}");
        let text = source.replace('@', &file);
        let host = toy.clone();
        let wait_for_it = source.contains("lines");
        let other = std::thread::spawn(move || {
            loop {
                host.take();
                // SAFETY: just taken.
                let vm = unsafe { address.vm() };
                let globals = vm.globals();
                if !wait_for_it || vm.get_field(globals, "held").is_ok_and(Value::is_truthy) {
                    break;
                }
                // Starting the process detached, not reading from it.
                host.release();
                std::thread::yield_now();
            }
            // SAFETY: taken in the loop.
            let vm = unsafe { address.vm() };
            vm.enter_thread();
            // Who closes a file that is in use waits until it is not.
            let f = load(
                vm,
                &format!(
                    "io.open('{file}', 'w'):close()
                     local status = held and io.type(held) == 'file' and select(3, held:close())
                     held = nil
                     return tostring(status)"
                ),
            );
            let fiber = vm.new_fiber(f, &[]).unwrap();
            let text = finish(vm, fiber);
            vm.leave_thread();
            host.release();
            text
        });
        // SAFETY: this thread owns it.
        let vm = unsafe { address.vm() };
        let f = load(vm, &text);
        vm.host_call(f, &[]).unwrap_or_else(|e| panic!("{text}: {}", show(e)));
        assert_eq!(show(vm.pop()), expected, "{text}");
        toy.release();
        let said = other.join().expect("no panic");
        if wait_for_it {
            assert_eq!(said, "0", "the process has ended well");
        }
        toy.take();
    }
}
