-- A build tool: targets, what they are made from, and the command that makes them. One command after the other. Plain Lua.
--
--   perilune sequential.lua [MODULES]         default: 6 modules

local MODULES <const> = tonumber(arg[1]) or 6

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

local made, order = {}, {}

local function make(name, path)
  if made[name] then return end
  local target = assert(targets[name], "no rule for " .. name)
  if path[name] then error("a circle: " .. name .. " needs itself", 0) end
  path[name] = true
  for _, need in ipairs(target.needs) do make(need, path) end
  path[name] = nil
  if not os.execute(target.command) then error(name .. ": the command failed", 0) end
  made[name] = true
  table.insert(order, name)
end

make("program", {})
print(#order .. " targets made, the last one is " .. order[#order])
