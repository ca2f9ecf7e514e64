-- A function that makes stages; each stage captures its own channels and its own function.
local pl = require "perilune"
local function stage(input, output, f)
  return pl.domain.spawn(function()
    for v in input do output:send(f(v)) end
    output:close()
  end)
end
local a, b, c = pl.channel.new(4), pl.channel.new(4), pl.channel.new(4)
local s1 = stage(a, b, function(x) return x * 2 end)
local s2 = stage(b, c, string.rep and function(x) return ("%d!"):format(x) end)
for i = 1, 5 do a:send(i) end
a:close()
for v in c do io.write(v, " ") end
print()
s1:join() s2:join()
