-- Files of a folder as pages. What leads out of the folder is not there: segments '..', escaped or not, symbolic links whose end is outside. Files whose name, or a
-- folder's on the way, begins with a dot are not there either, unless that was asked for. A file is opened below the folder once, and what is said of it is read from the open file. A large one
-- goes from the system's memory to the socket (`send_file`).
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
    headers["content-type"] = TYPES[(path:match "%.(%w+)$" or ""):lower()] or "application/octet-stream"
    if size <= SMALL then
      local text = size > 0 and file:read_at(0, size) or ""
      file:close()
      return { status = 200, headers = headers, body = text }
    end
    headers["content-length"] = size
    if req.method == "HEAD" then file:close() end
    return {
      status = 200,
      headers = headers,
      stream = function(out)
        local file <close> = file
        local at = 0
        while at < size do
          local n = out:send_file(file, at, math.min(size - at, PIECE))
          -- The client is gone, or the file has become shorter.
          if not n or n == 0 then return end
          at = at + n
        end
      end,
    }
  end
end
