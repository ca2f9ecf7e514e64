//! What the archives contain, and what the parts of a package look like.

use super::*;
use flate2::read::GzDecoder;
use std::collections::BTreeMap;
use std::io::Read;

/// The files of a `.tar.gz`, with their permissions.
fn unpacked(bytes: &[u8]) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut files = BTreeMap::new();
    let mut tar = tar::Archive::new(GzDecoder::new(bytes));
    for entry in tar.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        assert_eq!((entry.header().uid().unwrap(), entry.header().gid().unwrap()), (0, 0));
        if entry.header().entry_type().is_dir() {
            continue;
        }
        let path = entry.path().expect("a path").display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("bytes");
        files.insert(path, (entry.header().mode().expect("a mode"), bytes));
    }
    files
}

fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("perilune-dist-{name}-{}", std::process::id()))
}

/// Packs the command of the `fast` profile, which is built first if it is not there.
#[test]
fn archives_hold_what_is_installed() {
    let bin = peers::build("fast").expect("the command can be built");
    let out = folder("whole");
    let written = write(&bin, &out).expect("everything is written");
    assert_eq!(written.len(), 5, "{written:?}");
    let version = version(&bin).expect("a version");
    let root = format!("perilune-{version}-x86_64-linux");
    let read = |name: &str| std::fs::read(out.join(name)).expect(name);

    let main = unpacked(&read(&format!("{root}.tar.gz")));
    for (path, start) in [
        ("bin/perilune", "\x7fELF"),
        ("share/man/man1/perilune.1", ".TH PERILUNE 1"),
        ("share/bash-completion/completions/perilune", ""),
        ("share/zsh/site-functions/_perilune", "#compdef perilune"),
        ("share/fish/vendor_completions.d/perilune.fish", ""),
        ("share/perilune/luacats/perilune.lua", "---@meta perilune"),
        ("share/doc/perilune/LICENSE", "MIT License"),
    ] {
        let (mode, bytes) = main.get(&format!("{root}/{path}")).unwrap_or_else(|| panic!("{path}: {main:?}"));
        assert!(bytes.starts_with(start.as_bytes()) && !bytes.is_empty(), "{path}");
        assert_eq!(*mode, if path == "bin/perilune" { 0o755 } else { 0o644 }, "{path}");
    }

    // The command runs without its line tables, and they say to which command they belong.
    let stripped = &main[&format!("{root}/bin/perilune")].1;
    let debug = unpacked(&read(&format!("{root}-debug.tar.gz")));
    let tables = &debug[&format!("{root}/bin/perilune.debug")].1;
    let has = |bytes: &[u8], name: &[u8]| bytes.windows(name.len()).any(|w| w == name);
    assert!(has(tables, b".debug_line\0") && !has(stripped, b".debug_line\0"));
    assert!(has(stripped, b"perilune.debug\0") && has(stripped, b".gnu_debuglink\0"));
    assert!(stripped.len() < std::fs::metadata(&bin).expect("a file").len() as usize);
    let command = out.join("stripped");
    std::fs::write(&command, stripped).expect("a file");
    set_mode(&command, 0o755);
    assert_eq!(said(&command, &["-e", "print(6 * 7)"]).expect("it runs"), "42\n");

    deb_holds_the_same(&read(&format!("perilune_{version}_amd64.deb")), stripped, &version);

    let dockerfile = String::from_utf8(read("Dockerfile")).expect("text");
    assert!(dockerfile.contains(&format!("perilune_{version}_amd64.deb")) && !dockerfile.contains('@'));
    let sums = String::from_utf8(read("SHA256SUMS")).expect("text");
    let good =
        Command::new("sha256sum").args(["--check", "--quiet", "SHA256SUMS"]).current_dir(&out).status();
    assert!(good.expect("sha256sum").success(), "{sums}");
    assert_eq!(sums.lines().count(), 4);
    std::fs::remove_dir_all(&out).expect("a folder that can be removed");
}

fn set_mode(file: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).expect("permissions");
}

fn deb_holds_the_same(deb: &[u8], stripped: &[u8], version: &str) {
    let mut ar = ar::Archive::new(deb);
    let mut parts = Vec::new();
    while let Some(entry) = ar.next_entry() {
        let mut entry = entry.expect("an entry");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("bytes");
        parts.push((String::from_utf8(entry.header().identifier().to_vec()).expect("a name"), bytes));
    }
    let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["debian-binary", "control.tar.gz", "data.tar.gz"]);
    assert_eq!(parts[0].1, b"2.0\n");
    let control = String::from_utf8(unpacked(&parts[1].1)["control"].1.clone()).expect("text");
    assert!(control.contains(&format!("\nVersion: {version}\n")), "{control}");
    assert!(control.contains("\nDepends: libc6 (>= 2."), "{control}");
    assert!(control.lines().all(|l| l.starts_with(' ') || l.contains(": ")), "{control}");
    let data = unpacked(&parts[2].1);
    assert_eq!(data["usr/bin/perilune"].1, stripped);
    for path in ["man/man1/perilune.1.gz", "zsh/vendor-completions/_perilune", "doc/perilune/copyright"] {
        assert!(data.contains_key(&format!("usr/share/{path}")), "{path}: {:?}", data.keys());
    }
}

#[test]
fn the_same_files_give_the_same_bytes() {
    let file = File { path: "share/x".to_owned(), mode: 0o644, bytes: vec![7; 1000] };
    let once = archive::tar_gz("a/", std::slice::from_ref(&file), 5).expect("an archive");
    assert_eq!(once, archive::tar_gz("a/", &[file], 5).expect("an archive"));
}

#[test]
fn the_c_library_is_the_newest_that_is_named() {
    let bytes = b"..GLIBC_2.9\0GLIBC_2.34\0GLIBC_2.3.4\0GLIBC_PRIVATE\0GLIBC_2.2".to_vec();
    let file = File { path: "bin/perilune".to_owned(), mode: 0o755, bytes };
    assert_eq!(content::glibc(&[file]).as_deref(), Some("2.34"));
}

#[test]
fn the_unwinder_is_needed_by_a_command_that_names_it() {
    let command = |bytes: &[u8]| File { path: "bin/perilune".to_owned(), mode: 0o755, bytes: bytes.to_vec() };
    assert!(content::needs_unwinder(&[command(b"libc.so.6\0libgcc_s.so.1\0")]));
    assert!(!content::needs_unwinder(&[command(b"libc.so.6\0libm.so.6\0")]));
}

#[test]
fn a_command_that_cannot_be_asked_is_named() {
    let why = write(Path::new("/there/is/none"), &folder("none")).expect_err("there is none").to_string();
    assert!(why.starts_with("/there/is/none: "), "{why}");
    let _ = std::fs::remove_dir_all(folder("none"));
}
