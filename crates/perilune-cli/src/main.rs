//! The `perilune` command: `lua`'s command line over Perilune, with a few subcommands of its own.
//!
//! | file | |
//! |---|---|
//! | `options.rs` | words to options |
//! | `config.rs` | what the environment says, read once |
//! | `app.rs`, `app/` | programs that are one executable |
//! | `commands/` | subcommands that `lua` does not have |
//! | `run.rs` | what `lua` does with them: LUA_INIT, `-e`, `-l`, the script |
//! | `protected.rs` | calls with a traceback, messages on standard error |
//! | `init.rs` | what is to be done as process 1, in a container |
//! | `signals.rs` | what the process does about signals |
//! | `sys.rs`, `sys/` | what is Linux |
//! | `repl.rs`, `repl/`, `terminal.rs` | the interactive mode, in pipes and on a terminal |
//!
//! Lua code runs in protected mode only; what else may fail ends in a message and exit code 1.

mod app;
mod commands;
mod config;
mod init;
mod options;
mod protected;
mod repl;
mod run;
mod signals;
mod sys;
mod terminal;

use commands::manual;
use options::Request;
use perilune_domain::Runtime;
use perilune_domain::bundle::Files;
use perilune_vm::{LuaResult, Vm};
use std::process::ExitCode;
use std::sync::Arc;

/// Outlives the end of memory until Lua code can be told of it.
#[global_allocator]
static ALLOCATOR: perilune_heap::shortage::Allocator = perilune_heap::shortage::Allocator;

fn main() -> ExitCode {
    init::set_up();
    perilune_heap::space::prepare();
    signals::set_up();
    let words = options::words(std::env::args_os());
    if app::is_one() {
        return app::run(words);
    }
    let program = options::program_name(&words).to_vec();
    let options = match options::parse(&words) {
        Ok(Request::Lua(options)) => options,
        Ok(Request::Command(command)) => return command.run(&words),
        Ok(Request::Help) => return manual::print(&manual::help()),
        Ok(Request::Version) => return manual::print(&manual::version()),
        Err(bad) => {
            protected::write_error(&options::usage(&program, &bad));
            return ExitCode::FAILURE;
        }
    };
    let is_lua = options::is_lua(&options.words[0]);
    let ignore = options.flags.ignore_environment;
    let files = Files::Folder(options::folder(&options));
    run_program(program, is_lua, ignore, files, |vm, runtime| run::main(vm, runtime, &options))
}

/// Runs Lua code as the process's program, from what the environment asks for to the last finaliser: `f` says
/// whether it succeeded. `name` stands before messages; `-E` hides Lua's variables of the environment;
/// `files` belong to the program.
pub fn run_program(
    name: Vec<u8>,
    is_lua: bool,
    ignore_environment: bool,
    files: Files,
    f: impl FnOnce(&mut Vm, &Arc<Runtime>) -> LuaResult<bool>,
) -> ExitCode {
    commands::build::tell_if_asked();
    perilune_trace::attach::listen();
    if let Err(message) = perilune_trace::session::start_from_env() {
        protected::write_error(format!("perilune: {message}\n").as_bytes());
        return ExitCode::FAILURE;
    }
    if let Err(message) = perilune_heap::limit_program_from_env().and_then(|()| config::choose_poller()) {
        protected::write_error(format!("perilune: {message}\n").as_bytes());
        return ExitCode::FAILURE;
    }
    if let Some(file) = std::env::var_os("PERILUNE_HEAP_AT_EXIT").filter(|f| !f.is_empty()) {
        perilune_vm::snapshot::set_file_at_exit(std::path::Path::new(&file));
        // A tool watches this program, not those that it starts.
        // SAFETY: the process has one thread yet.
        unsafe { std::env::remove_var("PERILUNE_HEAP_AT_EXIT") };
    }
    let runtime = Runtime::new(config::from_env(ignore_environment, files));
    let Ok(mut vm) = Vm::try_with_options(runtime.config().heap.clone()) else {
        protected::write_error(b"perilune: not enough memory\n");
        return ExitCode::FAILURE;
    };
    if let Some(specializer) = &runtime.config().specializer {
        vm.set_specializer(Arc::clone(specializer));
    }
    vm.enter_main();
    protected::set_program(name, is_lua);
    let succeeded = match f(&mut vm, &runtime) {
        Ok(succeeded) => {
            if succeeded {
                perilune_domain::outside::tell_services(&mut vm);
            }
            succeeded
        }
        Err(thrown) => {
            protected::report(vm.host_error(thrown));
            false
        }
    };
    vm.write_snapshot_at_exit();
    vm.close();
    vm.process_ends();
    vm.leave_main();
    if std::env::var_os("PERILUNE_GC_STATS").is_some_and(|v| !v.is_empty() && v != "0") {
        eprintln!("{:#?}", vm.heap().stats());
    }
    vm.leave_memory();
    if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
