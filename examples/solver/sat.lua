-- A SAT solver by conflict-driven clause learning, with the two kinds of constraint that package problems are full of
-- as objects of their own: at-most-one groups and pairs that exclude each other. As clauses they would be quadratic in
-- number; here one list per group does, and becoming true makes the others false directly.
--
-- A variable is a number from 1 on. A literal is `2 * var` if it says that the variable is true and `2 * var + 1` if it
-- says that it is false, so that `lit ~ 1` negates, and arrays are indexed by literals.
--
--   propagate   every clause watches two of its literals that are not false; only when a watched one becomes false is
--               the clause looked at. It then finds another to watch, or its last literal is implied.
--   learn       at a conflict, the clauses that led there are resolved, backwards along the trail, until one literal of
--               the current level is left (the first unique implication point). The result is a clause that would have
--               prevented the conflict.
--   backjump    to the deepest level at which the learned clause still implies that literal, however far that is.
--
-- Decisions are not made here: the caller's `choose` says what to try next, so the caller's preferences decide which of
-- the solutions is found. There are no restarts, no activities and no random numbers: equal input, equal run.
--
-- Problems grow while they are solved. When a variable becomes true for the first time, `expand(solver, var)` may add
-- variables, clauses that contain the variable's negation, groups and exclusions. What never becomes true never costs
-- anything, which is most of a package universe.

local sat = {}

local Solver = {}
Solver.__index = Solver

-- Makes a solver. `expand(solver, var)` is optional. With `tracing`, the solver remembers from what each clause was
-- learned, and after a failure `core` can say which facts caused it.
function sat.new(expand, tracing)
  return setmetatable({
    count = 0, -- of variables
    value = { 0 }, -- by literal: 1 true, -1 false, 0 open
    level = {}, -- by variable, as long as it has a value: the number of decisions before
    reason = {}, -- by variable: the clause that implied it, or the true literal that excludes it, or false: decided
    watches = {}, -- by literal: the clauses that watch it, or false
    group = {}, -- by variable: the at-most-one group that it is in, or false
    excluded = {}, -- by variable: the variables that it excludes, or false
    expanded = {}, -- by variable: whether `expand` has seen it
    trail = {}, -- the true literals in the order in which they became true
    trail_size = 0,
    head = 1, -- the first entry of the trail whose consequences have not been drawn
    level_start = {}, -- by level: the size of the trail when its decision was made
    depth = 0, -- the current level
    conflicts = 0, -- how many there were
    expand = expand or false,
    pending = false, -- a clause that was false when it was added
    origin = tracing and {} or false, -- by learned clause: what it was resolved from
    final = false, -- the conflict that no decision was to blame for
  }, Solver)
end

-- Adds a variable and returns it.
function Solver:variable()
  local var = self.count + 1
  self.count = var
  local lit = 2 * var
  self.value[lit], self.value[lit + 1] = 0, 0
  self.watches[lit], self.watches[lit + 1] = false, false
  self.level[var], self.reason[var] = 0, false
  self.group[var], self.excluded[var], self.expanded[var] = false, false, false
  return var
end

-- Makes a literal true that is open.
local function assign(self, lit, reason)
  local var = lit >> 1
  local value = self.value
  value[lit], value[lit ~ 1] = 1, -1
  self.level[var], self.reason[var] = self.depth, reason
  local size = self.trail_size + 1
  self.trail_size = size
  self.trail[size] = lit
end

local function watch(watches, lit, clause)
  local list = watches[lit]
  if list then
    list[#list + 1] = clause
  else
    watches[lit] = { clause }
  end
end

-- Adds a clause: at least one of the literals has to be true, and there is at least one. The solver keeps the table and
-- reorders it; one literal alone is written twice.
--
-- While the solver runs, one of the literals must be the negation of the variable that is being expanded (or any that
-- became false at the current level), or be open or true: what the clause implies now must hold at this level.
function Solver:clause(clause)
  local value, size = self.value, #clause
  -- Two literals that are not false go first. If there is one only, the other to watch has to be one that became false
  -- last, because backjumping opens that first.
  local front = 0
  for i = 1, size do
    local lit = clause[i]
    if value[lit] >= 0 then
      front = front + 1
      clause[i] = clause[front]
      clause[front] = lit
      if front == 2 then break end
    end
  end
  if size > 1 then
    if front < 2 then
      local latest = front + 1
      for i = latest + 1, size do
        if self.level[clause[i] >> 1] > self.level[clause[latest] >> 1] then latest = i end
      end
      clause[front + 1], clause[latest] = clause[latest], clause[front + 1]
      if front == 0 then
        latest = 2
        for i = 3, size do
          if self.level[clause[i] >> 1] > self.level[clause[latest] >> 1] then latest = i end
        end
        clause[2], clause[latest] = clause[latest], clause[2]
      end
    end
    watch(self.watches, clause[2], clause)
  else
    -- A clause of one literal that comes late holds at every level, not only at this one: it is watched like others.
    clause[2] = clause[1]
  end
  watch(self.watches, clause[1], clause)
  if front == 0 then
    self.pending = self.pending or clause
  elseif (front == 1 or size == 1) and value[clause[1]] == 0 then
    assign(self, clause[1], clause)
  end
  return clause
end

-- At most one of the variables may be true. All must be open, and in no other group.
function Solver:at_most_one(variables)
  for i = 1, #variables do self.group[variables[i]] = variables end
end

local function add_exclusion(excluded, a, b)
  local list = excluded[a]
  if list then
    list[#list + 1] = b
  else
    excluded[a] = { b }
  end
end

-- The two variables may not both be true. At least one of them must be open.
function Solver:exclude(a, b)
  add_exclusion(self.excluded, a, b)
  add_exclusion(self.excluded, b, a)
  local value = self.value
  if value[2 * a] == 1 and value[2 * b] == 0 then
    assign(self, 2 * b + 1, 2 * a)
  elseif value[2 * b] == 1 and value[2 * a] == 0 then
    assign(self, 2 * a + 1, 2 * b)
  end
end

-- Makes all of `others` but `var`, which is true, false. Returns a conflict if one of them is true.
local function shut(self, var, others)
  local value, lit = self.value, 2 * var
  for i = 1, #others do
    local other = others[i]
    if other ~= var then
      local state = value[2 * other]
      if state == 0 then
        assign(self, 2 * other + 1, lit)
      elseif state == 1 then
        return { lit + 1, 2 * other + 1 }
      end
    end
  end
end

-- Visits the clauses that watch `lit`, which has become false. Returns the one that is false altogether, if any.
local function visit(self, list, lit)
  local value, watches = self.value, self.watches
  local kept, size = 0, #list
  for i = 1, size do
    local clause = list[i]
    local other = clause[1]
    if other == lit then
      other = clause[2]
      clause[1], clause[2] = other, lit
    end
    local moved = false
    if value[other] ~= 1 then
      for j = 3, #clause do
        local candidate = clause[j]
        if value[candidate] >= 0 then
          clause[2], clause[j] = candidate, lit
          watch(watches, candidate, clause)
          moved = true
          break
        end
      end
    end
    if not moved then
      kept = kept + 1
      list[kept] = clause
      local state = value[other]
      if state == 0 then
        assign(self, other, clause)
      elseif state == -1 then
        for j = i + 1, size do
          kept = kept + 1
          list[kept] = list[j]
        end
        for j = kept + 1, size do list[j] = nil end
        return clause
      end
    end
  end
  for j = kept + 1, size do list[j] = nil end
end

-- Draws all consequences. Returns a clause that is false, or nil.
local function propagate(self)
  local trail, watches, group, excluded, expanded = self.trail, self.watches, self.group, self.excluded, self.expanded
  local expand = self.expand
  while self.head <= self.trail_size do
    local lit = trail[self.head]
    self.head = self.head + 1
    local conflict
    if lit & 1 == 0 then
      local var = lit >> 1
      local others = group[var]
      conflict = others and shut(self, var, others)
      others = not conflict and excluded[var]
      conflict = conflict or others and shut(self, var, others)
      if not conflict and not expanded[var] then
        expanded[var] = true
        if expand then
          expand(self, var)
          conflict = self.pending
          self.pending = false
        end
      end
    end
    local list = not conflict and watches[lit ~ 1]
    conflict = conflict or list and visit(self, list, lit ~ 1)
    if conflict then return conflict end
  end
end

-- Undoes all levels above `depth`.
local function backjump(self, depth)
  if depth >= self.depth then return end
  local trail, value, size = self.trail, self.value, self.level_start[depth + 1]
  for i = self.trail_size, size + 1, -1 do
    local lit = trail[i]
    value[lit], value[lit ~ 1] = 0, 0
  end
  self.trail_size, self.head, self.depth = size, size + 1, depth
end

-- The literals of the clause behind a conflict or an implied literal; an exclusion is a clause of two.
local function antecedent(lit, reason)
  if math.type(reason) then return { lit, reason ~ 1 } end
  return reason
end

-- Resolves a conflict into a clause. Its first literal is to be implied at the level that is returned with it.
local function analyse(self, conflict)
  local level, reason, trail, depth = self.level, self.reason, self.trail, self.depth
  local seen, learned, open, at = {}, { 0 }, 0, self.trail_size + 1
  local origin = self.origin and { conflict }
  local target = 0
  local clause, lit = conflict, 0
  repeat
    for i = 1, #clause do
      local other = clause[i]
      local var = other >> 1
      if other ~= lit and not seen[var] then
        seen[var] = true
        local where = level[var]
        if where == depth then
          open = open + 1
        elseif where > 0 then
          learned[#learned + 1] = other
          if where > target then target = where end
        elseif origin then
          origin[#origin + 1] = var
        end
      end
    end
    repeat
      at = at - 1
      lit = trail[at]
    until seen[lit >> 1] and level[lit >> 1] == depth
    open = open - 1
    if open > 0 then
      clause = antecedent(lit, reason[lit >> 1])
      if origin then origin[#origin + 1] = clause end
    end
  until open == 0
  learned[1] = lit ~ 1
  if origin then self.origin[learned] = origin end
  return learned, target
end

-- Looks for values that satisfy everything. `choose(solver)` returns the next literal to try, which must be open, or nil
-- if the solution is good enough for it. Returns whether there is one.
function Solver:solve(choose)
  if self.pending then
    self.final = self.pending
    return false
  end
  while true do
    local conflict = propagate(self)
    if conflict then
      self.conflicts = self.conflicts + 1
      if self.depth == 0 then
        self.final = conflict
        return false
      end
      local learned, target = analyse(self, conflict)
      backjump(self, target)
      self:clause(learned)
    else
      local lit = choose(self)
      if not lit then return true end
      local depth = self.depth + 1
      self.depth = depth
      self.level_start[depth] = self.trail_size
      assign(self, lit, false)
    end
  end
end

-- Whether a variable is true.
function Solver:is_true(var) return self.value[2 * var] == 1 end

-- After a failure, with tracing: the added clauses, and the exclusions as new clauses of two, that together cannot be
-- satisfied, in the order in which the proof is walked.
function Solver:core()
  local found, seen_clause, seen_var = {}, {}, {}
  local stack = { self.final }
  while #stack > 0 do
    local item = table.remove(stack)
    if type(item) == "number" then
      -- A variable that had its value before any decision.
      if not seen_var[item] then
        seen_var[item] = true
        local lit = self:is_true(item) and 2 * item or 2 * item + 1
        stack[#stack + 1] = antecedent(lit, self.reason[item])
      end
    elseif not seen_clause[item] then
      seen_clause[item] = true
      -- What still has a value has it before any decision.
      for _, lit in ipairs(item) do
        if self.value[lit] ~= 0 then stack[#stack + 1] = lit >> 1 end
      end
      local origin = self.origin[item]
      if origin then
        table.move(origin, 1, #origin, #stack + 1, stack)
      else
        found[#found + 1] = item
      end
    end
  end
  return found
end

return sat
