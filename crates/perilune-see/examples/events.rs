//! Prints an event file: `cargo run -p perilune-see --example events FILE`.

use perilune_see::Trace;

fn main() -> std::io::Result<()> {
    let path = std::env::args_os().nth(1).unwrap_or_default();
    let trace = Trace::from_ring_file(path.as_ref())?;
    for e in &trace.events {
        println!("{:>12} {:?} {} {} {:#x} {:#x}", e.ns, e.who, e.kind.info().name, e.c, e.a, e.b);
    }
    eprintln!("{} events, {} lost, {} ns", trace.events.len(), trace.lost, trace.end_ns);
    Ok(())
}
