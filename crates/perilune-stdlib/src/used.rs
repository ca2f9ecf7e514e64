//! Which files a program looks at, told to whoever wants to know: `perilune test --watch`, and
//! `perilune build --trace`.
//!
//! One function for the whole process, since a program's domains are on any thread and share its files. It is
//! called where files are looked for and opened by name, also where there is none: a file that is missing now
//! may be there later. Without one it costs a load.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// What was done with a file. Names are as the program gave them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use<'a> {
    /// `require` has found a module in this file.
    Module {
        /// What `require` was given.
        name: &'a [u8],
        /// Where it was found.
        file: &'a [u8],
    },
    /// Lua code was looked for here, by `require`, `dofile` or `loadfile`.
    Code(&'a [u8]),
    /// It was opened to be read only, or `io.open` tried to.
    Read(&'a [u8]),
    /// It was opened to be written.
    Written(&'a [u8]),
    /// `pl.asset` was asked for it.
    Asset {
        /// What it was given.
        name: &'a [u8],
        /// Where that is.
        file: &'a [u8],
    },
}

static LISTENER: OnceLock<fn(Use)> = OnceLock::new();

/// Has `listener` told of every use from now on, on whatever thread it happens. The first one stays.
pub fn listen(listener: fn(Use)) {
    let _ = LISTENER.set(listener);
}

/// Tells of a use.
pub fn tell(used: Use) {
    if let Some(listener) = LISTENER.get() {
        listener(used);
    }
}

impl Use<'_> {
    /// The file's path from the root, whether there is one or not: programs may change the current folder.
    /// Links are followed where they lead somewhere.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let (Use::Module { file, .. }
        | Use::Code(file)
        | Use::Read(file)
        | Use::Written(file)
        | Use::Asset { file, .. }) = *self;
        whole(&PathBuf::from(OsStr::from_bytes(file)))
    }
}

/// A path from the root, of a file that need not be there.
#[must_use]
pub fn whole(file: &std::path::Path) -> PathBuf {
    if let Ok(path) = file.canonicalize() {
        return path;
    }
    // Its folder may be there; if not, what the name says has to do.
    match (file.parent(), file.file_name()) {
        (Some(folder), Some(name)) if folder != file => {
            let folder = if folder.as_os_str().is_empty() { std::path::Path::new(".") } else { folder };
            whole(folder).join(name)
        }
        _ => std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_what_is_there_and_of_what_is_not() {
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(Use::Code(b"./src/used.rs").path(), here.join("src/used.rs"));
        assert_eq!(Use::Read(b"src/../src/none.rs").path(), here.join("src/none.rs"));
        assert_eq!(Use::Read(b"none/at/all").path(), here.join("none/at/all"));
        assert_eq!(Use::Read(b"none").path(), here.join("none"));
        assert_eq!(Use::Read(b"/none/x").path(), PathBuf::from("/none/x"));
    }
}
