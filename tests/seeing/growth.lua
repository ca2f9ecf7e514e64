-- Why does memory grow, and who holds it?
--
--   perilune growth.lua OLD NEW         writes a snapshot of the heap early, and one late
--   perilune heap OLD NEW               what has come since, and who holds it
--   perilune growth.lua OLD NEW fixed   the same, with the remedy
--
-- A server remembers answers. The number of the request is part of the key, so no answer is ever found again.

local pl = require "perilune"

local fixed <const> = arg[3] == "fixed"

local sessions = {}
answers = { cache = {} }

local function remembered(user, number)
  local key = fixed and user or user .. ":" .. number
  local answer = answers.cache[key]
  if not answer then
    answer = { text = ("answer %d "):format(number):rep(20), user = user, number = number }
    answers.cache[key] = answer
  end
  return answer
end

local function serve(from, to)
  local bytes = 0
  for n = from, to do
    local user = "user" .. n % 50
    sessions[user] = { last = n }
    bytes = bytes + #remembered(user, n).text
  end
  return bytes
end

serve(1, 2000)
if arg[1] then pl.trace.heap(arg[1]) end
serve(2001, 12000)
if arg[2] then pl.trace.heap(arg[2]) end
print(sessions.user1.last)
