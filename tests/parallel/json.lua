-- perilune.json: values both ways, errors of both, pieces.
local json = require "perilune.json"
local function try(f, ...) local ok, e = pcall(f, ...) print(ok, e) return e end
print(json.encode({1,2,3}), json.encode({a=1}), json.encode({}), json.encode(json.array{}), json.encode(json.decode("[]")))
print(json.encode({1.0, 1e100, 0.1, -0.0, 5e-324, 1/3, 2^53, 2^63}))
print(json.encode({b={1,{x=json.null}}, a="q\"\\\n\1é"}, {pretty=true}))
try(json.encode, {a={b={1,2,0/0}}})
try(json.encode, {items={1,{price=1/0}}})
try(json.encode, {items={1,nil,3}})
try(json.encode, {1,2,x=3})
local t = {a={}} t.a.b = t
try(json.encode, t)
try(json.encode, {x=t.a}, {sharing="error"})
local s = {} try(json.encode, {p=s,["a b"]=s}, {sharing="error", sort=true})
try(json.encode, {[print]=1}) try(json.encode, {f=print}) try(json.encode, "\xff") try(json.encode, {["\xff"]=1})
print(json.encode("a\xffb", {bad="replace"}))
for _, s in ipairs{'', ' ', '{', '[', '[1', '[1,', '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', '[1,]', 'nul', '01', '-', '1.', '"a', '"\\x"', '"\\ud800"', '"\1"', '\xff', '[1]\n  x', '99999999999999999999', '1e999', '{"é":\n "é" 1}', "'a'", '"\\u12g4"'} do
  io.write(("%q "):format(s)) try(json.decode, s)
end
try(json.decode, ('['):rep(101)) try(json.decode, '{"a":1,"a":2}', {duplicates="error"})
print(json.decode('{"a":1,"a":2}').a, json.decode('99999999999999999999', {big_integers="float"}), json.decode('"\\ud83d\\ude00"'), json.decode('"\\ud83dx"', {bad="replace"}))
try(json.decode, '1', {foo=1})
print(json.decode('null') == json.null, json.null)
local d = json.decoder()
for v in d:feed('{"a":1} [2') do print("v", json.encode(v)) end
for v in d:feed(',3] 4') do print("v", json.encode(v)) end
for v in d:finish() do print("v", v) end
try(function() local d = json.decoder() d:feed('{"a":\n 1') d:finish() end)
for v in json.values('[1,{"a":2},"x"]', {items=true}) do print(json.encode(v)) end
local n = 0
for v in json.values(function() n = n + 1 return ({'1\n', '2', '3\n[', '4]'})[n] end) do io.write(json.encode(v), " ") end print()
