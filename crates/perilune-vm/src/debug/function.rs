//! What is known of a function, whether it runs or not.

use crate::Vm;
use crate::value::{Tag, Value};
use perilune_syntax::error::chunk_id;

/// A function's description (the manual's `lua_Debug`, the parts that do not depend on a call).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionInfo {
    /// "Lua", "C" (a native function) or "main" (a chunk).
    pub what: &'static str,
    /// The chunk's name as given to `load`; `=[C]` for a native function.
    pub source: Vec<u8>,
    /// The chunk's name as it is printed.
    pub short_source: Vec<u8>,
    /// First line; -1 for a native function.
    pub line_defined: i64,
    /// Last line; -1 for a native function.
    pub last_line_defined: i64,
    /// Number of upvalues.
    pub upvalues: u8,
    /// Number of fixed parameters; 0 for a native function.
    pub params: u8,
    /// Takes extra arguments; true for a native function.
    pub is_vararg: bool,
}

impl Vm {
    /// Describes `f`; `None` if it is no function.
    pub fn function_info(&self, f: Value) -> Option<FunctionInfo> {
        if let Some(proto) = f.lua_proto() {
            return Some(FunctionInfo {
                what: if proto.line_defined == 0 { "main" } else { "Lua" },
                source: proto.source.to_vec(),
                short_source: chunk_id(&proto.source),
                line_defined: proto.line_defined as i64,
                last_line_defined: proto.last_line_defined as i64,
                upvalues: proto.upvalues.len() as u8,
                params: proto.num_params,
                is_vararg: proto.is_vararg,
            });
        }
        if f.tag() != Tag::SHARED_FUNCTION {
            f.as_native()?;
        }
        Some(FunctionInfo {
            what: "C",
            source: b"=[C]".to_vec(),
            short_source: b"[C]".to_vec(),
            line_defined: -1,
            last_line_defined: -1,
            upvalues: f.as_native_closure().map_or(0, |c| c.num_upvalues.min(255) as u8),
            params: 0,
            is_vararg: true,
        })
    }

    /// The lines of `f` that have code, where a breakpoint makes sense, in any order and perhaps repeated;
    /// none if line information was stripped. `None`: no Lua function.
    pub fn active_lines(&self, f: Value) -> Option<Vec<u32>> {
        let proto = f.lua_proto()?;
        // The first instruction of a vararg function stands on the line of its header, which is not a line of
        // its code.
        let first = proto.is_vararg as usize;
        Some(proto.lines.iter().skip(first).collect())
    }

    /// Name of parameter `n` (from 1) of `f`; `None` if it has none such, or no name is known.
    pub fn parameter_name(&self, f: Value, n: i64) -> Option<Vec<u8>> {
        let proto = f.lua_proto()?;
        let n = usize::try_from(n).ok()?.checked_sub(1)?;
        let mut active = proto.locals.iter().filter(|l| l.start_pc == 0 && l.end_pc > 0);
        active.nth(n).map(|l| l.name.to_vec())
    }
}
