//! The page: one file that needs nothing else, with a trace in it or a server behind it.
//!
//! `page/page.html` is the frame; the style and the scripts beside it are put into it as they are. What the
//! script has to know of the trace as a whole (rows, names, call paths) is JSON in the page; bars come as
//! bytes (`tiles.rs`): from the page itself, compressed and in base64, or from the server, as they are
//! needed.

use super::model::*;
use super::{query, tiles};
use crate::export::chrome::quote;
use std::collections::BTreeMap;
use std::fmt::Write;

/// What may be configured.
#[derive(Clone, Debug)]
pub struct PageOptions {
    /// What a source place links to: `{path}` and `{line}` are replaced. Empty: nothing.
    pub link: String,
    /// The directory that relative names of files start from.
    pub directory: String,
    /// Bars and other things that a page may have in it, about.
    pub most: u64,
}

impl Default for PageOptions {
    fn default() -> PageOptions {
        PageOptions { link: "vscode://file{path}:{line}".into(), directory: String::new(), most: 400_000 }
    }
}

/// The script: parts of one function, in this order.
const SCRIPT: &str = concat!(
    "\"use strict\";\n(() => {\n",
    include_str!("page/data.js"),
    include_str!("page/look.js"),
    include_str!("page/draw.js"),
    include_str!("page/input.js"),
    include_str!("page/panel.js"),
    include_str!("page/begin.js"),
    "})();\n"
);

/// How hard what a page has in it is compressed.
const COMPRESSION: u8 = 6;

/// Most links that a page has in it.
const LINKS: usize = 200_000;

/// The page of a server, which it asks for bars.
pub fn served(t: &Timeline, options: &PageOptions) -> String {
    assemble(&meta(t, options, "server", (0, t.end_ns), 0), "", "")
}

/// A page with the trace (or a stretch of it) in it.
pub fn embedded(t: &Timeline, options: &PageOptions, from: u64, to: u64) -> String {
    let (bytes, resolution) = tiles::within(t, from, to, options.most);
    let inside = |l: &&Link| l.to_ns >= from && l.from_ns < to;
    let all = t.links.iter().filter(inside).count() <= LINKS;
    let links = tiles::links(t.links.iter().filter(inside).filter(|_| all));
    assemble(&meta(t, options, "embedded", (from, to), resolution), &packed(&bytes), &packed(&links))
}

fn assemble(meta: &str, data: &str, links: &str) -> String {
    let mut page = String::with_capacity(meta.len() + data.len() + links.len() + (1 << 17));
    let mut rest = include_str!("page/page.html");
    // One pass, so that nothing that is put in is looked at again.
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else { break };
        page.push_str(before);
        page.push_str(match name {
            "css" => include_str!("page/page.css"),
            "js" => SCRIPT,
            "meta" => meta,
            "data" => data,
            "links" => links,
            _ => "",
        });
        rest = after;
    }
    page.push_str(rest);
    page
}

fn meta(t: &Timeline, options: &PageOptions, mode: &str, shown: (u64, u64), resolution: u64) -> String {
    let mut s = String::new();
    let _ = write!(
        s,
        "{{\"mode\":\"{mode}\",\"title\":{},\"pid\":{},\"from\":{},\"to\":{},\"resolution\":{resolution},\
         \"startReal\":{},\
         \"events\":{},\"lost\":{},\"bars\":{},\"link\":{},\"directory\":{},\"groups\":[",
        quote(&t.title),
        t.pid,
        shown.0,
        shown.1,
        t.start_real_ns,
        t.events,
        t.lost,
        t.bars(),
        quote(&options.link),
        quote(&options.directory),
    );
    for (n, group) in t.groups.iter().enumerate() {
        let domain = match group.kind {
            GroupKind::Domain(n) => n,
            GroupKind::Processors | GroupKind::Threads => 0,
        };
        let _ = write!(s, "{}[{domain},{}]", if n > 0 { "," } else { "" }, quote(&group.name));
    }
    s.push_str("],\"rows\":[");
    for (n, row) in t.rows.iter().enumerate() {
        let _ = write!(
            s,
            "{}[\"{}\",{},{},{},\"{}\"]",
            if n > 0 { "," } else { "" },
            row.kind.name(),
            row.group,
            quote(&row.name),
            row.levels.len(),
            if row.unit == Unit::Bytes { "B" } else { "" },
        );
    }
    s.push_str("],\"names\":[");
    for (n, name) in t.names.iter().enumerate() {
        s.push_str(if n > 0 { "," } else { "" });
        s.push_str(&quote(name));
    }
    s.push_str("],\"stacks\":{");
    let mut first = true;
    for (n, node) in stacks(t) {
        let comma = if std::mem::take(&mut first) { "" } else { "," };
        let function = quote(&t.definitions.string(node.function as u64));
        let source = if node.source == 0 { String::new() } else { t.definitions.string(node.source as u64) };
        let _ = write!(s, "{comma}\"{n}\":[{},{function},{},{}]", node.parent, quote(&source), node.line);
    }
    s.push_str("},\"kinds\":{");
    for (n, info) in perilune_trace::event::KINDS.iter().enumerate() {
        let comma = if n > 0 { "," } else { "" };
        let _ = write!(s, "{comma}\"{}\":\"{}\"", info.kind as u16, info.name);
    }
    s.push_str("},\"classes\":[");
    for (n, class) in Class::ALL.iter().enumerate() {
        let _ = write!(s, "{}\"{}\"", if n > 0 { "," } else { "" }, class.name());
    }
    s.push_str("],\"objects\":[");
    for n in 0..16u64 {
        let kind = expand(n).kind().name();
        let _ = write!(s, "{}\"{kind}\"", if n > 0 { "," } else { "" });
    }
    s.push_str("],\"reasons\":[");
    for (n, (_, reason)) in perilune_trace::event::Reason::ALL.iter().enumerate() {
        let _ = write!(s, "{}\"{reason}\"", if n > 0 { "," } else { "" });
    }
    s.push(']');
    if mode == "embedded" {
        let _ = write!(s, ",\"statistics\":{}", query::statistics(t, shown.0, shown.1));
    }
    s.push('}');
    s
}

/// Call paths that bars or moments refer to, with their callers.
fn stacks(t: &Timeline) -> BTreeMap<u32, perilune_trace::layout::StackNode> {
    let mut found = BTreeMap::new();
    let bars = t.rows.iter().flat_map(|r| &r.levels).flat_map(|l| &l.bars).map(|b| b.stack);
    let moments = t.rows.iter().flat_map(|r| &r.moments).map(|m| m.stack);
    for mut n in bars.chain(moments) {
        while n != 0 && !found.contains_key(&n) {
            let Some(node) = t.definitions.stack(n) else { break };
            found.insert(n, *node);
            n = if node.parent < n { node.parent } else { 0 };
        }
    }
    found
}

/// Source files that the trace names: the only ones that a server shows lines of.
pub fn sources(t: &Timeline) -> std::collections::BTreeSet<String> {
    let mut found = std::collections::BTreeSet::new();
    for node in stacks(t).values() {
        if node.source != 0 {
            found.insert(t.definitions.string(node.source as u64));
        }
    }
    // Functions' names have their places in them: `work (jobs.lua:12)`.
    for name in &t.names {
        if let Some(place) = name.strip_suffix(')').and_then(|n| n.rsplit_once('(')).map(|n| n.1)
            && let Some((file, line)) = place.rsplit_once(':')
            && line.bytes().all(|b| b.is_ascii_digit())
        {
            found.insert(file.to_owned());
        }
    }
    found
}

fn packed(bytes: &tiles::Bytes) -> String {
    base64(&miniz_oxide::deflate::compress_to_vec(&bytes.0, COMPRESSION))
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut s = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = (0..3).fold(0u32, |w, n| w << 8 | *three.get(n).unwrap_or(&0) as u32);
        for n in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * n)) as usize & 63] as char;
            s.push(if n <= three.len() { digit } else { '=' });
        }
    }
    s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_every_remainder() {
        let texts: Vec<String> =
            ["", "f", "fo", "foo", "foob"].iter().map(|t| base64(t.as_bytes())).collect();
        assert_eq!(texts, ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]);
    }
}
