//! Signals by the names that programs use: `"TERM"`, `"SIGTERM"`, 15.

use crate::sys::signal::{LAST, NAMES};
use perilune_vm::{LuaResult, Vm};

/// Its name; the number of one that has none.
pub fn name(signal: i32) -> String {
    match NAMES.iter().find(|(_, number)| *number == signal) {
        Some((name, _)) => (*name).to_owned(),
        None => signal.to_string(),
    }
}

/// Argument `n` as a signal; `default` if it is absent.
///
/// # Errors
/// It is none.
pub fn check(vm: &mut Vm, n: u32, default: Option<i32>) -> LuaResult<i32> {
    if let (Some(signal), true) = (default, vm.arg_is_none_or_nil(n)) {
        return Ok(signal);
    }
    if let Some(number) = vm.arg(n).as_int() {
        return match i32::try_from(number) {
            Ok(number) if (1..=LAST).contains(&number) => Ok(number),
            _ => Err(vm.arg_error(n, "a signal's number is from 1 to 64")),
        };
    }
    let text = vm.check_str(n)?.to_text();
    let short = text.strip_prefix("SIG").unwrap_or(&text);
    match NAMES.iter().find(|(name, _)| *name == short) {
        Some((_, number)) => Ok(*number),
        None => Err(vm.arg_error(
            n,
            &format!("there is no signal '{text}' (there are \"TERM\", \"HUP\", \"USR1\" and others)"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_one_name() {
        for (at, (text, number)) in NAMES.iter().enumerate() {
            assert_eq!(name(*number), *text);
            assert!(NAMES[..at].iter().all(|(other, _)| other != text));
        }
        assert_eq!(name(40), "40");
    }
}
