local function two(a, b) return a .. b end
local function three(a, b, c) return a .. b .. c end
local joined = setmetatable({}, { __concat = function(a, b) return type(a) .. "+" .. type(b) end })
for round = 1, 8 do
  print(two("a", "b"), two("", ""), two("a", 1), two(1, 2), three("a", 1, 2.5), three("", "x", ""))
  if round > 4 then print(two(joined, "x"), two(1, joined), three("a", joined, "b"), three("a", "b", joined)) end
end
