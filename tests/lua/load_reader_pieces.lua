-- `load` asks its reader for a piece when it needs one, and not for more than it takes to refuse a chunk.
local function counted(text, size)
  local calls, at = 0, 1
  return function()
    calls = calls + 1
    local piece = text:sub(at, at + size - 1)
    at = at + size
    return piece
  end, function() return calls end
end
-- Readers that never end.
for _, text in ipairs { "+ ", "x x ", "return 1 return", "x = = ", "]", "goto ", "'a\n", "0x ", "\\", "end ", "local x <y> ", "a.b:c ", "\"\\q", "for i = 1 do ", "--[==[x]==] )" } do
  local calls = 0
  local f, message = load(function() calls = calls + 1 return text end, "=x")
  print(f, message, calls)
end
-- How often: with the text in pieces of every size.
local texts = {
  "return 1 + 2",
  "local s = 'a\\z  \n b\\x41\\u{48}\\10' return s -- the end",
  "return [==[\nlong ]] ]=] \r\n text]==], --[[comment\n]] 0x1p4, 1e+2, .5, 3 .. 4, a.b",
  "goto l ::l:: return a//b << c >> d ~= e == f <= g >= h ... ",
  "return function(...) return ... end",
  "for k, v in pairs { 1, x = 2; [3] = 4 } do if k then break end end",
  "x = }",
  "return 'unfinished",
  "return [[unfinished",
  "--[[unfinished",
  "return 0x",
  "return '\\400'",
  "return '\\u{110000000}'",
  "return [=x",
  "x = 1 --",
  "",
  " ",
  "\n\n",
  "#",
}
for _, text in ipairs(texts) do
  local whole, error = load(text, "=x")
  for size = 1, #text + 1 do
    local reader, calls = counted(text, size)
    local f, message = load(reader, "=x")
    if size == 1 then io.write(f and "ok" or message) end
    io.write(" ", calls())
    assert((f and string.dump(f) == string.dump(whole)) or message == error)
  end
  print()
end
-- Pieces may be numbers; an empty one is the end, and nobody is asked again.
local list = { "return ", 1, 2, " + ", 0.5, "", " syntax error" }
local i = 0
print(load(function() i = i + 1 return list[i] end)(), i)
-- The mode is judged by the first piece.
local calls = 0
print(load(function() calls = calls + 1 return "return" end, "=x", "b"), calls)
calls = 0
print(load(function() calls = calls + 1 return "\27" end, "=x", "t"), calls)
-- Binary chunks in pieces; no more is read than belongs to the chunk, or refuses it.
local f = load "local a = ... return a + 1, 'x'"
for size = 1, 9 do print(load((counted(string.dump(f), size)))(size)) end
print(load((counted("\27Lua\x54\1", 1))))
print(load(function() return "\27" end, "=x"))
print(load((counted(string.dump(f):sub(1, -20), 7)), "=x"))
-- A load inside a reader.
print(load((counted("return " .. load((counted("return 21", 2)))() .. " * 2", 3)))())
-- An error in mid-parse, and variables to be closed around it.
local n = 0
print(load(function() n = n + 1 if n > 3 then error("broken", 0) end return "x = {" end))
n = 0
print(pcall(load, function() n = n + 1 if n > 3 then return {} end return "x = {" end))
