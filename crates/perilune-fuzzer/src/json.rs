//! `perilune.json` against `serde_json`: what is accepted, what it is read as, and what is written of it.
//!
//! An input is a text. Both must accept or refuse it, and agree on each value in it. What we then write must
//! be read by the other as the same value, and the text in pieces must give what it gives in one. Two
//! differences are known: nesting is limited to other depths, and we pass over a byte order mark.

use crate::guard::Guard;
use crate::rng::Rng;
use crate::runner::{End, Target};
use crate::sandbox;
use perilune_heap::HeapOptions;
use perilune_vm::{Gc, LoadMode, LuaClosure, Tag, Value, Vm};
use serde_json::Value as Other;
use std::time::Duration;

/// Nesting beyond which the two need not agree.
const DEPTH: usize = 90;
/// Cases for which one state serves.
const CASES_PER_STATE: usize = 2000;

/// The value, and its text; then the values of the text in pieces of `size` bytes, as text. Or what is wrong.
const SCRIPT: &str = "
    local json = require 'perilune.json'
    local options = {depth = 100, big_integers = 'float'}
    return function(text, size)
      local ok, v = pcall(json.decode, text, options)
      if not ok then return false, v end
      local decoder, parts, at = json.decoder(options), {}, 1
      local function take(values)
        for v in values do parts[#parts + 1] = json.encode(v, {sort = true}) end
      end
      while at <= #text do
        take(decoder:feed(text:sub(at, at + size - 1)))
        at = at + size
      end
      take(decoder:finish())
      local written = json.encode(v, {sort = true})
      assert(#parts == 1 and parts[1] == written, 'in pieces: ' .. table.concat(parts, ' '))
      return true, v, written, json.encode(v, {pretty = true})
    end";

/// The target.
#[derive(Default)]
pub struct Json {
    state: Option<(Box<Vm>, Value)>,
    served: usize,
}

impl Json {
    fn fresh() -> (Box<Vm>, Value) {
        let mut vm = Vm::with_options(HeapOptions::default());
        perilune_stdlib::open_libs(&mut vm).expect("an empty state has memory for its libraries");
        perilune_data::open(&mut vm).expect("and for these");
        let main: Gc<LuaClosure> =
            vm.load(SCRIPT.as_bytes(), b"=json", LoadMode::Text, None).expect("compiles");
        vm.host_call(main.into(), &[]).expect("runs");
        // The function stays on the stack, which keeps it alive.
        let run = vm.stack_get(vm.nargs());
        (vm, run)
    }
}

fn space(rng: &mut Rng, out: &mut Vec<u8>) {
    out.extend_from_slice(rng.pick(&["", "", "", "", " ", "\n  ", "\t", "\r\n"]).as_bytes());
}

fn string(rng: &mut Rng, out: &mut Vec<u8>) {
    out.push(b'"');
    for _ in 0..rng.seldom(8, 40, 6).min(rng.below(40) + 1) {
        match rng.below(12) {
            0 => out.extend_from_slice(
                rng.pick(&[
                    "\\n",
                    "\\\"",
                    "\\\\",
                    "\\/",
                    "\\u0000",
                    "\\u00e9",
                    "\\ud83d\\ude00",
                    "\\uD800",
                    "\\u12",
                    "\\x",
                ])
                .as_bytes(),
            ),
            1 => out.extend_from_slice(
                rng.pick(&["é", "\u{2028}", "\u{1f600}", "\u{ffff}", "\u{7f}"]).as_bytes(),
            ),
            2 if rng.one_in(30) => out.push(rng.byte()),
            _ => out.push(b'a' + rng.below(26) as u8),
        }
    }
    out.push(b'"');
}

fn value(rng: &mut Rng, out: &mut Vec<u8>, depth: usize) {
    space(rng, out);
    match rng.below(if depth > 5 { 6 } else { 10 }) {
        0 => out.extend_from_slice(rng.pick(&["null", "true", "false"]).as_bytes()),
        1 => out.extend_from_slice(rng.integer().to_string().as_bytes()),
        2 => out.extend_from_slice(format!("{:?}", rng.float()).as_bytes()),
        3 => {
            let digits = rng.seldom(10, 60, 20);
            for _ in 0..1 + rng.below(digits) {
                out.extend_from_slice(
                    rng.pick(&["0", "1", "9", "5", "7", "3", ".", "e", "-", "E+"]).as_bytes(),
                );
            }
        }
        4 | 5 => string(rng, out),
        6 | 7 => {
            out.push(b'[');
            for i in 0..rng.below(5) {
                if i > 0 {
                    out.push(b',');
                }
                value(rng, out, depth + 1);
            }
            space(rng, out);
            out.push(b']');
        }
        _ => {
            let names: &[&str] =
                &["\"id\"", "\"name\"", "\"x\"", "\"y\"", "\"\"", "\"__index\"", "\"\\u0061\"", "\"a\""];
            let count = rng.seldom(30, 80, 5);
            out.push(b'{');
            for i in 0..rng.below(count) {
                if i > 0 {
                    out.push(b',');
                }
                space(rng, out);
                match rng.below(6) {
                    0 => string(rng, out),
                    _ if count > 5 => out.extend_from_slice(format!("\"k{i}\"").as_bytes()),
                    _ => out.extend_from_slice(names[(i + rng.seldom(4, 3, 0)) % names.len()].as_bytes()),
                }
                space(rng, out);
                out.push(b':');
                value(rng, out, depth + 1);
            }
            space(rng, out);
            out.push(b'}');
        }
    }
    space(rng, out);
}

/// How deep brackets may be nested in the text.
fn nesting(text: &[u8]) -> usize {
    let (mut now, mut most) = (0usize, 0);
    for b in text {
        match b {
            b'[' | b'{' => now += 1,
            b']' | b'}' => now = now.saturating_sub(1),
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// Whether the two values are the same; the path to where they are not.
fn same(vm: &mut Vm, ours: Value, theirs: &Other, path: &mut String) -> bool {
    let depth = path.len();
    let is = match (ours.tag(), theirs) {
        (Tag::LIGHT, Other::Null) | (Tag::TRUE, Other::Bool(true)) | (Tag::FALSE, Other::Bool(false)) => true,
        (Tag::INT, Other::Number(n)) => n.as_i64() == ours.as_int(),
        // Integers that are no i64 are floats here.
        (Tag::FLOAT, Other::Number(n)) => {
            n.as_i64().is_none() && n.as_f64().map(f64::to_bits) == ours.as_float().map(f64::to_bits)
        }
        (Tag::STRING, Other::String(s)) => ours.as_string().is_some_and(|t| t.bytes() == s.as_bytes()),
        (Tag::TABLE, Other::Array(items)) => {
            let Some(t) = ours.as_table() else { return false };
            let (mut position, mut count) = (0, 0);
            while vm.next_at(t, &mut position).is_some() {
                count += 1;
            }
            count == items.len()
                && items.iter().enumerate().all(|(i, item)| {
                    path.truncate(depth);
                    path.push_str(&format!("[{i}]"));
                    let v = vm.raw_get_int(t, i as i64 + 1);
                    same(vm, v, item, path)
                })
        }
        (Tag::TABLE, Other::Object(fields)) => {
            let Some(t) = ours.as_table() else { return false };
            let (mut position, mut count) = (0, 0);
            while vm.next_at(t, &mut position).is_some() {
                count += 1;
            }
            count == fields.len()
                && fields.iter().all(|(name, field)| {
                    path.truncate(depth);
                    path.push_str(&format!(".{name}"));
                    let Ok(v) = vm.get_field(t, name) else { return false };
                    same(vm, v, field, path)
                })
        }
        _ => false,
    };
    if is {
        path.truncate(depth);
    }
    is
}

/// Whether two values of the other are the same, floats by their bits.
fn equal(a: &Other, b: &Other) -> bool {
    match (a, b) {
        (Other::Number(a), Other::Number(b)) => {
            a.as_f64().map(f64::to_bits) == b.as_f64().map(f64::to_bits)
                && (a.as_i64() == b.as_i64() || a.as_i64().is_none())
        }
        (Other::Array(a), Other::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Other::Object(a), Other::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((m, a), (n, b))| m == n && equal(a, b))
        }
        _ => a == b,
    }
}

impl Target for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        let mut out = Vec::new();
        if rng.one_in(40) {
            let times = 1 + rng.below(300);
            let piece = rng.pick(&["[", "{\"a\":", "[[", "[{\"a\":["]);
            out.extend_from_slice(piece.repeat(times).as_bytes());
        }
        value(rng, &mut out, 0);
        if rng.one_in(3) {
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(out.len() + 1);
                match rng.below(4) {
                    0 if at < out.len() => drop(out.remove(at)),
                    1 if at < out.len() => out[at] ^= 1 << rng.below(8),
                    2 => out.truncate(at),
                    _ => {
                        let piece = rng.pick(&[
                            "\"", ",", ":", "[", "]", "{", "}", "\\", "0", "-", "\u{feff}", " ", "1e9", "\0",
                        ]);
                        out.splice(at..at, piece.bytes());
                    }
                }
            }
        }
        out
    }

    fn run(&mut self, guard: &Guard, input: &[u8]) -> Result<End, String> {
        if self.served >= CASES_PER_STATE {
            self.state = None;
        }
        let (vm, run) = self.state.get_or_insert_with(|| {
            self.served = 0;
            Json::fresh()
        });
        self.served += 1;
        let depth = vm.nargs();
        let text = vm.value_str(input).map_err(|_| "no memory")?;
        let size = Value::int(1 + (input.len() % 7) as i64);
        let run = *run;
        let result = guard.bounded(vm, Duration::from_secs(20), |vm| vm.host_call(run, &[text, size]));
        let end = match result {
            Err(e) => Err(format!("raised {}", sandbox::text(e))),
            Ok(_) => compare(vm, depth, input),
        };
        vm.truncate(depth);
        end
    }

    fn reset(&mut self) {
        std::mem::forget(self.state.take());
    }
}

fn compare(vm: &mut Vm, depth: u32, input: &[u8]) -> Result<End, String> {
    let accepted = vm.stack_get(depth + 1).is_truthy();
    let ours = vm.stack_get(depth + 2);
    if nesting(input) > DEPTH || input.starts_with("\u{feff}".as_bytes()) {
        return Ok(if accepted { End::Accepted } else { End::Refused });
    }
    let theirs: Result<Other, _> = serde_json::from_slice(input);
    let theirs = match (accepted, theirs) {
        (false, Err(_)) => return Ok(End::Refused),
        (false, Ok(_)) => return Err(format!("refused by us alone: {}", sandbox::text(ours))),
        (true, Err(e)) => return Err(format!("accepted by us alone; they say {e}")),
        (true, Ok(theirs)) => theirs,
    };
    let mut path = String::from("value");
    if !same(vm, ours, &theirs, &mut path) {
        return Err(format!("read as another value: {path}"));
    }
    for at in [depth + 3, depth + 4] {
        let written = vm.stack_get(at).as_string().ok_or("nothing written")?;
        match serde_json::from_slice::<Other>(written.bytes()) {
            Ok(back) if equal(&back, &theirs) => {}
            Ok(_) => return Err(format!("written as another value: {}", written.to_text())),
            Err(e) => return Err(format!("written as {}: {e}", written.to_text())),
        }
    }
    Ok(End::Accepted)
}
