//! Which processes run below another, what their threads wait for, and how to end them.
//!
//! Everything is read from `/proc`. Processes come and go meanwhile: one that has gone is left out.

use crate::sys;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fmt::Write;

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: i32,
    /// Its parent's.
    pub parent: i32,
    /// Its process group's.
    pub group: i32,
    /// The words it was started with.
    pub command: String,
}

/// Numbers of processes, as the standard library gives them.
pub fn number(pid: u32) -> i32 {
    i32::try_from(pid).expect("a process's number")
}

/// Every process of the machine that may be read.
pub fn all() -> Vec<Process> {
    sys::processes()
}

/// Those of `all` that are below `root`, each after its parent, and how deep; `root` itself is not among
/// them.
pub fn below(root: i32, all: Vec<Process>) -> Vec<(usize, Process)> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open: Vec<(usize, Process)> =
        children.remove(&root).unwrap_or_default().into_iter().map(|p| (0, p)).collect();
    while let Some((depth, process)) = open.pop() {
        open.extend(children.remove(&process.pid).unwrap_or_default().into_iter().map(|p| (depth + 1, p)));
        found.push((depth, process));
    }
    found
}

/// Those of `all` that a leader of a process group has started: the leader, those below it, and those of its
/// group whose parent has ended.
pub fn of_group(leader: i32, all: Vec<Process>) -> Vec<(usize, Process)> {
    let mut found: Vec<_> = all.iter().filter(|p| p.pid == leader).map(|p| (0, p.clone())).collect();
    let orphans: Vec<_> = all.iter().filter(|p| p.group == leader).map(|p| (1, p.clone())).collect();
    found.extend(below(leader, all).into_iter().map(|(depth, process)| (depth + 1, process)));
    for (depth, orphan) in orphans {
        if found.iter().all(|(_, p)| p.pid != orphan.pid) {
            found.push((depth, orphan));
        }
    }
    found
}

/// What the threads of a process do: name, state, the kernel function it waits in, the system call's number.
pub fn threads(pid: i32) -> Vec<String> {
    sys::threads(pid)
}

/// Lines about processes and their threads, for people.
pub fn shown(tree: &[(usize, Process)]) -> String {
    let mut text = String::new();
    for (depth, process) in tree {
        let margin = "  ".repeat(depth + 1);
        let _ = writeln!(text, "{margin}{} {}", process.pid, process.command);
        for thread in threads(process.pid) {
            let _ = writeln!(text, "{margin}    {thread}");
        }
    }
    text
}

/// Ends a process. One that has ended already is left alone; its number may be another's by now, which the
/// system protects from us unless it is the same user's.
pub fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::relations;
    use std::process::{Command, Stdio};

    #[test]
    fn parents_are_read_whatever_the_name_is() {
        assert_eq!(relations("12 (a) b) (c) S 7 11 12 0"), Some((7, 11)));
        assert_eq!(relations("12"), None);
    }

    fn process(pid: i32, parent: i32, group: i32) -> Process {
        Process { pid, parent, group, command: String::new() }
    }

    fn shape(tree: &[(usize, Process)]) -> Vec<(usize, i32)> {
        tree.iter().map(|(depth, p)| (*depth, p.pid)).collect()
    }

    #[test]
    fn what_is_below_is_found_with_its_depth() {
        let all =
            vec![process(1, 0, 1), process(2, 1, 1), process(3, 2, 1), process(4, 3, 1), process(5, 1, 1)];
        assert_eq!(shape(&below(2, all)), [(0, 3), (1, 4)]);
    }

    #[test]
    fn a_group_has_orphans() {
        let all = vec![process(2, 1, 2), process(3, 2, 3), process(4, 1, 2), process(5, 1, 1)];
        assert_eq!(shape(&of_group(2, all)), [(0, 2), (1, 3), (1, 4)]);
    }

    #[test]
    fn a_child_is_among_the_processes_with_its_threads() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat");
        let (pid, me) = (number(child.id()), number(std::process::id()));
        let tree = below(me, all());
        assert!(tree.iter().any(|(_, p)| p.pid == pid && p.parent == me), "{tree:?}");
        assert_eq!(threads(pid).len(), 1);
        assert!(shown(&tree).contains(&format!("  {pid} ")));
        kill(pid);
        child.wait().expect("waited for");
    }
}
