// Searching, and how the page begins.

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
  await source.open();
  const few = meta.bars <= 150000 && meta.rows.length <= 2000;
  const rows = few || meta.rows.length <= MANY ? meta.rows.map((_, n) => n) : [...new Set([...groups.map(g => g.activity).filter(n => n >= 0), ...wantedRows()])].sort((a, b) => a - b);
  const resolution = few ? 0 : Math.max(1, 2 ** Math.floor(Math.log2((meta.to - meta.from) / 1500)));
  store.whole = await source.tile(meta.from, meta.to, resolution, rows);
  draw(); soon();
}
begin().catch(e => { remark("This trace cannot be shown: " + e.message); throw e; });
