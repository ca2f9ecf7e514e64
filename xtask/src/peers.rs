//! The Lua implementations that figures are compared with, and how to find our own.
//!
//! A peer is anything on PATH that runs `FILE ARGS` as `lua` does. One that is not installed is left out with
//! a line that says so: figures must never come from a silently smaller set.

use crate::chore::{self, Error};
use perilune_measure::on_path;
use std::path::{Path, PathBuf};

/// An executable that runs Lua programs.
#[derive(Debug, Clone)]
pub struct Peer {
    /// How it is called in reports.
    pub name: String,
    /// Its file.
    pub bin: PathBuf,
    /// Lua 5.1 with extensions: programs marked `luajit=no` are not for it.
    pub is_luajit: bool,
}

impl Peer {
    fn at(name: &str, bin: PathBuf) -> Peer {
        let file = bin.file_name().map(|f| f.to_string_lossy().into_owned()).unwrap_or_default();
        Peer { name: name.to_string(), bin, is_luajit: file.starts_with("luajit") }
    }
}

/// The peers of a comma-separated list that exist, with a line on standard error for each that does not.
pub fn named(list: &str) -> Vec<Peer> {
    let mut found = Vec::new();
    for name in list.split(',').filter(|n| !n.is_empty()) {
        match on_path(name) {
            Some(bin) => found.push(Peer::at(name, bin)),
            None => eprintln!("peer '{name}' is not installed: left out"),
        }
    }
    found
}

/// Our own executable: `bin` if given, else built with `profile` first.
pub fn ours(bin: Option<&str>, profile: &str) -> Result<Peer, Error> {
    if let Some(name) = bin {
        let path = on_path(name).ok_or_else(|| format!("--bin {name}: no such file"))?;
        return Ok(Peer::at("perilune", path));
    }
    Ok(Peer::at("perilune", build(profile)?))
}

/// Builds the command with a cargo profile and returns its file.
pub fn build(profile: &str) -> Result<PathBuf, Error> {
    let status = chore::cargo()
        .args(["build", "--quiet", "--package", "perilune-cli", "--profile", profile])
        .status()
        .map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err(format!("cargo build --profile {profile} failed").into());
    }
    let dir = if profile == "dev" { "debug" } else { profile };
    let bin = chore::target_dir().join(dir).join("perilune");
    if !Path::new(&bin).is_file() {
        return Err(format!("{} was not built", bin.display()).into());
    }
    Ok(bin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_peer_is_left_out() {
        let peers = named("sh,there-is-no-such-lua,");
        assert_eq!(peers.len(), 1);
        assert_eq!(peers[0].name, "sh");
        assert!(!peers[0].is_luajit);
    }
}
