//! Archives whose bytes depend on nothing but the files in them.

use super::{Error, File};
use flate2::{Compression, GzBuilder};
use std::collections::BTreeSet;
use std::io::Write;

/// A `.tar.gz` of `files` in their order, with the folders that they lie in, all below `prefix` (which is
/// empty or ends in `/`).
pub fn tar_gz(prefix: &str, files: &[File], age: u64) -> Result<Vec<u8>, Error> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut folders = BTreeSet::new();
    for file in files {
        let path = format!("{prefix}{}", file.path);
        for (at, _) in path.match_indices('/') {
            let folder = &path[..=at];
            if folders.insert(folder.to_owned()) {
                tar.append_data(&mut header(tar::EntryType::Directory, 0o755, 0, age), folder, &[][..])?;
            }
        }
        let mut header = header(tar::EntryType::Regular, file.mode, file.bytes.len() as u64, age);
        tar.append_data(&mut header, path, file.bytes.as_slice())?;
    }
    gz(&tar.into_inner()?)
}

fn header(kind: tar::EntryType, mode: u32, size: u64, age: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(age);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// `bytes`, compressed. The header has neither a name nor a time.
pub fn gz(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let mut gz = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
    gz.write_all(bytes)?;
    Ok(gz.finish()?)
}
