//! What the exporters write is read back by strict readers of the formats, and says what the trace said.

mod common;

use perilune_see::export::{chrome, perfetto};
use perilune_see::view::Timeline;
use std::collections::{HashMap, HashSet};

/// A field's value.
#[derive(Debug, Clone)]
enum Value<'a> {
    Int(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message; a byte that does not belong is a failure.
fn fields(mut bytes: &[u8]) -> Vec<(u32, Value<'_>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut n = 0;
        for shift in (0..70).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            n |= (byte as u64 & 0x7f).checked_shl(shift).expect("a varint of 64 bits");
            if byte < 0x80 {
                return n;
            }
        }
        panic!("a varint without an end");
    }
    let mut list = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = (tag >> 3) as u32;
        assert_ne!(field, 0);
        list.push((
            field,
            match tag & 7 {
                0 => Value::Int(varint(&mut bytes)),
                1 => {
                    let (word, rest) = bytes.split_at(8);
                    bytes = rest;
                    Value::Fixed(u64::from_le_bytes(word.try_into().unwrap()))
                }
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (body, rest) = bytes.split_at(length);
                    bytes = rest;
                    Value::Bytes(body)
                }
                wire => panic!("wire type {wire}"),
            },
        ));
    }
    list
}

/// A message whose fields must be among these: number and kind (`i`, `f`, `b`, `s` for text, `*` behind it if
/// repeated).
fn message<'a>(bytes: &'a [u8], allowed: &[(u32, &str)]) -> HashMap<u32, Vec<Value<'a>>> {
    let mut found: HashMap<u32, Vec<Value>> = HashMap::new();
    for (field, value) in fields(bytes) {
        let kind = allowed
            .iter()
            .find(|a| a.0 == field)
            .unwrap_or_else(|| panic!("field {field} is unknown here"))
            .1;
        match (&value, kind.as_bytes()[0]) {
            (Value::Int(_), b'i') | (Value::Fixed(_), b'f') | (Value::Bytes(_), b'b') => {}
            (Value::Bytes(text), b's') => _ = std::str::from_utf8(text).expect("text"),
            _ => panic!("field {field} has the wrong type"),
        }
        let values = found.entry(field).or_default();
        values.push(value);
        assert!(values.len() == 1 || kind.ends_with('*'), "field {field} is there twice");
    }
    found
}

fn int(m: &HashMap<u32, Vec<Value>>, field: u32) -> Option<u64> {
    match m.get(&field)?[0] {
        Value::Int(n) | Value::Fixed(n) => Some(n),
        Value::Bytes(_) => panic!("field {field} is no number"),
    }
}

fn text(m: &HashMap<u32, Vec<Value>>, field: u32) -> Option<String> {
    match m.get(&field)?[0] {
        Value::Bytes(b) => Some(String::from_utf8(b.to_vec()).unwrap()),
        _ => panic!("field {field} is no text"),
    }
}

fn inner<'a>(m: &HashMap<u32, Vec<Value<'a>>>, field: u32) -> Vec<&'a [u8]> {
    m.get(&field).map_or(Vec::new(), |values| {
        values.iter().map(|v| if let Value::Bytes(b) = v { *b } else { panic!("no message") }).collect()
    })
}

const PACKET: &[(u32, &str)] =
    &[(6, "b"), (8, "i"), (10, "i"), (11, "b"), (12, "b"), (13, "i"), (58, "i"), (60, "b")];
const DESCRIPTOR: &[(u32, &str)] = &[(1, "i"), (2, "s"), (3, "b"), (5, "i"), (8, "b"), (11, "i"), (12, "i")];
const EVENT: &[(u32, &str)] =
    &[(3, "i*"), (4, "b*"), (9, "i"), (10, "i"), (11, "i"), (44, "f"), (47, "f*"), (48, "f*")];
const INTERNED: &[(u32, &str)] = &[(1, "b*"), (2, "b*"), (3, "b*")];

#[test]
fn perfetto_says_what_the_trace_said() {
    let timeline = Timeline::new(&common::small());
    let mut bytes = Vec::new();
    perfetto::write(&timeline, &mut bytes).unwrap();

    let mut tracks: HashMap<u64, (String, Option<u64>, bool)> = HashMap::new();
    let mut interned: HashMap<(u32, u64), String> = HashMap::new();
    let mut open: HashMap<u64, Vec<(u64, String)>> = HashMap::new();
    let (mut slices, mut flows, mut values) = (Vec::new(), HashMap::new(), Vec::new());
    let mut first = true;
    for (field, packet) in fields(&bytes) {
        assert_eq!(field, 1, "a trace has nothing but packets");
        let Value::Bytes(packet) = packet else { panic!("a packet is a message") };
        let packet = message(packet, PACKET);
        assert_eq!(int(&packet, 10), Some(1));
        assert_eq!(int(&packet, 13), Some(if std::mem::take(&mut first) { 1 } else { 2 }));
        for data in inner(&packet, 12) {
            let data = message(data, INTERNED);
            for kind in 1..=3 {
                for entry in inner(&data, kind) {
                    let entry = message(entry, &[(1, "i"), (2, "s")]);
                    let old = interned.insert((kind, int(&entry, 1).unwrap()), text(&entry, 2).unwrap());
                    assert_eq!(old, None, "defined twice");
                }
            }
        }
        for descriptor in inner(&packet, 60) {
            let d = message(descriptor, DESCRIPTOR);
            let name = match inner(&d, 3).first() {
                Some(process) => text(&message(process, &[(1, "i"), (6, "s")]), 6).unwrap(),
                None => text(&d, 2).unwrap(),
            };
            let parent = int(&d, 5);
            assert!(parent.is_none_or(|p| tracks.contains_key(&p)), "a parent comes before its children");
            let old = tracks.insert(int(&d, 1).unwrap(), (name, parent, d.contains_key(&8)));
            assert!(old.is_none(), "a track is described twice");
        }
        for event in inner(&packet, 11) {
            let e = message(event, EVENT);
            let ns = int(&packet, 8).unwrap() - 1_000_000;
            assert_eq!(int(&packet, 58), Some(3));
            let track = int(&e, 11).unwrap();
            let (track_name, _, is_counter) = &tracks[&track];
            let name = || interned[&(2, int(&e, 10).unwrap())].clone();
            assert_eq!(int(&e, 9) == Some(4), *is_counter);
            for annotation in inner(&e, 4) {
                let a = message(annotation, &[(1, "i"), (3, "i"), (6, "s")]);
                assert!(interned.contains_key(&(3, int(&a, 1).unwrap())));
            }
            match int(&e, 9).unwrap() {
                1 => open.entry(track).or_default().push((ns, name())),
                2 => {
                    let (start, name) = open.get_mut(&track).unwrap().pop().expect("an end has a beginning");
                    assert!(ns >= start);
                    slices.push((track_name.clone(), start, ns, name));
                }
                3 => {
                    for (field, end) in [(47, false), (48, true)] {
                        if let Some(flow) = int(&e, field) {
                            flows.entry(flow).or_insert(Vec::new()).push((end, ns, track_name.clone()));
                        }
                    }
                }
                4 => values.push((track_name.clone(), ns, f64::from_bits(int(&e, 44).unwrap()))),
                other => panic!("type {other}"),
            }
        }
    }
    assert!(open.values().all(Vec::is_empty), "what begins ends");
    for want in [
        ("main code", 30, 1200, "phase <one>"),
        ("main code", 600, 900, "io.read"),
        ("fiber 0", 160, 400, "work (jobs.lua:12)"),
        ("fiber 1", 510, 950, "receives from channel 'jobs'"),
        ("fiber 1", 950, 1010, "woken, waits for its turn"),
        ("collections", 210, 260, "minor"),
        ("activity", 260, 270, "collection"),
    ] {
        let want = (want.0.to_owned(), want.1, want.2, want.3.to_owned());
        assert!(slices.contains(&want), "{want:?} in {slices:#?}");
    }
    assert!(values.contains(&("jobs done".to_owned(), 960, 2.5)));
    assert!(values.contains(&("heap: alive".to_owned(), 270, 10_000.0)));
    // Two tasks are made, one fiber is woken.
    let ends: HashSet<_> = flows.values().map(|f| (f[0].1, f[1].1, f[1].2.as_str())).collect();
    assert_eq!(ends, HashSet::from([(100, 150, "fiber 0"), (110, 410, "fiber 1"), (950, 950, "fiber 1")]));
    assert!(flows.values().all(|f| !f[0].0 && f[1].0));
}

/// A strict reader of JSON: the rest of the text, or a panic.
fn json(s: &str) -> &str {
    let s = s.trim_start();
    let list = |mut s: &'_ str, close: char, member: fn(&str) -> &str| -> usize {
        let whole = s.len();
        s = s[1..].trim_start();
        if let Some(rest) = s.strip_prefix(close) {
            return whole - rest.len();
        }
        loop {
            s = member(s).trim_start();
            if let Some(rest) = s.strip_prefix(close) {
                return whole - rest.len();
            }
            s = s.strip_prefix(',').expect("a comma");
        }
    };
    match s.as_bytes()[0] {
        b'{' => {
            &s[list(s, '}', |s| {
                let s = s.trim_start();
                assert!(s.starts_with('"'), "a name: {:.40}", s);
                json(json(s).trim_start().strip_prefix(':').expect("a colon"))
            })..]
        }
        b'[' => &s[list(s, ']', json)..],
        b'"' => {
            let bytes = s.as_bytes();
            let mut at = 1;
            while bytes[at] != b'"' {
                assert!(bytes[at] >= 0x20, "a control character");
                if bytes[at] == b'\\' {
                    at += 1;
                    match bytes[at] {
                        b'u' => {
                            u32::from_str_radix(&s[at + 1..at + 5], 16).expect("four digits");
                            at += 4;
                        }
                        c => assert!(b"\"\\/bfnrt".contains(&c)),
                    }
                }
                at += 1;
            }
            &s[at + 1..]
        }
        b't' => s.strip_prefix("true").expect("true"),
        b'f' => s.strip_prefix("false").expect("false"),
        b'n' => s.strip_prefix("null").expect("null"),
        _ => {
            let end = s.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c)).unwrap();
            s[..end].parse::<f64>().unwrap_or_else(|_| panic!("a number: {:.40}", s));
            &s[end..]
        }
    }
}

#[test]
fn chrome_is_json_and_says_the_same() {
    let timeline = Timeline::new(&common::small());
    let mut bytes = Vec::new();
    chrome::write(&timeline, &mut bytes).unwrap();
    let out = String::from_utf8(bytes).unwrap();
    assert_eq!(json(&out).trim(), "");
    for part in [
        r#""name":"process_name","args":{"name":"domain 2: worker \"1\""}"#,
        r#""ts":0.510,"dur":0.440,"name":"receives from channel 'jobs'","cat":"waiting""#,
        r#""stack":"inner (jobs.lua:3) \u003c work (jobs.lua:12) (jobs.lua:14)""#,
        r#""name":"jobs done","args":{"value":2.5}"#,
        r#""ts":0.210,"dur":0.050,"name":"minor","cat":"minor","args":{"bytes allocated":4096,"bytes promoted":512}"#,
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    assert_eq!(out.matches(r#""ph":"s""#).count(), 3);
    assert_eq!(out.matches(r#""ph":"f""#).count(), 3);
}
