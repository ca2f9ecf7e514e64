//! What the linker is told: the order of functions, and a short form for relocations; what `--version` says;
//! and the annotations of `docs/luacats`, put together for `?name`.
//!
//! `layout.ld`, written by `cargo xtask layout` (which says why), puts the functions that programs run side
//! by side. It is an addition to the linker's own script, as GNU ld and LLVM's lld take it. A linker that
//! takes none (mold, gold) is known only by the flags that choose it; where one is chosen, or
//! `PERILUNE_LAYOUT=0` is set, the executable is laid out as it comes.
//!
//! Of the executable's relocations nearly all say "add the load address here". Written one by one they take
//! 120 KB that the dynamic linker reads at every start; as bit maps (`DT_RELR`) they take two. The C library
//! understands that since 2.36, and only this machine's can be asked.
//!
//! The unwinder is part of the executable where the compiler has it as an archive. As a shared library it
//! takes a fifteenth of the time of a start: it is mapped and linked, and asks the processor for its features
//! before anything else runs, which takes long in a virtual machine.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=layout.ld");
    tell_version();
    gather_annotations();
    println!("cargo:rerun-if-env-changed=PERILUNE_LAYOUT");
    let set = |name: &str| env::var(name).unwrap_or_default();
    if set("CARGO_CFG_TARGET_OS") != "linux" || set("PROFILE") != "release" {
        return;
    }
    let flags = set("CARGO_ENCODED_RUSTFLAGS");
    let other_linker = ["mold", "gold"].iter().any(|l| flags.contains(l) || set("RUSTC_LINKER").contains(l));
    if !other_linker && set("PERILUNE_LAYOUT") != "0" {
        let script = Path::new(&set("CARGO_MANIFEST_DIR")).join("layout.ld");
        // A copy beside what is built: the checkout may be another one when it is linked again.
        let copy = Path::new(&set("OUT_DIR")).join("layout.ld");
        match std::fs::copy(&script, &copy) {
            Ok(_) => println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", copy.display()),
            Err(e) => {
                println!("cargo:warning={}: {e}; functions stay in the linker's order", script.display())
            }
        }
    }
    // For `cargo xtask layout`: which file each function comes from.
    println!("cargo:rerun-if-env-changed=PERILUNE_MAP");
    if let Some(map) = env::var_os("PERILUNE_MAP").filter(|map| !map.is_empty()) {
        println!("cargo:rustc-link-arg-bins=-Wl,-Map={}", Path::new(&map).display());
    }
    let here = set("HOST") == set("TARGET") && set("CARGO_CFG_TARGET_ENV") == "gnu";
    if here && glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    if here {
        link_unwinder(Path::new(&set("OUT_DIR")));
    }
}

/// Has the archive linked where the standard library asks for the shared library: the linker finds a script
/// under that library's name first.
fn link_unwinder(out: &Path) {
    let output = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    let Some(output) = output.ok().filter(|o| o.status.success()) else { return };
    let archive = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    // The name alone: there is none.
    if !Path::new(&archive).is_absolute() || archive.contains(char::is_whitespace) {
        return;
    }
    let folder = out.join("unwinder");
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(folder.join("libgcc_s.so"), format!("GROUP ( {archive} -lgcc )\n")));
    match written {
        Ok(()) => println!("cargo:rustc-link-search=native={}", folder.display()),
        Err(e) => println!("cargo:warning={}: {e}; the unwinder stays a shared library", folder.display()),
    }
}

/// Writes all annotations into one file, `luacats.lua`.
fn gather_annotations() {
    let set = |name: &str| env::var(name).unwrap_or_default();
    let folder = Path::new(&set("CARGO_MANIFEST_DIR")).join("../../docs/luacats");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .map(|all| all.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    files.sort();
    let text: String = files
        .iter()
        .map(|f| std::fs::read_to_string(f).unwrap_or_else(|e| panic!("{}: {e}", f.display())) + "\n")
        .collect();
    std::fs::write(Path::new(&set("OUT_DIR")).join("luacats.lua"), text).expect("OUT_DIR is writable");
}

/// What `--version` says: the commit (of PERILUNE_COMMIT where the sources are no checkout), the profile, the
/// target.
fn tell_version() {
    println!("cargo:rerun-if-env-changed=PERILUNE_COMMIT");
    let git = |words: &[&str]| {
        let output = Command::new("git").args(words).output().ok().filter(|o| o.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()).filter(|text| !text.is_empty())
    };
    // The log of HEAD grows with every commit and checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo:rerun-if-changed={log}");
    }
    let commit = env::var("PERILUNE_COMMIT").ok().filter(|c| !c.is_empty());
    let commit = commit.or_else(|| git(&["rev-parse", "--short=12", "HEAD"]));
    println!("cargo:rustc-env=PERILUNE_COMMIT={}", commit.as_deref().unwrap_or("not known"));
    // `target/PROFILE/build/...`: nothing else names a profile of our own.
    let out = env::var("OUT_DIR").unwrap_or_default();
    let mut parts = Path::new(&out).components().rev().skip_while(|part| part.as_os_str() != "build").skip(1);
    let profile = parts.next().map(|p| p.as_os_str().to_string_lossy().into_owned());
    println!("cargo:rustc-env=PERILUNE_PROFILE={}", profile.as_deref().unwrap_or("unknown"));
    println!("cargo:rustc-env=PERILUNE_TARGET={}", env::var("TARGET").unwrap_or_default());
}

/// The version of the C library that this script runs with.
#[cfg(target_env = "gnu")]
fn glibc() -> Option<(u32, u32)> {
    unsafe extern "C" {
        safe fn gnu_get_libc_version() -> *const std::ffi::c_char;
    }
    // SAFETY: the call returns a constant text that ends in a zero.
    let text = unsafe { std::ffi::CStr::from_ptr(gnu_get_libc_version()) };
    let mut parts = text.to_str().ok()?.split('.').map_while(|part| part.parse().ok());
    Some((parts.next()?, parts.next()?))
}

#[cfg(not(target_env = "gnu"))]
fn glibc() -> Option<(u32, u32)> {
    None
}
