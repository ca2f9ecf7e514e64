//! The call paths that events refer to (`Vm::event_stack`), as a reader of the trace sees them.

use perilune_see::Trace;
use perilune_test::Folder;
use perilune_trace::session::{self, Options};
use perilune_vm::{LoadMode, Native, Vm};
use std::sync::Mutex;

static SEEN: Mutex<Vec<u32>> = Mutex::new(Vec::new());
static HERE: Native = Native::leaf("here", |vm| {
    let stack = vm.event_stack();
    SEEN.lock().unwrap().push(stack);
    Ok(0)
});

const PROGRAM: &str = "
local function leaf() here() end
local function recurse(n)
  if n == 0 then
    leaf()
    return
  end
  recurse(n - 1)
end
local object = {method = function() here() end}
local co = coroutine.wrap(function()
  coroutine.yield()
  leaf()
end)
co()
co()
recurse(2)
object:method()
table.sort({1, 2}, function(a, b) here() return a < b end)
pcall(leaf)
recurse(2)
for i = 1, 2 do here() end
recurse(1000)
";

#[test]
fn paths_have_names_and_lines() {
    let folder = Folder::new();
    let file = folder.join("events");
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).unwrap();
    let globals = vm.globals();
    vm.register(globals, &[&HERE]).unwrap();
    let f = vm.load(PROGRAM.as_bytes(), b"@program.lua", LoadMode::Text, None).unwrap();
    assert_eq!(vm.event_stack(), 0, "nothing is recorded");
    session::start(&file, &Options::default()).unwrap();
    vm.host_call(f.into(), &[]).unwrap();
    session::stop();
    let definitions = Trace::from_ring_file(&file).unwrap().definitions;
    let seen = std::mem::take(&mut *SEEN.lock().unwrap());
    let text = |n: u32| -> String {
        let frames: Vec<String> = definitions.frames(n).map(|f| definitions.frame(f)).collect();
        frames.iter().rev().map(|f| f.replace("program.lua:", "")).collect::<Vec<_>>().join(" > ")
    };
    assert_eq!(text(seen[0]), "main chunk (16) > wrap > function <11> (13) > leaf (2) > here");
    assert_eq!(text(seen[1]), "main chunk (17) > recurse (8) > recurse (8) > recurse (5) > leaf (2) > here");
    assert_eq!(text(seen[2]), "main chunk (18) > method (10) > here");
    assert_eq!(text(seen[3]), "main chunk (19) > table.sort > function <19> (19) > here");
    assert_eq!(text(seen[4]), "main chunk (20) > pcall > leaf (2) > here");
    assert_eq!(text(seen[5]), text(seen[1]).replace("(17)", "(21)"));
    assert_eq!(text(seen[6]), "main chunk (22) > here");
    assert_eq!(seen[6], seen[7]);
    let deep = text(seen[8]);
    assert!(deep.starts_with("(deeper frames) > recurse (8) > "), "{deep}");
    assert!(deep.ends_with("recurse (5) > leaf (2) > here"), "{deep}");
}
