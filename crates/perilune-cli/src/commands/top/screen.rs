//! The terminal while `perilune top` draws on it: the other screen, no cursor, keys as they come. Everything
//! is put back when it is dropped.
//!
//! A few control sequences that every terminal knows, and two system calls; a library for terminals would do
//! no more here.

use crate::sys::terminal::{self, Modes};
use std::io::{self, Write};

/// The terminal.
pub struct Screen {
    /// How it was; `None`: standard input is no terminal.
    before: Option<Modes>,
}

impl Screen {
    /// Switches to the other screen.
    pub fn begin() -> Screen {
        let before = Modes::now();
        if let Some(modes) = before {
            modes.by_key().set();
        }
        print!("\x1b[?1049h\x1b[?25l");
        let _ = io::stdout().flush();
        Screen { before }
    }

    /// Has somebody pressed `q`?
    pub fn is_quit(&self) -> bool {
        let mut quit = false;
        while self.before.is_some() {
            let Some(key) = terminal::key() else { break };
            quit |= matches!(key, b'q' | b'Q');
        }
        quit
    }

    /// Draws lines, as many and as much of each as there is room for. The table's head stands out.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn draw(&self, lines: &[String]) -> io::Result<()> {
        let (columns, rows) = size();
        let mut text = String::from("\x1b[H");
        for line in lines.iter().take(rows) {
            let is_head = line.starts_with("DOMAIN ") || line.starts_with("  CPU% ");
            let line: String = line.chars().filter(|c| !c.is_control()).take(columns).collect();
            text += &if is_head { format!("\x1b[7m{line}\x1b[0m\x1b[K") } else { format!("{line}\x1b[K") };
            text += "\r\n";
        }
        // The last line may not push the first out.
        if lines.len() >= rows {
            text.truncate(text.len() - 2);
        }
        text += "\x1b[J";
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        print!("\x1b[?25h\x1b[?1049l");
        let _ = io::stdout().flush();
        if let Some(before) = &self.before {
            before.set();
        }
    }
}

/// Columns and rows.
fn size() -> (usize, usize) {
    match terminal::size() {
        (0, _) | (_, 0) => (80, 24),
        (columns, rows) => (columns as usize, rows as usize),
    }
}
