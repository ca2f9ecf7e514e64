-- Tables as keys: a graph with adjacency sets, breadth-first search with a visited set, degrees by node.
-- bench: group=dictionaries size=80 quick=4
local n = tonumber(arg and arg[1]) or 80

local seed = 11
local function random(k) seed = seed * 16807 % 2147483647; return seed % k end
local nodes, adjacent = {}, {}
for i = 1, 4000 do
  nodes[i] = { id = i }
  adjacent[nodes[i]] = {}
end
local edges = 0
for i = 1, 12000 do
  local a, b = nodes[random(4000) + 1], nodes[i % 4000 + 1]
  if a ~= b and not adjacent[a][b] then
    adjacent[a][b], adjacent[b][a] = true, true
    edges = edges + 1
  end
end
local degrees = 0
for _, set in pairs(adjacent) do for _ in pairs(set) do degrees = degrees + 1 end end
assert(degrees == 2 * edges)

local total = 0
for round = 1, n do
  local start = nodes[round * 37 % 4000 + 1]
  local distance, queue, head = { [start] = 0 }, { start }, 1
  local far = 0
  while queue[head] do
    local a = queue[head]
    head = head + 1
    local d = distance[a] + 1
    for b in pairs(adjacent[a]) do
      if not distance[b] then
        distance[b] = d
        if d > far then far = d end
        queue[#queue + 1] = b
      end
    end
  end
  for a, d in pairs(distance) do
    for b in pairs(adjacent[a]) do assert(distance[b] - d <= 1) end
  end
  total = total + far * #queue
end
print(string.format("graph_sets %d %d", edges, total))
