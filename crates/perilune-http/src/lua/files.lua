-- Files of a folder as pages. What leads out of the folder is not there: segments '..', escaped or not, symbolic links whose end is outside. Files whose name, or a
-- folder's on the way, begins with a dot are not there either, unless that was asked for. A file is opened below the folder once, and what is said of it is read from the open file. A large one
-- goes from the system's memory to the socket (`send_file`). A request for one range of bytes gets that part; one for several gets the whole, as does one whose range cannot be read.
local core = ...

local TYPES = {
  html = "text/html; charset=utf-8", htm = "text/html; charset=utf-8", css = "text/css; charset=utf-8", js = "text/javascript; charset=utf-8",
  mjs = "text/javascript; charset=utf-8", json = "application/json", txt = "text/plain; charset=utf-8", md = "text/markdown; charset=utf-8",
  lua = "text/plain; charset=utf-8", csv = "text/csv; charset=utf-8", xml = "application/xml", svg = "image/svg+xml", png = "image/png",
  jpg = "image/jpeg", jpeg = "image/jpeg", gif = "image/gif", webp = "image/webp", ico = "image/x-icon", pdf = "application/pdf",
  wasm = "application/wasm", woff2 = "font/woff2", mp3 = "audio/mpeg", mp4 = "video/mp4", gz = "application/gzip", zip = "application/zip",
}

local SMALL = 65536
-- So much goes at a time: other connections have their turns between.
local PIECE = 1 << 20

local function missing() return { status = 404, headers = { ["content-type"] = "text/plain; charset=utf-8" }, body = "Not Found\n" } end

local function is_safe(path, hidden)
  if path:find("[%z\\]") or path:sub(1, 1) == "/" then return false end
  for segment in path:gmatch "[^/]+" do
    if segment == ".." or segment == "." or not hidden and segment:sub(1, 1) == "." then return false end
  end
  return true
end

-- The part of a file that a request wants: its first byte and the one behind its last, and whether it wants a part, be that all of it; nil if the file has no such part.
local function part(req, size, mark)
  local range = req.method == "GET" and req.headers.range
  if not range then return 0, size end
  -- A date does not tell two contents of one second apart.
  local known = req.headers["if-range"]
  if known and known ~= mark then return 0, size end
  local first, last = range:match "^[Bb][Yy][Tt][Ee][Ss]=%s*(%d*)%-(%d*)%s*$"
  first, last = tonumber(first), tonumber(last)
  if first then
    if last and last < first then return 0, size end
    if first >= size then return nil end
    return first, last and last < size and last + 1 or size, true
  elseif last then
    if last == 0 or size == 0 then return nil end
    return last < size and size - last or 0, size, true
  end
  return 0, size
end

-- A handler for requests whose parameter 'path' is a path below the folder.
function core.files(folder, options)
  return function(req)
    local path = req.params.path
    if not is_safe(path, options.hidden) then return missing() end
    local kind, file, size, date, mark = core.file(folder, path)
    if kind == "folder" then
      file:close()
      if path ~= "" and path:sub(-1) ~= "/" then
        return { status = 301, headers = { location = req.path .. "/" }, body = "" }
      end
      kind, file, size, date, mark = core.file(folder, path .. options.index)
      path = options.index
    end
    if kind ~= "file" then
      if file then file:close() end
      return missing()
    end
    local headers = { ["last-modified"] = date, etag = mark, ["x-content-type-options"] = "nosniff" }
    if options.max_age then headers["cache-control"] = "max-age=" .. math.floor(options.max_age) end
    if req.headers["if-none-match"] == mark then
      file:close()
      return { status = 304, headers = headers }
    end
    headers["accept-ranges"] = "bytes"
    local first, behind, is_part = part(req, size, mark)
    if not first then
      file:close()
      headers["content-range"] = "bytes */" .. size
      return { status = 416, headers = headers, body = "" }
    end
    headers["content-type"] = TYPES[(path:match "%.(%w+)$" or ""):lower()] or "application/octet-stream"
    local status, length = 200, behind - first
    if is_part then
      status = 206
      headers["content-range"] = "bytes " .. first .. "-" .. behind - 1 .. "/" .. size
    end
    if length <= SMALL then
      local text = length > 0 and file:read_at(first, length) or ""
      file:close()
      return { status = status, headers = headers, body = text }
    end
    headers["content-length"] = length
    if req.method == "HEAD" then file:close() end
    return {
      status = status,
      headers = headers,
      stream = function(out)
        local file <close> = file
        local at = first
        while at < behind do
          local n = out:send_file(file, at, math.min(behind - at, PIECE))
          -- The client is gone, or the file has become shorter.
          if not n or n == 0 then return end
          at = at + n
        end
      end,
    }
  end
end
