-- Values to JSON and back: numbers that survive, records that share names, empty arrays, other domains, options.
local json = require "perilune.json"
local pl = require "perilune"

-- Numbers come back as they were, in value and in kind.
local numbers = { 0, 1, -1, math.maxinteger, math.mininteger, 0.1, 1 / 3, 1e21, 1e-7, 5e-324, 2 ^ 53, 2 ^ 63, 1.7976931348623157e308, 100.0, 1e15, 123456.789 }
local random = 12345
for i = 1, 2000 do
  random = random * 6364136223846793005 + 1442695040888963407
  local f = string.unpack("d", string.pack("j", random))
  if f == f and f - f == 0 then numbers[#numbers + 1] = f end
end
local wrong = 0
for _, n in ipairs(numbers) do
  local back = json.decode(json.encode(n))
  if back ~= n or math.type(back) ~= math.type(n) then wrong = wrong + 1 print(n, back) end
end
print(#numbers > 1900, wrong, json.encode { 1, 1.0, -0.0, 2 ^ 63 }, 1 / json.decode "-0", 1 / json.decode "0.0")

-- Strings: whatever is UTF-8.
for c = 0, 0x10ffff, 97 do
  if c < 0xd800 or c > 0xdfff then
    local s = ("x"):rep(c % 9) .. utf8.char(c) .. ("y"):rep(c % 7)
    assert(json.decode(json.encode(s)) == s)
    assert(json.decode(json.encode { [s] = c })[s] == c)
  end
end
print(json.encode "\0\1\31\127\"\\/\b\f\n\r\t")

-- Many records of one kind, with names that come and go; dictionaries.
local list = {}
for i = 1, 500 do
  list[i] = { id = i, name = "n" .. i, tags = { "a", "b" }, at = { x = i / 2, y = -i } }
  if i % 3 == 0 then list[i].extra = true end
  if i % 50 == 0 then list[i] = { ["k" .. i] = i, ["l" .. i] = json.null } end
end
local text = json.encode(list, { sort = true })
for _ = 1, 3 do
  local back = json.decode(text)
  assert(json.encode(back, { sort = true }) == text)
  assert(back[7].name == "n7" and back[7].at.x == 3.5 and back[9].extra == true and back[8].extra == nil and back[50].l50 == json.null)
  back[7].more = 1
  back[7].name = nil
  assert(back[8].more == nil and back[8].name == "n8" and next(back[7].tags) == 1)
end
local wide = {}
for i = 1, 300 do wide["field" .. i] = i end
assert(json.decode(json.encode(wide)).field300 == 300)
print(json.decode '{"__index":1,"a":2}'.__index, setmetatable({}, json.decode '{"__metatable":"m"}') ~= nil)

-- Arrays.
print(json.encode {}, json.encode(json.array()), json.encode(json.array { 1, "x" }), json.encode { a = json.array {} })
print(json.encode(json.decode '{"a":[],"b":{},"c":[[]]}', { sort = true }), json.is_array {}, json.is_array(json.decode "[]"), json.is_array { 1 }, json.is_array(1))
local t = json.decode "[]"
t[1] = 5
print(json.encode(t), getmetatable(t) == json.array_mt, pcall(json.array, setmetatable({}, {})))
print(pcall(json.encode, json.array { x = 1 }))
local holes = { 1, 2, 3, 4 }
holes[2] = nil
print(pcall(json.encode, { list = holes }))
local filled = {}
for i = 10, 1, -1 do filled[i] = i end
print(json.encode(filled), json.encode { [1] = 1, [2] = 2.5, [3] = "x" })

-- Frozen values and other domains; null is the same everywhere.
local shared = pl.share { list = { 1, 2, 3 }, name = "s", none = json.null, empty = json.decode "[]" }
print(json.encode(shared, { sort = true }))
local d = pl.domain.spawn(function(text, value, shared)
  local json = require "perilune.json"
  local back = json.decode(text)
  return back, value.none == json.null and back.none == json.null, json.encode(value, { sort = true }), json.encode(shared, { sort = true })
end, '{"none":null,"empty":[],"list":[1.5]}', { none = json.null, empty = json.array {} }, shared)
local back, same, there, frozen = d:join()
print(json.encode(back, { sort = true }), same, there, frozen)

-- Sharing, cycles, pretty printing.
local leaf = { 1 }
print(json.encode { leaf, leaf }, pcall(json.encode, { leaf, { leaf } }, { sharing = "error" }))
print(json.encode({ b = { 1, { c = json.array() } }, a = {}, ["é"] = "é" }, { pretty = true }))
print(json.encode({ 1, { 2 } }, { indent = 0 }), json.encode({ b = 1, a = 2, [""] = 3 }, { sort = true }))
for _, options in ipairs { { depth = 0 }, { depth = 10001 }, { pretty = 1 }, { indent = -1 }, { bad = "ignore" }, { sharing = true }, { duplicates = "last" }, { [1] = 2 }, "x" } do
  print(select(2, pcall(json.encode, 1, options)))
end
for _, options in ipairs { { big_integers = true }, { duplicates = "first" }, { items = true }, { depth = 1.5 } } do
  print(select(2, pcall(json.decode, "1", options)))
end
print(pcall(json.encode), pcall(json.decode), pcall(json.decode, {}))
print(json.decode(12), json.encode "12")

-- A byte order mark, whole and in pieces.
local decoder, seen = json.decoder(), {}
for c in ("\u{feff}[1] 2"):gmatch "." do for v in decoder:feed(c) do seen[#seen + 1] = v end end
for v in decoder:finish() do seen[#seen + 1] = v end
print(json.encode(seen), json.decode "\u{feff}3", pcall(json.decode, "1\u{feff}"))

-- An object within an object of the same place, with as many other names: each keeps its own.
local nested = '{"y":[[{"y":"j","name":true,"x":0.0}],{"y":{"id":5}},{"y":{"y":{"id":1}}}],"name":19,"__index":"x"}'
for _ = 1, 3 do
  local y = json.decode(nested).y
  assert(y[2].y.id == 5 and y[2].id == nil and y[3].y.y.id == 1 and y[1][1].x == 0.0, json.encode(y))
end
local tree = '{"left":{"left":{"leaf":1,"tag":2},"tag":3},"tag":4}'
for _ = 1, 3 do
  local t = json.decode(tree)
  assert(t.tag == 4 and t.left.tag == 3 and t.left.left.leaf == 1 and t.left.left.tag == 2, json.encode(t))
end
