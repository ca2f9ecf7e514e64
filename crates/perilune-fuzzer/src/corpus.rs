//! The programs that mutations start from.

use std::path::{Path, PathBuf};

/// The folders of the project that hold Lua programs.
pub fn default_folders() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    ["tests/lua", "benches/programs", "examples"].iter().map(|dir| root.join(dir)).collect()
}

/// All `.lua` files below `folders`, in a fixed order; if there are none, a small program of our own.
pub fn load(folders: &[PathBuf]) -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for folder in folders {
        collect(folder, &mut files);
    }
    files.sort();
    let mut sources: Vec<Vec<u8>> = files.iter().filter_map(|path| std::fs::read(path).ok()).collect();
    if sources.is_empty() {
        sources.push(b"local t <const> = {1, x = 2} for k, v in pairs(t) do print(k, v) end\n".to_vec());
    }
    sources
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            collect(&path, into);
        } else if path.extension().is_some_and(|e| e == "lua") {
            into.push(path);
        }
    }
}
