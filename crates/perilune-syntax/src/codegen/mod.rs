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
//! which function owns a local decides between register and upvalue, and because the tree is complete before
//! any code is made, it is known at the declaration whether a local is captured. So closing instructions are
//! emitted where they are needed and nowhere else, at the jump that leaves the scope.
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

use crate::Bounds;
use crate::ast::{Attrib, Chunk, ExprId, FuncId, Local, LocalId};
use crate::bytecode::Op;
use crate::error::{SyntaxError, chunk_id};
use crate::proto::{Proto, UpvalueDesc, VarKind};
use expr::Kind;
use func::{FastMap, FuncState};
use std::sync::Arc;

/// The result of everything that may refuse the program; boxed, because it is in every frame of the
/// recursion.
type Res<T> = Result<T, Box<SyntaxError>>;

/// Upvalues one function may have; their index is a byte.
const MAX_UPVALUES: usize = 255;

/// Generates the prototype of a chunk's main function, with those of all functions inside.
///
/// `chunk_name` is the name as given to `load`, with its `=` or `@`; it becomes [`Proto::source`]. Errors are
/// what only code generation can see: too many registers or upvalues. Programs want to know near which token
/// they are, so there is a [`Limit`].
pub(crate) fn generate(
    chunk: &Chunk,
    chunk_name: &[u8],
    bounds: Bounds<'_>,
) -> Result<Arc<Proto>, (SyntaxError, Option<Limit>)> {
    let mut generator = Gen {
        chunk,
        source: chunk_name.into(),
        fs: FuncState::new(FuncId(0), true),
        outer: Vec::new(),
        spare: Vec::new(),
        constants: FastMap::default(),
        registers: vec![0; chunk.locals.len()],
        line: 1,
        spine: Vec::new(),
        bounds,
        until_look: STEPS_PER_LOOK,
        latest: ExprId(0),
        limit: None,
    };
    let env = &chunk.locals[0];
    generator.fs.upvalues.push(UpvalueDesc {
        name: Some(chunk.strings[env.name.index()].clone()),
        in_stack: true,
        index: 0,
        kind: if env.assigned { VarKind::Mutable } else { VarKind::Unassigned },
        line: 0,
        assigned_line: env.decisive_line(),
    });
    generator.fs.upvalue_ids.insert(LocalId(0), 0);
    generator.function_body(FuncId(0)).map_err(|error| (*error, generator.limit.take()))
}

/// A limit that the program exceeds, and where.
pub(crate) struct Limit {
    pub(crate) message: String,
    /// The expression that was compiled last.
    pub(crate) at: ExprId,
    /// Whether the expression itself was fine, but not what was to be done with it.
    pub(crate) used: bool,
}

/// The state of one run over a chunk.
struct Gen<'a> {
    chunk: &'a Chunk,
    source: Arc<[u8]>,
    /// The function being generated.
    fs: FuncState,
    /// The functions around it, outermost first.
    outer: Vec<FuncState>,
    /// States of functions that are done, for their memory.
    spare: Vec<FuncState>,
    /// Values of the locals that are compile-time constants, whatever their function.
    constants: FastMap<LocalId, Kind>,
    /// Register of each local, valid once it has been declared.
    registers: Vec<u8>,
    /// Line of the latest token the walk has passed; new instructions get it. Grows only.
    line: u32,
    /// Operators waiting for their left operand, innermost last; shared by all active `expr` calls.
    spine: Vec<ExprId>,
    bounds: Bounds<'a>,
    /// Steps until the next look at `bounds`.
    until_look: u32,
    /// The expression compiled last, but for tables.
    latest: ExprId,
    /// The limit that ended the run.
    limit: Option<Limit>,
}

/// Statements and items of constructors between two looks at the bounds.
const STEPS_PER_LOOK: u32 = 4096;

impl Gen<'_> {
    /// The walk has passed a token on `line`.
    fn at(&mut self, line: u32) {
        self.line = self.line.max(line);
    }

    /// A step of a list that may be long.
    #[inline]
    fn step(&mut self) -> Res<()> {
        self.until_look -= 1;
        if self.until_look == 0 {
            self.until_look = STEPS_PER_LOOK;
            if (self.bounds.interrupted)() {
                return Err(SyntaxError::interrupted());
            }
        }
        Ok(())
    }

    /// An error on the current line.
    fn error<T>(&self, message: &str) -> Res<T> {
        self.error_at(self.line, message.as_bytes())
    }

    fn error_at<T>(&self, line: u32, message: &[u8]) -> Res<T> {
        let mut text = chunk_id(&self.source);
        text.extend_from_slice(format!(":{line}: ").as_bytes());
        text.extend_from_slice(message);
        Err(Box::new(SyntaxError { message: text, incomplete: false }))
    }

    /// The program exceeds a limit.
    #[cold]
    fn limit_error<T>(&mut self, message: String, used: bool) -> Res<T> {
        let error = self.error(&message);
        self.limit = Some(Limit { message, at: self.latest, used });
        error
    }

    /// The name of a local.
    fn local_name(&self, local: LocalId) -> &[u8] {
        &self.chunk.strings[self.chunk.locals[local.index()].name.index()]
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
        let inner = match self.spare.pop() {
            Some(mut spare) => {
                spare.renew(id, is_vararg);
                spare
            }
            None => FuncState::new(id, is_vararg),
        };
        self.outer.push(std::mem::replace(&mut self.fs, inner));
    }

    #[inline(never)]
    fn close_function(&mut self, proto: Arc<Proto>) -> u32 {
        let around = self.outer.pop().expect("a nested function has one around it");
        self.spare.push(std::mem::replace(&mut self.fs, around));
        self.fs.protos.push(proto);
        self.fs.protos.len() as u32 - 1
    }

    /// Generates the whole function whose empty state is `self.fs`.
    fn function_body(&mut self, id: FuncId) -> Res<Arc<Proto>> {
        self.function_start(id)?;
        self.statements(&self.chunk.functions[id.index()].body)?;
        Ok(self.function_end(id))
    }

    #[inline(never)]
    fn function_start(&mut self, id: FuncId) -> Res<()> {
        let function = &self.chunk.functions[id.index()];
        self.at(function.line);
        self.enter_block(&function.body);
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
        Arc::new(self.fs.take_proto(function, self.source.clone(), id == FuncId(0)))
    }

    /// The current function's upvalue for a local of a function around it (or for the chunk's `_ENV`).
    fn upvalue(&mut self, local: LocalId) -> Res<u8> {
        if let Some(&index) = self.fs.upvalue_ids.get(&local) {
            return Ok(index);
        }
        // Outwards to the first function that owns the local or has the upvalue already, then inwards adding
        // it.
        let owner = self.chunk.locals[local.index()].function;
        let mut level = self.outer.len();
        let mut known = None;
        while level > 0 {
            level -= 1;
            let state = &self.outer[level];
            if state.func == owner {
                known = Some((true, self.registers[local.index()]));
                break;
            }
            if let Some(&index) = state.upvalue_ids.get(&local) {
                known = Some((false, index));
                break;
            }
        }
        let (mut in_stack, mut index) = known.expect("the parser resolves names to functions around");
        let variable = &self.chunk.locals[local.index()];
        let kind = match variable {
            Local { attrib: Attrib::Close, .. } => VarKind::Close,
            Local { assigned: false, late: false, .. } => VarKind::Unassigned,
            // The function in the variable's own that this one is, or is in, has been met before.
            _ if !in_stack => self.outer[level].upvalues[index as usize].kind,
            _ => {
                let function =
                    if level + 1 == self.outer.len() { self.fs.func } else { self.outer[level + 1].func };
                if variable.is_settled_before(&self.chunk.functions[function.index()]) {
                    VarKind::Settled
                } else if variable.late {
                    VarKind::Late
                } else {
                    VarKind::Mutable
                }
            }
        };
        let (line, assigned_line) = (variable.line, variable.decisive_line());
        for inner in level + 1..=self.outer.len() {
            let name = Some(self.local_name(local).into());
            let state = if inner == self.outer.len() { &mut self.fs } else { &mut self.outer[inner] };
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
