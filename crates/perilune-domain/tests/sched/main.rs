//! The scheduler's parts from outside: what each promises, and threads that try to break it.

#![allow(missing_docs)]

mod ordered;
mod ownership;
mod queue;
mod stress;
