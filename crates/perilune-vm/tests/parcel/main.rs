//! Values that cross between two machines.

mod outcomes;
mod random;
mod stand_in;
