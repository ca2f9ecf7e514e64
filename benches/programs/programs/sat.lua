-- A SAT solver: two watched literals, unit propagation, first-UIP clause learning, activity-ordered decisions,
-- restarts. It solves random 3-SAT, graph colouring and the pigeonhole principle; models are checked.
-- bench: group=programs size=55 quick=4
local n = tonumber(arg and arg[1]) or 55

local Solver = {}
Solver.__index = Solver
local function solver(variables)
  local s = setmetatable({
    variables = variables, watches = {}, value = {}, level = {}, reason = {}, trail = {}, marks = {}, head = 1,
    activity = {}, phase = {}, bump = 1, empty = false, conflicts = 0, propagations = 0, seen = {},
  }, Solver)
  for v = 1, variables do
    s.watches[v], s.watches[-v] = {}, {}
    s.activity[v], s.phase[v], s.level[v], s.seen[v] = 0, false, 0, false
  end
  return s
end
function Solver:truth(lit)
  local v = self.value[lit > 0 and lit or -lit]
  if v == nil then return nil end
  return v == (lit > 0)
end
function Solver:assign(lit, reason)
  local v = lit > 0 and lit or -lit
  self.value[v] = lit > 0
  self.phase[v] = lit > 0
  self.level[v] = #self.marks
  self.reason[v] = reason or false
  self.trail[#self.trail + 1] = lit
end
function Solver:add(clause)
  if #clause == 1 then
    local t = self:truth(clause[1])
    if t == false then self.empty = true elseif t == nil then self:assign(clause[1]) end
    return
  end
  local w = self.watches
  local a, b = w[clause[1]], w[clause[2]]
  a[#a + 1] = clause
  b[#b + 1] = clause
end
function Solver:propagate()
  local watches, trail, value = self.watches, self.trail, self.value
  while self.head <= #trail do
    local falsified = -trail[self.head]
    self.head = self.head + 1
    self.propagations = self.propagations + 1
    local list = watches[falsified]
    local kept, total = 0, #list
    for i = 1, total do
      local c = list[i]
      if c[1] == falsified then c[1], c[2] = c[2], falsified end
      local first = c[1]
      local fv = value[first > 0 and first or -first]
      if fv ~= nil and fv == (first > 0) then
        kept = kept + 1
        list[kept] = c
      else
        local moved = false
        for k = 3, #c do
          local lit = c[k]
          local lv = value[lit > 0 and lit or -lit]
          if lv == nil or lv == (lit > 0) then
            c[2], c[k] = lit, falsified
            local other = watches[lit]
            other[#other + 1] = c
            moved = true
            break
          end
        end
        if not moved then
          kept = kept + 1
          list[kept] = c
          if fv == nil then
            self:assign(first, c)
          else
            for k = i + 1, total do
              kept = kept + 1
              list[kept] = list[k]
            end
            for k = total, kept + 1, -1 do list[k] = nil end
            return c
          end
        end
      end
    end
    for k = total, kept + 1, -1 do list[k] = nil end
  end
end
function Solver:analyze(conflict)
  local seen, level, learnt, open, back = self.seen, self.level, { 0 }, 0, 0
  local at, now, clause, lit = #self.trail, #self.marks, conflict, nil
  local touched = {}
  repeat
    for i = 1, #clause do
      local q = clause[i]
      local v = q > 0 and q or -q
      if q ~= lit and not seen[v] and level[v] > 0 then
        seen[v] = true
        touched[#touched + 1] = v
        self.activity[v] = self.activity[v] + self.bump
        if level[v] == now then
          open = open + 1
        else
          learnt[#learnt + 1] = q
          if level[v] > back then
            back = level[v]
            learnt[2], learnt[#learnt] = learnt[#learnt], learnt[2]
          end
        end
      end
    end
    repeat
      lit = self.trail[at]
      at = at - 1
    until seen[lit > 0 and lit or -lit]
    clause = self.reason[lit > 0 and lit or -lit]
    open = open - 1
  until open == 0
  learnt[1] = -lit
  for i = 1, #touched do seen[touched[i]] = false end
  self.bump = self.bump * 1.05
  if self.bump > 1e50 then
    for v = 1, self.variables do self.activity[v] = self.activity[v] * 1e-50 end
    self.bump = self.bump * 1e-50
  end
  return learnt, back
end
function Solver:backtrack(to)
  if #self.marks <= to then return end
  local keep = self.marks[to + 1]
  for i = #self.trail, keep + 1, -1 do
    local lit = self.trail[i]
    self.value[lit > 0 and lit or -lit] = nil
    self.trail[i] = nil
  end
  for i = #self.marks, to + 1, -1 do self.marks[i] = nil end
  self.head = keep + 1
end
function Solver:solve()
  if self.empty or self:propagate() then return false end
  local since, limit = 0, 100
  while true do
    local conflict = self:propagate()
    if conflict then
      self.conflicts = self.conflicts + 1
      since = since + 1
      if #self.marks == 0 then return false end
      local learnt, back = self:analyze(conflict)
      self:backtrack(back)
      if #learnt == 1 then
        self:assign(learnt[1])
      else
        self:add(learnt)
        self:assign(learnt[1], learnt)
      end
      if since > limit then
        since, limit = 0, limit * 1.3
        self:backtrack(0)
      end
    else
      local best, most = nil, -1
      for v = 1, self.variables do
        if self.value[v] == nil and self.activity[v] > most then best, most = v, self.activity[v] end
      end
      if not best then return true end
      self.marks[#self.marks + 1] = #self.trail
      self:assign(self.phase[best] and best or -best)
    end
  end
end

local seed = 99
local function random(k) seed = seed * 16807 % 2147483647; return seed % k end
local conflicts, propagations = 0, 0
local function decide(variables, clauses)
  local s, copies = solver(variables), {}
  for i, c in ipairs(clauses) do
    copies[i] = {}
    for k, lit in ipairs(c) do copies[i][k] = lit end
    s:add(copies[i])
  end
  local answer = s:solve()
  if answer then
    for _, c in ipairs(clauses) do
      local ok = false
      for _, lit in ipairs(c) do ok = ok or s:truth(lit) end
      assert(ok, "the model satisfies every clause")
    end
  end
  conflicts = conflicts + s.conflicts
  propagations = propagations + s.propagations
  return answer
end

local function pigeons(holes)
  local clauses = {}
  local function var(p, h) return (p - 1) * holes + h end
  for p = 1, holes + 1 do
    local c = {}
    for h = 1, holes do c[h] = var(p, h) end
    clauses[#clauses + 1] = c
  end
  for h = 1, holes do
    for p = 1, holes + 1 do
      for q = p + 1, holes + 1 do clauses[#clauses + 1] = { -var(p, h), -var(q, h) } end
    end
  end
  return (holes + 1) * holes, clauses
end
local function three_sat(variables, count)
  local clauses = {}
  for i = 1, count do
    local a, b, c = random(variables) + 1, random(variables) + 1, random(variables) + 1
    while b == a do b = random(variables) + 1 end
    while c == a or c == b do c = random(variables) + 1 end
    clauses[i] = { random(2) == 0 and a or -a, random(2) == 0 and b or -b, random(2) == 0 and c or -c }
  end
  return variables, clauses
end
local function wheel(rim, colours)
  local clauses = {}
  local function var(v, c) return v * colours + c end
  local function edge(a, b) for c = 1, colours do clauses[#clauses + 1] = { -var(a, c), -var(b, c) } end end
  for v = 0, rim do
    local any = {}
    for c = 1, colours do any[c] = var(v, c) end
    clauses[#clauses + 1] = any
  end
  for v = 1, rim do
    edge(0, v)
    edge(v, v % rim + 1)
  end
  return (rim + 1) * colours, clauses
end

local satisfiable = 0
for i = 1, n do
  if decide(three_sat(100 + i % 3 * 10, 410 + i % 5 * 10)) then satisfiable = satisfiable + 1 end
  -- A wheel needs four colours if its rim is odd, three if it is even.
  assert(decide(wheel(20 + i % 2, 3)) == (i % 2 == 0))
  assert(decide(wheel(21, 4)))
  assert(not decide(pigeons(4 + i % 2)))
end
local result = string.format("sat %d %d %d", satisfiable, conflicts, propagations)
local known = { [4] = "sat 4 755 15738", [55] = "sat 44 14754 320719" }
assert(not known[n] or result == known[n], result)
print(result)
