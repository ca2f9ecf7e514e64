-- Tables with __call in hot code: what is called, with which arguments, and what becomes of the results.

local N = 300

-- A counter: the function is small.
local Counter = {}
Counter.__index = Counter
Counter.__call = function(self, k) self.n = self.n + k; return self.n end
local function counter(n) return setmetatable({ n = n }, Counter) end

local function count(c)
  local sum = 0
  for i = 1, N do sum = sum + c(i % 3) % 7 end
  return sum
end
print(count(counter(10)), count(counter(0.5)), count(counter(3)))

-- A class that is called, and its object.
local Point = setmetatable({}, { __call = function(class, x, y) return setmetatable({ x = x, y = y }, class) end })
Point.__index = Point
Point.__call = function(p, dx, dy) return Point(p.x + dx, (dy or 0) + p.y) end
local function walk()
  local p = Point(0, 0)
  for i = 1, N do p = p(i, i % 2 == 0 and -i or nil) end
  return p.x, p.y
end
print(walk())

-- An object that lives no longer than its call.
local Once = {}
Once.__call = function(self, k) return self[1] * k + #self end
local function once()
  local sum = 0
  for i = 1, N do sum = sum + setmetatable({ i }, Once)(2) end
  return sum
end
print(once())
local Named = {}
Named.__call = function(self, k) return self.a * k end
local function named()
  local sum = 0
  for i = 1, N do sum = sum + setmetatable({ a = i }, Named)(3) end
  return sum
end
print(named())

-- As many results as there are, and as are asked for.
local many = setmetatable({}, { __call = function(_, n) if n > 2 then return n, n + 1, n + 2 elseif n > 0 then return n end end })
local function results()
  local got, sum = 0, 0
  for i = 1, N do
    local a, b, c, d = many(i % 4)
    sum = sum + (a or 100) + (b or 10) + (c or 1) + (d or 1000)
    got = got + select("#", many(i % 4))
    many(i)
    local t = { many(3) }
    sum = sum + #t
  end
  return sum, got
end
print(results())

-- Too few arguments, too many, and a list whose length only the program knows.
local args = setmetatable({}, { __call = function(self, a, b, c) return (a or 1) + (b or 2) + (c or 3) end })
local all = setmetatable({}, { __call = function(self, ...) return select("#", ...), ... end })
local function three(i) if i % 3 == 0 then return 1, 2, 3, 4 elseif i % 3 == 1 then return 5 end end
local function arguments()
  local sum = 0
  for i = 1, N do
    sum = sum + args() + args(i) + args(i, 1) + args(i, 1, 2) + args(i, 1, 2, 3, 4)
    sum = sum + args(three(i)) + all(i, i, i) + all() + select("#", all(three(i)))
  end
  return sum
end
print(arguments())

-- The last value before the call is the table's own field; the table is an argument of itself.
local own = setmetatable({ 7 }, { __call = function(self, other, k) return (self == other and 1 or 2) + self[1] + k end })
local function myself()
  local sum = 0
  for i = 1, N do sum = sum + own(own, i) + own({}, i) end
  return sum
end
print(myself())

-- Tail calls.
local function tail(c, i) return c(i, 1) end
local down = setmetatable({}, { __call = function(self, n, acc) if n == 0 then return acc end return self(n - 1, acc + n) end })
local function tails()
  local sum, p = 0, Point(1, 1)
  for i = 1, N do
    sum = sum + tail(args, i) + tail(p, i).x + tail(math.max, i)
    sum = sum + down(i % 5, 0)
  end
  return sum
end
print(tails(), down(100000, 0))

-- Deeper and deeper.
local fib = setmetatable({}, { __call = function(self, n) if n < 2 then return n end return self(n - 1) + self(n - 2) end })
print(fib(16))
local deep = setmetatable({}, { __call = function(self, n) if n == 0 then return 0 end return 1 + self(n - 1) end })
print(deep(3000))
local forever = setmetatable({}, { __call = function(self, n) return 1 + self(n) end })
print(select(2, pcall(forever, 1)):match("stack overflow"))

-- A table whose __call is a table, and one whose __call is a function of the library.
local link = setmetatable({}, { __call = function(self, from, a, b) return a + (b or 0), from end })
local chain = setmetatable({}, { __call = link })
local max = setmetatable({}, { __call = function(_, ...) return math.max(...) end })
local raw = setmetatable({ 1, 2, 3 }, { __call = rawlen })
local function others()
  local sum = 0
  for i = 1, N do sum = sum + raw() + max(i, 5) + select("#", chain(i, 2)) end
  return sum
end
print(others(), pcall(chain, 1) and select("#", chain(1)))

-- Functions and tables in one place.
local function mixed(list)
  local sum = 0
  for i = 1, N do sum = sum + list[i % #list + 1](i, 1) end
  return sum
end
print(mixed { args, function(i) return i end, math.min, setmetatable({}, { __call = function(_, a) return -a end }) })
print(mixed { function(i) return i end }, mixed { args })

-- Metatables change while it is hot: another function, another shape, none.
local function changing(c, meta)
  local sum = 0
  for i = 1, N do
    if i == N // 3 then meta.__call = function(_, k) return k * 100 end end
    if i == N // 2 then meta.more, meta.fields = 1, 2 end
    if i == N - 20 then setmetatable(c, { some = 1, other = 2, __call = function(_, k) return -k end }) end
    sum = sum + c(i)
  end
  return sum
end
local meta = { __call = function(_, k) return k end }
print(changing(setmetatable({}, meta), meta))
print(changing(setmetatable({}, meta), meta))

-- What cannot be called, and errors within.
local function fails(c, last)
  local sum = 0
  for i = 1, N do
    if i == last then setmetatable(c, nil) end
    sum = sum + c(i)
  end
  return sum
end
print(pcall(fails, setmetatable({}, { __call = function(_, k) return k end }), N - 1))
print(pcall(fails, setmetatable({}, { __call = function(_, k) if k == N then error("no more") end return k end })))
print(pcall(fails, setmetatable({}, { __call = function(_, k) return k + nil end })))
local gone = { __call = function(_, k) return k end }
print(pcall(function(c)
  local sum = 0
  for i = 1, N do
    if i == N - 1 then gone.__call = nil end
    sum = sum + c(i)
  end
  return sum
end, setmetatable({}, gone)))

-- Who is asked finds the frames.
local look = setmetatable({}, { __call = function(self, i)
  if i % 100 ~= 0 then return 0 end
  local info, caller = debug.getinfo(1, "lu"), debug.getinfo(2, "l")
  local name, value = debug.getlocal(1, 1)
  return info.currentline * 1000 + caller.currentline + info.nparams * 1e6 + (name == "self" and value == self and 1e7 or 0)
end })
local function looked()
  local sum = 0
  for i = 1, N do sum = sum + look(i) end
  return sum
end
print(string.format("%d", looked()))

-- Coroutines are suspended within.
local pause = setmetatable({}, { __call = function(self, i) local got = coroutine.yield(i) return got + i end })
local function pausing()
  local co = coroutine.wrap(function()
    local sum = 0
    for i = 1, N do sum = sum + pause(i) end
    return -sum
  end)
  local got, sum = co(), 0
  while got > 0 do sum = sum + got; got = co(got * 2) end
  return sum, got
end
print(pausing())

-- Protected, and as an iterator.
local function protected()
  local sum = 0
  for i = 1, N do
    local ok, n = pcall(args, i)
    sum = sum + (ok and n or 1000)
    ok, n = pcall(own, i, i)
    sum = sum + n
  end
  return sum
end
print(protected())
local step = setmetatable({}, { __call = function(self, last, i) if i < last then return i + 1, self end end })
local function iterated()
  local sum = 0
  for i, s in step, N, 0 do sum = sum + i + (s == step and 1 or 0) end
  return sum
end
print(iterated())

-- Values that a collection finds while the callee makes garbage.
local pack = setmetatable({}, { __call = function(self, a, b) local t = { a, b, { a } } return t end })
local function packed()
  local last
  for i = 1, N do last = pack("k" .. i, last and last[1]) end
  return last[1] .. last[2] .. last[3][1]
end
print(packed())
