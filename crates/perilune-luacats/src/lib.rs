//! LuaCATS annotations, read.
//!
//! The interface of `require "perilune"` is written down once: in `docs/luacats`, with types, for
//! lua-language-server. Two things are made from it: what the interactive mode says about `?pl.sleep`, and
//! the pages of `docs/reference` (`cargo xtask reference`). Both read the file with this crate. It is no
//! general reader of LuaCATS: it knows the tags that the project's files use, passes over those that it does
//! not know, and refuses what would be shown wrongly.
//!
//! A file is a row of *sections*. A section begins with a comment `-- Title ----`; what stands before the
//! first one is in a section without a title. In a section are *items*, in the order of the file: functions,
//! classes, aliases. A block of lines that begin with `---` belongs to the line of code below it:
//!
//! | block | line below | item |
//! |---|---|---|
//! | with `@class` | `local x = {}`, or an empty line | a class, with its `@field`s |
//! | with `@alias` | an empty line | an alias |
//! | other | `function x.y(...)` or `function x:y(...)` | a function |
//!
//! **Names.** The file says `function domainlib.spawn(...)`, people write `pl.domain.spawn`. A field of the
//! class `perilune` whose type is a class says where the functions of that class are found; all others keep
//! the name that the file gives them (`pool:async`).
//!
//! Rejected: asking the module itself (it knows neither types nor parameters' names), and a syntax tree of
//! the Lua code (the lines that count are the ones that begin with `function`).

mod types;

pub use types::split_type;

/// What a file holds.
#[derive(Debug, Default)]
pub struct Interface {
    /// In the order of the file; only the first may be without a title.
    pub sections: Vec<Section>,
}

/// A part of a file, with its title.
#[derive(Debug, Default)]
pub struct Section {
    /// Empty for what stands before the first title.
    pub title: String,
    /// What a title has in parentheses: a path to read on, from the folder of the file.
    pub see: Option<String>,
    /// What is in it.
    pub items: Vec<Item>,
}

/// One thing that a file describes.
#[derive(Debug)]
pub enum Item {
    /// Something to call.
    Function(Function),
    /// A type of values, with fields or methods.
    Class(Class),
    /// Another name for a type.
    Alias(Alias),
}

/// A function or a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// As people write it: `pl.sleep`, `pool:async`.
    pub name: String,
    /// What stands between its parentheses.
    pub parameters: String,
    /// The comment, line by line, without dashes; tags begin with `@`.
    pub comment: Vec<String>,
}

/// A type that the file defines.
#[derive(Debug, Default)]
pub struct Class {
    /// As annotations write it: `perilune.pool`.
    pub name: String,
    /// The types whose fields it has too.
    pub parents: Vec<String>,
    /// What is said about it.
    pub text: Vec<String>,
    /// `@field`: what a value has.
    pub fields: Vec<Described>,
    /// `@operator`: what can be done with a value, such as `len: integer`.
    pub operators: Vec<String>,
}

/// A name for a type.
#[derive(Debug)]
pub struct Alias {
    /// The name.
    pub name: String,
    /// What it stands for.
    pub means: String,
}

/// A field, a parameter or a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// With a `?` behind it if it may be absent; empty for results.
    pub name: String,
    /// Its type.
    pub of: String,
    /// What is said about it.
    pub text: String,
}

/// What is wrong with a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub what: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

impl std::error::Error for Fault {}

impl Function {
    /// The name behind the last dot or colon.
    pub fn last(&self) -> &str {
        self.name.rsplit(['.', ':']).next().unwrap_or(&self.name)
    }

    /// The lines of the comment that are no tags.
    pub fn text(&self) -> impl Iterator<Item = &str> {
        self.comment.iter().map(String::as_str).filter(|l| !l.starts_with('@'))
    }

    /// What `@param` says.
    pub fn params(&self) -> impl Iterator<Item = Described> {
        self.tagged("param").map(named)
    }

    /// What `@return` says: a type, and what it is.
    pub fn returns(&self) -> impl Iterator<Item = Described> {
        self.tagged("return").map(|rest| {
            let (of, text) = split_type(rest);
            Described { name: String::new(), of: of.to_owned(), text: without_mark(text).to_owned() }
        })
    }

    /// Other ways to call it.
    pub fn overloads(&self) -> impl Iterator<Item = &str> {
        self.tagged("overload")
    }

    fn tagged(&self, tag: &'static str) -> impl Iterator<Item = &str> {
        self.comment.iter().filter_map(move |line| {
            let (found, rest) = line.strip_prefix('@')?.split_once(' ')?;
            (found == tag).then_some(rest.trim())
        })
    }

    /// Names that `@param` has and the parentheses have not.
    fn strange_param(&self) -> Option<String> {
        let known: Vec<&str> = self.parameters.split(',').map(str::trim).collect();
        self.params()
            .map(|p| p.name.trim_end_matches('?').to_owned())
            .find(|name| !known.contains(&name.as_str()))
    }
}

/// `name type text`, as `@param` and `@field` have it.
fn named(rest: &str) -> Described {
    let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let (of, text) = split_type(rest.trim_start());
    Described { name: name.to_owned(), of: of.to_owned(), text: without_mark(text).to_owned() }
}

/// A `#` begins a text that is not to be taken for a name.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('#').unwrap_or(text).trim()
}

/// Reads a file.
pub fn parse(source: &str) -> Result<Interface, Fault> {
    let mut sections = vec![Section::default()];
    let mut block: Vec<String> = Vec::new();
    let mut places: Vec<(String, String)> = Vec::new();
    // An empty line ends the last block.
    for (at, line) in source.lines().chain([""]).enumerate() {
        let fault = |what: String| Fault { line: at + 1, what };
        if let Some(comment) = line.strip_prefix("---") {
            // `---@` and `--- text` are annotations, `----` is a rule.
            if !comment.starts_with('-') {
                block.push(comment.trim().to_owned());
                continue;
            }
        }
        let comment = std::mem::take(&mut block);
        let section = sections.last_mut().expect("there is always one");
        if let Some(rest) = line.strip_prefix("function ") {
            let Some((name, rest)) = rest.split_once('(') else {
                return Err(fault(format!("a function without parentheses: {line}")));
            };
            let Some((parameters, _)) = rest.split_once(')') else {
                return Err(fault(format!("the parameters of '{name}' do not end on their line")));
            };
            let function =
                Function { name: spoken(name, &places), parameters: parameters.to_owned(), comment };
            if let Some(name) = function.strange_param() {
                return Err(fault(format!("'{}' has no parameter '{name}'", function.name)));
            }
            section.items.push(Item::Function(function));
        } else if let Some(class) = class(&comment) {
            if class.name == "perilune" {
                for field in &class.fields {
                    if let Some(of) = field.of.strip_prefix("perilune.") {
                        places.push((of.to_owned(), format!("pl.{}", field.name)));
                    }
                }
            }
            section.items.push(Item::Class(class));
        } else if let Some(alias) = comment.iter().find_map(|l| l.strip_prefix("@alias ")) {
            let Some((name, means)) = alias.split_once(' ') else {
                return Err(fault(format!("an alias without a type: {alias}")));
            };
            section.items.push(Item::Alias(Alias { name: name.to_owned(), means: means.trim().to_owned() }));
        } else if let Some((title, see)) = title(line) {
            sections.push(Section { title, see, items: Vec::new() });
        }
    }
    sections.retain(|s| !s.items.is_empty());
    Ok(Interface { sections })
}

impl Interface {
    /// All functions, in the order of the file.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.sections.iter().flat_map(|s| &s.items).filter_map(|item| match item {
            Item::Function(f) => Some(f),
            _ => None,
        })
    }
}

/// What people call the function that the file calls `name`.
fn spoken(name: &str, places: &[(String, String)]) -> String {
    let (of, method) = name.split_at(name.find(['.', ':']).unwrap_or(0));
    match places.iter().find(|(library, _)| library == of) {
        Some((_, path)) => format!("{path}{method}"),
        None if of == "perilune" => format!("pl{method}"),
        None => name.to_owned(),
    }
}

/// The class that a block of comments defines, if it does.
fn class(comment: &[String]) -> Option<Class> {
    let at = comment.iter().position(|l| l.starts_with("@class "))?;
    let line = comment[at].trim_start_matches("@class ").trim_start_matches("(exact) ");
    let (name, mut text) = line.split_once(' ').unwrap_or((line, ""));
    let mut class = Class { name: name.trim_end_matches(':').to_owned(), ..Class::default() };
    if name.ends_with(':') {
        // `A: B, C text`: its parents, the last of which has no comma.
        loop {
            let (parent, rest) = text.split_once(' ').unwrap_or((text, ""));
            class.parents.push(parent.trim_end_matches(',').to_owned());
            text = rest;
            if !parent.ends_with(',') {
                break;
            }
        }
    }
    class.text.extend(comment[..at].iter().filter(|l| !l.starts_with('@')).cloned());
    if !text.is_empty() {
        class.text.push(text.to_owned());
    }
    for line in &comment[at + 1..] {
        if let Some(rest) = line.strip_prefix("@field ") {
            // `[integer] number` is what indexing gives.
            class.fields.push(named(rest));
        } else if let Some(rest) = line.strip_prefix("@operator ") {
            class.operators.push(rest.to_owned());
        }
    }
    Some(class)
}

/// `-- Title (path) -----`: the title and the path.
fn title(line: &str) -> Option<(String, Option<String>)> {
    let rest = line.strip_prefix("-- ")?;
    let text = rest.trim_end_matches('-');
    if rest.len() - text.len() < 4 {
        return None;
    }
    let text = text.trim();
    match text.strip_suffix(')').and_then(|t| t.rsplit_once(" (")) {
        Some((title, path)) => Some((title.to_owned(), Some(path.to_owned()))),
        None => Some((text.to_owned(), None)),
    }
}

#[cfg(test)]
mod tests;
