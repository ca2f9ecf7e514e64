//! `cargo xtask dist`: what people install who do not build.
//!
//! The chore builds the command in release profile and writes into one folder:
//!
//! | file | |
//! |---|---|
//! | `perilune-V-x86_64-linux.tar.gz` | the stripped command, manual page, completions, LuaCATS file, licence; to be unpacked below a prefix such as `/usr/local` |
//! | `perilune-V-x86_64-linux-debug.tar.gz` | the line tables and symbols, `bin/perilune.debug`, which belong beside the command: whoever unpacks both finds lines in debuggers and in `perf` |
//! | `perilune_V_amd64.deb` | the same below `/usr`, for `dpkg` |
//! | `Dockerfile` | makes an image from the `.deb` |
//! | `SHA256SUMS` | for `sha256sum --check` |
//!
//! **What is in it comes from the command.** Manual page and completions are what the packed command prints,
//! so they cannot be of another version. [`content`] collects the files, with paths below a prefix;
//! [`archive`] and [`deb`] only arrange them.
//!
//! **The same input gives the same bytes.** Files are in a fixed order, owned by root, and as old as the
//! commit (or as `SOURCE_DATE_EPOCH` says).
//!
//! **Line tables** are split off by `objcopy`, which comes with the linker that built the command; the
//! stripped file names the other one (`.gnu_debuglink`). No `dpkg` is needed to make the package: it is an
//! `ar` archive of two tar archives. Rejected: `cargo deb` and its like (another tool to install, for a page
//! of code), and packages for more systems than the command runs on.
//!
//! `--try-deb FILE` installs a package with `dpkg` into an empty folder, runs the command that lies there,
//! and removes it again. It needs `dpkg` and root's rights, and is no part of the tests.

mod archive;
mod content;
mod deb;
mod try_deb;

use crate::chore::{self, Error, Outcome};
use crate::peers;
use lexopt::prelude::*;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Listing line.
pub const SUMMARY: &str =
    "writes archives, a .deb, a Dockerfile and checksums into target/dist; or tries a .deb";
/// Arguments.
pub const USAGE: &str = "[--profile P | --bin FILE] [--out FOLDER] | --try-deb FILE";

/// What a file of a package is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Below the prefix, such as `bin/perilune`.
    path: String,
    /// Its permissions.
    mode: u32,
    /// What is in it.
    bytes: Vec<u8>,
}

/// Runs the chore.
pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let (mut profile, mut bin, mut out) = ("release".to_owned(), None, chore::target_dir().join("dist"));
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("profile") => profile = parser.value()?.string()?,
            Long("bin") => bin = Some(PathBuf::from(parser.value()?)),
            Long("out") => out = parser.value()?.into(),
            Long("try-deb") => return try_deb::run(Path::new(&parser.value()?)),
            _ => return Err(arg.unexpected().into()),
        }
    }
    let bin = match bin {
        Some(bin) => bin,
        None => peers::build(&profile)?,
    };
    for file in write(&bin, &out)? {
        println!("{}", file.display());
    }
    Ok(Outcome::Passed)
}

/// Writes everything that is made of `bin` into `out`, and says what.
fn write(bin: &Path, out: &Path) -> Result<Vec<PathBuf>, Error> {
    std::fs::create_dir_all(out)?;
    let version = version(bin)?;
    let age = age();
    let split = content::split(bin, out)?;
    let files = content::files(bin, split.stripped)?;
    let root = format!("perilune-{version}-x86_64-linux");
    let debug = File { path: "bin/perilune.debug".to_owned(), mode: 0o644, bytes: split.debug };
    let (glibc, unwinder) = (content::glibc(&files), content::needs_unwinder(&files));
    let package = deb::Package { version: &version, glibc, unwinder, age };
    let package_name = format!("perilune_{version}_amd64.deb");
    let dockerfile = std::fs::read_to_string(chore::root().join("packaging/Dockerfile"))?;
    let made = [
        (format!("{root}.tar.gz"), archive::tar_gz(&format!("{root}/"), &files, age)?),
        (format!("{root}-debug.tar.gz"), archive::tar_gz(&format!("{root}/"), &[debug], age)?),
        (package_name.clone(), package.bytes(&files)?),
        ("Dockerfile".to_owned(), dockerfile.replace("@PACKAGE@", &package_name).into_bytes()),
    ];
    let mut sums = String::new();
    let mut written = Vec::new();
    for (name, bytes) in made {
        let hex = Sha256::digest(&bytes).iter().fold(String::new(), |hex, b| hex + &format!("{b:02x}"));
        writeln!(sums, "{hex}  {name}")?;
        std::fs::write(out.join(&name), bytes)?;
        written.push(out.join(name));
    }
    std::fs::write(out.join("SHA256SUMS"), sums)?;
    written.push(out.join("SHA256SUMS"));
    Ok(written)
}

/// The version that the command says it has.
fn version(bin: &Path) -> Result<String, Error> {
    let text = said(bin, &["--version"])?;
    let version = text.split_whitespace().nth(1).ok_or("the command does not say its version")?;
    Ok(version.to_owned())
}

/// What the command prints.
fn said(bin: &Path, args: &[&str]) -> Result<String, Error> {
    let output = Command::new(bin).args(args).output().map_err(|e| format!("{}: {e}", bin.display()))?;
    if !output.status.success() {
        return Err(format!("{} {}: {}", bin.display(), args.join(" "), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// The age of all files, in seconds since 1970.
fn age() -> u64 {
    if let Some(epoch) = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|s| s.parse().ok()) {
        return epoch;
    }
    let output = Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(chore::root()).output();
    output.ok().and_then(|o| String::from_utf8(o.stdout).ok()?.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
