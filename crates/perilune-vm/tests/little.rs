//! What is next to nothing is received though others hold all that the program may hold. In a process of its
//! own: the limit is the whole process's.

use perilune_heap::{charge_arrays, set_program_limit};
use perilune_vm::parcel::{PackRules, Parcel};
use perilune_vm::{LoadMode, Value, Vm};

fn new_vm() -> Box<Vm> {
    let mut vm = Vm::with_options(perilune_heap::HeapOptions::default());
    perilune_stdlib::open_libs(&mut vm).expect("memory for the libraries");
    vm
}

fn message(vm: &mut Vm, source: &str) -> Parcel {
    let chunk = vm.load(source.as_bytes(), b"=message", LoadMode::Text, None).expect("a program");
    let n = vm.host_call(chunk.into(), &[]).expect("the program runs");
    assert_eq!(n, 1);
    let v = vm.pop();
    vm.pack(&[v], PackRules::MESSAGE).expect("it may cross")
}

/// Receives it until the error comes, and counts; each is garbage at once, or is kept in a list.
fn receive(vm: &mut Vm, parcel: &Parcel, times: usize, keep: bool) -> Result<(), String> {
    for _ in 0..times {
        if let Err(thrown) = vm.unpack(parcel) {
            let e = vm.host_error(thrown);
            return Err(e.as_string().expect("a message").to_text());
        }
        if !keep {
            vm.truncate(0);
        }
    }
    Ok(())
}

#[test]
fn little_is_received_whoever_holds_the_memory() {
    const LIMIT: usize = 64 << 20;
    let (mut sender, mut receiver) = (new_vm(), new_vm());
    let small = message(&mut sender, "return {'0123456789', {1, 2, 3}}");
    let large = message(&mut sender, "local t = {} for i = 1, 100000 do t[i] = {i} end return t");
    let before = set_program_limit(Some(LIMIT));
    assert_eq!(before, None);
    // Somebody has taken more than there is.
    charge_arrays(LIMIT as isize + 1);
    // Some nurseries full.
    assert_eq!(receive(&mut receiver, &small, 200_000, false), Ok(()));
    assert_eq!(receive(&mut receiver, &large, 1, false), Err("not enough memory".into()));
    // Nobody sends anything meanwhile: what waits in queues is bounded.
    let v = Value::int(1);
    assert!(sender.pack_or_raise(&[v], PackRules::MESSAGE).is_err());
    assert!(sender.pack_or_raise(&[v], PackRules::RESULT).is_ok());
    // A limit of the heap's own holds.
    let own = receiver.heap().live_bytes() + (256 << 10);
    receiver.heap().set_limit(Some(own));
    assert_eq!(receive(&mut receiver, &small, 200_000, true), Err("not enough memory".into()));
    receiver.truncate(0);
    charge_arrays(-(LIMIT as isize + 1));
    set_program_limit(before);
    receiver.collect_full();
    receiver.verify_heap().expect("a sound heap");
}
