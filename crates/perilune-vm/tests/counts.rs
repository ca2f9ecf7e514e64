//! Counts of shared objects of any kind are `SharedArc`s everywhere: any other type would free chains of
//! objects recursively (`src/shared/count.rs`).

use std::path::Path;

/// Calls `look` with every Rust file of the crates' sources.
fn sources(at: &Path, look: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(at).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            sources(&path, look);
        } else if path.extension().is_some_and(|e| e == "rs") {
            look(&path, &std::fs::read_to_string(&path).expect("a readable file"));
        }
    }
}

#[test]
fn no_other_type_counts_objects_of_any_kind() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(crates).expect("the folder of the crates") {
        let src = entry.expect("a readable folder").path().join("src");
        if src.is_dir() {
            sources(&src, &mut |path, text| {
                let erased = ["Arc<dyn SharedObject", "Box<dyn SharedObject", "Rc<dyn SharedObject"];
                if erased.iter().any(|e| text.contains(e)) {
                    found.push(path.to_owned());
                }
            });
        }
    }
    assert!(found.len() == 1 && found[0].ends_with("shared/count.rs"), "{found:?}");
}
