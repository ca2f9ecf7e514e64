//! The `perilune` command: `lua`'s command line over Perilune, with a few subcommands of its own.
//!
//! | file | |
//! |---|---|
//! | `options.rs` | words to options |
//! | `run.rs` | what `lua` does with them: LUA_INIT, `-e`, `-l`, the script |
//! | `protected.rs` | calls with a traceback, SIGINT, messages on standard error |
//! | `repl.rs`, `terminal.rs` | the interactive mode, in pipes and on a terminal |
//!
//! Everything that may raise an error happens inside one native function, [`run::MAIN`], called in protected mode, so that any error
//! ends in a message and exit code 1, and tracebacks end as those of `lua` do: with a `[C]: in ?` for the host.

mod options;
mod protected;
mod repl;
mod run;
mod terminal;

use perilune_vm::{Value, Vm};
use std::process::ExitCode;

fn main() -> ExitCode {
    let (words, parsed) = options::parse(std::env::args_os());
    let program = options::program_name(&words).to_vec();
    let options = match parsed {
        Ok(options) => options,
        Err(bad) => {
            protected::write_error(&options::usage(&program, &bad));
            return ExitCode::FAILURE;
        }
    };
    let mut vm = Vm::new();
    protected::set_program(program);
    run::set_options(options);
    let succeeded = match vm.protected_call(Value::native(&run::MAIN), &[]) {
        Ok(results) => results == 1 && vm.pop().is_truthy(),
        Err(error) => {
            protected::report(error);
            false
        }
    };
    vm.close();
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
