-- What `paths.rs` builds programs from, behind `prelude.lua`.
local T, M, F, names = {}, {}, {}, {}
local mod = {n = 1}
local up, upf, upn, upflag = nil, nil, 1, false
local barred, turn, at, sum, fresh = false, 0, 0, 0, 0
local ids = {}
-- A value in a word: tables and functions by the names that they have.
local function word(v)
  if v == nil then return "nil" end
  local kind = math.type(v)
  if kind == "float" then return v ~= v and "nan" or string.format("%.14gf", v) end
  if kind then return string.format("%d", v) end
  if type(v) == "string" then return v end
  if type(v) == "boolean" then return v and "true" or "false" end
  return names[v] or type(v)
end
-- Takes note of results: what has not been there before is shown, as long as there is little of it, and all of
-- it in its order makes a sum.
local function keep(i, ...)
  at = i
  local words = {...}
  for k = 1, select("#", ...) do words[k] = word(words[k]) end
  local key = table.concat(words, " ")
  local id = ids[key]
  if not id then
    fresh = fresh + 1
    id = fresh
    if fresh <= 30 then print(i, key)
    else for k = 1, #key do id = (id * 33 + key:byte(k)) % 1000003 end end
    ids[key] = id
  end
  sum = (sum * 31 + id) % 1000000007
end
-- Functions that have loops or calls, and give a number first.
local function count(n)
  local s = 0
  for j = 1, n % 4 do s = s + j end
  return s
end
local function kinds(n)
  turn = turn + 1
  local s = turn % 5 == 0 and 0.5 or 1
  for j = 1, 2 do s = s + j end
  if turn % 9 == 0 then s = s * 1.0 end
  return s
end
local function several(n)
  turn = turn + 1
  if turn % 3 == 0 then return n, 2 elseif turn % 7 == 0 then return count(n), 2.5, "three" end
  return n
end
local function raise(n)
  turn = turn + 1
  if turn % 19 == 5 then error("raised", turn % 2 * 2) elseif turn % 23 == 6 then error(T[1], 0) end
  return count(n) + turn % 3
end
local function wait(n)
  if not barred and coroutine.isyieldable() then coroutine.yield(n) end
  return n
end
local function down(n)
  if n < 1 or n ~= n or n > 9 then return 1 end
  return 1 + down(n - 1)
end
local function apply(f, ...)
  local r
  for j = 1, 2 do if j == 2 then r = f(...) end end
  return r or 0
end
local function pass(v, other)
  turn = turn + 1
  for j = 1, 1 do if turn % 17 == 0 then return other end end
  return v
end
local function same(v) return v end
local function each(t, j)
  j = j + 1
  if j <= 3 then return j, t[j] end
end
local function upto(n)
  return coroutine.wrap(function() for j = 1, n do coroutine.yield(j) end end)
end
local function through(f, ...)
  local before, r = barred, 0
  barred = true
  local packed = table.pack(...)
  local ok, e = pcall(string.gsub, "x", "x", function() r = f(table.unpack(packed, 1, packed.n)) end)
  barred = before
  if not ok then error(e, 0) end
  return r or 0
end
-- Now and then, stores into a variable of its caller.
local function poke(name, v)
  turn = turn + 1
  if turn % 16 ~= 0 then return end
  for j = 1, 200 do
    local own = debug.getlocal(2, j)
    if not own then return end
    if own == name then debug.setlocal(2, j, v) end
  end
end
-- Setters.
local function set_up(v) up = v end
local function set_upf(v) for j = 1, 1 do upf = v end end
local function set_upn(v) upn = v end
local function set_upflag(v) turn = turn + count(1) upflag = v end
local function set_global(t, f, n) gt, gf, gn = t, f or gf, n or gn end
local function set_mod(t, f, n) for j = 1, 1 do mod.t, mod.f, mod.n = t, f or mod.f, n or mod.n end end
local function get_x(self, n) return self.x + n end
local function get_y(self, n) for j = 1, 2 do n = n + self.y end return n end
local function get_1(self, n) return self[1] * 2 + n end
local metas = {
  {__index = {z = 5, w = 6}},
  {__index = function(t, k) return k == "z" and 7 or nil end, __len = function(t) return rawlen(t) end},
  {__eq = function(a, b) return rawequal(a, b) or a.x == b.x end, __newindex = function(t, k, v) rawset(t, k, v) end},
  {__index = {z = 2.5}, __newindex = function(t, k, v) turn = turn + 1 rawset(t, k, v) end, __call = function(t, n) return n + 1 end},
}
-- Changes a table's shape, the kind of its array, its metatable.
local function change(t, how)
  turn = turn + 1
  if how == 0 then t[1] = t[1] + 0.5
  elseif how == 1 then t.z = turn % 5
  elseif how == 2 then t.z = nil
  elseif how == 3 then rawset(t, "k" .. turn % 12, turn)
  elseif how == 4 then setmetatable(t, metas[1 + turn % 5])
  elseif how == 5 then if #t < 9 then t[#t + 1] = turn % 10 end
  elseif how == 6 then if #t > 3 then table.remove(t) end
  elseif how == 7 then t.x = t.x + 0.25
  elseif how == 8 then t.next = T[1 + turn % #T]
  elseif how == 9 then t.f = F[1 + turn % #F]
  elseif how == 10 then for j = 1, 3 do t[j] = j end
  elseif how == 11 then t[100] = 1 t[100] = nil t[0] = turn % 4
  elseif how == 12 then local x, y = t.x, t.y t.x, t.y = nil, nil t.y = y t.x = x
  elseif how == 13 then t.get = turn % 2 == 0 and get_x or get_1
  elseif how == 14 then if #t < 9 then table.insert(t, 1, turn % 7) end
  elseif how == 15 then if #t > 3 then table.remove(t, 1) end
  elseif how == 16 then for j = 1, #t do t[j] = t[j] * 0.5 end
  elseif how == 17 then t.name = "n" .. turn % 4
  elseif how == 18 then setmetatable(t, nil) t.x = 3
  elseif how == 19 then up, upn = t, turn % 6
  elseif how == 20 then gt, gn = t, turn * 0.5
  elseif how == 21 then if turn % 16 == 0 then collectgarbage("step") end
  end
  return turn % 8
end
local function mix(m, how)
  turn = turn + 1
  if how == 0 then m[2] = nil
  elseif how == 1 then m[2] = turn % 2 == 0
  elseif how == 2 then m[1] = 0.5
  elseif how == 3 then m[1] = "one"
  elseif how == 4 then m[3] = turn % 4
  elseif how == 5 then m.x = nil m.y = true
  elseif how == 6 then for j = 1, 4 do m[j] = j % 2 == 0 end
  elseif how == 7 then for j = 1, 4 do m[j] = j * 0.5 end
  elseif how == 8 then m[1 + turn % 4] = T[1]
  elseif how == 9 then rawset(m, "q" .. turn % 9, turn)
  end
  return turn % 4
end
-- New tables, as at the beginning.
local function fill()
  up, upf, upn, upflag, turn = nil, nil, 1, false, 0
  names = {}
  T[1] = {3, 1, 2, name = "a", x = 1, y = 2, f = math.floor, get = get_x}
  T[2] = {5, 4, 6, 7, name = "b", x = 4, y = 5, f = count, get = get_x}
  T[3] = {0.5, 1.5, 2.5, x = 2.5, y = 1, z = 3, name = "c", f = math.abs, get = get_1}
  T[4] = {1, 2.5, 3, 4, 5, y = 7, x = 8, name = "d", get = get_y, f = kinds}
  T[5] = setmetatable({9, 8, 7, name = "e", x = 9, y = 0.5, f = down, get = get_x}, metas[1])
  M[1], M[2] = {1, 2, 3, 4, x = 1}, {true, false, true, true}
  M[3], M[4], M[5] = {"p", 2, nil, 1.5, x = "q"}, {0.5, 1.5}, {[2] = false, [4] = "r", y = 1}
  for i = 1, 5 do
    T[i].next = T[1 + i % 5]
    names[T[i]], names[M[i]] = "T" .. i, "M" .. i
  end
  F[1], F[2], F[3], F[4], F[5], F[6], F[7] = count, kinds, math.floor, down, math.abs, function(n) return n + 1 end, function(n) return n * 2 end
  for i = 1, #F do names[F[i]] = "F" .. i end
  mod.t, mod.f, mod.n = T[1], F[1], 1
  up, upf, gt, gf, gn, gflag = T[1], F[6], T[2], F[7], 2, false
end
local fields = {"name", "x", "y", "z", "w", "f", "get", "next", 0}
-- What has become of the tables.
local function rest()
  for i = 1, 5 do
    local t, words = T[i], {"T" .. i}
    for j = 1, #t do words[#words + 1] = word(t[j]) end
    for j = 1, #fields do words[#words + 1] = word(rawget(t, fields[j])) end
    for j = 1, 4 do words[#words + 1] = word(M[i][j]) end
    keep(at, table.concat(words, " "))
  end
  print(sum, turn, word(up), word(upf), word(upn), word(gt), word(gf), word(gn), word(mod.t), word(mod.n))
end
-- Calls `f` for `1..last`, beginning anew behind errors.
local function round(last, f)
  at, fresh, sum, fuel = 0, 0, 0, 20 * last
  local errors, e = 0, nil
  while at < last do
    local first = at + 1
    if fuel < 100 then fuel = 100 end
    local ok, why = pcall(f, first, last)
    if ok then break end
    errors, e = errors + 1, why
    if at < first then at = first end
    if errors < 4 then print("error", at, word(why)) end
  end
  debug.sethook()
  barred = false
  print("errors", errors, word(e))
  rest()
end
-- Ways to run a function.
local way = {}
function way.protected(f, ...) return pcall(f, ...) end
function way.through(f, ...) return through(f, ...) end
function way.coroutine(f, ...)
  local co, r, n = coroutine.wrap(f), nil, 0
  local function take(v, ...) n = n + 1 if v == co or n > 40 then return nil, ... end return v, ... end
  return take(co(...))
end
function way.resumed(f, ...)
  local co, n = coroutine.create(f), 0
  local function take(ok, ...)
    if ok and coroutine.status(co) == "suspended" and n < 60 then
      n = n + 1
      return take(coroutine.resume(co, n))
    end
    return ok, n, ...
  end
  return take(coroutine.resume(co, ...))
end
function way.hooked(f, ...)
  debug.sethook(function() end, turn % 2 == 0 and "l" or "cr")
  local function take(...) debug.sethook() return ... end
  return take(pcall(f, ...))
end
function way.tail(f, ...) return f(...) end
fill()
