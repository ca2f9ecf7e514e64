//! Binary chunks that are wrong in some place, and run if they are not found out.
//!
//! Bytes changed at random die at the checksum, so most inputs are made one level up: a field of an
//! instruction, a constant, an upvalue, a size of a prototype is changed, and the whole is dumped again with
//! everything around it right. What the verifier accepts is called under a limit of memory and a short time.
//! A state serves many cases; it is thrown away when memory ran out or time was up.
//!
//! There are four states, and the input decides in which it runs: two plain ones, one that collects at every
//! safepoint, so also within each loop, and one that compares every instruction with what its operands
//! declare and overwrites registers that hold nothing. After each case in one of the last two the whole heap
//! is verified: a value that was made up, in a register or in an object, does not hide.

use crate::guard::Guard;
use crate::rng::Rng;
use crate::runner::{End, Target};
use crate::sandbox::{self, Outcome};
use crate::{corpus, program};
use perilune_heap::HeapOptions;
use perilune_syntax::bytecode::NO_IC;
use perilune_syntax::operands::Loop;
use perilune_syntax::{Constant, Instr, Op, Proto, VarKind};
use perilune_vm::{LoadMode, Vm};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Running time of an accepted chunk.
const TIME: Duration = Duration::from_millis(3);
/// Cases that one state serves at most.
const CASES_PER_STATE: u32 = 40;
/// Bytes before the payload: header, mark, length, checksum.
const PREFIX: usize = 31 + 21 + 12;

/// The target.
pub struct Undump {
    protos: Vec<Arc<Proto>>,
    states: [State; STATES],
}

/// A state, and how many cases it has served.
#[derive(Default)]
struct State {
    vm: Option<Box<Vm>>,
    served: u32,
}

const STATES: usize = 4;
/// The state that collects at every safepoint.
const STRESSED: usize = 2;
/// The state whose instructions are compared with their declaration.
const CHECKED: usize = 3;

/// Small programs that use every kind of instruction, so that most mutations of them are reached.
const SNIPPETS: &[&str] = &[
    "local t = {1, 2, x = 3, y = {z = 4}} for i = 1, #t do t[i] = t[i] + t.x t.y.z = t.y.z - i end return \
     t.y.z",
    "local function f(...) local a, b = ... return select('#', ...), a, b, ... end return f(1, f(2, 3))",
    "local s = 0 for k, v in pairs{a = 1, b = 2, 5} do s = s + v end for i, v in ipairs{4, 5} do s = s .. v \
     end return s",
    "local fs = {} for i = 1, 3 do local j = i fs[i] = function() i = i + 1 j = j * i return j end end \
     return fs[1](), fs[2](), fs[1]()",
    "local C = {} C.__index = C C.__add = function(a, b) return a.n + b.n end function C:get(...) return self.n, ... end
     local o = setmetatable({n = 1}, C) return o:get(1, 2), o + o, o.n == o:get()",
    "local co = coroutine.wrap(function(a) local b = coroutine.yield(a) return b, coroutine.yield(b) end) \
     return co(1), co(2), co(3)",
    "local x <close> = setmetatable({}, {__close = function(_, e) return e end}) local ok, e = pcall(error, \
     {}) goto l do local y = x end ::l:: return ok, e",
    "local a, b, c = 1, 2.5, 'x' return a + b, a - 1, a * b, a / 2, a // 2, a % 3, a ^ 2, a & 3, a | 4, a ~ \
     5, a << 1, a >> 1, -a, ~a, not a, #c, c .. a .. b, a < b, a <= b, c == 'x'",
    "local n = 0 while n < 10 do n = n + 1 if n == 5 then goto continue end repeat local k = n until k > 3 \
     or true ::continue:: end return n",
    "local t = setmetatable({}, {__index = function(t, k) return k end, __newindex = function(t, k, v) rawset(t, k, v) end, __call = function(self, ...) return ... end, __len = function() return 7 end})
     t.a = t.b t[1] = #t return t(1, 2, 3), t.zz, t[2]",
    "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end local function \
     loop(n) if n > 0 then return loop(n - 1) end return n end return fib(8), loop(20)",
    "local t = {} for i = 1, 40 do t[#t + 1] = tostring(i) .. 'x' end table.sort(t) return table.concat(t, \
     ','), (string.gsub('hello', 'l', function(c) return c:upper() end))",
    "a, b = 1, 2 local function g() a = a + 1 return a, b end local t = {g(), g(), (g())} _ENV.c = t return \
     c[1], #c, {g(), ...}, math.max(g())",
    "local u, v = {1}, 'v' for i = 1, 6 do local a, b = {i}, v .. i u[#u + 1] = a for j = i, 1, -1 do b = \
     {b, j, a} end v = b[1] or v if i % 2 == 0 then collectgarbage('step') end end return u, v",
    "local t, f = {x = {}, y = 'y', 1, {2}, 'z'}, nil for k, v in pairs(t) do local w = {k, v} f = \
     function() w[1] = v return k, w end for i, x in ipairs{k, v, f} do if i == 2 then t.x = {x} end \
     collectgarbage('step') end end return f()",
    "local closing = {__close = function(o, e) collectgarbage('step') return o end} for i = 1, 3 do local a \
     <close> = setmetatable({i}, closing) for x = 1.5, 3 do local b <close> = setmetatable({x}, closing) \
     local c = function() return a, b end if i == 2 then break end c() end end",
    "local function iter(s, c) if c < 4 then return c + 1, {s, c} end end for i, v in iter, 'state', 0 do \
     local s = v[1] .. i for k in next, {s, v, i} do v[k] = s end collectgarbage('step') end for k, v in \
     next, {}, nil, setmetatable({}, {__close = print}) do end",
    "local r = {} for i = 1, 5 do local x, y, z = {}, {}, 'k' .. i r[i] = function(n) for j = n, i do x[j] = \
     y y = {x, z} z = z .. j end return x, y, z end end for i = 1, 5 do r[i](1) r[i](i) \
     collectgarbage('step') end return r",
    "local a <const> = 10 for i = a, 1, -3 do for j = 1.0, 2, 0.5 do if i > j and j ~= 1 or not i then a2 = \
     i end end end return a2, collectgarbage('count') > 0",
];

impl Undump {
    /// With the programs of these folders, the snippets above, and some generated programs.
    pub fn new(folders: &[PathBuf]) -> Undump {
        let generated = (0..40).map(|n| program::generate(&mut Rng::new(77, n)).source().into_bytes());
        let sources = SNIPPETS
            .iter()
            .cycle()
            .take(SNIPPETS.len() * 8)
            .map(|s| s.as_bytes().to_vec())
            .chain(generated)
            .chain(corpus::load(folders).into_iter().filter(|s| s.len() < 1200));
        let protos = sources.filter_map(|s| perilune_syntax::compile(&s, b"=chunk").ok()).collect();
        Undump { protos, states: Default::default() }
    }
}

/// Computes the checksum anew, and the length, after the payload has changed.
fn repair(bytes: &mut [u8]) {
    if bytes.len() < PREFIX {
        return;
    }
    let length = (bytes.len() - PREFIX) as u32;
    let sum = bytes[PREFIX..]
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, &b| (h ^ b as u64).wrapping_mul(0x100_0000_01b3));
    bytes[PREFIX - 12..PREFIX - 8].copy_from_slice(&length.to_le_bytes());
    bytes[PREFIX - 8..PREFIX].copy_from_slice(&sum.to_le_bytes());
}

/// A copy that can be changed; inner prototypes are shared.
fn copy(p: &Proto) -> Proto {
    Proto {
        code: p.code.clone(),
        constants: p.constants.clone(),
        templates: p.templates.clone(),
        protos: p.protos.clone(),
        upvalues: p.upvalues.clone(),
        num_params: p.num_params,
        is_vararg: p.is_vararg,
        max_stack: p.max_stack,
        ic_count: p.ic_count,
        lines: p.lines.clone(),
        locals: p.locals.clone(),
        source: p.source.clone(),
        line_defined: p.line_defined,
        last_line_defined: p.last_line_defined,
        mentions: Default::default(),
        born: Default::default(),
    }
}

/// Changes the prototype or one inside it.
fn change(rng: &mut Rng, proto: &mut Proto, others: &[Arc<Proto>]) {
    if !proto.protos.is_empty() && !rng.one_in(3) {
        let n = rng.below(proto.protos.len());
        let mut inner = copy(&proto.protos[n]);
        change(rng, &mut inner, others);
        proto.protos[n] = Arc::new(inner);
        return;
    }
    let small = |rng: &mut Rng| match rng.below(4) {
        0 => rng.below(65536) as u16,
        _ => rng.below(8) as u16,
    };
    match rng.below(24) {
        20 | 21 => insert(rng, proto, others),
        22 => {
            // A jump to anywhere.
            let jumps: Vec<usize> =
                (0..proto.code.len()).filter(|&n| proto.code[n].jump().is_some()).collect();
            if !jumps.is_empty() {
                let n = jumps[rng.below(jumps.len())];
                let to = rng.below(proto.code.len()) as i32;
                proto.code[n] = proto.code[n].with_sj(to - n as i32 - 1);
            }
        }
        23 => {
            // Registers around the state of a loop.
            let loops: Vec<Loop> = Loop::all(&proto.code).collect();
            if !loops.is_empty() {
                let l = loops[rng.below(loops.len())];
                let n =
                    (l.prepared + rng.below(l.last.saturating_sub(l.prepared) + 2)).min(proto.code.len() - 1);
                let register = l.state as u16 + rng.below(6) as u16;
                let i = proto.code[n];
                proto.code[n] = match rng.below(3) {
                    0 => i.with_a(register as u8),
                    1 => i.with_b(register),
                    _ => i.with_c(register),
                };
            }
        }
        0..=10 => {
            let n = rng.below(proto.code.len());
            let i = proto.code[n];
            let near = |rng: &mut Rng, v: u16| v.wrapping_add(rng.range(-3, 3) as u16);
            proto.code[n] = match rng.below(9) {
                0 => Instr(i.0 & !0xff | rng.below(Op::ALL.len()) as u64),
                1 => i.with_a(near(rng, i.a() as u16) as u8),
                2 => i.with_b(near(rng, i.b())),
                3 => i.with_c(near(rng, i.c())),
                4 => i.with_b(small(rng)),
                5 => i.with_c(small(rng)),
                6 => i.with_sj(i.sj().wrapping_add(rng.range(-6, 6) as i32)),
                7 => Instr(i.0 & 0xffff_ffff_ffff | (small(rng) as u64) << 48),
                _ => i.with_b(i.b() ^ 0x8000),
            };
        }
        11 => {
            let (m, n) = (rng.below(proto.code.len()), rng.below(proto.code.len()));
            proto.code.swap(m, n);
        }
        12 => {
            let (m, n) = (rng.below(proto.code.len()), rng.below(proto.code.len()));
            proto.code[m] = proto.code[n];
        }
        13 => {
            // An instruction of another program.
            let other = &others[rng.below(others.len())];
            let n = rng.below(proto.code.len());
            proto.code[n] = other.code[rng.below(other.code.len())];
        }
        14 if !proto.constants.is_empty() => {
            let n = rng.below(proto.constants.len());
            proto.constants[n] = match rng.below(6) {
                0 => Constant::Nil,
                1 => Constant::Boolean(rng.one_in(2)),
                2 => Constant::Integer(rng.integer()),
                3 => Constant::Float(rng.float()),
                4 => proto.constants[rng.below(proto.constants.len())].clone(),
                _ => {
                    let text: Vec<u8> = (0..rng.below(70)).map(|_| rng.byte()).collect();
                    Constant::String(text[..].into())
                }
            };
        }
        15 => proto.max_stack = proto.max_stack.wrapping_add(rng.range(-3, 3) as u8),
        16 => proto.num_params = rng.below(6) as u8,
        17 if !proto.upvalues.is_empty() => {
            let n = rng.below(proto.upvalues.len());
            match rng.below(3) {
                0 => proto.upvalues[n].in_stack ^= true,
                1 => proto.upvalues[n].index = rng.below(12) as u8,
                _ => {
                    proto.upvalues[n].kind =
                        [VarKind::Mutable, VarKind::Unassigned, VarKind::Close][rng.below(3)]
                }
            }
        }
        18 if !proto.locals.is_empty() => {
            let n = rng.below(proto.locals.len());
            proto.locals[n].register = rng.below(16) as u8;
            proto.locals[n].start_pc = rng.below(proto.code.len()) as u32;
        }
        _ => match rng.below(4) {
            0 => proto.is_vararg ^= true,
            1 => proto.ic_count = small(rng),
            2 => proto.upvalues = others[rng.below(others.len())].upvalues.clone(),
            _ => proto.protos = others[rng.below(others.len())].protos.clone(),
        },
    }
}

/// Puts an instruction more in, and has all jumps go where they went.
fn insert(rng: &mut Rng, proto: &mut Proto, others: &[Arc<Proto>]) {
    let at = rng.below(proto.code.len());
    let registers = proto.max_stack.max(1) as usize;
    let (a, b) = (rng.below(registers) as u8, rng.below(registers) as u16);
    let new = match rng.below(8) {
        0..=2 => Instr::abcd(Op::Move, a, b, 0, 0),
        3 => Instr::abcd(Op::NewTable, a, 0, 0, NO_IC),
        4 => Instr::absj(Op::LoadI, a, 0, rng.range(-3, 9) as i32),
        5 => Instr::abcd(Op::GetInt, a, b, 1, 0),
        6 => Instr::abcd(Op::Close, a, 0, 0, 0),
        _ => {
            let other = &others[rng.below(others.len())];
            other.code[rng.below(other.code.len())]
        }
    };
    let mut code = proto.code.to_vec();
    for (n, i) in code.iter_mut().enumerate() {
        let Some(jump) = i.jump() else { continue };
        let (from, to) = (n as i64 + 1, n as i64 + 1 + jump as i64);
        let moved = (to > at as i64) as i32 - (from > at as i64) as i32;
        *i = i.with_sj(jump + moved);
    }
    code.insert(at, new);
    proto.code = code.into();
    if !proto.lines.is_empty() {
        let mut lines: Vec<u32> = proto.lines.iter().collect();
        lines.insert(at, lines[at]);
        proto.lines = lines[..].into();
    }
}

impl Target for Undump {
    fn name(&self) -> &'static str {
        "undump"
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        let proto = &self.protos[rng.below(self.protos.len())];
        match rng.below(10) {
            0 => {
                let mut bytes = perilune_syntax::dump::dump(proto, rng.one_in(2));
                for _ in 0..1 + rng.below(3) {
                    let at = rng.below(bytes.len());
                    bytes[at] = rng.byte();
                }
                if rng.one_in(4) {
                    bytes.truncate(rng.below(bytes.len()));
                }
                bytes
            }
            1 | 2 => {
                let mut bytes = perilune_syntax::dump::dump(proto, rng.one_in(2));
                for _ in 0..1 + rng.below(2) {
                    let at = PREFIX + rng.below(bytes.len() - PREFIX);
                    match rng.below(3) {
                        0 => bytes[at] = rng.byte(),
                        1 => bytes[at] = bytes[at].wrapping_add(rng.range(-2, 2) as u8),
                        _ => drop(bytes.drain(at..(at + 1 + rng.below(4)).min(bytes.len() - 1).max(at))),
                    }
                }
                repair(&mut bytes);
                bytes
            }
            _ => {
                let mut proto = copy(proto);
                for _ in 0..1 + rng.below(3) {
                    change(rng, &mut proto, &self.protos);
                }
                perilune_syntax::dump::dump(&proto, rng.one_in(3))
            }
        }
    }

    fn run(&mut self, guard: &Guard, input: &[u8]) -> Result<End, String> {
        let kind =
            input.iter().fold(input.len(), |h, &b| h.wrapping_mul(31).wrapping_add(b as usize)) % STATES;
        let state = &mut self.states[kind];
        if state.served >= CASES_PER_STATE {
            state.vm = None;
        }
        let watched = kind >= STRESSED;
        let vm = state.vm.get_or_insert_with(|| {
            state.served = 0;
            let options = HeapOptions { stress: kind == STRESSED, poison: watched, ..HeapOptions::default() };
            let mut vm = sandbox::state(options);
            if kind == CHECKED {
                vm.check_operands();
            }
            vm
        });
        let Ok(f) = vm.load(input, b"=fuzz", LoadMode::Binary, None) else { return Ok(End::Refused) };
        state.served += 1;
        let outcome = sandbox::call(guard, vm, f, TIME);
        let broken = matches!(
            &outcome,
            Outcome::Error(e) if e.contains("interrupted") || e.contains("not enough memory")
        );
        let verified = if watched { vm.verify_heap() } else { Ok(()) };
        if broken {
            state.vm = None;
        }
        verified.map(|()| End::Accepted)
    }

    fn reset(&mut self) {
        // After a panic in the middle of a native nothing of the state may run, not even its end.
        std::mem::forget(std::mem::take(&mut self.states));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repaired_chunk_is_the_chunk() {
        let proto = perilune_syntax::compile(b"return 1", b"=x").unwrap();
        let bytes = perilune_syntax::dump::dump(&proto, false);
        let mut repaired = bytes.clone();
        repaired[PREFIX - 1] ^= 1;
        repair(&mut repaired);
        assert_eq!(repaired, bytes);
    }

    #[test]
    fn every_snippet_compiles() {
        for s in SNIPPETS {
            assert!(perilune_syntax::compile(s.as_bytes(), b"=x").is_ok(), "{s}");
        }
    }
}
