//! The program in an application's executable, as bytes.
//!
//! ```text
//! magic   entry*   checksum
//! entry:  kind (1: main, 2: module, 3: data)   name   file   contents     each a length of 8 bytes and so many bytes
//! ```
//!
//! The checksum (FNV-1a of all before it) finds executables that were cut off or damaged; it is no protection
//! against people who may write to the file, who could as well replace it.

use perilune_domain::bundle::{Bundle, Module};
use std::io;

const MAGIC: &[u8] = b"PLAPP 1\n";

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The script.
    Main = 1,
    /// What `require` finds.
    Module = 2,
    /// What `pl.asset` finds.
    Asset = 3,
}

/// A file of the program.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// What the program calls it.
    pub name: Vec<u8>,
    /// Where it came from, for messages.
    pub file: Vec<u8>,
    /// Its bytes.
    pub contents: Vec<u8>,
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// The bytes of a program.
pub fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for entry in entries {
        out.push(entry.kind as u8);
        for part in [&entry.name, &entry.file, &entry.contents] {
            out.extend_from_slice(&(part.len() as u64).to_le_bytes());
            out.extend_from_slice(part);
        }
    }
    let sum = checksum(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// The script and what belongs to it.
///
/// # Errors
/// The bytes are damaged.
pub fn decode(bytes: &[u8]) -> io::Result<(Module, Bundle)> {
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "it is damaged");
    let (all, sum) = bytes.split_last_chunk::<8>().ok_or_else(damaged)?;
    if checksum(all) != u64::from_le_bytes(*sum) {
        return Err(damaged());
    }
    let mut rest = all.strip_prefix(MAGIC).ok_or_else(damaged)?;
    let (mut main, mut bundle) = (None, Bundle::default());
    while let Some((kind, after)) = rest.split_first() {
        rest = after;
        let mut part = || {
            let (length, after) = rest.split_first_chunk::<8>()?;
            let (part, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            rest = after;
            Some(part.to_vec())
        };
        let (Some(name), Some(file), Some(text)) = (part(), part(), part()) else { return Err(damaged()) };
        match kind {
            1 => main = Some(Module { file, text }),
            2 => drop(bundle.modules.insert(name, Module { file, text })),
            3 => drop(bundle.assets.insert(name, text)),
            _ => return Err(damaged()),
        }
    }
    Ok((main.ok_or_else(damaged)?, bundle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_come_back_and_damage_is_found() {
        let entry = |kind, name: &str, contents: &[u8]| Entry {
            kind,
            name: name.into(),
            file: format!("{name}.lua").into(),
            contents: contents.into(),
        };
        let bytes = encode(&[
            entry(Kind::Main, "main", b"print(1)"),
            entry(Kind::Module, "a.b", b"return 1"),
            entry(Kind::Asset, "data/x", b"\0\xff"),
        ]);
        let (main, bundle) = decode(&bytes).unwrap();
        assert_eq!((&main.text[..], &main.file[..]), (&b"print(1)"[..], &b"main.lua"[..]));
        assert_eq!(bundle.modules[&b"a.b"[..]].text, b"return 1");
        assert_eq!(bundle.assets[&b"data/x"[..]], b"\0\xff");
        for n in 0..bytes.len() {
            assert!(decode(&bytes[..n]).is_err());
            let mut changed = bytes.clone();
            changed[n] ^= 1;
            assert!(decode(&changed).is_err());
        }
    }
}
