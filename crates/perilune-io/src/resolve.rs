//! Names to addresses. The C library's `getaddrinfo` knows what the system's administrator wants
//! (`nsswitch.conf`, `/etc/hosts`), and it blocks: so it is called on helper threads (`helpers.rs`), at most
//! [`MOST`]. Whoever asks waits as for anything else; if the wait ends early, the late answer is dropped.

use crate::failure::Failure;
use crate::helpers::Desk;
use parking_lot::Mutex;
use perilune_domain::outside::Waiter;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;

/// Helper threads at most.
const MOST: usize = 16;
/// Questions that wait for a helper at most.
const LONGEST: usize = 10_000;

static NAMES: Desk = Desk::new("perilune-names", "names are being looked up", MOST, LONGEST);

/// What a name means, or why it means nothing.
pub type Answer = Result<Vec<IpAddr>, Failure>;
/// Where an answer is left, before the waiter is woken.
pub type Place = Arc<Mutex<Option<Answer>>>;

/// Has a name looked up: the answer is left in `place`, then `waiter` is woken.
///
/// # Errors
/// There are too many questions, or there is no thread.
pub fn ask(name: String, place: Place, waiter: Arc<Waiter>) -> Result<(), Failure> {
    let job = move || {
        let answer = look_up(&name);
        *place.lock() = Some(answer);
    };
    NAMES.ask(Box::new(job), waiter)
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

/// Addresses in the order in which they are tried: as the resolver says, but the two kinds in turn, so that a
/// kind that leads nowhere costs one delay.
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
