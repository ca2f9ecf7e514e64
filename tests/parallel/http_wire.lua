-- The wire of HTTP, case by case: what a server must take, what it must refuse, what it must never take for a second request. Each case is sent whole, cut in two at many places, and
-- byte by byte; what comes back must be the same. The answer is told as its statuses, in order, and whether the connection was closed by the server.
-- stress: no
local pl = require "perilune"
local net = require "perilune.net"
local http = require "perilune.http"

local handled = {}
local srv = http.server {
  on_error = function(text) print("reported", (text:gsub("\n.*", ""))) end,
  header_bytes = 2000, header_fields = 20, body_limit = 1000,
}
srv:use(function(req, next)
  handled[#handled + 1] = req.method .. " " .. req.path
  return next(req)
end)
srv:get("/", function() return "root" end)
srv:get("/secret", function() return "secret" end)
srv:post("/", function(req)
  local text, message = req:text()
  return text and "<" .. text .. ">" or { status = 400, body = message }
end)
srv:any("/any/*rest", function(req) return req.params.rest end)
srv:get("/pieces", function()
  local left = 3
  return { body = function() left = left - 1 return left >= 0 and "piece" or nil end }
end)

local GET = "GET / HTTP/1.1\r\nHost: h\r\n"
local POST = "POST / HTTP/1.1\r\nHost: h\r\n"
local CHUNKED = POST .. "Transfer-Encoding: chunked\r\n\r\n"
-- What an attacker hides behind a body that two programs measure differently.
local HIDDEN = "GET /secret HTTP/1.1\r\nHost: h\r\n\r\n"

-- { name, bytes, statuses }: 'close' at the end if the server closes although the client has not.
local CASES = {
  "-- request lines",
  { "a request", GET .. "\r\n", "200" },
  { "an empty line before it", "\r\n" .. GET .. "\r\n", "200" },
  { "LF alone before it", "\n" .. GET .. "\r\n", "400 close" },
  { "no method", " / HTTP/1.1\r\nHost: h\r\n\r\n", "400 close" },
  { "a method in small letters is another method", "get / HTTP/1.1\r\nHost: h\r\n\r\n", "405" },
  { "an unknown method", "BREW / HTTP/1.1\r\nHost: h\r\n\r\n", "405" },
  { "an unknown method that a route takes", "BREW /any/tea HTTP/1.1\r\nHost: h\r\n\r\n", "200" },
  { "a method with a bracket", "G[T / HTTP/1.1\r\nHost: h\r\n\r\n", "400 close" },
  { "a method with a zero byte", "G\0T / HTTP/1.1\r\nHost: h\r\n\r\n", "400 close" },
  { "two spaces", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", "400 close" },
  { "a tab", "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", "400 close" },
  { "a space at the end", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n", "400 close" },
  { "no version", "GET /\r\nHost: h\r\n\r\n", "400 close" },
  { "version 0.9", "GET / HTTP/0.9\r\nHost: h\r\n\r\n", "505 close" },
  { "version 1.2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n", "505 close" },
  { "version 2.0", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", "505 close" },
  { "version 11", "GET / HTTP/11\r\nHost: h\r\n\r\n", "505 close" },
  { "version in small letters", "GET / http/1.1\r\nHost: h\r\n\r\n", "400 close" },
  { "HTTP/2's beginning", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505 close" },
  { "a TLS client", "\22\3\1\0\5hello\r\n\r\n", "400 close" },
  { "a carriage return within", "GET /\rx HTTP/1.1\r\nHost: h\r\n\r\n", "400 close" },
  { "bytes above 127 in a target", "GET /\195\164 HTTP/1.1\r\nHost: h\r\n\r\n", "400 close" },
  { "a fragment", "GET /#x HTTP/1.1\r\nHost: h\r\n\r\n", "400 close" },
  { "an absolute target", "GET http://elsewhere/ HTTP/1.1\r\nHost: h\r\n\r\n", "200" },
  { "a user in a target", "GET http://u@h/ HTTP/1.1\r\nHost: h\r\n\r\n", "400 close" },
  { "a bad escape", "GET /any/%4 HTTP/1.1\r\nHost: h\r\n\r\n", "400" },
  { "asterisk for GET", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", "400 close" },
  { "asterisk for OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "204" },
  { "CONNECT", "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n", "404" },
  "-- fields",
  { "no Host", "GET / HTTP/1.1\r\n\r\n", "400 close" },
  { "no Host in 1.0", "GET / HTTP/1.0\r\n\r\n", "200 close" },
  { "two Hosts", GET .. "Host: h\r\n\r\n", "400 close" },
  { "a list as Host", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "400 close" },
  { "a path in Host", "GET / HTTP/1.1\r\nHost: h/x\r\n\r\n", "400 close" },
  { "an empty Host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "200" },
  { "spaces around a value", "GET / HTTP/1.1\r\nHost: \t h \t\r\n\r\n", "200" },
  { "bytes above 127 in a value", GET .. "A: \195\164\r\n\r\n", "200" },
  { "a space before the colon", GET .. "A : x\r\n\r\n", "400 close" },
  { "a tab before the colon", GET .. "A\t: x\r\n\r\n", "400 close" },
  { "a space before the name", GET .. " A: x\r\n\r\n", "400 close" },
  { "a folded value", GET .. "A: x\r\n  y\r\n\r\n", "400 close" },
  { "a folded value that hides a length", POST .. "A: x\r\n\tContent-Length: 5\r\n\r\nhello", "400 close" },
  { "no colon", GET .. "A\r\n\r\n", "400 close" },
  { "no name", GET .. ": x\r\n\r\n", "400 close" },
  { "a bracket in a name", GET .. "A(: x\r\n\r\n", "400 close" },
  { "a byte above 127 in a name", GET .. "\195\132: x\r\n\r\n", "400 close" },
  { "a zero byte in a value", GET .. "A: \0\r\n\r\n", "400 close" },
  { "an escape character in a value", GET .. "A: \27[2J\r\n\r\n", "400 close" },
  { "LF alone behind a field", GET .. "A: x\n\r\n", "400 close" },
  { "LF alone behind the head", GET .. "\n", "400 close" },
  { "CR alone behind a field", GET .. "A: x\rB: y\r\n\r\n", "400 close" },
  { "CR CR LF", GET .. "A: x\r\r\n\r\n", "400 close" },
  { "20 fields", GET .. ("a: 1\r\n"):rep(19) .. "\r\n", "200" },
  { "21 fields", GET .. ("a: 1\r\n"):rep(20) .. "\r\n", "431 close" },
  { "a field of 3000 bytes", GET .. "A: " .. ("x"):rep(3000) .. "\r\n\r\n", "431 close" },
  { "a target of 3000 bytes", "GET /" .. ("x"):rep(3000) .. " HTTP/1.1\r\nHost: h\r\n\r\n", "414 close" },
  { "an unknown expectation", GET .. "Expect: x\r\n\r\n", "417 close" },
  { "the end is asked for", GET .. "Connection: close\r\n\r\n" .. HIDDEN, "200 close" },
  { "the end, in a list", GET .. "Connection: x, CLOSE\r\n\r\n" .. HIDDEN, "200 close" },
  { "1.0 may ask to go on", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" .. HIDDEN, "200 200" },
  "-- lengths",
  { "a body", POST .. "Content-Length: 5\r\n\r\nhello", "200" },
  { "a body, and a request", POST .. "Content-Length: 5\r\n\r\nhello" .. GET .. "\r\n", "200 200" },
  { "none", POST .. "Content-Length: 0\r\n\r\n" .. GET .. "\r\n", "200 200" },
  { "nothing is said: no body", POST .. "\r\n" .. GET .. "\r\n", "200 200" },
  { "a body of GET", GET .. "Content-Length: 2\r\n\r\nxx" .. GET .. "\r\n", "200 200" },
  { "zeros before", POST .. "Content-Length: 005\r\n\r\nhello", "200" },
  { "two lengths", POST .. "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", "400 close" },
  { "the same length twice", POST .. "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "400 close" },
  { "a list of lengths", POST .. "Content-Length: 5, 5\r\n\r\nhello", "400 close" },
  { "a sign", POST .. "Content-Length: +5\r\n\r\nhello", "400 close" },
  { "negative", POST .. "Content-Length: -1\r\n\r\n" .. HIDDEN, "400 close" },
  { "hexadecimal", POST .. "Content-Length: 0x5\r\n\r\nhello", "400 close" },
  { "a fraction", POST .. "Content-Length: 5.0\r\n\r\nhello", "400 close" },
  { "an underline", POST .. "Content-Length: 1_0\r\n\r\nhello", "400 close" },
  { "empty", POST .. "Content-Length:\r\n\r\nhello", "400 close" },
  { "words", POST .. "Content-Length: five\r\n\r\nhello", "400 close" },
  { "2^64 + 5", POST .. "Content-Length: 18446744073709551621\r\n\r\nhello", "400 close" },
  { "2^63", POST .. "Content-Length: 9223372036854775808\r\n\r\nhello", "413 close" },
  { "more than is taken", POST .. "Content-Length: 1001\r\n\r\n" .. ("x"):rep(1001) .. HIDDEN, "413 close" },
  "-- two ways to say where a body ends",
  { "CL and TE", POST .. "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "TE and CL", POST .. "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "TE twice", POST .. "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "TE twice, one of them nothing", POST .. "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "TE with a space before the colon", POST .. "Content-Length: 4\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "TE with a tab in its value", POST .. "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" .. GET .. "\r\n", "200 200" },
  { "TE with a vertical tab", POST .. "Transfer-Encoding: \11chunked\r\n\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "TE in capitals", POST .. "TRANSFER-ENCODING: CHUNKED\r\n\r\n0\r\n\r\n" .. GET .. "\r\n", "200 200" },
  { "TE xchunked", POST .. "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" .. HIDDEN, "501 close" },
  { "TE 'chunked'", POST .. "Transfer-Encoding: 'chunked'\r\n\r\n0\r\n\r\n" .. HIDDEN, "501 close" },
  { "TE gzip, chunked", POST .. "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" .. HIDDEN, "501 close" },
  { "TE chunked, identity", POST .. "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" .. HIDDEN, "501 close" },
  { "TE in 1.0", "POST / HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "TE behind a folded line", POST .. "A: x\r\n Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "TE behind LF alone", POST .. "A: x\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  "-- chunks",
  { "one", CHUNKED .. "5\r\nhello\r\n0\r\n\r\n" .. GET .. "\r\n", "200 200" },
  { "capitals and zeros", CHUNKED .. "00A\r\n0123456789\r\n000\r\n\r\n" .. GET .. "\r\n", "200 200" },
  { "extensions", CHUNKED .. "5;a=b;c=\"d\"\r\nhello\r\n0;x\r\n\r\n" .. GET .. "\r\n", "200 200" },
  { "trailers", CHUNKED .. "5\r\nhello\r\n0\r\nA: x\r\nContent-Length: 7\r\n\r\n" .. GET .. "\r\n", "200 200" },
  { "none", CHUNKED .. "0\r\n\r\n" .. GET .. "\r\n", "200 200" },
  { "no size", CHUNKED .. "\r\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "0x", CHUNKED .. "0x5\r\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "a sign", CHUNKED .. "+5\r\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "negative", CHUNKED .. "-1\r\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "a space before", CHUNKED .. " 5\r\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "a space behind", CHUNKED .. "5 \r\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "an underline", CHUNKED .. "1_0\r\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "a letter", CHUNKED .. "g\r\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "2^64 + 5", CHUNKED .. "10000000000000005\r\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "LF alone behind a size", CHUNKED .. "5\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "LF alone behind data", CHUNKED .. "5\r\nhello\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "CR alone behind a size", CHUNKED .. "5\rhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "longer than it says", CHUNKED .. "5\r\nhello!\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "shorter than it says", CHUNKED .. "6\r\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "LF alone in an extension", CHUNKED .. "5;a\nb\r\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "LF alone at the end", CHUNKED .. "5\r\nhello\r\n0\r\n\n" .. HIDDEN, "400 close" },
  { "a long extension", CHUNKED .. "5;" .. ("a"):rep(20000) .. "\r\nhello\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  { "trailers without end", CHUNKED .. "0\r\n" .. ("A: x\r\n"):rep(5000), "400 close" },
  { "more than is taken", CHUNKED .. "3e9\r\n" .. ("x"):rep(1001) .. "\r\n0\r\n\r\n" .. HIDDEN, "400 close" },
  "-- in order",
  { "four at once", GET .. "\r\nPOST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx" .. CHUNKED .. "1\r\ny\r\n0\r\n\r\nGET /nowhere HTTP/1.1\r\nHost: h\r\n\r\n", "200 200 200 404" },
  { "HEAD between", "HEAD / HTTP/1.1\r\nHost: h\r\n\r\nHEAD /pieces HTTP/1.1\r\nHost: h\r\n\r\nHEAD /nowhere HTTP/1.1\r\nHost: h\r\n\r\n" .. GET .. "\r\n", "200 200 404 200" },
  { "pieces between", "GET /pieces HTTP/1.1\r\nHost: h\r\n\r\n" .. GET .. "\r\n", "200 200" },
  { "nothing behind a refusal", GET .. "\r\n" .. GET .. "A : x\r\n\r\n" .. HIDDEN, "200 400 close" },
  { "100-continue", POST .. "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello" .. GET .. "\r\n", "100 200 200" },
}

-- The statuses of what has come, in order. Where a response ends is worked out by rules of this test's own.
local function statuses(text, heads)
  local found, at, n = {}, 1, 0
  while at <= #text do
    local status, from = text:match("^HTTP/1%.1 (%d%d%d) [^\r\n]*\r\n\r\n()", at)
    local head = ""
    if not status then status, head, from = text:match("^HTTP/1%.1 (%d%d%d) [^\r\n]*\r\n(.-\r\n)\r\n()", at) end
    if not status then found[#found + 1] = "GARBAGE" break end
    found[#found + 1] = status
    at = from
    if status ~= "100" then
      n = n + 1
      local length = head:match "content%-length: (%d+)"
      if heads[n] then -- no body
      elseif length then
        at = at + length
      elseif head:find "transfer%-encoding: chunked" then
        at = text:match("\r\n0\r\n\r\n()", at) or #text + 1
      end
    end
  end
  return found
end

local address

-- What comes back, and whether the server has ended the stream although the client has not.
local function exchange(pieces, count)
  local c = assert(net.connect(address))
  c:set { read_timeout = 20, write_timeout = 20 }
  for _, piece in ipairs(pieces) do
    -- A server that has refused does not read: what fails here is seen below.
    if not (c:write(piece) and c:flush()) then break end
    pl.yield()
  end
  local text, closed = "", false
  while true do
    local found = statuses(text, count.heads)
    if #found >= count.n and not count.closes then break end
    local piece = c:read()
    if not piece then closed = true break end
    text = text .. piece
  end
  if not closed then
    -- Nothing is in the server that would be an answer too many.
    c:close_write()
    text = text .. (c:read_all() or "")
  end
  c:close()
  local found = statuses(text, count.heads)
  if closed then found[#found + 1] = "close" end
  return table.concat(found, " ")
end

local function heads_of(bytes)
  local heads, n = {}, 0
  for method in bytes:gmatch "(%u+) %S+ HTTP/1.1\r\nHost" do
    n = n + 1
    heads[n] = method == "HEAD"
  end
  return heads
end

pl.scope(function(scope)
  local l = assert(srv:listen "127.0.0.1:0")
  address = l:endpoint()
  local wrong = 0
  for _, case in ipairs(CASES) do
    if type(case) == "string" then print(case)
    else
      local name, bytes, want = case[1], case[2], case[3]
      handled = {}
      local count = { n = select(2, want:gsub("%d+", "")), closes = want:find "close" ~= nil, heads = heads_of(bytes) }
      local got = exchange({ bytes }, count)
      print(name, got == want and got or "GOT " .. got .. " WANTED " .. want)
      -- in two, at each of the places that matter most: the beginning, the end, and some between
      local step = math.max(1, #bytes // 24)
      for at = 1, math.min(#bytes - 1, 2000), step do
        local got = exchange({ bytes:sub(1, at), bytes:sub(at + 1) }, count)
        if got ~= want then wrong = wrong + 1 print("  cut at " .. at, got) end
      end
      if #bytes < 400 then
        local pieces = {}
        for n = 1, #bytes do pieces[n] = bytes:sub(n, n) end
        local got = exchange(pieces, count)
        if got ~= want then wrong = wrong + 1 print("  byte by byte", got) end
      end
      -- Only HTTP/1.0 that asks to go on is followed by another request here.
      if want ~= "200 200" and table.concat(handled, "\n"):find "/secret" then print "  THE HIDDEN REQUEST WAS HANDLED" end
    end
  end
  print("wrong in pieces", wrong)
  print(http.get("http://" .. address .. "/").body, l:close(5))
end)
