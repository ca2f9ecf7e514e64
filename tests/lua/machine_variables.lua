-- What is known of the tables that upvalues and globals hold, where the code is entered anew: tables that others have taken the place of meanwhile.

-- An upvalue of which nothing is taken for known any more: what is known of its elements where a loop is entered is found out nevertheless. (Guards have to fail for that which hold; which ones depends on the loops' rounds.)
do
  local source = [[
    local fuel, list = 0, {{w = 1}, {w = 2}, {w = 3}}
    local function tick() fuel = fuel - 1 if fuel < 0 then error("out of fuel") end end
    local function method(self, n, p, ...)
      tick()
      p = p or self
      local above = n + 1
      for i = 1, OUTER do
        tick()
        for i = 1, INNER do
          tick()
          self, p = p, list[2]
        end
      end
      return above - 1, self, p
    end
    local total = 0
    for round = 1, 100 do
      fuel = 3000
      local n, a, b = method(list[round % 3 + 1], 1, list[1])
      total = total + n + a.w + b.w
    end
    return total]]
  local total = 0
  for _, rounds in ipairs { { 7, 2 }, { 5, 3 }, { 3, 2 }, { 4, 4 }, { 6, 3 }, { 9, 2 }, { 2, 7 } } do
    local outer, inner = rounds[1], rounds[2]
    total = total + load((source:gsub("OUTER", outer):gsub("INNER", inner)))()
  end
  print(total)
end

-- A function that is built in place of its call is left in its middle, and stores another table into an upvalue. Its caller is entered behind the call, with the old one in a register.
do
  local now, old, new = nil, { 1, 2, 3 }, { 10, 20, 30 }
  now = old
  local function swap(i)
    if i % 50 == 49 then now = now == old and new or old end
    return i % 4
  end
  local function both(i)
    local before = now
    local s = before[1]
    local n = swap(i)
    return s, before[2], before[n] or 0, now[2], now[3]
  end
  local totals = { 0, 0, 0, 0, 0 }
  for i = 1, 600 do
    local got = { both(i) }
    for n = 1, 5 do totals[n] = totals[n] + got[n] end
    if i % 50 == 49 then print(i, table.unpack(got)) end
  end
  print(table.unpack(totals))
end

-- The same of a global, whose fields are asked for.
do
  local old, new = { x = 1, y = 2 }, { x = 10, y = 20 }
  current = old
  local function swap(i)
    if i % 50 == 49 then current = current == old and new or old end
    return i
  end
  local function both(i)
    local before = current
    local s = before.x
    local n = swap(i)
    return s, before.y, before.x, current.y, current.x
  end
  for i = 1, 600 do
    local a, b, c, d, e = both(i)
    if i % 50 == 49 then print(i, a, b, c, d, e) end
  end
end
