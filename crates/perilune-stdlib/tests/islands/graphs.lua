-- Random graphs, and their comparison with copies.
function build(rng, size)
  local nodes = {}
  for i = 1, size do nodes[i] = {} end
  local function value()
    local r = rng(12)
    if r == 1 then return rng(1000)
    elseif r == 2 then return rng(1000) / 8
    elseif r == 3 then return "s" .. rng(50)
    elseif r == 4 then return rng(2) == 1
    elseif r == 5 then return ("long"):rep(rng(40))
    else return nodes[rng(size)] end
  end
  for i = 1, size do
    local t, len = nodes[i], 0
    for _ = 1, rng(8) do
      local r = rng(6)
      if r == 1 then t[rng(6)] = value()
      elseif r == 2 then len = len + 1; t[len] = value()
      elseif r == 3 then t["field" .. rng(10)] = value()
      elseif r == 4 then t.x = value(); t.y = value()
      elseif r == 5 then t[value()] = value()
      else t[rng(100) / 4] = value() end
    end
    if rng(20) == 1 then for k = 1, 70 do t["many" .. k] = k end end
    if rng(20) == 1 then for k = 1, 40 do t[k] = k end end
    if rng(10) == 1 then setmetatable(t, nodes[rng(size)]) end
  end
  return nodes[1]
end

-- `exact`: b is a copy of a, not another graph built in the same way, whose borders may be others.
function compare(a, b, exact)
  local pair, todo = { [a] = b }, { a }
  local function same(x, y)
    if type(x) ~= "table" then
      return math.type(x) == math.type(y) and x == y
    end
    if not pair[x] then
      pair[x] = y
      todo[#todo + 1] = x
    end
    return pair[x] == y and is_shared(y)
  end
  while #todo > 0 do
    local x = table.remove(todo)
    local y = pair[x]
    assert(not exact or #x == #y)
    local n = 0
    for k, v in next, x do
      n = n + 1
      if type(k) ~= "table" then assert(same(v, rawget(y, k))) end
    end
    local by_key = {}
    for k, v in next, y do
      n = n - 1
      assert(rawequal(rawget(y, k), v))
      if type(k) == "table" then by_key[k] = v end
    end
    assert(n == 0)
    for k, v in next, x do
      if type(k) == "table" and pair[k] then assert(same(v, by_key[pair[k]])) end
    end
    local mx, my = getmetatable(x), getmetatable(y)
    assert((mx == nil) == (my == nil) and (not mx or same(mx, my)))
  end
end


function generator(seed)
  return function(n)
    seed = (seed * 1103515245 + 12345) % 2147483648
    return (seed >> 8) % n + 1
  end
end
