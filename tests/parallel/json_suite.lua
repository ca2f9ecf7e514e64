-- What JSON texts are accepted, refused, and how those are taken that RFC 8259 leaves open: cases of our own after the kinds of JSONTestSuite.
local json = require "perilune.json"

local function all(title, texts, options)
  print(title)
  for _, text in ipairs(texts) do
    local ok, v = pcall(json.decode, text, options)
    local shown = #text > 40 and text:sub(1, 20) .. "... (" .. #text .. " bytes)" or text
    print(("  %q"):format(shown):gsub("\\\n", "\\n"), (ok and json.encode(v, { depth = 1000, sort = true }) or v):sub(1, 150))
  end
end

all("accepted", {
  "[]", "{}", " [ ] ", "\t{\n}\r", "0", "-0", "-1", "1.5", "1E2", "1e-2", "0e1", "1.0e+0", "true", "false", "null", '""', '"a"',
  '"\\u0041"', '"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\ud83d\\ude00"', '"\\u0000"', '"\u{7f}"', '"\u{2028}"', '"\u{10ffff}"', '"\u{ffff}"',
  '{"":0}', '{"a":{"b":[{}]}}', '{"a":1,"a":2}', '{"a\\u0000":1}', "[1,[2,[3]]]", "[null,null]", "9223372036854775807",
  "-9223372036854775808", "123.456e78", "[1,\n2]", ("["):rep(100) .. ("]"):rep(100), '"' .. ("x"):rep(100000) .. '"', "\u{feff}[1]",
})
all("refused", {
  "", " ", "[", "]", "[,", "[1,,2]", "[,1]", "[1 2]", "[1,]", "[1]]", "[1:2]", "{", "}", "{,", '{"a"}', '{"a",1}', '{"a" 1}', '{"a"::1}', '{a:1}',
  "{'a':1}", "{1:1}", '{"a":1,}', '{"a":1,,"b":2}', '{"a":1 "b":2}', '{"a":1}}', '{"a":1}#', '["a"', '["', '"', '"\\"', '"\\', '"\\u"', '"\\u00A"', '"\\u00G0"',
  '"\\x41"', '"\\a"', '"\\U0041"', '"\n"', '"\t"', '"\0"', "+1", "01", "-01", "00", ".5", "1.", "1.e1", "1e", "1e+", "1.2.3", "0x1", "1_000", "--1", "- 1", "NaN", "Infinity",
  "-Infinity", "nan", "nul", "nulll", "tru", "True", "undefined", "/* */1", "//\n1", "1 // x", "[1]x", "\u{a0}1", "\v1", "1\0", "<null>", "[\u{ff11}]", "\u{200b}[]", ("["):rep(101),
  ('{"a":'):rep(100000),
})
all("open, refused", {
  "1e400", "-1e400", "9223372036854775808", "-9223372036854775809", '"\\ud800"', '"\\udc00"', '"\\ud800\\u0041"', '"\\ud800\\ud800"', '"\xff"', '"\xc0\xaf"', '"\xed\xa0\x80"', '"\xf4\x90\x80\x80"', '"\xe2\x82"',
  "\xff\xfe[\0]\0",
})
all("open, refused unless wanted", { '"\\ud800x"', '"a\xffb"', '"\\udc00\\ud800"', "18446744073709551616" }, { bad = "replace", big_integers = "float" })
all("open, accepted", { "1e-400", '{"a":1,"a":2,"b":3,"a":4}' })
all("depth", { ("["):rep(3) .. ("]"):rep(3), ("["):rep(4) .. ("]"):rep(4) }, { depth = 3 })
all("depth", { ("["):rep(10000) .. ("]"):rep(10000):sub(2) }, { depth = 10000 })
