//! Which loops are compiled, as the specialiser reports it; that programs do the same with and without is
//! shown by the recorded scripts.
#![cfg(machine_code)]

use perilune_test::Folder;
use perilune_vm::{LoadMode, Vm};
use std::fs::File;

/// Runs a program whose loops are compiled soon: what it returns, and the report.
fn run(source: &str) -> (String, String) {
    run_chunk(&format!("return tostring((function() {source} end)())"))
}

/// The same of a chunk that returns a string.
fn run_chunk(source: &str) -> (String, String) {
    let folder = Folder::new();
    let report = File::create(folder.join("report")).unwrap();
    let specializer = perilune_spesh::specializer("blocking:10:300", || logged(report)).unwrap().unwrap();
    let mut vm = Vm::new();
    perilune_stdlib::open_libs(&mut vm).unwrap();
    vm.set_specializer(specializer);
    let chunk = vm.load(source.as_bytes(), b"=test", LoadMode::Text, None).expect("a chunk");
    let results = vm.host_call(chunk.into(), &[]).expect("no error");
    assert_eq!(results, 1);
    let result = vm.stack_get(vm.nargs()).as_string().expect("a string").to_text();
    drop(vm);
    (result, folder.text("report"))
}

/// How many loops were compiled.
fn compiled(report: &str) -> usize {
    report.lines().filter(|line| line.contains(" bytes in ")).count()
}

/// Decisions go to this file.
fn logged(log: std::fs::File) -> perilune_spesh::Setup {
    let decisions = perilune_spesh::report::Decisions::new(Some(log), false);
    perilune_spesh::Setup { decisions: std::sync::Arc::new(decisions), ..Default::default() }
}

#[test]
fn the_largest_loop_that_came_round_is_compiled_as_one() {
    let source = "local s = 0 for i = 1, 100 do for j = 1, 10 do s = s + i * j end end return s";
    let (result, report) = run(source);
    assert_eq!((result.as_str(), compiled(&report)), ("277750", 1), "{report}");
}

#[test]
fn a_loop_comes_round_by_whichever_of_its_branches() {
    // Each branch jumps back by itself; the last one ends the loop.
    let source = "local i, s = 0, 0
        while true do
            if i % 3 == 0 then s = s + 1 i = i + 1
            elseif i % 3 == 1 then s = s + 2 i = i + 1
            elseif i < 900 then i = i + 1
            else return s end
        end";
    let (result, report) = run(source);
    assert_eq!((result.as_str(), compiled(&report)), ("903", 1), "{report}");
}

#[test]
fn a_loop_of_a_chunk_that_is_over_is_not_compiled_with_the_next_one() {
    let source = "local s = 0
        for i = 1, 1000 do s = s + i end
        for i = 1, 1000 do s = s - 1 end
        return tostring(s)";
    let (result, report) = run_chunk(source);
    let lines: Vec<&str> = report.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((result.as_str(), lines.as_slice()), ("499500", &["test:2:", "test:3:"][..]), "{report}");
}

#[test]
fn loops_of_a_function_that_is_called_again_keep_their_code() {
    let source = "local function f(s)
            for i = 1, 1000 do s = s + i end
            for i = 1, 1000 do s = s - 1 end
            return s
        end
        return tostring(f(f(0)))";
    let (result, report) = run_chunk(source);
    // The first one alone, and both, once: the second call runs what the first one has made.
    let sizes: Vec<&str> = report.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!((result.as_str(), sizes.as_slice()), ("999000", &["2", "4"][..]), "{report}");
}

#[test]
fn loops_of_one_loop_are_compiled_together() {
    let source = "local s = 0
        for i = 1, 40 do
            for j = 1, 500 do s = s + i end
            for j = 1, 500 do s = s - j end
        end
        return s";
    let (result, report) = run(source);
    assert_eq!(result, "-4600000", "{report}");
    // The first one alone, and both: they may come in turn.
    let sizes: Vec<&str> = report.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!(sizes, ["2", "4"], "{report}");
}

#[test]
fn functions_that_loops_call_are_compiled_with_them() {
    let source = "local function f(x) return x + 1 end local s = 0 for i = 1, 1000 do s = f(s) end return s";
    let (result, report) = run(source);
    assert_eq!((result.as_str(), compiled(&report)), ("1000", 2), "{report}");
    assert!(report.contains("test:1: the function"), "{report}");
}

#[test]
fn functions_without_loops_are_hot_by_their_calls() {
    let source =
        "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end return fib(20)";
    let (result, report) = run(source);
    assert_eq!((result.as_str(), compiled(&report)), ("6765", 1), "{report}");
}

#[test]
fn code_that_meets_something_else_too_often_is_given_up_and_made_anew() {
    // Integers first, floats later: the second code takes floats.
    let source = "local function sum(t) local s = 0 for i = 1, 50 do s = s + t[i] end return s end
        local ints, floats = {}, {}
        for i = 1, 50 do ints[i] = i floats[i] = i / 2 end
        local s = 0
        for _ = 1, 40 do s = s + sum(ints) end
        for _ = 1, 2000 do s = s + sum(floats) end
        return s";
    let (result, report) = run(source);
    assert_eq!(result, "1326000.0");
    let of_sum = report.lines().filter(|l| l.starts_with("test:1:") && l.contains(" bytes in ")).count();
    assert!((2..=4).contains(&of_sum), "{report}");
}

#[test]
fn a_way_that_had_not_been_recorded_is_like_others_once_it_is() {
    // A third of the elements take the second branch: from the twentieth round on, or from the beginning.
    let sizes = ["0", "i % 3 == 1 and 1 or 0"].map(|first| {
        let source = format!(
            "local t, u = {{}}, {{}}
            for i = 1, 300 do t[i] = {first} u[i] = i end
            local function sum(t, u)
                local s = 0
                for i = 1, #t do
                    if t[i] == 1 then s = s + u[i] end
                end
                return s
            end
            local s = 0
            for round = 1, 60 do
                if round == 20 then for i = 1, 300, 3 do t[i] = 1 end end
                s = s + sum(t, u)
            end
            return s"
        );
        let (result, report) = run(&source);
        assert_eq!(result, if first == "0" { "612950" } else { "897000" }, "{report}");
        let of_sum =
            report.lines().filter(|line| line.contains(": the function") && line.contains(" bytes in "));
        let size = |line: &str| line.split(": ").last()?.split(' ').next()?.parse::<usize>().ok();
        of_sum.filter_map(size).next_back().unwrap_or_else(|| panic!("{report}"))
    });
    // What is hardly ever recorded is built to be hardly ever run; done slowly it would be two fifths more.
    assert!(sizes[0] * 5 < sizes[1] * 6, "{sizes:?}");
}

#[test]
fn a_loop_that_ends_before_it_comes_round_is_no_trouble() {
    let source = "local n = 0
        for i = 1, 400 do
            for k, v in pairs(i % 100 == 99 and {1, 2, 3} or {}) do n = n + v end
            while i > 380 do n = n + 1 break end
        end
        return n";
    assert_eq!(run(source).0, "44");
}

#[test]
fn a_program_ends_when_it_is_interrupted_in_a_compiled_loop() {
    let specializer =
        perilune_spesh::specializer("blocking:10:300", perilune_spesh::Setup::default).unwrap().unwrap();
    let mut vm = Vm::new();
    vm.set_specializer(specializer);
    let handle = vm.interrupt_handle();
    let chunk =
        vm.load(b"local i = 0 while true do i = i + 1 end", b"=test", LoadMode::Text, None).expect("a chunk");
    let raiser = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        handle.raise();
    });
    let error = vm.host_call(chunk.into(), &[]).expect_err("it does not end by itself");
    raiser.join().unwrap();
    assert!(error.as_string().is_some_and(|s| s.to_text().contains("interrupted!")));
}

#[test]
fn modes_that_there_are_not_are_named() {
    for mode in ["on", "blocking:", "blocking:x", "blocking:1:2:3", "step:1"] {
        let error = perilune_spesh::specializer(mode, perilune_spesh::Setup::default).expect_err(mode);
        assert!(error.contains(mode) && error.contains("'blocking'"), "{error}");
    }
}

#[test]
fn a_compiling_thread_serves_all_domains_and_rests_with_them() {
    let folder = Folder::new();
    let report = File::create(folder.join("report")).unwrap();
    let specializer = perilune_spesh::specializer("auto", || logged(report)).unwrap().unwrap();
    let mut domains: Vec<_> = (0..2)
        .map(|_| {
            let mut vm = Vm::new();
            perilune_stdlib::open_libs(&mut vm).unwrap();
            vm.set_specializer(specializer.clone());
            vm
        })
        .collect();
    // Runs until the function is compiled, and a good deal more; a machine that is busy takes longer.
    let source = "local function f(n) local s = 0 for i = 1, n do s = s + i % 7 end return s end
        local s, t = 0, os.clock()
        repeat s = f(100000) until os.clock() - t > 0.5
        return tostring(s)";
    for vm in &mut domains {
        let chunk = vm.load(source.as_bytes(), b"=test", LoadMode::Text, None).expect("a chunk");
        assert_eq!(vm.host_call(chunk.into(), &[]).expect("no error"), 1);
        assert_eq!(vm.stack_get(vm.nargs()).as_string().expect("a string").to_text(), "300000");
    }
    let report = folder.text("report");
    assert!(compiled(&report) > 0, "{report}");
}
