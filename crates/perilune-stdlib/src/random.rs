//! `math.random`: xoshiro256** (Blackman and Vigna 2018), seeded and projected as Lua 5.4 does it, so that a
//! seed gives the same numbers here as there.
//!
//! The state belongs to the Lua state: `random` and `randomseed` are closures over one userdata.

use perilune_vm::{Call, Effect, Gc, LuaResult, Native, Table, Value, Vm};

static RANDOM: Native = Native::leaf("random", random).quick(Effect::Nothing, quick_random);
static RANDOMSEED: Native = Native::leaf("randomseed", randomseed);

/// The generator.
struct Generator([u64; 4]);

impl Generator {
    /// Spreads two words over the state.
    fn seeded(a: u64, b: u64) -> Generator {
        let mut generator = Generator([a, 0xff, b, 0]);
        for _ in 0..16 {
            generator.next();
        }
        generator
    }

    #[inline]
    fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..=limit`, without bias: `random` is cut to as many bits as `limit` has, and replaced
    /// until it fits.
    #[inline]
    fn project(&mut self, mut random: u64, limit: u64) -> u64 {
        if limit & limit.wrapping_add(1) == 0 {
            return random & limit;
        }
        let mask = u64::MAX >> limit.leading_zeros();
        loop {
            random &= mask;
            if random <= limit {
                return random;
            }
            random = self.next();
        }
    }
}

/// The upper 53 bits as a float in `[0, 1)`.
#[inline]
fn to_float(random: u64) -> f64 {
    (random >> 11) as f64 * (0.5 / (1u64 << 52) as f64)
}

/// Adds `random` and `randomseed`, randomly seeded, to `math`.
pub(crate) fn open(vm: &mut Vm, math: Gc<Table>) -> LuaResult<()> {
    let (a, b) = random_seeds(vm);
    let state = vm.new_userdata(Generator::seeded(a, b), 0)?;
    for native in [&RANDOM, &RANDOMSEED] {
        let function = vm.new_native_closure(native, &[state.into()])?;
        vm.set_field(math, native.name, function)?;
    }
    Ok(())
}

/// The time in seconds, and where the state lies, which varies from process to process.
fn random_seeds(vm: &Vm) -> (u64, u64) {
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    (time.map_or(0, |time| time.as_secs()), std::ptr::from_ref(vm) as u64)
}

/// The state of the running native.
#[inline]
fn generator(vm: &mut Vm) -> LuaResult<&mut Generator> {
    match vm.upvalue(1).as_userdata().filter(|state| state.is::<Generator>()) {
        Some(state) => Ok(vm.userdata_mut(state).expect("its type has been tested")),
        None => Err(vm.error("no state of the random generator")),
    }
}

fn random(vm: &mut Vm) -> LuaResult<u32> {
    let random = generator(vm)?.next();
    let (low, high) = match vm.nargs() {
        0 => return vm.ret(to_float(random)),
        1 => {
            let high = vm.check_int(1)?;
            if high == 0 {
                return vm.ret(random as i64);
            }
            (1, high)
        }
        2 => (vm.check_int(1)?, vm.check_int(2)?),
        _ => return Err(vm.error("wrong number of arguments")),
    };
    if low > high {
        // The number of the argument that is named is that of PUC Lua.
        return Err(vm.arg_error(1, "interval is empty"));
    }
    let offset = generator(vm)?.project(random, (high as u64).wrapping_sub(low as u64));
    vm.ret(offset.wrapping_add(low as u64) as i64)
}

/// [`random`] of no arguments or of one or two integers that an interval is between.
fn quick_random(vm: &mut Vm, call: Call<'_>) -> LuaResult<Option<Value>> {
    let (low, high) = match call.arguments {
        [] => (1, 0),
        [high] => (1, high.as_int().filter(|high| *high > 0).unwrap_or(i64::MIN)),
        [low, high] => match (low.as_int(), high.as_int()) {
            (Some(low), Some(high)) => (low, high),
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    // Nothing is taken from the generator before it is clear that all can be done.
    let is_float = call.arguments.is_empty();
    let state = call.upvalue(1).as_userdata().filter(|_| is_float || low <= high);
    let Some(generator) = state.and_then(|state| vm.userdata_mut::<Generator>(state)) else {
        return Ok(None);
    };
    let random = generator.next();
    if is_float {
        return Ok(Some(Value::float(to_float(random))));
    }
    let offset = generator.project(random, (high as u64).wrapping_sub(low as u64));
    Ok(Some(Value::int(offset.wrapping_add(low as u64) as i64)))
}

fn randomseed(vm: &mut Vm) -> LuaResult<u32> {
    let (a, b) = if vm.arg_is_none(1) {
        random_seeds(vm)
    } else {
        (vm.check_int(1)? as u64, vm.opt_int(2, 0)? as u64)
    };
    *generator(vm)? = Generator::seeded(a, b);
    vm.push(Value::int(a as i64));
    vm.push(Value::int(b as i64));
    Ok(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `math.randomseed(42); print(math.random(0), math.random(0))` under PUC Lua 5.4.
    #[test]
    fn same_sequence_as_puc() {
        let mut generator = Generator::seeded(42, 0);
        let first: Vec<i64> = (0..3).map(|_| generator.next() as i64).collect();
        assert_eq!(first, SEED_42);
    }

    const SEED_42: [i64; 3] = [-1276290044721465627, 8333941968102511665, -8358531260401861301];

    #[test]
    fn projections_stay_in_range() {
        let mut generator = Generator::seeded(1, 2);
        for limit in [0, 1, 2, 6, 7, 8, 1 << 40, u64::MAX - 1, u64::MAX] {
            for _ in 0..100 {
                let random = generator.next();
                assert!(generator.project(random, limit) <= limit);
            }
        }
    }

    #[test]
    fn floats_are_below_one() {
        assert_eq!(to_float(0), 0.0);
        assert!(to_float(u64::MAX) < 1.0);
        assert_eq!(to_float(1 << 63), 0.5);
    }
}
