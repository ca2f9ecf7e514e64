//! Arithmetic on strings: metamethods that convert numerals to numbers (manual 3.4.3).
//!
//! The interpreter converts no strings; it finds these metamethods, as it would a program's own. If an
//! operand is not a numeral, the second operand's metamethod gets a chance, unless it is a string too, whose
//! metamethod is this one.

use perilune_syntax::ast::BinOp;
use perilune_vm::{Call, Effect, LuaResult, Native, Value, Vm};

pub(super) static METAMETHODS: &[&Native] = &[&ADD, &SUB, &MUL, &MOD, &POW, &DIV, &IDIV, &UNM];

static ADD: Native = Native::hybrid("__add", |vm| arith(vm, BinOp::Add, "__add"))
    .quick(Effect::Nothing, |_, call| quick_arith(BinOp::Add, call));
static SUB: Native = Native::hybrid("__sub", |vm| arith(vm, BinOp::Sub, "__sub"))
    .quick(Effect::Nothing, |_, call| quick_arith(BinOp::Sub, call));
static MUL: Native = Native::hybrid("__mul", |vm| arith(vm, BinOp::Mul, "__mul"))
    .quick(Effect::Nothing, |_, call| quick_arith(BinOp::Mul, call));
static MOD: Native = Native::hybrid("__mod", |vm| arith(vm, BinOp::Mod, "__mod"))
    .quick(Effect::Nothing, |_, call| quick_arith(BinOp::Mod, call));
static POW: Native = Native::hybrid("__pow", |vm| arith(vm, BinOp::Pow, "__pow"))
    .quick(Effect::Nothing, |_, call| quick_arith(BinOp::Pow, call));
static DIV: Native = Native::hybrid("__div", |vm| arith(vm, BinOp::Div, "__div"))
    .quick(Effect::Nothing, |_, call| quick_arith(BinOp::Div, call));
static IDIV: Native = Native::hybrid("__idiv", |vm| arith(vm, BinOp::IDiv, "__idiv"))
    .quick(Effect::Nothing, |_, call| quick_arith(BinOp::IDiv, call));
static UNM: Native = Native::hybrid("__unm", negate);

fn arith(vm: &mut Vm, op: BinOp, event: &str) -> LuaResult<u32> {
    let value = match (Vm::string_to_number(vm.arg(1)), Vm::string_to_number(vm.arg(2))) {
        (Some(a), Some(b)) => vm.arith(op, a, b)?,
        _ => other_operand(vm, event)?,
    };
    vm.ret(value)
}

/// [`arith`] of two numerals, whose result is no error.
fn quick_arith(op: BinOp, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[a, b] = call.arguments else { return Ok(None) };
    let (Some(a), Some(b)) = (Vm::string_to_number(a), Vm::string_to_number(b)) else { return Ok(None) };
    Ok(Vm::arith_numbers(op, a, b))
}

fn negate(vm: &mut Vm) -> LuaResult<u32> {
    let value = match Vm::string_to_number(vm.arg(1)) {
        Some(v) => match v.as_int() {
            Some(i) => Value::int(i.wrapping_neg()),
            None => Value::float(-v.as_number().unwrap_or(f64::NAN)),
        },
        None => other_operand(vm, "__unm")?,
    };
    vm.ret(value)
}

/// Calls the second operand's metamethod, or raises the error of there being none.
fn other_operand(vm: &mut Vm, event: &str) -> LuaResult<Value> {
    let (a, b) = (vm.arg(1), vm.arg(2));
    if b.as_string().is_none() {
        let method = vm.metafield(b, event)?;
        if !method.is_nil() {
            return vm.call(method, &[a, b]);
        }
    }
    let operation = &event[2..];
    Err(vm.error(format!("attempt to {operation} a '{}' with a '{}'", a.type_name(), b.type_name())))
}
