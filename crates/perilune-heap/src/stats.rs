//! Figures about a heap: counters, and histograms of pauses.
//!
//! A histogram has eight buckets per power of two of nanoseconds, so a percentile is right to within 12%.

/// How long pauses took.
#[derive(Clone)]
pub struct Histogram {
    buckets: Box<[u64; 512]>,
    count: u64,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: Box::new([0; 512]), count: 0, total: 0, max: 0 }
    }
}

impl Histogram {
    fn bucket(ns: u64) -> usize {
        if ns < 8 {
            return ns as usize;
        }
        let power = ns.ilog2() as usize;
        (power - 2) * 8 + (ns >> (power - 3)) as usize % 8
    }

    /// The largest value of a bucket.
    fn upper(bucket: usize) -> u64 {
        if bucket < 8 {
            return bucket as u64;
        }
        let power = bucket / 8 + 2;
        ((9 + bucket as u64 % 8) << (power - 3)) - 1
    }

    pub(crate) fn add(&mut self, ns: u64) {
        self.buckets[Self::bucket(ns)] += 1;
        self.count += 1;
        self.total += ns;
        self.max = self.max.max(ns);
    }

    /// Number of pauses.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Sum of all pauses in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.total
    }
    /// The longest pause in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.max
    }
    /// Nanoseconds that `share` (0.0 to 1.0) of the pauses did not exceed, to within 12%.
    pub fn percentile_ns(&self, share: f64) -> u64 {
        let wanted = (self.count as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (i, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= wanted && seen > 0 {
                return Self::upper(i).min(self.max);
            }
        }
        self.max
    }
}

impl core::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "{} pauses, p50 {} ns, p99 {} ns, p99.9 {} ns, max {} ns",
            self.count,
            self.percentile_ns(0.5),
            self.percentile_ns(0.99),
            self.percentile_ns(0.999),
            self.max
        )
    }
}

/// What [`crate::Heap::stats`] reports. Times are nanoseconds, sizes bytes, counts since the heap was made.
#[derive(Clone, Debug, Default)]
pub struct HeapStats {
    /// Minor collections.
    pub minors: u64,
    /// Those of them that made all young objects old without tracing any.
    pub promotions: u64,
    /// Slices of major collections.
    pub slices: u64,
    /// Major collections completed.
    pub majors: u64,
    /// Pauses of minor collections alone.
    pub minor_pauses: Histogram,
    /// Pauses of slices of major collections alone.
    pub slice_pauses: Histogram,
    /// Whole steps, as the program felt them.
    pub step_pauses: Histogram,
    /// Minor collections in processor time: what other processes did meanwhile is not counted.
    pub minor_cpu: Histogram,
    /// Whole steps in processor time.
    pub step_cpu: Histogram,
    /// Time in minor collections, their sweeping included.
    pub minor_ns: u64,
    /// Time in marking of major collections.
    pub major_ns: u64,
    /// Time in sweeping after major collections.
    pub sweep_ns: u64,
    /// Objects and bytes that minor collections kept.
    pub promoted_bytes: u64,
    /// Bytes that minor collections looked at though they were old: deep stacks.
    pub rescanned_bytes: u64,
    /// Bytes allocated in the heap, up to the last collection.
    pub allocated_bytes: u64,
    /// Scopes that had allocated something and were ended.
    pub scopes: u64,
    /// Bytes freed by the ends of scopes.
    pub scope_freed_bytes: u64,
    /// Collections that came while scopes were open, and closed them.
    pub scopes_dissolved: u64,
    /// Entries of the log that minor collections traced again.
    pub logged: u64,
    /// What the program holds now, external memory included.
    pub live_bytes: usize,
    /// External memory now.
    pub external_bytes: usize,
    /// Chunks of small objects now, idle ones included.
    pub small_chunks: usize,
    /// Chunks that hold no object and wait for use or return.
    pub idle_chunks: usize,
    /// Blocks of small objects in use now.
    pub used_blocks: usize,
    /// Free blocks in chunks that also have used ones.
    pub free_blocks: usize,
    /// Bytes of large objects now.
    pub large_bytes: usize,
    /// Large objects now.
    pub large_objects: usize,
    /// Bytes mapped from the system now.
    pub mapped_bytes: usize,
    /// Live share of the used blocks' lines after the last sweep, in percent: fragmentation shows here.
    pub occupancy_percent: u32,
    /// Bytes that may be allocated between two minor collections now.
    pub nursery_bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_ordered() {
        let mut last = 0;
        for ns in 0..100_000u64 {
            let b = Histogram::bucket(ns);
            assert!(b == last || b == last + 1, "{ns}");
            assert!(Histogram::upper(b) >= ns);
            last = b;
        }
        assert!(Histogram::bucket(u64::MAX) < 512);
    }

    #[test]
    fn percentiles() {
        let mut h = Histogram::default();
        for i in 1..=1000 {
            h.add(i * 1000);
        }
        let p50 = h.percentile_ns(0.5);
        assert!((440_000..=570_000).contains(&p50), "{p50}");
        assert_eq!(h.percentile_ns(1.0), 1_000_000);
        assert_eq!(h.max_ns(), 1_000_000);
    }
}
