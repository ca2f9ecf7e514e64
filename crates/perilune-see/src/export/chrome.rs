//! Chrome's JSON format ("Trace Event Format"), which `chrome://tracing`, Perfetto, Speedscope and others
//! read.
//!
//! A group of rows is written as a process, a row's level as a thread of it: that is all the structure the
//! format has. Times are microseconds with three digits behind the point, so nothing is lost. Bars are
//! complete events (`X`), moments instants (`i`), curves counters (`C`), links flows (`s` and `f`). A bar of
//! no length is written as one of a nanosecond: readers throw empty ones away.

use super::perfetto::{Argument, arguments, stack_text};
use crate::view::Timeline;
use crate::view::model::*;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Levels of a row that have numbers of their own.
const LEVELS: usize = 64;

/// A string of JSON that may also stand in a page's script.
pub(crate) fn quote(text: &str) -> String {
    let mut s = serde_json::Value::from(text).to_string();
    // `</script>` must not end a page's script; line separators are no line ends in old JavaScript.
    for (plain, escaped) in [('<', "\\u003c"), ('\u{2028}', "\\u2028"), ('\u{2029}', "\\u2029")] {
        if s.contains(plain) {
            s = s.replace(plain, escaped);
        }
    }
    s
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn thread(row: usize, level: usize) -> usize {
    row * LEVELS + level.min(LEVELS - 1) + 1
}

struct Writer<W: Write> {
    out: W,
    first: bool,
}

impl<W: Write> Writer<W> {
    fn event(&mut self, text: std::fmt::Arguments) -> io::Result<()> {
        self.out.write_all(if std::mem::take(&mut self.first) { b"\n" } else { b",\n" })?;
        self.out.write_fmt(text)
    }
}

/// Writes a trace as JSON.
///
/// # Errors
/// Those of the writer.
pub fn write(t: &Timeline, mut out: impl Write) -> io::Result<()> {
    write!(
        out,
        "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"title\":{},\"process\":{},\"lost \
         events\":{}}},\"traceEvents\":[",
        quote(&t.title),
        t.pid,
        t.lost
    )?;
    let mut w = Writer { out, first: true };
    for (n, group) in t.groups.iter().enumerate() {
        let name = quote(&group.name);
        w.event(format_args!(r#"{{"ph":"M","pid":{n},"name":"process_name","args":{{"name":{name}}}}}"#))?;
        w.event(format_args!(
            r#"{{"ph":"M","pid":{n},"name":"process_sort_index","args":{{"sort_index":{n}}}}}"#
        ))?;
    }
    for (n, row) in t.rows.iter().enumerate() {
        write_row(&mut w, t, n, row)?;
    }
    for (n, link) in t.links.iter().enumerate() {
        let name = match link.kind {
            LinkKind::Wake => "wake",
            LinkKind::Create => "task",
        };
        for (ph, ns, row) in
            [(r#""s""#, link.from_ns, link.from_row), (r#""f","bp":"e""#, link.to_ns, link.to_row)]
        {
            let (pid, tid, ts) = (t.rows[row as usize].group, thread(row as usize, 0), micros(ns));
            w.event(format_args!(
                r#"{{"ph":{ph},"id":{n},"pid":{pid},"tid":{tid},"ts":{ts},"name":"{name}","cat":"link"}}"#
            ))?;
        }
    }
    w.out.write_all(b"\n]}\n")?;
    w.out.flush()
}

fn write_row<W: Write>(w: &mut Writer<W>, t: &Timeline, n: usize, row: &Row) -> io::Result<()> {
    let pid = row.group;
    if row.kind == RowKind::Counter {
        let name = quote(&row.name);
        for &(ns, value) in &row.points {
            let ts = micros(ns);
            let value = if value.is_finite() { value } else { 0.0 };
            w.event(format_args!(
                r#"{{"ph":"C","pid":{pid},"ts":{ts},"name":{name},"args":{{"value":{value}}}}}"#
            ))?;
        }
        return Ok(());
    }
    for level in 0..row.levels.len().max(1) {
        let (tid, name) = (thread(n, level), quote(&row.name));
        w.event(format_args!(
            r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"thread_name","args":{{"name":{name}}}}}"#
        ))?;
        w.event(format_args!(
            r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"thread_sort_index","args":{{"sort_index":{tid}}}}}"#
        ))?;
    }
    for (l, level) in row.levels.iter().enumerate() {
        let tid = thread(n, l);
        for bar in &level.bars {
            let (ts, dur) = (micros(bar.start), micros((bar.end - bar.start).max(1)));
            let (name, class) = (quote(&t.text(bar.label, bar.x)), bar.class.name());
            let mut args = String::new();
            for (name, value) in arguments(t, bar) {
                let comma = if args.is_empty() { "" } else { "," };
                let value = match value {
                    Argument::Number(n) => n.to_string(),
                    Argument::Text(text) => quote(&text),
                };
                let _ = write!(args, "{comma}\"{name}\":{value}");
            }
            w.event(format_args!(
                r#"{{"ph":"X","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"name":{name},"cat":"{class}","args":{{{args}}}}}"#
            ))?;
        }
    }
    for m in &row.moments {
        let (tid, ts, cat) = (thread(n, 0), micros(m.ns), m.kind.info().name);
        let name = quote(&t.text(m.label, m.x));
        let stack = if m.stack == 0 {
            String::new()
        } else {
            format!(",\"stack\":{}", quote(&stack_text(t, m.stack)))
        };
        w.event(format_args!(
            r#"{{"ph":"i","s":"t","pid":{pid},"tid":{tid},"ts":{ts},"name":{name},"cat":"{cat}","args":{{"value":{}{stack}}}}}"#,
            m.x
        ))?;
    }
    Ok(())
}
