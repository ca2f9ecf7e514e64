//! What random functions see of the world: memory, functions of C that they call, and who calls them.

use super::random::Kind::{self, F64, I8, I16, I32, I64, Pointer};
use super::random::Random;
use perilune_vm::machine::Point;
use perilune_vm::{Value, Vm};

/// Words of memory that functions load and store, half of them before where their pointer leads.
const DATA: usize = 128;
/// From the pointer to the number of rounds that are left for loops that have no counter.
pub(super) const FUEL: i32 = 8 * (DATA as i32 / 2);
/// From the pointer to the addresses of [`CALLEES`], which nobody changes.
pub(super) const TABLE: i32 = FUEL + 8;
/// Accesses lie between these.
pub(super) const REACH: std::ops::Range<i64> = -(FUEL as i64)..FUEL as i64;

/// Memory that functions work on.
pub(super) struct Memory(Box<[u64]>);

impl Memory {
    pub(super) fn new() -> Memory {
        Memory(vec![0; DATA + 1 + CALLEES.len()].into())
    }

    /// What functions are given.
    pub(super) fn address(&self) -> u64 {
        self.0[DATA / 2..].as_ptr().expose_provenance() as u64
    }

    pub(super) fn fill(&mut self, random: &mut Random) {
        for word in &mut self.0[..DATA] {
            *word = match random.below(4) {
                0 => random.float().to_bits(),
                1 => random.next(),
                _ => random.integer() as u64,
            };
        }
        self.0[DATA] = 6;
        for (word, callee) in self.0[DATA + 1..].iter_mut().zip(&CALLEES) {
            *word = (callee.address)() as u64;
        }
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }
}

// -- Who calls functions ------------------------------------------------------------------------------------

/// What is in registers when a function has returned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Left {
    pub words: [u64; 2],
    pub floats: [u64; 2],
    /// Registers that have to be as they were.
    pub kept: [u64; 5],
}

/// What they were.
pub(super) const KEPT: [u64; 5] =
    [0x1111_0000_1111_0001, 0x2222_0000_2222_0002, 0x3333_0000_3333_0003, 0x4444_0000_4444_0004, 5];

/// Runs a function of at most six words and eight floats. One that `jumps` may change all registers but the
/// first, which has the first word.
pub(super) fn run(code: usize, words: &[u64; 6], floats: &[u64; 8], jumps: bool) -> Left {
    let [a, b, c, d, e, f] = *words;
    called(code, &[a, b, c, d, e, f, 0], floats, jumps)
}

/// The same, of one word more, which is on the stack.
pub(super) fn called(code: usize, words: &[u64; 7], floats: &[u64; 8], jumps: bool) -> Left {
    let mut left = Left { kept: KEPT, ..Left::default() };
    if jumps {
        left.kept[0] = words[0];
    }
    // SAFETY: the code is that of a function of C with these parameters at most, which touches nothing but its
    // frame and the memory that the first word leads to.
    unsafe { enter(code, words, floats, &mut left) };
    if jumps {
        assert_eq!(left.kept[0], words[0], "a register is kept for good");
        left.kept = KEPT;
    }
    left
}

#[unsafe(naked)]
unsafe extern "C" fn enter(code: usize, words: &[u64; 7], floats: &[u64; 8], left: &mut Left) {
    std::arch::naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "push rcx",
        "mov rax, rdi",
        "mov r10, rsi",
        "mov r11, rdx",
        "mov rbx, qword ptr [rcx + 32]",
        "mov r12, qword ptr [rcx + 40]",
        "mov r13, qword ptr [rcx + 48]",
        "mov r14, qword ptr [rcx + 56]",
        "mov r15, qword ptr [rcx + 64]",
        "movsd xmm0, qword ptr [r11]",
        "movsd xmm1, qword ptr [r11 + 8]",
        "movsd xmm2, qword ptr [r11 + 16]",
        "movsd xmm3, qword ptr [r11 + 24]",
        "movsd xmm4, qword ptr [r11 + 32]",
        "movsd xmm5, qword ptr [r11 + 40]",
        "movsd xmm6, qword ptr [r11 + 48]",
        "movsd xmm7, qword ptr [r11 + 56]",
        "mov rdi, qword ptr [r10]",
        "mov rsi, qword ptr [r10 + 8]",
        "mov rdx, qword ptr [r10 + 16]",
        "mov rcx, qword ptr [r10 + 24]",
        "mov r8, qword ptr [r10 + 32]",
        "mov r9, qword ptr [r10 + 40]",
        // Twice, so that the stack is where a call needs it.
        "push qword ptr [r10 + 48]",
        "push qword ptr [r10 + 48]",
        "call rax",
        "add rsp, 16",
        "pop rcx",
        "mov qword ptr [rcx], rax",
        "mov qword ptr [rcx + 8], rdx",
        "movsd qword ptr [rcx + 16], xmm0",
        "movsd qword ptr [rcx + 24], xmm1",
        "mov qword ptr [rcx + 32], rbx",
        "mov qword ptr [rcx + 40], r12",
        "mov qword ptr [rcx + 48], r13",
        "mov qword ptr [rcx + 56], r14",
        "mov qword ptr [rcx + 64], r15",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

// -- Whom they call -----------------------------------------------------------------------------------------

/// A function of C.
pub(super) struct Callee {
    pub address: fn() -> usize,
    pub parameters: &'static [Kind],
    pub results: &'static [Kind],
}

/// Changes all registers that a function of C may change.
#[inline(always)]
fn scramble() {
    // SAFETY: registers alone, and it is said which.
    unsafe {
        std::arch::asm!(
            "mov rax, 0x5555555555555555",
            "mov rcx, rax",
            "mov rdx, rax",
            "mov rsi, rax",
            "mov rdi, rax",
            "mov r8, rax",
            "mov r9, rax",
            "mov r10, rax",
            "mov r11, rax",
            "movq xmm0, rax",
            "movq xmm1, rax",
            "movq xmm2, rax",
            "movq xmm3, rax",
            "movq xmm4, rax",
            "movq xmm5, rax",
            "movq xmm6, rax",
            "movq xmm7, rax",
            "movq xmm8, rax",
            "movq xmm9, rax",
            "movq xmm10, rax",
            "movq xmm11, rax",
            "movq xmm12, rax",
            "movq xmm13, rax",
            "movq xmm14, rax",
            "movq xmm15, rax",
            clobber_abi("C"),
        );
    }
}

/// A number made of these, in this order.
fn stirred(of: &[u64]) -> u64 {
    of.iter().fold(of.len() as u64, |sum, &n| (sum.rotate_left(7) ^ n).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

macro_rules! of_words {
    ($($name:ident($($word:ident),*);)*) => {$(
        extern "C" fn $name($($word: u64),*) -> u64 {
            let result = stirred(&[$($word),*]);
            scramble();
            result
        }
    )*};
}

of_words! {
    of_none();
    of_one(a);
    of_two(a, b);
    of_three(a, b, c);
    of_four(a, b, c, d);
    of_five(a, b, c, d, e);
    of_six(a, b, c, d, e, f);
    of_seven(a, b, c, d, e, f, g);
}

#[repr(C)]
struct Two(u64, u64);

extern "C" fn both(a: u64, b: u64) -> Two {
    let two = Two(stirred(&[a, b]), a ^ b.rotate_left(9));
    scramble();
    two
}

/// What is said of an integer that is narrower than a register is its own bits alone.
extern "C" fn of_narrow(a: u64, b: u64, c: u64) -> u64 {
    let result = stirred(&[u64::from(a as u8), u64::from(b as u16), u64::from(c as u32)]);
    scramble();
    result
}

extern "C" fn of_mixed(a: u64, x: f64, b: u64, y: f64) -> u64 {
    let result = stirred(&[a, x.to_bits(), b, y.to_bits()]);
    scramble();
    result
}

extern "C" fn of_float(x: f64) -> f64 {
    let result = f64::from_bits(x.to_bits().rotate_left(1) ^ 1);
    scramble();
    result
}

extern "C" fn of_both(a: u64, x: f64) -> f64 {
    let result = f64::from_bits(stirred(&[a, x.to_bits()]));
    scramble();
    result
}

#[allow(clippy::too_many_arguments)]
extern "C" fn of_floats(x: f64, y: f64, z: f64, a: u64, p: f64, q: f64, r: f64, s: f64, t: f64) -> f64 {
    let bits = [x, y, z, p, q, r, s, t].map(f64::to_bits);
    let result = f64::from_bits(stirred(&bits) ^ a);
    scramble();
    result
}

/// Fills three words.
extern "C" fn store_three(to: *mut u64, a: u64) {
    for n in 0..3 {
        // SAFETY: callers pass memory that has so many words.
        unsafe { to.add(n).write_unaligned(a.rotate_left(8 * n as u32) ^ n as u64) };
    }
    scramble();
}

/// Changes a word, and gives back what it was.
extern "C" fn exchange(at: *mut u64, by: u64) -> u64 {
    // SAFETY: callers pass memory.
    let was = unsafe { at.read_unaligned() };
    // SAFETY: as above.
    unsafe { at.write_unaligned(was.wrapping_add(by | 1)) };
    scramble();
    was
}

/// By the convention of machine code: changes all registers that it may, and gives back what comes of its
/// parameters, the last of which has 32 bits, and of the register that is kept for good.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn thorough() {
    std::arch::naked_asm!(
        "mov ecx, ecx",
        "lea rax, [rdi + 2*rsi]",
        "lea rax, [rax + 4*rdx]",
        "lea rax, [rax + 8*rcx]",
        "xor rax, rbx",
        "mov r11, -1",
        "mov rcx, r11",
        "mov rdx, r11",
        "mov rsi, r11",
        "mov rdi, r11",
        "mov r8, r11",
        "mov r9, r11",
        "mov r10, r11",
        "mov r12, r11",
        "mov r13, r11",
        "mov r14, r11",
        "mov r15, r11",
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

/// Where the code is left: what comes of that.
pub(super) unsafe extern "C-unwind" fn leave(vm: *mut Vm, base: *mut Value, point: *const Point) -> u64 {
    scramble();
    (vm.addr() ^ base.addr()) as u64 ^ (point.addr() as u64).rotate_left(17)
}

macro_rules! callee {
    ($name:ident, $parameters:expr, $results:expr) => {
        Callee { address: || $name as *const () as usize, parameters: &$parameters, results: &$results }
    };
}

/// Bytes that functions with a pointer work on.
pub(super) const POINTED: i64 = 24;

pub(super) static CALLEES: [Callee; 19] = [
    callee!(of_none, [], [I64]),
    callee!(of_one, [I64], [I64]),
    callee!(of_two, [I64; 2], [I64]),
    callee!(of_three, [I64; 3], [I64]),
    callee!(of_four, [I64; 4], [I64]),
    callee!(of_five, [I64; 5], [I64]),
    callee!(of_six, [I64; 6], [I64]),
    callee!(of_seven, [I64; 7], [I64]),
    callee!(both, [I64; 2], [I64; 2]),
    callee!(of_narrow, [I8, I16, I32], [I32]),
    callee!(of_one, [I64], [I8]),
    callee!(of_two, [I64; 2], [I16]),
    callee!(of_mixed, [I64, F64, I64, F64], [I64]),
    callee!(of_float, [F64], [F64]),
    callee!(of_floats, [F64, F64, F64, I64, F64, F64, F64, F64, F64], [F64]),
    callee!(store_three, [Pointer, I64], []),
    callee!(exchange, [Pointer, I64], [I64]),
    callee!(exchange, [Pointer, I64], []),
    callee!(of_both, [I64, F64], [F64]),
];

/// The one of them that fills what it is given.
pub(super) const FILLS: usize = 15;
