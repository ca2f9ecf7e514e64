//! What is packed: the command without its line tables, and what belongs to it.

use super::{Error, File, said};
use crate::chore;
use std::path::Path;
use std::process::Command;

/// A command, taken apart.
pub struct Split {
    /// What runs.
    pub stripped: Vec<u8>,
    /// Line tables and symbols, for debuggers.
    pub debug: Vec<u8>,
}

/// Takes `bin` apart; `scratch` is a folder for files on the way.
pub fn split(bin: &Path, scratch: &Path) -> Result<Split, Error> {
    // The stripped file remembers the other one by the name that it has now.
    let debug = scratch.join("perilune.debug");
    let stripped = scratch.join("perilune.stripped");
    let link = format!("--add-gnu-debuglink={}", debug.display());
    objcopy(&["--only-keep-debug"], bin, &debug)?;
    objcopy(&["--strip-all", &link], bin, &stripped)?;
    let split = Split { stripped: std::fs::read(&stripped)?, debug: std::fs::read(&debug)? };
    std::fs::remove_file(&stripped)?;
    std::fs::remove_file(&debug)?;
    Ok(split)
}

fn objcopy(args: &[&str], from: &Path, to: &Path) -> Result<(), Error> {
    let tool = std::env::var_os("OBJCOPY").unwrap_or_else(|| "objcopy".into());
    let status = Command::new(&tool).args(args).args([from, to]).status().map_err(|e| {
        format!("{}: {e} (it is part of binutils; OBJCOPY names another one)", tool.to_string_lossy())
    })?;
    if status.success() { Ok(()) } else { Err(format!("objcopy {}: {status}", from.display()).into()) }
}

/// All files of a package, in order. `bin` is asked for its manual page and completions.
pub fn files(bin: &Path, stripped: Vec<u8>) -> Result<Vec<File>, Error> {
    let file = |path: &str, bytes: Vec<u8>| File { path: path.to_owned(), mode: 0o644, bytes };
    let mut files = vec![
        File { path: "bin/perilune".to_owned(), mode: 0o755, bytes: stripped },
        file("share/man/man1/perilune.1", said(bin, &["man"])?.into_bytes()),
    ];
    for (shell, path) in [
        ("bash", "share/bash-completion/completions/perilune"),
        ("zsh", "share/zsh/site-functions/_perilune"),
        ("fish", "share/fish/vendor_completions.d/perilune.fish"),
    ] {
        files.push(file(path, said(bin, &["completions", shell])?.into_bytes()));
    }
    let annotations = chore::root().join("docs/luacats");
    for entry in std::fs::read_dir(annotations)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.push(file(&format!("share/perilune/luacats/{name}"), std::fs::read(entry.path())?));
    }
    for name in ["README.md", "CHANGELOG.md", "LICENSE"] {
        files.push(file(&format!("share/doc/perilune/{name}"), std::fs::read(chore::root().join(name))?));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Whether the command asks for the unwinder as a shared library.
pub fn needs_unwinder(files: &[File]) -> bool {
    const NAME: &[u8] = b"libgcc_s.so.1\0";
    let command = files.iter().find(|f| f.path == "bin/perilune");
    command.is_some_and(|c| c.bytes.windows(NAME.len()).any(|w| w == NAME))
}

/// The oldest C library that has what the command asks for, as `2.34`: the largest version that it names.
pub fn glibc(files: &[File]) -> Option<String> {
    const MARK: &[u8] = b"GLIBC_";
    let command = files.iter().find(|f| f.path == "bin/perilune")?;
    let versions =
        command.bytes.windows(MARK.len()).enumerate().filter(|(_, w)| *w == MARK).filter_map(|(at, _)| {
            let rest = &command.bytes[at + MARK.len()..];
            let text = std::str::from_utf8(&rest[..rest.iter().position(|b| *b == 0)?]).ok()?;
            text.split('.').map(|part| part.parse::<u32>().ok()).collect::<Option<Vec<_>>>()
        });
    let newest = versions.max()?;
    Some(newest.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}
