//! The form itself: what the builder makes of variables, what it and the verifier refuse, and functions as text.

mod variables;

use super::*;
use crate::linear::tests::interpret::interpret;

/// A function of C of these parameters that gives back a word, made by `build`, which begins in a block that
/// has them.
fn built(params: &[Type], build: impl FnOnce(&mut Builder<'_>, &[Value])) -> Function {
    let signature =
        Signature { convention: Convention::C, params: params.to_vec(), returns: vec![Type::I64] };
    built_of(signature, build)
}

fn built_of(signature: Signature, build: impl FnOnce(&mut Builder<'_>, &[Value])) -> Function {
    built_or_begun(true, signature, build)
}

/// The same, of which the blocks that `build` has not sealed are sealed, or not.
fn built_or_begun(
    seals: bool,
    signature: Signature,
    build: impl FnOnce(&mut Builder<'_>, &[Value]),
) -> Function {
    let (mut func, mut variables) = (Function::default(), Variables::default());
    let mut b = Builder::new(&mut func, &mut variables, signature);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    let params = b.block_params(block);
    build(&mut b, &params);
    if seals {
        b.seal_all_blocks();
    }
    func
}

/// What a function that makes sense gives back for these words.
fn run<const N: usize>(func: &Function, words: [u64; N]) -> u64 {
    func.verify().unwrap_or_else(|error| panic!("{error}\n{func}"));
    let mut all = [0; 6];
    all[..N].copy_from_slice(&words);
    interpret(func, &all, &[0; 8]).expect("it ends").words[0]
}

fn params(func: &Function) -> Vec<(Block, usize)> {
    let counted = func.blocks()[1..].iter().map(|&block| (block, func.params(block).len()));
    counted.filter(|of| of.1 > 0).collect()
}

fn int(b: &mut Builder<'_>, n: i64) -> Value {
    b.iconst(Type::I64, n)
}

/// The block at hand goes on in one of two new ones, which are sealed.
fn fork(b: &mut Builder<'_>, condition: Value) -> [Block; 2] {
    let both = [(); 2].map(|()| b.create_block());
    b.brif(condition, both[0], &[], both[1], &[]);
    both.into_iter().for_each(|block| b.seal_block(block));
    both
}

// -- Variables ----------------------------------------------------------------------------------------------

#[test]
fn a_variable_in_a_straight_line_is_what_was_assigned_last() {
    let func = built(&[Type::I64], |b, params| {
        let x = b.declare_var(Type::I64);
        b.def_var(x, params[0]);
        assert_eq!(b.use_var(x), params[0]);
        let seven = int(b, 7);
        b.def_var(x, seven);
        assert_eq!(b.use_var(x), seven);
        for _ in 0..3 {
            let next = b.create_block();
            b.jump(next, &[]);
            b.seal_block(next);
            b.switch_to_block(next);
        }
        assert_eq!(b.use_var(x), seven);
        b.return_(&[seven]);
    });
    assert_eq!((params(&func), run(&func, [1])), (vec![], 7));
}

/// A variable that is assigned to before two ways part, and on one of them again if `differs`.
fn diamond(differs: bool) -> Function {
    built(&[Type::I64], |b, params| {
        let x = b.declare_var(Type::I64);
        let five = int(b, 5);
        b.def_var(x, five);
        let [yes, no] = fork(b, params[0]);
        let meet = b.create_block();
        b.switch_to_block(yes);
        let value = int(b, if differs { 6 } else { 5 });
        b.def_var(x, value);
        b.jump(meet, &[]);
        b.switch_to_block(no);
        b.jump(meet, &[]);
        b.seal_block(meet);
        b.switch_to_block(meet);
        let value = b.use_var(x);
        assert_eq!(value == five, !differs);
        b.return_(&[value]);
    })
}

#[test]
fn a_variable_that_is_the_same_on_both_ways_makes_no_parameter() {
    let func = diamond(false);
    assert_eq!((params(&func), run(&func, [0]), run(&func, [1])), (vec![], 5, 5));
}

#[test]
fn a_variable_that_differs_makes_one() {
    let func = diamond(true);
    assert_eq!((params(&func), run(&func, [0]), run(&func, [1])), (vec![(Block(3), 1)], 5, 6));
}

#[test]
fn both_ways_of_a_branch_may_lead_to_one_block() {
    let func = built(&[Type::I64], |b, params| {
        let x = b.declare_var(Type::I64);
        b.def_var(x, params[0]);
        let meet = b.create_block();
        let given = b.append_block_param(meet, Type::I64);
        let [ten, twenty] = [10, 20].map(|n| int(b, n));
        b.brif(params[0], meet, &[ten], meet, &[twenty]);
        b.switch_to_block(meet);
        let before = b.use_var(x);
        b.seal_block(meet);
        // It is the same on both.
        assert_eq!(b.use_var(x), params[0]);
        let sum = b.iadd(before, given);
        b.return_(&[sum]);
    });
    assert_eq!((params(&func), run(&func, [0]), run(&func, [3])), (vec![(Block(1), 1)], 20, 13));
}

/// Counts down from its parameter, and adds; the head of the loop is sealed when it has been built.
#[test]
fn a_loop_has_parameters_for_what_it_changes() {
    let func = built(&[Type::I64], |b, params| {
        let [left, sum, same] = [(); 3].map(|()| b.declare_var(Type::I64));
        let (zero, three) = (int(b, 0), int(b, 3));
        for (variable, value) in [(left, params[0]), (sum, zero), (same, three)] {
            b.def_var(variable, value);
        }
        let head = b.create_block();
        b.jump(head, &[]);
        b.switch_to_block(head);
        let [is, before] = [left, same].map(|variable| b.use_var(variable));
        assert_ne!(before, three);
        let [body, out] = fork(b, is);
        b.switch_to_block(body);
        let [is, more, by] = [left, sum, same].map(|variable| b.use_var(variable));
        let minus_one = int(b, -1);
        let [less, more] = [b.iadd(is, minus_one), b.iadd(more, by)];
        b.def_var(left, less);
        b.def_var(sum, more);
        b.jump(head, &[]);
        b.seal_block(head);
        assert_eq!(b.func.resolve(before), three);
        b.switch_to_block(out);
        let sum = b.use_var(sum);
        assert_eq!(b.use_var(same), three);
        b.return_(&[sum]);
    });
    assert_eq!((params(&func), run(&func, [0]), run(&func, [4])), (vec![(Block(1), 2)], 0, 12));
}

#[test]
fn loops_in_loops_have_parameters_for_what_the_inner_one_changes() {
    let func = built(&[Type::I64, Type::I64], |b, params| {
        let [rounds, turns, sum, same] = [(); 4].map(|()| b.declare_var(Type::I64));
        let (zero, minus_one) = (int(b, 0), int(b, -1));
        for (variable, value) in [(rounds, params[0]), (sum, zero), (same, params[1])] {
            b.def_var(variable, value);
        }
        let [outer, inner] = [(); 2].map(|()| b.create_block());
        b.jump(outer, &[]);
        b.switch_to_block(outer);
        let is = b.use_var(rounds);
        let [round, out] = fork(b, is);
        b.switch_to_block(round);
        let less = b.use_var(rounds);
        let less = b.iadd(less, minus_one);
        b.def_var(rounds, less);
        let many = b.use_var(same);
        b.def_var(turns, many);
        b.jump(inner, &[]);
        b.switch_to_block(inner);
        let is = b.use_var(turns);
        let [turn, end] = fork(b, is);
        b.switch_to_block(turn);
        let less = b.use_var(turns);
        let less = b.iadd(less, minus_one);
        b.def_var(turns, less);
        let more = b.use_var(sum);
        let more = b.isub(more, minus_one);
        b.def_var(sum, more);
        b.jump(inner, &[]);
        b.seal_block(inner);
        b.switch_to_block(end);
        b.jump(outer, &[]);
        b.seal_block(outer);
        b.switch_to_block(out);
        let (sum, same) = (b.use_var(sum), b.use_var(same));
        assert_eq!(same, params[1]);
        b.return_(&[sum]);
    });
    // What is left of rounds does not change in the inner loop.
    assert_eq!(params(&func), [(Block(1), 2), (Block(2), 2)]);
    assert_eq!((run(&func, [3, 5]), run(&func, [0, 5]), run(&func, [3, 0])), (15, 0, 0));
}

/// Two blocks lead to each other, and each may be come to first.
#[test]
fn a_loop_may_be_entered_at_several_places() {
    let func = built(&[Type::I64, Type::I64], |b, params| {
        let [x, left] = [(); 2].map(|()| b.declare_var(Type::I64));
        b.def_var(left, params[1]);
        let one = int(b, 1);
        b.def_var(x, one);
        let [first, second] = [(); 2].map(|()| b.create_block());
        b.brif(params[0], first, &[], second, &[]);
        let out = b.create_block();
        for (at, to, n) in [(first, second, 10), (second, first, 7)] {
            b.switch_to_block(at);
            let (value, n) = (b.use_var(x), int(b, n));
            let times = b.imul(value, n);
            b.def_var(x, times);
            let (is, one) = (b.use_var(left), int(b, 1));
            let less = b.isub(is, one);
            b.def_var(left, less);
            b.brif(less, to, &[], out, &[]);
        }
        [first, second, out].into_iter().for_each(|block| b.seal_block(block));
        b.switch_to_block(out);
        let value = b.use_var(x);
        b.return_(&[value]);
    });
    assert_eq!(
        [[0, 1], [1, 1], [0, 2], [0, 3], [1, 3]].map(|words| run(&func, words)),
        [7, 10, 70, 490, 700]
    );
}

#[test]
fn a_variable_is_0_where_nobody_has_assigned_to_it() {
    let func = built(&[Type::I64], |b, params| {
        let [never, once] = [(); 2].map(|()| b.declare_var(Type::I64));
        let (float, byte) = (b.declare_var(Type::F64), b.declare_var(Type::I8));
        let block = b.current_block().expect("one is at hand");
        b.seal_block(block);
        let zero = [(); 2].map(|()| b.use_var(never));
        assert_eq!(zero.map(|value| b.func.integer(value)), [Some(0); 2]);
        let value = b.use_var(byte);
        assert_eq!((b.func.ty(value), b.func.integer(value)), (Type::I8, Some(0)));
        let value = b.use_var(float);
        assert_eq!(b.func.def(value), Def::Float(0));
        let [yes, meet] = [(); 2].map(|()| b.create_block());
        b.brif(params[0], yes, &[], meet, &[]);
        b.switch_to_block(yes);
        b.def_var(once, params[0]);
        b.jump(meet, &[]);
        b.switch_to_block(meet);
        let value = b.use_var(once);
        b.return_(&[value]);
    });
    assert_eq!((params(&func), run(&func, [0]), run(&func, [9])), (vec![(Block(2), 1)], 0, 9));
}

#[test]
fn variables_are_0_in_blocks_that_nobody_comes_to() {
    for is_sealed_early in [false, true] {
        let func = built(&[Type::I64], |b, params| {
            let x = b.declare_var(Type::I64);
            b.def_var(x, params[0]);
            b.return_(&[params[0]]);
            // One alone, two that lead to each other, and one that leads to itself.
            let [alone, first, second, own] = [(); 4].map(|()| b.create_block());
            let seal = |b: &mut Builder<'_>, block| {
                if is_sealed_early {
                    b.seal_block(block);
                }
            };
            seal(b, alone);
            let mut read = Vec::new();
            for (at, to) in [(first, second), (second, first), (own, own)] {
                b.switch_to_block(at);
                read.push(b.use_var(x));
                b.jump(to, &[]);
            }
            [first, second, own].into_iter().for_each(|block| seal(b, block));
            b.switch_to_block(alone);
            assert_eq!(b.is_unreachable(), is_sealed_early);
            read.push(b.use_var(x));
            b.trap();
            b.seal_all_blocks();
            // Of those that lead to each other each gets what the other does.
            for n in [2, 3] {
                assert_eq!(b.func.integer(read[n]), Some(0));
            }
        });
        assert_eq!(run(&func, [4]), 4);
    }
}

#[test]
fn cycles_that_nobody_comes_to_may_be_sealed_before_they_are_read() {
    let func = built(&[Type::I64], |b, params| {
        let x = b.declare_var(Type::I64);
        b.def_var(x, params[0]);
        b.return_(&[params[0]]);
        let ring = [(); 3].map(|()| b.create_block());
        let own = b.create_block();
        for n in [0, 1] {
            b.switch_to_block(ring[n]);
            b.jump(ring[n + 1], &[]);
        }
        // All ways are there but for those of the blocks that read.
        b.seal_block(ring[1]);
        b.seal_block(ring[2]);
        b.switch_to_block(ring[2]);
        let value = b.use_var(x);
        b.jump(ring[0], &[]);
        b.seal_block(ring[0]);
        b.switch_to_block(own);
        b.jump(own, &[]);
        b.seal_block(own);
        assert_eq!(b.func.integer(value), Some(0));
    });
    assert_eq!(run(&func, [4]), 4);
}

#[test]
fn values_that_are_equal_and_stand_nowhere_are_one() {
    built(&[], |b, _| {
        assert_eq!(b.iconst(Type::I8, 255), b.iconst(Type::I8, -1));
        assert_ne!(b.iconst(Type::I8, 1), b.iconst(Type::I16, 1));
        assert_eq!(b.f64const(f64::NAN), b.f64const(f64::NAN));
        assert_ne!(b.f64const(0.0), b.f64const(-0.0));
    });
}

#[test]
fn a_function_is_built_where_another_one_has_been() {
    let (mut func, mut variables) = (Function::default(), Variables::default());
    let mut texts = Vec::new();
    for n in [1, 6, 2, 6, 1] {
        let signature = Signature { returns: vec![Type::I64], ..Signature::new(Convention::C) };
        let mut b = Builder::new(&mut func, &mut variables, signature);
        let all: Vec<Variable> = (0..n).map(|_| b.declare_var(Type::I64)).collect();
        let block = b.create_block();
        b.switch_to_block(block);
        for &variable in &all[1..] {
            let value = int(&mut b, n);
            b.def_var(variable, value);
        }
        let next = b.create_block();
        b.jump(next, &[]);
        b.switch_to_block(next);
        let values: Vec<Value> = all.iter().map(|&variable| b.use_var(variable)).collect();
        let sum = values.into_iter().reduce(|sum, value| b.iadd(sum, value)).expect("one at least");
        b.return_(&[sum]);
        b.seal_all_blocks();
        assert_eq!(run(&func, []), (n * (n - 1)) as u64);
        texts.push(func.to_string());
    }
    assert_eq!((&texts[0], &texts[1]), (&texts[4], &texts[3]));
}

// -- What the builder refuses -------------------------------------------------------------------------------

#[test]
#[should_panic(expected = "another way to block1, which is sealed")]
fn a_sealed_block_gets_no_more_ways() {
    built(&[], |b, _| {
        let next = b.create_block();
        b.seal_block(next);
        b.jump(next, &[]);
    });
}

#[test]
#[should_panic(expected = "block1 is sealed once")]
fn a_block_is_sealed_once() {
    built(&[], |b, _| {
        let next = b.create_block();
        b.seal_block(next);
        b.seal_block(next);
    });
}

#[test]
#[should_panic(expected = "block0 has ended")]
fn a_block_that_has_ended_gets_no_more_instructions() {
    built(&[Type::I64], |b, params| {
        b.return_(params);
        b.bnot(params[0]);
    });
}

#[test]
#[should_panic(expected = "block0 has ended")]
fn nobody_goes_on_with_a_block_that_has_ended() {
    built(&[Type::I64], |b, params| {
        let block = b.current_block().expect("one is at hand");
        b.return_(params);
        b.switch_to_block(block);
    });
}

#[test]
#[should_panic(expected = "var0 gets a value of another type")]
fn a_variable_gets_no_value_of_another_type() {
    built(&[Type::I64], |b, params| {
        let variable = b.declare_var(Type::I32);
        b.def_var(variable, params[0]);
    });
}

#[test]
#[should_panic(expected = "a block's parameters come before")]
fn a_block_gets_no_parameters_when_a_way_leads_to_it() {
    built(&[], |b, _| {
        let next = b.create_block();
        b.jump(next, &[]);
        b.append_block_param(next, Type::I64);
    });
}

#[test]
#[should_panic(expected = "a block's parameters come before")]
fn a_block_gets_no_parameters_behind_those_of_variables() {
    built(&[], |b, _| {
        let variable = b.declare_var(Type::I64);
        let next = b.create_block();
        b.switch_to_block(next);
        b.use_var(variable);
        b.append_block_param(next, Type::I64);
    });
}

#[test]
#[should_panic(expected = "as many results as the instruction makes")]
fn nobody_takes_results_that_there_are_not() {
    built(&[Type::I64], |b, params| {
        let signature = b.import_signature(Signature::new(Convention::C));
        let call = b.call_indirect(signature, params[0], &[]);
        let [_result] = b.inst_results(call);
    });
}

#[test]
#[should_panic(expected = "who takes its place")]
fn nobody_but_machine_code_takes_the_place_of_a_function() {
    built(&[Type::I64], |b, params| {
        let signature = b.import_signature(Signature::new(Convention::C));
        b.return_call_indirect(signature, params[0], &[]);
    });
}

// -- What the verifier refuses ------------------------------------------------------------------------------

/// That the function is wrong, and how that is said.
#[track_caller]
fn refused(func: &Function, how: &str) {
    let said = func.verify().expect_err("it makes no sense").to_string();
    assert_eq!(said, how, "\n{func}");
}

#[track_caller]
fn refuses(params: &[Type], build: impl FnOnce(&mut Builder<'_>, &[Value]), how: &str) {
    let build = |b: &mut Builder<'_>, params: &[Value]| {
        build(b, params);
        let block = b.current_block().expect("one is at hand");
        if !b.func.blocks[block.index()].has_ended {
            let zero = int(b, 0);
            b.return_(&[zero]);
        }
    };
    refused(&built(params, build), how);
}

#[test]
fn blocks_are_sealed() {
    let func = built_or_begun(false, Signature::new(Convention::C), |b, _| {
        let variable = b.declare_var(Type::I64);
        let next = b.create_block();
        b.jump(next, &[]);
        b.switch_to_block(next);
        b.use_var(variable);
        b.return_(&[]);
    });
    refused(&func, "block0: it is not sealed");
}

#[test]
fn a_block_ends_once() {
    let func = built(&[Type::I64], |b, params| {
        b.bnot(params[0]);
    });
    refused(&func, "block0: it does not end (v1 = bnot I64 v0)");
    let mut func = built(&[Type::I64], |b, params| {
        b.bnot(params[0]);
        b.return_(params);
    });
    let block = func.entry();
    let [not, ends] = [Inst(0), Inst(1)];
    func.set_insts(block, &[ends, not]);
    refused(&func, "block0: it ends, and goes on (return I64 v0)");
}

#[test]
fn ways_lead_to_blocks_with_instructions_and_not_to_the_beginning() {
    let none = |b: &mut Builder<'_>, _: &[Value]| {
        let next = b.create_block();
        b.jump(next, &[]);
    };
    refused(&built(&[], none), "block0: it leads to a block without instructions (jump block1())");
    let again = |b: &mut Builder<'_>, _: &[Value]| {
        let block = b.current_block().expect("one is at hand");
        b.jump(block, &[]);
    };
    refused(&built(&[], again), "block0: it leads to where the function begins (jump block0())");
}

#[test]
fn values_are_made_before_they_are_used() {
    // Later in the block.
    let mut func = built(&[Type::I64], |b, params| {
        let not = b.bnot(params[0]);
        let negative = b.ineg(not);
        b.return_(&[negative]);
    });
    func.set_insts(func.entry(), &[Inst(1), Inst(0), Inst(2)]);
    refused(&func, "block0: v1 is not there (v2 = ineg I64 v1)");
    // Nowhere.
    func.set_insts(func.entry(), &[Inst(1), Inst(2)]);
    refused(&func, "block0: v1 is not there (v2 = ineg I64 v1)");
    // On one way alone; read by an instruction, or passed.
    for passes in [false, true] {
        let func = built(&[Type::I64], |b, params| {
            let [yes, no] = fork(b, params[0]);
            let meet = b.create_block();
            let given = b.append_block_param(meet, Type::I64);
            b.switch_to_block(yes);
            let not = b.bnot(params[0]);
            b.jump(meet, &[not]);
            b.switch_to_block(no);
            b.jump(meet, &[if passes { not } else { params[0] }]);
            b.switch_to_block(meet);
            b.return_(&[if passes { given } else { not }]);
        });
        refused(
            &func,
            match passes {
                true => "block2: v2 is not there (jump block3(v2))",
                false => "block3: v2 is not there (return I64 v2)",
            },
        );
    }
}

#[test]
fn in_blocks_that_nobody_comes_to_anything_may_be_used() {
    let func = built(&[Type::I64], |b, params| {
        let [yes, no] = fork(b, params[0]);
        b.switch_to_block(yes);
        let not = b.bnot(params[0]);
        b.return_(&[not]);
        b.switch_to_block(no);
        b.return_(params);
        let nobody = b.create_block();
        b.switch_to_block(nobody);
        b.return_(&[not]);
    });
    assert_eq!(func.verify(), Ok(()));
}

#[test]
fn what_is_passed_fits_the_parameters() {
    let passing = |passed: &[Type]| {
        built(passed, |b, params| {
            let next = b.create_block();
            let given = b.append_block_param(next, Type::I64);
            b.jump(next, params);
            b.switch_to_block(next);
            b.return_(&[given]);
        })
    };
    assert_eq!(passing(&[Type::I64]).verify(), Ok(()));
    let count = "block0: it passes as many values as there are no parameters";
    refused(&passing(&[]), &format!("{count} (jump block1())"));
    refused(&passing(&[Type::I32]), "block0: v1 is of another type (jump block1(v0))");
}

#[test]
fn operands_have_the_types_that_instructions_ask_for() {
    use Type::{F64, I8, I16, I32, I64};
    type Build<R> = fn(&mut Builder<'_>, &[Value]) -> R;
    let makes: [(&[Type], Build<Value>, &str); 23] = [
        (&[I32], |b, v| b.load(I64, v[0], 0), "v1 = load I64 v0 +0"),
        (&[F64], |b, v| b.bnot(v[0]), "v1 = bnot F64 v0"),
        (&[I64], |b, v| b.fneg(v[0]), "v1 = fneg I64 v0"),
        (&[I64], |b, v| b.uextend(I64, v[0]), "v1 = uextend I64 v0"),
        (&[I32], |b, v| b.sextend(I16, v[0]), "v1 = sextend I16 v0"),
        (&[I16], |b, v| b.ireduce(I32, v[0]), "v1 = ireduce I32 v0"),
        (&[I16], |b, v| b.fcvt_from_sint(v[0]), "v1 = fcvtfromsint F64 v0"),
        (&[I64], |b, v| b.fcvt_to_sint(v[0]), "v1 = fcvttosint I64 v0"),
        (&[I32], |b, v| b.bitcast(F64, v[0]), "v1 = bitcast F64 v0"),
        (&[I64], |b, v| b.fpromote(v[0]), "v1 = fpromote F64 v0"),
        (&[I64], |b, v| b.fdemote(v[0]), "v1 = fdemote I32 v0"),
        (&[I64], |b, v| b.unary(Opcode::Iadd, I64, v[0]), "v1 = iadd I64 v0"),
        (&[I64, I32], |b, v| b.iadd(v[0], v[1]), "v2 = iadd I64 v0, v1"),
        (&[F64, F64], |b, v| b.bxor(v[0], v[1]), "v2 = bxor F64 v0, v1"),
        (&[I8, I8], |b, v| b.imul(v[0], v[1]), "v2 = imul I8 v0, v1"),
        (&[I32, I32], |b, v| b.umulhi(v[0], v[1]), "v2 = umulhi I32 v0, v1"),
        (&[I16, I64], |b, v| b.ishl(v[0], v[1]), "v2 = ishl I16 v0, v1"),
        (&[I64, F64], |b, v| b.fadd(v[0], v[1]), "v2 = fadd I64 v0, v1"),
        (&[I64, I64], |b, v| b.binary(Opcode::Bnot, v[0], v[1]), "v2 = bnot I64 v0, v1"),
        (&[F64, I64], |b, v| b.select(v[0], v[1], v[1]), "v2 = select I64 v0, v1, v1"),
        (&[I8, I64, I32], |b, v| b.select(v[0], v[1], v[2]), "v3 = select I64 v0, v1, v2"),
        (&[I64, I32], |b, v| b.icmp(IntCC::Equal, v[0], v[1]), "v2 = icmp Equal I8 v0, v1"),
        (&[I64, F64], |b, v| b.fcmp(FloatCC::Equal, v[0], v[1]), "v2 = fcmp Equal I8 v0, v1"),
    ];
    for (params, build, inst) in makes {
        let build = |b: &mut Builder<'_>, params: &[Value]| {
            build(b, params);
        };
        refuses(params, build, &format!("block0: operands are of other types ({inst})"));
    }
    let others: [(&[Type], Build<()>, &str); 3] = [
        (&[I64, I32], |b, v| b.store(v[0], v[1], 8), "store I64 v0, v1 +8"),
        (
            &[F64],
            |b, v| {
                let [yes, no] = fork(b, v[0]);
                b.switch_to_block(yes);
                b.trap();
                b.switch_to_block(no);
            },
            "brif F64 v0 block1() block2()",
        ),
        (&[I32], |b, v| b.return_(v), "return I32 v0"),
    ];
    for (params, build, inst) in others {
        refuses(params, build, &format!("block0: operands are of other types ({inst})"));
    }
}

#[test]
fn code_is_left_by_machine_code_with_constants() {
    let leaving = |convention, build: fn(&mut Builder<'_>, &[Value])| {
        built_of(Signature { convention, params: vec![Type::I64; 2], returns: vec![Type::I64] }, build)
    };
    let right: fn(&mut Builder<'_>, &[Value]) = |b, params| {
        let point = int(b, 1);
        b.depart(point, params[1], &[(16, params[0])]);
    };
    assert_eq!(leaving(Convention::Machine, right).verify(), Ok(()));
    let said = "operands are of other types (depart I64";
    refused(&leaving(Convention::C, right), &format!("block0: {said} 1, v1, 16, v0)"));
    let wrong = leaving(Convention::Machine, |b, params| b.depart(params[0], params[1], &[]));
    refused(&wrong, &format!("block0: {said} v0, v1)"));
}

/// A function of machine code that calls what its second parameter leads to, by this signature.
fn calling(signature: Signature, args: fn(&[Value]) -> Vec<Value>, is_last: bool) -> Function {
    let own = Signature {
        convention: Convention::Machine,
        params: vec![Type::I64, Type::I64, Type::I32],
        returns: vec![Type::I64],
    };
    built_of(own, |b, params| {
        let signature = b.import_signature(signature);
        if is_last {
            return b.return_call_indirect(signature, params[1], &args(params));
        }
        b.call_indirect(signature, params[1], &args(params));
        b.return_(&params[..1]);
    })
}

#[test]
fn callees_get_what_they_ask_for() {
    let sig = |convention, params: &[Type], returns: &[Type]| Signature {
        convention,
        params: params.to_vec(),
        returns: returns.to_vec(),
    };
    use Convention::{C, Machine, Preserving};
    use Type::{I32, I64};
    let right = calling(sig(Machine, &[I64, I32], &[I64]), |v| vec![v[0], v[2]], true);
    assert_eq!(right.verify(), Ok(()));
    let wrong = calling(sig(C, &[I64], &[]), |v| vec![v[2]], false);
    refused(&wrong, "block0: the callee gets something else (callindirect C I64 v1, v2)");
    let wrong = calling(sig(C, &[I64], &[]), |_| vec![], false);
    refused(&wrong, "block0: the callee gets something else (callindirect C I64 v1)");
    let wrong = calling(sig(Preserving, &[I64], &[I64]), |v| vec![v[0]], false);
    let said = "what changes no register gives nothing back";
    refused(&wrong, &format!("block0: {said} (v3 = callindirect Preserving I64 v1, v0)"));
    let wrong = calling(sig(Machine, &[I64], &[I64]), |v| vec![v[1]], false);
    let said = "who keeps a value for good keeps the caller's";
    refused(&wrong, &format!("block0: {said} (v3 = callindirect Machine I64 v1, v1)"));
    let wrong = calling(sig(Machine, &[I64], &[I32]), |v| vec![v[0]], true);
    let said = "who takes its place gives something else back";
    refused(&wrong, &format!("block0: {said} (returncallindirect Machine I64 v1, v0)"));
}

// -- Text ---------------------------------------------------------------------------------------------------

#[test]
fn a_function_is_shown_as_it_is_read() {
    let signature = Signature {
        convention: Convention::Machine,
        params: vec![Type::I64, Type::F64],
        returns: vec![Type::I64],
    };
    let func = built_of(signature, |b, params| {
        let x = b.declare_var(Type::F64);
        b.def_var(x, params[1]);
        let slot = b.create_slot(32);
        let (address, half) = (b.stack_addr(slot, 8), b.f64const(0.5));
        b.store(half, address, 16);
        let loaded = b.load(Type::I32, params[0], -8);
        let [head, cold] = [(); 2].map(|()| b.create_block());
        let given = b.append_block_param(head, Type::I32);
        b.set_cold_block(cold);
        b.jump(head, &[loaded]);
        b.switch_to_block(head);
        let value = b.use_var(x);
        let sum = b.fadd(value, half);
        b.def_var(x, sum);
        let more = b.iconst(Type::I32, 7);
        let next = b.iadd(given, more);
        let is_less = b.fcmp(FloatCC::LessThan, sum, half);
        b.brif(is_less, head, &[next], cold, &[]);
        b.switch_to_block(cold);
        let both = b.import_signature(Signature {
            convention: Convention::C,
            params: vec![Type::I64],
            returns: vec![Type::I64; 2],
        });
        let pointer = b.get_stack_pointer();
        let call = b.call_indirect(both, params[0], &[pointer]);
        let [first, second] = b.inst_results(call);
        let is_same = b.icmp(IntCC::Equal, first, second);
        let point = int(b, 3);
        b.depart(point, params[0], &[(17, is_same)]);
    });
    assert_eq!(func.verify(), Ok(()));
    let text = "\
Machine function [I64, F64] -> [I64]
block0(v0: I64, v1: F64):
    store F64 0.5, slot0+8 +16
    v4 = load I32 v0 -8
    jump block1(v4, v1)
block1(v5: I32, v6: F64):
    v7 = fadd F64 v6, 0.5
    v9 = iadd I32 v5, 7
    v10 = fcmp LessThan I8 v7, 0.5
    brif I8 v10 block1(v9, v7) block2()
block2() cold:
    v12, v13 = callindirect C I64 v0, sp
    v14 = icmp Equal I8 v12, v13
    depart I64 3, v0, 17, v14
";
    assert_eq!(func.to_string(), text);
}
