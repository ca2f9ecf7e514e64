-- Checks selections without trusting the solver: solves requests, and then looks at the stanzas of what was selected,
-- with none of the universe's tables.
--
--   perilune check.lua [--installed | INDEX...] [--solves N] [--together K]
--
-- For each selection: every package once; what was requested is there; every entry of Depends and Pre-Depends is
-- satisfied by something selected; nothing selected is meant by Conflicts or Breaks of anything else selected. What has
-- no solution is counted and believed.

local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. package.path

local crowd = require "crowd"
local index = require "index"
local roles = require "roles"
local universe = require "universe"
local version = require "version"

local paths, solves, together = {}, 1000, 1
do
  local i = 1
  while arg[i] do
    if arg[i] == "--solves" or arg[i] == "--together" then
      local n = assert(math.tointeger(tonumber(arg[i + 1])), arg[i] .. " needs a number")
      if arg[i] == "--solves" then solves = n else together = n end
      i = i + 1
    elseif arg[i] == "--installed" then
      for _, path in ipairs(index.installed()) do paths[#paths + 1] = path end
    else paths[#paths + 1] = arg[i] end
    i = i + 1
  end
end
assert(#paths > 0, "usage: check.lua [--installed | INDEX...] [--solves N] [--together K]")

-- Stanzas by "name version", as tables by field.
local stanzas, native = {}, nil
for _, path in ipairs(paths) do
  index.read(path, function(...)
    local values, stanza = table.pack(...), {}
    for i, field in ipairs(index.fields) do stanza[field] = values[i] or "" end
    local label = stanza.Package .. " " .. stanza.Version
    stanzas[label] = stanzas[label] or stanza
    if stanza.Architecture ~= "all" then native = native or stanza.Architecture end
  end)
end

-- Whether `stanza` is what an alternative such as "libc6:any (>= 2.34)" means: by its name, or by what it provides.
local function is_meant(stanza, alternative)
  local name, op, bound = alternative:match("^%s*(%S+)%s*%(([<>=]+)%s*([^)%s]+)%s*%)%s*$")
  name = name or alternative:match("^%s*(%S+)%s*$")
  local bare, architecture = name:match("^(.-):(.*)$")
  if architecture then
    if architecture ~= "any" and architecture ~= native then return false end
    name = bare
  end
  if stanza.Package == name and version.satisfies(stanza.Version, op, bound) then return true end
  for entry in stanza.Provides:gmatch("[^,]+") do
    local provided = entry:match("^%s*([^%s:]+)")
    local as = entry:match("%(%s*=%s*([^)%s]+)")
    if provided == name and (not op or as and version.satisfies(as, op, bound)) then return true end
  end
  return false
end

-- Whether one of `selection` satisfies an entry of Depends.
local function is_satisfied(selection, entry)
  for alternative in entry:gmatch("[^|]+") do
    for _, stanza in ipairs(selection) do
      if is_meant(stanza, alternative) then return true end
    end
  end
  return false
end

-- What is wrong with a selection, as a list of messages.
local function faults(selection, words)
  local found, names = {}, {}
  local function fault(...) found[#found + 1] = string.format(...) end
  for _, stanza in ipairs(selection) do
    if names[stanza.Package] then fault("%s is selected twice", stanza.Package) end
    names[stanza.Package] = true
  end
  for _, word in ipairs(words) do
    if not is_satisfied(selection, word) then fault("%s was requested", word) end
  end
  for _, stanza in ipairs(selection) do
    for entry in (stanza["Pre-Depends"] .. "," .. stanza.Depends):gmatch("[^,]+") do
      if entry:find("%S") and not is_satisfied(selection, entry) then fault("%s needs %s", stanza.Package, entry) end
    end
    for entry in (stanza.Conflicts .. "," .. stanza.Breaks):gmatch("[^,]+") do
      for _, other in ipairs(selection) do
        if entry:find("%S") and other ~= stanza and is_meant(other, entry) then
          fault("%s excludes %s by %s", stanza.Package, other.Package, entry)
        end
      end
    end
  end
  return found
end

local u = universe.load(paths)
local packages = universe.packages(u)
local checked, without, wrong = 0, 0, 0
for i = 1, solves do
  local words = crowd.words(u, packages, i, solves, together)
  local selected = roles.solve(u, roles.request(u, words))
  if not selected then
    without = without + 1
  else
    local selection = {}
    for k, v in ipairs(selected) do selection[k] = stanzas[universe.label(u, v)] end
    checked = checked + #selected
    for _, message in ipairs(faults(selection, words)) do
      wrong = wrong + 1
      print(table.concat(words, ", ") .. ": " .. message)
    end
  end
end
print(string.format("%d requests, %d without a solution; %d selected packages checked, %d faults",
  solves, without, checked, wrong))
os.exit(wrong == 0, true)
