//! What a client has asked and not got yet.

use super::frame::{Told, told};
use perilune_data::wire::Malformed;
use perilune_domain::outside::Waiter;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The calls of a connection that are under way, by id.
#[derive(Default)]
pub struct Calls {
    last: u64,
    under_way: HashMap<u64, Call>,
}

enum Call {
    /// Somebody waits for the answer.
    Waits(Arc<Waiter>),
    /// The frame is there.
    Answered(Vec<u8>),
    /// Nobody waits any more; the answer is still to come.
    Abandoned,
    /// Results that come one by one.
    Stream(Flow),
}

/// A stream under way.
struct Flow {
    items: VecDeque<Vec<u8>>,
    /// The last frame.
    end: Option<Vec<u8>>,
    waiter: Option<Arc<Waiter>>,
    /// Bytes that the server may still send: below 0 by one item at most.
    credit: i64,
    /// Bytes that were taken and are not credited yet.
    taken: u64,
}

/// What there is of a stream.
pub enum Step {
    /// An item, and so many bytes to be credited.
    Item(Vec<u8>, u64),
    /// The last frame.
    End(Vec<u8>),
    /// Nothing yet: the waiter was left.
    Wait,
    /// It is being read by somebody else.
    Taken,
    /// It has ended.
    Gone,
}

const ODD: Malformed = Malformed::Bytes("an answer to nothing that was asked");

impl Calls {
    /// A call begins; its id.
    pub fn begin(&mut self, waiter: Arc<Waiter>) -> u64 {
        self.last += 1;
        self.under_way.insert(self.last, Call::Waits(waiter));
        self.last
    }

    /// A stream begins.
    pub fn begin_stream(&mut self, credit: u64) -> u64 {
        self.last += 1;
        let flow = Flow {
            items: VecDeque::new(),
            end: None,
            waiter: None,
            credit: i64::try_from(credit).unwrap_or(i64::MAX),
            taken: 0,
        };
        self.under_way.insert(self.last, Call::Stream(flow));
        self.last
    }

    /// Calls under way.
    pub fn len(&self) -> usize {
        self.under_way.len()
    }

    /// It was not sent after all.
    pub fn forget(&mut self, id: u64) {
        self.under_way.remove(&id);
    }

    /// The answer, if it is there.
    pub fn answer(&mut self, id: u64) -> Option<Vec<u8>> {
        match self.under_way.remove(&id) {
            Some(Call::Answered(frame)) => Some(frame),
            Some(other) => {
                self.under_way.insert(id, other);
                None
            }
            None => None,
        }
    }

    /// Nobody waits for it any more. True: the server is to be told.
    pub fn abandon(&mut self, id: u64) -> bool {
        match self.under_way.get_mut(&id) {
            Some(Call::Stream(Flow { end: Some(_), .. }) | Call::Answered(_)) => {
                self.under_way.remove(&id);
                false
            }
            Some(call @ (Call::Waits(_) | Call::Stream(_))) => {
                *call = Call::Abandoned;
                true
            }
            Some(Call::Abandoned) | None => false,
        }
    }

    /// The next step of a stream whose window has so many bytes. `waiter` is left if there is none, unless
    /// there is no waiter.
    pub fn step(&mut self, id: u64, window: u64, waiter: Option<Arc<Waiter>>) -> Step {
        let Some(Call::Stream(flow)) = self.under_way.get_mut(&id) else { return Step::Gone };
        if let Some(item) = flow.items.pop_front() {
            flow.taken += item.len() as u64;
            let due = if flow.taken >= window / 2 { std::mem::take(&mut flow.taken) } else { 0 };
            flow.credit = flow.credit.saturating_add_unsigned(due);
            return Step::Item(item, due);
        }
        if let Some(end) = flow.end.take() {
            self.under_way.remove(&id);
            return Step::End(end);
        }
        if flow.waiter.as_ref().is_some_and(|w| w.woken().is_none()) {
            return Step::Taken;
        }
        flow.waiter = waiter;
        Step::Wait
    }

    /// Everybody who waits: it is over.
    pub fn everybody(&mut self) -> Vec<Arc<Waiter>> {
        let waiters = self.under_way.values_mut().filter_map(|call| match call {
            Call::Waits(waiter) => Some(Arc::clone(waiter)),
            Call::Stream(flow) => flow.waiter.take(),
            Call::Answered(_) | Call::Abandoned => None,
        });
        waiters.collect()
    }

    /// A frame has come. True: go on.
    ///
    /// # Errors
    /// It is none that may come now.
    pub fn take(&mut self, frame: &[u8], wakes: &mut Vec<Arc<Waiter>>) -> Result<bool, Malformed> {
        let (told, _) = told(frame)?;
        match told {
            Told::Result { id } | Told::Error { id } => match self.under_way.get_mut(&id) {
                Some(Call::Abandoned) => {
                    self.under_way.remove(&id);
                }
                Some(Call::Stream(flow)) if flow.end.is_none() => {
                    flow.end = Some(frame.to_vec());
                    wakes.extend(flow.waiter.take());
                }
                Some(call @ Call::Waits(_)) => {
                    if let Call::Waits(waiter) = std::mem::replace(call, Call::Answered(frame.to_vec())) {
                        wakes.push(waiter);
                    }
                }
                _ => return Err(ODD),
            },
            Told::Item { id } => match self.under_way.get_mut(&id) {
                Some(Call::Abandoned) => {}
                Some(Call::Stream(flow)) if flow.end.is_none() => {
                    if flow.credit <= 0 {
                        return Err(Malformed::Bytes("a stream sends more than it may"));
                    }
                    flow.credit -= frame.len() as i64;
                    flow.items.push_back(frame.to_vec());
                    wakes.extend(flow.waiter.take());
                }
                _ => return Err(ODD),
            },
        }
        Ok(true)
    }
}
