//! A file that somebody else takes apart: opened, read from front to back into memory of theirs, closed when
//! it is dropped.
//!
//! It reads as a stream does (`stream.rs`): what may sleep leaves the domain to others, and interrupts end
//! it.

use super::open;
use super::stream::Stream;
use crate::errno::{self, Failure};
use perilune_vm::{LuaResult, Vm};
use rustix::io::Errno;

/// See the module.
pub struct Input(Stream);

impl Input {
    /// Opens the file `name`.
    ///
    /// # Errors
    /// What the operating system says, in words.
    pub fn open(name: &[u8]) -> Result<Input, Vec<u8>> {
        match open::file(name, b"r") {
            Ok(stream) => Ok(Input(stream)),
            Err(error) => Err([name, b": ", &errno::message(error)].concat()),
        }
    }

    /// Reads some bytes; none at the end of the file, or if there is no room for any.
    ///
    /// # Errors
    /// An interrupt, or a cancellation. Within: what the operating system says, in words.
    pub fn read(&mut self, vm: &mut Vm, into: &mut [u8]) -> LuaResult<Result<usize, Vec<u8>>> {
        loop {
            // SAFETY: for as long as this native runs; taken back below.
            self.0.blocker = Some(unsafe { vm.blocker() });
            let result = self.0.read_into(into);
            self.0.blocker = None;
            match result {
                Ok(count) => return Ok(Ok(count)),
                Err(Failure::System(Errno::INTR)) => vm.poll_interrupt()?,
                Err(Failure::System(error)) => return Ok(Err(errno::message(error))),
                Err(Failure::Closed) => return Ok(Err(b"closed".to_vec())),
            }
        }
    }
}
