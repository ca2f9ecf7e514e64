//! Whatever the bytes, parsing ends, soon, in a sound tree or in an error; it never panics.
//!
//! Four kinds of input: any bytes; bytes that mean something to the lexer; sequences of tokens; and a program
//! that uses all of the syntax, with a few edits. `PROPTEST_CASES` asks for more of them.

use perilune_syntax::ast::*;
use perilune_syntax::{Bounds, compile_within, parse};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::time::{Duration, Instant};
use tokens::TOKENS;

#[path = "../../perilune-fuzzer/src/tokens.rs"]
mod tokens;

const PROGRAM: &str = r##"local a <const>, b, c <close> = 0x1p4, .5e-3, nil -- comment
local function fact(n, ...) if n <= 1 then return 1, ... elseif not n then return else return n * fact(n - 1) end end
function a.b.c:d(x, y, ...) self[x], y = y, self.z; return (...) end
for i = 1, 10, -2 do if i == 3 then break end ::top:: goto top end
for k, v in pairs{1, 2; x = "\x41\u{7FFFFFFF}\z
   \065\n", ["y"] = 'it\'s', [[long
]], [==[ ]] ]==]} do print(k, v) end
while a and b or c do local _ENV = {}; x = y end
repeat local z = #a .. b .. -2 ^ 3 // 4 % 5 & 6 | 7 ~ 8 << 9 >> 10 until z ~= ~b and a < b or a >= c
do ; ; f"s" { } [1] :m() . n = function(...) return ... end end
--[[ long
comment ]] return a, b, not c, 0xffffffffffffffffff, 1e400, true, false
"##;

fn bytes_of_the_lexer() -> impl Strategy<Value = Vec<u8>> {
    let meaningful = b"abefnpuxz019.'\"\\[]=-~<>/:\n\r \t{}()\0#\xff";
    vec(prop_oneof![9 => select(meaningful.to_vec()), 1 => any::<u8>()], 0..80)
}

fn token_soup() -> impl Strategy<Value = Vec<u8>> {
    vec(select(TOKENS), 0..60).prop_map(|tokens| tokens.join(" ").into_bytes())
}

fn edited_program() -> impl Strategy<Value = Vec<u8>> {
    let edit = (any::<Index>(), 0..5u8, any::<Index>(), 0..30usize, select(TOKENS), any::<u8>());
    vec(edit, 1..6).prop_map(|edits| {
        let mut source = PROGRAM.as_bytes().to_vec();
        for (at, kind, other, length, token, byte) in edits {
            let at = at.index(source.len() + 1);
            let end = (at + length).min(source.len());
            match kind {
                0 => drop(source.drain(at..end)),
                1 => drop(source.splice(at..at, token.bytes())),
                2 => source.insert(at, byte),
                3 => {
                    let from = other.index(source.len() + 1);
                    let piece = source[from..(from + length).min(source.len())].to_vec();
                    source.splice(at..at, piece);
                }
                _ => source.truncate(at.max(1)),
            }
        }
        source
    })
}

/// Parses, and checks that what comes out refers only to what is there.
fn check(source: &[u8]) {
    let chunk = match parse(source, b"=s") {
        Ok(chunk) => chunk,
        Err(error) => {
            let placed = error.message.starts_with(b"s:") || error.message == b"C stack overflow";
            assert!(placed, "{error}");
            assert_eq!(error.incomplete, error.message.ends_with(b"near <eof>"), "{error}");
            return;
        }
    };
    let last_line = 1 + source.iter().filter(|&&b| b == b'\n' || b == b'\r').count() as u32;
    assert_eq!(chunk.lines.len(), chunk.exprs.len());
    assert!(chunk.lines.iter().all(|&line| (1..=last_line).contains(&line)));
    assert_eq!((chunk.locals[LocalId(0)].function, chunk.functions[0].line), (FuncId(u32::MAX), 0));
    for (i, expr) in chunk.exprs.iter().enumerate() {
        // A node is made after its parts.
        let part = |id: ExprId| assert!(id.index() < i);
        let text = |id: StrId| assert!(id.index() < chunk.strings.len());
        match expr {
            Expr::Nil | Expr::True | Expr::False | Expr::Vararg | Expr::Integer(_) | Expr::Float(_) => {}
            Expr::String(id) => text(*id),
            Expr::Function(id) => assert!((1..chunk.functions.len()).contains(&id.index())),
            Expr::Local(id) => assert!(id.index() < chunk.locals.iter().count()),
            Expr::Global { env, name } => {
                assert!(env.index() < chunk.locals.iter().count());
                text(*name);
            }
            Expr::Dot { obj, name } => {
                part(*obj);
                text(*name);
            }
            Expr::Unary { operand: a, .. } | Expr::Paren(a) => part(*a),
            Expr::Index { obj: a, key: b }
            | Expr::Binary { lhs: a, rhs: b, .. }
            | Expr::And { lhs: a, rhs: b }
            | Expr::Or { lhs: a, rhs: b } => {
                part(*a);
                part(*b);
            }
            Expr::Call { func, args } => {
                part(*func);
                chunk.list(*args).iter().copied().for_each(part);
            }
            Expr::MethodCall { obj, name, args } => {
                part(*obj);
                text(*name);
                chunk.list(*args).iter().copied().for_each(part);
            }
            Expr::Table { fields } => chunk.table_fields(*fields).iter().for_each(|field| match field {
                Field::Item(value) => part(*value),
                Field::Pair { key, value } => {
                    part(*key);
                    part(*value);
                }
            }),
        }
    }
    for function in &chunk.functions[1..] {
        assert!(1 <= function.line && function.line <= function.end_line && function.end_line <= last_line);
        assert!(function.params.len() <= 200);
    }
}

#[test]
fn the_program_is_accepted() {
    assert_eq!(parse(PROGRAM.as_bytes(), b"=s").map(drop), Ok(()));
    check(PROGRAM.as_bytes());
}

#[test]
fn every_prefix_of_the_program_ends_well() {
    for end in 0..PROGRAM.len() {
        check(&PROGRAM.as_bytes()[..end]);
    }
}

fn config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").map_or(3000, |cases| cases.parse().unwrap());
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes(source in vec(any::<u8>(), 0..200)) {
        check(&source);
    }

    #[test]
    fn meaningful_bytes(source in bytes_of_the_lexer()) {
        check(&source);
    }

    #[test]
    fn tokens(source in token_soup()) {
        check(&source);
    }

    #[test]
    fn edits(source in edited_program()) {
        check(&source);
    }
}

/// A megabyte of one thing takes a fraction of a second. Anything quadratic would take minutes.
#[test]
fn time_is_linear_in_the_source() {
    let numbered = |before: &str, after: &str| -> String {
        (0..100_000).map(|i| format!("{before}{i}{after}")).collect()
    };
    let repeated = |piece: &str| piece.repeat((1 << 20) / piece.len());
    let mut sources: Vec<String> = vec![
        numbered("::l", ":: "),
        numbered("x", "=1 "),
        numbered("do local v", " end "),
        numbered("goto g", " "),
        numbered("do ::l:: x=", " end "),
        format!("x={{{}}}", numbered("k", "=1,")),
        format!("x='{}'", repeated("\\u{7fffffff}\\z \\065")),
        format!("x=[==[{}", repeated("]=")),
        format!("x=[==[{}]==]", repeated("]====[")),
        format!("--[==[{}", repeated("]=")),
        format!("x={}", repeated("9")),
        format!("x=0x{}", repeated("f")),
        format!("x=0x.{}p99", repeated("0")),
        format!("x=.{}e-99", repeated("0")),
        format!("x='{}", repeated("a")),
        repeated("a"),
        repeated("["),
        repeated("=["),
        repeated("[="),
        repeated("("),
        repeated("{"),
        repeated("-"),
        repeated("- "),
        repeated("\n\r"),
        repeated("local function f() end "),
        repeated("::"),
    ];
    for opening in ["local a; a", "x=a", "f(a", "return a"] {
        for piece in [",a", "+a", ".a", "[a]", "()", "'s'", ":m()", "..a", " or a"] {
            sources.push(format!("{opening}{}", repeated(piece)));
        }
    }
    for source in sources {
        let start = Instant::now();
        check(source.as_bytes());
        let spent = start.elapsed();
        assert!(spent < Duration::from_secs(300), "{spent:?} for {:?}...", &source[..20]);
    }
}

#[test]
fn bounds_end_a_compilation() {
    let result = |source: &str, interrupted: bool, memory: usize| {
        let bounds = Bounds { interrupted: &|| interrupted, memory, has_room: &|_| true };
        compile_within(source.as_bytes(), b"=s", bounds).map(drop).map_err(|e| e.to_string())
    };
    for source in ["x = 1 ".repeat(10_000), format!("return {{{}}}", "1, ".repeat(10_000))] {
        assert_eq!(result(&source, false, 100 << 20), Ok(()));
        assert_eq!(result(&source, true, 100 << 20), Err("interrupted!".into()));
        assert_eq!(result(&source, false, 1 << 20), Err("not enough memory".into()));
    }
    // The system gives a mebibyte, and no more.
    let source = "x = 1 ".repeat(10_000);
    let bounds = Bounds { has_room: &|bytes| bytes <= 1 << 20, ..Bounds::NONE };
    let refused = compile_within(source.as_bytes(), b"=s", bounds).unwrap_err();
    assert_eq!(refused.to_string(), "not enough memory");
    assert!(compile_within(&source.as_bytes()[..6000], b"=s", bounds).is_ok());
    // What is short needs no bounds.
    assert_eq!(result("return 1", true, 0), Ok(()));
    // The tree may be there when the interrupt comes.
    let looks = std::cell::Cell::new(0);
    let source = ";x = 1".repeat(10_000);
    let count = |_: ()| looks.set(looks.get() + 1);
    let never = || {
        count(());
        false
    };
    compile_within(source.as_bytes(), b"=s", Bounds { interrupted: &never, ..Bounds::NONE }).unwrap();
    let all = looks.replace(0);
    let last = || {
        count(());
        looks.get() == all
    };
    let error = compile_within(source.as_bytes(), b"=s", Bounds { interrupted: &last, ..Bounds::NONE });
    assert_eq!((error.unwrap_err().to_string().as_str(), looks.get()), ("interrupted!", all));
}

/// A text in pieces of any size is the same text: the same code, or the same error, with no more pieces than
/// it takes.
#[test]
fn pieces_are_the_whole() {
    use perilune_syntax::{Bounds, Source, compile, compile_from, dump::dump};
    let long = format!("local t = {{{}}} return t", "'a\\\n\\z  b', [==[x\n]=]]==], 0x1p-3, ".repeat(200));
    let texts = [
        "local a <const>, b = 1, 'x\\u{7a}y' return function(...) return a, b, ... end -- end\n",
        "--[==[\r\n]]]=]]==] return [[\n]]]] .. [=[]]=], 1 .. 2, ~1 ~= 2 // 3 << 4",
        "for i = 1, 2 do goto l ::l:: end x",
        "x = 'abc\\",
        "x = \"\\x4",
        "x = [===",
        &long,
    ];
    for text in texts {
        let whole = compile(text.as_bytes(), b"=x");
        for size in [1, 2, 3, 5, 64, 4096] {
            let mut pieces = text.as_bytes().chunks(size);
            let first = pieces.next().unwrap_or_default().to_vec();
            let mut more = |text: &mut Vec<u8>| match pieces.next() {
                Some(piece) => {
                    text.extend_from_slice(piece);
                    true
                }
                None => false,
            };
            let found = compile_from(Source::Pieces(first, &mut more), b"=x", Bounds::NONE);
            match (&whole, &found) {
                (Ok(whole), Ok(found)) => assert_eq!(dump(whole, false), dump(found, false), "{text} {size}"),
                (Err(whole), Err(found)) => assert_eq!(whole, found, "{text} {size}"),
                _ => panic!("{text} {size}: {found:?}"),
            }
        }
    }
}
