-- Binary trees: how fast trees of tables can be made, walked and dropped.
--
--   perilune main.lua [DEPTH] [--arena] [--domains N]
--
-- The usual benchmark: one tree that is deeper than all others, one that lives until the end, and for each even depth
-- from 4 up to DEPTH (10; the published figures are for 21) so many short-lived trees that each depth makes about as many
-- nodes. --arena makes each tree in a scoped arena, which frees it as a whole instead of leaving it to the collector.
-- --domains divides the short-lived trees of each depth among N domains.

local function fail(...)
  io.stderr:write("binary_trees: ", string.format(...), "\n")
  os.exit(1)
end

local function make(depth)
  if depth == 0 then return {} end
  return { make(depth - 1), make(depth - 1) }
end

local function count(node)
  local left = node[1]
  if not left then return 1 end
  return 1 + count(left) + count(node[2])
end

-- Makes a tree, counts its nodes and drops it.
local function collected(depth) return count(make(depth)) end

-- Makes and counts `trees` trees of a depth, with `in_arena` each in an arena of its own. Returns the number of nodes.
local function short_lived(trees, depth, in_arena)
  local one = collected
  if in_arena then
    local arena = require "perilune".arena
    one = function(d) return arena(collected, d) end
  end
  local nodes = 0
  for _ = 1, trees do nodes = nodes + one(depth) end
  return nodes
end

-- The same on `n` domains: each gets its part of the trees.
local function on_domains(n, trees, depth, in_arena)
  local pl = require "perilune"
  local workers, nodes = {}, 0
  for i = 1, n do
    local mine = trees * i // n - trees * (i - 1) // n
    workers[i] = pl.domain.spawn(short_lived, mine, depth, in_arena)
  end
  for _, worker in ipairs(workers) do nodes = nodes + worker:join() end
  return nodes
end

local MIN_DEPTH <const> = 4
local depth, in_arena, domains = 10, false, nil
do
  local i = 1
  while arg[i] do
    local word = arg[i]
    if word == "--arena" then in_arena = true
    elseif word == "--domains" then
      i = i + 1
      domains = math.tointeger(tonumber(arg[i]))
      if not domains or domains < 1 then fail("--domains needs a number, not %s", tostring(arg[i])) end
    else
      depth = math.tointeger(tonumber(word))
      if not depth or depth < 0 or depth > 40 then fail("not a depth: %s", word) end
    end
    i = i + 1
  end
end
if (in_arena or domains) and not pcall(require, "perilune") then fail("--arena and --domains need perilune") end

local max_depth = math.max(MIN_DEPTH + 2, depth)
print(string.format("stretch tree of depth %d\t check: %d", max_depth + 1, short_lived(1, max_depth + 1, in_arena)))
local long_lived = make(max_depth)
for d = MIN_DEPTH, max_depth, 2 do
  local trees = 1 << (max_depth - d + MIN_DEPTH)
  local nodes = domains and on_domains(domains, trees, d, in_arena) or short_lived(trees, d, in_arena)
  print(string.format("%d\t trees of depth %d\t check: %d", trees, d, nodes))
end
print(string.format("long lived tree of depth %d\t check: %d", max_depth, count(long_lived)))
