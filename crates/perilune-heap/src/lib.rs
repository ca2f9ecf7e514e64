//! perilune-heap: see the essay below once it is written.
