-- Quotients and rests by numbers that come as values, small and large, of either sign.
local function rests(from, to, by) local s, q = 0, 0 for i = from, to do s = s ~ (i % by) q = q ~ (i // by) + i % by end return s, q end
local edges = { 1, 2, 3, 7, 10, 255, 65536, 2147483647, 2147483648, 4294967295, 4294967296, 4294967297, 1 << 40, math.maxinteger - 1, math.maxinteger }
for _, by in ipairs(edges) do
  for _, start in ipairs(edges) do
    print(by, start, rests(start - 300, start - 1 + 300 > start and start or start, by))
    print(by, -start, rests(-start, -start + 300, by))
    print(-by, start, rests(start - 300, start - 100, -by))
  end
end
print(rests(math.mininteger, math.mininteger + 1000, 3), rests(math.mininteger, math.mininteger + 1000, -1), rests(math.mininteger, math.mininteger + 1000, math.mininteger))
print(pcall(rests, 1, 2, 0))
