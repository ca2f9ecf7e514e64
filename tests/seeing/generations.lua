-- How much of each domain's time is collection, and how much of that is waiting?
--
--   perilune gc-stats generations.lua
--
-- Three domains: one makes garbage, one keeps much of what it makes, one computes and allocates nothing.

local pl = require "perilune"

local rounds <const> = tonumber(arg[1]) or 40

local function litters(rounds)
  -- The last one is there until the next: machine code does not make lists that nobody looks at.
  local n, last = 0, {}
  for round = 1, rounds do
    for i = 1, 20000 do
      last = { i, round, last[1] }
      n = n + #last
    end
  end
  return n
end

local function keeps(rounds)
  local kept = {}
  for round = 1, rounds do
    for i = 1, 5000 do kept[(round * 5000 + i) % 40000 + 1] = { i, { round } } end
  end
  return #kept
end

local function computes(rounds)
  local s = 0
  for i = 1, rounds * 100000 do s = (s * 31 + i) % 1000003 end
  return s
end

local all = {
  pl.domain.spawn({ name = "litters" }, litters, rounds),
  pl.domain.spawn({ name = "keeps" }, keeps, rounds),
  pl.domain.spawn({ name = "computes" }, computes, rounds),
}
for _, d in ipairs(all) do print(d:join()) end
