// What is shown: reading tiles, asking for them, numbers and times in words.
// Times are nanoseconds since the session began; `view` is the stretch that is shown. Nothing here adds up what the server can add up exactly.

const $ = id => document.getElementById(id);
const meta = JSON.parse($("meta").textContent);
const CLASSES = meta.classes.length, BUNDLE = 255;
const RUN = 0, READY = 1, WAIT = 2, BLOCK = 3, MINOR = 4, MAJOR = 5, SWEEP = 6, FINAL = 7, GC = 8, OWN = 9, SPAN = 10, PART = 11, LOAD = 12,
  COROUTINE = 13, ONCPU = 14, DISPLACED = 15;
const began = performance.now();

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

async function unpack(id) {
  const packed = Uint8Array.from(atob($(id).textContent), c => c.charCodeAt(0));
  return new Uint8Array(await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer());
}

// Where bars come from: the page itself, or the server that has sent it.
class Embedded {
  async open() { this.tile0 = readTile(await unpack("data")); this.all = readLinks(await unpack("links")); }
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
    // Of all that the page shows the figures are exact: they were made from all bars, also those that the page has added up.
    if (meta.statistics && from <= meta.from && to >= meta.to) return meta.statistics;
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
  async open() {}
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
// In what moments up to this one are told.
const unitOf = ns => ns >= 1e9 ? ["s", 1e9] : ns >= 1e6 ? ["ms", 1e6] : ["µs", 1e3];
// A moment, as precisely as the view makes sense of.
function moment(ns, width) {
  const [unit, scale] = unitOf(meta.to);
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
