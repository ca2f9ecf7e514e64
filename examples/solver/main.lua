-- Selects packages: what to install, in which versions, so that everything asked for is there and fits together.
--
--   perilune main.lua [--index FILE]... [--explain] PACKAGE...     one request: the selection, or why there is none
--   perilune main.lua [--index FILE]... --solves N [--together K] [--domains N | --processes N]
--                                                                 N requests: how fast, on domains or in processes
--   perilune main.lua [--index FILE]... --solves N [--together K] --compare N [--rounds R]
--                                                                 both in turns, R times (3), and the best against the best
--   perilune main.lua                                             the requests of sample/requests.txt
--
-- A PACKAGE is a name, `name=version`, `name>=version`, anything that a Depends field may say ('a (>= 2) | b'), or !name for
-- what must not be installed. Indices are Packages files, packed or not; --installed takes those that apt keeps on this
-- machine; with neither, the small archive of sample/ is used. --explain says for each selected package what needs it.

local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. package.path

local crowd = require "crowd"
local explain = require "explain"
local index = require "index"
local roles = require "roles"
local universe = require "universe"

local NUMBERS <const> = {
  ["--domains"] = true, ["--processes"] = true, ["--compare"] = true, ["--solves"] = true, ["--together"] = true,
  ["--rounds"] = true,
}
local SAMPLE <const> = { "bookworm", "security", "vendor" }

-- Reads the command line. Raises a message for the user.
local function options()
  local chosen = { indices = {}, words = {} }
  local i = 1
  local function value(name)
    i = i + 1
    return arg[i] or error(name .. " needs a value", 0)
  end
  local function number(name)
    local text = value(name)
    local n = math.tointeger(tonumber(text))
    if not n or n < 1 then error(name .. ": not a number from 1 on: " .. text, 0) end
    return n
  end
  while arg[i] do
    local word = arg[i]
    if word == "--index" then chosen.indices[#chosen.indices + 1] = value(word)
    elseif word == "--installed" then
      for _, path in ipairs(index.installed()) do chosen.indices[#chosen.indices + 1] = path end
    elseif word == "--explain" then chosen.explain = true
    elseif NUMBERS[word] then chosen[word:sub(3)] = number(word)
    elseif word == "--share" then
      local text = value(word)
      local share, shares = text:match("^(%d+)/(%d+)$")
      if not share then error("--share: not a share: " .. text, 0) end
      chosen.share, chosen.shares = math.tointeger(share), math.tointeger(shares)
    elseif word:find("^%-%-") then error("there is no option " .. word, 0)
    else chosen.words[#chosen.words + 1] = word end
    i = i + 1
  end
  if (chosen.domains and 1 or 0) + (chosen.processes and 1 or 0) + (chosen.compare and 1 or 0) > 1 then
    error("--domains, --processes and --compare exclude each other", 0)
  end
  if (chosen.domains or chosen.processes or chosen.compare) and not chosen.solves then
    error("how many requests? Use --solves", 0)
  end
  chosen.together = chosen.together or 1
  if #chosen.indices == 0 then
    for _, suite in ipairs(SAMPLE) do chosen.indices[#chosen.indices + 1] = here .. "sample/" .. suite .. ".Packages" end
  end
  return chosen
end

-- Prints the answer to one request. Returns whether there is a selection.
local function answer(u, words, with_reasons)
  local request = roles.request(u, words)
  local selected = roles.solve(u, request)
  if not selected then
    print("not possible: " .. table.concat(words, ", "))
    for _, line in ipairs(explain.failure(u, request)) do print("  " .. line) end
    return false
  end
  local why = with_reasons and explain.selection(u, request, selected)
  local lines, size = {}, 0
  for i, v in ipairs(selected) do
    lines[i] = universe.label(u, v) .. (why and "  (" .. why[v] .. ")" or "")
    size = size + u.size[v]
  end
  table.sort(lines)
  print(table.concat(lines, "\n"))
  print(string.format("%d packages, %.1f MiB", #lines, size / 1024))
  return true
end

-- Answers the requests of a file, one a line.
local function answer_file(u, path)
  for line in io.lines(path) do
    if not line:find("^#") then
      local words = {}
      for word in line:gmatch("[^,]+") do words[#words + 1] = word:match("^%s*(.-)%s*$") end
      print("> " .. line)
      answer(u, words, false)
      print()
    end
  end
end

local HEADER <const> = "                 load s  solve s  solves/s    CPU s  peak MiB  resident MiB"

local function report(job)
  local results, cost = crowd.run(job)
  local label = job.processes and "processes: " .. job.processes or "domains: " .. (job.domains or 1)
  print(HEADER)
  print(string.format("%-14s %8.2f %8.2f %9.0f %8.2f %9.1f %13.1f", label, cost.load, cost.solve,
    job.solves / math.max(cost.solve, 0.01), cost.cpu, cost.peak, cost.resident))
  print(string.format("%d requests, %d satisfied with %d packages, digest %016x", job.solves, results.satisfied,
    results.selected, results.digest))
end

-- Runs both ways in turns, each in a process of its own so that neither inherits the other's memory, and prints the rows
-- of their reports and what the best of each is against the best of the other.
local function compare(job)
  local n, best, digest = job.compare, {}, nil
  print(HEADER)
  for _ = 1, job.rounds or 3 do
    for _, how in ipairs { "domains", "processes" } do
      local pipe = assert(io.popen(crowd.command(job, { "--" .. how, n })))
      local _, row, results = pipe:read("l", "l", "l")
      if not pipe:close() then error("a run failed", 0) end
      digest = digest or results
      if results ~= digest then error("different results: " .. results .. " and " .. digest, 0) end
      print(row)
      local _, solve, rate, _, peak, resident = row:match(": %d+ +(%S+) +(%S+) +(%S+) +(%S+) +(%S+) +(%S+)$")
      if not best[how] or tonumber(solve) < best[how].solve then
        best[how] = { solve = tonumber(solve), rate = rate, peak = peak, resident = resident }
      end
    end
  end
  local d, p = best.domains, best.processes
  print(string.format("domains against processes: %.2fx the solves a second, %.2fx the peak, %.2fx the resident memory",
    d.rate / p.rate, d.peak / p.peak, d.resident / p.resident))
  print(digest)
end

local function run()
  local chosen = options()
  if chosen.share then
    crowd.share(chosen, chosen.share, chosen.shares)
  elseif chosen.compare then
    compare(chosen)
  elseif chosen.solves then
    report(chosen)
  else
    local u = universe.load(chosen.indices)
    if #chosen.words > 0 then return answer(u, chosen.words, chosen.explain) end
    answer_file(u, here .. "sample/requests.txt")
  end
  return true
end

local fine, result = xpcall(run, function(message)
  -- Messages for the user are strings without a position; anything else is a defect and shows where.
  if type(message) == "string" and not message:find("^[^:]+%.lua:%d+:") then return message end
  return debug.traceback(message, 2)
end)
if not fine then
  io.stderr:write("solver: ", result, "\n")
  os.exit(1)
end
os.exit(result, true)
