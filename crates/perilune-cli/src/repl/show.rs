//! What an input has returned, for people: `pl.inspect` with limits that fit a screen, in colour where that
//! is wanted.

use perilune_domain::inspect::INSPECT;
use perilune_vm::{LuaResult, Value, Vm};

/// Prints the topmost `results` values, which lie above slot `depth`.
pub fn results(vm: &mut Vm, depth: u32, results: u32, width: usize) -> LuaResult<()> {
    if results == 0 {
        return Ok(());
    }
    let mut texts = Vec::new();
    for i in 1..=results {
        let value = vm.stack_get(depth + i);
        texts.push(text(vm, value, width, has_colour())?);
    }
    // Several on one line, if none is longer.
    let between = if texts.iter().any(|t| t.contains('\n')) { "\n" } else { "\t" };
    line(vm, &texts.join(between))
}

/// A value as it is shown.
pub fn text(vm: &mut Vm, value: Value, width: usize, colour: bool) -> LuaResult<String> {
    let depth = vm.stack_top() as u32;
    let options = vm.new_table(0, 6)?;
    vm.push(options.into());
    for (name, n) in [("width", width as i64), ("depth", 5), ("items", 50), ("total", 400), ("string", 2000)]
    {
        vm.set_field(options, name, Value::int(n))?;
    }
    if colour {
        vm.set_field(options, "colour", Value::TRUE)?;
    }
    let text = match vm.host_call(Value::native(&INSPECT), &[value, options.into()]) {
        Ok(_) => vm.stack_get(depth + 2).as_string().map(|s| s.to_text()).unwrap_or_default(),
        Err(error) => {
            let message = Vm::plain_text(error).unwrap_or_default();
            format!("<{}: {}>", value.type_name(), String::from_utf8_lossy(&message))
        }
    };
    vm.truncate(depth);
    Ok(text)
}

/// Writes a line behind whatever the program has written.
pub fn line(vm: &mut Vm, text: &str) -> LuaResult<()> {
    let stdout = super::standard_file(vm, "stdout")?;
    if stdout.is_nil() {
        println!("{text}");
        return Ok(());
    }
    let text = vm.value_str(format!("{text}\n").as_bytes())?;
    super::call_method(vm, stdout, "write", &[text])?;
    super::call_method(vm, stdout, "flush", &[])?;
    Ok(())
}

/// Whether colours are wanted: not with NO_COLOR, nor on terminals that have none.
pub fn has_colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    !refused && std::env::var_os("TERM").is_some_and(|term| term != "dumb" && !term.is_empty())
}
