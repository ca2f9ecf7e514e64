// The panel: details of a bar, statistics of a stretch, the legend.

const chip = cls => '<i class="chip" style="background:' + classFill(cls) + '"></i>';

// Makes a bar visible and chooses it.
function reveal(bar) {
  const g = groups[meta.rows[bar.row][1]];
  if (!g.open && bar.row !== g.activity) { g.open = true; layOut(); }
  const l = lineOf.get(bar.row), box = $("scroll");
  if (l && (l.y < box.scrollTop || l.y + l.h > box.scrollTop + height)) box.scrollTop = l.y - height / 3;
  const span = view.to - view.from;
  if (bar.end < view.from || bar.start > view.to || (bar.end - bar.start) / span < 0.004) {
    const wish = Math.min(span, Math.max((bar.end - bar.start) * 12, 2000)), middle = (bar.start + bar.end) / 2;
    setView(middle - wish / 2, middle + wish / 2);
  }
  choose(bar);
}

let showing = 0;
async function choose(bar) {
  if (bar && bar.point !== undefined) bar = null;
  chosen = bar; stretch = null;
  showPanel(); draw();
  if (!bar || bar.bundle) return;
  $("say").textContent = describe(bar) + ", " + (bar.level < 0 ? kindName(bar.kind) : meta.classes[bar.cls] + ", " + duration(bar.end - bar.start)) + ", " + rowTitle(bar.row);
  const mine = ++showing;
  const links = await source.links(bar.row, bar.start, bar.end).catch(() => []);
  if (mine !== showing || chosen !== bar) return;
  // What woke somebody before belongs to what follows only.
  const data = pickRow(bar.row), level = data && bar.level === 0 && data.levels[0];
  let begin = bar.start;
  if (level) { const i = firstEnding(level, bar.start - 1); for (let k = i; k >= 0 && k > i - 3; k--) if (level.cls[k] === READY && level.end[k] === bar.start) begin = level.start[k]; }
  bar.links = bar.level > 0 ? [] : links.filter(l => l.fromRow === bar.row && l.from >= bar.start || l.to >= begin);
  showPanel(); draw();
  const place = placeOf(bar);
  if (place) {
    const lines = await source.source(place.file, place.line).catch(() => null);
    if (mine === showing && chosen === bar && lines && lines.lines) { bar.sourceLines = lines; showPanel(); }
  }
}

function frames(stack) {
  const out = [];
  while (stack && meta.stacks[stack] && out.length < 200) { out.push(meta.stacks[stack]); stack = meta.stacks[stack][0]; }
  return out;
}
function placeOf(bar) {
  for (const [, , file, line] of frames(bar.stack)) if (file && line) return { file, line };
  const m = /\(?([^\s()]+):(\d+)[>)]?\)?$/.exec(text(bar.label || 0, 0));
  return m ? { file: m[1].replace(/^<|^@/, ""), line: +m[2] } : null;
}
function placeLink(file, line) {
  const shownText = escape(file + ":" + line);
  if (!meta.link) return shownText;
  const path = file.replace(/^@/, ""), whole = path.startsWith("/") ? path : (meta.directory ? meta.directory.replace(/\/$/, "") + "/" : "/") + path;
  return '<a href="' + escape(meta.link.replace("{path}", encodeURI(whole)).replace("{line}", line)) + '">' + shownText + "</a>";
}

function showPanel() {
  const d = $("details");
  if (chosen) d.innerHTML = barPanel(chosen);
  else if (stretch && stretch.statistics) d.innerHTML = statisticsPanel(stretch.statistics);
  else if (stretch) d.innerHTML = "<h2>Statistics</h2><p>…</p>";
  else d.innerHTML = legendPanel();
  d.querySelectorAll("[data-link]").forEach(e => e.onclick = () => jump(chosen.links[e.dataset.link]));
  d.querySelectorAll("[data-name]").forEach(e => e.onclick = () => { $("word").value = e.dataset.name; search(e.dataset.name); });
  const b = d.querySelector("#all"); if (b) b.onclick = () => select(view.from, view.to);
}
async function jump(link) {
  const forward = link.fromRow === chosen.row && link.from >= chosen.start && link.from <= chosen.end && !(link.toRow === chosen.row && link.to === chosen.start);
  const row = forward ? link.toRow : link.fromRow, t = forward ? link.to : link.from;
  let data = pickRow(row), level = data && data.levels[0];
  let i = level ? firstEnding(level, t) : 0;
  if (!level || i >= level.n || level.start[i] > t || level.cls[i] === BUNDLE) {
    const tile = await source.tile(t, t + 1, 0, [row]);
    data = tile.rows.get(row); level = data && data.levels[0];
    i = level ? Math.min(firstEnding(level, t), level.n - 1) : -1;
  }
  if (level && i >= 0 && i < level.n) reveal(barOf(row, 0, level, i));
}

function legendPanel() {
  const items = [RUN, READY, WAIT, BLOCK, OWN, MINOR, MAJOR, SWEEP, FINAL, GC, SPAN, PART, COROUTINE, LOAD, ONCPU, DISPLACED];
  const names = { [OWN]: "between fibers", [GC]: "collection", [MAJOR]: "major slice", [SPAN]: "span of the program", [PART]: "parallel loop" };
  return "<h2>Legend</h2><div class=legend>" + items.map(c => "<div>" + chip(c) + escape(names[c] || meta.classes[c]) + "</div>").join("") + "</div>"
    + "<h3>Nothing is selected</h3><p>Click a bar for its details, drag in the ruler for statistics of a stretch. Wheel zooms, dragging moves.</p>"
    + '<p><button type=button id=all>Statistics of what is in view (V)</button></p>';
}

function barPanel(bar) {
  const s = [], row = (k, v) => s.push("<dt>" + k + "</dt><dd>" + v + "</dd>");
  s.push("<h2>" + escape(describe(bar)) + "</h2><dl>");
  if (bar.level < 0) { row("event", escape(kindName(bar.kind))); row("at", moment(bar.start)); }
  else if (bar.bundle) {
    row("from", moment(bar.start)); row("to", moment(bar.end));
    for (const [c, ns] of bar.bundle.sums) row(chip(c) + meta.classes[c], duration(ns));
  } else {
    row("state", chip(bar.cls) + escape(meta.classes[bar.cls]));
    row("duration", duration(bar.end - bar.start));
    row("from", moment(bar.start, 1e6)); row("to", moment(bar.end, 1e6));
  }
  row("row", escape(rowTitle(bar.row)));
  if (bar.level < 0) {
    const k = kindName(bar.kind);
    if (k === "timer-fired") row("late by", duration(bar.x));
    else if (k === "cpu-sample") row("stands for", duration(bar.x));
    else if (["scope-end", "island-made", "island-freed", "major-begin", "trimmed"].includes(k)) row("size", bytes(bar.x));
    else if (bar.x && object(bar.x)) row("object", escape(object(bar.x)));
  } else if (!bar.bundle) {
    if ([RUN, READY, WAIT, PART].includes(bar.cls) && bar.x) row(bar.cls === RUN ? "task" : "object", escape(object(bar.x)));
    if (bar.cls === WAIT && bar.y) row("ended", escape(meta.reasons[bar.y - 1] || ""));
    if (bar.cls === RUN && bar.y) row("then", ["waits", "has returned", "has failed", "is cancelled", "blocks"][bar.y - 1] || "");
    if (bar.cls === PART && bar.y) row("iterations", count(bar.y));
    if (bar.cls === MINOR) { row("allocated", bytes(bar.x)); row("kept", bytes(bar.y) + (bar.x ? " (" + percent(bar.y / bar.x) + ")" : "")); }
    if (bar.cls === MAJOR) { row("marked", bytes(bar.x)); if (bar.y) row("", "complete"); }
    if (bar.cls === GC && bar.x && meta.rows[bar.row][0] === "collector") {
      row("alive after", bytes(bar.x));
      if (bar.y) row("on a processor", percent((bar.y - 1) / 10000) + " of the time");
    }
    if (bar.cls === FINAL) row("finalizers", count(bar.x));
    if (bar.cls === LOAD) row("size", bytes(bar.x));
    if (bar.cls === OWN && bar.x) row("thread", Math.floor(bar.x / 16));
  }
  s.push("</dl>");
  const stack = bar.bundle ? [] : frames(bar.stack), place = !bar.bundle && placeOf(bar);
  if (stack.length) {
    s.push("<h3>Where</h3><ol class=stack>");
    for (const [, f, file, line] of stack.slice(0, 40)) s.push("<li>" + escape(f) + (file && line ? "<br>" + placeLink(file, line) : "") + "</li>");
    s.push("</ol>");
  } else if (place) s.push("<h3>Where</h3><p>" + placeLink(place.file, place.line) + "</p>");
  if (bar.sourceLines) {
    const l = bar.sourceLines;
    s.push("<pre class=source>" + l.lines.map((t, i) => { const n = l.first + i, line = escape(String(n).padStart(4) + "  " + t); return n === l.line ? "<b>" + line + "</b>" : line + "\n"; }).join("") + "</pre>");
  }
  if (bar.links && bar.links.length) {
    const incoming = [], outgoing = [];
    bar.links.forEach((l, i) => {
      const out = l.fromRow === bar.row && l.from >= bar.start && l.from <= bar.end && !(l.toRow === bar.row && l.to <= bar.start);
      const other = out ? l.toRow : l.fromRow, t = out ? l.to : l.from;
      (out ? outgoing : incoming).push('<li><button type=button class=jump data-link="' + i + '">' + (l.kind === 1 ? (out ? "makes " : "made by ") : out ? "wakes " : "woken by ")
        + escape(rowTitle(other)) + "</button><br><span>" + escape(object(l.x)) + " at " + moment(t) + (l.to > l.from ? ", " + duration(l.to - l.from) + " before it began" : "") + "</span></li>");
    });
    if (incoming.length) s.push("<h3>Because of</h3><ol class=links>" + incoming.join("") + "</ol>");
    if (outgoing.length) s.push("<h3>Leads to</h3><ol class=links>" + outgoing.slice(0, 60).join("") + (outgoing.length > 60 ? "<li>and " + (outgoing.length - 60) + " more</li>" : "") + "</ol>");
  }
  return s.join("");
}

async function select(from, to) {
  from = Math.max(meta.from, Math.floor(from)); to = Math.min(meta.to, Math.ceil(to));
  chosen = null;
  const mine = stretch = { from, to };
  showPanel(); draw();
  const statistics = await source.statistics(from, to).catch(e => { remark(e.message); return null; });
  if (stretch !== mine || !statistics) return;
  stretch.statistics = statistics;
  $("say").textContent = "Statistics of " + duration(to - from);
  showPanel();
}

function statisticsPanel(st) {
  const all = Math.max(1, st.to - st.from), s = [];
  s.push("<h2>Statistics of " + duration(all) + "</h2><p>from " + moment(st.from) + " to " + moment(st.to) + "</p>");
  s.push("<h3>Time of each domain</h3>");
  for (const [g, sums] of st.groups.slice(0, 64)) {
    const collecting = sums[MINOR] + sums[MAJOR] + sums[SWEEP] + sums[FINAL] + sums[GC];
    const parts = [[RUN, "running", sums[RUN]], [MINOR, "collection", collecting], [BLOCK, "blocked", sums[BLOCK]], [OWN, "between", sums[OWN]]];
    const idle = Math.max(0, all - parts.reduce((a, p) => a + p[2], 0));
    s.push("<div class=domain><b>" + escape(groups[g].name) + "</b><div class=shares>"
      + parts.map(([c, , ns]) => '<i style="width:' + (ns / all * 100) + "%;background:" + classFill(c) + '"></i>').join("") + "</div><small>"
      + parts.filter(p => p[2] / all > 0.0005).map(([, name, ns]) => name + " " + percent(ns / all)).concat(idle / all > 0.0005 ? ["asleep " + percent(idle / all)] : []).join(" · ") + "</small></div>");
  }
  const table = (title, heads, rows) => { if (rows.length) s.push("<h3>" + title + "</h3><table><tr>" + heads.map(h => "<th>" + h + "</th>").join("") + "</tr>" + rows.map(r => "<tr>" + r.map(c => "<td>" + c + "</td>").join("") + "</tr>").join("") + "</table>"); };
  const name = (n, cls) => chip(cls) + '<button type=button class=jump data-name="' + escape(n) + '">' + escape(n || meta.classes[cls]) + "</button>";
  const bars = st.bars, kind = list => bars.filter(b => list.includes(b[1])).slice(0, 14).map(([n, cls, ns, k, longest]) => [name(n, cls), duration(ns), count(k), duration(longest)]);
  table("Functions (samples)", ["", "time", "samples"], st.functions.slice(0, 14).map(([n, ns, k]) => [escape(n), duration(ns), count(k)]));
  table("What ran", ["", "time", "times", "longest"], kind([RUN]));
  table("What was waited for", ["", "time", "times", "longest"], kind([WAIT, READY, BLOCK]));
  table("Spans and loops", ["", "time", "times", "longest"], kind([SPAN, PART, LOAD, COROUTINE]));
  table("Collections", ["", "time", "times", "longest"], st.collections.map(([cls, ns, k, longest]) => [chip(cls) + meta.classes[cls], duration(ns), count(k), duration(longest)]));
  table("Processors", ["", "time", "times", "longest"], kind([ONCPU, DISPLACED, OWN]));
  table("Events", ["", "number"], st.moments.map(([k, n]) => [escape(k), count(n)]));
  if (st.bundled) s.push("<p>" + count(st.bundled) + " bars are too short to be told apart in this page; they count for domains and collections.</p>");
  if (st.distinct > st.bars.length) s.push("<p>" + count(st.distinct - st.bars.length) + " more names.</p>");
  return s.join("");
}

function remark(s) { const r = $("remark"); r.textContent = s; r.hidden = !s; }
