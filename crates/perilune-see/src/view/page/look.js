// Colours, which people of all kinds of sight can tell apart by lightness as well as by hue, and which row lies where.

const dark = matchMedia("(prefers-color-scheme: dark)");
let palette;
function choosePalette() {
  const light = {
    run: ["#2e74b5", "#4387c7", "#235f99", "#4f93bd", "#5a7fc0"], span: ["#2b9070", "#45a585", "#5c9e54", "#1d7f7a"],
    fill: { [READY]: "#f0d550", [WAIT]: "#d3c8f0", [BLOCK]: "#b4bac4", [MINOR]: "#f0a030", [MAJOR]: "#d55e00", [SWEEP]: "#b0782a", [FINAL]: "#85520f", [GC]: "#e8833a",
      [OWN]: "#dfe3e9", [PART]: "#7fc4e8", [LOAD]: "#a9a3c9", [COROUTINE]: "#8ccfc4", [ONCPU]: "#5b8fc2", [DISPLACED]: "#c2334d" },
    ink: { [READY]: "#463c00", [WAIT]: "#3d2d73", [BLOCK]: "#23282f", [MINOR]: "#3d2400", [OWN]: "#59626e", [PART]: "#0d3a52", [LOAD]: "#2b2650", [COROUTINE]: "#0e443b" },
    ground: "#ffffff", band: "#f6f7f9", line: "#e3e6eb", text: "#1c2128", soft: "#5b6571", accent: "#0b62b8", shade: "#0b62b824", veil: "#ffffffa8", curve: "#7d6bb5", curveFill: "#7d6bb53d",
  };
  const night = {
    run: ["#3a7dbf", "#4a8bc9", "#2f6aa6", "#4285a8", "#5676bb"], span: ["#2b8f70", "#3f9d7e", "#55964e", "#24857f"],
    fill: { [READY]: "#d9bd3a", [WAIT]: "#53487e", [BLOCK]: "#69717d", [MINOR]: "#e0952c", [MAJOR]: "#d9641a", [SWEEP]: "#a87530", [FINAL]: "#8a5a20", [GC]: "#d97a3a",
      [OWN]: "#2c333d", [PART]: "#3f7f9f", [LOAD]: "#6a6396", [COROUTINE]: "#3f8a7f", [ONCPU]: "#4a7fb5", [DISPLACED]: "#d8465f" },
    ink: { [READY]: "#2e2700", [WAIT]: "#e0d9f7", [MINOR]: "#2a1900", [OWN]: "#98a3b1" },
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

const view = { from: meta.from, to: meta.to };
const groups = meta.groups.map(([domain, name], index) => ({ index, domain, name, open: true, rows: [], activity: -1 }));
meta.rows.forEach(([kind, group], row) => { if (kind === "activity") groups[group].activity = row; else groups[group].rows.push(row); });
// Threads outside of domains have little to tell.
for (const g of groups) if (g.name === "threads") g.open = false;
// A program of many domains opens with what each of them was at.
if (meta.rows.length > 120) groups.forEach((g, n) => { g.open = n === 0 && g.rows.length < 60 || g.rows.length < 4 && meta.rows.length < 400; });

const GROUP = 28, LEVEL = 16;
const isThin = kind => kind === "owner" || kind === "kernel" || kind === "processor";
function rowHeight(row) {
  const [kind, , , levels] = meta.rows[row];
  // Sizes that hardly ever change need no height.
  if (kind === "counter") return meta.rows[row][2] === "heap: mapped" || meta.rows[row][2] === "nursery" ? 22 : 42;
  if (kind === "collector") return Math.max(1, levels) * 13 + 5;
  if (isThin(kind)) return 16;
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
