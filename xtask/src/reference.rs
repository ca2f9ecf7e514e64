//! `cargo xtask reference`: the pages of `docs/reference`, written from `docs/luacats`.
//!
//! The interface is written down once, in the LuaCATS files. This chore makes pages of it, one for each
//! section of a file, and an index with a line for each function. The pages are committed, so that they can
//! be read where the project is read; a test compares them with what the chore would write. The folder
//! belongs to the chore: a page that no section stands for is removed.
//!
//! Types that a file defines are linked to the place where they are described; all other types stand as they
//! are.

use crate::chore::{Error, Outcome, root};
use perilune_luacats::{Alias, Class, Described, Function, Interface, Item};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

pub const SUMMARY: &str = "write docs/reference from docs/luacats";
pub const USAGE: &str = "[--check]";

const SOURCE: &str = "docs/luacats";
const PAGES: &str = "docs/reference";

pub fn run(args: Vec<OsString>) -> Result<Outcome, Error> {
    let check = match args.as_slice() {
        [] => false,
        [word] if word == "--check" => true,
        _ => return Err(format!("usage: cargo xtask reference {USAGE}").into()),
    };
    let wanted = pages(&root().join(SOURCE))?;
    let folder = root().join(PAGES);
    let stale = stale(&wanted, &folder)?;
    if check {
        for name in &stale {
            println!("{PAGES}/{name} is not what `cargo xtask reference` writes");
        }
        return Ok(Outcome::from_ok(stale.is_empty()));
    }
    std::fs::create_dir_all(&folder)?;
    for name in &stale {
        match wanted.get(name) {
            Some(text) => std::fs::write(folder.join(name), text)?,
            None => std::fs::remove_file(folder.join(name))?,
        }
        println!("{PAGES}/{name}");
    }
    println!("{} pages, {} changed", wanted.len(), stale.len());
    Ok(Outcome::Passed)
}

/// The names of files that are not in `folder` as they are in `wanted`, or only there.
fn stale(wanted: &BTreeMap<String, String>, folder: &Path) -> Result<Vec<String>, Error> {
    let mut names: Vec<String> = wanted
        .iter()
        .filter(|(name, text)| std::fs::read_to_string(folder.join(name)).ok().as_ref() != Some(text))
        .map(|(name, _)| name.clone())
        .collect();
    if folder.is_dir() {
        for entry in std::fs::read_dir(folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !wanted.contains_key(&name) {
                names.push(name);
            }
        }
    }
    Ok(names)
}

/// What is described where.
struct Book {
    /// Pages in order: file name, title, what to read on, items.
    pages: Vec<Page>,
    /// The page and the anchor of each type.
    types: BTreeMap<String, (String, String)>,
}

struct Page {
    file: String,
    title: String,
    see: Option<String>,
    items: Vec<Item>,
}

/// All pages: file names and texts.
fn pages(source: &Path) -> Result<BTreeMap<String, String>, Error> {
    let mut files: Vec<_> = std::fs::read_dir(source)?.collect::<Result<Vec<_>, _>>()?;
    files.retain(|f| f.path().extension().is_some_and(|e| e == "lua"));
    files.sort_by_key(|f| f.path().with_extension(""));
    let mut book = Book { pages: Vec::new(), types: BTreeMap::new() };
    for file in files {
        let text = std::fs::read_to_string(file.path())?;
        let name = file.file_name().to_string_lossy().into_owned();
        let interface = perilune_luacats::parse(&text).map_err(|e| format!("{SOURCE}/{name}:{e}"))?;
        book.add(name.trim_end_matches(".lua"), interface)?;
    }
    let mut wanted = BTreeMap::from([("README.md".to_owned(), book.index())]);
    for page in &book.pages {
        wanted.insert(page.file.clone(), book.page(page));
    }
    Ok(wanted)
}

const HEAD: &str = "<!-- Written by `cargo xtask reference` from docs/luacats. Change it there. -->\n\n";

impl Book {
    fn add(&mut self, module: &str, interface: Interface) -> Result<(), Error> {
        for section in interface.sections {
            let (file, title) = if section.title.is_empty() {
                (format!("{module}.md"), format!("The module `{module}`"))
            } else {
                (format!("{}.md", slug(&section.title)), section.title)
            };
            if file == "README.md" || self.pages.iter().any(|p| p.file == file) {
                return Err(format!("two sections make the page {file}: '{title}' is the second").into());
            }
            for item in &section.items {
                let (name, heading) = match item {
                    Item::Class(class) => (&class.name, class_heading(class)),
                    Item::Alias(alias) => (&alias.name, alias.name.clone()),
                    Item::Function(_) => continue,
                };
                self.types.insert(name.clone(), (file.clone(), slug(&heading)));
            }
            self.pages.push(Page { file, title, see: section.see, items: section.items });
        }
        Ok(())
    }

    fn index(&self) -> String {
        let mut s = format!(
            "{HEAD}# Reference\n\nEvery function of `require \"perilune\"`; `pl` stands for what it returns. \
             The same text \
             is what the interactive mode shows for `?pl.sleep`, and what editors show. Pages that explain \
             are in \
             [parallel.md](../parallel.md) and below it.\n"
        );
        for page in &self.pages {
            write!(s, "\n## [{}]({})\n\n| | |\n|---|---|\n", page.title, page.file).expect("a String");
            for item in &page.items {
                if let Item::Function(f) = item {
                    let link = format!("{}#{}", page.file, slug(&signature(f)));
                    let first = match (f.text().next(), f.returns().next()) {
                        (Some(text), _) => first_sentence(text),
                        (None, Some(result)) => {
                            format!("returns {} {}", self.link(&result.of, "", false), result.text)
                        }
                        (None, None) => String::new(),
                    };
                    let first = first.trim_end();
                    writeln!(s, "| [`{}`]({link}) | {} |", cell(&signature(f)), cell(first))
                        .expect("a String");
                }
            }
        }
        s
    }

    fn page(&self, page: &Page) -> String {
        let mut s = format!("{HEAD}# {}\n", page.title);
        if let Some(see) = &page.see {
            let name = see.rsplit('/').next().unwrap_or(see);
            write!(s, "\nSee also [{name}]({see}).\n").expect("a String");
        }
        for item in &page.items {
            s.push('\n');
            match item {
                Item::Function(f) => self.function(f, &mut s, &page.file),
                Item::Class(c) => self.class(c, &mut s, &page.file),
                Item::Alias(a) => self.alias(a, &mut s),
            }
        }
        s
    }

    fn function(&self, f: &Function, s: &mut String, here: &str) {
        writeln!(s, "### `{}`", signature(f)).expect("a String");
        let text: Vec<&str> = f.text().collect();
        if !text.is_empty() {
            write!(s, "\n{}\n", text.join("\n")).expect("a String");
        }
        self.table("parameter", f.params(), s, here);
        let returns: Vec<_> = f.returns().collect();
        if !returns.is_empty() {
            s.push_str("\nReturns\n\n");
            for r in returns {
                let of = self.link(&r.of, here, false);
                let sep = if r.text.is_empty() { "" } else { ": " };
                writeln!(s, "- {of}{sep}{}", r.text).expect("a String");
            }
        }
        for other in f.overloads() {
            write!(s, "\nAlso: `{other}`\n").expect("a String");
        }
    }

    fn class(&self, c: &Class, s: &mut String, here: &str) {
        writeln!(s, "## {}", class_heading(c)).expect("a String");
        if !c.text.is_empty() {
            write!(s, "\n{}\n", c.text.join("\n")).expect("a String");
        }
        if !c.parents.is_empty() {
            let parents: Vec<String> = c.parents.iter().map(|p| self.link(p, here, false)).collect();
            write!(s, "\nHas what {} has, and:\n", parents.join(" and ")).expect("a String");
        }
        self.table("field", c.fields.iter().cloned(), s, here);
        if !c.operators.is_empty() {
            s.push('\n');
        }
        for operator in &c.operators {
            let (name, of) = operator.split_once(':').unwrap_or((operator, ""));
            let how = match name.trim() {
                "len" => "`#` gives its length",
                "call" => "it can be called, and used as the iterator of a `for`",
                _ => "it has the operator",
            };
            writeln!(s, "- {how} (`{}`: {})", name.trim(), self.link(of.trim(), here, false))
                .expect("a String");
        }
    }

    fn alias(&self, a: &Alias, s: &mut String) {
        write!(s, "## {}\n\n`{}`\n", a.name, a.means).expect("a String");
    }

    fn table(&self, what: &str, rows: impl Iterator<Item = Described>, s: &mut String, here: &str) {
        let mut rows = rows.peekable();
        if rows.peek().is_none() {
            return;
        }
        write!(s, "\n| {what} | type | |\n|---|---|---|\n").expect("a String");
        for row in rows {
            writeln!(
                s,
                "| `{}` | {} | {} |",
                cell(&row.name),
                self.link(&row.of, here, true),
                cell(&row.text)
            )
            .expect("a String");
        }
    }

    /// A type, with links to the types that the files define. In a table's cell a `|` is escaped.
    fn link(&self, of: &str, here: &str, in_cell: bool) -> String {
        let mut s = String::new();
        let mut plain = String::new();
        let escape = |text: &str| if in_cell { cell(text) } else { text.to_owned() };
        let flush = |plain: &mut String, s: &mut String| {
            if !plain.is_empty() {
                s.push_str(&format!("`{}`", escape(plain)));
                plain.clear();
            }
        };
        let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let mut rest = of;
        while let Some(first) = rest.chars().next() {
            let end = if is_name(first) {
                rest.find(|c| !is_name(c)).unwrap_or(rest.len())
            } else {
                first.len_utf8()
            };
            let (word, after) = rest.split_at(end);
            match self.types.get(word) {
                Some((file, anchor)) => {
                    flush(&mut plain, &mut s);
                    let file = if file == here { "" } else { file };
                    s.push_str(&format!("[`{word}`]({file}#{anchor})"));
                }
                None => plain.push_str(word),
            }
            rest = after;
        }
        flush(&mut plain, &mut s);
        s
    }
}

fn signature(f: &Function) -> String {
    format!("{}({})", f.name, f.parameters)
}

fn class_heading(c: &Class) -> String {
    c.name.clone()
}

/// The anchor that a heading has where Markdown is shown: letters, digits and hyphens of it, spaces as
/// hyphens.
fn slug(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn first_sentence(text: &str) -> String {
    // A point behind a point is no end, as in `f(...) is called`.
    let end = text.match_indices(". ").map(|(at, _)| at).find(|at| !text[..*at].ends_with('.'));
    end.map_or(text, |end| &text[..=end]).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_pages_are_what_the_annotations_say() {
        let wanted = pages(&root().join(SOURCE)).expect("annotations that can be read");
        assert!(wanted.len() >= 5, "{:?}", wanted.keys());
        let stale = stale(&wanted, &root().join(PAGES)).expect("readable pages");
        assert!(stale.is_empty(), "{stale:?} in {PAGES} are out of date: run `cargo xtask reference`");
    }

    #[test]
    fn every_link_leads_somewhere() {
        let wanted = pages(&root().join(SOURCE)).expect("annotations that can be read");
        let mut links = 0;
        for (name, text) in &wanted {
            for link in text.split("](").skip(1) {
                let target = link.split(')').next().unwrap_or("");
                let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
                let page = match file {
                    "" => text,
                    file if file.starts_with("../") => {
                        assert!(root().join(PAGES).join(file).exists(), "{name}: {target}");
                        continue;
                    }
                    file => wanted.get(file).unwrap_or_else(|| panic!("{name}: {target}")),
                };
                let found = page
                    .lines()
                    .filter(|l| l.starts_with('#'))
                    .any(|l| slug(l.trim_start_matches('#').trim()) == anchor);
                assert!(found || anchor.is_empty(), "{name}: nothing is called {target}");
                links += 1;
            }
        }
        assert!(links > 100, "{links}");
    }

    #[test]
    fn a_page_shows_types_results_and_classes() {
        let source = "---@class pl.box\n---@field n? integer|false how many\nlocal box = {}\n\n\
                      ---Opens it. Slowly.\n---@param key string|pl.box a key\n---@return pl.box[] # all\n\
                      function box:open(key) end\n";
        let mut book = Book { pages: Vec::new(), types: BTreeMap::new() };
        book.add("m", perilune_luacats::parse(source).expect("annotations")).expect("a new page");
        let page = book.page(&book.pages[0]);
        for line in [
            "## pl.box",
            "| `n?` | `integer\\|false` | how many |",
            "### `box:open(key)`",
            "| `key` | `string\\|`[`pl.box`](#plbox) | a key |",
            "- [`pl.box`](#plbox)`[]`: all",
        ] {
            assert!(page.lines().any(|l| l == line), "{line}\n{page}");
        }
        assert!(
            book.index().contains("| [`box:open(key)`](m.md#boxopenkey) | Opens it. |"),
            "{}",
            book.index()
        );
    }
}
