use perilune_vm::*;
fn main() {
    let mut args = std::env::args().skip(1);
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).unwrap_or_else(|_| panic!());
    let mut a = args.next().unwrap();
    let mut vmm = vm;
    let vm = &mut *vmm;
    if a == "-u" {
        vm.set_global("_U", Value::TRUE).unwrap_or_else(|_| panic!());
        a = args.next().unwrap();
    }
    let mut src = std::fs::read(&a).unwrap();
    if src.first() == Some(&b'#') {
        let n = src.iter().position(|&b| b == b'\n').unwrap_or(src.len());
        src.drain(..n);
    }
    let arg = vm.new_table(0, 0).unwrap_or_else(|_| panic!());
    let s = vm.value_str(a.as_bytes()).unwrap_or_else(|_| panic!());
    let _ = vm.raw_set_int(arg, 0, s);
    let s = vm.value_str(b"lua").unwrap_or_else(|_| panic!());
    let _ = vm.raw_set_int(arg, -1, s);
    let _ = vm.set_global("arg", arg.into());
    let f = match vm.load(&src, format!("@{a}").as_bytes(), LoadMode::Both, None) {
        Ok(f) => f,
        Err(e) => {
            eprintln!("{e:?}");
            std::process::exit(1)
        }
    };
    let xp = vm.get_field(vm.globals(), "xpcall").unwrap_or_else(|_| panic!());
    let dbg = vm.get_field(vm.globals(), "debug").unwrap_or_else(|_| panic!()).as_table().unwrap();
    let tb = vm.get_field(dbg, "traceback").unwrap_or_else(|_| panic!());
    match vm.protected_call(xp, &[f.into(), tb]) {
        Ok(n) => {
            let t = vm.nargs();
            let ok = vm.stack_get(t - n + 1);
            if !ok.is_truthy() {
                let e = vm.stack_get(t - n + 2);
                match e.as_string() {
                    Some(s) => eprintln!("{}", s.to_text()),
                    None => eprintln!("{e:?}"),
                };
                std::process::exit(1)
            }
        }
        Err(e) => {
            eprintln!("ERR {e:?}");
            std::process::exit(1)
        }
    }
}
