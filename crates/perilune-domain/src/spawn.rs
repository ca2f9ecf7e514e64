//! `pl.domain`: spawning domains, waiting for them.

use crate::channel::with_values;
use crate::domain::{Domain, Start};
use crate::options;
use crate::outcome::{self, End, Failure, Outcome};
use crate::races;
use crate::surplus;
use crate::time::{Limit, opt_limit};
use perilune_trace::event::Verb;
use perilune_trace::{ObjectKind, ObjectRef, names};
use perilune_vm::cycle_collector::{Held, Holder};
use perilune_vm::parcel::{PackRules, Parcel};
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{FiberEnd, Gc, LuaResult, Native, Table, Type, Value, Vm};
use std::any::Any;
use std::sync::Arc;

/// The kind of domains.
pub static DOMAIN: SharedKind = SharedKind::new("domain", open);

/// A domain as programs handle it.
struct Handle {
    domain: Arc<Domain>,
    outcome: Option<Arc<Outcome>>,
}

impl SharedObject for Handle {
    fn kind(&self) -> &'static SharedKind {
        &DOMAIN
    }
    fn label(&self) -> Option<String> {
        Some(self.domain.name())
    }
    fn holder(&self) -> Option<&dyn Holder> {
        Some(self)
    }
}

impl Holder for Handle {
    fn held(&self, to: &mut Held<'_>) {
        if let Some(outcome) = &self.outcome {
            to.counted(outcome);
        }
    }
}

/// The outcome of a domain, if the object is a handle of one that was spawned.
pub(crate) fn outcome(object: &dyn SharedObject) -> Option<&Outcome> {
    let object: &dyn Any = object;
    object.downcast_ref::<Handle>()?.outcome.as_deref()
}

/// The domain of a handle, if the value is one.
pub(crate) fn domain_of(value: Value) -> Option<Arc<Domain>> {
    let reference = value.as_shared()?;
    let handle: &dyn Any = &**reference.object();
    Some(Arc::clone(&handle.downcast_ref::<Handle>()?.domain))
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    Domain::of(vm)?.domain.expect_handles();
    crate::objects::fill(vm, mt, &[&JOIN, &NAME, &ID, &STATUS], &[("__close", &AT_SCOPE_END)])
}

/// Adds `pl.domain`.
pub(crate) fn register(vm: &mut Vm, pl: Gc<Table>) -> LuaResult<()> {
    let t = vm.new_table(0, 4)?;
    vm.set_field(pl, "domain", t.into())?;
    vm.register(t, &[&SPAWN, &SELF, &COUNT])
}

/// Least memory limit of a domain: its libraries need some.
const LEAST_MEMORY: i64 = 1 << 20;

/// What precedes the function in a call of `spawn`: a name, or a table with a name and a memory limit.
fn name_and_limit(vm: &mut Vm) -> LuaResult<(Option<String>, Option<usize>)> {
    let first = vm.arg(1);
    if let Some(s) = first.as_string() {
        return Ok((Some(s.to_text()), None));
    }
    let Some(options) = options::opt(vm, 1, &["name", "memory"])? else { return Ok((None, None)) };
    let name = options.string(vm, "name")?;
    let memory = options.int(vm, "memory", LEAST_MEMORY, i64::MAX)?;
    Ok((name, memory.map(|bytes| bytes as usize)))
}

/// `pl.domain.spawn([name | {name =, memory =},] f, ...)`
static SPAWN: Native = Native::leaf("spawn", |vm| {
    let (name, limit) = name_and_limit(vm)?;
    let f = if vm.arg(1).is_function() || vm.arg_is_none(1) { 1 } else { 2 };
    vm.check_type(f, Type::Function)?;
    let values: Vec<Value> = (f..=vm.nargs()).map(|n| vm.arg(n)).collect();
    let parcel = vm.pack_or_raise(&values, PackRules::SPAWN)?;
    let whose = match &name {
        Some(n) => format!("domain '{n}'").into(),
        None => "a domain".into(),
    };
    let outcome = Outcome::new(whose, ObjectKind::Domain);
    let discarded = vm.results_are_discarded();
    if discarded {
        outcome.is_nobodys();
    }
    let result = Arc::clone(&outcome);
    let stamp = races::stamp(vm);
    let label = name.clone();
    let domain = Domain::spawn(Domain::of(vm)?.domain.runtime(), name, limit, body(parcel, result, stamp));
    // A join waits for the domain: events call it by the domain's number.
    outcome.identity.settle(domain.id as u64);
    if let Some(label) = label {
        names::label(ObjectRef::new(ObjectKind::Domain, domain.id as u64), label.as_bytes());
    }
    if discarded {
        return Ok(0);
    }
    let handle = vm.shared_ref(Arc::new(Handle { domain, outcome: Some(outcome) }));
    vm.ret(handle)
});

/// Runs the function of a parcel as the body of a fresh domain.
fn body(parcel: Parcel, outcome: Arc<Outcome>, stamp: races::Stamp) -> Start {
    Box::new(move |domain, vm| {
        let vm = match vm {
            Ok(vm) => vm,
            Err((_, lack)) => {
                domain.end_without_state();
                let failure = Failure::lacking(&domain.name(), lack);
                outcome.complete(End::Failed(Arc::new(failure)), domain.runtime());
                return;
            }
        };
        let below = vm.nargs();
        if stamp.is_some() {
            domain.owner(vm).begin_own_strand(races::started(&stamp, |_| races::Kind::Domain(domain.name())));
        }
        let finished = Arc::clone(&outcome);
        finished.identity.settle(domain.id as u64);
        let started = outcome::unpack(vm, &parcel).and_then(|n| {
            let values: Vec<Value> = (below + 1..=below + n).map(|i| vm.stack_get(i)).collect();
            let function = vm.function_number(values[0]);
            domain.start_fiber(
                vm,
                values[0],
                &values[1..],
                Box::new(move |domain, vm, end| {
                    let end = conclude_by(vm, end, domain, PackRules::RESULT, function);
                    finished.order.leave(vm);
                    domain.end(vm);
                    finished.complete(end, domain.runtime());
                }),
            )
        });
        drop(parcel);
        if let Err(e) = started {
            let value = vm.host_error(e);
            vm.push(value);
            let end = conclude(vm, FiberEnd::Failed { traceback: Vec::new() }, domain);
            domain.end(vm);
            outcome.complete(end, domain.runtime());
        }
        vm.truncate(below);
    })
}

/// What a fiber has come to, as others are told. Its results or its error are on top of the stack.
pub(crate) fn conclude(vm: &mut Vm, end: FiberEnd, domain: &Domain) -> End {
    conclude_by(vm, end, domain, PackRules::RESULT, 0)
}

/// As [`conclude`]; the results cross by these rules, and are those of the function with this number of a
/// name, if that is known.
pub(crate) fn conclude_by(
    vm: &mut Vm,
    end: FiberEnd,
    domain: &Domain,
    rules: PackRules,
    function: u32,
) -> End {
    match end {
        FiberEnd::Returned(n) => {
            let top = vm.nargs();
            match with_values(vm, top - n + 1, |vm, values| vm.pack_or_raise(values, rules)) {
                Ok(parcel) => End::Returned(parcel),
                Err(e) => {
                    let value = vm.host_error(e);
                    let value = match names::text(function) {
                        Some(place) => refused_at(vm, value, &place),
                        _ => value,
                    };
                    failed(vm, value, &[], domain)
                }
            }
        }
        FiberEnd::Failed { traceback } => {
            let value = vm.stack_get(vm.nargs());
            failed(vm, value, &traceback, domain)
        }
        FiberEnd::Cancelled => End::Cancelled,
    }
}

/// The refusal of a result, with the place of the function that has returned it. Nothing of the program is on
/// the stack any more that would have a position.
fn refused_at(vm: &mut Vm, refusal: Value, place: &str) -> Value {
    let text = refusal.as_string().map(|text| text.to_text()).filter(|text| text.starts_with("result "));
    let text = text.map(|text| format!("{place}: {text}"));
    text.and_then(|text| vm.value_str(text.as_bytes()).ok()).unwrap_or(refusal)
}

fn failed(vm: &mut Vm, value: Value, traceback: &[u8], domain: &Domain) -> End {
    End::Failed(Arc::new(Failure::new(vm, value, traceback, format!("domain '{}'", domain.name()))))
}

/// `pl.domain.self()`
static SELF: Native = Native::leaf("self", |vm| {
    let domain = Domain::of(vm)?.domain.counted();
    // A reference per domain and object: made once.
    let known = vm.get_field(vm.registry(), "perilune.self")?;
    if !known.is_nil() {
        return vm.ret(known);
    }
    let handle: Value = vm.shared_ref(Arc::new(Handle { domain, outcome: None })).into();
    vm.set_field(vm.registry(), "perilune.self", handle)?;
    vm.ret(handle)
});

/// `pl.domain.count()`: the domains that have not ended.
static COUNT: Native = Native::leaf("count", |vm| {
    surplus::none_behind(vm, 0, surplus::Limit::Own)?;
    let n = Domain::of(vm)?.domain.runtime().domains().len() as i64;
    vm.ret(n)
});

fn this<'a>(vm: &mut Vm) -> LuaResult<&'a Handle> {
    vm.check_shared(1, &DOMAIN)
}

/// `d:join([seconds])`: all results of the domain's function, or its error; `nil, "timeout"`.
static JOIN: Native = Native::hybrid("join", |vm| {
    let handle = this(vm)?;
    let Some(outcome) = handle.outcome.clone() else {
        return Err(vm.error("this handle is a domain's own: only who spawned it can join it"));
    };
    if std::ptr::eq(&*handle.domain, Domain::of(vm)?.domain) {
        return Err(vm.error("a domain cannot join itself"));
    }
    let limit = opt_limit(vm, 2)?;
    outcome::wait_for(vm, &outcome, Verb::Joins, limit)
});

/// The domain's handle goes out of scope: as `d:join()`. An error that is under way (argument 2) stays what
/// it is.
static AT_SCOPE_END: Native = Native::hybrid("close", |vm| {
    let has_error = !vm.arg_is_none_or_nil(2);
    let outcome = this(vm)?.outcome.clone();
    match outcome {
        Some(outcome) if has_error => outcome::wait_for_end(vm, &outcome, Verb::Joins),
        Some(outcome) => outcome::wait_for(vm, &outcome, Verb::Joins, Limit::None),
        None => Ok(0),
    }
});

/// `d:name()`
static NAME: Native = Native::leaf("name", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let name = this(vm)?.domain.name();
    vm.ret_str(name.as_bytes())
});

/// `d:id()`: 1 is the main domain.
static ID: Native = Native::leaf("id", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let number = this(vm)?.domain.number as i64;
    vm.ret(number)
});

/// `d:status()`: "running" until its function is over, then "ended".
static STATUS: Native = Native::leaf("status", |vm| {
    surplus::none_behind(vm, 1, surplus::Limit::Own)?;
    let handle = this(vm)?;
    let ended = handle.domain.has_ended();
    if ended && let Some(outcome) = &handle.outcome {
        outcome.order.enter(vm);
    }
    vm.ret_str(if ended { b"ended" } else { b"running" })
});
