//! How deep syntax may nest, and what a level costs of the native stack.

use perilune_syntax::{SyntaxError, parse};

/// Parses on a stack of this many bytes; running over it would end the process.
fn parse_on(stack: usize, source: String) -> Result<(), SyntaxError> {
    std::thread::Builder::new()
        .stack_size(stack)
        .spawn(move || parse(source.as_bytes(), b"=s").map(drop))
        .unwrap()
        .join()
        .unwrap()
}

/// What comes before, opens, is inside of and closes the repetitions, and how many fit in 200 levels.
type Shape = (&'static str, &'static str, &'static str, &'static str, usize);

const SHAPES: &[Shape] = &[
    ("return ", "(", "2", ")", 198),
    ("return ", "{", "0", "}", 198),
    ("return ", "{[", "0", "]=1}", 198),
    ("return ", "{a=", "0", "}", 198),
    ("return ", "f(", "2", ")", 198),
    ("return ", "a:f(", "2", ")", 198),
    ("return ", "f{", "2", "}", 198),
    ("return ", "a[", "2", "]", 198),
    ("return ", "- ", "2", "", 198),
    ("return ", "not ", "2", "", 198),
    ("return ", "a..", "2", "", 198),
    ("return ", "a^", "2", "", 198),
    ("return ", "a+(", "2", ")", 99),
    ("", "do ", "", " end", 200),
    ("", "while a do ", "", " end", 199),
    ("", "repeat ", "", " until a", 199),
    ("", "for a=1,2 do ", "", " end", 50),
    ("", "for a in b do ", "", " end", 40),
    ("", "if a then ", "", " end", 199),
    ("", "if a then else ", "", " end", 199),
    ("", "function foo () ", "", " end", 200),
    ("", "function foo () for a in b do ", "", " end end", 99),
    ("", "local function foo () ", "", " end", 200),
    ("return ", "function () return ", "1", " end", 99),
    ("x=", "function () x=", "1", " end", 99),
    ("return ", "f(function () return ", "1", " end)", 66),
    ("return ", "{x=function () return ", "1", " end}", 66),
    ("local a; a", ",a", "= 1", ",1", 198),
];

#[test]
fn two_hundred_levels_fit_in_a_small_stack() {
    for &(before, open, middle, close, fitting) in SHAPES {
        let nested = |count| [before, &open.repeat(count), middle, &close.repeat(count)].concat();
        assert_eq!(parse_on(128 << 10, nested(fitting)), Ok(()), "{open}");
        for too_many in [fitting + 1, 5000] {
            let error = parse_on(128 << 10, nested(too_many)).expect_err(open);
            if open.starts_with("for") {
                assert!(error.to_string().contains("too many local variables"), "{error}");
            } else {
                assert_eq!(error.to_string(), "C stack overflow");
            }
            assert!(!error.incomplete);
        }
    }
}

/// What the parser reads in a loop may be as long as it likes.
#[test]
fn left_spines_are_not_nesting() {
    let many = 100_000;
    for (before, repeated, after) in [
        ("return a", "+a", ""),
        ("return a", " and a", ""),
        ("return a", ".b", ""),
        ("return a", "[1]", ""),
        ("return a", "()", ""),
        ("return a", ":b()", ""),
        ("return {", "1,", "}"),
        ("return ", "1,", "1"),
        ("f(", "1,", "1)"),
        ("if a then ", "elseif b then ", "end"),
        ("", ";", ""),
        ("", "x=1 ", ""),
        ("", "do end ", ""),
    ] {
        let source = [before, &repeated.repeat(many), after].concat();
        assert_eq!(parse_on(128 << 10, source), Ok(()), "{before}{repeated}{after}");
    }
}
