-- Elements that are tables, in loops that change neither the table nor the key: what is found out once has to end
-- with whatever may put another element there.
local N = 60
local function grid(n, m, f)
  local g = {}
  for i = 1, n do local row = {} for j = 1, m do row[j] = f(i, j) end g[i] = row end
  return g
end

-- Products, with numbers of either kind, in all orders of loops.
do
  local function ijk(a, b, n) local c = {} for i = 1, n do local r = {} for j = 1, n do local s = 0 for k = 1, n do s = s + a[i][k] * b[k][j] end r[j] = s end c[i] = r end return c end
  local function ikj(a, b, n) local c = grid(n, n, function() return 0 end) for i = 1, n do for k = 1, n do for j = 1, n do c[i][j] = c[i][j] + a[i][k] * b[k][j] end end end return c end
  local function jki(a, b, n) local c = grid(n, n, function() return 0.0 end) for j = 1, n do for k = 1, n do local x = b[k][j] for i = 1, n do c[i][j] = c[i][j] + a[i][k] * x end end end return c end
  local sum = 0
  for _, mul in ipairs { ijk, ikj, jki } do
    for _, half in ipairs { 1, 0.5 } do
      local a, b = grid(12, 12, function(i, j) return i - j * half end), grid(12, 12, function(i, j) return (i * j) % 5 end)
      for r = 1, 4 do local c = mul(a, b, 12) sum = sum + c[3][4] + c[12][1] * 2 end
      -- The same table as both, and as the result.
      a[2] = a[1]
      local c = mul(a, a, 12)
      sum = sum + c[2][5] - c[1][5]
    end
  end
  print("products", sum)
end

-- The row is replaced, removed, or another one in the middle of the loop.
do
  local function replaced(g, i, n) local s = 0 for k = 1, n do s = s + g[i][k] if k == n // 2 then g[i] = { [n] = 0, table.unpack(g[i + 1]) } end end return s end
  local function swapped(g, i, n) local s = 0 for k = 1, n do s = s * 3 % 10007 + g[i][k] g[i], g[i + 1] = g[i + 1], g[i] end return s end
  local function copied(g, i, n) local s = 0 for k = 1, n do local row = g[i] g[i] = g[i + 1] local other = g[i] s = s * 5 % 10007 + row[k] - other[k] + (row == other and 1 or 0) g[i + 1] = row end return s end
  local function by_alias(g, h, i, n) local s = 0 for k = 1, n do s = s * 3 % 10007 + g[i][k] h[k % 3 + 1] = h[(k + 1) % 3 + 1] end return s end
  local function by_raw(g, i, n) local s = 0 for k = 1, n do s = s * 3 % 10007 + g[i][k] if k % 7 == 0 then rawset(g, i, g[i + 1]) end end return s end
  local function by_remove(g, i, n) local s = 0 for k = 1, n do s = s * 3 % 10007 + g[i][k] if k % 9 == 0 then table.insert(g, table.remove(g, i)) end end return s end
  local function by_call(g, i, n, f) local s = 0 for k = 1, n do s = s * 3 % 10007 + g[i][k] f(g, i, k) end return s end
  local function by_nil(g, n) local s = 0 for k = 1, n do if g[3] then s = s + g[3][k] end if k == 20 then g[3] = nil end end return s end
  local sum = 0
  for r = 1, 30 do
    local g = grid(3, N, function(i, j) return i * 100 + j end)
    sum = sum * 7 % 1000003 + replaced(g, 1, N - 20) + swapped(g, 1, N - 20)
    g = grid(3, N, function(i, j) return i * 10 + j end)
    sum = sum * 7 % 1000003 + copied(g, 2, N) + by_alias(g, g, 2, N) + by_alias(g, grid(3, N, function() return 1 end), 1, N)
    g = grid(4, N, function(i, j) return i * 10 + j end)
    sum = sum * 7 % 1000003 + by_raw(g, 1, N) + by_remove(g, 1, N)
    sum = sum * 7 % 1000003 + by_call(g, 2, N, function(g, i, k) if k % 11 == 0 then g[i] = g[i - 1] end end)
    sum = sum * 7 % 1000003 + by_nil(grid(3, N, function(i, j) return i + j end), N)
  end
  print("replaced", sum)
end

-- Rows that are not there, are no tables, or are too short; and loops that do not run at all.
do
  local function sum_row(g, i, n) local s = 0 for k = 1, n do s = s + g[i][k] end return s end
  local g = grid(3, N, function(i, j) return i * j end)
  local s = 0
  for r = 1, 40 do s = s + sum_row(g, r % 3 + 1, N) + sum_row(g, 7, 0) end
  print("not there", s, pcall(sum_row, g, 7, 1), (select(2, pcall(sum_row, g, 1, N + 1))))
  g[2] = "text"
  print("no table", (select(2, pcall(sum_row, g, 2, 3))))
  g[2] = setmetatable({}, { __index = function(_, k) return k end })
  print("by metamethod", sum_row(g, 2, N), sum_row(setmetatable({}, { __index = g }), 3, N))
  local function until_none(g, i) local k, s = 1, 0 while g[i] and g[i][k] do s = s + g[i][k] k = k + 1 end return s end
  local t = 0
  for r = 1, 40 do t = t + until_none(g, r % 5 + 1 == 2 and 1 or r % 5 + 1) end
  print("while", t)
end

-- Three dimensions, tables that are upvalues and globals, keys that change in the loop.
do
  local cube = {}
  for i = 1, 4 do cube[i] = grid(4, 20, function(j, k) return i * 100 + j * 10 + k end) end
  local function walk() local s = 0 for i = 1, 4 do for j = 1, 4 do for k = 1, 20 do s = s + cube[i][j][k] cube[i][j][k] = s % 7 end end end return s end
  print("cube", walk(), walk(), walk())
  local saved = cube[2]
  local function changes() local s = 0 for j = 1, 4 do for k = 1, 20 do s = s + cube[2][j][k] if j == 2 and k == 10 then cube = { cube[1], cube[3] or cube[1] } end end end return s end
  print("upvalue", changes(), changes(), saved == cube[2])
  board = grid(5, 5, function(i, j) return (i * j) % 3 end)
  local function neighbours(y, x) local n = 0 for dy = -1, 1 do for dx = -1, 1 do local row = board[y + dy] if row and (dx ~= 0 or dy ~= 0) then n = n + (row[x + dx] or 0) end end end return n end
  local s = 0
  for r = 1, 20 do for y = 1, 5 do for x = 1, 5 do s = s + neighbours(y, x) end end end
  print("board", s)
  local function moves(g, n) local i, s = 1, 0 for k = 1, n do s = s * 3 % 10007 + g[i][k] if k % 5 == 0 then i = i % 3 + 1 end end return s end
  local g = grid(3, N, function(i, j) return i * 10 + j end)
  s = 0
  for r = 1, 30 do s = s + moves(g, N) end
  print("key changes", s)
end

-- Rows that become arrays of another kind, grow, and shrink; coroutines and collections in between.
do
  local function fill(g, i, n) for k = 1, n do g[i][k] = k if k == n // 2 then g[i][k] = k + 0.5 end end return #g[i] end
  local function widen(g, i, n) for k = 1, n do g[i][#g[i] + 1] = k % 3 == 0 and "s" or k end return #g[i] end
  local function narrow(g, i) local s = 0 while #g[i] > 0 do s = s + 1 g[i][#g[i]] = nil end return s end
  local s = 0
  for r = 1, 20 do local g = { {}, {}, {} } s = s + fill(g, 1, 40) + widen(g, 2, 40) + narrow(g, 2) + narrow(g, 1) + narrow(g, 3) end
  print("kinds", s)
  local g = grid(3, 30, function(i, j) return i * j end)
  local co = coroutine.wrap(function() while true do local s = 0 for k = 1, 30 do s = s + g[2][k] if k % 10 == 0 then coroutine.yield(s) end end end end)
  s = 0
  for r = 1, 60 do s = s + co() g[2] = r % 2 == 0 and g[1] or g[3] if r % 20 == 0 then collectgarbage() end end
  print("coroutine", s)
  local function garbage(g, n) local s = 0 for k = 1, n do s = s + g[2][k] local t = { k, { k } } s = s + #t end return s end
  for r = 1, 20 do s = s + garbage(g, 30) end
  print("garbage", s)
end

-- Tables that are fields, and keys that are sums.
do
  local Grid = {}
  Grid.__index = Grid
  local function new(w, h, f) return setmetatable({ w = w, h = h, cells = grid(h, w, f), other = grid(h, w, function() return 1 end), hits = 0 }, Grid) end
  function Grid:sum() local s = 0 for y = 1, self.h do for x = 1, self.w do s = s + self.cells[y][x] end end return s end
  function Grid:get(x, y) return self.cells[y][x] end
  function Grid:sum_by_method() local s = 0 for y = 1, self.h do for x = 1, self.w do s = s + self:get(x, y) end end return s end
  function Grid:around() local s = 0 for y = 2, self.h - 1 do for x = 2, self.w - 1 do s = s + self.cells[y - 1][x] + self.cells[y + 1][x] * 2 - self.cells[y][x - 1] * self.cells[y][x + 1] end end return s end
  function Grid:swaps(n) local s = 0 for k = 1, n do s = s * 3 % 10007 + self.cells[2][k] self.cells, self.other = self.other, self.cells end return s end
  function Grid:swaps_once(n, at) local s = 0 for k = 1, n do s = s * 3 % 10007 + self.cells[2][k] + self.cells[1][k] if k == at then self.cells = self.other end end return s end
  function Grid:of_another(o, n) local s = 0 for k = 1, n do s = s * 3 % 10007 + self.cells[2][k] if k % 4 == 0 then o.cells = self.other end end return s end
  function Grid:counts() for y = 1, self.h do for x = 1, self.w do if self.cells[y][x] > 5 then self.hits = self.hits + 1 end end end return self.hits end
  function Grid:loses(n) local s = 0 for k = 1, n do if self.cells then s = s + self.cells[1][k] end if k == 20 then self.cells = nil end end return s end
  function Grid:gains(n) local s = 0 for k = 1, n do s = s + self.cells[1][k] if k == 10 then self.extra = self.other self.cells = self.extra end end return s end
  local s = 0
  for r = 1, 20 do
    local g, h = new(30, 6, function(y, x) return x * y % 11 end), new(30, 6, function(y, x) return x + y end)
    s = s * 5 % 1000003 + g:sum() + g:sum_by_method() + g:around() + g:counts() + g:swaps(30) + g:swaps_once(30, r)
    s = s * 5 % 1000003 + h:of_another(r % 2 == 0 and h or g, 30) + h:gains(30) + h:sum() + h:loses(30)
  end
  print("fields", s)
  local function sums(t, i, n) local a = 0 for k = 1, n do a = a * 3 % 10007 + t[i + 1][k] - t[i - 1][k] + t[i + 1][k] t[i + 1], t[i - 1] = t[i - 1], t[i + 1] end return a end
  s = 0
  for r = 1, 20 do s = s + sums(grid(5, 30, function(i, j) return i * j end), 3, 30) + sums(grid(5, 30, function(i, j) return i + j / 2 end), 2, 30) end
  print("sums", s, pcall(sums, { { 1 }, { 2 } }, math.maxinteger, 1))
  local function sums_of_sums(t, y, n) local a = 0 for k = 1, n do a = (a * 3 + t[y + 2 - 1][k] + t[y - 3 + 2][k] * 2) % 10007 if k % 8 == 0 then t[y + 2 - 3] = t[y + 1] end end return a end
  s = 0
  for r = 1, 20 do s = s + sums_of_sums(grid(5, 30, function(i, j) return i * j % (r + 3) end), r % 3 + 2, 30) end
  print("sums of sums", s)
  local tree = { left = { left = { list = { 1, 2, 3, { 4, 5, 6, 7, 8, 9, 10, 11 } } } } }
  local function deep(t, n) local a = 0 for k = 1, n do a = a + t.left.left.list[4][k % 8 + 1] if k == n // 2 then t.left = { left = { list = { 0, 0, 0, t.left.left.list[4] } } } end end return a end
  s = 0
  for r = 1, 20 do s = s + deep(tree, 40) end
  print("deep", s)
end

-- A call comes back to code by a way that was never recorded, with another key, table or row in a register.
do
  local function work(n) local a = 0 for i = 1, n do a = a + i end return a end
  local t, o = grid(8, 40, function(i, j) return i * 100 + j end), {}
  o.cells, o.other = t, grid(8, 40, function(i, j) return i + j end)
  local function keys(y, n, rare)
    local s = 0
    for x = 1, n do
      local k = y - 1
      if x % rare == 0 then k = y - 2 end
      s = s + work(3)
      s = s * 3 % 10007 + t[k][x] + t[y - 1][x] * 7 + t[k][x] * 11
    end
    return s
  end
  local function tables(y, n, rare)
    local s = 0
    for x = 1, n do
      local c = o.cells
      if x % rare == 0 then c = o.other end
      s = s + work(3)
      s = s * 3 % 10007 + c[y][x] + o.cells[y][x] * 7 + c[y][x] * 11
    end
    return s
  end
  local function rows(y, n, rare)
    local s = 0
    for x = 1, n do
      local row = t[y]
      if x % rare == 0 then row = o.other[y] end
      s = s + work(3)
      s = s * 3 % 10007 + row[x] + t[y][x] * 7 + row[x] * 11
    end
    return s
  end
  local a, b, c = 0, 0, 0
  for r = 1, 60 do
    local rare = r < 30 and 1000 or 7
    a, b, c = (a * 7 + keys(r % 4 + 3, 40, rare)) % 1000003, (b * 7 + tables(r % 4 + 3, 40, rare)) % 1000003, (c * 7 + rows(r % 4 + 3, 40, rare)) % 1000003
  end
  print("come back", a, b, c)
end
