//! Large strings that cross, and captured tables that are written to between crossings: counted, not timed.

use crate::stand_in::{new_vm, run};
use perilune_heap::HeapOptions;
use perilune_vm::parcel::{PackRules, Parcel};
use perilune_vm::{Value, Vm};

const LARGE: usize = 1 << 20;

/// A machine with a string of that many bytes on its stack, each text another one.
fn with_string(bytes: usize, text: &str) -> (Box<Vm>, Value) {
    let mut vm = new_vm();
    let source = format!("return ('{text}'):rep({})", bytes / text.len());
    let s = run(&mut vm, &source, "string.lua").expect("the program runs")[0];
    vm.push(s);
    (vm, s)
}

fn message(vm: &mut Vm, v: Value) -> Parcel {
    vm.pack(&[v], PackRules::MESSAGE).expect("it may cross")
}

/// Unpacks a parcel of one string; it stays on the stack.
fn receive(vm: &mut Vm, parcel: &Parcel) -> Value {
    vm.unpack(parcel).expect("memory");
    vm.stack_get(vm.nargs())
}

fn text(v: Value) -> Vec<u8> {
    v.as_string().expect("a string").bytes().to_vec()
}

/// The first crossing is a copy in the receiver's heap, all others are the same island.
#[test]
fn a_large_string_is_copied_once() {
    let (mut vm, s) = with_string(LARGE, "ab");
    let mut other = new_vm();
    let first = message(&mut vm, s);
    assert!(first.bytes() >= LARGE, "the receiver is to copy it");
    let own = receive(&mut other, &first);
    assert_eq!((text(own) == text(s), other.heap().islands().len()), (true, 0));
    let before = other.heap().stats().allocated_bytes;
    for n in 1..=5 {
        let parcel = message(&mut vm, s);
        assert!(parcel.bytes() < 1024, "{} bytes: it is not in it", parcel.bytes());
        let shared = receive(&mut other, &parcel);
        assert_eq!((text(shared) == text(s), other.heap().islands().len()), (true, 1));
        assert_eq!(vm.sent_string_counts(), [1, n]);
    }
    other.collect_minor();
    assert!(other.heap().stats().allocated_bytes - before < LARGE as u64 / 2, "nothing is copied");
    // What is a little shorter than a page or two is copied as ever.
    let (mut vm, s) = with_string(60_000, "x");
    message(&mut vm, s);
    message(&mut vm, s);
    assert_eq!(vm.sent_string_counts(), [0, 0]);
}

/// The same string twice in a crossing is one there; a crossing that begins once more is no second one.
#[test]
fn a_crossing_has_one_of_each_string() {
    let source =
        "T = {} local s = ('x'):rep(200000) S = s return function() return #s + #S + #T end, {s, s, {s}}";
    let mut vm = new_vm();
    let values = run(&mut vm, source, "twice.lua").expect("the program runs");
    values.iter().for_each(|&v| vm.push(v));
    let parcel = vm.pack(&values, PackRules::TASK).expect("it may cross");
    assert_eq!(vm.sent_string_counts(), [1, 0]);
    let mut other = new_vm();
    other.unpack(&parcel).expect("memory");
    let (f, list) = (other.stack_get(1), other.stack_get(2));
    assert_eq!(list.as_table().map(|t| other.raw_len(t)), Some(3));
    other.host_call(f, &[]).expect("the function runs");
    assert_eq!(other.pop().as_int(), Some(400_000));
    other.collect_full();
    other.verify_heap().expect("a sound heap");
}

/// A parcel that many unpack is copied by one of them.
#[test]
fn what_many_unpack_is_copied_by_one() {
    let (mut vm, s) = with_string(LARGE, "cde");
    let parcel = message(&mut vm, s);
    let mut others = [new_vm(), new_vm(), new_vm()];
    let islands: Vec<usize> = others
        .iter_mut()
        .map(|other| {
            let v = receive(other, &parcel);
            assert!(text(v) == text(s));
            other.heap().islands().len()
        })
        .collect();
    assert_eq!(islands, [0, 1, 1]);
    // A loop's functions are for all domains.
    let f = run(&mut vm, "local s = ('y'):rep(100000) return function() return #s end", "loop.lua");
    let body = vm.pack(&[f.expect("the program runs")[0]], PackRules::LOOP).expect("it may cross");
    let mut other = new_vm();
    other.unpack(&body).expect("memory");
    assert_eq!(other.heap().islands().len(), 1);
}

/// The same at once: one thread copies, all others hold the island.
#[test]
fn threads_that_unpack_at_once_agree_who_copies() {
    let (mut vm, s) = with_string(200_000, "pq");
    let wanted = text(s);
    for _ in 0..20 {
        (0..4).for_each(|_| vm.collect_full());
        let parcel = message(&mut vm, s);
        let twice = vm.sent_string_counts()[1];
        let second = message(&mut vm, s);
        assert_eq!(vm.sent_string_counts()[1], twice + 1);
        let start = std::sync::Barrier::new(3);
        let held: usize = std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| {
                scope.spawn(|| {
                    let mut other = new_vm();
                    start.wait();
                    assert!(text(receive(&mut other, &parcel)) == wanted);
                    let held = other.heap().islands().len();
                    assert!(text(receive(&mut other, &second)) == wanted);
                    assert_eq!(other.heap().islands().len(), 1);
                    other.collect_full();
                    assert!(text(other.stack_get(1)) == wanted && text(other.stack_get(2)) == wanted);
                    held
                })
            });
            threads.map(|t| t.join().expect("no thread fails")).iter().sum()
        });
        assert_eq!(held, 2);
    }
}

/// It lives on when the machine that it comes from is gone, and goes with the last one that refers to it.
#[test]
fn strings_outlive_their_domain() {
    let (mut vm, s) = with_string(LARGE, "fg");
    let (first, second) = (message(&mut vm, s), message(&mut vm, s));
    let wanted = text(s);
    drop(vm);
    let mut other = new_vm();
    assert!(text(receive(&mut other, &first)) == wanted);
    drop(first);
    assert!(text(receive(&mut other, &second)) == wanted);
    // And on to a third, as what it is.
    let shared = other.stack_get(2);
    let onward = message(&mut other, shared);
    drop(second);
    let mut third = new_vm();
    drop(other);
    assert!(text(receive(&mut third, &onward)) == wanted);
    drop(onward);
    third.collect_full();
    third.verify_heap().expect("a sound heap");
    assert!(text(third.stack_get(1)) == wanted);
    assert_eq!(third.heap().islands().len(), 1);
}

/// What nothing refers to goes when nothing has brought it for a while. Words on the native stack may keep
/// some of them.
#[test]
fn what_has_arrived_goes() {
    const COUNT: usize = 60;
    let (mut vm, mut other) = (new_vm(), new_vm());
    let source =
        "local t = {} for i = 1, 60 do t[i] = (i % 10 .. ''):rep(100000 + i) end return table.unpack(t)";
    let strings = run(&mut vm, source, "many.lua").expect("the program runs");
    strings.iter().for_each(|&s| vm.push(s));
    for &s in &strings {
        for _ in 0..2 {
            let parcel = message(&mut vm, s);
            receive(&mut other, &parcel);
        }
    }
    other.collect_full();
    assert_eq!(other.heap().islands().len(), COUNT, "what the stack has is there");
    for n in 1..=2 * COUNT as u32 {
        other.stack_set(n, Value::NIL);
    }
    other.truncate(0);
    for _ in 0..4 {
        other.collect_full();
    }
    let left = other.heap().islands().len();
    assert!(left < COUNT / 4, "{left} islands are left");
}

/// Who sends does not keep twins that nobody has, nor those of dead strings: another string at the same
/// address is another string.
#[test]
fn twins_go_with_their_strings() {
    let (mut vm, s) = with_string(LARGE, "hi");
    // Sent once, and forgotten at the next collection.
    drop(message(&mut vm, s));
    vm.collect_minor();
    drop(message(&mut vm, s));
    assert_eq!(vm.sent_string_counts(), [2, 0]);
    // Sent twice: for some collections more.
    drop(message(&mut vm, s));
    vm.collect_minor();
    drop(message(&mut vm, s));
    assert_eq!(vm.sent_string_counts(), [2, 2]);
    for _ in 0..3 {
        vm.collect_full();
    }
    let kept = message(&mut vm, s);
    assert_eq!(vm.sent_string_counts(), [3, 2]);
    // While a parcel has it, nothing is won by forgetting it.
    for _ in 0..9 {
        vm.collect_full();
    }
    drop(message(&mut vm, s));
    assert_eq!(vm.sent_string_counts(), [3, 3]);
    drop(kept);
    let mut other = new_vm();
    for n in 0..40 {
        vm.truncate(0);
        let source = format!("collectgarbage() return ('{}'):rep(100000)", char::from(b'A' + n % 26));
        let s = run(&mut vm, &source, "next.lua").expect("the program runs")[0];
        vm.push(s);
        for _ in 0..1 + n % 3 {
            let parcel = message(&mut vm, s);
            assert!(text(receive(&mut other, &parcel)) == text(s), "round {n}");
            other.truncate(0);
        }
    }
}

/// Strings that are all sent once soon cross as they would without twins, until one is sent again.
#[test]
fn who_sends_nothing_again_makes_no_twins() {
    let (mut vm, mut other) = (new_vm(), new_vm());
    let send_new = |vm: &mut Vm, other: &mut Vm, times: usize| {
        vm.truncate(0);
        let s = run(vm, "collectgarbage() return ('o'):rep(100000)", "new.lua").expect("the program runs")[0];
        vm.push(s);
        for _ in 0..times {
            let parcel = message(vm, s);
            assert!(text(receive(other, &parcel)) == text(s));
            other.truncate(0);
        }
    };
    (0..30).for_each(|_| send_new(&mut vm, &mut other, 1));
    let [made, again] = vm.sent_string_counts();
    assert!((1..10).contains(&made) && again == 0, "{made} twins");
    // The second crossing of one makes a twin, the third takes it; from then on the first does.
    send_new(&mut vm, &mut other, 3);
    assert_eq!(vm.sent_string_counts(), [made + 1, 1]);
    send_new(&mut vm, &mut other, 2);
    assert_eq!(vm.sent_string_counts(), [made + 2, 2]);
}

/// Whatever there is room for: it arrives whole, or "not enough memory" is raised and nothing is left behind.
#[test]
fn strings_arrive_under_every_limit() {
    let source = "local s = ('jkl'):rep(349525) return {s, s, {s}}, function() return #s end";
    let mut vm = new_vm();
    let both = run(&mut vm, source, "both.lua").expect("the program runs");
    both.iter().for_each(|&v| vm.push(v));
    let (mut refused, mut arrived) = (0, 0);
    for step in 0..40 {
        let mut other = new_vm();
        other.collect_full();
        let live = other.heap().live_bytes();
        other.heap().set_limit(Some(live + step * (LARGE / 16)));
        // A twin of its own for each, which is fresh.
        (0..4).for_each(|_| vm.collect_full());
        for _ in 0..2 {
            let parcel = vm.pack(&both, PackRules::TASK).expect("it may cross");
            match other.unpack(&parcel) {
                Ok(count) => {
                    assert_eq!(count, 2);
                    other.host_call(other.stack_get(other.nargs()), &[]).expect("the function runs");
                    assert_eq!(other.pop().as_int(), Some(3 * 349_525));
                    arrived += 1;
                }
                Err(e) => {
                    let e = other.host_error(e).as_string().expect("a message").to_text();
                    assert_eq!((e.as_str(), other.nargs()), ("not enough memory", 0));
                    refused += 1;
                }
            }
            other.truncate(0);
        }
        other.heap().set_limit(None);
        other.collect_full();
        other.verify_heap().expect("a sound heap");
    }
    assert!(refused > 5 && arrived > 5, "{refused} refused, {arrived} arrived");
}

/// With a collection at every allocation, in the middle of everything.
#[test]
fn strings_arrive_under_stress() {
    let source =
        "local s = ('mn'):rep(50000) local t = {s = s} return function(v) return #s + #t.s + #v end, s";
    let mut vm = new_vm();
    let values = run(&mut vm, source, "stress.lua").expect("the program runs");
    values.iter().for_each(|&v| vm.push(v));
    let options = HeapOptions { stress: true, verify: true, poison: true, ..Default::default() };
    let mut other = Vm::with_options(options);
    perilune_stdlib::open_libs(&mut other).expect("memory for the libraries");
    for round in 0..12 {
        let parcel = vm.pack(&values, PackRules::TASK).expect("it may cross");
        other.unpack(&parcel).expect("memory");
        drop(parcel);
        let (f, s) = (other.stack_get(1), other.stack_get(2));
        other.host_call(f, &[s]).expect("the function runs");
        assert_eq!(other.pop().as_int(), Some(300_000));
        other.truncate(0);
        match round % 3 {
            0 => vm.collect_minor(),
            1 => vm.collect_full(),
            _ => {}
        }
    }
}

/// What a task sees of a table that is written to between crossings, and what stays of it over there.
#[test]
fn a_newer_picture_takes_the_place_of_the_older() {
    const COUNT: i64 = 100_000;
    let source = "local t = {} for i = 1, 100000 do t[i] = i end \
        return function() return t[1] + #t end, function(v) t[1] = v end";
    let (mut vm, mut other) = (new_vm(), new_vm());
    let values = run(&mut vm, source, "written.lua").expect("the program runs");
    values.iter().for_each(|&v| vm.push(v));
    let [f, write] = values[..] else { panic!("two functions") };
    let call = |other: &mut Vm, parcel: &Parcel| {
        other.unpack(parcel).expect("memory");
        other.host_call(other.stack_get(1), &[]).expect("the function runs");
        let result = other.pop().as_int();
        other.truncate(0);
        result
    };
    let next = |vm: &mut Vm, n: i64| {
        vm.host_call(write, &[Value::int(n)]).expect("the function runs");
        vm.pack(&[f], PackRules::TASK).expect("it may cross")
    };
    let first = next(&mut vm, 1);
    assert_eq!(call(&mut other, &first), Some(1 + COUNT));
    let one = other.heap().live_bytes();
    let copy = COUNT as usize * 8;
    let mut kept = 0;
    for n in 2..12 {
        let parcel = next(&mut vm, n);
        assert_eq!(call(&mut other, &parcel), Some(n + COUNT));
        let live = other.heap().live_bytes();
        kept += usize::from(live > one + copy / 2);
    }
    // A word on the native stack may keep one for a while.
    assert!(kept < 4, "the older copy is still there {kept} times of 10");
    // One that was under way when the next came is what it was.
    let (older, newer) = (next(&mut vm, 20), next(&mut vm, 30));
    for (parcel, seen) in [(&newer, 30), (&older, 20), (&newer, 30), (&older, 20), (&first, 1)] {
        assert_eq!(call(&mut other, parcel), Some(seen + COUNT));
        other.collect_minor();
    }
    other.collect_full();
    other.verify_heap().expect("a sound heap");
}
