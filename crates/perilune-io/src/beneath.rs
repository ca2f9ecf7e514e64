//! Files below a folder, for servers: what a path leads to without leaving the folder, be it by `..` or by
//! symbolic links.
//!
//! The system resolves the path and sees to that itself (`RESOLVE_BENEATH`). It refuses more than has to be:
//! a link that says where it leads from the root on, and one that leaves the folder on its way back into it.
//! Where it refuses, or does not have the call, the real path is found first, which has no links, and then no
//! link is followed: whoever makes one meanwhile finds that it is not.

use crate::file::File;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, openat2};
use rustix::io::Errno;
use std::path::Path;
use std::sync::Arc;

const READ: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK);

/// Opens what `path` leads to below `folder`, for reading, with what the system knows of it.
///
/// # Errors
/// There is nothing, or it is not below the folder, or may not be read.
pub fn open(folder: &Path, path: &Path) -> Result<(Arc<File>, Stat), Errno> {
    let root = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let below = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let fd = match openat2(&root, below, READ, Mode::empty(), how) {
        Err(Errno::XDEV | Errno::AGAIN | Errno::NOSYS | Errno::PERM) => {
            by_real_path(root.as_fd(), folder, path)?
        }
        opened => opened?,
    };
    let stat = rustix::fs::fstat(&fd)?;
    let path = folder.join(path);
    let file = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => File::with(fd, path, false, true),
        _ => File::new(fd, path, false),
    };
    Ok((file, stat))
}

fn by_real_path(root: BorrowedFd<'_>, folder: &Path, path: &Path) -> Result<OwnedFd, Errno> {
    let real = |path: &Path| path.canonicalize().map_err(|error| crate::fs::errno(&error));
    let (folder, real) = (real(folder)?, real(&folder.join(path))?);
    let below = real.strip_prefix(folder).map_err(|_| Errno::XDEV)?;
    let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match openat2(root, below, READ, Mode::empty(), how) {
        // An old kernel, or one that is not allowed to.
        Err(Errno::NOSYS | Errno::PERM) => {
            rustix::fs::openat(root, below, READ | OFlags::NOFOLLOW, Mode::empty())
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perilune_test::Folder;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    fn contents(folder: &Path, path: &str) -> Result<String, Errno> {
        let (file, stat) = open(folder, Path::new(path))?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Ok("folder".into());
        }
        let fd = file.descriptor().expect("open").try_clone().expect("a copy");
        let mut text = String::new();
        std::fs::File::from(fd).read_to_string(&mut text).expect("read");
        assert_eq!(text.len() as i64, stat.st_size);
        Ok(text)
    }

    #[test]
    fn what_is_below_is_found_and_nothing_else() {
        let work = Folder::new();
        let at = |name: &str| work.join(name);
        let root = at("root");
        std::fs::create_dir_all(at("root/sub")).expect("made");
        std::fs::write(at("root/sub/a"), "a").expect("written");
        std::fs::write(at("outside"), "secret").expect("written");
        for (to, from) in [
            ("sub/a", "root/relative"),
            ("../sub/a", "root/sub/up"),
            ("../root/sub/a", "root/around"),
            ("sub", "root/folder"),
            ("../outside", "root/out"),
            ("/proc/self/exe", "root/elsewhere"),
            ("loop", "root/loop"),
            ("nowhere", "root/dangling"),
        ] {
            symlink(to, at(from)).expect("linked");
        }
        symlink(at("root/sub/a"), at("root/absolute")).expect("linked");
        symlink(at("outside"), at("root/out-absolute")).expect("linked");
        // The folder itself may be a link, as that to the newest of several.
        symlink("root", at("current")).expect("linked");
        for root in [&root, &at("current")] {
            for path in
                ["sub/a", "relative", "sub/up", "around", "absolute", "folder/a", "sub//a", "sub/../sub/a"]
            {
                assert_eq!(contents(root, path).as_deref(), Ok("a"), "{path}");
            }
            for path in ["", ".", "sub", "sub/", "folder"] {
                assert_eq!(contents(root, path).as_deref(), Ok("folder"), "{path}");
            }
            for path in [
                "out",
                "out-absolute",
                "elsewhere",
                "../outside",
                "/etc/passwd",
                "loop",
                "dangling",
                "sub/a/",
                "b",
            ] {
                assert!(contents(root, path).is_err(), "{path}");
            }
        }
        assert_eq!(contents(&at("none"), "a"), Err(Errno::NOENT));
        assert_eq!(contents(&at("outside"), ""), Err(Errno::NOTDIR));
    }

    #[test]
    fn without_the_call_it_is_the_same() {
        let work = Folder::new();
        let root = work.path().join("root");
        std::fs::create_dir(&root).expect("made");
        std::fs::write(root.join("a"), "a").expect("written");
        std::fs::write(work.path().join("outside"), "secret").expect("written");
        symlink("a", root.join("inner")).expect("linked");
        symlink("../outside", root.join("out")).expect("linked");
        let folder = std::fs::File::open(&root).expect("it is there");
        let found = |path: &str| by_real_path(folder.as_fd(), &root, Path::new(path)).map(drop);
        for path in ["a", "inner", ""] {
            assert_eq!(found(path), Ok(()), "{path}");
        }
        for path in ["out", "../outside", "b"] {
            assert!(found(path).is_err(), "{path}");
        }
    }
}
