//! Spends two seconds in machine code that `perf` is told of:
//! `perf record -k mono target/release/examples/spin map`, then `perf report` names the function `spin`. With
//! `jitdump` in place of `map`, `perf inject --jit` comes in between.

#[cfg(machine_code)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use perilune_spesh::memory::{CodeMemory, Kind};
    use perilune_spesh::perf::{Perf, Source};
    use std::time::{Duration, Instant};

    let format = std::env::args().nth(1).unwrap_or("map".into()).parse()?;
    let perf = Perf::create(format)?;
    // mov rax, rdi; then: dec rax; jnz back; ret
    let spin = [0x48, 0x89, 0xF8, 0x48, 0xFF, 0xC8, 0x75, 0xFB, 0xC3];
    let code = CodeMemory::reserve(64 << 10)?.install(&spin, Kind::Function)?;
    perf.record(&code, "spin", Source { file: "spin.lua", lines: &[(0, 1), (3, 2), (8, 3)] })?;
    // SAFETY: the bytes above are a function of this signature, and are never freed.
    let f: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(code.address()) };
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        f(10_000_000);
    }
    println!("{}", perf.path().display());
    Ok(())
}

#[cfg(not(machine_code))]
fn main() {
    println!("this build makes no machine code");
}
