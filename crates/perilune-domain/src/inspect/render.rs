//! From a tree to lines.
//!
//! A table is written on one line if it fits in what is left of the line; else each entry begins a line of
//! its own, but short items of a sequence share lines. Width counts characters, colours not.

use super::{Node, Options, Style, TableNode};
use std::collections::{HashMap, HashSet};

struct Render<'a> {
    options: &'a Options,
    /// The numbers that tables which are met again have in the text: in the order in which they stand there.
    marks: HashMap<usize, usize>,
    out: String,
    /// Characters of the last line.
    column: usize,
}

/// The text of a tree.
pub(super) fn render(node: &Node, again: &HashSet<usize>, options: &Options) -> String {
    // Tables were numbered as they were met.
    let mut numbers: Vec<_> = again.iter().copied().collect();
    numbers.sort_unstable();
    let marks = numbers.into_iter().enumerate().map(|(n, number)| (number, n + 1)).collect();
    let mut render = Render { options, marks, out: String::new(), column: 0 };
    render.node(node, 0, 0);
    render.out
}

/// Entries that share lines are not wider.
const SHORT: usize = 24;

impl Render<'_> {
    fn write(&mut self, text: &str, style: Style) {
        if text.is_empty() {
            return;
        }
        self.column += text.chars().count();
        let code = match style {
            _ if !self.options.colour => "",
            Style::Plain => "",
            Style::Number => "36",
            Style::String => "32",
            Style::Constant => "33",
            Style::Mark => "35",
        };
        if code.is_empty() {
            self.out.push_str(text);
        } else {
            self.out.push_str(&format!("\x1b[{code}m{text}\x1b[0m"));
        }
    }

    fn line(&mut self, indent: usize) {
        self.out.push('\n');
        self.out.push_str(&" ".repeat(indent));
        self.column = indent;
    }

    fn mark(&self, number: usize) -> usize {
        self.marks.get(&number).copied().unwrap_or(0)
    }

    /// Width on one line, if it is at most `most`.
    fn width(&self, node: &Node, most: usize) -> Option<usize> {
        let width = match node {
            Node::Leaf(text, _) => text.chars().count(),
            Node::Seen(number, _) => self.mark(*number).to_string().len() + 8,
            Node::Table(table) => return self.table_width(table, most),
        };
        (width <= most).then_some(width)
    }

    fn table_width(&self, table: &TableNode, most: usize) -> Option<usize> {
        let mut width = table.head.chars().count() + self.lead(table).len() + 2;
        if table.is_cut {
            width += 3;
        }
        let mut entries = 0;
        let mut add = |w: usize, width: &mut usize| {
            *width += w + if entries > 0 { 2 } else { 0 };
            entries += 1;
            *width <= most
        };
        for item in &table.items {
            let w = self.width(item, most)?;
            if !add(w, &mut width) {
                return None;
            }
        }
        if table.more_items > 0 && !add(more(table.more_items).len(), &mut width) {
            return None;
        }
        for (key, value) in &table.fields {
            let w = self.width(key, most)? + if is_bare(key) { 3 } else { 5 } + self.width(value, most)?;
            if !add(w, &mut width) {
                return None;
            }
        }
        if table.more_fields > 0 && !add(more(table.more_fields).len(), &mut width) {
            return None;
        }
        (width <= most).then_some(width)
    }

    /// `<1>`, if the table is mentioned again.
    fn lead(&self, table: &TableNode) -> String {
        match self.marks.get(&table.number) {
            Some(mark) => format!("<{mark}>"),
            None => String::new(),
        }
    }

    /// Writes a node; `after` characters follow it on its line.
    fn node(&mut self, node: &Node, indent: usize, after: usize) {
        match node {
            Node::Leaf(text, style) => self.write(text, *style),
            Node::Seen(number, inside) => {
                let text = format!("<{} {}>", if *inside { "cycle" } else { "table" }, self.mark(*number));
                self.write(&text, Style::Mark);
            }
            Node::Table(table) => {
                let left = self.options.width.saturating_sub(self.column + after);
                let fits = self.table_width(table, left).is_some();
                self.table(table, indent, fits);
            }
        }
    }

    fn table(&mut self, table: &TableNode, indent: usize, one_line: bool) {
        let lead = self.lead(table);
        self.write(&lead, Style::Mark);
        self.write(&table.head, Style::Mark);
        self.write("{", Style::Plain);
        if table.is_cut {
            self.write("...}", Style::Plain);
            return;
        }
        let is_empty = table.items.is_empty()
            && table.fields.is_empty()
            && table.more_items == 0
            && table.more_fields == 0;
        if is_empty {
            self.write("}", Style::Plain);
            return;
        }
        let inner = indent + 2;
        let mut first = true;
        // Whether the entry before ended a run of short items.
        let mut in_run = false;
        let mut entry = |render: &mut Self, short: Option<usize>| {
            if !first {
                render.write(",", Style::Plain);
            }
            if one_line {
                if !first {
                    render.write(" ", Style::Plain);
                }
            } else {
                let fits = short.is_some_and(|w| render.column + w + 2 <= render.options.width);
                if in_run && fits && !first {
                    render.write(" ", Style::Plain);
                } else {
                    render.line(inner);
                }
                in_run = short.is_some();
            }
            first = false;
        };
        for item in &table.items {
            let short = match item {
                Node::Leaf(..) => self.width(item, SHORT),
                _ => None,
            };
            entry(self, short);
            self.node(item, inner, 1);
        }
        if table.more_items > 0 {
            entry(self, None);
            self.write(&more(table.more_items), Style::Mark);
        }
        for (key, value) in &table.fields {
            entry(self, None);
            if is_bare(key) {
                self.node(key, inner, 0);
            } else {
                self.write("[", Style::Plain);
                self.node(key, inner, 1);
                self.write("]", Style::Plain);
            }
            self.write(" = ", Style::Plain);
            self.node(value, inner, 1);
        }
        if table.more_fields > 0 {
            entry(self, None);
            self.write(&more(table.more_fields), Style::Mark);
        }
        if !one_line {
            self.line(indent);
        }
        self.write("}", Style::Plain);
    }
}

fn more(n: usize) -> String {
    format!("<{n} more>")
}

/// Is the key a name, or the mark of a metatable?
fn is_bare(key: &Node) -> bool {
    match key {
        Node::Leaf(_, Style::Plain) => true,
        Node::Leaf(text, Style::Mark) => text == "<metatable>",
        _ => false,
    }
}
