//! What knows the processor. A port to another one begins here and in `linear.rs`.

/// What code memory is filled with where no code lies: an instruction of one byte that traps (`int3`). A jump
/// through an address that is no longer valid stops the process where it happens, rather than running what
/// lies there by chance.
pub const TRAP: u8 = 0xCC;

/// The alignment of functions, in bytes: what the processor fetches at a time.
pub const FUNCTION_ALIGNMENT: u32 = 32;

/// The processor's number in ELF headers, which jitdump files have too.
pub const ELF_MACHINE: u32 = 62;

/// Makes bytes that were written through one view visible as instructions in the other. To be called after
/// the bytes are written and before their address is published.
///
/// Nothing to do on x86-64: caches of instructions and data are coherent by physical address. What a core may
/// have *prefetched* is checked by linear address only, and it could be stale where new code lies at the
/// address of old code. That takes a core that was executing at this address without a serialising event
/// since. Whoever ran the old code has passed a safepoint and left it (`reclaim.rs`), and comes to the new by
/// an indirect call through a pointer that was stored after the bytes; all compilers at run time rely on that
/// much. A processor without coherent caches needs the cache maintenance here, and `membarrier(SYNC_CORE)`.
pub fn publish(_address: usize, _len: usize) {}

/// Whether the processor has all that machine code is made of; an error says what is missing.
pub fn supported() -> Result<(), &'static str> {
    // It rounds floats to integers. (A fused multiply-add is never used: it rounds once where the interpreter
    // rounds twice.)
    match std::arch::is_x86_feature_detected!("sse4.1") {
        true => Ok(()),
        false => Err("the processor has no SSE4.1"),
    }
}

/// Whether operations of floats may have their result somewhere else than their first operand.
pub fn has_avx() -> bool {
    std::arch::is_x86_feature_detected!("avx")
}

/// Bytes of what [`preserving`] leaves of results: two words, and a float.
pub const RESULTS_SIZE: u32 = 24;
/// From there to the float.
pub const FLOAT_RESULT: i32 = 16;

/// Calls a function by the convention of C: its address, and that of [`RESULTS_SIZE`] bytes for what it gives
/// back, are the first two words; then come its own parameters, five words and eight floats at most. Behind
/// it every register holds what it held before, of those for vectors the first 64 bits: machine code has no
/// wider values ([`crate::ssa::Convention::Preserving`]).
///
/// Nothing unwinds through it.
///
/// # Safety
/// The function is one of these parameters, the room for its results is there, and what the function asks of
/// its caller holds.
#[unsafe(naked)]
pub unsafe extern "C" fn preserving() {
    std::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        // With the nine words above a multiple of 16.
        "sub rsp, 136",
        "movsd qword ptr [rsp], xmm0",
        "movsd qword ptr [rsp + 8], xmm1",
        "movsd qword ptr [rsp + 16], xmm2",
        "movsd qword ptr [rsp + 24], xmm3",
        "movsd qword ptr [rsp + 32], xmm4",
        "movsd qword ptr [rsp + 40], xmm5",
        "movsd qword ptr [rsp + 48], xmm6",
        "movsd qword ptr [rsp + 56], xmm7",
        "movsd qword ptr [rsp + 64], xmm8",
        "movsd qword ptr [rsp + 72], xmm9",
        "movsd qword ptr [rsp + 80], xmm10",
        "movsd qword ptr [rsp + 88], xmm11",
        "movsd qword ptr [rsp + 96], xmm12",
        "movsd qword ptr [rsp + 104], xmm13",
        "movsd qword ptr [rsp + 112], xmm14",
        "movsd qword ptr [rsp + 120], xmm15",
        "mov rax, rdi",
        "mov rdi, rdx",
        "mov rsi, rcx",
        "mov rdx, r8",
        "mov rcx, r9",
        // The fifth parameter, if there is one, is behind the return address.
        "mov r8, qword ptr [rbp + 16]",
        "call rax",
        // The address of the results, as it has been pushed.
        "mov rcx, qword ptr [rbp - 32]",
        "mov qword ptr [rcx], rax",
        "mov qword ptr [rcx + 8], rdx",
        "movsd qword ptr [rcx + 16], xmm0",
        "movsd xmm0, qword ptr [rsp]",
        "movsd xmm1, qword ptr [rsp + 8]",
        "movsd xmm2, qword ptr [rsp + 16]",
        "movsd xmm3, qword ptr [rsp + 24]",
        "movsd xmm4, qword ptr [rsp + 32]",
        "movsd xmm5, qword ptr [rsp + 40]",
        "movsd xmm6, qword ptr [rsp + 48]",
        "movsd xmm7, qword ptr [rsp + 56]",
        "movsd xmm8, qword ptr [rsp + 64]",
        "movsd xmm9, qword ptr [rsp + 72]",
        "movsd xmm10, qword ptr [rsp + 80]",
        "movsd xmm11, qword ptr [rsp + 88]",
        "movsd xmm12, qword ptr [rsp + 96]",
        "movsd xmm13, qword ptr [rsp + 104]",
        "movsd xmm14, qword ptr [rsp + 112]",
        "movsd xmm15, qword ptr [rsp + 120]",
        "add rsp, 136",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "pop rbp",
        "ret",
    )
}
