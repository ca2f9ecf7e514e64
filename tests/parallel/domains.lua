-- Domains: results, errors, names, globals of their own, nesting.
local pl = require "perilune"

local function first_line(s) return (tostring(s):match "^[^\n]*") end

print(pl.domain.self(), pl.domain.self():id(), pl.domain.self() == pl.domain.self())
local d = pl.domain.spawn("worker", function(a, b) return a + b, pl.domain.self():name() end, 3, 4)
print(d, d:name())
print(d:join())
print(d:join())
print(d:status())

-- errors
local ok, e = pcall(function() return pl.domain.spawn(function() error("oops") end):join() end)
print(ok, first_line(e), (e:find("stack traceback", 1, true) ~= nil))
ok, e = pcall(function() return pl.domain.spawn(function() error({ code = 7 }) end):join() end)
print(ok, type(e), e.code)
ok, e = pcall(function() return pl.domain.spawn(function() local x = nil; return x.y end):join() end)
print(ok, first_line(e))

-- globals are the domain's own
counter = 10
print(pl.domain.spawn(function() counter = counter + 1; other = 5; return counter, other end):join())
print(counter, other)

-- many results, none, nested domains
print(select("#", pl.domain.spawn(function() return nil, nil end):join()))
print(pl.domain.spawn(function() end):join())
print(pl.domain.spawn(function()
  local pl = require "perilune"
  local inner = pl.domain.spawn(function(n) return n * 2 end, 21)
  return inner:join()
end):join())

-- inside coroutines, pcall and callbacks
local co = coroutine.wrap(function()
  local d = pl.domain.spawn(function() return "from inside" end)
  coroutine.yield(d:join())
  return "done"
end)
print(co(), co())
local t = { 3, 1, 2 }
table.sort(t, function(a, b) return pl.domain.spawn(function(a, b) return a < b end, a, b):join() end)
print(table.concat(t, " "))
print((("abc"):gsub(".", function(c) return pl.domain.spawn(string.upper, c):join() end)))

-- several at once
local ds = {}
for i = 1, 20 do ds[i] = pl.domain.spawn(function(n) local s = 0 for k = 1, n do s = s + k end return s end, i * 1000) end
local sum = 0
for i = 1, 20 do sum = sum + ds[i]:join() end
print(sum)
print(pcall(pl.domain.spawn, 5))
print(pcall(function() return pl.domain.self():join() end))

-- memory limits
local limited = pl.domain.spawn({ name = "small", memory = 8 << 20 }, function()
  local ok, e = pcall(function()
    local t = {}
    while true do t[#t + 1] = ("x"):rep(1000) .. #t end
  end)
  return ok, e, pl.domain.self():name()
end)
print(limited:join())
print(pcall(pl.domain.spawn, { memory = 5 }, print))
print(pcall(pl.domain.spawn, {}, 5))
