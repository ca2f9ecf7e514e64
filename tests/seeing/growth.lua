-- Why does memory grow, and who holds it?
--
--   perilune heap growth.lua                    what lives at the end
--   (see docs/seven-questions.md for the comparison of two moments)
--
-- A server keeps answers in a cache that forgets nothing, because its keys are made anew for each request.

local cache = {}
local sessions = {}

local function answer(request)
  local key = request.user .. ":" .. request.number
  local known = cache[key]
  if not known then
    known = { text = ("answer %d "):format(request.number):rep(20), for_user = request.user }
    cache[key] = known
  end
  return known
end

local function serve(from, to)
  for n = from, to do
    local user = "user" .. n % 50
    sessions[user] = { last = n }
    answer { user = user, number = n }
  end
end

local snapshot = arg[1] and require("perilune").trace.heap
serve(1, 2000)
if snapshot then snapshot(arg[1]) end
serve(2001, 12000)
if snapshot then snapshot(arg[2]) end
print(next(sessions) ~= nil)
