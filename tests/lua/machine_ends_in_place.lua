-- Guards that stand where a function built in place has come back: the interpreter goes on behind the call. As a
-- statement, in a list, in a list of lists, in pcall, as a metamethod, as one that decides a jump, behind a tail call.
local mt = {}
mt.__index = mt
mt.__lt = function(a, b) return a.n < b.n end
mt.__le = function(a, b) if a.n > b.n then return false end return true end
mt.__eq = function(a, b) if a.n == b.n then return 1 end return nil end
mt.__add = function(a, b) return a.n + (type(b) == "table" and b.n or b) end
mt.__concat = function(a, b) return "<" .. tostring(a.n or a) .. tostring(b.n or b) .. ">" end
local kept
local function new(n) return setmetatable({ n = n }, mt) end
local function empty() return setmetatable({}, {}) end
local nothing = function() end
local function one(v) return v end
local function either(v, k) if k % 3 == 0 then return v end if k % 3 == 1 then return k end return k + 0.5 end
local function last(v, k) return either(v, k) end
local function statement(k)
  local c = empty()
  kept = c
  nothing()
  kept = c
  return rawequal(kept, c), k
end
local function in_list(k)
  local c = new(k)
  kept = c
  return #{ one(c), one(last(kept, k)), either(c, 0) }, math.type(one(either(k, k)))
end
local function protected(k)
  local c = new(k)
  kept = c
  local ok, v = pcall(either, c, k)
  kept = c
  return ok, v == c, kept.n
end
local function compared(k)
  local a, b = new(k), new(k + (k % 3 - 1))
  kept = a
  local s = 0
  if a < b then s = s + 1 end
  if a <= b then s = s + 10 end
  if a == b then s = s + 100 end
  if not (b <= a) then s = s + 1000 end
  kept = b
  while a < b do a.n = a.n + 1 s = s + 10000 end
  return s, kept.n
end
local function added(k)
  local a = new(k)
  kept = a
  local v = a + (k % 2 == 0 and new(1) or 2.5)
  kept = a
  local t = a .. "x"
  return v, math.type(v), t, kept.n
end
local sums = {}
for k = 1, 400 do
  for n, f in ipairs({ statement, in_list, protected, compared, added }) do
    local t = sums[n] or {}
    sums[n] = t
    for i, v in ipairs({ f(k) }) do
      local u = (type(v) == "number") and v or (#tostring(v) + (v and 1 or 0))
      t[i] = (t[i] or 0) + u * (k % 7 + 1)
    end
  end
end
for n, t in ipairs(sums) do print(n, table.unpack(t)) end
