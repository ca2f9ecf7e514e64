//! Flame graphs: each call path a column of boxes, as wide as what it stands for; callers below, what they
//! call above.
//!
//! The picture is one SVG without references to anything outside. In a browser, a click on a box makes it as
//! wide as the picture, a click on the bottom row shows all again, and Ctrl-F (or the field of the page)
//! marks the functions whose names contain a text and says what they stand for. Without scripts it is a
//! picture with tooltips. Boxes narrower than a tenth of a pixel are left out; their sum is in the box below
//! them.

use super::tree::{Grain, Tree};
use super::{Profile, Unit};
use std::fmt::Write as _;

/// Width of the picture; heights of a row, and of what is above and below the rows.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 17.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 30.0;
/// Least width of a box that is drawn.
const LEAST: f64 = 0.1;
/// Width of a letter, about.
const LETTER: f64 = 6.6;

/// A number in the unit's own terms: `1.25 s`, `3.4 MB`, `12`.
pub fn amount(value: u64, unit: Unit) -> String {
    let steps: &[(f64, &str)] = match unit {
        Unit::Count => return value.to_string(),
        Unit::Nanoseconds => &[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")],
        Unit::Bytes => &[(1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")],
    };
    let value = value as f64;
    let &(size, name) = steps.iter().find(|(size, _)| value >= *size).unwrap_or(&steps[steps.len() - 1]);
    let n = value / size;
    match n {
        _ if size == 1.0 => format!("{n:.0} {name}"),
        n if n < 10.0 => format!("{n:.2} {name}"),
        n if n < 100.0 => format!("{n:.1} {name}"),
        n => format!("{n:.0} {name}"),
    }
}

/// Text in XML.
fn escape(text: &str) -> String {
    let mut s = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => s.push_str("&amp;"),
            '<' => s.push_str("&lt;"),
            '>' => s.push_str("&gt;"),
            '"' => s.push_str("&quot;"),
            // What XML 1.0 has no way to say.
            c if (c as u32) < 0x20 && !matches!(c, '\t' | '\n') => s.push('\u{fffd}'),
            c => s.push(c),
        }
    }
    s
}

/// Warm colours for Lua, blue for natives, green for the collector and other things of the runtime; the hue
/// of a function is always the same.
fn colour(name: &str, kind: u32) -> String {
    let hash = name.bytes().fold(0x811c_9dc5u32, |h, b| (h ^ b as u32).wrapping_mul(0x0100_0193));
    let (spread, light) = ((hash % 32) as i32, 62 + (hash >> 8) % 12);
    let hue = match kind {
        0 => 18 + spread,
        1 => 200 + spread / 2,
        _ => 130 + spread / 2,
    };
    format!("hsl({hue},70%,{light}%)")
}

/// A flame graph of the profile's first measure.
pub fn svg(profile: &Profile, title: &str) -> String {
    let tree = Tree::new(profile, Grain::Functions);
    let unit = profile.measures.first().map_or(Unit::Count, |m| m.unit);
    let total = tree.nodes[0].total.max(1);
    let depth = tree.depth() + 1;
    let height = TOP + BOTTOM + depth as f64 * ROW;
    let mut out = String::new();
    let _ = write!(
        out,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="system-ui,sans-serif" font-size="11">
<style>rect{{stroke:#fff;stroke-width:.5}}g.f{{cursor:pointer}}g.f:hover rect{{stroke:#000;stroke-width:1}}g.f.found rect{{fill:#b4f!important}}text{{pointer-events:none}}</style>
<rect width="100%" height="100%" fill="#fff" stroke="none"/>
<text x="{}" y="22" font-size="16" text-anchor="middle">{}</text>
<text id="details" x="10" y="{}"></text><text id="matched" x="{}" y="{}" text-anchor="end"></text>
<text id="search" x="{}" y="22" text-anchor="end" style="pointer-events:all;cursor:pointer" fill="#555">search (Ctrl-F)</text>
<g id="frames">
"##,
        WIDTH / 2.0,
        escape(title),
        height - 10.0,
        WIDTH - 10.0,
        height - 10.0,
        WIDTH - 10.0,
    );
    let scale = (WIDTH - 20.0) / total as f64;
    // Nodes to draw: number, depth, left edge in the measure's unit.
    let mut stack = vec![(0usize, 0usize, 0u64)];
    while let Some((n, level, left)) = stack.pop() {
        let node = &tree.nodes[n];
        let width = node.total as f64 * scale;
        if width < LEAST {
            continue;
        }
        let (name, place) = match n {
            0 => ("all".to_owned(), String::new()),
            _ => (profile.function(&node.example), profile.defined(&node.example)),
        };
        let place = if place.is_empty() { place } else { format!(" ({place})") };
        let share = node.total as f64 * 100.0 / total as f64;
        let tip = format!("{name}{place}: {}, {share:.2}%", amount(node.total, unit));
        let (x, y) = (10.0 + left as f64 * scale, height - BOTTOM - (level + 1) as f64 * ROW);
        let room = ((width - 6.0) / LETTER) as usize;
        let shown: String = match name.chars().count() {
            _ if room < 3 => String::new(),
            n if n <= room => name.clone(),
            _ => name.chars().take(room - 1).chain(['…']).collect(),
        };
        let fill = if n == 0 { "#ddd".to_owned() } else { colour(&name, node.example.kind) };
        let _ = writeln!(
            out,
            r##"<g class="f" data-x="{left}" data-w="{}" data-d="{level}" data-n="{}"><title>{}</title><rect x="{x:.2}" y="{y}" width="{width:.2}" height="{}" rx="1" style="fill:{fill}"/><text x="{:.2}" y="{}">{}</text></g>"##,
            node.total,
            escape(&name),
            escape(&tip),
            ROW - 1.0,
            x + 3.0,
            y + 12.0,
            escape(&shown),
        );
        let mut at = left;
        for &child in &node.children {
            stack.push((child, level + 1, at));
            at += tree.nodes[child].total;
        }
    }
    out.push_str("</g>\n<script><![CDATA[\n");
    out.push_str(SCRIPT);
    out.push_str("]]></script>\n</svg>\n");
    out
}

/// A page with the graph, a field to search in, and where the numbers come from.
pub fn html(profile: &Profile, title: &str, remarks: &str) -> String {
    let svg = svg(profile, title);
    format!(
        r#"<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{}</title>
<style>body{{font:14px system-ui,sans-serif;margin:1em auto;max-width:1240px}}input{{font:inherit;padding:.3em;width:20em}}p{{color:#555}}svg{{width:100%;height:auto}}</style></head>
<body><label>Search: <input id="field" type="search" placeholder="part of a function's name"></label>
{svg}<p>{}</p>
<script>document.getElementById('field').addEventListener('input',e=>perilune_search(e.target.value))</script>
</body></html>
"#,
        escape(title),
        escape(remarks),
    )
}

/// Zooming and searching.
const SCRIPT: &str = r#"
(function () {
  const W = 1180, LETTER = 6.6;
  const frames = Array.from(document.querySelectorAll('g.f')).map(g => ({
    g, rect: g.querySelector('rect'), text: g.querySelector('text'), name: g.dataset.n,
    x: +g.dataset.x, w: +g.dataset.w, d: +g.dataset.d }));
  const all = frames.find(f => f.d === 0);
  const details = document.getElementById('details'), matched = document.getElementById('matched');
  function zoom(to) {
    for (const f of frames) {
      const caller = f.d < to.d && f.x <= to.x && f.x + f.w >= to.x + to.w;
      const inside = f.d >= to.d && f.x >= to.x && f.x + f.w <= to.x + to.w;
      f.g.style.display = caller || inside ? '' : 'none';
      if (!caller && !inside) continue;
      const x = caller ? 10 : 10 + (f.x - to.x) / to.w * W, w = caller ? W : f.w / to.w * W;
      f.rect.setAttribute('x', x); f.rect.setAttribute('width', w);
      f.text.setAttribute('x', x + 3);
      const room = Math.floor((w - 6) / LETTER);
      f.text.textContent = room < 3 ? '' : f.name.length <= room ? f.name : f.name.slice(0, room - 1) + '…';
      f.g.style.opacity = caller && f !== to ? .5 : 1;
    }
  }
  function search(part) {
    let sum = 0, end = -1;
    const found = frames.filter(f => part && f.name.includes(part));
    for (const f of frames) f.g.classList.toggle('found', found.includes(f));
    // Boxes above a box that was found are part of it.
    for (const f of found.slice().sort((a, b) => a.x - b.x || b.w - a.w)) {
      if (f.x >= end) { sum += f.w; end = f.x + f.w; }
    }
    matched.textContent = part ? 'matched: ' + (sum / all.w * 100).toFixed(2) + '%' : '';
    return sum / all.w;
  }
  for (const f of frames) {
    f.g.addEventListener('click', () => zoom(f));
    f.g.addEventListener('mouseover', () => details.textContent = f.g.querySelector('title').textContent);
    f.g.addEventListener('mouseout', () => details.textContent = '');
  }
  function ask() { const part = prompt('Part of the name of a function:'); if (part !== null) search(part); }
  document.getElementById('search').addEventListener('click', ask);
  window.addEventListener('keydown', e => {
    if (e.key === 'f' && (e.ctrlKey || e.metaKey)) {
      e.preventDefault();
      const field = document.getElementById('field');
      if (field) field.focus(); else ask();
    } else if (e.key === 'Escape') { zoom(all); search(''); }
  });
  window.perilune_search = search;
  window.perilune_zoom = name => { const f = frames.find(f => f.name === name); if (f) zoom(f); return !!f; };
})();
"#;

#[cfg(test)]
mod tests {
    use super::super::tests::example;
    use super::*;

    #[test]
    fn boxes_are_as_wide_as_their_values_and_names_are_escaped() {
        let picture = svg(&example(), "a <title>");
        assert!(picture.contains("a &lt;title&gt;") && picture.contains("rest &lt;&amp;&quot;'&gt;"));
        assert!(!picture.contains("<title>rest <"));
        // string.rep: 40 of 100 in 1180 pixels.
        let at = picture.find("data-n=\"string.rep\"").unwrap();
        assert!(picture[at..].contains("width=\"472.00\""));
        assert_eq!(picture.matches("<g class=\"f\"").count(), 6);
    }

    #[test]
    fn amounts() {
        assert_eq!(amount(1_250_000_000, Unit::Nanoseconds), "1.25 s");
        assert_eq!(amount(12_345, Unit::Nanoseconds), "12.3 us");
        assert_eq!((amount(999, Unit::Bytes), amount(0, Unit::Bytes)), ("999 B".into(), "0 B".into()));
    }

    #[test]
    fn nothing_at_all_is_a_picture_too() {
        let picture = svg(&Profile { measures: example().measures, ..Profile::default() }, "empty");
        assert!(picture.contains("</svg>"));
    }
}
