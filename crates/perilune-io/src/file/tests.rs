//! Files: modes, writes that go at once or in pieces, and the pace of devices.

use super::*;

#[test]
fn modes_are_those_of_io_open() {
    assert_eq!(flags_of(b"r"), Some(OFlags::RDONLY | OFlags::CLOEXEC));
    assert_eq!(flags_of(b"rb+"), Some(OFlags::RDWR | OFlags::CLOEXEC));
    assert_eq!(
        flags_of(b"wx"),
        Some(OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::EXCL | OFlags::CLOEXEC)
    );
    assert_eq!(flags_of(b"a+"), Some(OFlags::RDWR | OFlags::CREATE | OFlags::APPEND | OFlags::CLOEXEC));
    for bad in [&b""[..], b"x", b"rw", b"r++", b"rx", b"w b"] {
        assert_eq!(flags_of(bad), None, "{bad:?}");
    }
}

/// A new file whose device is one that nobody knows.
fn scratch(folder: &perilune_test::Folder, appends: bool) -> (Arc<File>, &'static Pace) {
    let path = folder.join("scratch");
    let mut flags = OFlags::CREATE | OFlags::TRUNC | OFlags::RDWR | OFlags::CLOEXEC;
    flags.set(OFlags::APPEND, appends);
    let fd = rustix::fs::open(&path, flags, Mode::from_raw_mode(0o600)).expect("it is made");
    let file = File::new(fd, path, appends);
    let pace = *file.pace.get_or_init(|| Box::leak(Box::new(Pace::new())));
    (file, pace)
}

fn contents(file: &File) -> Vec<u8> {
    std::fs::read(&file.path).expect("it is there")
}

fn trust(pace: &Pace) {
    // One during which the processor was somebody else's has to be made good.
    while !pace.is_trusted() {
        pace.patiently(|| ());
    }
}

#[test]
fn what_a_device_takes_quickly_is_written_at_once_and_nothing_else() {
    let folder = perilune_test::Folder::new();
    let (file, pace) = scratch(&folder, false);
    assert!(file.write_now(None, b"nobody knows it").is_none());
    assert_eq!((contents(&file), file.state.lock().position), (vec![], 0), "it has taken no place");
    file.write(None, b"one ").expect("a helper writes");
    trust(pace);
    assert!(file.write_now(None, b"two").expect("at once").is_ok());
    assert_eq!(file.state.lock().position, 7);
    trust(pace);
    assert!(file.write_now(Some(0), b"O").expect("at once").is_ok());
    assert_eq!((contents(&file), file.state.lock().position), (b"One two".to_vec(), 7));
    trust(pace);
    assert!(file.write_now(None, &vec![b'x'; pace::LARGEST + 1]).is_none(), "that is much");
    file.fd.lock().take();
    assert!(file.write_now(None, b"closed").is_none());
    assert!(matches!(file.write(None, b"closed"), Err(Failure::Closed)));
    assert_eq!(contents(&file), b"One two");
}

#[test]
fn long_writes_have_one_place_and_go_in_pieces() {
    let folder = perilune_test::Folder::new();
    for appends in [false, true] {
        let (file, _) = scratch(&folder, appends);
        let text: Vec<u8> = (0..3 * pace::LARGEST + 17).map(|n| (n % 251) as u8).collect();
        file.write(None, b"begin").expect("written");
        file.write(None, &text).expect("written");
        assert!(contents(&file) == [b"begin", &text[..]].concat(), "appends: {appends}");
    }
}

#[test]
fn what_has_no_position_is_never_written_at_once() {
    let (_reader, writer) = rustix::pipe::pipe().expect("a pipe");
    let file = File::new(writer, "pipe".into(), false);
    assert!(file.write_now(None, b"x").is_none());
    assert!(file.pace.get().is_none());
}
