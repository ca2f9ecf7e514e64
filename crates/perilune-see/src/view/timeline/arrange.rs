//! The end of the pass: from rows in the order in which they were met to groups of rows in the order in which
//! people look for them.
//!
//! Bars that are open end with the trace. Rows that have nothing to show go, those of a domain stand
//! together, and what refers to a row by its number (links) gets the new one.

use super::*;

impl Builder<'_> {
    /// What is open lasts until the end; rows and groups get their order.
    pub(super) fn finish(mut self) -> Timeline {
        let end = self.trace.end_ns;
        self.kernel_ends(end);
        for domain in self.domains.keys().copied().collect::<Vec<_>>() {
            self.show(domain, None, end);
            let d = self.domain(domain);
            let (owner, owned, collector) = (d.owner as usize, d.owned.take(), d.collector as usize);
            let phases = std::mem::take(&mut d.phases);
            if let Some(open) = owned {
                push(&mut self.rows[owner], 0, open, end, 0);
            }
            for (depth, (_, open)) in phases.into_iter().enumerate() {
                push(&mut self.rows[collector], depth, open, end, 0);
            }
        }
        for place in self.places.values_mut().chain(self.threads.values_mut()) {
            let row = &mut self.rows[place.row as usize];
            if let Some(open) = place.state.take() {
                push(row, 0, open, end, 0);
            }
            for span in std::mem::take(&mut place.spans) {
                push(row, span.level, span.open, end, 0);
            }
        }
        // A fiber's or a span's domain may have written nothing that was kept.
        let domains: BTreeSet<u32> =
            self.rows.iter().map(|r| r.group).chain(self.domains.keys().copied()).collect();
        let mut groups: Vec<(GroupKind, u32)> =
            domains.into_iter().filter(|&n| n < PROCESSORS).map(|n| (GroupKind::Domain(n), n)).collect();
        for (kind, n) in [(GroupKind::Processors, PROCESSORS), (GroupKind::Threads, THREADS)] {
            if self.rows.iter().any(|r| r.group == n) {
                groups.push((kind, n));
            }
        }
        groups.sort_unstable();
        let position: HashMap<u32, u32> =
            groups.iter().enumerate().map(|(at, (_, n))| (*n, at as u32)).collect();
        let mut order: Vec<u32> = (0..self.rows.len() as u32).collect();
        // What has nothing to show is left out.
        order.retain(|&n| {
            let r = &self.rows[n as usize];
            !r.levels.is_empty()
                || !r.moments.is_empty()
                || !r.points.is_empty()
                || r.kind == RowKind::Activity
        });
        order.sort_by_key(|&n| {
            let r = &self.rows[n as usize];
            (position[&r.group], r.kind, r.number)
        });
        let mut new = vec![u32::MAX; self.rows.len()];
        for (at, &n) in order.iter().enumerate() {
            new[n as usize] = at as u32;
        }
        let mut old: Vec<Option<Row>> = self.rows.into_iter().map(Some).collect();
        let mut rows = Vec::with_capacity(order.len());
        for n in order {
            let Some(mut row) = old[n as usize].take() else { continue };
            row.group = position[&row.group];
            for level in &mut row.levels {
                level.finish();
            }
            row.moments.sort_by_key(|m| m.ns);
            rows.push(row);
        }
        let mut links = self.links;
        links.retain_mut(|l| {
            (l.from_row, l.to_row) = (new[l.from_row as usize], new[l.to_row as usize]);
            l.from_row != u32::MAX && l.to_row != u32::MAX
        });
        links.sort_by_key(|l| l.to_ns);
        let names = self.names.names;
        let groups = groups
            .into_iter()
            .map(|(kind, n)| {
                let name = match kind {
                    GroupKind::Threads => "threads".to_owned(),
                    GroupKind::Processors => "processors".to_owned(),
                    GroupKind::Domain(_) => {
                        let name =
                            self.domain_names.get(&n).map_or("", |l| names[l.name() as usize].as_str());
                        match name {
                            "" => format!("domain {n}"),
                            _ if name.contains(&format!("domain {n}")) => name.to_owned(),
                            _ => format!("domain {n}: {name}"),
                        }
                    }
                };
                Group { kind, name }
            })
            .collect();
        Timeline {
            title: self.trace.title.clone(),
            pid: self.trace.pid,
            end_ns: end,
            start_real_ns: self.trace.start_real_ns,
            start_mono_ns: self.trace.start_mono_ns,
            events: self.trace.events.len() as u64,
            lost: self.trace.lost,
            groups,
            rows,
            names,
            links,
            definitions: self.trace.definitions.clone(),
        }
    }
}
