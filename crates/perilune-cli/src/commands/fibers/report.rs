//! Lists of fibers for people and programs. For people, fibers that are at one place and do the same are one
//! entry, so that ten thousand are readable.

use super::{Fiber, Listing, Own};
use crate::commands::trace::describe::time;
use perilune_measure::json::Json;
use perilune_see::Definitions;
use perilune_trace::event::{ObjectKind, Verb};
use perilune_trace::fibers::{FiberState, Waiting};
use std::collections::HashMap;
use std::io::{self, Write};

/// Frames of a call path that are shown.
const FRAMES: usize = 16;
/// Objects that an entry names.
const OBJECTS: usize = 2;

/// Fibers that are told from others only by how old they are and for what of a kind they wait.
#[derive(PartialEq, Eq, Hash)]
struct Key<'a> {
    domain: u32,
    state: FiberState,
    name: &'a str,
    stack: u32,
    waits: Option<(Verb, ObjectKind, &'a str)>,
    /// Tells a fiber from all others, if none are to be folded.
    alone: Option<u64>,
}

/// Fibers, the oldest first.
type Group<'a> = Vec<&'a Fiber>;

fn groups<'a>(listing: &'a Listing, flat: bool) -> Vec<Group<'a>> {
    let mut at: HashMap<Key<'a>, usize> = HashMap::new();
    let mut groups: Vec<Group<'a>> = Vec::new();
    for fiber in &listing.fibers {
        let key = Key {
            domain: fiber.fiber.domain(),
            state: fiber.state,
            name: if fiber.name.starts_with("fiber ") { "fiber" } else { &fiber.name },
            stack: fiber.stack,
            waits: fiber.wait.as_ref().map(|wait| (wait.verb, wait.kind, wait.place.as_str())),
            alone: flat.then_some(fiber.fiber.0),
        };
        let n = *at.entry(key).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[n].push(fiber);
    }
    groups
}

/// From the least to the greatest, or the one that there is.
fn range(mut values: impl Iterator<Item = u64>) -> String {
    let Some(first) = values.next() else { return String::new() };
    let (least, most) = values.fold((first, first), |(least, most), v| (least.min(v), most.max(v)));
    let (least, most) = (time(least), time(most));
    if least == most { most } else { format!("{least} to {most}") }
}

/// What the fibers of a group are at.
fn what(group: &[&Fiber], definitions: &Definitions) -> String {
    let first = group[0];
    let waits: Vec<&Waiting> = group.iter().filter_map(|fiber| fiber.wait.as_ref()).collect();
    let Some(wait) = waits.first() else {
        return match (first.state, definitions.frames(first.stack).next()) {
            (FiberState::Blocked, Some(node)) => format!("blocked in {}", definitions.frame(node)),
            (state, _) => state.word().to_owned(),
        };
    };
    let mut objects: Vec<&str> = Vec::new();
    let mut others = 0;
    for wait in &waits {
        if objects.contains(&wait.object.as_str()) {
            continue;
        }
        if objects.len() < OBJECTS {
            objects.push(&wait.object);
        } else {
            others += 1;
        }
    }
    let mut text = format!("{} {}", wait.verb.waits(), objects.join(", "));
    if others > 0 {
        text += &format!(" and {others} others");
    }
    if !wait.place.is_empty() {
        text += &format!(" at {}", wait.place);
    }
    text += &format!(", for {}", range(waits.iter().map(|wait| wait.for_ns)));
    let ends: Vec<u64> = waits.iter().filter_map(|wait| wait.left_ns).collect();
    if !ends.is_empty() {
        text += &format!(", at most {} more", range(ends.into_iter()));
    }
    text
}

/// Writes it for people.
///
/// # Errors
/// Those of `out`.
pub fn text(listing: &Listing, definitions: &Definitions, own: &Own, out: &mut dyn Write) -> io::Result<()> {
    let groups = groups(listing, own.flat);
    let mut numbers: Vec<u32> = listing.domains.keys().copied().collect();
    numbers.retain(|n| own.domain.is_none_or(|domain| domain == *n));
    numbers.sort_unstable();
    for number in numbers {
        let of_domain: Vec<&Group<'_>> =
            groups.iter().filter(|group| group[0].fiber.domain() == number).collect();
        let count: usize = of_domain.iter().map(|group| group.len()).sum();
        let noun = if count == 1 { "fiber" } else { "fibers" };
        writeln!(out, "domain {number} '{}': {count} {noun}", listing.domains[&number])?;
        for group in of_domain.iter().take(own.top) {
            let first = group[0];
            let who = match (group.len(), first.fiber.is_root()) {
                (1, true) => first.name.clone(),
                (1, false) => format!("{} (number {})", first.title, first.fiber.index()),
                (n, _) if first.name.starts_with("fiber ") => format!("{n} x fiber"),
                (n, _) => format!("{n} x {}", first.name),
            };
            let ages = range(group.iter().map(|fiber| fiber.age_ns));
            writeln!(out, "  {who}, {ages} old: {}", what(group, definitions))?;
            let mut frames = definitions.frames(first.stack).filter(|node| !definitions.is_own(node));
            for node in frames.by_ref().take(FRAMES) {
                writeln!(out, "      {}", definitions.frame(node))?;
            }
            let left = frames.count();
            if left > 0 {
                writeln!(out, "      ({left} more)")?;
            }
        }
        if of_domain.len() > own.top {
            writeln!(out, "  ({} more entries: --top N shows N)", of_domain.len() - own.top)?;
        }
    }
    for (name, queued) in &listing.pools {
        writeln!(out, "pool '{name}': {queued} tasks have not begun")?;
    }
    Ok(())
}

/// The same as JSON, with each fiber by itself.
pub fn json(listing: &Listing, definitions: &Definitions, pid: u32, title: &str) -> Json {
    let number = |n: u64| Json::Number(n as f64);
    let text = |s: &str| Json::Text(s.to_owned());
    let wait = |wait: &Waiting| {
        Json::object([
            ("does", text(wait.verb.word())),
            ("kind", text(wait.kind.name())),
            ("object", text(&wait.object)),
            ("place", text(&wait.place)),
            ("for_ns", number(wait.for_ns)),
            ("left_ns", wait.left_ns.map_or(Json::Null, number)),
        ])
    };
    let fibers = listing.fibers.iter().map(|fiber| {
        let frames = definitions.frames(fiber.stack).filter(|node| !definitions.is_own(node));
        let frames = frames.map(|node| Json::Text(definitions.frame(node)));
        let domain = fiber.fiber.domain();
        Json::object([
            ("domain", number(domain as u64)),
            ("domain_name", text(listing.domains.get(&domain).map_or("", String::as_str))),
            ("fiber", if fiber.fiber.is_root() { Json::Null } else { number(fiber.fiber.index() as u64) }),
            ("name", text(&fiber.title)),
            ("state", text(fiber.state.word())),
            ("age_ns", number(fiber.age_ns)),
            ("wait", fiber.wait.as_ref().map_or(Json::Null, wait)),
            ("frames", Json::List(frames.collect())),
        ])
    });
    let pools = listing
        .pools
        .iter()
        .map(|(name, queued)| Json::object([("name", text(name)), ("queued", number(*queued))]));
    Json::object([
        ("process", number(pid as u64)),
        ("title", text(title)),
        ("fibers", Json::List(fibers.collect())),
        ("pools", Json::List(pools.collect())),
        ("remarks", Json::List(listing.remarks.iter().map(|remark| text(remark)).collect())),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use perilune_trace::FiberRef;

    #[test]
    fn fibers_that_do_the_same_are_one_entry() {
        let fiber = |n: u32, name: &str, object: &str| Fiber {
            fiber: FiberRef::new(1, 0, n),
            name: name.to_owned(),
            title: name.to_owned(),
            state: FiberState::Waits,
            stack: 0,
            age_ns: 1_000_000_000 * (10 - n as u64),
            wait: Some(Waiting {
                verb: Verb::Reads,
                kind: ObjectKind::Connection,
                object: object.to_owned(),
                place: "main.lua:3".to_owned(),
                for_ns: 2000,
                left_ns: None,
            }),
        };
        let listing = Listing {
            domains: HashMap::from([(1, "main".to_owned())]),
            fibers: vec![
                fiber(1, "main.lua:1", "a"),
                fiber(2, "main.lua:1", "b"),
                fiber(3, "main.lua:9", "b"),
            ],
            pools: vec![("mill".to_owned(), 3)],
            remarks: Vec::new(),
        };
        let written = |flat| {
            let mut out = Vec::new();
            let own = Own { top: 40, flat, domain: None };
            text(&listing, &Definitions::default(), &own, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            written(false),
            "domain 1 'main': 3 fibers\n  \
             2 x main.lua:1, 8.000 s to 9.000 s old: waits to read from a, b at main.lua:3, for 2.00 us\n  \
             main.lua:9 (number 3), 7.000 s old: waits to read from b at main.lua:3, for 2.00 us\n\
             pool 'mill': 3 tasks have not begun\n"
        );
        assert_eq!(written(true).matches("main.lua:1 (number").count(), 2);
    }
}
