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
remedy("a cache",
  "local memo = {} local function f(n) memo[n] = memo[n] or n * n return memo[n] end pool:async(f, 3):await()",
  "or pl.per_domain for a cache in each domain",
  "local memo = pl.per_domain(function() return {} end) "
  .. "local function f(n) local memo = memo:get() memo[n] = memo[n] or n * n return memo[n] end return pool:async(f, 3):await()")
remedy("a variable behind a table",
  "local n, m = 0, {} m.count = function() n = n + 1 end pool:async(function(k) m[k]() end, 'count'):await()",
  "Pass its value as an argument and return the new one",
  "local n, m = 0, {} m.count = function(n) return n + 1 end n = pool:async(function(k, n) return m[k](n) end, 'count', n):await() return n")
package.preload["remedied"] = function() return { opts = { n = 1 }, deep = { er = { n = 1 } } } end
local into_module = "local conf = require 'remedied' conf.opts.t, conf.list = { 1 }, { 2 } "
remedy("a table that the program has put into a module",
  into_module .. "pool:async(function() conf.opts.t[1] = 5 end):await()",
  "Pass conf.opts.t as an argument to get a copy to write to, and return that",
  into_module .. "conf.opts.t = pool:async(function(t) t[1] = 5 return t end, conf.opts.t):await() return conf.opts.t[1]")
remedy("a table in a field of a module",
  "conf = require 'remedied' conf.list = { 2 } pool:async(function() table.insert(conf.list, 5) end):await()",
  "Pass conf.list as an argument to get a copy to write to, and return that",
  "conf = require 'remedied' conf.list = pool:async(function(list) table.insert(list, 5) return list end, conf.list):await() return #conf.list")
remedy("a coroutine in a table of a module",
  "local conf = require 'remedied' conf.opts.co = coroutine.create(print) local ok, e = pcall(pool.async, pool, function() return conf.opts.n end) conf.opts.co = nil error(e, 0)",
  "field 'opts.co' of 'remedied', cannot go to another domain: it is a coroutine",
  "local conf = require 'remedied' conf.opts.co = print return pool:async(function() return conf.opts.co == print end):await()")
print("deep in a module", pool:async(function() local conf = require "remedied" return conf.deep.er.n end):await())
do
  local conf <const> = require "remedied"
  print("stored there", pool:async(function() conf.deep.er.n = conf.deep.er.n + 1 return conf.deep.er.n end):await(), conf.deep.er.n)
end
remedy("a coroutine",
  "local co = coroutine.wrap(function() coroutine.yield(1) end) pool:async(function() return co() end):await()",
  "Send the function inside, and wrap it over there",
  "local f = function() coroutine.yield(1) end return pool:async(function() return coroutine.wrap(f)() end):await()")
remedy("an instance with a finaliser",
  "local h = setmetatable({ n = 1 }, { __gc = function() end }) pool:async(function() return h[1] end):await()",
  "or send what it holds",
  "local h = setmetatable({ n = 1 }, { __gc = function() end }) return pool:async(function(n) return n end, h.n):await()")
remedy("a coroutine in a list",
  "local f = io.tmpfile() local t = setmetatable({}, { __index = f }) pool:map({ coroutine.create(print) }, function(x) return x end)",
  "make the coroutine over there",
  "return pool:map({ print }, function(x) return coroutine.status(coroutine.create(x)) end)[1]")
remedy("what combines results",
  "local s = {} pool:parallel_reduce(1, 3, 0, function(i) return i end, function(a, b) s[#s + 1] = b return a + b end)",
  "pool:map or pool:parallel_reduce",
  "return pool:parallel_reduce(1, 3, 0, function(i) return i end, function(a, b) return a + b end)")
remedy("a native function with a state",
  "local words = ('a b'):gmatch '%a+' pool:async(function() return words() end):await()",
  "Make it in the domain that calls it",
  "local text = 'a b' return pool:async(function() local words = text:gmatch '%a+' return words() end):await()")
remedy("a userdata",
  "pl.scope(function(s) pool:async(function() return s end):await() end)",
  "Make it in the domain that uses it",
  "return pool:async(function() return pl.scope(function(s) return type(s) end) end):await()")
remedy("a userdata, what it holds",
  "local rows = pl.array({ x = 'f64' }, 1) rows[1].x = 5 local row = rows[1] pool:async(function() return row.x end):await()",
  "or send what it holds",
  "local rows = pl.array({ x = 'f64' }, 1) rows[1].x = 5 local x = rows[1].x return pool:async(function() return x end):await()")
remedy("a field of a module that has been removed",
  "local keep = utf8.len utf8.len = nil local ok, e = pcall(pool.async, pool, function() return utf8.len 'x' end) utf8.len = keep error(e, 0)",
  "Leave the field there",
  "return pool:async(function() return utf8.len 'x' end):await()")
remedy("the same with a function of one's own",
  "local keep = utf8.len utf8.len = nil local ok, e = pcall(pool.async, pool, function() return utf8.len 'x' end) utf8.len = keep error(e, 0)",
  "or give the function another one of its own",
  "local len = utf8.len return pool:async(function() return len 'x' end):await()")
remedy("a key of a module that is no string",
  "utf8[1] = 5 local ok, e = pcall(pool.async, pool, function() return utf8[1] end) utf8[1] = nil error(e, 0)",
  "keep it in a table of its own made by pl.share",
  "local mine = pl.share { 5 } return pool:async(function() return mine[1] end):await()")
remedy("a task that assigns a global",
  "pool:async(function() counted = 2 end):await()",
  "Make it a local variable and return it",
  "return pool:async(function() local counted = 2 return counted end):await()")
remedy("a task that assigns a global, with an atomic",
  "pool:async(function() counted = 2 end):await()",
  "or use pl.share, pl.atomic",
  "local counted = pl.atomic(0) pool:async(function() counted:store(2) end):await() return counted:load()")
remedy("what goes into shared data",
  "local m = pl.map() m:set('x', { 1 })",
  "what pl.share returns",
  "local m = pl.map() m:set('x', pl.share { 1 }) return m:get 'x'[1]")
remedy("a coroutine that a map returns",
  "pool:map({ 1 }, function(x) return { x, coroutine.create(print) } end)",
  "what the function returned, field [2], cannot go to another domain: it is a coroutine",
  "return pool:map({ 1 }, function(x) return { x, print } end)[1][2] == print")
remedy("a coroutine that a reduction returns",
  "pool:parallel_reduce(1, 1, 0, function(x) return { co = coroutine.create(print) } end, function(a, b) return b end)",
  "what the function returned, field 'co', cannot go to another domain: it is a coroutine",
  "return pool:parallel_reduce(1, 1, 0, function(x) return { co = print } end, function(a, b) return b end).co == print")
remedy("a coroutine that a scan returns",
  "pool:parallel_scan({ 1, 2 }, function(a, b) return coroutine.create(print) end)",
  "what the function returned cannot go to another domain: it is a coroutine",
  "return pool:parallel_scan({ 1, 2 }, function(a, b) return a + b end)[2]")
remedy("a coroutine that is found",
  "pool:parallel_find(1, 1, function(i) return coroutine.create(print) end)",
  "what the function returned cannot go to another domain: it is a coroutine",
  "return select(2, pool:parallel_find(1, 1, function(i) return print end)) == print")

-- Arguments that are wrong are those of the call that is written, on its line.
for _, text in ipairs {
  "pool:map({ 1 })", "pool:map(nil, print)", "pool:sort(1)", "pool:sort({ 2, 1 }, 1)", "pool:parallel_scan({ 1, 2 })", "pool:parallel_scan(nil, math.max)",
  "pool:parallel_reduce(1, 'x', 0, math.abs, math.max)", "pool:parallel_reduce(1.5, 2, 0, math.abs, math.max)",
  "pool:parallel_reduce(1, 2, 0, math.abs)", "pool:parallel_reduce(1, 2, 0, nil, math.max)",
  "pool:parallel_reduce(1, 2, 0, math.abs, math.max, { chonk = 1 })", "pool:parallel_reduce(1, 2, 0, math.abs, math.max, 7)",
  "pool:parallel_reduce(1, 2, 0, math.abs, math.max, { chunk = 0 })", "pl.trace.span('x', 1)",
} do
  local _, e = pcall(assert(load("local pl, pool = ... " .. text, "=program")), pl, pool)
  print(text, e)
  assert(tostring(e):find("^program:1: bad argument") and not tostring(e):find "partials", e)
end
pool:close()
