//! A temporary folder with files.

use std::path::{Path, PathBuf};

/// A folder of its own for one test, with a name that no other has; removed at the end, also when the test
/// fails.
///
/// `PERILUNE_KEEP=1` leaves it where it is and says where, so that one can look at it.
#[derive(Debug)]
pub struct Folder(tempfile::TempDir);

impl Folder {
    /// An empty folder.
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "a value that makes a folder is nobody's default")]
    pub fn new() -> Folder {
        let mut made = tempfile::Builder::new().prefix("perilune-").tempdir().expect("a temporary folder");
        if std::env::var_os("PERILUNE_KEEP").is_some_and(|v| v == "1") {
            made.disable_cleanup(true);
            eprintln!("kept: {}", made.path().display());
        }
        Folder(made)
    }

    /// A folder with files: names, which may lead through folders, and texts.
    #[track_caller]
    pub fn with<N: AsRef<Path>, T: AsRef<[u8]>>(files: impl IntoIterator<Item = (N, T)>) -> Folder {
        let folder = Folder::new();
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Where something in it is, or would be.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Writes a file, in folders that are made if they are missing; where it is.
    #[track_caller]
    pub fn write(&self, name: impl AsRef<Path>, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        let folder = path.parent().expect("a file in the folder");
        std::fs::create_dir_all(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        std::fs::write(&path, text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        path
    }

    /// What a file holds.
    #[track_caller]
    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let path = self.join(name);
        std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// The same as text.
    #[track_caller]
    pub fn text(&self, name: impl AsRef<Path>) -> String {
        crate::text(&self.read(name))
    }

    /// Copies a folder's files and folders into this one.
    #[track_caller]
    pub fn copy(&self, from: &Path) {
        copy(from, self.path()).unwrap_or_else(|e| panic!("{}: {e}", from.display()));
    }
}

impl AsRef<Path> for Folder {
    fn as_ref(&self) -> &Path {
        self.path()
    }
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_apart_and_go_away() {
        let (a, b) = (Folder::with([("x/y.lua", "print(1)")]), Folder::new());
        assert_ne!(a.path(), b.path());
        assert_eq!(a.text("x/y.lua"), "print(1)");
        b.copy(a.path());
        assert_eq!(b.read("x/y.lua"), b"print(1)");
        let (place, other) = (a.path().to_owned(), b.path().to_owned());
        drop(a);
        assert!(!place.exists() && other.exists());
    }
}
