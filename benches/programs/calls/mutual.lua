-- Mutual recursion and proper tail calls: a state machine whose states are functions, run for many steps in
-- constant stack, and Hofstadter's female and male sequences.
-- bench: group=calls size=14000000 quick=900000
local n = tonumber(arg and arg[1]) or 14000000

local idle, run, wait
local counts = { idle = 0, run = 0, wait = 0 }
function idle(steps, x)
  if steps == 0 then return x end
  counts.idle = counts.idle + 1
  if x % 3 == 0 then return run(steps - 1, x + 7) end
  return wait(steps - 1, x + 1)
end
function run(steps, x)
  if steps == 0 then return x end
  counts.run = counts.run + 1
  if x % 5 == 0 then return idle(steps - 1, x + 3) end
  return run(steps - 1, x + 2)
end
function wait(steps, x)
  if steps == 0 then return x end
  counts.wait = counts.wait + 1
  return idle(steps - 1, x + 4)
end

local female, male
function female(k) if k == 0 then return 1 end return k - male(female(k - 1)) end
function male(k) if k == 0 then return 0 end return k - female(male(k - 1)) end

local last = idle(n, 1)
assert(counts.idle + counts.run + counts.wait == n)
local sum = 0
for k = 0, 60 do sum = sum + female(k) - male(k) end
local result = string.format("mutual %d %d %d %d", last, counts.idle, counts.run, sum)
local known = { [900000] = "mutual 3374999 450000 225001 9", [14000000] = "mutual 52499999 7000000 3500001 9" }
assert(not known[n] or result == known[n], result)
print(result)
