//! Programs whose coroutines are in the middle of natives when they end.

use crate::rng::Rng;

/// The line before the statements of the main program.
pub(super) const BEGIN: &str = "-- begin";

/// Calls of natives, `@` standing for code that may yield. Each is a statement.
const CALLS: &[&str] = &[
    "table.sort({ 3, 1, 2, 5, 4 }, function(a, b) @ return a < b end)",
    "table.sort({ meta { __lt = function() @ return false end }, meta {}, meta {} })",
    "string.gsub('abc', '.', function(c) @ return c end)",
    "string.gsub('abc', '.', meta { __index = function(_, k) @ return k end })",
    "string.format('%s %s', meta { __tostring = function() @ return 'x' end }, 1)",
    "tostring(meta { __tostring = function() @ return 'x' end })",
    "load(function() @ return nil end)",
    "local n = 0 load(function() n = n + 1 if n > 3 then return nil end @ return 'x=1 ' end)",
    "pcall(function() @ end)",
    "pcall(function() @ error 'x' end)",
    "pcall(pcall, function() @ error(meta {}) end)",
    "xpcall(function() @ error 'x' end, function(e) return e end)",
    "xpcall(function() @ local x = nil + 1 end, debug.traceback)",
    "local name = 'm' .. id .. '_' .. os.clock() package.preload[name] = function() @ return {} end \
     require(name)",
    "for _ in pairs(meta { __pairs = function(t) @ return next, {} end }) do end",
    "for _ in pairs(meta { __pairs = function(t) return function(_, k) @ if not k then return 1 end end, t \
     end }) do end",
    "for i in ipairs(meta { __index = function(t, i) @ if i < 3 then return i end end }) do end",
    "for i in function(_, k) @ if (k or 0) < 3 then return (k or 0) + 1 end end do end",
    "for i in function(_, k) if not k then return 1 end end, nil, nil, closing(id, true) do @ end",
    "table.concat(meta { __index = function(t, i) @ return 'x' end, __len = function() @ return 3 end })",
    "table.insert(meta { __index = function() @ end, __newindex = function() @ end, __len = function() @ \
     return 2 end }, 1, 'x')",
    "table.remove(meta { __index = function() @ end, __newindex = function() @ end, __len = function() @ \
     return 3 end }, 1)",
    "table.move({ 1, 2, 3 }, 1, 3, 1, meta { __newindex = function() @ end })",
    "table.unpack(meta { __index = function(t, i) @ return i end }, 1, 3)",
    "local x = '10' + meta { __add = function() @ return 1 end }",
    "local x = meta { __concat = function() @ return 'x' end } .. 'a' .. 'b'",
    "local x = meta { __index = function() @ return 1 end }.field",
    "meta { __newindex = function() @ end }.field = 1",
    "local x = #meta { __len = function() @ return 1 end }",
    "local x = meta { __lt = function() @ return true end } < 1",
    "local x = meta { __le = function() @ return true end } <= meta {}",
    "local m = { __eq = function() @ return true end } local x = setmetatable({}, m) == setmetatable({}, m)",
    "meta { __call = function(...) @ return ... end }(1, 2)",
    "local x = -meta { __unm = function() @ return 1 end }",
    "coroutine.wrap(function() @ return 1 end)()",
    "local w = coroutine.wrap(function() @ end) w() w()",
    "local co = coroutine.create(function() local z <close> = closing(id, true) coroutine.yield() end) \
     coroutine.resume(co) coroutine.close(co)",
    "local co = coroutine.create(function() local z <close> = meta { __close = function() @ end } error 'x' \
     end) coroutine.resume(co)",
    "local co = coroutine.create(function() @ end) coroutine.resume(co) coroutine.resume(co) co = nil \
     collectgarbage()",
    "os.time(meta { __index = function(t, k) @ return 1 end })",
    "do local y <close> = closing(id, true) @ end",
    "do local y <close> = meta { __close = function() @ end } local z <close> = closing(id, true) end",
    "do local y <close> = meta { __close = function() @ error 'in close' end } error 'x' end",
    "goto done do local y <close> = closing(id, true) @ end ::done::",
    "math.max(1, 2) @",
    "local function f(n) if n > 0 then return f(n - 1) end @ end f(5)",
    "local function f(n) if n > 0 then local y <close> = closing(id, n % 2 == 0) f(n - 1) end @ end f(3)",
    "dofile('/dev/null') @",
    "if pl then pl.arena(function() @ end) end",
    "if pl then cell:update(function(v) @ return v end) end",
    "if pl then map:update('k', function(v) @ return 1 end) end",
    "if pl then pl.trace.span('s', function() @ end) end",
    "local t = setmetatable({}, { __gc = function() end }) t = nil @",
    "debug.sethook(function() end, 'c') @ debug.sethook()",
];

/// A program.
pub(super) fn program(rng: &mut Rng) -> String {
    let mut text = String::from(include_str!("dropped.lua"));
    text.push_str(BEGIN);
    text.push('\n');
    let count = 1 + rng.below(6);
    for id in 1..=count {
        let body = code(rng, 3);
        text.push_str(&format!("start({id}, function(id) {body} end)\n"));
    }
    for _ in 0..3 + rng.below(20) {
        let id = 1 + rng.below(count);
        let step = match rng.below(10) {
            0..=4 => format!("go_on({id}, {})", 1 + rng.below(6)),
            5 => format!("drop({id})"),
            6 => format!("close({id})"),
            7 => "collectgarbage()".to_string(),
            8 => "collectgarbage('step')".to_string(),
            _ => "for i = 1, 200 do local t = { {}, i .. 'x' } end".to_string(),
        };
        let step = match rng.below(8) {
            0 => format!("pcall(function() {step} end)"),
            1 => format!("coroutine.wrap(function() {step} end)()"),
            2 => format!("table.sort({{ 2, 1 }}, function(a, b) {step} return a < b end)"),
            3 => format!("string.gsub('a', '.', function() {step} end)"),
            4 => format!("do local c <close> = meta {{ __close = function() {step} end }} end"),
            _ => step,
        };
        text.push_str(&step);
        text.push('\n');
    }
    for id in 1..=count {
        if rng.one_in(2) {
            text.push_str(&format!("drop({id})\n"));
        }
    }
    text.push_str("collectgarbage()\ncollectgarbage()\nprint 'ok'\n");
    text
}

/// What a coroutine does: a few statements, some of which yield.
fn code(rng: &mut Rng, depth: u32) -> String {
    let mut text = String::new();
    for _ in 0..1 + rng.below(2) {
        let statement = match rng.below(12) {
            0..=3 => "pause(id, 1)".to_string(),
            4 => format!("local v{} <close> = closing(id, {})", rng.below(1000), rng.one_in(2)),
            5 if rng.one_in(3) => "do error 'e' end".to_string(),
            5 => "collectgarbage()".to_string(),
            6 => "local g = {} for i = 1, 50 do g[i] = { i } end".to_string(),
            _ if depth > 0 => {
                let call = CALLS[rng.below(CALLS.len())];
                let mut pieces = call.split('@');
                let mut text = pieces.next().unwrap_or_default().to_string();
                for piece in pieces {
                    text.push_str(&code(rng, depth - 1));
                    text.push_str(piece);
                }
                format!("do {text} end")
            }
            _ => "pause(id, 2)".to_string(),
        };
        text.push_str(&statement);
        text.push(' ');
    }
    // A label may end a block only, and a statement may begin with a parenthesis.
    format!("do {text}end ")
}
