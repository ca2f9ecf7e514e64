//! The opcodes' declaration against reality: the recorded scripts run under `Vm::check_operands` and print
//! what they print without.

use perilune_heap::HeapOptions;
use perilune_vm::{LoadMode, Vm};
use std::path::Path;

/// What scripts print goes to a table; they cannot end the process or reach files, and do not see addresses.
const CAPTURE: &str = "
    local out, n = {}, 0
    local tostring, select, gsub, rawstring = tostring, select, string.gsub, tostring
    local function line(...)
      for i = 1, select('#', ...) do
        n = n + 1 out[n] = gsub(rawstring((select(i, ...))), '0x%x+', 'ADDR')
      end
      n = n + 1 out[n] = '\\n'
    end
    print = line
    io = {write = function(...) line(...) return io end, read = function() end, stdout = {write = function(_, ...) line(...) end, setvbuf = function() end, flush = function() end}, stderr = {write = function() end}}
    os = {time = function() return 0 end, clock = function() return 0 end, getenv = os.getenv, exit = function() error 'exit' end, tmpname = function() error 'file' end, date = os.date, remove = function() end}
    arg = {}
    function captured() return table.concat(out) end";

/// What `source` prints, and how many of its instructions were compared.
fn output(source: &[u8], checked: bool, options: HeapOptions) -> (String, u64) {
    let mut vm = Vm::with_options(options);
    perilune_stdlib::open_libs(&mut vm).expect("memory");
    let capture = vm.load(CAPTURE.as_bytes(), b"=capture", LoadMode::Text, None).expect("compiles");
    vm.host_call(capture.into(), &[]).expect("runs");
    if checked {
        vm.check_operands();
    }
    let mut text = String::new();
    match vm.load(source, b"=script", LoadMode::Both, None) {
        Ok(f) => {
            if let Err(e) = vm.host_call(f.into(), &[]) {
                text = format!("{}\n", e.as_string().map_or("error".into(), |s| s.to_text()));
            }
        }
        Err(_) => text = "no chunk".into(),
    }
    let globals = vm.globals();
    let captured = vm.get_field(globals, "captured").expect("is there");
    let depth = vm.nargs();
    vm.host_call(captured, &[]).expect("runs");
    text += &vm.stack_get(depth + 1).as_string().expect("a string").to_text();
    (text, vm.operands_checked())
}

#[test]
fn instructions_do_what_they_declare() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/lua");
    // What these print depends on time, memory or chance; they assign to registers (`debug.setlocal`); or
    // they take long.
    let left_out = |name: &str| {
        [
            "debug_",
            "os_",
            "io_",
            "exit_",
            "random",
            "gc_",
            "collectgarbage",
            "weak",
            "stdin",
            "deep",
            "hash_flood",
            "keys_many",
            "limits",
        ]
        .iter()
        .any(|p| name.contains(p))
    };
    let (mut scripts, mut seen) = (0, 0);
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("the scripts").map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.ends_with(".lua") || left_out(&name) {
            continue;
        }
        let source = std::fs::read(&path).expect("a script");
        let (plain, _) = output(&source, false, HeapOptions::default());
        let (checked, count) = output(&source, true, HeapOptions::default());
        assert_eq!(plain, checked, "{name}");
        scripts += 1;
        seen += count;
    }
    assert!(scripts > 40 && seen > 100_000, "{scripts} scripts, {seen} instructions");
}
