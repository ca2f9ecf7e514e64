//! Faults that are there on purpose: a sanitizer that does not report them is not at work.

use std::hint::black_box;

/// Reads behind the end of an allocation.
pub fn overflow() -> u8 {
    let bytes = vec![1u8; black_box(16)];
    // SAFETY: none, this is the fault; allocations are rounded up, so nothing but a sanitizer sees it.
    unsafe { *black_box(bytes.as_ptr()).add(black_box(16)) }
}

/// Reads behind the end of an array on the native stack of a coroutine that yields within a native: whether
/// the sanitizer knows which stack is in use.
pub fn overflow_on_native_stack() -> u8 {
    use perilune_vm::{LoadMode, LuaResult, Native, Value, Vm};
    static WRONG: Native = Native::leaf("wrong", wrong);
    fn wrong(vm: &mut Vm) -> LuaResult<u32> {
        let bytes = black_box([1u8; 16]);
        // SAFETY: none, as above.
        let byte = unsafe { *black_box(bytes.as_ptr()).add(black_box(20)) };
        vm.ret(i64::from(byte))
    }
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).expect("an empty state has memory for its libraries");
    vm.set_global("wrong", Value::native(&WRONG)).expect("an empty state has memory");
    let program = "
        local co = coroutine.wrap(function()
          return (string.gsub('ab', '.', function(c) coroutine.yield(c) return tostring(wrong()) end))
        end)
        co() co() co()";
    let f = vm.load(program.as_bytes(), b"=planted", LoadMode::Text, None).expect("compiles");
    vm.host_call(f.into(), &[]).expect("runs");
    0
}

/// Two threads write to one variable, and nothing orders them.
pub fn race() -> u8 {
    struct Shared(std::cell::UnsafeCell<u8>);
    // SAFETY: none, this is the fault.
    unsafe impl Sync for Shared {}
    static SHARED: Shared = Shared(std::cell::UnsafeCell::new(0));
    let write = || {
        for i in 0..1000u32 {
            // SAFETY: none, this is the fault.
            unsafe { *black_box(SHARED.0.get()) = i as u8 };
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(write);
        scope.spawn(write);
    });
    // SAFETY: the threads have ended.
    unsafe { *SHARED.0.get() }
}
