//! What the kernel says about this process.

use std::time::Duration;

fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find(|l| l.starts_with(name)).expect("the kernel has this line");
    line.split_whitespace().nth(1).and_then(|w| w.parse().ok()).expect("a number")
}

/// Resident memory.
pub fn rss_kib() -> u64 {
    field(&std::fs::read_to_string("/proc/self/status").unwrap(), "VmRSS:")
}

/// How often threads of this process have gone to sleep.
pub fn switches() -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    threads
        .filter_map(|t| std::fs::read_to_string(t.unwrap().path().join("status")).ok())
        .map(|s| field(&s, "voluntary_ctxt_switches:"))
        .sum()
}

/// Processor time of this process.
pub fn cpu_time() -> Duration {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for the call, which writes one timespec.
    let ok = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut now) };
    assert_eq!(ok, 0);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
