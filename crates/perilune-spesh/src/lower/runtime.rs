//! Calls of the runtime's functions.
//!
//! A call by the convention of C leaves five registers as they were. Whatever else is needed behind it lies
//! in memory, and so do all floats: a value that is used on both sides of a call is stored where it is made
//! and loaded where it is used, so a loop pays for a call in each round, whether it is made or not. Most
//! calls are where something is out of the ordinary: a number that is not whole, a table that a collection
//! has seen, a cache that is out of date. Those are *rare*, and made through [`target::preserving`], behind
//! which all registers are as before. It stores and loads all that C might change, which costs .4 to .9 ns of
//! a call in a loop that does little else. A loop of float arithmetic whose remainder may have to call a
//! function takes 7.0 ns a round, and 9.6 with a call by the convention of C (`numeric/collatz`).
//!
//! What the interpreter does ([`Lowering::common`]), and what leaves, is called as C is: nothing is in
//! registers then. Rejected: all calls in blocks that are out of the way, and steps of the interpreter,
//! through it. Some of them are common (texts that are compared, functions that end), and nine programs of 79
//! lost 5 to 17%.

use super::Lowering;
use crate::ssa::{Convention, Sig, Signature, Slot, Type, Value as Val};
use crate::target;
use perilune_vm::machine::layout;
use rustc_hash::FxHashMap as HashMap;

/// How a function of the runtime is called.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Shape {
    rare: bool,
    class: Type,
    parameters: usize,
    results: usize,
}

impl Shape {
    fn signature(self) -> Signature {
        let mut signature = Signature::new(if self.rare { Convention::Preserving } else { Convention::C });
        if self.rare {
            signature.params.extend([Type::I64; 2]);
        } else {
            signature.returns = vec![self.class; self.results];
        }
        signature.params.resize(signature.params.len() + self.parameters, self.class);
        signature
    }
}

/// What calls of the runtime have in common in a function.
#[derive(Default)]
pub(super) struct Runtime {
    signatures: HashMap<Shape, Sig>,
    /// Where those that are rare leave their results.
    results: Option<Slot>,
}

impl Lowering<'_, '_> {
    /// Calls a function of the program, at this address, of words, whose result is one.
    pub(super) fn leaf(&mut self, address: usize, arguments: &[Val]) -> Val {
        let [answer] = self.words(address, arguments);
        answer
    }

    /// The same where it is common, whatever its block says, or nothing is in registers.
    pub(super) fn common(&mut self, address: usize, arguments: &[Val]) -> Val {
        let [answer] = self.call_runtime(false, Type::I64, address, arguments);
        answer
    }

    /// As [`Self::leaf`], of so many results, two at most.
    pub(super) fn words<const N: usize>(&mut self, address: usize, arguments: &[Val]) -> [Val; N] {
        self.call_runtime(self.is_rare(), Type::I64, address, arguments)
    }

    /// What a function of the program, at this address, makes of floats.
    pub(super) fn by_function(&mut self, address: usize, arguments: &[Val]) -> Val {
        let [result] = self.call_runtime(self.is_rare(), Type::F64, address, arguments);
        result
    }

    fn call_runtime<const N: usize>(
        &mut self,
        rare: bool,
        class: Type,
        address: usize,
        arguments: &[Val],
    ) -> [Val; N] {
        const { assert!(N <= 2, "more results are not in registers") };
        if address != layout::store_barrier()
            && address != layout::make_room()
            && let Some(now) = &mut self.now
        {
            now.forget_extensible();
        }
        let shape = Shape { rare, class, parameters: arguments.len(), results: N };
        let signature = match self.runtime.signatures.get(&shape) {
            Some(signature) => *signature,
            None => {
                let signature = self.b.import_signature(shape.signature());
                self.runtime.signatures.insert(shape, signature);
                signature
            }
        };
        let function = self.b.iconst(Type::I64, address as i64);
        if !shape.rare {
            let call = self.b.call_indirect(signature, function, arguments);
            return self.b.inst_results(call);
        }
        let slot = *self.runtime.results.get_or_insert_with(|| self.b.create_slot(target::RESULTS_SIZE));
        let results = self.b.stack_addr(slot, 0);
        let preserving = self.b.iconst(Type::I64, target::preserving as *const () as i64);
        let all: Vec<Val> = [function, results].into_iter().chain(arguments.iter().copied()).collect();
        self.b.call_indirect(signature, preserving, &all);
        let first = if class == Type::F64 { target::FLOAT_RESULT } else { 0 };
        std::array::from_fn(|n| self.b.stack_load(class, slot, first + 8 * n as i32))
    }

    /// What is being built is hardly ever run.
    pub(super) fn is_rare(&self) -> bool {
        let block = self.b.current_block();
        block.is_some_and(|block| self.b.func.is_cold(block))
    }
}
