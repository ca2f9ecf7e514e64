-- Loops over tables of all kinds, with bodies that change what they go through in the ways that are allowed: each
-- entry is met once, whatever order it comes in.

local function record(n) local t = { a = n, b = n + 1, c = n + 2 } return t end
local builders = {
  empty = function() return {} end,
  one = function(n) return { x = n } end,
  record = record,
  holes = function(n) local t = record(n) t.b = nil return t end,
  first_gone = function(n) local t = record(n) t.a = nil return t end,
  last_gone = function(n) local t = record(n) t.c = nil return t end,
  all_gone = function(n) local t = record(n) t.a, t.b, t.c = nil, nil, nil return t end,
  array = function(n) local t = {} for i = 1, 7 do t[i] = n + i end return t end,
  floats = function(n) local t = {} for i = 1, 5 do t[i] = n + i + 0.5 end return t end,
  booleans = function() local t = {} for i = 1, 9 do t[i] = i % 2 == 0 end return t end,
  array_with_holes = function(n) local t = {} for i = 1, 12 do t[i] = n end t[1], t[5], t[12] = nil, nil, nil return t end,
  array_emptied = function(n) local t = {} for i = 1, 6 do t[i] = n end for i = 6, 1, -1 do t[i] = nil end return t end,
  array_and_fields = function(n) local t = record(n) for i = 1, 4 do t[i] = n * i end return t end,
  fields_and_nodes = function(n) local t = record(n) t[1000] = n t[true] = n + 1 t[2.5] = n + 2 return t end,
  all_parts = function(n) local t = record(n) t[1], t[2], t[-3], t[2 ^ 40 + 0.0] = n, n, n, n return t end,
  integers = function(n) local t = {} for i = 1, 20 do t[i * 1000 - 7] = n + i end return t end,
  names = function(n) local t = {} for i = 1, 60 do t["name" .. i] = n + i end return t end,
  names_from_the_front = function(n)
    local t = {}
    for i = 1, 60 do t["name" .. i] = n + i end
    for i = 1, 45 do t["name" .. i] = nil end
    return t
  end,
  names_gone = function(n)
    local t = {}
    for i = 1, 30 do t["name" .. i] = n end
    for k in pairs(t) do t[k] = nil end
    return t
  end,
  asked_for_the_first = function(n)
    local t = {}
    for i = 1, 40 do t["name" .. i] = n end
    for _ = 1, 40 do t[next(t)] = nil end
    return t
  end,
  integers_gone = function(n)
    local t = {}
    for i = 1, 30 do t[-i * 11] = n end
    for k in pairs(t) do t[k] = nil end
    return t
  end,
}
local order = {}
for name in pairs(builders) do order[#order + 1] = name end
table.sort(order)

local function weight(k)
  if type(k) == "number" then return k end
  if type(k) == "boolean" then return k and 3 or 5 end
  return #k + k:byte(-1)
end
local function worth(v) return v == true and 1 or v == false and 2 or v end

local function add(n, s, k, v) return n + 1, s + weight(k) * 7 + worth(v) end

local bodies = {
  reads = function(t) local n, s = 0, 0 for k, v in pairs(t) do n, s = add(n, s, k, v) end return n, s end,
  keys = function(t) local n, s = 0, 0 for k in pairs(t) do n, s = add(n, s, k, 0) end return n, s end,
  more = function(t)
    local n, s = 0, 0
    for k, v, w, x in pairs(t) do assert(w == nil and x == nil) n, s = add(n, s, k, v) end
    return n, s
  end,
  next_itself = function(t) local n, s = 0, 0 for k, v in next, t do n, s = add(n, s, k, v) end return n, s end,
  behind_the_first = function(t)
    local n, s = 0, 0
    local first = next(t)
    if first ~= nil then for k in next, t, first do n, s = n + 1, s + (rawequal(k, first) and 1 or 0) end end
    return n, s
  end,
  replaces = function(t)
    local n, s = 0, 0
    for k, v in pairs(t) do
      n, s = add(n, s, k, v)
      t[k] = type(v) == "number" and v + 1 or not v
    end
    for k, v in pairs(t) do n, s = add(n, s, k, v) end
    return n, s
  end,
  removes = function(t)
    local n, s = 0, 0
    for k, v in pairs(t) do
      n, s = add(n, s, k, v)
      t[k] = nil
    end
    return n, s, next(t)
  end,
  removes_each_other_one = function(t)
    local n, s = 0, 0
    for k in pairs(t) do
      n = n + 1
      if n % 2 == 0 then t[k] = nil end
    end
    for _ in pairs(t) do s = s + 1 end
    return n, s
  end,
  changes_the_variables = function(t)
    local n, s = 0, 0
    for k, v in pairs(t) do
      n, s = add(n, s, k, v)
      k, v = n, s
      n = k
    end
    return n, s
  end,
  collects = function(t)
    local n, s = 0, 0
    for k, v in pairs(t) do
      n, s = add(n, s, k, v)
      local garbage = { { k }, v }
      if n == 3 then collectgarbage("step") end
      s = s + #garbage - 2
    end
    return n, s
  end,
  twice = function(t)
    local n, s = 0, 0
    for k, v in pairs(t) do
      n, s = add(n, s, k, v)
      for _ in pairs(t) do n = n + 1 end
    end
    return n, s
  end,
  breaks = function(t)
    local n = 0
    for _ in pairs(t) do
      n = n + 1
      if n == 2 then break end
    end
    for _ in pairs(t) do n = n + 1 end
    return n, 0
  end,
  in_turns = function(t)
    local n, s = 0, 0
    local inner = coroutine.wrap(function() for k, v in pairs(t) do coroutine.yield(k, v) end end)
    for k, v in inner do n, s = add(n, s, k, v) end
    return n, s
  end,
}
local names = {}
for name in pairs(bodies) do names[#names + 1] = name end
table.sort(names)

-- Each body meets tables of one kind for a while, and then those of all kinds in turn.
for _, name in ipairs(names) do
  local body, sums = bodies[name], {}
  for _, kind in ipairs(order) do
    local count, sum = 0, 0
    for i = 1, 6 do
      local n, s, rest = body(builders[kind](i))
      assert(rest == nil)
      count, sum = count + n, sum + s
    end
    sums[#sums + 1] = ("%s %d %.14g"):format(kind, count, sum)
  end
  local count, sum = 0, 0
  for i = 1, 4 do
    for _, kind in ipairs(order) do
      local n, s = body(builders[kind](i))
      count, sum = count + n, sum + s
    end
  end
  print(name, count, ("%.14g"):format(sum), table.concat(sums, ", "))
end

-- A key that is not there stops a traversal that goes on from it.
local function goes_on(t, k) for a in next, t, k do return a end end
for _, kind in ipairs(order) do
  local said = {}
  for i = 1, 4 do
    local ok, why = pcall(goes_on, builders[kind](i), "no such key")
    said[i] = tostring(ok) .. " " .. tostring(why):gsub("^.-:%d+: ", "")
  end
  print(kind, said[1], said[4] == said[1])
end
