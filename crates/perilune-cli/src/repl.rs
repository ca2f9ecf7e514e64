//! The interactive mode: read a line, compile it as an expression or else as a statement, run it, print what
//! it returns.
//!
//! Lines come from a terminal with editing ([`crate::terminal`]) or, in pipes, from `io.stdin` itself, so
//! that a program that reads its standard input and the interactive mode share one buffer. A chunk whose only
//! fault is that it ends too early is continued with the next line.

use crate::protected;
use crate::terminal::Terminal;
use perilune_stdlib::chunk;
use perilune_vm::{LuaResult, Value, Vm};
use std::io::IsTerminal;

enum Source {
    Terminal(Box<Terminal>),
    /// `io.stdin` and `io.stdout` as they were at the start.
    Pipe {
        stdin: Value,
        stdout: Value,
    },
}

/// Reads and runs until the input ends.
///
/// # Errors
/// Those outside the code that is typed in: the prompt's `__tostring`, memory.
pub fn run(vm: &mut Vm) -> LuaResult<()> {
    let mut source = Source::open(vm)?;
    protected::without_program(|| {
        while let Some(loaded) = source.read_chunk(vm)? {
            let depth = vm.stack_top() as u32;
            match loaded {
                Ok(f) => {
                    if let Some(results) = protected::call_reporting(vm, f, &[]) {
                        print(vm, depth, results)?;
                    }
                }
                Err(message) => protected::report(message),
            }
            vm.truncate(depth);
        }
        source.finish(vm)
    })
}

/// Calls `print` with the topmost `results` values, which lie above slot `depth`.
fn print(vm: &mut Vm, depth: u32, results: u32) -> LuaResult<()> {
    if results == 0 {
        return Ok(());
    }
    let values: Vec<Value> = (1..=results).map(|i| vm.stack_get(depth + i)).collect();
    let globals: Value = vm.globals().into();
    let key = vm.value_str(b"print")?;
    let print = vm.index(globals, key)?;
    if let Err(error) = vm.host_call(print, &values) {
        let text = error.as_string().map_or_else(|| b"?".to_vec(), |s| s.bytes().to_vec());
        protected::write_message(&[b"error calling 'print' (", text.as_slice(), b")"].concat());
    }
    Ok(())
}

impl Source {
    fn open(vm: &mut Vm) -> LuaResult<Source> {
        if std::io::stdin().is_terminal()
            && std::io::stdout().is_terminal()
            && let Some(terminal) = Terminal::open()
        {
            return Ok(Source::Terminal(Box::new(terminal)));
        }
        let (stdin, stdout) = (standard_file(vm, "stdin")?, standard_file(vm, "stdout")?);
        Ok(Source::Pipe { stdin, stdout })
    }

    /// The next chunk, compiled, or the message of why it is none. `None`: no more input.
    fn read_chunk(&mut self, vm: &mut Vm) -> LuaResult<Option<Result<Value, Value>>> {
        let Some(mut text) = self.read_line(vm, true)? else { return Ok(None) };
        if let Some(expression) = text.strip_prefix(b"=") {
            text = [b"return ", expression].concat();
        }
        let expression = [b"return ", text.as_slice(), b";"].concat();
        if let Ok(f) = chunk::load(vm, &expression, b"=stdin", b"t", None)? {
            self.remember(&text);
            return Ok(Some(Ok(f.into())));
        }
        loop {
            let loaded = chunk::load(vm, &text, b"=stdin", b"t", None)?.map(Value::from);
            let continues = matches!(loaded, Err(message) if ends_too_early(message));
            if continues && let Some(line) = self.read_line(vm, false)? {
                text.push(b'\n');
                text.extend_from_slice(&line);
                continue;
            }
            self.remember(&text);
            return Ok(Some(loaded));
        }
    }

    fn read_line(&mut self, vm: &mut Vm, first: bool) -> LuaResult<Option<Vec<u8>>> {
        let prompt = prompt(vm, first)?;
        match self {
            Source::Terminal(terminal) => Ok(terminal.read_line(vm, &prompt)),
            Source::Pipe { stdin, stdout } => {
                let (stdin, stdout) = (*stdin, *stdout);
                let prompt = vm.value_str(&prompt)?;
                call_method(vm, stdout, "write", &[prompt])?;
                call_method(vm, stdout, "flush", &[])?;
                let format = vm.value_str(b"l")?;
                let line = call_method(vm, stdin, "read", &[format])?;
                Ok(line.as_string().map(|s| s.bytes().to_vec()))
            }
        }
    }

    fn remember(&mut self, text: &[u8]) {
        if let Source::Terminal(terminal) = self {
            terminal.remember(text);
        }
    }

    fn finish(&mut self, vm: &mut Vm) -> LuaResult<()> {
        match self {
            Source::Terminal(terminal) => terminal.save(),
            Source::Pipe { stdout, .. } => {
                let (stdout, newline) = (*stdout, vm.value_str(b"\n")?);
                call_method(vm, stdout, "write", &[newline])?;
                call_method(vm, stdout, "flush", &[])?;
            }
        }
        Ok(())
    }
}

/// The message ends with the token that stands for the end of the input.
fn ends_too_early(message: Value) -> bool {
    message.as_string().is_some_and(|s| s.bytes().ends_with(b"<eof>"))
}

fn prompt(vm: &mut Vm, first: bool) -> LuaResult<Vec<u8>> {
    let globals: Value = vm.globals().into();
    let key = vm.value_str(if first { b"_PROMPT" } else { b"_PROMPT2" })?;
    let prompt = vm.index(globals, key)?;
    if prompt.is_nil() {
        return Ok(if first { b"> ".to_vec() } else { b">> ".to_vec() });
    }
    Ok(vm.tostring(prompt)?.bytes().to_vec())
}

fn standard_file(vm: &mut Vm, name: &str) -> LuaResult<Value> {
    let registry = vm.registry();
    let loaded = vm.get_field(registry, "_LOADED")?;
    let Some(loaded) = loaded.as_table() else { return Ok(Value::NIL) };
    let Some(io) = vm.get_field(loaded, "io")?.as_table() else { return Ok(Value::NIL) };
    vm.get_field(io, name)
}

/// `object:name(args)`, first result; nil if the call fails.
fn call_method(vm: &mut Vm, object: Value, name: &str, args: &[Value]) -> LuaResult<Value> {
    let key = vm.value_str(name.as_bytes())?;
    let method = vm.index(object, key)?;
    let depth = vm.stack_top() as u32;
    let all: Vec<Value> = std::iter::once(object).chain(args.iter().copied()).collect();
    let result = match vm.host_call(method, &all) {
        Ok(results) if results > 0 => vm.stack_get(depth + 1),
        _ => Value::NIL,
    };
    vm.truncate(depth);
    Ok(result)
}
