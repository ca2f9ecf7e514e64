//! Random graphs arrive as they left, and random functions that may cross do there what they do here. Under
//! `PERILUNE_GC_STRESS` too.

use crate::stand_in::{new_vm, run};

/// Under stress everything takes a hundred times as long.
fn seeds(count: i64) -> i64 {
    if std::env::var_os("PERILUNE_GC_STRESS").is_some() { count / 25 } else { count }
}

/// Writes a graph down so that two are equal if their texts are: tables get numbers in the order in which a
/// walk over sorted keys meets them.
const CANON: &str = r##"
local function canon(root)
  local numbers, queue, out = {}, {}, {}
  local text
  local function plain(v)
    if math.type(v) == "float" then return string.format("%a", v) end
    if type(v) == "string" then return string.format("%d:%s", #v, v) end
    return tostring(v)
  end
  function text(v)
    if type(v) ~= "table" and type(v) ~= "function" then return type(v) .. " " .. plain(v) end
    if not numbers[v] then
      queue[#queue + 1] = v
      numbers[v] = #queue
    end
    return type(v) .. " #" .. numbers[v]
  end
  out[1] = text(root)
  local at = 1
  while queue[at] do
    local v = queue[at]
    at = at + 1
    if type(v) == "function" then
      local values = table.pack(v())
      for i = 1, values.n do out[#out + 1] = "captures " .. text(values[i]) end
    else
      local keys, count, last = {}, 0, 0
      for k in next, v do
        keys[#keys + 1] = k
        if math.type(k) == "integer" and k > 0 then count, last = count + 1, math.max(last, k) end
      end
      -- Where there are holes, which border `#` finds depends on what was read before.
      local length = #v
      assert((length == 0 or rawget(v, length) ~= nil) and rawget(v, length + 1) == nil, "a border")
      out[#out + 1] = "length " .. (count == last and length or "of one of its borders")
      -- Keys that are tables have a name of their own to be sorted by.
      local function name(k) return type(k) == "table" and "table " .. k.name or type(k) .. " " .. plain(k) end
      table.sort(keys, function(a, b) return name(a) < name(b) end)
      for _, k in ipairs(keys) do out[#out + 1] = text(k) .. " = " .. text(rawget(v, k)) end
    end
  end
  return table.concat(out, "\n")
end
"##;

const GRAPHS: &str = r##"
local pl = require "perilune"
local seed = ...
math.randomseed(seed)
local random = math.random
local scalars = { 0, -1, 1 << 62, math.mininteger, 0.5, -0.0, 1e308, math.huge, 2.0 ^ 53, true, false, "", "a",
  ("long"):rep(40), "\0binary\255", ("x"):rep(22), ("x"):rep(23), ("x"):rep(64), ("x"):rep(65) }
local function scalar() return scalars[random(#scalars)] end
local tables, functions = {}, {}
for i = 1, random(1, 30) do tables[i] = { name = "table" .. i } end
for i = 1, random(0, 4) do
  local a, b, c = scalar(), functions[random(#functions + 1)], scalar()
  functions[i] = i % 2 == 0 and function() return a, b, c end or function() return c, b end
end
local function value()
  local n = random(4)
  if n == 1 then return tables[random(#tables)] end
  if n == 2 and #functions > 0 then return functions[random(#functions)] end
  return scalar()
end
local fields = { "x", "y", "z", "next", "__index", "label", "_ENV" }
for _, t in ipairs(tables) do
  local kind = random(6)
  if kind == 1 then
    for i = 1, random(200) do t[i] = random(1000) end
  elseif kind == 2 then
    for i = 1, random(200) do t[i] = random() end
  elseif kind == 3 then
    for i = 1, random(20) do t[i] = value() end
    for i = 1, random(5) do t[random(20)] = nil end
  elseif kind == 4 then
    for i = 1, random(80) do t["key" .. random(1000)] = value() end
    for i = 1, random(80) do t["key" .. random(1000)] = nil end
  elseif kind == 5 then
    for i = 1, random(8) do t[fields[random(#fields)]] = value() end
  end
  for i = 1, random(0, 3) do
    local k = random(3) == 1 and tables[random(#tables)] or scalar()
    t[k] = value()
  end
  t[random(-10, 10000)] = value()
  t.x = value()
  t.x = nil
end
local root = tables[1]
root.all = tables
local here = canon(root)
local c = pl.channel.new()
c:send(root)
local back = c:recv()
assert(back ~= root and canon(back) == here, "through a channel")
collectgarbage()
assert(canon(back) == here, "after a collection")
local there, again = pl.domain.spawn(function(t)
  collectgarbage()
  local text = canon(t)
  t.all[1].fresh = {}
  for _, v in ipairs(t.all) do v.fresh = t v[1] = "first" end
  collectgarbage()
  for _, v in ipairs(t.all) do v.fresh = nil end
  return text, t
end, root):join()
assert(there == here, "in another domain")
assert(again.all[1] == again and again[1] == "first", "and back")
assert(canon(root) == here, "the original is as it was")
"##;

#[test]
fn random_graphs_arrive_as_they_left() {
    for seed in 0..seeds(150) {
        let source = format!("{CANON}\nlocal function graphs(...)\n{GRAPHS}\nend graphs({seed})");
        let mut vm = new_vm();
        if let Err(e) = run(&mut vm, &source, "graphs.lua") {
            panic!("seed {seed}: {e}");
        }
        vm.collect_full();
        vm.verify_heap().unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

/// Makes programs of variables and functions, most of which may not cross, and calls what may on both sides.
const FUNCTIONS: &str = r##"
local pl = require "perilune"
local seed = ...
math.randomseed(seed)
local random = math.random
local out, names, depth = {}, {}, 0
local function emit(s) out[#out + 1] = s end
local function name() return names[random(#names)] or "G" .. random(4) end
local function expression()
  local n = random(8)
  if n <= 2 then return tostring(random(100)) end
  if n == 3 then return '"text' .. random(9) .. '"' end
  if n == 4 then return "{" .. random(9) .. "}" end
  if n == 5 then return "function() return " .. name() .. ", " .. name() .. " end" end
  if n == 6 then return "string.format" end
  return name()
end
local function statement()
  local n = random(12)
  local mark = #names
  if n <= 3 then
    local v = "v" .. #out
    emit("local " .. v .. " = " .. expression())
    names[#names + 1] = v
  elseif n == 4 then
    local v = "v" .. #out
    emit("local " .. v)
    names[#names + 1] = v
  elseif n <= 6 then
    emit(name() .. " = " .. expression())
  elseif n == 7 and depth < 3 then
    depth = depth + 1
    emit("for i = 1, 2 do")
    names[#names + 1] = "i"
    for _ = 1, random(3) do statement() end
    emit("end")
    depth = depth - 1
    while #names > mark do names[#names] = nil end
  elseif n == 8 and depth < 3 then
    depth = depth + 1
    local v = "f" .. #out
    emit("local function " .. v .. "(p)")
    names[#names + 1], names[#names + 2] = v, "p"
    for _ = 1, random(2) do statement() end
    emit("return " .. name() .. ", " .. name() .. " end")
    while #names > mark + 1 do names[#names] = nil end
    depth = depth - 1
  elseif n == 9 then
    emit("G" .. random(4) .. " = " .. expression())
  elseif n == 10 and depth < 3 then
    depth = depth + 1
    emit("if " .. name() .. " then")
    statement()
    emit("end")
    depth = depth - 1
    while #names > mark do names[#names] = nil end
  else
    emit("try(function() return " .. name() .. ", " .. name() .. ", " .. name() .. " end)")
  end
end
for _ = 1, 25 do statement() end
local accepted, refused = 0, 0
local function show(...)
  local t = table.pack(...)
  for i = 1, t.n do t[i] = type(t[i]) == "table" and "{" .. tostring(t[i][1]) .. "}" or type(t[i]) == "function" and "function" or tostring(t[i]) end
  return table.concat(t, " ", 1, t.n)
end
local env = setmetatable({}, { __index = _G })
local source = table.concat(out, "\n")
-- The program's globals are real ones, so that functions find them as their environment.
local program = assert(load("local try = ... " .. source, "=program"))
pcall(program, function(f)
  local here = show(pcall(f))
  local ok, d = pcall(pl.domain.spawn, f)
  if not ok then
    assert(type(d) == "string" and d:find("cannot go to another domain", 1, true), d)
    refused = refused + 1
    return
  end
  accepted = accepted + 1
  local there = show(pcall(function() return d:join() end))
  there = there:gsub("\n.*", "")
  -- A plain table as a result of its own is all that may look different: it is not, a copy shows the same.
  if here ~= there and not there:find("cannot go to another domain", 1, true) then
    error("here " .. here .. ", there " .. there .. "\n" .. source, 0)
  end
end)
return accepted, refused
"##;

#[test]
fn functions_that_may_cross_do_the_same_there() {
    let (mut accepted, mut refused) = (0, 0);
    for seed in 0..seeds(400) {
        let mut vm = new_vm();
        let source = format!("return (function(...)\n{FUNCTIONS}\nend)({seed})");
        match run(&mut vm, &source, "functions.lua") {
            Ok(counts) => {
                accepted += counts[0].as_int().expect("a count");
                refused += counts[1].as_int().expect("a count");
            }
            Err(e) => panic!("seed {seed}: {e}"),
        }
    }
    let few = seeds(400) / 4;
    assert!(accepted > few && refused > few, "{accepted} accepted, {refused} refused");
}
