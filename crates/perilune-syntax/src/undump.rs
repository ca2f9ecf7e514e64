//! Reading binary chunks, which may hold anything: every count is checked against the bytes that are left
//! before memory is taken for it, nesting is bounded, and the result is verified before anybody runs it.
//!
//! The format is in [`dump`](crate::dump). Nested functions are read with a stack of our own, so a hostile
//! chunk uses no native stack.

use crate::bytecode::{Format, Instr, Op};
use crate::dump::{
    FALSE, FLOAT, HAS_LINES, INTEGER, IS_VARARG, MARK, NIL, PUC_HEADER, STRING, TRUE, checksum,
};
use crate::error::SyntaxError;
use crate::lines::Lines;
use crate::proto::{Constant, LocalVar, Proto, UpvalueDesc, VarKind};
use crate::verify::verify;
use std::sync::Arc;

/// Levels of functions in functions; dropping a prototype recurses this deep.
const MAX_NESTING: usize = crate::ast::MAX_LEVELS as usize;

/// Why a chunk is refused.
type Refusal = String;
type Read<T> = Result<T, Refusal>;

/// Reads a binary chunk, as `dump` wrote it; bytes after its end are ignored.
///
/// `chunk_name`, as given to `load`, is for messages only: the chunk knows its source's name. The error is
/// worded `name: bad binary format (truncated chunk)`, as PUC Lua does.
pub fn undump(bytes: &[u8], chunk_name: &[u8]) -> Result<Arc<Proto>, SyntaxError> {
    read(bytes).map_err(|refusal| {
        let name = match chunk_name.first() {
            Some(b'@' | b'=') => &chunk_name[1..],
            Some(b'\x1b') => b"binary string",
            _ => chunk_name,
        };
        let message = [name, b": bad binary format (", refusal.as_bytes(), b")"].concat();
        SyntaxError { message, incomplete: false }
    })
}

fn read(bytes: &[u8]) -> Read<Arc<Proto>> {
    let mut rest = bytes;
    for (expected, refusal) in HEADER {
        rest = expect(rest, expected, refusal)?;
    }
    let Some((head, rest)) = rest.split_at_checked(12) else { return truncated() };
    let (length, sum) = head.split_at(4);
    let length = u32::from_le_bytes(length.try_into().expect("4 bytes")) as usize;
    let Some(payload) = rest.get(..length) else { return truncated() };
    if checksum(payload).to_le_bytes() != *sum {
        return Err("checksum mismatch".into());
    }
    let proto = Reader { bytes: payload, lines: Vec::new() }.chunk()?;
    verify(&proto)?;
    Ok(proto)
}

/// How many bytes more a chunk that begins like this must have before more can be said about it; 0 if it is
/// complete, or refused anyway.
pub fn missing(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    for (expected, _) in HEADER {
        if rest.len() < expected.len() {
            return expected.len() - rest.len();
        }
        match rest.strip_prefix(expected) {
            Some(after) => rest = after,
            None => return 0,
        }
    }
    match rest.first_chunk() {
        Some(length) => (12 + u32::from_le_bytes(*length) as usize).saturating_sub(rest.len()),
        None => 12 - rest.len(),
    }
}

fn truncated<T>() -> Read<T> {
    Err("truncated chunk".into())
}

/// The parts of a header, each with what is wrong with a chunk that has something else there, in PUC Lua's
/// words. The last is ours: other implementations' chunks are of another format.
const HEADER: [(&[u8], &str); 10] = {
    const fn part(from: usize, to: usize) -> &'static [u8] {
        PUC_HEADER.split_at(to).0.split_at(from).1
    }
    [
        (part(0, 4), "not a binary chunk"),
        (part(4, 5), "version mismatch"),
        (part(5, 6), "format mismatch"),
        (part(6, 12), "corrupted chunk"),
        (part(12, 13), "Instruction size mismatch"),
        (part(13, 14), "lua_Integer size mismatch"),
        (part(14, 15), "lua_Number size mismatch"),
        (part(15, 23), "integer format mismatch"),
        (part(23, 31), "float format mismatch"),
        (MARK, "format mismatch"),
    ]
};

/// The bytes after `expected`. A part is read as a whole before it is looked at.
fn expect<'b>(bytes: &'b [u8], expected: &[u8], refusal: &str) -> Read<&'b [u8]> {
    match bytes.strip_prefix(expected) {
        Some(rest) => Ok(rest),
        None if bytes.len() < expected.len() => truncated(),
        None => Err(refusal.into()),
    }
}

struct Reader<'b> {
    bytes: &'b [u8],
    /// Those of the function that is being read.
    lines: Vec<u32>,
}

/// A prototype whose inner ones are still being read.
struct Partial {
    proto: Proto,
    protos: Vec<Arc<Proto>>,
    wanted: usize,
}

impl<'b> Reader<'b> {
    fn chunk(mut self) -> Read<Arc<Proto>> {
        let source: Arc<[u8]> = self.bytes()?.into();
        let mut open = vec![self.function(&source)?];
        loop {
            let innermost = open.last_mut().expect("the main function ends the loop");
            if innermost.protos.len() < innermost.wanted {
                if open.len() >= MAX_NESTING {
                    return Err("too many nested functions".into());
                }
                open.push(self.function(&source)?);
                continue;
            }
            let Partial { mut proto, protos, .. } = open.pop().expect("just looked at");
            proto.protos = protos.into();
            let proto = Arc::new(proto);
            match open.last_mut() {
                Some(around) => around.protos.push(proto),
                None => return Ok(proto),
            }
        }
    }

    fn byte(&mut self) -> Read<u8> {
        let Some((&byte, rest)) = self.bytes.split_first() else { return truncated() };
        self.bytes = rest;
        Ok(byte)
    }

    fn unsigned(&mut self) -> Read<u64> {
        let mut n = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            n |= ((byte & 0x7f) as u64) << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err("integer overflow".into())
    }

    fn signed(&mut self) -> Read<i64> {
        let n = self.unsigned()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Read<T> {
        T::try_from(self.unsigned()?).map_err(|_| "integer overflow".into())
    }

    fn bytes(&mut self) -> Read<&'b [u8]> {
        let length = self.count()?;
        let (bytes, rest) = self.bytes.split_at(length);
        self.bytes = rest;
        Ok(bytes)
    }

    /// Number of elements of a list, each of which takes at least one byte.
    fn count(&mut self) -> Read<usize> {
        let count: usize = self.small()?;
        if count > self.bytes.len() { truncated() } else { Ok(count) }
    }

    fn list<T>(&mut self, element: impl FnMut(&mut Self) -> Read<T>) -> Read<Box<[T]>> {
        let count = self.count()?;
        self.elements(count, element)
    }

    fn elements<T>(&mut self, count: usize, mut element: impl FnMut(&mut Self) -> Read<T>) -> Read<Box<[T]>> {
        let mut list = Vec::with_capacity(count.min(4096));
        for _ in 0..count {
            list.push(element(self)?);
        }
        Ok(list.into())
    }

    fn function(&mut self, source: &Arc<[u8]>) -> Read<Partial> {
        let flags = self.byte()?;
        if flags & !(IS_VARARG | HAS_LINES) != 0 {
            return Err("bad function".into());
        }
        let num_params = self.byte()?;
        let max_stack = self.byte()?;
        let ic_count = self.small()?;
        let line_defined: u32 = self.small()?;
        let last_line_defined = self.small()?;
        let code = self.list(Self::instruction)?;
        let lines = if flags & HAS_LINES != 0 {
            let mut lines = std::mem::take(&mut self.lines);
            lines.clear();
            let mut last = line_defined as i64;
            for _ in 0..code.len() {
                last = last.wrapping_add(self.signed()?);
                lines.push(u32::try_from(last).map_err(|_| "bad line")?);
            }
            self.lines = lines;
            Lines::from(&self.lines[..])
        } else {
            Lines::default()
        };
        let constants = self.list(Self::constant)?;
        let templates = self.list(|reader| reader.list(Self::small))?;
        let upvalues = self.list(Self::upvalue)?;
        let locals = self.list(|reader| {
            Ok(LocalVar {
                name: reader.bytes()?.into(),
                start_pc: reader.small()?,
                end_pc: reader.small()?,
                register: reader.byte()?,
            })
        })?;
        let wanted = self.count()?;
        let proto = Proto {
            code,
            constants,
            templates,
            protos: Box::default(),
            upvalues,
            num_params,
            is_vararg: flags & IS_VARARG != 0,
            max_stack,
            ic_count,
            lines,
            locals,
            source: source.clone(),
            line_defined,
            last_line_defined,
            mentions: Default::default(),
            born: Default::default(),
        };
        Ok(Partial { proto, protos: Vec::new(), wanted })
    }

    fn instruction(&mut self) -> Read<Instr> {
        let Some(&op) = Op::ALL.get(self.byte()? as usize) else { return Err("no such opcode".into()) };
        let (a, b) = (self.byte()?, self.small()?);
        if op.format() == Format::Abcd {
            return Ok(Instr::abcd(op, a, b, self.small()?, self.small()?));
        }
        let wide = i32::try_from(self.signed()?).map_err(|_| "integer overflow")?;
        Ok(Instr::absj(op, a, b, wide))
    }

    fn constant(&mut self) -> Read<Constant> {
        Ok(match self.byte()? {
            NIL => Constant::Nil,
            FALSE => Constant::Boolean(false),
            TRUE => Constant::Boolean(true),
            INTEGER => Constant::Integer(self.signed()?),
            FLOAT => {
                let Some((bytes, rest)) = self.bytes.split_first_chunk() else { return truncated() };
                self.bytes = rest;
                Constant::Float(f64::from_le_bytes(*bytes))
            }
            STRING => Constant::String(self.bytes()?.into()),
            _ => return Err("bad constant".into()),
        })
    }

    fn upvalue(&mut self) -> Read<UpvalueDesc> {
        let flags = self.byte()?;
        let index = self.byte()?;
        let kind = match flags >> 2 {
            0 => VarKind::Mutable,
            1 => VarKind::Unassigned,
            2 => VarKind::Close,
            3 => VarKind::Late,
            4 => VarKind::Settled,
            _ => return Err("bad upvalue".into()),
        };
        let (mut name, mut line, mut assigned_line) = (None, 0, 0);
        if flags & 2 != 0 {
            name = Some(self.bytes()?.into());
            line = self.small()?;
            assigned_line = self.small()?;
        }
        Ok(UpvalueDesc { name, in_stack: flags & 1 != 0, index, kind, line, assigned_line })
    }
}
