//! The developer's door: `cargo xtask <chore>` runs every chore of the project.

fn main() {}
