//! scratch
use perilune_vm::*;
fn print(vm: &mut Vm) -> LuaResult<u32> {
    for i in 1..=vm.nargs() {
        let v = vm.arg(i);
        let s = vm.tostring(v)?;
        print!("{}\t", s.to_text());
    }
    println!();
    Ok(0)
}
fn clock(vm: &mut Vm) -> LuaResult<u32> {
    let mut ts: libc::timespec = unsafe { std::mem::zeroed() };
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut ts) };
    vm.ret(ts.tv_sec as f64 + ts.tv_nsec as f64 * 1e-9)
}
fn setmt(vm: &mut Vm) -> LuaResult<u32> {
    let t = vm.arg(1);
    let m = vm.arg(2).as_table();
    vm.set_metatable_of(t, m)?;
    vm.ret(t)
}
static PRINT: Native = Native::reentrant("print", print);
static CLOCK: Native = Native::leaf("clock", clock);
static SETMT: Native = Native::leaf("setmetatable", setmt);
fn nop(_: &mut Vm) -> LuaResult<u32> {
    Ok(0)
}
static PCALL: Native = Native::special("pcall", Kind::Pcall, nop);
fn next(vm: &mut Vm) -> LuaResult<u32> {
    let t = vm.check_table(1)?;
    let k = vm.arg(2);
    match vm.raw_next(t, k)? {
        Some((a, b)) => {
            vm.push(a);
            vm.push(b);
            Ok(2)
        }
        None => vm.ret(Value::NIL),
    }
}
static NEXT: Native = Native::special("next", Kind::Next, next);
fn pairs(vm: &mut Vm) -> LuaResult<u32> {
    let t = vm.arg(1);
    vm.push(Value::native(&NEXT));
    vm.push(t);
    vm.push(Value::NIL);
    Ok(3)
}
static PAIRS: Native = Native::leaf("pairs", pairs);
fn main() {
    let mut vm = Vm::new();
    let _ = vm.open_coroutine();
    let g = vm.globals();
    let _ = vm.register(g, &[&PRINT, &CLOCK, &SETMT, &PCALL, &NEXT, &PAIRS]);
    let name = std::env::args().nth(1).unwrap();
    let src = std::fs::read(&name).unwrap();
    let f = vm.load(&src, format!("@{name}").as_bytes(), LoadMode::Both, None).unwrap_or_else(|e| {
        eprintln!("{e:?}");
        std::process::exit(1)
    });
    if let Err(e) = vm.protected_call(f.into(), &[]) {
        eprintln!("error: {e:?}");
        std::process::exit(1)
    }
}
