//! Why a value may not cross, as facts, and the one place where they become text.
//!
//! A refusal is part of the language that a program is written in: it is read by somebody who does not know
//! yet why their function cannot run elsewhere. So each text says which value it is and how it was reached,
//! which function and which variable or global it is about, where that is defined and assigned, what would go
//! wrong, and what to write instead.
//!
//! The path is found by packing a second time with records of how each object was reached ([`super::pack`]);
//! packing that succeeds pays nothing for it.

use std::fmt::Write;

/// What values are on their way as; decides how texts call them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Arguments of a call: a task's or a new domain's function comes first.
    Argument,
    /// The functions of a loop: the one for each index, and the one that combines results.
    Loop,
    /// Arguments of a call that the runtime's own code makes for a program's: a function of the program, and
    /// a list.
    Element,
    /// Values sent through a channel, or stored in a shared object.
    Message,
    /// Results.
    Result,
    /// What the program's function has returned to a task of the runtime's own: the list of such values,
    /// among its results.
    Collected,
    /// A value that the program's function has returned to the runtime's own code.
    Returned,
    /// The value of an error.
    Error,
    /// A function in `package.preload` or `package.searchers`.
    Loader,
}

/// Where a function stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The chunk, as messages call it.
    pub source: String,
    /// First line; 0 for a main chunk or when unknown.
    pub line: u32,
}

/// How one value leads to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Value number so-and-so of those to be packed, from 1.
    Root(u32),
    /// A table's field, written as an index: `.name`, `[3]`, `["odd key"]`.
    Field(String),
    /// A table's key itself.
    Key,
    /// A table's metatable.
    Metatable,
    /// A captured variable.
    Upvalue {
        /// Its name; "?" when stripped.
        name: String,
        /// Line of its declaration; 0 when unknown.
        line: u32,
        /// Line of the assignment that matters; 0 when unknown or none.
        assigned: u32,
    },
    /// A global that a function names.
    Global {
        /// Its name.
        name: String,
        /// A line that names it; 0 when unknown.
        line: u32,
    },
    /// A field of a module that has been written to.
    ModuleField {
        /// The module, as in `package.loaded`.
        module: String,
        /// The field.
        field: String,
        /// It is one of the standard library's tables.
        standard: bool,
    },
}

/// A step, and the function it leads to, if it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// How the value was reached.
    pub step: Step,
    /// Where the value is defined, if it is a Lua function.
    pub function: Option<Place>,
}

/// What is wrong with the value at the end of the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The captured variable is assigned after its initialisation.
    Assigned,
    /// What crosses assigns the captured variable itself.
    Assigns,
    /// The captured variable is declared without a value and has not got one yet.
    NotYetAssigned,
    /// The function stores into what is in the variable, or in these fields of it, which would be a frozen
    /// copy over there.
    Stored {
        /// As `.a.b`; empty: the variable's own value.
        fields: String,
        /// Lines of the stores, as far as known.
        lines: Vec<u32>,
        /// It is the body of a loop.
        in_loop: bool,
        /// The variable holds a module, which is no copy as an argument either; what is stored into is in
        /// these fields of it.
        in_module: bool,
    },
    /// A table with a finaliser, which would run on both sides.
    Finalizer,
    /// No refusal: a table among globals that were to cross without the rest.
    Travels,
    /// No refusal: what a picture would show, or shows, has a copy of its own in the parcel.
    Entangled,
    /// A coroutine.
    Coroutine,
    /// A function that `coroutine.wrap` has made.
    Wrap,
    /// A native function with a state of its own that no module has.
    NativeFunction(&'static str),
    /// A userdata of this kind that is no shared object.
    Userdata(String),
    /// A field of a module has been removed.
    Removed,
    /// A field of a module under a key that is no string has changed.
    OddField,
}

/// A value that may not cross, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the values were to cross as.
    pub role: Role,
    /// How many values were to cross.
    pub count: u32,
    /// From one of the values to the one that may not cross. Empty only while it is still being looked for.
    pub path: Vec<Node>,
    /// What is wrong with it.
    pub reason: Reason,
}

const INSTEAD_OF_ASSIGNING: &str =
    "pass its value as an argument and return the new one, or use pl.atomic, pl.array or a channel";

impl Refusal {
    /// The message of the error, without a position.
    pub fn text(&self) -> String {
        let Some((last, before)) = self.path.split_last() else {
            return "a value cannot go to another domain".into();
        };
        let holder = self.subject(before);
        let function =
            before.iter().rev().find_map(|n| n.function.as_ref()).map_or("a function".into(), the_function);
        match (&self.reason, &last.step) {
            (Reason::Assigned, Step::Upvalue { name, line, assigned }) => {
                let assigned = if *assigned > 0 { format!(" on line {assigned}") } else { String::new() };
                format!(
                    "{holder} cannot go to another domain: {function} captures {} is assigned{assigned}. \
                     There would be two variables from then on, and neither domain would see what the other \
                     assigns. {}",
                    if name == "?" {
                        "a variable that".into()
                    } else {
                        format!("'{name}'{}, which", of_line(*line))
                    },
                    instead_of_assigning(name)
                )
            }
            (Reason::Assigns, Step::Upvalue { name, line, assigned }) => {
                let assigned = match (*assigned, *line) {
                    (0, _) => String::new(),
                    (assigned, 0) => format!(" on line {assigned}"),
                    (assigned, _) => format!(", on line {assigned}"),
                };
                format!(
                    "{holder} cannot go to another domain: {function} assigns the captured variable \
                     '{name}'{}{assigned}. \
                     There would be two variables from then on, and neither domain would see what the other \
                     assigns. \
                     Pass its value as an argument and return the new one, or use pl.atomic, pl.array or a \
                     channel",
                    of_line(*line)
                )
            }
            (Reason::NotYetAssigned, Step::Upvalue { name, line, assigned }) => {
                let assigned = if *assigned > 0 { format!(" (line {assigned})") } else { String::new() };
                format!(
                    "{holder} cannot go to another domain: {function} captures '{name}'{}, which has no \
                     value yet. \
                     The other domain would never see the assignment that gives it one{assigned}. \
                     Let the function cross after it, or give the variable its value where it is declared",
                    of_line(*line)
                )
            }
            (
                Reason::Stored { fields, lines, in_loop, in_module },
                Step::Upvalue { name, .. } | Step::Global { name, .. },
            ) => {
                let what = match &last.step {
                    Step::Global { .. } => format!("the global '{name}{fields}'"),
                    Step::Upvalue { line, .. } if fields.is_empty() && *line > 0 => {
                        format!("'{name}', a local variable of line {line},")
                    }
                    _ => format!("'{name}{fields}'"),
                };
                let name = match (name.as_str(), in_module) {
                    ("?", _) => "it".into(),
                    (name, true) => format!("{name}{fields}"),
                    (name, false) => name.into(),
                };
                let remedy = if *in_loop {
                    "Let pool:map or pool:parallel_reduce collect what the function returns, or use pl.array \
                     or pl.map for what all write to, or pl.per_domain for a cache in each domain"
                        .into()
                } else {
                    format!(
                        "Pass {name} as an argument to get a copy to write to, and return that, or use \
                         pl.array, pl.map or a channel, or pl.per_domain for a cache in each domain"
                    )
                };
                format!(
                    "{holder} cannot go to another domain: {function} stores into {what}{}. \
                     It would have a frozen copy there, and the table here would never see the store. \
                     {remedy}",
                    on_lines(lines)
                )
            }
            (Reason::Removed, Step::ModuleField { field, .. }) => format!(
                "{holder} cannot go to another domain: {}, which has been removed. Other domains have the \
                 module as it was when it was loaded. \
                 Leave the field there, or give the function another one of its own",
                written(&last.step, field)
            ),
            (Reason::OddField, Step::ModuleField { field, .. }) => format!(
                "{holder} cannot go to another domain: {}, whose key is no string. Other domains have the \
                 module as it was when it was loaded. \
                 Set it in the module's own file, or keep it in a table of its own made by pl.share",
                written(&last.step, field)
            ),
            (reason, _) => {
                let subject = self.subject(&self.path);
                let what = match reason {
                    Reason::Coroutine => "is a coroutine, whose stack belongs to the domain that made it. \
                         Send the function, and make the coroutine over there"
                        .into(),
                    Reason::Wrap => "is a function made by coroutine.wrap: it stands for a coroutine, whose \
                         stack belongs to the domain that made it. \
                         Send the function inside, and wrap it over there"
                        .into(),
                    Reason::NativeFunction(name) => format!(
                        "is a native function ('{name}') with a state of its own, which belongs to the \
                         domain that made it. \
                         Make it in the domain that calls it"
                    ),
                    Reason::Userdata(name) => format!(
                        "is a userdata ({name}), which belongs to the domain that made it. \
                         Make it in the domain that uses it, or send what it holds"
                    ),
                    Reason::Finalizer => "has a metatable with '__gc': it would be finalised on both sides. \
                         Make it in the domain that uses it, or send what it holds"
                        .into(),
                    _ => "belongs to the domain that made it. Make it in the domain that uses it".into(),
                };
                format!("{subject} cannot go to another domain: it {what}")
            }
        }
    }

    /// A name for the value that a path leads to.
    fn subject(&self, path: &[Node]) -> String {
        let mut text = String::new();
        let mut in_field = false;
        // The program has not made the list that its values are in.
        let is_ours = |n: usize, node: &Node| {
            self.role == Role::Collected && n == 1 && matches!(node.step, Step::Field(_))
        };
        let mut shown = 0;
        for (n, node) in path.iter().enumerate() {
            if is_ours(n, node) {
                continue;
            }
            shown += 1;
            if n > 0 && !matches!((&node.step, in_field), (Step::Field(_), true)) {
                text.push_str(", ");
            }
            match &node.step {
                Step::Root(n) => text.push_str(&self.root(*n, node.function.is_some())),
                Step::Field(index) if in_field => text.push_str(index),
                Step::Field(index) => text.push_str(&format!("field {}", first_index(index))),
                Step::Key => text.push_str("one of its keys"),
                Step::Metatable => text.push_str("its metatable"),
                Step::Upvalue { name, line: 0, .. } => _ = write!(text, "captured '{name}'"),
                Step::Upvalue { name, line, .. } => {
                    _ = write!(text, "captured '{name}' (a local variable of line {line})");
                }
                Step::Global { name, .. } => _ = write!(text, "global '{name}'"),
                Step::ModuleField { module, field, .. } => _ = write!(text, "field '{field}' of '{module}'"),
            }
            in_field = matches!(node.step, Step::Field(_));
            if n + 1 < path.len()
                && let Some(place) = &node.function
            {
                _ = write!(text, " ({})", the_function(place).trim_start_matches("the "));
            }
        }
        if shown > 1 {
            text.push(',');
        }
        if text.is_empty() { "a value".into() } else { text }
    }

    fn root(&self, n: u32, is_function: bool) -> String {
        match self.role {
            Role::Loop if n > 1 => "the function that combines results".into(),
            Role::Loop => "the function".into(),
            Role::Element if is_function => "the function".into(),
            Role::Element => "the list".into(),
            Role::Argument if is_function || n == 1 => "the function".into(),
            Role::Argument => format!("argument {n}"),
            Role::Message if self.count == 1 => "the message".into(),
            Role::Message => format!("value {n} of the message"),
            Role::Result => format!("result {n}"),
            Role::Collected | Role::Returned => "what the function returned".into(),
            Role::Error => "the error value".into(),
            Role::Loader => "it".into(),
        }
    }
}

/// An index as the first of a path: a name in quotes, anything else as it is.
fn first_index(index: &str) -> String {
    match index.strip_prefix('.') {
        Some(name) => format!("'{name}'"),
        None => index.into(),
    }
}

/// The shortest way out first.
fn instead_of_assigning(name: &str) -> String {
    let copy = if name == "m" { "n" } else { "m" };
    match name {
        "?" | "_ENV" => format!("Capture a variable that nothing assigns, {INSTEAD_OF_ASSIGNING}"),
        _ => format!(
            "Write 'local {copy} = {name}' before the function and capture {copy}, {INSTEAD_OF_ASSIGNING}"
        ),
    }
}

fn of_line(line: u32) -> String {
    if line > 0 { format!(", a local variable of line {line}") } else { String::new() }
}

fn the_function(place: &Place) -> String {
    match place.line {
        0 => format!("the main chunk of {}", place.source),
        line => format!("the function at {}:{line}", place.source),
    }
}

/// Where something is done, if that is known.
fn on_lines(lines: &[u32]) -> String {
    let texts: Vec<String> = lines.iter().map(u32::to_string).collect();
    match texts.split_last() {
        None => String::new(),
        Some((line, [])) => format!(" on line {line}"),
        Some((last, others)) => format!(" on lines {} and {last}", others.join(", ")),
    }
}

/// What has been done to a module.
fn written(step: &Step, field: &str) -> String {
    match step {
        Step::ModuleField { module, standard: true, .. } => {
            format!("the program has changed the standard table '{module}': field '{field}'")
        }
        Step::ModuleField { module, .. } => {
            format!("the module '{module}' has been written to since its require returned: field '{field}'")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a refusal for this reason proposes; a new reason does not compile before it is here.
    fn remedy(reason: &Reason) -> Option<&'static str> {
        Some(match reason {
            Reason::Assigned => "before the function and capture",
            Reason::Assigns => "Pass its value as an argument and return the new one",
            Reason::NotYetAssigned => "Let the function cross after it",
            Reason::Stored { in_loop: true, .. } => {
                "Let pool:map or pool:parallel_reduce collect what the function returns"
            }
            Reason::Stored { .. } => "as an argument to get a copy to write to, and return that",
            Reason::Finalizer => "or send what it holds",
            Reason::Coroutine => "make the coroutine over there",
            Reason::Wrap => "Send the function inside, and wrap it over there",
            Reason::NativeFunction(_) => "Make it in the domain that calls it",
            Reason::Userdata(_) => "Make it in the domain that uses it",
            Reason::Removed => "Leave the field there",
            Reason::OddField => "keep it in a table of its own made by pl.share",
            Reason::Travels | Reason::Entangled => return None,
        })
    }

    #[test]
    fn every_remedy_is_typed_in_by_a_script() {
        let script = include_str!("../../../../tests/parallel/crossing_remedies.lua");
        let variable = || Step::Upvalue { name: "n".into(), line: 1, assigned: 2 };
        let field = || Step::ModuleField { module: "m".into(), field: "f".into(), standard: false };
        let stored =
            |in_loop| Reason::Stored { fields: String::new(), lines: vec![1], in_loop, in_module: false };
        let function = Place { source: "program".into(), line: 1 };
        for (reason, step) in [
            (Reason::Assigned, variable()),
            (Reason::Assigns, variable()),
            (Reason::NotYetAssigned, variable()),
            (stored(true), variable()),
            (stored(false), variable()),
            (Reason::Finalizer, variable()),
            (Reason::Coroutine, variable()),
            (Reason::Wrap, variable()),
            (Reason::NativeFunction("lines"), variable()),
            (Reason::Userdata("scope".into()), variable()),
            (Reason::Removed, field()),
            (Reason::OddField, field()),
        ] {
            let root = Node { step: Step::Root(1), function: Some(function.clone()) };
            let path = vec![root, Node { step, function: None }];
            let text = Refusal { role: Role::Argument, count: 1, path, reason: reason.clone() }.text();
            let remedy = remedy(&reason).expect("it is a refusal");
            assert!(text.contains(remedy), "{reason:?}: {text}");
            assert!(script.contains(remedy), "{reason:?}: no script tries '{remedy}'");
        }
    }
}
