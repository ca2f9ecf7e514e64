//! The whole life of code: compiled, installed, entered into the ranges, called, retired, collected, freed,
//! by several threads at once.
#![cfg(machine_code)]

use perilune_spesh::backend::{Backend, Compiled, Options};
use perilune_spesh::memory::{Code, CodeMemory, InstallError, Kind};
use perilune_spesh::positions::{Place, Positions};
use perilune_spesh::ranges::Ranges;
use perilune_spesh::reclaim::{Reclaimer, Retired};
use perilune_spesh::ssa::{Builder, Convention, Signature, Type};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Sets a flag when it goes, also by a failed assertion: the other threads end then.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Installs code; `None`: another test of this process has forked, and its child has no copies yet, so that
/// all that is freed is held back.
fn install(memory: &Arc<CodeMemory>, bytes: &[u8]) -> Option<Code> {
    match memory.install(bytes, Kind::Function) {
        Ok(code) => Some(code),
        Err(error) => {
            let usage = memory.usage().expect("this process is no child");
            assert!(usage.held_back > 0, "{error}, and nothing is held back: {usage:?}");
            std::thread::yield_now();
            None
        }
    }
}

struct Piece(Code);

impl Retired for Piece {
    fn addresses(&self) -> Range<usize> {
        self.0.range()
    }
}

/// `fn() -> n`, padded with `n % 8` multiplications so that lengths differ.
fn compile(backend: &mut Backend, n: i64) -> Compiled {
    let mut signature = Signature::new(Convention::C);
    signature.returns.push(Type::I64);
    let build = |builder: &mut Builder<'_>| {
        let block = builder.create_block();
        builder.switch_to_block(block);
        builder.seal_block(block);
        let mut value = builder.iconst(Type::I64, n);
        for _ in 0..n % 8 {
            let one = builder.iconst(Type::I64, 1);
            value = builder.imul(value, one);
        }
        builder.return_(&[value]);
    };
    backend.compile(signature, build).unwrap()
}

fn call(address: usize) -> i64 {
    // SAFETY: callers have the address from a cell, inside, so the code is not freed; it has this signature.
    let f: extern "C" fn() -> i64 = unsafe { std::mem::transmute(address) };
    f()
}

/// Two domains compile functions, put them into cells that both call, and pass now and then; a third thread
/// replaces what is in the cells by nothing, retires and frees it. Code memory is small, so addresses are
/// used again and again.
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
    let finished: [AtomicBool; 2] = Default::default();

    let domain = |tag: u64| {
        let _finished = SetAtEnd(&finished[tag as usize]);
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
            while !finished.iter().all(|domain| domain.load(Ordering::Acquire)) {
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

/// A thread is interrupted in machine code again and again; its handler finds the function, and the place in
/// it.
#[test]
fn a_signal_handler_finds_the_interrupted_function() {
    use std::sync::atomic::AtomicPtr;
    struct Info {
        positions: Positions,
        hits: AtomicUsize,
        elsewhere: AtomicUsize,
    }
    impl Info {
        fn new() -> Info {
            // mov; dec and jnz; ret
            let positions = Positions::from_ranges([(0..3, Place(10)), (3..8, Place(20)), (8..9, Place(30))]);
            Info { positions, hits: AtomicUsize::new(0), elsewhere: AtomicUsize::new(0) }
        }
    }
    static RANGES: AtomicPtr<Ranges<Info>> = AtomicPtr::new(std::ptr::null_mut());

    extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel hands over the context of what was interrupted.
        let pc = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] };
        // SAFETY: set before signals come, and there as long as they do.
        let ranges = unsafe { &*RANGES.load(Ordering::Acquire) };
        ranges.find(pc as usize, |start, info| {
            let in_loop = info.positions.at((pc as usize - start) as u32) == Some(Place(20));
            if in_loop { &info.hits } else { &info.elsewhere }.fetch_add(1, Ordering::Relaxed)
        });
    }

    // mov rax, rdi; then: dec rax; jnz back; ret
    let spin = [0x48, 0x89, 0xF8, 0x48, 0xFF, 0xC8, 0x75, 0xFB, 0xC3];
    let memory = CodeMemory::reserve(64 << 10).unwrap();
    let code = memory.install(&spin, Kind::Function).unwrap();
    let ranges = Box::new(Ranges::new(memory.range()));
    ranges.insert(code.range(), Info::new());
    RANGES.store((&raw const *ranges).cast_mut(), Ordering::Release);
    // SAFETY: a zeroed action is valid, and the handler does only what handlers may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
    }
    let (stop, thread) = (AtomicBool::new(false), std::sync::Mutex::new(None));
    let hits = || ranges.find(code.address(), |_, info| info.hits.load(Ordering::Relaxed)).unwrap();
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
        let _stop = SetAtEnd(&stop);
        // A writer works all the while in the same sector.
        while hits() < 100 {
            let Some(other) = install(&memory, &spin) else { continue };
            ranges.insert(other.range(), Info::new());
            if let Some(thread) = *thread.lock().unwrap() {
                // SAFETY: the thread runs until `stop`, and the scope waits for it.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
            }
            ranges.remove(other.range());
            // SAFETY: nobody ever had its address.
            unsafe { other.free() };
        }
    });
}

/// A process forks again and again while its threads install, run and free code in little memory: each child
/// runs all the code that it inherited, and finds what it was, though the parent puts other code in its
/// place.
#[test]
fn children_of_forks_run_what_they_inherited() {
    const CELLS: usize = 16;
    let memory = CodeMemory::reserve(64 << 10).unwrap();
    let ranges: Ranges<i64> = Ranges::new(memory.range());
    let reclaimer: Arc<Reclaimer<Piece>> = Reclaimer::new();
    let cells: [AtomicUsize; CELLS] = Default::default();
    let done = AtomicBool::new(false);

    // `mov rax, n; ret`: what matters here is how often code comes and goes.
    let bytes = |n: i64| [&[0x48, 0xB8], &n.to_le_bytes()[..], &[0xC3]].concat();
    let replace = |n: i64, pieces: &mut Vec<Piece>| {
        let Ok(code) = memory.install(&bytes(n), Kind::Function) else { return };
        ranges.insert(code.range(), n);
        let old = cells[n as usize % CELLS].swap(code.address(), Ordering::AcqRel);
        pieces.push(Piece(code));
        if let Some(index) = pieces.iter().position(|piece| piece.0.address() == old) {
            // SAFETY: only the cell led to it.
            unsafe { reclaimer.retire(pieces.swap_remove(index)) };
        }
        for Piece(code) in reclaimer.collect() {
            ranges.remove(code.range());
            // SAFETY: the reclaimer says that nobody has its address.
            unsafe { code.free() };
        }
    };
    // How many cells have code, or a number below zero if one is not what it should be.
    let check = || {
        let mut found = 0;
        for (index, cell) in cells.iter().enumerate() {
            let address = cell.load(Ordering::Acquire);
            if address != 0 {
                let n = call(address);
                let as_entered =
                    ranges.find(address + 2, |start, &value| (start, value)) == Some((address, n));
                if !as_entered || n as usize % CELLS != index {
                    return -1;
                }
                found += 1;
            }
        }
        found
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut pieces = Vec::new();
            let mut n = 0;
            while !done.load(Ordering::Acquire) {
                replace(n, &mut pieces);
                n += 1;
            }
        });
        let _done = SetAtEnd(&done);
        let mut seat = reclaimer.register(1);
        for _ in 0..60 {
            seat.enter();
            // SAFETY: the child reads and runs what needs no lock, and ends.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // Long enough for the parent to put other code everywhere, if it could.
                let mut found = check();
                for _ in 0..200 {
                    std::thread::yield_now();
                    found = if check() == found { found } else { -1 };
                }
                // SAFETY: ends the process.
                unsafe { libc::_exit(if (0..=CELLS as i32).contains(&found) { 0 } else { 1 }) };
            }
            assert!(pid > 0, "{}", std::io::Error::last_os_error());
            assert!(check() >= 0);
            // SAFETY: it has no address any more.
            unsafe { seat.leave(&[]) };
            let mut status = 0;
            // SAFETY: waits for the child.
            assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
            assert_eq!(status, 0, "a child found other code, or was killed");
        }
    });
}
