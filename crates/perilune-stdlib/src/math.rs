//! The `math` library (manual 6.7); the random generator is in `random.rs`.
//!
//! All functions but `max` and `min`, which compare whatever they get, are leaves. Arguments that are numbers
//! already skip the conversions (and the messages) of the checking accessors.

use crate::random;
use perilune_syntax::numeral::{float_ceil_to_integer, float_floor_to_integer, float_to_integer};
use perilune_vm::{Intrinsic, LuaResult, Native, Value, Vm};
use std::f64::consts::PI;

static ABS: Native = Native::leaf("abs", abs).known_as(Intrinsic::Abs);
static ACOS: Native = Native::leaf("acos", acos).known_as(Intrinsic::Float(of_float::acos));
static ASIN: Native = Native::leaf("asin", asin).known_as(Intrinsic::Float(of_float::asin));
static ATAN: Native = Native::leaf("atan", atan);
static CEIL: Native = Native::leaf("ceil", ceil).known_as(Intrinsic::Ceil);
static COS: Native = Native::leaf("cos", cos).known_as(Intrinsic::Float(of_float::cos));
static DEG: Native = Native::leaf("deg", deg).known_as(Intrinsic::Float(of_float::deg));
static EXP: Native = Native::leaf("exp", exp).known_as(Intrinsic::Float(of_float::exp));
static FLOOR: Native = Native::leaf("floor", floor).known_as(Intrinsic::Floor);
static FMOD: Native = Native::leaf("fmod", fmod);
static LOG: Native = Native::leaf("log", log);
static MAX: Native = Native::hybrid("max", max).known_as(Intrinsic::Max);
static MIN: Native = Native::hybrid("min", min).known_as(Intrinsic::Min);
static MODF: Native = Native::leaf("modf", modf);
static RAD: Native = Native::leaf("rad", rad).known_as(Intrinsic::Float(of_float::rad));
static SIN: Native = Native::leaf("sin", sin).known_as(Intrinsic::Float(of_float::sin));
static SQRT: Native = Native::leaf("sqrt", sqrt).known_as(Intrinsic::Sqrt);
static TAN: Native = Native::leaf("tan", tan).known_as(Intrinsic::Float(of_float::tan));
static TOINTEGER: Native = Native::leaf("tointeger", tointeger);
static TYPE: Native = Native::leaf("type", type_);
static ULT: Native = Native::leaf("ult", ult);

/// Makes the table `math`.
///
/// # Errors
/// Only when memory runs out.
pub fn open(vm: &mut Vm) -> LuaResult<()> {
    let math = vm.new_table(0, 27)?;
    vm.set_loaded("math", math.into())?;
    vm.set_global("math", math.into())?;
    vm.register(
        math,
        &[
            &ABS, &ACOS, &ASIN, &ATAN, &CEIL, &COS, &DEG, &EXP, &FLOOR, &FMOD, &LOG, &MAX, &MIN, &MODF, &RAD,
            &SIN, &SQRT, &TAN, &TOINTEGER, &ULT,
        ],
    )?;
    let names = [vm.value_str(b"integer")?, vm.value_str(b"float")?];
    let type_function = vm.new_native_closure(&TYPE, &names)?;
    vm.set_field(math, "type", type_function)?;
    vm.set_field(math, "pi", Value::float(PI))?;
    vm.set_field(math, "huge", Value::float(f64::INFINITY))?;
    vm.set_field(math, "maxinteger", Value::int(i64::MAX))?;
    vm.set_field(math, "mininteger", Value::int(i64::MIN))?;
    random::open(vm, math)
}

/// Argument `i` as a float.
#[inline]
fn number(vm: &mut Vm, i: u32) -> LuaResult<f64> {
    match vm.arg(i).as_number() {
        Some(number) => Ok(number),
        None => vm.check_num(i),
    }
}

macro_rules! float_functions {
    ($($name:ident = $function:expr;)*) => {
        $(fn $name(vm: &mut Vm) -> LuaResult<u32> {
            let x = number(vm, 1)?;
            vm.ret(of_float::$name(x))
        })*

        /// The same for machine code.
        mod of_float {
            use super::PI;

            $(pub(super) extern "C" fn $name(x: f64) -> f64 {
                let function: fn(f64) -> f64 = $function;
                function(x)
            })*
        }
    };
}

float_functions! {
    acos = f64::acos;
    asin = f64::asin;
    cos = f64::cos;
    deg = |x| x * (180.0 / PI);
    exp = f64::exp;
    rad = |x| x * (PI / 180.0);
    sin = f64::sin;
    sqrt = f64::sqrt;
    tan = f64::tan;
}

fn abs(vm: &mut Vm) -> LuaResult<u32> {
    if let Some(i) = vm.arg(1).as_int() {
        return vm.ret(i.wrapping_abs());
    }
    let x = number(vm, 1)?;
    vm.ret(x.abs())
}

fn atan(vm: &mut Vm) -> LuaResult<u32> {
    let y = number(vm, 1)?;
    let x = vm.opt_num(2, 1.0)?;
    vm.ret(y.atan2(x))
}

fn floor(vm: &mut Vm) -> LuaResult<u32> {
    let value = vm.arg(1);
    if value.is_int() {
        return vm.ret(value);
    }
    let x = number(vm, 1)?;
    vm.ret(float_floor_to_integer(x).map_or_else(|| Value::float(x.floor()), Value::int))
}

fn ceil(vm: &mut Vm) -> LuaResult<u32> {
    let value = vm.arg(1);
    if value.is_int() {
        return vm.ret(value);
    }
    let x = number(vm, 1)?;
    vm.ret(float_ceil_to_integer(x).map_or_else(|| Value::float(x.ceil()), Value::int))
}

fn fmod(vm: &mut Vm) -> LuaResult<u32> {
    if let (Some(a), Some(b)) = (vm.arg(1).as_int(), vm.arg(2).as_int()) {
        if b == 0 {
            return Err(vm.arg_error(2, "zero"));
        }
        return vm.ret(a.wrapping_rem(b));
    }
    // In this order, which decides which of two bad arguments is reported.
    let b = number(vm, 2)?;
    let a = number(vm, 1)?;
    vm.ret(a % b)
}

fn modf(vm: &mut Vm) -> LuaResult<u32> {
    let value = vm.arg(1);
    if value.is_int() {
        vm.push(value);
        vm.push(Value::float(0.0));
        return Ok(2);
    }
    let x = number(vm, 1)?;
    let whole = x.trunc();
    vm.push(float_to_integer(whole).map_or(Value::float(whole), Value::int));
    // The difference of an infinity and itself would be a NaN.
    vm.push(Value::float(if x == whole { 0.0 } else { x - whole }));
    Ok(2)
}

fn log(vm: &mut Vm) -> LuaResult<u32> {
    let x = number(vm, 1)?;
    if vm.arg_is_none_or_nil(2) {
        return vm.ret(x.ln());
    }
    let base = number(vm, 2)?;
    let result = if base == 2.0 {
        x.log2()
    } else if base == 10.0 {
        x.log10()
    } else {
        x.ln() / base.ln()
    };
    vm.ret(result)
}

/// The argument that is before all others by `before`; `numbers` is the same for two numbers.
#[inline(always)]
fn extreme(
    vm: &mut Vm,
    numbers: impl Fn(f64, f64) -> bool,
    integers: impl Fn(i64, i64) -> bool,
    before: impl Fn(&mut Vm, Value, Value) -> LuaResult<bool>,
) -> LuaResult<u32> {
    let count = vm.nargs();
    if count == 0 {
        return Err(vm.arg_error(1, "value expected"));
    }
    let mut best = vm.arg(1);
    for i in 2..=count {
        let value = vm.arg(i);
        let better = if let (Some(a), Some(b)) = (value.as_int(), best.as_int()) {
            integers(a, b)
        } else if let (Some(a), Some(b)) = (value.as_float(), best.as_float()) {
            numbers(a, b)
        } else {
            // Mixed numbers compare by their exact values, other things by `__lt`.
            before(vm, value, best)?
        };
        if better {
            best = value;
        }
    }
    vm.ret(best)
}

fn max(vm: &mut Vm) -> LuaResult<u32> {
    extreme(vm, |a, b| b < a, |a, b| b < a, |vm, a, b| vm.less_than(b, a))
}

fn min(vm: &mut Vm) -> LuaResult<u32> {
    extreme(vm, |a, b| a < b, |a, b| a < b, |vm, a, b| vm.less_than(a, b))
}

fn tointeger(vm: &mut Vm) -> LuaResult<u32> {
    match vm.arg_to_int(1) {
        Some(i) => vm.ret(i),
        None => {
            vm.check_any(1)?;
            vm.ret(Value::NIL)
        }
    }
}

fn type_(vm: &mut Vm) -> LuaResult<u32> {
    let value = vm.arg(1);
    if value.is_number() {
        let name = vm.upvalue(if value.is_int() { 1 } else { 2 });
        return vm.ret(name);
    }
    vm.check_any(1)?;
    vm.ret(Value::NIL)
}

fn ult(vm: &mut Vm) -> LuaResult<u32> {
    let (a, b) = (vm.check_int(1)?, vm.check_int(2)?);
    vm.ret((a as u64) < b as u64)
}
