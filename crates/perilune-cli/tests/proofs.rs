//! Seven questions that people had about their programs and could not answer, each on a small program of
//! `tests/seeing` and with one command (`docs/seven-questions.md` tells the story).
//!
//! What is checked are names, places and shares. They do not depend on how fast or how busy the machine is:
//! shares are of bytes, of processor time, or of one domain against another.

use perilune_test::{Folder, Json, Limited};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Runs a command on a program, from the repository's root: what it wrote, and its output.
fn run(command: &str, script: &str) -> (Value, Output) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = Folder::new();
    let out = folder.join("out.json");
    let mut line = Command::new(env!("CARGO_BIN_EXE_perilune"));
    line.current_dir(&root);
    line.args(command.split(' ')).arg("--json").arg("-o").arg(&out).args(script.split(' '));
    let output = Limited::run(&mut line);
    let errors = perilune_test::text(&output.stderr);
    assert!(output.status.success(), "{command} {script}: {errors}");
    let text = std::fs::read_to_string(&out).unwrap_or_else(|e| panic!("{command} {script}: {e}: {errors}"));
    (Value::parse(text), output)
}

type Found = Result<(), String>;

fn holds(condition: bool, what: &Value) -> Found {
    if condition { Ok(()) } else { Err(format!("{what:?}")) }
}

/// Runs a command on a program until what it says is right: a machine that is busy displaces for a while who
/// is to wait, and who lets others wait, but not in each of ten runs.
fn sees(command: &str, script: &str, check: &dyn Fn(&Value) -> Found) {
    let mut why = Vec::new();
    for _ in 0..10 {
        match check(&run(command, script).0) {
            Ok(()) => return,
            Err(e) => why.push(e),
        }
    }
    panic!("{command} {script}: {why:#?}");
}

fn sum(list: &[Value], path: &str) -> f64 {
    list.iter().map(|x| x.number(path)).sum()
}

/// 1. Which call path allocates most, and how much falls if it is rewritten?
#[test]
fn the_comparison_that_makes_closures() {
    let script = "tests/seeing/versions.lua";
    // What is allocated is the same in each run. The rewritten comparison allocates nothing, so the
    // difference is what the first one did.
    let allocated = |script| run("gc-stats", script).0.number("total.memory.allocated_bytes");
    let (before, after) = (allocated(script), allocated("tests/seeing/versions.lua flat"));
    let known = (before - after) / before;
    assert!((0.4..0.8).contains(&known), "{before} and {after} bytes");

    let (json, _) = run("prof alloc --rate 20000", script);
    let measure = json.members("total").keys().find(|k| json.text(&format!("units.{k}")) == "bytes").unwrap();
    let all = json.number(&format!("total.{measure}"));
    assert!((all / before - 1.0).abs() < 0.1, "{all} of {before} bytes");
    let below: f64 = json
        .list("paths")
        .iter()
        .filter(|p| p.list("frames").iter().any(|f| f.text("").contains("compare (")))
        .map(|p| p.number(&format!("values.{measure}")))
        .sum();
    let found = below / all;
    assert!((found - known).abs() < 0.03, "{known:.3} of all allocation, the profile says {found:.3}");
    // The first path is the one to look at, and its frames lead from where it happens to who wanted it.
    let first: Vec<String> =
        json.list("paths")[0].list("frames").iter().map(|f| f.text("").to_owned()).collect();
    for (name, line) in [("pieces (", ":"), ("compare (", ":27"), ("choose (", ":"), ("main chunk (", ":")] {
        let there = first
            .iter()
            .any(|f| f.contains(name) && f.contains(script) && f.trim_end_matches(')').contains(line));
        assert!(there, "{name} of {first:?}");
    }

    let (json, _) = run("prof alloc --rate 20000", "tests/seeing/versions.lua flat");
    let names = json.list("functions").iter().filter(|f| f.number(&format!("total.{measure}")) > 0.0);
    assert!(names.clone().count() > 2);
    assert!(
        names
            .clone()
            .all(|f| !f.text("function").ends_with("compare") || f.text("function").contains("flat")),
        "nothing is left of it"
    );
}

/// 2. How much of each domain's time is collection, and how much of that is waiting?
#[test]
fn collection_of_each_domain_and_waiting_within_it() {
    let (json, _) = run("gc-stats", "tests/seeing/generations.lua");
    let elapsed = json.ns("elapsed_ns");
    let of = |name: &str| {
        let named = |d: &&Value| d.text("name").contains(name);
        json.list("domains").iter().find(named).unwrap_or_else(|| panic!("no domain {name}"))
    };
    for d in json.list("domains") {
        let parts: u64 = d.members("time_ns").keys().map(|s| d.ns(&format!("time_ns.{s}"))).sum();
        assert_eq!(parts, elapsed, "{d:?}");
        let waiting = d.ns("collection.waiting_ns");
        assert_eq!(waiting, d.ns("time_ns.collector-waiting"), "{d:?}");
    }
    let (litters, keeps, computes) = (of("litters"), of("keeps"), of("computes"));
    assert_eq!(computes.ns("collection.work_ns") + computes.ns("collection.waiting_ns"), 0);
    let survival = |d: &Value| d.number("memory.promoted_bytes") / d.number("memory.allocated_bytes");
    assert!(survival(litters) < 0.05 && survival(keeps) > 0.5, "{} {}", survival(litters), survival(keeps));
    // Work of the collector by the processor time of its domain.
    let share = |d: &Value| {
        let working = ["lua", "scheduler"].iter().map(|s| d.number(&format!("time_ns.{s}"))).sum::<f64>();
        d.number("collection.work_ns") / (working + d.number("collection.work_ns"))
    };
    assert!(share(keeps) > share(litters), "{} {}", share(keeps), share(litters));
    assert!(share(keeps) > 0.05 && share(keeps) < 0.95, "{}", share(keeps));
}

/// 3. Why does this parallel loop not get faster with more domains?
#[test]
fn a_chunk_that_is_everything() {
    let place = "tests/seeing/chunks.lua:15";
    let (json, _) = run("latency", "tests/seeing/chunks.lua");
    let of = &json.list("loops")[0];
    assert_eq!(
        (of.text("where"), of.ns("chunk"), of.ns("iterations"), of.ns("domains")),
        (place, 256, 256, 2)
    );
    assert!(of.number("imbalance") > 1.99, "{of:?}");
    assert!(of.number("idle_ns") >= 0.49 * 2.0 * of.number("ns"), "{of:?}");
    assert_eq!(of.list("by_domain").len(), 1);
    let hint = of.text("hint");
    assert!(hint.contains(place) && hint.contains("chunk = 256 makes one piece"), "{hint}");

    // No chunk: both have a part, and nothing is to be said.
    sees("latency", "tests/seeing/chunks.lua 0", &|json| {
        let of = &json.list("loops")[0];
        assert_eq!(sum(of.list("by_domain"), "iterations"), 256.0);
        holds(of.list("by_domain").len() == 2 && of.number("imbalance") < 1.9, of)
    });

    // One iteration is most of the work: the part that has it is named.
    sees("latency", "tests/seeing/chunks.lua 8 late", &|json| {
        let of = &json.list("loops")[0];
        let longest = of.at("longest_part");
        holds((longest.ns("first")..=longest.ns("last")).contains(&200), of)?;
        holds(of.number("imbalance") > 1.5 && of.text("hint").contains("longest part"), of)
    });
}

/// 4. Why is filling an array with random numbers slower on two domains than on one?
#[test]
fn a_generator_that_everybody_changes() {
    let made_at = "tests/seeing/generator.lua:12";
    // Domains that a busy machine gives turns do not meet: then little is lost, and one of them may not have
    // noticed at all. So the best of some runs counts.
    let mut lost = 0.0f64;
    for _ in 0..8 {
        let (json, _) = run("prof offcpu", "tests/seeing/generator.lua");
        let worst = json.list("contended").first();
        let Some(worst) = worst.filter(|o| o.list("domains").len() == 2) else { continue };
        assert_eq!((worst.text("kind"), worst.text("made_at")), ("atomic", made_at));
        assert!(worst.text("object").contains(made_at));
        assert!(worst.list("domains").iter().all(|d| d.text("name").contains("init/")), "{worst:?}");
        lost = lost.max(worst.number("lost_ns") / worst.number("running_ns"));
        if lost > 0.1 {
            break;
        }
    }
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    assert!(lost > 0.001 || processors < 2, "{lost}");

    let (json, _) = run("prof offcpu", "tests/seeing/generator.lua own");
    let all = json.list("contended");
    assert!(all.iter().all(|o| o.text("kind") != "atomic"), "{all:?}");
}

/// 5. Who was on the processor when a domain was late?
#[test]
fn a_process_that_takes_the_processor() {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    let (json, output) = run("prof offcpu --sched", &format!("tests/seeing/late.lua {processors} 0.8"));
    if json.at("kernel").is_null() {
        let errors = String::from_utf8_lossy(&output.stderr);
        eprintln!("skipped: the kernel says nothing: {errors}");
        assert!(errors.contains("perilune prof offcpu:"), "why must be said: {errors}");
        return;
    }
    let worker = json.list("kernel.domains").iter().find(|d| d.text("name").contains("worker"));
    let worker = worker.expect("the domain that computes");
    let (ran, displaced) = (worker.number("ran_ns"), worker.number("displaced_ns"));
    assert!(ran > 0.0);
    assert!(displaced > 20e6, "{worker:?}");
    let by = worker.list("by");
    if by.is_empty() || by.iter().all(|o| o.number("pid") == 0.0) {
        // Without permission it is known that it was displaced, and not by whom.
        let errors = String::from_utf8_lossy(&output.stderr);
        eprintln!("names not checked: {errors}");
        assert!(errors.contains("perf_event_paranoid") || errors.contains("perf"), "{errors}");
        return;
    }
    // Nearly all of it has names. On a machine that does nothing else these are the shells; on a busy one
    // others may have had all of it.
    let of = |f: &dyn Fn(&str) -> bool| {
        let named = by.iter().filter(|o| o.number("pid") != 0.0 && f(o.text("name")));
        named.map(|o| o.number("ns")).sum::<f64>()
    };
    assert!(of(&|name| !name.is_empty()) > 0.8 * displaced, "{worker:?}");
    // The shell's process was called `timeout` before it became a shell.
    let is_shell = |name: &str| ["sh", "timeout"].contains(&name);
    let (shells, others) = (of(&is_shell), of(&|name| !is_shell(name)));
    assert!(shells > 0.0 || others > 0.8 * displaced, "{worker:?}");
}

/// 6. Where does a mostly sleeping program sleep, and what wakes it?
#[test]
fn a_server_that_sleeps() {
    sees("prof offcpu", "tests/seeing/sleeper.lua", &|json| {
        let find = |what: &str, place: &str, domain: &str| {
            let is = |w: &&Value| {
                w.text("what").contains(what)
                    && w.text("place").ends_with(place)
                    && w.text("domain_name").contains(domain)
            };
            let found = json.list("waits").iter().find(is);
            found.ok_or_else(|| format!("{what} at {place}: {json:?}"))
        };
        let inbox = find("receives from channel 'inbox'", "sleeper.lua:19", "server")?;
        let nap = find("sleeps", "sleeper.lua:16", "server")?;
        let replies = find("receives from channel 'replies'", "sleeper.lua:24", "main")?;
        let woken = |w: &Value, by: &str| {
            let by = w.list("woken").iter().filter(|x| x.text("by").contains(by));
            by.map(|x| x.number("count")).sum::<f64>() / w.number("count")
        };
        // The clock's function runs in the main domain, and fills the inbox.
        holds(woken(inbox, "main") > 0.8, inbox)?;
        holds(woken(nap, "timer") > 0.99, nap)?;
        holds(woken(replies, "server") > 0.99, replies)?;
        // A nap is 5 ms from the call on. What a busy machine does between that and the event does not count.
        holds(nap.ns("count") == 12 && nap.number("total_ns") >= 12.0 * 2.5e6, nap)?;
        holds(nap.list("frames").iter().any(|f| f.text("").contains("serve (")), nap)?;
        // The server waits, for jobs or in them, nearly all the time.
        let of_server = json.list("waits").iter().filter(|w| w.text("domain_name").contains("server"));
        let slept: f64 = of_server.map(|w| w.number("total_ns")).sum();
        holds(slept > 0.7 * json.number("wall_ns"), json)
    });
}

/// 7. Why did memory grow, and who holds it?
#[test]
fn a_cache_that_forgets_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let compare = |word: &str| {
        let folder = Folder::new();
        let (old, new) = (folder.join("old"), folder.join("new"));
        let line = |words: &[&std::ffi::OsStr]| {
            let mut line = Command::new(env!("CARGO_BIN_EXE_perilune"));
            let output = Limited::run(line.current_dir(&root).args(words));
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).expect("UTF-8")
        };
        line(&["tests/seeing/growth.lua".as_ref(), old.as_ref(), new.as_ref(), word.as_ref()]);
        let json = line(&["heap".as_ref(), "--json".as_ref(), old.as_ref(), new.as_ref()]);
        Value::parse(&json)
    };
    let json = compare("leaking");
    let all = json.number("bytes") - json.number("old_bytes");
    let first = &json.list("growth")[0];
    assert_eq!(first.text("path"), "_G.answers.cache", "{first:?}");
    assert!((first.number("bytes") / all - 1.0).abs() < 0.03, "{} of {all} bytes", first.ns("bytes"));
    let kind = json.list("changes").iter().find(|c| c.text("name") == "table {text, user, number}");
    let counts = kind.expect("the answers").list("count");
    assert_eq!(counts, [2000.0, 12000.0]);

    let json = compare("fixed");
    assert!(json.number("bytes") - json.number("old_bytes") < 10_000.0);
    assert!(json.list("growth").iter().all(|g| g.text("path") != "_G.answers.cache"));
}

/// What made connections slow, and what did requests wait for?
#[test]
fn peers_and_requests() {
    let script = "tests/seeing/peers.lua";
    let of = |part: &str| run("latency", &format!("{script} {part}")).0;
    let line_of = |text: &str| {
        let source =
            std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(script));
        let at =
            source.unwrap().lines().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}"));
        format!("{script}:{}", at + 1)
    };
    let sees =
        |part: &str, check: &dyn Fn(&Value) -> Found| sees("latency", &format!("{script} {part}"), check);
    let found = |json: &Value, finding: &str, place: &str| -> Result<Value, String> {
        let all = json.list("connections");
        let one = all.iter().find(|f| f.text("finding") == finding && f.text("where") == place);
        one.cloned().ok_or_else(|| format!("no {finding} at {place}: {all:?}"))
    };
    const MS: u64 = 1_000_000;

    // Most of the 20 messages wait for a delayed acknowledgement; the system sends the first ones at once.
    sees("nagle", &|json| {
        let nagle = found(json, "nagle", &line_of("assert(c:read_exact(96))"))?;
        holds(nagle.ns("count") >= 1 && nagle.ns("ns") >= 5 * MS * nagle.ns("count"), &nagle)?;
        holds(nagle.text("says").contains("nodelay = true"), &nagle)?;
        // The server sees the same from its side: one half of the message is late.
        found(json, "message-in-pieces", &line_of("while c:read_exact(176)")).map(|_| ())
    });
    sees("pieces", &|json| {
        let pieces = found(json, "small-writes", &line_of("c:flush() -- a byte"))?;
        holds(pieces.ns("count") >= 64 && pieces.ns("count") == pieces.ns("bytes"), &pieces)
    });
    sees("peer", &|json| {
        let slow = found(json, "slow-peer", &line_of("assert(c:read_line()) -- an answer"))?;
        holds(slow.ns("count") == 3 && slow.ns("ns") >= 85 * MS && slow.ns("connections") == 1, &slow)
    });
    sees("halves", &|json| {
        let halves = found(json, "message-in-pieces", &line_of("half and half"))?;
        holds(halves.ns("count") == 1 && halves.ns("ns") >= 25 * MS, &halves)
    });
    sees("full", &|json| {
        let full = found(json, "peer-does-not-read", &line_of("for _ = 1, 256 do c:write"))?;
        holds(full.ns("ns") >= 5 * MS, &full)
    });
    sees("starved", &|json| {
        let starved = json.list("connections").iter().filter(|f| f.text("finding") == "starved-loop");
        holds(starved.map(|f| f.ns("longest_ns")).max().is_some_and(|ns| ns >= 25 * MS), json)
    });

    let json = of("requests");
    let routes = json.at("requests").list("by_name");
    let route =
        |name: &str| routes.iter().find(|r| r.text("name") == name).unwrap_or_else(|| panic!("{name}"));
    let counts = [("GET /slow/:id", 5, 0), ("GET /busy", 3, 0), ("GET /broken", 1, 1), ("(no route)", 1, 0)];
    for (name, count, failed) in counts {
        assert_eq!((route(name).ns("count"), route(name).ns("failed")), (count, failed), "{name}");
        assert_eq!(route(name).text("protocol"), "HTTP");
    }
    assert_eq!((route("wait").ns("count"), route("wait").ns("failed")), (4, 0));
    assert_eq!((route("fail").ns("failed"), route("fail").text("protocol")), (1, "RPC"));
    let (slow, busy) = (route("GET /slow/:id"), route("GET /busy"));
    assert!(slow.ns("parts_ns.waited") >= 95 * MS && busy.ns("parts_ns.waited") == 0, "{slow:?} {busy:?}");
    assert!(busy.ns("parts_ns.ran") >= 5 * MS, "{busy:?}");
    assert_eq!(slow.list("waits")[0].text("where"), line_of("pl.sleep(0.02)"));
    for request in json.at("requests").list("slowest") {
        let parts: u64 =
            request.members("parts_ns").keys().map(|p| request.ns(&format!("parts_ns.{p}"))).sum();
        assert_eq!(parts, request.ns("ns"), "{request:?}");
    }
}
