-- Each refusal says what to write instead. Here it is written, and it works.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }

-- Runs a program that is refused, looks for the remedy in the message, and runs the one in which it has been typed in.
local function remedy(what, refused, says, instead)
  local env = setmetatable({ pl = pl, pool = pool }, { __index = _G })
  local function run(text)
    return pcall(assert(load("local pl, pool = ... " .. text, "=program")), pl, pool)
  end
  local ok, e = run(refused)
  assert(not ok, what)
  e = tostring(e)
  assert(e:find(says, 1, true), what .. ": " .. e)
  assert(not e:find("argument 1", 1, true) and not e:find("partials", 1, true) and not e:match "^perilune:", e)
  local results = table.pack(run(instead))
  print(what, table.unpack(results, 1, results.n))
end

remedy("a variable that is assigned later",
  "local n = 1 while n < 3 do pool:async(function() return n end):await() n = n + 1 end",
  "Write 'local m = n' before the function and capture m",
  "local n, r = 1, {} while n < 3 do local m = n r[n] = pool:async(function() return m end):await() n = n + 1 end return r[1], r[2]")
remedy("a variable that the function assigns",
  "local n = 1 pool:parallel_for(1, 3, function(i) n = n + i end)",
  "Pass its value as an argument and return the new one",
  "local n = 1 n = pool:async(function(n) n = n + 5 return n end, n):await() return n")
remedy("the same with an atomic",
  "local n = 1 pool:parallel_for(1, 3, function(i) n = n + i end)",
  "or use pl.atomic",
  "local n = pl.atomic(1) pool:parallel_for(1, 3, function(i) n:add(i) end) return n:load()")
remedy("a variable without a value yet",
  "local f pool:async(function() return f() end):await() f = function() return 1 end",
  "Let the function cross after it",
  "local f f = function() return 1 end return pool:async(function() return f() end):await()")
remedy("results of a loop",
  "local r = {} pool:parallel_for(1, 3, function(i) r[i] = i * i end)",
  "Let pool:map or pool:parallel_reduce collect what the function returns",
  "local r = pool:map({ 1, 2, 3 }, function(i) return i * i end) return r[1], r[2], r[3]")
remedy("results of a loop, reduced",
  "local r = {} pool:parallel_for(1, 3, function(i) table.insert(r, i) end)",
  "pool:parallel_reduce",
  "return pool:parallel_reduce(1, 3, 0, function(i) return i end, function(a, b) return a + b end)")
remedy("results of a loop, in an array",
  "local r = {} pool:parallel_for(1, 3, function(i) r[i] = i * i end)",
  "or use pl.array or pl.map",
  "local r = pl.array('i64', 3) pool:parallel_for(1, 3, function(i) r[i] = i * i end) return r[1], r[2], r[3]")
remedy("results of a loop, in a map",
  "local r = {} pool:parallel_for(1, 3, function(i) r['k' .. i] = i end)",
  "or use pl.array or pl.map",
  "local r = pl.map() pool:parallel_for(1, 3, function(i) r:set('k' .. i, i) end) return r:get 'k3'")
remedy("a table that a task changes",
  "local t = { n = 1 } pool:async(function() t.n = 2 end):await()",
  "Pass t as an argument to get a copy to write to, and return that",
  "local t = { n = 1 } t = pool:async(function(t) t.n = 2 return t end, t):await() return t.n")
remedy("a global table that a task changes",
  "list = { 1 } pool:async(function() table.insert(list, 2) end):await()",
  "Pass list as an argument to get a copy to write to, and return that",
  "list = { 1 } list = pool:async(function(list) table.insert(list, 2) return list end, list):await() return #list")
remedy("through another name",
  "local t = { n = 1 } pool:async(function() local u = t u.n = 2 end):await()",
  "Pass t as an argument to get a copy to write to, and return that",
  "local t = { n = 1 } t = pool:async(function(t) local u = t u.n = 2 return t end, t):await() return t.n")
remedy("a channel",
  "local t = {} pool:async(function() t[1] = 'found' end):await()",
  "or a channel",
  "local c = pl.channel.new(1) pool:async(function() c:send 'found' end):await() return c:recv()")
remedy("a variable behind a table",
  "local n, m = 0, {} m.count = function() n = n + 1 end pool:async(function(k) m[k]() end, 'count'):await()",
  "Pass its value as an argument and return the new one",
  "local n, m = 0, {} m.count = function(n) return n + 1 end n = pool:async(function(k, n) return m[k](n) end, 'count', n):await() return n")
remedy("a coroutine",
  "local co = coroutine.wrap(function() coroutine.yield(1) end) pool:async(function() return co() end):await()",
  "Send the function inside, and wrap it over there",
  "local f = function() coroutine.yield(1) end return pool:async(function() return coroutine.wrap(f)() end):await()")
remedy("an instance with a finaliser",
  "local h = setmetatable({ n = 1 }, { __gc = function() end }) pool:async(function() return h[1] end):await()",
  "or send what it holds",
  "local h = setmetatable({ n = 1 }, { __gc = function() end }) return pool:async(function(n) return n end, h.n):await()")
remedy("a file",
  "local f = io.tmpfile() local t = setmetatable({}, { __index = f }) pool:map({ coroutine.create(print) }, function(x) return x end)",
  "make the coroutine over there",
  "return pool:map({ print }, function(x) return coroutine.status(coroutine.create(x)) end)[1]")
remedy("what combines results",
  "local s = {} pool:parallel_reduce(1, 3, 0, function(i) return i end, function(a, b) s[#s + 1] = b return a + b end)",
  "pool:map or pool:parallel_reduce",
  "return pool:parallel_reduce(1, 3, 0, function(i) return i end, function(a, b) return a + b end)")
pool:close()
