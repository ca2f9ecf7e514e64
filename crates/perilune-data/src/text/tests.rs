//! The decoder in pieces and in one, against slow references.

use super::stream::{Coding, Fault, Next, Text};
use encoding_rs::Encoding;
use perilune_stdlib::io::separators::Separators;
use proptest::prelude::*;

type Result = (Vec<Vec<u8>>, Option<Fault>);

fn run(
    label: &str,
    separators: &[Vec<u8>],
    keep: bool,
    replace: bool,
    input: &[u8],
    cuts: &[usize],
) -> Result {
    let coding = Coding::named(label.as_bytes()).unwrap();
    let mut text = Text::new(coding, Separators::new(separators.to_vec()), keep, replace);
    let mut pieces = Vec::new();
    let mut rest = input;
    let mut cuts = cuts.iter().cycle();
    loop {
        loop {
            match text.next() {
                Next::Piece(range) => pieces.push(text.bytes(range).to_vec()),
                Next::More => break,
                Next::End => return (pieces, None),
                Next::Fault(fault) => return (pieces, Some(fault)),
            }
        }
        let size = cuts.next().map_or(rest.len(), |&n| n).min(rest.len());
        if rest.is_empty() {
            text.finish().unwrap();
            continue;
        }
        let (now, later) = rest.split_at(size);
        text.room(size).unwrap()[..size].copy_from_slice(now);
        text.added(size).unwrap();
        rest = later;
    }
}

/// By the definitions: decode all, then look for the leftmost, longest separator again and again.
fn slow(
    label: &str,
    separators: &[Vec<u8>],
    keep: bool,
    replace: bool,
    input: &[u8],
) -> (Vec<Vec<u8>>, bool) {
    let (text, is_bad): (Vec<u8>, bool) = if label == "bytes" {
        (input.to_vec(), false)
    } else {
        let encoding = Encoding::for_label(label.as_bytes()).unwrap();
        let (text, bad) = encoding.decode_with_bom_removal(input);
        if bad && !replace {
            // What is valid ends where the first mistake is.
            let mut decoder = encoding.new_decoder_with_bom_removal();
            let mut out = String::with_capacity(input.len() * 3 + 64);
            let _ = decoder.decode_to_string_without_replacement(input, &mut out, true);
            (out.into_bytes(), true)
        } else {
            (text.into_owned().into_bytes(), false)
        }
    };
    let (mut pieces, mut start, mut at) = (Vec::new(), 0, 0);
    while at < text.len() {
        let longest = separators.iter().filter(|s| text[at..].starts_with(s)).map(Vec::len).max();
        match longest {
            Some(n) => {
                pieces.push(text[start..if keep { at + n } else { at }].to_vec());
                at += n;
                start = at;
            }
            None => at += 1,
        }
    }
    if start < text.len() && !is_bad {
        pieces.push(text[start..].to_vec());
    }
    (pieces, is_bad)
}

fn input() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => Just(b"\n".to_vec()),
        3 => Just(b"\r\n".to_vec()),
        2 => Just(b"\r".to_vec()),
        2 => Just(b"||".to_vec()),
        4 => Just("é".as_bytes().to_vec()),
        2 => Just("\u{1f600}".as_bytes().to_vec()),
        1 => Just("\u{feff}".as_bytes().to_vec()),
        8 => "[a-d]{0,9}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 1..3),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn sets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let some = |list: &[&str]| Just(list.iter().map(|s| s.as_bytes().to_vec()).collect::<Vec<_>>());
    prop_oneof![
        some(&["\n"]),
        some(&["\n", "\r\n"]),
        some(&["\n", "\r\n", "\r"]),
        some(&["||", "|", "é"]),
        some(&["a", "bc", "cd", "é\n", "\u{1f600}"]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn pieces_do_not_depend_on_how_the_input_is_cut(
        input in input(),
        separators in sets(),
        label in prop_oneof![
            Just("utf-8"), Just("utf-8"), Just("bytes"), Just("utf-16le"), Just("windows-1252"), Just("shift_jis"),
            Just("gb18030")
        ],
        keep in any::<bool>(),
        replace in any::<bool>(),
        cuts in prop::collection::vec(1usize..7, 1..8),
    ) {
        let whole = run(label, &separators, keep, replace, &input, &[input.len().max(1)]);
        let parts = run(label, &separators, keep, replace, &input, &cuts);
        prop_assert_eq!(&whole.0, &parts.0);
        prop_assert_eq!(whole.1, parts.1);
        let (pieces, is_bad) = slow(label, &separators, keep, replace, &input);
        prop_assert_eq!(&whole.0, &pieces);
        prop_assert_eq!(whole.1.is_some(), is_bad);
        if label == "utf-8" && let Some(fault) = whole.1 {
            let at = std::str::from_utf8(&input).unwrap_err().valid_up_to();
            prop_assert_eq!((fault.at, fault.byte), (at as u64, Some(input[at])));
        }
    }
}

#[test]
fn long_pieces_are_searched_once() {
    let mut text = Text::new(Coding::Utf8, Separators::new([b"\n".to_vec()]), false, false);
    for _ in 0..100_000 {
        text.room(10).unwrap().copy_from_slice(b"0123456789");
        text.added(10).unwrap();
        assert_eq!(text.next(), Next::More);
    }
    text.finish().unwrap();
    assert_eq!(text.next(), Next::Piece(0..1_000_000));
    assert_eq!(text.next(), Next::End);
}

#[test]
fn names_of_encodings() {
    for label in ["utf-8", "UTF8", "latin1", "utf-16", "Shift_JIS", "bytes", " koi8-r "] {
        assert!(Coding::named(label.as_bytes()).is_some(), "{label}");
    }
    for label in ["", "utf", "iso-2022-kr", "replacement"] {
        assert!(Coding::named(label.as_bytes()).is_none(), "{label}");
    }
}
