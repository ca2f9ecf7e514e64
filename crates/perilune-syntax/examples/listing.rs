//! Prints the bytecode of Lua files, as `luac -l` does.

use perilune_syntax::{compile, disasm::disassemble};

fn main() {
    for path in std::env::args().skip(1) {
        let source = match std::fs::read(&path) {
            Ok(source) => source,
            Err(error) => {
                eprintln!("{path}: {error}");
                continue;
            }
        };
        match compile(&source, format!("@{path}").as_bytes()) {
            Ok(proto) => print!("{}", disassemble(&proto)),
            Err(error) => eprintln!("{error}"),
        }
    }
}
