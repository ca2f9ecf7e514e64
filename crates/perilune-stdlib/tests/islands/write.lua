-- Every store into a shared table is an error and changes nothing.
local s = share {
  x = 1, y = 2.5, s = "text", ints = { 1, 2, 3 }, floats = { 1.5, 2.5 }, mixed = { 1, "a", {} },
  dict = { ["a b"] = 1, [1.5] = 2, [10] = 3 }, sub = { z = 1 }, none = {},
  obj = setmetatable({ v = 1 }, { __index = { w = 2 } }),
}
local function text(t, seen)
  local lines = {}
  for k, v in pairs(t) do
    lines[#lines + 1] = tostring(k) .. "=" .. (type(v) == "table" and text(v) or tostring(v))
  end
  table.sort(lines)
  return "{" .. table.concat(lines, ",") .. "}"
end
local before = text(s)
local function refused(f, ...)
  for i = 1, 3 do
    local ok, e = pcall(f, ...)
    assert(not ok, "no error")
    assert(tostring(e):find "attempt to modify a shared table", e)
  end
  assert(text(s) == before)
end

local values = { 1, 2.5, "x", true, {}, print }
local private = { x = 1, y = 2.5, s = "text", ints = { 1, 2, 3 }, dict = {}, sub = {}, none = {}, obj = {} }
-- through inline caches that are warm from private tables of the same shape
local function set_x(t, v) t.x = v end
local function set_new(t, v) t.brand_new = v end
local function set_z(t, v) t.z = v end
local function set_1(t, v) t[1] = v end
local function set_k(t, k, v) t[k] = v end
local function set_ab(t, v) t["a b"] = v end
for i = 1, 5 do
  set_x(private, i)
  set_new({ z = 1 }, i)
  set_z({ z = 1 }, i)
  set_1({ 5, 6 }, 7)
  set_1({ 5.5 }, 7.5)
  set_k({ 1, 2, 3 }, 2, 7)
  set_k({ 1, 2, 3 }, 4, 7)
  set_k({ x = 1 }, "x", 7)
  set_ab({ ["a b"] = 1, [1.5] = 2 }, 5)
end
for _, v in ipairs(values) do
  refused(set_x, s, v)
  refused(set_new, s, v)
  refused(set_z, s.sub, v)
  refused(set_1, s.ints, v)
  refused(set_1, s.floats, v)
  refused(set_1, s.mixed, v)
  refused(set_1, s.none, v)
  refused(set_k, s.ints, 2, v)
  refused(set_k, s.ints, 4, v)
  refused(set_k, s.ints, 100, v)
  refused(set_k, s.floats, 3, v)
  refused(set_k, s.dict, 10, v)
  refused(set_k, s.dict, 1.5, v)
  refused(set_k, s.dict, true, v)
  refused(set_k, s.dict, {}, v)
  refused(set_k, s, "x", v)
  refused(set_k, s, "x" .. "y", v)
  refused(set_ab, s.dict, v)
  refused(set_ab, s, v)
  refused(rawset, s, "x", v)
  refused(rawset, s, "unknown", v)
  refused(rawset, s.ints, 1, v)
  refused(rawset, s.obj, "v", v)
  refused(table.insert, s.ints, v)
  refused(table.insert, s.ints, 1, v)
  refused(table.insert, s.none, v)
end
refused(set_x, s, nil)
refused(set_k, s, "never there " .. 1, nil)
refused(set_1, s.ints, nil)
refused(rawset, s.dict, "a b", nil)
refused(table.remove, s.ints)
refused(table.remove, s.ints, 1)
refused(table.sort, s.ints, function(a, b) return a > b end)
refused(table.move, { 1, 2 }, 1, 2, 1, s.ints)
refused(table.move, s.ints, 1, 2, 2)
refused(setmetatable, s, {})
refused(setmetatable, s.sub, nil)
refused(debug.setmetatable, s, {})
refused(function() for k in pairs(s) do s[k] = nil end end)
refused(function() s.sub.z = s.sub.z + 1 end)
refused(function() local t <const> = s; t.ints[#t.ints + 1] = 4 end)
refused(function() s.obj.w = 1 end)
-- messages have names
local function message(f) return select(2, pcall(f)) end
assert(message(function() s.x = 1 end):find("(upvalue 's')", 1, true))
assert(message(function() local t = s; t.x = 1 end):find("(local 't')", 1, true))
assert(message(function() s.sub.z = 1 end):find("(field 'sub')", 1, true))
-- __newindex of a shared table is called for what it lacks
local log = {}
local proxy = share(setmetatable({ has = 1 }, { __newindex = function(t, k, v) error("new " .. k, 0) end }))
assert(select(2, pcall(function() proxy.other = 1 end)) == "new other")
refused(function() proxy.has = 1 end)
-- and as __newindex of a private one it refuses
local through = setmetatable({}, { __newindex = s.sub })
refused(function() through.z = 1 end)
refused(function() through.q = 1 end)
-- as environment
local f = load("x = 5", "=env", "t", s)
refused(f)
f = load("return x", "=env", "t", s)
for i = 1, 3 do assert(f() == 1) end
collectgarbage()
refused(set_x, s, 1)
verify()
