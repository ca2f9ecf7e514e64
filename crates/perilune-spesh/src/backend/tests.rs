//! Small functions compiled, installed, called and freed.

use super::clif::{AbiParam, CallConv, InstBuilder, MemFlagsData, types};
use super::*;
use crate::memory::tests::free_at_once;
use crate::memory::{Code, CodeMemory, Kind};
use std::sync::Arc;

fn backend() -> Backend {
    Backend::new(Options { verify: true, ..Options::default() }).unwrap()
}

fn memory() -> Arc<CodeMemory> {
    CodeMemory::reserve(1 << 20).unwrap()
}

/// A signature of C from integers of 64 bits to one.
fn signature(parameters: usize) -> Signature {
    signature_of(parameters, CallConv::SystemV)
}

fn signature_of(parameters: usize, convention: CallConv) -> Signature {
    let mut signature = Signature::new(convention);
    signature.params = vec![AbiParam::new(types::I64); parameters];
    signature.returns = vec![AbiParam::new(types::I64)];
    signature
}

/// Opens the only block of a function that goes straight through, and returns its parameters.
fn begin(builder: &mut FunctionBuilder<'_>) -> Vec<clif::Value> {
    let block = builder.create_block();
    builder.append_block_params_for_function_params(block);
    builder.switch_to_block(block);
    builder.seal_block(block);
    builder.block_params(block).to_vec()
}

fn call1(code: &Code, a: i64) -> i64 {
    // SAFETY: callers pass code of a function with this signature, which is installed.
    let f: extern "C" fn(i64) -> i64 = unsafe { std::mem::transmute(code.address()) };
    f(a)
}

/// `a + n`.
fn add(backend: &mut Backend, n: i64) -> Compiled {
    let build = |builder: &mut FunctionBuilder<'_>| {
        let a = begin(builder)[0];
        let sum = builder.ins().iadd_imm_s(a, n);
        builder.ins().return_(&[sum]);
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

/// Loads that nobody uses, and what only they use, are not in the code; what may trap, or stores, is.
#[test]
fn what_nobody_uses_is_left_out() {
    let with = |flags: MemFlagsData, stores: bool| {
        let build = |builder: &mut FunctionBuilder<'_>| {
            let a = begin(builder)[0];
            let address = builder.ins().iadd_imm_s(a, 64);
            let next = builder.ins().load(types::I64, flags, address, 8);
            let more = builder.ins().iadd_imm_s(next, 1);
            let last = builder.ins().load(types::I64, flags, more, 0);
            if stores {
                builder.ins().store(flags, last, a, 0);
            }
            let sum = builder.ins().iadd_imm_s(a, 42);
            builder.ins().return_(&[sum]);
        };
        backend().compile(signature(1), build).unwrap().bytes
    };
    assert_eq!(with(MemFlagsData::trusted(), false), add(&mut backend(), 42).bytes);
    let stored = with(MemFlagsData::trusted(), true);
    assert!(stored.len() > add(&mut backend(), 42).bytes.len() + 8);
    assert!(with(MemFlagsData::new(), false).len() > add(&mut backend(), 42).bytes.len() + 6);
}

#[test]
fn helpers_are_called_by_address() {
    extern "C" fn helper(a: i64) -> i64 {
        a * 3
    }
    let build = |builder: &mut FunctionBuilder<'_>| {
        let a = begin(builder)[0];
        let signature = builder.import_signature(signature(1));
        let address = builder.ins().iconst(types::I64, helper as *const () as i64);
        let call = builder.ins().call_indirect(signature, address, &[a]);
        let tripled = builder.inst_results(call)[0];
        let sum = builder.ins().iadd(tripled, a);
        builder.ins().return_(&[sum]);
    };
    let compiled = backend().compile(signature(1), build).unwrap();
    let code = memory().install(&compiled.bytes, Kind::Function).unwrap();
    assert_eq!(call1(&code, 7), 28);
}

/// The naive Fibonacci function.
fn fibonacci(builder: &mut FunctionBuilder<'_>) {
    let n = begin(builder)[0];
    let (small, large) = (builder.create_block(), builder.create_block());
    let is_small = builder.ins().icmp_imm_s(clif::condcodes::IntCC::SignedLessThan, n, 2);
    builder.ins().brif(is_small, small, &[], large, &[]);
    builder.seal_block(small);
    builder.seal_block(large);
    builder.switch_to_block(small);
    builder.ins().return_(&[n]);
    builder.switch_to_block(large);
    let itself = itself(builder);
    let mut results = [1, 2].map(|less| {
        let argument = builder.ins().iadd_imm_s(n, -less);
        let call = builder.ins().call(itself, &[argument]);
        builder.inst_results(call)[0]
    });
    results[0] = builder.ins().iadd(results[0], results[1]);
    builder.ins().return_(&results[..1]);
}

#[test]
fn a_function_can_call_itself() {
    let compiled = backend().compile(signature(1), fibonacci).unwrap();
    let memory = memory();
    // Wherever it lies.
    let first = memory.install(&compiled.bytes, Kind::Function).unwrap();
    let second = memory.install(&compiled.bytes, Kind::Stub).unwrap();
    assert_eq!(call1(&first, 20), 6765);
    assert_eq!(call1(&second, 21), 10946);
}

/// A function of a value that is kept, a number, and the function to go on with while that is not 0.
fn countdown(builder: &mut FunctionBuilder<'_>) {
    let [kept, n, next, entry] = begin(builder).try_into().expect("four parameters");
    let signature = builder.func.signature.clone();
    let signature = builder.import_signature(signature);
    let [done, on] = [(); 2].map(|()| builder.create_block());
    builder.ins().brif(n, on, &[], done, &[]);
    builder.switch_to_block(on);
    // More values live at once than there are registers which calls leave alone.
    let mut values: Vec<_> = (0..20).map(|k| builder.ins().imul_imm_s(n, k + 3)).collect();
    let id = builder.import_signature(signature_of(1, CallConv::SystemV));
    let helper = builder.ins().iconst(types::I64, identity as *const () as i64);
    let call = builder.ins().call_indirect(id, helper, &[n]);
    values.push(builder.inst_results(call)[0]);
    let sum = values.into_iter().reduce(|a, b| builder.ins().iadd(a, b)).expect("some");
    // 1 + 3 + ... + 22 is 251.
    let wrong = builder.ins().imul_imm_s(n, 251);
    let rest = builder.ins().isub(sum, wrong);
    let less = builder.ins().iadd_imm_s(n, -1);
    let left = builder.ins().iadd(less, rest);
    builder.ins().return_call_indirect(signature, next, &[kept, left, next, entry]);
    builder.switch_to_block(done);
    let answer = builder.ins().iadd_imm_s(kept, 7);
    builder.ins().return_(&[answer]);
    builder.seal_all_blocks();
}

extern "C" fn identity(a: i64) -> i64 {
    a
}

#[test]
fn who_calls_machine_code_from_outside_finds_registers_as_they_were() {
    let mut backend = backend();
    let compiled = backend.compile(signature_of(4, JUMPING), countdown).expect("compiles");
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
    let rare = |builder: &mut FunctionBuilder<'_>, of, function: usize, arguments: &[clif::Value]| {
        let mut signature = Signature::new(CallConv::PreserveAll);
        signature.params = [types::I64; 2].map(AbiParam::new).to_vec();
        signature.params.extend(vec![AbiParam::new(of); arguments.len()]);
        let signature = builder.import_signature(signature);
        let data = clif::StackSlotData::new(clif::StackSlotKind::ExplicitSlot, target::RESULTS_SIZE, 3);
        let slot = builder.create_sized_stack_slot(data);
        let results = builder.ins().stack_addr(types::I64, slot, 0);
        let [function, by] = [function, target::preserving as *const () as usize]
            .map(|address| builder.ins().iconst(types::I64, address as i64));
        let arguments: Vec<_> = [function, results].into_iter().chain(arguments.iter().copied()).collect();
        builder.ins().call_indirect(signature, by, &arguments);
        slot
    };
    // More of each kind than there are registers: all are taken.
    const MANY: i64 = 20;
    let build = |builder: &mut FunctionBuilder<'_>| {
        let a = begin(builder)[0];
        let ints: Vec<_> = (0..MANY).map(|n| builder.ins().iadd_imm_s(a, n * n)).collect();
        let floats: Vec<_> = ints.iter().map(|&n| builder.ins().fcvt_from_sint(types::F64, n)).collect();
        let slot = rare(builder, types::I64, reckless as *const () as usize, &ints[..5]);
        let [one, other] = [0, 8].map(|at| builder.ins().stack_load(types::I64, types::I64, slot, at));
        let slot = rare(builder, types::F64, difference as *const () as usize, &[floats[9], floats[2]]);
        let less = builder.ins().stack_load(types::I64, types::F64, slot, target::FLOAT_RESULT);
        let less = builder.ins().fcvt_to_sint(types::I64, less);
        let mut sum = builder.ins().iadd(one, other);
        sum = builder.ins().iadd(sum, less);
        for (n, (int, float)) in ints.into_iter().zip(floats).enumerate() {
            let float = builder.ins().fcvt_to_sint(types::I64, float);
            let product = builder.ins().imul(int, float);
            let product = builder.ins().imul_imm_s(product, n as i64 + 1);
            sum = builder.ins().iadd(sum, product);
        }
        builder.ins().return_(&[sum]);
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
fn constants_and_jump_tables_travel_with_the_code() {
    let build = |builder: &mut FunctionBuilder<'_>| {
        let a = begin(builder)[0];
        let blocks: [clif::Block; 5] = std::array::from_fn(|_| builder.create_block());
        let calls = blocks.map(|block| builder.func.dfg.block_call(block, &[]));
        let table = builder.create_jump_table(clif::JumpTableData::new(calls[4], &calls[..4]));
        let index = builder.ins().ireduce(types::I32, a);
        builder.ins().br_table(index, table);
        builder.seal_all_blocks();
        for (n, block) in blocks.into_iter().enumerate() {
            builder.switch_to_block(block);
            // Sixteen bytes are no operand, so they lie behind the instructions.
            let lanes: Vec<u8> = (0..16).map(|lane| (n * 16 + lane) as u8).collect();
            let constant = builder.func.dfg.constants.insert(lanes.into());
            let vector = builder.ins().vconst(types::I8X16, constant);
            let lane = builder.ins().extractlane(vector, 3);
            let wide = builder.ins().uextend(types::I64, lane);
            builder.ins().return_(&[wide]);
        }
    };
    let compiled = backend().compile(signature(1), build).unwrap();
    let memory = memory();
    for kind in [Kind::Stub, Kind::Function] {
        let code = memory.install(&compiled.bytes, kind).unwrap();
        let results: Vec<i64> = [0, 1, 2, 3, 4, 99].map(|n| call1(&code, n)).into();
        assert_eq!(results, [3, 19, 35, 51, 67, 67]);
    }
}

#[test]
fn rounding_needs_no_library() {
    let build = |builder: &mut FunctionBuilder<'_>| {
        let a = begin(builder)[0];
        let float = builder.ins().fcvt_from_sint(types::F64, a);
        let factor = builder.ins().f64const(0.1);
        let product = builder.ins().fmul(float, factor);
        let up = builder.ins().ceil(product);
        let down = builder.ins().floor(product);
        let sum = builder.ins().fadd(up, down);
        let bits = builder.ins().bitcast(types::I64, MemFlagsData::new(), sum);
        builder.ins().return_(&[bits]);
    };
    let compiled = backend().compile(signature(1), build).unwrap();
    let code = memory().install(&compiled.bytes, Kind::Function).unwrap();
    assert_eq!(f64::from_bits(call1(&code, 41) as u64), 9.0);
}

#[test]
fn a_reference_to_anything_else_is_an_error() {
    let build = |builder: &mut FunctionBuilder<'_>| {
        let a = begin(builder)[0];
        let other = UserExternalName { namespace: 3, index: 4 };
        let name = ExternalName::user(builder.func.declare_imported_user_function(other));
        let signature = builder.import_signature(signature(1));
        let colocated = true;
        let data = ExtFuncData { name, signature, colocated, patchable: false };
        let function = builder.import_function(data);
        let call = builder.ins().call(function, &[a]);
        let result = builder.inst_results(call)[0];
        builder.ins().return_(&[result]);
    };
    let error = backend().compile(signature(1), build).unwrap_err();
    assert!(matches!(&error, CompileError::Relocation(what) if what.contains("u3:4")), "{error}");
    // A fused multiply-add becomes a call of the C library, since the processor's is not used.
    let build = |builder: &mut FunctionBuilder<'_>| {
        let a = begin(builder)[0];
        let float = builder.ins().bitcast(types::F64, MemFlagsData::new(), a);
        let fused = builder.ins().fma(float, float, float);
        let bits = builder.ins().bitcast(types::I64, MemFlagsData::new(), fused);
        builder.ins().return_(&[bits]);
    };
    let error = backend().compile(signature(1), build).unwrap_err();
    assert!(matches!(error, CompileError::Relocation(_)), "{error}");
}

#[test]
fn the_verifier_speaks_up() {
    let build = |builder: &mut FunctionBuilder<'_>| {
        let a = begin(builder)[0];
        // One value too many.
        builder.ins().return_(&[a, a]);
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
    let panicking = |builder: &mut FunctionBuilder<'_>| {
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
    let divide = |builder: &mut FunctionBuilder<'_>| {
        let values = begin(builder);
        let quotient = builder.ins().sdiv(values[0], values[1]);
        builder.ins().return_(&[quotient]);
    };
    let load = |flags: MemFlagsData| {
        move |builder: &mut FunctionBuilder<'_>| {
            let a = begin(builder)[0];
            let loaded = builder.ins().load(types::I64, flags, a, 8);
            builder.ins().return_(&[loaded]);
        }
    };
    let mut backend = backend();
    assert!(!backend.compile(signature(2), divide).unwrap().traps.is_empty());
    assert!(!backend.compile(signature(1), load(MemFlagsData::new())).unwrap().traps.is_empty());
    assert!(backend.compile(signature(1), load(MemFlagsData::trusted())).unwrap().traps.is_empty());
    assert!(add(&mut backend, 1).traps.is_empty());
}

#[test]
fn instructions_know_their_place() {
    extern "C" fn helper(a: i64) -> i64 {
        a
    }
    let build = |builder: &mut FunctionBuilder<'_>| {
        let a = begin(builder)[0];
        let signature = builder.import_signature(signature(1));
        let address = builder.ins().iconst(types::I64, helper as *const () as i64);
        let mut value = a;
        for place in [5, 6, 5] {
            set_place(builder, Place(place));
            let call = builder.ins().call_indirect(signature, address, &[value]);
            value = builder.inst_results(call)[0];
        }
        set_place(builder, Place(9));
        builder.ins().return_(&[value]);
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
            let kind = clif::StackSlotKind::ExplicitSlot;
            let slot = builder.create_sized_stack_slot(clif::StackSlotData::new(kind, size, 4));
            builder.ins().stack_store(types::I64, a, slot, 8);
            let b = builder.ins().stack_load(types::I64, types::I64, slot, 8);
            builder.ins().return_(&[b]);
        })
    };
    let (small, large) = (with_slot(64).unwrap(), with_slot(64 << 10).unwrap());
    assert_eq!((small.frame, large.frame), (64, 64 << 10));
    let memory = memory();
    for compiled in [small, large] {
        let code = memory.install(&compiled.bytes, Kind::Function).unwrap();
        assert_eq!(call1(&code, 3), 3);
    }
}

#[test]
fn a_listing_is_written_when_asked_for() {
    let mut backend = Backend::new(Options { listing: true, ..Options::default() }).unwrap();
    assert!(add(&mut backend, 1).listing.unwrap().contains("ret"));
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

#[test]
fn constants_at_the_start_are_parts_of_what_uses_them() {
    let mut backend = Backend::new(Options { listing: true, ..Options::default() }).unwrap();
    let compiled = backend.compile(signature(2), |b| {
        let arguments = begin(b);
        let sum = b.ins().iadd(arguments[0], arguments[1]);
        let [small, tag] = [(types::I64, 77), (types::I8, 9)].map(|(ty, n)| constant_at_start(b, ty, n));
        let [yes, no] = [b.create_block(), b.create_block()];
        let is = b.ins().icmp(clif::condcodes::IntCC::Equal, arguments[0], small);
        b.ins().brif(is, yes, &[], no, &[]);
        b.switch_to_block(yes);
        b.ins().store(MemFlagsData::trusted(), tag, arguments[1], 8);
        let shifted = b.ins().ushr(sum, small);
        let part = b.ins().band(shifted, small);
        b.ins().return_(&[part]);
        b.switch_to_block(no);
        b.ins().return_(&[arguments[0]]);
        b.seal_all_blocks();
    });
    // Nothing is moved into a register, and one store has its value in itself.
    let listing = compiled.unwrap().listing.unwrap();
    let made = listing.lines().filter(|line| line.contains("mov") && line.contains("$0x")).count();
    let stored = listing.lines().filter(|line| line.contains("movb $0x9")).count();
    assert_eq!((made, stored), (1, 1), "{listing}");
}
