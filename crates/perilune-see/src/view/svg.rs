//! A trace as a picture: the rows as the page draws them, for documents and mails.
//!
//! Bars narrower than a pixel are drawn as the page draws them: shares of the row's height, by class. Every
//! bar has its text as a title, which browsers show when the pointer rests on it.

use super::model::*;
use perilune_trace::Kind;
use std::fmt::Write;

const NAMES: f64 = 190.0;
const HEAD: f64 = 46.0;
const FOOT: f64 = 34.0;

/// Colours by class: the page's in the light.
const FILL: [&str; CLASSES] = [
    "#2e74b5", "#f0d550", "#d3c8f0", "#b4bac4", "#f0a030", "#d55e00", "#b0782a", "#85520f", "#e8833a",
    "#dfe3e9", "#2b9070", "#7fc4e8", "#a9a3c9", "#8ccfc4", "#5b8fc2", "#c2334d",
];
const RUN: [&str; 5] = ["#2e74b5", "#4387c7", "#235f99", "#4f93bd", "#5a7fc0"];
const INK: [&str; CLASSES] = [
    "#fff", "#463c00", "#3d2d73", "#23282f", "#3d2400", "#fff", "#fff", "#fff", "#fff", "#59626e", "#fff",
    "#0d3a52", "#2b2650", "#0e443b", "#fff", "#fff",
];

fn escape(text: &str) -> String {
    let mut s = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => s.push_str("&lt;"),
            '>' => s.push_str("&gt;"),
            '&' => s.push_str("&amp;"),
            '"' => s.push_str("&quot;"),
            c if (c as u32) < 0x20 => s.push(' '),
            c => s.push(c),
        }
    }
    s
}

/// Nanoseconds in words.
fn duration(ns: f64) -> String {
    let (unit, scale) = match ns {
        n if n < 1e3 => ("ns", 1.0),
        n if n < 1e6 => ("µs", 1e3),
        n if n < 1e9 => ("ms", 1e6),
        _ => ("s", 1e9),
    };
    let v = ns / scale;
    let digits = if scale == 1.0 || v >= 100.0 {
        0
    } else if v >= 10.0 {
        1
    } else {
        2
    };
    format!("{v:.digits$} {unit}")
}

fn tick(ns: f64, step: f64) -> String {
    let (unit, scale) = match step {
        s if s >= 1e8 => ("s", 1e9),
        s if s >= 1e5 => ("ms", 1e6),
        s if s >= 100.0 => ("µs", 1e3),
        _ => ("ns", 1.0),
    };
    let digits = (-(step / scale).log10() - 1e-9).ceil().max(0.0) as usize;
    format!("{:.digits$} {unit}", ns / scale)
}

struct Picture<'a> {
    t: &'a Timeline,
    from: u64,
    to: u64,
    width: f64,
    out: String,
}

impl Picture<'_> {
    fn x(&self, ns: u64) -> f64 {
        let share = (ns.clamp(self.from, self.to) - self.from) as f64 / (self.to - self.from) as f64;
        NAMES + share * (self.width - NAMES)
    }

    fn rect(&mut self, x: f64, y: f64, w: f64, h: f64, fill: &str, title: &str) {
        let _ = write!(
            self.out,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{:.1}" height="{h:.1}" fill="{fill}""#,
            w.max(0.3)
        );
        if title.is_empty() {
            self.out.push_str("/>\n");
        } else {
            let _ = writeln!(self.out, "><title>{}</title></rect>", escape(title));
        }
    }

    fn text(&mut self, x: f64, y: f64, fill: &str, text: &str) {
        let _ = writeln!(self.out, r#"<text x="{x:.1}" y="{y:.1}" fill="{fill}">{}</text>"#, escape(text));
    }

    fn level(&mut self, level: &Level, y: f64, h: f64) {
        let per_pixel = (self.to - self.from) as f64 / (self.width - NAMES);
        let mut at = level.bars.partition_point(|b| b.end <= self.from);
        while let Some(&bar) = level.bars.get(at).filter(|b| b.start < self.to) {
            let (x0, x1) = (self.x(bar.start), self.x(bar.end));
            if (bar.end - bar.start) as f64 >= per_pixel {
                let label = self.t.text(bar.label, bar.x);
                let name = if label.is_empty() { bar.class.name() } else { &label };
                let title =
                    format!("{name} · {} · {}", bar.class.name(), duration((bar.end - bar.start) as f64));
                let fill = match bar.class {
                    Class::Run => {
                        RUN[(bar.label.name().wrapping_mul(2_654_435_761) >> 16) as usize % RUN.len()]
                    }
                    class => FILL[class as usize],
                };
                self.rect(x0, y, x1 - x0 - if x1 - x0 > 3.0 { 0.5 } else { 0.0 }, h, fill, &title);
                let room = ((x1 - x0 - 8.0) / 6.2) as usize;
                if room >= 3 && h > 10.0 {
                    let mut short: String = label.chars().take(room).collect();
                    if short.len() < label.len() {
                        short.pop();
                        short.push('…');
                    }
                    self.text(x0 + 4.0, y + h / 2.0 + 4.0, INK[bar.class as usize], &short);
                }
                at += 1;
                continue;
            }
            // A column of a pixel: all bars that begin in it.
            let column = (x0 - NAMES).floor();
            let end = self.from + ((column + 1.0) * per_pixel).ceil() as u64;
            let next = at + level.bars[at..].partition_point(|b| b.start < end).max(1);
            let sums = level.sums(bar.start, end);
            let mut bottom = y + h;
            for (class, &ns) in sums.iter().enumerate().filter(|s| *s.1 > 0) {
                let part = (ns as f64 / per_pixel).min(1.0) * h;
                bottom -= part;
                self.rect(NAMES + column, bottom, 1.0, part.max(0.5), FILL[class], "");
            }
            // A long bar that begins in this column is drawn for itself.
            let long = level.bars[at..next].iter().rposition(|b| (b.end - b.start) as f64 >= per_pixel);
            at = long.map_or(next, |n| at + n.max(1)).max(at + 1);
        }
    }

    fn curve(&mut self, row: &Row, y: f64, h: f64) {
        let first = row.points.partition_point(|p| p.0 <= self.from).saturating_sub(1);
        let last = row.points.partition_point(|p| p.0 < self.to);
        let points = &row.points[first.min(last)..last];
        let Some(&(_, start)) = points.first() else { return };
        let high = points.iter().map(|p| p.1).fold(0.0, f64::max);
        let low = points.iter().map(|p| p.1).fold(0.0, f64::min);
        let scale = if high > low { (h - 6.0) / (high - low) } else { 0.0 };
        let height = |v: f64| y + h - 2.0 - (v - low) * scale;
        let mut path = format!("M{:.1} {:.1}", self.x(points[0].0), height(0.0f64.max(low)));
        let _ = write!(path, "V{:.1}", height(start));
        // What is within half a pixel of the last is not drawn, unless it stands out.
        let (mut drawn, mut before) = (f64::MIN, start);
        for &(ns, value) in &points[1..] {
            let x = self.x(ns);
            if x - drawn >= 0.5 || (value - before).abs() * scale > 1.0 {
                let _ = write!(path, "H{x:.1}V{:.1}", height(value));
                (drawn, before) = (x, value);
            }
        }
        let _ = write!(path, "H{:.1}V{:.1}Z", self.x(self.to.min(self.t.end_ns)), height(0.0f64.max(low)));
        let _ = writeln!(
            self.out,
            "<path d=\"{path}\" fill=\"#7d6bb5\" fill-opacity=\"0.25\" stroke=\"#7d6bb5\"><title>{}, at most \
             {high}</title></path>",
            escape(&row.name)
        );
    }
}

fn height(row: &Row) -> f64 {
    match row.kind {
        RowKind::Activity => 26.0,
        RowKind::Counter => 36.0,
        RowKind::Collector => row.levels.len().max(1) as f64 * 12.0 + 4.0,
        RowKind::Owner | RowKind::Kernel | RowKind::Processor | RowKind::Samples => 14.0,
        _ => 21.0 + row.levels.len().saturating_sub(1) as f64 * 15.0,
    }
}

/// A picture of what lies between two moments, so many pixels wide.
pub fn picture(t: &Timeline, from: u64, to: u64, width: u32) -> String {
    let to = to.max(from + 1);
    let rows: Vec<(&Row, f64)> = t.rows.iter().map(|r| (r, height(r))).collect();
    let total = HEAD + rows.iter().map(|r| r.1).sum::<f64>() + FOOT;
    let mut p = Picture { t, from, to, width: width as f64, out: String::new() };
    let _ = writeln!(
        p.out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{total:.0}\" viewBox=\"0 0 \
         {width} {total:.0}\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>"
    );
    let lost = if t.lost > 0 { format!(" · {} events lost", t.lost) } else { String::new() };
    let head =
        format!("{} · {} of {}{lost}", t.title, duration((to - from) as f64), duration(t.end_ns as f64));
    p.text(8.0, 16.0, "#1c2128", &head);
    let span = (to - from) as f64;
    let rough = span / ((p.width - NAMES) / 110.0).max(1.0);
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|k| k * power).find(|s| *s >= rough).unwrap_or(rough);
    let mut at = (from as f64 / step).ceil() * step;
    while at <= to as f64 {
        let x = p.x(at as u64);
        p.rect(x, 32.0, 1.0, total - 32.0 - FOOT, "#e3e6eb", "");
        p.text(x + 3.0, 40.0, "#5b6571", &tick(at, step));
        at += step;
    }
    let mut y = HEAD;
    for (row, h) in rows {
        if row.kind == RowKind::Activity {
            p.rect(0.0, y, width as f64, 1.0, "#d9dde3", "");
            p.rect(0.0, y + 1.0, NAMES - 2.0, h - 1.0, "#f6f7f9", "");
            let _ = write!(p.out, r#"<g font-weight="bold">"#);
            p.text(8.0, y + 17.0, "#1c2128", &t.groups[row.group as usize].name);
            p.out.push_str("</g>\n");
        } else {
            let name: String = row.name.chars().take(28).collect();
            p.text(20.0, y + h.min(20.0) / 2.0 + 4.0, "#5b6571", &name);
        }
        match row.kind {
            RowKind::Counter => p.curve(row, y, h),
            RowKind::Collector => {
                for (n, level) in row.levels.iter().enumerate() {
                    p.level(level, y + 2.0 + n as f64 * 12.0, 11.0);
                }
            }
            _ => {
                for (n, level) in row.levels.iter().enumerate() {
                    let (top, high) = match (row.kind, n) {
                        (RowKind::Activity, 0) => (y + 4.0, h - 7.0),
                        (RowKind::Owner | RowKind::Kernel | RowKind::Processor, _) => (y + 2.0, 10.0),
                        (_, 0) => (y + 2.0, 17.0),
                        _ => (y + 20.0 + (n - 1) as f64 * 15.0, 13.0),
                    };
                    p.level(level, top, high);
                }
            }
        }
        let inside = |m: &&Moment| (from..to).contains(&m.ns);
        let weighty =
            |m: &&Moment| matches!(m.kind, Kind::Error | Kind::Mark | Kind::Log | Kind::MemoryRefused);
        let moments: Vec<Moment> =
            row.moments.iter().filter(inside).filter(weighty).take(500).copied().collect();
        for m in moments {
            let fill = if m.kind == Kind::Mark {
                "#1d7f5f"
            } else if m.kind == Kind::Log {
                "#7d5fb5"
            } else {
                "#c2334d"
            };
            let title = t.text(m.label, m.x);
            p.rect(p.x(m.ns) - 0.7, y + 1.0, 1.4, h - 2.0, fill, &title);
        }
        y += h;
    }
    let mut x = 8.0;
    for class in [
        Class::Run,
        Class::Ready,
        Class::Wait,
        Class::Block,
        Class::Own,
        Class::Minor,
        Class::Major,
        Class::Sweep,
        Class::Gc,
        Class::Span,
        Class::Part,
    ] {
        let name = if class == Class::Own { "between fibers" } else { class.name() };
        p.rect(x, y + 12.0, 10.0, 10.0, FILL[class as usize], "");
        p.text(x + 14.0, y + 21.0, "#5b6571", name);
        x += 30.0 + name.len() as f64 * 6.2;
    }
    p.out.push_str("</svg>\n");
    p.out
}
