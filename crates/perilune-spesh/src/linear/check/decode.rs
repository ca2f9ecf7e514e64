//! What bytes of x86-64 do with registers and memory, of the instructions that are ever written.
//!
//! Read as the *Intel 64 and IA-32 Architectures Software Developer's Manual*, volume 2, says, and not as
//! `assemble.rs` writes: a register that is encoded wrongly is another one here.

use super::super::assemble::{Base, Mem, RAX, RCX, RDX, RSP, Reg};

/// What is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::linear) enum At {
    Integer(Reg),
    Float(Reg),
    Memory(Mem),
}

/// What becomes of the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::linear) enum Flags {
    Kept,
    /// They say how two operands compare.
    Compared,
    /// They say something that nobody asks.
    Changed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::linear) enum Does {
    Nothing,
    /// All 64 bits of one are those of the other.
    Copy {
        to: At,
        from: At,
    },
    Constant {
        to: At,
        bits: u64,
    },
    Address {
        to: Reg,
        of: Mem,
    },
    Exchange(Reg, Reg),
    /// Anything else.
    Compute {
        /// Read only.
        sources: Vec<At>,
        /// Read and written.
        changed: Vec<At>,
        /// Written only.
        written: Vec<At>,
    },
    Push(Reg),
    Pop(Reg),
    /// RSP becomes so much more.
    MoveStack(i32),
    Jump(u32),
    JumpIf(u32),
    Call(At),
    JumpTo(At),
    Return,
    Trap,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::linear) struct Step {
    /// Where the next one begins.
    pub end: u32,
    pub does: Does,
    pub flags: Flags,
    /// It does something else, or nothing, if the flags say so.
    pub is_conditional: bool,
}

struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    /// 0, or one of `66`, `F2` and `F3`.
    prefix: u8,
    /// 0 if there is none.
    rex: u8,
}

/// The bits of a constant behind the code, by its place.
pub(in crate::linear) fn constant(bytes: &[u8], at: u32) -> Option<u64> {
    let bytes = bytes.get(at as usize..at as usize + 8)?;
    Some(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

/// The instruction at this place. (A [`Base::Constant`] is the place of a constant in `bytes` here.)
pub(in crate::linear) fn decode(bytes: &[u8], at: u32) -> Option<Step> {
    let mut decoder = Decoder { bytes, at: at as usize, prefix: 0, rex: 0 };
    let (does, flags, is_conditional) = decoder.instruction()?;
    Some(Step { end: decoder.at as u32, does, flags, is_conditional })
}

fn compute(sources: &[At], changed: &[At], written: &[At]) -> Does {
    Does::Compute { sources: sources.to_vec(), changed: changed.to_vec(), written: written.to_vec() }
}

impl Decoder<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// A number with a sign, of so many bytes.
    fn number(&mut self, size: usize) -> Option<i64> {
        let bytes = self.bytes.get(self.at..self.at + size)?;
        self.at += size;
        let (mut all, is_negative) = ([0; 8], *bytes.last()? >= 0x80);
        all[..size].copy_from_slice(bytes);
        all[size..].fill(if is_negative { 0xFF } else { 0 });
        Some(i64::from_le_bytes(all))
    }

    fn is_wide(&self) -> bool {
        self.rex & 8 != 0
    }

    /// Bytes of an immediate operand.
    fn immediate_size(&self) -> usize {
        if self.prefix == 0x66 { 2 } else { 4 }
    }

    /// A register whose low byte is meant: without a prefix 4 to 7 are others.
    fn low(&self, at: At) -> Option<At> {
        let is_other = matches!(at, At::Integer(4..=7)) && self.rex == 0;
        (!is_other).then_some(at)
    }

    /// Register and operand of an instruction: the register by its number alone.
    fn operands(&mut self) -> Option<(u8, Rm)> {
        let byte = self.byte()?;
        let (mode, reg, low) = (byte >> 6, (byte >> 3 & 7) | (self.rex & 4) << 1, byte & 7);
        let [b, x] = [(self.rex & 1) << 3, (self.rex & 2) << 2];
        if mode == 3 {
            return Some((reg, Rm::Reg(low | b)));
        }
        if mode == 0 && low == 5 {
            let distance = self.number(4)?;
            // No immediate operand follows.
            let to = u32::try_from(self.at as i64 + distance).ok()?;
            return Some((reg, Rm::Mem(Mem { base: Base::Constant(to), index: None, offset: 0 })));
        }
        let (mut base, mut index) = (low | b, None);
        if low == 4 {
            let byte = self.byte()?;
            base = (byte & 7) | b;
            let register = (byte >> 3 & 7) | x;
            index = (register != RSP).then_some((register, byte >> 6));
            if mode == 0 && byte & 7 == 5 {
                return None;
            }
        }
        let offset = match mode {
            0 => 0,
            1 => self.number(1)? as i32,
            _ => self.number(4)? as i32,
        };
        Some((reg, Rm::Mem(Mem { base: Base::Reg(base), index, offset })))
    }

    /// Both operands, as integers.
    fn integers(&mut self) -> Option<(At, At)> {
        let (reg, rm) = self.operands()?;
        Some((At::Integer(reg), rm.integer()))
    }

    fn floats(&mut self) -> Option<(At, At)> {
        let (reg, rm) = self.operands()?;
        Some((At::Float(reg), rm.float()))
    }

    fn jump_end(&mut self, size: usize) -> Option<u32> {
        let distance = self.number(size)?;
        u32::try_from(self.at as i64 + distance).ok()
    }

    fn instruction(&mut self) -> Option<(Does, Flags, bool)> {
        let mut opcode = self.byte()?;
        if matches!(opcode, 0xC4 | 0xC5) {
            return self.with_three_operands(opcode);
        }
        if matches!(opcode, 0x66 | 0xF2 | 0xF3) {
            (self.prefix, opcode) = (opcode, self.byte()?);
        }
        if opcode & 0xF0 == 0x40 {
            (self.rex, opcode) = (opcode, self.byte()?);
        }
        if opcode == 0x0F {
            return self.of_two_bytes();
        }
        let (low, b) = (opcode & 7, (self.rex & 1) << 3);
        let kept = |does| Some((does, Flags::Kept, false));
        match opcode {
            0x31 => {
                let (reg, rm) = self.integers()?;
                let zero = Does::Constant { to: rm, bits: 0 };
                (reg == rm).then_some((zero, Flags::Changed, false))
            }
            0x38 | 0x39 => {
                let (reg, rm) = self.integers()?;
                let reg = if opcode == 0x38 { self.low(reg)? } else { reg };
                Some((compute(&[rm, reg], &[], &[]), Flags::Compared, false))
            }
            ..=0x3F if low == 2 || low == 3 => {
                let (reg, rm) = self.integers()?;
                let [reg, rm] = if low == 2 { [self.low(reg)?, self.low(rm)?] } else { [reg, rm] };
                match opcode >> 3 {
                    7 => Some((compute(&[reg, rm], &[], &[]), Flags::Compared, false)),
                    _ => Some((compute(&[rm], &[reg], &[]), Flags::Changed, false)),
                }
            }
            0x50..0x58 => kept(Does::Push(low | b)),
            0x58..0x60 => kept(Does::Pop(low | b)),
            0x63 => {
                let (reg, rm) = self.integers()?;
                kept(compute(&[rm], &[], &[reg]))
            }
            0x69 | 0x6B => {
                let (reg, rm) = self.integers()?;
                self.number(if opcode == 0x6B { 1 } else { 4 })?;
                Some((compute(&[rm], &[], &[reg]), Flags::Changed, false))
            }
            0x70..0x80 => Some((Does::JumpIf(self.jump_end(1)?), Flags::Kept, true)),
            0x80 | 0x81 | 0x83 => {
                let (op, rm) = self.operands()?;
                let rm = if opcode == 0x80 { self.low(rm.integer())? } else { rm.integer() };
                let size = if opcode == 0x81 { self.immediate_size() } else { 1 };
                let n = self.number(size)?;
                match (op & 7, rm) {
                    (7, rm) => Some((compute(&[rm], &[], &[]), Flags::Compared, false)),
                    (0, At::Integer(RSP)) => Some((Does::MoveStack(n as i32), Flags::Changed, false)),
                    (5, At::Integer(RSP)) => Some((Does::MoveStack(-n as i32), Flags::Changed, false)),
                    (_, rm) => Some((compute(&[], &[rm], &[]), Flags::Changed, false)),
                }
            }
            0x84 | 0x85 => {
                let (reg, rm) = self.integers()?;
                let [reg, rm] = if opcode == 0x84 { [self.low(reg)?, self.low(rm)?] } else { [reg, rm] };
                Some((compute(&[rm, reg], &[], &[]), Flags::Compared, false))
            }
            0x87 => match self.integers()? {
                (At::Integer(a), At::Integer(b)) if self.is_wide() => kept(Does::Exchange(a, b)),
                _ => None,
            },
            0x88 => {
                let (reg, rm) = self.integers()?;
                let reg = self.low(reg)?;
                kept(compute(&[reg], &[], &[rm]))
            }
            0x89 | 0x8B => {
                let (reg, rm) = self.integers()?;
                let (to, from) = if opcode == 0x89 { (rm, reg) } else { (reg, rm) };
                match self.is_wide() {
                    true => kept(Does::Copy { to, from }),
                    false => kept(compute(&[from], &[], &[to])),
                }
            }
            0x8D => match self.operands()? {
                (reg, Rm::Mem(of)) if self.is_wide() => kept(Does::Address { to: reg, of }),
                _ => None,
            },
            0x90 => kept(Does::Nothing),
            0x99 => kept(compute(&[At::Integer(RAX)], &[], &[At::Integer(RDX)])),
            0xB8..=0xBF => {
                let n = match self.is_wide() {
                    true => self.number(8)? as u64,
                    false => self.number(4)? as u32 as u64,
                };
                kept(Does::Constant { to: At::Integer(low | b), bits: n })
            }
            0xC1 => {
                let (op, rm) = self.operands()?;
                // The upper half, moved down, is compared with 0.
                let flags = match (op & 7, self.number(1)?) {
                    (5, 32) => Flags::Compared,
                    _ => Flags::Changed,
                };
                Some((compute(&[], &[rm.integer()], &[]), flags, false))
            }
            0xC3 => kept(Does::Return),
            0xC6 | 0xC7 => {
                let (_, rm) = self.integers()?;
                let n = self.number(if opcode == 0xC6 { 1 } else { self.immediate_size() })?;
                match self.is_wide() {
                    true => kept(Does::Constant { to: rm, bits: n as u64 }),
                    false => kept(compute(&[], &[], &[rm])),
                }
            }
            0xD3 => {
                let (_, rm) = self.integers()?;
                Some((compute(&[At::Integer(RCX)], &[rm], &[]), Flags::Changed, false))
            }
            0xE9 => kept(Does::Jump(self.jump_end(4)?)),
            0xEB => kept(Does::Jump(self.jump_end(1)?)),
            0xF6 | 0xF7 => self.of_one_operand(opcode),
            0xFF => match self.operands()? {
                (reg, rm) if reg & 7 == 2 => kept(Does::Call(rm.integer())),
                (reg, rm) if reg & 7 == 4 => kept(Does::JumpTo(rm.integer())),
                _ => None,
            },
            _ => None,
        }
    }

    fn of_one_operand(&mut self, opcode: u8) -> Option<(Does, Flags, bool)> {
        let (op, rm) = self.operands()?;
        let rm = if opcode == 0xF6 { self.low(rm.integer())? } else { rm.integer() };
        let [a, d] = [RAX, RDX].map(At::Integer);
        match op & 7 {
            0 => {
                let size = if opcode == 0xF6 { 1 } else { self.immediate_size() };
                self.number(size)?;
                Some((compute(&[rm], &[], &[]), Flags::Compared, false))
            }
            2 | 3 => Some((compute(&[], &[rm], &[]), Flags::Changed, false)),
            4 => Some((compute(&[rm], &[a], &[d]), Flags::Changed, false)),
            6 | 7 => Some((compute(&[rm], &[a, d], &[]), Flags::Changed, false)),
            _ => None,
        }
    }

    fn of_two_bytes(&mut self) -> Option<(Does, Flags, bool)> {
        let opcode = self.byte()?;
        let kept = |does| Some((does, Flags::Kept, false));
        match (self.prefix, opcode) {
            (0, 0x0B) => kept(Does::Trap),
            (0, 0x28) => {
                let (to, from) = self.floats()?;
                kept(Does::Copy { to, from })
            }
            (0xF2, 0x10) => match self.floats()? {
                (to, from @ At::Memory(_)) => kept(Does::Copy { to, from }),
                // It keeps half of what is there.
                _ => None,
            },
            (0xF2, 0x11) => match self.floats()? {
                (from, to @ At::Memory(_)) => kept(Does::Copy { to, from }),
                _ => None,
            },
            (0xF2, 0x2A) => {
                let (reg, rm) = self.operands()?;
                kept(compute(&[rm.integer()], &[At::Float(reg)], &[]))
            }
            (0xF2 | 0xF3, 0x5A) => {
                let (reg, rm) = self.operands()?;
                kept(compute(&[rm.float()], &[At::Float(reg)], &[]))
            }
            (0xF2, 0x2C) => {
                let (reg, rm) = self.operands()?;
                kept(compute(&[rm.float()], &[], &[At::Integer(reg)]))
            }
            (0x66, 0x2E) => {
                let (a, b) = self.floats()?;
                Some((compute(&[a, b], &[], &[]), Flags::Compared, false))
            }
            (0x66, 0x3A) if self.byte()? == 0x0B => {
                let (to, from) = self.floats()?;
                self.number(1)?;
                kept(compute(&[from], &[], &[to]))
            }
            (0, 0x40..0x50) => {
                let (reg, rm) = self.integers()?;
                Some((compute(&[rm], &[reg], &[]), Flags::Kept, true))
            }
            (0xF2, 0x51) => {
                let (to, from) = self.floats()?;
                kept(compute(&[from], &[], &[to]))
            }
            (0, 0x57) => {
                let (a, b) = self.floats()?;
                (a == b).then_some((Does::Constant { to: a, bits: 0 }, Flags::Kept, false))
            }
            (0xF2, 0x58 | 0x59 | 0x5C | 0x5E) | (0x66, 0x54 | 0x57) => {
                let (to, from) = self.floats()?;
                kept(compute(&[from], &[to], &[]))
            }
            (0x66, 0x6E | 0x7E) if self.is_wide() => {
                let (reg, rm) = self.operands()?;
                let (float, integer) = (At::Float(reg), rm.integer());
                match opcode {
                    0x6E => kept(Does::Copy { to: float, from: integer }),
                    _ => kept(Does::Copy { to: integer, from: float }),
                }
            }
            (0, 0x80..0x90) => Some((Does::JumpIf(self.jump_end(4)?), Flags::Kept, true)),
            (0, 0x90..0xA0) => {
                let (_, rm) = self.integers()?;
                let rm = self.low(rm)?;
                Some((compute(&[], &[], &[rm]), Flags::Kept, true))
            }
            (0, 0xAF) => {
                let (reg, rm) = self.integers()?;
                Some((compute(&[rm], &[reg], &[]), Flags::Changed, false))
            }
            (0, 0xB6 | 0xB7 | 0xBE | 0xBF) => {
                let (reg, rm) = self.integers()?;
                let rm = if opcode & 1 == 0 { self.low(rm)? } else { rm };
                kept(compute(&[rm], &[], &[reg]))
            }
            _ => None,
        }
    }

    /// An operation of two floats whose result goes anywhere.
    fn with_three_operands(&mut self, kind: u8) -> Option<(Does, Flags, bool)> {
        let mut byte = self.byte()?;
        self.rex = (!byte >> 7) << 2;
        if kind == 0xC4 {
            self.rex |= (!byte >> 5) & 3;
            if byte & 0x1F != 1 {
                return None;
            }
            byte = self.byte()?;
        }
        let (first, opcode) = (!byte >> 3 & 0x0F, self.byte()?);
        if byte & 7 != 3 || !matches!(opcode, 0x51 | 0x58 | 0x59 | 0x5C | 0x5E) {
            return None;
        }
        let (to, second) = self.floats()?;
        Some((compute(&[At::Float(first), second], &[], &[to]), Flags::Kept, false))
    }
}

/// An operand whose class the instruction says.
#[derive(Clone, Copy)]
enum Rm {
    Reg(Reg),
    Mem(Mem),
}

impl Rm {
    fn integer(self) -> At {
        match self {
            Rm::Reg(r) => At::Integer(r),
            Rm::Mem(mem) => At::Memory(mem),
        }
    }

    fn float(self) -> At {
        match self {
            Rm::Reg(r) => At::Float(r),
            Rm::Mem(mem) => At::Memory(mem),
        }
    }
}
