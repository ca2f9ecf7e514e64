//! What was written is read back.

use super::*;
use crate::memory::{CodeMemory, Kind};
use perilune_test::Folder;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

fn code(memory: &Arc<CodeMemory>, bytes: &[u8]) -> Code {
    memory.install(bytes, Kind::Function).unwrap()
}

#[test]
fn formats_are_known_by_name() {
    assert_eq!("map".parse(), Ok(Format::Map));
    assert_eq!("jitdump".parse(), Ok(Format::Jitdump));
    let error = "1".parse::<Format>().unwrap_err();
    assert_eq!(error.to_string(), "'1' is no format for perf: map, lines and jitdump are");
}

#[test]
fn a_map_has_a_line_for_each_function() {
    let (folder, memory) = (Folder::new(), CodeMemory::reserve(64 << 10).unwrap());
    let perf = Perf::create_in(folder.path(), Format::Map).unwrap();
    let (first, second) = (code(&memory, &[0xC3; 20]), code(&memory, &[0xC3; 33]));
    perf.record(&first, "lua::f a.lua:3", Source::default()).unwrap();
    perf.record(&second, "g\nh", Source::default()).unwrap();
    assert_eq!(perf.path().file_name().unwrap(), format!("perf-{}.map", std::process::id()).as_str());
    let text = fs::read_to_string(perf.path()).unwrap();
    let expected = format!("{:x} 14 lua::f a.lua:3\n{:x} 21 g?h\n", first.address(), second.address());
    assert_eq!(text, expected);
}

#[test]
fn files_are_new_and_for_the_owner_only() {
    for format in [Format::Map, Format::Jitdump] {
        let folder = Folder::new();
        let path = Perf::create_in(folder.path(), format).unwrap().path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
        // What an earlier process of this number left is replaced, not continued.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "old").unwrap();
        let kept_open = File::open(&path).unwrap();
        Perf::create_in(folder.path(), format).unwrap();
        assert!(!fs::read(&path).unwrap().starts_with(b"old"));
        assert_eq!(io::read_to_string(kept_open).unwrap(), "old");
        // A link is not followed, nor replaced.
        fs::remove_file(&path).unwrap();
        let target = folder.join("target");
        fs::write(&target, "untouched").unwrap();
        std::os::unix::fs::symlink(&target, &path).unwrap();
        let error = Perf::create_in(folder.path(), format).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
    }
}

/// Reads integers and names off a slice.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (head, tail) = self.0.split_at(len);
        self.0 = tail;
        head
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take(4).try_into().unwrap())
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take(8).try_into().unwrap())
    }

    fn name(&mut self) -> &'a str {
        let len = self.0.iter().position(|&byte| byte == 0).unwrap();
        let name = str::from_utf8(self.take(len)).unwrap();
        self.take(1);
        name
    }

    /// Kind, time and body of the next record.
    fn record(&mut self) -> (u32, u64, Reader<'a>) {
        let (kind, len, time) = (self.u32(), self.u32(), self.u64());
        (kind, time, Reader(self.take(len as usize - 16)))
    }
}

#[test]
fn a_jitdump_has_bytes_names_and_lines() {
    let (folder, memory) = (Folder::new(), CodeMemory::reserve(64 << 10).unwrap());
    let perf = Perf::create_in(folder.path(), Format::Jitdump).unwrap();
    let path = perf.path().to_owned();
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mapped = maps.lines().find(|line| line.ends_with(path.to_str().unwrap())).unwrap();
    assert!(mapped.contains(" r-xp "), "{mapped}");
    let (first, second) = (code(&memory, &[0x90, 0x90, 0xC3]), code(&memory, &[0xC3]));
    perf.record(&first, "f", Source { file: "a.lua", lines: &[(0, 3), (2, 4)] }).unwrap();
    perf.record(&second, "g\0h", Source::default()).unwrap();
    drop(perf);

    let bytes = fs::read(&path).unwrap();
    let mut file = Reader(&bytes);
    assert_eq!(&bytes[..4], b"DTiJ", "little-endian");
    let header: [u32; 6] = std::array::from_fn(|_| file.u32());
    assert_eq!(header, [jitdump::MAGIC, 1, 40, 62, 0, std::process::id()]);
    let (start, flags) = (file.u64(), file.u64());
    assert_eq!((bytes.len() - file.0.len(), flags), (jitdump::HEADER_LEN as usize, 0));

    let (kind, time, mut body) = file.record();
    let address = first.address() as u64;
    assert_eq!((kind, body.u64(), body.u64()), (jitdump::DEBUG_INFO, address, 2));
    for (offset, line) in [(0, 3), (2, 4)] {
        assert_eq!((body.u64(), body.u32(), body.u32()), (address + offset, line, 0));
        assert_eq!(body.name(), "a.lua");
    }
    assert!(body.0.is_empty() && time >= start);

    for (index, (code, name)) in [(&first, "f"), (&second, "g?h")].into_iter().enumerate() {
        let (kind, later, mut body) = file.record();
        assert_eq!((kind, body.u32()), (jitdump::LOAD, std::process::id()));
        assert_ne!(body.u32(), 0);
        let (address, len) = (code.address() as u64, code.len() as u64);
        assert_eq!([body.u64(), body.u64(), body.u64(), body.u64()], [address, address, len, index as u64]);
        assert_eq!(body.name(), name);
        assert_eq!(body.0, code.bytes());
        assert!(later >= time);
    }
    let (kind, _, body) = file.record();
    assert_eq!((kind, body.0.len(), file.0.len()), (jitdump::CLOSE, 0, 0));
}

#[test]
fn an_error_ends_the_writing() {
    let (folder, memory) = (Folder::new(), CodeMemory::reserve(64 << 10).unwrap());
    let perf = Perf::create_in(folder.path(), Format::Map).unwrap();
    // A file that cannot be written to, in place of a full disk.
    *lock(&perf.output) = Some(Output::Map(File::open(perf.path()).unwrap()));
    let code = code(&memory, &[0xC3]);
    assert!(perf.record(&code, "f", Source::default()).is_err());
    assert!(perf.record(&code, "f", Source::default()).is_ok());
}

#[test]
fn a_child_of_a_fork_writes_nothing() {
    let (folder, memory) = (Folder::new(), CodeMemory::reserve(64 << 10).unwrap());
    let code = code(&memory, &[0xC3]);
    for format in [Format::Map, Format::Jitdump] {
        let perf = Perf::create_in(folder.path(), format).unwrap();
        let before = fs::read(perf.path()).unwrap();
        // SAFETY: the child records, drops and ends.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "{}", io::Error::last_os_error());
        if pid == 0 {
            let recorded = perf.record(&code, "f", Source::default()).is_ok();
            drop(perf);
            // SAFETY: ends the process.
            unsafe { libc::_exit(i32::from(recorded)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 1);
        assert_eq!(fs::read(perf.path()).unwrap(), before);
    }
}
