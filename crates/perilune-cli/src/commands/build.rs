//! `perilune build MAIN -o APP`: an executable of a script, with its modules and data (`app.rs` says what
//! that is).
//!
//! Modules are found by reading, not by running: a call `require "name"` or `require("name")` with the name
//! in the text, in the script and in what it finds, by LUA_PATH as the program would. A name that is computed
//! is told with its line, and `--include` adds what it may be. A module that is not found, or is a C module,
//! stops the build, since the program would stop there; `--without` says that it is known. What is asked for
//! by `pcall(require, "name")` is put in if it is there, and told if it is not. With `--trace` a run of the
//! program is watched, and what it asks for is put in too (`build/trace.rs`).

mod modules;
mod trace;

pub use trace::tell_if_asked;

use super::manual;
use crate::app::payload::{self, Entry, Kind};
use crate::app::{self, elf};
use crate::sys;
use modules::{Found, Modules};
use perilune_domain::bundle::is_asset_name;
use perilune_stdlib::used::whole;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use trace::Used;

#[derive(Default)]
struct Options {
    output: Option<PathBuf>,
    include: Vec<String>,
    without: Vec<String>,
    assets: Vec<PathBuf>,
    /// Words of runs that are watched.
    runs: Vec<String>,
    list: bool,
}

/// Carries out the subcommand.
pub fn run(words: &[Vec<u8>]) -> ExitCode {
    let me = manual::entry("build");
    let read = match me.read(words) {
        Ok(Some(read)) => read,
        Ok(None) => return manual::print(&me.help()),
        Err(e) => return me.refuse(&e),
    };
    let mut options = Options::default();
    for (name, argument) in read.options {
        let argument = argument.unwrap_or_default();
        match name {
            "--output" => options.output = Some(argument.into()),
            "--include" => options.include.push(argument.to_string_lossy().into_owned()),
            "--without" => options.without.push(argument.to_string_lossy().into_owned()),
            "--asset" => options.assets.push(argument.into()),
            "--trace" => options.runs.push(argument.to_string_lossy().into_owned()),
            "--list" => options.list = true,
            _ => unreachable!("perilune build: {name} is in the table, and nobody reads it"),
        }
    }
    let [main] = &read.rest[..] else { return me.refuse("name one script") };
    if options.output.is_none() && !options.list {
        return me.refuse("-o FILE says what is made (or --list, what would be in it)");
    }
    match carry_out(Path::new(main), &options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            crate::protected::write_error(
                format!("perilune build: {}\n", crate::protected::in_words(&e)).as_bytes(),
            );
            ExitCode::FAILURE
        }
    }
}

fn carry_out(main: &Path, options: &Options) -> Result<(), String> {
    let mut used = Used::default();
    for run in &options.runs {
        if let Some(how) = trace::watch(main, run, &mut used)? {
            tell(&format!("the run '{run}' ended {how}; what it had asked for until then is put in"));
        }
    }
    let mut modules = Modules::new(options.without.clone(), used.modules.clone())?;
    modules.script(main)?;
    for name in &options.include {
        modules.include(name)?;
    }
    let Found { mut entries, computed, absent, by_runs } = modules.finish()?;
    for name in by_runs {
        let file = used.modules.get(&name).map(|(file, _)| String::from_utf8_lossy(file)).unwrap_or_default();
        tell(&format!("a run required module '{name}' ({file})"));
    }
    // Data are where the script is, for the program that is run from files too.
    let folder = main.parent().unwrap_or(Path::new(""));
    for asset in &options.assets {
        add_asset(folder, asset, &mut entries)?;
    }
    for (name, path) in &used.assets {
        if !is_asset_name(name) || entries.iter().any(|e| e.kind == Kind::Asset && e.name[..] == name[..]) {
            continue;
        }
        let contents = std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        tell(&format!("a run asked for asset '{}'", String::from_utf8_lossy(name)));
        let file = path.as_os_str().as_bytes().into();
        entries.push(Entry { kind: Kind::Asset, name: name.clone(), file, contents });
    }
    tell_what_is_left_out(main, &used, &entries);
    let runs = if options.runs.is_empty() { "" } else { "what the runs required is put in, " };
    for problem in &absent {
        tell(&format!("{problem}; it is left out, as the program asks for it by pcall"));
    }
    for place in &computed {
        tell(&format!("{place}: the name of this module is computed; {runs}--include adds modules"));
    }
    if options.list {
        for entry in &entries {
            let kind = match entry.kind {
                Kind::Main => "script",
                Kind::Module => "module",
                Kind::Asset => "asset",
            };
            let (name, file) = (String::from_utf8_lossy(&entry.name), String::from_utf8_lossy(&entry.file));
            println!("{kind}\t{name}\t{file}\t{}", entry.contents.len());
        }
    }
    match &options.output {
        Some(output) => write(output, &entries),
        None => Ok(()),
    }
}

/// A line on standard error.
fn tell(text: &str) {
    crate::protected::write_error(format!("perilune build: {text}\n").as_bytes());
}

/// Files of the program's folder that its runs have read in ways that do not work for what is in an
/// executable.
fn tell_what_is_left_out(main: &Path, used: &Used, entries: &[Entry]) {
    let main = whole(main);
    let here = whole(Path::new("."));
    let folder = main.parent().unwrap_or(Path::new("/"));
    let modules: BTreeSet<&PathBuf> = used.modules.values().map(|(_, path)| path).collect();
    let inside: BTreeSet<PathBuf> =
        entries.iter().map(|e| whole(Path::new(std::ffi::OsStr::from_bytes(&e.file)))).collect();
    let is_left = |path: &&PathBuf| {
        path.starts_with(folder) && **path != main && !modules.contains(*path) && !inside.contains(*path)
    };
    for path in used.code.iter().filter(is_left) {
        let path = path.strip_prefix(&here).unwrap_or(path).display();
        tell(&format!(
            "{path} is not put in: a run loaded it by the name of its file (require finds what is in an \
             executable)"
        ));
    }
    for path in used.data.iter().filter(is_left) {
        let path = path.strip_prefix(&here).unwrap_or(path).display();
        tell(&format!(
            "{path} is not put in: a run opened it by the name of its file (pl.asset finds what is in an \
             executable)"
        ));
    }
}

/// A file, or all files below a folder, by their names below the script's folder.
fn add_asset(folder: &Path, asset: &Path, entries: &mut Vec<Entry>) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", asset.display());
    if asset.is_dir() {
        let mut below: Vec<_> = asset
            .read_dir()
            .and_then(|d| d.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>())
            .map_err(failed)?;
        below.sort();
        return below.iter().try_for_each(|file| add_asset(folder, file, entries));
    }
    let contents = std::fs::read(asset).map_err(failed)?;
    let name = asset.strip_prefix(folder).unwrap_or(asset);
    let name = name.strip_prefix("./").unwrap_or(name).as_os_str().as_bytes();
    if !is_asset_name(name) {
        return Err(format!("{}: it is not below the script's folder", asset.display()));
    }
    entries.push(Entry {
        kind: Kind::Asset,
        name: name.into(),
        file: asset.as_os_str().as_bytes().into(),
        contents,
    });
    Ok(())
}

/// This executable with the payload, made beside its place and then put there.
fn write(output: &Path, entries: &[Entry]) -> Result<(), String> {
    let mut bytes = std::fs::read(sys::THIS_EXECUTABLE).map_err(|e| format!("this executable: {e}"))?;
    let (mark, sign) = app::mark();
    let found: Vec<usize> = memmem(&bytes, &mark).collect();
    let [at] = found[..] else {
        return Err(format!(
            "this executable is not as it was built (its mark is there {} times)",
            found.len()
        ));
    };
    bytes[at + sign] = b'+';
    let bytes = elf::add(&bytes, app::SECTION, &payload::encode(entries))
        .map_err(|e| format!("this executable: {e}"))?;
    let failed = |e: std::io::Error| format!("{}: {e}", output.display());
    let mut beside = output.as_os_str().to_owned();
    beside.push(format!(".{}", std::process::id()));
    let beside = PathBuf::from(beside);
    let made = std::fs::write(&beside, &bytes)
        .and_then(|()| std::fs::set_permissions(&beside, std::fs::Permissions::from_mode(0o755)))
        .and_then(|()| std::fs::rename(&beside, output));
    if let Err(e) = made {
        let _ = std::fs::remove_file(&beside);
        return Err(failed(e));
    }
    Ok(())
}

/// Where a text is in a longer one.
fn memmem<'a>(bytes: &'a [u8], text: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    bytes.windows(text.len()).enumerate().filter(move |(_, part)| *part == text).map(|(at, _)| at)
}
