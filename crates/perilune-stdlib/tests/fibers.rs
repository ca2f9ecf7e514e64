//! Fibers under a toy pump: natives that wait at every place that Lua code can be in, with collections in
//! between; cancellation at every wait; what is refused.
//!
//! The toy native is `wait(n, ...)`: it parks `n` times and returns its other arguments.

use perilune_vm::{FiberEnd, FiberStep, Gc, LoadMode, LuaResult, Native, Thread, Value, Vm};

static WAIT: Native = Native::leaf("wait", wait);
static WAIT_HYBRID: Native = Native::hybrid("wait_hybrid", wait);
static WAIT_REENTRANT: Native = Native::reentrant("wait_reentrant", wait);

fn wait(vm: &mut Vm) -> LuaResult<u32> {
    let times = vm.check_int(1)?;
    let Some(fiber) = vm.current_fiber() else {
        return Err(vm.park());
    };
    vm.may_wait()?;
    let data = vm.fiber_data(fiber);
    let waited = data.take().and_then(|d| d.downcast::<i64>().ok()).map_or(0, |n| *n);
    if waited < times {
        *data = Some(Box::new(waited + 1));
        return Err(vm.park());
    }
    // As results: everything but the count.
    Ok(vm.nargs() - 1)
}

fn new_vm() -> Box<Vm> {
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).expect("opens");
    for native in [&WAIT, &WAIT_HYBRID, &WAIT_REENTRANT] {
        vm.set_global(native.name, Value::native(native)).expect("room");
    }
    vm
}

fn fiber(vm: &mut Vm, source: &str) -> Gc<Thread> {
    let f = vm.load(source.as_bytes(), b"=test", LoadMode::Text, None).unwrap_or_else(|e| panic!("{e:?}"));
    vm.new_fiber(f.into(), &[]).expect("room")
}

fn show(v: Value) -> String {
    match v.as_string() {
        Some(s) => s.to_text(),
        None => format!("{v:?}"),
    }
}

/// What a finished fiber left on the stack.
fn outcome(vm: &mut Vm, end: FiberEnd) -> String {
    match end {
        FiberEnd::Returned(n) => {
            let total = vm.nargs();
            let texts: Vec<String> = (total - n + 1..=total).map(|i| show(vm.stack_get(i))).collect();
            vm.truncate(total - n);
            texts.join(" ")
        }
        FiberEnd::Failed { .. } => {
            let error = vm.stack_get(vm.nargs());
            let text = format!("error: {}", show(error));
            vm.pop();
            text
        }
        FiberEnd::Cancelled => "cancelled".to_string(),
    }
}

/// Runs a fiber to its end; how often it parked, and what became of it.
fn finish(vm: &mut Vm, fiber: Gc<Thread>) -> (u32, String) {
    let mut parks = 0;
    loop {
        match vm.run_fiber(fiber) {
            FiberStep::Parked => parks += 1,
            FiberStep::Done(end) => return (parks, outcome(vm, end)),
        }
    }
}

/// Places where code may be when it waits; what they return, and how often they wait.
const PLACES: &[(&str, u32, &str)] = &[
    ("return wait(2, 'a', 'b')", 2, "a b"),
    ("local x = wait(1, 5) return x + wait(1, 6)", 2, "11"),
    ("return (wait_hybrid(1, 'h'))", 1, "h"),
    ("return (wait_reentrant(1, 'r'))", 1, "r"),
    ("wait_hybrid(2) wait_reentrant(2) return 'ok'", 4, "ok"),
    // Metamethods.
    (
        "local t = setmetatable({}, {__index = function(_, k) return wait(1, k .. '!') end}) return t.x .. \
         t.y",
        2,
        "x!y!",
    ),
    (
        "debug.setmetatable(1, {__index = wait}) local n = 1 local v = n.name debug.setmetatable(1, nil) \
         return v",
        1,
        "name",
    ),
    ("local t = setmetatable({}, {__add = function(a, b) return wait(1, b) end}) return t + 3", 1, "3"),
    (
        "local t = setmetatable({}, {__eq = function() return wait(1, true) end}) return t == \
         setmetatable({}, getmetatable(t)), t ~= setmetatable({}, getmetatable(t))",
        2,
        "true false",
    ),
    (
        "local t = setmetatable({}, {__lt = function() return wait(1, true) end}) if t < t then return \
         'less' end",
        1,
        "less",
    ),
    (
        "local t = setmetatable({}, {__concat = function(a, b) return wait(1, 'c') end}) return 'x' .. t .. \
         'y'",
        1,
        "xc",
    ),
    ("local t = setmetatable({}, {__len = function() return wait(1, 7) end}) return #t", 1, "7"),
    (
        "local log = {} local t = setmetatable({}, {__newindex = function(_, k, v) rawset(_, k, wait(1, v)) \
         end}) t.x = 4 return t.x",
        1,
        "4",
    ),
    (
        "local t = setmetatable({}, {__call = wait}) debug.setmetatable(1, nil) return pcall(t, 1)",
        0,
        "false bad argument #1 to 'wait' (number expected, got table)",
    ),
    // Iterators.
    (
        "local s = 0 for v in function(_, c) c = c or 0 if c < 4 then return wait(1, c + 1) end end do s = s \
         + v end return s",
        4,
        "10",
    ),
    ("local n = 0 for a in wait, 1, 'only' do n = n + 1 if n == 3 then break end end return n", 3, "3"),
    (
        "local n = 0 for a in wait_hybrid, 1, 'only' do n = n + 1 if n == 3 then break end end return n",
        3,
        "3",
    ),
    // Protected calls.
    ("return pcall(wait, 2, 'p')", 2, "true p"),
    ("return xpcall(wait, print, 2, 'x')", 2, "true x"),
    ("return pcall(function() wait(1) error('e', 0) end)", 1, "false e"),
    ("return pcall(pcall, pcall, wait, 1, 'deep')", 1, "true true true deep"),
    (
        "return select(2, xpcall(function() wait(1) local x = nil + 1 end, function(m) return 'H:' .. m \
         end))",
        1,
        "H:test:1: attempt to perform arithmetic on a nil value",
    ),
    // Coroutines.
    (
        "return coroutine.wrap(function(a) local b = wait(1, a) return b, coroutine.isyieldable() end)('z')",
        1,
        "z true",
    ),
    ("return coroutine.resume(coroutine.create(wait), 2, 'body')", 2, "true body"),
    ("return coroutine.wrap(wait)(2, 'wrapped')", 2, "wrapped"),
    (
        "local co = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(wait(1, i)) end end) return \
         co(), co(), co()",
        3,
        "1 2 3",
    ),
    (
        "local function nest(n) if n == 0 then return wait(2, 'bottom') end return coroutine.wrap(nest)(n - \
         1) end return nest(20)",
        2,
        "bottom",
    ),
    (
        "local s = 0 for v in coroutine.wrap(function() for i = 1, 3 do coroutine.yield(wait(1, i)) end end) \
         do s = s + wait(1, v) end return s",
        6,
        "6",
    ),
    // Native code.
    (
        "local t = {3, 1, 2} table.sort(t, function(a, b) return wait(1, a < b) end) return t[1], t[2], t[3]",
        0,
        "1 2 3",
    ),
    ("return (string.gsub('abc', '.', function(c) return wait(1, c:upper()) end))", 3, "ABC"),
    (
        "return (string.gsub('abc', '.', function(c) return (string.gsub(c, '.', function(d) return wait(1, \
         d .. d) end)) end))",
        3,
        "aabbcc",
    ),
    ("package.preload.m = function() wait(2) return {v = 'module'} end return require('m').v", 2, "module"),
    (
        "package.preload.m2 = function() package.preload.m3 = function() return wait(1, {v = 'inner'}) end \
         return require('m3') end return require('m2').v",
        1,
        "inner",
    ),
    (
        "local t = {} table.sort({2, 1}, function(a, b) t[#t + 1] = coroutine.wrap(function() return wait(1, \
         'in') end)() return a < b end) return t[1]",
        0,
        "in",
    ),
    (
        "return coroutine.wrap(function() local t = {5, 4} table.sort(t, function(a, b) return \
         coroutine.wrap(function() return (string.gsub('q', 'q', function() return wait(1, 'Q') end)) end)() \
         == 'Q' and a < b end) return t[1], t[2] end)()",
        0,
        "4 5",
    ),
    (
        "return coroutine.wrap(function() local r = string.gsub('ab', '.', function(c) coroutine.yield(c) \
         return wait(1, c .. c) end) coroutine.yield(r) end)()",
        0,
        "a",
    ),
    (
        "local co = coroutine.wrap(function() local r = string.gsub('ab', '.', function(c) \
         coroutine.yield(c) return wait(1, c .. c) end) coroutine.yield(r) end) return co(), co(), co()",
        2,
        "a b aabb",
    ),
    (
        "return table.concat(setmetatable({}, {__index = function(_, i) return wait(1, 'i' .. i) end, __len \
         = function() return wait(1, 3) end}), ',')",
        4,
        "i1,i2,i3",
    ),
    ("return tostring(setmetatable({}, {__tostring = function() return wait(1, 'T') end}))", 1, "T"),
    (
        "local out = {} for w in string.gmatch('a b', '%a') do out[#out + 1] = wait(1, w) end return \
         table.concat(out)",
        2,
        "ab",
    ),
    ("return type(load(function() return wait(1) end))", 1, "function"),
    (
        "return select('#', table.unpack(setmetatable({}, {__index = wait, __len = function() return 0 \
         end})))",
        0,
        "0",
    ),
    // A native called by a native.
    (
        "debug.setmetatable(1, {__index = wait}) local v = table.concat({tostring(1)}) debug.setmetatable(1, \
         nil) return v",
        0,
        "1",
    ),
    (
        "return string.gsub('xyz', '.', wait)",
        0,
        "error: bad argument #1 to 'wait' (number expected, got string)",
    ),
    ("return (string.gsub('123', '%d', wait))", 6, "123"),
    ("return coroutine.wrap(function() return (string.gsub('11', '%d', wait)) end)()", 2, "11"),
    // Variables to be closed.
    (
        "local log = '' do local c <close> = setmetatable({}, {__close = function() log = log .. wait(1, \
         'c') end}) end return log",
        1,
        "c",
    ),
    (
        "local log = '' local function f() local c <close> = setmetatable({}, {__close = function() log = \
         log .. wait(1, 'c') end}) return 'r' end return f(), log",
        1,
        "r c",
    ),
    (
        "local log = '' pcall(function() local c <close> = setmetatable({}, {__close = function(_, e) log = \
         log .. wait(1, e) end}) error('err', 0) end) return log",
        1,
        "err",
    ),
    (
        "local log = '' local co = coroutine.create(function() local c <close> = setmetatable({}, {__close = \
         function(_, e) log = log .. wait(1, 'closed') end}) coroutine.yield() end) coroutine.resume(co) \
         coroutine.close(co) return log",
        1,
        "closed",
    ),
    (
        "local log = '' local co = coroutine.wrap(function() local c <close> = setmetatable({}, {__close = \
         function(_, e) log = log .. wait(1, 'closed') end}) error('x', 0) end) return pcall(co), log",
        1,
        "false closed",
    ),
    (
        "local log = {} _G.log = log local c <close> = setmetatable({}, {__close = function(_, e) log[1] = \
         wait(1, 'closed') end}) error('gone', 0)",
        1,
        "error: gone",
    ),
    // What running code sees.
    (
        "local co, main = coroutine.running() return type(co), main, coroutine.status(co), \
         coroutine.isyieldable()",
        0,
        "thread false running false",
    ),
    ("return pcall(coroutine.yield, 1)", 0, "false attempt to yield from outside a coroutine"),
    ("coroutine.yield()", 0, "error: attempt to yield from outside a coroutine"),
    ("wait(1) error({})", 1, "error: table"),
    ("local function f(...) return wait(1, ...) end return f(f(1, 2, 3))", 2, "1 2 3"),
];

fn check_place(vm: &mut Vm, source: &str, parks: u32, expected: &str) {
    let f = fiber(vm, source);
    let (n, text) = finish(vm, f);
    let text = if text.starts_with("error: table") { "error: table".to_string() } else { text };
    assert_eq!(text, expected, "{source}");
    if parks > 0 {
        assert_eq!(n, parks, "parks of {source}");
    }
}

#[test]
fn waits_everywhere() {
    let mut vm = new_vm();
    for (source, parks, expected) in PLACES {
        check_place(&mut vm, source, *parks, expected);
    }
    assert_eq!(vm.live_fibers(), 0);
    assert_eq!(vm.nargs(), 0);
}

#[test]
fn waits_everywhere_with_collections() {
    let mut vm = new_vm();
    vm.heap().set_stress(true);
    for (source, parks, expected) in PLACES {
        check_place(&mut vm, source, *parks, expected);
    }
    vm.verify_heap().expect("sound");
}

/// All places at once, their waits interleaved.
#[test]
fn fibers_take_turns() {
    for stress in [false, true] {
        let mut vm = new_vm();
        vm.heap().set_stress(stress);
        let mut fibers: Vec<_> =
            PLACES.iter().map(|(source, _, expected)| (fiber(&mut vm, source), *source, *expected)).collect();
        while !fibers.is_empty() {
            fibers.retain(|&(f, source, expected)| match vm.run_fiber(f) {
                FiberStep::Parked => true,
                FiberStep::Done(end) => {
                    let text = outcome(&mut vm, end);
                    // Those that change a type's metatable meet each other.
                    if !source.contains("debug.setmetatable") && expected != "error: table" {
                        assert_eq!(text, expected, "{source}");
                    }
                    false
                }
            });
            vm.collect_minor();
        }
        vm.collect_full();
        vm.verify_heap().expect("sound");
    }
}

#[test]
fn drops_at_every_wait() {
    for stress in [false, true] {
        for k in 1..4 {
            let mut vm = new_vm();
            vm.heap().set_stress(stress);
            for (source, _, _) in PLACES {
                let f = fiber(&mut vm, source);
                let mut ended = false;
                for _ in 0..k {
                    if let FiberStep::Done(end) = vm.run_fiber(f) {
                        outcome(&mut vm, end);
                        ended = true;
                        break;
                    }
                }
                if !ended {
                    vm.drop_fiber(f);
                }
            }
            assert_eq!(vm.live_fibers(), 0);
            vm.collect_full();
            vm.verify_heap().expect("sound");
            // The machine still works.
            check_place(
                &mut vm,
                "local t = {3, 1, 2} table.sort(t, function(a, b) return wait(1, a < b) end) return t[1]",
                0,
                "1",
            );
        }
    }
}

/// The state goes away with fibers parked everywhere.
#[test]
fn states_end_with_parked_fibers() {
    let mut vm = new_vm();
    for (source, parks, _) in PLACES {
        let f = fiber(&mut vm, source);
        if *parks > 0 {
            assert!(matches!(vm.run_fiber(f), FiberStep::Parked));
        }
    }
    drop(vm);
}

#[test]
fn cancels_at_every_wait() {
    for stress in [false, true] {
        for k in 0..4 {
            let mut vm = new_vm();
            vm.heap().set_stress(stress);
            for (source, _, _) in PLACES {
                // An error that is caught would be seen as a result.
                let source = format!(
                    "closed = 0
                     local c <close> = setmetatable({{}}, {{__close = function() closed = closed + 1 end}})
                     local ok = pcall(function()
                        local c <close> = setmetatable({{}}, {{__close = function() closed = closed + 1 end}})
                        {source}
                     end)
                     return ok"
                );
                let f = fiber(&mut vm, &source);
                let mut ended = false;
                for _ in 0..k {
                    if let FiberStep::Done(end) = vm.run_fiber(f) {
                        outcome(&mut vm, end);
                        ended = true;
                        break;
                    }
                }
                if !ended {
                    vm.cancel_fiber(f);
                    let (_, text) = finish(&mut vm, f);
                    assert_eq!(text, "cancelled", "{source}");
                    let closed = {
                        let g = vm.globals();
                        vm.get_field(g, "closed").expect("a global")
                    };
                    let expected = if k == 0 { Value::NIL } else { Value::int(2) };
                    if k == 0 {
                        assert!(closed.is_nil() || vm.live_fibers() == 0);
                    } else {
                        assert!(closed.same(expected), "closed {closed:?} of {source}");
                    }
                }
                vm.set_global("closed", Value::NIL).expect("room");
            }
            assert_eq!(vm.live_fibers(), 0);
            vm.verify_heap().expect("sound");
        }
    }
}

#[test]
fn cancelled_code_may_wait_while_it_closes() {
    let mut vm = new_vm();
    let f = fiber(
        &mut vm,
        "local c <close> = setmetatable({}, {__close = function(_, e)
             log = {tostring(e), pcall(error, 'inner', 0)}
             -- The wait that was given up counts.
             log[#log + 1] = wait(3, 'waited')
         end})
         coroutine.resume(coroutine.create(function() pcall(wait, 1) end))
         return 'not reached'",
    );
    assert!(matches!(vm.run_fiber(f), FiberStep::Parked));
    vm.cancel_fiber(f);
    let (parks, text) = finish(&mut vm, f);
    assert_eq!((parks, text.as_str()), (2, "cancelled"));
    let f = fiber(&mut vm, "return table.concat({log[1], tostring(log[2]), log[3], log[4]}, ' ')");
    assert_eq!(finish(&mut vm, f).1, "cancelled false inner waited");
}

#[test]
fn a_cancellation_spares_the_other_closing_methods() {
    let mut vm = new_vm();
    let f = fiber(
        &mut vm,
        "log = {}
         local function closing(f) return setmetatable({}, {__close = f}) end
         local last <close> = closing(function(_, e) log[#log + 1] = 'last' end)
         pcall(function()
             local second <close> = closing(function(_, e) for i = 1, 3 do log[#log + 1] = tostring(i) end end)
             local first <close> = closing(function() wait(1) log[#log + 1] = 'not reached' end)
             error('ordinary')
         end)
         for i = 1, 10 do log[#log + 1] = 'went on' end",
    );
    assert!(matches!(vm.run_fiber(f), FiberStep::Parked));
    vm.cancel_fiber(f);
    assert_eq!(finish(&mut vm, f), (0, "cancelled".to_string()));
    let f = fiber(&mut vm, "return table.concat(log, ' ')");
    // The `pcall` would have caught the ordinary error, but it was cancelled while it closed its variables.
    assert_eq!(finish(&mut vm, f).1, "1 2 3 last");
}

/// An interrupt that is there before a coroutine or fiber has a frame.
#[test]
fn interrupts_before_the_first_frame() {
    static RAISE: Native = Native::leaf("raise", |vm| {
        vm.interrupt_handle().raise();
        Ok(0)
    });
    let mut vm = new_vm();
    vm.set_global("raise", Value::native(&RAISE)).expect("room");
    let f = fiber(
        &mut vm,
        "local resume, co = coroutine.resume, coroutine.create(function() return 'ran' end)
         raise()
         local ok, e = resume(co)
         local wrapped, raise = coroutine.wrap(function() return 'ran' end), raise
         return tostring(ok), e, coroutine.status(co), pcall(function() raise() return (wrapped()) end)",
    );
    let (_, text) = finish(&mut vm, f);
    assert_eq!(text, "false interrupted! dead false test:5: interrupted!");
    let f = fiber(&mut vm, "return 'ran'");
    vm.interrupt_handle().raise();
    assert_eq!(finish(&mut vm, f).1, "error: interrupted!");
    let f = fiber(&mut vm, "return 'ran'");
    assert_eq!(finish(&mut vm, f).1, "ran");
    let f = vm.new_fiber(Value::int(3), &[]).unwrap();
    assert_eq!(finish(&mut vm, f).1, "error: attempt to call a number value");
    let f = fiber(&mut vm, "return 'ran'");
    vm.cancel_fiber(f);
    assert_eq!(finish(&mut vm, f).1, "cancelled");
}

/// The coroutine that a fiber was parked in is gone while the fiber runs on.
#[test]
fn coroutines_that_waited_may_die() {
    let mut vm = new_vm();
    vm.heap().set_stress(true);
    let f = fiber(
        &mut vm,
        "for i = 1, 20 do
             coroutine.wrap(function() wait(1) end)()
             local t = {}
             for j = 1, 30 do t[j] = {j} end
             collectgarbage()
         end
         return 'alive'",
    );
    assert_eq!(finish(&mut vm, f), (20, "alive".to_string()));
    vm.verify_heap().expect("sound");
}

#[test]
fn no_waiting_in_finalizers_hooks_and_handlers() {
    let mut vm = new_vm();
    let cases = [
        (
            "local msg setmetatable({}, {__gc = function() msg = select(2, pcall(wait, 1)) end}) \
             collectgarbage() return msg",
            "attempt to wait inside a finalizer",
        ),
        (
            "local msg debug.sethook(function() debug.sethook() msg = select(2, pcall(wait, 1)) end, 'l')
             local x = 1
             return msg",
            "attempt to wait inside a hook",
        ),
        (
            "return select(2, xpcall(error, function() return select(2, pcall(wait, 1)) end))",
            "attempt to wait inside a message handler",
        ),
    ];
    for (source, expected) in cases {
        let f = fiber(&mut vm, source);
        assert_eq!(finish(&mut vm, f), (0, expected.to_string()), "{source}");
        // No fiber at all, and no host.
        let f = vm.load(source.as_bytes(), b"=t", LoadMode::Text, None).unwrap();
        vm.host_call(f.into(), &[]).unwrap();
        let text = show(vm.pop());
        assert_eq!(text, expected);
    }
    let f = vm.load(b"wait(1)", b"=t", LoadMode::Text, None).unwrap();
    let error = vm.host_call(f.into(), &[]).unwrap_err();
    assert_eq!(show(error), "t:1: attempt to wait where nothing else can run");
}

#[test]
fn parked_coroutines_are_nobody_elses() {
    let mut vm = new_vm();
    let parked = fiber(
        &mut vm,
        "root = coroutine.running()
         co = coroutine.create(function() wait(1) return 'done' end)
         return coroutine.resume(co)",
    );
    assert!(matches!(vm.run_fiber(parked), FiberStep::Parked));
    let other = fiber(
        &mut vm,
        "local t = {coroutine.status(co), coroutine.status(root)}
         for _, c in ipairs {co, root} do
            t[#t + 1] = select(2, coroutine.resume(c))
            t[#t + 1] = select(2, pcall(coroutine.close, c))
         end
         return table.concat(t, '|')",
    );
    assert_eq!(
        finish(&mut vm, other).1,
        "normal|normal|cannot resume non-suspended coroutine|cannot close a normal coroutine|cannot resume \
         non-suspended coroutine|cannot close a normal coroutine"
    );
    assert_eq!(finish(&mut vm, parked).1, "true done");
    // A known root is not used again.
    let f = fiber(&mut vm, "return coroutine.status(root), coroutine.resume(root)");
    assert_eq!(finish(&mut vm, f).1, "dead false cannot resume dead coroutine");
}

#[test]
fn errors_have_tracebacks() {
    let mut vm = new_vm();
    let f = fiber(
        &mut vm,
        "local function deep() wait(1) error('oops') end\nlocal function mid() deep() end\nmid()",
    );
    assert!(matches!(vm.run_fiber(f), FiberStep::Parked));
    assert_eq!(vm.fiber_position(f), "test:1: in upvalue 'deep'");
    let text = String::from_utf8_lossy(&vm.fiber_traceback(f)).into_owned();
    assert!(text.contains("in function 'wait'") && text.contains("test:2: in local 'mid'"), "{text}");
    let FiberStep::Done(FiberEnd::Failed { traceback }) = vm.run_fiber(f) else { panic!("fails") };
    let text = String::from_utf8_lossy(&traceback).into_owned();
    assert!(text.starts_with("stack traceback:") && text.contains("test:1: in upvalue 'deep'"), "{text}");
    assert_eq!(show(vm.pop()), "test:1: oops");
}

#[test]
fn arguments_and_reuse() {
    let mut vm = new_vm();
    let f = vm.load(b"local a, b = ... return select('#', ...), a, b", b"=t", LoadMode::Text, None).unwrap();
    vm.push(f.into());
    let many: Vec<Value> = (0..300).map(Value::int).collect();
    for _ in 0..3 {
        let a = vm.new_fiber(f.into(), &[Value::int(1), Value::int(2)]).unwrap();
        let b = vm.new_fiber(f.into(), &many).unwrap();
        let c = vm.new_fiber(Value::native(&WAIT), &[Value::int(1), Value::int(7)]).unwrap();
        vm.set_fiber_tag(a, 42);
        assert_eq!(vm.fiber_tag(a), 42);
        assert_eq!(finish(&mut vm, b).1, "300 0 1");
        assert_eq!(finish(&mut vm, c), (1, "7".to_string()));
        assert_eq!(finish(&mut vm, a).1, "2 1 2");
    }
    vm.pop();
    assert_eq!(vm.live_fibers(), 0);
}

#[test]
fn many_parked_fibers() {
    let mut vm = new_vm();
    let f = vm.load(b"local t = {} wait(1) return #t", b"=t", LoadMode::Text, None).unwrap();
    vm.push(f.into());
    let count = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    let mut fibers = Vec::new();
    for _ in 0..count {
        let fiber = vm.new_fiber(f.into(), &[]).unwrap();
        assert!(matches!(vm.run_fiber(fiber), FiberStep::Parked));
        fibers.push(fiber);
    }
    vm.collect_full();
    vm.collect_minor();
    // What has not run is not looked at. The fastest of many is one that nothing has interrupted, however
    // busy the machine is; what looks at all of them is there to compare.
    let mut fastest = |runs: u32, collect: fn(&mut Vm)| {
        let each = (0..runs).map(|_| {
            let began = std::time::Instant::now();
            collect(&mut vm);
            began.elapsed()
        });
        each.min().expect("a run")
    };
    let (minor, full) = (fastest(200, Vm::collect_minor), fastest(3, Vm::collect_full));
    assert!(minor * 4 < full, "a minor collection took {minor:?}, a full one {full:?}");
    for fiber in fibers {
        assert_eq!(finish(&mut vm, fiber), (0, "0".to_string()));
    }
    vm.pop();
}

/// Prints what fibers cost; `--ignored --nocapture` in an optimised build.
#[test]
#[ignore = "a measurement"]
fn costs() {
    let mut vm = new_vm();
    let empty = vm.load(b"", b"=t", LoadMode::Text, None).unwrap();
    vm.push(empty.into());
    let parking = vm.load(b"while true do wait(1) end", b"=t", LoadMode::Text, None).unwrap();
    vm.push(parking.into());
    for _ in 0..3 {
        let count = 1_000_000;
        let began = std::time::Instant::now();
        for _ in 0..count {
            let fiber = vm.new_fiber(empty.into(), &[]).unwrap();
            assert!(matches!(vm.run_fiber(fiber), FiberStep::Done(FiberEnd::Returned(0))));
        }
        println!("new, run, end: {:?}", began.elapsed() / count);
        let fiber = vm.new_fiber(parking.into(), &[]).unwrap();
        let began = std::time::Instant::now();
        for _ in 0..count {
            assert!(matches!(vm.run_fiber(fiber), FiberStep::Parked));
        }
        println!("run, wait twice, park: {:?}", began.elapsed() / count);
        vm.drop_fiber(fiber);
        let mut fibers = Vec::new();
        let began = std::time::Instant::now();
        for _ in 0..200_000 {
            fibers.push(vm.new_fiber(parking.into(), &[]).unwrap());
        }
        println!("new, not reused: {:?}", began.elapsed() / 200_000);
        for fiber in fibers {
            vm.drop_fiber(fiber);
        }
    }
    vm.truncate(0);
}
