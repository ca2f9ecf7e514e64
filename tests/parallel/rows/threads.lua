-- What the operating system says of this process.
local M = {}

local function status(key)
  for line in io.lines "/proc/self/status" do
    local value = line:match("^" .. key .. ":%s+(%d+)")
    if value then return tonumber(value) end
  end
end

function M.threads() return status "Threads" end
function M.resident_kb() return status "VmRSS" end

-- Voluntary context switches of all threads: how often something slept and was woken.
function M.wakeups()
  local sum = 0
  local list = io.popen "cat /proc/$PPID/task/*/status 2>/dev/null"
  for line in list:lines() do
    local n = line:match "^voluntary_ctxt_switches:%s+(%d+)"
    if n then sum = sum + n end
  end
  list:close()
  return sum
end

return M
