//! Lanes: tasks of a pool that must run one after the other: `pool:lane`, `lane:async`.
//!
//! A lane is a name in a pool. Tasks that are given to one lane run in the order in which they were given,
//! never two at once, in whichever of the pool's domains is free; tasks of different lanes, and those of no
//! lane, have nothing to do with each other. A task that waits keeps its lane, not its worker: the next one
//! begins when it has *ended*. This is what events of one socket, one user, one handler want, and it replaces
//! the lock that would otherwise be held across a wait.
//!
//! # How
//! `sched/ordered.rs` has the queues. A lane that has tasks is *busy*: one of them is in the pool's queue or
//! runs. Whoever gives a task to a lane that is not busy queues it in the pool; the end of a task, however it
//! ended, brings the next one ([`go_on`]). So nobody waits for a turn, a lane that is flooded takes one place
//! in the pool, and one that is empty takes no memory: lanes by the thousand, one for each connection, need
//! not be closed.
//!
//! The next task begins in the same domain, whose caches are warm and which need not be woken. After [`ROW`]
//! of them the lane queues behind all others.
//!
//! # Closing
//! A closed pool refuses new tasks and finishes those that its lanes have.

use crate::domain::Domain;
use crate::objects::fill;
use crate::objects::map::{Key, key};
use crate::objects::plain::Plain;
use crate::pool::{self, Inner, POOL, Pool, Task, Work};
use perilune_vm::parcel::PackRules;
use perilune_vm::shared::{SharedKind, SharedObject};
use perilune_vm::{Gc, LuaResult, Native, Table, Type, Value, Vm};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kind of lanes.
pub static LANES: SharedKind = SharedKind::new("lane", open);

/// Tasks of a lane that begin in one domain one after the other while others wait.
const ROW: u32 = 16;

/// Which lane of a pool.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum LaneKey {
    /// The one of this name.
    Named(Key),
    /// One that has no name.
    Fresh(u64),
}

impl LaneKey {
    /// The lane, for people.
    fn describe(&self) -> String {
        match self {
            LaneKey::Named(Key(Plain::String(s))) => format!("lane '{}'", String::from_utf8_lossy(s)),
            LaneKey::Named(Key(Plain::Integer(i))) => format!("lane {i}"),
            LaneKey::Named(Key(Plain::Float(f))) => format!("lane {f}"),
            LaneKey::Named(Key(Plain::Boolean(b))) => format!("lane {b}"),
            LaneKey::Named(_) => "the lane of an object".to_owned(),
            LaneKey::Fresh(n) => format!("lane #{n}"),
        }
    }
}

/// A lane as programs handle it. The pool lives as long as it does.
struct Lane {
    pool: Arc<Pool>,
    key: Arc<LaneKey>,
}

impl SharedObject for Lane {
    fn kind(&self) -> &'static SharedKind {
        &LANES
    }
    fn label(&self) -> Option<String> {
        Some(format!("{} of pool '{}'", self.key.describe(), self.pool.inner().name()))
    }
}

/// A task of the lane has ended: begins the next one, if there is one. `turns` tasks of the lane have begun
/// here one after the other.
pub(crate) fn go_on(lane: &Arc<LaneKey>, pool: &Arc<Inner>, domain: &Arc<Domain>, vm: &mut Vm, turns: u32) {
    while let Some(task) = pool.lanes.next(lane) {
        if turns >= ROW {
            return pool.queue_next(task);
        }
        if let Some(fiber) = task.launch(pool, domain, vm, turns + 1) {
            // Not from here: the end of a task may be on the stack, and the next one's would come on top of
            // it.
            let _ = domain.post(fiber);
            return;
        }
    }
}

fn open(vm: &mut Vm, mt: Gc<Table>) -> LuaResult<()> {
    fill(vm, mt, &[&ASYNC], &[("__len", &LEN)])
}

fn this<'a>(vm: &mut Vm) -> LuaResult<&'a Lane> {
    vm.check_shared(1, &LANES)
}

/// `pool:lane([name])`: the lane of this name, which is any value but nil that every domain can have; without
/// one, a lane that is no other.
pub(crate) static LANE: Native = Native::leaf("lane", |vm| {
    static FRESH: AtomicU64 = AtomicU64::new(1);
    let pool: Arc<Pool> = vm.check_shared_arc(1, &POOL)?;
    let key = if vm.arg_is_none_or_nil(2) {
        LaneKey::Fresh(FRESH.fetch_add(1, Ordering::Relaxed))
    } else {
        LaneKey::Named(key(vm, 2)?)
    };
    let lane = vm.shared_ref(Arc::new(Lane { pool, key: Arc::new(key) }));
    vm.ret(lane)
});

/// `lane:async(f, ...)`: a task that begins when those that the lane was given before have ended.
static ASYNC: Native = Native::leaf("async", |vm| {
    let lane = this(vm)?;
    let pool = lane.pool.inner();
    vm.check_type(2, Type::Function)?;
    if pool.queue().is_closed() {
        return Err(pool::closed(vm, pool));
    }
    let values: Vec<Value> = (2..=vm.nargs()).map(|n| vm.arg(n)).collect();
    let parcel = vm.pack_or_raise(&values, PackRules::TASK)?;
    let whose = format!("a task of {}", lane.key.describe());
    let task = Task::new(vm, parcel, Some(lane.key.clone()), whose.into());
    task.is_for(vm);
    let f = vm.arg(2);
    task.report_created(vm, f);
    pool.expect();
    if pool.lanes.push(lane.key.clone(), Arc::clone(&task)) {
        // Nobody else takes from a lane that has just become busy.
        let first = pool.lanes.next(&lane.key);
        let refused = first.and_then(|t| pool.submit(vm, Work::Task(t)).err());
        if let Some(Work::Task(refused)) = refused {
            // The pool was closed at this moment. Others may have come behind the task.
            refused.dismiss();
            pool.finished();
            while let Some(other) = pool.lanes.next(&lane.key) {
                other.abandon();
                pool.finished();
            }
            return Err(pool::closed(vm, pool));
        }
        // Submitting has counted it again.
        pool.finished();
    }
    task.hand_out(vm)
});

/// `#lane`: how many tasks wait in it; the one that runs is not counted. Other domains may be adding to them.
static LEN: Native = Native::leaf("len", |vm| {
    let lane = this(vm)?;
    let n = lane.pool.inner().lanes.len(&lane.key) as i64;
    vm.ret(n)
});
