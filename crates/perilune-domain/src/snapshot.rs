//! What tools ask of all domains, snapshots of their heaps and lists of their fibers: who is asked, and who
//! did not answer.
//!
//! Each domain writes its own file, when it looks at its interrupts or is woken for it
//! (`perilune_vm::snapshot`). Here all of them are told, by a thread of its own that then waits for their
//! files. A domain that sleeps is run by a worker for this. One that is in a system call which nobody else
//! may interrupt, or in native code that looks at no interrupt, has [`PATIENCE`]; then the request counts as
//! answered, with a remark that names it.

use crate::runtime::domains_of_process;
use perilune_trace::attach::{self, Request};
use perilune_vm::snapshot::path_for;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a domain may take to begin.
const PATIENCE: Duration = Duration::from_secs(2);

/// Something has changed for which a tool has sent its signal: passes a request on that is new.
pub(crate) fn serve_tools() {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let Some((n, kind)) = attach::pending_request() else { return };
    let request = (perilune_trace::emit::session_number() as u64) << 32 | n as u64;
    if LAST.swap(request, Ordering::AcqRel) == request {
        return;
    }
    let _ = perilune_heap::space::spawn("perilune-tools".into(), 256 << 10, move || gather(n, kind));
}

fn gather(request: u32, kind: Request) {
    let mut missing = domains_of_process();
    for domain in &missing {
        domain.look_at_tools();
    }
    let mut until = Instant::now() + PATIENCE;
    while !missing.is_empty() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
        let mut begun = false;
        missing.retain(|domain| {
            let path = path_for(kind, request, domain.id);
            let mut part = path.as_os_str().to_owned();
            part.push(".part");
            begun |= Path::new(&part).exists();
            !path.exists() && !domain.has_ended()
        });
        if begun {
            until = Instant::now() + PATIENCE;
        }
    }
    if !missing.is_empty() {
        let names: Vec<String> = missing
            .iter()
            .map(|d| {
                format!(
                    "domain {} ({}) is in a system call or in native code, and is left out\n",
                    d.id,
                    d.name()
                )
            })
            .collect();
        let _ = std::fs::write(path_for(kind, request, 0), names.concat());
    }
    attach::answer(request);
}
