//! The perilune command.

fn main() {}
