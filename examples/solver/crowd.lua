-- Solves many requests on one domain, on several, or in several processes, and measures it.
--
-- The requests are numbers: request `i` of `n` asks for the package that lies i/n of the way through the universe. So all
-- three ways solve the same requests without telling each other more than numbers, and their results can be compared:
-- each yields how many packages were selected (0: there is no solution) and a digest of which. Who solved what makes no
-- difference to either.
--
-- Processes are copies of this program: each parses the indices for itself and has its own universe. Domains read one
-- universe, which lies in an island outside their heaps; what they allocate is the state of one solve at a time.

local measure = require "measure"
local roles = require "roles"
local universe = require "universe"
local index = require "index"

local crowd = {}

-- How many requests a domain takes from the queue at once.
local BATCH <const> = 16

-- A digest of numbers, FNV-1a over whole integers.
local BASIS <const>, PRIME <const> = 0xcbf29ce484222325, 0x100000001b3
local function digest(numbers)
  local hash = BASIS
  for i = 1, #numbers do hash = (hash ~ numbers[i]) * PRIME end
  return hash
end

-- The words of request `i` of `count`: names of `together` packages, spread over the universe.
function crowd.words(u, packages, i, count, together)
  local words = {}
  for k = 0, together - 1 do
    local at = ((i - 1) * #packages // count + k * 7919) % #packages
    words[k + 1] = u.name[packages[at + 1]]
  end
  return words
end

-- Solves request `i` and appends its number, size and digest to `results`.
local function solve_into(results, u, packages, i, job)
  local selected = roles.solve(u, roles.request(u, crowd.words(u, packages, i, job.solves, job.together))) or {}
  local size = #results
  results[size + 1], results[size + 2], results[size + 3] = i, #selected, digest(selected)
end

-- Puts the results of one worker, triples of number, size and digest, where they belong.
local function merge(into, results)
  for k = 1, #results, 3 do into.size[results[k]], into.digest[results[k]] = results[k + 1], results[k + 2] end
end

local function summary(merged, job)
  local satisfied, selected = 0, 0
  for i = 1, job.solves do
    local size = assert(merged.size[i], "a request was lost")
    selected = selected + size
    if size > 0 then satisfied = satisfied + 1 end
  end
  return { satisfied = satisfied, selected = selected, digest = digest(merged.digest) }
end

-- Solves the requests whose number is `share` modulo `shares`, here. Returns the results and what they took.
function crowd.here(job, share, shares)
  local started = measure.now()
  local u = universe.load(job.indices)
  collectgarbage()
  local loaded = measure.now()
  local packages, results = universe.packages(u), {}
  for i = share, job.solves, shares do solve_into(results, u, packages, i, job) end
  return results, {
    load = loaded - started,
    solve = measure.now() - loaded,
    cpu = os.clock(),
    peak = measure.peak(),
    resident = measure.resident(),
  }
end

-- On one domain, this one.
local function alone(job)
  local merged = { size = {}, digest = {} }
  local results, cost = crowd.here(job, 1, 1)
  merge(merged, results)
  return merged, cost
end

-- The command that runs this program on a job, with these words in addition.
function crowd.command(job, words)
  local all = { arg[-1], arg[0], "--solves", job.solves, "--together", job.together }
  for _, path in ipairs(job.indices) do table.move({ "--index", path }, 1, 2, #all + 1, all) end
  table.move(words, 1, #words, #all + 1, all)
  for i, word in ipairs(all) do all[i] = index.quote(tostring(word)) end
  return table.concat(all, " ")
end

-- In `n` processes: copies of this program that solve a share each and write results and cost as lines of numbers.
local function processes(job, n)
  local merged, cost = { size = {}, digest = {} }, { load = 0, solve = 0, cpu = os.clock(), peak = 0, resident = 0 }
  local pipes = {}
  for share = 1, n do
    pipes[share] = assert(io.popen(crowd.command(job, { "--share", share .. "/" .. n })))
  end
  for _, pipe in ipairs(pipes) do
    local results = {}
    while true do
      local i, size, hash = pipe:read("n", "n", "n")
      if i == 0 then break end
      assert(hash, "a process ended early")
      table.move({ i, size, hash }, 1, 3, #results + 1, results)
    end
    local load, solve, cpu, peak, resident = pipe:read("n", "n", "n", "n", "n")
    assert(pipe:close(), "a process failed")
    merge(merged, results)
    cost.load, cost.solve = math.max(cost.load, load), math.max(cost.solve, solve)
    cost.cpu, cost.peak, cost.resident = cost.cpu + cpu, cost.peak + peak, cost.resident + resident
  end
  return merged, cost
end

-- What one of those processes does: its share of the work, then its lines. They end with a line that begins with 0.
function crowd.share(job, share, shares)
  local results, cost = crowd.here(job, share, shares)
  for k = 1, #results, 3 do
    io.write(string.format("%d %d %d\n", results[k], results[k + 1], results[k + 2]))
  end
  io.write(string.format("0 0 0\n%.2f %.2f %.3f %.1f %.1f\n", cost.load, cost.solve, cost.cpu, cost.peak, cost.resident))
end

-- What a domain does: takes batches of requests until there are no more. All that it gets is a number at a time and the
-- universe, which it only reads.
local function serve(u, queue, job)
  local packages, results = universe.packages(u), {}
  while true do
    local first = queue:recv()
    if not first then break end
    for i = first, math.min(first + BATCH - 1, job.solves) do solve_into(results, u, packages, i, job) end
  end
  return results
end

-- Makes the universe in islands. Parsing leaves three times as much garbage as it makes universe, so this is the work of
-- a domain of its own: with the domain its heap goes.
local function load_shared(paths)
  return universe.load(paths, require "perilune".share)
end

-- On `n` domains.
local function domains(job, n)
  local found, pl = pcall(require, "perilune")
  if not found then error("--domains needs perilune", 0) end
  local started = measure.now()
  local u = pl.domain.spawn(load_shared, job.indices):join()
  local loaded = measure.now()
  local queue = pl.channel.new()
  for first = 1, job.solves, BATCH do queue:send(first) end
  queue:close()
  local shared_job = pl.share(job)
  local workers = {}
  for i = 1, n do workers[i] = pl.domain.spawn(serve, u, queue, shared_job) end
  local merged, resident = { size = {}, digest = {} }, 0
  for _, worker in ipairs(workers) do
    merge(merged, worker:join())
    resident = math.max(resident, measure.resident())
  end
  return merged, {
    load = loaded - started,
    solve = measure.now() - loaded,
    cpu = os.clock(),
    peak = measure.peak(),
    resident = resident,
  }
end

-- Runs a job: `indices` (paths), `solves` (how many requests), `together` (packages in each), and one of `domains` and
-- `processes` or neither. Returns a summary of the results, and the cost: seconds to load, seconds to solve, CPU seconds
-- of everything, MiB at the peak and MiB resident when the work was done.
function crowd.run(job)
  local merged, cost
  if job.processes then merged, cost = processes(job, job.processes)
  elseif job.domains then merged, cost = domains(job, job.domains)
  else merged, cost = alone(job) end
  return summary(merged, job), cost
end

return crowd
