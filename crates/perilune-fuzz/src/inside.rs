//! Targets that run in this process: whatever the bytes, there is a result or an error, never a panic, a crash or a hang.

use crate::mutate::mutate;
use crate::rng::Rng;
use perilune_heap::HeapOptions;
use perilune_syntax::{compile, dump, undump, verify};
use perilune_vm::{LoadMode, Value, Vm};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Source files to start from.
pub struct Seeds {
    sources: Vec<Vec<u8>>,
}

impl Seeds {
    /// All Lua files of `tests/lua` and `benches`, in order of their names.
    pub fn load(root: &Path) -> Seeds {
        let mut paths: Vec<_> = ["tests/lua", "benches"]
            .iter()
            .filter_map(|dir| std::fs::read_dir(root.join(dir)).ok())
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|e| e == "lua"))
            .collect();
        paths.sort();
        let mut sources: Vec<Vec<u8>> = paths.iter().filter_map(|path| std::fs::read(path).ok()).collect();
        sources.push(b"return 1".to_vec());
        Seeds { sources }
    }

    /// A piece of one of the sources, whole lines of it.
    fn piece(&self, rng: &mut Rng) -> Vec<u8> {
        let source = &self.sources[rng.below(self.sources.len())];
        let lines: Vec<&[u8]> = source.split_inclusive(|&b| b == b'\n').collect();
        let from = rng.below(lines.len());
        let count = 1 + rng.below(12);
        lines[from..(from + count).min(lines.len())].concat()
    }
}

/// The input of a case.
pub fn input(target: &str, seeds: &Seeds, seed: u64, case: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed, case);
    let (a, b) = (seeds.piece(&mut rng), seeds.piece(&mut rng));
    if target == "parse" {
        return mutate(&mut rng, &a, &b, 1 << 16);
    }
    let compiled = |source: &[u8]| compile(source, b"=seed").map(|proto| dump::dump(&proto, false));
    let chunk = compiled(&a).or_else(|_| compiled(&b)).unwrap_or_else(|_| {
        compiled(
            b"local a <close>, b = ..., {}; for i = 1, 2 do b[i] = function() return a, i end end return b",
        )
        .expect("compiles")
    });
    let mut bytes =
        if rng.one_in(10) { mutate(&mut rng, &chunk, &a, 1 << 16) } else { mutate_payload(&mut rng, &chunk) };
    if !rng.one_in(10) {
        repair_checksum(&mut bytes);
    }
    bytes
}

/// Bytes before the payload: the headers' 52, then length and checksum.
const LENGTH_AT: usize = 31 + 21;
const PAYLOAD_AT: usize = LENGTH_AT + 12;

fn mutate_payload(rng: &mut Rng, chunk: &[u8]) -> Vec<u8> {
    let (head, payload) = chunk.split_at(PAYLOAD_AT);
    let changed = if rng.one_in(2) {
        let mut copy = payload.to_vec();
        for _ in 0..=rng.below(4) {
            let at = rng.below(copy.len());
            copy[at] = if rng.one_in(2) { copy[at] ^ (1 << rng.below(8)) } else { rng.next() as u8 };
        }
        copy
    } else {
        mutate(rng, payload, &[], 1 << 16)
    };
    [head, &changed].concat()
}

/// Makes length and checksum right, so that what is behind them is reached.
fn repair_checksum(bytes: &mut [u8]) {
    if bytes.len() < PAYLOAD_AT {
        return;
    }
    let (head, payload) = bytes.split_at_mut(PAYLOAD_AT);
    let sum = payload
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, &b| (hash ^ b as u64).wrapping_mul(0x100_0000_01b3));
    head[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[LENGTH_AT + 4..].copy_from_slice(&sum.to_le_bytes());
}

/// Runs one case.
pub fn run(target: &str, bytes: &[u8]) {
    if target == "parse" {
        if let Ok(proto) = compile(bytes, b"=fuzz") {
            verify::verify(&proto).expect("what the compiler makes is valid");
            let again = dump::dump(&proto, false);
            let back = undump::undump(&again, b"=fuzz").expect("what is written can be read");
            assert_eq!(dump::dump(&back, false), again, "writing what was read gives the same bytes");
            execute(|vm| vm.load(bytes, b"=fuzz", LoadMode::Both, None).ok().map(Value::from));
        }
    } else if undump::undump(bytes, b"=fuzz").is_ok() {
        execute(|vm| vm.load(bytes, b"=fuzz", LoadMode::Both, None).ok().map(Value::from));
    }
}

/// Runs a function without any library, so that it can do no harm, and for a short time.
fn execute(make: impl FnOnce(&mut Vm) -> Option<Value>) {
    let mut vm =
        Vm::with_options(HeapOptions { poison: true, limit: Some(64 << 20), ..HeapOptions::from_env() });
    let Some(f) = make(&mut vm) else { return };
    let handle = vm.interrupt_handle();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            std::thread::park_timeout(Duration::from_millis(20));
            // Again and again: the code may catch the error.
            while !done.load(Ordering::Acquire) {
                handle.raise();
                std::thread::park_timeout(Duration::from_millis(1));
            }
        });
        let _ = vm.protected_call(f, &[]);
        done.store(true, Ordering::Release);
        watcher.thread().unpark();
    });
    vm.clear_interrupt();
    vm.collect_full();
}
