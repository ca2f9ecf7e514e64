//! Requests: how long servers took to answer, and what that time went to.
//!
//! A request belongs to one fiber from its `RequestBegin` to its `RequestEnd`, so its parts are what the
//! replay knows of that fiber. They add up to the whole without a rest:
//!
//! | part | |
//! |---|---|
//! | queue | since the request came, and since the fiber could have begun on it: the domain did something else |
//! | ran | the fiber ran |
//! | collected | it would have run, and the collector did |
//! | waited | it waited for something, or was in a call that sleeps |
//! | ready | what is left of the handler's time: it could have run, and others did |
//! | writing | from the handler's return to the moment at which the whole answer has been handed over |
//!
//! A fiber that was woken by the bytes of a request has waited for its turn before the request begins, which
//! is the program's queue as much as any other: that delay counts, if the fiber has run since without a
//! break. Of a request that came behind another one on the same connection, HTTP does not know when it came.

use super::histogram::Histogram;
use super::offcpu::{Cause, common};
use super::state::State;
use crate::replay::{self, Change, Replay, Subscriber};
use crate::trace::{Event, Trace, Who};
use perilune_trace::event::{FiberRef, ObjectRef, Protocol, What};
use std::collections::HashMap;

/// What the time of requests went to, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Parts {
    /// It had come, and nobody had begun.
    pub queue: u64,
    /// Its fiber ran.
    pub ran: u64,
    /// The collector stopped it.
    pub collected: u64,
    /// It waited.
    pub waited: u64,
    /// It could have run.
    pub ready: u64,
    /// The answer was written.
    pub writing: u64,
}

impl Parts {
    /// Names and values, in order.
    pub fn all(&self) -> [(&'static str, u64); 6] {
        let Parts { queue, ran, collected, waited, ready, writing } = *self;
        [
            ("queue", queue),
            ("ran", ran),
            ("collected", collected),
            ("waited", waited),
            ("ready", ready),
            ("writing", writing),
        ]
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.all().iter().map(|(_, ns)| ns).sum()
    }

    fn add(&mut self, other: &Parts) {
        self.queue += other.queue;
        self.ran += other.ran;
        self.collected += other.collected;
        self.waited += other.waited;
        self.ready += other.ready;
        self.writing += other.writing;
    }
}

/// A wait within a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waited {
    /// What for.
    pub cause: Cause,
    /// Where: number of a call path, 0 if it is not known.
    pub stack: u32,
    /// Nanoseconds.
    pub ns: u64,
}

/// A request that was answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Number of its name: method and route, or the remote function; 0: not known.
    pub name: u64,
    /// What it was written in.
    pub protocol: Protocol,
    /// The connection that it came by.
    pub object: ObjectRef,
    /// The fiber that answered it.
    pub fiber: FiberRef,
    /// When it came, in nanoseconds since the trace began.
    pub at: u64,
    /// What its time went to.
    pub parts: Parts,
    /// Its longest wait.
    pub longest: Option<Waited>,
    /// HTTP's status; of a remote call 0, or 1 if it has failed.
    pub status: u16,
}

impl Request {
    /// Whether the server has failed.
    pub fn has_failed(&self) -> bool {
        match self.protocol {
            // 0: nothing was answered
            Protocol::Http => self.status >= 500 || self.status == 0,
            _ => self.status != 0,
        }
    }
}

/// Requests of one name.
#[derive(Clone, Debug)]
pub struct Route {
    /// Number of the name.
    pub name: u64,
    /// What they were written in.
    pub protocol: Protocol,
    /// How long they took.
    pub took: Histogram,
    /// How many the server has failed to answer well.
    pub failed: u64,
    /// What their time went to, together.
    pub parts: Parts,
    /// What they waited for, by cause and place; the greatest sum first.
    pub waits: Vec<Waited>,
}

/// What a trace says of requests.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// By name; those that took most together first.
    pub routes: Vec<Route>,
    /// The slowest, the slowest first.
    pub slowest: Vec<Request>,
    /// Those that were under way when the trace ended.
    pub open: u64,
}

struct Open {
    request: Request,
    begun: u64,
    handled: Option<u64>,
}

struct Look<'t> {
    trace: &'t Trace,
    most: usize,
    open: HashMap<FiberRef, Open>,
    /// Fibers that have begun and not run.
    born: HashMap<FiberRef, u64>,
    /// By writer: whose request has begun last.
    last: HashMap<Who, FiberRef>,
    /// How long fibers that run had waited for their turn.
    delayed: HashMap<FiberRef, u64>,
    routes: HashMap<(u64, Protocol), Route>,
    waits: HashMap<(u64, Protocol, Cause, u32), u64>,
    slowest: Vec<Request>,
}

/// Evaluates a trace; keeps the slowest `most`.
pub fn requests(trace: &Trace, most: usize) -> Requests {
    let mut look = Look {
        trace,
        most,
        open: HashMap::new(),
        born: HashMap::new(),
        last: HashMap::new(),
        delayed: HashMap::new(),
        routes: HashMap::new(),
        waits: HashMap::new(),
        slowest: Vec::new(),
    };
    replay::run(trace, &mut [&mut look]);
    look.close()
}

impl Subscriber for Look<'_> {
    fn change(&mut self, change: &Change, _: &Replay) {
        match *change {
            Change::WakeOver { fiber, from, to, .. } => _ = self.delayed.insert(fiber, to - from),
            Change::Interval(of) => {
                if let Some(open) = of.fiber.and_then(|fiber| self.open.get_mut(&fiber))
                    && open.handled.is_none()
                    && of.state.is_running()
                {
                    let parts = &mut open.request.parts;
                    *(if of.state == State::Lua { &mut parts.ran } else { &mut parts.collected }) +=
                        of.to - of.from;
                }
            }
            Change::WaitOver(over) if !over.is_open => {
                let until = over.woken.map_or(over.to, |(at, _)| at).max(over.parked);
                let cause = Cause::Wait(over.wait.verb, common(self.trace, over.wait.object));
                self.waited(over.fiber, cause, over.wait.stack, until - over.parked);
            }
            Change::CallOver(over) if !over.is_open => {
                self.waited(over.fiber, Cause::Call(over.name), over.stack, over.to - over.from);
            }
            Change::Gap { who: Who::Domain(domain), .. } => {
                self.open.retain(|fiber, _| fiber.domain() != domain);
                self.delayed.retain(|fiber, _| fiber.domain() != domain);
                self.born.retain(|fiber, _| fiber.domain() != domain);
            }
            _ => {}
        }
    }

    fn event(&mut self, e: &Event, what: &What, _: &Replay) {
        match *what {
            What::FiberBegin(of) => _ = self.born.insert(of.fiber, e.ns),
            What::FiberRun(of) => {
                if let Some(at) = self.born.remove(&of.fiber) {
                    self.delayed.insert(of.fiber, e.ns.saturating_sub(at));
                }
            }
            What::FiberPark(of) => {
                self.delayed.remove(&of.fiber);
                if of.why.is_end() {
                    self.open.remove(&of.fiber);
                }
            }
            What::RequestBegin(of) => {
                let queue = self.delayed.remove(&of.fiber).unwrap_or(0);
                let request = Request {
                    name: of.name.0 as u64,
                    protocol: of.protocol,
                    object: ObjectRef::NONE,
                    fiber: of.fiber,
                    at: e.ns.saturating_sub(queue),
                    parts: Parts { queue, ..Parts::default() },
                    longest: None,
                    status: 0,
                };
                self.open.insert(of.fiber, Open { request, begun: e.ns, handled: None });
                self.last.insert(e.who, of.fiber);
            }
            What::RequestCame(of) => {
                let last = self.last.remove(&e.who).and_then(|fiber| self.open.get_mut(&fiber));
                if let Some(Open { request, begun, .. }) = last {
                    request.object = of.object;
                    // The delay of the fiber lies within it.
                    request.parts.queue = request.parts.queue.max(of.queued.0);
                    request.at = begun.saturating_sub(request.parts.queue);
                }
            }
            What::RequestHandled(of) => {
                if let Some(open) = self.open.get_mut(&of.fiber) {
                    open.handled.get_or_insert(e.ns);
                }
            }
            What::RequestEnd(of) => {
                if let Some(open) = self.open.remove(&of.fiber) {
                    self.ended(open, e.ns, of.status.0);
                }
            }
            _ => {}
        }
    }
}

impl Look<'_> {
    fn waited(&mut self, fiber: FiberRef, cause: Cause, stack: u32, ns: u64) {
        let Some(open) = self.open.get_mut(&fiber) else { return };
        let request = &mut open.request;
        if open.handled.is_none() {
            request.parts.waited += ns;
            if request.longest.is_none_or(|longest| longest.ns < ns) {
                request.longest = Some(Waited { cause, stack, ns });
            }
        }
        *self.waits.entry((request.name, request.protocol, cause, stack)).or_default() += ns;
    }

    fn ended(&mut self, open: Open, at: u64, status: u16) {
        let Open { mut request, begun, handled } = open;
        let handled = handled.unwrap_or(at);
        let parts = &mut request.parts;
        parts.writing = at.saturating_sub(handled);
        let known = parts.ran + parts.collected + parts.waited;
        parts.ready = handled.saturating_sub(begun).saturating_sub(known);
        request.status = status;
        let total = request.parts.total();
        let route = self.routes.entry((request.name, request.protocol)).or_insert_with(|| Route {
            name: request.name,
            protocol: request.protocol,
            took: Histogram::default(),
            failed: 0,
            parts: Parts::default(),
            waits: Vec::new(),
        });
        route.took.add(total);
        route.failed += request.has_failed() as u64;
        route.parts.add(&request.parts);
        let place = self.slowest.partition_point(|other| other.parts.total() >= total);
        if place < self.most {
            self.slowest.insert(place, request);
            self.slowest.truncate(self.most);
        }
    }

    fn close(self) -> Requests {
        let mut routes = self.routes;
        for ((name, protocol, cause, stack), ns) in self.waits {
            if let Some(route) = routes.get_mut(&(name, protocol)) {
                route.waits.push(Waited { cause, stack, ns });
            }
        }
        let mut routes: Vec<Route> = routes.into_values().collect();
        for route in &mut routes {
            route.waits.sort_by_key(|w| (std::cmp::Reverse(w.ns), w.stack));
        }
        routes.sort_by_key(|r| (std::cmp::Reverse(r.took.sum()), r.name));
        Requests { routes, slowest: self.slowest, open: self.open.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perilune_trace::event::{Kind, ObjectKind, Verb};

    #[test]
    fn the_parts_of_a_request_add_up() {
        let (fiber, other) = (FiberRef::new(1, 0, 2), FiberRef::new(1, 0, 3));
        let (peer, base) =
            (ObjectRef::new(ObjectKind::Connection, 5), ObjectRef::new(ObjectKind::Connection, 6));
        let mut trace = Trace::default();
        let mut add = |ns, kind, c, a, b| {
            trace.events.push(Event { ns, who: Who::Domain(1), kind, c, a, b });
        };
        add(0, Kind::DomainEnter, 0, 1, 0);
        add(1, Kind::FiberRun, 0, fiber.0, 0);
        add(2, Kind::WaitBegin, Verb::Reads as u16, peer.0, 3);
        add(3, Kind::FiberPark, 0, fiber.0, 0);
        add(4, Kind::FiberRun, 0, other.0, 0);
        // The request comes while another one runs.
        add(10, Kind::Wake, 0, fiber.0, peer.0);
        add(40, Kind::FiberPark, 0, other.0, 0);
        add(40, Kind::FiberRun, 0, fiber.0, 0);
        add(41, Kind::WaitEnd, 0, peer.0, fiber.0);
        add(45, Kind::RequestBegin, Protocol::Http as u16, fiber.0, 77);
        add(46, Kind::RequestCame, 0, 0, peer.0);
        // It runs for 15, waits for 100, and is ready for 20.
        add(60, Kind::WaitBegin, Verb::Reads as u16, base.0, 4);
        add(60, Kind::FiberPark, 0, fiber.0, 0);
        add(160, Kind::Wake, 0, fiber.0, base.0);
        add(180, Kind::FiberRun, 0, fiber.0, 0);
        add(181, Kind::WaitEnd, 0, base.0, fiber.0);
        add(190, Kind::StepBegin, 0, 0, 0);
        add(197, Kind::StepEnd, 0, 0, 0);
        add(200, Kind::RequestHandled, 0, fiber.0, 0);
        add(203, Kind::RequestEnd, 200, fiber.0, 0);
        // The next one is there already: no delay counts twice. It is not answered before the trace ends.
        add(204, Kind::RequestBegin, Protocol::Http as u16, fiber.0, 77);
        trace.finish(300);
        let found = requests(&trace, 5);
        let [request] = found.slowest[..] else { panic!("{found:?}") };
        let parts = Parts { queue: 30, ran: 28, collected: 7, waited: 100, ready: 20, writing: 3 };
        assert_eq!(request.parts, parts);
        assert_eq!((request.at, request.parts.total(), request.object), (15, 203 - 15, peer));
        assert_eq!(request.longest.map(|w| (w.stack, w.ns)), Some((4, 100)));
        assert!(!request.has_failed());
        let [route] = &found.routes[..] else { panic!("{found:?}") };
        assert_eq!((route.name, route.took.count(), route.parts, route.waits.len()), (77, 1, parts, 1));
        assert_eq!(found.open, 1);
    }
}
