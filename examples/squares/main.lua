-- Squares on domains: the smallest program that does something on several cores.
--
--   perilune main.lua [N] [--domains D]
--
-- Squares the numbers from 1 to N (20). Each of the D domains (4) gets a part of them, has a heap of its own to make its
-- list in, and returns the list; what `join` hands over is a copy.

package.path = (arg[0]:match "^(.*/)" or "./") .. "../common/?.lua;" .. package.path
local job = require "job"
local pl = require "perilune"

local domains <const>, n <const> = job.arguments("squares", "--domains", 4, 20)

-- A list of the squares of `lo` to `hi`.
local function squares(lo, hi)
  local list = {}
  for i = lo, hi do list[#list + 1] = i * i end
  return list
end

local function all()
  local running, joined = {}, {}
  for d = 1, domains do
    running[d] = pl.domain.spawn("squares " .. d, squares, n * (d - 1) // domains + 1, n * d // domains)
  end
  for _, domain in ipairs(running) do table.move(domain:join(), 1, n, #joined + 1, joined) end
  return joined
end

local list = job.timed(all)
local sum = 0
for i = 1, n do
  if list[i] ~= i * i then job.fail("%d squared is not %s", i, tostring(list[i])) end
  sum = sum + list[i]
end
print(table.concat(list, " ", 1, math.min(n, 20)))
print("sum", sum)
