//! Makes a function that is compiled wrongly as small as can be.
//!
//! What is taken out may leave a function that reaches beyond memory, divides by 0 or does not end, so each is
//! tried in a child of this process.

use crate::ssa::{Block, Data, Function, Inst, Value};

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The code did what the form says, or that makes no sense.
    Well,
    Differently,
    /// The generator panicked.
    Panicking,
    /// The code stopped the process, or did not end.
    Stopping,
}

/// Tries something in a child of this process: it says when it comes to the code, and how it ended.
pub(super) fn apart(what: impl FnOnce(&dyn Fn()) -> Ended) -> Ended {
    const ALL: [Ended; 4] = [Ended::Well, Ended::Differently, Ended::Panicking, Ended::Stopping];
    // SAFETY: a page that both processes write to. The child ends without running what this process would run
    // at its end, and its one thread asks nothing of others that it has not.
    unsafe {
        let size = 4096;
        let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let page = libc::mmap(std::ptr::null_mut(), size, access, shared, -1, 0);
        assert_ne!(page, libc::MAP_FAILED, "there is room for a page");
        let is_code = page.cast::<u8>();
        let child = libc::fork();
        if child == 0 {
            for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT] {
                libc::signal(signal, libc::SIG_DFL);
            }
            libc::alarm(1);
            let ended = what(&|| is_code.write_volatile(1));
            libc::_exit(ended as i32);
        }
        let mut status = 0;
        libc::waitpid(child, &mut status, 0);
        let ended = match libc::WIFSIGNALED(status) {
            true if is_code.read_volatile() == 1 => Ended::Stopping,
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
        if insts(&func).len() >= before {
            return func;
        }
    }
}

fn insts(func: &Function) -> Vec<Inst> {
    func.blocks().iter().flat_map(|&block| func.block_insts(block)).collect()
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
    let mut open = vec![func.entry()];
    let mut reached = open.clone();
    while let Some(block) = open.pop() {
        for &way in func.edges(func.last_inst(block)) {
            let to = func.leads_to(way);
            if !reached.contains(&to) {
                reached.push(to);
                open.push(to);
            }
        }
    }
    let gone: Vec<Block> = func.blocks().iter().copied().filter(|block| !reached.contains(block)).collect();
    gone.into_iter().for_each(|block| func.remove_block(block));
}

/// Jumps where one way was chosen of two.
fn fewer_ways(mut func: Function, is_wrong: &dyn Fn(&Function) -> bool) -> Function {
    for inst in insts(&func) {
        let Data::Branch { ways, .. } = *func.data(inst) else { continue };
        if func.block_of(inst).is_some() {
            ways.iter()
                .any(|&way| tried(&mut func, is_wrong, |func| func.set_data(inst, Data::Jump { way })));
        }
    }
    func
}

/// The instruction goes; its results are constants.
fn remove(func: &mut Function, inst: Inst, n: i64) {
    for result in func.results(inst) {
        let constant = func.constant(func.ty(result), n);
        func.replace(result, constant);
    }
    func.remove_inst(inst);
}

/// Whether the instruction may be taken out.
fn can_go(func: &Function, inst: Inst) -> bool {
    !func.data(inst).opcode().is_terminator()
}

/// Takes out so many instructions at once.
fn fewer_insts(mut func: Function, size: usize, is_wrong: &dyn Fn(&Function) -> bool) -> Function {
    let all: Vec<Inst> = insts(&func).into_iter().filter(|&inst| can_go(&func, inst)).collect();
    for part in all.rchunks(size) {
        if size == 1 && is_operand_instead(&mut func, part[0], is_wrong) {
            continue;
        }
        for n in [0, 1] {
            let all_gone = |func: &mut Function| part.iter().rev().for_each(|&inst| remove(func, inst, n));
            if tried(&mut func, is_wrong, all_gone) {
                break;
            }
        }
    }
    func
}

/// One of the operands stands for the result, if that is as wrong.
fn is_operand_instead(func: &mut Function, inst: Inst, is_wrong: &dyn Fn(&Function) -> bool) -> bool {
    let results: Vec<Value> = func.results(inst).collect();
    let [result] = results[..] else { return false };
    let same_type = |value: &Value| func.ty(*value) == func.ty(result);
    let args: Vec<Value> = func.args(func.data(inst)).iter().copied().filter(same_type).collect();
    args.into_iter().any(|arg| {
        tried(func, is_wrong, |func| {
            func.replace(result, arg);
            func.remove_inst(inst);
        })
    })
}

/// Parameters of blocks become constants.
fn fewer_parameters(mut func: Function, is_wrong: &dyn Fn(&Function) -> bool) -> Function {
    let blocks: Vec<Block> = func.blocks()[1..].into();
    for block in blocks {
        for n in (0..func.params(block).len()).rev() {
            tried(&mut func, is_wrong, |func| {
                let param = func.params(block)[n].value;
                let constant = func.constant(func.ty(param), 0);
                func.remove_param(block, n);
                func.replace(param, constant);
            });
        }
    }
    func
}

/// Blocks that only one other leads to become part of that.
fn fewer_blocks(mut func: Function, is_wrong: &dyn Fn(&Function) -> bool) -> Function {
    for inst in insts(&func) {
        let Data::Jump { way } = *func.data(inst) else { continue };
        let (block, to) = (func.block_of(inst), func.leads_to(way));
        let all = insts(&func);
        let ways = all.iter().flat_map(|&inst| func.edges(inst));
        if block.is_some_and(|block| block != to)
            && ways.filter(|&&way| func.leads_to(way) == to).count() == 1
        {
            tried(&mut func, is_wrong, |func| func.merge(inst));
        }
    }
    func
}
