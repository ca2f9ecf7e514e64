//! `string.find`, `string.match`, `string.gmatch`.

use super::cache;
use super::matcher::{Capture, Matcher};
use super::pattern::{self, PatternError};
use super::start_position;
use memchr::{memchr, memmem};
use perilune_vm::{Call, Effect, LuaResult, Native, Results, Thrown, Value, Vm};

pub(super) static FIND: Native = Native::leaf("find", find).several(Effect::Allocates, quick_find);
pub(super) static MATCH: Native = Native::leaf("match", match_).several(Effect::Allocates, quick_match);
pub(super) static GMATCH: Native = Native::leaf("gmatch", gmatch);
static GMATCH_STEP: Native = Native::leaf("for iterator", gmatch_step);

/// Raises what is wrong with a pattern.
#[cold]
pub(super) fn pattern_error(vm: &mut Vm, e: PatternError) -> Thrown {
    vm.error(e.to_string())
}

/// [`Matcher::search`], raising what is wrong; an interrupt that concerns somebody else lets it begin again.
#[inline]
pub(super) fn search(
    vm: &mut Vm,
    matcher: &mut Matcher<'_>,
    from: usize,
    not_end: Option<usize>,
) -> LuaResult<Option<(usize, usize)>> {
    match matcher.search(from, not_end) {
        Ok(found) => Ok(found),
        Err(e) => search_again(vm, matcher, from, not_end, e),
    }
}

#[cold]
fn search_again(
    vm: &mut Vm,
    matcher: &mut Matcher<'_>,
    from: usize,
    not_end: Option<usize>,
    mut e: PatternError,
) -> LuaResult<Option<(usize, usize)>> {
    while e == PatternError::Interrupted {
        vm.poll_interrupt()?;
        matcher.ignore_cancellation();
        match matcher.search(from, not_end) {
            Ok(found) => return Ok(found),
            Err(again) => e = again,
        }
    }
    Err(pattern_error(vm, e))
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
        Ok(Capture::Text(a, b)) => vm.value_text(&matcher.subject()[a..b]),
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

/// The first occurrence of `needle`, as bytes. A short subject is not worth what `memmem` does to prepare.
fn find_plain(subject: &[u8], needle: &[u8]) -> Option<usize> {
    const SHORT: usize = 256;
    if subject.len() > SHORT {
        return memmem::find(subject, needle);
    }
    let Some((&first, rest)) = needle.split_first() else { return Some(0) };
    let last = subject.len().checked_sub(needle.len())?;
    let mut at = 0;
    while let Some(skip) = memchr(first, &subject[at..=last]) {
        at += skip + 1;
        if subject[at..].starts_with(rest) {
            return Some(at - 1);
        }
        if at > last {
            break;
        }
    }
    None
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
        let Some(at) = find_plain(&subject[from..], text) else { return vm.ret(Value::NIL) };
        vm.push(Value::int((from + at) as i64 + 1));
        vm.push(Value::int((from + at + text.len()) as i64));
        return Ok(2);
    }
    push_match(vm, (subject, text, from), |vm, (start, end)| {
        vm.push(Value::int(start as i64 + 1));
        vm.push(Value::int(end as i64));
        true
    })
}

/// Pushes nil, or what `place` pushes of where the first match is, and its captures; if it pushes nothing, all of
/// the match stands for no captures.
#[inline]
fn push_match(
    vm: &mut Vm,
    (subject, text, from): (&[u8], &[u8], usize),
    place: impl Fn(&mut Vm, (usize, usize)) -> bool + Copy,
) -> LuaResult<u32> {
    let push = |vm: &mut Vm, matcher: &Matcher<'_>, found: Option<(usize, usize)>| match found {
        None => vm.ret(Value::NIL),
        Some(found) if place(vm, found) => {
            Ok(2 + push_captures(vm, matcher, u32::from(matcher.pattern().captures), found)?)
        }
        Some(found) => push_captures(vm, matcher, matcher.count(), found),
    };
    let at_once = cache::with(vm, text, true, |vm, entry| {
        let mut matcher = entry.matcher(vm, subject);
        let found = matcher.search(from, None).ok()?;
        Some(push(vm, &matcher, found))
    });
    if let Some(count) = at_once {
        return count;
    }
    let mut entry = cache::take(vm, text, true);
    let mut matcher = entry.matcher(vm, subject);
    let found = search(vm, &mut matcher, from, None)?;
    let count = push(vm, &matcher, found)?;
    cache::put(entry);
    Ok(count)
}

/// The strings and the offset that are the first three arguments of a search, which may lack the third, if they
/// are that as they are.
#[inline]
fn request<'a>(call: Call<'a>) -> Option<(&'a [u8], &'a [u8], usize)> {
    let [subject, text, more @ ..] = call.arguments else { return None };
    let (subject, text) = (subject.as_string()?.bytes(), text.as_string()?.bytes());
    let from = match more.first() {
        None => 0,
        Some(init) => start_position(init.as_integral()?, subject.len()) - 1,
    };
    Some((subject, text, from))
}

/// [`find`] of strings, with few captures.
fn quick_find(vm: &mut Vm, call: Call<'_>, results: &mut Results) -> LuaResult<bool> {
    let Some((subject, text, from)) = request(call) else { return Ok(false) };
    if from > subject.len() {
        return Ok(results.push(Value::NIL));
    }
    if call.arguments.get(3).is_some_and(|plain| plain.is_truthy()) || pattern::is_plain(text) {
        let Some(at) = find_plain(&subject[from..], text) else { return Ok(results.push(Value::NIL)) };
        return Ok(results.push((from + at) as i64 + 1) && results.push((from + at + text.len()) as i64));
    }
    quick_search(vm, (subject, text, from), results, |results, (start, end)| {
        results.push(start as i64 + 1) && results.push(end as i64)
    })
}

/// [`match_`] of strings, with few captures.
fn quick_match(vm: &mut Vm, call: Call<'_>, results: &mut Results) -> LuaResult<bool> {
    match request(call) {
        Some((subject, _, from)) if from > subject.len() => Ok(results.push(Value::NIL)),
        Some(request) => quick_search(vm, request, results, |_, _| false),
        None => Ok(false),
    }
}

/// Searches: nil, or what `place` pushes of where the match is, and its captures; if it pushes nothing, all of it
/// stands for no captures. Whether that has been done: what is wrong, and what takes long enough to be
/// interrupted, is left to the native.
#[inline]
fn quick_search(
    vm: &mut Vm,
    (subject, text, from): (&[u8], &[u8], usize),
    results: &mut Results,
    place: impl FnOnce(&mut Results, (usize, usize)) -> bool,
) -> LuaResult<bool> {
    cache::with(vm, text, true, |vm, entry| {
        let mut matcher = entry.matcher(vm, subject);
        let found = match matcher.search(from, None) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(results.push(Value::NIL)),
            Err(_) => return Ok(false),
        };
        let count = if place(results, found) { matcher.pattern().captures.into() } else { matcher.count() };
        for i in 0..count as usize {
            let value = match matcher.capture(i, found.0, found.1) {
                Ok(Capture::Text(a, b)) => vm.value_text(&subject[a..b])?,
                Ok(Capture::Position(at)) => Value::int(at as i64 + 1),
                Err(_) => return Ok(false),
            };
            if !results.push(value) {
                return Ok(false);
            }
        }
        Ok(true)
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
    push_match(vm, (subject, text, from), |_, _| false)
}

/// `string.gmatch(s, pattern [, init])`
///
/// The iterator's upvalues are the subject, the pattern, and the offset where the last match ended; before
/// the first match, the offset to start at as a negative number, counted from -1. The fourth is the ticket of
/// the compiled pattern.
fn gmatch(vm: &mut Vm) -> LuaResult<u32> {
    let subject = vm.check_str(1)?;
    let text = vm.check_str(2)?;
    let from = start_position(vm.opt_int(3, 1)?, subject.len()) - 1;
    let from = from.min(subject.len() + 1) as i64;
    let upvalues = [Value::from(subject), Value::from(text), Value::int(!from), Value::int(-1)];
    let step = vm.new_native_closure(&GMATCH_STEP, &upvalues)?;
    vm.ret(step)
}

fn gmatch_step(vm: &mut Vm) -> LuaResult<u32> {
    let (Some(subject), Some(text), Some(at)) =
        (vm.upvalue(1).as_string(), vm.upvalue(2).as_string(), vm.upvalue(3).as_int())
    else {
        return Ok(0);
    };
    let (from, last) = if at < 0 { (!at as usize, None) } else { (at as usize, Some(at as usize)) };
    let ticket = vm.upvalue(4).as_int().unwrap_or(-1);
    let push = |vm: &mut Vm, matcher: &Matcher<'_>, found: Option<(usize, usize)>| match found {
        None => Ok(0),
        Some(found) => {
            vm.set_upvalue(3, Value::int(found.1 as i64));
            push_captures(vm, matcher, matcher.count(), found)
        }
    };
    let at_once = cache::with_again(vm, ticket, |vm, entry| {
        let mut matcher = entry.matcher(vm, subject.bytes());
        let found = matcher.search(from, last).ok()?;
        Some(push(vm, &matcher, found))
    });
    if let Some(count) = at_once {
        return count;
    }
    let mut entry = cache::take(vm, text.bytes(), false);
    vm.set_upvalue(4, Value::int(entry.ticket()));
    let mut matcher = entry.matcher(vm, subject.bytes());
    let found = search(vm, &mut matcher, from, last)?;
    let count = push(vm, &matcher, found)?;
    cache::put(entry);
    Ok(count)
}
