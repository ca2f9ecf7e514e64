-- Says why a request cannot be satisfied, in the user's terms: names, versions, and the words of the indices.
--
-- The SAT solver's proof is a heap of resolved clauses that nobody wants to read. But the facts that it rests on, cut
-- down to those without which it would not hold, are few (see `roles.core`). Over these the search is made once more,
-- in the way in which a person would: take something selected whose requirement is the hardest to satisfy, and go
-- through its candidates. One falls because something selected excludes it, the next because what it needs in turn
-- cannot be had. What is written is that search, indented. Each line states something that the indices say.

local universe = require "universe"
local roles = require "roles"

local explain = {}

local Explanation = {}
Explanation.__index = Explanation

-- How many lines an explanation has at most. Real ones have five to thirty.
local LIMIT <const> = 200

function Explanation:say(depth, ...)
  self.written = self.written + 1
  if self.written <= LIMIT then
    self.lines[#self.lines + 1] = ("  "):rep(depth) .. string.format(...)
  elseif self.written == LIMIT + 1 then
    self.lines[#self.lines + 1] = ("  "):rep(depth) .. "..."
  end
end

-- A selected version with who wants it; how that came to be selected has been written above.
local function wanted(self, entry)
  local label = universe.label(self.universe, entry.version)
  if entry.by.version == 0 then return label .. ", which is requested" end
  return label .. ", needed by " .. universe.label(self.universe, entry.by.version)
end

-- The selected entry that excludes version `v`, and how: "request", "role" or "clash". Nil if none does.
local function excluded_by(self, v)
  local u = self.universe
  for _, refused in ipairs(self.request.refused) do
    if refused.version == v then return refused, "request" end
  end
  for _, entry in ipairs(self.selected) do
    local w = entry.version
    if w ~= 0 and w ~= v then
      if u.role[w] == u.role[v] then return entry, "role" end
      for i = u.clashes_first[v], u.clashes_first[v + 1] - 1 do
        if u.clashes[i] == w then return entry, "clash" end
      end
    end
  end
end

-- What is said about a version that something selected excludes, with the place of its own name left open.
local function exclusion(self, v)
  local u = self.universe
  local entry, how = excluded_by(self, v)
  if how == "request" then return "%s: refused by the request (!" .. entry.text .. ")" end
  if how == "role" then return "%s: another version is selected, " .. wanted(self, entry) end
  local who, text = universe.clash(u, v, entry.version)
  return string.format("%%s: clashes with %s (%s says \"%s\")", wanted(self, entry), u.name[u.role[who]], text)
end

-- Writes why each of `versions` is excluded; what is the same for several versions of a package is written once.
local function say_excluded(self, depth, versions)
  local u, groups, by_key = self.universe, {}, {}
  for _, v in ipairs(versions) do
    local text = exclusion(self, v)
    local key = u.role[v] .. text
    if not by_key[key] then
      by_key[key] = { text = text, label = universe.label(u, v) }
      groups[#groups + 1] = by_key[key]
    else
      by_key[key].label = by_key[key].label .. ", " .. u.version[v]
    end
  end
  for _, group in ipairs(groups) do self:say(depth, group.text, group.label) end
end

-- What the names of a requirement would offer if it had no version restriction.
local function say_unsuitable(self, depth, text, candidates)
  local u, suitable = self.universe, {}
  for _, v in ipairs(candidates) do suitable[v] = true end
  local asked = {}
  for _, name in ipairs(universe.names(text)) do
    if not asked[name] then
      asked[name] = true
      local offered = universe.satisfying(u, name)
      if #offered == 0 then self:say(depth, "%s: not in the indices, and nothing provides it", name) end
      for _, v in ipairs(offered) do
        if not suitable[v] then
          local own = u.role[v] == u.role_of[name]
          local label = universe.label(u, v)
          self:say(depth, own and "%s: does not match" or "%s: provides %s, but in no such version", label, name)
        end
      end
    end
  end
end

-- The requirement to look at next: of those that nothing selected satisfies, the one with the fewest candidates left;
-- of equals the one selected last, so that an argument is finished before the next begins.
local function hardest(self)
  local best, best_open
  local is_selected = {}
  for _, entry in ipairs(self.selected) do is_selected[entry.version] = true end
  for i = #self.selected, 1, -1 do
    for _, fact in ipairs(self.requirements[self.selected[i].version] or {}) do
      local open, satisfied = {}, false
      for _, v in ipairs(fact.candidates) do
        if is_selected[v] then satisfied = true end
        if not excluded_by(self, v) then open[#open + 1] = v end
      end
      if not satisfied and (not best or #open < #best_open) then
        best, best_open = { fact = fact, entry = self.selected[i] }, open
      end
    end
  end
  return best, best_open
end

local refute

-- Tries the candidates that are left, one after the other. Those that fail in the same words as the first, but for
-- their version, are only named.
local function refute_each(self, depth, entry, fact, open)
  local outer, first = self.lines, nil
  for _, v in ipairs(open) do
    self.lines = {}
    self.selected[#self.selected + 1] = { version = v, by = entry, text = fact.text }
    refute(self, depth + 1)
    self.selected[#self.selected] = nil
    local lines, label = self.lines, universe.label(self.universe, v)
    local pattern = label:gsub("%p", "%%%0")
    local words = table.concat(lines, "\n"):gsub(pattern, "@")
    self.lines = outer
    if words == first then
      self:say(depth, "and so it is with %s", label)
    else
      first = words
      self:say(depth, "with %s:", label)
      table.move(lines, 1, #lines, #outer + 1, outer)
    end
    if self.written > LIMIT then return end
  end
end

-- Writes why what is selected cannot be completed.
function refute(self, depth)
  local found, open = hardest(self)
  assert(found, "the facts do not contradict each other")
  local fact, entry = found.fact, found.entry
  if entry.version == 0 then
    self:say(depth, "%s is requested", fact.text)
  else
    self:say(depth, "%s needs %s", universe.label(self.universe, entry.version), fact.text)
  end
  local is_open, closed = {}, {}
  for _, v in ipairs(open) do is_open[v] = true end
  for _, v in ipairs(fact.candidates) do
    if not is_open[v] then closed[#closed + 1] = v end
  end
  say_excluded(self, depth + 1, closed)
  say_unsuitable(self, depth + 1, fact.text, fact.candidates)
  if #open == 1 then
    self.selected[#self.selected + 1] = { version = open[1], by = entry, text = fact.text }
    refute(self, depth)
    self.selected[#self.selected] = nil
  else
    refute_each(self, depth + 1, entry, fact, open)
  end
end

-- For a solution: by version, what brought it in, as text. It is the first requirement, in the order of selection, that
-- the version satisfies.
function explain.selection(u, request, selected)
  local missing, why = {}, {}
  for _, v in ipairs(selected) do missing[v] = true end
  local function credit(v, text)
    if missing[v] then missing[v], why[v] = nil, text end
  end
  for _, requirement in ipairs(request.requirements) do
    for _, v in ipairs(requirement.candidates) do credit(v, "requested") end
  end
  for _, v in ipairs(selected) do
    for i = u.needs_first[v], u.needs_first[v + 1] - 1 do
      local q = u.needs[i]
      for j = u.candidates_first[q], u.candidates_first[q + 1] - 1 do
        credit(u.candidates[j], u.name[u.role[v]] .. " needs " .. u.text[q])
      end
    end
  end
  return why
end

-- The explanation of a request that has no solution, as a list of lines.
function explain.failure(u, request)
  local self = setmetatable({
    universe = u,
    request = request,
    lines = {},
    selected = { { version = 0 } }, -- the versions assumed so far, each with who asked for it and how
    requirements = {}, -- by version: the facts about what it needs
    written = 0, -- how many lines there would be without a limit
  }, Explanation)
  local facts = roles.core(u, request)
  for i = #facts, 1, -1 do
    local fact = facts[i]
    if fact.candidates then
      local list = self.requirements[fact.owner] or {}
      list[#list + 1] = fact
      self.requirements[fact.owner] = list
    end
  end
  refute(self, 0)
  return self.lines
end

return explain
