//! Times packing and unpacking: nanoseconds for a pair of both, the best of several rounds.
//!
//! `cargo run --profile fast -p perilune-vm --example parcel [name]`

use perilune_vm::parcel::{PackRules, Parcel};
use perilune_vm::{LoadMode, Native, Value, Vm};
use std::time::Instant;

const CASES: [(&str, &str); 14] = [
    ("number", "return 1.5"),
    ("short string", "return 'hello'"),
    ("string of 100", "return ('x'):rep(100)"),
    ("two numbers", "return 1, 2"),
    ("small table", "return {x = 1, y = 2.5, name = 'point'}"),
    ("100 integers", "local t = {} for i = 1, 100 do t[i] = i end return t"),
    ("100 mixed", "local t = {} for i = 1, 100 do t[i] = i % 2 == 0 and i or 'item' .. i end return t"),
    ("map of 100", "local t = {} for i = 1, 100 do t['key' .. i] = i end return t"),
    (
        "deep (1111 tables)",
        "local function make(d) local t = {name = 'node', depth = d, list = {}} if d > 0 then for i = 1, 10 \
         do t.list[i] = make(d - 1) end end return t end return make(3)",
    ),
    ("function", "local function f(x) return x end return f"),
    ("function, 1 global", "return function(x) return tostring(x) end"),
    ("function, captures", "local a, b = 1, 'x' return function() return a, b end"),
    ("task fib", "function fib(n) if n < 2 then return n end return fib(n-1) + fib(n-2) end return fib, 20"),
    (
        "task with module",
        "function f(s) return s:upper(), string.format('%d', 1), math.floor(2) end return f, 'x'",
    ),
];

fn main() {
    let only = std::env::args().nth(1);
    for (name, source) in CASES {
        if only.as_ref().is_none_or(|o| name.contains(o.as_str())) {
            case(name, source);
        }
    }
}

/// Runs as a native, so that collections happen in between, as they would in a program.
static PACK: Native = Native::leaf("pack", |vm| {
    let values: Vec<Value> = (1..=vm.nargs()).map(|i| vm.arg(i)).collect();
    let start = Instant::now();
    let mut parcel = Parcel::EMPTY;
    for _ in 0..ROUND {
        parcel = vm.pack_or_raise(&values, PackRules::TASK)?;
    }
    let packed = start.elapsed().as_nanos() as f64 / ROUND as f64;
    let top = vm.nargs();
    let start = Instant::now();
    for _ in 0..ROUND {
        vm.unpack(&parcel)?;
        vm.truncate(top);
    }
    let unpacked = start.elapsed().as_nanos() as f64 / ROUND as f64;
    vm.push(Value::float(packed));
    vm.push(Value::float(unpacked));
    vm.push(Value::int(parcel.bytes() as i64));
    Ok(3)
});
const ROUND: u32 = 50;

fn case(name: &str, source: &str) {
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).expect("memory for the libraries");
    vm.set_global("pack", Value::native(&PACK)).expect("memory for a field");
    let source = format!(
        "local function run() {source} end \
         local p, u, b = math.huge, math.huge \
         local stop = os.clock() + 0.3 \
         local t = table.pack(run()) \
         repeat local a, c, d = pack(table.unpack(t, 1, t.n)) p = math.min(p, a) u = math.min(u, c) b = d \
         until os.clock() > stop \
         print(('%-20s pack %9.1f ns  unpack %9.1f ns  %d bytes'):format('{name}', p, u, b))"
    );
    let f = vm.load(source.as_bytes(), b"=bench", LoadMode::Text, None).expect("a program");
    if let Err(e) = vm.host_call(f.into(), &[]) {
        println!("{name}: {:?}", e);
    }
}
