//! What a server of the page answers. It knows nothing of sockets: a path and a query go in, bytes come out.
//!
//! | path | query | answer |
//! |---|---|---|
//! | (empty) | | the page |
//! | `tile` | `from` `to` `resolution` `rows` | bars, as `tiles.rs` writes them |
//! | `links` | `row` `from` `to` | links of a row |
//! | `search` | `word` | hits (JSON) |
//! | `statistics` | `from` `to` | of a stretch (JSON) |
//! | `source` | `file` `line` | lines of a source file around a place (JSON) |
//!
//! Source files are read from disk as they are now. Only those that the trace names are: a page must not be a
//! way to read any file.

use super::page::{self, PageOptions};
use super::{Timeline, query, tiles};
use crate::export::chrome::quote;
use std::collections::BTreeSet;
use std::path::Path;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// A trace that is shown.
pub struct Viewer {
    timeline: Timeline,
    options: PageOptions,
    sources: BTreeSet<String>,
}

/// Lines before and after a place.
const AROUND: usize = 4;
/// Most bytes of a source file.
const MOST_SOURCE: u64 = 16 << 20;

fn json(text: String) -> Option<Answer> {
    Some(Answer { content_type: "application/json", body: text.into_bytes() })
}

fn bytes(bytes: tiles::Bytes) -> Option<Answer> {
    Some(Answer { content_type: "application/octet-stream", body: bytes.0 })
}

impl Viewer {
    /// Shows this.
    pub fn new(timeline: Timeline, options: PageOptions) -> Viewer {
        let sources = page::sources(&timeline);
        Viewer { timeline, options, sources }
    }

    /// Answers a request; `None`: there is no such thing.
    pub fn answer(&self, path: &str, query: &str) -> Option<Answer> {
        let text = |name: &str| {
            let pairs = query.split('&').filter_map(|p| p.split_once('='));
            pairs.filter(|(n, _)| *n == name).map(|(_, v)| decode(v)).next()
        };
        let number = |name: &str| text(name)?.parse::<u64>().ok();
        let t = &self.timeline;
        match path {
            "" => Some(Answer {
                content_type: "text/html; charset=utf-8",
                body: page::served(t, &self.options).into_bytes(),
            }),
            "tile" => {
                let extent = tiles::Extent {
                    from: number("from")?,
                    to: number("to")?,
                    resolution: number("resolution")?,
                };
                let rows = rows(&text("rows")?, t.rows.len())?;
                bytes(tiles::tile(t, extent, &rows).0)
            }
            "links" => {
                let row = u32::try_from(number("row")?).ok().filter(|&r| (r as usize) < t.rows.len())?;
                let links = query::links(t, row, number("from")?, number("to")?, 300);
                bytes(tiles::links(links.into_iter()))
            }
            "search" => json(query::search(t, &text("word")?)),
            "statistics" => {
                let (from, to) = (number("from")?, number("to")?);
                (from <= to).then(|| query::statistics(t, from, to)).and_then(json)
            }
            "source" => self.source(&text("file")?, number("line")? as usize),
            _ => None,
        }
    }

    fn source(&self, file: &str, line: usize) -> Option<Answer> {
        if !self.sources.contains(file) {
            return None;
        }
        let path = Path::new(&self.options.directory).join(file.trim_start_matches('@'));
        let meta = std::fs::metadata(&path).ok()?;
        if !meta.is_file() || meta.len() > MOST_SOURCE {
            return None;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path).ok()?).into_owned();
        let first = line.saturating_sub(AROUND).max(1);
        let lines: Vec<String> =
            text.lines().skip(first - 1).take(line + AROUND + 1 - first).map(quote).collect();
        json(format!("{{\"first\":{first},\"line\":{line},\"lines\":[{}]}}", lines.join(",")))
    }
}

/// `1,2,5-9`
fn rows(list: &str, count: usize) -> Option<Vec<usize>> {
    let mut rows = Vec::new();
    for part in list.split(',').filter(|p| !p.is_empty()) {
        let (a, b) = part.split_once('-').unwrap_or((part, part));
        let (a, b) = (a.parse::<usize>().ok()?, b.parse::<usize>().ok()?);
        if a > b || b >= count {
            return None;
        }
        rows.extend(a..=b);
    }
    Some(rows)
}

/// Undoes the encoding of forms.
fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        out.push(match b {
            b'+' => b' ',
            b'%' => {
                let mut digit = || (bytes.next()? as char).to_digit(16);
                let (high, low) = (digit(), digit());
                high.zip(low).map_or(b'?', |(h, l)| (h << 4 | l) as u8)
            }
            b => b,
        });
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_and_lists() {
        assert_eq!(decode("a+b%20%c3%a4%"), "a b ä?");
        assert_eq!(rows("0,2-4", 5), Some(vec![0, 2, 3, 4]));
        assert_eq!((rows("0-5", 5), rows("3-2", 5), rows("x", 5)), (None, None, None));
    }

    #[test]
    fn files_that_the_trace_does_not_name_are_not_read() {
        let viewer = Viewer::new(Timeline::default(), PageOptions::default());
        assert_eq!(viewer.answer("source", "file=%2Fetc%2Fpasswd&line=1"), None);
        assert_eq!(viewer.answer("../x", ""), None);
        let page = viewer.answer("", "").map(|a| String::from_utf8(a.body));
        assert!(page.is_some_and(|p| p.is_ok_and(|p| p.contains("</html>") && !p.contains("{{js}}"))));
    }
}
