//! What is Linux: what `/proc` says of processes and threads. Processes come and go meanwhile: one that has
//! gone is left out.

use crate::processes::Process;
use std::fs;

/// The numbers of the parent and of the group in `/proc/PID/stat`. The name before them may hold anything,
/// parentheses too.
pub(crate) fn relations(stat: &str) -> Option<(i32, i32)> {
    let mut words = stat.rsplit_once(") ")?.1.split_whitespace().skip(1);
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// Every process of the machine that may be read.
pub(crate) fn processes() -> Vec<Process> {
    let Ok(folder) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        let (parent, group) = relations(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
        let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let command = String::from_utf8_lossy(&words).replace('\0', " ").trim_end().to_owned();
        Some(Process { pid, parent, group, command })
    })
    .collect()
}

/// What the threads of a process do: name, state, the kernel function it waits in, the system call's number.
pub(crate) fn threads(pid: i32) -> Vec<String> {
    let Ok(folder) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let tasks = folder.filter_map(|entry| Some(entry.ok()?.path()));
    tasks
        .map(|task| {
            let read = |name: &str| fs::read_to_string(task.join(name)).unwrap_or_default().trim().to_owned();
            let state =
                read("stat").rsplit_once(") ").map_or(String::new(), |(_, rest)| rest[..1].to_owned());
            let call = read("syscall").split_whitespace().next().unwrap_or("").to_owned();
            format!("{} {state} in {} (system call {call})", read("comm"), read("wchan"))
        })
        .collect()
}
