//! Values that cross between two machines.

mod outcomes;
mod stand_in;
