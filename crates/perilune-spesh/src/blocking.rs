//! The specialiser that compiles at once: logs become machine code while their domain waits, so that what
//! happens depends on the program alone.

use crate::Setup;
use crate::compiler::Compiler;
use perilune_syntax::Proto;
use perilune_vm::machine::{Log, MachineCode, Recording, Specializer, Unexpected};
use std::sync::Arc;

/// Compiles what is hot on the thread of its domain.
pub struct Blocking {
    compiler: Compiler,
    threshold: u32,
}

impl std::fmt::Debug for Blocking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocking").field("threshold", &self.threshold).finish_non_exhaustive()
    }
}

impl Blocking {
    /// A function is hot when its loops have come round, and it has made calls, `threshold` times, at least
    /// once; then `quota` instructions are recorded.
    ///
    /// # Errors
    /// There can be no machine code here.
    pub fn new(threshold: u32, quota: u32, setup: Setup) -> Result<Arc<Blocking>, String> {
        let compiler = Compiler::new(quota, setup)?;
        compiler.prepare().map_err(|why| why.to_string())?;
        Ok(Arc::new(Blocking { compiler, threshold: threshold.max(1) }))
    }
}

impl Specializer for Blocking {
    fn code_of(&self, proto: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        self.compiler.code_of(proto)
    }

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn quota(&self) -> u32 {
        self.compiler.quota()
    }

    fn retirements(&self) -> u32 {
        self.compiler.retirements()
    }

    fn locate(&self, address: usize) -> Vec<(Arc<Proto>, usize)> {
        self.compiler.locate(address)
    }

    fn wants_exits(&self) -> bool {
        self.compiler.decisions().are_kept()
    }

    fn exited(&self, exit: &Unexpected) {
        self.compiler.decisions().unexpected(exit);
    }

    fn exited_again(&self, proto: &Arc<Proto>, at: usize) {
        self.compiler.decisions().unexpected_again(proto, at);
    }

    fn learn(&self, logs: Vec<Log>) {
        self.compiler.learn(logs);
    }

    fn compile(&self, recording: Recording) -> Vec<(usize, Arc<MachineCode>)> {
        self.compiler.compile(recording, None)
    }
}
