//! What knows the processor. A port to another one begins here and in the feature list of `Cargo.toml`.

/// What code memory is filled with where no code lies: an instruction of one byte that traps (`int3`). A jump through an address that
/// is no longer valid stops the process where it happens, rather than running what lies there by chance.
pub const TRAP: u8 = 0xCC;

/// The alignment of functions, in bytes: what the processor fetches at a time.
pub const FUNCTION_ALIGNMENT: u32 = 32;

/// The processor's number in ELF headers, which jitdump files have too.
pub const ELF_MACHINE: u32 = 62;

/// Makes bytes that were written through one view visible as instructions in the other. To be called after the bytes are
/// written and before their address is published.
///
/// Nothing to do on x86-64: caches of instructions and data are coherent by physical address. What a core may have
/// *prefetched* is checked by linear address only, and it could be stale where new code lies at the address of old code.
/// That takes a core that was executing at this address without a serialising event since. Whoever ran the old code has
/// passed a safepoint and left it (`reclaim.rs`), and comes to the new by an indirect call through a pointer that was stored
/// after the bytes; all compilers at run time rely on that much. A processor without coherent caches needs the cache
/// maintenance here, and `membarrier(SYNC_CORE)`.
pub fn publish(_address: usize, _len: usize) {}

/// What the code generator may use of the processor at hand, in its own names. An error says what is missing that it cannot do without.
pub fn features() -> Result<Vec<&'static str>, &'static str> {
    macro_rules! present {
        ($($name:tt => $flag:literal),*) => {
            [$(($flag, std::arch::is_x86_feature_detected!($name))),*]
        };
    }
    // Without SSE4.1 rounding becomes a call of a library function that we do not have.
    if !std::arch::is_x86_feature_detected!("sse4.1") {
        return Err("the processor has no SSE4.1");
    }
    // No fused multiply-add: it rounds once where the interpreter rounds twice.
    let all = present! {
        "sse3" => "has_sse3", "ssse3" => "has_ssse3", "sse4.1" => "has_sse41", "sse4.2" => "has_sse42",
        "avx" => "has_avx", "avx2" => "has_avx2",
        "popcnt" => "has_popcnt", "bmi1" => "has_bmi1", "bmi2" => "has_bmi2", "lzcnt" => "has_lzcnt"
    };
    Ok(all.into_iter().filter(|(_, is)| *is).map(|(flag, _)| flag).collect())
}
