//! Trials: machine code that does on purpose what it rarely does by itself, so that tests find what is wrong
//! with it.
//!
//! | variable | words | |
//! |---|---|---|
//! | `PERILUNE_SPESH_GUARDS` | `fail:N` | one guard in N fails, though it holds; `fail:1`: each |
//! | | `random:SEED` | one in 64 does, by chance, the same in each run of a program of one domain |
//! | `PERILUNE_SPESH_LEAVE` | `every` | machine code leaves before each call of a function of Lua, and has the interpreter do it |
//! | | `N` | before one in N |
//! | `PERILUNE_SPESH_GENERATOR` | `checked` | the form of each function is verified, and a checker looks for each value of its code where it is read |
//!
//! The code counts while it runs, at an address of this module's; domains that count at once may lose one. A
//! guard is whatever leads to an exit that says that something was not as expected: failing is always right
//! there, because the interpreter does what comes next. What leads elsewhere is no guard, and stays as it is.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// When guards fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guards {
    /// One in so many.
    Fail(u32),
    /// By chance.
    Random,
}

/// What is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Trials {
    /// Guards that fail.
    pub guards: Option<Guards>,
    /// Before one call in so many machine code leaves.
    pub leave: Option<u32>,
    /// What the code generator makes is checked.
    pub verify: bool,
}

/// How many guards have been run since one failed.
static GUARDS: AtomicU32 = AtomicU32::new(0);
/// How many calls since machine code has left.
static CALLS: AtomicU32 = AtomicU32::new(0);
/// Where chance is.
static CHANCE: AtomicU64 = AtomicU64::new(0);

/// Chance's next number is the last one times this, plus [`INCREMENT`].
pub(crate) const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
/// See [`MULTIPLIER`].
pub(crate) const INCREMENT: u64 = 1_442_695_040_888_963_407;

/// Where guards are counted: 4 bytes.
pub(crate) fn guards() -> usize {
    GUARDS.as_ptr() as usize
}

/// Where calls are counted: 4 bytes.
pub(crate) fn calls() -> usize {
    CALLS.as_ptr() as usize
}

/// Where chance is: 8 bytes.
pub(crate) fn chance() -> usize {
    CHANCE.as_ptr() as usize
}

impl Trials {
    /// From the words of the three variables; empty: nothing is tried.
    pub fn parse(guards: &str, leave: &str, generator: &str) -> Result<Trials, String> {
        let often = |word: &str| word.parse().ok().filter(|&n: &u32| n > 0);
        let guards = match guards.split_once(':') {
            None if guards.is_empty() => None,
            Some(("fail", n)) if often(n).is_some() => often(n).map(Guards::Fail),
            Some(("random", seed)) if seed.parse::<u64>().is_ok() => {
                CHANCE.store(seed.parse().unwrap_or_default(), std::sync::atomic::Ordering::Relaxed);
                Some(Guards::Random)
            }
            _ => {
                return Err(format!(
                    "PERILUNE_SPESH_GUARDS: '{guards}' is neither 'fail:N' nor 'random:SEED'"
                ));
            }
        };
        let leave = match leave {
            "" => None,
            "every" => Some(1),
            n if often(n).is_some() => often(n),
            _ => return Err(format!("PERILUNE_SPESH_LEAVE: '{leave}' is neither 'every' nor a number")),
        };
        let verify = match generator {
            "" => false,
            "checked" => true,
            _ => return Err(format!("PERILUNE_SPESH_GENERATOR: '{generator}' is not 'checked'")),
        };
        Ok(Trials { guards, leave, verify })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let trials = |guards, leave| Trials::parse(guards, leave, "");
        assert_eq!(trials("", ""), Ok(Trials::default()));
        assert_eq!(
            trials("fail:3", "every").unwrap(),
            Trials { guards: Some(Guards::Fail(3)), leave: Some(1), ..Trials::default() }
        );
        assert_eq!(
            trials("random:7", "2").unwrap(),
            Trials { guards: Some(Guards::Random), leave: Some(2), ..Trials::default() }
        );
        for (guards, leave) in [("fail", ""), ("fail:0", ""), ("random:x", ""), ("", "0"), ("", "some")] {
            assert!(trials(guards, leave).is_err(), "{guards} {leave}");
        }
        let checked = Trials { verify: true, ..Trials::default() };
        assert_eq!(Trials::parse("", "", "checked").unwrap(), checked);
        assert!(Trials::parse("", "", "other").is_err());
    }
}
