//! Names to addresses. The C library's `getaddrinfo` knows what the system's administrator wants (`nsswitch.conf`, `/etc/hosts`), and it blocks: so it is called on helper
//! threads, at most [`MOST`], which begin on demand and end when they have had nothing to do for a while. Whoever asks waits as for anything else; if the wait ends early, the
//! late answer is dropped.

use crate::failure::Failure;
use parking_lot::{Condvar, Mutex};
use perilune_domain::outside::{Reason, Waiter};
use std::collections::VecDeque;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// Helper threads at most.
const MOST: usize = 16;
/// Questions that wait for a helper at most.
const LONGEST: usize = 10_000;
/// How long a helper waits for the next question.
const KEEP: Duration = Duration::from_secs(2);

/// What a name means, or why it means nothing.
pub type Answer = Result<Vec<IpAddr>, Failure>;
/// Where an answer is left, before the waiter is woken.
pub type Place = Arc<Mutex<Option<Answer>>>;

struct Question {
    name: String,
    place: Place,
    waiter: Arc<Waiter>,
}

struct Desk {
    questions: VecDeque<Question>,
    helpers: usize,
    idle: usize,
}

static DESK: Mutex<Desk> = Mutex::new(Desk { questions: VecDeque::new(), helpers: 0, idle: 0 });
static ASKED: Condvar = Condvar::new();

/// Has a name looked up: the answer is left in `place`, then `waiter` is woken.
///
/// # Errors
/// There are too many questions, or there is no thread.
pub fn ask(name: String, place: Place, waiter: Arc<Waiter>) -> Result<(), Failure> {
    let mut desk = DESK.lock();
    if desk.questions.len() >= LONGEST {
        return Err(Failure::Busy(format!("{LONGEST} names are being looked up already")));
    }
    desk.questions.push_back(Question { name, place, waiter });
    if desk.questions.len() > desk.idle && desk.helpers < MOST {
        desk.helpers += 1;
        let helper =
            std::thread::Builder::new().name("perilune-names".into()).stack_size(512 << 10).spawn(help);
        if let Err(error) = helper {
            desk.helpers -= 1;
            if desk.helpers == 0 {
                desk.questions.pop_back();
                return Err(Failure::Busy(format!("no thread to look up names: {error}")));
            }
        }
    }
    drop(desk);
    ASKED.notify_one();
    Ok(())
}

fn help() {
    let mut desk = DESK.lock();
    loop {
        if let Some(question) = desk.questions.pop_front() {
            drop(desk);
            // Nobody waits any more: its time was over before its turn came.
            if question.waiter.woken().is_none() {
                let answer = look_up(&question.name);
                *question.place.lock() = Some(answer);
                question.waiter.wake(Reason::Ready);
            }
            desk = DESK.lock();
            continue;
        }
        desk.idle += 1;
        let over = ASKED.wait_for(&mut desk, KEEP).timed_out();
        desk.idle -= 1;
        if over && desk.questions.is_empty() {
            desk.helpers -= 1;
            return;
        }
    }
}

fn look_up(name: &str) -> Answer {
    match (name, 0).to_socket_addrs() {
        Ok(found) => {
            let mut addresses: Vec<IpAddr> = Vec::new();
            for address in found {
                if !addresses.contains(&address.ip()) {
                    addresses.push(address.ip());
                }
            }
            Ok(addresses)
        }
        Err(error) => {
            let text = error.to_string();
            let why = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
            Err(Failure::Name(format!("'{name}': {why}")))
        }
    }
}

/// Addresses in the order in which they are tried: as the resolver says, but the two kinds in turn, so that a kind that leads nowhere costs one delay.
pub fn in_turn(addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    let Some(first) = addresses.first().map(IpAddr::is_ipv6) else { return addresses };
    let (same, other): (Vec<IpAddr>, Vec<IpAddr>) = addresses.into_iter().partition(|a| a.is_ipv6() == first);
    let mut mixed = Vec::with_capacity(same.len() + other.len());
    let (mut same, mut other) = (same.into_iter(), other.into_iter());
    loop {
        let before = mixed.len();
        mixed.extend(same.next());
        mixed.extend(other.next());
        if mixed.len() == before {
            return mixed;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_take_turns() {
        let of = |texts: &[&str]| texts.iter().map(|t| t.parse().unwrap()).collect::<Vec<IpAddr>>();
        let mixed = in_turn(of(&["::1", "::2", "::3", "1.1.1.1", "2.2.2.2"]));
        assert_eq!(mixed, of(&["::1", "1.1.1.1", "::2", "2.2.2.2", "::3"]));
        assert_eq!(in_turn(of(&["1.1.1.1"])), of(&["1.1.1.1"]));
        assert_eq!(in_turn(Vec::new()), of(&[]));
    }

    #[test]
    fn names_are_looked_up() {
        let found = look_up("localhost").unwrap();
        assert!(found.iter().all(IpAddr::is_loopback) && !found.is_empty());
        let failure = look_up("no.such.name.invalid").unwrap_err();
        assert_eq!(failure.code(), "name");
    }
}
