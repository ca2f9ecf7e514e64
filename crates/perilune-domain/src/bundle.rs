//! Files that belong to a program: `pl.asset(name)`, and the modules of a program that is one executable.
//!
//! A program that is run from files has its data in a folder, that of its script. One that `perilune build`
//! has made an executable of has modules and data inside: then a searcher for modules stands behind
//! `package.preload` in each of its domains, and `pl.asset` answers from what is there. Names of data are
//! paths below the folder, written with `/`, so that what works from files works from the executable.

use crate::runtime::Runtime;
use perilune_stdlib::chunk;
use perilune_stdlib::used::{self, Use};
use perilune_vm::{LuaResult, Native, Value, Vm};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Where a program's files are.
#[derive(Debug)]
pub enum Files {
    /// Data are in this folder; modules are found by `package.path`.
    Folder(PathBuf),
    /// All are in memory.
    Bundle(Bundle),
}

impl Default for Files {
    fn default() -> Files {
        Files::Folder(PathBuf::from("."))
    }
}

/// The files of a program that is one executable.
#[derive(Debug, Default)]
pub struct Bundle {
    /// By the names that `require` is given.
    pub modules: HashMap<Vec<u8>, Module>,
    /// By the names that `pl.asset` is given.
    pub assets: HashMap<Vec<u8>, Vec<u8>>,
}

/// A module in source text.
#[derive(Debug)]
pub struct Module {
    /// The file that it comes from, for messages.
    pub file: Vec<u8>,
    /// Its text.
    pub text: Vec<u8>,
}

/// Whether data may be called so: below the folder, nothing that is different from an executable.
pub fn is_asset_name(name: &[u8]) -> bool {
    let mut parts = Path::new(OsStr::from_bytes(name)).components();
    !name.is_empty() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// `pl.asset(name)`: the contents of a file that belongs to the program, or nil and a message.
pub(crate) static ASSET: Native = Native::leaf("asset", |vm| {
    let name = vm.check_str(1)?.bytes().to_vec();
    if !is_asset_name(&name) {
        return Err(vm.arg_error(1, "a path below the program's folder expected"));
    }
    let runtime = Runtime::of_state(vm);
    let shown = String::from_utf8_lossy(&name).into_owned();
    let failure = match &*runtime.config().files {
        Files::Bundle(bundle) => match bundle.assets.get(&name) {
            Some(contents) => return vm.ret_str(contents),
            None => format!("{shown}: it is not part of the executable"),
        },
        Files::Folder(folder) => {
            let file = folder.join(OsStr::from_bytes(&name));
            used::tell(Use::Asset { name: &name, file: file.as_os_str().as_bytes() });
            match std::fs::read(file) {
                Ok(contents) => return vm.ret_str(&contents),
                Err(e) => format!("{shown}: {}", failure_text(&e)),
            }
        }
    };
    vm.push(Value::NIL);
    vm.push_str(failure.as_bytes())?;
    Ok(2)
});

/// The system's words, without the number that the standard library adds.
pub(crate) fn failure_text(e: &std::io::Error) -> String {
    let text = e.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words).to_owned()
}

/// Finds modules that are part of the executable.
static SEARCHER: Native = Native::leaf("searcher_bundle", |vm| {
    let name = vm.check_str(1)?.bytes().to_vec();
    let runtime = Runtime::of_state(vm);
    let module = match &*runtime.config().files {
        Files::Bundle(bundle) => bundle.modules.get(&name),
        Files::Folder(_) => None,
    };
    let Some(module) = module else {
        let text = [b"no module '", &name[..], b"' in the executable"].concat();
        return vm.ret_str(&text);
    };
    match chunk::load_shared(vm, &module.text, &[b"@", &module.file[..]].concat(), b"t", None)? {
        Ok(f) => {
            vm.push(f.into());
            vm.push_str(&module.file)?;
            Ok(2)
        }
        Err(message) => {
            let message = Vm::plain_text(message).unwrap_or_default();
            let text =
                [b"error loading module '", &name[..], b"' from the executable:\n\t", &message].concat();
            Err(vm.error(text))
        }
    }
});

/// Makes `require` of a new state find the modules of the executable that it belongs to.
pub(crate) fn open(vm: &mut Vm, runtime: &Runtime) -> LuaResult<()> {
    if !matches!(&*runtime.config().files, Files::Bundle(_)) {
        return Ok(());
    }
    let Some(package) = vm.get_field(vm.globals(), "package")?.as_table() else { return Ok(()) };
    let Some(searchers) = vm.get_field(package, "searchers")?.as_table() else { return Ok(()) };
    for i in (2..=4).rev() {
        let searcher = vm.raw_get_int(searchers, i);
        vm.raw_set_int(searchers, i + 1, searcher)?;
    }
    vm.raw_set_int(searchers, 2, Value::native(&SEARCHER))
}
