//! Tables of options: the names that a function knows, and what it says of others.
//!
//! A misspelt option that is ignored is a bug that nobody sees: `workers` would be as many as there are
//! cores. So every function that takes a table of options asks for it here, with the names of all that it
//! knows; another name is an error, which says the nearest, and so is a value of the wrong type.

use crate::nearest::nearest;
use crate::time::{Limit, span};
use perilune_vm::{Gc, LuaResult, Native, Table, Type, Value, Vm};

/// A table of options without unknown ones.
pub(crate) struct Options {
    table: Gc<Table>,
    arg: u32,
}

/// Argument `n` as a table of options, if it is a table.
///
/// # Errors
/// It has a field that is none of `known`.
pub(crate) fn opt(vm: &mut Vm, n: u32, known: &[&str]) -> LuaResult<Option<Options>> {
    let Some(table) = vm.arg(n).as_table() else { return Ok(None) };
    refuse_unknown(vm, n, table, known, 0)?;
    Ok(Some(Options { table, arg: n }))
}

/// Argument `n` as a table of options, or nothing.
///
/// # Errors
/// It is something else, or has a field that is none of `known`.
pub(crate) fn check(vm: &mut Vm, n: u32, known: &[&str]) -> LuaResult<Option<Options>> {
    if vm.arg_is_none_or_nil(n) {
        return Ok(None);
    }
    vm.check_table(n)?;
    opt(vm, n, known)
}

/// Argument `n` as a list that has options as well.
///
/// # Errors
/// It is something else, or has a field that is none of `known` and no element.
pub(crate) fn list(vm: &mut Vm, n: u32, known: &[&str]) -> LuaResult<Options> {
    let table = vm.check_table(n)?;
    let len = vm.raw_len(table);
    refuse_unknown(vm, n, table, known, len)?;
    Ok(Options { table, arg: n })
}

fn refuse_unknown(vm: &mut Vm, n: u32, table: Gc<Table>, known: &[&str], len: i64) -> LuaResult<()> {
    match trouble(vm, table, known, len)? {
        Some(text) => Err(vm.arg_error(n, &text)),
        None => Ok(()),
    }
}

/// What is wrong with the names in a table of options that may have a list of so many elements, too.
fn trouble(vm: &mut Vm, table: Gc<Table>, known: &[&str], len: i64) -> LuaResult<Option<String>> {
    let mut key = Value::NIL;
    while let Some((k, _)) = vm.raw_next(table, key)? {
        key = k;
        return Ok(Some(match k.as_string() {
            Some(name) if known.iter().any(|known| known.as_bytes() == name.bytes()) => continue,
            Some(name) => {
                let name = name.to_text();
                match nearest(&name, known.iter().copied()).first() {
                    Some(near) => format!("unknown option '{name}'; did you mean '{near}'?"),
                    None => format!("unknown option '{name}'; {}", there_are(known)),
                }
            }
            None if k.as_int().is_some_and(|i| (1..=len).contains(&i)) => continue,
            None => {
                format!("an option's name is a string, not a {}; {}", k.type_name(), there_are(known))
            }
        }));
    }
    Ok(None)
}

/// `option_trouble(options, name, ...)`: what is wrong with a table of options for which there are these
/// names; nil: nothing. For the prelude.
pub(crate) static TROUBLE: Native = Native::leaf("option_trouble", |vm| {
    let table = vm.check_table(1)?;
    let known: Vec<String> =
        (2..=vm.nargs()).filter_map(|n| Some(vm.arg(n).as_string()?.to_text())).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    match trouble(vm, table, &known, 0)? {
        Some(text) => vm.ret_str(text.as_bytes()),
        None => vm.ret(Value::NIL),
    }
});

/// `there are 'chunk', 'into'`
fn there_are(known: &[&str]) -> String {
    let names: Vec<String> = known.iter().map(|name| format!("'{name}'")).collect();
    match names.as_slice() {
        [only] => format!("there is only {only}"),
        _ => format!("there are {}", names.join(", ")),
    }
}

impl Options {
    /// The table.
    pub fn table(&self) -> Gc<Table> {
        self.table
    }

    /// The value of an option; nil: it is not there.
    pub fn get(&self, vm: &mut Vm, name: &str) -> LuaResult<Value> {
        vm.get_field(self.table, name)
    }

    /// The error that an option is not what it must be: "an integer".
    pub fn wrong(&self, vm: &mut Vm, name: &str, expected: &str, got: Value) -> perilune_vm::Thrown {
        let got = match got.type_of() {
            Type::Number => match got.as_int() {
                Some(i) => i.to_string(),
                None => got.as_number().map_or(String::new(), |x| match x.is_nan() {
                    true => "nan".to_owned(),
                    false => x.to_string(),
                }),
            },
            _ => got.type_name().to_owned(),
        };
        vm.arg_error(self.arg, &format!("option '{name}' must be {expected}, not {got}"))
    }

    /// An integer from `lo` to `hi`.
    pub fn int(&self, vm: &mut Vm, name: &str, lo: i64, hi: i64) -> LuaResult<Option<i64>> {
        let v = self.get(vm, name)?;
        if v.is_nil() {
            return Ok(None);
        }
        match v
            .as_int()
            .or_else(|| v.as_number().filter(|x| x.fract() == 0.0 && x.abs() < 9e15).map(|x| x as i64))
        {
            Some(i) if (lo..=hi).contains(&i) => Ok(Some(i)),
            _ if hi == i64::MAX => Err(self.wrong(vm, name, &format!("an integer, at least {lo}"), v)),
            _ => Err(self.wrong(vm, name, &format!("an integer from {lo} to {hi}"), v)),
        }
    }

    /// A string.
    pub fn string(&self, vm: &mut Vm, name: &str) -> LuaResult<Option<String>> {
        let v = self.get(vm, name)?;
        match v.as_string() {
            Some(s) => Ok(Some(s.to_text())),
            None if v.is_nil() => Ok(None),
            None => Err(self.wrong(vm, name, "a string", v)),
        }
    }

    /// A time in seconds.
    pub fn span(&self, vm: &mut Vm, name: &str) -> LuaResult<Limit> {
        let v = self.get(vm, name)?;
        match v.as_number() {
            Some(seconds) if !seconds.is_nan() => Ok(Limit::Span(span(seconds))),
            None if v.is_nil() => Ok(Limit::None),
            _ => Err(self.wrong(vm, name, "a number of seconds", v)),
        }
    }
}
