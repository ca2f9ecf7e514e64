//! Bytecode by which a program could make values up, had it its way, is refused: state of loops, frame
//! records and variables to be closed belong to the machine.

use perilune_syntax::verify::verify;
use perilune_syntax::{Instr, Op, Proto, compile};
use std::sync::Arc;

/// A prototype of `source` that can be changed; it is accepted as it is.
fn proto(source: &str) -> Proto {
    let proto = compile(source.as_bytes(), b"=test").expect("compiles");
    verify(&proto).expect("as compiled");
    Arc::into_inner(proto).expect("nobody else has it")
}

/// The first instruction with this opcode from `from` on.
fn find(proto: &Proto, op: Op, from: usize) -> usize {
    let found = proto.code.iter().skip(from).position(|i| i.op() == Some(op));
    from + found.unwrap_or_else(|| panic!("no {op:?} in\n{}", perilune_syntax::disasm::disassemble(proto)))
}

#[track_caller]
fn refused(proto: &Proto, why: &str) {
    let what = verify(proto).expect_err("is refused");
    assert!(what.contains(why), "{what}\n{}", perilune_syntax::disasm::disassemble(proto));
}

#[test]
fn the_body_of_a_loop_does_not_write_its_state() {
    for (source, prepare) in [
        ("local x = {} for i = 1, 3 do local y = x end", Op::ForPrep),
        ("local x = {} for k in next, x do local y = x end", Op::TForPrep),
    ] {
        let mut p = proto(source);
        let at = find(&p, prepare, 0);
        let state = p.code[at].a();
        let move_at = find(&p, Op::Move, at);
        for register in state..state + 3 {
            p.code[move_at] = p.code[move_at].with_a(register);
            refused(&p, "writes the state of a loop");
        }
        p.code[move_at] = Instr::abcd(Op::LoadNil, state.saturating_sub(1), 2, 0, 0);
        refused(&p, "writes the state of a loop");
        p.code[move_at] = Instr::abcd(Op::Call, state, 1, 1, 0);
        refused(&p, "writes the state of a loop");
    }
}

/// What the machine keeps in the place of the closing value is seen by nobody.
#[test]
fn a_cursor_is_not_read() {
    let mut p = proto("local x = {} for k in next, x do local y = x end local z = x");
    let prepare = find(&p, Op::TForPrep, 0);
    let hidden = p.code[prepare].a() as u16 + 3;
    for from in [prepare, find(&p, Op::TForLoop, prepare)] {
        let at = find(&p, Op::Move, from);
        let before = p.code[at];
        p.code[at] = before.with_b(hidden);
        refused(&p, "reads a register that holds nothing");
        p.code[at] = before;
    }
}

#[test]
fn nothing_jumps_into_a_loop() {
    let mut p = proto("local x if x then x = 1 end for i = 1, 3 do x = i x = i end");
    let jump = find(&p, Op::JumpIfNot, 0);
    let inside = find(&p, Op::Move, find(&p, Op::ForPrep, 0));
    p.code[jump] = p.code[jump].with_sj((inside - jump - 1) as i32);
    refused(&p, "jumps into a loop");
}

#[test]
fn a_function_does_not_capture_the_state_of_a_loop() {
    for source in [
        "local x for i = 1, 3 do x = function() return i end end",
        "local x for k in x do x = function() k = 1 end end",
    ] {
        let mut p = proto(source);
        let inner = Arc::get_mut(&mut p.protos[0]).expect("nobody else has it");
        inner.upvalues[0].index -= 2;
        refused(&p, "captures the state of a loop");
    }
}

/// A variable captured before a loop does not become part of its state.
#[test]
fn a_captured_variable_does_not_become_state() {
    let mut p = proto("local a, b, c, d = 1, 2, 3 local f = function() d = 1 end for i = 1, 3 do a = i end");
    let register = p.protos[0].upvalues[0].index;
    let from = find(&p, Op::ForPrep, 0);
    for pc in from..p.code.len() {
        let op = p.code[pc].op().expect("an opcode");
        if matches!(op, Op::ForPrep | Op::ForLoop) {
            p.code[pc] = p.code[pc].with_a(register);
        }
    }
    p.code[find(&p, Op::Move, from)] = Instr::absj(Op::LoadI, 0, 0, 1);
    refused(&p, "a captured variable in the state of a loop");
}

/// The callee's frame record would be the captured variable's, and an assignment to it a forged address.
#[test]
fn no_frame_lies_over_a_captured_variable() {
    let mut p = proto("local a, b, c = 1, 2, 3 local f = function() b = 1 end f()");
    let call = find(&p, Op::Call, 0);
    p.code[call - 1] = Instr::abcd(Op::Move, 0, 3, 0, 0);
    p.code[call] = p.code[call].with_a(0);
    refused(&p, "lays a frame over a captured variable");
}

#[test]
fn what_a_call_leaves_behind_is_not_read() {
    let mut p = proto("local f = print f(1) local x = f");
    let at = find(&p, Op::Move, find(&p, Op::Call, 0));
    let frame = p.code[find(&p, Op::Call, 0)].a() as u16 + 1;
    p.code[at] = p.code[at].with_b(frame);
    refused(&p, "reads a register that holds nothing");
    // Nor what nobody has written.
    let mut p = proto("local f = print local g = f return g");
    p.code[find(&p, Op::Move, 0)] = Instr::abcd(Op::Not, 0, 0, 0, 0);
    refused(&p, "reads a register that holds nothing");
}

/// Only one of two ways to the last instruction writes what it reads.
#[test]
fn a_register_is_written_on_every_way() {
    let mut p = proto("local f = print local g if f then g = f end return g");
    p.code[find(&p, Op::LoadNil, 0)] = Instr::absj(Op::LoadI, 0, 0, 1);
    refused(&p, "reads a register that holds nothing");
}

/// A collection after it sets what lies above to nil.
#[test]
fn a_new_object_is_above_all_that_lives() {
    let mut p = proto("local a, b = 1, 2 local t = {} return b");
    let new = find(&p, Op::NewTable, 0);
    p.code[new] = p.code[new].with_a(0);
    refused(&p, "reads a register that holds nothing");
}

#[test]
fn a_variable_to_be_closed_is_not_assigned() {
    let mut p = proto("local x <close> = nil local y = x return");
    let at = find(&p, Op::Move, find(&p, Op::Tbc, 0));
    let marked = p.code[find(&p, Op::Tbc, 0)].a();
    p.code[at] = p.code[at].with_a(marked);
    refused(&p, "writes a variable that is to be closed");
}
