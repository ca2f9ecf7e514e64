//! Profiles in other people's formats.
//!
//! * **Folded stacks**: `main;work;string.rep 40`, one path a line, as flame graph scripts read them.
//! * **pprof**: the protobuf message `perftools.profiles.Profile`, uncompressed; `go tool pprof`, Speedscope,
//!   Grafana and others read it. Functions, lines and all measures are in it, the domain as a label.
//! * **speedscope**: the JSON of <https://www.speedscope.app>, one sampled profile for each domain.

use super::tree::paths;
use super::{Profile, Unit};
use crate::export::chrome::quote;
use crate::protobuf::Message;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Writes folded stacks of the first measure.
///
/// # Errors
/// Those of `out`.
pub fn folded(profile: &Profile, mut out: impl Write) -> io::Result<()> {
    for (stack, values) in paths(profile) {
        let frames: Vec<String> =
            profile.path(stack).iter().map(|node| label(profile, node).replace([';', '\n'], ":")).collect();
        writeln!(out, "{} {}", frames.join(";"), values[0])?;
    }
    Ok(())
}

/// A frame: its function, and where that is defined.
fn label(profile: &Profile, node: &perilune_trace::layout::StackNode) -> String {
    let name = profile.function(node);
    match node.source {
        0 => name,
        _ => format!("{name} ({})", profile.defined(node)),
    }
}

/// Functions for readers that tell functions apart by their names: the place is part of a name that several
/// of them have.
struct Names<'p> {
    profile: &'p Profile,
    /// Names that more than one function has.
    shared: HashSet<String>,
}

impl Names<'_> {
    fn new(profile: &Profile) -> Names<'_> {
        let mut places: HashMap<String, (u32, u32)> = HashMap::new();
        let mut shared = HashSet::new();
        let mut seen = HashSet::new();
        for node in profile.samples.iter().flat_map(|sample| profile.path(sample.stack)) {
            if !seen.insert((node.function, node.source, node.defined)) {
                continue;
            }
            let (name, place) = (profile.function(&node), (node.source, node.defined));
            if *places.entry(name.clone()).or_insert(place) != place {
                shared.insert(name);
            }
        }
        Names { profile, shared }
    }

    fn of(&self, node: &perilune_trace::layout::StackNode) -> String {
        let name = self.profile.function(node);
        let is_shared = name.is_empty() || self.shared.contains(&name);
        if is_shared && node.source != 0 { format!("{name} <{}>", self.profile.defined(node)) } else { name }
    }
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "count",
        Unit::Nanoseconds => "nanoseconds",
        Unit::Bytes => "bytes",
    }
}

/// The table of strings, whose first is empty.
#[derive(Default)]
struct Strings {
    at: HashMap<String, u64>,
    list: Vec<String>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if self.list.is_empty() {
            self.list.push(String::new());
            self.at.insert(String::new(), 0);
        }
        match self.at.get(text) {
            Some(&n) => n,
            None => {
                let n = self.list.len() as u64;
                self.list.push(text.to_owned());
                self.at.insert(text.to_owned(), n);
                n
            }
        }
    }
}

/// Writes a pprof profile.
///
/// # Errors
/// Those of `out`.
pub fn pprof(profile: &Profile, mut out: impl Write) -> io::Result<()> {
    let names = Names::new(profile);
    let mut strings = Strings::default();
    let mut all = Message::default();
    for measure in &profile.measures {
        let mut m = Message::default();
        let (name, unit) = (strings.number(measure.name), strings.number(unit_name(measure.unit)));
        m.uint(1, name).uint(2, unit);
        all.message(1, &m);
    }
    // A location is a function at a line.
    let mut functions: HashMap<(u32, u32, u32), u64> = HashMap::new();
    let mut locations: HashMap<(u64, u32), u64> = HashMap::new();
    let (mut function_messages, mut location_messages) = (Vec::new(), Vec::new());
    let domain_key = strings.number("domain");
    for sample in &profile.samples {
        let mut ids = Message::default();
        for node in profile.path(sample.stack).iter().rev() {
            let next = functions.len() as u64 + 1;
            let function =
                *functions.entry((node.function, node.source, node.defined)).or_insert_with(|| {
                    let mut f = Message::default();
                    let name = strings.number(&names.of(node));
                    let file = match node.source {
                        0 => 0,
                        source => strings.number(&profile.definitions.string(source as u64)),
                    };
                    // Of a name that is also the system's, pprof leaves out what is in angle brackets.
                    let system = match profile.defined(node) {
                        place if place.is_empty() => name,
                        place => strings.number(&place),
                    };
                    f.uint(1, next).uint(2, name).uint(3, system).uint(4, file).uint(5, node.defined as u64);
                    function_messages.push(f);
                    next
                });
            let next = locations.len() as u64 + 1;
            let location = *locations.entry((function, node.line)).or_insert_with(|| {
                let (mut line, mut l) = (Message::default(), Message::default());
                line.uint(1, function).uint(2, node.line as u64);
                l.uint(1, next).message(4, &line);
                location_messages.push(l);
                next
            });
            ids.varint(location);
        }
        let mut values = Message::default();
        for &value in &sample.values {
            values.varint(value);
        }
        let mut s = Message::default();
        s.message(1, &ids).message(2, &values);
        if let Some(name) = profile.domains.get(&sample.domain) {
            let mut l = Message::default();
            let name = strings.number(name);
            l.uint(1, domain_key).uint(2, name);
            s.message(3, &l);
        }
        all.message(2, &s);
    }
    for l in &location_messages {
        all.message(4, l);
    }
    for f in &function_messages {
        all.message(5, f);
    }
    // The measure that readers show first.
    let default = profile.measures.first().map_or(0, |m| strings.number(m.name));
    for text in &strings.list {
        all.text(6, text);
    }
    all.uint(9, profile.start_real_ns).uint(10, profile.wall_ns).uint(14, default);
    out.write_all(&all.0)
}

/// Writes a speedscope file of the first measure.
///
/// # Errors
/// Those of `out`.
pub fn speedscope(profile: &Profile, mut out: impl Write) -> io::Result<()> {
    let names = Names::new(profile);
    let mut frames = String::new();
    let mut known: HashMap<(u32, u32, u32), usize> = HashMap::new();
    let mut domains: Vec<u32> = profile.samples.iter().map(|s| s.domain).collect();
    domains.sort_unstable();
    domains.dedup();
    let mut profiles = Vec::new();
    let unit = match profile.measures.first().map(|m| m.unit) {
        Some(Unit::Nanoseconds) => "nanoseconds",
        Some(Unit::Bytes) => "bytes",
        _ => "none",
    };
    for domain in domains {
        let (mut samples, mut weights, mut total) = (String::new(), String::new(), 0);
        for sample in profile.samples.iter().filter(|s| s.domain == domain) {
            let mut path = Vec::new();
            for node in profile.path(sample.stack) {
                let next = known.len();
                let at = *known.entry((node.function, node.source, node.defined)).or_insert_with(|| {
                    let comma = if next == 0 { "" } else { "," };
                    let _ = write!(frames, "{comma}{{\"name\":{}", quote(&names.of(&node)));
                    if node.source != 0 {
                        let file = quote(&profile.definitions.string(node.source as u64));
                        let _ = write!(frames, ",\"file\":{file},\"line\":{}", node.defined);
                    }
                    frames.push('}');
                    next
                });
                path.push(at.to_string());
            }
            let comma = if samples.is_empty() { "" } else { "," };
            let _ = write!(samples, "{comma}[{}]", path.join(","));
            let _ = write!(weights, "{comma}{}", sample.values[0]);
            total += sample.values[0];
        }
        let name = match profile.domains.get(&domain) {
            Some(name) => name.clone(),
            None => format!("domain {domain}"),
        };
        profiles.push(format!(
            "{{\"type\":\"sampled\",\"name\":{},\"unit\":\"{unit}\",\"startValue\":0,\"endValue\":{total},\
             \"samples\":[{samples}],\"weights\":[{weights}]}}",
            quote(&name)
        ));
    }
    write!(
        out,
        "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"perilune\",\
         \"name\":{},\"shared\":{{\"frames\":[{frames}]}},\"profiles\":[{}]}}",
        quote(&profile.title),
        profiles.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{definitions, example};
    use super::*;
    use crate::trace::{Event, Trace, Who};
    use perilune_trace::event::Kind;

    #[test]
    fn folded_stacks() {
        let mut out = Vec::new();
        folded(&example(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let first = text.lines().next().unwrap();
        assert_eq!(first, "main chunk (a.lua:0);work (a.lua:10);work (a.lua:10);string.rep 40");
        let total: u64 = text.lines().map(|l| l.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(total, 100);
    }

    /// Fields of a message: number, and number or bytes.
    fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, Vec<u8>)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let (mut n, mut shift) = (0, 0);
            loop {
                let byte = bytes[0];
                *bytes = &bytes[1..];
                n |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    return n;
                }
            }
        }
        let mut list = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            match key & 7 {
                0 => list.push((key >> 3, varint(&mut bytes), Vec::new())),
                2 => {
                    let n = varint(&mut bytes) as usize;
                    list.push((key >> 3, 0, bytes[..n].to_vec()));
                    bytes = &bytes[n..];
                }
                other => panic!("wire type {other}"),
            }
        }
        list
    }

    #[test]
    fn pprof_refers_to_what_it_defines() {
        let p = example();
        let mut out = Vec::new();
        pprof(&p, &mut out).unwrap();
        let all = fields(&out);
        let strings: Vec<String> =
            all.iter().filter(|f| f.0 == 6).map(|f| String::from_utf8(f.2.clone()).unwrap()).collect();
        assert_eq!(strings[0], "");
        let of = |number| all.iter().filter(move |f: &&(u64, u64, Vec<u8>)| f.0 == number);
        assert_eq!((of(1).count(), of(2).count()), (2, p.samples.len()));
        let functions: Vec<_> = of(5).map(|f| fields(&f.2)).collect();
        let locations: Vec<_> = of(4).map(|f| fields(&f.2)).collect();
        for f in &functions {
            assert!((f[1].1 as usize) < strings.len());
            // pprof shortens a name that is the system's as well.
            assert!(f[1].1 != f[2].1 || !strings[f[1].1 as usize].contains('<'), "{strings:?}");
        }
        for l in &locations {
            let line = fields(&l[1].2);
            assert!((1..=functions.len() as u64).contains(&line[0].1));
        }
        assert!(strings.iter().any(|s| s == "string.rep") && strings.iter().any(|s| s == "nanoseconds"));
    }

    #[test]
    fn functions_of_one_name_are_told_apart_by_their_places() {
        let paths = [
            (0, "main chunk", "a.lua", 5),
            (1, "f", "a.lua", 12),
            (1, "f", "a.lua", 33),
            (1, "g", "a.lua", 41),
        ];
        let event =
            |stack: u64| Event { ns: 1, who: Who::Domain(1), kind: Kind::CpuSample, c: 0, a: stack, b: 10 };
        let trace = Trace {
            events: vec![event(2), event(3), event(4)],
            definitions: definitions(&paths),
            ..Trace::default()
        };
        let profile = Profile::cpu(&trace);
        let (mut pb, mut json) = (Vec::new(), Vec::new());
        pprof(&profile, &mut pb).unwrap();
        speedscope(&profile, &mut json).unwrap();
        let places: Vec<String> =
            profile.samples.iter().map(|s| profile.defined(profile.path(s.stack).last().unwrap())).collect();
        for place in &places[..2] {
            let name = format!("f <{place}>");
            assert!(fields(&pb).iter().any(|f| f.0 == 6 && f.2 == name.as_bytes()), "{name}");
        }
        assert!(fields(&pb).iter().any(|f| f.0 == 6 && f.2 == b"g"));
        assert!(String::from_utf8(json).unwrap().contains("\"name\":\"g\""));
    }

    #[test]
    fn speedscope_names_each_frame_once() {
        let mut out = Vec::new();
        speedscope(&example(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.matches("\"name\":\"string.rep\"").count(), 1);
        assert!(text.contains("\"endValue\":95") && text.contains("\"endValue\":5"));
        assert!(text.contains(r#""name":"rest \u003c&\"'>""#), "{text}");
    }
}
