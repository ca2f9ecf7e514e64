//! Read formats (manual, `file:read`): `n`, `l`, `L`, `a` and byte counts.
//!
//! One read operation takes a list of formats, from the arguments of `read` or from those that `lines` keeps
//! for its iterator, and pushes one result each until one fails, for which it pushes `nil`.

use super::stream::Stream;
use crate::errno::{self, Failure};
use crate::string::scratch;
use perilune_syntax::numeral::{Number, hex_value, is_space, parse_number};
use perilune_vm::{LuaResult, Value, Vm};
use rustix::io::Errno;
use std::ops::Range;

/// Longest numeral that the format `n` reads, in bytes.
const MAX_NUMERAL: usize = 200;

/// What a read operation came to.
pub(super) enum Outcome {
    /// So many values were pushed; the last one may be the `nil` of a format that failed.
    Values(u32),
    /// It failed.
    Failed(Failure),
}

/// Reads by the formats in the frame's slots `first..first + count` (none: one line), pushing the results.
/// `first` is also the number of the first format as an argument, for messages.
pub(super) fn read(vm: &mut Vm, stream: &mut Stream, first: u32, count: u32) -> LuaResult<Outcome> {
    if let Err(error) = stream.begin_reading(scratch::room(vm)) {
        return Ok(Outcome::Failed(error));
    }
    if count == 0 {
        return Ok(match push_line(vm, stream, false)? {
            Ok(_) => Outcome::Values(1),
            Err(error) => Outcome::Failed(error),
        });
    }
    vm.ensure_stack(count as usize + 20)?;
    for i in 0..count {
        match one(vm, stream, first + i)? {
            Ok(true) => {}
            Ok(false) => return Ok(Outcome::Values(i + 1)),
            Err(error) => return Ok(Outcome::Failed(error)),
        }
    }
    Ok(Outcome::Values(count))
}

/// Most formats of [`at_hand`].
const FEW: u32 = 8;

/// Reads by the formats in the frame's slots from `first` on, if they are few and plain and all that they ask
/// for is in the buffer; how many values were pushed. `None`: nothing has been done.
#[inline]
pub(super) fn at_hand(vm: &mut Vm, stream: &mut Stream, first: u32) -> Option<u32> {
    let last = vm.nargs();
    if !stream.reads_at_hand() || last >= first + FEW {
        return None;
    }
    let position = stream.position();
    if last < first {
        if stream.line_at_hand(|line| vm.push_str(line))?.is_ok() {
            return Some(1);
        }
        // There was no memory for it.
        stream.go_back(position);
        return None;
    }
    for slot in first..=last {
        if !one_at_hand(vm, stream, slot) {
            stream.go_back(position);
            vm.truncate(last);
            return None;
        }
    }
    Some(last - first + 1)
}

/// One format of [`at_hand`].
#[inline]
fn one_at_hand(vm: &mut Vm, stream: &mut Stream, slot: u32) -> bool {
    let format = vm.stack_get(slot);
    let pushed = match format.as_string() {
        Some(format) => match format.bytes() {
            [b'n', ..] | [b'*', b'n', ..] => return number_at_hand(vm, stream),
            [b'l', ..] | [b'*', b'l', ..] => stream.line_at_hand(|line| vm.push_str(line)),
            _ => return false,
        },
        None => match format.as_int().map(usize::try_from) {
            Some(Ok(count @ 1..)) => stream.bytes_at_hand(count, |text| vm.push_str(text)),
            _ => return false,
        },
    };
    matches!(pushed, Some(Ok(())))
}

/// Pushes the numeral that comes next, if it is plain and in the buffer.
fn number_at_hand(vm: &mut Vm, stream: &mut Stream) -> bool {
    let ahead = stream.unread();
    let Some(numeral) = plain_numeral(ahead) else { return false };
    let value = match parse_number(&ahead[numeral.clone()]) {
        Some(Number::Integer(i)) => Value::int(i),
        Some(Number::Float(f)) => Value::float(f),
        None => return false,
    };
    stream.skip(numeral.end);
    vm.push(value);
    true
}

/// Pushes what `read` returns.
pub(super) fn results(vm: &mut Vm, outcome: Outcome) -> LuaResult<u32> {
    match outcome {
        Outcome::Values(count) => Ok(count),
        Outcome::Failed(Failure::System(Errno::NOMEM)) => Err(vm.out_of_memory()),
        Outcome::Failed(error) => errno::failure(vm, error, None),
    }
}

/// Whether one format succeeded, or why it could not be tried.
pub(super) type Step = Result<bool, Failure>;

fn one(vm: &mut Vm, stream: &mut Stream, slot: u32) -> LuaResult<Step> {
    let format = vm.stack_get(slot);
    if format.is_number() {
        let count = vm.check_int(slot)?;
        return if count == 0 { at_end(vm, stream) } else { push_bytes(vm, stream, count) };
    }
    let format = vm.check_str(slot)?.bytes();
    match format.strip_prefix(b"*").unwrap_or(format).first() {
        Some(b'n') => push_number(vm, stream),
        Some(b'l') => push_line(vm, stream, false),
        Some(b'L') => push_line(vm, stream, true),
        Some(b'a') => match stream.rest() {
            Ok(text) => {
                vm.push_str(&text)?;
                Ok(Ok(true))
            }
            Err(error) => Ok(Err(error)),
        },
        _ => Err(vm.arg_error(slot, "invalid format")),
    }
}

/// Pushes a string that the stream gave, or `nil`.
fn push_result(vm: &mut Vm, result: Result<Option<LuaResult<()>>, Failure>) -> LuaResult<Step> {
    match result {
        Ok(Some(pushed)) => pushed.map(|()| Ok(true)),
        Ok(None) => {
            vm.push(Value::NIL);
            Ok(Ok(false))
        }
        Err(error) => Ok(Err(error)),
    }
}

/// `l` and `L`.
#[inline]
pub(super) fn push_line(vm: &mut Vm, stream: &mut Stream, keep_newline: bool) -> LuaResult<Step> {
    let result = stream.line(keep_newline, |line| vm.push_str(line));
    push_result(vm, result)
}

fn push_bytes(vm: &mut Vm, stream: &mut Stream, count: i64) -> LuaResult<Step> {
    let Ok(count) = usize::try_from(count) else {
        // As a size it is more than there is memory.
        return Err(vm.out_of_memory());
    };
    let result = stream.bytes(count, |text| vm.push_str(text));
    push_result(vm, result)
}

/// A count of 0: an empty string unless the file is at its end.
fn at_end(vm: &mut Vm, stream: &mut Stream) -> LuaResult<Step> {
    match stream.peek() {
        Ok(Some(_)) => {
            vm.push_str(b"")?;
            Ok(Ok(true))
        }
        Ok(None) => {
            vm.push(Value::NIL);
            Ok(Ok(false))
        }
        Err(error) => Ok(Err(error)),
    }
}

fn push_number(vm: &mut Vm, stream: &mut Stream) -> LuaResult<Step> {
    let number = if let Some(numeral) = plain_numeral(stream.unread()) {
        let number = parse_number(&stream.unread()[numeral.clone()]);
        stream.skip(numeral.end);
        number
    } else {
        match read_numeral(stream) {
            Ok(numeral) => numeral.and_then(|text| parse_number(&text)),
            Err(error) => return Ok(Err(error)),
        }
    };
    let value = match number {
        Some(Number::Integer(i)) => Value::int(i),
        Some(Number::Float(f)) => Value::float(f),
        None => Value::NIL,
    };
    vm.push(value);
    Ok(Ok(!value.is_nil()))
}

/// Where in what has been read ahead [`read_numeral`] would find its numeral, if that is a plain one, decimal
/// and without exponent, that ends there for sure.
fn plain_numeral(ahead: &[u8]) -> Option<Range<usize>> {
    let start = ahead.iter().position(|&b| !is_space(b))?;
    let digits = |from: usize| Some(from + ahead[from..].iter().position(|b| !b.is_ascii_digit())?);
    let first = start + usize::from(matches!(ahead[start], b'+' | b'-'));
    let mut end = digits(first)?;
    if matches!(ahead[end], b'x' | b'X') {
        return None;
    }
    if ahead[end] == b'.' {
        end = digits(end + 1)?;
    }
    let is_plain = !matches!(ahead[end], b'e' | b'E') && end - start <= MAX_NUMERAL;
    is_plain.then_some(start..end)
}

/// Takes the longest prefix of the input that could start a numeral; what follows stays unread. `None` if it
/// got longer than [`MAX_NUMERAL`].
fn read_numeral(stream: &mut Stream) -> Result<Option<Vec<u8>>, Failure> {
    let mut scan = Scan { stream, text: Vec::new(), overflow: false };
    while scan.stream.peek()?.is_some_and(is_space) {
        scan.stream.skip_byte();
    }
    scan.accept(b"+-")?;
    let mut digits = 0;
    let mut hexadecimal = false;
    if scan.accept(b"0")? {
        if scan.accept(b"xX")? {
            hexadecimal = true;
        } else {
            digits = 1;
        }
    }
    digits += scan.digits(hexadecimal)?;
    if scan.accept(b".")? {
        digits += scan.digits(hexadecimal)?;
    }
    if digits > 0 && scan.accept(if hexadecimal { b"pP" } else { b"eE" })? {
        scan.accept(b"+-")?;
        scan.digits(false)?;
    }
    Ok(if scan.overflow { None } else { Some(scan.text) })
}

struct Scan<'a> {
    stream: &'a mut Stream,
    text: Vec<u8>,
    overflow: bool,
}

impl Scan<'_> {
    /// Takes the next byte if `wanted` likes it and there is room.
    fn take(&mut self, wanted: impl FnOnce(u8) -> bool) -> Result<bool, Failure> {
        match self.stream.peek()? {
            Some(byte) if wanted(byte) => {
                if self.text.len() >= MAX_NUMERAL {
                    self.overflow = true;
                    return Ok(false);
                }
                self.stream.skip_byte();
                self.text.push(byte);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn accept(&mut self, set: &[u8]) -> Result<bool, Failure> {
        self.take(|byte| set.contains(&byte))
    }

    fn digits(&mut self, hexadecimal: bool) -> Result<usize, Failure> {
        let mut count = 0;
        while self.take(|b| if hexadecimal { hex_value(b).is_some() } else { b.is_ascii_digit() })? {
            count += 1;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_numerals() {
        let taken = |ahead: &'static str| plain_numeral(ahead.as_bytes()).map(|r| &ahead[r]);
        for (ahead, numeral) in [
            ("12 ", "12"),
            (" \t-3.25,", "-3.25"),
            ("+.5;", "+.5"),
            ("7.x", "7."),
            ("1.2.3", "1.2"),
            ("- 1", "-"),
            ("nan", ""),
            ("--1", "-"),
            ("0;", "0"),
        ] {
            assert_eq!(taken(ahead), Some(numeral), "{ahead}");
        }
        let long = &*"9".repeat(MAX_NUMERAL + 1).leak();
        let long = &*format!("{long} ").leak();
        for ahead in ["", "  ", "12", "12.", "12.5", "-", "0x1 ", "1e5 ", "1.5E+3 ", "12x ", long] {
            assert_eq!(taken(ahead), None, "{ahead}");
        }
    }
}
