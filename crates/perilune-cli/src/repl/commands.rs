//! What can be typed beside Lua: lines that begin with a dot and a letter, or with a question mark. Neither
//! begins anything in Lua.

use super::session::Session;
use super::{Compiled, Repl, complete, help, show};
use crate::protected;
use perilune_vm::{LuaResult, Value, Vm};
use std::time::Instant;

const HELP: &[(&str, &str)] = &[
    ("EXPRESSION or STATEMENT", "runs it and shows what it comes to; locals live on"),
    ("?NAME", "what a function is, and what is written about it: ?pl.sleep, ?pool:async"),
    (".time CODE", "runs it and says how long that took"),
    (".load FILE", "runs a file as if it had been typed in: its locals live on"),
    (".save FILE", "writes what has been typed in and ran without an error"),
    (".clear", "forgets the session's locals"),
    (".help", "this"),
    ("Tab", "completes names, fields, methods, modules behind require, files in strings"),
    ("Ctrl-C", "stops what runs, or abandons what is being typed"),
    ("Ctrl-D, os.exit()", "ends the session"),
];

/// Is the line one of these?
pub fn is_command(line: &[u8]) -> bool {
    match line.trim_ascii() {
        [b'.', letter, ..] => letter.is_ascii_alphabetic(),
        [b'?', ..] => true,
        _ => false,
    }
}

/// `exit` and `quit`, which mean nothing in Lua unless the program has given them a meaning.
pub fn asks_to_exit(vm: &mut Vm, text: &[u8]) -> bool {
    let word = text.trim_ascii();
    let word = word.strip_suffix(b"()").unwrap_or(word);
    let Some(word) = [&b"exit"[..], b"quit"].into_iter().find(|w| *w == word) else { return false };
    let word = String::from_utf8_lossy(word).into_owned();
    complete::resolve(vm, &word).is_nil()
}

impl Repl {
    /// Carries a line out that [`is_command`].
    pub(super) fn command(&mut self, vm: &mut Vm, line: &str) -> LuaResult<()> {
        if let Some(name) = line.strip_prefix('?') {
            let width = self.width();
            return describe(vm, name.trim(), width);
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let needs = |what: &str| protected::write_message(format!("{word}: name {what}").as_bytes());
        match word {
            ".help" => {
                for (what, does) in HELP {
                    show::line(vm, &format!("  {what:24} {does}"))?;
                }
            }
            ".clear" => Session::clear(vm)?,
            ".time" if rest.is_empty() => needs("an expression or statements"),
            ".time" => match self.compile(vm, rest.as_bytes(), b"=stdin")? {
                Compiled::Function(f) => {
                    let began = Instant::now();
                    self.evaluate(vm, f, rest.into())?;
                    show::line(vm, &format!("-- {:.3} ms", began.elapsed().as_secs_f64() * 1e3))?;
                }
                Compiled::TooShort(message) | Compiled::Wrong(message) => protected::report(message),
            },
            ".load" | ".save" if rest.is_empty() => needs("a file"),
            ".load" => match std::fs::read(rest) {
                Ok(text) => {
                    // A first line for the shell is none for Lua; its newline stays.
                    let skipped = if text.starts_with(b"#") {
                        text.iter().take_while(|b| **b != b'\n').count()
                    } else {
                        0
                    };
                    match Session::load(vm, &text[skipped..], format!("@{rest}").as_bytes())? {
                        Ok(f) => {
                            vm.push(f);
                            self.evaluate(vm, f, text[skipped..].to_vec())?;
                        }
                        Err(message) => protected::report(message),
                    }
                }
                Err(e) => protected::write_message(
                    format!("{rest}: {}", protected::in_words(&e.to_string())).as_bytes(),
                ),
            },
            ".save" => {
                let mut text = self.inputs.join(&b'\n');
                text.push(b'\n');
                if let Err(e) = std::fs::write(rest, text) {
                    protected::write_message(
                        format!("{rest}: {}", protected::in_words(&e.to_string())).as_bytes(),
                    );
                }
            }
            _ => {
                let words = HELP.iter().filter_map(|(what, _)| what.split(' ').next());
                let near = crate::commands::manual::nearest(word, words.filter(|w| w.starts_with('.')));
                let near = crate::commands::manual::did_you_mean(&near);
                protected::write_message(format!("there is no {word}{near}; .help lists all").as_bytes());
            }
        }
        Ok(())
    }
}

/// `?name`
fn describe(vm: &mut Vm, name: &str, width: usize) -> LuaResult<()> {
    if name.is_empty() {
        return show::line(
            vm,
            "?NAME tells of a name: ?pl.sleep, ?pool:async, ?string.format; .help lists what else there is",
        );
    }
    let base = match name.rfind(['.', ':']) {
        Some(at) => {
            let value = complete::resolve(vm, &name[..at]);
            kind(vm, value)?
        }
        None => None,
    };
    let value = complete::resolve(vm, name);
    vm.push(value);
    if let Some(of) = standard(vm, name, value, base.as_deref()) {
        for line in help::lines(&of).into_iter().chain([help::section(&of)]) {
            show::line(vm, &line)?;
        }
        return Ok(());
    }
    let mut found = help::find(name, base.as_deref());
    if base.is_none() && value.as_closure().is_some() {
        // The program's own function is meant, whatever else is called so.
        found.clear();
    }
    for entry in &found {
        for line in help::lines(entry) {
            show::line(vm, &line)?;
        }
    }
    if !found.is_empty() && value.as_closure().is_none() {
        return Ok(());
    }
    let lines = if let Some(closure) = value.as_closure() {
        function(name, closure.inst().proto())
    } else if value.is_function() {
        vec![format!("{name} is a native function")]
    } else if value.is_nil() {
        vec![format!("{name} is nil, and nothing is written about it")]
    } else {
        vec![format!("{name} = {}", show::text(vm, value, width, show::has_colour())?)]
    };
    for line in lines {
        show::line(vm, &line)?;
    }
    Ok(())
}

/// The function of Lua's standard library that a value is, or that a name means which means nothing else.
fn standard(vm: &mut Vm, name: &str, value: Value, base: Option<&str>) -> Option<perilune_luacats::Function> {
    if !value.is_function() && !value.is_nil() {
        return None;
    }
    if value.as_closure().is_some() {
        return None;
    }
    if let Some(method) = help::method_of_file(name, base) {
        return Some(method);
    }
    let is_it = |e: &perilune_luacats::Function| match value.is_nil() {
        true => e.name == name && help::find(name, base).is_empty(),
        false => complete::resolve(vm, &e.name).same(value),
    };
    help::library().into_iter().find(is_it)
}

/// What the documents call values like this one.
fn kind(vm: &mut Vm, value: Value) -> LuaResult<Option<String>> {
    if let Some(table) = value.as_table() {
        let loaded = complete::resolve(vm, "package.loaded.perilune");
        return Ok(loaded
            .as_table()
            .filter(|pl| Value::from(*pl).same(table.into()))
            .map(|_| "pl".to_owned()));
    }
    Ok(vm.metafield(value, "__name")?.as_string().map(|s| s.to_text()))
}

/// A Lua function: its parameters, its place, the comment before it.
fn function(name: &str, proto: &perilune_syntax::Proto) -> Vec<String> {
    let named = proto.locals.iter().take(usize::from(proto.num_params));
    let mut parameters: Vec<String> =
        named.map(|local| String::from_utf8_lossy(&local.name).into_owned()).collect();
    if proto.is_vararg {
        parameters.push("...".to_owned());
    }
    let source = String::from_utf8_lossy(&proto.source).into_owned();
    let mut lines = vec![format!(
        "function {name}({})  {}:{}",
        parameters.join(", "),
        source.trim_start_matches(['@', '=']),
        proto.line_defined
    )];
    let file = source.strip_prefix('@').and_then(|file| std::fs::read_to_string(file).ok());
    let before: Vec<&str> =
        file.iter().flat_map(|f| f.lines()).take((proto.line_defined as usize).saturating_sub(1)).collect();
    let comment: Vec<&str> =
        before.iter().rev().map(|l| l.trim()).take_while(|l| l.starts_with("--")).collect();
    lines.extend(comment.iter().rev().map(|l| format!("  {}", l.trim_start_matches('-').trim())));
    lines
}
