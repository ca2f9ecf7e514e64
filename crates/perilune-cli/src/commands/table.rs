//! Tables for people: columns as wide as they need to be, the first one to the left, all others to the right.

use std::io::{self, Write};

/// A table; the first row is its head.
#[derive(Default)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with this head.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Table {
        Table { rows: vec![head.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Has it rows besides the head?
    pub fn is_empty(&self) -> bool {
        self.rows.len() < 2
    }

    /// Writes it. The last `left` columns stand to the left: texts.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn Write, left: usize) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[column] - cell.chars().count());
                if column > 0 {
                    line.push_str("  ");
                }
                if column == 0 || column + left >= columns {
                    line.push_str(cell);
                    line.push_str(&pad);
                } else {
                    line.push_str(&pad);
                    line.push_str(cell);
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A part of a whole in percent; nothing if there is no whole.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1}%", part as f64 * 100.0 / whole as f64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut t = Table::new(["what", "n", "where"]);
        assert!(t.is_empty());
        t.row(["µs", "1", "a place"]);
        t.row(["more", "1000", ""]);
        let mut out = Vec::new();
        t.write(&mut out, 1).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "what     n  where\nµs       1  a place\nmore  1000\n");
        assert_eq!((percent(1, 3), percent(1, 0)), ("33.3%".into(), String::new()));
    }
}
