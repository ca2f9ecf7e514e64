//! Chunks from files: what `loadfile`, `dofile`, `require` and the command have in common.
//!
//! A file may start with a UTF-8 byte order mark and with a first line that begins with `#`; both are
//! skipped, and the newline of that line is kept so that line numbers stay right (except before a binary
//! chunk). Chunk modes are checked here, where the mode is still the text that messages quote.

use crate::errno::{c_bytes, message};
use crate::io;
use crate::used::{self, Use};
use perilune_vm::{Gc, LoadMode, LuaClosure, LuaResult, Value, Vm};
use rustix::io::Errno;

/// First byte of a binary chunk.
const SIGNATURE: u8 = 0x1b;

/// `luaL_loadbufferx`: compiles `source` if `mode` ("b", "t" or "bt") allows its kind. `Ok(Err(v))` is a
/// chunk that does not load, `v` being what to say about it.
///
/// # Errors
/// When compiling is interrupted, or memory runs out while the message is made.
pub fn load(
    vm: &mut Vm,
    source: &[u8],
    name: &[u8],
    mode: &[u8],
    env: Option<Value>,
) -> LuaResult<Result<Gc<LuaClosure>, Value>> {
    load_with(vm, source, name, mode, |vm| vm.load(source, c_bytes(name), LoadMode::Both, env))
}

/// As [`load`], of the content of a file, or of what stands for one: its prototypes are those of all domains
/// that have loaded the same ([`Vm::load_file`]).
///
/// # Errors
/// As those of [`load`].
pub fn load_shared(
    vm: &mut Vm,
    source: &[u8],
    name: &[u8],
    mode: &[u8],
    env: Option<Value>,
) -> LuaResult<Result<Gc<LuaClosure>, Value>> {
    load_with(vm, source, name, mode, |vm| vm.load_file(source, c_bytes(name), env))
}

fn load_with(
    vm: &mut Vm,
    source: &[u8],
    name: &[u8],
    mode: &[u8],
    load: impl FnOnce(&mut Vm) -> Result<Gc<LuaClosure>, Value>,
) -> LuaResult<Result<Gc<LuaClosure>, Value>> {
    if let Some(refusal) = refusal(vm, source, mode)? {
        return Ok(Err(refusal));
    }
    let loaded = vm.report_load(name, source.len(), load);
    if loaded.is_err() {
        vm.poll_interrupt()?;
    }
    Ok(loaded)
}

/// `lua_load`: as [`load`], of a chunk of which `first` is there; `more` appends the next piece, if there is
/// one. It is asked for no more than it takes; see [`Vm::load_pieces`].
///
/// # Errors
/// As those of [`load`].
pub fn load_pieces(
    vm: &mut Vm,
    first: Vec<u8>,
    more: &mut dyn FnMut(&mut Vm, &mut Vec<u8>) -> bool,
    name: &[u8],
    mode: &[u8],
    env: Option<Value>,
) -> LuaResult<Result<Gc<LuaClosure>, Value>> {
    if let Some(refusal) = refusal(vm, &first, mode)? {
        return Ok(Err(refusal));
    }
    // How long it will be nobody knows yet.
    let loaded = vm.report_load(name, 0, |vm| vm.load_pieces(first, more, c_bytes(name), env));
    if loaded.is_err() {
        vm.poll_interrupt()?;
    }
    Ok(loaded)
}

/// What to say about a chunk that begins with `source` if `mode` does not allow its kind.
fn refusal(vm: &mut Vm, source: &[u8], mode: &[u8]) -> LuaResult<Option<Value>> {
    let (kind, letter) = if source.first() == Some(&SIGNATURE) { ("binary", b'b') } else { ("text", b't') };
    if c_bytes(mode).contains(&letter) {
        return Ok(None);
    }
    let mut text = format!("attempt to load a {kind} chunk (mode is '").into_bytes();
    text.extend_from_slice(c_bytes(mode));
    text.extend_from_slice(b"')");
    vm.value_str(&text).map(Some)
}

/// `luaL_loadfilex`: as [`load`], from the file `name`, or from the standard input.
///
/// # Errors
/// When memory runs out, or reading is interrupted.
pub fn load_file(
    vm: &mut Vm,
    name: Option<&[u8]>,
    mode: &[u8],
    env: Option<Value>,
) -> LuaResult<Result<Gc<LuaClosure>, Value>> {
    let (chunk_name, contents) = match name.map(c_bytes) {
        None => (b"=stdin".to_vec(), io::read_standard_input(vm).map_err(|e| ("read", e))),
        Some(name) => {
            used::tell(Use::Code(name));
            let contents = match io::open_for_reading(name) {
                Ok(file) => io::read_whole(vm, file).map_err(|e| ("read", e)),
                Err(e) => Err(("open", e)),
            };
            ([b"@", name].concat(), contents)
        }
    };
    match contents {
        Ok(mut source) => {
            let (start, keep_newline) = prologue(&source);
            let skipped = start - usize::from(keep_newline);
            if keep_newline {
                source[skipped] = b'\n';
            }
            load_shared(vm, &source[skipped..], &chunk_name, mode, env)
        }
        Err((_, Errno::NOMEM)) => Err(vm.out_of_memory()),
        Err((what, error)) => Ok(Err(cannot(vm, what, &chunk_name[1..], error)?)),
    }
}

fn cannot(vm: &mut Vm, what: &str, name: &[u8], error: Errno) -> LuaResult<Value> {
    crate::errno::interrupted(vm, error)?;
    let mut text = format!("cannot {what} ").into_bytes();
    text.extend_from_slice(name);
    text.extend_from_slice(b": ");
    text.extend_from_slice(&message(error));
    vm.value_str(&text)
}

/// Where the chunk proper starts, and whether a newline has to stand in for a first line that was skipped.
fn prologue(source: &[u8]) -> (usize, bool) {
    let mark = if source.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    if source.get(mark) != Some(&b'#') {
        return (mark, false);
    }
    let line = memchr::memchr(b'\n', &source[mark..]).map_or(source.len(), |i| mark + i + 1);
    (line, source.get(line) != Some(&SIGNATURE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_lines() {
        assert_eq!(prologue(b"x = 1"), (0, false));
        assert_eq!(prologue(b"\xef\xbb\xbfx"), (3, false));
        assert_eq!(prologue(b"#!/bin/lua\nx"), (11, true));
        assert_eq!(prologue(b"\xef\xbb\xbf# no\nx"), (8, true));
        assert_eq!(prologue(b"# only"), (6, true));
        assert_eq!(prologue(b"#\n\x1bLua"), (2, false));
        assert_eq!(prologue(b""), (0, false));
    }
}
