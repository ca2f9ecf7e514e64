-- A function that is inlined comes to a tail call that nobody had seen, after the code around it has been made anew.
local function leaf(x)
  if x == "go" then return tostring("tail") end
  local y = x + 1
  return y
end
local function outer(x)
  local r = leaf(x)
  return r, "behind"
end
local sum = 0
local function many(from, to, step)
  for i = from, to, step do sum = sum + outer(i) end
end
for round = 1, 6 do
  many(1, 400, 1)
  many(0.5, 400.5, 1)
  print(round, sum, outer("go"))
  print(pcall(outer, {}))
end

-- The same in a recursion, each of whose frames has something left to do when the last one waits.
local function deep(n, how)
  if n == 0 then return coroutine.yield(how) end
  local r = deep(n - 1, how)
  return r + 1
end
for try = 1, 60 do
  local co = coroutine.create(deep)
  assert(coroutine.resume(co, try % 3 == 0 and 40.0 or 40, "first"))
  local _, r = coroutine.resume(co, try % 2 == 0 and 0.0 or 0)
  assert(r == 40, r)
end

-- And with functions of their own kind at the end.
local function last(n) return n * 2 end
local function middle(n)
  if n > 900 then return last(n) end
  return n
end
local function first(n)
  local r = middle(n)
  return r + 1
end
local total = 0
for round = 1, 4 do
  for i = 1, 1000 do total = total + first(round % 2 == 0 and i + 0.5 or i) end
end
print(total)
