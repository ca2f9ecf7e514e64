//! Golden tests of the compiler: each `tests/golden/*.lua` compiles to the listing in the `.bc` file beside
//! it.
//!
//! `PERILUNE_BLESS=1` writes the listings instead of comparing them; look at the difference before committing
//! it.

use perilune_syntax::{compile, disasm::disassemble, verify::verify};
use std::path::Path;

#[test]
fn bytecode_is_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bless = std::env::var_os("PERILUNE_BLESS").is_some_and(|v| v == "1");
    let mut wrong = Vec::new();
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of golden files") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "lua") {
            continue;
        }
        seen += 1;
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        let source = std::fs::read(&path).expect("a golden source");
        let proto = compile(&source, format!("@{name}").as_bytes()).expect("golden sources compile");
        verify(&proto).unwrap_or_else(|what| panic!("{name}: {what}"));
        let listing = disassemble(&proto);
        let recorded = path.with_extension("bc");
        if bless {
            std::fs::write(recorded, listing).expect("a golden listing can be written");
        } else if std::fs::read_to_string(recorded).ok().as_deref() != Some(&listing) {
            wrong.push(format!("{name} now compiles to:\n{listing}"));
        }
    }
    assert!(seen > 0, "no golden files");
    assert!(wrong.is_empty(), "{}\nPERILUNE_BLESS=1 records it", wrong.join("\n"));
}
