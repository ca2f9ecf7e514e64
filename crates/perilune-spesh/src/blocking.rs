//! The specialiser that compiles at once: a hot loop's log becomes machine code while its domain waits, so that what happens depends on the program alone.

use crate::backend::{Backend, Options};
use crate::memory::{Code, CodeMemory, Kind, MAX_CAPACITY};
use crate::{Unavailable, loops, lower};
use perilune_syntax::Proto;
use perilune_syntax::verify::in_use;
use perilune_vm::machine::{Log, MachineCode, Run, Specializer};
use std::fs::File;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Compiles hot loops on the thread of their domain.
pub struct Blocking {
    memory: Arc<CodeMemory>,
    /// Taken while it is in use; it is made anew if it was lost to a panic.
    backend: Mutex<Option<Backend>>,
    threshold: u32,
    quota: u32,
    /// Where every decision is written down.
    report: Option<Mutex<File>>,
}

impl std::fmt::Debug for Blocking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocking").field("threshold", &self.threshold).finish_non_exhaustive()
    }
}

/// Owns the memory of a piece of machine code.
struct Installed(Option<Code>);

impl Drop for Installed {
    fn drop(&mut self) {
        if let Some(code) = self.0.take() {
            // SAFETY: the VM drops machine code when no instance has it and no run of it is under way (`perilune_vm::machine`), and nothing else has its address.
            unsafe { code.free() }
        }
    }
}

impl Blocking {
    /// A loop is hot when the loops of its function have come round `threshold` times, at least once; then `quota` instructions are recorded.
    ///
    /// # Errors
    /// There can be no machine code here.
    pub fn new(threshold: u32, quota: u32, report: Option<File>) -> Result<Arc<Blocking>, Unavailable> {
        let (backend, memory) = crate::machine_code(Options::default(), MAX_CAPACITY)?;
        Ok(Arc::new(Blocking {
            memory,
            backend: Mutex::new(Some(backend)),
            threshold: threshold.max(1),
            quota,
            report: report.map(Mutex::new),
        }))
    }

    fn code(&self, log: &Log, region: loops::Region) -> Option<Code> {
        let used = in_use(log.proto()).ok()?;
        let taken = self.backend.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut backend = taken.map_or_else(|| Backend::new(Options::default()).ok(), Some)?;
        // Whatever is wrong with what is built: the loop stays with the interpreter.
        let build = |b: &mut crate::backend::clif::FunctionBuilder<'_>| lower::lower(b, log, region, &used);
        let compiled = catch_unwind(AssertUnwindSafe(|| backend.compile(lower::signature(), build)));
        let compiled = match compiled {
            Ok(compiled) => {
                *self.backend.lock().unwrap_or_else(PoisonError::into_inner) = Some(backend);
                compiled
            }
            Err(_) if cfg!(debug_assertions) => panic!("the compiler has failed"),
            Err(_) => return None,
        };
        match compiled {
            Ok(compiled) => self.memory.install(&compiled.bytes, Kind::Function).ok(),
            Err(error) if cfg!(debug_assertions) => panic!("{error}"),
            Err(_) => None,
        }
    }
}

impl Blocking {
    fn report(&self, log: &Log, region: Option<loops::Region>, bytes: Option<usize>, begun: Instant) {
        let Some(report) = &self.report else { return };
        let proto = log.proto();
        let source = String::from_utf8_lossy(
            proto.source.strip_prefix(b"@").or(proto.source.strip_prefix(b"=")).unwrap_or(&proto.source),
        );
        let line = |at: usize| proto.line_at(at).unwrap_or(0);
        let text = match (region, bytes) {
            (None, _) => {
                let hot = log.hot();
                format!(
                    "{source}:{}: the loop at instruction {hot} calls Lua functions, or did not come round\n",
                    line(hot)
                )
            }
            (Some(r), None) => {
                format!(
                    "{source}:{}: the loop of instructions {} to {} could not be compiled\n",
                    line(r.head),
                    r.head,
                    r.back
                )
            }
            (Some(r), Some(bytes)) => {
                let us = begun.elapsed().as_micros();
                format!(
                    "{source}:{}: the loop of instructions {} to {}: {bytes} bytes in {us} us\n",
                    line(r.head),
                    r.head,
                    r.back
                )
            }
        };
        // A report that cannot be written is no reason to stop the program.
        let _ = report.lock().unwrap_or_else(PoisonError::into_inner).write_all(text.as_bytes());
    }
}

impl Specializer for Blocking {
    fn code_of(&self, _: &Arc<Proto>) -> Option<Arc<MachineCode>> {
        None
    }

    fn threshold(&self) -> u32 {
        self.threshold
    }

    fn quota(&self) -> u32 {
        self.quota
    }

    fn compile(&self, log: &Log) -> Option<Arc<MachineCode>> {
        let begun = Instant::now();
        let region = loops::choose(log);
        let code = region.and_then(|region| Some((region, self.code(log, region)?)));
        self.report(log, region, code.as_ref().map(|(_, code)| code.len()), begun);
        let (region, code) = code?;
        let entries = lower::entries(log.proto(), region);
        // SAFETY: the address is that of a function of this signature, which does what `lower` says.
        unsafe {
            let run = std::mem::transmute::<usize, Run>(code.address());
            let memory = Box::new(Installed(Some(code)));
            Some(MachineCode::new(Arc::clone(log.proto()), run, false, &entries, memory))
        }
    }
}
