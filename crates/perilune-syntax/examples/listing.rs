//! Prints the bytecode of a Lua file, as `luac -l` does.

fn main() {
    for path in std::env::args().skip(1) {
        let source = std::fs::read(&path).expect("the file can be read");
        match perilune_syntax::compile(&source, format!("@{path}").as_bytes()) {
            Ok(proto) => print!("{}", perilune_syntax::disasm::disassemble(&proto)),
            Err(error) => println!("{error}"),
        }
    }
}
