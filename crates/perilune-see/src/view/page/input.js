// Pointer and keys.

let pointer = null, drag = null, stretch = null, chosen = null;

function setView(from, to) {
  const all = meta.to - meta.from, span = Math.min(Math.max(to - from, 20), all);
  const middle = (from + to) / 2;
  from = Math.min(Math.max(middle - span / 2, meta.from), meta.to - span);
  view.from = from; view.to = from + span;
  draw(); soon();
}
function zoom(factor, x) {
  const t = T(x === undefined ? width / 2 : x);
  const from = t - (t - view.from) * factor, to = t + (view.to - t) * factor;
  // Keeps what is under the pointer there, also at the ends.
  if (to - from >= meta.to - meta.from) setView(meta.from, meta.to);
  else setView(from, to);
}
const pan = share => { const d = (view.to - view.from) * share; setView(view.from + d, view.to + d); };
function scrollBy(y) { $("scroll").scrollTop += y; }

const canvas = $("canvas"), axis = $("axis"), overview = $("overview");
function wheel(e) {
  if (e.altKey) return;
  e.preventDefault();
  const unit = e.deltaMode === 1 ? 16 : e.deltaMode === 2 ? 400 : 1;
  if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan(e.deltaX * unit / width);
  else if (e.shiftKey) pan(e.deltaY * unit / width);
  else zoom(Math.exp(Math.max(-240, Math.min(240, e.deltaY * unit)) * 0.0022), e.offsetX);
  hideTip();
}
canvas.addEventListener("wheel", wheel, { passive: false });
axis.addEventListener("wheel", wheel, { passive: false });
$("scroll").addEventListener("scroll", () => { draw(); soon(); hideTip(); });

// The bar under a point of the canvas.
function barAt(x, y) {
  y += $("scroll").scrollTop;
  const l = lines[lineAt(y)];
  if (!l || l.row < 0 || y < l.y) return null;
  const data = pickRow(l.row);
  if (!data) return null;
  const m = data.moments, kind = meta.rows[l.row][0], reach = kind === "samples" ? 2 : 4;
  let best = null;
  for (let i = 0; i < m.n; i++) {
    const d = Math.abs(X(m.ns[i]) - x);
    if (d <= reach && (!best || d < best.d)) best = { d, i };
  }
  if (best && (kind === "samples" || y > l.y + 10 && y < l.y + 24 || WEIGHTY[kindName(m.kind[best.i])])) {
    const i = best.i;
    return { row: l.row, level: -1, start: m.ns[i], end: m.ns[i], kind: m.kind[i], count: m.count[i], label: m.label[i], stack: m.stack[i], x: m.x[i], y: 0 };
  }
  const slack = (view.to - view.from) / width, t = T(x);
  for (let k = 0; k < data.levels.length; k++) {
    const [top, h] = levelBox(l, k);
    if (y < top - 1 || y > top + h + 1) continue;
    const level = data.levels[k];
    let i = firstEnding(level, t - slack);
    // The longest of those within reach.
    let pick = -1;
    for (; i < level.n && level.start[i] <= t + slack; i++) {
      if (level.start[i] <= t && level.end[i] > t) { pick = i; break; }
      if (pick < 0 || level.end[i] - level.start[i] > level.end[pick] - level.start[pick]) pick = i;
    }
    if (pick >= 0) return barOf(l.row, k, level, pick);
  }
  if (kind === "counter" && data.points.n && data.points.ns[0] <= t) {
    let i = 0;
    while (i + 1 < data.points.n && data.points.ns[i + 1] <= t) i++;
    return { row: l.row, level: 0, point: data.points.value[i], start: data.points.ns[i], end: data.points.ns[i] };
  }
  return null;
}
function barOf(row, k, level, i) {
  const bar = { row, level: k, index: i, start: level.start[i], end: level.end[i], cls: level.cls[i], label: level.label[i], stack: level.stack[i], x: level.x[i], y: level.y[i] };
  if (bar.cls === BUNDLE) { bar.bundle = level.bundles[level.label[i]]; bar.label = 0; }
  return bar;
}
function describe(bar) {
  if (bar.point !== undefined) return meta.rows[bar.row][4] === "B" ? bytes(bar.point) : String(+bar.point.toPrecision(8));
  if (bar.level < 0) return bar.count > 1 ? count(bar.count) + " events, " + kindName(bar.kind) + " among them" : text(bar.label, bar.x) || kindName(bar.kind);
  if (bar.bundle) return count(bar.bundle.count) + " short bars";
  return text(bar.label, bar.x) || meta.classes[bar.cls];
}
const rowTitle = row => groups[meta.rows[row][1]].name + (meta.rows[row][0] === "activity" ? "" : " › " + meta.rows[row][2]);

function hideTip() { $("tip").hidden = true; }
function showTip(e, bar) {
  const tip = $("tip");
  if (!bar) return hideTip();
  const what = bar.point !== undefined ? meta.rows[bar.row][2] : bar.level < 0 ? kindName(bar.kind) : bar.bundle ? bar.bundle.sums.map(([c, ns]) => meta.classes[c] + " " + duration(ns)).join(", ")
    : meta.classes[bar.cls] + " · " + duration(bar.end - bar.start);
  tip.innerHTML = "<b>" + escape(describe(bar)) + "</b><span>" + escape(what) + "<br>" + escape(rowTitle(bar.row)) + "</span>";
  tip.hidden = false;
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(4, Math.min(innerWidth - w - 8, e.clientX + 14)) + "px";
  tip.style.top = (e.clientY + 18 + h > innerHeight ? e.clientY - h - 10 : e.clientY + 18) + "px";
}

function press(e, kind) {
  if (e.button !== 0) return;
  const box = e.target.getBoundingClientRect();
  const x = e.clientX - box.left, y = e.clientY - box.top;
  drag = { kind, x, y, t: T(x), from: view.from, to: view.to, top: $("scroll").scrollTop, moved: false };
  e.target.setPointerCapture(e.pointerId);
  hideTip();
}
canvas.addEventListener("pointerdown", e => { press(e, e.shiftKey ? "select" : "pan"); });
axis.addEventListener("pointerdown", e => press(e, "select"));
overview.addEventListener("pointerdown", e => { press(e, "overview"); follow(e); });
function follow(e) {
  const box = overview.getBoundingClientRect(), all = meta.to - meta.from, t = meta.from + (e.clientX - box.left) / width * all;
  const span = drag.to - drag.from;
  setView(t - span / 2, t + span / 2);
}
function move(e) {
  const box = e.target.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top;
  if (!drag) {
    pointer = e.target === overview ? null : { x, y };
    if (e.target === canvas) { const bar = barAt(x, y); showTip(e, bar); canvas.style.cursor = bar ? "pointer" : ""; }
    draw();
    return;
  }
  if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < 4) return;
  drag.moved = true;
  if (drag.kind === "pan") {
    canvas.classList.add("moving");
    const d = (drag.x - x) / width * (drag.to - drag.from);
    setView(drag.from + d, drag.to + d);
    $("scroll").scrollTop = drag.top + drag.y - y;
  } else if (drag.kind === "select") {
    const t = T(Math.max(0, Math.min(width, x)));
    stretch = { from: Math.min(t, drag.t), to: Math.max(t, drag.t) };
    draw();
  } else follow(e);
}
function release(e) {
  if (!drag) return;
  const d = drag, box = e.target.getBoundingClientRect();
  drag = null;
  canvas.classList.remove("moving");
  if (d.kind === "select" && d.moved) select(stretch.from, stretch.to);
  else if (!d.moved && d.kind === "pan") choose(barAt(e.clientX - box.left, e.clientY - box.top));
  else if (!d.moved && d.kind === "select") clear();
  draw();
}
for (const e of [canvas, axis, overview]) {
  e.addEventListener("pointermove", move);
  e.addEventListener("pointerup", release);
  e.addEventListener("pointercancel", () => { drag = null; });
  e.addEventListener("pointerleave", () => { pointer = null; hideTip(); draw(); });
}
canvas.addEventListener("dblclick", () => zoomToChosen());

function zoomToChosen() {
  const s = chosen && chosen.level >= 0 ? { from: chosen.start, to: chosen.end } : stretch;
  if (s && s.to > s.from) { const margin = (s.to - s.from) * 0.15; setView(s.from - margin, s.to + margin); }
}
function clear() { stretch = null; chosen = null; showPanel(); draw(); }
function step(by) {
  if (!chosen || chosen.level < 0) return;
  const data = pickRow(chosen.row), level = data && data.levels[chosen.level];
  if (!level) return;
  let i = firstEnding(level, chosen.start);
  if (level.start[i] !== chosen.start) i -= by > 0 ? 1 : 0;
  i += by;
  if (i < 0 || i >= level.n) return;
  reveal(barOf(chosen.row, chosen.level, level, i));
}
addEventListener("keydown", e => {
  if (e.target.matches("input, dialog *") || e.ctrlKey || e.metaKey || e.altKey) {
    if (e.key === "Escape" && e.target.id === "word") canvas.focus();
    return;
  }
  const at = pointer ? pointer.x : undefined;
  const actions = {
    "+": () => zoom(0.6, at), "=": () => zoom(0.6, at), w: () => zoom(0.6, at), "-": () => zoom(1 / 0.6, at), s: () => zoom(1 / 0.6, at),
    ArrowLeft: () => pan(-0.15), a: () => pan(-0.15), ArrowRight: () => pan(0.15), d: () => pan(0.15),
    ArrowUp: () => scrollBy(-60), ArrowDown: () => scrollBy(60), PageUp: () => scrollBy(-height * 0.8), PageDown: () => scrollBy(height * 0.8),
    f: () => setView(meta.from, meta.to), Home: () => setView(meta.from, meta.to), "0": () => setView(meta.from, meta.to),
    ".": () => step(1), ",": () => step(-1), n: () => nextHit(1), N: () => nextHit(-1), v: () => select(view.from, view.to),
    Enter: zoomToChosen, Escape: clear, "/": () => $("word").focus(), "?": () => $("keys").showModal(),
  };
  const action = actions[e.key];
  if (!action || e.key === "Enter" && e.target.matches("button, a")) return;
  e.preventDefault();
  action();
});
$("fit").onclick = () => setView(meta.from, meta.to);
$("help").onclick = () => $("keys").showModal();
new ResizeObserver(resize).observe($("scroll"));
