-- string.pack, packsize, unpack: bytes, limits, errors.
local function e(...) print(select(2, pcall(...))) end
local function hex(s) return (s:gsub(".", function(c) return string.format("%02x", c:byte()) end)) end
for _, f in ipairs { "b", "B", "h", "H", "i3", "I3", "l", "j", "J", "T", "i16", "I16", ">i2", ">i5", "<i7", "=i4", ">j" } do
  local s = string.pack(f, 100) print(f, hex(s), string.unpack(f, s))
end
for _, f in ipairs { "b", "h", "i3", "i7", "j", "i9", "i16", ">i12" } do
  local s = string.pack(f, -2) print(f, hex(s), string.unpack(f, s))
end
for _, f in ipairs { "f", "d", "n", ">f", ">d" } do print(f, hex(string.pack(f, -1.5)), string.unpack(f, string.pack(f, -1.5))) end
print(hex(string.pack("z s1 s2 s c5", "ab", "cd", "ef", "gh", "ij"))) print(string.unpack("z s1 s2 s c5", string.pack("z s1 s2 s c5", "ab", "cd", "ef", "gh", "ij")))
print(hex(string.pack("!4 b i4 b i8 !8 b d Xi4 b Xd", 1, 2, 3, 4, 5, 6.0, 7))) print(hex(string.pack("bxxb !4 Xi2 b", 1, 2, 3)))
print(string.packsize("b i4 !8 d c10 !2 Xh"), string.packsize(""), string.packsize("c0"), string.packsize("!8 b Xd"))
print(string.unpack("<i2 >i2", "\1\2\1\2")) print(string.unpack("b", "abc", 2)) print(string.unpack("b", "abc", -1)) print(string.unpack("", "abc", 4)) print(string.unpack("z", "ab\0cd", 4 - 3))
e(string.pack, "b", 128) e(string.pack, "B", -1) e(string.pack, "i3", 1 << 23) e(string.pack, "i17", 1) e(string.pack, "i0", 1) e(string.pack, "c", "x") e(string.pack, "y", 1)
e(string.pack, "c2", "abc") e(string.pack, "s1", ("x"):rep(256)) e(string.pack, "z", "a\0b") e(string.pack, "!3 i4", 1) e(string.pack, "X", 1) e(string.pack, "Xz", 1) e(string.pack, "Xc1", 1) e(string.pack, "i", {}) e(string.pack, "i")
e(string.unpack, "i4", "abc") e(string.unpack, "s1", "\5ab") e(string.unpack, "z", "abc") e(string.unpack, "i9", ("\255"):rep(8) .. "\1") e(string.unpack, "b", "abc", 5) e(string.unpack, "c4", "abc")
e(string.packsize, "s") e(string.packsize, "z") e(string.packsize, "c2147483647c2147483647")
