//! What a trace says, computed: where each domain's time went, what the collector did, what was late.
//!
//! | file | |
//! |---|---|
//! | `domains.rs` | the time of each domain, divided up without a rest |
//! | `state.rs` | what the parts are |
//! | `gc.rs` | what collectors did |
//! | `compile.rs` | what the compiler did |
//! | `latency.rs` | how long something had to wait, and the slowest of it |
//! | `requests.rs` | requests that servers answered, and what their time went to |
//! | `peers.rs` | connections: what kept programs and peers from each other |
//! | `offcpu.rs` | waits: for what, where, who ended them |
//! | `sched.rs` | what the kernel did to domains |
//! | `loops.rs` | parallel loops: who did how much of them |
//! | `contention.rs` | shared objects that processors waited for each other at |
//! | `histogram.rs` | percentiles |
//!
//! Nothing here writes for people: commands and the viewer do.

pub mod compile;
pub mod contention;
pub mod domains;
pub mod gc;
pub mod histogram;
pub mod latency;
pub mod loops;
pub mod offcpu;
pub mod peers;
pub mod requests;
pub mod sched;
pub mod state;
