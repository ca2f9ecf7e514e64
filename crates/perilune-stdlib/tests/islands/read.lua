-- Reading a shared value is reading a table.
local function deep_equal(a, b, seen)
  if type(a) ~= "table" or type(b) ~= "table" then
    return a == b and math.type(a) == math.type(b)
  end
  seen = seen or {}
  if seen[a] then return seen[a] == b end
  seen[a] = b
  assert(#a == #b)
  local n = 0
  for k, v in pairs(a) do
    n = n + 1
    if type(k) ~= "table" and not deep_equal(v, b[k], seen) then return false, k end
  end
  for k in pairs(b) do n = n - 1 end
  return n == 0
end

-- plain values come back as they are
for _, v in ipairs { 1, 2.5, true, false, "text", print } do
  assert(share(v) == v and is_shared(v) and not in_island(v))
end
assert(share(nil) == nil)
local long = ("x"):rep(5000)
local ilong = share(long)
assert(in_island(ilong) and ilong == long and #ilong == 5000 and not in_island(long))
assert(({ [long] = 1 })[ilong] == 1 and ({ [ilong] = 2 })[long] == 2)

-- records, arrays by kind, dictionaries, nesting
local big = {}
for i = 1, 3000 do big["key " .. i] = i end
local t = {
  name = "config", n = 3, x = 1.5, yes = true,
  ints = { 1, 2, 3, 4, 5 }, floats = { 1.0, 2.5 }, mixed = { 1, "two", 3.0, { 4 } },
  holes = { 1, nil, 3 }, empty = {},
  dict = { ["a b"] = 1, [1.5] = 2, [true] = 3, [-7] = 4, [1000000] = 5, c = { 1 } },
  big = big, [1] = "first", [2] = "second",
}
local s = share(t)
assert(s ~= t and is_shared(s) and is_shared(s.dict) and is_shared(s.big) and not is_shared(t))
assert(deep_equal(t, s) and deep_equal(s, t))
assert(share(s) == s and share(s.dict) == s.dict)
assert(type(s) == "table" and tostring(s):match "^table: ")
assert(#s == 2 and #s.ints == 5 and #s.holes == 3 and rawlen(s.ints) == 5)
assert(s.dict["a b"] == 1 and s.dict[1.5] == 2 and s.dict[true] == 3 and s.dict[-7] == 4)
assert(s.absent == nil and s.dict.absent == nil and s.ints[6] == nil and s.ints.x == nil)
assert(next(s.empty) == nil and #s.empty == 0)
verify()

-- keys that come out can be put in
local copy, count = {}, 0
for k, v in pairs(s.big) do
  copy[k] = v
  count = count + 1
end
assert(count == 3000)
for i = 1, 3000 do
  local k = "key " .. i
  assert(copy[k] == i and s.big[k] == i and rawget(s.big, k) == i)
end
for k, v in next, s.big do assert(big[k] == v) end
local k = next(s.big)
assert(s.big[k] == big[k] and next(s.big, k) ~= nil)
local again = next(s.big, ("" .. k))
assert(again == next(s.big, k))
assert(not pcall(next, s.big, "no such key"))

-- a site that reads both kinds
local function get(o) return o.c, o["a b"], o.absent end
for i = 1, 10 do
  assert(get(t.dict) == t.dict.c and get(s.dict) == s.dict.c)
  assert(select(2, get(t.dict)) == 1 and select(2, get(s.dict)) == 1)
end
local d1, d2 = share { ["a b"] = 10, c = 11 }, share { c = 20, ["a b"] = 21, [3.5] = 1 }
for i = 1, 10 do
  assert(get(d1) == 11 and get(d2) == 20)
  assert(select(2, get(d1)) == 10 and select(2, get(d2)) == 21)
end

-- strings
local words = share { "pear", "apple", "fig", "pear" }
local mine = {}
for i, w in ipairs(words) do mine[i] = w end
table.sort(mine)
assert(table.concat(mine, ",") == "apple,fig,pear,pear")
assert(words[1] == "pear" and words[1] == words[4] and rawequal(words[1], "pear") and "pear" == words[1])
assert(words[1]:upper() == "PEAR" and #words[1] == 4 and words[2]:find("pp") == 2 and words[2] < words[1])
assert(words[1] .. "s" == "pears" and ("%s %q"):format(words[1], words[2]) == 'pear "apple"')
assert(("x"):rep(3, words[3]) == "xfigxfigx" and tostring(words[1]) == "pear" and words[1]:byte() == 112)
assert(table.concat(words, "-") == "pear-apple-fig-pear" and select("#", table.unpack(words)) == 4)
assert(tonumber(share({ "12" })[1]) == 12 and share({ "10" })[1] + 1 == 11)
assert(({ pear = 1 })[words[1]] == 1)
local set = {}
set[words[1]] = true
assert(set.pear and rawget(set, "pear") and next(set) == "pear")
set.pear = nil
set[words[4]] = nil
assert(next(set) == nil)
assert(load("return " .. words[3], "=x", "t", { fig = 5 })() == 5)

-- cycles and sharing
local a = { name = "a" }
local b = { name = "b", other = a, list = { a, a } }
a.other, a.self, a[b] = b, a, "by b"
local sa = share(a)
assert(sa.self == sa and sa.other.other == sa and sa.other.list[1] == sa and sa.other.list[2] == sa)
assert(sa[sa.other] == "by b" and deep_equal({ 1 }, share { 1 }))
local keys = {}
for i = 1, 100 do keys[{ i }] = i; keys[i + 0.5] = i end
local sk = share(keys)
local n = 0
for key, v in pairs(sk) do
  n = n + 1
  assert(sk[key] == v and (type(key) ~= "table" or key[1] == v))
end
assert(n == 200)

-- deleted keys, and a table that has shrunk
local shrunk = {}
for i = 1, 1000 do shrunk["k" .. i] = i end
for i = 1, 990 do shrunk["k" .. i] = nil end
local ss = share(shrunk)
assert(deep_equal(shrunk, ss) and ss.k1 == nil and ss.k1000 == 1000)
for i = 1, 10 do shrunk["k" .. 990 + i] = nil end
assert(next(share(shrunk)) == nil)

-- an island that refers to an older one
local outer = share { inner = s, word = words[2] }
assert(outer.inner == s and outer.inner.big["key 7"] == 7 and outer.word == "apple")

-- metatables
local Point = { kind = "point" }
Point.__index = Point
local p = share(setmetatable({ x = 1, y = 2 }, Point))
assert(p.kind == "point" and getmetatable(p).kind == "point" and getmetatable(p) ~= Point and is_shared(getmetatable(p)))
local class = getmetatable(p)
local q = setmetatable({ x = 5 }, class)
for i = 1, 5 do assert(q.kind == "point" and q.x == 5 and q.none == nil) end
q.x, q.z = 6, 7
assert(q.x == 6 and q.z == 7)
local dictclass = {}
for i = 1, 200 do dictclass["method" .. i] = i end
dictclass.__index = dictclass
dictclass = share(dictclass)
local r = setmetatable({}, dictclass)
for i = 1, 5 do assert(r.method7 == 7 and r.method200 == 200 and r.method201 == nil) end

-- depth
local list
for i = 1, 200000 do list = { next = list, i = i } end
local sl = share(list)
local m = 0
while sl do m = m + 1; sl = sl.next end
assert(m == 200000)
verify()
