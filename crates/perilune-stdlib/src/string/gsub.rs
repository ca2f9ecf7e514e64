//! `string.gsub`: the one function of the library that runs other code in the middle of its work.
//!
//! A callback may do anything: yield, raise, call `gsub` with the same pattern. So the compiled pattern
//! belongs to this call while it runs, and the subject stays an argument of this call.

use super::cache;
use super::matcher::{Capture, Matcher};
use super::near;
use super::scratch;
use super::search::{capture_value, pattern_error, push_captures, search};
use perilune_syntax::numeral;
use perilune_vm::{LuaResult, Native, Type, Value, Vm};

pub(super) static GSUB: Native = Native::hybrid("gsub", gsub);

/// What matches are replaced with.
enum Replacement<'a> {
    /// Text without `%`.
    Plain(&'a [u8]),
    /// Text with `%`.
    Template(&'a [u8]),
    Table(Value),
    Function(Value),
}

/// `string.gsub(s, pattern, repl [, n])`
#[inline(never)]
fn gsub(vm: &mut Vm) -> LuaResult<u32> {
    let original = vm.check_str(1)?;
    let text = vm.check_str(2)?;
    let kind = vm.arg(3).type_of();
    let limit = vm.opt_int(4, i64::MAX)?;
    let replacement = match kind {
        Type::Number | Type::String => {
            let text = vm.check_str(3)?.bytes();
            if near::find(b'%', text).is_some() {
                Replacement::Template(text)
            } else {
                Replacement::Plain(text)
            }
        }
        Type::Table => Replacement::Table(vm.arg(3)),
        Type::Function => Replacement::Function(vm.arg(3)),
        _ => return Err(vm.type_error(3, "string/function/table")),
    };
    let subject = original.bytes();
    let mut entry = cache::take(vm, text.bytes(), true);
    let mut matcher = entry.matcher(vm, subject);
    let mut out = scratch::take();
    // Everything before `kept` is in `out`.
    let (mut at, mut kept, mut last, mut count) = (0, 0, None, 0i64);
    let mut changed = false;
    while count < limit {
        let found = search(vm, &mut matcher, at, last)?;
        let Some((start, end)) = found else { break };
        count += 1;
        scratch::append(vm, &mut out, &subject[kept..start])?;
        changed |= replace(vm, &matcher, &replacement, (start, end), &mut out)?;
        at = end;
        kept = end;
        last = Some(end);
        if matcher.pattern().anchored {
            break;
        }
    }
    cache::put(entry);
    if changed {
        scratch::append(vm, &mut out, &subject[kept..])?;
        vm.push_str(&out)?;
    } else {
        vm.push(Value::from(original));
    }
    scratch::put(out);
    vm.push(Value::int(count));
    Ok(2)
}

/// Appends what replaces the match; false if that is the match itself.
fn replace(
    vm: &mut Vm,
    matcher: &Matcher<'_>,
    replacement: &Replacement<'_>,
    found: (usize, usize),
    out: &mut Vec<u8>,
) -> LuaResult<bool> {
    let value = match replacement {
        Replacement::Plain(text) => {
            scratch::append(vm, out, text)?;
            return Ok(true);
        }
        Replacement::Template(text) => {
            expand(vm, matcher, text, found, out)?;
            return Ok(true);
        }
        Replacement::Table(table) => {
            let key = capture_value(vm, matcher, 0, found)?;
            vm.index(*table, key)?
        }
        Replacement::Function(function) => {
            vm.begin_call(*function)?;
            let n = push_captures(vm, matcher, matcher.count(), found)?;
            vm.finish_call(n, 1)?;
            vm.pop()
        }
    };
    if value.is_falsy() {
        scratch::append(vm, out, &matcher.subject()[found.0..found.1])?;
        return Ok(false);
    }
    if let Some(text) = value.as_string() {
        scratch::append(vm, out, text.bytes())?;
    } else if value.is_number() {
        Vm::write_number(value, out);
    } else {
        return Err(vm.error(format!("invalid replacement value (a {})", value.type_name())));
    }
    Ok(true)
}

/// Appends a replacement text with its `%n` filled in.
fn expand(
    vm: &mut Vm,
    matcher: &Matcher<'_>,
    mut text: &[u8],
    (start, end): (usize, usize),
    out: &mut Vec<u8>,
) -> LuaResult<()> {
    while let Some(i) = near::find(b'%', text) {
        scratch::append(vm, out, &text[..i])?;
        match text.get(i + 1) {
            Some(b'%') => out.push(b'%'),
            Some(b'0') => scratch::append(vm, out, &matcher.subject()[start..end])?,
            Some(d @ b'1'..=b'9') => match matcher.capture(usize::from(d - b'1'), start, end) {
                Ok(Capture::Text(a, b)) => scratch::append(vm, out, &matcher.subject()[a..b])?,
                Ok(Capture::Position(at)) => numeral::format_integer(at as i64 + 1, out),
                Err(e) => return Err(pattern_error(vm, e)),
            },
            _ => return Err(vm.error("invalid use of '%' in replacement string")),
        }
        text = &text[i + 2..];
    }
    scratch::append(vm, out, text)
}
