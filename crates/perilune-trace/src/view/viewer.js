"use strict";
// The viewer's page. Parts, in order: data, colours, layout, drawing, pointer and keys, the panel, searching.
// Times are nanoseconds since the session began; `view` is the stretch that is shown. Nothing here adds up what the server can add up exactly.
(() => {
const $ = id => document.getElementById(id);
const meta = JSON.parse($("meta").textContent);
const CLASSES = meta.classes.length, BUNDLE = 255;
const RUN = 0, READY = 1, WAIT = 2, BLOCK = 3, MINOR = 4, MAJOR = 5, SWEEP = 6, FINAL = 7, GC = 8, OWN = 9, SPAN = 10, PART = 11, LOAD = 12,
  COROUTINE = 13, ONCPU = 14, DISPLACED = 15;
const began = performance.now();

// ---- Data -------------------------------------------------------------------------------------------------------------------

class Reader {
  constructor(bytes) { this.bytes = bytes; this.at = 0; this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength); }
  number() {
    const bytes = this.bytes;
    let byte = bytes[this.at++];
    if (byte < 128) return byte;
    let n = byte & 127, scale = 128;
    do { byte = bytes[this.at++]; n += (byte & 127) * scale; scale *= 128; } while (byte >= 128);
    return n;
  }
  byte() { return this.bytes[this.at++]; }
  float() { const x = this.view.getFloat64(this.at, true); this.at += 8; return x; }
}

function readLevel(r) {
  const n = r.number();
  const level = {
    n, start: new Float64Array(n), end: new Float64Array(n), cls: new Uint8Array(n), label: new Uint32Array(n), stack: new Uint32Array(n),
    x: new Float64Array(n), y: new Float64Array(n), bundles: [],
  };
  let end = 0;
  for (let i = 0; i < n; i++) {
    const start = end + r.number(), length = r.number();
    end = start + Math.floor(length / 2);
    level.start[i] = start; level.end[i] = end;
    if (length % 2 === 0) {
      level.cls[i] = r.byte(); level.label[i] = r.number(); level.stack[i] = r.number(); level.x[i] = r.number(); level.y[i] = r.number();
    } else {
      const bundle = { count: r.number(), sums: [] };
      for (let k = r.number(); k > 0; k--) { const cls = r.byte(); bundle.sums.push([cls, r.number()]); }
      level.cls[i] = BUNDLE; level.label[i] = level.bundles.length; level.bundles.push(bundle);
    }
  }
  return level;
}

function readMoments(r) {
  const n = r.number();
  const m = { n, ns: new Float64Array(n), kind: new Uint16Array(n), count: new Uint32Array(n), label: new Uint32Array(n), stack: new Uint32Array(n), x: new Float64Array(n) };
  let ns = 0;
  for (let i = 0; i < n; i++) {
    ns += r.number(); m.ns[i] = ns;
    const kind = r.number();
    if (kind === 0) { m.count[i] = r.number(); m.kind[i] = r.number(); }
    else { m.count[i] = 1; m.kind[i] = kind; m.label[i] = r.number(); m.stack[i] = r.number(); m.x[i] = r.number(); }
  }
  return m;
}

function readPoints(r) {
  const n = r.number(), p = { n, ns: new Float64Array(n), value: new Float64Array(n) };
  let ns = 0;
  for (let i = 0; i < n; i++) {
    ns += r.number(); p.ns[i] = ns;
    const v = r.number();
    p.value[i] = v % 2 ? r.float() : v / 2;
  }
  return p;
}

function readTile(bytes) {
  const r = new Reader(bytes);
  const tile = { from: r.number(), to: r.number(), resolution: r.number(), rows: new Map() };
  for (let n = r.number(); n > 0; n--) {
    const row = r.number(), levels = [];
    for (let k = r.number(); k > 0; k--) levels.push(readLevel(r));
    tile.rows.set(row, { levels, moments: readMoments(r), points: readPoints(r) });
  }
  return tile;
}

function readLinks(bytes) {
  const r = new Reader(bytes), links = [];
  let to = 0;
  for (let n = r.number(); n > 0; n--) {
    to += r.number();
    links.push({ to, from: to - r.number(), fromRow: r.number(), toRow: r.number(), x: r.number(), kind: r.number() });
  }
  return links;
}

const unbase64 = id => Uint8Array.from(atob($(id).textContent), c => c.charCodeAt(0));

// Where bars come from: the page itself, or the server that has sent it.
class Embedded {
  constructor() { this.tile0 = readTile(unbase64("data")); this.all = readLinks(unbase64("links")); }
  async tile() { return this.tile0; }
  async links(row, from, to) {
    const found = [];
    let before = null;
    for (const l of this.all) {
      if (l.toRow === row && l.to < from) before = l;
      else if (l.toRow === row && l.to <= to || l.fromRow === row && l.from >= from && l.from <= to) found.push(l);
    }
    return (before ? [before] : []).concat(found.slice(0, 300));
  }
  async search(word) {
    word = word.toLowerCase();
    const names = meta.names.map(n => n.toLowerCase().includes(word));
    const hit = (label, x) => names[label >>> 1] || (label & 1 && text(label, x).toLowerCase().includes(word));
    const hits = [];
    for (const [row, data] of this.tile0.rows) {
      if (meta.rows[row][0] === "activity" || meta.rows[row][0] === "owner") continue;
      data.levels.forEach((l, k) => {
        for (let i = 0; i < l.n; i++)
          if (l.cls[i] !== BUNDLE && hit(l.label[i], l.x[i])) hits.push([row, k, l.start[i], l.end[i], l.cls[i], l.label[i], l.stack[i], l.x[i], l.y[i]]);
      });
      const m = data.moments;
      for (let i = 0; i < m.n; i++)
        if (m.count[i] === 1 && hit(m.label[i], m.x[i])) hits.push([row, -1, m.ns[i], m.ns[i], m.kind[i], m.label[i], m.stack[i], m.x[i], 0]);
    }
    hits.sort((a, b) => a[2] - b[2]);
    return { total: hits.length, hits: hits.slice(0, 2000) };
  }
  async statistics(from, to) {
    const s = { from, to, groups: [], bars: [], collections: [], functions: [], moments: [], bundled: 0 };
    const bars = new Map(), phases = new Map(), functions = new Map(), kinds = new Map();
    const tally = (map, key, ns) => {
      const t = map.get(key) || [0, 0, 0];
      t[0] += ns; t[1]++; t[2] = Math.max(t[2], ns);
      map.set(key, t);
    };
    for (const [row, data] of this.tile0.rows) {
      const kind = meta.rows[row][0];
      if (kind === "activity") {
        const sums = new Array(CLASSES).fill(0);
        if (data.levels[0]) addSums(data.levels[0], from, to, sums);
        s.groups.push([meta.rows[row][1], sums]);
      } else if (kind !== "owner" && kind !== "counter") {
        for (const l of data.levels) {
          for (let i = firstEnding(l, from); i < l.n && l.start[i] < to; i++) {
            const ns = Math.min(l.end[i], to) - Math.max(l.start[i], from);
            if (l.cls[i] === BUNDLE) {
              const b = l.bundles[l.label[i]];
              s.bundled += b.count;
              if (kind === "collector") for (const [cls, sum] of b.sums) tally(phases, cls, sum);
            } else if (kind === "collector") tally(phases, l.cls[i], ns);
            else tally(bars, text(l.label[i], l.x[i]) + "\0" + l.cls[i], ns);
          }
        }
      }
      const m = data.moments;
      for (let i = 0; i < m.n; i++) {
        if (m.ns[i] < from || m.ns[i] >= to) continue;
        if (kindName(m.kind[i]) === "cpu-sample" && m.count[i] === 1) tally(functions, text(m.label[i], 0), m.x[i]);
        else kinds.set(kindName(m.kind[i]), (kinds.get(kindName(m.kind[i])) || 0) + m.count[i]);
      }
    }
    const order = map => [...map].sort((a, b) => b[1][0] - a[1][0]);
    s.distinct = bars.size;
    s.bars = order(bars).slice(0, 40).map(([k, t]) => { const [name, cls] = k.split("\0"); return [name, +cls, ...t]; });
    s.collections = order(phases).map(([cls, t]) => [cls, ...t]);
    s.functions = order(functions).slice(0, 40).map(([name, t]) => [name, t[0], t[1]]);
    s.moments = [...kinds].sort((a, b) => b[1] - a[1]);
    return s;
  }
  async source() { return null; }
}

class Server {
  async get(what, query) {
    const answer = await fetch(what + "?" + new URLSearchParams(query));
    if (!answer.ok) throw new Error(what + ": " + answer.status);
    return answer;
  }
  async bytes(what, query) { return new Uint8Array(await (await this.get(what, query)).arrayBuffer()); }
  async tile(from, to, resolution, rows) { return readTile(await this.bytes("tile", { from: Math.floor(from), to: Math.ceil(to), resolution, rows: ranges(rows) })); }
  async links(row, from, to) { return readLinks(await this.bytes("links", { row, from, to })); }
  async search(word) { return (await this.get("search", { word })).json(); }
  async statistics(from, to) { return (await this.get("statistics", { from: Math.floor(from), to: Math.ceil(to) })).json(); }
  async source(file, line) { return (await this.get("source", { file, line })).json().catch(() => null); }
}

// 1,2,3,7 as 1-3,7
function ranges(rows) {
  const out = [];
  for (let i = 0; i < rows.length; i++) {
    let k = i;
    while (rows[k + 1] === rows[k] + 1) k++;
    out.push(rows[i] === rows[k] ? rows[i] : rows[i] + "-" + rows[k]);
    i = k;
  }
  return out.join(",");
}

// Index of the first bar that ends after `t`.
function firstEnding(level, t) {
  let a = 0, b = level.n;
  while (a < b) { const m = (a + b) >> 1; if (level.end[m] <= t) a = m + 1; else b = m; }
  return a;
}

function addSums(level, from, to, sums) {
  for (let i = firstEnding(level, from); i < level.n && level.start[i] < to; i++) {
    const ns = Math.min(level.end[i], to) - Math.max(level.start[i], from);
    if (level.cls[i] !== BUNDLE) sums[level.cls[i]] += ns;
    else {
      const share = ns / Math.max(1, level.end[i] - level.start[i]);
      for (const [cls, sum] of level.bundles[level.label[i]].sums) sums[cls] += sum * share;
    }
  }
}

const text = (label, x) => (meta.names[label >>> 1] || "") + (label & 1 ? " " + Math.floor(x / 16) : "");
const kindName = n => meta.kinds[n] || "event " + n;
const object = x => {
  const kind = meta.objects[x % 16], number = Math.floor(x / 16);
  return kind ? kind + (number ? " " + number : "") : "";
};

function duration(ns) {
  const [unit, scale] = ns < 1e3 ? ["ns", 1] : ns < 1e6 ? ["µs", 1e3] : ns < 1e9 ? ["ms", 1e6] : ["s", 1e9];
  const v = ns / scale;
  return (scale === 1 ? Math.round(v) : v < 10 ? v.toFixed(2) : v < 100 ? v.toFixed(1) : v.toFixed(0)) + " " + unit;
}
// A moment, as precisely as the view makes sense of.
function moment(ns, width) {
  const [unit, scale] = meta.to >= 1e9 ? ["s", 1e9] : meta.to >= 1e6 ? ["ms", 1e6] : ["µs", 1e3];
  const digits = Math.ceil(Math.log10(scale / Math.max(1, (width || view.to - view.from) / 1000)));
  return (ns / scale).toFixed(Math.min(9, Math.max(0, digits))) + " " + unit;
}
function bytes(n) {
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (n < 1024 || unit === "GiB") return (unit === "B" ? Math.round(n) : n.toFixed(n < 10 ? 2 : n < 100 ? 1 : 0)) + " " + unit;
    n /= 1024;
  }
}
const count = n => n.toLocaleString("en");
const percent = x => (x * 100).toFixed(x < 0.1 ? 1 : 0) + "%";
const escape = s => String(s).replace(/[&<>"']/g, c => "&#" + c.charCodeAt(0) + ";");

const store = { whole: null, detail: null, loading: false, wanted: false };
const source = meta.mode === "embedded" ? new Embedded() : new Server();
// Rows that are asked for beside those in view.
const MARGIN = 12, MANY = 300;

const pickRow = row => {
  const d = store.detail;
  if (d && d.rows.has(row) && d.from <= view.from && d.to >= view.to) return d.rows.get(row);
  return store.whole && store.whole.rows.get(row) || d && d.rows.get(row);
};

// Asks for what the view needs and the store has not, one request at a time.
async function load() {
  if (meta.mode === "embedded" || store.loading || !store.whole) { store.wanted = store.loading; return; }
  const rows = wantedRows(), span = view.to - view.from;
  const resolution = Math.max(1, 2 ** Math.floor(Math.log2(span / Math.max(200, width))));
  const fits = t => t && t.from <= view.from && t.to >= view.to && (t.resolution <= resolution) && rows.every(r => t.rows.has(r));
  if (fits(store.whole) || fits(store.detail)) return;
  store.loading = true;
  const from = Math.max(meta.from, view.from - span * 0.6), to = Math.min(meta.to, view.to + span * 0.6);
  try { store.detail = await source.tile(from, to, resolution <= 1 ? 0 : resolution, rows); }
  catch (e) { remark("The server does not answer any more (" + e.message + ")."); store.loading = false; return; }
  store.loading = false;
  draw();
  soon();
}
let timer = 0;
function soon() { clearTimeout(timer); timer = setTimeout(load, 40); }

// ---- Colours: told apart by people of all kinds of sight, by lightness as well as by hue --------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
let palette;
function choosePalette() {
  const light = {
    run: ["#2e74b5", "#4387c7", "#235f99", "#4f93bd", "#5a7fc0"], span: ["#2b9070", "#45a585", "#5c9e54", "#1d7f7a"],
    fill: { [READY]: "#f0d550", [WAIT]: "#ecd3e4", [BLOCK]: "#b4bac4", [MINOR]: "#f0a030", [MAJOR]: "#d55e00", [SWEEP]: "#b0782a", [FINAL]: "#85520f", [GC]: "#e8833a",
      [OWN]: "#dfe3e9", [PART]: "#7fc4e8", [LOAD]: "#a9a3c9", [COROUTINE]: "#8ccfc4", [ONCPU]: "#5b8fc2", [DISPLACED]: "#c2334d" },
    ink: { [READY]: "#463c00", [WAIT]: "#64335a", [BLOCK]: "#23282f", [MINOR]: "#3d2400", [OWN]: "#59626e", [PART]: "#0d3a52", [LOAD]: "#2b2650", [COROUTINE]: "#0e443b" },
    ground: "#ffffff", band: "#f6f7f9", line: "#e3e6eb", text: "#1c2128", soft: "#5b6571", accent: "#0b62b8", shade: "#0b62b824", veil: "#ffffffa8", curve: "#7d6bb5", curveFill: "#7d6bb53d",
  };
  const night = {
    run: ["#3a7dbf", "#4a8bc9", "#2f6aa6", "#4285a8", "#5676bb"], span: ["#2b8f70", "#3f9d7e", "#55964e", "#24857f"],
    fill: { [READY]: "#d9bd3a", [WAIT]: "#5f4359", [BLOCK]: "#69717d", [MINOR]: "#e0952c", [MAJOR]: "#d9641a", [SWEEP]: "#a87530", [FINAL]: "#8a5a20", [GC]: "#d97a3a",
      [OWN]: "#2c333d", [PART]: "#3f7f9f", [LOAD]: "#6a6396", [COROUTINE]: "#3f8a7f", [ONCPU]: "#4a7fb5", [DISPLACED]: "#d8465f" },
    ink: { [READY]: "#2e2700", [WAIT]: "#ecd3e4", [MINOR]: "#2a1900", [OWN]: "#98a3b1" },
    ground: "#14171c", band: "#1a1e25", line: "#272d36", text: "#e4e8ee", soft: "#98a3b1", accent: "#6cb6ff", shade: "#6cb6ff26", veil: "#14171ca8", curve: "#a796e0", curveFill: "#a796e03d",
  };
  palette = dark.matches ? night : light;
}
choosePalette();
dark.addEventListener("change", () => { choosePalette(); hatch = null; draw(); showPanel(); });
const hash = n => (n * 2654435761 >>> 0) >>> 16;
function fill(cls, label) {
  if (cls === RUN) return palette.run[hash(label >>> 1) % palette.run.length];
  if (cls === SPAN) return palette.span[hash(label >>> 1) % palette.span.length];
  return palette.fill[cls];
}
const classFill = cls => cls === RUN ? palette.run[0] : cls === SPAN ? palette.span[0] : palette.fill[cls];
const ink = cls => palette.ink[cls] || "#ffffff";
let hatch = null;
function hatching(ctx) {
  if (hatch) return hatch;
  const c = document.createElement("canvas");
  c.width = c.height = 8;
  const g = c.getContext("2d");
  g.strokeStyle = dark.matches ? "#ffffff30" : "#00000026"; g.lineWidth = 1.5;
  g.beginPath(); g.moveTo(-2, 10); g.lineTo(10, -2); g.moveTo(-2, 2); g.lineTo(2, -2); g.moveTo(6, 10); g.lineTo(10, 6); g.stroke();
  return hatch = ctx.createPattern(c, "repeat");
}

// ---- Layout -----------------------------------------------------------------------------------------------------------------

const view = { from: meta.from, to: meta.to };
const groups = meta.groups.map(([domain, name], index) => ({ index, domain, name, open: true, rows: [], activity: -1 }));
meta.rows.forEach(([kind, group], row) => { if (kind === "activity") groups[group].activity = row; else groups[group].rows.push(row); });
// A program of many domains opens with what each of them was at.
if (meta.rows.length > 120) groups.forEach((g, n) => { g.open = n === 0 && g.rows.length < 60 || g.rows.length < 4 && meta.rows.length < 400; });

const GROUP = 28, LEVEL = 16;
function rowHeight(row) {
  const [kind, , , levels] = meta.rows[row];
  // Sizes that hardly ever change need no height.
  if (kind === "counter") return meta.rows[row][2] === "heap: mapped" || meta.rows[row][2] === "nursery" ? 22 : 42;
  if (kind === "collector") return Math.max(1, levels) * 13 + 5;
  if (kind === "owner" || kind === "kernel") return 16;
  if (kind === "samples") return 16;
  return 23 + Math.max(0, levels - 1) * LEVEL;
}
let lines = [], total = 0, width = 800, height = 400, ratio = 1;
const lineOf = new Map();
function layOut() {
  lines = []; lineOf.clear();
  let y = 0;
  for (const g of groups) {
    lines.push({ group: g, row: g.activity, y, h: GROUP });
    y += GROUP;
    if (!g.open) continue;
    for (const row of g.rows) { const h = rowHeight(row); lines.push({ group: null, row, y, h }); y += h; }
  }
  for (const l of lines) if (l.row >= 0) lineOf.set(l.row, l);
  total = y + 40;
  $("inner").style.height = Math.max(total, height) + "px";
}
// The first line that ends below `y`.
function lineAt(y) {
  let a = 0, b = lines.length;
  while (a < b) { const m = (a + b) >> 1; if (lines[m].y + lines[m].h <= y) a = m + 1; else b = m; }
  return a;
}
function wantedRows() {
  const rows = [];
  if (meta.rows.length <= MANY) { for (let i = 0; i < meta.rows.length; i++) rows.push(i); return rows; }
  const top = $("scroll").scrollTop;
  const first = Math.max(0, lineAt(top) - MARGIN), last = Math.min(lines.length, lineAt(top + height) + MARGIN);
  for (let i = first; i < last; i++) if (lines[i].row >= 0) rows.push(lines[i].row);
  return rows.sort((a, b) => a - b);
}

function resize() {
  ratio = window.devicePixelRatio || 1;
  const box = $("scroll");
  const names = $("labels").offsetWidth;
  width = Math.max(100, box.clientWidth - names);
  height = box.clientHeight;
  for (const [id, w, h] of [["canvas", width, height], ["axis", width, 26], ["overview", width, 54]]) {
    const c = $(id);
    c.style.width = w + "px"; c.style.height = h + "px";
    if (id !== "canvas") c.style.flex = "none";
    c.width = Math.round(w * ratio); c.height = Math.round(h * ratio);
  }
  layOut();
  draw();
  soon();
}

// ---- Drawing ----------------------------------------------------------------------------------------------------------------

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
  if (!p.n) return;
  let first = 0;
  while (first + 1 < p.n && p.ns[first + 1] <= view.from) first++;
  let top = 0, low = 0;
  for (let i = first; i < p.n && p.ns[i] <= view.to; i++) { top = Math.max(top, p.value[i]); low = Math.min(low, p.value[i]); }
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
  return top;
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
    else if (kind === "owner" || kind === "kernel") data.levels.forEach(level => drawLevel(ctx, level, y + 2, l.h - 5, true));
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
  const [unit, scale] = step >= 1e8 ? ["s", 1e9] : step >= 1e5 ? ["ms", 1e6] : step >= 100 ? ["µs", 1e3] : ["ns", 1];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
  return (t / scale).toFixed(digits) + " " + unit;
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
    const g = image.getContext("2d"), full = per * Math.max(1, domains.length);
    shares.forEach((column, x) => {
      let bottom = h - 2;
      for (const cls of [RUN, MINOR, MAJOR, SWEEP, FINAL, GC, BLOCK, OWN]) {
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
      else if (["owner", "collector", "counter", "samples", "kernel"].includes(meta.rows[l.row][0])) e.classList.add("quiet");
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
  if (kind === "owner" || kind === "kernel") return [l.y + 2, l.h - 5];
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

// ---- Pointer and keys -------------------------------------------------------------------------------------------------------

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
  if (kind === "counter" && data.points.n) {
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

// ---- The panel --------------------------------------------------------------------------------------------------------------

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
    if (bar.cls === GC && bar.x && meta.rows[bar.row][0] === "collector") { row("alive after", bytes(bar.x)); row("mapped", bytes(bar.y)); }
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
  table("The kernel's view", ["", "time", "times", "longest"], kind([ONCPU, DISPLACED]));
  table("Events", ["", "number"], st.moments.map(([k, n]) => [escape(k), count(n)]));
  if (st.bundled) s.push("<p>" + count(st.bundled) + " bars are too short to be told apart in this page; they count for domains and collections.</p>");
  if (st.distinct > st.bars.length) s.push("<p>" + count(st.distinct - st.bars.length) + " more names.</p>");
  return s.join("");
}

function remark(s) { const r = $("remark"); r.textContent = s; r.hidden = !s; }

// ---- Searching --------------------------------------------------------------------------------------------------------------

const found = { word: "", hits: [], total: 0, at: -1 };
async function search(word) {
  found.word = word; found.hits = []; found.total = 0; found.at = -1;
  if (word.trim()) {
    const answer = await source.search(word.trim()).catch(() => ({ hits: [], total: 0 }));
    if (found.word !== word) return;
    found.hits = answer.hits; found.total = answer.total;
  }
  $("hits").textContent = word.trim() ? (found.total ? count(found.total) + " hits" : "no hit") : "";
  if (found.hits.length) nextHit(1);
}
function nextHit(by) {
  const n = found.hits.length;
  if (!n) return;
  found.at = (found.at + by + n) % n;
  if (found.at < 0) found.at = n - 1;
  const [row, level, start, end, cls, label, stack, x, y] = found.hits[found.at];
  $("hits").textContent = count(found.at + 1) + " of " + count(found.total);
  reveal(level < 0 ? { row, level, start, end, kind: cls, count: 1, label, stack, x, y } : { row, level, start, end, cls, label, stack, x, y });
}
let typing = 0;
$("word").addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => search($("word").value), 180); });
$("search").addEventListener("submit", e => { e.preventDefault(); clearTimeout(typing); if (found.word !== $("word").value) search($("word").value); else nextHit(1); });
$("next").onclick = () => nextHit(1);
$("previous").onclick = () => nextHit(-1);

// ---- Beginning --------------------------------------------------------------------------------------------------------------

const hooks = window.__perilune = {
  view, groups, found, frames: 0, firstPaint: 0, store,
  get chosen() { return chosen; }, get stretch() { return stretch; }, get lines() { return lines; }, get width() { return width; },
  xOf: X, describe, idle: () => !store.loading && !pending,
};

async function begin() {
  const domains = groups.filter(g => g.domain).length;
  document.title = (meta.title || "trace") + " – Perilune";
  $("title").textContent = meta.title || "process " + meta.pid;
  $("facts").textContent = [duration(meta.to - meta.from), domains + (domains === 1 ? " domain" : " domains"), count(meta.events) + " events", "process " + meta.pid,
    new Date(meta.startReal / 1e6).toISOString().replace("T", " ").slice(0, 19) + " UTC"].join(" · ");
  const remarks = [];
  if (meta.lost) remarks.push(count(meta.lost) + " events were overwritten before they were read: bars may be missing.");
  if (meta.mode === "embedded" && meta.resolution) remarks.push("This page has bars from " + duration(meta.resolution) + " on one by one; shorter ones are added up. (perilune trace show has all of them.)");
  if (!meta.rows.length) remarks.push("This trace has no events.");
  remark(remarks.join(" "));
  resize();
  showPanel();
  const few = meta.bars <= 150000 && meta.rows.length <= 2000;
  const rows = few || meta.rows.length <= MANY ? meta.rows.map((_, n) => n) : [...new Set([...groups.map(g => g.activity).filter(n => n >= 0), ...wantedRows()])].sort((a, b) => a - b);
  const resolution = few ? 0 : Math.max(1, 2 ** Math.floor(Math.log2((meta.to - meta.from) / 1500)));
  store.whole = await source.tile(meta.from, meta.to, resolution, rows);
  draw(); soon();
}
begin().catch(e => { remark("This trace cannot be shown: " + e.message); throw e; });
})();
