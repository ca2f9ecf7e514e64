//! The kernel's part of the rows: when a domain's thread was on a processor, who displaced it, and who had
//! the processors.
//!
//! The kernel speaks of threads, and threads change domains. A thread's state is kept here all the time; a
//! domain's row shows the state of the thread that owns it, for as long as that does.

use super::*;

/// What the kernel has said so far.
#[derive(Default)]
pub(super) struct Kernel {
    /// State of threads: on a processor, displaced; none: asleep, or not known.
    threads: HashMap<u32, Thread>,
    /// Owners of domains.
    owners: HashMap<u32, u32>,
    /// A domain's row, and what it shows.
    domains: HashMap<u32, (u32, Option<Open>)>,
    /// A processor's row, and what it shows.
    processors: HashMap<u32, (u32, Option<Open>)>,
    /// When `schedstat` was looked at last.
    looked: HashMap<u32, u64>,
    /// The kernel has said anything at all.
    speaks: bool,
}

#[derive(Default)]
struct Thread {
    state: Option<Open>,
    domain: Option<u32>,
    processor: Option<u32>,
}

impl Builder<'_> {
    /// A thread enters a domain.
    pub(super) fn kernel_enters(&mut self, domain: u32, tid: u32, ns: u64) {
        self.kernel.owners.insert(domain, tid);
        let thread = self.kernel.threads.entry(tid).or_default();
        thread.domain = Some(domain);
        let state = thread.state;
        self.kernel_shows(domain, state, ns);
        // A processor's bar says from here on whose the thread is.
        if let Some((processor, open)) = self.kernel.threads.get(&tid).and_then(|t| t.processor.zip(t.state))
        {
            let label = self.kernel_whose(tid);
            self.processor_shows(processor, Some(Open { label, ..open }), ns);
        }
    }

    /// Its owner leaves it.
    pub(super) fn kernel_leaves(&mut self, domain: u32, ns: u64) {
        self.kernel_shows(domain, None, ns);
        if let Some(tid) = self.kernel.owners.remove(&domain)
            && let Some(thread) = self.kernel.threads.get_mut(&tid)
        {
            thread.domain = None;
        }
    }

    fn kernel_shows(&mut self, domain: u32, what: Option<Open>, ns: u64) {
        if !self.kernel.speaks {
            return;
        }
        let row = match self.kernel.domains.get(&domain) {
            Some(shown) => shown.0,
            None => {
                let row = self.row(RowKind::Kernel, domain, 0, "kernel".into());
                self.kernel.domains.insert(domain, (row, None));
                row
            }
        };
        let what = what.map(|open| Open { start: ns, ..open });
        let old = self.kernel.domains.insert(domain, (row, what)).and_then(|shown| shown.1);
        if let Some(old) = old.filter(|old| ns > old.start) {
            push(&mut self.rows[row as usize], 0, old, ns, 0);
        }
    }

    fn processor_shows(&mut self, processor: u32, what: Option<Open>, ns: u64) {
        let row = match self.kernel.processors.get(&processor) {
            Some(shown) => shown.0,
            None => {
                let name = format!("processor {processor}");
                let row = self.row(RowKind::Processor, PROCESSORS, processor as u64, name);
                self.kernel.processors.insert(processor, (row, None));
                row
            }
        };
        let what = what.map(|open| Open { start: ns, ..open });
        let old = self.kernel.processors.insert(processor, (row, what)).and_then(|shown| shown.1);
        if let Some(old) = old.filter(|old| ns > old.start) {
            push(&mut self.rows[row as usize], 0, old, ns, 0);
        }
    }

    /// What a processor's bar says of one of the program's threads.
    fn kernel_whose(&mut self, tid: u32) -> Label {
        match self.kernel.threads.get(&tid).and_then(|t| t.domain) {
            Some(domain) => self.names.plain(&format!("domain {domain}")),
            None => self.names.plain("a thread of the program"),
        }
    }

    /// A process, as `CpuEnd` and `CpuOther` name it: its number, and its name with the number.
    fn process(&mut self, b: u64) -> Option<String> {
        match b >> 32 {
            0 => None,
            pid if pid == self.trace.pid as u64 => Some("another thread of the program".to_owned()),
            pid => Some(format!("{} ({pid})", self.trace.definitions.string(b & 0xffff_ffff))),
        }
    }

    /// An event of the kernel.
    pub(super) fn kernel_event(&mut self, e: &Event) {
        let ns = e.ns;
        self.kernel.speaks = true;
        match e.kind {
            Kind::CpuBegin => {
                let (tid, processor) = (e.a as u32, e.b as u32);
                let label = self.names.plain(&format!("on processor {processor}"));
                let open = Open { start: ns, class: Class::OnCpu, label, stack: 0, x: 0 };
                let thread = self.kernel.threads.entry(tid).or_default();
                (thread.state, thread.processor) = (Some(open), Some(processor));
                if let Some(domain) = thread.domain {
                    self.kernel_shows(domain, Some(open), ns);
                }
                let label = self.kernel_whose(tid);
                self.processor_shows(processor, Some(Open { label, ..open }), ns);
            }
            Kind::CpuEnd => {
                let tid = e.a as u32;
                let open = (e.c == 1).then(|| {
                    let text = match self.process(e.b) {
                        Some(name) => format!("displaced by {name}"),
                        None => "displaced".to_owned(),
                    };
                    let label = self.names.plain(&text);
                    Open { start: ns, class: Class::Displaced, label, stack: 0, x: 0 }
                });
                let thread = self.kernel.threads.entry(tid).or_default();
                thread.state = open;
                let (domain, processor) = (thread.domain, thread.processor.take());
                if let Some(domain) = domain {
                    self.kernel_shows(domain, open, ns);
                }
                if let Some(processor) = processor {
                    self.processor_shows(processor, None, ns);
                }
            }
            Kind::CpuOther => {
                let open = self.process(e.b).map(|name| {
                    let label = self.names.plain(&name);
                    Open { start: ns, class: Class::Own, label, stack: 0, x: 0 }
                });
                self.processor_shows(e.a as u32, open, ns);
            }
            _ => self.kernel_statistics(e),
        }
    }

    /// Sums are all that is known: a curve of how much of the time the thread was kept waiting.
    fn kernel_statistics(&mut self, e: &Event) {
        let Who::Thread(tid) = e.who else { return };
        let last = self.kernel.looked.insert(tid, e.ns).unwrap_or(0);
        if let Some(domain) = self.kernel.threads.get(&tid).and_then(|t| t.domain) {
            let share = 100.0 * e.b as f64 / e.ns.saturating_sub(last).max(1) as f64;
            self.curve(
                domain,
                8,
                "kept waiting for a processor, %",
                Unit::None,
                e.ns,
                share.min(100.0).round(),
            );
        }
    }

    /// The trace ends.
    pub(super) fn kernel_ends(&mut self, ns: u64) {
        for domain in self.kernel.domains.keys().copied().collect::<Vec<_>>() {
            self.kernel_shows(domain, None, ns);
        }
        for processor in self.kernel.processors.keys().copied().collect::<Vec<_>>() {
            self.processor_shows(processor, None, ns);
        }
    }
}
