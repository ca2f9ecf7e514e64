-- What the small parallel examples share: their command line, their clock, the way they end when something is wrong.

local found, pl = pcall(require, "perilune")
if not found then
  io.stderr:write "this example needs perilune\n"
  os.exit(1)
end

local job = {}

local name = ""

-- Ends the program with a message for its user.
function job.fail(...)
  io.stderr:write(name, ": ", string.format(...), "\n")
  os.exit(1)
end

local function count(what, text)
  local n = math.tointeger(tonumber(text))
  if not n or n < 1 then job.fail("%s is not a number from 1 on: %s", what, tostring(text)) end
  return n
end

-- Reads the command line of the program `program`: numbers, and `flag` with how many domains to use. Returns that, then
-- a number for each default given.
function job.arguments(program, flag, domains, ...)
  name = program
  local numbers <const> = { ... }
  local at, i = 0, 1
  while arg[i] do
    if arg[i] == flag then
      i = i + 1
      domains = count(flag, arg[i])
    else
      at = at + 1
      if arg[i]:find "^%-%-" or at > #numbers then job.fail("what is %s?", arg[i]) end
      numbers[at] = count("an argument", arg[i])
    end
    i = i + 1
  end
  return domains, table.unpack(numbers)
end

-- Calls `f(...)`, says on standard error how long it took, and returns its results. CPU seconds are those of all
-- threads together.
function job.timed(f, ...)
  local wall, cpu = pl.now(), os.clock()
  local results = table.pack(f(...))
  wall, cpu = pl.now() - wall, os.clock() - cpu
  io.stderr:write(string.format("%s: %.3f s, %.3f CPU s\n", name, wall, cpu))
  return table.unpack(results, 1, results.n)
end

return job
