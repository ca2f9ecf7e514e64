-- Clocks and memory, as Linux tells them to any Lua.

local measure = {}

-- Seconds on a clock that only goes forward, to 10 ms.
function measure.now()
  local file <close> = assert(io.open("/proc/uptime"))
  return file:read("n")
end

local function field(path, name)
  local file <close> = io.open(path)
  if not file then return 0 end
  for line in file:lines() do
    local value = line:match("^" .. name .. ":%s*(%d+)")
    if value then return tonumber(value) / 1024 end
  end
  return 0
end

-- The most memory that this process has had resident so far, in MiB.
function measure.peak() return field("/proc/self/status", "VmHWM") end

-- The memory of this process now, in MiB; pages that several processes share count in parts that add up.
function measure.resident() return field("/proc/self/smaps_rollup", "Pss") end

return measure
