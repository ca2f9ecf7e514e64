//! Telling `perf` what runs: perf maps and jitdump files.
//!
//! `perf` knows functions by the files that they are mapped from, and machine code made at run time comes
//! from none. Two conventions help:
//!
//! | format | file | what `perf` does with it |
//! |---|---|---|
//! | lines | the same | the same, with a line of source in place of each function: `perf report` adds up by line |
//! | map | `/tmp/perf-PID.map`: a line of text for each function, with address, length and name | `perf report` and `perf top` read it by themselves. It knows no time: where an address was used twice, the names may be wrong |
//! | jitdump | `/tmp/jit-PID.dump`: binary, with the bytes of each function, its lines, and when it was installed | `perf record -k mono`, then `perf inject --jit`, which makes an ELF file of each function; then `perf annotate` shows instructions and lines |
//!
//! Off unless asked for: whoever starts the program says so by `PERILUNE_PERF=map`, `=lines` or `=jitdump`,
//! which the command reads ([`Format`] parses it).
//!
//! # Files in a folder that everybody writes to
//! The names can be foreseen, so somebody else may have put a file or a link there. Files are created new
//! (`O_EXCL`, `O_NOFOLLOW`), for the owner's eyes only. What an earlier process of the same number left is
//! removed first if it is a plain file of the same user.
//!
//! # When writing fails
//! The first error is returned and ends the writing; the program goes on without.
//!
//! The formats are those of the kernel's `tools/perf/Documentation/jitdump-specification.txt` and
//! `perf-report`'s documentation. There are crates that read them; the one that writes jitdump
//! (`wasmtime-internal-jit-debug`) is another project's own part, and the writing is two pages.

mod jitdump;

use crate::fork::Lineage;
use crate::memory::Code;
use crate::sync::lock;
use crate::sys;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;

/// What to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A perf map: text, read by `perf report`.
    Map,
    /// One that has lines in place of functions.
    Lines,
    /// A jitdump file, for `perf inject --jit`.
    Jitdump,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Format, UnknownFormat> {
        match name {
            "map" => Ok(Format::Map),
            "lines" => Ok(Format::Lines),
            "jitdump" => Ok(Format::Jitdump),
            _ => Err(UnknownFormat(name.to_owned())),
        }
    }
}

/// A word that is neither `map` nor `jitdump`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFormat(pub String);

impl std::fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "'{}' is no format for perf: map, lines and jitdump are", self.0)
    }
}

impl std::error::Error for UnknownFormat {}

/// Where a function comes from, line by line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Source<'a> {
    /// The file's name.
    pub file: &'a str,
    /// From which offset in the code on instructions belong to which line, in order of offsets.
    pub lines: &'a [(u32, u32)],
}

/// A file that says which code was installed. One per process and format.
#[derive(Debug)]
pub struct Perf {
    lineage: Lineage,
    path: PathBuf,
    /// `None` after an error.
    output: Mutex<Option<Output>>,
}

#[derive(Debug)]
enum Output {
    Map(File),
    Lines(File),
    Jitdump(jitdump::Writer),
}

impl Perf {
    /// Creates the file where `perf` looks for it.
    pub fn create(format: Format) -> io::Result<Perf> {
        Perf::create_in(Path::new("/tmp"), format)
    }

    /// Creates the file in another folder. `perf` finds jitdump files anywhere, maps in `/tmp` only.
    pub fn create_in(folder: &Path, format: Format) -> io::Result<Perf> {
        let (lineage, pid) = (Lineage::current(), std::process::id());
        let name = match format {
            Format::Map | Format::Lines => format!("perf-{pid}.map"),
            Format::Jitdump => format!("jit-{pid}.dump"),
        };
        let path = folder.join(name);
        let file = create_new(&path)?;
        let output = match format {
            Format::Map => Output::Map(file),
            Format::Lines => Output::Lines(file),
            Format::Jitdump => Output::Jitdump(jitdump::Writer::new(file)?),
        };
        Ok(Perf { lineage, path, output: Mutex::new(Some(output)) })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says that `code` was installed under this name. To be called before anything leads to it. In a child
    /// of a fork nothing happens.
    pub fn record(&self, code: &Code, name: &str, source: Source<'_>) -> io::Result<()> {
        if self.lineage.is_inherited() {
            return Ok(());
        }
        let mut output = lock(&self.output);
        let written = match &mut *output {
            None => return Ok(()),
            Some(Output::Map(file)) => file.write_all(map_line(code, name).as_bytes()),
            Some(Output::Lines(file)) => file.write_all(map_lines(code, name, source).as_bytes()),
            Some(Output::Jitdump(writer)) => writer.load(code, name, source),
        };
        if written.is_err() {
            *output = None;
        }
        written
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        if self.lineage.is_inherited() {
            return;
        }
        if let Some(Output::Jitdump(writer)) = &mut *lock(&self.output) {
            // The record is a courtesy to readers; the file is valid without.
            let _ = writer.close();
        }
    }
}

/// A line of a perf map. Names end at the line's end, so they may contain spaces, but no control characters.
fn map_line(code: &Code, name: &str) -> String {
    let mut line = String::new();
    let _ = write!(line, "{:x} {:x} ", code.address(), code.len());
    line.extend(name.chars().map(|c| if c.is_control() { '?' } else { c }));
    line.push('\n');
    line
}

/// The same for each line of a function.
fn map_lines(code: &Code, name: &str, source: Source<'_>) -> String {
    let mut text = String::new();
    let mut from = (0, None);
    for &(offset, line) in source.lines.iter().chain([&(code.len() as u32, 0)]) {
        if offset > from.0 {
            let place = from.1.map_or_else(|| name.to_owned(), |line| format!("{}:{line}", source.file));
            let place: String = place.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            let _ = writeln!(text, "{:x} {:x} {place}", code.address() + from.0 as usize, offset - from.0);
        }
        from = (offset, Some(line));
    }
    text
}

/// Creates a file that was not there, for this user only.
fn create_new(path: &Path) -> io::Result<File> {
    match sys::create_private(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !sys::is_own_file(&fs::symlink_metadata(path)?) {
                return Err(error);
            }
            fs::remove_file(path)?;
            sys::create_private(path)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests;
