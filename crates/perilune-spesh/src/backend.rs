//! Instructions out of intermediate form: with `linear.rs` the only module that knows Cranelift.
//!
//! Whoever compiles is handed a builder ([`clif::FunctionBuilder`]), makes the function with it, and gets
//! bytes that run wherever they lie. The builder, the form and its verifier are Cranelift's; instructions are
//! our own generator's (`linear.rs`), and Cranelift's for what that does not know. What optimises is our own
//! form above both, so Cranelift's level is `none`: as fast code as `speed` makes of what we give it, in two
//! thirds of the time. Its allocator is the backtracking one; the single-pass one makes code 2 to 10 times
//! slower.
//!
//! # What a function may refer to
//! Nothing by name but itself. Helpers are called by their absolute addresses, constants of 64 bits, through
//! a register: they may lie anywhere, and no code has to change when it is put in its place. A call of itself
//! is relative, and resolved here. Any other relocation is an error ([`CompileError::Relocation`]), as from
//! an instruction that becomes a call of a library function on this processor.
//!
//! # Tail calls
//! A function of the convention [`JUMPING`] may end in a call that takes its place on the native stack.
//! Whoever calls it from without takes it for a function of C: as long as all parameters and results are in
//! registers, there is no difference (a test sees to that).
//!
//! # Panics and unwinding
//! There is no unwind information for machine code: a panic must not reach it, helpers return a status.
//! Cranelift panics on intermediate form that makes no sense; whoever catches that around
//! [`Backend::compile`] can go on with the same backend.
//!
//! # Stack
//! Frames are as large as their spills and slots need, [`Compiled::frame`] says how large, and who enters
//! machine code checks that there is room. Frames of a page and more (Cranelift's: our own are smaller) touch
//! each of their pages in order when they begin, so none reaches past a guard page.

use crate::linear;
use crate::positions::{Place, Positions};
use crate::target;
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::isa::{self, OwnedTargetIsa, TargetFrontendConfig};
use cranelift_codegen::settings::{self, Configurable, Flags};
use cranelift_codegen::{CompiledCode, Context, FinalizedMachReloc, FinalizedRelocTarget};
use perilune_vm::machine::{self, Departures, LEAVE_AT, Leave};
use std::cell::Cell;
use std::fmt;

/// The calling convention of machine code ([`perilune_vm::machine::Code`]): of functions that may end in tail
/// calls, save no registers, and keep their first parameter, a word, in the same register for good, their
/// callees' too. Parameters and the result are where C has them.
pub const JUMPING: clif::CallConv = clif::CallConv::Tail;

/// The convention of what is no call but the end of a function of [`JUMPING`]: its code is left at a
/// [`perilune_vm::machine::Point`], the callee. The first argument is the base of the frame; then come pairs of where
/// a value is to be stored, as [`stored_at`] says, and the value. A trap follows.
pub const DEPARTING: clif::CallConv = clif::CallConv::WindowsFastcall;

/// Where a value is to be stored when code is left: so many bytes from the base of the frame; a byte of it, or
/// all.
pub fn stored_at(offset: i32, is_byte: bool) -> i64 {
    i64::from(offset) << 1 | i64::from(is_byte)
}

/// The same taken apart.
pub(crate) fn apart(at: i64) -> (i32, bool) {
    ((at >> 1) as i32, at & 1 != 0)
}

/// The words of intermediate form, for those who build functions.
pub mod clif {
    pub use cranelift_codegen::ir::*;
    pub use cranelift_codegen::isa::CallConv;
    pub use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext, Switch, Variable};
}

use clif::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Function, FunctionBuilder, FunctionBuilderContext, Inst,
    InstBuilder, InstructionData, MemFlagsData, Opcode, Signature, TrapCode, UserExternalName, UserFuncName,
    Value,
};

/// How much a backend checks and tells, besides compiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Check the intermediate form of each function, and what the register allocator made of it. Builds with
    /// assertions always do so, but for what Cranelift's allocator makes.
    pub verify: bool,
    /// Write down the instructions of each function, as text ([`Compiled::listing`]): Cranelift's, which is
    /// asked for all of them then.
    pub listing: bool,
    /// What makes instructions of the intermediate form.
    pub generator: Generator,
}

/// What makes instructions of the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generator {
    /// Our own (`linear.rs`), and Cranelift for functions that have what it does not know.
    #[default]
    Linear,
    /// Cranelift.
    Cranelift,
}

/// Why no backend could be made: what the processor lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsupported(pub(crate) &'static str);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Unsupported {}

/// Why a function was not compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompileError {
    /// The verifier found the intermediate form wrong: a fault of whoever built it. Its report.
    Invalid(String),
    /// More code or more values than the code generator can number.
    TooLarge,
    /// The code generator has no instructions for something, or its own checks failed. What it says.
    Unsupported(String),
    /// An instruction refers to something besides the function itself: offset and kind.
    Relocation(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileError::Invalid(report) => write!(f, "invalid intermediate form: {report}"),
            CompileError::TooLarge => f.write_str("the function is too large"),
            CompileError::Unsupported(what) => write!(f, "the code generator gives up: {what}"),
            CompileError::Relocation(what) => write!(f, "the code refers to something outside: {what}"),
        }
    }
}

impl std::error::Error for CompileError {}

/// A function as bytes that run wherever they lie.
#[derive(Debug)]
pub struct Compiled {
    /// Instructions, and the constants that they read.
    pub bytes: Vec<u8>,
    /// Which instruction belongs to which place, as [`set_place`] said.
    pub positions: Positions,
    /// Bytes of native stack that it takes for itself, without return address and saved frame pointer.
    pub frame: u32,
    /// Offsets of instructions that stop the process if they come to be executed with the wrong operands:
    /// explicit traps, divisions, accesses that were not said to be safe (`MemFlagsData::trusted`). No script
    /// may bring one about, so whoever compiles answers for each.
    pub traps: Vec<u32>,
    /// Where its values are where it is left: it has the address, and is not to be run without it.
    pub departures: Option<Box<Departures>>,
    /// Its instructions as text, if [`Options::listing`] asks for them.
    pub listing: Option<String>,
}

/// A code generator for the processor at hand. It keeps its buffers from one function to the next; each
/// compiling thread has one.
pub struct Backend {
    isa: OwnedTargetIsa,
    /// `None` while a function is compiled, and after one that panicked: what it left behind is not used
    /// again.
    buffers: Option<Box<Buffers>>,
    options: Options,
    /// What is called where code is left.
    leave: Leave,
}

/// What functions are built and compiled in.
struct Buffers {
    context: Context,
    builder: FunctionBuilderContext,
}

impl Buffers {
    fn new() -> Box<Buffers> {
        Box::new(Buffers { context: Context::new(), builder: FunctionBuilderContext::new() })
    }
}

/// The processor and the system, without what not all of them have.
fn host() -> isa::Builder {
    let host = isa::lookup_by_name("x86_64-unknown-linux-gnu");
    host.expect("the feature of this processor is in Cargo.toml")
}

/// The name that a function goes by in itself.
const ITSELF: UserExternalName = UserExternalName { namespace: 0, index: 0 };

impl Backend {
    /// A backend for this processor.
    pub fn new(options: Options) -> Result<Backend, Unsupported> {
        let features = target::features().map_err(Unsupported)?;
        let flags = Flags::new(shared_settings(options));
        let mut isa = host();
        for feature in features {
            isa.enable(feature).expect("target.rs has Cranelift's names");
        }
        let isa = isa.finish(flags).expect("these settings go together");
        Ok(Backend { isa, buffers: Some(Buffers::new()), options, leave: LEAVE_AT })
    }

    /// Code that is left calls this.
    #[cfg(test)]
    pub(crate) fn leave_by(&mut self, leave: Leave) {
        self.leave = leave;
    }

    /// Compiles a function of this signature. `build` makes its body; it seals all blocks, fills them, and
    /// finalises nothing.
    ///
    /// Panics if the body has blocks that are not filled, and on some bodies that the verifier would find
    /// invalid.
    pub fn compile(
        &mut self,
        signature: Signature,
        build: impl FnOnce(&mut FunctionBuilder<'_>),
    ) -> Result<Compiled, CompileError> {
        let mut build = Some(build);
        self.compile_when(signature, |b| {
            build.take().into_iter().for_each(|build| build(b));
            true
        })
    }

    /// The same, of a body that `build` makes anew until it says `true`.
    pub fn compile_when(
        &mut self,
        signature: Signature,
        mut build: impl FnMut(&mut FunctionBuilder<'_>) -> bool,
    ) -> Result<Compiled, CompileError> {
        let mut buffers = self.buffers.take().unwrap_or_else(Buffers::new);
        let context = &mut buffers.context;
        loop {
            context.clear();
            context.set_disasm(self.options.listing);
            context.func.name = UserFuncName::User(ITSELF);
            context.func.signature = signature.clone();
            let mut builder = FunctionBuilder::new(&mut context.func, &mut buffers.builder);
            if build(&mut builder) {
                builder.finalize(self.isa.frontend_config());
                break;
            }
            buffers.builder = FunctionBuilderContext::new();
        }
        drop_unused(&mut context.func);
        if self.options.generator == Generator::Linear && !self.options.listing {
            context.verify_if(&*self.isa).map_err(explain)?;
            let checked = self.options.verify || cfg!(any(debug_assertions, test));
            if let Some(done) = linear::compile(&context.func, checked, self.leave) {
                self.buffers = Some(buffers);
                return Ok(done);
            }
        }
        call_from_outside(&mut context.func);
        store_and_leave(&mut context.func, self.leave);
        let done = context.compile(&*self.isa, &mut ControlPlane::default());
        done.map_err(|error| explain(error.inner))?;
        let code = context.take_compiled_code().expect("compiled without an error");
        let mut bytes = code.code_buffer().to_vec();
        for relocation in code.buffer.relocs() {
            resolve(&mut bytes, relocation, &context.func)?;
        }
        let frame = code.buffer.frame_layout().map_or(0, |layout| layout.frame_to_fp_offset);
        let (positions, traps) =
            (positions(&code), code.buffer.traps().iter().map(|trap| trap.offset).collect());
        self.buffers = Some(buffers);
        Ok(Compiled { bytes, positions, frame, traps, departures: None, listing: code.vcode })
    }
}

/// What functions are built in that nobody compiles.
struct Sketch {
    function: Function,
    builder: FunctionBuilderContext,
    target: TargetFrontendConfig,
}

impl Sketch {
    fn new() -> Box<Sketch> {
        let host = host();
        let pointer_width = host.triple().pointer_width().expect("the host's is known");
        let target =
            TargetFrontendConfig { default_call_conv: JUMPING, pointer_width, page_size_align_log2: 12 };
        Box::new(Sketch { function: Function::new(), builder: FunctionBuilderContext::new(), target })
    }
}

thread_local! {
    /// Taken while it is in use, and lost to a panic.
    static SKETCH: Cell<Option<Box<Sketch>>> = const { Cell::new(None) };
}

/// Builds a function of this signature that nobody compiles, and returns what `build` does. As for
/// [`Backend::compile`] all blocks are to be sealed and filled.
pub fn sketch<R>(signature: Signature, build: impl FnOnce(&mut FunctionBuilder<'_>) -> R) -> R {
    let mut sketch = SKETCH.take().unwrap_or_else(Sketch::new);
    let Sketch { function, builder, target } = &mut *sketch;
    function.clear();
    function.signature = signature;
    let mut builder = FunctionBuilder::new(function, builder);
    let result = build(&mut builder);
    builder.finalize(*target);
    SKETCH.set(Some(sketch));
    result
}

/// Cranelift's code saves registers by the convention of C, and expects it of those that it calls: functions of
/// our convention it calls as the program does. (One that it jumps to finds what is kept for good, which has been
/// put back.)
fn call_from_outside(func: &mut Function) {
    let calls_by_ours = |func: &Function, inst: Inst| match func.dfg.insts[inst] {
        InstructionData::CallIndirect { opcode: Opcode::CallIndirect, sig_ref, .. } => {
            (func.dfg.signatures[sig_ref].call_conv == JUMPING).then_some(sig_ref)
        }
        _ => None,
    };
    let mut at = FuncCursor::new(func);
    while at.next_block().is_some() {
        while let Some(inst) = at.next_inst() {
            let Some(own) = calls_by_ours(at.func, inst) else { continue };
            let mut signature = at.func.dfg.signatures[own].clone();
            assert_eq!(signature.params.len(), 4, "what is called from outside is machine code");
            signature.call_conv = clif::CallConv::SystemV;
            signature.params.push(AbiParam::new(clif::types::I64));
            let signature = at.func.import_signature(signature);
            let (callee, args) = at.func.dfg.inst_args(inst).split_first().expect("a callee");
            let args: Vec<Value> = args.iter().copied().chain([*callee]).collect();
            let enter = at.ins().iconst(clif::types::I64, machine::enter() as i64);
            at.func.replace(inst).call_indirect(signature, enter, &args);
        }
    }
}

/// Where code is left Cranelift stores what there is, and calls what goes on from there.
fn store_and_leave(func: &mut Function, leave: Leave) {
    let mut at = FuncCursor::new(func);
    while let Some(block) = at.next_block() {
        let Some(end) = at.func.layout.last_inst(block) else { continue };
        let Some(departs) = at.func.layout.prev_inst(end) else { continue };
        match at.func.dfg.insts[departs] {
            InstructionData::CallIndirect { sig_ref, .. }
                if at.func.dfg.signatures[sig_ref].call_conv == DEPARTING => {}
            _ => continue,
        }
        let args = at.func.dfg.inst_args(departs).to_vec();
        let [point, base, pairs @ ..] = &args[..] else { unreachable!("a point, and a base") };
        at.goto_inst(departs);
        for pair in pairs.chunks_exact(2) {
            let (offset, is_byte) = apart(integer(at.func, pair[0]).expect("a constant"));
            match is_byte && at.func.dfg.value_type(pair[1]) != clif::types::I8 {
                true => drop(at.ins().istore8(MemFlagsData::trusted(), pair[1], *base, offset)),
                false => drop(at.ins().store(MemFlagsData::trusted(), pair[1], *base, offset)),
            }
        }
        let mut signature = Signature::new(clif::CallConv::SystemV);
        signature.params = vec![AbiParam::new(clif::types::I64); 3];
        signature.returns = vec![AbiParam::new(clif::types::I64)];
        let signature = at.func.import_signature(signature);
        let entry = at.func.layout.entry_block().expect("a function that has begun");
        let vm = at.func.dfg.block_params(entry)[0];
        let leave = at.ins().iconst(clif::types::I64, leave as *const () as i64);
        let call = at.ins().call_indirect(signature, leave, &[vm, *base, *point]);
        let answer = at.func.dfg.first_result(call);
        at.ins().return_(&[answer]);
        at.func.layout.remove_inst(departs);
        at.func.layout.remove_inst(end);
        at.goto_bottom(block);
    }
}

/// Takes out what nobody uses the results of. The code generator does so as well, but leaves loads, and what
/// they need.
fn drop_unused(func: &mut Function) {
    let mut uses: SecondaryMap<Value, u32> = SecondaryMap::new();
    uses.resize(func.dfg.num_values());
    for block in func.layout.blocks() {
        for inst in func.layout.block_insts(block) {
            for value in func.dfg.inst_values(inst) {
                uses[func.dfg.resolve_aliases(value)] += 1;
            }
        }
    }
    let mut block = func.layout.last_block();
    while let Some(current) = block {
        block = func.layout.prev_block(current);
        let mut inst = func.layout.last_inst(current);
        while let Some(last) = inst {
            inst = func.layout.prev_inst(last);
            let is_unused = func.dfg.inst_results(last).iter().all(|&result| uses[result] == 0);
            if !is_unused || !only_makes_results(func, last) {
                continue;
            }
            for value in func.dfg.inst_values(last) {
                uses[func.dfg.resolve_aliases(value)] -= 1;
            }
            func.layout.remove_inst(last);
        }
    }
}

/// Whether the instruction does nothing but make its results.
fn only_makes_results(func: &Function, inst: Inst) -> bool {
    let data = &func.dfg.insts[inst];
    let opcode = data.opcode();
    let acts = opcode.can_store()
        || opcode.is_call()
        || opcode.is_terminator()
        || opcode.is_branch()
        || opcode.other_side_effects();
    match data.memflags_data(&func.dfg) {
        Some(flags) => !acts && flags.trap_code().is_none(),
        None => !acts && !opcode.can_load() && !opcode.can_trap(),
    }
}

/// The integer that a value is, if it is a constant.
pub fn integer(func: &Function, value: Value) -> Option<i64> {
    let inst = func.dfg.value_def(func.dfg.resolve_aliases(value)).inst()?;
    match func.dfg.insts[inst] {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
        _ => None,
    }
}

/// Whether an instruction may have this operand in itself: what is in memory, a constant, or the sum of an
/// address.
pub fn may_be_operand_in_place(func: &Function, value: Value) -> bool {
    let inst = func.dfg.value_def(func.dfg.resolve_aliases(value)).inst();
    let is_taken_in = |op| matches!(op, Opcode::Load | Opcode::Iconst | Opcode::Iadd);
    inst.is_some_and(|inst| is_taken_in(func.dfg.insts[inst].opcode()))
}

/// A constant that is there wherever the function goes.
pub fn constant_at_start(builder: &mut FunctionBuilder<'_>, ty: clif::Type, n: i64) -> Value {
    let start = builder.func.layout.entry_block().expect("a function that has begun");
    let mut at_start = FuncCursor::new(builder.func).at_first_insertion_point(start);
    at_start.ins().iconst(ty, n)
}

/// Nobody comes here.
pub fn unreachable(builder: &mut FunctionBuilder<'_>) {
    builder.ins().trap(TrapCode::unwrap_user(1));
}

/// What a value is the sum of, and a constant.
pub fn sum(func: &Function, value: Value) -> Option<(Value, i64)> {
    let inst = func.dfg.value_def(func.dfg.resolve_aliases(value)).inst()?;
    match func.dfg.insts[inst] {
        InstructionData::Binary { opcode: Opcode::Iadd, args: [a, b] } => {
            integer(func, b).map(|n| (a, n)).or_else(|| integer(func, a).map(|n| (b, n)))
        }
        _ => None,
    }
}

/// The function itself, to be called by it: any number of references in one body.
pub fn itself(builder: &mut FunctionBuilder<'_>) -> FuncRef {
    let signature = builder.func.signature.clone();
    let signature = builder.import_signature(signature);
    let name = ExternalName::user(builder.func.declare_imported_user_function(ITSELF));
    builder.import_function(ExtFuncData { name, signature, colocated: true, patchable: false })
}

/// What is built from now on belongs to `place` (not `u32::MAX`).
pub fn set_place(builder: &mut FunctionBuilder<'_>, place: Place) {
    let location = clif::SourceLoc::new(place.0);
    assert!(!location.is_default(), "a place that stands for none");
    builder.set_srcloc(location);
}

fn shared_settings(options: Options) -> settings::Builder {
    let mut flags = settings::builder();
    let verify = if options.verify || cfg!(debug_assertions) { "true" } else { "false" };
    for (name, value) in [
        ("opt_level", "none"),
        ("regalloc_algorithm", "backtracking"),
        ("regalloc_checker", if options.verify { "true" } else { "false" }),
        ("enable_verifier", verify),
        ("enable_probestack", "true"),
        ("probestack_strategy", "inline"),
        ("unwind_info", "false"),
        // Tail calls are made of them.
        ("preserve_frame_pointers", "true"),
        // Loads and stores are checked by us, where they need it.
        ("enable_heap_access_spectre_mitigation", "false"),
        ("enable_table_access_spectre_mitigation", "false"),
    ] {
        flags.set(name, value).expect("a setting of this version");
    }
    flags
}

fn explain(error: cranelift_codegen::CodegenError) -> CompileError {
    use cranelift_codegen::CodegenError;
    match error {
        CodegenError::Verifier(errors) => CompileError::Invalid(errors.to_string()),
        CodegenError::CodeTooLarge | CodegenError::ImplLimitExceeded => CompileError::TooLarge,
        other => CompileError::Unsupported(other.to_string()),
    }
}

/// Applies a relocation that refers to the function itself.
fn resolve(
    bytes: &mut [u8],
    relocation: &FinalizedMachReloc,
    function: &clif::Function,
) -> Result<(), CompileError> {
    let outside = || {
        let (offset, kind) = (relocation.offset, relocation.kind);
        let to = relocation.target.display(Some(&function.params));
        CompileError::Relocation(format!("{to} at {offset:#x} ({kind})"))
    };
    let to = match &relocation.target {
        FinalizedRelocTarget::ExternalName(ExternalName::User(name))
            if function.params.user_named_funcs()[*name] == ITSELF =>
        {
            0
        }
        FinalizedRelocTarget::Func(offset) => i64::from(*offset),
        FinalizedRelocTarget::ExternalName(_) => return Err(outside()),
    };
    if !matches!(relocation.kind, Reloc::X86CallPCRel4 | Reloc::X86PCRel4) {
        return Err(outside());
    }
    // Relative to the field itself; the addend accounts for its four bytes.
    let distance = to + relocation.addend - i64::from(relocation.offset);
    let distance = i32::try_from(distance).map_err(|_| CompileError::TooLarge)?;
    let at = relocation.offset as usize;
    bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    Ok(())
}

fn positions(code: &CompiledCode) -> Positions {
    let known =
        code.buffer.get_srclocs_sorted().iter().filter(|at| !at.loc.is_default() && at.start < at.end);
    Positions::from_ranges(known.map(|at| (at.start..at.end, Place(at.loc.bits()))))
}

#[cfg(test)]
mod tests;
