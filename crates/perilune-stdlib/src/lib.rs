//! perilune-stdlib: see the essay below once it is written.
