-- What a server refuses, byte for byte on raw sockets; and what it takes: pipelining, keep-alive, chunks, HEAD, 100-continue.
-- stress: no
local pl = require "perilune"
local net = require "perilune.net"
local http = require "perilune.http"

local reported = {}
local srv = http.server {
  on_error = function(text, req) reported[#reported + 1] = (text:gsub("\n.*", "")) end,
  header_bytes = 500, header_fields = 5, body_limit = 100,
}
srv:get("/", function() return "root" end)
srv:get("/hi/:name", function(req) return "hi " .. req.params.name end)
srv:post("/echo", function(req)
  local text, message, code = req:text()
  if not text then return { status = 400, body = code .. ": " .. message } end
  return { body = "[" .. text .. "]" }
end)
srv:post("/ignore", function() return "ignored" end)
srv:post("/large", function(req) return tostring(#req:text()) end, { body_limit = 1000 })
srv:get("/pieces", function()
  local n = 0
  return { body = function() n = n + 1 if n <= 3 then return ("p"):rep(n) end end }
end)
srv:get("/counted", function()
  return { headers = { ["content-length"] = 4 }, stream = function(out) out:write("ab") out:write("cd") end }
end)
srv:get("/short", function()
  return { headers = { ["content-length"] = 4 }, stream = function(out) out:write("ab") end }
end)
srv:get("/long", function()
  return { headers = { ["content-length"] = 4 }, stream = function(out) out:write("abcdef") end }
end)
srv:get("/late", function()
  return { stream = function(out) out:write("begun") error "too late for a 500" end }
end)
srv:get("/split", function() return { headers = { x = "a\r\nset-cookie: evil" }, body = "x" } end)
srv:get("/splitname", function() return { headers = { ["a: b\r\nc"] = "x" }, body = "x" } end)
srv:get("/te", function() return { headers = { ["transfer-encoding"] = "chunked" }, body = "x" } end)
srv:get("/cl", function() return { headers = { ["content-length"] = 9 }, body = "x" } end)
srv:get("/nothing", function() end)
srv:get("/empty", function() return { status = 204 } end)
srv:get("/fails", function() error { status = 403, body = "no" } end)

local function tidy(text)
  return (text:gsub("date: [^\r]*\r\n", ""):gsub("content%-type: text/plain; charset=utf%-8\r\n", "")
    :gsub("\r\n", "~"):gsub("\n", "|"))
end

-- Sends this, ends the stream, prints all that comes.
local address
local function raw(text, stay)
  local c = assert(net.connect(address))
  c:set { read_timeout = 10 }
  c:write(text)
  c:flush()
  if not stay then c:close_write() end
  local all, message, code = c:read_all()
  c:close()
  return all and tidy(all) or code
end

pl.scope(function()
  local l = assert(srv:listen "127.0.0.1:0")
  address = l:endpoint()

  print "-- taken"
  for _, text in ipairs {
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n",
    "\r\nGET http://other/hi/a%20b%2Fc?x HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n",
    "DELETE /echo HTTP/1.1\r\nHost: h\r\n\r\n",
    "OPTIONS / HTTP/1.1\r\nHost: h\r\n\r\n",
    -- pipelined, in order
    "GET /hi/1 HTTP/1.1\r\nHost: h\r\n\r\nGET /hi/2 HTTP/1.1\r\nHost: h\r\n\r\nPOST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabcGET /hi/3 HTTP/1.1\r\nHost: h\r\n\r\n",
    -- chunks, with extensions and trailers, and a request behind
    "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n02\r\nde\r\n0\r\nT: v\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    -- a body that nobody reads
    "POST /ignore HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12345GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST /ignore HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /pieces HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /pieces HTTP/1.0\r\n\r\n",
    "HEAD /pieces HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /counted HTTP/1.1\r\nHost: h\r\n\r\n",
    "HEAD /counted HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /empty HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /fails HTTP/1.1\r\nHost: h\r\n\r\n",
  } do print(raw(text)) end

  print "-- refused"
  for _, text in ipairs {
    "GET / HTTP/1.1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET / HTTP/1.1\nHost: h\n\n",
    "GET / HTTP/1.1\r\nHost: h\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\n folded: x\r\n\r\n",
    "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nA: \0\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nA: x\ry\r\n\r\n",
    "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET / HTTP/2.0\r\nHost: h\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3, 3\r\n\r\nabc",
    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: -3\r\n\r\nabc",
    "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1 \r\nx\r\n0\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n",
    "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxy\r\n0\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n" .. ("x"):rep(101),
    "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n" .. ("x"):rep(101) .. "\r\n0\r\n\r\n",
    "POST /large HTTP/1.1\r\nHost: h\r\nContent-Length: 101\r\n\r\n" .. ("x"):rep(101),
    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc",
    "GET /" .. ("x"):rep(600) .. " HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nA: " .. ("x"):rep(600) .. "\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\na:1\r\nb:1\r\nc:1\r\nd:1\r\ne:1\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\n\r\n",
    "\22\3\1\2\0",
    "SSH-2.0-x\r\n",
    -- nothing behind a refusal is looked at
    "GET / HTTP/1.1\r\nHost : h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
  } do print(raw(text)) end

  print "-- what handlers do wrong"
  for _, path in ipairs { "/split", "/splitname", "/te", "/cl", "/nothing", "/short", "/long", "/late" } do
    print(path, raw("GET " .. path .. " HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"))
  end
  for _, text in ipairs(reported) do print(text) end

  print "-- 100-continue"
  local c = net.connect(address)
  c:write("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
  print(tidy(c:read_until("\r\n\r\n")))
  c:write("abc")
  print(tidy(c:read_until("]")))
  -- a handler that wants no body: no continue, and the connection ends
  c:write("POST /ignore HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
  print(tidy(c:read_all()))
  c:close()

  print "-- byte by byte"
  local c = net.connect(address)
  for ch in ("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"):gmatch "." do
    c:write(ch) c:flush() pl.yield()
  end
  print(tidy(c:read_until("]")))
  c:close()

  print "-- and it still serves"
  print(raw("GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", true))
  print(l:close(5))
end)
