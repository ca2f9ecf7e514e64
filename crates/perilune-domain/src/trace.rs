//! `pl.trace`: what a program says about itself, and sessions that it begins.
//!
//! Marks, spans, counters and logs cost one test while nothing is traced, so programs can leave them in. A
//! session that the program begins writes to an event file of its choice (`perilune_trace::session`); tools
//! read it while it is live or afterwards.

use crate::bundle::failure_text;
use crate::module::prelude;
use crate::options;
use perilune_trace::event::{Count, Name};
use perilune_trace::session::{self, Options};
use perilune_trace::{Category, emit, event, names, on};
use perilune_trace::{emit as emitting, recording};
use perilune_vm::{Gc, LuaResult, Native, Table, Type, Value, Vm};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a state keeps the metatable of spans.
const SPAN_KEY: &str = "perilune.span";

/// Adds `pl.trace`.
pub(crate) fn register(vm: &mut Vm, pl: Gc<Table>) -> LuaResult<()> {
    let t = vm.new_table(0, 12)?;
    vm.set_field(pl, "trace", t.into())?;
    vm.register(t, &[&START, &STOP, &IS_ON, &MARK, &COUNTER, &LOG, &SNAPSHOT])?;
    vm.register(t, &[&SPAN, &HEAP])
}

/// The name in argument `n` as events know it.
fn name(vm: &mut Vm, n: u32) -> LuaResult<Name> {
    let name = vm.check_str(n)?;
    Ok(Name(names::string_often(name.bytes())))
}

/// `pl.trace.mark(name)`
static MARK: Native = Native::leaf("mark", |vm| {
    if on(Category::User) {
        let name = name(vm, 1)?;
        emit(event::Mark { name });
    }
    Ok(0)
});

/// `pl.trace.counter(name, value)`
static COUNTER: Native = Native::leaf("counter", |vm| {
    if on(Category::User) {
        let (name, value) = (name(vm, 1)?, vm.check_num(2)?);
        emit(event::Counter { name, value });
    }
    Ok(0)
});

/// `pl.trace.log(...)`: the values as `tostring` gives them, joined by tabs.
static LOG: Native = Native::reentrant("log", |vm| {
    if on(Category::User) {
        let mut text = Vec::new();
        for n in 1..=vm.nargs() {
            if n > 1 {
                text.push(b'\t');
            }
            let v = vm.arg(n);
            text.extend_from_slice(vm.tostring(v)?.bytes());
        }
        emitting::log(&text);
    }
    Ok(0)
});

/// `pl.trace.span(name [, f, ...])`: a span that ends when the value is closed
/// (`local s <close> = pl.trace.span("x")`, or `s:close()`); with a function, calls that within a span, and
/// returns what it returns.
static SPAN: Native = Native::hybrid("span", |vm| {
    if vm.arg_is_none_or_nil(2) {
        let name = vm.check_str(1)?;
        let span = begin_span(vm, name.bytes())?;
        return vm.ret(span);
    }
    if vm.arg(2).as_table().is_none() && vm.arg(2).as_userdata().is_none() {
        vm.check_type(2, Type::Function)?;
    }
    let call = prelude(vm, "span")?;
    let mut args = vec![Value::native(&BEGIN)];
    args.extend((1..=vm.nargs()).map(|n| vm.arg(n)));
    vm.call_multi(call, &args, -1)
});

/// For the prelude: a span of this name.
static BEGIN: Native = Native::leaf("begin", |vm| {
    let name = vm.check_str(1)?;
    let span = begin_span(vm, name.bytes())?;
    vm.ret(span)
});

/// A span is a table: the number of its name, its own number (0: it has ended, or had never begun).
fn begin_span(vm: &mut Vm, name: &[u8]) -> LuaResult<Value> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let (mut number, mut id) = (0, 0);
    if on(Category::User) {
        number = names::string_often(name);
        id = NEXT.fetch_add(1, Ordering::Relaxed);
        emit(event::SpanBegin { name: Name(number), count: Count(id) });
    }
    let span = vm.new_table(2, 0)?;
    vm.push(span.into());
    vm.raw_set_int(span, 1, Value::int(number as i64))?;
    vm.raw_set_int(span, 2, Value::int(id as i64))?;
    let registry = vm.registry();
    let mut mt = vm.get_field(registry, SPAN_KEY)?.as_table();
    if mt.is_none() {
        let made = vm.new_table(0, 3)?;
        vm.set_field(registry, SPAN_KEY, made.into())?;
        crate::objects::fill(vm, made, &[&CLOSE], &[("__close", &CLOSE)])?;
        mt = Some(made);
    }
    vm.set_metatable_of(span.into(), mt)?;
    Ok(span.into())
}

/// `span:close()`
static CLOSE: Native = Native::leaf("close", |vm| {
    let span = vm.check_table(1)?;
    let (number, id) = (vm.raw_get_int(span, 1), vm.raw_get_int(span, 2));
    if let (Some(number), Some(id)) = (number.as_int(), id.as_int())
        && id != 0
    {
        vm.raw_set_int(span, 2, Value::int(0))?;
        emit(event::SpanEnd { name: Name(number as u32), count: Count(id as u64) });
    }
    Ok(0)
});

/// `pl.trace.is_on()`
static IS_ON: Native = Native::leaf("is_on", |vm| vm.ret(perilune_trace::is_live()));

/// `pl.trace.start{file =, events =, ring =, cpu =, alloc =}`
static START: Native = Native::leaf("start", |vm| {
    vm.check_table(1)?;
    let Some(options) = options::opt(vm, 1, &["file", "events", "ring", "cpu", "alloc"])? else {
        return Ok(0);
    };
    let options = options.table();
    let file = vm.get_field(options, "file")?;
    let Some(file) = file.as_string() else {
        return Err(vm.arg_error(1, "'file' must be a string: where the events go"));
    };
    let mut session = Options::default();
    let list = vm.get_field(options, "events")?;
    match list.as_string() {
        Some(list) => match event::parse_categories(&list.to_text()) {
            Ok(mask) => session.categories = mask,
            Err(word) => {
                let all: Vec<_> = event::CATEGORIES.iter().map(|(_, name)| *name).collect();
                let text = format!("there is no category '{word}' (there are: {})", all.join(", "));
                return Err(vm.arg_error(1, &text));
            }
        },
        None if list.is_nil() => {}
        None => return Err(vm.arg_error(1, "'events' must be a string, such as \"gc,task\"")),
    }
    session.geometry.ring_events = number(vm, options, "ring", 256, 1 << 24)?.unwrap_or(1 << 16) as u32;
    session.cpu_hz = number(vm, options, "cpu", 1, 20_000)?.unwrap_or(0) as u32;
    session.alloc_interval = number(vm, options, "alloc", 1, i64::MAX)?.unwrap_or(0) as u64;
    let path = file.to_text().replace("%p", &std::process::id().to_string());
    if let Err(e) = session::start(Path::new(OsStr::from_bytes(path.as_bytes())), &session) {
        return Err(vm.error(format!("cannot trace to '{path}': {}", failure_text(&e))));
    }
    vm.report_presence();
    Ok(0)
});

/// Field `name` of a table of options, from `least` to `most`.
fn number(vm: &mut Vm, options: Gc<Table>, name: &str, least: i64, most: i64) -> LuaResult<Option<i64>> {
    let v = vm.get_field(options, name)?;
    match v.as_int() {
        Some(n) if (least..=most).contains(&n) => Ok(Some(n)),
        None if v.is_nil() => Ok(None),
        _ => Err(vm.arg_error(1, &format!("'{name}' must be an integer from {least} to {most}"))),
    }
}

/// `pl.trace.stop()`: ends the session that `start` has begun; the file stays.
static STOP: Native = Native::leaf("stop", |_| {
    session::stop();
    Ok(0)
});

/// `pl.trace.snapshot(file)`: writes what the rings of all domains hold now, their last moments, to a
/// recording. False if nothing is being traced.
static SNAPSHOT: Native = Native::leaf("snapshot", |vm| {
    let path = vm.check_str(1)?.to_text().replace("%p", &std::process::id().to_string());
    if !emitting::has_session() {
        return vm.ret(false);
    }
    match recording::snapshot(Path::new(OsStr::from_bytes(path.as_bytes()))) {
        Ok(()) => vm.ret(true),
        Err(e) => Err(vm.error(format!("cannot write a snapshot to '{path}': {}", failure_text(&e)))),
    }
});

/// `pl.trace.heap(file)`: writes a snapshot of this domain's heap for `perilune heap`. What is there is
/// replaced; `%p` stands for the process's number.
static HEAP: Native = Native::leaf("heap", |vm| {
    let path = vm.check_str(1)?.to_text().replace("%p", &std::process::id().to_string());
    match vm.write_heap_snapshot(Path::new(OsStr::from_bytes(path.as_bytes()))) {
        Ok(()) => Ok(0),
        Err(e) => {
            Err(vm.error(format!("cannot write a snapshot of the heap to '{path}': {}", failure_text(&e))))
        }
    }
});
