//! Annotations as they are written, and what is read from them.

use super::*;

const FILE: &str = r#"---@meta perilune
-- A file.

---The module.
---@class perilune
---@field domain perilune.domainlib
local perilune = {}

---Waits.
---Long.
---@param seconds number how long
function perilune.sleep(seconds) end

-- Domains (../parallel.md) -------------------------

---@class perilune.domainlib
local domainlib = {}

---Runs.
---@param name string|{ name?: string } a name
---@param f fun(...: any): ...
---@return perilune.domain # it
---@overload fun(f: fun()): perilune.domain
function domainlib.spawn(name, f) end

---A state of its own.
---@class perilune.domain what runs
---@field id? integer its number
---@operator len: integer
local domain = {}

function domain:join() end

---@alias perilune.kind "a"|"b"
"#;

#[test]
fn a_file_is_sections_of_items() {
    let interface = parse(FILE).expect("a good file");
    let titles: Vec<_> = interface.sections.iter().map(|s| (s.title.as_str(), s.see.as_deref())).collect();
    assert_eq!(titles, [("", None), ("Domains", Some("../parallel.md"))]);
    let names: Vec<_> = interface.functions().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["pl.sleep", "pl.domain.spawn", "domain:join"]);
    let Item::Class(class) = &interface.sections[1].items[2] else { panic!("{interface:?}") };
    assert_eq!(class.name, "perilune.domain");
    assert_eq!(class.text, ["A state of its own.", "what runs"]);
    assert_eq!(class.operators, ["len: integer"]);
    assert_eq!(
        class.fields[0],
        Described { name: "id?".into(), of: "integer".into(), text: "its number".into() }
    );
    let Item::Alias(alias) = interface.sections[1].items.last().expect("items") else { panic!() };
    assert_eq!((alias.name.as_str(), alias.means.as_str()), ("perilune.kind", "\"a\"|\"b\""));
}

#[test]
fn a_function_has_text_parameters_results() {
    let interface = parse(FILE).expect("a good file");
    let sleep = interface.functions().next().expect("functions");
    assert_eq!(sleep.text().collect::<Vec<_>>(), ["Waits.", "Long."]);
    let spawn = interface.functions().nth(1).expect("functions");
    let params: Vec<_> = spawn.params().map(|p| (p.name, p.of, p.text)).collect();
    let row = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(
        params,
        [row("name", "string|{ name?: string }", "a name"), row("f", "fun(...: any): ...", "")]
    );
    let returns: Vec<_> = spawn.returns().map(|r| (r.of, r.text)).collect();
    assert_eq!(returns, [("perilune.domain".to_owned(), "it".to_owned())]);
    assert_eq!(spawn.overloads().collect::<Vec<_>>(), ["fun(f: fun()): perilune.domain"]);
}

#[test]
fn what_would_be_shown_wrongly_is_refused() {
    let fault = |source: &str| parse(source).expect_err(source).to_string();
    assert_eq!(fault("---@param x any\nfunction a.b(y) end"), "2: 'a.b' has no parameter 'x'");
    assert_eq!(fault("function a.b(x,\n  y) end"), "1: the parameters of 'a.b' do not end on their line");
    assert_eq!(fault("function a.b"), "1: a function without parentheses: function a.b");
    assert_eq!(fault("---@alias x\n"), "2: an alias without a type: x");
}

#[test]
fn a_class_may_have_parents() {
    let class = |line: &str| {
        let interface = parse(&format!("---@class {line}\n")).expect(line);
        let Item::Class(class) = &interface.sections[0].items[0] else { panic!("{line}") };
        (class.name.clone(), class.parents.join(" "), class.text.join(" "))
    };
    let want = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(class("a.b"), want("a.b", "", ""));
    assert_eq!(class("a.b what it is"), want("a.b", "", "what it is"));
    assert_eq!(class("a: b"), want("a", "b", ""));
    assert_eq!(class("a: b, c what it is"), want("a", "b c", "what it is"));
}
