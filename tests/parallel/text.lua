-- perilune.text: decoders in pieces, separators, encodings, faults; lines of files.
local text = require "perilune.text"
local pl = require "perilune"

local function show(list)
  for i, s in ipairs(list) do list[i] = ("%q"):format(s):gsub("\\\n", "\\n") end
  return #list .. ": " .. table.concat(list, " ")
end

-- All pieces of the bytes, which come `size` at a time, and the error if there is one.
local function pieces(bytes, size, options)
  local decoder, list = text.decoder(options), {}
  local function take(from) for piece in from do list[#list + 1] = piece end end
  local ok, e = pcall(function()
    for at = 1, #bytes, size do take(decoder:feed(bytes:sub(at, at + size - 1))) end
    take(decoder:finish())
  end)
  return show(list) .. (ok and "" or " " .. e:gsub("^.-: ", "", 1))
end

local function all(bytes, options)
  local whole = pieces(bytes, #bytes + 1, options)
  for size = 1, math.min(#bytes, 9) do assert(pieces(bytes, size, options) == whole) end
  print(whole)
end

all ""
all "\n"
all "a\nb\r\nc"
all "a\r\rb\r\n\n"
all("a\nb\r\nc\n", { keep = true })
all("a\r\nb\rc\nd", { separators = { "\n", "\r", "\r\n" } })
all("a\r\nb\rc\nd", { separators = "\n" })
all("k=v;;l=w;m", { separators = { ";", ";;" } })
all("one--two---three", { separators = { "--", "---" } })
all("1é2ü3€4", { separators = { "é", "ü", "€" }, keep = true })
all("abcabdab", { separators = { "abd", "abcx" } })
all("\u{feff}x\n\u{feff}y")
all("x\n\xc3\xa9\xf0\x9f\x98\x80\nz")

-- What is not UTF-8: the lines before it come first.
all "a\nb\xffc\nd"
all("a\nb\xffc\nd", { bad = "replace" })
all "a\nb\xf0\x9f"
all("a\nb\xf0\x9f", { bad = "replace" })
all("\xed\xa0\x80|\xc0\xaf|\xe2\x82|\xf4\x90\x80\x80", { bad = "replace", separators = "|" })
all("a\xff\nb", { encoding = "bytes" })

-- Other encodings.
all("caf\xe9\nna\xefve", { encoding = "latin1" })
all("h\0i\0\n\0=\xd8\0\xde", { encoding = "utf-16le" })
all("\xff\xfeh\0i\0", { encoding = "utf-16" })
all("\0h\0\n\0i", { encoding = "utf-16be" })
all("h\0\0\xd8x\0", { encoding = "utf-16le" })
all("h\0\0\xd8x\0", { encoding = "utf-16le", bad = "replace" })
all("\x83e\x83X\x83g\n\x93\xfa\x96{", { encoding = "shift_jis" })
all("\xc4\xe3\n\x81\x30\x81\x30", { encoding = "gb18030" })
all("\xf0\xd2\xc9\xd7\xc5\xd4", { encoding = "koi8-r" })

-- Without separators: text as it becomes valid.
local decoder = text.decoder { separators = false }
print(show { decoder:feed "gr\xc3", decoder:feed "\xb6\xc3", decoder:feed "\x9f", decoder:finish() })
local decoder = text.decoder { separators = false, encoding = "utf-16le" }
print(show { decoder:feed "a", decoder:feed "\0b", decoder:feed "\0", decoder:finish() }, pcall(decoder.feed, decoder, "x"))

-- Files.
local file = assert(io.open("text.txt", "w"))
local want = {}
for i = 1, 3000 do
  want[i] = ("zeile %d "):format(i) .. ("ü"):rep(i % 200)
  file:write(want[i], i % 3 == 0 and "\r\n" or "\n")
end
want[#want + 1] = ("€"):rep(100000)
file:write(want[#want])
file:close()
local n = 0
for line in text.lines "text.txt" do
  n = n + 1
  assert(line == want[n], n)
end
print(n == #want)
n = 0
for line in io.lines "text.txt" do
  n = n + 1
  assert(line == want[n] or line == want[n] .. "\r")
end
local t = {}
for line in text.lines("text.txt", { separators = "zeile ", encoding = "bytes" }) do
  t[#t + 1] = line
  if #t == 3 then break end
end
print(show(t))
print(pcall(text.lines, "no such file"))
print(pcall(text.lines, "text.txt", { separators = false }))
file = assert(io.open("text.txt", "wb"))
file:write("good\nbetter\nb\xe4d\nworse\n")
file:close()
local ok, e = pcall(function() for line in text.lines "text.txt" do print(line) end end)
print(ok, e)
local step = text.lines "text.txt"
local next_line, _, _, closer = text.lines "text.txt"
getmetatable(closer).__close(closer)
print(step(), pcall(next_line))
os.remove "text.txt"

-- In another domain.
print(pl.domain.spawn(function()
  local t = {}
  for piece in require "perilune.text".decoder { encoding = "latin1", separators = "," }:feed "\xe4,\xf6,\xfc" do t[#t + 1] = piece end
  return #t, t[1], t[2]
end):join())

-- Options.
for _, options in ipairs {
  { encoding = "latin-9000" }, { encoding = 1 }, { separators = {} }, { separators = { "" } }, { separators = { 1 } }, { separators = true }, { keep = 1 }, { bad = "skip" }, { sep = "x" }, { 1 }, "x",
} do
  print(select(2, pcall(text.decoder, options)))
end
print(select(2, pcall(text.decoder().feed, io.stdout, "x")))
