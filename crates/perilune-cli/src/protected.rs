//! Calls in protected mode as the command makes them: with a traceback in the message, and with SIGINT turned
//! into a Lua error (`signals.rs`).

use crate::signals;
use perilune_domain::inspect::INSPECT;
use perilune_vm::{LuaResult, Native, Value, Vm};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The name in front of messages; none in interactive mode.
static PROGRAM: RwLock<Option<Vec<u8>>> = RwLock::new(None);
static MESSAGE_HANDLER: Native = Native::reentrant("msgh", message_handler);

/// Whether messages of errors that are tables show what is in them. Under a name of Lua's they say what `lua`
/// says.
static SHOWS_TABLES: AtomicBool = AtomicBool::new(false);

/// Sets the name in front of messages; under our own name, messages show error values that are tables.
pub fn set_program(name: Vec<u8>, is_lua: bool) {
    *PROGRAM.write().expect("no one panics holding it") = Some(name);
    SHOWS_TABLES.store(!is_lua, Ordering::Relaxed);
}

/// Messages have no name in front while `f` runs.
pub fn without_program<T>(f: impl FnOnce() -> T) -> T {
    let name = PROGRAM.write().expect("no one panics holding it").take();
    let result = f();
    *PROGRAM.write().expect("no one panics holding it") = name;
    result
}

/// Writes to standard error, after what was written to standard output.
pub fn write_error(text: &[u8]) {
    perilune_stdlib::io::write_error(text);
}

/// The words of a message, without the numbers that the standard library adds to those of the system.
pub fn in_words(message: &str) -> String {
    let mut text = message.to_owned();
    while let Some(at) = text.find(" (os error ") {
        let Some(end) = text[at..].find(')') else { break };
        text.replace_range(at..=at + end, "");
    }
    text
}

/// Writes a message, the program's name in front.
pub fn write_message(message: &[u8]) {
    let mut text = Vec::new();
    if let Some(program) = PROGRAM.read().expect("no one panics holding it").as_deref() {
        text.extend_from_slice(program);
        text.extend_from_slice(b": ");
    }
    text.extend_from_slice(message);
    text.push(b'\n');
    write_error(&text);
}

/// Writes the message of an error that nothing caught.
pub fn report(error: Value) {
    let message = error.as_string();
    let message = message.as_ref().map_or(&b"(error message not a string)"[..], |m| m.bytes());
    perilune_trace::emit::error(perilune_trace::ObjectRef::NONE, message);
    write_message(message);
}

/// Calls `f` with `args`, all results pushed; an error is the message with a traceback.
pub fn call(vm: &mut Vm, f: Value, args: &[Value]) -> Result<u32, Value> {
    let handle = vm.interrupt_handle();
    let result = signals::with_interrupts(handle, || {
        vm.host_call_with_handler(f, args, Value::native(&MESSAGE_HANDLER))
    });
    vm.clear_interrupt();
    result
}

/// As [`call`]; reports the error. `None` if there was one.
pub fn call_reporting(vm: &mut Vm, f: Value, args: &[Value]) -> Option<u32> {
    call(vm, f, args).map_err(report).ok()
}

/// Turns an error value into a message: `__tostring` as it is, anything else with a traceback from the point
/// of the error.
fn message_handler(vm: &mut Vm) -> LuaResult<u32> {
    let error = vm.arg(1);
    let message = match Vm::plain_text(error) {
        Some(message) => message,
        None => {
            let to_string = vm.metafield(error, "__tostring")?;
            if !to_string.is_nil() {
                let text = vm.call(to_string, &[error])?;
                if text.as_string().is_some() {
                    return vm.ret(text);
                }
            }
            let contents = contents(vm, error)?.map(|text| format!(": {text}")).unwrap_or_default();
            format!("(error object is a {} value{contents})", error.type_name()).into_bytes()
        }
    };
    let thread = vm.thread();
    let text = vm.traceback(thread, Some(&message), 1);
    vm.ret_str(&text)
}

/// What is in an error value that is a table, if messages are to say that. Should it not be possible to say
/// (the stack is used up, there is no memory), the message goes without.
fn contents(vm: &mut Vm, error: Value) -> LuaResult<Option<String>> {
    if error.as_table().is_none() || !SHOWS_TABLES.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let options = vm.new_table(0, 4)?;
    vm.push(options.into());
    for (name, n) in [("width", 100), ("depth", 4), ("items", 20), ("total", 200), ("string", 500)] {
        vm.set_field(options, name, Value::int(n))?;
    }
    let depth = vm.stack_top() as u32;
    let shown = vm.protected_call(Value::native(&INSPECT), &[error, options.into()])?;
    let text = match shown {
        Ok(_) => vm.stack_get(depth + 1).as_string().map(|s| s.to_text()),
        Err(_) => None,
    };
    vm.truncate(depth - 1);
    Ok(text)
}
