//! The interactive mode: read a line, compile it as an expression or else as a statement, run it, print what
//! it returns.
//!
//! Lines come from a terminal with editing ([`crate::terminal`]) or, in pipes, from `io.stdin` itself, so
//! that a program that reads its standard input and the interactive mode share one buffer. A chunk whose only
//! fault is that it ends too early is continued with the next line.
//!
//! In a pipe, and under a name of Lua's, that is all, and values are printed by `print`, as `lua` does. On a
//! terminal, under our own name, a person is there, and there is more:
//!
//! | file | |
//! |---|---|
//! | `repl/session.rs` | locals live on from one input to the next |
//! | `repl/show.rs` | values are shown with what is in them |
//! | `repl/complete.rs` | completion |
//! | `repl/commands.rs`, `repl/help.rs` | `.help` and its like; `?name` |

mod commands;
pub mod complete;
mod help;
pub mod session;
mod show;

use crate::protected;
use crate::terminal::{Line, Terminal};
use perilune_stdlib::chunk;
use perilune_vm::{LuaResult, Value, Vm};
use session::Session;
use std::io::IsTerminal;

enum Source {
    Terminal(Box<Terminal>),
    /// `io.stdin` and `io.stdout` as they were at the start.
    Pipe {
        stdin: Value,
        stdout: Value,
    },
}

/// What was read. Values lie on the stack too.
enum Input {
    /// A chunk, compiled, or the message of why it is none.
    Chunk(Result<Value, Value>, Vec<u8>),
    /// A line that begins with a dot or a question mark, for `repl/commands.rs`.
    Command(String),
    /// Nothing that is to be run.
    Nothing,
}

/// A session.
struct Repl {
    source: Source,
    /// Whether a person is there, and this is not `lua`.
    is_rich: bool,
    /// What has been run without an error, for `.save`.
    inputs: Vec<Vec<u8>>,
}

/// What a chunk's text has come to. The value lies on the stack too.
enum Compiled {
    Function(Value),
    /// More lines may make it one.
    TooShort(Value),
    Wrong(Value),
}

/// Reads and runs until the input ends.
///
/// # Errors
/// Those outside the code that is typed in: the prompt's `__tostring`, memory.
pub fn run(vm: &mut Vm, is_lua: bool) -> LuaResult<()> {
    let source = Source::open(vm)?;
    let is_rich = !is_lua && matches!(source, Source::Terminal(_));
    let mut repl = Repl { source, is_rich, inputs: Vec::new() };
    if is_rich {
        Session::open(vm)?;
        println!("Type .help for help; Ctrl-D ends the session.");
    }
    protected::without_program(|| {
        loop {
            let depth = vm.stack_top() as u32;
            let Some(input) = repl.read(vm)? else { break };
            match input {
                Input::Chunk(Ok(f), text) => repl.evaluate(vm, f, text)?,
                Input::Chunk(Err(message), _) => protected::report(message),
                Input::Command(line) => repl.command(vm, &line)?,
                Input::Nothing => {}
            }
            vm.truncate(depth);
        }
        repl.source.finish(vm)
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

impl Repl {
    /// Runs a chunk and shows what it returns.
    fn evaluate(&mut self, vm: &mut Vm, f: Value, text: Vec<u8>) -> LuaResult<()> {
        let depth = vm.stack_top() as u32;
        if let Some(results) = protected::call_reporting(vm, f, &[]) {
            if self.is_rich {
                self.inputs.push(text);
                let width = self.width();
                show::results(vm, depth, results, width)?;
            } else {
                print(vm, depth, results)?;
            }
        }
        vm.truncate(depth);
        Ok(())
    }

    fn width(&mut self) -> usize {
        match &mut self.source {
            Source::Terminal(terminal) => terminal.width(),
            Source::Pipe { .. } => usize::MAX,
        }
    }

    /// The next input; `None`: there is no more. Leaves its values on the stack.
    fn read(&mut self, vm: &mut Vm) -> LuaResult<Option<Input>> {
        let depth = vm.stack_top() as u32;
        let mut text = match self.source.read_line(vm, true)? {
            Line::Text(text) => text,
            Line::Abandoned => {
                if self.is_rich {
                    println!("(Ctrl-D or os.exit() ends the session)");
                }
                return Ok(Some(Input::Nothing));
            }
            Line::End => return Ok(None),
        };
        if self.is_rich && commands::is_command(&text) {
            self.source.remember(&text);
            return Ok(Some(Input::Command(String::from_utf8_lossy(&text).trim().to_owned())));
        }
        if let Some(expression) = text.strip_prefix(b"=") {
            text = [b"return ", expression].concat();
        }
        if self.is_rich && commands::asks_to_exit(vm, &text) {
            self.source.remember(&text);
            println!("(Ctrl-D or os.exit() ends the session)");
            return Ok(Some(Input::Nothing));
        }
        loop {
            vm.truncate(depth);
            let compiled = self.compile(vm, &text, b"=stdin")?;
            if let Compiled::TooShort(_) = compiled {
                match self.source.read_line(vm, false)? {
                    Line::Text(line) => {
                        text.push(b'\n');
                        text.extend_from_slice(&line);
                        continue;
                    }
                    Line::Abandoned => return Ok(Some(Input::Nothing)),
                    Line::End => {}
                }
            }
            self.source.remember(&text);
            return Ok(Some(match compiled {
                Compiled::Function(f) => Input::Chunk(Ok(f), text),
                Compiled::TooShort(message) | Compiled::Wrong(message) => Input::Chunk(Err(message), text),
            }));
        }
    }

    /// Compiles a text as an expression or as statements. Pushes what it comes to.
    fn compile(&mut self, vm: &mut Vm, text: &[u8], name: &[u8]) -> LuaResult<Compiled> {
        let expression = [b"return ", text, b";"].concat();
        // By itself first: that decides whether it is one, and what a message says.
        let (text, loaded) = match chunk::load(vm, &expression, name, b"t", None)? {
            Ok(f) => (&expression[..], Ok(f)),
            Err(_) => (text, chunk::load(vm, text, name, b"t", None)?),
        };
        let compiled = match loaded {
            Ok(_) if self.is_rich => match Session::load(vm, text, name)? {
                Ok(f) => Compiled::Function(f),
                Err(message) => Compiled::Wrong(message),
            },
            Ok(f) => Compiled::Function(f.into()),
            Err(message) if ends_too_early(message) => Compiled::TooShort(message),
            Err(message) => Compiled::Wrong(message),
        };
        let (Compiled::Function(value) | Compiled::TooShort(value) | Compiled::Wrong(value)) = compiled;
        vm.push(value);
        Ok(compiled)
    }
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

    fn read_line(&mut self, vm: &mut Vm, first: bool) -> LuaResult<Line> {
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
                Ok(line.as_string().map_or(Line::End, |s| Line::Text(s.bytes().to_vec())))
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
            Source::Terminal(terminal) => terminal.finish(),
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
