//! `--try-deb`: a package, installed by `dpkg` into an empty folder, used, and removed.

use super::{Error, Outcome};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs, runs, removes.
pub fn run(package: &Path) -> Result<Outcome, Error> {
    let root = std::env::temp_dir().join(format!("perilune-deb-{}", std::process::id()));
    let outcome = attempt(package, &root);
    let _ = std::fs::remove_dir_all(&root);
    outcome
}

fn attempt(package: &Path, root: &Path) -> Result<Outcome, Error> {
    let data = root.join("var/lib/dpkg");
    for folder in ["info", "updates"] {
        std::fs::create_dir_all(data.join(folder))?;
    }
    std::fs::write(data.join("status"), "")?;
    // The folder has no C library: what the package depends on is the system's.
    dpkg(root, &["--force-depends", "--install", &package.display().to_string()])?;
    let command = root.join("usr/bin/perilune");
    let output = Command::new(&command).args(["-e", "print(6 * 7)"]).output()?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut good = printed == "42\n";
    println!("installed {}, which prints {printed:?}", command.display());
    dpkg(root, &["--purge", "perilune"])?;
    let left = files_below(&root.join("usr"));
    println!("removed; files that are left: {left:?}");
    good &= left.is_empty();
    Ok(Outcome::from_ok(good))
}

fn dpkg(root: &Path, args: &[&str]) -> Result<(), Error> {
    let status = Command::new("dpkg")
        .arg(format!("--root={}", root.display()))
        .args(["--force-script-chrootless", "--log=/dev/null"])
        .args(args)
        .status()
        .map_err(|e| format!("dpkg: {e} (this needs a system that has it)"))?;
    if status.success() { Ok(()) } else { Err(format!("dpkg {}: {status}", args.join(" ")).into()) }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}
