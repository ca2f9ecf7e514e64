//! What a trace says, computed: where each domain's time went, what the collector did, what was late.
//!
//! | file | |
//! |---|---|
//! | `domains.rs` | the time of each domain, divided up without a rest |
//! | `state.rs` | what the parts are |
//! | `histogram.rs` | percentiles |
//!
//! Nothing here writes for people: commands and the viewer do.

pub mod domains;
pub mod histogram;
pub mod state;
