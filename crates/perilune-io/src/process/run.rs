//! `process.run`: a program from its beginning to its end, with what it has said.
//!
//! One native waits for three things at a time: its waiter is left with the slots of both outputs and with
//! the process. At each wake it takes all that is there; the input writes itself (`Stream::close_later`).
//! When both outputs have ended and the process has, it is reaped. What is put aside kills the group when it
//! is dropped, however the wait ends.

use super::start::{self, RUN as MANNER};
use super::{Process, Status};
use crate::connection::CONNECTION;
use crate::failure::Failure;
use crate::slot::Left;
use crate::stream::{End, More, Stream};
use crate::waiting::Waited;
use perilune_domain::outside::{self, Awaited, Reason, Turn, Waiter};
use perilune_domain::surplus::{self, Limit};
use perilune_trace::event::Verb;
use perilune_vm::{LuaResult, Native, Vm};
use rustix::io::Errno;
use std::sync::Arc;
use std::time::Instant;

/// Each output is no longer unless the program says so.
const LIMIT: usize = 64 << 20;

/// A program that runs. Dropped before its end, it is killed.
struct Running {
    process: Arc<Process>,
    deadline: Option<Instant>,
    limit: usize,
    waits: Vec<(Arc<Stream>, Left)>,
    waiter: Option<Arc<Waiter>>,
}

impl Running {
    /// Nothing wakes it any more.
    fn take_back(&mut self) {
        for (stream, left) in self.waits.drain(..) {
            stream.source().read.take_back(left);
        }
        if let Some(waiter) = self.waiter.take() {
            self.process.take_back(&waiter);
        }
    }

    fn outputs(&self) -> impl Iterator<Item = &Arc<Stream>> {
        self.process.streams[1..].iter().flatten()
    }

    /// Takes what is there. True: there is nothing more to come, and the process has ended.
    fn gather(&self) -> Result<bool, Failure> {
        let mut all = true;
        for stream in self.outputs() {
            all &= gather(stream, self.limit)?;
        }
        Ok(all && self.process.has_ended())
    }

    /// Leaves the waiter everywhere. False: something has happened already.
    fn leave(&mut self, waiter: &Arc<Waiter>) -> bool {
        let mut waits = Vec::new();
        let mut quiet = true;
        for stream in self.outputs() {
            if stream.input().end.is_some() {
                continue;
            }
            match stream.source().read.leave(Arc::clone(waiter)) {
                Ok(left) => waits.push((Arc::clone(stream), left)),
                Err(_) => quiet = false,
            }
        }
        self.waits = waits;
        if self.process.wake_at_end(waiter) {
            self.waiter = Some(Arc::clone(waiter));
        } else if self.waits.is_empty() {
            quiet = false;
        }
        quiet
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.take_back();
        self.process.end();
        self.process.release();
    }
}

/// Takes what is there. True: it has ended.
fn gather(stream: &Stream, limit: usize) -> Result<bool, Failure> {
    loop {
        let mut input = stream.input();
        if input.buffer.len() > limit {
            return Err(Failure::Limit(format!("the program writes more than {limit} bytes")));
        }
        match &input.end {
            Some(End::Eof) => return Ok(true),
            Some(End::Failed(error)) => return Err(error.clone().into()),
            None => {}
        }
        let want = input.buffer.len();
        match stream.more(&mut input, want) {
            More::Some | More::End => {}
            More::Wait => return Ok(false),
            More::NoMemory => return Err(Errno::NOMEM.into()),
        }
    }
}

/// `process.run{...}`
pub static RUN: Native = Native::leaf("run", |vm| {
    surplus::none_behind(vm, 1, Limit::Table)?;
    let mut is_over = false;
    let mut running = match outside::woken(vm)? {
        Turn::First => {
            let order = start::order(vm, &MANNER)?;
            match order.start(&CONNECTION, true) {
                Ok(process) => Box::new(Running {
                    process,
                    deadline: order.timeout.and_then(|span| Instant::now().checked_add(span)),
                    limit: order.limit.unwrap_or(LIMIT),
                    waits: Vec::new(),
                    waiter: None,
                }),
                Err(failure) => return failure.ret(vm),
            }
        }
        Turn::Asleep => return Err(vm.park()),
        Turn::Woken(reason, _) => {
            let running = outside::take_data::<Running>(vm);
            outside::finish(vm);
            is_over = reason == Reason::Timeout;
            match running {
                Some(running) => running,
                None => return Failure::Closed.ret(vm),
            }
        }
    };
    if is_over {
        // The poller may not have told yet what has come in time.
        running.outputs().for_each(|stream| stream.doubt());
        running.process.look();
    }
    loop {
        running.take_back();
        match running.gather() {
            Ok(true) => return finish(vm, &running),
            Ok(false) if is_over => return Failure::Timeout.ret(vm),
            Ok(false) => {}
            Err(failure) => return failure.ret(vm),
        }
        let what: Arc<dyn Awaited> = Arc::clone(&running.process) as _;
        let waiter = outside::begin(vm, Verb::Ends, what)?;
        if running.leave(&waiter) {
            let deadline = running.deadline;
            outside::set_data(vm, *running);
            outside::limit_at(vm, deadline)?;
            if outside::sleeps(vm) {
                return Err(vm.park());
            }
            running = match outside::take_data::<Running>(vm) {
                Some(running) => running,
                None => return Failure::Closed.ret(vm),
            };
        }
        outside::finish(vm);
    }
});

/// The result of one that has come to its end.
fn finish(vm: &mut Vm, running: &Running) -> LuaResult<u32> {
    running.process.release();
    let result = vm.new_table(0, 3)?;
    vm.push(result.into());
    running.process.status().unwrap_or(Status::Unknown).fill(vm, result)?;
    for (name, stream) in [("stdout", &running.process.streams[1]), ("stderr", &running.process.streams[2])] {
        if let Some(stream) = stream {
            let text = vm.value_str(stream.input().buffer.bytes())?;
            vm.set_field(result, name, text)?;
        }
    }
    Ok(1)
}
