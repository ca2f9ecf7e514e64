-- The allocator loop: workers that do nothing but make small tables, on domains or in processes.
--
--   perilune main.lua [--domains N | --processes N] [--iterations K | --seconds S]
--   perilune main.lua --compare N [--iterations K] [--rounds R]
--
-- Each of the N workers makes K tables (10,000,000), or as many as it can in S seconds. Workers share nothing, so with
-- enough cores all of them together should take as long as one, and domains as long as processes. A runtime whose
-- domains stop each other to collect shows it here and nowhere better. --compare runs both ways in turns, R times (3), and
-- prints the best of each beside the other.

local function fail(...)
  io.stderr:write("allocator: ", string.format(...), "\n")
  os.exit(1)
end

-- Seconds on a clock that only goes forward, to 10 ms.
local function now()
  local file <close> = assert(io.open("/proc/uptime"))
  return file:read("n")
end

-- Makes `count` tables, each garbage when the next is there. Returns something that depends on all of them.
local function allocate(count)
  local last = { value = 0 }
  for i = 1, count do last = { value = last.value + (i & 1) } end
  return last.value
end

-- How many tables are made between two looks at the clock.
local PORTION <const> = 200000

-- One worker: `iterations` tables, or as many as fit into `seconds` if that is given. Returns how many it made.
local function work(iterations, seconds)
  if not seconds then
    if allocate(iterations) ~= (iterations + 1) // 2 then error("the loop has lost count") end
    return iterations
  end
  local made, stop = 0, now() + seconds
  repeat
    allocate(PORTION)
    made = made + PORTION
  until now() >= stop
  return made
end

local run = {}

-- Each way to run returns how many tables all workers made and the CPU seconds that they took.
function run.domains(n, options)
  local found, pl = pcall(require, "perilune")
  if not found then fail("--domains needs perilune") end
  local before, workers, made = os.clock(), {}, 0
  for i = 1, n do workers[i] = pl.domain.spawn(work, options.iterations, options.seconds) end
  for _, worker in ipairs(workers) do made = made + worker:join() end
  return made, os.clock() - before
end

function run.processes(n, options)
  local command = string.format("'%s' '%s' --worker --iterations %d", arg[-1], arg[0], options.iterations)
  if options.seconds then command = command .. " --seconds " .. options.seconds end
  local pipes, made, cpu = {}, 0, 0
  for i = 1, n do pipes[i] = assert(io.popen(command)) end
  for _, pipe in ipairs(pipes) do
    local count, seconds = pipe:read("n", "n")
    assert(pipe:close() and seconds, "a process failed")
    made, cpu = made + count, cpu + seconds
  end
  return made, cpu
end

local function measured(how, n, options)
  local started = now()
  local made, cpu = run[how](n, options)
  return made, now() - started, cpu
end

local function number(name, text)
  local n = tonumber(text)
  if not n or n <= 0 or name ~= "--seconds" and not math.tointeger(n) then
    fail("%s needs a number, not %s", name, tostring(text))
  end
  return n
end

local options = {}
do
  local known = { domains = true, processes = true, iterations = true, seconds = true, compare = true, rounds = true }
  local i = 1
  while arg[i] do
    local name = arg[i]:match("^%-%-(%a+)$")
    if name == "worker" then options.worker = true
    elseif known[name] then
      i = i + 1
      options[name] = number("--" .. name, arg[i])
    else fail("there is no option %s", arg[i]) end
    i = i + 1
  end
end
local measures = options.domains or options.processes or options.compare
options.iterations = options.iterations or measures and 10000000 or 100000

if options.worker then
  local made = work(options.iterations, options.seconds)
  print(made, os.clock())
elseif options.compare then
  local n, best = options.compare, {}
  for _ = 1, options.rounds or 3 do
    for _, how in ipairs { "domains", "processes" } do
      local _, wall, cpu = measured(how, n, options)
      local so_far = best[how]
      if not so_far or wall < so_far.wall then best[how] = { wall = wall, cpu = cpu } end
    end
  end
  local d, p = best.domains, best.processes
  print("workers  domains s  processes s  ratio  domains CPU s  processes CPU s  ratio")
  print(string.format("%7d  %9.2f  %11.2f  %5.2f  %13.2f  %15.2f  %5.2f", n, d.wall, p.wall, d.wall / p.wall, d.cpu, p.cpu,
    d.cpu / p.cpu))
elseif measures then
  local how = options.domains and "domains" or "processes"
  local n = options[how]
  local made, wall, cpu = measured(how, n, options)
  print(string.format("%d %s made %d tables in %.2f s, %.2f CPU s: %.1f million a second", n, how, made, wall, cpu,
    made / math.max(wall, 0.01) / 1e6))
else
  print(string.format("1 worker made %d tables", work(options.iterations, options.seconds)))
end
