-- gmatch over a text: words, key=value pairs, numbers, quoted strings, balanced parentheses.
-- bench: group=patterns size=3000 quick=200
local n = tonumber(arg and arg[1]) or 3000

local piece = [[alpha=1, beta = 22, gamma=333; "a quoted text" f(x, g(y, (z))) 3.25 -17 0x1F _name_2 ]]
local text = piece:rep(20)
local words, pairs_found, numbers, quoted, balanced, sum = 0, 0, 0, 0, 0, 0
for _ = 1, n do
  for w in text:gmatch("%a[%w_]*") do words = words + #w end
  for k, v in text:gmatch("(%w+)%s*=%s*(%d+)") do
    pairs_found = pairs_found + 1
    sum = sum + #k * tonumber(v)
  end
  for d in text:gmatch("%-?%d+%.?%d*") do if d ~= "" then numbers = numbers + 1 end end
  for q in text:gmatch('"([^"]*)"') do quoted = quoted + #q end
  for b in text:gmatch("%b()") do balanced = balanced + #b end
end
assert(pairs_found == 60 * n and sum == n * 20 * (5 + 4 * 22 + 5 * 333))
assert(quoted == 13 * 20 * n and balanced == 14 * 20 * n)
print(string.format("gmatch_tokens %d %d", words, numbers))
