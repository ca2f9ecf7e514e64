//! Tests of the pure engines: tables of what PUC Lua 5.4 gives, and arbitrary bytes.

use super::float;
use super::format::quote;
use super::matcher::{Capture, Matcher};
use super::packing::{self, FormatError, Item, Kind, Reader};
use super::pattern::{Form, MAX_CAPTURES, One, Op, Pattern, PatternError, Start};
use super::spec::{Layout, Spec, flag};
use proptest::prelude::*;

type Found = Option<(usize, usize, String)>;

/// A match's range, and its captures joined by `|`, positions as `@n`.
fn search(subject: &str, pattern: &str) -> Result<Found, PatternError> {
    let pattern = Pattern::new(pattern.as_bytes(), true);
    let mut slots = [(0, 0); MAX_CAPTURES];
    let mut matcher = Matcher::new(&pattern, subject.as_bytes(), &mut slots, None);
    let Some((start, end)) = matcher.search(0, None)? else { return Ok(None) };
    let mut captures = Vec::new();
    for i in 0..matcher.count() as usize {
        captures.push(match matcher.capture(i, start, end)? {
            Capture::Text(a, b) => subject[a..b].to_string(),
            Capture::Position(at) => format!("@{}", at + 1),
        });
    }
    Ok(Some((start, end, captures.join("|"))))
}

#[rustfmt::skip]
#[allow(clippy::type_complexity)]
const MATCHES: &[(&str, &str, Option<(usize, usize, &str)>)] = &[
    ("hello world", "o w", Some((4, 7, "o w"))),
    ("hello", "l+", Some((2, 4, "ll"))),
    ("hello", "(l)(l)", Some((2, 4, "l|l"))),
    ("key = value", "(%w+)%s*=%s*(%w+)", Some((0, 11, "key|value"))),
    ("  trim  ", "^%s*(.-)%s*$", Some((0, 8, "trim"))),
    ("abc", "()b()", Some((1, 2, "@2|@3"))),
    ("f(a(b)c)d", "%b()", Some((1, 8, "(a(b)c)"))),
    ("THE (quick) fox", "%f[%a]%a+%f[%A]", Some((0, 3, "THE"))),
    ("aXb", "%u", Some((1, 2, "X"))),
    ("x=1,y=2", "(%a)=(%d),%1", None),
    ("abab", "(ab)%1", Some((0, 4, "ab"))),
    ("]]]", "[]]+", Some((0, 3, "]]]"))),
    ("a-z", "[a%-z]+", Some((0, 3, "a-z"))),
    ("a.b", "%.", Some((1, 2, "."))),
    ("abc", "[^%w]", None),
    ("aaa", "a-$", Some((0, 3, "aaa"))),
    ("aaab", "a-b", Some((0, 4, "aaab"))),
    ("aaa", "^(a?)(a?)(a?)(a?)$", Some((0, 3, "a|a|a|"))),
    ("", "^$", Some((0, 0, ""))),
    ("\x00a\x00", "%z+", Some((0, 1, "\x00"))),
    ("a$b", "$b", Some((1, 3, "$b"))),
    ("ab\n", ".", Some((0, 1, "a"))),
    ("x", "x*$", Some((0, 1, "x"))),
    ("2024-01-15", "(%d+)-(%d+)-(%d+)", Some((0, 10, "2024|01|15"))),
    ("aab", ".-b", Some((0, 3, "aab"))),
    ("foo.bar.baz", "^(.*)%.(.-)$", Some((0, 11, "foo.bar|baz"))),
    ("abc", "(a)(b)(c)(d?)", Some((0, 3, "a|b|c|"))),
    ("a", "[%a-z]", Some((0, 1, "a"))),
    ("-", "[%a-z]", Some((0, 1, "-"))),
];

#[test]
fn matches() {
    for &(subject, pattern, expected) in MATCHES {
        let expected = expected.map(|(a, b, captures)| (a, b, captures.to_string()));
        assert_eq!(search(subject, pattern), Ok(expected), "{subject:?} {pattern:?}");
    }
}

#[rustfmt::skip]
const PATTERN_ERRORS: &[(&str, &str)] = &[
    ("%", "malformed pattern (ends with '%')"),
    ("[a", "malformed pattern (missing ']')"),
    ("[]", "malformed pattern (missing ']')"),
    ("[^]", "malformed pattern (missing ']')"),
    ("[%", "malformed pattern (missing ']')"),
    ("%1", "invalid capture index %1"),
    ("(%1)", "invalid capture index %1"),
    ("%f", "missing '[' after '%f' in pattern"),
    ("%fa", "missing '[' after '%f' in pattern"),
    ("%b", "malformed pattern (missing arguments to '%b')"),
    ("%bx", "malformed pattern (missing arguments to '%b')"),
    ("(a)%2", "invalid capture index %2"),
    ("%0", "invalid capture index %0"),
    ("(a", "unfinished capture"),
    (".a)", "invalid pattern capture"),
];

#[test]
fn pattern_errors() {
    let expect = |pattern: &str, message: &str| {
        let outcome = search(&"a".repeat(300), pattern);
        assert_eq!(outcome.map_err(|e| e.to_string()), Err(message.to_string()), "{pattern:?}");
    };
    for (pattern, message) in PATTERN_ERRORS {
        expect(pattern, message);
    }
    expect(&"()".repeat(33), "too many captures");
    expect(&"a?".repeat(201), "pattern too complex");
    expect(&".-b?".repeat(201), "pattern too complex");
    assert!(search(&"a".repeat(300), &"a?".repeat(199)).is_ok());
}

#[test]
fn malformed_items_are_errors_only_when_reached() {
    for pattern in ["x[", "x%", "x)", "x%1", "x%f"] {
        assert_eq!(search("abc", pattern), Ok(None));
        assert!(search("abx", pattern).is_err());
    }
}

#[test]
fn disjoint_repetitions_are_possessive() {
    let ops = |text: &str| Pattern::new(text.as_bytes(), true).ops;
    assert!(matches!(ops("%a*=")[0], Op::StarAll(_)));
    assert!(matches!(ops("%a+%a")[0], Op::Plus(_)));
    assert!(matches!(ops("%a+%d*x")[0], Op::Plus(_)));
    assert!(matches!(ops("%a+%d*_")[0], Op::PlusAll(_)));
    assert!(matches!(ops(".-$")[0], Op::StarAll(_)));
    assert!(matches!(ops(".-")[0], Op::Lazy(_)));
    assert!(matches!(ops("-?%d")[0], Op::OptAll(_)));
    assert!(matches!(ops("(a*)%1")[1], Op::Star(_)));
}

/// The matcher by the book: no compiling ahead, no shortcuts. `None`: an error.
fn naive(subject: &[u8], s: usize, ops: &[Op], pattern: &Pattern) -> Option<usize> {
    use super::pattern::One;
    let one = |one: One, s: usize| {
        subject.get(s).is_some_and(|&c| match one {
            One::Byte(b) => b == c,
            One::Not(b) => b != c,
            One::Any => true,
            One::Set(i) => pattern.sets[usize::from(i)].has(c),
        })
    };
    let Some((&op, rest)) = ops.split_first() else { return Some(s) };
    let next = |s| naive(subject, s, rest, pattern);
    match op {
        Op::Byte(b) => one(One::Byte(b), s).then(|| next(s + 1))?,
        Op::One(c) => one(c, s).then(|| next(s + 1))?,
        Op::Star(c) | Op::Plus(c) | Op::StarAll(c) | Op::PlusAll(c) => {
            let least = usize::from(matches!(op, Op::Plus(_) | Op::PlusAll(_)));
            let most = (s..).take_while(|&i| one(c, i)).count();
            (least..=most).rev().find_map(|n| next(s + n))
        }
        Op::Lazy(c) => {
            let most = (s..).take_while(|&i| one(c, i)).count();
            (0..=most).find_map(|n| next(s + n))
        }
        Op::Opt(c) | Op::OptAll(c) => one(c, s).then(|| next(s + 1)).flatten().or_else(|| next(s)),
        Op::SubjectEnd => (s == subject.len()).then(|| next(s))?,
        Op::Open(_) | Op::Close(_) | Op::Position(_) | Op::Match => next(s),
        _ => unreachable!("not generated"),
    }
}

#[rustfmt::skip]
const INTEGERS: &[(&str, i64, &str)] = &[
    ("%5d", 42, "   42"),
    ("%-5d|", 42, "42   |"),
    ("%05d", -42, "-0042"),
    ("%+d", 7, "+7"),
    ("% d", 7, " 7"),
    ("%.3d", 5, "005"),
    ("%8.3d", -5, "    -005"),
    ("%.0d", 0, ""),
    ("%x", 255, "ff"),
    ("%#x", 255, "0xff"),
    ("%#X", 255, "0XFF"),
    ("%#x", 0, "0"),
    ("%o", 8, "10"),
    ("%#o", 8, "010"),
    ("%#.3o", 8, "010"),
    ("%#o", 0, "0"),
    ("%u", -1, "18446744073709551615"),
    ("%x", -1, "ffffffffffffffff"),
    ("%d", i64::MIN, "-9223372036854775808"),
    ("%099d", 1, "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001"),
    ("%.99d", 1, "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000001"),
    ("%08.3d", 5, "     005"),
];

fn specification(text: &str) -> (Spec<'_>, &str) {
    let (spec, length) = Spec::scan(&text.as_bytes()[1..]).unwrap();
    (spec, &text[1 + length..])
}

#[test]
fn integers() {
    for &(format, value, expected) in INTEGERS {
        let (spec, rest) = specification(format);
        let flags = match spec.letter {
            b'd' => flag::SIGNED,
            b'u' => flag::UNSIGNED,
            _ => flag::BASED,
        };
        let mut out = Vec::new();
        spec.check(flags, true).unwrap().integer(value, spec.letter, &mut out);
        out.extend_from_slice(rest.as_bytes());
        assert_eq!(String::from_utf8_lossy(&out), expected, "{format}");
    }
}

#[rustfmt::skip]
#[allow(clippy::approx_constant, clippy::excessive_precision)]
const FLOATS: &[(&str, f64, &str)] = &[
    ("%f", 0.10000000000000001, "0.100000"),
    ("%.0f", 0.5, "0"),
    ("%.0f", 1.5, "2"),
    ("%.0f", 2.5, "2"),
    ("%#.0f", 3.0, "3."),
    ("%.1f", 0.25, "0.2"),
    ("%.2f", 2.6749999999999998, "2.67"),
    ("%.3f", -1.0000000000000001e-09, "-0.000"),
    ("%.14f", 3.1415926535897931, "3.14159265358979"),
    ("%.20f", 0.10000000000000001, "0.10000000000000000555"),
    ("%.2f", 1000000000000000.0, "1000000000000000.00"),
    ("%.1f", 1.0000000000000001e+300, "1000000000000000052504760255204420248704468581108159154915854115511802457988908195786371375080447864043704443832883878176942523235360430575644792184786706982848387200926575803737830233794788090059368953234970799945081119038967640880074652742780142494579258788820056842838115669472196386865459400540160.0"),
    ("%10.3f|", 3.1415926535897931, "     3.142|"),
    ("%-10.3f|", 3.1415926535897931, "3.142     |"),
    ("%+010.3f", 3.1415926535897931, "+00003.142"),
    ("%e", 12345.678, "1.234568e+04"),
    ("%.0e", 12345.678, "1e+04"),
    ("%#.0e", 12345.678, "1.e+04"),
    ("%E", 1e-300, "1.000000E-300"),
    ("%.3e", 0.0, "0.000e+00"),
    ("%g", 100000.0, "100000"),
    ("%g", 1000000.0, "1e+06"),
    ("%g", 0.0001, "0.0001"),
    ("%g", 1.0000000000000001e-05, "1e-05"),
    ("%#g", 1.5, "1.50000"),
    ("%.3g", 1234567.0, "1.23e+06"),
    ("%.14g", 0.10000000000000001, "0.1"),
    ("%.17g", 0.10000000000000001, "0.10000000000000001"),
    ("%G", 1e-10, "1E-10"),
    ("%.0g", 1.5, "2"),
    ("%g", -0.0, "-0"),
    ("%a", 1.0, "0x1p+0"),
    ("%a", 0.10000000000000001, "0x1.999999999999ap-4"),
    ("%.0a", 1.5, "0x2p+0"),
    ("%.2a", 1.9990000000000001, "0x2.00p+0"),
    ("%A", 255.5, "0X1.FFP+7"),
    ("%a", 4.9406564584124654e-324, "0x0.0000000000001p-1022"),
    ("%020a", 1.5, "0x0000000000001.8p+0"),
    ("%a", 0.0, "0x0p+0"),
    ("%f", f64::INFINITY, "inf"),
    ("%010f", -f64::INFINITY, "      -inf"),
    ("%e", -f64::NAN, "-nan"),
    ("%G", f64::INFINITY, "INF"),
    ("%5.1f", f64::NAN, "  nan"),
    ("%.3f", 4.9406564584124654e-324, "0.000"),
    ("%.5f", 4503599627370498.0, "4503599627370498.00000"),
    ("%.99f", 0.33333333333333331, "0.333333333333333314829616256247390992939472198486328125000000000000000000000000000000000000000000000"),
];

#[test]
fn floats() {
    for &(format, value, expected) in FLOATS {
        let (spec, rest) = specification(format);
        let mut out = Vec::new();
        float::format(&spec.check(flag::FLOAT, true).unwrap(), value, spec.letter, &mut out);
        out.extend_from_slice(rest.as_bytes());
        assert_eq!(String::from_utf8_lossy(&out), expected, "{format}");
    }
}

#[test]
fn specifications() {
    let ok = |text: &str, flags, precision| specification(text).0.check(flags, precision).is_some();
    assert!(ok("%-+ 05.10d", flag::SIGNED, true));
    assert!(!ok("%#d", flag::SIGNED, true));
    assert!(!ok("%123d", flag::SIGNED, true));
    assert!(!ok("%.123d", flag::SIGNED, true));
    assert!(!ok("%1.2c", flag::TEXT, false));
    assert!(!ok("%-05s", flag::TEXT, true));
    assert!(Spec::scan(b"00000000000000000000d").is_ok());
    assert!(Spec::scan(b"000000000000000000000d").is_err());
}

#[test]
fn quoting() {
    let quoted = |text: &[u8]| {
        let mut out = Vec::new();
        quote(text, &mut out);
        out
    };
    assert_eq!(quoted(b"a\n\x001\r\xc8\"\\\x7f"), b"\"a\\\n\\0001\\13\xc8\\\"\\\\\\127\"");
    let float = |f| {
        let mut out = Vec::new();
        float::quote(f, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(float(f64::INFINITY), "1e9999");
    assert_eq!(float(f64::NEG_INFINITY), "-1e9999");
    assert_eq!(float(f64::NAN), "(0/0)");
    assert_eq!(float(-0.5), "-0x1p-1");
}

fn items(format: &str) -> Result<Vec<Item>, FormatError> {
    let mut reader = Reader::new(format.as_bytes());
    let (mut offset, mut items) = (0, Vec::new());
    while let Some(item) = reader.next(offset)? {
        offset += item.size + item.padding;
        items.push(item);
    }
    Ok(items)
}

#[test]
fn packing_formats() {
    let item = |kind, size, padding| Item { kind, size, padding };
    assert_eq!(
        items("!4 b i8 Xi3i16"),
        Err(FormatError::Alignment),
        "an alignment of 3 applies under a maximum of 4"
    );
    assert_eq!(
        items("!bi8c3"),
        Ok(vec![
            item(Kind::Nothing, 0, 0),
            item(Kind::Signed, 1, 0),
            item(Kind::Signed, 8, 7),
            item(Kind::Fixed, 3, 0)
        ])
    );
    assert_eq!(items("b!8Xd").map(|i| i[2]), Ok(item(Kind::Align, 0, 7)));
    assert_eq!(items("i17"), Err(FormatError::Size(17)));
    assert_eq!(items("s0"), Err(FormatError::Size(0)));
    assert_eq!(items("c"), Err(FormatError::MissingSize));
    assert_eq!(items("X"), Err(FormatError::AfterX));
    assert_eq!(items("Xc1"), Err(FormatError::AfterX));
    assert_eq!(items("y"), Err(FormatError::Option(b'y')));
    assert_eq!(items("i4\0y").map(|i| i.len()), Ok(1));
    assert_eq!(items("c2147483639").map(|i| i[0].size), Ok(2147483639));
    assert_eq!(items("c21474836480"), Err(FormatError::Option(b'8')));
}

#[test]
fn packed_integers() {
    let bytes = |value: i64, size, little| {
        let mut out = Vec::new();
        packing::put_integer(value as u64, size, little, value < 0, &mut out);
        out
    };
    assert_eq!(bytes(0x0102, 2, true), [2, 1]);
    assert_eq!(bytes(0x0102, 3, false), [0, 1, 2]);
    assert_eq!(bytes(-2, 10, true), [0xfe, 255, 255, 255, 255, 255, 255, 255, 255, 255]);
    assert!(packing::fits(127, 1, true) && !packing::fits(128, 1, true) && packing::fits(-128, 1, true));
    assert!(packing::fits(255, 1, false) && !packing::fits(-1, 7, false) && packing::fits(-1, 8, false));
    assert_eq!(packing::get_integer(&[0xff, 0xff], true, true), Some(-1));
    assert_eq!(packing::get_integer(&[0xff; 9], true, false), None);
    assert_eq!(packing::get_integer(&[0xff; 9], true, true), Some(-1));
}

/// A pattern of items that the reference matcher knows.
fn simple_pattern() -> impl Strategy<Value = String> {
    let class = prop::sample::select(vec!["a", "b", ".", "[ab]", "[^a]", "[^ab]", "%a", "%d", "%W"]);
    let suffix = prop::sample::select(vec!["", "", "*", "+", "-", "?"]);
    let item = (class, suffix, any::<bool>())
        .prop_map(|(c, s, capture)| if capture { format!("({c}{s})") } else { format!("{c}{s}") });
    (prop::collection::vec(item, 0..6), any::<bool>())
        .prop_map(|(items, end)| items.concat() + if end { "$" } else { "" })
}

proptest! {
    #[test]
    fn shortcuts_change_nothing(text in simple_pattern(), subject in "[ab1 ]{0,12}") {
        let pattern = Pattern::new(text.as_bytes(), true);
        let subject = subject.as_bytes();
        let written = Pattern::translate(text.as_bytes(), true);
        let expected =
            (0..=subject.len()).find_map(|s| Some((s, naive(subject, s, &written.ops, &written)?)));
        prop_assert_eq!(
            Matcher::new(&pattern, subject, &mut [(0, 0); MAX_CAPTURES], None).search(0, None),
            Ok(expected)
        );
    }

    /// All matches of a subject, with their captures, as `gmatch` takes them.
    #[test]
    fn forms_change_nothing(text in simple_pattern(), subject in "[ab1 ]{0,16}") {
        let all = |pattern: &Pattern| {
            let mut slots = [(0, 0); MAX_CAPTURES];
            let mut matcher = Matcher::new(pattern, subject.as_bytes(), &mut slots, None);
            let (mut at, mut last, mut found) = (0, None, Vec::new());
            while let Ok(Some((start, end))) = matcher.search(at, last) {
                found.push(
                    (0..pattern.captures).map(|i| matcher.capture(i.into(), start, end)).collect::<Vec<_>>()
                );
                found.push(vec![Ok(Capture::Text(start, end))]);
                (at, last) = (end, Some(end));
            }
            found
        };
        let pattern = Pattern::new(text.as_bytes(), false);
        let mut unknown = Pattern::new(text.as_bytes(), false);
        unknown.form = Form::Any;
        prop_assert_eq!(all(&pattern), all(&unknown));
    }

    #[test]
    fn any_pattern_is_safe(
        pattern in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(b"()[]%-+*?^$.fb1".to_vec())],
            0..24
        ),
        subject in prop::collection::vec(
            prop_oneof![any::<u8>(), prop::sample::select(b"(ab)".to_vec())],
            0..24
        ),
    ) {
        let pattern = Pattern::new(&pattern, true);
        let mut slots = [(0, 0); MAX_CAPTURES];
        let mut matcher = Matcher::new(&pattern, &subject, &mut slots, None);
        let (mut at, mut last) = (0, None);
        while let Ok(Some((start, end))) = matcher.search(at, last) {
            prop_assert!(at <= start && start <= end && end <= subject.len());
            for i in 0..=usize::from(pattern.captures) {
                if let Ok(Capture::Text(a, b)) = matcher.capture(i, start, end) {
                    prop_assert!(start <= a && a <= b && b <= end);
                }
            }
            (at, last) = (end, Some(end));
            if pattern.anchored {
                break;
            }
        }
    }

    #[test]
    fn fixed_is_exact(value in prop_oneof![any::<f64>(), -1e9..1e9f64], precision in 0usize..25) {
        prop_assume!(value.is_finite());
        let mut out = Vec::new();
        let layout = Layout { precision: Some(precision as u8), ..Layout::default() };
        float::format(&layout, value, b'f', &mut out);
        prop_assert_eq!(String::from_utf8_lossy(&out), format!("{value:.precision$}"));
    }

    #[test]
    fn scientific_is_exact(
        value in prop_oneof![
            any::<f64>(),
            0.0..1e9f64,
            (0u32..40, -20i32..20).prop_map(|(m, e)| f64::from(m) / 8.0 * 10f64.powi(e))
        ],
        precision in 0usize..40
    ) {
        prop_assume!(value.is_finite());
        let mut out = Vec::new();
        let layout = Layout { precision: Some(precision as u8), ..Layout::default() };
        float::format(&layout, value, b'e', &mut out);
        let out = String::from_utf8_lossy(&out);
        let expected = format!("{value:.precision$e}");
        let (digits, exponent) = out.split_once('e').unwrap();
        let (expected_digits, expected_exponent) = expected.split_once('e').unwrap();
        prop_assert_eq!(digits, expected_digits);
        prop_assert_eq!(exponent.parse::<i32>(), expected_exponent.parse());
    }

    #[test]
    fn hexadecimal_reads_back(bits in any::<u64>()) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        let mut out = Vec::new();
        float::quote(value, &mut out);
        let read = perilune_syntax::numeral::parse_number(&out);
        prop_assert_eq!(read, Some(perilune_syntax::numeral::Number::Float(value)));
    }

    #[test]
    fn integers_read_back(
        value in any::<i64>(), size in 1usize..=16, little in any::<bool>(), signed in any::<bool>()
    ) {
        prop_assume!(packing::fits(value, size, signed));
        let mut out = Vec::new();
        packing::put_integer(value as u64, size, little, signed && value < 0, &mut out);
        prop_assert_eq!(out.len(), size);
        prop_assert_eq!(packing::get_integer(&out, little, signed), Some(value));
    }

    #[test]
    fn any_packing_format_is_safe(format in "[bBhHlLjJTfdniIszcxX<>=! 0-9]{0,16}", offset in 0usize..100) {
        let mut reader = Reader::new(format.as_bytes());
        while let Ok(Some(item)) = reader.next(offset) {
            prop_assert!(item.padding < 16);
        }
    }
}

/// What is known of whole patterns.
#[test]
fn forms() {
    let form = |text: &str| Pattern::new(text.as_bytes(), true).form;
    assert!(matches!(form("%s+"), Form::Row(One::Set(_))));
    assert!(matches!(form("(a+)"), Form::Row(One::Byte(b'a'))));
    assert_eq!((form("[<>&]"), form("(%d)"), form("x")), (Form::Single, Form::Single, Form::Single));
    assert!(matches!(form("(%w+)@%w+"), Form::Leads(_)));
    assert!(matches!(form("()%w+%d"), Form::Leads(_)));
    assert!(matches!(form("[^:]*$"), Form::Leads(One::Not(b':'))));
    assert_eq!((form("a*b"), form(".-b")), (Form::Leads(One::Byte(b'a')), Form::Leads(One::Any)));
    for text in ["^%s+", "%s*", "(a+", "(%w+)=%1", "()a+()", ".-b", "a?", ".", "%f[%a]%a+", "a+)", "[a"] {
        let form = form(text);
        assert!(matches!(form, Form::Any | Form::Leads(_)), "{text}: {form:?}");
    }
    assert_eq!((form("(%w+)=%1"), form("^%s+x")), (Form::Any, Form::Any));
    let starts = |text: &str| Pattern::new(text.as_bytes(), true).start;
    assert_eq!(starts("[&<]x?"), Start::Two(b'&', b'<'));
    assert_eq!(starts("[<>&]"), Start::Three(b'&', b'<', b'>'));
    assert_eq!((starts("[a-d]"), starts("%W*")), (Start::Set, Start::Anywhere));
}

/// A hint at a cancellation that concerns another fiber ends no search, however often it comes.
#[test]
fn hints_for_others_end_no_search() {
    use perilune_vm::{INTERRUPT_CANCEL, LoadMode, Vm};
    use std::sync::atomic::{AtomicBool, Ordering};
    let mut vm = Vm::new();
    crate::open_libs(&mut vm).unwrap();
    let text = "local s, n = ('a'):rep(400), 0 return s:find('.-.-.-b'), (s:gsub('.-.-.-b', ''))";
    let f = vm.load(text.as_bytes(), b"=t", LoadMode::Text, None).unwrap();
    let (handle, done) = (vm.interrupt_handle(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                handle.raise_cause(INTERRUPT_CANCEL);
                std::thread::yield_now();
            }
        });
        let result = vm.host_call(f.into(), &[]);
        done.store(true, Ordering::Relaxed);
        assert_eq!(result.map_err(|e| format!("{:?}", e.as_string().map(|s| s.bytes().to_vec()))), Ok(2));
    });
}
