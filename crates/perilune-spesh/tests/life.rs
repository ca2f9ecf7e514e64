//! The whole life of code: compiled, installed, entered into the ranges, called, retired, collected, freed, by several threads at once.
#![cfg(machine_code)]

use perilune_spesh::backend::clif::{AbiParam, CallConv, InstBuilder, Signature, types};
use perilune_spesh::backend::{Backend, Compiled, Options};
use perilune_spesh::memory::{Code, CodeMemory, InstallError, Kind};
use perilune_spesh::ranges::Ranges;
use perilune_spesh::reclaim::{Reclaimer, Retired};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

struct Piece(Code);

impl Retired for Piece {
    fn addresses(&self) -> Range<usize> {
        self.0.range()
    }
}

/// `fn() -> n`, padded with `n % 8` multiplications so that lengths differ.
fn compile(backend: &mut Backend, n: i64) -> Compiled {
    let mut signature = Signature::new(CallConv::SystemV);
    signature.returns = vec![AbiParam::new(types::I64)];
    let build = |builder: &mut perilune_spesh::backend::clif::FunctionBuilder<'_>| {
        let block = builder.create_block();
        builder.switch_to_block(block);
        builder.seal_block(block);
        let mut value = builder.ins().iconst(types::I64, n);
        for _ in 0..n % 8 {
            let one = builder.ins().iconst(types::I64, 1);
            value = builder.ins().imul(value, one);
        }
        builder.ins().return_(&[value]);
    };
    backend.compile(signature, build).unwrap()
}

fn call(address: usize) -> i64 {
    // SAFETY: callers have the address from a cell, inside, so the code is not freed; it has this signature.
    let f: extern "C" fn() -> i64 = unsafe { std::mem::transmute(address) };
    f()
}

/// Two domains compile functions, put them into cells that both call, and pass now and then; a third thread replaces what is in the
/// cells by nothing, retires and frees it. Code memory is small, so addresses are used again and again.
#[test]
fn two_threads_compile_and_run_while_a_third_retires() {
    const CELLS: usize = 8;
    const ROUNDS: i64 = 1500;
    let memory = CodeMemory::reserve(64 << 10).unwrap();
    let ranges: Ranges<i64> = Ranges::new(memory.range());
    let reclaimer: Arc<Reclaimer<Piece>> = Reclaimer::new();
    let cells: [AtomicUsize; CELLS] = Default::default();
    // What is installed and not retired. The lock also orders the retiring of two threads.
    let installed = std::sync::Mutex::new(Vec::<Piece>::new());
    let running = AtomicUsize::new(2);

    let domain = |tag: u64| {
        let mut backend = Backend::new(Options::default()).unwrap();
        let mut seat = reclaimer.register(tag);
        let (mut calls, mut full) = (0, 0);
        for round in 0..ROUNDS {
            let value = round * 2 + tag as i64;
            let compiled = compile(&mut backend, value);
            match memory.install(&compiled.bytes, Kind::Function) {
                Err(InstallError::Full { .. }) => full += 1,
                Err(error) => panic!("{error}"),
                Ok(code) => {
                    ranges.insert(code.range(), value);
                    let mut pieces = installed.lock().unwrap();
                    cells[round as usize % CELLS].store(code.address(), Ordering::Release);
                    pieces.push(Piece(code));
                }
            }
            seat.enter();
            for cell in &cells {
                let address = cell.load(Ordering::Acquire);
                if address != 0 {
                    let result = call(address);
                    let found = ranges.find(address, |start, &value| (start, value));
                    assert_eq!(found, Some((address, result)));
                    calls += 1;
                }
                // SAFETY: the address is not used any more.
                unsafe { seat.pass(&[]) };
            }
            // SAFETY: no address is left.
            unsafe { seat.leave(&[]) };
        }
        running.fetch_sub(1, Ordering::Release);
        assert!(calls > 0 && full < ROUNDS);
    };
    let retire_all = || {
        for piece in installed.lock().unwrap().drain(..) {
            for cell in &cells {
                let _ = cell.compare_exchange(piece.0.address(), 0, Ordering::AcqRel, Ordering::Relaxed);
            }
            // SAFETY: only the cells led to it, and who put it into one did so before the lock.
            unsafe { reclaimer.retire(piece) };
        }
        for Piece(code) in reclaimer.collect() {
            ranges.remove(code.range());
            // SAFETY: the reclaimer says that nobody has its address.
            unsafe { code.free() };
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| domain(0));
        scope.spawn(|| domain(1));
        scope.spawn(|| {
            while running.load(Ordering::Acquire) > 0 {
                retire_all();
                std::thread::yield_now();
            }
        });
    });
    retire_all();
    assert_eq!(reclaimer.waiting(), 0);
    assert_eq!(memory.usage().unwrap().installed, 0);
    assert!(ranges.sweep());
}

/// A thread is interrupted in machine code again and again; its handler finds the function each time.
#[test]
fn a_signal_handler_finds_the_interrupted_function() {
    use std::sync::atomic::AtomicPtr;
    static RANGES: AtomicPtr<Ranges<AtomicUsize>> = AtomicPtr::new(std::ptr::null_mut());

    extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel hands over the context of what was interrupted.
        let pc = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] };
        // SAFETY: set before signals come, and there as long as they do.
        let ranges = unsafe { &*RANGES.load(Ordering::Acquire) };
        ranges.find(pc as usize, |_, hits| hits.fetch_add(1, Ordering::Relaxed));
    }

    // mov rax, rdi; then: dec rax; jnz back; ret
    let spin = [0x48, 0x89, 0xF8, 0x48, 0xFF, 0xC8, 0x75, 0xFB, 0xC3];
    let memory = CodeMemory::reserve(64 << 10).unwrap();
    let code = memory.install(&spin, Kind::Function).unwrap();
    let ranges = Box::new(Ranges::new(memory.range()));
    ranges.insert(code.range(), AtomicUsize::new(0));
    RANGES.store((&raw const *ranges).cast_mut(), Ordering::Release);
    // SAFETY: a zeroed action is valid, and the handler does only what handlers may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
    }
    let (stop, thread) = (AtomicBool::new(false), std::sync::Mutex::new(None));
    let hits = || ranges.find(code.address(), |_, hits| hits.load(Ordering::Relaxed)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: asks who this thread is.
            *thread.lock().unwrap() = Some(unsafe { libc::pthread_self() });
            // SAFETY: the bytes above are a function of this signature.
            let spin: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(code.address()) };
            while !stop.load(Ordering::Acquire) {
                spin(1_000_000);
            }
        });
        // A writer works all the while in the same sector.
        while hits() < 100 {
            let other = memory.install(&spin, Kind::Function).unwrap();
            ranges.insert(other.range(), AtomicUsize::new(0));
            if let Some(thread) = *thread.lock().unwrap() {
                // SAFETY: the thread runs until `stop`, and the scope waits for it.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
            }
            ranges.remove(other.range());
            // SAFETY: nobody ever had its address.
            unsafe { other.free() };
        }
        stop.store(true, Ordering::Release);
    });
}
