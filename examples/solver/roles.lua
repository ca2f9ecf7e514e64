-- A request as a SAT problem: roles are at-most-one groups, versions are variables, requirements are clauses.
--
-- The problem is made as the search needs it. A version's requirements become clauses when the version becomes true
-- for the first time, and a role's versions become variables when a requirement first names one of them: a solve of a
-- hundred packages touches a few hundred of the archive's sixty-five thousand.
--
-- Decisions follow what the user would say. Selected versions are looked at in the order in which they were selected,
-- their requirements in the order in which they are written; the first requirement that nothing selected satisfies yet
-- is satisfied by its best candidate that is still open: alternatives from left to right, newest versions first, the
-- named package before what provides it. So what is nearer to the request gets its preference before what is deeper.
--
-- All state is made for one solve and dropped after it; the universe is only read.

local sat = require "sat"
local universe = require "universe"

local roles = {}

local Problem = {}
Problem.__index = Problem

-- The variable that stands for the request itself: true from the start, and with the request as its requirements.
local REQUEST <const> = 1

-- Brings what a user types into the form of a requirement: `name=1.2` and `name>=1.2` work beside `name (>= 1.2)`.
local function normalise(word)
  local name, op, bound = word:match("^([%w+.-]+)%s*([<>=]+)%s*([^%s()]+)$")
  if name then return name .. " (" .. op .. " " .. bound .. ")" end
  return word
end

-- Makes a request from words: each is a requirement, or `!` and what must not be installed. Raises a message for the
-- user if a word makes no sense or names what no index knows.
function roles.request(u, words)
  local request = { requirements = {}, refused = {} }
  for _, word in ipairs(words) do
    local negated, text = word:match("^(!?)%s*(.*)$")
    text = normalise(text)
    local found, message = universe.satisfying(u, text)
    if not found then error(message, 0) end
    if negated == "!" then
      for _, v in ipairs(found) do request.refused[#request.refused + 1] = { version = v, text = text } end
    else
      local known = false
      for _, name in ipairs(universe.names(text)) do known = known or u.role_of[name] ~= nil end
      if not known then error("no package is named " .. text .. ", and none provides it", 0) end
      request.requirements[#request.requirements + 1] = { text = text, candidates = found }
    end
  end
  return request
end

-- The variable of a version. Its role gets its variables all at once, so that the group is complete before any of
-- them can be true. A clash becomes an exclusion as soon as both sides are variables.
function Problem:variable_of(v)
  local variable, u = self.variable, self.universe
  local var = variable[v]
  if var then return var end
  local solver, role = self.solver, u.role[v]
  local first, last = u.versions_first[role], u.versions_first[role + 1] - 1
  local group = {}
  for i = first, last do
    local w = u.versions[i]
    local new = solver:variable()
    variable[w], self.version[new] = new, w
    group[#group + 1] = new
    for j = u.clashes_first[w], u.clashes_first[w + 1] - 1 do
      local other = variable[u.clashes[j]]
      if other then solver:exclude(new, other) end
    end
  end
  if last > first then solver:at_most_one(group) end
  return variable[v]
end

-- Adds the clause of one requirement of `var`, and if there is a choice, remembers it for `choose`. `candidates[first]`
-- to `candidates[last]` satisfy it; `requirement` is what explanations call it.
local function require_one_of(self, var, candidates, first, last, requirement)
  local clause = { 2 * var + 1 }
  for i = first, last do clause[i - first + 2] = 2 * self:variable_of(candidates[i]) end
  if last > first then
    local choices = self.choices[var]
    if not choices then
      choices = {}
      self.choices[var] = choices
    end
    choices[#choices + 1] = table.move(clause, 2, #clause, 1, {})
  end
  self.solver:clause(clause)
  if self.meaning then self.meaning[clause] = { var = var, requirement = requirement } end
end

-- Adds what a variable that became true asks for.
local function expand(self, var)
  if var == REQUEST then
    local request = self.request
    for i, requirement in ipairs(request.requirements) do
      require_one_of(self, var, requirement.candidates, 1, #requirement.candidates, -i)
    end
    for _, refused in ipairs(request.refused) do self.solver:exclude(var, self:variable_of(refused.version)) end
  else
    local u, v = self.universe, self.version[var]
    local first, candidates = u.candidates_first, u.candidates
    for i = u.needs_first[v], u.needs_first[v + 1] - 1 do
      local q = u.needs[i]
      require_one_of(self, var, candidates, first[q], first[q + 1] - 1, q)
    end
  end
end

-- The next decision: the best open candidate of the first requirement that is not satisfied.
--
-- Requirements before the cursor are satisfied by what was true when the cursor passed them; a backjump may have undone
-- that, so the cursor goes back to where it was when the first undone decision was made.
local function choose(self)
  local solver = self.solver
  local trail, value, choices = solver.trail, solver.value, self.choices
  local depth = solver.depth
  local at = self.cursor_at[depth] or 1
  if depth == self.decided_depth + 1 then at = self.cursor end
  for i = at, solver.trail_size do
    local lit = trail[i]
    local mine = lit & 1 == 0 and choices[lit >> 1]
    if mine then
      for j = 1, #mine do
        local choice, best, satisfied = mine[j], nil, false
        for k = 1, #choice do
          local state = value[choice[k]]
          if state == 1 then
            satisfied = true
            break
          elseif state == 0 and not best then
            best = choice[k]
          end
        end
        if not satisfied then
          self.cursor, self.cursor_at[depth], self.decided_depth = i, i, depth
          return best
        end
      end
    end
  end
end

local function new_problem(u, request, tracing)
  local self = setmetatable({
    universe = u,
    request = request,
    variable = {}, -- by version
    version = { false }, -- by variable
    choices = {}, -- by variable: its requirements with several candidates, as lists of literals, best first
    cursor = 1, -- the entry of the trail before which all requirements are satisfied
    cursor_at = {}, -- by level: the cursor when the level's first decision was looked for
    decided_depth = -1, -- the level from which the last decision was made
    meaning = tracing and {} or false, -- by clause: whose requirement it is
  }, Problem)
  self.solver = sat.new(function(_, var) expand(self, var) end, tracing)
  self.solver:clause { 2 * self.solver:variable() }
  return self
end

-- Solves a request. Returns the selected versions in the order of selection, or nil; and how many conflicts there were.
function roles.solve(u, request)
  local self = new_problem(u, request, false)
  local solver = self.solver
  if not solver:solve(function() return choose(self) end) then return nil, solver.conflicts end
  local selected = {}
  for i = 1, solver.trail_size do
    local lit = solver.trail[i]
    if lit & 1 == 0 and lit >> 1 ~= REQUEST then selected[#selected + 1] = self.version[lit >> 1] end
  end
  return selected, solver.conflicts
end

-- Whether some of `facts` together are impossible. A fact is { owner =, candidates = } for a requirement or
-- { a, b } for two versions that exclude each other; the request is version 0.
local function impossible(facts)
  local solver, variable = sat.new(), {}
  local function var(v)
    variable[v] = variable[v] or solver:variable()
    return variable[v]
  end
  for _, fact in ipairs(facts) do
    if fact.candidates then
      local clause = { 2 * var(fact.owner) + 1 }
      for _, v in ipairs(fact.candidates) do clause[#clause + 1] = 2 * var(v) end
      solver:clause(clause)
    else
      solver:exclude(var(fact[1]), var(fact[2]))
    end
  end
  solver:clause { 2 * var(0) }
  return not solver:solve(function()
    for v = 1, solver.count do
      if solver.value[2 * v] == 0 then return 2 * v + 1 end
    end
  end)
end

-- For a request that cannot be satisfied: facts that already make it impossible, none of which can be left out.
-- A fact is { owner =, text =, candidates = } for a requirement, { a, b } for versions that exclude each other.
function roles.core(u, request)
  local self = new_problem(u, request, true)
  assert(not self.solver:solve(function() return choose(self) end), "the request can be satisfied")
  local facts, seen_pair = {}, {}
  for _, clause in ipairs(self.solver:core()) do
    local meaning = self.meaning[clause]
    if meaning then
      local q = meaning.requirement
      if q < 0 then
        local requirement = request.requirements[-q]
        facts[#facts + 1] = { owner = 0, text = requirement.text, candidates = requirement.candidates }
      else
        local first, last = u.candidates_first[q], u.candidates_first[q + 1] - 1
        facts[#facts + 1] = { owner = self.version[meaning.var], text = u.text[q],
          candidates = table.move(u.candidates, first, last, 1, {}) }
      end
    elseif clause[1] ~= clause[2] then
      -- Without a meaning of its own: an exclusion. (The clause that makes the request true has one literal.)
      local a, b = self.version[clause[1] >> 1] or 0, self.version[clause[2] >> 1] or 0
      if a > b then a, b = b, a end
      local key = a .. " " .. b
      if not seen_pair[key] then
        seen_pair[key] = true
        facts[#facts + 1] = { a, b }
      end
    end
  end
  for i = #facts, 1, -1 do
    local fact = table.remove(facts, i)
    if not impossible(facts) then table.insert(facts, i, fact) end
  end
  return facts
end

return roles
