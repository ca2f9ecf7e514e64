//! What a supervisor (systemd, or who speaks as it does) gives a service, and what it wants to hear.
//!
//! * `net.inherited()`: the listeners that were opened before the service began, which therefore miss no
//!   client while it restarts, and need no rights to be opened. They are the descriptors from 3 on;
//!   `LISTEN_FDS` says how many, `LISTEN_PID` for whom, `LISTEN_FDNAMES` what they are called. They are taken
//!   once.
//! * `net.notify(text)`: a line such as `READY=1` to the socket that `NOTIFY_SOCKET` names.
//!
//! Rejected: `net.listen{fd = n}`, as a program could make a listener of a descriptor that is somebody else's
//! in this process.

use crate::address;
use crate::failure::Failure;
use crate::listener;
use perilune_domain::surplus::{self, Limit};
use perilune_vm::{LuaResult, Native, Value, Vm};
use rustix::fd::{FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sendto, socket_with};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};

/// The first descriptor that is given.
const FIRST: i32 = 3;
/// More than that were never given.
const MOST: i32 = 1024;

/// They have been taken.
static TAKEN: AtomicBool = AtomicBool::new(false);

fn number(name: &str) -> Option<i32> {
    std::env::var(name).ok()?.parse().ok()
}

/// The descriptors that are given to this process, with their names; once.
fn given() -> Vec<(OwnedFd, String)> {
    let is_ours = number("LISTEN_PID").is_some_and(|pid| u32::try_from(pid) == Ok(std::process::id()));
    let count = number("LISTEN_FDS").unwrap_or(0).clamp(0, MOST);
    if !is_ours || TAKEN.swap(true, Ordering::AcqRel) {
        return Vec::new();
    }
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    (FIRST..FIRST + count)
        .map(|n| {
            // SAFETY: who started this process says that these descriptors are for it, and it was asked for
            // the first time: nobody here owns them.
            let fd = unsafe { OwnedFd::from_raw_fd(n) };
            (fd, names.next().unwrap_or_default().to_owned())
        })
        .collect()
}

/// `net.inherited()`: a list of listeners, which are there by their names, too.
pub static INHERITED: Native = Native::leaf("inherited", |vm| {
    surplus::none_behind(vm, 0, Limit::Own)?;
    let mut listeners = Vec::new();
    for (n, (fd, name)) in given().into_iter().enumerate() {
        match listener::inherited(fd) {
            Ok(listener) => listeners.push((listener, name)),
            Err(error) => {
                let what =
                    format!("descriptor {} that was given is no socket that listens", FIRST + n as i32);
                return Failure::from(error).of(|| what).ret(vm);
            }
        }
    }
    let list = vm.new_table(listeners.len(), listeners.len())?;
    vm.push(list.into());
    for (n, (listener, name)) in listeners.into_iter().enumerate() {
        let listener: Value = vm.shared_ref(listener).into();
        vm.raw_set_int(list, n as i64 + 1, listener)?;
        if !name.is_empty() {
            vm.set_field(list, &name, listener)?;
        }
    }
    Ok(1)
});

/// `net.notify(text)`: true: it was sent; false: nobody wants to hear.
pub static NOTIFY: Native = Native::leaf("notify", |vm| {
    surplus::none_behind(vm, 1, Limit::Own)?;
    let text = vm.check_str(1)?.bytes().to_vec();
    if text.is_empty() {
        return Err(vm.arg_error(1, "a notice must not be empty: 'READY=1', say"));
    }
    let Some(place) = std::env::var_os("NOTIFY_SOCKET").filter(|place| !place.is_empty()) else {
        return vm.ret(false);
    };
    match notify(place.as_bytes(), &text) {
        Ok(()) => vm.ret(true),
        Err(error) => unheard(vm, error),
    }
});

fn notify(place: &[u8], text: &[u8]) -> Result<(), Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    sendto(&socket, text, SendFlags::NOSIGNAL, &address::unix(place)?).map(|_| ())
}

fn unheard(vm: &mut Vm, error: Errno) -> LuaResult<u32> {
    Failure::from(error).of(|| "cannot notify the supervisor".into()).ret(vm)
}
