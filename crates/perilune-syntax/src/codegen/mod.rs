//! From the syntax tree to bytecode, in one pass over each function.
//!
//! Terms: an *expression description* ([`expr::Exp`]) says where an expression's value is or how the last
//! instruction would produce it, so that the consumer decides the target: a constant is not loaded until a
//! register must have it, a local is used in place, and a *relocatable* instruction gets its target register
//! patched into `a` when the consumer knows it. Comparisons and `and`/`or` are descriptions with two *jump
//! lists* (jumps taken when true and when false), chained through the jumps' own offset fields until their
//! destination is known.
//!
//! Registers are a stack: locals in scope lie at the bottom ([`func::FuncState::active_registers`] of them),
//! temporaries above, freed in the reverse order of their reservation. Names are resolved by the parser;
//! which function owns a local decides between register and upvalue, and because the tree of a statement is
//! complete before any code of it is made, it is known at the declaration whether a local is captured. So
//! closing instructions are emitted where they are needed and nowhere else, at the jump that leaves the
//! scope. (The main function's own locals may be captured by later statements: see [`Generator`].)
//!
//! The main function's statements become code in portions, and the nodes of one make room for those of the
//! next: the tree of a large program would be several times its text, and each page that it fills a fault of
//! some microseconds.
//!
//! Invariants: conditional jumps go forward; whatever goes back is `JMPBACK` or the two loop instructions;
//! code that cannot be reached is not started (a block's closing jump after `return`), but the final return
//! is always there, because its line counts as active. Left spines of the tree are walked with a stack of
//! their own, see [`expr`].
//!
//! Rejected: a separate register allocator over an intermediate form. It would save few moves over this
//! scheme, and the specialiser has its own form anyway.

mod assign;
mod cond;
mod expr;
mod fold;
mod func;
mod loops;
mod operators;
mod scope;
mod stat;
mod table;
mod texts;

use crate::Bounds;
use crate::ast::{Attrib, Block, ByLocal, Chunk, ExprId, FuncId, FunctionPlace, Local, LocalId};
use crate::bytecode::Op;
use crate::error::{SyntaxError, chunk_id};
use crate::parser::workspace::{empty, empty_map};
use crate::proto::{Born, Proto, UpvalueDesc, VarKind};
use crate::text::{Shared, Text};
use expr::Kind;
use func::{FastMap, FuncState};
use std::sync::Arc;
use texts::{Naming, Texts};

/// The result of everything that may refuse the program; boxed, because it is in every frame of the
/// recursion.
type Res<T> = Result<T, Box<SyntaxError>>;

/// Upvalues one function may have; their index is a byte.
const MAX_UPVALUES: usize = 255;

/// What ended a run: the error, and the limit if it is one that the program exceeds. Programs want to know
/// near which token they are.
pub(crate) type Failure = (Box<SyntaxError>, Option<Limit>);

/// Generates a chunk's main function, with all functions inside, while the parser is still at it: whatever
/// statements of the main function are there may become code at any time, after which their nodes may go.
///
/// What is said later about the main function's variables comes too late for what has been generated. For
/// code that makes no difference: if a variable is not captured yet, nothing that runs before the next
/// statement needs to close it, since the parser keeps back what control may come back to. What upvalues say
/// about the variables ([`UpvalueDesc::kind`]) is settled at the end.
///
/// What it works with outlives it (see [`State`]); what is said of one chunk alone is here.
pub(crate) struct Generator<'s> {
    state: &'s mut State,
    source: Arc<[u8]>,
    progress: Progress,
}

impl<'s> Generator<'s> {
    /// For the chunk whose main function and `_ENV` the parser has just declared. `chunk_name` is the name as
    /// given to `load`, with its `=` or `@`; it becomes [`Proto::source`].
    pub(crate) fn new(
        state: &'s mut State,
        chunk: &Chunk,
        names: &mut Vec<Shared>,
        chunk_name: &[u8],
    ) -> Generator<'s> {
        debug_assert!(state.is_empty(), "the chunk before is done");
        let naming = state.texts.begin();
        let main = renewed(&mut state.spare, FuncId(0), true, naming);
        state.open.push(main);
        let mut generator = Generator { state, source: chunk_name.into(), progress: Progress::START };
        generator.with(chunk, names, Bounds::NONE, |generator| {
            let name = Some(generator.local_name(LocalId(0)));
            generator.fs.upvalues.push(UpvalueDesc {
                name,
                in_stack: true,
                index: 0,
                kind: VarKind::Unassigned,
                line: 0,
                assigned_line: 0,
            });
            generator.fs.upvalue_ids.insert(LocalId(0), 0);
            generator.function_start(FuncId(0)).expect("the main function has no parameters");
        });
        generator
    }

    /// Generates the next statements of the main function.
    pub(crate) fn statements(
        &mut self,
        chunk: &Chunk,
        names: &mut Vec<Shared>,
        bounds: Bounds<'_>,
        block: Block,
    ) -> Result<(), Failure> {
        self.progress.born = Born::default();
        self.with(chunk, names, bounds, |generator| {
            generator.registers.resize(&chunk.locals, 0);
            generator.notice_captures();
            generator.list_labels(block);
            generator.statements(block).map_err(|error| (error, generator.limit.take()))
        })
    }

    /// The nodes of all statements so far are forgotten; those to come are numbered anew.
    pub(crate) fn forget_nodes(&mut self, count: usize) {
        self.progress.before = self.progress.latest();
        self.progress.latest = None;
        self.progress.forgotten += count as u32;
        func::clear(&mut self.state.constants[1]);
    }

    /// The main function's prototype, when all statements have been generated.
    pub(crate) fn finish(mut self, chunk: &Chunk, names: &mut Vec<Shared>) -> Arc<Proto> {
        let proto = self.with(chunk, names, Bounds::NONE, |generator| {
            generator.notice_captures();
            generator.settle_upvalues();
            generator.function_end(FuncId(0))
        });
        self.state.spare.append(&mut self.state.open);
        proto
    }

    fn with<R>(
        &mut self,
        chunk: &Chunk,
        names: &mut Vec<Shared>,
        bounds: Bounds<'_>,
        f: impl FnOnce(&mut Gen<'_>) -> R,
    ) -> R {
        let State { open, spare, texts, hidden, constants, registers, spine, captures } = &mut *self.state;
        texts.lend(names);
        let mut generator = Gen {
            chunk,
            source: &self.source,
            fs: open.pop().expect("the main function is open"),
            outer: open,
            spare,
            texts,
            hidden,
            constants,
            registers,
            progress: self.progress,
            spine,
            bounds,
            captures,
            limit: None,
        };
        let result = f(&mut generator);
        self.progress = generator.progress;
        let fs = generator.fs;
        self.state.open.push(fs);
        self.state.texts.give_back(names);
        result
    }
}

/// What code is made with: lists, and the states of functions. It is large, so it stays where it is; and it
/// is made once for many chunks, for its memory.
pub(crate) struct State {
    /// The functions that are open, outermost first; the innermost is with [`Gen`] while that is at it.
    open: States,
    /// States of functions that are done, for their memory.
    spare: States,
    texts: Texts,
    /// The name of loops' own variables.
    hidden: Shared,
    /// Values of the locals that are compile-time constants, whatever their function; those that are
    /// forgotten with their portion by themselves.
    constants: [FastMap<LocalId, Kind>; 2],
    /// Register of each local, valid once it has been declared.
    registers: ByLocal<u8>,
    /// Operators waiting for their left operand, innermost last; shared by all active `expr` calls.
    spine: Vec<ExprId>,
    /// Variables of the main function that functions in it hold.
    captures: Vec<Capture>,
}

impl Default for State {
    fn default() -> State {
        State {
            open: Vec::new(),
            spare: Vec::new(),
            texts: Texts::default(),
            hidden: Shared::from(&b"(for state)"[..]),
            constants: Default::default(),
            registers: ByLocal::EMPTY,
            spine: Vec::new(),
            captures: Vec::new(),
        }
    }
}

/// States of functions. Each is large, and goes from list to list.
type States = Vec<Box<FuncState>>;

/// States of functions that are kept for another chunk.
const SPARE: usize = 2;

impl State {
    /// Nothing of a chunk is in it.
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.texts.is_empty() && self.spine.is_empty() && self.captures.is_empty()
    }

    /// The chunk is done; nothing of it stays, but some memory.
    pub(crate) fn empty(&mut self) {
        debug_assert!(self.open.is_empty() && self.spine.is_empty() && self.captures.is_empty());
        self.spare.truncate(SPARE);
        for list in [&mut self.open, &mut self.spare] {
            list.shrink_to(SPARE);
        }
        self.spare.iter_mut().for_each(|function| function.shrink());
        self.texts.empty();
        self.constants.iter_mut().for_each(empty_map);
        self.registers.empty();
        empty(&mut self.spine);
        empty(&mut self.captures);
    }

    /// Bytes of lists that it keeps.
    #[cfg(test)]
    pub(crate) fn heap_bytes(&self) -> usize {
        use crate::parser::workspace::bytes;
        let functions: usize = self.spare.iter().map(|function| function.heap_bytes()).sum();
        let maps: usize = self.constants.iter().map(|map| map.capacity() * 32).sum();
        let lists = bytes(&self.open) + bytes(&self.spare) + bytes(&self.spine) + bytes(&self.captures);
        functions + maps + lists + self.texts.heap_bytes() + self.registers.heap_bytes()
    }
}

/// The state of a function that begins, in the memory of one that is done if there is one.
fn renewed(spare: &mut States, func: FuncId, is_vararg: bool, naming: Naming) -> Box<FuncState> {
    match spare.pop() {
        Some(mut state) => {
            state.renew(func, is_vararg, naming);
            state
        }
        None => Box::new(FuncState::new(func, is_vararg, naming)),
    }
}

/// How far a run has got.
#[derive(Clone, Copy)]
struct Progress {
    /// Line of the latest token the walk has passed; new instructions get it. Grows only.
    line: u32,
    /// Steps until the next look at the bounds.
    until_look: u32,
    /// The expression compiled last, but for tables, of those that are there.
    latest: Option<ExprId>,
    /// Expressions of the chunk that were compiled and are not there any more.
    forgotten: u32,
    /// The one of these that was compiled last, by its number in the whole chunk.
    before: ExprId,
    /// When the portion began, which is when its prototypes are said to come into being: looking at the clock
    /// for each would cost more than many of them.
    born: Born,
}

impl Progress {
    /// Nothing has been compiled.
    const START: Progress = Progress {
        line: 1,
        until_look: STEPS_PER_LOOK,
        latest: None,
        forgotten: 0,
        before: ExprId(0),
        born: Born::FIRST,
    };

    /// The expression compiled last, but for tables, by its number in the whole chunk.
    fn latest(&self) -> ExprId {
        self.latest.map_or(self.before, |latest| ExprId(self.forgotten + latest.0))
    }
}

/// A limit that the program exceeds, and where.
pub(crate) struct Limit {
    pub(crate) message: String,
    /// The expression that was compiled last.
    pub(crate) at: ExprId,
    /// Whether the expression itself was fine, but not what was to be done with it.
    pub(crate) used: bool,
}

/// One run over a portion of a chunk. What outlives it is in [`State`].
struct Gen<'a> {
    chunk: &'a Chunk,
    source: &'a Arc<[u8]>,
    /// The function being generated.
    fs: Box<FuncState>,
    /// The functions around it, outermost first.
    outer: &'a mut States,
    spare: &'a mut States,
    texts: &'a mut Texts,
    hidden: &'a Shared,
    constants: &'a mut [FastMap<LocalId, Kind>; 2],
    registers: &'a mut ByLocal<u8>,
    progress: Progress,
    spine: &'a mut Vec<ExprId>,
    bounds: Bounds<'a>,
    captures: &'a mut Vec<Capture>,
    /// The limit that ended the run.
    limit: Option<Limit>,
}

/// A variable of the main function that a function directly in it holds.
struct Capture {
    local: LocalId,
    /// Where that stands.
    place: FunctionPlace,
    /// Which of the main function's prototypes that is.
    proto: u32,
    /// Its upvalue.
    upvalue: u8,
}

/// Statements and items of constructors between two looks at the bounds.
const STEPS_PER_LOOK: u32 = 4096;

impl Gen<'_> {
    /// What is known of the main function's variables now that the chunk has been read. Functions for which
    /// that is what was known when they were made are left alone: most have not been looked at for a long
    /// time.
    fn settle_upvalues(&mut self) {
        let env = &self.chunk.locals[LocalId(0)];
        let kind = if env.assigned { VarKind::Mutable } else { VarKind::Unassigned };
        let of_all = settle(&mut self.fs.upvalues[0], kind, env.decisive_line());
        let mut outdated = vec![of_all; self.fs.protos.len()];
        for capture in std::mem::take(self.captures) {
            let kind = self.kind_of(capture.local, &capture.place);
            let line = self.chunk.locals[capture.local].decisive_line();
            let proto = capture.proto as usize;
            let upvalues = &mut own(&mut self.fs.protos[proto]).upvalues;
            outdated[proto] |= settle(&mut upvalues[capture.upvalue as usize], kind, line);
        }
        for (proto, _) in self.fs.protos.iter_mut().zip(outdated).filter(|(_, outdated)| *outdated) {
            inherit(&self.fs.upvalues, proto);
        }
    }

    /// What a local is to the function at `place` in the one that declares it, and to all inside.
    fn kind_of(&self, local: LocalId, place: &FunctionPlace) -> VarKind {
        match &self.chunk.locals[local] {
            Local { attrib: Attrib::Close, .. } => VarKind::Close,
            Local { assigned: false, late: false, .. } => VarKind::Unassigned,
            variable if variable.is_settled_before(place) => VarKind::Settled,
            Local { late: true, .. } => VarKind::Late,
            _ => VarKind::Mutable,
        }
    }

    /// The walk has passed a token on `line`.
    fn at(&mut self, line: u32) {
        self.progress.line = self.progress.line.max(line);
    }

    /// A step of a list that may be long.
    #[inline]
    fn step(&mut self) -> Res<()> {
        self.progress.until_look -= 1;
        if self.progress.until_look == 0 {
            self.progress.until_look = STEPS_PER_LOOK;
            if (self.bounds.interrupted)() {
                return Err(SyntaxError::interrupted());
            }
        }
        Ok(())
    }

    /// An error on the current line.
    fn error<T>(&self, message: &str) -> Res<T> {
        self.error_at(self.progress.line, message.as_bytes())
    }

    fn error_at<T>(&self, line: u32, message: &[u8]) -> Res<T> {
        let mut text = chunk_id(self.source);
        text.extend_from_slice(format!(":{line}: ").as_bytes());
        text.extend_from_slice(message);
        Err(Box::new(SyntaxError { message: text, incomplete: false }))
    }

    /// The program exceeds a limit.
    #[cold]
    fn limit_error<T>(&mut self, message: String, used: bool) -> Res<T> {
        let error = self.error(&message);
        self.limit = Some(Limit { message, at: self.progress.latest(), used });
        error
    }

    /// The name of a local.
    fn local_name(&self, local: LocalId) -> Text {
        self.texts.text(self.chunk.locals[local].name)
    }

    /// Generates a nested function; its index among the current function's prototypes.
    fn function(&mut self, id: FuncId) -> Res<u32> {
        self.open_function(id);
        let proto = self.function_body(id)?;
        Ok(self.close_function(proto))
    }

    // Functions nest by native recursion; what needs much stack is kept out of its frames.

    #[inline(never)]
    fn open_function(&mut self, id: FuncId) {
        let is_vararg = self.chunk.functions[id.index()].is_vararg;
        let naming = self.texts.begin();
        let inner = renewed(self.spare, id, is_vararg, naming);
        self.outer.push(std::mem::replace(&mut self.fs, inner));
    }

    #[inline(never)]
    fn close_function(&mut self, proto: Arc<Proto>) -> u32 {
        self.texts.end(self.fs.naming);
        let around = self.outer.pop().expect("a nested function has one around it");
        self.spare.push(std::mem::replace(&mut self.fs, around));
        self.fs.protos.push(proto);
        self.fs.protos.len() as u32 - 1
    }

    /// Generates the whole function whose empty state is `self.fs`.
    fn function_body(&mut self, id: FuncId) -> Res<Arc<Proto>> {
        self.function_start(id)?;
        self.statements(self.chunk.functions[id.index()].body)?;
        Ok(self.function_end(id))
    }

    #[inline(never)]
    fn function_start(&mut self, id: FuncId) -> Res<()> {
        let function = &self.chunk.functions[id.index()];
        self.at(function.line);
        self.enter_block(function.body);
        self.reserve(function.params.len())?;
        for param in function.params.iter() {
            self.activate(param);
        }
        if function.is_vararg {
            self.emit(Op::VarargPrep, function.params.len() as u8, 0, 0, 0);
        }
        Ok(())
    }

    #[inline(never)]
    fn function_end(&mut self, id: FuncId) -> Arc<Proto> {
        let function = &self.chunk.functions[id.index()];
        self.at(function.end_line);
        let first = self.fs.active_registers;
        self.emit_return(first, 0);
        self.end_scope();
        self.finish();
        Arc::new(self.fs.take_proto(function, self.source.clone(), self.progress.born, id == FuncId(0)))
    }

    /// The current function's upvalue for a local of a function around it (or for the chunk's `_ENV`).
    fn upvalue(&mut self, local: LocalId) -> Res<u8> {
        if let Some(&index) = self.fs.upvalue_ids.get(&local) {
            return Ok(index);
        }
        // Outwards to the first function that owns the local or has the upvalue already, then inwards adding
        // it.
        let owner = self.chunk.locals[local].function;
        let mut level = self.outer.len();
        let mut known = None;
        while level > 0 {
            level -= 1;
            let state = &self.outer[level];
            if state.func == owner {
                known = Some((true, self.registers[local]));
                break;
            }
            if let Some(&index) = state.upvalue_ids.get(&local) {
                known = Some((false, index));
                break;
            }
        }
        let (mut in_stack, mut index) = known.expect("the parser resolves names to functions around");
        let variable = &self.chunk.locals[local];
        // The function in the variable's own that this one is, or is in, may have been met before.
        let kind = if in_stack {
            let function = self.outer.get(level + 1).map_or(self.fs.func, |outer| outer.func);
            self.kind_of(local, &self.chunk.functions[function.index()].place)
        } else {
            self.outer[level].upvalues[index as usize].kind
        };
        let (line, assigned_line) = (variable.line, variable.decisive_line());
        for inner in level + 1..=self.outer.len() {
            let name = Some(self.local_name(local));
            let proto = self.outer[0].protos.len() as u32;
            let state = if inner == self.outer.len() { &mut self.fs } else { &mut self.outer[inner] };
            if inner == 1 && in_stack {
                let upvalue = state.upvalues.len() as u8;
                let place = self.chunk.functions[state.func.index()].place.clone();
                self.captures.push(Capture { local, place, proto, upvalue });
            }
            if state.upvalues.len() >= MAX_UPVALUES {
                let place = match self.chunk.functions[state.func.index()].line {
                    0 => "main function".to_string(),
                    line => format!("function at line {line}"),
                };
                let message = format!("too many upvalues (limit is {MAX_UPVALUES}) in {place}");
                return self.limit_error(message, false);
            }
            state.upvalues.push(UpvalueDesc { name, in_stack, index, kind, line, assigned_line });
            (in_stack, index) = (false, state.upvalues.len() as u8 - 1);
            state.upvalue_ids.insert(local, index);
        }
        Ok(index)
    }
}

/// What an upvalue says about its variable is this; whether it was something else.
fn settle(upvalue: &mut UpvalueDesc, kind: VarKind, assigned_line: u32) -> bool {
    let before = (upvalue.kind, upvalue.assigned_line);
    (upvalue.kind, upvalue.assigned_line) = (kind, assigned_line);
    before != (kind, assigned_line)
}

/// What upvalues that are those of the function around say about them is what that says.
fn inherit(around: &[UpvalueDesc], proto: &mut Arc<Proto>) {
    let proto = own(proto);
    for upvalue in proto.upvalues.iter_mut().filter(|upvalue| !upvalue.in_stack) {
        let same = &around[upvalue.index as usize];
        settle(upvalue, same.kind, same.assigned_line);
    }
    for inner in &mut proto.protos {
        inherit(&proto.upvalues, inner);
    }
}

/// A prototype that nobody else has yet.
fn own(proto: &mut Arc<Proto>) -> &mut Proto {
    Arc::get_mut(proto).expect("nobody else has a prototype before the chunk is complete")
}
