-- A function that waits lies in the same place of the stack whoever has called it, at times: it goes back to who has.

local function wait(x) return (coroutine.yield(x)) end

-- Functions with more and more variables below the call, called directly or by one that has few.
local direct, through = {}, {}
for k = 0, 14 do
  local names, sum = {}, { "0" }
  for n = 1, k do
    names[n] = "v" .. n
    sum[#sum + 1] = "v" .. n
  end
  local locals = k > 0 and "local " .. table.concat(names, ", ") .. " = " .. table.concat(names, ", "):gsub("v", "i + ") or ""
  local text = "local wait = ... return function(i) " .. locals .. " local r = wait(i) return r + " .. table.concat(sum, " + ") .. " end"
  direct[k] = assert(load(text))(wait)
end
local function short(i) return wait(i) + 1 end
local function shorter(i) local r = wait(i) return r end
local function deep(i, n) if n == 0 then return short(i) end return deep(i, n - 1) + 1 end

local function body(first)
  local sum = first
  for i = 1, 40 do
    for k = 0, 14 do
      sum = sum + direct[k](i)
      sum = sum + short(i) * 2
      if k % 3 == 0 then sum = sum + shorter(k) end
      if k % 5 == 0 then sum = sum + deep(i, k % 4) end
    end
  end
  return sum
end

local function run(how)
  local total, given = 0, 0
  local co = coroutine.create(body)
  local ok, x = coroutine.resume(co, 5)
  while coroutine.status(co) == "suspended" do
    given = given + 1
    total = (total * 3 + x) % 1000003
    ok, x = coroutine.resume(co, given % 7)
  end
  assert(ok, x)
  return x, total, given
end
for _ = 1, 4 do print(run()) end

-- The same by `wrap`, in a protected call, and behind a metamethod that waits.
local Slow = {}
function Slow.__le(a, b) return wait(a.n) <= b.n end
function Slow.__add(a, b) return a.n + b + wait(b) end
local function slow(n) return setmetatable({ n = n }, Slow) end
local function compares(i)
  local less = slow(i) <= slow(3)
  return (less and 1 or 2) + (slow(i) + 4)
end
local function guarded(i)
  local ok, r = xpcall(compares, function(e) return e end, i)
  local ok2, e = pcall(function() local v = wait(i) return v + nil end)
  for n = 1, 3 do
    do local w = wait(n) if w == 5 then r = r + 1 end end
  end
  return r + (ok2 and 100 or 10)
end
local sum = 0
for round = 1, 60 do
  local n, last = 0, nil
  local step = coroutine.wrap(function()
    for i = 1, 5 do last = guarded(i) end
    return "end"
  end)
  local x = step()
  while x ~= "end" do
    n = n + 1
    sum = (sum * 7 + x) % 1000003
    x = step(n % 6)
  end
  sum = sum + last
end
print(sum)
