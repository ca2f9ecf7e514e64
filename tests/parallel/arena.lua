-- Scoped arenas: what gets out survives, by whatever door; what stays in goes at once.
local pl = require "perilune"
local arena = pl.arena

local function make(d) if d == 0 then return {} end return { make(d - 1), make(d - 1) } end
local function nodes(t) local l = t[1] if not l then return 1 end return 1 + nodes(l) + nodes(t[2]) end
-- Fills the memory that an arena has given back with something else.
local function churn() for i = 1, 300 do local t = { "x" .. i, { i } } end end
local function settled(...) churn() collectgarbage() churn() return ... end

-- Results and arguments.
print("results", arena(function() return 1, "two", 3.0, nil, true end))
print("count", select("#", arena(function(...) return ... end)), select("#", arena(function(...) return ... end, nil, nil)))
print("many", select("#", arena(function(...) return ... end, table.unpack({}, 1, 200))))
print("args", arena(function(a, b, c, d, e, f, g, h) return h, a end, 1, 2, 3, 4, 5, 6, 7, 8))
print("not a function", pcall(arena, 5))
print("nothing", pcall(arena))
print("native", arena(string.rep, "ab", 3), arena(math.max, 3, 9))
print("callable", pcall(arena, setmetatable({}, { __call = function() return "called" end })))

-- What stays inside is freed at once.
do
  collectgarbage() collectgarbage "stop"
  local before = collectgarbage "count"
  local n = arena(function() return nodes(make(14)) end)
  local after = collectgarbage "count"
  collectgarbage "restart"
  print("freed", n, after - before < 64)
end

-- What gets out.
print("result", nodes(settled(arena(make, 8))))
do
  local up, old, tbl = nil, {}, {}
  collectgarbage()
  arena(function() up = make(6) old.x = make(5) old[1] = make(4) make(8) end)
  print("upvalue, old table", nodes(settled(up)), nodes(old.x), nodes(old[1]))
  arena(function() GLOBAL = make(5) make(8) end)
  print("global", nodes(settled(GLOBAL)))
  arena(function() debug.getregistry().arena_test = make(5) make(7) end)
  print("registry", nodes(settled(debug.getregistry().arena_test)))
  arena(function() setmetatable(tbl, { __index = make(3) }) make(7) end)
  print("metatable", nodes(settled(getmetatable(tbl).__index)), tbl[1] ~= nil)
  local k
  arena(function() tbl[make(3)] = make(4) make(7) end)
  churn()
  for key, value in pairs(tbl) do print("key", nodes(key), nodes(value)) end
  arena(function() debug.setmetatable(1, { __index = make(3) }) end)
  print("type metatable", nodes((5).x or settled(debug.getmetatable(1).__index)))
  debug.setmetatable(1, nil)
  arena(function() debug.setuservalue(io.stdout, make(3)) package.loaded.arena_test = make(2) end)
  print("loaded", nodes(settled(require "arena_test")))
end

-- Young objects from outside, which no collection has seen.
do
  local young = {}
  local deep = { { { {} } } }
  arena(function() young.a = make(4) deep[1][1][1][1] = make(5) make(8) end)
  churn()
  print("young", nodes(young.a), nodes(deep[1][1][1][1]))
  for i = 1, 100 do arena(function() young[i] = { i } end) end
  local sum = 0
  for i = 1, 100 do sum = sum + young[i][1] end
  print("many times", sum)
  settled()
  for i = 1, 100 do sum = sum + young[i][1] end
  print("and later", sum)
end

-- Buffers of older tables grow inside.
do
  local list, map = { 0 }, { a = 1 }
  arena(function()
    for i = 1, 1000 do list[#list + 1] = { i } end
    for i = 1, 1000 do map["k" .. i] = { i } end
    for i = 1, 10000 do list[#list + 1] = i end
  end)
  churn()
  print("grown", #list, list[1001][1], map.k1000[1], map.k1[1])
  settled()
  print("grown", #list, list[501][1], map.k500[1])
end

-- Large objects, in both directions.
do
  local s = arena(function() local t = string.rep("x", 2000000) return string.rep("y", 100000) end)
  churn()
  print("large", #s, s:sub(99990))
  local t = arena(function() local t = {} for i = 1, 100000 do t[i] = i end return t end)
  settled()
  print("large", #t, t[100000])
  local old = {} for i = 1, 5000 do old[i] = false end
  collectgarbage()
  for i = 1, 20 do old[i * 7] = { i } arena(function() old[i * 7] = { old[i * 7][1] } old[i * 11] = { i } end) end
  churn()
  local sum = 0
  for i = 1, 5000 do sum = sum + (old[i] and old[i][1] or 0) end
  print("cards", sum)
end

-- Nesting.
do
  local outer = {}
  arena(function()
    local o = {}
    arena(function() outer.x = o o.y = make(3) end)
    churn()
  end)
  churn()
  print("nested", nodes(outer.x.y))
  local function nest(n) if n == 0 then return {} end local x = arena(nest, n - 1) make(3) return { x } end
  local x, d = settled(nest(60)), 0
  while x do d, x = d + 1, x[1] end
  print("depth", d)
  local total = arena(function()
    local big, kept = make(10), {}
    for i = 1, 50 do kept[i] = arena(function() return { i, make(4) } end) end
    for i = 1, 50 do assert(nodes(kept[i][2]) == 31 and kept[i][1] == i) end
    return nodes(big) + #kept
  end)
  print("inside", total)
end

-- Errors.
print("error", pcall(arena, function() make(5) error({ code = "kept " .. 1 }) end))
print("error", select(2, pcall(arena, function() error({ code = "kept " .. 1 }) end)).code)
print("error", pcall(arena, function() local x = "a" .. 1 error(x) end))
print("runtime", pcall(arena, function() local t = make(3) return t.x.y end))
do
  local handled = 0
  print("xpcall", xpcall(function()
    arena(function() arena(function() error(make(2)) end) end)
  end, function(e) handled = handled + 1 return nodes(e) end))
  print("handled", handled)
  local log = {}
  print("close", pcall(arena, function()
    local c <close> = setmetatable({}, { __close = function(_, e) log[#log + 1] = e.v end })
    local d <close> = setmetatable({}, { __close = function(_, e) log[#log + 1] = e.v + 1 error { v = 8 } end })
    error { v = 5 }
  end))
  print("closed", log[1], log[2])
  local f
  print("upvalue of a failed call", pcall(arena, function()
    local v = make(4)
    f = function() return nodes(v) end
    error "x"
  end))
  print(settled(f()))
  print("overflow", (pcall(arena, function() local function r() return 1 + r() end return r() end)))
  print("too deep", (pcall(function() local function r() return arena(r) end return r() end)))
end

-- Closures, prototypes and their instances.
do
  local function outer() return function(x) return function(y) return x .. y end end end
  local f = outer()
  local kept
  arena(function() local g = outer() kept = g "a" end)
  churn()
  print("closures", kept "b", f "c" "d", outer() "e" "f")
  local h = arena(function() return load "local a = ... return function(b) return a .. b .. 'constant' end" end)
  settled()
  print("loaded", h "x" "y")
  arena(function() load("return function() return {} end")()() end)
  settled()
  local counter = arena(function() local n = 0 return function() n = n + 1 return n end end)
  counter()
  print("counter", settled(counter()))
end

-- Strings made, interned and used as keys inside.
do
  local t = {}
  arena(function() t["key" .. 1] = 1 local u = {} for i = 1, 2000 do u["gone" .. i] = i end end)
  churn()
  for i = 1, 2000 do t["gone" .. i] = i end
  print("keys", t.key1, t["key" .. 1], t.gone1, t["gone" .. 2000])
  local s = arena(function() local s = "str" .. 5 t[s] = true return s end)
  settled()
  print("interned", t[s], t["str" .. 5], t.str5)
  arena(function() return ("z"):byte() + #("\1" .. "\2") end)
  print("one byte", ("xyz"):sub(2, 2), ("x\1y"):byte(2))
end

-- Shapes and inline caches.
do
  local function field(o) return o.shaped_a, o.shaped_b, o.method and o:method() end
  local a = { shaped_a = 1 }
  arena(function()
    for i = 1, 50 do local o = { shaped_a = i, shaped_b = i } field(o) end
    a.shaped_b = 2
    local class = { method = function(self) return "inner" end } class.__index = class
    for i = 1, 50 do field(setmetatable({}, class)) end
  end)
  churn()
  print("shapes", field(a))
  local class = { method = function(self) return "outer" end } class.__index = class
  print("caches", field(setmetatable({ shaped_a = 3 }, class)))
  local names = {}
  arena(function() for i = 1, 100 do load("local t = {} t.fresh" .. i .. " = 1 return t")() end end)
  settled()
  for i = 1, 100 do names[i] = load("local t = {} t.fresh" .. i .. " = " .. i .. " return t")()["fresh" .. i] end
  print("names", names[1], names[100])
end

-- Weak tables, ephemerons, finalisers.
do
  local weak, eph = setmetatable({}, { __mode = "v" }), setmetatable({}, { __mode = "k" })
  local keep
  collectgarbage()
  arena(function()
    weak[1] = make(3) keep = make(2) weak[2] = keep
    eph[make(1)] = make(4) eph[keep] = make(5)
    eph[keep][1][1].back = weak
  end)
  churn()
  print("weak", weak[1], weak[2] == keep, nodes(eph[keep]))
  local n = 0
  for k in pairs(eph) do n = n + 1 end
  print("ephemerons", n)
  local final = {}
  arena(function()
    for i = 1, 3 do setmetatable({ i, make(2) }, { __gc = function(o) final[#final + 1] = o[1] .. ":" .. nodes(o[2]) end }) end
    keep = setmetatable({ 4, make(2) }, { __gc = function(o) final[#final + 1] = "kept " .. o[1] end })
  end)
  print("finalised", table.concat(final, " "))
  keep = nil
  settled()
  print("finalised", table.concat(final, " "))
  local back
  arena(function() setmetatable({ make(3) }, { __gc = function(o) back = o end }) end)
  churn()
  print("resurrected", nodes(settled(back)[1]))
end

-- Coroutines.
do
  local co = coroutine.wrap(function(x) while true do x = coroutine.yield({ x }) end end)
  local before = co(1)
  local r = arena(function() local a = co(make(3)) make(6) return a end)
  churn()
  print("resumed inside", nodes(r[1]), co(5)[1])
  local left
  arena(function()
    left = coroutine.create(function() local t = make(4) coroutine.yield(1) return nodes(t) end)
    coroutine.resume(left)
    make(6)
  end)
  settled()
  print("left outside", coroutine.resume(left))
  arena(function() for i = 1, 100 do local c = coroutine.wrap(function() coroutine.yield(make(2)) end) c() end end)
  local gen = coroutine.wrap(function()
    return arena(function()
      local t = make(5)
      coroutine.yield "out"
      make(6)
      coroutine.yield(t)
      return nodes(t)
    end)
  end)
  print("yield out", gen())
  arena(function() make(5) end)
  local t = arena(function() make(5) return gen() end)
  settled()
  print("back", nodes(t), gen())
  -- Scopes that end in the wrong order.
  local a = coroutine.wrap(function() arena(function() local t = make(4) coroutine.yield() print("a", nodes(t)) end) return "a ended" end)
  local b = coroutine.wrap(function() arena(function() local t = make(4) a() coroutine.yield() print("b", nodes(t)) end) return "b ended" end)
  b()
  churn()
  print(a())
  churn()
  print(b())
  -- Never resumed, closed, failed.
  for i = 1, 10 do coroutine.wrap(function() arena(function() local t = make(4) coroutine.yield() end) end)() end
  settled()
  local c = coroutine.create(function() arena(function() local x <close> = setmetatable({}, { __close = function() print "closed" end }) coroutine.yield(make(3)) end) end)
  coroutine.resume(c)
  print("close", coroutine.close(c))
  local e = coroutine.create(function() arena(function() error(make(3)) end) end)
  local ok, err = coroutine.resume(e)
  churn()
  print("failed", ok, nodes(err))
  local w = coroutine.wrap(function() return arena(function() return pcall(function() return coroutine.yield(make(2)) end) end) end)
  local first = w()
  print("pcall", nodes(first), w(make(1)))
end

-- Natives that call back.
do
  local list = {}
  for i = 1, 30 do list[i] = { n = (i * 17) % 31 } end
  table.sort(list, function(a, b) return arena(function() make(2) return a.n < b.n end) end)
  local ok = true
  for i = 2, 30 do ok = ok and list[i - 1].n <= list[i].n end
  print("sort", ok)
  print("gsub", (("a b c"):gsub("%a", function(x) return arena(function() make(3) return x .. x end) end)))
  local mt = { __index = function(t, k) return arena(function() make(3) return "made " .. k end) end }
  print("index", setmetatable({}, mt).thing)
end

-- Collections inside dissolve, and do no harm.
do
  print("collect", nodes(arena(function() local t = make(6) collectgarbage() make(6) return t end)))
  print("step", nodes(arena(function() local t = make(6) for i = 1, 20 do collectgarbage("step", 1) end return t end)))
  local t = arena(function() local t = make(4) arena(function() collectgarbage() t.x = make(3) end) churn() return t end)
  print("inner", nodes(settled(t)), nodes(t.x))
  -- While a major collection is under way.
  local old = make(12)
  for i = 1, 50 do
    collectgarbage("step", 0)
    arena(function() old[3] = make(4) old[1][3] = old[3] make(7) end)
    old[2][3] = old[1][3]
  end
  settled()
  print("major", nodes(old), nodes(old[2][3]))
  collectgarbage "incremental"
  print("incremental", nodes(arena(function() make(10) return make(3) end)))
  collectgarbage "generational"
  collectgarbage "stop"
  local g = coroutine.wrap(function() arena(function() local t = make(3) coroutine.yield() end) end)
  g() arena(function() make(3) end)
  collectgarbage "restart"
  settled()
  print("stopped", g())
end

-- Other things with parts outside the heap.
do
  arena(function() for i = 1, 20 do local f = io.tmpfile() f:write("x") end end)
  local shared = arena(function() return pl.share { a = { b = "text" .. 1 } } end)
  settled()
  print("shared", shared.a.b, arena(function() return shared.a.b .. "!" end))
  local ch = pl.channel.new(4)
  arena(function() ch:send { make(3) } end)
  settled()
  print("channel", nodes(ch:recv()[1]))
  print("domain", pl.domain.spawn(function() return pl.arena(function() return { 1, 2 } end)[2] end):join())
  print("array", arena(function() local a = pl.array("f64", 1000) a[1] = 5 return a end)[1])
  local got
  arena(function() pl.after(0.001, function() got = make(3) end) repeat pl.sleep(0.005) make(4) until got end)
  settled()
  print("timer", got and nodes(got))
end

-- A long run at random, compared with the same without arenas.
do
  local seed = 42
  local function random(n) seed = (seed * 1103515245 + 12345) % 2147483648 return seed // 65536 % n + 1 end
  local function play(scope)
    seed = 42
    local slots = {}
    for i = 1, 8 do slots[i] = { v = i } end
    local function act(depth)
      for _ = 1, random(12) do
        local a, b, what = random(8), random(8), random(12)
        if what <= 4 then slots[a] = { v = slots[b].v * 7 % 1009, slots[b] }
        elseif what <= 6 then slots[a][random(4)] = slots[b]
        elseif what == 7 then slots[a]["k" .. random(20)] = { v = random(100) }
        elseif what == 8 then local x = slots[a]["k" .. random(20)] if x then slots[b] = x end
        elseif what == 9 then local x = slots[a][random(4)] if x then slots[b] = x end
        elseif what == 10 then slots[a] = { v = a }
        elseif depth < 6 then
          local r = scope(function() make(3) local t = { v = random(50) } act(depth + 1) return t end)
          slots[a][1] = r
        end
      end
    end
    local sum = 0
    for round = 1, 400 do
      act(0)
      for i = 1, 8 do
        local x, n = slots[i], 0
        while x and n < 20 do sum, x, n = (sum * 31 + x.v) % 1000003, x[1 + n % 4], n + 1 end
      end
    end
    return sum
  end
  print("random", play(function(f) return f() end) == play(arena))
end
