//! `perilune heap` from end to end: leaks are named with their paths and amounts, sizes add up, running and
//! sleeping programs are looked at.

use perilune_test::{Folder, Json, Limited};
use serde_json::Value;
use std::process::Command;

const EXE: &str = env!("CARGO_BIN_EXE_perilune");

fn run(folder: &Folder, args: &[&str], env: &[(&str, &str)]) -> (String, String) {
    let out = Limited::run(Command::new(EXE).args(args).current_dir(folder).envs(env.iter().copied()));
    let (text, error) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{args:?}: {:?}\n{text}\n{error}", out.status);
    (text.into_owned(), error.into_owned())
}

fn json(folder: &Folder, args: &[&str]) -> Value {
    Value::parse(run(folder, args, &[]).0)
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

/// What shared objects hold is part of what the program holds.
#[test]
fn what_is_alive_is_no_more_than_the_program_holds() {
    let folder = Folder::new();
    folder.write(
        "holds.lua",
        "local pl = require 'perilune'
        local c, m = pl.channel.new(nil, 'box'), pl.map()
        for i = 1, 1000 do
          c:send{i, ('x'):rep(100) .. i}
          m:set(i, pl.share{i, ('y'):rep(100) .. i})
        end
        local a = pl.array('f64', 10000)",
    );
    let seen = json(&folder, &["heap", "--json", "holds.lua"]);
    let held = seen.list("domains")[0].number("live_bytes");
    assert!(seen.number("bytes") <= held * 1.02 && held > 200e3, "{} {held}", seen.number("bytes"));
}

/// What the script's own variables hold when it ends is alive then, also in machine code; what is dead by
/// then is not.
#[test]
fn the_end_is_when_the_variables_of_the_script_are_still_there() {
    let folder = Folder::new();
    folder.write("keeps.lua", "local t = {} for i = 1, 20000 do t[i] = {i} end");
    folder.write("returns.lua", "local t = {} for i = 1, 20000 do t[i] = {i} end return 1, t");
    folder.write("drops.lua", "do local t = {} for i = 1, 20000 do t[i] = {i} end end local u");
    for mode in ["off", "blocking:2:60"] {
        for (script, least, most) in
            [("keeps.lua", 2e6, 4e6), ("returns.lua", 2e6, 4e6), ("drops.lua", 1e3, 2e5)]
        {
            let (text, _) = run(&folder, &["heap", "--json", script], &[("PERILUNE_SPESH", mode)]);
            let bytes = Value::parse(text).number("bytes");
            assert!((least..most).contains(&bytes), "{script}, {mode}: {bytes}");
        }
    }
}

#[test]
fn a_leak_is_named_with_its_path_and_amount() {
    let folder = Folder::new();
    folder.write("store.lua", STORE);
    folder.write("leak.lua", LEAK);
    for env in [&[][..], &[("PERILUNE_GC_VERIFY", "1")]] {
        let (grown, _) = run(&folder, &["leak.lua"], env);
        let grown: f64 = grown.trim().parse().unwrap();
        let j = json(&folder, &["heap", "--json", "old.heap", "new.heap"]);
        assert!(near(j.number("bytes") - j.number("old_bytes"), grown), "{grown}");
        let first = &j.list("growth")[0];
        assert!(near(first.number("bytes"), grown), "{first:?}, {grown}");
        assert_eq!(first.text("path"), "package.loaded.store.add <upvalue cache>");
        assert_eq!(first.number("objects"), 20_000.0);
        let kind = j.list("changes").iter().find(|c| c.text("name") == "table {id, text}").unwrap();
        assert!(
            matches!(kind.list("count"), [before, after] if before == 2000 && after == 12000),
            "{kind:?}"
        );
        let largest = &j.list("retainers")[0];
        assert_eq!(largest.text("path"), "package.loaded.store.add <upvalue cache>");
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
    let folder = Folder::new();
    let script = "local pl = require 'perilune' pl.trace.heap('a.heap') log = {}
        for n = 1, 3000 do log[n] = {n} end pl.trace.heap('b.heap')";
    folder.write("new.lua", script);
    run(&folder, &["new.lua"], &[]);
    let j = json(&folder, &["heap", "--json", "a.heap", "b.heap"]);
    let first = &j.list("growth")[0];
    assert_eq!((first.text("path"), first.text("through")), ("_G", "_G.log"));
}

#[test]
fn two_runs_are_compared_by_paths() {
    let folder = Folder::new();
    folder.write("store.lua", STORE);
    folder.write("run.lua", "package.path = './?.lua' S = require 'store' for n = 1, ... do S.add(n) end");
    for (n, file) in [("100", "a.heap"), ("5100", "b.heap")] {
        run(&folder, &["heap", "--save", file, "run.lua", n], &[]);
    }
    let j = json(&folder, &["heap", "--json", "a.heap", "b.heap"]);
    let first = &j.list("growth")[0];
    assert_eq!(first.text("path"), "_G.S.add <upvalue cache>");
    let grown = j.number("bytes") - j.number("old_bytes");
    assert!(near(first.number("bytes"), grown), "{first:?}, {grown}");
}

#[test]
fn sizes_add_up_to_what_collectgarbage_counts() {
    let folder = Folder::new();
    folder.write(
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
    assert!(near(j.number("bytes"), count), "{count}: {}", j.number("bytes"));
    let of = |name: &str| {
        j.list("types").iter().find(|t| t.text("name") == name).map_or(0.0, |t| t.number("count"))
    };
    // And some of the runtime.
    assert!((3001.0..3010.0).contains(&of("coroutine")), "{}", of("coroutine"));
    let j = json(&folder, &["heap", "--json", "--retainers", "held", "s.heap"]);
    let path = j.list("found")[0].text("path");
    assert!(path.contains("<local held of function <7> (sizes.lua:7)>"), "{path}");
}

/// Starts a script that says `ready` when it may be looked at, and sleeps or works afterwards.
fn start(folder: &Folder, script: &str) -> Limited {
    Limited::start(Command::new(EXE).arg(script).current_dir(folder)).ready()
}

fn attach(folder: &Folder, child: Limited) -> Value {
    json(folder, &["heap", "--json", "--attach", &child.id().to_string(), "--retainers", "mine"])
}

#[test]
fn a_program_that_computes_is_looked_at() {
    let folder = Folder::new();
    folder
        .write("c.lua", "local mine = {x = {}} print 'ready' io.stdout:flush() while true do mine.y = 1 end");
    let j = attach(&folder, start(&folder, "c.lua"));
    let path = j.list("found")[0].text("path");
    assert_eq!(path, "main program <local mine of main chunk (c.lua:1)>");
}

#[test]
fn domains_and_fibers_that_sleep_are_looked_at() {
    let folder = Folder::new();
    folder.write(
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
    let j = attach(&folder, start(&folder, "s.lua"));
    assert_eq!(j.list("domains").len(), 2);
    let found = j.list("found");
    let path = found[0].text("path");
    assert!(path.contains("fiber ") && path.contains("<local mine of "), "{path}");
    let island = j.list("types").iter().find(|t| t.text("name") == "island").unwrap();
    assert!(island.number("count") >= 1.0 && island.number("bytes") > 0.0);
}

#[test]
fn a_script_is_looked_at_while_it_runs() {
    let folder = Folder::new();
    folder.write(
        "grow.lua",
        "local pl = require 'perilune' log = {} for n = 1, 100 do log[n] = ('x'):rep(1000) .. n \
         pl.sleep(0.05) end",
    );
    let j = json(&folder, &["heap", "--json", "--at", "1", "--at", "4", "grow.lua"]);
    let first = &j.list("growth")[0];
    assert_eq!(first.text("path"), "_G.log", "{first:?}");
    assert!(first.number("bytes") > 5_000.0);
}

#[test]
fn allocation_sites_of_what_is_alive() {
    let folder = Folder::new();
    folder.write(
        "sites.lua",
        "local function keep(n) return ('k'):rep(2000) .. n end
         local function drop(n) return ('d'):rep(2000) .. n end
         kept = {}
         for n = 1, 5000 do kept[n] = keep(n) drop(n) end",
    );
    let j = json(&folder, &["heap", "--json", "--sites", "--rate", "4000", "sites.lua"]);
    let sites = j.list("sites");
    let alive = |part: &str| -> f64 {
        sites.iter().filter(|s| s.text("where").starts_with(part)).map(|s| s.number("alive")).sum()
    };
    let total: f64 = sites.iter().map(|s| s.number("alive")).sum();
    assert!(near_by(total, 10_100_000.0, 0.1), "{total}");
    assert!(alive("keep") > 0.9 * total && alive("drop") < 0.02 * total, "{j:?}");
}

fn near_by(a: f64, b: f64, share: f64) -> bool {
    (a - b).abs() <= b * share
}

#[test]
fn files_that_are_no_snapshots_and_words_that_make_no_sense() {
    let folder = Folder::new();
    folder.write("bad.heap", "PLHEAP\0\0");
    for (args, part) in [
        (&["heap", "bad.heap"][..], "no snapshot"),
        (&["heap", "--at", "x", "a.lua"][..], "is no time"),
        (&["heap"][..], "name a script"),
    ] {
        let out = Limited::run(Command::new(EXE).args(args).current_dir(&folder));
        let error = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && error.contains(part), "{args:?}: {error}");
    }
}

#[test]
fn under_stress_nothing_is_missing() {
    let folder = Folder::new();
    folder.write(
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
    // Under stress value stacks have moved at the end of the collection, and what they were is garbage.
    let bytes = j.number("bytes");
    assert!(near(bytes, count) || bytes < count && bytes > 0.9 * count, "{count}: {bytes}");
    let coroutines = j.list("types").iter().find(|t| t.text("name") == "coroutine").unwrap();
    assert!(coroutines.number("count") >= 40.0);
    let values = j.list("types").iter().map(|t| t.number("count")).sum::<f64>();
    assert_eq!(values, j.number("objects"));
}
