//! The debug interface as Rust code sees it; the `debug` library's scripts cover what programs see.

use crate::native::{LuaResult, Native};
use crate::{HOOK_CALL, HOOK_COUNT, HOOK_LINE, LoadMode, Value, Vm};

/// Runs `source` with the natives as globals; what `note` was told, line by line.
fn run(source: &str, natives: &[&'static Native]) -> String {
    let mut vm = Vm::new();
    vm.open_coroutine().unwrap();
    let log = vm.new_str(b"").unwrap();
    vm.set_global("log", log.into()).unwrap();
    let globals = vm.globals();
    vm.register(globals, natives).unwrap();
    let f = vm.load(source.as_bytes(), b"=test", LoadMode::Text, None).unwrap();
    if let Err(e) = vm.host_call(f.into(), &[]) {
        note(&mut vm, &format!("error {e:?}")).unwrap();
    }
    vm.get_field(globals, "log").unwrap().as_string().unwrap().to_text()
}

fn note(vm: &mut Vm, text: &str) -> LuaResult<()> {
    let globals = vm.globals();
    let mut all = vm.get_field(globals, "log")?.as_string().map_or(String::new(), |s| s.to_text());
    if !all.is_empty() {
        all.push('\n');
    }
    all.push_str(text);
    let all = vm.value_str(all.as_bytes())?;
    vm.set_global("log", all)
}

static TRACE: Native = Native::leaf("trace", |vm| {
    let th = vm.thread();
    let text = vm.traceback(th, None, 1);
    note(vm, &String::from_utf8_lossy(&text).replace("stack traceback:\n", ""))?;
    Ok(0)
});

/// Calls its argument through `xpcall`, which native code can only do by way of the stub.
static PROTECT: Native = Native::reentrant("protect", |vm| {
    let (f, handler) = (vm.arg(1), vm.arg(2));
    match vm.host_call_with_handler(f, &[], handler) {
        Ok(_) => vm.ret(true),
        Err(e) => {
            note(vm, &format!("caught {e:?}"))?;
            vm.ret(false)
        }
    }
});

#[test]
fn the_stub_is_no_level() {
    let text = run("protect(function() trace() return 1 end, trace)", &[&TRACE, &PROTECT]);
    assert_eq!(
        text,
        "\ttest:1: in function <test:1>\n\t[C]: in ?\n\t[C]: in global 'protect'\n\ttest:1: in main chunk"
    );
}

#[test]
fn handlers_below_a_protected_call_see_nothing() {
    static QUIET: Native = Native::reentrant("quiet", |vm| {
        let f = vm.arg(1);
        let failed = vm.host_call(f, &[]).is_err();
        vm.ret(failed)
    });
    static HANDLER: Native = Native::leaf("handler", |vm| {
        note(vm, "handler")?;
        vm.ret(vm.arg(1))
    });
    let text = run(
        "protect(function() quiet(function() local x = nil + 1 end) end, handler)
        protect(function() local x = nil .. 1 end, handler)",
        &[&QUIET, &HANDLER, &PROTECT],
    );
    assert_eq!(text, "handler\ncaught \"test:2: attempt to concatenate a nil value\"");
}

#[test]
fn locals_by_number() {
    static SELECT_SECOND: Native = Native::leaf("select_second", |vm| vm.ret(vm.arg(2)));
    static NOTE_NUMBER: Native = Native::leaf("note_number", |vm| {
        let text = format!("{:?}", vm.arg(1));
        note(vm, &text)?;
        Ok(0)
    });
    static LOCALS: Native = Native::leaf("locals", |vm| {
        let th = vm.thread();
        for n in [1, 2, 3, 4, -1, -2, -3] {
            let text = match vm.local_at(th, 1, n) {
                Some((name, v)) => format!("{n} {} {v:?}", String::from_utf8_lossy(&name)),
                None => format!("{n} none"),
            };
            note(vm, &text)?;
        }
        assert!(vm.set_local_at(th, 1, 2, Value::int(20)).is_some());
        assert!(vm.set_local_at(th, 1, -2, Value::int(50)).is_some());
        assert!(vm.set_local_at(th, 1, -3, Value::int(0)).is_none());
        assert!(vm.set_local_at(th, 99, 1, Value::int(0)).is_none());
        Ok(0)
    });
    let text = run(
        "local function f(a, ...) local b <const> = 9; local c = 2; locals(); return a + c + select_second(...) end
        note_number(f(1, 4, 5))",
        &[&LOCALS, &SELECT_SECOND, &NOTE_NUMBER],
    );
    // The third is the called function's own slot, in which it no longer counts as the caller's.
    assert_eq!(text, "1 a 1\n2 c 2\n3 none\n4 none\n-1 (vararg) 4\n-2 (vararg) 5\n-3 none\n71");
}

#[test]
fn a_native_hook_sees_lines_calls_and_counts() {
    static HOOK: Native = Native::leaf("hook", |vm| {
        let th = vm.thread();
        let event = vm.arg(1).as_string().map_or(String::new(), |s| s.to_text());
        let line = vm.line_at(th, 1).map_or("-".to_string(), |n| n.to_string());
        let (first, count) = vm.transfer_at(th, 1);
        note(vm, &format!("{event} {line} {first}+{count}"))?;
        Ok(0)
    });
    static HOOK_ON: Native = Native::leaf("hook_on", |vm| {
        let mask = vm.check_int(1)? as u8;
        let th = vm.thread();
        vm.set_hook(th, Value::native(&HOOK), mask, 1000);
        Ok(0)
    });
    assert_eq!((HOOK_CALL, HOOK_LINE, HOOK_COUNT), (1, 4, 8), "as the program below has them");
    let text = run(
        "hook_on(4)\nlocal x = 1\nlocal function f(a, b)\nreturn b end\nhook_on(1)\nf()\nhook_on(0)\nhook_on(8)
        for i = 1, 1500 do end hook_on(0)",
        &[&HOOK_ON],
    );
    assert_eq!(text, "line 2 0+0\nline 4 0+0\nline 5 0+0\ncall 4 1+2\ncall - 1+1\ncount 9 0+0");
}

#[test]
fn levels_of_other_coroutines() {
    static LOOK: Native = Native::leaf("look", |vm| {
        let Some(th) = vm.arg(1).as_thread() else { return Ok(0) };
        let text = vm.traceback(th, Some(b"m"), 0);
        let levels = (0..5).filter(|&n| vm.function_at(th, n).is_some()).count();
        note(vm, &format!("{levels} {}", String::from_utf8_lossy(&text)))?;
        Ok(0)
    });
    let text = run(
        "local co = coroutine.create(function() local function g() coroutine.yield() end g() end)
        look(co) coroutine.resume(co) look(co) coroutine.resume(co) look(co)",
        &[&LOOK],
    );
    assert_eq!(
        text,
        "0 m\nstack traceback:\n\
        3 m\nstack traceback:\n\t[C]: in function 'coroutine.yield'\n\ttest:1: in local 'g'\n\
        \ttest:1: in function <test:1>\n\
        0 m\nstack traceback:"
    );
}

/// Assigns its argument to everything at level 1 that is no named variable.
static FORCE: Native = Native::leaf("force", |vm| {
    let (th, v) = (vm.thread(), vm.arg(1));
    let mut taken = 0;
    for n in 1..20 {
        let Some((name, old)) = vm.local_at(th, 1, n) else { break };
        let hidden = name == b"(for state)" || name == b"(temporary)" && old.is_number();
        if hidden && vm.set_local_at(th, 1, n, v).is_some() {
            taken += 1;
        }
    }
    note(vm, &format!("taken {taken}"))?;
    Ok(0)
});

/// A table in the state of a counting loop would be an address to compute with.
#[test]
fn a_counting_loop_takes_no_other_type() {
    let source = "for i = 1, 3 do force({}) collect() force(1.5) force('x') collect() end
        for x = 1.0, 2 do force({}) collect() force(7) collect() end";
    assert_eq!(run(source, &[&FORCE, &COLLECT]), ["taken 0"; 13].join("\n"));
}

/// Without names the registers are just temporaries, of which the loop's variable is one.
#[test]
fn nor_in_a_stripped_chunk() {
    let source = b"for i = 1, 2 do force({}) collect() end for x = 1.0, 2 do force('x') collect() end";
    let proto = perilune_syntax::compile(source, b"=test").unwrap();
    let mut vm = Vm::new();
    let globals = vm.globals();
    let log = vm.new_str(b"").unwrap();
    vm.set_global("log", log.into()).unwrap();
    vm.register(globals, &[&FORCE, &COLLECT]).unwrap();
    let chunk = perilune_syntax::dump::dump(&proto, true);
    let f = vm.load(&chunk, b"=test", LoadMode::Binary, None).unwrap();
    vm.host_call(f.into(), &[]).unwrap();
    let log = vm.get_field(globals, "log").unwrap().as_string().unwrap().to_text();
    assert_eq!(log, ["taken 1"; 4].join("\n"));
}

static COLLECT: Native = Native::leaf("collect", |vm| {
    vm.collect_full();
    vm.verify_heap().expect("the heap is sound");
    Ok(0)
});
