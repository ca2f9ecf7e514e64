//! `warn`: the warning state, and warnings of the machine itself (errors in finalisers).

use crate::Vm;
use std::io::Write;

/// Whether warnings are on, and whether a message is being put together.
#[derive(Default)]
pub struct WarnState {
    /// Warnings are written.
    pub on: bool,
    /// The last piece said that more would follow.
    pub continues: bool,
}

impl Vm {
    /// The warning state.
    pub fn warn_state(&mut self) -> &mut WarnState {
        &mut self.lua.warn
    }

    /// One piece of a warning, as `warn` and `lua_warning` treat it: control messages "@on" and "@off",
    /// pieces that continue.
    pub fn warn_piece(&mut self, piece: &[u8], to_be_continued: bool) {
        if !self.lua.warn.continues && !to_be_continued && piece.first() == Some(&b'@') {
            match piece {
                b"@on" => self.lua.warn.on = true,
                b"@off" => self.lua.warn.on = false,
                _ => {}
            }
            return;
        }
        if self.lua.warn.on {
            let mut err = std::io::stderr().lock();
            let _ = if self.lua.warn.continues { Ok(()) } else { err.write_all(b"Lua warning: ") };
            let _ = err.write_all(piece);
            if !to_be_continued {
                let _ = err.write_all(b"\n");
            }
        }
        self.lua.warn.continues = to_be_continued;
    }

    /// A complete warning of the machine itself.
    pub(crate) fn warning(&mut self, text: &str) {
        self.warn_piece(text.as_bytes(), false);
    }
}
