//! Programs that want too much: nesting, recursion, strings, tables, time.
//!
//! Each case is a program and a limit; it must end in a Lua error (or, where the want can be met, in a
//! result), and the state must work afterwards. The programs are templates with random sizes, and run in one
//! state one after the other, so that what one leaves behind meets the next.

use crate::guard::Guard;
use crate::rng::Rng;
use crate::runner::{End, Target};
use crate::sandbox::{self, Outcome};
use perilune_heap::HeapOptions;
use perilune_vm::{LoadMode, Vm};
use std::time::Duration;

/// Bytes beyond which a state that has collected everything holds too much: a stack of a million slots may
/// still be there, and one of a coroutine that something on the native stack looks like.
const LEFT_OVER: usize = 32 << 20;

/// The target.
#[derive(Default)]
pub struct Limits {
    vm: Option<Box<Vm>>,
}

/// What the programs want too much of; `N` is a number, see [`Limits::generate`].
const TEMPLATES: &[&str] = &[
    // Nesting of source text.
    "return load(('('):rep(N) .. '1' .. (')'):rep(N))",
    "return load(('{'):rep(N) .. ('}'):rep(N))",
    "return load('return ' .. ('-'):rep(1) .. (' not '):rep(N) .. '1')",
    "return load(('do '):rep(N) .. ('end '):rep(N))",
    "return load(('function f() '):rep(N) .. ('end '):rep(N))",
    "return load('return ' .. ('a.'):rep(N) .. 'b')",
    "return load('return ' .. ('f('):rep(N) .. (')'):rep(N))",
    "return load('local a ' .. ('a = a '):rep(N))",
    "return load('return ' .. ('1 .. '):rep(N) .. '1')",
    "return load('return ' .. ('2 ^ '):rep(N) .. '1')",
    "return load('return {' .. ('1,'):rep(N) .. '}')",
    "return load('local ' .. ('a,'):rep(N) .. 'a')",
    "return load('goto x ' .. ('::l::'):rep(N))",
    "return load('x = ' .. ('\"' .. ('a'):rep(100) .. '\" .. '):rep(N) .. '1')",
    // Recursion of all kinds.
    "local function f() return 1 + f() end return f()",
    "local function f(...) return f(1, ...) end return f()",
    "local function f(n) return pcall(f, n + 1) end return f(1)",
    "local function f(n) return select(2, pcall(f, n + 1)), 1 end return f(1)",
    "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k + 1] end return t[1]",
    "local t = setmetatable({}, {}) getmetatable(t).__add = function(a, b) return a + b end return t + 1",
    "local t = setmetatable({}, {}) getmetatable(t).__eq = function(a, b) return a == setmetatable({}, \
     getmetatable(a)) end return t == setmetatable({}, getmetatable(t))",
    "local t = setmetatable({}, {}) getmetatable(t).__tostring = function(a) return tostring(a) end return \
     tostring(t)",
    "local t = setmetatable({}, {}) getmetatable(t).__call = t return t()",
    "local t = {} for i = 1, N do t = setmetatable({}, {__index = t}) end return t.x",
    "local t = {} for i = 1, N do t = setmetatable({}, {__call = t}) end return t()",
    "local function f() return string.gsub('x', 'x', f) end return f()",
    "local function f(a, b) table.sort({3, 2, 1}, f) return a < b end return f(1, 2)",
    "local function f() return coroutine.wrap(f)() end return f()",
    "local function f(n) local co = coroutine.create(f) return coroutine.resume(co, n + 1) end return f(1)",
    "local function f() return load('return ...')(f)() end return f()",
    "local function f() local x <close> = setmetatable({}, {__close = f}) error('x') end return f()",
    "local function f() local x <close> = setmetatable({}, {__close = f}) end return f()",
    "local f f = function() return xpcall(error, f) end return f()",
    "return xpcall(function() local function f() return 1 + f() end return f() end, function(m) local \
     function g() return 1 + g() end return g() end)",
    "return require and 1 or error(setmetatable({}, {__tostring = function() error('again') end}))",
    // Sizes.
    "return ('x'):rep(N * 100000)",
    "return ('x'):rep(math.maxinteger)",
    "return ('x'):rep(1 << 40, 'y')",
    "local s = 'x' while true do s = s .. s end",
    "local t = {} for i = 1, math.huge do t[i] = i end",
    "local t = {} for i = 1, math.huge do t[i + 0.5] = {} end",
    "local t = {} for i = 1, math.huge do t['k' .. i] = i end",
    "local t = {} while true do t = {t} end",
    "local t = {} for i = 1, math.huge do t[i] = function() return t, i end end",
    "local t = {} for i = 1, math.huge do t[i] = coroutine.create(print) end",
    "local t = {} for i = 1, math.huge do t[i] = coroutine.wrap(function() coroutine.yield(string.gsub('x', \
     'x', coroutine.yield)) end) t[i]() end",
    "return table.concat(setmetatable({}, {__len = function() return N * 1000000 end, __index = function() \
     return ('x'):rep(1000) end}))",
    "return table.unpack({}, 1, N * 100000)",
    "return table.unpack({}, math.mininteger, math.maxinteger)",
    "return string.char(table.unpack({}, 1, N * 1000))",
    "return string.format(('%99.99f'):rep(N), 1)",
    "return string.pack('!16 ' .. ('i16'):rep(N))",
    "return ('x'):rep(N * 1000):gsub('', ('y'):rep(N * 10))",
    "return ('x'):rep(N * 1000):gsub('.', '%0%0%0%0')",
    "return table.concat({('x'):rep(1 << 24), ('x'):rep(1 << 24), ('x'):rep(1 << 24), ('x'):rep(1 << 24), \
     ('x'):rep(1 << 24)})",
    "return select('#', string.byte(('x'):rep(N * 1000), 1, -1))",
    "return utf8.char(table.unpack({}, 1, N))",
    "return string.dump(load(('x = 1 '):rep(N * 10)))",
    "local t = table.pack(string.byte(('x'):rep(N * 50), 1, -1)) return table.concat(t, ',')",
    "return table.move({}, 1, math.maxinteger - 1, 2)",
    "return table.insert(setmetatable({}, {__len = function() return math.maxinteger - 1 end}), 1, 1)",
    "return table.remove(setmetatable({}, {__len = function() return math.maxinteger - 1 end}), 1)",
    "return setmetatable({}, {__gc = function() while true do local t = {} end end}) and collectgarbage()",
    "local t = {} for i = 1, N * 100 do t[i] = i end return table.insert(t, 1, t), #t",
    "return load(function() return 'x = 1 ' end)",
    "return load(function() return ' ' end)",
    // Time.
    "while true do end",
    "for i = 1, math.huge do end",
    "repeat local x = 1 until false",
    "local function f() return f() end return f()",
    "while true do pcall(error) end",
    "local co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
    "for x in function() return 1 end do end",
    "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
    "return table.sort(setmetatable({}, {__len = function() return 10 end, __index = function(t, i) return i \
     end}), function() while true do end end)",
    "goto l ::l:: goto l2 ::l2:: while true do goto l3 ::l3:: end",
    "return string.find(('a'):rep(40), ('a-'):rep(30) .. 'b')",
    "return string.gsub(('a'):rep(40), ('a?'):rep(40) .. ('a'):rep(40) .. 'b', '')",
    "return load(('x = 1 '):rep(1e7))",
    "return table.concat(setmetatable({}, {__index = function() return '' end}), '', 1, math.maxinteger)",
    // Patterns.
    "return string.find(('a'):rep(N % 60), ('a-'):rep(4) .. 'b')",
    "return string.match(('('):rep(N * 10), ('%('):rep(N))",
    "return string.match(('x'):rep(N), ('('):rep(N))",
    "return string.match(('x'):rep(N), ('(.?)'):rep(N))",
    "return string.find(('a'):rep(N * 10), ('a?'):rep(N % 18) .. ('a'):rep(N % 18))",
    "return string.rep('%b()', N):gsub('%b()', '%0')",
];

impl Limits {
    /// One program: its outcome, or what is wrong.
    ///
    /// # Errors
    /// The state does not work afterwards, or holds what it should have let go.
    pub fn check(&mut self, guard: &Guard, source: &[u8]) -> Result<Outcome, String> {
        let vm = self.vm.get_or_insert_with(|| sandbox::state(HeapOptions::default()));
        let f = vm.load(source, b"=limits", LoadMode::Text, None).map_err(sandbox::text)?;
        let outcome = sandbox::call(guard, vm, f, Duration::from_millis(100));
        sandbox::still_works(guard, vm)?;
        sandbox::collect(guard, vm);
        sandbox::collect(guard, vm);
        let bytes = vm.heap_bytes();
        if bytes > LEFT_OVER {
            self.vm = None;
            return Err(format!("{bytes} bytes are held afterwards"));
        }
        Ok(outcome)
    }
}

/// All programs, with `n` for `N`.
pub fn programs(n: u64) -> impl Iterator<Item = String> {
    TEMPLATES.iter().map(move |t| t.replace('N', &n.to_string()))
}

impl Target for Limits {
    fn name(&self) -> &'static str {
        "limits"
    }

    fn generate(&mut self, rng: &mut Rng) -> Vec<u8> {
        let n = match rng.below(4) {
            0 => 180 + rng.below(40),
            1 => 1 << rng.below(14),
            2 => rng.below(300),
            _ => rng.below(9000),
        };
        let body = rng.pick(TEMPLATES).replace('N', &n.to_string());
        let source = match rng.below(6) {
            0 => format!("return coroutine.wrap(function() {body} end)()"),
            1 => format!("return pcall(function() {body} end)"),
            2 => format!(
                "local x <close> = setmetatable({{}}, {{__close = function() local t = {{}} for i = 1, 9 do \
                 t[i] = {{}} end end}}) return pcall(function() {body} end)"
            ),
            3 => format!(
                "local co = coroutine.create(function() {body} end) local r = coroutine.resume(co) return r, \
                 coroutine.close(co)"
            ),
            _ => body,
        };
        source.into_bytes()
    }

    fn run(&mut self, guard: &Guard, input: &[u8]) -> Result<End, String> {
        match self.check(guard, input)? {
            Outcome::Results(_) => Ok(End::Accepted),
            Outcome::Error(_) => Ok(End::Refused),
        }
    }

    fn reset(&mut self) {
        std::mem::forget(self.vm.take());
    }
}
