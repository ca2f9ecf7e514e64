//! Parses every file of Lua's own test suite, which is not part of this repository: `LUA_TESTES` names its
//! folder, and without it there is nothing to do here.

use perilune_syntax::parse;
use std::path::Path;

fn check(folder: &Path, found: &mut Vec<String>) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            count += check(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "lua") {
            let mut source = std::fs::read(&path).unwrap();
            if source.first() == Some(&b'#') {
                let end = source.iter().position(|&b| b == b'\n').unwrap_or(source.len());
                source.drain(..end);
            }
            let name = format!("@{}", path.display());
            if let Err(error) = parse(&source, name.as_bytes()) {
                found.push(error.to_string());
            }
            count += 1;
        }
    }
    count
}

#[test]
fn parses_the_suite_of_puc() {
    let Some(folder) = std::env::var_os("LUA_TESTES") else { return };
    let mut errors = Vec::new();
    let count = check(Path::new(&folder), &mut errors);
    assert!(count >= 30, "only {count} files in {folder:?}");
    assert!(errors.is_empty(), "{errors:#?}");
}
