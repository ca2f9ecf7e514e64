-- Reads Debian package indices: the `Packages` files of a mirror, as apt keeps them on a machine or given by path.
--
-- A file is stanzas apart by empty lines, a stanza is `Field: value` lines, and a line that begins with a space goes on
-- with the field before. Of the thirty fields of a stanza the solver needs nine; the rest is skipped as early as
-- possible, by its first byte.

local index = {}

local byte, find, sub = string.byte, string.find, string.sub

-- The fields that are kept, in the order in which a stanza lists them to its consumer.
index.fields = { "Package", "Version", "Pre-Depends", "Depends", "Provides", "Conflicts", "Breaks", "Installed-Size",
  "Architecture" }

local position, may_start = {}, {}
for i, field in ipairs(index.fields) do
  position[field] = i
  may_start[byte(field)] = true
end

-- How each ending is unpacked; the first of the commands that exists is used.
local unpackers = {
  gz = { "gzip -dc" },
  xz = { "xz -dc" },
  zst = { "zstd -dc", "/usr/lib/apt/apt-helper cat-file" },
  lz4 = { "lz4 -dc", "/usr/lib/apt/apt-helper cat-file" },
}

local function quote(word) return "'" .. word:gsub("'", "'\\''") .. "'" end
index.quote = quote

local function unpacker(ending)
  for _, command in ipairs(unpackers[ending]) do
    if os.execute("command -v " .. command:match("^%S+") .. " >/dev/null 2>&1") then return command end
  end
end

-- Opens `path` for reading, through a program that unpacks it if it is packed. Raises a message for the user.
local function open(path)
  local file, message = io.open(path, "rb")
  if not file then error(message, 0) end
  local ending = path:match("%.(%w+)$")
  if not unpackers[ending] then return file end
  file:close()
  local command = unpacker(ending)
  if not command then error(path .. ": no program to unpack ." .. ending, 0) end
  return assert(io.popen(command .. " " .. quote(path)))
end

-- Calls `each` with the nine fields (strings, or nil where one is absent) of every stanza of the file at `path`.
-- Raises a message with the path if the file cannot be read or is not an index.
function index.read(path, each)
  local file = open(path)
  local stanza, last, count = {}, nil, 0
  local function emit()
    if not (stanza[1] and stanza[2]) then error(path .. ": a stanza without Package or Version", 0) end
    count = count + 1
    each(stanza[1], stanza[2], stanza[3], stanza[4], stanza[5], stanza[6], stanza[7], stanza[8], stanza[9])
    stanza = {}
  end
  for line in file:lines() do
    local first = byte(line)
    if may_start[first] then
      local colon = find(line, ":", 1, true)
      last = colon and position[sub(line, 1, colon - 1)]
      if last then stanza[last] = sub(line, find(line, "%S", colon + 1) or #line + 1, -1) end
    elseif first == nil then
      if next(stanza) then emit() end
      last = nil
    elseif first == 32 or first == 9 then
      if last then stanza[last] = stanza[last] .. " " .. line end
    else
      last = nil
    end
  end
  if next(stanza) then emit() end
  -- A pipe says with its end whether the program that unpacked has succeeded.
  local fine = file:close()
  if fine == nil or count == 0 then error(path .. ": not a package index", 0) end
end

-- The indices that apt keeps on this machine, in the order of their names.
function index.installed()
  local found = {}
  local list = assert(io.popen("ls /var/lib/apt/lists/*_Packages /var/lib/apt/lists/*_Packages.* 2>/dev/null"))
  for path in list:lines() do found[#found + 1] = path end
  list:close()
  return found
end

return index
