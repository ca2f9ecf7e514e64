//! Has the linker put the functions that programs run side by side: `layout.ld`, written by `cargo xtask
//! layout`, which says why.
//!
//! The file is an addition to the linker's own script, as GNU ld and LLVM's lld take it. A linker that takes
//! none (mold, gold) is known only by the flags that choose it; where one is chosen, or `PERILUNE_LAYOUT=0` is
//! set, the executable is laid out as it comes.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo:rerun-if-changed=layout.ld");
    println!("cargo:rerun-if-env-changed=PERILUNE_LAYOUT");
    let set = |name: &str| env::var(name).unwrap_or_default();
    let flags = set("CARGO_ENCODED_RUSTFLAGS");
    let other_linker = ["mold", "gold"].iter().any(|l| flags.contains(l) || set("RUSTC_LINKER").contains(l));
    let elf = set("CARGO_CFG_TARGET_OS") == "linux";
    if elf && !other_linker && set("PERILUNE_LAYOUT") != "0" && set("PROFILE") == "release" {
        let script = Path::new(&set("CARGO_MANIFEST_DIR")).join("layout.ld");
        println!("cargo:rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
}
