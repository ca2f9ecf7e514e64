//! Data formats: `require "perilune.json"`, `require "perilune.text"`.
//!
//! A room of its own above the standard library and below the domains: what is here is no part of Lua's
//! standard library, and knows nothing of domains, so that every state has it, whoever runs it. It makes
//! tables and strings through what `perilune-vm` offers to those who have complete values at hand
//! (`table/data.rs` there).
//!
//! | folder | module |
//! |---|---|
//! | `json/` | `perilune.json` |
//! | `text/` | `perilune.text` |
//! | `wire/` | none: values on their way to another process |
//!
//! The natives call no Lua code (but for a function that gives pieces) and honour no metamethods. What may
//! take long polls for interrupts, and looks at memory's limits, as it goes.

pub mod json;
pub mod text;
pub mod wire;

use perilune_vm::{LuaResult, Native, Value, Vm};

/// Makes the modules known to `require` in a state whose standard library is open. Each is made when it is
/// first required.
///
/// # Errors
/// "not enough memory"
pub fn open(vm: &mut Vm) -> LuaResult<()> {
    let package = vm.get_field(vm.globals(), "package")?;
    if let Some(package) = package.as_table()
        && let Some(preload) = vm.get_field(package, "preload")?.as_table()
    {
        let modules: [(&str, &'static Native); 2] =
            [("perilune.json", &json::OPEN), ("perilune.text", &text::OPEN)];
        for (name, loader) in modules {
            vm.set_field(preload, name, Value::native(loader))?;
        }
    }
    Ok(())
}
