-- What others test servers with (h1spec; the parser llhttp), as facts: the bytes of a request, and what may be answered. Beside `http_wire.lua`, whose cases are our own.
-- stress: no
local pl = require "perilune"
local net = require "perilune.net"
local http = require "perilune.http"

local srv = http.server {}
local handled = {}
srv:use(function(req, next)
  handled[#handled + 1] = req.path
  return next(req)
end)
srv:any("/*rest", function(req)
  local text, message = req:text()
  return text and "<" .. text .. ">" or { status = 400, body = message }
end)

local H = "Host: example.com\r\n"
local function get(fields) return "GET / HTTP/1.1\r\n" .. H .. (fields or "") .. "\r\n" end
local function post(fields, body) return "POST / HTTP/1.1\r\n" .. H .. fields .. "\r\n" .. (body or "") end
local function chunked(body) return post("Transfer-Encoding: chunked\r\n", body) end
local EVIL = "GET /evil HTTP/1.1\r\n" .. H .. "\r\n"

-- { what it is, bytes, the lowest and highest status of the answer, and of those behind it if there are some }
local CASES = {
  { "an ordinary request", get(), 200, 299 },
  { "a name in mixed case, a tab before the value, an empty value", "GET / HTTP/1.1\r\nhoSt:\texample.com\r\nempty:\r\n\r\n", 200, 299 },
  { "a value of one space", get "X-Empty: \r\n", 200, 299 },
  { "a body", post("Content-Length: 5\r\n", "hello"), 200, 299 },
  { "an expectation without a body", get "Expect: 100-continue\r\n", 100, 299 },
  { "no version", "GET / \r\n\r\n", 400, 599 },
  { "a version that there will never be", "GET / HTTP/9.9\r\n" .. H .. "\r\n", 400, 599 },
  { "version 5.6", "GET / HTTP/5.6\r\n" .. H .. "\r\n", 400, 599 },
  { "words before the method", "Some words" .. get(), 400, 599 },
  { "brackets in a name", get "X-Name[]: test\r\n", 400, 499 },
  { "no Host, but a length", "GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 400, 499 },
  { "another Host", get "Host: example.org\r\n", 400, 499 },
  { "a length far below zero", get "Content-Length: -123456789123456789123456789\r\n", 400, 499 },
  { "a length below zero", get "Content-Length: -1234\r\n", 400, 499 },
  { "a length in letters", get "Content-Length: abc\r\n", 400, 499 },
  { "a bell in a value", get "X-Bell: test\7\r\n", 400, 499 },
  { "CR before a name", "GET / HTTP/1.1\r\n" .. H .. "\rSome: test\r\n\r\n", 400, 499 },
  { "chunked, and a length", get "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400, 499 },

  { "another protocol", "GET /music ICE/1.0\r\n" .. H .. "\r\n", 400, 599 },
  { "nearly HTTP", "GET /music IHTTP/1.0\r\n" .. H .. "\r\n", 400, 599 },
  { "RTSP", "PUT /music RTSP/1.0\r\n" .. H .. "\r\n", 400, 599 },
  { "LF alone behind the version", "POST / HTTP/1.1\n" .. H .. "\r\n", 400, 499 },
  { "LF alone everywhere", "POST / HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n1\nA\n0\n\n", 400, 499 },
  { "a space behind the request line", "GET / HTTP/1.1\r\n Host: example.com\r\n\r\n", 400, 499 },
  { "fields that CR divides", get "Foo: 1\rBar: 2\r\n", 400, 499 },
  { "fields that LF divides, a coding behind it", post("x:x\nTransfer-Encoding: chunked\r\n", "1\r\nA\r\n0\r\n\r\n"), 400, 499 },
  { "an empty field that CR ends, a coding behind it", post("x:\rTransfer-Encoding: chunked\r\n", "1\r\nA\r\n0\r\n\r\n"), 400, 499 },
  { "an empty field that LF ends, a coding behind it", post("x:\nTransfer-Encoding: chunked\r\n", "1\r\nA\r\n0\r\n\r\n"), 400, 499 },
  { "a second head behind CR and a letter", "GET / HTTP/1.1\r\nConnection: close\r\nHost: a\r\n\rZGET /evil: HTTP/1.1\r\nHost: a\r\n\r\n", 400, 499 },
  { "a length that LF brings in", get("Dummy: x\nContent-Length: 23\r\n") .. EVIL, 400, 499 },
  { "a length behind a space", post(" Content-Length: 38\r\n") .. EVIL, 400, 499 },
  { "an at sign in a name", get "Fo@: x\r\n", 400, 499 },
  { "a control character in a name", get "Foo\1test: x\r\n", 400, 499 },
  { "a name that is folded", get "name\r\n : value\r\n", 400, 499 },
  { "a name that ends in CR and an escape", get "Connection\r\27e\213eep-Alive\r\nAccept-Encoding: gzip\r\n", 400, 499 },
  { "CR in place of a dash", post("Content\rLength: 3\r\n", "abc"), 400, 499 },
  { "a folded value, as it once was allowed", get "Line: abc\r\n\tdef\r\n", 400, 499 },
  { "the byte 255 in a value", get "A: \255x\r\n", 200, 299 },
  { "UTF-8 in a value", get "A: D\195\188sseldorf\r\n", 200, 299 },
  { "a name of letters and a value of signs", get "aaaaaaaaaaaaa:++++++++++\r\n", 200, 299 },
  { "a client of 1.0", "GET /test HTTP/1.0\r\nHost: 0.0.0.0:5000\r\nUser-Agent: x/2.3\r\nAccept: */*\r\n\r\n", 200, 299 },

  { "a length with zeros", post("Content-Length: 003\r\nOhai: world\r\n", "abc"), 200, 299 },
  { "a length with spaces around", post("Content-Length:  3 \r\n", "abc"), 200, 299 },
  { "a length with a space within", post "Content-Length: 4 2\r\n", 400, 499 },
  { "a length with more digits behind a space", post "Content-Length: 13 37\r\n", 400, 499 },
  { "a length of 22 digits", post "Content-Length: 1000000000000000000000\r\n", 400, 499 },
  { "another length", post("Content-Length: 1\r\nContent-Length: 2\r\n", "x"), 400, 499 },
  { "a length, and identity", post("Content-Length: 1\r\nTransfer-Encoding: identity\r\n", "x"), 400, 599 },
  { "identity, and a length", post("Transfer-Encoding: identity\r\nContent-Length: 5\r\n", "World"), 400, 599 },

  { "an empty coding, and a length", post("Transfer-Encoding:\r\nContent-Length: 5\r\n", "hello"), 400, 599 },
  { "a length, and three empty codings", post("Content-Length: 10\r\nTransfer-Encoding:\r\nTransfer-Encoding:\r\nTransfer-Encoding:\r\n", "2\r\nAA\r\n0\r\n\r\n"), 400, 599 },
  { "an empty coding", post("Transfer-Encoding:\r\n"), 400, 599 },
  { "a coding that there is not", post "Transfer-Encoding: pigeons\r\n", 400, 599 },
  { "chunked, then another one", post("Transfer-Encoding: chunked, deflate\r\n", "0\r\n\r\n"), 400, 599 },
  { "another one in the next field", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: deflate\r\n", "0\r\n\r\n"), 400, 599 },
  { "a comma behind chunked", post("Transfer-Encoding: chunked,\r\n", "0\r\n\r\n"), 400, 599 },
  { "sizes in small and capital letters", chunked "a\r\n0123456789\r\nA\r\n0123456789\r\n000\r\n\r\n", 200, 299 },
  { "fields behind the last chunk", chunked "5\r\nhello\r\n6\r\n world\r\n0\r\nVary: *\r\nContent-Type: text/plain\r\n\r\n", 200, 299 },
  { "extensions with and without values", chunked "5;one;two=three;four=five\r\nhello\r\n6;six;seven\r\n world\r\n0\r\n\r\n", 200, 299 },
  { "an extension in quotes, with quotes and a semicolon within", chunked "5;a=\"I \\\"love\\\"; \\\\ext\\\\\";b=\"c\";d;e=f\r\nhello\r\n0\r\n\r\n", 200, 299 },
  { "words behind a size without a semicolon", chunked "2 words\r\naa\r\n0 rrrr\r\n\r\n" .. EVIL, 400, 499 },
  { "CR within an extension", chunked "2;a\rb\r\naa\r\n0\r\n\r\n" .. EVIL, 400, 499 },
  { "chunk data whose end is LF", chunked "1\r\nA\n0\r\n\r\n" .. EVIL, 400, 499 },
  { "a size that is none", chunked "a \r\n0123456789\r\n0\r\n\r\n" .. EVIL, 400, 499 },
  { "a bad name behind the last chunk", chunked "0\r\nBad Name: x\r\n\r\n" .. EVIL, 400, 499 },
  { "LF alone behind the last chunk", chunked "0\r\n\n" .. EVIL, 400, 499 },

  { "an empty line between requests", post("Content-Length: 4\r\n", "q=42") .. "\r\n" .. get(), 200, 299, 200, 299 },
  { "two that ask to go on", get "Connection: keep-alive\r\n" .. get "Connection: keep-alive\r\n", 200, 299, 200, 299 },
  { "nothing behind the end that was asked for", get "Connection: close\r\n" .. EVIL, 200, 299 },
  { "nothing behind a request of 1.0", "GET / HTTP/1.0\r\n\r\n" .. EVIL, 200, 299 },
  { "the end among other words", get "Connection: close, token, upgrade, token, keep-alive\r\n" .. EVIL, 200, 299 },
  { "an upgrade that nobody takes", post("Connection: upgrade\r\nUpgrade: ws\r\nContent-Length: 4\r\n", "abcd") .. get(), 200, 299, 200, 299 },
}

-- What is sent until the rest comes: the server has to wait, and to answer once.
local WHOLE = "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"
local PARTS = {
  "G", "GET ", "GET /hello", "GET /hello ", "GET /hello HTTP", "GET /hello HTTP/1.1", "GET /hello HTTP/1.1\r", "GET /hello HTTP/1.1\r\n",
  "GET /hello HTTP/1.1\r\nHos", "GET /hello HTTP/1.1\r\nHost:", "GET /hello HTTP/1.1\r\nHost: ", "GET /hello HTTP/1.1\r\nHost: localhost", "GET /hello HTTP/1.1\r\nHost: localhost\r",
  "GET /hello HTTP/1.1\r\nHost: localhost\r\n", "GET /hello HTTP/1.1\r\nHost: localhost\r\n\r",
}

pl.scope(function()
  local l = assert(srv:listen "127.0.0.1:0")
  -- All that comes back until the server ends, which it does when we have said that we are done; what a refusal leaves unread may cut it short.
  local function exchange(pieces)
    handled = {}
    local c <close> = assert(net.connect(l:endpoint()))
    c:set { read_timeout = 20, write_timeout = 20 }
    for _, piece in ipairs(pieces) do
      if not (c:write(piece) and c:flush()) then break end
      pl.yield()
    end
    c:close_write()
    local text = {}
    while true do
      local piece = c:read()
      if not piece then break end
      text[#text + 1] = piece
    end
    local found = {}
    for status in table.concat(text):gmatch "HTTP/1%.1 (%d%d%d) " do found[#found + 1] = tonumber(status) end
    return found
  end
  local function judge(case, found)
    local wanted = (#case - 2) // 2
    -- An answer may say first that the body is welcome.
    local at = found[1] == 100 and #found > wanted and 2 or 1
    if #found - at + 1 ~= wanted then return false end
    for n = 1, wanted do
      local status = found[at + n - 1]
      if status < case[2 * n + 1] or status > case[2 * n + 2] then return false end
    end
    for _, path in ipairs(handled) do if path == "/evil" then return false end end
    return true
  end
  for _, case in ipairs(CASES) do
    local whole, bytes = exchange { case[2] }, {}
    print(case[1], table.concat(whole, " "), judge(case, whole) and "" or "WRONG")
    for n = 1, #case[2] do bytes[n] = case[2]:sub(n, n) end
    local pieces = exchange(bytes)
    if table.concat(pieces, " ") ~= table.concat(whole, " ") then print("  byte by byte", table.concat(pieces, " ")) end
  end
  for _, part in ipairs(PARTS) do
    local c <close> = assert(net.connect(l:endpoint()))
    c:set { read_timeout = 0.005 }
    c:write(part)
    c:flush()
    local early, _, code = c:read()
    c:set { read_timeout = 20 }
    c:write(WHOLE:sub(#part + 1))
    local line = c:read_line()
    print(("%q"):format(part:sub(-12)), early, code, line)
  end
  l:close(5)
end)
