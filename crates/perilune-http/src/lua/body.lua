-- Bodies of messages, on both sides: what comes in pieces, what goes in pieces. A message is a request of the server or a response of the client; of what this file
-- keeps in it the names begin with '_':
--   _c        the connection
--   _left     bytes that are to come; -1: in chunks; -4: until the stream ends; 0: all has come
--   _chunk    where the decoder of chunks is
--   _got      bytes so far
--   _limit    at most so many
--   _seconds  a function: how long the next read may take
--   _first    what is to be done before the first read
--   _inflater what comes is compressed
--   _fault    why no more can be read: message, code
--   _done     a function: all has come, or never will
local core = ...
local concat, error, min, setmetatable, tostring, type = table.concat, error, math.min, setmetatable, tostring, type
local read_within, read_chunks, write_chunk, end_chunks = core.read_within, core.read_chunks, core.write_chunk, core.end_chunks
local inflate = core.inflate

local PIECE = 65536
-- Of compressed bytes so few are taken at a time that what they become is no surprise for the memory.
local COMPRESSED = 4096

local function fail(m, message, code)
  m._fault = { message, code }
  local done = m._done
  if done then
    m._done = nil
    done(m, false)
  end
  return nil, message, code
end

local function finished(m)
  m._left = 0
  local done = m._done
  if done then
    m._done = nil
    done(m, true)
  end
end

-- The next piece as it comes; nil at the end; nil, message, code.
local function raw_piece(m, most)
  local left = m._left
  if left == 0 then return nil end
  local c = m._c
  local piece, message, code
  if left > 0 then
    piece, message, code = read_within(c, m:_seconds(), min(left, most))
    if piece then
      left = left - #piece
      m._left = left
      if left == 0 then finished(m) end
    end
  elseif left == -1 then
    piece, message, code = read_chunks(c, m:_seconds(), m._chunk or -1, most)
    if piece then
      m._chunk = message
      if message == -3 then finished(m) end
      if piece == "" then return nil end
    end
  else
    piece, message, code = read_within(c, m:_seconds(), most)
    if not piece and code == "closed" and not c:is_closed() then
      finished(m)
      return nil
    end
  end
  if not piece then
    if code == "closed" then message = "the body has ended early" end
    return fail(m, message, code)
  end
  m._got = (m._got or 0) + #piece
  return piece
end

-- The next piece, at most so many bytes; nil at the end; nil, message, code.
local function read(m, most)
  local fault = m._fault
  if fault then return nil, fault[1], fault[2] end
  local first = m._first
  if first then
    m._first = nil
    first(m)
  end
  local inflater = m._inflater
  local piece, message, code
  if not inflater then
    piece, message, code = raw_piece(m, most or PIECE)
    if not piece then return nil, message, code end
    if m._limit and m._got > m._limit then
      return fail(m, "the body is longer than " .. m._limit .. " bytes", "limit")
    end
    return piece
  end
  -- What a compressed piece becomes may be longer than asked for: the rest is kept.
  local kept = m._kept
  while not kept or kept == "" do
    if m._ended then return nil end
    piece, message, code = raw_piece(m, COMPRESSED)
    if message then return nil, message, code end
    if not piece then m._ended = true end
    kept, message = inflate(inflater, piece)
    if not kept then return fail(m, message, "protocol") end
    m._inflated = (m._inflated or 0) + #kept
    if m._limit and m._inflated > m._limit then
      return fail(m, "the body is longer than " .. m._limit .. " bytes", "limit")
    end
  end
  most = most or PIECE
  m._kept = kept:sub(most + 1)
  return kept:sub(1, most)
end

-- All that is left of it; nil, message, code.
local function text(m, limit)
  if m._text then return m._text end
  local fault = m._fault
  if fault then return nil, fault[1], fault[2] end
  if m._left == 0 and not m._inflater then
    m._text = ""
    return ""
  end
  local pieces, n, bytes = {}, 0, 0
  while true do
    local piece, message, code = read(m, PIECE)
    if not piece then
      if message then return nil, message, code end
      m._text = n == 1 and pieces[1] or concat(pieces, "", 1, n)
      return m._text
    end
    n, bytes = n + 1, bytes + #piece
    pieces[n] = piece
    if limit and bytes > limit then return fail(m, "the body is longer than " .. limit .. " bytes", "limit") end
  end
end

local function check_count(n, name)
  if n ~= nil and (math.type(n) ~= "integer" or n < 1) then
    error("bad argument #1 to '" .. name .. "' (a number of bytes must be an integer, at least 1)", 3)
  end
  return n
end

-- What a function has no argument for is without effect: it is refused.
local function none_behind(last, name, surplus)
  if surplus ~= nil then
    error("bad argument #" .. last + 1 .. " to '" .. name .. "' (no further argument expected, got " .. type(surplus) .. ")", 3)
  end
end

core.none_behind = none_behind

-- The methods that read.
core.reading = {
  read = function(m, n, surplus)
    if surplus ~= nil then none_behind(1, "read", surplus) end
    return read(m, check_count(n, "read"))
  end,
  text = function(m, limit, surplus)
    if surplus ~= nil then none_behind(1, "text", surplus) end
    return text(m, check_count(limit, "text"))
  end,
  -- An iterator over pieces. What is not the end is an error, as with lines of files: a loop could not tell.
  pieces = function(m, n, surplus)
    none_behind(1, "pieces", surplus)
    check_count(n, "pieces")
    return function()
      local piece, message = read(m, n)
      if not piece and message then error(message, 2) end
      return piece
    end
  end,
  json = function(m, surplus)
    if surplus ~= nil then none_behind(0, "json", surplus) end
    local all, message, code = text(m)
    if not all then return nil, message, code end
    local json = require "perilune.json"
    local ok, value = pcall(json.decode, all)
    if ok then return value end
    m._fault = { tostring(value), "protocol" }
    return nil, tostring(value), "protocol"
  end,
}
core.read_body, core.read_text = read, text

-- Writing --------------------------------------------------------------------------------------------------------------------------
-- What a body that goes in pieces is written to. 'left' counts down if its length was said before, else it goes in chunks, or as it is.
local Writer = { __name = "http.writer" }
Writer.__index = Writer

function Writer:write(...)
  local c, left = self._c, self._left
  for n = 1, select("#", ...) do
    local piece = select(n, ...)
    local kind = type(piece)
    if kind == "number" then
      piece = tostring(piece)
    elseif kind ~= "string" then
      error("bad argument #" .. n .. " to 'write' (string expected, got " .. kind .. ")", 2)
    end
    local ok, message, code
    if left then
      left = left - #piece
      if left < 0 then error("the body is longer than its 'content-length'", 2) end
      self._left = left
      ok, message, code = c:write(piece)
    elseif self._chunked then
      ok, message, code = write_chunk(c, piece)
    else
      ok, message, code = c:write(piece)
    end
    if not ok then
      self._failed = code
      return nil, message, code
    end
  end
  return true
end

-- A part of a file (fs.open) as it is; how many bytes those were.
function Writer:send_file(file, offset, n, surplus)
  none_behind(3, "send_file", surplus)
  if not self._left and self._chunked then
    local piece, message, code = file:read_at(offset or 0, math.min(n or PIECE, PIECE))
    if not piece then
      if code then return nil, message, code end
      return 0
    end
    local ok, message, code = self:write(piece)
    if not ok then return nil, message, code end
    return #piece
  end
  local left = self._left
  if left and n and n > left then error("the body is longer than its 'content-length'", 2) end
  local sent, message, code = self._c:send_file(file, offset, n or left)
  if not sent then
    self._failed = code
    return nil, message, code
  end
  if left then self._left = left - sent end
  return sent
end

function Writer:flush(surplus)
  none_behind(0, "flush", surplus)
  return self._c:flush()
end

-- Sends a body in pieces. A function body gives the next piece at each call and nil at the end; a function stream is called with the writer.
-- True: all of it went. False: the peer is gone. What the program does wrong is raised.
function core.send_pieces(c, body, stream, length, is_chunked)
  local writer = setmetatable({ _c = c, _left = length, _chunked = is_chunked }, Writer)
  if stream then
    stream(writer)
  else
    while true do
      local piece = body()
      if piece == nil then break end
      if not writer:write(piece) then break end
    end
  end
  if writer._failed then return false end
  if is_chunked then return end_chunks(c) and true or false end
  if writer._left and writer._left > 0 then
    error("the body is " .. writer._left .. " bytes shorter than its 'content-length'", 0)
  end
  return true
end

-- Options --------------------------------------------------------------------------------------------------------------------------

local function listed(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = name end
  table.sort(names)
  return concat(names, ", ")
end

-- Options with their defaults; what is unknown is an error. 'kinds' says of each name what its value is: a type, or "seconds" (a number, or false for never), or
-- "count".
function core.options(given, kinds, defaults, level)
  local options = {}
  for name, value in pairs(defaults) do options[name] = value end
  if given == nil then return options end
  if type(given) ~= "table" then error("a table of options is expected, not a " .. type(given), level + 1) end
  for name, value in pairs(given) do
    local kind = kinds[name]
    if not kind then
      error("unknown option '" .. tostring(name) .. "' (there are: " .. listed(kinds) .. ")", level + 1)
    end
    local ok
    if kind == "seconds" then
      ok = value == false or type(value) == "number" and value >= 0
      kind = value ~= value and "a number of seconds, or false, not nan" or "a number of seconds, or false"
    elseif kind == "count" then
      ok = math.type(value) == "integer" and value >= 1
      kind = "an integer, at least 1"
    else
      ok = kind == "any" or type(value) == kind
      kind = "a " .. kind
    end
    if not ok then error("option '" .. name .. "' must be " .. kind, level + 1) end
    options[name] = value
  end
  return options
end

-- Queries --------------------------------------------------------------------------------------------------------------------------

-- The fields of a query or a form; the first of a name counts, and all are in the list that comes second.
function core.decode_query(text)
  local fields, all = {}, {}
  for part in (text or ""):gmatch "[^&]+" do
    local name, value = part:match "^([^=]*)=?(.*)$"
    name, value = core.unescape(name, true) or name, core.unescape(value, true) or value
    if fields[name] == nil then fields[name] = value end
    all[#all + 1] = { name, value }
  end
  return fields, all
end

function core.encode_query(fields)
  local names, parts = {}, {}
  for name in pairs(fields) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    local value = fields[name]
    for _, v in ipairs(type(value) == "table" and value or { value }) do
      parts[#parts + 1] = core.escape(name) .. "=" .. core.escape(tostring(v))
    end
  end
  return concat(parts, "&")
end
