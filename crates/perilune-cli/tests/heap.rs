//! `perilune heap` from end to end: leaks are named with their paths and amounts, sizes add up, running and sleeping programs are looked at.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const EXE: &str = env!("CARGO_BIN_EXE_perilune");

/// As much of JSON as the command writes.
#[derive(Debug)]
enum Json {
    Null,
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

/// Reads a value from the front of `s`.
fn value(s: &mut &str) -> Json {
    *s = s.trim_start_matches([' ', '\n', ',', ':']);
    let first = s.chars().next().expect("a value");
    let mut items = Vec::new();
    match first {
        '[' | '{' => {
            *s = &s[1..];
            loop {
                *s = s.trim_start_matches([' ', '\n', ',']);
                if s.starts_with([']', '}']) {
                    *s = &s[1..];
                    break;
                }
                let key = if first == '{' { Some(value(s)) } else { None };
                items.push((key, value(s)));
            }
            if first == '[' {
                return Json::List(items.into_iter().map(|(_, v)| v).collect());
            }
            let key = |k| if let Some(Json::Text(k)) = k { k } else { panic!("a key: {k:?}") };
            Json::Object(items.into_iter().map(|(k, v)| (key(k), v)).collect())
        }
        '"' => {
            let mut text = String::new();
            let mut chars = s[1..].char_indices();
            loop {
                match chars.next().expect("a string's end") {
                    (at, '"') => {
                        *s = &s[at + 2..];
                        return Json::Text(text);
                    }
                    (_, '\\') => text.extend(chars.next().map(|(_, c)| c)),
                    (_, c) => text.push(c),
                }
            }
        }
        _ => {
            let end = s.find([',', ']', '}', '\n']).unwrap_or(s.len());
            let (word, rest) = s.split_at(end);
            *s = rest;
            if word == "null" { Json::Null } else { Json::Number(word.parse().expect(word)) }
        }
    }
}

impl Json {
    fn get(&self, key: &str) -> &Json {
        match self {
            Json::Object(members) => {
                &members.iter().find(|(k, _)| k == key).unwrap_or_else(|| panic!("no {key} in {self:?}")).1
            }
            _ => panic!("no object: {self:?}"),
        }
    }
}

/// A folder of its own for a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("heap-{name}"));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

fn run(folder: &Path, args: &[&str], env: &[(&str, &str)]) -> (String, String) {
    let out = Command::new(EXE).args(args).current_dir(folder).envs(env.iter().copied()).output().unwrap();
    let (text, error) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{args:?}: {:?}\n{text}\n{error}", out.status);
    (text.into_owned(), error.into_owned())
}

fn json(folder: &Path, args: &[&str]) -> Json {
    let (text, _) = run(folder, args, &[]);
    let mut rest = &text[..];
    let j = value(&mut rest);
    assert_eq!(rest.trim(), "", "{text}");
    j
}

fn number(j: &Json, key: &str) -> f64 {
    if let Json::Number(n) = j.get(key) { *n } else { panic!("no number {key} in {j:?}") }
}

fn text<'a>(j: &'a Json, key: &str) -> &'a str {
    if let Json::Text(t) = j.get(key) { t } else { panic!("no text {key} in {j:?}") }
}

fn list<'a>(j: &'a Json, key: &str) -> &'a [Json] {
    if let Json::List(l) = j.get(key) { l } else { panic!("no list {key} in {j:?}") }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= b.abs() / 50.0
}

const STORE: &str = "\
local M = {}
local cache = {}
function M.add(n) cache[#cache + 1] = {id = n, text = ('entry %07d '):rep(5):format(n, n, n, n, n)} end
return M
";

const LEAK: &str = "\
package.path = './?.lua'
local store = require 'store'
local pl = require 'perilune'
for n = 1, 2000 do store.add(n) end
collectgarbage() collectgarbage()
local before = collectgarbage('count')
pl.trace.heap('old.heap')
for n = 2001, 12000 do store.add(n) end
collectgarbage() collectgarbage()
pl.trace.heap('new.heap')
print((collectgarbage('count') - before) * 1024)
";

#[test]
fn a_leak_is_named_with_its_path_and_amount() {
    let folder = folder("leak");
    write(&folder, "store.lua", STORE);
    write(&folder, "leak.lua", LEAK);
    for env in [&[][..], &[("PERILUNE_GC_VERIFY", "1")]] {
        let (grown, _) = run(&folder, &["leak.lua"], env);
        let grown: f64 = grown.trim().parse().unwrap();
        let j = json(&folder, &["heap", "--json", "old.heap", "new.heap"]);
        assert!(near(number(&j, "bytes") - number(&j, "old_bytes"), grown), "{grown}");
        let first = &list(&j, "growth")[0];
        assert!(near(number(first, "bytes"), grown), "{first:?}, {grown}");
        assert_eq!(text(first, "path"), "package.loaded.store.add <upvalue cache>");
        assert_eq!(number(first, "objects"), 20_000.0);
        let kind = list(&j, "changes").iter().find(|c| text(c, "name") == "table {id, text}").unwrap();
        assert!(matches!(list(kind, "count"), [Json::Number(2000.0), Json::Number(12000.0)]), "{kind:?}");
        let largest = &list(&j, "retainers")[0];
        assert_eq!(text(largest, "path"), "package.loaded.store.add <upvalue cache>");
    }
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&folder.join("new.heap").metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    // For people.
    let (table, _) = run(&folder, &["heap", "old.heap", "new.heap"], &[]);
    assert!(table.contains("package.loaded.store.add <upvalue cache>"), "{table}");
    let (table, _) = run(&folder, &["heap", "--retainers", "cache", "new.heap"], &[]);
    for part in ["._LOADED", ".store", ".add", "<upvalue cache>", "with 12000 elements"] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn a_new_table_is_named_beside_who_holds_it() {
    let folder = folder("new");
    let script = "local pl = require 'perilune' pl.trace.heap('a.heap') log = {}
        for n = 1, 3000 do log[n] = {n} end pl.trace.heap('b.heap')";
    write(&folder, "new.lua", script);
    run(&folder, &["new.lua"], &[]);
    let j = json(&folder, &["heap", "--json", "a.heap", "b.heap"]);
    let first = &list(&j, "growth")[0];
    assert_eq!((text(first, "path"), text(first, "through")), ("_G", "_G.log"));
}

#[test]
fn two_runs_are_compared_by_paths() {
    let folder = folder("runs");
    write(&folder, "store.lua", STORE);
    write(&folder, "run.lua", "package.path = './?.lua' S = require 'store' for n = 1, ... do S.add(n) end");
    for (n, file) in [("100", "a.heap"), ("5100", "b.heap")] {
        run(&folder, &["heap", "--save", file, "run.lua", n], &[]);
    }
    let j = json(&folder, &["heap", "--json", "a.heap", "b.heap"]);
    let first = &list(&j, "growth")[0];
    assert_eq!(text(first, "path"), "_G.S.add <upvalue cache>");
    let grown = number(&j, "bytes") - number(&j, "old_bytes");
    assert!(near(number(first, "bytes"), grown), "{first:?}, {grown}");
}

#[test]
fn sizes_add_up_to_what_collectgarbage_counts() {
    let folder = folder("sizes");
    write(
        &folder,
        "sizes.lua",
        "local pl = require 'perilune'
         local keep = {}
         for n = 1, 3000 do
           local t = {n, n + 1, name = 'n' .. n, [n .. 'k'] = {}, [1.5 * n] = true}
           t.self = t
           keep[n] = setmetatable(t, {__index = function() return keep end})
           keep['c' .. n] = coroutine.wrap(function(x) local held = {x} coroutine.yield(held) end)
           keep['c' .. n]({})
         end
         weak = setmetatable({}, {__mode = 'k'})
         for n = 1, 1000 do weak[keep[n]] = {'value', n} weak[{}] = {} end
         names = setmetatable({}, {__mode = 'v'})
         for n = 1, 1000 do names[n] = keep[n] names[-n] = {} end
         collectgarbage() collectgarbage()
         local count = collectgarbage('count') * 1024
         pl.trace.heap('s.heap')
         print(count)",
    );
    let (count, _) = run(&folder, &["sizes.lua"], &[]);
    let j = json(&folder, &["heap", "--json", "s.heap"]);
    let count: f64 = count.trim().parse().unwrap();
    assert!(near(number(&j, "bytes"), count), "{count}: {}", number(&j, "bytes"));
    let of = |name: &str| {
        list(&j, "types").iter().find(|t| text(t, "name") == name).map_or(0.0, |t| number(t, "count"))
    };
    // And some of the runtime.
    assert!((3001.0..3010.0).contains(&of("coroutine")), "{}", of("coroutine"));
    let j = json(&folder, &["heap", "--json", "--retainers", "held", "s.heap"]);
    let path = text(&list(&j, "found")[0], "path");
    assert!(path.contains("<local held of function <7> (sizes.lua:7)>"), "{path}");
}

/// Starts a script that says `ready` when it may be looked at, and sleeps or works afterwards.
fn start(folder: &Path, script: &str) -> Child {
    let mut child = Command::new(EXE).arg(script).current_dir(folder).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn attach(folder: &Path, child: &mut Child) -> Json {
    let pid = child.id().to_string();
    let j = json(folder, &["heap", "--json", "--attach", &pid, "--retainers", "mine"]);
    child.kill().unwrap();
    child.wait().unwrap();
    j
}

#[test]
fn a_program_that_computes_is_looked_at() {
    let folder = folder("computes");
    write(
        &folder,
        "c.lua",
        "local mine = {x = {}} print 'ready' io.stdout:flush() while true do mine.y = 1 end",
    );
    let j = attach(&folder, &mut start(&folder, "c.lua"));
    let path = text(&list(&j, "found")[0], "path");
    assert_eq!(path, "main program <local mine of main chunk (c.lua:1)>");
}

#[test]
fn domains_and_fibers_that_sleep_are_looked_at() {
    let folder = folder("sleeps");
    write(
        &folder,
        "s.lua",
        "local pl = require 'perilune'
         local ch, up = pl.channel.new(), pl.channel.new()
         local shared = pl.share{list = {1, 2, 3}}
         local d = pl.domain.spawn(function(ch, up, shared)
           local mine = {1, 2, 3, of = 'the domain'}
           up:send(true)
           ch:recv()
           return mine, shared
         end, ch, up, shared)
         up:recv()
         print 'ready' io.stdout:flush()
         pl.sleep(100)",
    );
    let j = attach(&folder, &mut start(&folder, "s.lua"));
    assert_eq!(list(&j, "domains").len(), 2);
    let found = list(&j, "found");
    let path = text(&found[0], "path");
    assert!(path.contains("fiber ") && path.contains("<local mine of "), "{path}");
    let island = list(&j, "types").iter().find(|t| text(t, "name") == "island").unwrap();
    assert!(number(island, "count") >= 1.0 && number(island, "bytes") > 0.0);
}

#[test]
fn a_script_is_looked_at_while_it_runs() {
    let folder = folder("at");
    write(
        &folder,
        "grow.lua",
        "local pl = require 'perilune' log = {} for n = 1, 100 do log[n] = ('x'):rep(1000) .. n pl.sleep(0.05) end",
    );
    let j = json(&folder, &["heap", "--json", "--at", "1", "--at", "4", "grow.lua"]);
    let first = &list(&j, "growth")[0];
    assert_eq!(text(first, "path"), "_G.log", "{first:?}");
    assert!(number(first, "bytes") > 5_000.0);
}

#[test]
fn allocation_sites_of_what_is_alive() {
    let folder = folder("sites");
    write(
        &folder,
        "sites.lua",
        "local function keep(n) return ('k'):rep(2000) .. n end
         local function drop(n) return ('d'):rep(2000) .. n end
         kept = {}
         for n = 1, 5000 do kept[n] = keep(n) drop(n) end",
    );
    let j = json(&folder, &["heap", "--json", "--sites", "--rate", "4000", "sites.lua"]);
    let sites = list(&j, "sites");
    let alive = |part: &str| -> f64 {
        sites.iter().filter(|s| text(s, "where").starts_with(part)).map(|s| number(s, "alive")).sum()
    };
    let total: f64 = sites.iter().map(|s| number(s, "alive")).sum();
    assert!(near_by(total, 10_100_000.0, 0.1), "{total}");
    assert!(alive("keep") > 0.9 * total && alive("drop") < 0.02 * total, "{j:?}");
}

fn near_by(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= b * share
}

#[test]
fn files_that_are_no_snapshots_and_words_that_make_no_sense() {
    let folder = folder("bad");
    write(&folder, "bad.heap", "PLHEAP\0\0");
    for (args, part) in [
        (&["heap", "bad.heap"][..], "no snapshot"),
        (&["heap", "--at", "x", "a.lua"][..], "is no time"),
        (&["heap"][..], "name a script"),
    ] {
        let out = Command::new(EXE).args(args).current_dir(&folder).output().unwrap();
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && error.contains(part), "{args:?}: {error}");
    }
}

#[test]
fn under_stress_nothing_is_missing() {
    let folder = folder("stress");
    write(
        &folder,
        "s.lua",
        "local pl = require 'perilune'
         local t, weak = {}, setmetatable({}, {__mode = 'k'})
         for i = 1, 40 do
           local n = i
           t[i] = {i, coroutine.wrap(function() local mine = {n} coroutine.yield(mine) end), function() n = n + 1 end}
           t[i][2]()
           weak[t[i]] = {t[i], 'value'}
           weak[{}] = {}
           pl.trace.heap('s.heap')
         end
         collectgarbage() collectgarbage()
         local count = collectgarbage('count') * 1024
         pl.trace.heap('s.heap')
         print(count)",
    );
    let stress = [("PERILUNE_GC_STRESS", "1"), ("PERILUNE_GC_VERIFY", "1"), ("PERILUNE_GC_POISON", "1")];
    let (count, _) = run(&folder, &["s.lua"], &stress);
    let j = json(&folder, &["heap", "--json", "--retainers", "mine", "s.heap"]);
    let count: f64 = count.trim().parse().unwrap();
    assert!(near(number(&j, "bytes"), count), "{count}: {}", number(&j, "bytes"));
    let coroutines = list(&j, "types").iter().find(|t| text(t, "name") == "coroutine").unwrap();
    assert!(number(coroutines, "count") >= 40.0);
    let values = list(&j, "types").iter().map(|t| number(t, "count")).sum::<f64>();
    assert_eq!(values, number(&j, "objects"));
}
