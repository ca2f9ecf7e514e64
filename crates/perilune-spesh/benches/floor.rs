//! What the floor of the specialiser costs: `cargo bench -p perilune-spesh`. Processor time, the least of
//! several rounds.

#[cfg(machine_code)]
mod floor {
    use perilune_spesh::backend::{Backend, Compiled, Options};
    use perilune_spesh::memory::{Code, CodeMemory, Kind};
    use perilune_spesh::ranges::Ranges;
    use perilune_spesh::reclaim::{Reclaimer, Retired};
    use perilune_spesh::ssa::{Builder, Convention, IntCC, Signature, Type};
    use std::hint::black_box;

    struct Piece(Code);

    impl Retired for Piece {
        fn addresses(&self) -> std::ops::Range<usize> {
            self.0.range()
        }
    }

    /// Seconds of processor time of this thread and of children that have ended, since some moment.
    fn processor_time() -> f64 {
        // SAFETY: both calls fill variables that are valid as zeros.
        unsafe {
            let (mut time, mut children) = (std::mem::zeroed(), std::mem::zeroed::<libc::rusage>());
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
            libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut children);
            let micros = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
            let own = time.tv_sec as f64 + time.tv_nsec as f64 / 1e9;
            own + micros(children.ru_utime) + micros(children.ru_stime)
        }
    }

    /// Nanoseconds that one of `count` runs of `f` takes.
    fn least(count: u32, mut f: impl FnMut()) -> f64 {
        let round = |_| {
            let start = processor_time();
            (0..count).for_each(|_| f());
            (processor_time() - start) * 1e9 / f64::from(count)
        };
        (0..15).map(round).fold(f64::INFINITY, f64::min)
    }

    fn fork() {
        // SAFETY: the child ends at once, and the parent waits for it.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::_exit(0);
            }
            assert!(pid > 0 && libc::waitpid(pid, std::ptr::null_mut(), 0) == pid);
        }
    }

    fn signature() -> Signature {
        Signature { convention: Convention::C, params: vec![Type::I64], returns: vec![Type::I64] }
    }

    /// A loop with `work` dependent operations, each followed by a cold exit, as a guard would be.
    fn guarded_loop(builder: &mut Builder<'_>, work: i64) {
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        let limit = builder.block_params(entry)[0];
        let (head, exit) = (builder.create_block(), builder.create_block());
        let index = builder.append_block_param(head, Type::I64);
        let mut value = builder.append_block_param(head, Type::I64);
        let result = builder.append_block_param(exit, Type::I64);
        builder.set_cold_block(exit);
        let zero = builder.iconst(Type::I64, 0);
        builder.jump(head, &[zero, zero]);
        builder.switch_to_block(head);
        for n in 0..work {
            let [more, most] = [n, 1 << 40].map(|n| builder.iconst(Type::I64, n));
            value = builder.iadd(value, more);
            let fits = builder.icmp(IntCC::SignedLessThan, value, most);
            let next = builder.create_block();
            builder.brif(fits, next, &[], exit, &[value]);
            builder.switch_to_block(next);
        }
        let one = builder.iconst(Type::I64, 1);
        let index = builder.iadd(index, one);
        let again = builder.icmp(IntCC::SignedLessThan, index, limit);
        let (round, leave) = ([index, value], [value]);
        builder.brif(again, head, &round, exit, &leave);
        builder.switch_to_block(exit);
        builder.return_(&[result]);
        builder.seal_all_blocks();
    }

    fn compile(backend: &mut Backend, work: i64) -> Compiled {
        backend.compile(signature(), |builder| guarded_loop(builder, work)).unwrap()
    }

    pub fn run() {
        for (name, verify) in [("", false), (", checked", true)] {
            let mut backend = Backend::new(Options { verify }).unwrap();
            for work in [1, 10, 100] {
                let bytes = compile(&mut backend, work).bytes.len();
                let ns = least(20, || {
                    black_box(compile(&mut backend, work));
                });
                let (us, instructions) = (ns / 1000.0, 3 * work + 5);
                println!("compile {instructions} instructions of the form, {bytes} bytes{name}: {us:.1} us");
            }
        }
        println!(
            "make a backend: {:.1} us",
            least(10, || drop(Backend::new(Options::default()).unwrap())) / 1000.0
        );
        let memory = CodeMemory::reserve(1 << 20).unwrap();
        let bytes = [0xC3; 400];
        // So that the free list has something to search.
        let mut others: Vec<Code> =
            (0..2000).map(|_| memory.install(&bytes, Kind::Function).unwrap()).collect();
        // SAFETY: nobody runs them.
        (0..500).for_each(|n| unsafe { others.swap_remove(n).free() });
        let install = || memory.install(&bytes, Kind::Function).unwrap();
        // SAFETY: as above.
        println!("install and free 400 bytes: {:.0} ns", least(1000, || unsafe { install().free() }));
        let kib = memory.usage().unwrap().installed / 1024;
        println!("fork, and wait for the child's end: {:.0} us", least(20, fork) / 1000.0);
        let large = CodeMemory::reserve(16 << 20).unwrap();
        let _much = large.install(&vec![0x90; 8 << 20], Kind::Stub).unwrap();
        println!("the same with 8 MiB of code instead of {kib} KiB: {:.0} us", least(20, fork) / 1000.0);
        let ranges: Ranges<u32> = Ranges::new(memory.range());
        others.iter().for_each(|code| ranges.insert(code.range(), 1));
        let address = others[700].address();
        let find = || {
            black_box(ranges.find(black_box(address), |_, n| *n));
        };
        println!("find one of {} codes by address: {:.1} ns", others.len(), least(10_000, find));
        let code = install();
        let enter_and_remove = || {
            ranges.insert(code.range(), 1);
            ranges.remove(code.range());
        };
        println!("enter into the ranges and remove: {:.0} ns", least(1000, enter_and_remove));
        let reclaimer = Reclaimer::<Piece>::new();
        let mut seat = reclaimer.register(1);
        let come_and_go = || {
            seat.enter();
            // SAFETY: it has no address.
            unsafe { seat.leave(&[]) };
        };
        println!("enter and leave: {:.1} ns", least(10_000, come_and_go));
        seat.enter();
        // SAFETY: as above.
        println!("pass: {:.1} ns", least(10_000, || unsafe { seat.pass(&[]) }));
        let retire_and_collect = || {
            // SAFETY: nothing ever led to it.
            unsafe { reclaimer.retire(Piece(install())) };
            // SAFETY: as above.
            unsafe { seat.pass(&[]) };
            // SAFETY: nobody can be in it.
            reclaimer.collect().into_iter().for_each(|Piece(code)| unsafe { code.free() });
        };
        println!("install, retire, pass, collect, free: {:.0} ns", least(1000, retire_and_collect));
    }
}

fn main() {
    #[cfg(machine_code)]
    floor::run();
    #[cfg(not(machine_code))]
    println!("this build makes no machine code");
}
