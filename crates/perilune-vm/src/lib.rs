//! perilune-vm: see the essay below once it is written.
