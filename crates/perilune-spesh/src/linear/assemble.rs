//! Bytes of x86-64: one function for every way to write an instruction, with its operands.
//!
//! Encoded by the *Intel 64 and IA-32 Architectures Software Developer's Manual*, volume 2, chapter 2.

/// A register of the processor: 0 to 15, as it is encoded. Whether it is one for integers or for floats the
/// instruction says.
pub(super) type Reg = u8;

pub(super) const RAX: Reg = 0;
pub(super) const RCX: Reg = 1;
pub(super) const RDX: Reg = 2;
pub(super) const RSP: Reg = 4;
pub(super) const RBP: Reg = 5;

/// How wide an operation on integers is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    W8,
    W16,
    W32,
    W64,
}

/// A place in memory: `base + index * 2^shift + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mem {
    pub base: Base,
    pub index: Option<(Reg, u8)>,
    pub offset: i32,
}

/// What an address begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    Reg(Reg),
    /// A constant of 64 bits behind the code ([`Assembler::constant`]). No immediate operand may follow.
    Constant(u32),
}

impl Mem {
    pub(super) fn at(base: Reg, offset: i32) -> Mem {
        Mem { base: Base::Reg(base), index: None, offset }
    }
}

/// What an instruction works on, besides its register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rm {
    Reg(Reg),
    Mem(Mem),
}

/// A condition: what the flags have to be, as `jcc`, `setcc` and `cmovcc` encode it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cc(pub u8);

impl Cc {
    pub(super) const BELOW: Cc = Cc(2);
    pub(super) const AT_LEAST: Cc = Cc(3);
    pub(super) const EQUAL: Cc = Cc(4);
    pub(super) const NOT_EQUAL: Cc = Cc(5);
    pub(super) const AT_MOST: Cc = Cc(6);
    pub(super) const ABOVE: Cc = Cc(7);
    pub(super) const PARITY: Cc = Cc(10);
    pub(super) const NO_PARITY: Cc = Cc(11);
    pub(super) const LESS: Cc = Cc(12);
    pub(super) const GREATER_OR_EQUAL: Cc = Cc(13);
    pub(super) const LESS_OR_EQUAL: Cc = Cc(14);
    pub(super) const GREATER: Cc = Cc(15);

    pub(super) fn negated(self) -> Cc {
        Cc(self.0 ^ 1)
    }
}

/// Operations of two integers, by their number in `80` to `83` and in the opcodes of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alu {
    Add = 0,
    Or = 1,
    And = 4,
    Sub = 5,
    Xor = 6,
    Cmp = 7,
}

/// A place in the code that jumps lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(u32);

/// A jump, written as one that leads far.
struct Jump {
    start: u32,
    condition: Option<Cc>,
    to: Label,
}

impl Jump {
    fn end(&self) -> u32 {
        self.start + if self.condition.is_some() { 6 } else { 5 }
    }

    /// How many bytes fewer a short one has.
    fn saves(&self) -> u32 {
        self.end() - self.start - 2
    }
}

/// Where code is that has become shorter.
#[derive(Default)]
pub(super) struct Shrunk {
    /// The jumps that are short, and how many bytes are saved by them and those before.
    jumps: Vec<(u32, u32)>,
}

impl Shrunk {
    fn new(saved: impl Iterator<Item = (u32, u32)>) -> Shrunk {
        let mut all = 0;
        let sum = |(start, saves)| {
            all += saves;
            (start, all)
        };
        Shrunk { jumps: saved.map(sum).collect() }
    }

    fn is_short(&self, start: u32) -> bool {
        self.jumps.binary_search_by_key(&start, |jump| jump.0).is_ok()
    }

    /// Where what was written at this offset is now.
    pub(super) fn moved(&self, at: u32) -> u32 {
        let before = self.jumps.partition_point(|jump| jump.0 < at);
        at - self.jumps[..before].last().map_or(0, |jump| jump.1)
    }
}

/// Code that is done.
pub(super) struct Finished {
    pub bytes: Vec<u8>,
    pub shrunk: Shrunk,
}

/// Code that grows.
#[derive(Default)]
pub(super) struct Assembler {
    pub code: Vec<u8>,
    /// Where labels are; `u32::MAX`: not yet.
    labels: Vec<u32>,
    /// In order.
    jumps: Vec<Jump>,
    constants: Vec<u64>,
    /// Four bytes that are to lead to a constant.
    uses: Vec<(u32, u32)>,
}

impl Assembler {
    pub(super) fn at(&self) -> u32 {
        self.code.len() as u32
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(u32::MAX);
        Label(self.labels.len() as u32 - 1)
    }

    pub(super) fn bind(&mut self, label: Label) {
        assert_eq!(self.labels[label.0 as usize], u32::MAX, "a label is bound once");
        self.labels[label.0 as usize] = self.at();
    }

    /// The number of this constant.
    pub(super) fn constant(&mut self, bits: u64) -> u32 {
        let known = self.constants.iter().position(|&known| known == bits);
        known.unwrap_or_else(|| {
            self.constants.push(bits);
            self.constants.len() - 1
        }) as u32
    }

    /// The code, with its constants behind it, whose jumps lead where they are to: those that do not lead far
    /// are short.
    pub(super) fn finish(self) -> Finished {
        let mut shrunk = Shrunk::default();
        // What was too far may not be when others are shorter.
        for _ in 0..2 {
            let short = |jump: &Jump| {
                let [end, to] = [jump.end(), self.target(jump)].map(|at| i64::from(shrunk.moved(at)));
                i8::try_from(to - end).is_ok()
            };
            let saved = self.jumps.iter().filter(|jump| short(jump)).map(|jump| (jump.start, jump.saves()));
            shrunk = Shrunk::new(saved);
        }
        let mut bytes = Vec::with_capacity(self.code.len() + 8 * self.constants.len() + 8);
        let mut copied = 0;
        for jump in &self.jumps {
            bytes.extend_from_slice(&self.code[copied as usize..jump.start as usize]);
            let to = i64::from(shrunk.moved(self.target(jump)));
            let end = i64::from(shrunk.moved(jump.end()));
            let distance = to - end;
            if shrunk.is_short(jump.start) {
                bytes.push(jump.condition.map_or(0xEB, |cc| 0x70 | cc.0));
                bytes.push(i8::try_from(distance).expect("a short way") as u8);
            } else {
                bytes.extend_from_slice(&self.code[jump.start as usize..jump.end() as usize - 4]);
                bytes.extend_from_slice(&i32::try_from(distance).expect("a function").to_le_bytes());
            }
            copied = jump.end();
        }
        bytes.extend_from_slice(&self.code[copied as usize..]);
        if !self.constants.is_empty() {
            bytes.resize(bytes.len().next_multiple_of(8), 0xCC);
            let first = bytes.len() as u32;
            for (at, n) in self.uses {
                let at = shrunk.moved(at) as usize;
                let distance = first + 8 * n - (at as u32 + 4);
                bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
            }
            bytes.extend(self.constants.iter().flat_map(|bits| bits.to_le_bytes()));
        }
        Finished { bytes, shrunk }
    }

    fn target(&self, jump: &Jump) -> u32 {
        let to = self.labels[jump.to.0 as usize];
        assert_ne!(to, u32::MAX, "a jump leads to a label that is bound");
        to
    }

    // -- Instructions in general ----------------------------------------------------------------------------

    /// An instruction: a prefix if it is not 0, whether it is of 64 bits, opcode bytes, and its operands.
    /// `bytes` says that registers 4 to 7 stand for the low bytes of RSP to RDI.
    fn general(&mut self, prefix: u8, wide: bool, bytes: bool, opcode: &[u8], reg: u8, rm: Rm) {
        if prefix != 0 {
            self.code.push(prefix);
        }
        let (x, b) = match rm {
            Rm::Reg(r) => (0, r >> 3),
            Rm::Mem(mem) => {
                let base = if let Base::Reg(base) = mem.base { base >> 3 } else { 0 };
                (mem.index.map_or(0, |(index, _)| index >> 3), base)
            }
        };
        let rex = 0x40 | (wide as u8) << 3 | (reg >> 3) << 2 | x << 1 | b;
        // With these the register is a number of the operation, or is wider.
        let is_byte = !matches!(opcode[0], 0x80 | 0xC6 | 0xF6 | 0x0F);
        let low_byte = bytes && (is_byte && reg >= 4 || matches!(rm, Rm::Reg(r) if r >= 4));
        if rex != 0x40 || low_byte {
            self.code.push(rex);
        }
        self.code.extend_from_slice(opcode);
        let reg = (reg & 7) << 3;
        let mem = match rm {
            Rm::Reg(r) => return self.code.push(0xC0 | reg | r & 7),
            Rm::Mem(mem) => mem,
        };
        let base = match mem.base {
            Base::Reg(base) => base,
            Base::Constant(n) => {
                self.code.push(reg | 5);
                self.uses.push((self.at(), n));
                return self.code.extend_from_slice(&[0; 4]);
            }
        };
        // RBP and R13 always have an offset, RSP and R12 always an index.
        let (mode, size) = match mem.offset {
            0 if base & 7 != RBP => (0, 0),
            -128..=127 => (0x40, 1),
            _ => (0x80, 4),
        };
        match mem.index {
            Some((index, shift)) => {
                assert!(index != RSP && shift < 4, "an index that can be encoded");
                self.code.push(mode | reg | 4);
                self.code.push(shift << 6 | (index & 7) << 3 | base & 7);
            }
            None if base & 7 == RSP => {
                self.code.push(mode | reg | 4);
                self.code.push(0x24);
            }
            None => self.code.push(mode | reg | base & 7),
        }
        self.code.extend_from_slice(&mem.offset.to_le_bytes()[..size]);
    }

    fn integer(&mut self, width: Width, opcode: &[u8], reg: u8, rm: Rm) {
        let prefix = if width == Width::W16 { 0x66 } else { 0 };
        self.general(prefix, width == Width::W64, width == Width::W8, opcode, reg, rm);
    }

    fn immediate(&mut self, width: Width, n: i64) {
        let size = match width {
            Width::W8 => 1,
            Width::W16 => 2,
            Width::W32 | Width::W64 => 4,
        };
        self.code.extend_from_slice(&n.to_le_bytes()[..size]);
    }

    // -- Integers -------------------------------------------------------------------------------------------

    /// `to = from`, all bits.
    pub(super) fn mov(&mut self, to: Reg, from: Reg) {
        self.integer(Width::W64, &[0x8B], to, Rm::Reg(from));
    }

    /// Loads so many bits; those above 32 are 0, those above fewer are not said.
    pub(super) fn load(&mut self, width: Width, to: Reg, from: Mem) {
        match width {
            Width::W8 | Width::W16 => self.extend_zero(width, to, Rm::Mem(from)),
            _ => self.integer(width, &[0x8B], to, Rm::Mem(from)),
        }
    }

    pub(super) fn store(&mut self, width: Width, to: Mem, from: Reg) {
        let opcode = if width == Width::W8 { 0x88 } else { 0x89 };
        self.integer(width, &[opcode], from, Rm::Mem(to));
    }

    /// Stores a constant; of 64 bits it is one that 32 bits with a sign can say.
    pub(super) fn store_immediate(&mut self, width: Width, to: Mem, n: i64) {
        let opcode = if width == Width::W8 { 0xC6 } else { 0xC7 };
        self.integer(width, &[opcode], 0, Rm::Mem(to));
        self.immediate(width, n);
    }

    /// `to = n`. Leaves the flags alone if they are `kept`.
    pub(super) fn mov_immediate(&mut self, to: Reg, n: i64, kept: bool) {
        if n == 0 && !kept {
            self.integer(Width::W32, &[0x31], to, Rm::Reg(to));
        } else if let Ok(n) = u32::try_from(n) {
            if to >= 8 {
                self.code.push(0x41);
            }
            self.code.push(0xB8 | to & 7);
            self.code.extend_from_slice(&n.to_le_bytes());
        } else if i32::try_from(n).is_ok() {
            self.integer(Width::W64, &[0xC7], 0, Rm::Reg(to));
            self.immediate(Width::W64, n);
        } else {
            self.code.push(0x48 | to >> 3);
            self.code.push(0xB8 | to & 7);
            self.code.extend_from_slice(&n.to_le_bytes());
        }
    }

    pub(super) fn lea(&mut self, to: Reg, from: Mem) {
        self.integer(Width::W64, &[0x8D], to, Rm::Mem(from));
    }

    pub(super) fn exchange(&mut self, a: Reg, b: Reg) {
        self.integer(Width::W64, &[0x87], a, Rm::Reg(b));
    }

    /// `to = to op from`; `Cmp` changes flags alone.
    pub(super) fn alu(&mut self, op: Alu, width: Width, to: Reg, from: Rm) {
        let opcode = (op as u8) << 3 | if width == Width::W8 { 2 } else { 3 };
        self.integer(width, &[opcode], to, from);
    }

    /// The same, whose first operand may be memory, with a constant that 32 bits with a sign can say.
    pub(super) fn alu_immediate(&mut self, op: Alu, width: Width, to: Rm, n: i64) {
        if width == Width::W8 {
            self.integer(width, &[0x80], op as u8, to);
            return self.immediate(width, n);
        }
        if i8::try_from(n).is_ok() {
            self.integer(width, &[0x83], op as u8, to);
            return self.immediate(Width::W8, n);
        }
        self.integer(width, &[0x81], op as u8, to);
        self.immediate(width, n);
    }

    /// Compares memory with a register.
    pub(super) fn compare_memory(&mut self, width: Width, a: Mem, b: Reg) {
        let opcode = if width == Width::W8 { 0x38 } else { 0x39 };
        self.integer(width, &[opcode], b, Rm::Mem(a));
    }

    pub(super) fn test(&mut self, width: Width, a: Rm, b: Reg) {
        let opcode = if width == Width::W8 { 0x84 } else { 0x85 };
        self.integer(width, &[opcode], b, a);
    }

    pub(super) fn test_immediate(&mut self, width: Width, a: Rm, n: i64) {
        let opcode = if width == Width::W8 { 0xF6 } else { 0xF7 };
        self.integer(width, &[opcode], 0, a);
        self.immediate(width, n);
    }

    pub(super) fn multiply(&mut self, width: Width, to: Reg, from: Rm) {
        self.integer(width, &[0x0F, 0xAF], to, from);
    }

    pub(super) fn multiply_immediate(&mut self, width: Width, to: Reg, from: Rm, n: i32) {
        match i8::try_from(n) {
            Ok(n) => {
                self.integer(width, &[0x6B], to, from);
                self.code.push(n as u8);
            }
            Err(_) => {
                self.integer(width, &[0x69], to, from);
                self.immediate(width, n as i64);
            }
        }
    }

    pub(super) fn not(&mut self, width: Width, to: Reg) {
        self.integer(width, &[0xF7], 2, Rm::Reg(to));
    }

    pub(super) fn negate(&mut self, width: Width, to: Reg) {
        self.integer(width, &[0xF7], 3, Rm::Reg(to));
    }

    /// RDX:RAX = RAX times this, without signs.
    pub(super) fn multiply_high(&mut self, by: Rm) {
        self.integer(Width::W64, &[0xF7], 4, by);
    }

    /// RAX, RDX = RDX:RAX divided by this, and what is left.
    pub(super) fn divide(&mut self, width: Width, signed: bool, by: Rm) {
        self.integer(width, &[0xF7], if signed { 7 } else { 6 }, by);
    }

    /// RDX is the sign of RAX.
    pub(super) fn sign_into_rdx(&mut self, width: Width) {
        if width == Width::W64 {
            self.code.push(0x48);
        }
        self.code.push(0x99);
    }

    /// Shifts by a constant: 4 left, 5 right, 7 right with the sign.
    pub(super) fn shift_immediate(&mut self, op: u8, width: Width, to: Reg, n: u8) {
        self.integer(width, &[0xC1], op, Rm::Reg(to));
        self.code.push(n);
    }

    /// The same by CL.
    pub(super) fn shift(&mut self, op: u8, width: Width, to: Reg) {
        self.integer(width, &[0xD3], op, Rm::Reg(to));
    }

    /// All bits above so many are 0.
    pub(super) fn extend_zero(&mut self, from: Width, to: Reg, rm: Rm) {
        match from {
            Width::W8 => self.general(0, false, true, &[0x0F, 0xB6], to, rm),
            Width::W16 => self.integer(Width::W32, &[0x0F, 0xB7], to, rm),
            _ => self.integer(Width::W32, &[0x8B], to, rm),
        }
    }

    /// All bits above so many are the sign.
    pub(super) fn extend_sign(&mut self, from: Width, to: Reg, rm: Rm) {
        match from {
            Width::W8 => self.general(0, true, true, &[0x0F, 0xBE], to, rm),
            Width::W16 => self.integer(Width::W64, &[0x0F, 0xBF], to, rm),
            _ => self.integer(Width::W64, &[0x63], to, rm),
        }
    }

    /// The low byte is 1 or 0.
    pub(super) fn set(&mut self, cc: Cc, to: Reg) {
        self.general(0, false, true, &[0x0F, 0x90 | cc.0], 0, Rm::Reg(to));
    }

    pub(super) fn move_if(&mut self, cc: Cc, to: Reg, from: Rm) {
        self.integer(Width::W64, &[0x0F, 0x40 | cc.0], to, from);
    }

    // -- Floats ---------------------------------------------------------------------------------------------

    pub(super) fn mov_float(&mut self, to: Reg, from: Reg) {
        self.general(0, false, false, &[0x0F, 0x28], to, Rm::Reg(from));
    }

    pub(super) fn load_float(&mut self, to: Reg, from: Mem) {
        self.general(0xF2, false, false, &[0x0F, 0x10], to, Rm::Mem(from));
    }

    pub(super) fn store_float(&mut self, to: Mem, from: Reg) {
        self.general(0xF2, false, false, &[0x0F, 0x11], from, Rm::Mem(to));
    }

    pub(super) fn zero_float(&mut self, to: Reg) {
        self.general(0, false, false, &[0x0F, 0x57], to, Rm::Reg(to));
    }

    /// An operation of two floats by its opcode: `58` adds, `59` multiplies, `5C` subtracts, `5E` divides,
    /// `51` is the root of the second.
    pub(super) fn float(&mut self, opcode: u8, to: Reg, from: Rm) {
        self.general(0xF2, false, false, &[0x0F, opcode], to, from);
    }

    /// The same of two operands that need not be where the result goes, on processors with AVX.
    pub(super) fn float_of_two(&mut self, opcode: u8, to: Reg, a: Reg, b: Rm) {
        let start = self.code.len();
        self.general(0, false, false, &[0x0F, opcode], to, b);
        // The prefix stands for what comes before the opcode: `0F`, and the register extensions.
        let (rex, old) = match self.code[start] {
            0x0F => (0x40, 2),
            rex => (rex, 3),
        };
        let register = !a & 0x0F;
        let vex = match rex & 3 {
            0 => vec![0xC5, (rex & 4 ^ 4) << 5 | register << 3 | 3, opcode],
            _ => vec![0xC4, (!rex & 7) << 5 | 1, register << 3 | 3, opcode],
        };
        let shift = vex.len() as u32 - old as u32;
        self.code.splice(start..start + old, vex);
        // A constant's place has moved.
        let moved = self.uses.iter_mut().rev().take_while(|of| of.0 as usize >= start);
        moved.for_each(|of| of.0 += shift);
    }

    /// Bits of both: `54` and, `57` exclusive or.
    pub(super) fn float_bits(&mut self, opcode: u8, to: Reg, from: Reg) {
        self.general(0x66, false, false, &[0x0F, opcode], to, Rm::Reg(from));
    }

    pub(super) fn compare_floats(&mut self, a: Reg, b: Rm) {
        self.general(0x66, false, false, &[0x0F, 0x2E], a, b);
    }

    /// Rounds: 1 down, 2 up, without an exception for what is lost.
    pub(super) fn round(&mut self, how: u8, to: Reg, from: Rm) {
        self.general(0x66, false, false, &[0x0F, 0x3A, 0x0B], to, from);
        self.code.push(how | 8);
    }

    pub(super) fn float_of_integer(&mut self, width: Width, to: Reg, from: Rm) {
        self.general(0xF2, width == Width::W64, false, &[0x0F, 0x2A], to, from);
    }

    /// The float of 64 bits that one of 32 is.
    pub(super) fn widen_float(&mut self, to: Reg, from: Rm) {
        self.general(0xF3, false, false, &[0x0F, 0x5A], to, from);
    }

    /// The float of 32 bits that is next to one of 64.
    pub(super) fn narrow_float(&mut self, to: Reg, from: Rm) {
        self.general(0xF2, false, false, &[0x0F, 0x5A], to, from);
    }

    pub(super) fn integer_of_float(&mut self, to: Reg, from: Rm) {
        self.general(0xF2, true, false, &[0x0F, 0x2C], to, from);
    }

    /// The bits of an integer are a float's.
    pub(super) fn float_of_bits(&mut self, to: Reg, from: Reg) {
        self.general(0x66, true, false, &[0x0F, 0x6E], to, Rm::Reg(from));
    }

    pub(super) fn bits_of_float(&mut self, to: Reg, from: Reg) {
        self.general(0x66, true, false, &[0x0F, 0x7E], from, Rm::Reg(to));
    }

    // -- Ways -----------------------------------------------------------------------------------------------

    pub(super) fn jump(&mut self, to: Label) {
        self.jumps.push(Jump { start: self.at(), condition: None, to });
        self.code.extend_from_slice(&[0xE9, 0, 0, 0, 0]);
    }

    pub(super) fn jump_if(&mut self, cc: Cc, to: Label) {
        self.jumps.push(Jump { start: self.at(), condition: Some(cc), to });
        self.code.extend_from_slice(&[0x0F, 0x80 | cc.0, 0, 0, 0, 0]);
    }

    pub(super) fn call(&mut self, to: Rm) {
        self.general(0, false, false, &[0xFF], 2, to);
    }

    pub(super) fn jump_to(&mut self, to: Reg) {
        self.general(0, false, false, &[0xFF], 4, Rm::Reg(to));
    }

    pub(super) fn push(&mut self, r: Reg) {
        if r >= 8 {
            self.code.push(0x41);
        }
        self.code.push(0x50 | r & 7);
    }

    pub(super) fn pop(&mut self, r: Reg) {
        if r >= 8 {
            self.code.push(0x41);
        }
        self.code.push(0x58 | r & 7);
    }

    pub(super) fn ret(&mut self) {
        self.code.push(0xC3);
    }

    /// An instruction that is none.
    pub(super) fn trap(&mut self) {
        self.code.extend_from_slice(&[0x0F, 0x0B]);
    }
}
