-- Tracebacks show the program's functions, and of the library what the program calls: none of its own files, whoever takes the traceback.
local pl = require "perilune"
local net = require "perilune.net"
local http = require "perilune.http"
local rpc = require "perilune.rpc"
local function deep() error "oops" end
local function show(what, text) print(("--- %s\n%s"):format(what, (tostring(text):gsub("127%.0%.0%.1:%d+", "SERVER"):gsub("fiber %d+", "a fiber"):gsub("'(%w+)/%d'", "'%1'")))) end
local function failure(what, ...) show(what, select(2, pcall(...))) end

pl.scope(function(s)
  local l = net.listen("127.0.0.1:0")
  s:spawn(function()
    return l:serve(function(c) c:read_line() deep() end, { on_error = function(text) show("net", text) end })
  end)
  for _ = 1, 5 do pl.yield() end
  local c = net.connect(l:endpoint())
  c:write "\n"
  print(c:read_line() == nil)
  l:close()

  local srv = http.server { on_error = function(text) show("http", text) end }
  srv:use(function(req, next)
    local res = next(req)
    return res
  end)
  srv:get("/", function() deep() end)
  l = srv:listen("127.0.0.1:0")
  print(http.get("http://" .. l:endpoint() .. "/").status)
  l:close(0)

  l = net.listen("127.0.0.1:0")
  rpc.serve(l, { f = function() deep() end, g = function() return function() deep() end end })
  c = rpc.connect(l:endpoint())
  failure("rpc", c.f, c)
  failure("rpc stream", function() for _ in c:stream "g" do end end)
  l:close()
end)

failure("scope", pl.scope, function(s) s:spawn(function() deep() end) end)
failure("timeout in a scope", pl.scope, function() pl.timeout(10, function() deep() end) end)
failure("each", pl.each, { 1 }, function() deep() end)
failure("all", pl.all, { function() deep() end })
local pool = pl.pool.new { workers = 1 }
failure("loop", function() pool:parallel_for(1, 1, function() deep() end) end)
failure("map", function() pool:map({ 1 }, function() deep() end) end)
failure("reduce", function() pool:parallel_reduce(1, 1, 0, function() deep() end, function() return 0 end) end)
failure("task", function() pool:async(function() deep() end):await() end)

-- In the midst of a stack, and by the program itself: what is called looks like a native function.
show("a handler", select(2, xpcall(function() pl.scope(deep, 1) end, debug.traceback)))
show("inside", pl.scope(function() return debug.traceback("here") end))
local co = coroutine.create(function() pl.timeout(1, function() return coroutine.isyieldable() end) error "oops" end)
coroutine.resume(co)
show("a coroutine", debug.traceback(co))
show("a level", select(2, xpcall(function() pl.scope(5) end, function(text) return debug.traceback(text, 2) end)))
