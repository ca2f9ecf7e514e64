//! `perilune.text`: text that comes in pieces, in any encoding, with any separators.
//!
//! | file | what |
//! |---|---|
//! | `stream.rs` | the streaming decoder: bytes to valid text to pieces between separators; knows nothing of Lua |
//! | `tests.rs` | it, in pieces and in one, against slow references |
//!
//! The natives here are the decoder's interface: `text.decoder` with `feed` and `finish`, and `text.lines`, a
//! decoder over a file.
//!
//! # Errors
//! With `bad = "error"`, all pieces that are complete before the bad bytes come first, then an error that
//! says at which byte of the input they are. So what a program sees does not depend on how the input was cut.

mod stream;
#[cfg(test)]
mod tests;

use perilune_stdlib::io::Input;
use perilune_stdlib::io::separators::{LONGEST, MOST, Separators};
use perilune_vm::{Gc, LuaResult, Native, Thrown, Userdata, Value, Vm};
use std::cell::RefCell;
use stream::{Coding, Next, Text};

/// Name of the metatable of decoders.
const DECODER: &str = "perilune.text.decoder";
/// Name of the metatable of files whose lines are read.
const LINES_OF: &str = "perilune.text.lines";
/// Bytes that are read from a file at a time.
const PORTION: usize = 1 << 16;

/// What the userdata hold.
struct State {
    text: Text,
    /// The file that the text comes from, and its name, for messages.
    input: Option<(Input, Vec<u8>)>,
    /// Lines that have been given.
    lines: u64,
}

/// The loader of the module.
pub static OPEN: Native = Native::leaf("perilune.text", |vm| {
    let text = vm.new_table(0, 2)?;
    vm.push(text.into());
    vm.register(text, &[&NEW, &LINES])?;
    vm.ret(text)
});

/// The options of argument `at`: a decoder.
fn configured(vm: &mut Vm, at: u32) -> LuaResult<Text> {
    let mut coding = Coding::Utf8;
    let mut separators = Some(Separators::newlines());
    let (mut keep, mut replace) = (false, false);
    if !vm.arg_is_none_or_nil(at) {
        let options = vm.check_table(at)?;
        let mut position = 0;
        while let Some((key, v)) = vm.next_at(options, &mut position) {
            let name = key.as_string().map(|s| s.to_text()).unwrap_or_default();
            match name.as_str() {
                "encoding" => coding = encoding(vm, at, v)?,
                "separators" => separators = set(vm, at, v)?,
                "keep" if v.same(Value::TRUE) || v.same(Value::FALSE) => keep = v.is_truthy(),
                "keep" => return Err(vm.arg_error(at, "option 'keep' must be a boolean")),
                "bad" => {
                    replace = match v.as_string().map(|s| s.bytes()) {
                        Some(b"replace") => true,
                        Some(b"error") => false,
                        _ => return Err(vm.arg_error(at, "option 'bad' must be \"error\" or \"replace\"")),
                    }
                }
                _ => {
                    let name = if key.as_string().is_some() {
                        format!("'{name}'")
                    } else {
                        format!("a key of type {}", key.type_name())
                    };
                    let text = format!("unknown option {name} (there are: encoding, separators, keep, bad)");
                    return Err(vm.arg_error(at, &text));
                }
            }
        }
    }
    Ok(Text::new(coding, separators, keep, replace))
}

fn encoding(vm: &mut Vm, at: u32, v: Value) -> LuaResult<Coding> {
    let label = v.as_string().map(|s| s.bytes());
    match label.and_then(Coding::named) {
        Some(coding) => Ok(coding),
        None => {
            let what = label.map_or_else(
                || format!("a {} value", v.type_name()),
                |l| format!("'{}'", String::from_utf8_lossy(l)),
            );
            let text = format!(
                "option 'encoding': there is no encoding {what} (names are those of the WHATWG Encoding \
                 Standard, and \"bytes\")"
            );
            Err(vm.arg_error(at, &text))
        }
    }
}

/// Separators: a string, a list of strings, or false for none.
fn set(vm: &mut Vm, at: u32, v: Value) -> LuaResult<Option<Separators>> {
    if v.same(Value::FALSE) {
        return Ok(None);
    }
    let mut list: Vec<Box<[u8]>> = Vec::new();
    let mut right = true;
    if let Some(s) = v.as_string() {
        list.push(s.bytes().into());
    } else if let Some(t) = v.as_table() {
        let mut position = 0;
        while let Some((_, s)) = vm.next_at(t, &mut position) {
            match s.as_string() {
                Some(s) if list.len() <= MOST && s.len() <= LONGEST => list.push(s.bytes().into()),
                _ => right = false,
            }
        }
    }
    match Separators::new(list) {
        Some(separators) if right => Ok(Some(separators)),
        _ => {
            let text = format!(
                "option 'separators' must be a string, a list of 1 to {MOST} strings, each of 1 to {LONGEST} \
                 bytes, or false"
            );
            Err(vm.arg_error(at, &text))
        }
    }
}

/// A userdata with this state, and the metatable of that name.
fn new_object(vm: &mut Vm, state: State, name: &str, methods: &[&'static Native]) -> LuaResult<Gc<Userdata>> {
    let object = vm.new_userdata(RefCell::new(state), 0)?;
    vm.push(object.into());
    let (metatable, is_new) = vm.new_metatable(name)?;
    if is_new {
        vm.register(metatable, methods)?;
        vm.set_field(metatable, "__index", metatable.into())?;
    }
    vm.set_metatable_of(object.into(), Some(metatable))?;
    Ok(object)
}

/// The state in a userdata that is an argument or upvalue of the running native.
#[inline]
fn with<R>(
    vm: &mut Vm,
    object: Option<Gc<Userdata>>,
    f: impl FnOnce(&mut Vm, &mut State) -> LuaResult<R>,
) -> LuaResult<R> {
    // SAFETY: the userdata is reachable for as long as the native runs, and nobody gets at the value in
    // another way.
    let state = object.and_then(|u| unsafe { u.data::<RefCell<State>>() }).map(RefCell::try_borrow_mut);
    match state {
        Some(Ok(mut state)) => f(vm, &mut state),
        _ => Err(vm.error("text: another fiber reads from it")),
    }
}

/// `text.decoder([options])`
static NEW: Native = Native::leaf("decoder", |vm| {
    vm.check_none_behind(1)?;
    let text = configured(vm, 1)?;
    let state = State { text, input: None, lines: 0 };
    let decoder = new_object(vm, state, DECODER, &[&FEED, &FINISH])?;
    vm.ret(decoder)
});

/// `decoder:feed(bytes)`
static FEED: Native = Native::leaf("feed", |vm| {
    vm.check_userdata::<RefCell<State>>(1, DECODER)?;
    vm.check_none_behind(2)?;
    let bytes = vm.check_str(2)?.bytes();
    let decoder = vm.arg(1);
    with(vm, decoder.as_userdata(), |vm, state| {
        if state.text.is_finished() {
            return Err(vm.error("text: the decoder has been told that the input is finished"));
        }
        make_room(vm, &mut state.text, bytes.len())?.copy_from_slice(bytes);
        added(vm, &mut state.text, bytes.len())
    })?;
    results(vm, decoder)
});

/// `decoder:finish()`
static FINISH: Native = Native::leaf("finish", |vm| {
    vm.check_userdata::<RefCell<State>>(1, DECODER)?;
    vm.check_none_behind(1)?;
    let decoder = vm.arg(1);
    with(vm, decoder.as_userdata(), |vm, state| {
        if state.text.finish().is_err() { Err(vm.out_of_memory()) } else { Ok(()) }
    })?;
    results(vm, decoder)
});

/// What `feed` and `finish` return: an iterator, or without separators the text.
fn results(vm: &mut Vm, decoder: Value) -> LuaResult<u32> {
    let whole = with(vm, decoder.as_userdata(), |vm, state| {
        if state.text.splits() {
            return Ok(None);
        }
        let fault = state.text.fault();
        let text = vm.new_str(state.text.take_all())?;
        match fault {
            // What is valid before the bad bytes comes first, if there is any.
            Some(fault) if text.len() == 0 => Err(raise(vm, state, fault)),
            _ => Ok(Some(text)),
        }
    })?;
    match whole {
        Some(text) => vm.ret(text),
        None => {
            let iterator = vm.new_native_closure(&STEP, &[decoder])?;
            vm.ret(iterator)
        }
    }
}

/// Room for `bytes` more of the input.
fn make_room<'a>(vm: &mut Vm, text: &'a mut Text, bytes: usize) -> LuaResult<&'a mut [u8]> {
    let wanted = text.grows_by(bytes);
    if wanted > 2 * PORTION {
        vm.ensure_room(wanted)?;
    }
    text.room(bytes).map_err(|_| vm.out_of_memory())
}

fn added(vm: &mut Vm, text: &mut Text, bytes: usize) -> LuaResult<()> {
    text.added(bytes).map_err(|_| vm.out_of_memory())
}

#[cold]
fn raise(vm: &mut Vm, state: &State, fault: stream::Fault) -> Thrown {
    let mut text = b"text: ".to_vec();
    if let Some((_, name)) = &state.input {
        text.extend_from_slice(name);
        text.extend_from_slice(b": ");
    }
    if state.text.splits() {
        text.extend_from_slice(format!("line {}, ", state.lines + 1).as_bytes());
    }
    text.extend_from_slice(fault.message().as_bytes());
    vm.error(text)
}

static STEP: Native = Native::leaf("text_iterator", |vm| {
    let object = vm.upvalue(1).as_userdata();
    with(vm, object, |vm, state| match state.text.next() {
        Next::Piece(range) => {
            state.lines += 1;
            let piece = vm.new_str(state.text.bytes(range))?;
            vm.ret(piece)
        }
        Next::More | Next::End => vm.ret(Value::NIL),
        Next::Fault(fault) => Err(raise(vm, state, fault)),
    })
});

/// `text.lines(path [, options])`
static LINES: Native = Native::leaf("lines", |vm| {
    let path = vm.check_str(1)?.bytes();
    vm.check_none_behind(2)?;
    let text = configured(vm, 2)?;
    if !text.splits() {
        return Err(vm.arg_error(2, "option 'separators' must not be false here"));
    }
    let input = match Input::open(path) {
        Ok(input) => input,
        Err(message) => return Err(vm.error(message)),
    };
    let state = State { text, input: Some((input, path.to_vec())), lines: 0 };
    let file = new_object(vm, state, LINES_OF, &[&CLOSE])?;
    let iterator = vm.new_native_closure(&LINE, &[file.into()])?;
    vm.push(iterator);
    vm.push(Value::NIL);
    vm.push(Value::NIL);
    vm.push(file.into());
    Ok(4)
});

static CLOSE: Native = Native::leaf("__close", |vm| {
    vm.check_userdata::<RefCell<State>>(1, LINES_OF)?;
    let file = vm.arg(1).as_userdata();
    with(vm, file, |_, state| {
        state.input = None;
        Ok(())
    })?;
    Ok(0)
});

static LINE: Native = Native::leaf("text_lines_iterator", |vm| {
    let file = vm.upvalue(1).as_userdata();
    with(vm, file, |vm, state| {
        loop {
            match state.text.next() {
                Next::Piece(range) => {
                    state.lines += 1;
                    let piece = vm.new_str(state.text.bytes(range))?;
                    return vm.ret(piece);
                }
                Next::More => read_more(vm, state)?,
                Next::End => {
                    state.input = None;
                    return vm.ret(Value::NIL);
                }
                Next::Fault(fault) => return Err(raise(vm, state, fault)),
            }
        }
    })
});

#[inline(never)]
fn read_more(vm: &mut Vm, state: &mut State) -> LuaResult<()> {
    let Some((input, name)) = &mut state.input else { return Err(vm.error("file is already closed")) };
    let room = make_room(vm, &mut state.text, PORTION)?;
    match input.read(vm, room)? {
        Ok(0) => state.text.finish().map_err(|_| vm.out_of_memory()),
        Ok(count) => added(vm, &mut state.text, count),
        Err(message) => Err(vm.error([&name[..], b": ", &message].concat())),
    }
}
