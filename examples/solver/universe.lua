-- The package universe: everything that the indices say, in a form that is made once and then only read.
--
-- A *role* is a name that something can ask for; its *versions* are what can fill it, newest first. A *requirement* is
-- one entry of a Depends or Pre-Depends field, with its alternatives. A *clash* is a pair of versions that cannot be
-- installed together, because of Conflicts or Breaks.
--
-- Restrictions are resolved here, once per distinct requirement of the archive, not in each solve: `candidates` lists
-- the versions that satisfy a requirement, in the order of preference. A solve then never looks at a version string.
--
-- The universe is plain data: strings, numbers, and flat arrays of numbers with an array of offsets beside each, so
-- that it can be shared between domains, costs eight bytes an entry, and gives a collector nothing to trace. Lists of
-- the i-th owner lie at `first[i] .. first[i + 1] - 1`:
--
--   architecture                                of the packages that are not for all
--   name[role], role_of[name]                   the names
--   versions_first[role], versions[]            the versions of a role, newest first; none: the role is only provided
--   version[v], role[v], size[v]                version string, role, installed size in KiB
--   needs_first[v], needs[]                     requirements of a version, Pre-Depends first
--   text[q], candidates_first[q], candidates[]  requirement as written; versions that satisfy it, best first
--   clashes_first[v], clashes[]                 versions that clash with v (if w is in v's list, v is in w's)
--   refusals_first[v], refusals[], refusal[]    Conflicts and Breaks as written, for explanations
--   provided_first[role], provider[], provided_version[]   who provides a role, and as which version ("": as none)

local index = require "index"
local version = require "version"

local universe = {}

local gmatch, match = string.gmatch, string.match
local satisfies, compare = version.satisfies, version.compare

-- Reads one alternative, `name[:architecture] [(relation version)]`. Returns name, relation, bound and architecture (nil
-- if there is none), or nil and a message.
local function parse_alternative(text)
  local name, rest = match(text, "^%s*([%w+.-]+)(.-)%s*$")
  if not name then return nil, "not a package name: '" .. text .. "'" end
  if rest == "" then return name end
  local architecture, after = match(rest, "^:([%w-]+)(.*)$")
  if architecture then rest = after end
  if rest == "" then return name, nil, nil, architecture end
  local op, bound = match(rest, "^%s*%(%s*([<>=]+)%s*([^%s)]+)%s*%)$")
  if not op or not version.is_relation(op) then return nil, "not a version restriction: '" .. text .. "'" end
  return name, op, bound, architecture
end

-- Whether a name with this architecture means packages of ours.
local function is_ours(u, architecture)
  return architecture == nil or architecture == "any" or architecture == "native" or architecture == u.architecture
end

-- Appends to `found` the versions that satisfy an alternative and are not in `seen`: those of the role itself, newest
-- first, then those that provide it. A restriction is met by a provided version, but never by providing as none.
local function append_satisfying(u, found, seen, name, op, bound)
  local role = u.role_of[name]
  if not role then return end
  local versions, version_of = u.versions, u.version
  for i = u.versions_first[role], u.versions_first[role + 1] - 1 do
    local v = versions[i]
    if not seen[v] and satisfies(version_of[v], op, bound) then
      seen[v] = true
      found[#found + 1] = v
    end
  end
  local provided_version = u.provided_version
  for i = u.provided_first[role], u.provided_first[role + 1] - 1 do
    local v, as = u.provider[i], provided_version[i]
    if not seen[v] and (op == nil or as ~= "" and satisfies(as, op, bound)) then
      seen[v] = true
      found[#found + 1] = v
    end
  end
end

-- The versions that satisfy a requirement, best first, or nil and a message if its text makes no sense.
function universe.satisfying(u, text)
  local found, seen = {}, {}
  for alternative in gmatch(text, "[^|]+") do
    local name, op, bound, architecture = parse_alternative(alternative)
    if not name then return nil, op end
    if is_ours(u, architecture) then append_satisfying(u, found, seen, name, op, bound) end
  end
  return found
end

-- The names that a requirement mentions, in order.
function universe.names(text)
  local names = {}
  for alternative in gmatch(text, "[^|]+") do names[#names + 1] = (parse_alternative(alternative)) end
  return names
end

-- What the readers of the indices collect: numbers for names and texts, and lists in the order of reading. The versions
-- of a role are chained: `latest[role]` is the one read last, `before[v]` the one read before `v`, or 0. An entry of a
-- Provides field is one index into three lists: the role, who provides it, and as which version.
local Collector = {}
Collector.__index = Collector

local function new_collector()
  return setmetatable({
    name = {}, role_of = {},
    version = {}, role = {}, size = {}, latest = {}, before = {},
    needs = {}, needs_first = {}, text = {}, number_of = {},
    refusals = {}, refusals_first = {}, refusal = {}, refusal_number = {},
    provided = {}, provider = {}, provided_version = {},
    architecture = "all",
  }, Collector)
end

-- The role of a name, which becomes known with it.
function Collector:intern_role(name)
  local role = self.role_of[name]
  if not role then
    role = #self.name + 1
    self.name[role], self.role_of[name] = name, role
  end
  return role
end

-- Appends the entries of a field to `list`, as numbers that `number_of` gives them and `texts` takes back.
local function append_entries(field, prefix, list, texts, number_of)
  for entry in gmatch(field, "[^,]+") do
    local text = match(entry, "^%s*(.-)%s*$")
    if text ~= "" then
      text = prefix .. text
      local number = number_of[text]
      if not number then
        number = #texts + 1
        texts[number], number_of[text] = text, number
      end
      list[#list + 1] = number
    end
  end
end

-- Takes one stanza. A version that an earlier index had already is the same package again. The first architecture that
-- is met is ours; what is for another is not a candidate for anything.
function Collector:add(name, number, predepends, depends, provides, conflicts, breaks, size, architecture)
  if self.architecture == "all" and architecture then self.architecture = architecture end
  if architecture and architecture ~= "all" and architecture ~= self.architecture then return end
  local role = self:intern_role(name)
  local latest = self.latest[role] or 0
  local other = latest
  while other ~= 0 do
    if self.version[other] == number then return end
    other = self.before[other]
  end
  local v = #self.version + 1
  self.latest[role], self.before[v] = v, latest
  self.version[v], self.role[v], self.size[v] = number, role, math.tointeger(tonumber(size)) or 0

  self.needs_first[v] = #self.needs + 1
  if predepends then append_entries(predepends, "", self.needs, self.text, self.number_of) end
  if depends then append_entries(depends, "", self.needs, self.text, self.number_of) end
  self.refusals_first[v] = #self.refusals + 1
  if conflicts then append_entries(conflicts, "Conflicts: ", self.refusals, self.refusal, self.refusal_number) end
  if breaks then append_entries(breaks, "Breaks: ", self.refusals, self.refusal, self.refusal_number) end
  if provides then
    for entry in gmatch(provides, "[^,]+") do
      local provided, op, as = parse_alternative(entry)
      if provided then
        local entry_number = #self.provided + 1
        self.provided[entry_number], self.provider[entry_number] = self:intern_role(provided), v
        self.provided_version[entry_number] = op == "=" and as or ""
      end
    end
  end
end

-- The versions of each role, newest first. Of two that are equal, the one that was read first comes first.
local function order_versions(c, u, freeze)
  local version_of, first, versions = c.version, {}, {}
  local function newer(v, w)
    local order = compare(version_of[v], version_of[w])
    if order ~= 0 then return order > 0 end
    return v < w
  end
  for role = 1, #c.name do
    first[role] = #versions + 1
    local v = c.latest[role] or 0
    if v ~= 0 and c.before[v] == 0 then
      versions[#versions + 1] = v
    elseif v ~= 0 then
      local mine = {}
      while v ~= 0 do
        mine[#mine + 1] = v
        v = c.before[v]
      end
      table.sort(mine, newer)
      table.move(mine, 1, #mine, #versions + 1, versions)
    end
  end
  first[#c.name + 1] = #versions + 1
  u.versions_first, u.versions = freeze(first), freeze(versions)
end

-- The providers of each role: by the order of the providing roles, then newest first.
local function order_providers(c, u, freeze)
  local place = {}
  for i = 1, #u.versions do place[u.versions[i]] = i end
  local provided, who, versions, order = c.provided, c.provider, c.provided_version, {}
  for i = 1, #provided do order[i] = i end
  table.sort(order, function(a, b)
    if provided[a] ~= provided[b] then return provided[a] < provided[b] end
    if who[a] ~= who[b] then return place[who[a]] < place[who[b]] end
    return a < b
  end)
  local first, provider, as = {}, {}, {}
  for i, entry in ipairs(order) do
    while #first < provided[entry] do first[#first + 1] = i end
    provider[i], as[i] = who[entry], versions[entry]
  end
  while #first <= #c.name do first[#first + 1] = #provider + 1 end
  u.provided_first, u.provider, u.provided_version = freeze(first), freeze(provider), freeze(as)
end

local function resolve_requirements(u, freeze)
  local first, candidates, seen = {}, {}, {}
  for q = 1, #u.text do
    first[q] = #candidates + 1
    local found = assert(universe.satisfying(u, u.text[q]))
    for i = 1, #found do candidates[#candidates + 1] = found[i] end
  end
  first[#u.text + 1] = #candidates + 1
  u.candidates_first, u.candidates = freeze(first), freeze(candidates)
end

-- The text of an entry of Conflicts or Breaks without the field's name.
local function refused(text) return match(text, ": (.*)$") end

local function resolve_clashes(c, u, freeze)
  -- Both sides of a pair get it; `pairs_seen` keeps one that both declare from being listed twice.
  local of_version, resolved, seen_pair = {}, {}, {}
  local count = #u.version
  local function add(v, w)
    local list = of_version[v]
    if not list then
      list = {}
      of_version[v] = list
    end
    list[#list + 1] = w
  end
  for v = 1, count do
    for i = u.refusals_first[v], u.refusals_first[v + 1] - 1 do
      local number = u.refusals[i]
      local found = resolved[number]
      if not found then
        found = assert(universe.satisfying(u, refused(u.refusal[number])))
        resolved[number] = found
      end
      for j = 1, #found do
        local w = found[j]
        -- A package never refuses itself, and other versions of its role are excluded anyway.
        if u.role[v] ~= u.role[w] then
          local pair = v < w and v * (count + 1) + w or w * (count + 1) + v
          if not seen_pair[pair] then
            seen_pair[pair] = true
            add(v, w)
            add(w, v)
          end
        end
      end
    end
  end
  local first, clashes = {}, {}
  for v = 1, count do
    first[v] = #clashes + 1
    local list = of_version[v]
    if list then
      table.sort(list)
      for i = 1, #list do clashes[#clashes + 1] = list[i] end
    end
  end
  first[count + 1] = #clashes + 1
  u.clashes_first, u.clashes = freeze(first), freeze(clashes)
end

-- Makes the universe of the indices at `paths`; the order of the paths does not matter except among equal versions.
--
-- `freeze`, if given, is applied to every part as soon as it is complete, and the part is read through its result from
-- then on: with `perilune`'s `share`, no part exists twice for longer than it takes to copy it.
function universe.load(paths, freeze)
  freeze = freeze or function(part) return part end
  local c = new_collector()
  for _, path in ipairs(paths) do
    index.read(path, function(...) c:add(...) end)
  end
  c.needs_first[#c.version + 1] = #c.needs + 1
  c.refusals_first[#c.version + 1] = #c.refusals + 1
  local u = { architecture = c.architecture }
  local function move(field)
    u[field] = freeze(c[field])
    c[field] = u[field]
  end
  c.number_of, c.refusal_number = nil, nil
  -- The names are in two parts; frozen together they stay the same strings.
  local names = freeze { c.name, c.role_of }
  u.name, u.role_of = names[1], names[2]
  c.name, c.role_of = u.name, nil
  for _, field in ipairs { "version", "role", "size", "needs_first", "needs", "text", "refusals_first", "refusals", "refusal" } do
    move(field)
  end
  order_versions(c, u, freeze)
  c.latest, c.before = nil, nil
  order_providers(c, u, freeze)
  c.provided, c.provider, c.provided_version = nil, nil, nil
  resolve_requirements(u, freeze)
  resolve_clashes(c, u, freeze)
  return freeze(u)
end

-- "name version" of a version.
function universe.label(u, v) return u.name[u.role[v]] .. " " .. u.version[v] end

-- Why two versions that clash do: which of them says so, and its entry as written.
function universe.clash(u, v, w)
  for _, pair in ipairs { { v, w }, { w, v } } do
    local who, whom = pair[1], pair[2]
    for i = u.refusals_first[who], u.refusals_first[who + 1] - 1 do
      local text = u.refusal[u.refusals[i]]
      for _, found in ipairs(universe.satisfying(u, refused(text))) do
        if found == whom then return who, text end
      end
    end
  end
end

-- The roles that have versions, in the order in which they were read.
function universe.packages(u)
  local roles = {}
  for role = 1, #u.name do
    if u.versions_first[role] < u.versions_first[role + 1] then roles[#roles + 1] = role end
  end
  return roles
end

return universe
