//! What the system shows of the mappings, exhaustion, forks. The code is written by hand, so that these tests
//! need no compiler.

use super::*;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const REGION: usize = 1 << 20;

/// `mov eax, n; ret`
fn constant(n: i32) -> Vec<u8> {
    [&[0xB8], &n.to_le_bytes()[..], &[0xC3]].concat()
}

fn call(address: usize) -> i32 {
    // SAFETY: callers pass the address of code from `constant`.
    let f: extern "C" fn() -> i32 = unsafe { std::mem::transmute(address) };
    f()
}

fn install(memory: &Arc<CodeMemory>, n: i32) -> Code {
    memory.install(&constant(n), Kind::Function).unwrap()
}

fn free(code: Code) {
    // SAFETY: tests call code only while they have it.
    unsafe { code.free() }
}

/// Frees code of a region that no child runs, though other tests may be forking just now.
pub(crate) fn free_at_once(code: Code) {
    let Code { span, memory, .. } = code;
    ManuallyDrop::into_inner(memory).put_back(span, false);
}

/// The permissions of the mapping at `address`, as the kernel tells them ("r-xs").
fn permissions(address: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(from) <= address && address < number(to)).then(|| rest[..4].to_owned())
    })
}

#[test]
fn no_address_is_writable_and_executable() {
    let memory = CodeMemory::reserve(REGION).unwrap();
    let code = install(&memory, 7);
    assert_eq!(call(code.address()), 7);
    assert_eq!(permissions(code.address()).as_deref(), Some("r-xs"));
    assert_eq!(permissions(memory.views.writable()).as_deref(), Some("rw-s"));
    assert_ne!(memory.views.writable(), memory.views.executable());
    assert_eq!(memory.range(), memory.views.executable()..memory.views.executable() + REGION);
}

#[test]
fn code_lies_where_its_kind_wants_it_and_traps_around_it() {
    let memory = CodeMemory::reserve(REGION).unwrap();
    let stub = memory.install(&[0xC3], Kind::Stub).unwrap();
    let function = install(&memory, 1);
    assert!(stub.address().is_multiple_of(16) && function.address().is_multiple_of(32));
    assert_eq!((function.len(), function.is_empty()), (6, false));
    let at = |address: usize| {
        // SAFETY: the executable view can be read.
        unsafe { *(address as *const u8) }
    };
    assert_eq!((at(function.range().end), at(function.range().end + 9)), (target::TRAP, target::TRAP));
    let address = function.address();
    free_at_once(function);
    assert_eq!(at(address), target::TRAP);
    assert_eq!(install(&memory, 2).address(), address);
}

#[test]
fn a_full_region_says_so_and_has_room_again() {
    let memory = CodeMemory::reserve(64 << 10).unwrap();
    let mut pieces: Vec<Code> = Vec::new();
    let error = loop {
        match memory.install(&vec![0x90; 1000], Kind::Function) {
            Ok(code) => pieces.push(code),
            Err(error) => break error,
        }
    };
    // 1000 bytes are 63 granules, and functions begin at every second one.
    assert_eq!(pieces.len(), 64);
    assert_eq!(error, InstallError::Full { wanted: 1000, largest: 16 });
    assert_eq!(memory.status(), "63 KiB of 64 KiB in 64 pieces");
    free_at_once(pieces.swap_remove(10));
    assert!(memory.install(&vec![0x90; 1000], Kind::Function).is_ok());
    pieces.into_iter().for_each(free);
    let huge = memory.install(&vec![0x90; 65 << 10], Kind::Stub).unwrap_err();
    assert!(matches!(huge, InstallError::Full { .. }));
}

/// The resident memory of the mapping that begins at `base`, in KiB.
fn resident(base: usize) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let from = maps.find(&format!("{base:x}-")).unwrap();
    let rss = maps[from..].lines().find_map(|line| line.strip_prefix("Rss:")).unwrap();
    rss.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn memory_of_large_free_parts_goes_back_to_the_system() {
    let memory = CodeMemory::reserve(REGION).unwrap();
    let first = install(&memory, 1);
    let large = memory.install(&vec![0x90; 512 << 10], Kind::Function).unwrap();
    let last = install(&memory, 2);
    assert_eq!(memory.trim(), 0);
    let before = resident(memory.views.writable());
    assert!(before >= 512, "{before}");
    free_at_once(large);
    // All pages but those that the neighbours have a part in.
    assert_eq!(memory.trim(), (512 << 10) - 4096);
    assert!(resident(memory.views.writable()) <= before - 508);
    assert_eq!((call(first.address()), call(last.address())), (1, 2));
    assert_eq!(memory.install(&vec![0xC3; 512 << 10], Kind::Function).unwrap().bytes()[9], 0xC3);
}

#[test]
fn a_region_goes_when_nothing_is_in_it() {
    let memory = CodeMemory::reserve(REGION).unwrap();
    let (kept, freed) = (install(&memory, 1), install(&memory, 2));
    let memory_alive = Arc::downgrade(&memory);
    free(freed);
    drop(memory);
    // A `Code` that is forgotten, as all are that are not freed, keeps the region: somebody may be in it.
    let Code { start: address, .. } = kept;
    assert!(memory_alive.upgrade().is_some());
    assert_eq!(call(address), 1);

    let memory = CodeMemory::reserve(REGION).unwrap();
    let memory_alive = Arc::downgrade(&memory);
    free(install(&memory, 3));
    drop(memory);
    assert!(memory_alive.upgrade().is_none());
}

#[test]
fn what_is_freed_while_a_child_has_no_copy_is_held_back() {
    let memory = CodeMemory::reserve(64 << 10).unwrap();
    let first = install(&memory, 1);
    let address = first.address();
    let Code { span, memory: owner, .. } = first;
    drop(ManuallyDrop::into_inner(owner));
    memory.put_back(span, true);
    assert_eq!(memory.usage().unwrap().held_back, 16);
    // Neither overwritten nor used again.
    assert_eq!(call(address), 1);
    let other = memory.take(6, Kind::Function, true).unwrap();
    assert_ne!(memory.views.executable() + other.start() as usize, address);
    assert_eq!(call(address), 1);
    // The child has its copies.
    let again = memory.take(6, Kind::Function, false).unwrap();
    assert_eq!(memory.views.executable() + again.start() as usize, address);
    assert_eq!(memory.usage().unwrap().held_back, 0);
}

/// Runs `f` in a child of a fork, and waits. The child's exit code is what `f` returns.
///
/// `f` must do without what other threads of the test may have locked.
fn in_child(f: impl FnOnce() -> i32) -> Child {
    // SAFETY: the child runs `f` only, and ends without destructors or exit handlers.
    match unsafe { libc::fork() } {
        0 => {
            let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).unwrap_or(101);
            // SAFETY: ends the process.
            unsafe { libc::_exit(code) }
        }
        pid => {
            assert!(pid > 0, "{}", std::io::Error::last_os_error());
            Child(pid)
        }
    }
}

struct Child(libc::pid_t);

impl Child {
    fn exit_code(self) -> i32 {
        let mut status = 0;
        // SAFETY: waits for a child of ours.
        assert_eq!(unsafe { libc::waitpid(self.0, &raw mut status, 0) }, self.0);
        assert!(libc::WIFEXITED(status), "the child was killed by signal {}", libc::WTERMSIG(status));
        libc::WEXITSTATUS(status)
    }
}

/// A pipe: the end to wait at, the end to close.
fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: two descriptors are written; whoever gets them owns them.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

fn signal(end: &OwnedFd) {
    // SAFETY: writes one byte from a literal.
    unsafe { libc::write(end.as_raw_fd(), b"!".as_ptr().cast(), 1) };
}

fn wait_for(end: &OwnedFd) {
    let mut byte = 0u8;
    // SAFETY: reads one byte into a variable.
    unsafe { libc::read(end.as_raw_fd(), (&raw mut byte).cast(), 1) };
}

#[test]
fn a_child_runs_what_it_inherited_whatever_the_parent_does_to_it() {
    let memory = CodeMemory::reserve(REGION).unwrap();
    let code = install(&memory, 1);
    let address = code.address();
    let (changed, tell) = pipe();
    let child = in_child(|| {
        wait_for(&changed);
        call(address)
    });
    free(code);
    // Other code comes to the same place as soon as the child has its copy; children of other tests count,
    // too.
    let other = loop {
        let code = install(&memory, 2);
        if code.address() == address {
            break code;
        }
        free(code);
        std::thread::sleep(std::time::Duration::from_millis(1));
    };
    assert_eq!(call(address), 2);
    signal(&tell);
    assert_eq!(child.exit_code(), 1);
    free(other);
}

#[test]
fn a_child_installs_and_frees_nothing_and_has_no_writable_view() {
    let memory = CodeMemory::reserve(REGION).unwrap();
    let (code, doomed) = (install(&memory, 1), install(&memory, 2));
    let (address, doomed_address) = (code.address(), doomed.address());
    let writable = memory.views.writable();
    let child = in_child(|| {
        let refused = memory.install(&constant(3), Kind::Function).err();
        free(doomed);
        let intact = call(address) == 1 && call(doomed_address) == 2;
        // SAFETY: asks whether the page is mapped; ENOMEM says that it is not.
        let gone = unsafe { libc::msync(writable as *mut libc::c_void, 4096, libc::MS_ASYNC) } == -1;
        let silent = memory.usage().is_none() && permissions(address).as_deref() == Some("r-xp");
        // A grandchild is a child of a child, with private memory as all memory is.
        let grandchild = in_child(|| call(address) + i32::from(Lineage::current() == memory.lineage));
        let ok = refused == Some(InstallError::Inherited) && intact && gone && silent;
        i32::from(ok && grandchild.exit_code() == 1)
    });
    assert_eq!(child.exit_code(), 1);
    assert!(permissions(writable).is_some() && call(address) == 1);
}

#[test]
fn a_child_can_have_code_memory_of_its_own() {
    let inherited = CodeMemory::reserve(REGION).unwrap();
    let child = in_child(|| {
        let Ok(memory) = CodeMemory::reserve(REGION) else { return 100 };
        let code = install(&memory, 5);
        let own = call(code.address());
        free(code);
        // It is a parent like others now.
        let code = install(&memory, 6);
        let grandchild = in_child(|| call(code.address())).exit_code();
        own * 10 + grandchild
    });
    assert_eq!(child.exit_code(), 56);
    assert!(inherited.install(&constant(1), Kind::Function).is_ok());
}

/// Denies, from now on and for this process, `mprotect` that makes something executable.
fn deny_executable_memory() {
    let op = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let compare = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let test = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    let ret = libc::BPF_RET | libc::BPF_K;
    let mut filter = [
        op(load, 0, 0, 0),
        op(compare, libc::SYS_mprotect as u32, 0, 2),
        // The third argument: 16 bytes of number, architecture and address, then eight each.
        op(load, 16 + 2 * 8, 0, 0),
        op(test, libc::PROT_EXEC as u32, 1, 0),
        op(ret, libc::SECCOMP_RET_ALLOW, 0, 0),
        op(ret, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the filter outlives the calls, which copy it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}

#[test]
fn a_system_that_refuses_executable_memory_is_heard() {
    let child = in_child(|| {
        deny_executable_memory();
        let refused = CodeMemory::reserve(REGION).map(drop).unwrap_err();
        let text =
            "the system refuses memory for machine code (mprotect: Operation not permitted (os error 1))";
        let told = refused.to_string() == text && refused.reason().raw_os_error() == Some(libc::EPERM);
        let result = crate::machine_code(crate::backend::Options::default(), REGION);
        i32::from(told && result.is_err_and(|unavailable| unavailable.to_string() == text))
    });
    assert_eq!(child.exit_code(), 1);
}
