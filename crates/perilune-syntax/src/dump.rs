//! Binary chunks: the format, and writing it. Reading is in [`undump`](crate::undump).
//!
//! A chunk starts with the bytes that a chunk of PUC Lua 5.4 starts with, because programs look at them
//! ([`PUC_HEADER`]). Then comes [`MARK`], which is ours: PUC Lua reads it as a size that overflows and
//! refuses the chunk cleanly, and we refuse a chunk without it. Then:
//!
//! ```text
//! payload length   u32, little endian
//! checksum         u64, little endian: FNV-1a of the payload
//! payload          the source's name, then the functions, each before those inside it
//! ```
//!
//! Inside the payload, numbers are LEB128 (signed ones zigzag), a string is its length and its bytes, a list
//! its length and its elements. The checksum finds accidents; malice is the [verifier](crate::verify)'s
//! business.

use crate::bytecode::{Format, Instr, Op};
use crate::proto::{Constant, Proto, UpvalueDesc, VarKind};

/// Signature, version 5.4, format 0, the bytes that text transfers damage, sizes of instruction, integer and
/// float (as PUC Lua has them), then an integer and a float to check their representation.
pub(crate) const PUC_HEADER: &[u8; 31] = b"\x1bLua\x54\x00\x19\x93\r\n\x1a\n\
    \x04\x08\x08\x78\x56\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x28\x77\x40";
/// What tells our chunks from PUC Lua's; its number changes with the format or the instruction set.
pub(crate) const MARK: &[u8] = b"\0Perilune bytecode 3\n";

/// Bits of a function's first byte.
pub(crate) const IS_VARARG: u8 = 1;
/// The function has lines.
pub(crate) const HAS_LINES: u8 = 2;

/// Tags of constants.
pub(crate) const NIL: u8 = 0;
pub(crate) const FALSE: u8 = 1;
pub(crate) const TRUE: u8 = 2;
pub(crate) const INTEGER: u8 = 3;
pub(crate) const FLOAT: u8 = 4;
pub(crate) const STRING: u8 = 5;

/// A prototype as a binary chunk. `strip` leaves out lines, names of locals and upvalues, and the source's
/// name; what kind of variable an upvalue is stays.
pub fn dump(proto: &Proto, strip: bool) -> Vec<u8> {
    // The head, and in it room for the length and the checksum of what follows.
    let mut out = Vec::with_capacity(HEAD + about(proto));
    out.extend_from_slice(PUC_HEADER);
    out.extend_from_slice(MARK);
    out.resize(HEAD, 0);
    let mut payload = Writer { out, strip };
    payload.bytes(if strip { b"=?" } else { &proto.source });
    let mut pending = vec![proto];
    while let Some(proto) = pending.pop() {
        payload.function(proto);
        pending.extend(proto.protos.iter().rev().map(|p| &**p));
    }
    let mut out = payload.out;
    let (length, sum) = ((out.len() - HEAD) as u32, checksum(&out[HEAD..]));
    out[HEAD - 12..HEAD - 8].copy_from_slice(&length.to_le_bytes());
    out[HEAD - 8..HEAD].copy_from_slice(&sum.to_le_bytes());
    out
}

/// Bytes before what the checksum is of.
const HEAD: usize = PUC_HEADER.len() + MARK.len() + 12;

/// About as many bytes as a prototype and those inside take, or more: what is not used costs nothing, and
/// growing would copy.
fn about(proto: &Proto) -> usize {
    let mut sum = 0;
    let mut pending = vec![proto];
    while let Some(proto) = pending.pop() {
        let entries = proto.constants.len() + proto.locals.len() + proto.upvalues.len();
        sum += 32 + proto.code.len() * 7 + entries * 12;
        pending.extend(proto.protos.iter().map(|p| &**p));
    }
    sum
}

/// FNV-1a, 64 bits.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &b| (hash ^ b as u64).wrapping_mul(0x100_0000_01b3))
}

struct Writer {
    out: Vec<u8>,
    strip: bool,
}

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    fn unsigned(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.byte(n as u8 | 0x80);
            n >>= 7;
        }
        self.byte(n as u8);
    }

    fn signed(&mut self, n: i64) {
        self.unsigned((n << 1 ^ n >> 63) as u64);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.unsigned(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    fn function(&mut self, proto: &Proto) {
        let has_lines = !self.strip && !proto.lines.is_empty();
        self.byte(if proto.is_vararg { IS_VARARG } else { 0 } | if has_lines { HAS_LINES } else { 0 });
        self.byte(proto.num_params);
        self.byte(proto.max_stack);
        self.unsigned(proto.ic_count as u64);
        self.unsigned(proto.line_defined as u64);
        self.unsigned(proto.last_line_defined as u64);
        self.unsigned(proto.code.len() as u64);
        proto.code.iter().for_each(|&instr| self.instruction(instr));
        if has_lines {
            let mut last = proto.line_defined;
            proto.lines.iter().for_each(|line| {
                self.signed(line as i64 - last as i64);
                last = line;
            });
        }
        self.unsigned(proto.constants.len() as u64);
        proto.constants.iter().for_each(|constant| self.constant(constant));
        self.unsigned(proto.templates.len() as u64);
        for template in &proto.templates {
            self.unsigned(template.len() as u64);
            template.iter().for_each(|&name| self.unsigned(name as u64));
        }
        self.unsigned(proto.upvalues.len() as u64);
        proto.upvalues.iter().for_each(|upvalue| self.upvalue(upvalue));
        let locals = if self.strip { &[][..] } else { &proto.locals };
        self.unsigned(locals.len() as u64);
        for local in locals {
            self.bytes(&local.name);
            self.unsigned(local.start_pc as u64);
            self.unsigned(local.end_pc as u64);
            self.byte(local.register);
        }
        self.unsigned(proto.protos.len() as u64);
    }

    fn instruction(&mut self, instr: Instr) {
        let is_abcd = instr.op().map(Op::format) == Some(Format::Abcd);
        if is_abcd && instr.b() | instr.c() | instr.d() < 0x80 {
            // Most are like this.
            let [b, c, d] = [instr.b(), instr.c(), instr.d()].map(|field| field as u8);
            self.out.extend_from_slice(&[instr.op_byte(), instr.a(), b, c, d]);
            return;
        }
        self.byte(instr.op_byte());
        self.byte(instr.a());
        self.unsigned(instr.b() as u64);
        if is_abcd {
            self.unsigned(instr.c() as u64);
            self.unsigned(instr.d() as u64);
        } else {
            self.signed(instr.sj() as i64);
        }
    }

    fn constant(&mut self, constant: &Constant) {
        match constant {
            Constant::Nil => self.byte(NIL),
            Constant::Boolean(false) => self.byte(FALSE),
            Constant::Boolean(true) => self.byte(TRUE),
            Constant::Integer(n) => {
                self.byte(INTEGER);
                self.signed(*n);
            }
            Constant::Float(n) => {
                self.byte(FLOAT);
                self.out.extend_from_slice(&n.to_le_bytes());
            }
            Constant::String(s) => {
                self.byte(STRING);
                self.bytes(s);
            }
        }
    }

    fn upvalue(&mut self, upvalue: &UpvalueDesc) {
        let name = upvalue.name.as_deref().filter(|_| !self.strip);
        let kind = match upvalue.kind {
            VarKind::Mutable => 0,
            VarKind::Unassigned => 1,
            VarKind::Close => 2,
            VarKind::Late => 3,
            VarKind::Settled => 4,
        };
        self.byte(upvalue.in_stack as u8 | (name.is_some() as u8) << 1 | kind << 2);
        self.byte(upvalue.index);
        if let Some(name) = name {
            self.bytes(name);
            self.unsigned(upvalue.line as u64);
            self.unsigned(upvalue.assigned_line as u64);
        }
    }
}
