//! `string.find`, `string.match`, `string.gmatch`.

use super::cache;
use super::matcher::{Capture, Matcher};
use super::pattern::{self, PatternError};
use super::start_position;
use memchr::memmem;
use perilune_vm::{LuaResult, Native, Thrown, Value, Vm};

pub(super) static FIND: Native = Native::leaf("find", find);
pub(super) static MATCH: Native = Native::leaf("match", match_);
pub(super) static GMATCH: Native = Native::leaf("gmatch", gmatch);
static GMATCH_STEP: Native = Native::leaf("for iterator", gmatch_step);

/// Raises what is wrong with a pattern.
#[cold]
pub(super) fn pattern_error(vm: &mut Vm, e: PatternError) -> Thrown {
    vm.error(e.to_string())
}

/// A capture as a value.
#[inline]
pub(super) fn capture_value(
    vm: &mut Vm,
    matcher: &Matcher<'_>,
    i: usize,
    (start, end): (usize, usize),
) -> LuaResult<Value> {
    match matcher.capture(i, start, end) {
        Ok(Capture::Text(a, b)) => vm.value_str(&matcher.subject()[a..b]),
        Ok(Capture::Position(at)) => Ok(Value::int(at as i64 + 1)),
        Err(e) => Err(pattern_error(vm, e)),
    }
}

/// Pushes the first `n` captures of a match.
pub(super) fn push_captures(
    vm: &mut Vm,
    matcher: &Matcher<'_>,
    n: u32,
    found: (usize, usize),
) -> LuaResult<u32> {
    vm.ensure_stack(n as usize)?;
    for i in 0..n {
        let value = capture_value(vm, matcher, i as usize, found)?;
        vm.push(value);
    }
    Ok(n)
}

/// `string.find(s, pattern [, init [, plain]])`
fn find(vm: &mut Vm) -> LuaResult<u32> {
    let subject = vm.check_str(1)?.bytes();
    let text = vm.check_str(2)?.bytes();
    let from = start_position(vm.opt_int(3, 1)?, subject.len()) - 1;
    if from > subject.len() {
        return vm.ret(Value::NIL);
    }
    if vm.arg(4).is_truthy() || pattern::is_plain(text) {
        let Some(at) = memmem::find(&subject[from..], text) else { return vm.ret(Value::NIL) };
        vm.push(Value::int((from + at) as i64 + 1));
        vm.push(Value::int((from + at + text.len()) as i64));
        return Ok(2);
    }
    cache::with(text, true, |pattern| {
        let mut matcher = Matcher::new(pattern, subject);
        match matcher.search(from, None).map_err(|e| pattern_error(vm, e))? {
            None => vm.ret(Value::NIL),
            Some((start, end)) => {
                vm.push(Value::int(start as i64 + 1));
                vm.push(Value::int(end as i64));
                Ok(2 + push_captures(vm, &matcher, u32::from(pattern.captures), (start, end))?)
            }
        }
    })
}

/// `string.match(s, pattern [, init])`
fn match_(vm: &mut Vm) -> LuaResult<u32> {
    let subject = vm.check_str(1)?.bytes();
    let text = vm.check_str(2)?.bytes();
    let from = start_position(vm.opt_int(3, 1)?, subject.len()) - 1;
    if from > subject.len() {
        return vm.ret(Value::NIL);
    }
    cache::with(text, true, |pattern| {
        let mut matcher = Matcher::new(pattern, subject);
        match matcher.search(from, None).map_err(|e| pattern_error(vm, e))? {
            None => vm.ret(Value::NIL),
            Some(found) => push_captures(vm, &matcher, matcher.count(), found),
        }
    })
}

/// `string.gmatch(s, pattern [, init])`
///
/// The iterator's upvalues are the subject, the pattern, the offset to go on from, and the end of the last match (-1: none yet).
fn gmatch(vm: &mut Vm) -> LuaResult<u32> {
    let subject = vm.check_str(1)?;
    let text = vm.check_str(2)?;
    let from = start_position(vm.opt_int(3, 1)?, subject.len()) - 1;
    let from = from.min(subject.len() + 1) as i64;
    let upvalues = [Value::from(subject), Value::from(text), Value::int(from), Value::int(-1)];
    let step = vm.new_native_closure(&GMATCH_STEP, &upvalues)?;
    vm.ret(step)
}

fn gmatch_step(vm: &mut Vm) -> LuaResult<u32> {
    let (Some(subject), Some(text), Some(from), Some(last)) = (
        vm.upvalue(1).as_string(),
        vm.upvalue(2).as_string(),
        vm.upvalue(3).as_int(),
        vm.upvalue(4).as_int(),
    ) else {
        return Ok(0);
    };
    cache::with(text.bytes(), false, |pattern| {
        let mut matcher = Matcher::new(pattern, subject.bytes());
        let found = matcher.search(from as usize, usize::try_from(last).ok());
        match found.map_err(|e| pattern_error(vm, e))? {
            None => Ok(0),
            Some(found) => {
                let end = Value::int(found.1 as i64);
                vm.set_upvalue(3, end);
                vm.set_upvalue(4, end);
                push_captures(vm, &matcher, matcher.count(), found)
            }
        }
    })
}
