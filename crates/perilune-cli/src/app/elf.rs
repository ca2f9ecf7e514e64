//! As much of ELF (64 bits, little-endian) as it takes to add a section to a file and to find it again.
//!
//! A new section goes to the end of the file, behind it the names of sections and the table of sections anew;
//! what was there stays where it is, so nothing that is loaded moves. Crates that write ELF lay files out
//! anew, which is more than is wanted, and more than this page.

use std::io;

const HEADER: usize = 64;
const ENTRY: usize = 64;
/// Sections that a file may have; ours have some forty.
const MOST_SECTIONS: u64 = 4096;

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    bytes[at..at + size].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
}

fn put(bytes: &mut [u8], at: usize, size: usize, n: u64) {
    bytes[at..at + size].copy_from_slice(&n.to_le_bytes()[..size]);
}

/// What the file's header says of sections: where the table is, how many there are, which has the names.
fn table(header: &[u8]) -> io::Result<(u64, u64, u64)> {
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Err(broken("it is no ELF file of 64 bits"));
    }
    let (at, size, count) = (number(header, 0x28, 8), number(header, 0x3a, 2), number(header, 0x3c, 2));
    let names = number(header, 0x3e, 2);
    if at == 0 || size != ENTRY as u64 || count == 0 || count > MOST_SECTIONS || names >= count {
        return Err(broken("it has no table of sections"));
    }
    Ok((at, count, names))
}

/// The file with one more section.
///
/// # Errors
/// It is no such file.
pub fn add(file: &[u8], name: &str, contents: &[u8]) -> io::Result<Vec<u8>> {
    let header = file.get(..HEADER).ok_or_else(|| broken("it is too short"))?;
    let (at, count, names) = table(header)?;
    let length = ENTRY * count as usize;
    let table = usize::try_from(at).ok().and_then(|at| file.get(at..at.checked_add(length)?));
    let mut table = table.ok_or_else(|| broken("its table of sections is not all there"))?.to_vec();
    let names = ENTRY * names as usize;
    let (from, size) = (number(&table, names + 0x18, 8) as usize, number(&table, names + 0x20, 8) as usize);
    let strings = from.checked_add(size).and_then(|end| file.get(from..end));
    let mut strings = strings.ok_or_else(|| broken("its names of sections are not all there"))?.to_vec();
    let mut out = file.to_vec();
    let align = |out: &mut Vec<u8>| out.resize(out.len().next_multiple_of(16), 0);
    align(&mut out);
    let mut entry = [0; ENTRY];
    put(&mut entry, 0x00, 4, strings.len() as u64);
    // SHT_PROGBITS: contents that are the program's affair.
    put(&mut entry, 0x04, 4, 1);
    put(&mut entry, 0x18, 8, out.len() as u64);
    put(&mut entry, 0x20, 8, contents.len() as u64);
    put(&mut entry, 0x30, 8, 16);
    out.extend_from_slice(contents);
    strings.extend_from_slice(name.as_bytes());
    strings.push(0);
    put(&mut table, names + 0x18, 8, out.len() as u64);
    put(&mut table, names + 0x20, 8, strings.len() as u64);
    out.extend_from_slice(&strings);
    align(&mut out);
    let at = out.len() as u64;
    out.extend_from_slice(&table);
    out.extend_from_slice(&entry);
    put(&mut out, 0x28, 8, at);
    put(&mut out, 0x3c, 2, count + 1);
    Ok(out)
}

/// Where a section's contents are, and how many bytes; `read` fills a buffer from an offset of the file.
///
/// # Errors
/// It is no such file, or has no such section; those of `read`.
pub fn find(read: &dyn Fn(u64, &mut [u8]) -> io::Result<()>, name: &str) -> io::Result<(u64, u64)> {
    let mut header = [0; HEADER];
    read(0, &mut header)?;
    let (at, count, names) = table(&header)?;
    let mut table = vec![0; ENTRY * count as usize];
    read(at, &mut table)?;
    let names = ENTRY * names as usize;
    let strings = number(&table, names + 0x18, 8);
    for entry in table.chunks_exact(ENTRY) {
        let mut found = vec![0; name.len() + 1];
        let place = strings.saturating_add(number(entry, 0, 4));
        // The last name of the file may be shorter than the one that is looked for.
        if read(place, &mut found).is_ok()
            && found[..name.len()] == *name.as_bytes()
            && found[name.len()] == 0
        {
            return Ok((number(entry, 0x18, 8), number(entry, 0x20, 8)));
        }
    }
    Err(broken("it has been cut off"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(file: &[u8]) -> impl Fn(u64, &mut [u8]) -> io::Result<()> {
        move |at, bytes: &mut [u8]| {
            let from = file.get(at as usize..).and_then(|rest| rest.get(..bytes.len()));
            bytes.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
            Ok(())
        }
    }

    #[test]
    fn what_is_added_is_found() {
        let us = std::fs::read("/proc/self/exe").unwrap();
        let added = add(&us, ".ours", b"some contents").unwrap();
        assert_eq!(added[HEADER..us.len()], us[HEADER..]);
        let (at, size) = find(&reader(&added), ".ours").unwrap();
        assert_eq!(&added[at as usize..(at + size) as usize], b"some contents");
        assert!(find(&reader(&us), ".ours").is_err());
        assert!(find(&reader(&added), ".text").is_ok() && find(&reader(&added), ".our").is_err());
        // Another one beside it.
        let twice = add(&added, ".more", b"x").unwrap();
        assert_eq!(find(&reader(&twice), ".ours").unwrap(), (at, size));
    }

    #[test]
    fn files_that_are_none() {
        assert!(add(b"", ".x", b"").is_err() && add(&[0; 100], ".x", b"").is_err());
        let mut lies = std::fs::read("/proc/self/exe").unwrap();
        put(&mut lies, 0x28, 8, u64::MAX - 3);
        assert!(add(&lies, ".x", b"").is_err() && find(&reader(&lies), ".x").is_err());
    }
}
