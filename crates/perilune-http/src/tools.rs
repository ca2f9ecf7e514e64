//! Natives of the Lua part that are not about a connection: addresses, escapes, files, compression.

use crate::url::{self, Url};
use crate::{compose, date};
use flate2::Compression;
use flate2::write::{GzEncoder, MultiGzDecoder};
use perilune_io::protocol::open_beneath;
use perilune_vm::{LuaResult, Native, Value, Vm};
use rustix::fs::FileType;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The natives of this file.
pub static ALL: &[&Native] =
    &[&PARSE_URL, &ESCAPE, &UNESCAPE, &REASON, &IS_TOKEN, &FILE, &ROOM, &GZIP, &INFLATER, &INFLATE];

fn bytes_of(vm: &mut Vm, n: u32) -> LuaResult<Vec<u8>> {
    Ok(vm.check_str(n)?.bytes().to_vec())
}

/// `nil, message`
fn fault(vm: &mut Vm, text: &str) -> LuaResult<u32> {
    vm.push(Value::NIL);
    vm.push_str(text.as_bytes())?;
    Ok(2)
}

/// `parse_url(text [, base])`: `scheme, host, port, authority, target, text, path, query`; `nil, message`.
static PARSE_URL: Native = Native::leaf("parse_url", |vm| {
    let text = bytes_of(vm, 1)?;
    let parsed = if vm.arg_is_none_or_nil(2) {
        Url::parse(&text)
    } else {
        let base = bytes_of(vm, 2)?;
        Url::parse(&base).and_then(|base| base.join(&text))
    };
    let url = match parsed {
        Ok(url) => url,
        Err(trouble) => return fault(vm, &trouble),
    };
    vm.push_str(url.scheme.as_bytes())?;
    vm.push_str(url.host.as_bytes())?;
    vm.push(Value::int(url.port.into()));
    vm.push_str(url.authority().as_bytes())?;
    vm.push_str(url.target().as_bytes())?;
    vm.push_str(url.text().as_bytes())?;
    vm.push_str(url.path.as_bytes())?;
    match url.query {
        Some(query) => vm.push_str(query.as_bytes())?,
        None => vm.push(Value::NIL),
    }
    Ok(8)
});

/// `http.escape(text)`
static ESCAPE: Native = Native::leaf("escape", |vm| {
    let text = url::escape(vm.check_str(1)?.bytes());
    vm.ret_str(text.as_bytes())
});

/// `http.unescape(text [, plus])`: the bytes; nil if that is no escaped text.
static UNESCAPE: Native = Native::leaf("unescape", |vm| {
    let plus = !vm.arg(2).is_falsy();
    match url::unescape(vm.check_str(1)?.bytes(), plus) {
        Some(bytes) => vm.ret_str(&bytes),
        None => fault(vm, "a percent sign without two hexadecimal digits"),
    }
});

/// `reason(status)`
static REASON: Native = Native::leaf("reason", |vm| {
    let status = vm.check_int(1)?;
    vm.ret_str(compose::reason(u16::try_from(status).unwrap_or(0)).as_bytes())
});

/// `is_token(text)`
static IS_TOKEN: Native = Native::leaf("is_token", |vm| {
    let is = compose::is_token(vm.check_str(1)?.bytes());
    vm.ret(is)
});

/// `file(folder, path)`: what a path below a folder leads to: `kind, file, size, date, mark`; the file is
/// open. Nil if there is nothing, or if it leads out of the folder, be it by a symbolic link.
static FILE: Native = Native::leaf("file", |vm| {
    let (folder, path) = (bytes_of(vm, 1)?, bytes_of(vm, 2)?);
    let found = open_beneath(Path::new(OsStr::from_bytes(&folder)), Path::new(OsStr::from_bytes(&path)));
    let Ok((file, about)) = found else { return vm.ret(Value::NIL) };
    let kind = match FileType::from_raw_mode(about.st_mode) {
        FileType::RegularFile => "file",
        FileType::Directory => "folder",
        _ => "other",
    };
    // Before 1970 is as good as 1970.
    let seconds = u64::try_from(about.st_mtime).unwrap_or(0);
    let nanos = u128::from(seconds) * 1_000_000_000 + about.st_mtime_nsec as u128;
    vm.push_str(kind.as_bytes())?;
    let file = vm.shared_ref(file);
    vm.push(file.into());
    vm.push(Value::int(about.st_size));
    vm.push_str(date::text(seconds).as_bytes())?;
    vm.push_str(format!("\"{nanos:x}-{:x}\"", about.st_size).as_bytes())?;
    Ok(5)
});

/// `room()`: how many connections a server may have if nobody says it: 10,000, or four of five of the
/// descriptors that the system allows.
static ROOM: Native = Native::leaf("room", |vm| {
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    vm.ret((descriptors.unwrap_or(u64::MAX) / 5).saturating_mul(4).clamp(1, 10_000) as i64)
});

/// `gzip(text)`: compressed.
static GZIP: Native = Native::leaf("gzip", |vm| {
    let text = vm.check_str(1)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(5));
    match encoder.write_all(text.bytes()).and_then(|()| encoder.finish()) {
        Ok(bytes) => vm.ret_str(&bytes),
        Err(error) => fault(vm, &error.to_string()),
    }
});

/// What decompresses a body that comes in pieces.
struct Inflater(MultiGzDecoder<Vec<u8>>);

const INFLATER_NAME: &str = "perilune.http.inflater";

/// `inflater()`
static INFLATER: Native = Native::leaf("inflater", |vm| {
    let inflater = vm.new_userdata(Inflater(MultiGzDecoder::new(Vec::new())), 0)?;
    let (mt, is_new) = vm.new_metatable(INFLATER_NAME)?;
    if is_new {
        vm.set_field(mt, "__metatable", Value::FALSE)?;
    }
    vm.set_metatable_of(inflater.into(), Some(mt))?;
    vm.ret(Value::from(inflater))
});

/// `inflate(inflater, piece)`: what that piece adds; without a piece: whether the end was there.
/// `nil, message`.
static INFLATE: Native = Native::leaf("inflate", |vm| {
    let piece = if vm.arg_is_none_or_nil(2) { None } else { Some(bytes_of(vm, 2)?) };
    let inflater = vm.check_userdata::<Inflater>(1, INFLATER_NAME)?;
    let outcome = match &piece {
        Some(piece) => inflater.0.write_all(piece).and_then(|()| inflater.0.flush()),
        None => inflater.0.try_finish(),
    };
    let text = std::mem::take(inflater.0.get_mut());
    match outcome {
        Ok(()) => vm.ret_str(&text),
        Err(_) => fault(vm, "the body is no gzip data"),
    }
});
