//! Lists of fibers, for `perilune fibers` (`perilune_trace::fibers`) and `pl.fibers`: what each is, where it
//! is, what it waits for and since when.
//!
//! The owner of a domain lists its own, when it looks at its interrupts; a program asks other domains for
//! theirs (`asking.rs`). Nothing is kept for this but two times, of a fiber's making and of a wait's begin,
//! in ticks of the clock of events: a tick is worth what it has been worth since the program began
//! ([`begin`]).

use crate::asking::{PATIENCE, Question};
use crate::domain::Domain;
use crate::time::Limit;
use crate::wait::{self, Object, Seen, Turn};
use crate::{options, spawn};
use perilune_trace::event::Verb;
use perilune_trace::fibers::{FiberState, Line, Waiting};
use perilune_trace::{FiberRef, clock, names};
use perilune_vm::snapshot::age_of_process;
use perilune_vm::{Gc, LuaResult, Native, Table, Thread, Value, Vm};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Ticks and nanoseconds of one moment, at the program's begin.
static BEGIN: OnceLock<(u64, u64)> = OnceLock::new();

/// The program has domains from now on: chooses the clock that their times are taken from.
pub(crate) fn begin() {
    BEGIN.get_or_init(clock::pair);
}

/// How long ago a moment was, in nanoseconds.
struct Ages {
    now: u64,
    /// Nanoseconds, and the ticks that they took.
    rate: (u64, u64),
}

impl Ages {
    fn new() -> Ages {
        let begin = *BEGIN.get_or_init(clock::pair);
        let now = clock::pair();
        Ages { now: now.0, rate: (now.1.saturating_sub(begin.1), now.0.saturating_sub(begin.0)) }
    }

    fn of(&self, ticks: u64) -> u64 {
        let (ns, of) = self.rate;
        match of {
            0 => 0,
            _ => (self.now.saturating_sub(ticks) as u128 * ns as u128 / of as u128) as u64,
        }
    }
}

/// A fiber as its domain's owner sees it.
struct Entry {
    fiber: FiberRef,
    id: Option<u64>,
    /// `None`: the code that is in no fiber.
    thread: Option<Gc<Thread>>,
    state: FiberState,
    label: String,
    age_ns: u64,
    wait: Option<Waiting>,
}

/// All fibers of a domain that have not ended.
fn entries(domain: &Domain, vm: &mut Vm) -> Vec<Entry> {
    let ages = Ages::new();
    let waiting = |seen: &Seen| Waiting {
        verb: seen.verb,
        kind: seen.kind,
        object: seen.object.clone(),
        // What the runtime has written in Lua itself is no place of the program's.
        place: seen.place.clone().filter(|place| !place.starts_with("perilune:")).unwrap_or_default(),
        for_ns: ages.of(seen.since),
        left_ns: seen.left.map(|left| left.as_nanos() as u64),
    };
    let mut entries = Vec::new();
    let running = vm.current_fiber();
    if let Some(wait) = domain.look_at_root(vm) {
        let state = match &wait {
            Some(wait) if wait.is_over => FiberState::Ready,
            Some(_) => FiberState::Waits,
            None if vm.is_root_detached() => FiberState::Blocked,
            None => FiberState::Runs,
        };
        entries.push(Entry {
            fiber: FiberRef::root(domain.id),
            id: None,
            thread: None,
            state,
            label: String::new(),
            age_ns: age_of_process(),
            wait: wait.as_ref().filter(|wait| !wait.is_over).map(waiting),
        });
    }
    for (id, thread) in domain.fibers(vm) {
        let Some((label, born, started, wait)) = domain.look_at(vm, id) else { continue };
        let state = match &wait {
            _ if running == Some(thread) => FiberState::Runs,
            Some(wait) if !wait.is_over => FiberState::Waits,
            _ if !started || vm.is_parked(thread) => FiberState::Ready,
            _ => FiberState::Blocked,
        };
        entries.push(Entry {
            fiber: vm.fiber_ref(id),
            id: Some(id),
            thread: Some(thread),
            state,
            label: label.unwrap_or_default(),
            age_ns: ages.of(born),
            wait: wait.as_ref().filter(|_| state == FiberState::Waits).map(waiting),
        });
    }
    entries
}

/// The fibers of a domain, and the pool that it works for. By the owner.
pub(crate) fn fibers(domain: &Domain, vm: &mut Vm) -> Vec<Line> {
    let mut lines = Vec::new();
    for Entry { fiber, id, thread, state, label, age_ns, wait } in entries(domain, vm) {
        let function = id.zip(thread).map_or(0, |(id, thread)| domain.name_of_fiber(vm, id, thread));
        let stack = vm.parked_stack(thread);
        lines.push(Line::Fiber { fiber, state, label, function, stack, age_ns, wait });
    }
    if let Some(pool) = domain.pool(vm) {
        let key = std::sync::Arc::as_ptr(&pool) as u64;
        lines.push(Line::Pool { key, name: pool.name().to_owned(), queued: pool.waiting_tasks() as u64 });
    }
    lines
}

/// A fiber in words, as programs are told of it: data of no heap.
pub(crate) struct Fiber {
    name: String,
    state: FiberState,
    age_ns: u64,
    wait: Option<Waiting>,
    /// A traceback.
    stack: Vec<u8>,
}

/// The fibers of a domain for programs, the oldest first. By the owner; it allocates nothing in the heap.
pub(crate) fn seen(domain: &Domain, vm: &mut Vm) -> Vec<Fiber> {
    let mut entries = entries(domain, vm);
    entries.sort_by_key(|entry| (std::cmp::Reverse(entry.age_ns), entry.fiber));
    let in_words = |Entry { id, thread, state, label, age_ns, wait, .. }| {
        let name = match id.zip(thread) {
            None => "the main program".to_owned(),
            Some(_) if label.starts_with("fiber '") => label,
            Some((id, thread)) => match names::text(domain.name_of_fiber(vm, id, thread)) {
                // With whom it does what it does.
                Some(what) if !label.starts_with(&what) => what,
                _ => label,
            },
        };
        Fiber { name, state, age_ns, wait, stack: vm.chain_traceback(thread) }
    };
    entries.into_iter().map(in_words).collect()
}

/// Adds tables of fibers to a list, which the stack keeps: `name`, `state`, `age`, `stack`, `domain`, and of
/// those that wait `waits`, `place`, `waited`, `left`.
fn append(vm: &mut Vm, list: Gc<Table>, domain: &str, fibers: Vec<Fiber>) -> LuaResult<()> {
    let seconds = |ns: u64| Value::float(ns as f64 / 1e9);
    for Fiber { name, state, age_ns, wait, stack: trace } in fibers {
        let entry = vm.new_table(0, 9)?;
        let at = vm.raw_len(list) + 1;
        vm.raw_set_int(list, at, entry.into())?;
        let mut texts =
            vec![("name", name), ("state", state.word().to_owned()), ("domain", domain.to_owned())];
        vm.set_field(entry, "age", seconds(age_ns))?;
        if let Some(wait) = wait {
            let left = wait.left_ns.map_or(Value::NIL, seconds);
            texts.push(("waits", format!("{} {}", wait.verb.waits(), wait.object)));
            if !wait.place.is_empty() {
                texts.push(("place", wait.place));
            }
            vm.set_field(entry, "waited", seconds(wait.for_ns))?;
            vm.set_field(entry, "left", left)?;
        }
        for (key, text) in texts {
            let text = vm.value_str(text.as_bytes())?;
            vm.set_field(entry, key, text)?;
        }
        let stack = vm.new_table(0, 0)?;
        vm.set_field(entry, "stack", stack.into())?;
        // What the runtime has written in Lua itself is not the program's.
        let lines = trace.split(|&b| b == b'\n').skip(1).map(|line| line.trim_ascii_start());
        let lines = lines.filter(|line| !line.starts_with(b"perilune:"));
        for (n, line) in lines.enumerate() {
            let line = vm.value_str(line)?;
            vm.raw_set_int(stack, n as i64 + 1, line)?;
        }
    }
    Ok(())
}

/// Whose fibers are wanted.
enum Whose {
    /// The calling domain's.
    Own,
    /// This one's.
    Of(Arc<Domain>),
    /// All domains' of the program.
    All,
}

/// Whose, and for how long others are waited for.
fn wish(vm: &mut Vm, own: &Domain) -> LuaResult<(Whose, Option<Duration>)> {
    let Some(options) = options::check(vm, 1, &["domain", "timeout"])? else {
        return Ok((Whose::Own, None));
    };
    let patience = match options.span(vm, "timeout")? {
        Limit::None => Some(PATIENCE),
        Limit::Span(span) => span,
    };
    let wanted = options.get(vm, "domain")?;
    let whose = match spawn::domain_of(wanted) {
        Some(domain) if std::ptr::eq(&*domain, own) => Whose::Own,
        Some(domain) => Whose::Of(domain),
        None if wanted.is_nil() => Whose::Own,
        None if wanted.as_string().is_some_and(|word| word.bytes() == b"all") => Whose::All,
        None => return Err(options.wrong(vm, "domain", "a domain or 'all'", wanted)),
    };
    Ok((whose, patience))
}

/// A call that waits for answers.
struct Asks {
    question: Arc<Question>,
    /// Its own domain's are wanted, too.
    has_own: bool,
}

/// `pl.fibers([{domain = d | "all", timeout =}])`: the fibers of the calling domain, of that one, or of all,
/// by domain and the oldest first. With options also the names of domains that have not answered.
pub(crate) static FIBERS: Native = Native::leaf("fibers", |vm| {
    let domain = Domain::of(vm)?.domain.counted();
    let asks = match wait::woken(vm)? {
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(..) => {
            let asks = wait::take_data::<Asks>(vm);
            wait::finish(vm);
            asks
        }
        Turn::First => {
            let (whose, patience) = wish(vm, &domain)?;
            match whose {
                Whose::Own => None,
                Whose::Of(other) => Some(ask(vm, vec![other], false, patience)?),
                Whose::All => {
                    let mut others = domain.runtime().domains();
                    others.retain(|other| !Arc::ptr_eq(other, &domain));
                    Some(ask(vm, others, true, patience)?)
                }
            }
        }
    };
    let list = vm.new_table(0, 0)?;
    vm.push(list.into());
    let Some(asks) = asks else {
        let fibers = seen(&domain, vm);
        append(vm, list, &domain.name(), fibers)?;
        if vm.arg(1).is_nil() {
            return vm.ret(list);
        }
        let nobody = vm.new_table(0, 0)?;
        vm.push(nobody.into());
        return Ok(2);
    };
    let (mut given, mut missing) = asks.question.take();
    if asks.has_own {
        given.push((domain.number, domain.name(), seen(&domain, vm)));
    }
    given.sort_by_key(|(number, ..)| *number);
    missing.sort();
    for (_, name, fibers) in given {
        append(vm, list, &name, fibers)?;
    }
    let names = vm.new_table(0, 0)?;
    vm.push(names.into());
    for (n, (_, name)) in missing.iter().enumerate() {
        let name = vm.value_str(name.as_bytes())?;
        vm.raw_set_int(names, n as i64 + 1, name)?;
    }
    Ok(2)
});

/// Asks these domains, and waits for their answers.
///
/// # Errors
/// The park; or nothing can wait here.
fn ask(
    vm: &mut Vm,
    others: Vec<Arc<Domain>>,
    has_own: bool,
    patience: Option<Duration>,
) -> LuaResult<Box<Asks>> {
    let words = Object::Words(match others.as_slice() {
        [other] => format!("the fibers of domain '{}'", other.name()),
        _ => format!("the fibers of {} domains", others.len()),
    });
    let waiter = wait::begin(vm, Verb::WaitsFor, words)?;
    let question = Question::ask(&others);
    let asks = Asks { question: Arc::clone(&question), has_own };
    if !question.wakes(&waiter) {
        wait::finish(vm);
        return Ok(Box::new(asks));
    }
    wait::set_data(vm, asks);
    if let Some(patience) = patience {
        wait::limit(vm, patience)?;
    }
    if wait::sleeps(vm) {
        return Err(vm.park());
    }
    let asks = wait::take_data(vm);
    wait::finish(vm);
    Ok(asks.unwrap_or_else(|| Box::new(Asks { question, has_own })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_worth_what_they_have_been() {
        let ages = Ages { now: 1000, rate: (500, 1000) };
        assert_eq!((ages.of(1000), ages.of(800), ages.of(2000)), (0, 100, 0));
        assert_eq!(Ages { now: 5, rate: (0, 0) }.of(1), 0);
    }
}
