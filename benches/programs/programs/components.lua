-- Control-flow analysis as a compiler does it: random structured graphs, depth-first numbering, dominators by
-- iteration, strongly connected components, natural loops.
-- bench: group=programs size=2600 quick=150
local n = tonumber(arg and arg[1]) or 2600

local seed = 5150
local function random(k) seed = seed * 16807 % 2147483647; return seed % k + 1 end

local Block = {}
Block.__index = Block
local function block(graph)
  local b = setmetatable({ id = #graph + 1, to = {}, from = {} }, Block)
  graph[#graph + 1] = b
  return b
end
function Block:edge(other)
  self.to[#self.to + 1] = other
  other.from[#other.from + 1] = self
end
local function structured(graph, entry, depth, loops)
  local kind = depth == 0 and 1 or random(4)
  if kind == 1 then
    local b = block(graph)
    entry:edge(b)
    return b
  elseif kind == 2 then
    local mid = structured(graph, entry, depth - 1, loops)
    return structured(graph, mid, depth - 1, loops)
  elseif kind == 3 then
    local a, b, join = block(graph), block(graph), block(graph)
    entry:edge(a)
    entry:edge(b)
    structured(graph, a, depth - 1, loops):edge(join)
    structured(graph, b, depth - 1, loops):edge(join)
    return join
  end
  local head, exit = block(graph), block(graph)
  entry:edge(head)
  structured(graph, head, depth - 1, loops):edge(head)
  head:edge(exit)
  loops.count = loops.count + 1
  return exit
end

local function order(entry)
  local post, seen = {}, {}
  local function visit(b)
    seen[b] = true
    for _, s in ipairs(b.to) do if not seen[s] then visit(s) end end
    post[#post + 1] = b
  end
  visit(entry)
  local number = {}
  for i, b in ipairs(post) do number[b] = i end
  return post, number
end
local function dominators(entry, post, number)
  local idom, changed = { [entry] = entry }, true
  while changed do
    changed = false
    for i = #post - 1, 1, -1 do
      local b, best = post[i], nil
      for _, p in ipairs(b.from) do
        if idom[p] then
          if not best then best = p
          else
            local x, y = p, best
            while x ~= y do
              while number[x] < number[y] do x = idom[x] end
              while number[y] < number[x] do y = idom[y] end
            end
            best = x
          end
        end
      end
      if idom[b] ~= best then
        idom[b] = best
        changed = true
      end
    end
  end
  return idom
end
local function dominates(idom, a, b)
  while true do
    if a == b then return true end
    if idom[b] == b then return false end
    b = idom[b]
  end
end
local function components(entry)
  local index, low, stack, on, count, found = {}, {}, {}, {}, 0, 0
  local function visit(b)
    count = count + 1
    index[b], low[b] = count, count
    stack[#stack + 1] = b
    on[b] = true
    for _, s in ipairs(b.to) do
      if not index[s] then
        visit(s)
        if low[s] < low[b] then low[b] = low[s] end
      elseif on[s] and index[s] < low[b] then
        low[b] = index[s]
      end
    end
    if low[b] == index[b] then
      local size = 0
      repeat
        local top = table.remove(stack)
        on[top] = nil
        size = size + 1
      until top == b
      if size > 1 then found = found + 1 end
    end
  end
  visit(entry)
  return found
end

local blocks, loops_seen, members, strong = 0, 0, 0, 0
for _ = 1, n do
  local graph, loops = {}, { count = 0 }
  local entry = block(graph)
  local at = entry
  for _ = 1, 6 do at = structured(graph, at, 4, loops) end
  local post, number = order(entry)
  assert(#post == #graph)
  local idom = dominators(entry, post, number)
  local back = 0
  for _, b in ipairs(graph) do
    assert(dominates(idom, entry, b))
    for _, s in ipairs(b.to) do
      if dominates(idom, s, b) then
        back = back + 1
        local body, work = { [s] = true }, { b }
        while #work > 0 do
          local x = table.remove(work)
          if not body[x] then
            body[x] = true
            for _, p in ipairs(x.from) do work[#work + 1] = p end
          end
        end
        for _ in pairs(body) do members = members + 1 end
      end
    end
  end
  assert(back == loops.count, "every loop that was made is found, and no other")
  local s = components(entry)
  assert(s <= loops.count)
  strong = strong + s
  blocks, loops_seen = blocks + #graph, loops_seen + back
end
local result = string.format("components %d %d %d %d", blocks, loops_seen, members, strong)
local known = { [150] = "components 9851 1287 5752 892", [2600] = "components 176260 22551 100482 15721" }
assert(not known[n] or result == known[n], result)
print(result)
