-- Cuts a small archive out of a big one: the packages that given requests select, those that alternatives of their
-- requirements would bring, and every version of each, with the fields that the solver reads.
--
--   perilune cut.lua [--width K] INDEX... -- PACKAGE... > small.Packages     (one index)
--   perilune cut.lua --out FOLDER [--width K] INDEX... -- PACKAGE...         (a file for each, of the same name)
--
-- --width says how many candidates of a requirement are kept (2). The cut is closed: what a kept package needs has a
-- candidate in it. Names that only further alternatives mention stay in the text and are in no index, as in real ones.

local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. package.path

local index = require "index"
local roles = require "roles"
local universe = require "universe"

local indices, words, out, width = {}, {}, nil, 2
do
  local into, i = indices, 1
  while arg[i] do
    if arg[i] == "--out" then
      i = i + 1
      out = arg[i]
    elseif arg[i] == "--width" then
      i = i + 1
      width = assert(math.tointeger(tonumber(arg[i])), "--width needs a number")
    elseif arg[i] == "--" then into = words
    else into[#into + 1] = arg[i] end
    i = i + 1
  end
end
assert(#words > 0 and (out or #indices == 1), "usage: cut.lua [--out FOLDER] [--width K] INDEX... -- PACKAGE...")

local u = universe.load(indices)
local kept, queue = {}, {}

local function keep(role)
  if not kept[role] then
    kept[role] = true
    queue[#queue + 1] = role
  end
end

for _, word in ipairs(words) do
  local request = roles.request(u, { word })
  for _, v in ipairs(assert(roles.solve(u, request), word .. " cannot be satisfied")) do keep(u.role[v]) end
end

-- What is selected for the requests goes as wide as asked; what that brings goes on with its first candidates only.
local asked = #queue
local at = 1
while queue[at] do
  local role = queue[at]
  for i = u.versions_first[role], u.versions_first[role + 1] - 1 do
    local v = u.versions[i]
    for j = u.needs_first[v], u.needs_first[v + 1] - 1 do
      local q = u.needs[j]
      local first, last = u.candidates_first[q], u.candidates_first[q + 1] - 1
      for k = first, math.min(last, first + (at <= asked and width or 1) - 1) do keep(u.role[u.candidates[k]]) end
    end
  end
  at = at + 1
end

for _, path in ipairs(indices) do
  local file = io.stdout
  if out then
    local name = path:match("[^/]*$"):gsub("_Packages.*$", ".Packages")
    file = assert(io.open(out .. "/" .. name, "w"))
  end
  index.read(path, function(...)
    local values = { n = select("#", ...), ... }
    if not kept[u.role_of[values[1]]] then return end
    for i, field in ipairs(index.fields) do
      if values[i] then file:write(field, ": ", values[i], "\n") end
    end
    file:write("\n")
  end)
  if out then file:close() end
end
