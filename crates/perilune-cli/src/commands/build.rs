//! `perilune build MAIN -o APP`: an executable of a script, with its modules and data (`app.rs` says what that is).
//!
//! Modules are found by reading, not by running: a call `require "name"` or `require("name")` with the name in the text, in
//! the script and in what it finds, by LUA_PATH as the program would. A name that is computed is told with its line, and
//! `--include` adds what it may be. A module that is not found, or is a C module, stops the build, since the program would
//! stop there; `--without` says that it is known (a program may ask for modules by `pcall(require, "name")`, which is not
//! looked for).

mod modules;

use super::manual;
use crate::app::payload::{self, Entry, Kind};
use crate::app::{self, elf};
use modules::Modules;
use perilune_domain::bundle::is_asset_name;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Default)]
struct Options {
    output: Option<PathBuf>,
    include: Vec<String>,
    without: Vec<String>,
    assets: Vec<PathBuf>,
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
            crate::protected::write_error(format!("perilune build: {e}\n").as_bytes());
            ExitCode::FAILURE
        }
    }
}

fn carry_out(main: &Path, options: &Options) -> Result<(), String> {
    let mut modules = Modules::new(options.without.clone());
    modules.script(main)?;
    for name in &options.include {
        modules.include(name)?;
    }
    let (mut entries, computed) = modules.finish()?;
    // Data are where the script is, for the program that is run from files too.
    let folder = main.parent().unwrap_or(Path::new(""));
    for asset in &options.assets {
        add_asset(folder, asset, &mut entries)?;
    }
    for place in &computed {
        let text =
            format!("perilune build: {place}: the name of this module is computed; --include adds modules\n");
        crate::protected::write_error(text.as_bytes());
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
    let mut bytes = std::fs::read("/proc/self/exe").map_err(|e| format!("this executable: {e}"))?;
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
