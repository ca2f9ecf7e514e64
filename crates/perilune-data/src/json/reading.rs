//! Decoders that are fed pieces, and iterators over the values of a text.
//!
//! A decoder keeps the text that has come and is not used up. `feed` and `finish` return iterators over the
//! values that are complete then; what is not taken from one is there for the next. `values` is the loop
//! around that: it asks a function for pieces.

use super::decode::{self, raise};
use super::fault::{Fault, Origin};
use super::options::Decoding;
use super::stream::{Found, Splitter};
use perilune_stdlib::string::scratch;
use perilune_vm::{Gc, LuaResult, Native, Table, Thrown, Userdata, Value, Vm};

/// Name of the metatable of decoders.
const DECODER: &str = "perilune.json.decoder";
/// Bytes that are used up before the rest is moved to the front.
const USED: usize = 1 << 16;

/// What has come of a text and is not used up.
struct Reading {
    options: Decoding,
    splitter: Splitter,
    buffer: Vec<u8>,
    /// Where the buffer begins in the text.
    origin: Origin,
    finished: bool,
    /// What begins the text has been looked at.
    begun: bool,
}

/// The byte order mark, which may begin a text.
const BOM: &[u8] = "\u{feff}".as_bytes();

enum Next {
    Value(Value),
    More,
    End,
}

/// Adds to the module what is here.
pub(super) fn register(vm: &mut Vm, json: Gc<Table>) -> LuaResult<()> {
    vm.register(json, &[&NEW, &VALUES])
}

fn new_reading(vm: &mut Vm, options: Decoding) -> LuaResult<Gc<Userdata>> {
    let reading = Reading {
        options,
        splitter: Splitter::new(options.items),
        buffer: Vec::new(),
        origin: Origin::default(),
        finished: false,
        begun: false,
    };
    vm.new_userdata(Some(reading), 0)
}

/// Takes the state out of its userdata for as long as `f` needs the `Vm` beside it.
fn with<R>(
    vm: &mut Vm,
    u: Option<Gc<Userdata>>,
    f: impl FnOnce(&mut Vm, &mut Reading) -> LuaResult<R>,
) -> LuaResult<R> {
    let taken = u.and_then(|u| vm.userdata_mut::<Option<Reading>>(u)).and_then(Option::take);
    let Some(mut reading) = taken else { return Err(vm.error("json: the decoder is in use")) };
    let result = f(vm, &mut reading);
    if let Some(place) = u.and_then(|u| vm.userdata_mut::<Option<Reading>>(u)) {
        *place = Some(reading);
    }
    result
}

impl Reading {
    fn feed(&mut self, vm: &mut Vm, piece: &[u8]) -> LuaResult<()> {
        let done = self.splitter.done();
        if done > 0 && (done == self.buffer.len() || done >= USED) {
            self.origin = self.origin.after(&self.buffer[..done]);
            self.buffer.drain(..done);
            self.splitter.dropped(done);
        }
        scratch::append(vm, &mut self.buffer, piece)
    }

    fn raise(&self, vm: &mut Vm, fault: &Fault) -> Thrown {
        raise(vm, fault, &self.buffer, self.origin)
    }

    fn next(&mut self, vm: &mut Vm) -> LuaResult<Next> {
        if !self.begun {
            if !self.finished && self.buffer.len() < BOM.len() && BOM.starts_with(&self.buffer) {
                return Ok(Next::More);
            }
            self.begun = true;
            if self.buffer.starts_with(BOM) {
                self.buffer.drain(..BOM.len());
            }
        }
        match self.splitter.next(&self.buffer, self.finished) {
            Ok(Found::Value(range)) => {
                let start = range.start;
                match decode::decode(vm, &self.buffer[range], &self.options)? {
                    Ok(value) => Ok(Next::Value(value)),
                    Err(fault) => Err(self.raise(vm, &Fault { at: start + fault.at, ..fault })),
                }
            }
            Ok(Found::More) => Ok(Next::More),
            Ok(Found::End) => Ok(Next::End),
            Err((at, what)) => Err(self.raise(vm, &Fault { at, what })),
        }
    }
}

/// `json.decoder([options])`
static NEW: Native = Native::leaf("decoder", |vm| {
    vm.check_none_behind(1)?;
    let options = Decoding::read(vm, 1, true)?;
    let decoder = new_reading(vm, options)?;
    vm.push(decoder.into());
    let (metatable, is_new) = vm.new_metatable(DECODER)?;
    if is_new {
        vm.register(metatable, &[&FEED, &FINISH])?;
        vm.set_field(metatable, "__index", metatable.into())?;
    }
    vm.set_metatable_of(decoder.into(), Some(metatable))?;
    vm.ret(decoder)
});

/// `decoder:feed(piece)`
static FEED: Native = Native::leaf("feed", |vm| {
    vm.check_userdata::<Option<Reading>>(1, DECODER)?;
    vm.check_none_behind(2)?;
    let piece = vm.check_str(2)?;
    let decoder = vm.arg(1);
    with(vm, decoder.as_userdata(), |vm, reading| {
        if reading.finished {
            return Err(vm.error("json: the decoder has been told that the text is finished"));
        }
        reading.feed(vm, piece.bytes())
    })?;
    let iterator = vm.new_native_closure(&STEP, &[decoder])?;
    vm.ret(iterator)
});

/// `decoder:finish()`
static FINISH: Native = Native::leaf("finish", |vm| {
    vm.check_userdata::<Option<Reading>>(1, DECODER)?;
    vm.check_none_behind(1)?;
    let decoder = vm.arg(1);
    with(vm, decoder.as_userdata(), |vm, reading| {
        reading.finished = true;
        // A text that breaks off is an error also for those who want no more values.
        match reading.splitter.clone().next(&reading.buffer, true) {
            Ok(_) => Ok(()),
            Err((at, what)) => Err(reading.raise(vm, &Fault { at, what })),
        }
    })?;
    let iterator = vm.new_native_closure(&STEP, &[decoder])?;
    vm.ret(iterator)
});

static STEP: Native = Native::leaf("json_iterator", |vm| {
    let decoder = vm.upvalue(1).as_userdata();
    match with(vm, decoder, |vm, reading| reading.next(vm))? {
        Next::Value(value) => vm.ret(value),
        Next::More | Next::End => vm.ret(Value::NIL),
    }
});

/// `json.values(text or function [, options])`
static VALUES: Native = Native::leaf("values", |vm| {
    let source = vm.arg(1);
    if source.as_string().is_none() && !source.is_function() {
        return Err(vm.type_error(1, "string or function"));
    }
    vm.check_none_behind(2)?;
    let options = Decoding::read(vm, 2, true)?;
    let reading = new_reading(vm, options)?;
    vm.push(reading.into());
    if let Some(text) = source.as_string() {
        with(vm, Some(reading), |vm, reading| {
            reading.finished = true;
            reading.feed(vm, text.bytes())
        })?;
        let iterator = vm.new_native_closure(&STEP, &[reading.into()])?;
        return vm.ret(iterator);
    }
    let iterator = vm.new_native_closure(&PULL, &[reading.into(), source])?;
    vm.ret(iterator)
});

static PULL: Native = Native::reentrant("json_iterator", |vm| {
    loop {
        let reading = vm.upvalue(1).as_userdata();
        match with(vm, reading, |vm, reading| reading.next(vm))? {
            Next::Value(value) => return vm.ret(value),
            Next::End => return vm.ret(Value::NIL),
            Next::More => {}
        }
        let source = vm.upvalue(2);
        let piece = vm.call(source, &[])?;
        match piece.as_string() {
            Some(piece) => {
                vm.push(piece.into());
                with(vm, reading, |vm, reading| reading.feed(vm, piece.bytes()))?;
                vm.pop();
            }
            None if piece.is_nil() => with(vm, reading, |_, reading| {
                reading.finished = true;
                Ok(())
            })?,
            None => {
                let text = format!(
                    "json: the function must return strings, and nil at the end, not a {}",
                    piece.type_name()
                );
                return Err(vm.error(text));
            }
        }
    }
});
