//! What stands in for `tls/` in a build without the feature `tls`: no session can be made, and programs that
//! want one are told so.

use crate::buffer::Buffer;
use crate::failure::Failure;
use perilune_vm::{Gc, LuaResult, Table, Value, Vm};
use std::sync::Arc;

/// There is none.
#[derive(Clone)]
pub enum Setup {}

/// There is none.
pub enum Session {}

/// Why a session takes no more.
#[allow(dead_code, reason = "nothing makes one here")]
pub enum Fault {
    /// What is wrong.
    Tls(Arc<str>),
    /// There is no memory.
    NoMemory,
}

// What they do is said in tls/mod.rs.
impl Session {
    pub fn new(setup: &Setup) -> Result<Session, Failure> {
        match *setup {}
    }
    pub fn is_handshaking(&self) -> bool {
        match *self {}
    }
    pub fn peer_has_ended(&self) -> bool {
        match *self {}
    }
    pub fn open(&mut self, _: &[u8], _: &mut Buffer) -> Result<(), Fault> {
        match *self {}
    }
    pub fn seal(&mut self, _: &[u8]) -> usize {
        match *self {}
    }
    pub fn fetch(&mut self, _: &mut Buffer) {
        match *self {}
    }
    pub fn say_goodbye(&mut self) {
        match *self {}
    }
    pub fn truncated(&self) -> Arc<str> {
        match *self {}
    }
    pub fn info(&self, _: &mut Vm) -> LuaResult<Gc<Table>> {
        match *self {}
    }
}

const MESSAGE: &str = "this build has no TLS (it was made without the feature 'tls')";

/// Always an error.
///
/// # Errors
/// There is no TLS.
pub fn client_setup(vm: &mut Vm, _: Value, _: Option<&str>, _: &[&str]) -> LuaResult<Result<Setup, Failure>> {
    Err(vm.error(MESSAGE))
}

/// Always an error.
///
/// # Errors
/// There is no TLS.
pub fn server_setup(vm: &mut Vm, _: Value, _: &[&str]) -> LuaResult<Result<Setup, Failure>> {
    Err(vm.error(MESSAGE))
}
