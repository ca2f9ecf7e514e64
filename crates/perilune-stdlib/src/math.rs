//! The `math` library (manual 6.7); the random generator is in `random.rs`.
//!
//! All functions but `max` and `min`, which compare whatever they get, are leaves. Arguments that are numbers
//! already skip the conversions (and the messages) of the checking accessors.

use crate::random;
use perilune_syntax::numeral::{float_ceil_to_integer, float_floor_to_integer, float_to_integer};
use perilune_vm::{Call, Effect, Intrinsic, LuaResult, Native, Results, Value, Vm, float_remainder};
use std::f64::consts::PI;

static ABS: Native = Native::leaf("abs", abs).known_as(Intrinsic::Abs).quick(Effect::Nothing, quick_abs);
static ACOS: Native = Native::leaf("acos", acos).known_as(Intrinsic::Float(of_float::acos));
static ASIN: Native = Native::leaf("asin", asin).known_as(Intrinsic::Float(of_float::asin));
static ATAN: Native = Native::leaf("atan", atan).quick(Effect::Nothing, quick_atan);
static CEIL: Native = Native::leaf("ceil", ceil).known_as(Intrinsic::Ceil).quick(Effect::Nothing, quick_ceil);
static COS: Native = Native::leaf("cos", cos).known_as(Intrinsic::Float(of_float::cos));
static DEG: Native = Native::leaf("deg", deg).known_as(Intrinsic::Float(of_float::deg));
static EXP: Native = Native::leaf("exp", exp).known_as(Intrinsic::Float(of_float::exp));
static FLOOR: Native =
    Native::leaf("floor", floor).known_as(Intrinsic::Floor).quick(Effect::Nothing, quick_floor);
static FMOD: Native = Native::leaf("fmod", fmod).quick(Effect::Nothing, quick_fmod);
static LOG: Native = Native::leaf("log", log).quick(Effect::Nothing, quick_log);
static MAX: Native = Native::hybrid("max", max).known_as(Intrinsic::Max).quick(Effect::Nothing, quick_max);
static MIN: Native = Native::hybrid("min", min).known_as(Intrinsic::Min).quick(Effect::Nothing, quick_min);
static MODF: Native = Native::leaf("modf", modf).several(Effect::Nothing, quick_modf);
static RAD: Native = Native::leaf("rad", rad).known_as(Intrinsic::Float(of_float::rad));
static SIN: Native = Native::leaf("sin", sin).known_as(Intrinsic::Float(of_float::sin));
static SQRT: Native = Native::leaf("sqrt", sqrt).known_as(Intrinsic::Sqrt);
static TAN: Native = Native::leaf("tan", tan).known_as(Intrinsic::Float(of_float::tan));
static TOINTEGER: Native = Native::leaf("tointeger", tointeger).quick(Effect::Nothing, quick_tointeger);
static TYPE: Native = Native::leaf("type", type_).quick(Effect::Nothing, quick_type);
// Deprecated since Lua 5.3; PUC Lua has them as its makefile comes (`LUA_COMPAT_MATHLIB`), and so programs use them.
static COSH: Native = Native::leaf("cosh", cosh).known_as(Intrinsic::Float(of_float::cosh));
static FREXP: Native = Native::leaf("frexp", frexp);
static LDEXP: Native = Native::leaf("ldexp", ldexp);
static LOG10: Native = Native::leaf("log10", log10).known_as(Intrinsic::Float(of_float::log10));
static POW: Native = Native::leaf("pow", pow).quick(Effect::Nothing, quick_pow);
static SINH: Native = Native::leaf("sinh", sinh).known_as(Intrinsic::Float(of_float::sinh));
static TANH: Native = Native::leaf("tanh", tanh).known_as(Intrinsic::Float(of_float::tanh));

static ULT: Native = Native::leaf("ult", ult).quick(Effect::Nothing, quick_ult);

/// Makes the table `math`.
///
/// # Errors
/// Only when memory runs out.
pub fn open(vm: &mut Vm) -> LuaResult<()> {
    let math = vm.new_table(0, 34)?;
    vm.set_loaded("math", math.into())?;
    vm.set_global("math", math.into())?;
    vm.register(
        math,
        &[
            &ABS, &ACOS, &ASIN, &ATAN, &CEIL, &COS, &DEG, &EXP, &FLOOR, &FMOD, &LOG, &MAX, &MIN, &MODF, &RAD,
            &SIN, &SQRT, &TAN, &TOINTEGER, &ULT, &COSH, &FREXP, &LDEXP, &LOG10, &POW, &SINH, &TANH,
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
    cosh = f64::cosh;
    deg = |x| x * (180.0 / PI);
    exp = f64::exp;
    log10 = f64::log10;
    rad = |x| x * (PI / 180.0);
    sin = f64::sin;
    sinh = f64::sinh;
    sqrt = f64::sqrt;
    tan = f64::tan;
    tanh = f64::tanh;
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
    vm.ret(float_remainder(a, b))
}

fn modf(vm: &mut Vm) -> LuaResult<u32> {
    let value = vm.arg(1);
    let (whole, rest) = match parts(value) {
        Some(parts) => parts,
        None => parts_of_float(vm.check_num(1)?),
    };
    vm.push(whole);
    vm.push(rest);
    Ok(2)
}

/// The part of a number before the point, and the one behind it.
fn parts(value: Value) -> Option<(Value, Value)> {
    if value.is_int() {
        return Some((value, Value::float(0.0)));
    }
    value.as_number().map(parts_of_float)
}

fn parts_of_float(x: f64) -> (Value, Value) {
    let whole = x.trunc();
    // The difference of an infinity and itself would be a NaN.
    let rest = if x == whole { 0.0 } else { x - whole };
    (float_to_integer(whole).map_or(Value::float(whole), Value::int), Value::float(rest))
}

/// [`modf`] of a number.
fn quick_modf(_: &mut Vm, call: Call<'_>, results: &mut Results) -> LuaResult<bool> {
    let Some((whole, rest)) = call.arguments.first().and_then(|&x| parts(x)) else { return Ok(false) };
    Ok(results.push(whole) && results.push(rest))
}

/// `math.pow(x, y)`
fn pow(vm: &mut Vm) -> LuaResult<u32> {
    let (x, y) = (number(vm, 1)?, number(vm, 2)?);
    vm.ret(x.powf(y))
}

/// [`pow`] of two numbers.
fn quick_pow(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let [x, y] = call.arguments else { return Ok(None) };
    Ok(x.as_number().zip(y.as_number()).map(|(x, y)| Value::float(x.powf(y))))
}

/// `math.frexp(x)`: m and e, so that x is m times two to the power of e, and m at least a half and below one, or 0.
fn frexp(vm: &mut Vm) -> LuaResult<u32> {
    let x = number(vm, 1)?;
    let (fraction, exponent) = fraction_and_exponent(x);
    vm.push(Value::float(fraction));
    vm.push(Value::int(exponent));
    Ok(2)
}

/// `math.ldexp(m, e)`: m times two to the power of e.
fn ldexp(vm: &mut Vm) -> LuaResult<u32> {
    let x = number(vm, 1)?;
    // An `int` of C, as in PUC Lua.
    let exponent = vm.check_int(2)? as i32;
    vm.ret(scaled(x, exponent.into()))
}

/// Where the exponent of a float is, and how much more than it.
const EXPONENT: u32 = 52;
const EXPONENT_MASK: u64 = 0x7ff << EXPONENT;
const BIAS: i64 = 1023;

fn fraction_and_exponent(x: f64) -> (f64, i64) {
    if x == 0.0 || !x.is_finite() {
        return (x, 0);
    }
    // What is too small to have an exponent of its own gets one.
    let (x, less) = if x.is_subnormal() { (x * 2f64.powi(64), 64) } else { (x, 0) };
    let exponent = ((x.to_bits() & EXPONENT_MASK) >> EXPONENT) as i64 - BIAS + 1;
    let fraction = f64::from_bits(x.to_bits() & !EXPONENT_MASK | ((BIAS - 1) as u64) << EXPONENT);
    (fraction, exponent - less)
}

/// `x` times two to the power of `exponent`, rounded once.
fn scaled(x: f64, exponent: i64) -> f64 {
    let (fraction, own) = fraction_and_exponent(x);
    let exponent = own.saturating_add(exponent);
    if fraction == 0.0 || !fraction.is_finite() {
        return x;
    }
    // Exact but for the last product, by a power that is a float itself.
    match exponent {
        1025.. => fraction * f64::INFINITY,
        -1021.. => fraction * 2.0 * 2f64.powi(exponent as i32 - 1),
        -1080.. => fraction * 2f64.powi(-1000) * 2f64.powi(exponent as i32 + 1000),
        _ => fraction * 0.0,
    }
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

// -- Quick forms: of numbers --------------------------------------------------------------------------------

/// [`abs`] of a number.
fn quick_abs(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[x] = call.arguments else { return Ok(None) };
    let of_integer = x.as_int().map(|i| Value::int(i.wrapping_abs()));
    Ok(of_integer.or_else(|| x.as_float().map(|x| Value::float(x.abs()))))
}

/// [`floor`] of a number.
fn quick_floor(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    quick_whole(call, float_floor_to_integer, f64::floor)
}

/// [`ceil`] of a number.
fn quick_ceil(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    quick_whole(call, float_ceil_to_integer, f64::ceil)
}

/// A number as an integer next to it, or a float where there is none.
#[inline(always)]
fn quick_whole(
    call: Call<'_>,
    to_integer: impl Fn(f64) -> Option<i64>,
    to_float: impl Fn(f64) -> f64,
) -> LuaResult<Option<Value>> {
    let &[value] = call.arguments else { return Ok(None) };
    let whole = |x: f64| to_integer(x).map_or_else(|| Value::float(to_float(x)), Value::int);
    Ok(if value.is_int() { Some(value) } else { value.as_float().map(whole) })
}

/// [`atan`] of one number or two.
fn quick_atan(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let (y, x) = match call.arguments {
        [y] => (y.as_number(), Some(1.0)),
        [y, x] => (y.as_number(), x.as_number()),
        _ => return Ok(None),
    };
    Ok(y.zip(x).map(|(y, x)| Value::float(y.atan2(x))))
}

/// [`fmod`] of two integers, or of two numbers.
fn quick_fmod(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[a, b] = call.arguments else { return Ok(None) };
    if let (Some(a), Some(b)) = (a.as_int(), b.as_int()) {
        return Ok((b != 0).then(|| Value::int(a.wrapping_rem(b))));
    }
    Ok(a.as_number().zip(b.as_number()).map(|(a, b)| Value::float(float_remainder(a, b))))
}

/// [`log`] of a number to the base that is usual.
fn quick_log(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[x] = call.arguments else { return Ok(None) };
    Ok(x.as_number().map(|x| Value::float(x.ln())))
}

/// Of numbers, the one that is before all others.
#[inline(always)]
fn quick_extreme(
    vm: &mut Vm,
    call: Call<'_>,
    numbers: impl Fn(f64, f64) -> bool,
    integers: impl Fn(i64, i64) -> bool,
    before: impl Fn(&mut Vm, Value, Value) -> LuaResult<bool>,
) -> LuaResult<Option<Value>> {
    let Some((&first, others)) = call.arguments.split_first() else { return Ok(None) };
    let mut best = first;
    if !best.is_number() {
        return Ok(None);
    }
    for &value in others {
        let better = match (value.as_int(), best.as_int(), value.as_float(), best.as_float()) {
            (Some(a), Some(b), ..) => integers(a, b),
            (_, _, Some(a), Some(b)) => numbers(a, b),
            // They compare by their exact values.
            _ if value.is_number() => before(vm, value, best)?,
            _ => return Ok(None),
        };
        best = if better { value } else { best };
    }
    Ok(Some(best))
}

/// [`max`] of numbers.
fn quick_max(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    quick_extreme(vm, call, |a, b| b < a, |a, b| b < a, |vm, a, b| vm.less_than(b, a))
}

/// [`min`] of numbers.
fn quick_min(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    quick_extreme(vm, call, |a, b| a < b, |a, b| a < b, |vm, a, b| vm.less_than(a, b))
}

/// [`tointeger`] of a number.
fn quick_tointeger(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[value] = call.arguments else { return Ok(None) };
    let of_float = |x| float_to_integer(x).map_or(Value::NIL, Value::int);
    Ok(if value.is_int() { Some(value) } else { value.as_float().map(of_float) })
}

/// [`type_`] of a value.
fn quick_type(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[value] = call.arguments else { return Ok(None) };
    Ok(Some(match value.is_number() {
        true => call.upvalue(if value.is_int() { 1 } else { 2 }),
        false => Value::NIL,
    }))
}

/// [`ult`] of two integers.
fn quick_ult(_: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let &[a, b] = call.arguments else { return Ok(None) };
    Ok(a.as_int().zip(b.as_int()).map(|(a, b)| Value::from((a as u64) < b as u64)))
}
