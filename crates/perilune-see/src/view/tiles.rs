//! Levels of detail: what a page needs to draw a stretch of time at a given resolution, in few bytes.
//!
//! A tile has everything between two moments. A bar at least as long as the resolution is in it as it is;
//! shorter ones that begin in the same piece of time become one *bundle*, with its exact time by class. The
//! page draws a bundle as shares of a bar's height, so a row of a million bars looks like what it is at every
//! zoom. Sums kept every [`BLOCK`] bars make a bundle of any size cheap: a tile costs a walk over the bars
//! that are visible one by one and a sixty-fourth of the others.
//!
//! A resolution of 0 asks for everything as it is.
//!
//! # Bytes
//! Numbers are little-endian in groups of seven bits (LEB128), times are differences. `n × (...)` is a count
//! and so many of what follows.
//! ```text
//! tile   = from to resolution  n × row
//! row    = index  n × level  moments  points
//! level  = n × (start − end before, length × 2 + is a bundle, bar | bundle)
//! bar    = class label stack x y
//! bundle = bars, n × (class, ns)
//! moments = n × (ns − ns before, kind, 0: count and weightiest kind | else: label stack x)
//! points = n × (ns − ns before, value × 2 | 1 and eight bytes of a float)
//! links  = n × (to − to before, to − from, from row, to row, x, kind)
//! ```

use super::model::*;
use perilune_trace::Kind;

/// A buffer of numbers.
#[derive(Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    /// A count that is known when what is counted has been written: `f` writes and counts.
    fn counted(&mut self, f: impl FnOnce(&mut Bytes) -> u64) -> u64 {
        let at = self.0.len();
        let n = f(self);
        let mut count = Bytes::default();
        count.number(n);
        self.0.splice(at..at, count.0);
        n
    }
}

/// What a tile shows.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Nanoseconds since the session began.
    pub from: u64,
    /// Likewise.
    pub to: u64,
    /// Bars shorter than so many nanoseconds are bundled.
    pub resolution: u64,
}

/// A tile of these rows, and how many things it has.
pub fn tile(t: &Timeline, extent: Extent, rows: &[usize]) -> (Bytes, u64) {
    let mut out = Bytes::default();
    for n in [extent.from, extent.to, extent.resolution, rows.len() as u64] {
        out.number(n);
    }
    let mut things = 0;
    for &n in rows {
        let row = &t.rows[n];
        out.number(n as u64);
        out.number(row.levels.len() as u64);
        for level in &row.levels {
            things += out.counted(|out| write_level(out, level, extent));
        }
        things += out.counted(|out| write_moments(out, &row.moments, extent));
        things += out.counted(|out| write_points(out, &row.points, extent));
    }
    (out, things)
}

fn write_level(out: &mut Bytes, level: &Level, e: Extent) -> u64 {
    let bars = &level.bars;
    let mut at = bars.partition_point(|b| b.end < e.from);
    let (mut count, mut end) = (0, 0);
    while let Some(bar) = bars.get(at).filter(|b| b.start < e.to) {
        count += 1;
        out.number(bar.start - end);
        let next = if e.resolution == 0 || bar.end - bar.start >= e.resolution {
            at + 1
        } else {
            bundle_end(level, at, e.resolution)
        };
        let last = bars[next - 1].end;
        out.number((last - bar.start) << 1 | (next > at + 1) as u64);
        end = last;
        if next == at + 1 {
            out.0.push(bar.class as u8);
            for n in [bar.label.0 as u64, bar.stack as u64, bar.x, bar.y] {
                out.number(n);
            }
        } else {
            out.number((next - at) as u64);
            let (before, after) = (level.sums_before(at), level.sums_before(next));
            let sums: Vec<_> = (0..CLASSES).map(|c| (c, after[c] - before[c])).filter(|s| s.1 > 0).collect();
            out.number(sums.len() as u64);
            for (class, ns) in sums {
                out.0.push(class as u8);
                out.number(ns);
            }
        }
        at = next;
    }
    count
}

/// The first bar that does not belong to the bundle that begins at `at`.
fn bundle_end(level: &Level, at: usize, resolution: u64) -> usize {
    let piece = level.bars[at].start / resolution;
    let belongs = |b: &Bar| b.start / resolution == piece && b.end - b.start < resolution;
    let mut at = at + 1;
    while let Some(bar) = level.bars.get(at) {
        if at.is_multiple_of(BLOCK)
            && let Some(last) = level.bars.get(at + BLOCK - 1)
            && level.blocks[at / BLOCK].longest < resolution
            && last.start / resolution == piece
        {
            at += BLOCK;
        } else if belongs(bar) {
            at += 1;
        } else {
            break;
        }
    }
    at
}

/// What must not disappear behind other things of the same moment.
fn weight(kind: Kind) -> u32 {
    match kind {
        Kind::Error | Kind::MemoryRefused => 4,
        Kind::Mark => 3,
        Kind::Log => 2,
        Kind::CpuSample | Kind::ChannelSend | Kind::ChannelRecv => 0,
        _ => 1,
    }
}

fn write_moments(out: &mut Bytes, moments: &[Moment], e: Extent) -> u64 {
    let from = moments.partition_point(|m| m.ns < e.from);
    let to = moments.partition_point(|m| m.ns < e.to);
    let (mut count, mut before) = (0, 0);
    let same = |a: &Moment, b: &Moment| e.resolution != 0 && a.ns / e.resolution == b.ns / e.resolution;
    for bundle in moments[from..to.max(from)].chunk_by(same) {
        count += 1;
        let first = bundle[0];
        out.number(first.ns - before);
        before = first.ns;
        if bundle.len() == 1 {
            for n in [first.kind as u64, first.label.0 as u64, first.stack as u64, first.x] {
                out.number(n);
            }
        } else {
            let kind = bundle.iter().map(|m| m.kind).max_by_key(|k| weight(*k)).unwrap_or(first.kind);
            for n in [0, bundle.len() as u64, kind as u64] {
                out.number(n);
            }
        }
    }
    count
}

fn write_points(out: &mut Bytes, points: &[(u64, f64)], e: Extent) -> u64 {
    // The value that holds at the beginning, and the first one after the end.
    let from = points.partition_point(|p| p.0 <= e.from).saturating_sub(1);
    let to = (points.partition_point(|p| p.0 < e.to) + 1).min(points.len());
    let mut shown: Vec<(u64, f64)> = Vec::new();
    let same = |a: &(u64, f64), b: &(u64, f64)| e.resolution != 0 && a.0 / e.resolution == b.0 / e.resolution;
    for piece in points[from..to.max(from)].chunk_by(same) {
        if piece.len() <= 4 {
            shown.extend_from_slice(piece);
            continue;
        }
        // First, last, lowest, highest: a curve through them covers what the others cover.
        let by = |a: &usize, b: &usize| piece[*a].1.total_cmp(&piece[*b].1);
        let mut keep = vec![0, piece.len() - 1];
        keep.extend((0..piece.len()).min_by(by));
        keep.extend((0..piece.len()).max_by(by));
        keep.sort_unstable();
        keep.dedup();
        shown.extend(keep.into_iter().map(|n| piece[n]));
    }
    let mut before = 0;
    for &(ns, value) in &shown {
        out.number(ns - before);
        before = ns;
        if value >= 0.0 && value.fract() == 0.0 && value < (1u64 << 52) as f64 {
            out.number((value as u64) << 1);
        } else {
            out.number(1);
            out.0.extend_from_slice(&value.to_le_bytes());
        }
    }
    shown.len() as u64
}

/// Links, as bytes.
pub fn links<'a>(links: impl Iterator<Item = &'a Link>) -> Bytes {
    let mut out = Bytes::default();
    out.counted(|out| {
        let (mut count, mut before) = (0, 0);
        for l in links {
            count += 1;
            for n in [
                l.to_ns - before,
                l.to_ns - l.from_ns,
                l.from_row as u64,
                l.to_row as u64,
                l.x,
                l.kind as u64,
            ] {
                out.number(n);
            }
            before = l.to_ns;
        }
        count
    });
    out
}

/// Everything of a trace in at most about so many things: the resolution is as fine as that allows. The
/// resolution is part of the answer; 0 says that nothing was left out.
pub fn within(t: &Timeline, from: u64, to: u64, most: u64) -> (Bytes, u64) {
    let rows: Vec<usize> = (0..t.rows.len()).collect();
    let mut resolution = 0;
    if t.rows.iter().map(things).sum::<u64>() > most {
        // Every level may be full of bundles.
        let levels: usize = t.rows.iter().map(|r| r.levels.len()).sum();
        resolution = ((to - from) * levels as u64 / most.max(1) / 4).max(1);
    }
    loop {
        let (bytes, things) = tile(t, Extent { from, to, resolution }, &rows);
        if things <= most || resolution > to - from {
            return (bytes, resolution);
        }
        resolution = resolution.max(1) * 2;
    }
}

/// Bars, moments and points of a row.
fn things(row: &Row) -> u64 {
    let bars: usize = row.levels.iter().map(|l| l.bars.len()).sum();
    (bars + row.moments.len() + row.points.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Reader<'a>(&'a [u8]);
    impl Reader<'_> {
        fn number(&mut self) -> u64 {
            let (mut n, mut shift) = (0, 0);
            loop {
                let byte = self.0[0];
                self.0 = &self.0[1..];
                n |= (byte as u64 & 127) << shift;
                if byte < 128 {
                    return n;
                }
                shift += 7;
            }
        }
    }

    /// Time by class, bars (bundled or not) and things of a level as written.
    fn read(bytes: &[u8]) -> ([u64; CLASSES], u64, u64) {
        let mut r = Reader(bytes);
        let (mut sums, mut bars, mut end) = ([0; CLASSES], 0, 0);
        let count = r.number();
        for _ in 0..count {
            let start = end + r.number();
            let length = r.number();
            end = start + (length >> 1);
            if length & 1 == 0 {
                bars += 1;
                sums[r.number() as usize] += length >> 1;
                for _ in 0..4 {
                    r.number();
                }
            } else {
                bars += r.number();
                for _ in 0..r.number() {
                    let class = r.number() as usize;
                    sums[class] += r.number();
                }
            }
        }
        assert!(r.0.is_empty());
        (sums, bars, count)
    }

    #[test]
    fn nothing_is_lost_at_any_resolution() {
        let mut level = Level::default();
        let (mut at, mut seed) = (0u64, 7u64);
        for n in 0..20_000u64 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let length = if n % 1000 == 0 { 100_000 } else { (seed >> 50) & 255 };
            let class = Class::ALL[(seed >> 40) as usize % 4];
            level.bars.push(Bar {
                start: at,
                end: at + length,
                x: n,
                y: 0,
                label: Label(0),
                stack: 0,
                class,
            });
            at += length + (seed >> 60);
        }
        level.finish();
        let mut counts = Vec::new();
        for resolution in [0, 1, 100, 10_000, at / 100, at * 2] {
            let mut out = Bytes::default();
            out.counted(|out| write_level(out, &level, Extent { from: 0, to: at, resolution }));
            let (sums, bars, count) = read(&out.0);
            assert_eq!((sums, bars), (level.sums(0, at), 20_000), "resolution {resolution}");
            counts.push(count);
        }
        assert_eq!(counts[0], 20_000);
        assert!(counts.is_sorted_by(|a, b| a >= b) && counts[4] <= 101 && counts[5] == 1, "{counts:?}");
    }
}
