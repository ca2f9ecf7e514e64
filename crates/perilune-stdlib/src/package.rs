//! `require` and the `package` library (manual 6.3).
//!
//! Searchers are tried in the order of `package.searchers`: `package.preload`, Lua files by `package.path`,
//! then the two for native libraries by `package.cpath`. There are no dynamic libraries here; the native
//! searchers only look, so that `require` reports all places where a module could have been, and fail on what
//! they find as PUC Lua built without dynamic loading does.

use crate::chunk;
use crate::errno::c_bytes;
use crate::string::scratch;
use crate::used::{self, Use};
use perilune_vm::{Gc, LuaResult, LuaString, Native, Table, Value, Vm};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

static LOADLIB: Native = Native::leaf("loadlib", loadlib);
static SEARCHPATH: Native = Native::leaf("searchpath", searchpath);
static REQUIRE: Native = Native::hybrid("require", require);
static SEARCHER_PRELOAD: Native = Native::hybrid("searcher_preload", searcher_preload);
static SEARCHER_LUA: Native = Native::hybrid("searcher_Lua", searcher_lua);
static SEARCHER_NATIVE: Native = Native::hybrid("searcher_C", searcher_native);
static SEARCHER_NATIVE_ROOT: Native = Native::hybrid("searcher_Croot", searcher_native_root);

const PATH: &str = "/usr/local/share/lua/5.4/?.lua;/usr/local/share/lua/5.4/?/init.lua;\
    /usr/local/lib/lua/5.4/?.lua;/usr/local/lib/lua/5.4/?/init.lua;./?.lua;./?/init.lua";
const NATIVE_PATH: &str = "/usr/local/lib/lua/5.4/?.so;/usr/local/lib/lua/5.4/loadall.so;./?.so";

/// What `loadlib` says, always.
const NO_DYNAMIC_LIBRARIES: &str = "dynamic libraries not enabled; check your Lua installation";

/// Where modules are looked for at first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// `package.path`
    pub path: Vec<u8>,
    /// `package.cpath`
    pub cpath: Vec<u8>,
}

impl Default for Paths {
    fn default() -> Paths {
        Paths { path: PATH.into(), cpath: NATIVE_PATH.into() }
    }
}

impl Paths {
    /// As the environment has them: `LUA_PATH_5_4` or `LUA_PATH`, `LUA_CPATH_5_4` or `LUA_CPATH`. For whoever
    /// runs a program, once.
    pub fn from_env() -> Paths {
        let of = |variable: &str, default: &str| {
            let value = std::env::var_os(format!("{variable}_5_4")).or_else(|| std::env::var_os(variable));
            value.map_or(default.into(), |value| with_default(value.as_bytes(), default.as_bytes()))
        };
        Paths { path: of("LUA_PATH", PATH), cpath: of("LUA_CPATH", NATIVE_PATH) }
    }
}

/// Makes the table `package` and the function `require`.
///
/// # Errors
/// Only when memory runs out.
pub fn open(vm: &mut Vm, paths: &Paths) -> LuaResult<()> {
    let package = vm.new_table(0, 8)?;
    vm.set_loaded("package", package.into())?;
    vm.set_global("package", package.into())?;
    vm.register(package, &[&LOADLIB, &SEARCHPATH])?;
    let searchers = vm.new_table(4, 0)?;
    vm.set_field(package, "searchers", searchers.into())?;
    let standard = vm.new_table(4, 0)?;
    let natives = [&SEARCHER_PRELOAD, &SEARCHER_LUA, &SEARCHER_NATIVE, &SEARCHER_NATIVE_ROOT];
    for (i, native) in (1..).zip(natives) {
        let searcher = vm.new_native_closure(native, &[package.into()])?;
        vm.raw_set_int(searchers, i, searcher)?;
        vm.raw_set_int(standard, i, searcher)?;
    }
    // For domains that are told which of them another one has (`perilune_vm::parcel`).
    let registry = vm.registry();
    vm.set_field(registry, "_SEARCHERS", standard.into())?;
    for (field, path) in [("path", &paths.path), ("cpath", &paths.cpath)] {
        let path = vm.value_str(path)?;
        vm.set_field(package, field, path)?;
    }
    let config = vm.value_str(b"/\n;\n?\n!\n-\n")?;
    vm.set_field(package, "config", config)?;
    let loaded = registry_table(vm, "_LOADED")?;
    vm.set_field(package, "loaded", loaded.into())?;
    let preload = registry_table(vm, "_PRELOAD")?;
    vm.set_field(package, "preload", preload.into())?;
    let require = vm.new_native_closure(&REQUIRE, &[package.into()])?;
    let registry = vm.registry();
    vm.set_field(registry, "_REQUIRE", require)?;
    vm.set_global("require", require)
}

/// The table in field `name` of the registry, made if it is not there.
fn registry_table(vm: &mut Vm, name: &str) -> LuaResult<Gc<Table>> {
    let registry = vm.registry();
    if let Some(table) = vm.get_field(registry, name)?.as_table() {
        return Ok(table);
    }
    let table = vm.new_table(0, 8)?;
    vm.set_field(registry, name, table.into())?;
    Ok(table)
}

/// A path from the environment, its first ";;" replaced by the default.
fn with_default(path: &[u8], default: &[u8]) -> Vec<u8> {
    let Some(at) = memchr::memmem::find(path, b";;") else { return path.to_vec() };
    let mut result = path[..at].to_vec();
    if at > 0 {
        result.push(b';');
    }
    result.extend_from_slice(default);
    if at + 2 < path.len() {
        result.push(b';');
        result.extend_from_slice(&path[at + 2..]);
    }
    result
}

fn loadlib(vm: &mut Vm) -> LuaResult<u32> {
    vm.check_str(1)?;
    vm.check_str(2)?;
    vm.push(Value::NIL);
    vm.push_str(NO_DYNAMIC_LIBRARIES.as_bytes())?;
    vm.push_str(b"absent")?;
    Ok(3)
}

fn replace(text: &[u8], pattern: &[u8], replacement: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut done = 0;
    for at in memchr::memmem::find_iter(text, pattern) {
        result.extend_from_slice(&text[done..at]);
        result.extend_from_slice(replacement);
        done = at + pattern.len();
    }
    result.extend_from_slice(&text[done..]);
    result
}

/// What `path` gives for `name` has to have room.
fn check_room(vm: &mut Vm, name: &[u8], path: &[u8]) -> LuaResult<()> {
    let marks = memchr::memchr_iter(b'?', path).count();
    if path.len().saturating_add(marks.saturating_mul(name.len())) > scratch::room(vm) / 2 {
        return Err(vm.out_of_memory());
    }
    Ok(())
}

/// Looks for the first file of `path` that can be read; otherwise says where it looked.
fn search(name: &[u8], path: &[u8], separator: &[u8], directory: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
    let name = if separator.is_empty() { name.to_vec() } else { replace(name, separator, directory) };
    let names = replace(path, b"?", &name);
    for file in names.split(|&b| b == b';') {
        used::tell(Use::Code(file));
        let readable = std::fs::File::open(OsStr::from_bytes(file)).is_ok();
        if readable {
            return Ok(file.to_vec());
        }
    }
    let mut message = b"no file '".to_vec();
    message.extend_from_slice(&replace(&names, b";", b"'\n\tno file '"));
    message.push(b'\'');
    Err(message)
}

fn searchpath(vm: &mut Vm) -> LuaResult<u32> {
    // From the last to the first: the order in which PUC Lua finds fault with them.
    let directory = vm.opt_str(4)?;
    let directory = directory.map_or(b"/".as_slice(), |s| c_bytes(s.bytes()));
    let separator = vm.opt_str(3)?;
    let separator = separator.map_or(b".".as_slice(), |s| c_bytes(s.bytes()));
    let path = vm.check_str(2)?;
    let name = vm.check_str(1)?;
    check_room(vm, name.bytes(), path.bytes())?;
    match search(c_bytes(name.bytes()), c_bytes(path.bytes()), separator, directory) {
        Ok(file) => vm.ret_str(&file),
        Err(message) => {
            vm.push(Value::NIL);
            vm.push_str(&message)?;
            Ok(2)
        }
    }
}

/// The table `package`, which the searchers and `require` have as their upvalue.
fn package(vm: &mut Vm) -> Value {
    vm.upvalue(1)
}

/// Searches by the path in field `field` of `package`.
fn find(vm: &mut Vm, name: &[u8], field: &str) -> LuaResult<Result<Vec<u8>, Vec<u8>>> {
    let package = package(vm);
    let key = vm.value_str(field.as_bytes())?;
    let path = vm.index(package, key)?;
    let Some(path) = Vm::plain_text(path) else {
        return Err(vm.error(format!("'package.{field}' must be a string")));
    };
    check_room(vm, name, &path)?;
    Ok(search(c_bytes(name), c_bytes(&path), b".", b"/"))
}

fn load_error(vm: &mut Vm, name: &[u8], file: &[u8], what: &[u8]) -> LuaResult<u32> {
    let text = [b"error loading module '", name, b"' from file '", file, b"':\n\t", what].concat();
    Err(vm.error(text))
}

fn searcher_preload(vm: &mut Vm) -> LuaResult<u32> {
    let name = vm.check_str(1)?;
    let preload = registry_table(vm, "_PRELOAD")?;
    let loader = vm.index(preload.into(), name.into())?;
    if loader.is_nil() {
        return vm.ret_str(&[b"no field package.preload['", name.bytes(), b"']"].concat());
    }
    vm.push(loader);
    vm.push_str(b":preload:")?;
    Ok(2)
}

fn searcher_lua(vm: &mut Vm) -> LuaResult<u32> {
    let name = vm.check_str(1)?;
    let file = match find(vm, name.bytes(), "path")? {
        Ok(file) => file,
        Err(message) => return vm.ret_str(&message),
    };
    match chunk::load_file(vm, Some(&file), b"bt", None)? {
        Ok(function) => {
            used::tell(Use::Module { name: name.bytes(), file: &file });
            vm.push(function.into());
            vm.push_str(&file)?;
            Ok(2)
        }
        Err(message) => {
            let message = Vm::plain_text(message).unwrap_or_default();
            load_error(vm, name.bytes(), &file, &message)
        }
    }
}

fn searcher_native(vm: &mut Vm) -> LuaResult<u32> {
    let name = vm.check_str(1)?;
    native_library(vm, name, name.bytes())
}

fn searcher_native_root(vm: &mut Vm) -> LuaResult<u32> {
    let name = vm.check_str(1)?;
    match memchr::memchr(b'.', name.bytes()) {
        Some(root) => native_library(vm, name, &name.bytes()[..root]),
        None => Ok(0),
    }
}

/// Looks for the native library `library` of the module `name`, which cannot be loaded if it is there.
fn native_library(vm: &mut Vm, name: Gc<LuaString>, library: &[u8]) -> LuaResult<u32> {
    match find(vm, library, "cpath")? {
        Ok(file) => load_error(vm, name.bytes(), &file, NO_DYNAMIC_LIBRARIES.as_bytes()),
        Err(message) => vm.ret_str(&message),
    }
}

/// Runs the searchers; the loader and its data.
fn find_loader(vm: &mut Vm, name: Gc<LuaString>) -> LuaResult<(Value, Value)> {
    let package = package(vm);
    let key = vm.value_str(b"searchers")?;
    let Some(searchers) = vm.index(package, key)?.as_table() else {
        return Err(vm.error("'package.searchers' must be a table"));
    };
    let mut message = Vec::new();
    for i in 1.. {
        let searcher = vm.raw_get_int(searchers, i);
        if searcher.is_nil() {
            break;
        }
        let top = vm.stack_top() as u32;
        vm.call_multi(searcher, &[name.into()], 2)?;
        let (loader, data) = (vm.stack_get(top + 1), vm.stack_get(top + 2));
        if loader.is_function() {
            return Ok((loader, data));
        }
        if let Some(piece) = Vm::plain_text(loader) {
            message.extend_from_slice(b"\n\t");
            message.extend_from_slice(&piece);
        }
        vm.truncate(top);
    }
    let text = [b"module '", c_bytes(name.bytes()), b"' not found:", message.as_slice()].concat();
    Err(vm.error(text))
}

fn require(vm: &mut Vm) -> LuaResult<u32> {
    let name = vm.check_str(1)?;
    let loaded: Value = registry_table(vm, "_LOADED")?.into();
    let key = Value::from(name);
    let module = vm.index(loaded, key)?;
    if module.is_truthy() {
        return vm.ret(module);
    }
    // Both stay on the stack, below the results.
    let (loader, data) = find_loader(vm, name)?;
    let result = vm.call(loader, &[key, data])?;
    if !result.is_nil() {
        vm.set_index(loaded, key, result)?;
    }
    let mut module = vm.index(loaded, key)?;
    if module.is_nil() {
        module = Value::TRUE;
        vm.set_index(loaded, key, module)?;
    }
    vm.module_required(name.bytes(), module, loader);
    vm.push(module);
    vm.push(data);
    Ok(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_paths() {
        assert_eq!(with_default(b"a", b"D"), b"a");
        assert_eq!(with_default(b";;", b"D"), b"D");
        assert_eq!(with_default(b"a;;", b"D"), b"a;D");
        assert_eq!(with_default(b";;b", b"D"), b"D;b");
        assert_eq!(with_default(b"a;;b;;c", b"D"), b"a;D;b;;c");
    }

    #[test]
    fn where_it_looked() {
        let message = search(b"a.b", b"./no?.x;?/no", b".", b"/").unwrap_err();
        assert_eq!(message, b"no file './noa/b.x'\n\tno file 'a/b/no'");
    }
}
