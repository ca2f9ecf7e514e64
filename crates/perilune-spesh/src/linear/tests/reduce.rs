//! Makes a function that is compiled wrongly as small as can be.
//!
//! What is taken out may leave a function that reaches beyond memory, divides by 0 or does not end, so each is
//! tried in a child of this process.

use crate::backend::clif::{Function, Inst, InstBuilder, InstructionData, Opcode, Type, Value, types};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use std::collections::HashSet;

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Both did the same, or Cranelift's code did not end well.
    Well,
    Differently,
    /// Our generator panicked.
    Panicking,
    /// Our code stopped the process, or did not end.
    Stopping,
}

/// Tries something in a child of this process: it says when it comes to our code, and how it ended.
pub(super) fn apart(what: impl FnOnce(&dyn Fn()) -> Ended) -> Ended {
    const ALL: [Ended; 4] = [Ended::Well, Ended::Differently, Ended::Panicking, Ended::Stopping];
    // SAFETY: a page that both processes write to. The child ends without running what this process would run
    // at its end, and its one thread asks nothing of others that it has not.
    unsafe {
        let size = 4096;
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), size, access, shared, -1, 0);
        assert_ne!(page, libc::MAP_FAILED, "there is room for a page");
        let is_ours = page.cast::<u8>();
        let child = libc::fork();
        if child == 0 {
            for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT] {
                libc::signal(signal, libc::SIG_DFL);
            }
            libc::alarm(1);
            let ended = what(&|| is_ours.write_volatile(1));
            libc::_exit(ended as i32);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        let ended = match libc::WIFSIGNALED(status) {
            true if is_ours.read_volatile() == 1 => Ended::Stopping,
            true => Ended::Well,
            false => ALL[libc::WEXITSTATUS(status) as usize & 3],
        };
        libc::munmap(page, size);
        ended
    }
}

/// A smaller function that is wrong.
pub(super) fn reduce(mut func: Function, is_wrong: &dyn Fn(&Function) -> bool) -> Function {
    loop {
        let before = insts(&func).len();
        func = fewer_ways(func, is_wrong);
        let mut size = before;
        while size > 0 {
            func = fewer_insts(func, size, is_wrong);
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
        func = fewer_parameters(func, is_wrong);
        func = fewer_blocks(func, is_wrong);
        func.dfg.resolve_all_aliases();
        tried(&mut func, is_wrong, drop_unused);
        if insts(&func).len() >= before {
            return func;
        }
    }
}

fn insts(func: &Function) -> Vec<Inst> {
    func.layout.blocks().flat_map(|block| func.layout.block_insts(block)).collect()
}

/// Changes the function if it is as wrong then; whether it is.
fn tried(
    func: &mut Function,
    is_wrong: &dyn Fn(&Function) -> bool,
    change: impl FnOnce(&mut Function),
) -> bool {
    let mut other = func.clone();
    change(&mut other);
    drop_unreachable(&mut other);
    let is_smaller = is_wrong(&other);
    if is_smaller {
        *func = other;
    }
    is_smaller
}

/// Blocks that nothing leads to go.
fn drop_unreachable(func: &mut Function) {
    let mut open = vec![func.layout.entry_block().expect("a block")];
    let mut reached = open.clone();
    while let Some(block) = open.pop() {
        let last = func.layout.last_inst(block).expect("a block that ends");
        let dfg = &func.dfg;
        for call in dfg.insts[last].branch_destination(&dfg.jump_tables, &dfg.exception_tables) {
            let to = call.block(&dfg.value_lists);
            if !reached.contains(&to) {
                reached.push(to);
                open.push(to);
            }
        }
    }
    let gone: Vec<_> = func.layout.blocks().filter(|block| !reached.contains(block)).collect();
    for block in gone {
        while let Some(inst) = func.layout.first_inst(block) {
            func.layout.remove_inst(inst);
        }
        func.layout.remove_block(block);
    }
}

/// Jumps where one way was chosen of two.
fn fewer_ways(mut func: Function, is_wrong: &dyn Fn(&Function) -> bool) -> Function {
    for inst in insts(&func) {
        if func.layout.inst_block(inst).is_none() {
            continue;
        }
        if let InstructionData::Brif { blocks, .. } = func.dfg.insts[inst] {
            for destination in blocks {
                let jump = InstructionData::Jump { opcode: Opcode::Jump, destination };
                if tried(&mut func, is_wrong, |func| func.dfg.insts[inst] = jump) {
                    break;
                }
            }
        }
    }
    func
}

/// A constant before this instruction, or where the function begins.
fn constant(func: &mut Function, inst: Option<Inst>, ty: Type, n: u64) -> Value {
    let entry = func.layout.entry_block().expect("a block");
    let cursor = FuncCursor::new(func);
    let mut cursor = match inst {
        Some(inst) => cursor.at_inst(inst),
        None => cursor.at_first_insertion_point(entry),
    };
    match ty {
        types::F64 => cursor.ins().f64const(f64::from_bits(n)),
        ty => cursor.ins().iconst(ty, n as i64),
    }
}

/// The instruction goes; its results are constants.
fn remove(func: &mut Function, inst: Inst, n: u64) {
    let results = func.dfg.inst_results(inst).to_vec();
    let constants: Vec<Value> = results
        .iter()
        .map(|&result| {
            let ty = func.dfg.value_type(result);
            constant(func, Some(inst), ty, n)
        })
        .collect();
    func.dfg.clear_results(inst);
    for (result, constant) in results.into_iter().zip(constants) {
        func.dfg.change_to_alias(result, constant);
    }
    func.layout.remove_inst(inst);
}

/// Whether the instruction may be taken out: it is no constant that something needs.
fn can_go(func: &Function, inst: Inst) -> bool {
    let is_last = func.dfg.insts[inst].opcode().is_terminator();
    func.layout.inst_block(inst).is_some() && !is_last && !is_constant(func, inst)
}

fn is_constant(func: &Function, inst: Inst) -> bool {
    matches!(func.dfg.insts[inst].opcode(), Opcode::Iconst | Opcode::F64const)
}

/// Takes out so many instructions at once.
fn fewer_insts(mut func: Function, size: usize, is_wrong: &dyn Fn(&Function) -> bool) -> Function {
    let all: Vec<Inst> = insts(&func).into_iter().filter(|&inst| can_go(&func, inst)).collect();
    for part in all.rchunks(size) {
        let there: Vec<Inst> = part.iter().copied().filter(|&inst| can_go(&func, inst)).collect();
        let Some(&first) = there.first() else { continue };
        if size == 1 && is_operand_instead(&mut func, first, is_wrong) {
            continue;
        }
        for n in [0, 1] {
            let all_gone = |func: &mut Function| there.iter().rev().for_each(|&inst| remove(func, inst, n));
            if tried(&mut func, is_wrong, all_gone) {
                break;
            }
        }
    }
    func
}

/// One of the operands stands for the result, if that is as wrong.
fn is_operand_instead(func: &mut Function, inst: Inst, is_wrong: &dyn Fn(&Function) -> bool) -> bool {
    let [result] = func.dfg.inst_results(inst)[..] else { return false };
    let same_type = |value: &Value| func.dfg.value_type(*value) == func.dfg.value_type(result);
    let args: Vec<Value> = func.dfg.inst_args(inst).iter().copied().filter(same_type).collect();
    args.into_iter().any(|arg| {
        tried(func, is_wrong, |func| {
            func.dfg.clear_results(inst);
            func.dfg.change_to_alias(result, arg);
            func.layout.remove_inst(inst);
        })
    })
}

/// Constants that nobody uses go: all that has been taken out has left some.
fn drop_unused(func: &mut Function) {
    let all = insts(func);
    let used: HashSet<Value> =
        all.iter().flat_map(|&inst| func.dfg.inst_values(inst).collect::<Vec<_>>()).collect();
    for inst in all {
        if is_constant(func, inst) && !used.contains(&func.dfg.first_result(inst)) {
            func.layout.remove_inst(inst);
        }
    }
}

/// Parameters of blocks become constants.
fn fewer_parameters(mut func: Function, is_wrong: &dyn Fn(&Function) -> bool) -> Function {
    let blocks: Vec<_> = func.layout.blocks().skip(1).collect();
    for block in blocks {
        for n in (0..func.dfg.num_block_params(block)).rev() {
            tried(&mut func, is_wrong, |func| {
                let parameter = func.dfg.block_params(block)[n];
                let constant = constant(func, None, func.dfg.value_type(parameter), 0);
                func.dfg.remove_block_param(parameter);
                func.dfg.change_to_alias(parameter, constant);
                for inst in insts(func) {
                    let dfg = &mut func.dfg;
                    let calls = dfg.insts[inst]
                        .branch_destination_mut(&mut dfg.jump_tables, &mut dfg.exception_tables);
                    for call in calls {
                        if call.block(&dfg.value_lists) == block {
                            call.remove(n, &mut dfg.value_lists);
                        }
                    }
                }
            });
        }
    }
    func
}

/// Blocks that only one other leads to become part of that.
fn fewer_blocks(mut func: Function, is_wrong: &dyn Fn(&Function) -> bool) -> Function {
    for inst in insts(&func) {
        let Some(block) = func.layout.inst_block(inst) else { continue };
        let InstructionData::Jump { destination, .. } = func.dfg.insts[inst] else { continue };
        let to = destination.block(&func.dfg.value_lists);
        let mut ways = 0;
        for inst in insts(&func) {
            let dfg = &func.dfg;
            let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
            ways += calls.iter().filter(|call| call.block(&dfg.value_lists) == to).count();
        }
        if ways != 1 || to == block {
            continue;
        }
        tried(&mut func, is_wrong, |func| {
            let args: Vec<Value> =
                destination.args(&func.dfg.value_lists).filter_map(|arg| arg.as_value()).collect();
            let parameters = func.dfg.detach_block_params(to);
            let parameters = parameters.as_slice(&func.dfg.value_lists).to_vec();
            for (parameter, arg) in parameters.into_iter().zip(args) {
                func.dfg.change_to_alias(parameter, arg);
            }
            func.layout.remove_inst(inst);
            while let Some(inst) = func.layout.first_inst(to) {
                func.layout.remove_inst(inst);
                func.layout.append_inst(inst, block);
            }
            func.layout.remove_block(to);
        });
    }
    func
}
