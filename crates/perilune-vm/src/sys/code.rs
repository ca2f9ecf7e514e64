//! How machine code is entered and left, in instructions.

/// The register that has the state for as long as machine code runs, RBX, by its number in instructions.
pub(crate) const KEEPS: u8 = 3;

/// What registers held where machine code was left: those for integers, by their numbers, but for R11 and RSP, and
/// those for floats, but for the last one.
#[repr(C)]
pub(crate) struct Registers {
    pub words: [u64; 16],
    pub floats: [u64; 16],
}

impl Registers {
    /// What is in the native frame of the code, so many bytes from RBP.
    ///
    /// # Safety
    /// The frame has eight bytes there.
    pub unsafe fn in_frame(&self, offset: i32) -> u64 {
        // SAFETY: the caller's promise.
        unsafe { *(self.words[5] as *const u8).offset(offset as isize).cast() }
    }
}

/// Calls a function of four words, which is the fifth, with the first of them in [`KEEPS`] as well. Of registers
/// the function leaves that alone as it was, and RSP and RBP; behind this all are that functions of C leave.
///
/// # Safety
/// What the function asks of its caller holds.
#[unsafe(naked)]
pub(crate) unsafe extern "C-unwind" fn enter() {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        ".cfi_offset rbx, -24",
        ".cfi_offset r12, -32",
        ".cfi_offset r13, -40",
        ".cfi_offset r14, -48",
        ".cfi_offset r15, -56",
        // With the seven words above a multiple of 16.
        "sub rsp, 8",
        "mov rbx, rdi",
        "call r8",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Leaves machine code, which comes here by a jump. The last two words on its stack, which was where calls need it
/// before, are a number and an address; that is one of a function, which is called with the address of the
/// [`Registers`], this address, and the number. What it gives back is what the code gives back: its frame is the
/// one at RBP.
///
/// # Safety
/// Nobody calls it.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn depart() {
    std::arch::naked_asm!(
        "sub rsp, 256",
        "mov qword ptr [rsp], rax",
        "mov qword ptr [rsp + 8], rcx",
        "mov qword ptr [rsp + 16], rdx",
        "mov qword ptr [rsp + 24], rbx",
        "mov qword ptr [rsp + 40], rbp",
        "mov qword ptr [rsp + 48], rsi",
        "mov qword ptr [rsp + 56], rdi",
        "mov qword ptr [rsp + 64], r8",
        "mov qword ptr [rsp + 72], r9",
        "mov qword ptr [rsp + 80], r10",
        "mov qword ptr [rsp + 96], r12",
        "mov qword ptr [rsp + 104], r13",
        "mov qword ptr [rsp + 112], r14",
        "mov qword ptr [rsp + 120], r15",
        "movsd qword ptr [rsp + 128], xmm0",
        "movsd qword ptr [rsp + 136], xmm1",
        "movsd qword ptr [rsp + 144], xmm2",
        "movsd qword ptr [rsp + 152], xmm3",
        "movsd qword ptr [rsp + 160], xmm4",
        "movsd qword ptr [rsp + 168], xmm5",
        "movsd qword ptr [rsp + 176], xmm6",
        "movsd qword ptr [rsp + 184], xmm7",
        "movsd qword ptr [rsp + 192], xmm8",
        "movsd qword ptr [rsp + 200], xmm9",
        "movsd qword ptr [rsp + 208], xmm10",
        "movsd qword ptr [rsp + 216], xmm11",
        "movsd qword ptr [rsp + 224], xmm12",
        "movsd qword ptr [rsp + 232], xmm13",
        "movsd qword ptr [rsp + 240], xmm14",
        "mov rdi, rsp",
        "mov rsi, qword ptr [rsp + 256]",
        "mov edx, dword ptr [rsp + 264]",
        "call qword ptr [rsi]",
        // The frame is over. A function of this convention has saved no other register.
        "mov rsp, rbp",
        "pop rbp",
        "ret",
    )
}
