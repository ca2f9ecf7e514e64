//! Calls of the string library with arguments that nobody would write: patterns, formats, packing.
//!
//! An input is a Lua expression list, `return string.find("..", "..")`; so a failing one can be read, and
//! given to any other Lua. With a reference, inputs are collected and run as one script in both; results and
//! messages must be the same.

use crate::differential::Pair;
use crate::guard::Guard;
use crate::literal;
use crate::rng::Rng;
use crate::runner::{End, Target};
use crate::sandbox::{self, Outcome};
use perilune_heap::HeapOptions;
use perilune_vm::{LoadMode, Vm};
use std::time::Duration;

/// What the calls are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `find`, `match`, `gmatch`, `gsub`
    Pattern,
    /// `format`
    Format,
    /// `pack`, `unpack`, `packsize`
    Pack,
}

/// Inputs of one comparison with the reference.
const BATCH: usize = 2000;
/// Cases that one state serves.
const CASES_PER_STATE: u32 = 20_000;

/// The target.
pub struct Calls {
    kind: Kind,
    vm: Option<Box<Vm>>,
    served: u32,
    pair: Option<Pair>,
    batch: Vec<String>,
}

impl Calls {
    /// `pair`: whom to compare with.
    pub fn new(kind: Kind, pair: Option<Pair>) -> Calls {
        Calls { kind, vm: None, served: 0, pair, batch: Vec::new() }
    }

    /// Compares what has been collected.
    fn compare(&mut self, guard: &Guard) -> Result<(), String> {
        let Some(pair) = &self.pair else { return Ok(()) };
        let calls = std::mem::take(&mut self.batch);
        let (ours, theirs) = guard.waiting(|| pair.run_both(script(&calls).as_bytes()))?;
        let (ours, theirs) = (ours.lines(), theirs.lines());
        let mut different = String::new();
        for ((call, a), b) in calls.iter().zip(&ours).zip(&theirs).filter(|((_, a), b)| a != b).take(5) {
            different.push_str(&format!("\n  {call}\n    perilune  {a}\n    reference {b}"));
        }
        if ours.len() != theirs.len() {
            different.push_str(&format!("\n  {} lines against {}", ours.len(), theirs.len()));
        }
        if different.is_empty() { Ok(()) } else { Err(format!("not what the reference says:{different}")) }
    }
}

/// A script that runs all calls, one line of output each.
fn script(calls: &[String]) -> String {
    let mut s = String::from(
        "local function text(v)
           if v ~= v then return 'nan' end
           if type(v) == 'string' then return string.format('%q', v):gsub('\\\\\\n', '\\\\n') end
           return tostring(v)
         end
         local function show(ok, ...)
           local out = {ok and '+' or '-'}
           for i = 1, select('#', ...) do out[#out + 1] = (text((select(i, ...)))) end
           print((table.concat(out, ' '):gsub('[\\r\\n]', '?'):gsub('0x%x%x%x%x%x%x%x+', 'ADDR')))
         end
         local function all(...)
           local t, n = {...}, 0
           return function() n = n + 1 return t[n] end
         end\n",
    );
    for call in calls {
        s.push_str(&format!("show(pcall(function() {call} end))\n"));
    }
    s
}

impl Target for Calls {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Pattern => "pattern",
            Kind::Format => "format",
            Kind::Pack => "pack",
        }
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        let call = match self.kind {
            Kind::Pattern => pattern_call(rng),
            Kind::Format => format_call(rng),
            Kind::Pack => pack_call(rng),
        };
        format!("return {call}").into_bytes()
    }

    fn run(&mut self, guard: &Guard, input: &[u8]) -> Result<End, String> {
        if self.served >= CASES_PER_STATE {
            self.vm = None;
        }
        let vm = self.vm.get_or_insert_with(|| {
            self.served = 0;
            sandbox::state(HeapOptions::default())
        });
        self.served += 1;
        let f = vm.load(input, b"=call", LoadMode::Text, None).map_err(sandbox::text)?;
        let outcome = sandbox::call(guard, vm, f, Duration::from_secs(5));
        if self.pair.is_some() {
            self.batch.push(String::from_utf8_lossy(input).into_owned());
            if self.batch.len() >= BATCH {
                self.compare(guard)?;
            }
        }
        match outcome {
            Outcome::Results(_) => Ok(End::Accepted),
            Outcome::Error(_) => Ok(End::Refused),
        }
    }

    fn reset(&mut self) {
        std::mem::forget(self.vm.take());
    }
}

fn subject(rng: &mut Rng) -> Vec<u8> {
    let pieces: &[&str] = &[
        "a", "b", "ab", "abc", "x1", " ", "\n", "(", ")", "[", "]", "%", "foo.bar", "0", "é", "\0", "-",
        "aaaa",
    ];
    let mut s = Vec::new();
    for _ in 0..rng.below(9) {
        if rng.one_in(6) {
            s.push(rng.byte());
        } else {
            s.extend_from_slice(rng.pick(pieces).as_bytes());
        }
    }
    s
}

fn pattern(rng: &mut Rng) -> Vec<u8> {
    let mut p = Vec::new();
    if rng.one_in(6) {
        p.push(b'^');
    }
    // Each repetition may multiply the time by the subject's length.
    let mut repetitions = 0;
    for _ in 0..rng.below(8) {
        match rng.below(16) {
            0..=4 => p.push(rng.pick(&["a", "b", "c", ".", "x"]).as_bytes()[0]),
            5 | 6 => p.extend([b'%', b"acdglpsuwxACDGLPSUWX.%()[]*b1"[rng.below(29)]]),
            7 | 8 => {
                p.push(b'[');
                if rng.one_in(3) {
                    p.push(b'^');
                }
                for _ in 0..rng.below(4) {
                    p.extend_from_slice(
                        rng.pick(&["a", "a-c", "%w", "%a", "]", "-", "^", "0-9", "%-", "z-a", "%"])
                            .as_bytes(),
                    );
                }
                if !rng.one_in(20) {
                    p.push(b']');
                }
            }
            9 => p.push(b'('),
            10 => p.push(b')'),
            11 => p.extend_from_slice(b"()"),
            12 => p.extend_from_slice(
                rng.pick(&["%b()", "%bxy", "%f[%w]", "%f[^a]", "%f", "%b", "%1", "%2", "%0", "%9"])
                    .as_bytes(),
            ),
            13 => p.extend_from_slice(b"(a*)"),
            14 => p.push(rng.byte()),
            _ => p.push(b"$^*+-?%[]()"[rng.below(11)]),
        }
        if rng.one_in(3) && repetitions < 4 {
            repetitions += 1;
            p.push(b"*+-?"[rng.below(4)]);
        }
    }
    if rng.one_in(6) {
        p.push(b'$');
    }
    p
}

fn pattern_call(rng: &mut Rng) -> String {
    let s = if rng.one_in(400) {
        format!("({}):rep({})", literal::string(&subject(rng)), rng.below(40))
    } else {
        literal::string(&subject(rng))
    };
    let p = if rng.one_in(500) {
        // Without repetitions: a row of them takes exponential time in any matcher that backtracks.
        let mut p = pattern(rng);
        p.retain(|b| !b"*+-?".contains(b));
        format!("({}):rep({})", literal::string(&p), 50 + rng.below(300))
    } else {
        literal::string(&pattern(rng))
    };
    let start = match rng.below(4) {
        0 => format!(", {}", literal::integer(rng.range(-8, 12))),
        1 if rng.one_in(8) => format!(", {}", literal::integer(rng.integer())),
        _ => String::new(),
    };
    match rng.below(7) {
        0 => format!("string.find({s}, {p}{start})"),
        1 => format!("string.match({s}, {p}{start})"),
        2 => format!(
            "string.find({s}, {p}, {}, {})",
            rng.range(-3, 5),
            rng.pick(&["true", "false", "nil", "1"])
        ),
        3 => {
            let r = *[&b"%0"[..], b"%1", b"<%0>", b"%2", b"%%", b"%", b"%x", b"", b"%1%1", b"\0", b"%9"]
                .get(rng.below(11))
                .expect("eleven");
            let n = if rng.one_in(3) { format!(", {}", rng.range(-2, 5)) } else { String::new() };
            format!("string.gsub({s}, {p}, {}{n})", literal::string(r))
        }
        4 => {
            let r = rng.pick(&[
                "{a = 'X', b = false, ab = 7, [1] = 'one'}",
                "function(...) return select('#', ...) end",
                "function(x) return x end",
                "function(x, y) return y end",
                "function() return nil end",
                "function() return {} end",
                "setmetatable({}, {__index = function(t, k) return k end})",
                "1.5",
                "nil",
            ]);
            format!("string.gsub({s}, {p}, {r})")
        }
        5 => format!(
            "(function() local t = {{}} for a, b in string.gmatch({s}, {p}{start}) do t[#t + 1] = \
             tostring(a) .. '|' .. tostring(b) end return table.concat(t, ',') end)()"
        ),
        _ => format!("string.gmatch({s}, {p})()"),
    }
}

fn any_value(rng: &mut Rng) -> String {
    match rng.below(12) {
        0..=2 => literal::integer(rng.integer()),
        3..=6 => literal::float(rng.float()),
        7 | 8 => literal::string(&subject(rng)),
        9 => rng.pick(&["nil", "true", "false", "'10'", "'0x1p4'", "'1e1'", "' 7 '"]).to_string(),
        10 => rng
            .pick(&[
                "setmetatable({}, {__tostring = function() return 'obj' end})",
                "setmetatable({}, {__tostring = function() return 1 end})",
                "setmetatable({}, {__name = 'My'}) ~= nil",
            ])
            .to_string(),
        _ => literal::integer(rng.range(0, 300)),
    }
}

fn format_call(rng: &mut Rng) -> String {
    let (mut f, mut args) = (Vec::new(), Vec::new());
    for _ in 0..1 + rng.below(3) {
        if rng.one_in(3) {
            f.extend_from_slice(&subject(rng));
        }
        f.push(b'%');
        while rng.one_in(3) {
            f.push(b"-+ #0"[rng.below(5)]);
        }
        if rng.one_in(3) {
            let most = rng.seldom(10, 120, 30);
            f.extend_from_slice(rng.range(0, most).to_string().as_bytes());
        }
        if rng.one_in(3) {
            f.push(b'.');
            if !rng.one_in(5) {
                let most = rng.seldom(10, 120, 20);
                f.extend_from_slice(rng.range(0, most).to_string().as_bytes());
            }
        }
        f.push(if rng.one_in(30) { rng.byte() } else { b"dixXoucaAeEfgGsq%dgsf"[rng.below(21)] });
        args.push(any_value(rng));
    }
    if rng.one_in(15) {
        args.pop();
    }
    if rng.one_in(15) {
        args.push(any_value(rng));
    }
    let f = literal::string(&f);
    if args.is_empty() {
        format!("string.format({f})")
    } else {
        format!("string.format({f}, {})", args.join(", "))
    }
}

fn pack_format(rng: &mut Rng) -> (String, usize) {
    let (mut f, mut values) = (String::new(), 0);
    for _ in 0..1 + rng.below(5) {
        match rng.below(12) {
            0 => f.push_str(rng.pick(&["<", ">", "=", "!", " "])),
            1 => f.push_str(&format!("!{}", rng.below(18))),
            2 => f.push_str(rng.pick(&["x", "Xi", "Xb", "X", "Xi3", "X!4"])),
            3..=5 => {
                f.push_str(&format!("{}{}", rng.pick(&["i", "I"]), rng.below(18)));
                values += 1;
            }
            6 => {
                f.push_str(&format!("s{}", rng.below(18)));
                values += 1;
            }
            7 => {
                f.push_str(&format!(
                    "c{}",
                    if rng.one_in(20) { rng.next() as i64 } else { rng.below(10) as i64 }
                ));
                values += 1;
            }
            8 if rng.one_in(6) => {
                f.push(rng.pick(&["c", "?", "i99999999999", "y", "0", "c-1"]).chars().next().unwrap_or('c'))
            }
            _ => {
                f.push_str(
                    rng.pick(&[
                        "b", "B", "h", "H", "l", "L", "j", "J", "T", "i", "I", "f", "d", "n", "s", "z",
                    ]),
                );
                values += 1;
            }
        }
    }
    (f, values)
}

fn pack_call(rng: &mut Rng) -> String {
    let (f, values) = pack_format(rng);
    let f = literal::string(f.as_bytes());
    let mut args = String::new();
    for _ in 0..values.max(rng.below(2)) {
        args.push_str(", ");
        args.push_str(&any_value(rng));
    }
    match rng.below(5) {
        0 | 1 => format!("string.pack({f}{args})"),
        2 => format!("string.unpack({f}, string.pack({f}{args}))"),
        3 => {
            let start = if rng.one_in(2) {
                format!(", {}", literal::integer(rng.range(-10, 20)))
            } else {
                String::new()
            };
            let bytes: Vec<u8> =
                (0..rng.below(40)).map(|_| if rng.one_in(2) { 0 } else { rng.byte() }).collect();
            format!("string.unpack({f}, {}{start})", literal::string(&bytes))
        }
        _ => format!("string.packsize({f})"),
    }
}
