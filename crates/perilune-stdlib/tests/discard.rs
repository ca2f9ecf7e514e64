//! Coroutines that are dropped while they are suspended inside a native: nothing of them runs again, not even
//! closing methods, and the rest of the program goes on. Each way to get a Lua function called by a native,
//! or by the machine, is suspended there, alone and around closing variables.

use perilune_heap::HeapOptions;
use perilune_vm::{LoadMode, Vm};

/// What a coroutine does up to a `yield` inside a native; `Y` yields, `no` says that the code after it has
/// run.
const WAYS: &[&str] = &[
    "table.sort({3, 2, 1, 5, 4}, function(a, b) Y() no() return a < b end)",
    "local mt = {__lt = function() Y() no() end} table.sort({setmetatable({}, mt), setmetatable({}, mt)})",
    "string.gsub('abc', '.', function() Y() no() end)",
    "string.gsub('abc', '.', setmetatable({}, {__index = function() Y() no() end}))",
    "load(function() Y() no() return 'x' end)",
    "no(load(function() Y() return nil end))",
    "tostring(setmetatable({}, {__tostring = function() Y() no() return '' end}))",
    "string.format('%s', setmetatable({}, {__tostring = function() Y() no() return '' end}))",
    "table.concat(setmetatable({}, {__len = function() return 1 end, __index = function() Y() no() return \
     'x' end}))",
    "table.insert(setmetatable({}, {__len = function() Y() no() return 1 end}), 1)",
    "table.remove(setmetatable({}, {__len = function() return 2 end, __index = function() Y() no() end}))",
    "table.unpack(setmetatable({}, {__index = function() Y() no() end}), 1, 3)",
    "table.move(setmetatable({}, {__index = function() Y() no() end}), 1, 3, 2, {})",
    "table.move({1, 2, 3}, 1, 3, 2, setmetatable({}, {__newindex = function() Y() no() end}))",
    "for i in ipairs(setmetatable({}, {__index = function() Y() no() end})) do end",
    "for k in pairs(setmetatable({}, {__pairs = function() Y() no() return next, {} end})) do end",
    "package.preload.dropped = function() Y() no() end require 'dropped'",
    "package.searchers[2] = function() Y() no() end require 'unknown'",
    "pcall(pcall, string.gsub, 'x', '.', function() Y() no() end)",
    "xpcall(function() Y() no() end, print)",
    "xpcall(string.gsub, print, 'x', '.', function() Y() no() end)",
    "select('#', pcall(table.sort, {2, 1}, function() Y() no() end))",
    "coroutine.wrap(function() table.sort({2, 1}, function() Y() no() end) end)() Y()",
    "coroutine.wrap(function() coroutine.wrap(function() Y() end)() Y() end)() Y() no()",
    "local c = coroutine.create(function() local x <close> = closing(function() Y() no() end) Y() end)\
     coroutine.resume(c) Y() coroutine.close(c) no()",
    "local x <close> = closing(function() Y() no() end)",
    "do local x <close> = closing(function() Y() no() end) end no()",
    "pcall(function() local x <close> = closing(no) local y <close> = closing(function() Y() no() end) error \
     'e' end)",
    "pcall(function() local y <close> = closing(no) local z <close> = closing(function() Y() no() end) error \
     'e' end)",
    "local function f() local x <close> = closing(function() Y() no() end) return f2() end function f2() end \
     return f()",
    "for _ in function() Y() no() end, nil, nil, closing(no) do end",
    "for _ in next, {1, 2}, nil, closing(function() Y() no() end) do end no()",
    "return #setmetatable({}, {__len = function() Y() no() return 1 end})",
    "return setmetatable({}, {__concat = function() Y() no() end}) .. 'x'",
    "return setmetatable({}, {__eq = function() Y() no() end}) == setmetatable({}, {__eq = Y})",
    "return setmetatable({}, {__call = function() Y() no() end})()",
];

const PRELUDE: &str = "
    ran = {}
    function no(...) ran[#ran + 1] = 'the code after a yield' end
    Y = coroutine.yield
    function closing(f) return setmetatable({}, {__close = f}) end
    function drop_in(what, body)
      local searcher = package.searchers[2]
      local co = coroutine.create(body)
      local ok, e = coroutine.resume(co)
      assert(ok, e)
      assert(coroutine.status(co) == 'suspended', what)
      package.searchers[2] = searcher
      co = nil
      for i = 1, 4 do collectgarbage() end
      assert(#ran == 0, what)
    end
";

/// How a way is wrapped; `BODY` stands for it.
const AROUND: &[&str] = &[
    "BODY",
    "local a <close> = closing(no) BODY no()",
    "pcall(function() local a <close> = closing(no) local b <close> = closing(no) BODY no() end) no()",
    "string.gsub('a', '.', function() local a <close> = closing(no) pcall(function() BODY no() end) no() \
     end) no()",
    "coroutine.wrap(function() table.sort({2, 1}, function() local a <close> = closing(no) BODY no() return \
     true end) end)() Y()",
];

fn run_all(options: HeapOptions) {
    for around in AROUND {
        let mut vm = Vm::with_options(options.clone());
        perilune_stdlib::open_libs(&mut vm).unwrap();
        let mut source = PRELUDE.to_string();
        for way in WAYS {
            // A `return` or a call at the end has to be that of a function.
            let body = around.replace("BODY", &format!(";(function() {way} end)()"));
            source += &format!("drop_in([==[{body}]==], function() {body} end)\n");
        }
        source += "return 'the end'";
        let f = vm.load(source.as_bytes(), b"=drop", LoadMode::Text, None);
        let f = f.unwrap_or_else(|e| panic!("{}", e.as_string().unwrap().to_text()));
        match vm.host_call(f.into(), &[]) {
            Ok(n) => {
                assert_eq!(n, 1);
                assert_eq!(vm.stack_get(vm.nargs()).as_string().unwrap().to_text(), "the end");
            }
            Err(e) => panic!("{}", e.as_string().unwrap().to_text()),
        }
    }
}

#[test]
fn what_is_dropped_inside_a_native_never_runs_again() {
    run_all(HeapOptions::default());
}

#[test]
fn nor_under_stress() {
    run_all(HeapOptions { stress: true, verify: false, ..HeapOptions::default() });
}

#[test]
fn nor_when_the_whole_state_goes() {
    for way in WAYS {
        let mut vm = Vm::new();
        perilune_stdlib::open_libs(&mut vm).unwrap();
        let source = format!(
            "{PRELUDE} kept = coroutine.create(function() local a <close> = closing(no) {way} end)
             assert(coroutine.resume(kept))"
        );
        let f = vm.load(source.as_bytes(), b"=drop", LoadMode::Text, None).unwrap();
        vm.host_call(f.into(), &[]).unwrap();
        vm.close();
    }
}

/// The other way round: who swallows what is on its way cannot make a coroutine go on.
#[test]
fn a_native_that_ignores_everything_passes_it_on_all_the_same() {
    use perilune_vm::Native;
    static IGNORES: Native = Native::reentrant("ignores", |vm| {
        let f = vm.arg(1);
        for _ in 0..3 {
            let _ = vm.call(f, &[]);
        }
        let _ = vm.error("an error of its own");
        Ok(0)
    });
    static REPLACES: Native = Native::reentrant("replaces", |vm| {
        let f = vm.arg(1);
        match vm.call(f, &[]) {
            Ok(_) => Ok(0),
            Err(_) => Err(vm.error("an error of its own")),
        }
    });
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).unwrap();
    vm.register(vm.globals(), &[&IGNORES, &REPLACES]).unwrap();
    let source = format!(
        "{PRELUDE}
        for _, f in ipairs {{ignores, replaces}} do
          drop_in('', function() pcall(f, function() Y() no() end) no() end)
          drop_in('', function() local a <close> = closing(no) f(function() Y() no() end) no() end)
        end"
    );
    let f = vm.load(source.as_bytes(), b"=drop", LoadMode::Text, None).unwrap();
    vm.host_call(f.into(), &[]).unwrap_or_else(|e| panic!("{}", e.as_string().unwrap().to_text()));
}
