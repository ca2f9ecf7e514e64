-- A JSON codec in plain Lua: documents generated, encoded, decoded by a recursive parser over bytes, compared
-- deeply, and encoded once more.
-- bench: group=programs size=650 quick=45
local n = tonumber(arg and arg[1]) or 650
local byte, sub, find, format, concat = string.byte, string.sub, string.find, string.format, table.concat

local escapes = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r" }
local unescapes = { n = "\n", t = "\t", r = "\r", b = "\b", f = "\f", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function encode_string(s)
  if find(s, '[%c"\\]') then
    s = s:gsub('[%c"\\]', function(c) return escapes[c] or format("\\u%04x", byte(c)) end)
  end
  return '"' .. s .. '"'
end
local encode_value
local encoders = {
  ["nil"] = function(_, out) out[#out + 1] = "null" end,
  boolean = function(v, out) out[#out + 1] = v and "true" or "false" end,
  number = function(v, out)
    out[#out + 1] = v % 1 == 0 and format("%d", v) or format("%.14g", v)
  end,
  string = function(v, out) out[#out + 1] = encode_string(v) end,
  table = function(v, out)
    if v[1] ~= nil or next(v) == nil then
      out[#out + 1] = "["
      for i = 1, #v do
        if i > 1 then out[#out + 1] = "," end
        encode_value(v[i], out)
      end
      out[#out + 1] = "]"
    else
      local keys = {}
      for k in pairs(v) do keys[#keys + 1] = k end
      table.sort(keys)
      out[#out + 1] = "{"
      for i = 1, #keys do
        if i > 1 then out[#out + 1] = "," end
        out[#out + 1] = encode_string(keys[i])
        out[#out + 1] = ":"
        encode_value(v[keys[i]], out)
      end
      out[#out + 1] = "}"
    end
  end,
}
function encode_value(v, out) return encoders[type(v)](v, out) end
local function encode(v)
  local out = {}
  encode_value(v, out)
  return concat(out)
end

local function fail(what, at) error(format("%s at byte %d", what, at), 0) end
local function skip(s, i)
  local c = byte(s, i)
  while c == 32 or c == 10 or c == 13 or c == 9 do
    i = i + 1
    c = byte(s, i)
  end
  return i, c
end
local parse
local function parse_string(s, i)
  local stop = find(s, '["\\]', i + 1)
  if not stop then fail("unfinished string", i) end
  if byte(s, stop) == 34 then return sub(s, i + 1, stop - 1), stop + 1 end
  local parts, from = {}, i + 1
  while true do
    parts[#parts + 1] = sub(s, from, stop - 1)
    if byte(s, stop) == 34 then return concat(parts), stop + 1 end
    local e = sub(s, stop + 1, stop + 1)
    if e == "u" then
      parts[#parts + 1] = string.char(tonumber(sub(s, stop + 2, stop + 5), 16) % 256)
      from = stop + 6
    else
      parts[#parts + 1] = unescapes[e] or fail("bad escape", stop)
      from = stop + 2
    end
    stop = find(s, '["\\]', from) or fail("unfinished string", i)
  end
end
local function parse_array(s, i)
  local out, k, c = {}, 0, nil
  i, c = skip(s, i + 1)
  if c == 93 then return out, i + 1 end
  while true do
    k = k + 1
    out[k], i = parse(s, i)
    i, c = skip(s, i)
    if c == 93 then return out, i + 1 end
    if c ~= 44 then fail("',' or ']' expected", i) end
    i = i + 1
  end
end
local function parse_object(s, i)
  local out, c, key = {}, nil, nil
  i, c = skip(s, i + 1)
  if c == 125 then return out, i + 1 end
  while true do
    if c ~= 34 then fail("key expected", i) end
    key, i = parse_string(s, i)
    i, c = skip(s, i)
    if c ~= 58 then fail("':' expected", i) end
    out[key], i = parse(s, i + 1)
    i, c = skip(s, i)
    if c == 125 then return out, i + 1 end
    if c ~= 44 then fail("',' or '}' expected", i) end
    i, c = skip(s, i + 1)
  end
end
local words = { [116] = { "true", true }, [102] = { "false", false }, [110] = { "null", nil } }
function parse(s, i)
  local c
  i, c = skip(s, i)
  if c == 123 then return parse_object(s, i) end
  if c == 91 then return parse_array(s, i) end
  if c == 34 then return parse_string(s, i) end
  local w = words[c]
  if w then
    if sub(s, i, i + #w[1] - 1) ~= w[1] then fail("bad word", i) end
    return w[2], i + #w[1]
  end
  local from, to = find(s, "^-?%d+%.?%d*[eE]?[+-]?%d*", i)
  if not from then fail("value expected", i) end
  return tonumber(sub(s, from, to)), to + 1
end
local function decode(s)
  local v, i = parse(s, 1)
  i = skip(s, i)
  if i <= #s then fail("end expected", i) end
  return v
end

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for k, v in pairs(a) do if not same(v, b[k]) then return false end end
  for k in pairs(b) do if a[k] == nil then return false end end
  return true
end

local seed = 1234
local function random(k) seed = seed * 16807 % 2147483647; return seed % k end
local function document(i)
  local people = {}
  for p = 1, 20 do
    people[p] = {
      id = i * 100 + p, name = "person \"" .. p .. "\"", active = p % 3 == 0, score = random(10000) / 64,
      tags = { "a" .. random(9), "tab\there", "slash\\" },
      address = { street = "Lane " .. random(200), zip = format("%05d", random(99999)), geo = { random(180) - 90 + 0.5, random(360) - 180.25 } },
      history = {},
    }
  end
  return { version = 3, people = people, total = #people, note = "line\nbreak" }
end

local bytes = 0
for i = 1, n do
  local doc = document(i)
  local text = encode(doc)
  local back = decode(text)
  assert(same(doc, back))
  assert(encode(back) == text)
  bytes = bytes + #text
end
for _, bad in ipairs { "[1,", '{"a" 1}', "tru", '"abc', "[1] x", "{1:2}" } do assert(not pcall(decode, bad)) end
assert(same(decode(' { "a" : [ 1 , -2.5e2 , true , "x\\u0041\\n" ] } '), { a = { 1, -250, true, "xA\n" } }))
print(format("json %d", bytes))
