//! Programs that are one executable: what `perilune build` writes, and what runs it.
//!
//! Such an executable is this one with a payload: the program's modules and data (`app/payload.rs`) in an ELF
//! section called `.perilune` (`app/elf.rs`). A section, and not bytes behind the end, since `strip` keeps
//! sections and drops what it does not know. One byte of the executable's own data, behind a text that is
//! nowhere else, says that there is one, so that an ordinary start does not look for it.
//!
//! An application is no command of ours: all words are its own, LUA_INIT, LUA_PATH and LUA_CPATH mean
//! nothing, and modules come from the payload alone, unless the program itself sets `package.path`.
//!
//! Rejected: linking (there is no compiler on a user's machine); a script that unpacks itself (files that
//! someone else can change, and a folder to clean up); bytecode instead of source text (messages would lack
//! lines, and loading verifies it anyway).

pub mod elf;
pub mod payload;

use crate::{protected, run_program, sys};
use perilune_domain::bundle::Files;
use perilune_stdlib::chunk;
use perilune_vm::{LuaResult, Value, Vm};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;

/// The section with the payload.
pub const SECTION: &str = ".perilune";

/// A text that is in the executable once, and behind it `-` or, in an application, `+`.
#[used]
static MARK: [u8; 33] = *b"perilune-application-7c41e0d29b:-";

/// The text, and where the sign is behind it.
pub fn mark() -> ([u8; 33], usize) {
    // SAFETY: a static is valid for reads. Volatile, since the bytes in the file may have been changed: the
    // compiler must not put what it knows of them elsewhere.
    (unsafe { std::ptr::read_volatile(&raw const MARK) }, 32)
}

/// Is this executable an application?
pub fn is_one() -> bool {
    let (text, sign) = mark();
    text[sign] == b'+'
}

/// Runs the application.
pub fn run(words: Vec<Vec<u8>>) -> ExitCode {
    let name = words[0].clone();
    let read = File::open(sys::THIS_EXECUTABLE).and_then(|file| {
        let section = elf::find(&|offset, bytes| file.read_exact_at(bytes, offset), SECTION)?;
        let mut bytes = vec![0; section.1 as usize];
        file.read_exact_at(&mut bytes, section.0)?;
        payload::decode(&bytes)
    });
    let (main, bundle) = match read {
        Ok(read) => read,
        Err(e) => {
            let text = format!("{}: the program in this executable: {e}\n", String::from_utf8_lossy(&name));
            protected::write_error(text.as_bytes());
            return ExitCode::FAILURE;
        }
    };
    run_program(name, false, true, Files::Bundle(bundle), |vm, runtime| {
        let registry = vm.registry();
        vm.set_field(registry, "LUA_NOENV", Value::TRUE)?;
        perilune_stdlib::open_libs_with(vm, &runtime.config().paths)?;
        perilune_domain::open(vm, runtime)?;
        run_main(vm, &main, &words)
    })
}

fn run_main(vm: &mut Vm, main: &perilune_domain::bundle::Module, words: &[Vec<u8>]) -> LuaResult<bool> {
    let arg = vm.new_table(words.len(), 1)?;
    vm.set_global("arg", arg.into())?;
    for (i, word) in words.iter().enumerate() {
        let word = vm.value_str(word)?;
        vm.raw_set_int(arg, i as i64, word)?;
    }
    let f = match chunk::load(vm, &main.text, &[b"@", &main.file[..]].concat(), b"t", None)? {
        Ok(f) => f,
        Err(message) => {
            protected::report(message);
            return Ok(false);
        }
    };
    let args: Vec<Value> = (1..words.len()).map(|i| vm.raw_get_int(arg, i as i64)).collect();
    Ok(protected::call_reporting(vm, f.into(), &args).is_some())
}
