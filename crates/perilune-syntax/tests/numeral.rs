//! Numbers to text and back, against the standard library, and against what PUC Lua prints.

use perilune_syntax::numeral::*;
use proptest::prelude::*;

fn text(value: f64) -> String {
    let mut out = Vec::new();
    format_float(value, &mut out);
    String::from_utf8(out).unwrap()
}

fn read(s: &str) -> Option<Number> {
    parse_number(s.as_bytes())
}

/// `%.14g` the slow and obvious way.
fn general(value: f64) -> String {
    let scientific = format!("{value:.13e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    let cut = |s: &str| {
        if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.').to_owned() } else { s.to_owned() }
    };
    if !(-4..14).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", cut(mantissa), exponent.abs());
    }
    let fixed = cut(&format!("{value:.*}", (13 - exponent) as usize));
    if fixed.contains('.') { fixed } else { fixed + ".0" }
}

#[test]
fn floats_as_text() {
    let table: &[(f64, &str)] = &[
        (0.1, "0.1"),
        (1.0 / 3.0, "0.33333333333333"),
        (100.0, "100.0"),
        (1e14, "1e+14"),
        (1e15, "1e+15"),
        (123456789012345.0, "1.2345678901234e+14"),
        (99999999999999.0, "99999999999999.0"),
        (99999999999999.5, "1e+14"),
        (99999999999999.95, "1e+14"),
        (12345678901234.5, "12345678901234.0"),
        (-0.0, "-0.0"),
        (0.0, "0.0"),
        (f64::INFINITY, "inf"),
        (f64::NEG_INFINITY, "-inf"),
        (f64::NAN.copysign(-1.0), "-nan"),
        (f64::NAN.copysign(1.0), "nan"),
        (1e100, "1e+100"),
        (5e-324, "4.9406564584125e-324"),
        (2.2250738585072014e-308, "2.2250738585072e-308"),
        (f64::MAX, "1.7976931348623e+308"),
        (1e-4, "0.0001"),
        (1e-5, "1e-05"),
        (0.00012345678901234567, "0.00012345678901235"),
        (123456.789, "123456.789"),
        (std::f64::consts::PI, "3.1415926535898"),
        (9007199254740992.0, "9.007199254741e+15"),
        (9223372036854775808.0, "9.2233720368548e+18"),
        (1e16, "1e+16"),
        (1e-7, "1e-07"),
        (123e-7, "1.23e-05"),
        (9.99999999999995, "10.0"),
        (9.999999999999995, "10.0"),
        (-1.5e300, "-1.5e+300"),
    ];
    for &(value, expected) in table {
        assert_eq!(text(value), expected, "{value:?}");
    }
}

#[test]
fn text_as_numbers() {
    use Number::{Float, Integer};
    let table: &[(&str, Option<Number>)] = &[
        ("0x", None),
        ("0x.", None),
        ("0x1p", None),
        ("0x1p4", Some(Float(16.0))),
        ("0X.8", Some(Float(0.5))),
        ("0x1.", Some(Float(1.0))),
        ("1.", Some(Float(1.0))),
        (".5", Some(Float(0.5))),
        (".", None),
        ("1e", None),
        ("1e5", Some(Float(100000.0))),
        ("1e+", None),
        ("1E-3", Some(Float(0.001))),
        (" \x0b\x0c12\n", Some(Integer(12))),
        ("1 2", None),
        ("+-1", None),
        ("+7", Some(Integer(7))),
        ("0x7fffffffffffffff", Some(Integer(i64::MAX))),
        ("0xffffffffffffffff", Some(Integer(-1))),
        ("0x1ffffffffffffffff", Some(Integer(-1))),
        ("-0xffffffffffffffff", Some(Integer(1))),
        ("9223372036854775807", Some(Integer(i64::MAX))),
        ("9223372036854775808", Some(Float(9223372036854775808.0))),
        ("-9223372036854775808", Some(Integer(i64::MIN))),
        ("-9223372036854775809", Some(Float(-9223372036854775808.0))),
        ("00000000000000000000000000012", Some(Integer(12))),
        ("18446744073709551617", Some(Float(18446744073709551616.0))),
        ("1e309", Some(Float(f64::INFINITY))),
        ("0x1p1024", Some(Float(f64::INFINITY))),
        ("0x1p-1074", Some(Float(5e-324))),
        ("0x1p-1075", Some(Float(0.0))),
        ("0x1.8p-1075", Some(Float(5e-324))),
        ("0x1.00000000000008", Some(Float(1.0))),
        ("0x1.000000000000080000000001", Some(Float(1.0 + f64::EPSILON))),
        ("0x1.00000000000018", Some(Float(1.0 + 2.0 * f64::EPSILON))),
        ("0x0.fffffffffffffp-1022", Some(Float(2.225073858507201e-308))),
        ("0x0.fffffffffffff8p-1022", Some(Float(2.2250738585072014e-308))),
        ("0x1.fffffffffffff8p1023", Some(Float(f64::INFINITY))),
        ("inf", None),
        ("nan", None),
        ("1e99999999999999999999", Some(Float(f64::INFINITY))),
        ("0x1p99999999999999999999", Some(Float(f64::INFINITY))),
        ("0x1p-99999999999999999999", Some(Float(0.0))),
        ("0e99999999999", Some(Float(0.0))),
        ("-0", Some(Integer(0))),
        ("-0x0", Some(Integer(0))),
        ("1\0", None),
        ("", None),
        ("  ", None),
        ("-", None),
        ("0x-1", None),
        ("- 1", None),
        ("1f", None),
        ("0xep1", Some(Float(28.0))),
        ("0xe+1", None),
        ("1_000", None),
        ("0x0.00000000000000000000000000000000000001p160", Some(Float(256.0))),
        ("1e1.", None),
        ("1..2", None),
        ("1.2.3", None),
        ("0x1.2.3", None),
    ];
    for &(source, expected) in table {
        assert_eq!(read(source), expected, "{source:?}");
    }
    for negative_zero in ["-0.0", "-0x0.", "-0e1"] {
        assert!(matches!(read(negative_zero), Some(Float(z)) if z == 0.0 && z.is_sign_negative()));
    }
    let long = format!("0x.{}1p4008", "0".repeat(1000));
    assert_eq!(read(&long), Some(Float(16.0)));
    let long = format!("0x1{}p-4000", "0".repeat(1000));
    assert_eq!(read(&long), Some(Float(1.0)));
}

#[test]
fn integers_in_a_base() {
    let table: &[(&str, u32, Option<i64>)] = &[
        ("zz", 36, Some(1295)),
        (" -fF ", 16, Some(-255)),
        ("8", 8, None),
        ("", 10, None),
        ("7fffffffffffffffff", 16, Some(-1)),
        ("1\0", 10, None),
        ("- 1", 10, None),
        ("+1", 10, Some(1)),
        ("1 1", 2, None),
        ("1.0", 10, None),
        ("1000000000000000000000000000000000000000000000000000000000000000", 2, Some(i64::MIN)),
    ];
    for &(source, base, expected) in table {
        assert_eq!(parse_integer_base(source.as_bytes(), base), expected, "{source:?} {base}");
    }
}

#[test]
fn floats_as_integers() {
    assert_eq!(float_to_integer(3.0), Some(3));
    assert_eq!(float_to_integer(-0.0), Some(0));
    assert_eq!(float_to_integer(3.5), None);
    assert_eq!(float_to_integer(9223372036854775808.0), None);
    assert_eq!(float_to_integer(-9223372036854775808.0), Some(i64::MIN));
    assert_eq!(float_to_integer(-9223372036854777856.0), None);
    assert_eq!(float_to_integer(f64::NAN), None);
    assert_eq!(float_to_integer(f64::INFINITY), None);
    assert_eq!(float_floor_to_integer(-3.5), Some(-4));
    assert_eq!(float_ceil_to_integer(-3.5), Some(-3));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn writes_any_float(bits: u64) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        prop_assert_eq!(text(value), general(value));
    }

    /// Values whose shortest digits are 14 to 17 many, where rounding is delicate.
    #[test]
    fn writes_decimal_floats(digits in 0u64..100_000_000_000_000_000, exponent in -30i32..30) {
        let value: f64 = format!("{digits}e{exponent}").parse().unwrap();
        prop_assert_eq!(text(value), general(value));
    }

    /// Exactly half way between two texts of 14 digits.
    #[test]
    fn writes_ties(digits in 10_000_000_000_000u64..100_000_000_000_000, quarters in 1u8..4) {
        let value = digits as f64 + f64::from(quarters) / 4.0;
        prop_assert_eq!(text(value), general(value));
    }

    #[test]
    fn reads_what_std_writes(bits: u64) {
        let value = f64::from_bits(bits);
        prop_assume!(value.is_finite());
        for s in [format!("{value:e}"), format!("{value:.25e}"), format!("{value:?}")] {
            let Some(Number::Float(back)) = read(&s) else { panic!("{s}") };
            prop_assert_eq!(back.to_bits(), s.parse::<f64>().unwrap().to_bits(), "{}", s);
        }
    }

    #[test]
    fn reads_decimals_as_std_does(s in "-?[0-9]{1,22}\\.[0-9]{0,22}(e[-+]?[0-9]{1,3})?") {
        prop_assert_eq!(read(&s), Some(Number::Float(s.parse().unwrap())));
    }

    #[test]
    fn reads_hexadecimal_floats(mantissa: u64, exponent in -1200i32..1100) {
        let s = format!("0x{mantissa:x}.p{exponent}");
        // Two steps keep the power in range; only the second may round, unless the result is subnormal.
        let exact = mantissa as f64;
        let expected = exact * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2);
        let Some(Number::Float(value)) = read(&s) else { panic!("{s}") };
        if expected.is_normal() {
            prop_assert_eq!(value, expected, "{}", s);
        } else {
            prop_assert!((value - expected).abs() <= 5e-324 || value == expected, "{}", s);
        }
    }

    #[test]
    fn integers_there_and_back(value: i64) {
        let mut out = Vec::new();
        format_integer(value, &mut out);
        prop_assert_eq!(parse_number(&out), Some(Number::Integer(value)));
        prop_assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
    }

    #[test]
    fn never_panics(
        s in proptest::collection::vec(
            prop_oneof![
                Just(b'0'), Just(b'x'), Just(b'.'), Just(b'p'), Just(b'e'), Just(b'-'), Just(b'f'), Just(b' '),
                any::<u8>()
            ],
            0..40
        ),
        base in 2u32..37
    ) {
        let _ = (parse_number(&s), parse_integer_base(&s, base));
    }
}
