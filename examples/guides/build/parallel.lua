-- A build tool: targets, what they are made from, and the command that makes them. As many commands at a time as it is told.
--
--   perilune parallel.lua [MODULES] [JOBS]    default: 6 modules, a job for each core

local pl = require "perilune"
local pool = pl.pool.default()
local MODULES <const> = tonumber(arg[1]) or 6
local JOBS <const> = tonumber(arg[2]) or pool:workers()

-- What a build description would say: objects from sources, libraries from objects, a program from all of them.
-- `work` stands for a compiler: the shell counts.
local function work(n) return ("i=0; while [ $i -lt %d ]; do i=$((i+1)); done"):format(n) end
local targets = { program = { needs = {}, command = work(2000) } }
for m = 1, MODULES do
  local library = { needs = {}, command = work(1000) }
  for o = 1, 3 do
    local name = ("module%d/part%d.o"):format(m, o)
    targets[name] = { needs = {}, command = work(8000) }
    table.insert(library.needs, name)
  end
  targets[("libmodule%d.a"):format(m)] = library
  table.insert(targets.program.needs, ("libmodule%d.a"):format(m))
end

local jobs = pl.semaphore(JOBS) -- a permit for each command that runs
local order = pl.channel.new(nil, "order")

-- Runs in a task: waits for what is needed, then for a permit, then for the command.
local function run(name, command, needs)
  pl.await_all(needs)
  local ok = jobs:with(os.execute, command)
  if not ok then error(name .. ": the command failed", 0) end
  order:send(name)
end

local tasks = {}

local function make(name, path)
  if tasks[name] then return tasks[name] end
  local target = assert(targets[name], "no rule for " .. name)
  if path[name] then error("a circle: " .. name .. " needs itself", 0) end
  path[name] = true
  local needs = {}
  for i, need in ipairs(target.needs) do needs[i] = make(need, path) end
  path[name] = nil
  tasks[name] = pool:async(run, name, target.command, needs)
  return tasks[name]
end

make("program", {}):await()
local count, last = #order, nil
for _ = 1, count do last = order:recv() end
print(count .. " targets made, the last one is " .. last)
