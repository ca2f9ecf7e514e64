//! The collector's part of the rows: phases of collections, one within another, and what they leave of the
//! heap.
//!
//! While the collector has a domain, the domain's row shows that. What it showed before is kept
//! (`Domain::under`), follows the fibers meanwhile, and is shown again when the outermost phase ends.

use super::*;

impl Builder<'_> {
    pub(super) fn phase_begins(&mut self, domain: u32, e: &Event) {
        if domain == THREADS {
            return;
        }
        let (class, name) = match e.kind {
            Kind::MinorBegin => (Class::Minor, "minor"),
            Kind::SliceBegin => (Class::Major, "major slice"),
            Kind::SweepBegin => (Class::Sweep, "sweep"),
            Kind::FinalizeBegin => (Class::Final, "finalizers"),
            Kind::CloseBegin => (Class::Sweep, "scope end"),
            _ => (
                Class::Gc,
                ["collection", "explicit step", "full collection", "collection"][e.c.min(3) as usize],
            ),
        };
        let label = self.names.plain(name);
        let open = Open { start: e.ns, class, label, stack: 0, x: 0 };
        let d = self.domain(domain);
        if d.phases.is_empty() {
            d.under = d.shown;
        }
        d.phases.push((e.kind, open));
        self.show(domain, Some(open), e.ns);
    }

    pub(super) fn phase_ends(&mut self, domain: u32, e: &Event) {
        if domain == THREADS {
            return;
        }
        let begin = Kind::from_number(e.kind as u16 - 1);
        let d = self.domain(domain);
        let row = d.collector as usize;
        let Some(depth) = d.phases.iter().rposition(|(k, _)| Some(*k) == begin) else { return };
        // Phases above it whose end was lost end with it.
        let ended: Vec<_> = d.phases.drain(depth..).collect();
        for (n, (_, mut open)) in ended.into_iter().enumerate() {
            if n == 0 {
                open.x = e.a;
            }
            let y = match e.kind {
                _ if n > 0 => 0,
                Kind::StepEnd => e.c as u64,
                _ => e.b,
            };
            push(&mut self.rows[row], depth + n, open, e.ns, y);
        }
        let d = self.domain(domain);
        let next = match d.phases.last() {
            Some((_, open)) => Some(Open { start: e.ns, ..*open }),
            None => d.under.take().map(|open| Open { start: e.ns, ..open }),
        };
        self.show(domain, next, e.ns);
        if e.kind == Kind::StepEnd {
            self.curve(domain, 0, "heap: alive", Unit::Bytes, e.ns, e.a as f64);
            self.curve(domain, 1, "heap: mapped", Unit::Bytes, e.ns, e.b as f64);
        }
    }
}
