//! What the compiler makes, the verifier accepts.

use perilune_syntax::{SyntaxError, compile, verify::verify};

/// Compiles and verifies; the error is the compiler's.
fn check(source: &str) -> Result<(), SyntaxError> {
    let proto = compile(source.as_bytes(), b"=test")?;
    if let Err(what) = verify(&proto) {
        panic!("{what}\n{}", perilune_syntax::disasm::disassemble(&proto));
    }
    Ok(())
}

/// Every Lua file of a folder, given by the environment; for the reference implementation's suite and the
/// like.
#[test]
fn all_files_of_a_folder() {
    let Some(folder) = std::env::var_os("PERILUNE_LUA_FILES") else { return };
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("PERILUNE_LUA_FILES is a folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "lua") {
            continue;
        }
        let mut source = std::fs::read(&path).expect("a file");
        if source.first() == Some(&b'#') {
            source.splice(..2, *b"--");
        }
        let proto = compile(&source, b"=test").unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        verify(&proto).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        seen += 1;
    }
    assert!(seen > 0, "no Lua file in the folder");
}

#[test]
fn long_left_spines_need_no_native_stack() {
    let many = |head: &str, part: &str, tail: &str| format!("{head}{}{tail}", part.repeat(100_000));
    std::thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(move || {
            check(&many("return a", "+a", "")).unwrap();
            check(&many("return a", "-1", "")).unwrap();
            check(&many("return f", "()", "")).unwrap();
            check(&many("return a", ".b", "")).unwrap();
            check(&many("f", ":m{}", "")).unwrap();
            check(&many("local x = a", " or a", "")).unwrap();
            check(&many("local x = a", " and b or c", "")).unwrap();
            check(&many("if a", " < b == c or a", " then f() end")).unwrap();
        })
        .expect("a thread")
        .join()
        .expect("no overflow");
}

#[test]
fn registers_run_out_with_a_message() {
    let names: Vec<String> = (0..260).map(|i| format!("x{i}")).collect();
    let error = check(&format!("\nreturn f({})", names.join(","))).unwrap_err();
    assert_eq!(error.to_string(), "test:2: function or expression needs too many registers near 'x248'");
}

#[test]
fn upvalues_run_out_with_a_message() {
    let mut source = String::new();
    for f in 0..2 {
        let names: Vec<String> = (0..128).map(|i| format!("a{}", f * 128 + i)).collect();
        source += &format!("local {}\n{}", names.join(","), if f == 0 { "return function()\n" } else { "" });
    }
    source += "local function f()\n return 0";
    (0..256).for_each(|i| source += &format!(" + a{i}"));
    source += " end end";
    let error = check(&source).unwrap_err();
    assert_eq!(
        error.to_string(),
        "test:5: too many upvalues (limit is 255) in function at line 4 near 'end'"
    );
}

#[test]
fn jumps_to_nowhere() {
    let message = |source: &str| check(source).unwrap_err().to_string();
    assert_eq!(message("\nbreak"), "test:2: break outside loop at line 2");
    assert_eq!(message("goto x"), "test:1: no visible label 'x' for <goto> at line 1");
    assert_eq!(message("do ::x:: end goto x"), "test:1: no visible label 'x' for <goto> at line 1");
    assert_eq!(
        message("goto x; local function f() ::x:: end"),
        "test:1: no visible label 'x' for <goto> at line 1"
    );
    let entered = "test:3: <goto x> at line 1 jumps into the scope of local 'a'";
    assert_eq!(message("goto x\nlocal a\n::x:: a = 1"), entered);
    assert_eq!(message("goto x\nlocal a <const> = 1\n::x:: f()"), entered);
    assert_eq!(
        message("repeat if f() then goto x end; local a; ::x:: until a"),
        "test:1: <goto x> at line 1 jumps into the scope of local 'a'"
    );
    assert_eq!(check("goto x; local a; ::x:: ::y::"), Ok(()));
    assert_eq!(check("do goto x; local a end; ::x:: f()"), Ok(()));
    assert_eq!(check("while f() do if g() then goto continue end; local a; ::continue:: end"), Ok(()));
}
/// As deep as the parser lets things nest, on a stack much smaller than a thread's.
#[test]
fn nesting_to_the_parsers_limit_fits_a_small_stack() {
    const DEEP: usize = 190;
    let nested = |open: &str, middle: &str, close: &str, depth: usize| {
        format!("{}{middle}{}", open.repeat(depth), close.repeat(depth))
    };
    let sources = [
        format!("local x = {}", nested("(", "a", ")", DEEP)),
        format!("local x = {}", nested("{", "a", "}", DEEP)),
        format!("local x = {}", nested("f(", "a", ")", DEEP)),
        format!("local x = {}", nested("f(a, ", "a", ")", DEEP / 2)),
        format!("local x = {}", nested("a:m(", "a", ")", DEEP / 2)),
        format!("local x = {}", nested("f((", "a", "))", DEEP / 2)),
        format!("local x = {}", nested("a[", "1", "]", DEEP)),
        format!("local x = {}", nested("a + (b or ", "1", ")", DEEP / 4)),
        format!("local x = {}", nested("a .. ", "1", "", DEEP)),
        format!("local x = {}", nested("not ", "1", "", DEEP)),
        nested("do ", "f()", " end", DEEP),
        nested("while a do ", "f()", " end", DEEP),
        nested("repeat ", "f()", " until a", DEEP),
        nested("if a then ", "f()", " end", DEEP),
        nested("for i = 1, 2 do ", "f()", " end", DEEP / 4),
        nested("for i in f do ", "f()", " end", DEEP / 5),
        nested("function a() ", "f()", " end", DEEP),
        nested("return function() ", "return 1", " end", DEEP / 2),
        nested("f(function() ", "return 1", " end)", DEEP / 3),
    ];
    let compile_all = move || sources.iter().for_each(|source| check(source).expect(source));
    let thread = std::thread::Builder::new().stack_size(192 * 1024).spawn(compile_all).expect("a thread");
    thread.join().expect("no overflow");
}

/// Tokens, roughly: enough to exchange them.
fn pieces(source: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let end = match first {
            c if word(c) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        pieces.push(&rest[..end]);
        rest = &rest[end..];
    }
    pieces
}

/// Sources whose parts were dropped, doubled and exchanged: most are rejected, and the code of the rest is
/// sound.
#[test]
fn code_of_mutated_sources_is_sound() {
    let folder = std::env::var("PERILUNE_LUA_FILES")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden").to_string());
    let rounds: usize = std::env::var("PERILUNE_ROUNDS").map_or(300, |n| n.parse().expect("a number"));
    let mut state = 1u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % limit.max(1)
    };
    let mut accepted = 0;
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|e| e == "lua")) {
        let source = String::from_utf8_lossy(&std::fs::read(path).expect("a file")).into_owned();
        let lines: Vec<&str> = source.lines().collect();
        for _ in 0..rounds {
            // A window of lines, so that large files give small programs.
            let start = below(lines.len());
            let window = lines[start..(start + 1 + below(12)).min(lines.len())].join("\n");
            let mut parts = pieces(&window);
            for _ in 0..below(4) {
                let (at, other) = (below(parts.len()), below(parts.len()));
                match below(3) {
                    0 if !parts.is_empty() => _ = parts.remove(at),
                    1 if !parts.is_empty() => parts.insert(at, parts[other]),
                    _ if !parts.is_empty() => parts.swap(at, other),
                    _ => {}
                }
            }
            accepted += check(&parts.concat()).is_ok() as usize;
        }
    }
    assert!(accepted > rounds, "only {accepted} programs were accepted");
}

/// A return must close what may be open before it, on every path; a closure that survives its frame would
/// refer to somebody else's slot.
#[test]
fn a_return_that_leaves_variables_open_is_refused() {
    use perilune_syntax::{Instr, Op, bytecode::Format};
    let sources = [
        "local x = 1 return function() return x end",
        "local x <close> = nil return x",
        "local x = 1 local f = function() return x end return f()",
        "for k in next, {} do if k then return k end end",
        "local y while a do local x = 1 if x then y = function() return x end return y end end",
    ];
    for source in sources {
        let proto = compile(source.as_bytes(), b"=test").expect("compiles");
        let mut proto = std::sync::Arc::into_inner(proto).expect("nobody else has it");
        verify(&proto).expect("as compiled");
        let mut changed = 0;
        for i in proto.code.iter_mut() {
            let closes = matches!(i.op(), Some(Op::Return | Op::TailCall)) && i.d() == 1;
            if closes && i.op().map(Op::format) == Some(Format::Abcd) {
                *i = Instr(i.0 & 0xffff_ffff_ffff);
                changed += 1;
            }
        }
        assert!(changed > 0, "{source}: nothing closes");
        let refusal = verify(&proto).expect_err("leaves something open");
        assert!(refusal.contains("leaves variables open"), "{refusal}");
    }
}
