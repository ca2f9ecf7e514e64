//! The smallest user of machine code: a function that returns 42, compiled, installed, and called. What it
//! adds to an executable is the difference between a build with default features and one without
//! (`docs/spesh.md`).

#[cfg(machine_code)]
fn answer() -> Result<i64, Box<dyn std::error::Error>> {
    use perilune_spesh::backend::{Backend, Options};
    use perilune_spesh::memory::{CodeMemory, Kind};
    use perilune_spesh::ssa::{Convention, Signature, Type};

    let mut signature = Signature::new(Convention::C);
    signature.returns.push(Type::I64);
    let compiled = Backend::new(Options::default())?.compile(signature, |builder| {
        let block = builder.create_block();
        builder.switch_to_block(block);
        builder.seal_block(block);
        let value = builder.iconst(Type::I64, 42);
        builder.return_(&[value]);
    })?;
    let code = CodeMemory::reserve(64 << 10)?.install(&compiled.bytes, Kind::Function)?;
    // SAFETY: the code is a function of this signature, and is never freed.
    let f: extern "C" fn() -> i64 = unsafe { std::mem::transmute(code.address()) };
    Ok(f())
}

#[cfg(not(machine_code))]
fn answer() -> Result<i64, Box<dyn std::error::Error>> {
    Err("this build makes no machine code".into())
}

fn main() {
    match answer() {
        Ok(answer) => println!("{answer}"),
        Err(error) => println!("{error}"),
    }
}
