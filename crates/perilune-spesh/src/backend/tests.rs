//! Small functions compiled, installed, called and freed.

use super::*;
use crate::memory::tests::free_at_once;
use crate::memory::{Code, CodeMemory, Kind};
use crate::positions::Place;
use crate::ssa::{Convention, FloatCC, IntCC, Type, Value};
use std::sync::Arc;

fn backend() -> Backend {
    Backend::new(Options { verify: true }).unwrap()
}

fn memory() -> Arc<CodeMemory> {
    CodeMemory::reserve(1 << 20).unwrap()
}

/// A signature of C from integers of 64 bits to one.
fn signature(parameters: usize) -> Signature {
    signature_of(parameters, Convention::C)
}

fn signature_of(parameters: usize, convention: Convention) -> Signature {
    Signature { convention, params: vec![Type::I64; parameters], returns: vec![Type::I64] }
}

/// Opens the only block of a function that goes straight through, and returns its parameters.
fn begin(builder: &mut Builder<'_>) -> Vec<Value> {
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    builder.seal_block(block);
    builder.block_params(block)
}

/// `a + n`.
fn plus(builder: &mut Builder<'_>, a: Value, n: i64) -> Value {
    let n = builder.iconst(Type::I64, n);
    builder.iadd(a, n)
}

/// `a * n`.
fn times(builder: &mut Builder<'_>, a: Value, n: i64) -> Value {
    let n = builder.iconst(Type::I64, n);
    builder.imul(a, n)
}

fn call1(code: &Code, a: i64) -> i64 {
    // SAFETY: callers pass code of a function with this signature, which is installed.
    let f: extern "C" fn(i64) -> i64 = unsafe { std::mem::transmute(code.address()) };
    f(a)
}

/// `a + n`.
fn add(backend: &mut Backend, n: i64) -> Compiled {
    let build = |builder: &mut Builder<'_>| {
        let a = begin(builder)[0];
        let sum = plus(builder, a, n);
        builder.return_(&[sum]);
    };
    backend.compile(signature(1), build).unwrap()
}

#[test]
fn a_function_is_compiled_installed_and_called() {
    let memory = memory();
    let compiled = add(&mut backend(), 42);
    let code = memory.install(&compiled.bytes, Kind::Function).unwrap();
    assert!(code.address().is_multiple_of(32));
    assert_eq!(call1(&code, 100), 142);
    assert_eq!(code.bytes(), compiled.bytes);
}

/// Loads that nobody uses, and what only they use, are not in the code; what stores is.
#[test]
fn what_nobody_uses_is_left_out() {
    let with = |stores: bool| {
        let build = |builder: &mut Builder<'_>| {
            let a = begin(builder)[0];
            let address = plus(builder, a, 64);
            let next = builder.load(Type::I64, address, 8);
            let more = plus(builder, next, 1);
            let last = builder.load(Type::I64, more, 0);
            if stores {
                builder.store(last, a, 0);
            }
            let sum = plus(builder, a, 42);
            builder.return_(&[sum]);
        };
        backend().compile(signature(1), build).unwrap().bytes
    };
    let nothing = add(&mut backend(), 42).bytes;
    assert_eq!(with(false), nothing);
    assert!(with(true).len() > nothing.len() + 8);
}

#[test]
fn helpers_are_called_by_address() {
    extern "C" fn helper(a: i64) -> i64 {
        a * 3
    }
    let build = |builder: &mut Builder<'_>| {
        let a = begin(builder)[0];
        let signature = builder.import_signature(signature(1));
        let address = builder.iconst(Type::I64, helper as *const () as i64);
        let call = builder.call_indirect(signature, address, &[a]);
        let [tripled] = builder.inst_results(call);
        let sum = builder.iadd(tripled, a);
        builder.return_(&[sum]);
    };
    let compiled = backend().compile(signature(1), build).unwrap();
    let code = memory().install(&compiled.bytes, Kind::Function).unwrap();
    assert_eq!(call1(&code, 7), 28);
}

fn call2(code: &Code, a: i64, b: i64) -> i64 {
    // SAFETY: as above, of two parameters.
    let f: extern "C" fn(i64, i64) -> i64 = unsafe { std::mem::transmute(code.address()) };
    f(a, b)
}

/// The naive Fibonacci function, of a number and its own address.
fn fibonacci(builder: &mut Builder<'_>) {
    let [n, itself] = begin(builder).try_into().expect("two parameters");
    let (small, large) = (builder.create_block(), builder.create_block());
    let two = builder.iconst(Type::I64, 2);
    let is_small = builder.icmp(IntCC::SignedLessThan, n, two);
    builder.brif(is_small, small, &[], large, &[]);
    builder.seal_block(small);
    builder.seal_block(large);
    builder.switch_to_block(small);
    builder.return_(&[n]);
    builder.switch_to_block(large);
    let signature = builder.import_signature(signature(2));
    let results = [1, 2].map(|less| {
        let argument = plus(builder, n, -less);
        let call = builder.call_indirect(signature, itself, &[argument, itself]);
        let [result] = builder.inst_results(call);
        result
    });
    let sum = builder.iadd(results[0], results[1]);
    builder.return_(&[sum]);
}

#[test]
fn a_function_can_call_itself() {
    let compiled = backend().compile(signature(2), fibonacci).unwrap();
    let memory = memory();
    // Wherever it lies.
    for (kind, n, result) in [(Kind::Function, 20, 6765), (Kind::Stub, 21, 10946)] {
        let code = memory.install(&compiled.bytes, kind).unwrap();
        assert_eq!(call2(&code, n, code.address() as i64), result);
    }
}

/// A function of a value that is kept, a number, and the function to go on with while that is not 0.
fn countdown(builder: &mut Builder<'_>) {
    let [kept, n, next, entry] = begin(builder).try_into().expect("four parameters");
    let signature = builder.func.signature.clone();
    let signature = builder.import_signature(signature);
    let [done, on] = [(); 2].map(|()| builder.create_block());
    builder.brif(n, on, &[], done, &[]);
    builder.switch_to_block(on);
    // More values live at once than there are registers which calls leave alone.
    let mut values: Vec<_> = (0..20).map(|k| times(builder, n, k + 3)).collect();
    let id = builder.import_signature(signature_of(1, Convention::C));
    let helper = builder.iconst(Type::I64, identity as *const () as i64);
    let call = builder.call_indirect(id, helper, &[n]);
    values.extend(builder.inst_results::<1>(call));
    let sum = values.into_iter().reduce(|a, b| builder.iadd(a, b)).expect("some");
    // 1 + 3 + ... + 22 is 251.
    let wrong = times(builder, n, 251);
    let rest = builder.isub(sum, wrong);
    let less = plus(builder, n, -1);
    let left = builder.iadd(less, rest);
    builder.return_call_indirect(signature, next, &[kept, left, next, entry]);
    builder.switch_to_block(done);
    let answer = plus(builder, kept, 7);
    builder.return_(&[answer]);
    builder.seal_all_blocks();
}

extern "C" fn identity(a: i64) -> i64 {
    a
}

#[test]
fn who_calls_machine_code_from_outside_finds_registers_as_they_were() {
    let mut backend = backend();
    let compiled = backend.compile(signature_of(4, Convention::Machine), countdown).expect("compiles");
    let memory = memory();
    let code = memory.install(&compiled.bytes, Kind::Function).expect("there is room");
    // As deep as no stack is.
    let mut kept = [11u64, 12, 13, 14];
    let answer: i64;
    // SAFETY: the code has this signature, and touches nothing but registers and its stack frame; what it may
    // change is said.
    unsafe {
        std::arch::asm!(
            "call {enter}",
            enter = in(reg) perilune_vm::machine::enter(),
            inout("rdi") 1000i64 => _,
            inout("rsi") 100_000_000i64 => _,
            inout("rdx") code.address() => _,
            inout("rcx") 0i64 => _,
            inout("r8") code.address() => _,
            inout("r12") kept[0],
            inout("r13") kept[1],
            inout("r14") kept[2],
            inout("r15") kept[3],
            lateout("rax") answer,
            clobber_abi("C"),
        );
    }
    assert_eq!((answer, kept), (1007, [11, 12, 13, 14]));
    free_at_once(code);
}

/// Changes whatever a function of C may change, and gives back two words made of its five.
#[unsafe(naked)]
unsafe extern "C" fn reckless() {
    std::arch::naked_asm!(
        "lea rax, [rdi + 2*rsi]",
        "lea rax, [rax + 4*rdx]",
        "lea rax, [rax + 8*rcx]",
        "mov rdx, r8",
        "mov r11, -1",
        "mov rcx, r11",
        "mov rsi, r11",
        "mov rdi, r11",
        "mov r8, r11",
        "mov r9, r11",
        "mov r10, r11",
        "movq xmm0, r11",
        "movq xmm1, r11",
        "movq xmm2, r11",
        "movq xmm3, r11",
        "movq xmm4, r11",
        "movq xmm5, r11",
        "movq xmm6, r11",
        "movq xmm7, r11",
        "movq xmm8, r11",
        "movq xmm9, r11",
        "movq xmm10, r11",
        "movq xmm11, r11",
        "movq xmm12, r11",
        "movq xmm13, r11",
        "movq xmm14, r11",
        "movq xmm15, r11",
        "ret",
    )
}

extern "C" fn difference(x: f64, y: f64) -> f64 {
    x - y
}

#[test]
fn a_rare_call_changes_no_register() {
    let rare = |builder: &mut Builder<'_>, of, function: usize, arguments: &[Value]| {
        let mut signature = Signature::new(Convention::Preserving);
        signature.params = vec![Type::I64; 2];
        signature.params.extend(vec![of; arguments.len()]);
        let signature = builder.import_signature(signature);
        let slot = builder.create_slot(target::RESULTS_SIZE);
        let results = builder.stack_addr(slot, 0);
        let [function, by] = [function, target::preserving as *const () as usize]
            .map(|address| builder.iconst(Type::I64, address as i64));
        let arguments: Vec<_> = [function, results].into_iter().chain(arguments.iter().copied()).collect();
        builder.call_indirect(signature, by, &arguments);
        slot
    };
    // More of each kind than there are registers: all are taken.
    const MANY: i64 = 20;
    let build = |builder: &mut Builder<'_>| {
        let a = begin(builder)[0];
        let ints: Vec<_> = (0..MANY).map(|n| plus(builder, a, n * n)).collect();
        let floats: Vec<_> = ints.iter().map(|&n| builder.fcvt_from_sint(n)).collect();
        let slot = rare(builder, Type::I64, reckless as *const () as usize, &ints[..5]);
        let [one, other] = [0, 8].map(|at| builder.stack_load(Type::I64, slot, at));
        let slot = rare(builder, Type::F64, difference as *const () as usize, &[floats[9], floats[2]]);
        let less = builder.stack_load(Type::F64, slot, target::FLOAT_RESULT);
        let less = builder.fcvt_to_sint(less);
        let mut sum = builder.iadd(one, other);
        sum = builder.iadd(sum, less);
        for (n, (int, float)) in ints.into_iter().zip(floats).enumerate() {
            let float = builder.fcvt_to_sint(float);
            let product = builder.imul(int, float);
            let product = times(builder, product, n as i64 + 1);
            sum = builder.iadd(sum, product);
        }
        builder.return_(&[sum]);
    };
    let compiled = backend().compile(signature(1), build).expect("compiles");
    let memory = memory();
    let code = memory.install(&compiled.bytes, Kind::Function).expect("there is room");
    let of = |a: i64, n: i64| a + n * n;
    let words = (0..4).map(|n| of(7, n) << n).sum::<i64>() + of(7, 4);
    let products = (0..MANY).map(|n| of(7, n) * of(7, n) * (n + 1)).sum::<i64>();
    assert_eq!(call1(&code, 7), words + (81 - 4) + products);
    free_at_once(code);
}

#[test]
fn constants_travel_with_the_code() {
    let build = |builder: &mut Builder<'_>| {
        let a = begin(builder)[0];
        let float = builder.fcvt_from_sint(a);
        let [half, much] = [0.5, 1e300].map(|x| builder.f64const(x));
        let is_small = builder.fcmp(FloatCC::LessThan, float, much);
        let sum = builder.fadd(float, half);
        let chosen = builder.select(is_small, sum, much);
        let bits = builder.bitcast(Type::I64, chosen);
        builder.return_(&[bits]);
    };
    let compiled = backend().compile(signature(1), build).unwrap();
    let memory = memory();
    for kind in [Kind::Stub, Kind::Function] {
        let code = memory.install(&compiled.bytes, kind).unwrap();
        assert_eq!(f64::from_bits(call1(&code, 41) as u64), 41.5);
    }
}

#[test]
fn constants_are_parts_of_what_uses_them() {
    let build = |builder: &mut Builder<'_>| {
        let [a, to] = begin(builder).try_into().expect("two parameters");
        let [small, tag] = [(Type::I64, 77), (Type::I8, 9)].map(|(ty, n)| builder.iconst(ty, n));
        let [yes, no] = [builder.create_block(), builder.create_block()];
        let is = builder.icmp(IntCC::Equal, a, small);
        builder.brif(is, yes, &[], no, &[]);
        builder.switch_to_block(yes);
        builder.store(tag, to, 8);
        builder.return_(&[small]);
        builder.switch_to_block(no);
        let part = builder.band(a, small);
        builder.return_(&[part]);
        builder.seal_all_blocks();
    };
    let bytes = backend().compile(signature(2), build).unwrap().bytes;
    let has = |is: fn(&[u8]) -> bool| bytes.windows(4).any(is);
    // `cmp r, 77`, `mov byte [r + 8], 9`, `and r, 77`.
    assert!(has(|code| code[..2] == [0x48, 0x83] && code[2] & 0xF8 == 0xF8 && code[3] == 77), "{bytes:x?}");
    assert!(has(|code| code[0] == 0xC6 && code[2..] == [8, 9]), "{bytes:x?}");
    assert!(has(|code| code[..2] == [0x48, 0x83] && code[2] & 0xF8 == 0xE0 && code[3] == 77), "{bytes:x?}");
}

#[test]
fn rounding_needs_no_library() {
    let build = |builder: &mut Builder<'_>| {
        let a = begin(builder)[0];
        let float = builder.fcvt_from_sint(a);
        let factor = builder.f64const(0.1);
        let product = builder.fmul(float, factor);
        let up = builder.ceil(product);
        let down = builder.floor(product);
        let sum = builder.fadd(up, down);
        let bits = builder.bitcast(Type::I64, sum);
        builder.return_(&[bits]);
    };
    let compiled = backend().compile(signature(1), build).unwrap();
    let code = memory().install(&compiled.bytes, Kind::Function).unwrap();
    assert_eq!(f64::from_bits(call1(&code, 41) as u64), 9.0);
}

#[test]
fn the_verifier_speaks_up() {
    let build = |builder: &mut Builder<'_>| {
        let a = begin(builder)[0];
        // One value too many.
        builder.return_(&[a, a]);
    };
    let error = backend().compile(signature(1), build).unwrap_err();
    assert!(matches!(error, CompileError::Invalid(_)), "{error}");
    // The next function is not affected.
    let mut backend = backend();
    assert!(backend.compile(signature(1), build).is_err());
    let code = memory().install(&add(&mut backend, 1).bytes, Kind::Function).unwrap();
    assert_eq!(call1(&code, 1), 2);
}

#[test]
fn a_backend_survives_a_panic_of_who_builds() {
    let mut backend = backend();
    let panicking = |builder: &mut Builder<'_>| {
        begin(builder);
        panic!("half a function");
    };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        drop(backend.compile(signature(1), panicking));
    }));
    assert!(result.is_err());
    let code = memory().install(&add(&mut backend, 1).bytes, Kind::Function).unwrap();
    assert_eq!(call1(&code, 1), 2);
}

#[test]
fn what_can_trap_is_told() {
    let divide = |builder: &mut Builder<'_>| {
        let values = begin(builder);
        let quotient = builder.floor_div(values[0], values[1]);
        builder.return_(&[quotient]);
    };
    let load = |builder: &mut Builder<'_>| {
        let a = begin(builder)[0];
        let loaded = builder.load(Type::I64, a, 8);
        builder.return_(&[loaded]);
    };
    let never = |builder: &mut Builder<'_>| {
        begin(builder);
        builder.trap();
    };
    let mut backend = backend();
    assert!(!backend.compile(signature(2), divide).unwrap().traps.is_empty());
    assert!(!backend.compile(signature(1), never).unwrap().traps.is_empty());
    assert!(backend.compile(signature(1), load).unwrap().traps.is_empty());
    assert!(add(&mut backend, 1).traps.is_empty());
}

#[test]
fn instructions_know_their_place() {
    extern "C" fn helper(a: i64) -> i64 {
        a
    }
    let build = |builder: &mut Builder<'_>| {
        let a = begin(builder)[0];
        let signature = builder.import_signature(signature(1));
        let address = builder.iconst(Type::I64, helper as *const () as i64);
        let mut value = a;
        for place in [5, 6, 5] {
            builder.set_place(place);
            let call = builder.call_indirect(signature, address, &[value]);
            [value] = builder.inst_results(call);
        }
        builder.set_place(9);
        builder.return_(&[value]);
    };
    let compiled = backend().compile(signature(1), build).unwrap();
    let starts: Vec<_> = compiled.positions.starts().collect();
    assert_eq!(starts.iter().map(|(_, place)| place.0).collect::<Vec<_>>(), [5, 6, 5, 9]);
    // The prologue belongs to nobody; what lies in between belongs to what it lies behind.
    assert_eq!(compiled.positions.at(0), None);
    assert_eq!(compiled.positions.at(starts[1].0), Some(Place(6)));
    assert_eq!(compiled.positions.at(starts[2].0 - 1), Some(Place(6)));
    assert_eq!(compiled.positions.at(compiled.bytes.len() as u32 - 1), Some(Place(9)));
}

#[test]
fn frames_are_measured_and_large_ones_touch_their_pages() {
    let with_slot = |size: u32| {
        backend().compile(signature(1), |builder| {
            let a = begin(builder)[0];
            let slot = builder.create_slot(size);
            let address = builder.stack_addr(slot, 8);
            builder.store(a, address, 0);
            let b = builder.stack_load(Type::I64, slot, 8);
            builder.return_(&[b]);
        })
    };
    let memory = memory();
    // Loads of what is below the stack, into the register that nothing else is in.
    let touched = |bytes: &[u8]| bytes.windows(4).filter(|&code| code == [0x4C, 0x8B, 0x9C, 0x24]).count();
    for (size, pages) in [(64, 0), (4080, 0), (4096, 1), (64 << 10, 16)] {
        let compiled = with_slot(size).unwrap();
        assert_eq!((compiled.frame, touched(&compiled.bytes)), (size, pages));
        let code = memory.install(&compiled.bytes, Kind::Function).unwrap();
        assert_eq!(call1(&code, 3), 3);
    }
    assert_eq!(with_slot(72 << 10).unwrap_err(), CompileError::TooLarge);
}

#[test]
fn ten_thousand_functions_fit_into_little_memory_when_they_are_freed() {
    let (memory, mut backend) = (CodeMemory::reserve(64 << 10).unwrap(), backend());
    for n in 0..10_000 {
        let compiled = add(&mut backend, n);
        let code = memory.install(&compiled.bytes, Kind::Function).unwrap();
        assert_eq!(call1(&code, 1), n + 1);
        free_at_once(code);
    }
    assert_eq!(memory.usage().unwrap().pieces, 0);
}
