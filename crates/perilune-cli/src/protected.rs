//! Calls in protected mode as the command makes them: with a traceback in the message, and with SIGINT turned
//! into a Lua error (`signals.rs`).

use crate::signals;
use perilune_vm::{LuaResult, Native, Value, Vm};
use std::sync::RwLock;

/// The name in front of messages; none in interactive mode.
static PROGRAM: RwLock<Option<Vec<u8>>> = RwLock::new(None);
static MESSAGE_HANDLER: Native = Native::reentrant("msgh", message_handler);

/// Sets the name in front of messages.
pub fn set_program(name: Vec<u8>) {
    *PROGRAM.write().expect("no one panics holding it") = Some(name);
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
            format!("(error object is a {} value)", error.type_name()).into_bytes()
        }
    };
    let thread = vm.thread();
    let text = vm.traceback(thread, Some(&message), 1);
    vm.ret_str(&text)
}
