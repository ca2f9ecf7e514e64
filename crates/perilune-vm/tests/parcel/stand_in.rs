//! A stand-in for the module `perilune`: domains and tasks run at once, on this thread, in a state of their
//! own, until they end. It lets the programs of `tests/parallel/outcomes` be run with nothing but two
//! machines and parcels between them, as far as nobody has to wait.

use perilune_vm::parcel::{ErrorParcel, PackRules, Parcel};
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LoadMode, LuaResult, Native, Table, Value, Vm};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// A state with the standard library and the stand-in.
pub fn new_vm() -> Box<Vm> {
    let mut vm = Vm::with_options(perilune_heap::HeapOptions::from_env());
    perilune_stdlib::open_libs(&mut vm).expect("memory for the libraries");
    let registry = vm.registry();
    let preload = vm.get_field(registry, "_PRELOAD").expect("a field").as_table().expect("package.preload");
    vm.set_field(preload, "perilune", Value::native(&OPEN)).expect("memory for a field");
    vm
}

/// Runs a chunk; its results or the error's text.
pub fn run(vm: &mut Vm, source: &str, name: &str) -> Result<Vec<Value>, String> {
    let f = match vm.load(source.as_bytes(), format!("@{name}").as_bytes(), LoadMode::Text, None) {
        Ok(f) => f,
        Err(e) => return Err(e.as_string().expect("a message").to_text()),
    };
    match vm.host_call(f.into(), &[]) {
        Ok(n) => {
            let top = vm.nargs();
            Ok((top - n + 1..=top).map(|i| vm.stack_get(i)).collect())
        }
        Err(e) => match vm.tostring(e) {
            Ok(s) => Err(s.to_text()),
            Err(_) => Err("error in __tostring".into()),
        },
    }
}

static OPEN: Native = Native::reentrant("open_perilune", open);
static SPAWN: Native = Native::reentrant("spawn", |vm| start(vm, PackRules::SPAWN, 1));
static ASYNC: Native = Native::reentrant("async", |vm| start(vm, PackRules::TASK, 2));

fn open(vm: &mut Vm) -> LuaResult<u32> {
    vm.seal_modules();
    let pl = vm.new_table(0, 8)?;
    vm.push(pl.into());
    for (name, natives) in [("domain", &[&SPAWN][..]), ("pool", &[&NEW_POOL]), ("channel", &[&NEW_CHANNEL])] {
        let t = vm.new_table(0, 4)?;
        vm.set_field(pl, name, t.into())?;
        vm.register(t, natives)?;
    }
    vm.register(pl, &[&NEW_ATOMIC, &SHARE])?;
    vm.ret(pl)
}

/// Runs the function in argument `first` with the arguments after it.
fn start(vm: &mut Vm, rules: PackRules, first: u32) -> LuaResult<u32> {
    let values: Vec<Value> = (first..=vm.nargs()).map(|i| vm.arg(i)).collect();
    let parcel = vm.pack_or_raise(&values, rules)?;
    let mut other = new_vm();
    let outcome = run_parcel(&mut other, &parcel);
    let task = vm.shared_ref(Arc::new(Task(outcome)));
    vm.ret(task)
}

static WITH_TRACEBACK: Native = Native::leaf("traceback", |vm| {
    let e = vm.arg(1);
    let thread = vm.thread();
    let text = vm.traceback(thread, None, 1);
    vm.push(e);
    vm.push_str(&text)?;
    let t = vm.new_table(2, 0)?;
    let (text, e) = (vm.pop(), vm.pop());
    vm.raw_set_list(t, 1, &[e, text])?;
    vm.ret(t)
});

fn run_parcel(other: &mut Vm, parcel: &Parcel) -> Result<Parcel, ErrorParcel> {
    let n = match other.unpack(parcel) {
        Ok(n) => n,
        Err(e) => {
            let e = other.host_error(e);
            return Err(other.pack_error(e, b""));
        }
    };
    let top = other.nargs();
    let values: Vec<Value> = (top - n + 1..=top).map(|i| other.stack_get(i)).collect();
    match other.host_call_with_handler(values[0], &values[1..], Value::native(&WITH_TRACEBACK)) {
        Ok(n) => {
            let top = other.nargs();
            let results: Vec<Value> = (top - n + 1..=top).map(|i| other.stack_get(i)).collect();
            match other.pack(&results, PackRules::RESULT) {
                Ok(parcel) => Ok(parcel),
                Err(refusal) => Err(ErrorParcel::from_text(&refusal.text())),
            }
        }
        Err(pair) => {
            let pair = pair.as_table().expect("the handler's pair");
            let (e, text) = (other.raw_get_int(pair, 1), other.raw_get_int(pair, 2));
            other.push(e);
            Err(other.pack_error(e, text.as_string().map_or(b"", |s| s.bytes())))
        }
    }
}

struct Task(Result<Parcel, ErrorParcel>);
static TASK: SharedKind = SharedKind::new("task", |vm, mt| methods(vm, mt, &[&JOIN, &AWAIT]));
static JOIN: Native = Native::reentrant("join", join);
static AWAIT: Native = Native::reentrant("await", join);

impl SharedObject for Task {
    fn kind(&self) -> &'static SharedKind {
        &TASK
    }
}

fn join(vm: &mut Vm) -> LuaResult<u32> {
    let task: Arc<Task> = vm.check_shared_arc(1, &TASK)?;
    match &task.0 {
        Ok(parcel) => vm.unpack(parcel),
        Err(e) => Err(vm.raise_from(e, "another domain")),
    }
}

fn methods(vm: &mut Vm, mt: Gc<Table>, natives: &[&'static Native]) -> LuaResult<()> {
    vm.register(mt, natives)?;
    vm.set_field(mt, "__index", mt.into())
}

static SHARE: Native = Native::leaf("share", |vm| {
    let v = vm.arg(1);
    let v = vm.share(v)?;
    vm.ret(v)
});

struct Pool;
static POOL: SharedKind = SharedKind::new("pool", |vm, mt| {
    let garbage = vm.load(b"for i = 1, 100 do local t = {i} end return 1", b"=open", LoadMode::Text, None);
    vm.call(garbage.expect("a program").into(), &[])?;
    methods(vm, mt, &[&ASYNC, &CLOSE_POOL])
});
static CLOSE_POOL: Native = Native::leaf("close", |_| Ok(0));
static NEW_POOL: Native = Native::leaf("new", |vm| {
    let pool = vm.shared_ref(Arc::new(Pool));
    vm.ret(pool)
});

impl SharedObject for Pool {
    fn kind(&self) -> &'static SharedKind {
        &POOL
    }
}

struct Channel(Mutex<VecDeque<Parcel>>);
static CHANNEL: SharedKind = SharedKind::new("channel", |vm, mt| methods(vm, mt, &[&SEND, &RECV]));
static NEW_CHANNEL: Native = Native::leaf("new", |vm| {
    let channel = vm.shared_ref(Arc::new(Channel(Mutex::default())));
    vm.ret(channel)
});
static SEND: Native = Native::leaf("send", |vm| {
    let channel: Arc<Channel> = vm.check_shared_arc(1, &CHANNEL)?;
    let values: Vec<Value> = (2..=vm.nargs()).map(|i| vm.arg(i)).collect();
    let parcel = vm.pack_or_raise(&values, PackRules::MESSAGE)?;
    channel.0.lock().expect("no thread panics").push_back(parcel);
    Ok(0)
});
static RECV: Native = Native::reentrant("recv", |vm| {
    let channel: Arc<Channel> = vm.check_shared_arc(1, &CHANNEL)?;
    let parcel = channel.0.lock().expect("no thread panics").pop_front();
    match parcel {
        Some(parcel) => vm.unpack(&parcel),
        None => Err(vm.error("nothing to receive")),
    }
});

impl SharedObject for Channel {
    fn kind(&self) -> &'static SharedKind {
        &CHANNEL
    }
}

struct Atomic(AtomicI64);
static ATOMIC: SharedKind = SharedKind::new("atomic", |vm, mt| methods(vm, mt, &[&ADD]));
static NEW_ATOMIC: Native = Native::leaf("atomic", |vm| {
    let start = vm.check_int(1)?;
    let atomic = vm.shared_ref(Arc::new(Atomic(AtomicI64::new(start))));
    vm.ret(atomic)
});
static ADD: Native = Native::leaf("add", |vm| {
    let n = vm.check_int(2)?;
    let atomic: &Atomic = vm.check_shared(1, &ATOMIC)?;
    let before = atomic.0.fetch_add(n, Ordering::Relaxed);
    vm.ret(before)
});

impl SharedObject for Atomic {
    fn kind(&self) -> &'static SharedKind {
        &ATOMIC
    }
}
