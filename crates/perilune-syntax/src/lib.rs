//! perilune-syntax: see the essay below once it is written.
