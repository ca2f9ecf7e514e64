//! `local`s that live on in a session on a terminal.
//!
//! For Lua each input is a chunk of its own, and a local of one chunk is not seen by the next. Here it is, as
//! the same variable: functions of earlier inputs that captured it see what later ones assign, and shadowing
//! makes a new variable. An input `TEXT` that mentions the session's variables `a` and `b` (constant) and
//! declares `c` is compiled as
//!
//! ```text
//! local KEEP, a, b <const> = ... return function(...) TEXT
//! ; KEEP(function() return c end) end
//! ```
//!
//! and the function that this returns gets `a` and `b` of the session by `debug.upvaluejoin`; `KEEP` finds
//! the variable `c` as an upvalue of its argument (`session.lua`). The text begins on the first line, so
//! lines in messages are right. What is mentioned is what `TEXT`, parsed by itself, takes for globals, so a
//! session may have any number of locals; one input may use 200. What the input declares are the `local`
//! statements of its outermost block.
//!
//! - `<close>` is refused: there is no end of a block at which it would be closed.
//! - An input that fails keeps none of its own locals. Nor does one that ends in `return`, behind which
//!   nothing can stand.
//!
//! Rejected: turning locals into globals of a hidden table (`local x` would be visible to `require`d modules
//! or, through `_ENV`, cost every function of the session an index, and captured variables would not be
//! shared with what captured them before they were shadowed); compiling all inputs so far again with the new
//! one (it would run them again); changing the compiler to predeclare upvalues (the same could be had, for a
//! change of every pass).

use perilune_stdlib::chunk;
use perilune_syntax::ast::{Attrib, Expr, StatKind};
use perilune_vm::{Gc, LuaResult, Table, Value, Vm};

/// Where the session's table is in the registry.
const KEY: &str = "perilune.session";
/// The name of what keeps variables, as inputs could see it.
const KEEP: &str = "__perilune_keep";

/// The locals of a session. Its state is in the registry of the state that it was opened in.
pub struct Session;

/// What an input is about, from its syntax tree.
struct Outline {
    /// Its globals, each once.
    mentioned: Vec<Vec<u8>>,
    /// The locals of its outermost block, the last of a name.
    declared: Vec<(Vec<u8>, Attrib)>,
    /// Line of the first `<close>` among these.
    closes: Option<u32>,
}

impl Session {
    /// Opens one.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn open(vm: &mut Vm) -> LuaResult<Session> {
        let loaded = chunk::load(vm, include_bytes!("session.lua"), b"=session", b"t", None)?;
        let f = match loaded {
            Ok(f) => f,
            // It compiles, if there is the memory for it.
            Err(message) => return Err(vm.error(Vm::plain_text(message).unwrap_or_default())),
        };
        let table = vm.call(f.into(), &[])?;
        let registry = vm.registry();
        vm.set_field(registry, KEY, table)?;
        Ok(Session)
    }

    fn table(vm: &mut Vm) -> LuaResult<Option<Gc<Table>>> {
        let registry = vm.registry();
        Ok(vm.get_field(registry, KEY)?.as_table())
    }

    fn cells(vm: &mut Vm) -> LuaResult<Option<Gc<Table>>> {
        match Session::table(vm)? {
            Some(table) => Ok(vm.get_field(table, "cells")?.as_table()),
            None => Ok(None),
        }
    }

    /// The names of the session's locals.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn names(vm: &mut Vm) -> LuaResult<Vec<String>> {
        let mut names = Vec::new();
        let Some(cells) = Session::cells(vm)? else { return Ok(names) };
        let mut key = Value::NIL;
        while let Some((next, _)) = vm.raw_next(cells, key)? {
            key = next;
            names.extend(key.as_string().map(|name| name.to_text()));
        }
        names.sort();
        Ok(names)
    }

    /// What a local holds; `None` if the session has none of that name.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn value(vm: &mut Vm, name: &str) -> LuaResult<Option<Value>> {
        let Some(cells) = Session::cells(vm)? else { return Ok(None) };
        if vm.get_field(cells, name)?.is_nil() {
            return Ok(None);
        }
        let name = vm.value_str(name.as_bytes())?;
        Ok(Some(Session::call(vm, "value", &[name])?.unwrap_or(Value::NIL)))
    }

    /// Forgets all locals.
    ///
    /// # Errors
    /// "not enough memory"
    pub fn clear(vm: &mut Vm) -> LuaResult<()> {
        Session::call(vm, "clear", &[]).map(|_| ())
    }

    /// The first result of a function of `session.lua`; the error that it raised otherwise.
    fn call(vm: &mut Vm, name: &str, args: &[Value]) -> LuaResult<Result<Value, Value>> {
        let Some(table) = Session::table(vm)? else { return Ok(Ok(Value::NIL)) };
        let f = vm.get_field(table, name)?;
        let depth = vm.stack_top() as u32;
        let result = match vm.host_call(f, args) {
            Ok(0) => Ok(Value::NIL),
            Ok(_) => Ok(vm.stack_get(depth + 1)),
            Err(error) => Err(error),
        };
        vm.truncate(depth);
        Ok(result)
    }

    /// Makes a function of an input, which compiles by itself: the outcome is as that of [`chunk::load`].
    ///
    /// # Errors
    /// "not enough memory"
    pub fn load(vm: &mut Vm, text: &[u8], name: &[u8]) -> LuaResult<Result<Value, Value>> {
        let Some(outline) = outline(text, name) else { return plain(vm, text, name) };
        if let Some(line) = outline.closes {
            let message = format!(
                "stdin:{line}: a variable to be closed cannot live on in a session (write do ... end around \
                 it)"
            );
            return Ok(Err(vm.value_str(message.as_bytes())?));
        }
        let Some(cells) = Session::cells(vm)? else { return plain(vm, text, name) };
        let mut used = Vec::new();
        for name in &outline.mentioned {
            let Ok(name) = std::str::from_utf8(name) else { continue };
            if let Some(cell) = vm.get_field(cells, name)?.as_table() {
                let is_const = !vm.get_field(cell, "attrib")?.is_falsy();
                used.push(if is_const { format!("{name} <const>") } else { name.to_owned() });
            }
        }
        if used.is_empty() && outline.declared.is_empty() {
            return plain(vm, text, name);
        }
        used.insert(0, KEEP.to_owned());
        let head = format!("local {} = ... return function(...) ", used.join(", ")).into_bytes();
        let names: Vec<_> =
            outline.declared.iter().map(|(n, _)| String::from_utf8_lossy(n).into_owned()).collect();
        let tail = format!("\n; {KEEP}(function() return {} end)", names.join(", "));
        let whole = |tail: &str| [&head[..], text, tail.as_bytes(), b"\nend"].concat();
        let mut loaded = None;
        if !names.is_empty() {
            loaded = chunk::load(vm, &whole(&tail), name, b"t", None)?.ok();
        }
        let outer = match loaded {
            Some(outer) => Ok(outer),
            // Nothing stands behind a `return`; or the message is to be about the text alone.
            None => chunk::load(vm, &whole(""), name, b"t", None)?,
        };
        let outer = match outer {
            Ok(outer) => outer,
            Err(message) => return Ok(Err(with_remedy(vm, message)?)),
        };
        vm.push(outer.into());
        let declared = vm.new_table(2 * names.len(), 0)?;
        vm.push(declared.into());
        for (n, (name, attrib)) in outline.declared.iter().enumerate() {
            let name = vm.value_str(name)?;
            vm.raw_set_int(declared, 2 * n as i64 + 1, name)?;
            let attrib = if *attrib == Attrib::Const { vm.value_str(b"const")? } else { Value::FALSE };
            vm.raw_set_int(declared, 2 * n as i64 + 2, attrib)?;
        }
        let entered = Session::call(vm, "enter", &[outer.into(), declared.into()])?;
        vm.pop();
        vm.pop();
        Ok(entered)
    }
}

/// The input as `lua` would have it.
fn plain(vm: &mut Vm, text: &[u8], name: &[u8]) -> LuaResult<Result<Value, Value>> {
    match chunk::load(vm, text, name, b"t", None)? {
        Ok(f) => Ok(Ok(f.into())),
        Err(message) => Ok(Err(with_remedy(vm, message)?)),
    }
}

/// What a session can do that one input cannot.
fn with_remedy(vm: &mut Vm, message: Value) -> LuaResult<Value> {
    match message.as_string().map(|text| text.to_text()) {
        Some(text) if text.contains("too many local variables") && text.contains("main function") => {
            let remedy = "one input has 200 of them at most, as a script has, and a session any number: \
                enter it in parts, put do ... end around what is needed there alone, or leave 'local' out";
            vm.value_str(format!("{text}\n({remedy})").as_bytes())
        }
        _ => Ok(message),
    }
}

/// `None` if it does not parse.
fn outline(text: &[u8], name: &[u8]) -> Option<Outline> {
    let tree = perilune_syntax::parse(text, name).ok()?;
    let mut outline = Outline { mentioned: vec![b"_ENV".to_vec()], declared: Vec::new(), closes: None };
    for expr in &tree.exprs {
        if let Expr::Global { name, .. } = expr {
            let name = tree.strings[name.index()].to_vec();
            if !outline.mentioned.contains(&name) {
                outline.mentioned.push(name);
            }
        }
    }
    for stat in tree.block(tree.functions[0].body) {
        let ids: Vec<_> = match &stat.kind {
            StatKind::Local { locals, .. } => locals.iter().collect(),
            StatKind::LocalFunction { local, .. } => vec![*local],
            _ => continue,
        };
        for id in ids {
            let local = &tree.locals[id];
            if local.attrib == Attrib::Close {
                outline.closes.get_or_insert(local.line);
            }
            let name = tree.strings[local.name.index()].to_vec();
            outline.declared.retain(|(known, _)| *known != name);
            outline.declared.push((name, local.attrib));
        }
    }
    Some(outline)
}
