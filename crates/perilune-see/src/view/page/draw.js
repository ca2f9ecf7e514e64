// Drawing: rows, ruler, overview, names, links.

const X = t => (t - view.from) / (view.to - view.from) * width;
const T = x => view.from + x / width * (view.to - view.from);
let pending = false, painted = 0;
function draw() {
  if (pending) return;
  pending = true;
  requestAnimationFrame(() => { pending = false; paint(); });
}
function context(id) {
  const ctx = $(id).getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ctx;
}

const FONT = '11px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif';
const widths = new Map();
function textWidth(ctx, s) {
  let w = widths.get(s);
  if (w === undefined) { if (widths.size > 20000) widths.clear(); w = ctx.measureText(s).width; widths.set(s, w); }
  return w;
}
function fitText(ctx, s, room) {
  if (room < 14) return "";
  if (textWidth(ctx, s) <= room) return s;
  let n = Math.floor(s.length * room / textWidth(ctx, s));
  while (n > 1 && textWidth(ctx, s.slice(0, n) + "…") > room) n--;
  return n > 1 ? s.slice(0, n) + "…" : "";
}

// Draws a level of bars between y and y + h. What is too narrow to be seen by itself is gathered by columns of a pixel, exactly, and drawn as shares of the height.
const NARROW = 2;
let shares = new Float64Array(0);
function drawLevel(ctx, level, y, h, withText) {
  const perPixel = (view.to - view.from) / width, columns = Math.ceil(width);
  if (shares.length !== columns * CLASSES) shares = new Float64Array(columns * CLASSES);
  let first = columns, last = -1;
  const gather = (x0, x1, cls, ns) => {
    const a = Math.max(0, Math.floor(x0)), b = Math.min(columns - 1, Math.floor(x1)), whole = Math.max(x1 - x0, 1e-9);
    if (a < first) first = a;
    if (b > last) last = b;
    for (let c = a; c <= b; c++) shares[c * CLASSES + cls] += a === b && x0 >= a && x1 <= b + 1 ? ns : ns * (Math.min(x1, c + 1) - Math.max(x0, c)) / whole;
  };
  for (let i = firstEnding(level, view.from); i < level.n; i++) {
    const start = level.start[i], end = level.end[i];
    if (start >= view.to) break;
    const cls = level.cls[i];
    let x0 = X(start), x1 = X(end);
    if (cls === BUNDLE) { for (const [c, ns] of level.bundles[level.label[i]].sums) gather(x0, x1, c, ns); continue; }
    if (x1 - x0 < NARROW) { gather(x0, x1, cls, Math.max(end - start, perPixel / 12)); continue; }
    x0 = Math.max(-2, x0); x1 = Math.min(width + 2, x1);
    const w = x1 - x0 - (x1 - x0 > 4 ? 0.6 : 0);
    ctx.fillStyle = fill(cls, level.label[i]);
    if (w > 5 && h > 10) { ctx.beginPath(); ctx.roundRect(x0, y, w, h, 2); ctx.fill(); } else ctx.fillRect(x0, y, w, h);
    if (cls === BLOCK && w > 3) { ctx.fillStyle = hatching(ctx); ctx.fillRect(x0, y, w, h); }
    // A collection that had to wait for a processor shows for how long.
    if (cls === GC && level.y[i] > 0) { ctx.fillStyle = palette.fill[DISPLACED]; ctx.fillRect(x0, y + h - 3, w * (1 - (level.y[i] - 1) / 10000), 3); }
    if (withText && w > 26) {
      const left = Math.max(x0, 0), s = fitText(ctx, text(level.label[i], level.x[i]), Math.min(x1, width) - left - 8);
      if (s) { ctx.fillStyle = ink(cls); ctx.fillText(s, left + 4, y + h / 2 + 0.5); }
    }
  }
  for (let c = first; c <= last; c++) {
    const at = c * CLASSES;
    let bottom = y + h, sum = 0;
    for (let k = 0; k < CLASSES; k++) sum += shares[at + k];
    if (sum === 0) continue;
    const scale = h / Math.max(perPixel, sum);
    for (let k = 0; k < CLASSES; k++) {
      if (shares[at + k] === 0) continue;
      // Something is seen of everything, but nothing leaves the row.
      const part = Math.min(Math.max(0.8, shares[at + k] * scale), bottom - y);
      shares[at + k] = 0;
      ctx.fillStyle = classFill(k);
      ctx.fillRect(c, bottom - part, 1, part);
      bottom -= part;
    }
  }
}

const WEIGHTY = { error: "#c2334d", "memory-refused": "#c2334d", mark: "#17684f", log: "#6a4ba6" };
function drawMoments(ctx, m, y, h, kind) {
  let last = -9, textEnd = -9;
  for (let i = 0; i < m.n; i++) {
    if (m.ns[i] < view.from || m.ns[i] > view.to) continue;
    const x = X(m.ns[i]), name = kindName(m.kind[i]);
    if (kind === "samples") {
      ctx.fillStyle = palette.run[hash(m.label[i] >>> 1) % palette.run.length];
      ctx.fillRect(x - 0.5, y + 2, 1.5, h - 4);
      continue;
    }
    const colour = WEIGHTY[name];
    if (!colour && x - last < 3) continue;
    last = x;
    ctx.fillStyle = colour || palette.soft;
    ctx.beginPath();
    const r = colour ? 4 : 2.6;
    ctx.moveTo(x, y + h - 1 - r); ctx.lineTo(x + r, y + h - 1); ctx.lineTo(x - r, y + h - 1); ctx.closePath(); ctx.fill();
    if (colour) {
      ctx.fillRect(x - 0.5, y, 1, h);
      if (x > textEnd && m.count[i] === 1) {
        const s = fitText(ctx, text(m.label[i], m.x[i]), 150), w = textWidth(ctx, s);
        ctx.beginPath(); ctx.roundRect(x - 0.5, y, w + 9, 14, [0, 4, 4, 0]); ctx.fill();
        ctx.fillStyle = "#ffffff"; ctx.fillText(s, x + 4, y + 7.5);
        textEnd = x + w + 10;
      }
    }
  }
}

function highest(p) {
  let top = 0;
  for (let i = 0; i < p.n; i++) if (p.value[i] > top) top = p.value[i];
  return top;
}
function drawCurve(ctx, p, y, h, unit) {
  if (!p.n || p.ns[0] > view.to) return; // Nothing is known yet.
  let first = 0;
  while (first + 1 < p.n && p.ns[first + 1] <= view.from) first++;
  let top = 0, low = 0;
  for (let i = first; i < p.n && p.ns[i] <= view.to; i++) { top = Math.max(top, p.value[i]); low = Math.min(low, p.value[i]); }
  const most = top;
  if (top === low) top = low + 1;
  const Y = v => y + h - 3 - (v - low) / (top - low) * (h - 8), base = Y(Math.max(0, low));
  ctx.beginPath();
  let x = Math.max(0, X(p.ns[first])), v = Y(p.value[first]);
  ctx.moveTo(x, v);
  for (let i = first + 1; i < p.n; i++) {
    x = X(p.ns[i]);
    if (x > width) break;
    ctx.lineTo(x, v);
    v = Y(p.value[i]);
    ctx.lineTo(x, v);
  }
  const end = Math.min(width, X(meta.to));
  ctx.lineTo(end, v);
  ctx.strokeStyle = palette.curve; ctx.lineWidth = 1.2; ctx.stroke();
  ctx.lineTo(end, base); ctx.lineTo(Math.max(0, X(p.ns[first])), base); ctx.closePath();
  ctx.fillStyle = palette.curveFill; ctx.fill();
  return most;
}

const tops = new Map();
function paint() {
  const ctx = context("canvas"), top = $("scroll").scrollTop;
  ctx.clearRect(0, 0, width, height);
  ctx.font = FONT; ctx.textBaseline = "middle"; ctx.textAlign = "left";
  const first = lineAt(top), ticks = axisTicks();
  for (let n = first; n < lines.length && lines[n].y < top + height; n++) {
    const l = lines[n], y = l.y - top;
    ctx.fillStyle = l.group ? palette.band : palette.ground;
    ctx.fillRect(0, y, width, l.h);
    ctx.fillStyle = palette.line;
    ctx.fillRect(0, y + l.h - 1, width, 1);
    if (l.group) ctx.fillRect(0, y, width, 1);
  }
  ctx.fillStyle = palette.line;
  for (const t of ticks.list) ctx.fillRect(Math.round(X(t)), 0, 1, height);
  if (stretch) { ctx.fillStyle = palette.shade; ctx.fillRect(X(stretch.from), 0, X(stretch.to) - X(stretch.from), height); }
  for (let n = first; n < lines.length && lines[n].y < top + height; n++) {
    const l = lines[n], y = l.y - top, data = l.row >= 0 && pickRow(l.row);
    if (!data) continue;
    const kind = meta.rows[l.row][0];
    if (kind === "counter") tops.set(l.row, drawCurve(ctx, data.points, y, l.h, meta.rows[l.row][4]));
    else if (kind === "collector") data.levels.forEach((level, k) => drawLevel(ctx, level, y + 3 + k * 13, 12, true));
    else if (isThin(kind)) data.levels.forEach(level => drawLevel(ctx, level, y + 2, l.h - 5, true));
    else if (l.group) { if (data.levels[0]) drawLevel(ctx, data.levels[0], y + 4, l.h - 8, true); }
    else data.levels.forEach((level, k) => drawLevel(ctx, level, k ? y + 21 + (k - 1) * LEVEL : y + 2, k ? LEVEL - 2 : 18, true));
    drawMoments(ctx, data.moments, y + (l.group ? 3 : 1), kind === "samples" ? l.h - 2 : Math.min(l.h - 3, 20), kind);
  }
  drawLinks(ctx, top);
  drawHit(ctx, top);
  if (stretch) {
    const a = X(stretch.from), b = X(stretch.to);
    ctx.fillStyle = palette.accent; ctx.fillRect(a, 0, 1, height); ctx.fillRect(b - 1, 0, 1, height);
  }
  if (pointer && !drag) { ctx.fillStyle = palette.accent + "66"; ctx.fillRect(Math.round(pointer.x), 0, 1, height); }
  paintAxis(ticks);
  paintOverview();
  paintNames(first, top);
  if (!painted && store.whole) {
    painted = performance.now() - began;
    hooks.firstPaint = performance.now();
  }
  hooks.frames++;
}

function axisTicks() {
  const span = view.to - view.from, rough = span / Math.max(2, width / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(k => k * power).find(s => s >= rough) || power * 10;
  const list = [];
  for (let t = Math.ceil(view.from / step) * step; t <= view.to; t += step) list.push(t);
  return { step, list };
}
function tickText(t, step) {
  const [unit, scale] = unitOf(view.to);
  const digits = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
  return t === 0 ? "0" : (t / scale).toFixed(digits) + " " + unit;
}
function paintAxis(ticks) {
  const ctx = context("axis");
  ctx.clearRect(0, 0, width, 26);
  ctx.font = FONT; ctx.textBaseline = "middle";
  if (stretch) { ctx.fillStyle = palette.shade; ctx.fillRect(X(stretch.from), 0, X(stretch.to) - X(stretch.from), 26); }
  for (const t of ticks.list) {
    const x = Math.round(X(t));
    ctx.fillStyle = palette.soft; ctx.fillRect(x, 19, 1, 7);
    if (x < width - 30) ctx.fillText(tickText(t, ticks.step), x + 4, 13);
  }
  if (stretch) {
    const a = X(stretch.from), b = X(stretch.to), s = duration(stretch.to - stretch.from), w = textWidth(ctx, s) + 10, x = Math.max(0, Math.min(width - w, (a + b - w) / 2));
    ctx.fillStyle = palette.accent; ctx.beginPath(); ctx.roundRect(x, 4, w, 17, 3); ctx.fill();
    ctx.fillStyle = palette.ground; ctx.fillText(s, x + 5, 13);
  } else if (pointer && !drag) {
    const s = moment(T(pointer.x)), w = textWidth(ctx, s) + 10, x = Math.max(0, Math.min(width - w, pointer.x - w / 2));
    ctx.fillStyle = palette.text; ctx.beginPath(); ctx.roundRect(x, 4, w, 17, 3); ctx.fill();
    ctx.fillStyle = palette.ground; ctx.fillText(s, x + 5, 13);
  }
  $("span").textContent = duration(view.to - view.from) + " in view";
}

// All domains' activity as shares of the height, and where the view is.
let overviewImage = null;
function paintOverview() {
  const ctx = context("overview"), h = 54, all = meta.to - meta.from;
  ctx.clearRect(0, 0, width, h);
  if (!store.whole) return;
  const key = width + "/" + dark.matches;
  if (!overviewImage || overviewImage.key !== key) {
    const columns = Math.ceil(width), per = all / columns, shares = Array.from({ length: columns }, () => new Float64Array(CLASSES));
    const domains = groups.filter(g => g.activity >= 0);
    for (const g of domains) {
      const data = store.whole.rows.get(g.activity);
      const level = data && data.levels[0];
      if (!level) continue;
      for (let i = 0; i < level.n; i++) {
        const s = level.start[i] - meta.from, e = level.end[i] - meta.from, length = Math.max(1, e - s);
        const sums = level.cls[i] === BUNDLE ? level.bundles[level.label[i]].sums : [[level.cls[i], length]];
        for (let c = Math.max(0, Math.floor(s / per)); c < columns && c * per < e; c++) {
          const part = (Math.min(e, (c + 1) * per) - Math.max(s, c * per)) / length;
          for (const [cls, ns] of sums) shares[c][cls] += ns * part;
        }
      }
    }
    const image = document.createElement("canvas");
    image.width = columns; image.height = h;
    // The full height is the busiest moment: of a hundred domains a few may run at a time.
    const drawn = [RUN, MINOR, MAJOR, SWEEP, FINAL, GC, BLOCK, OWN];
    const g = image.getContext("2d"), full = Math.max(1e-9, ...shares.map(column => drawn.reduce((sum, cls) => sum + column[cls], 0)));
    shares.forEach((column, x) => {
      let bottom = h - 2;
      for (const cls of drawn) {
        const part = column[cls] / full * (h - 6);
        if (part <= 0) continue;
        g.fillStyle = classFill(cls);
        g.fillRect(x, bottom - part, 1, part);
        bottom -= part;
      }
    });
    overviewImage = { key, image };
  }
  ctx.drawImage(overviewImage.image, 0, 0);
  const a = (view.from - meta.from) / all * width, b = Math.max(a + 2, (view.to - meta.from) / all * width);
  ctx.fillStyle = palette.veil;
  ctx.fillRect(0, 0, a, h); ctx.fillRect(b, 0, width - b, h);
  ctx.strokeStyle = palette.accent; ctx.lineWidth = 1.5;
  ctx.strokeRect(a + 0.75, 0.75, b - a - 1.5, h - 1.5);
}

// Names are elements: they can be focused, read aloud, found by a browser's search. Only those in view exist.
const shown = new Map();
function paintNames(first, top) {
  const keep = new Set();
  for (let n = first; n < lines.length && lines[n].y < top + height; n++) {
    const l = lines[n], key = l.group ? "g" + l.group.index : l.row;
    keep.add(key);
    let e = shown.get(key);
    if (!e) {
      e = document.createElement(l.group ? "button" : "div");
      e.className = l.group ? "name group" : "name";
      e.innerHTML = "<span></span><span class=value></span>";
      e.firstChild.textContent = l.group ? l.group.name : meta.rows[l.row][2];
      e.title = e.firstChild.textContent;
      if (l.group) { e.type = "button"; e.onclick = () => toggle(l.group); }
      else if (["owner", "collector", "counter", "samples", "kernel", "processor"].includes(meta.rows[l.row][0])) e.classList.add("quiet");
      shown.set(key, e);
      $("labels").append(e);
    }
    e.style.top = l.y + "px"; e.style.height = l.h + "px";
    if (l.group) e.setAttribute("aria-expanded", l.group.open);
    e.classList.toggle("chosen", !!chosen && !l.group && chosen.row === l.row);
    const t = tops.get(l.row);
    const value = l.group ? (l.group.open ? "" : count(l.group.rows.length) + " rows") : t === undefined ? "" : meta.rows[l.row][4] === "B" ? bytes(t) : count(+t.toPrecision(4));
    if (e.lastChild.textContent !== value) e.lastChild.textContent = value;
  }
  for (const [key, e] of shown) if (!keep.has(key)) { e.remove(); shown.delete(key); }
}
function toggle(group) {
  group.open = !group.open;
  layOut(); draw(); soon();
}

function yOf(row, top) {
  const l = lineOf.get(row);
  if (l) return l.y - top + Math.min(l.h, 23) / 2;
  const g = lines.find(l => l.group && l.group.index === meta.rows[row][1]);
  return g.y - top + g.h / 2;
}
function drawLinks(ctx, top) {
  if (!chosen || !chosen.links) return;
  for (const l of chosen.links) {
    const out = l.fromRow === chosen.row && !(l.toRow === chosen.row && l.to >= chosen.start && l.to <= chosen.end);
    const x0 = X(l.from), x1 = X(l.to), y0 = yOf(l.fromRow, top), y1 = yOf(l.toRow, top);
    if (Math.max(x0, x1) < -200 || Math.min(x0, x1) > width + 200) continue;
    ctx.strokeStyle = ctx.fillStyle = l.kind === 1 ? (dark.matches ? "#ffb14e" : "#b35900") : palette.text;
    ctx.globalAlpha = out ? 0.6 : 1;
    ctx.lineWidth = 1.5;
    ctx.setLineDash(l.kind === 1 ? [] : [5, 3]);
    const bend = Math.max(18, Math.abs(x1 - x0) / 2);
    ctx.beginPath(); ctx.moveTo(x0, y0); ctx.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1); ctx.stroke();
    ctx.setLineDash([]);
    ctx.beginPath(); ctx.arc(x0, y0, 2.5, 0, 7); ctx.fill();
    ctx.beginPath(); ctx.moveTo(x1 + 1, y1); ctx.lineTo(x1 - 7, y1 - 4); ctx.lineTo(x1 - 7, y1 + 4); ctx.closePath(); ctx.fill();
    ctx.globalAlpha = 1;
  }
}
// Where a level's bars lie in a line.
function levelBox(l, level) {
  const kind = meta.rows[l.row][0];
  if (l.group) return [l.y + 4, l.h - 8];
  if (kind === "collector") return [l.y + 3 + level * 13, 12];
  if (isThin(kind)) return [l.y + 2, l.h - 5];
  return level > 0 ? [l.y + 21 + (level - 1) * LEVEL, LEVEL - 2] : [l.y + 2, 18];
}
function drawHit(ctx, top) {
  if (!chosen) return;
  const l = lineOf.get(chosen.row);
  if (!l) return;
  const [y, h] = levelBox(l, Math.max(0, chosen.level)), x0 = Math.max(-4, X(chosen.start)), x1 = Math.min(width + 4, X(chosen.end));
  ctx.strokeStyle = palette.text; ctx.lineWidth = 2;
  ctx.strokeRect(x0 - 1, y - top - 1, Math.max(3, x1 - x0 + 1.5), h + 2);
}
