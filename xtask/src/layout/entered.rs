//! Which functions of an executable a run enters.
//!
//! The first byte of every function is replaced by a breakpoint (`int3`) before the process starts. The first
//! call of a function stops it; then the byte is put back and the process goes on, so each function costs one
//! stop and the run is hardly slower for it. A sampling profiler would miss what runs once, and what runs
//! once, at the start, is just what is of interest here.
//!
//! Threads share the bytes and child processes have copies of their own, so both are followed, and a byte is
//! always put back in the memory of the one that stopped. An `exec` brings an image without breakpoints.

use crate::chore::Error;
use std::collections::{BTreeSet, HashMap};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

const BREAKPOINT: u8 = 0xcc;

/// A function of an executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Where it starts, relative to where the executable is loaded.
    pub start: u64,
    /// Its length in bytes.
    pub size: u64,
    /// Its name as the linker knows it.
    pub name: String,
    /// The crate that its code is of, if the linker has told: that of the program which has the instance of a
    /// generic function, not that of its text.
    pub from: Option<String>,
}

/// The functions of `bin`, in the order of their addresses, as `nm` lists them. `map` is what the linker has
/// written about it, if anything.
pub fn functions(bin: &Path, map: &str) -> Result<Vec<Function>, Error> {
    let out = Command::new("nm").args(["--numeric-sort", "--defined-only", "-S"]).arg(bin).output();
    let out = out.map_err(|e| format!("nm: {e}"))?;
    let mut all: Vec<Function> = String::from_utf8_lossy(&out.stdout).lines().filter_map(read).collect();
    all.dedup_by_key(|f| f.start);
    let crates: HashMap<u64, String> = map.lines().filter_map(section).collect();
    for f in &mut all {
        f.from = crates.get(&f.start).cloned();
    }
    if all.is_empty() {
        return Err(format!("{}: no functions found; has it been stripped?", bin.display()).into());
    }
    Ok(all)
}

/// A line `START SIZE KIND NAME`, if it is of a function.
fn read(line: &str) -> Option<Function> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [start, size, "t" | "T" | "w" | "W", name] = words[..] else { return None };
    let hex = |text| u64::from_str_radix(text, 16).ok();
    Some(Function { start: hex(start)?, size: hex(size)?, name: name.to_string(), from: None })
}

/// A line `START LOADED SIZE ALIGNMENT FILE:(SECTION)` of lld's map, if it is of code: where that starts, and
/// the crate that the file was made from, which is `program-HASH.crate-HASH.crate.HASH-cgu.N...` or a member
/// of an archive that ends so.
fn section(line: &str) -> Option<(u64, String)> {
    let (file, _) = line.split_once(":(.text.")?;
    let start = u64::from_str_radix(line.split_whitespace().next()?, 16).ok()?;
    let name = file.rsplit(['/', '(']).next()?;
    let (unit, _) = name.split_once("-cgu.")?;
    Some((start, unit.rsplit('.').nth(1)?.to_owned()))
}

/// Runs `bin` with `args` until nothing new is seen, and returns the indices of those of `functions` that
/// were entered: breakpoints slow a program down, and what it does when it has taken long is something else.
pub fn run_at_full_speed(
    bin: &Path,
    args: &[String],
    dir: &Path,
    functions: &[Function],
) -> Result<BTreeSet<usize>, Error> {
    let mut all = BTreeSet::new();
    loop {
        let new = run(bin, args, dir, functions, &all)?;
        if new.is_empty() {
            return Ok(all);
        }
        all.extend(new);
    }
}

/// Runs `bin` with `args` and returns the indices of those of `functions` that were entered, but for those
/// that are known, at which it does not stop.
pub fn run(
    bin: &Path,
    args: &[String],
    dir: &Path,
    functions: &[Function],
    known: &BTreeSet<usize>,
) -> Result<BTreeSet<usize>, Error> {
    let mut command = Command::new(bin);
    command.args(args).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // SAFETY: between fork and exec only `ptrace` runs, a plain system call.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let main = command.spawn()?.id() as libc::pid_t;
    let (first, _) = wait(main)?;
    let follow = libc::PTRACE_O_TRACECLONE
        | libc::PTRACE_O_TRACEFORK
        | libc::PTRACE_O_TRACEVFORK
        | libc::PTRACE_O_TRACEEXEC
        | libc::PTRACE_O_EXITKILL;
    request(libc::PTRACE_SETOPTIONS, first, follow as usize)?;
    let base = base(first, bin)?;
    let memory = memory(first)?;
    let mut saved = Vec::with_capacity(functions.len());
    for (i, f) in functions.iter().enumerate() {
        let mut byte = [0];
        memory.read_exact_at(&mut byte, base + f.start)?;
        if !known.contains(&i) {
            memory.write_all_at(&[BREAKPOINT], base + f.start)?;
        }
        saved.push(byte[0]);
    }
    request(libc::PTRACE_CONT, first, 0)?;
    let mut entered = BTreeSet::new();
    loop {
        let (pid, status) = wait(-1)?;
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            if pid != main {
                continue;
            }
            return match libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
                true => Ok(entered),
                false => Err(format!("{args:?} failed under trace, status {status:#x}").into()),
            };
        }
        let signal = libc::WSTOPSIG(status);
        let event = status >> 16;
        let deliver = match signal {
            libc::SIGTRAP if event != 0 => 0,
            libc::SIGTRAP => match restore(pid, base, functions, &saved)? {
                Some(i) => {
                    entered.insert(i);
                    0
                }
                None => signal,
            },
            // A new thread or process begins with one.
            libc::SIGSTOP => 0,
            other => other,
        };
        request(libc::PTRACE_CONT, pid, deliver as usize)?;
    }
}

/// If `pid` stopped at one of our breakpoints: takes that away, goes back to it, and says whose it was. A
/// thread that the end of its process has killed meanwhile was at none.
fn restore(
    pid: libc::pid_t,
    base: u64,
    functions: &[Function],
    saved: &[u8],
) -> Result<Option<usize>, Error> {
    match restore_alive(pid, base, functions, saved) {
        Err(_) if registers(pid).is_err_and(|e| e.raw_os_error() == Some(libc::ESRCH)) => Ok(None),
        result => result,
    }
}

fn registers(pid: libc::pid_t) -> std::io::Result<libc::user_regs_struct> {
    // SAFETY: plain old data for which all-zero is a value.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    // SAFETY: the request writes one such structure, to a live local.
    let got = unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, 0, &raw mut registers) };
    if got == 0 { Ok(registers) } else { Err(std::io::Error::last_os_error()) }
}

fn restore_alive(
    pid: libc::pid_t,
    base: u64,
    functions: &[Function],
    saved: &[u8],
) -> Result<Option<usize>, Error> {
    let mut registers = registers(pid)?;
    let at = registers.rip - 1;
    let Ok(i) = functions.binary_search_by_key(&at.wrapping_sub(base), |f| f.start) else { return Ok(None) };
    memory(pid)?.write_all_at(&saved[i..=i], at)?;
    registers.rip = at;
    // SAFETY: the request reads one such structure from a live local.
    let set = unsafe { libc::ptrace(libc::PTRACE_SETREGS, pid, 0, &raw const registers) };
    if set != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(Some(i))
}

fn wait(pid: libc::pid_t) -> Result<(libc::pid_t, libc::c_int), Error> {
    let mut status = 0;
    // SAFETY: the pointer is to a live local.
    let got = unsafe { libc::waitpid(pid, &mut status, libc::__WALL) };
    if got < 0 { Err(std::io::Error::last_os_error().into()) } else { Ok((got, status)) }
}

/// A request whose address is not used. A process that was killed meanwhile is no error.
fn request(what: libc::c_uint, pid: libc::pid_t, data: usize) -> Result<(), Error> {
    // SAFETY: the requests made here read nothing through pointers.
    let got = unsafe { libc::ptrace(what, pid, 0usize, data) };
    let error = std::io::Error::last_os_error();
    if got < 0 && error.raw_os_error() != Some(libc::ESRCH) { Err(error.into()) } else { Ok(()) }
}

fn memory(pid: libc::pid_t) -> Result<std::fs::File, Error> {
    Ok(std::fs::OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"))?)
}

/// Where `bin` is loaded in `pid`.
fn base(pid: libc::pid_t, bin: &Path) -> Result<u64, Error> {
    let bin = bin.canonicalize()?;
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let line = maps.lines().find(|l| l.ends_with(&*bin.to_string_lossy()));
    let start = line.and_then(|l| l.split('-').next()).ok_or("the executable is not mapped")?;
    Ok(u64::from_str_radix(start, 16)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_lines_of_nm() {
        let f = read("00000000000ade20 0000000000000010 t _ZN4core3fmt17h0123456789abcdefE").unwrap();
        assert_eq!((f.start, f.size), (0xade20, 16));
        for other in ["0000 0010 d data", "00000000000ade20 t label", "U malloc"] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn reads_lines_of_the_linkers_map() {
        let line =
            |file: &str, section: &str| format!("  ade20   ade20   10    16         {file}:({section})");
        for (file, of) in [
            ("/w/deps/perilune-1a.perilune_vm-2b.perilune_vm.3c-cgu.2.rcgu.o.rcgu.o", Some("perilune_vm")),
            ("/w/deps/perilune-1a.4d-cgu.0.rcgu.o", Some("perilune-1a")),
            ("/lib/libstd-1a.rlib(std-1a.std.2b-cgu.0.rcgu.o)", Some("std")),
            ("/lib/crt1.o", None),
        ] {
            let of = of.map(|name| (0xade20, name.to_owned()));
            assert_eq!(section(&line(file, ".text._ZN4core3fmt17h0123456789abcdefE")), of);
            assert_eq!(section(&line(file, ".rodata.cst16")), None);
        }
    }
}
