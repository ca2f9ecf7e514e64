//! What a probe costs, off and on: nanoseconds per `emit`.
//!
//!     cargo bench -p perilune-trace
//!
//! A round is a million probes in a loop; the figure is that of the fastest round, less the loop's own.
//! Probes that are on write to a domain's ring in a mapped file, as a program's do; the ring goes round,
//! nobody reads. The clock alone is measured too: it is the greatest part of a probe that is on.

use perilune_trace::event::{self, Category, Name, ObjectRef};
use perilune_trace::session::{self, Options};
use perilune_trace::{Writer, clock, emit, on};
use std::hint::black_box;
use std::time::Instant;

const PROBES: u64 = 1_000_000;
const ROUNDS: u32 = 15;

/// Nanoseconds of one call of `f`, in the fastest round.
fn fastest(mut f: impl FnMut(u64)) -> f64 {
    let round = |f: &mut dyn FnMut()| {
        let begun = Instant::now();
        f();
        begun.elapsed().as_nanos() as f64 / PROBES as f64
    };
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        best = best.min(round(&mut || (0..PROBES).for_each(|n| f(black_box(n)))));
    }
    best
}

fn main() {
    let loop_alone = fastest(|n| _ = black_box(n));
    let report = |what: &str, ns: f64| println!("{what:<44}{:>8.2} ns", (ns - loop_alone).max(0.0));
    report("a probe that is off", fastest(|n| emit(event::Mark { name: Name(n as u32) })));
    report("a test whether a category is on", fastest(|_| _ = black_box(on(Category::Gc))));

    let file = std::env::temp_dir().join(format!("perilune-probe-{}", std::process::id()));
    let mut options = Options { categories: Category::User as u32, ..Options::default() };
    options.geometry.ring_events = 1 << 16;
    session::start(&file, &options).expect("a session");
    let mut writer = Box::new(Writer::new(1));
    // SAFETY: used by this thread alone, until `leave`.
    unsafe { perilune_trace::emit::enter(&mut *writer) };
    report(
        "a probe of another category, others are on",
        fastest(|n| emit(event::TaskCreated { task: ObjectRef(n), name: Name(n as u32) })),
    );
    report("a probe that is on", fastest(|n| emit(event::Mark { name: Name(n as u32) })));
    report("the clock alone", fastest(|_| _ = black_box(clock::ticks())));
    perilune_trace::emit::leave();
    session::stop();
    let _ = std::fs::remove_file(&file);
}
