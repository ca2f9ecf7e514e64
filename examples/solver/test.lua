-- Tests of the solver's parts. Prints what failed and ends with a status; quiet otherwise but for the last line.

local here = arg[0]:match("^(.*/)") or "./"
package.path = here .. "?.lua;" .. package.path

local explain = require "explain"
local index = require "index"
local roles = require "roles"
local sat = require "sat"
local universe = require "universe"
local version = require "version"

local passed, failed = 0, 0
local function check(fine, ...)
  if fine then
    passed = passed + 1
  else
    failed = failed + 1
    print("failed: " .. string.format(...))
  end
end

-- Versions.

-- Each line is in order: everything is older than what is right of it.
local ordered = {
  "~~ ~~a ~ 0 0a a", "1.0~beta1~svn1245 1.0~beta1 1.0 1.0-0a 1.0-1", "0.9 0.10 0.11 1", "1.2.3 1.2.3-1 1.2.3-1+b1 1.2.3-2",
  "9 1:0 1:1 2:0.1 10:0", "2.36-9+deb12u7 2.36-9+deb12u14", "1.0-1~bpo12+1 1.0-1", "1a 1b 1+ 1.",
  "3.0~rc1 3.0~rc2 3.0 3.0+git1 3.0.1", "0~20171227-0.3 0~20171227-0.3+deb12u1", "7.6-4~ 7.6-4 7.6-4+b1", "1.0-9 1.0-10",
  "1.2-a 1.2.a", "20230311 20230311+deb12u1 20250419~deb12u2", "1.0.0 1.0.0a 1.0.0+", "0:1-1 0:1-2 1:0",
}
for _, line in ipairs(ordered) do
  local list = {}
  for v in line:gmatch("%S+") do list[#list + 1] = v end
  for i = 1, #list do
    for j = 1, #list do
      local order = version.compare(list[i], list[j])
      check((order < 0) == (i < j) and (order > 0) == (i > j), "%s against %s gave %d", list[i], list[j], order)
    end
  end
end
for _, pair in ipairs { { "1.0", "1.00" }, { "0:1.0", "1.0" }, { "1.0", "1.0-0" }, { "01:1", "1:1" }, { "1.2.03", "1.02.3" } } do
  check(version.compare(pair[1], pair[2]) == 0, "%s and %s are equal", pair[1], pair[2])
end
check(version.satisfies("1.0", "<<", "1.0") == false, "<< is strict")
check(version.satisfies("1.0", "<", "1.0"), "< means <=")
check(version.satisfies("1.0-0", "=", "1.0"), "= compares as versions")
check(version.satisfies("1", nil, nil), "no relation asks for nothing")

-- The SAT solver.

-- Numbers that look random and are the same everywhere.
local state = 88172645463325252
local function random(n)
  state = state ~ (state << 13)
  state = state ~ (state >> 7)
  state = state ~ (state << 17)
  return (state >> 1) % n + 1
end

-- A problem: clauses of literals, exclusions and disjoint groups over `count` variables.
local function random_problem(count, clauses)
  local problem = { count = count, clauses = {}, pairs = {}, groups = {} }
  for i = 1, clauses do
    local clause, used = {}, {}
    for _ = 1, random(3) + (random(8) > 1 and 1 or 0) do
      local var = random(count)
      if not used[var] then
        used[var] = true
        clause[#clause + 1] = 2 * var + random(2) - 1
      end
    end
    problem.clauses[i] = clause
  end
  for i = 1, random(4) - 1 do
    local a, b = random(count), random(count)
    if a ~= b then problem.pairs[#problem.pairs + 1] = { a, b } end
  end
  local next_free = 1
  while next_free + 2 <= count and random(2) == 1 do
    problem.groups[#problem.groups + 1] = { next_free, next_free + 1, next_free + 2 }
    next_free = next_free + 3
  end
  return problem
end

local function holds(problem, is_true)
  for _, clause in ipairs(problem.clauses) do
    local fine = false
    for _, lit in ipairs(clause) do fine = fine or is_true(lit >> 1) == (lit & 1 == 0) end
    if not fine then return false end
  end
  for _, pair in ipairs(problem.pairs) do
    if is_true(pair[1]) and is_true(pair[2]) then return false end
  end
  for _, group in ipairs(problem.groups) do
    local count = 0
    for _, var in ipairs(group) do count = count + (is_true(var) and 1 or 0) end
    if count > 1 then return false end
  end
  return true
end

local function by_force(problem)
  for bits = 0, (1 << problem.count) - 1 do
    if holds(problem, function(var) return bits >> (var - 1) & 1 == 1 end) then return true end
  end
  return false
end

local function new_solver(problem, with_clauses, expand)
  local solver = sat.new(expand, true)
  for _ = 1, problem.count do solver:variable() end
  for _, group in ipairs(problem.groups) do solver:at_most_one(group) end
  for _, pair in ipairs(problem.pairs) do solver:exclude(pair[1], pair[2]) end
  if with_clauses then
    for _, clause in ipairs(problem.clauses) do solver:clause(table.move(clause, 1, #clause, 1, {})) end
  end
  return solver
end

-- Decides every variable, some first as true and some as false.
local function choose_any(solver)
  for var = 1, solver.count do
    if solver.value[2 * var] == 0 then return 2 * var + (var * 7 + solver.conflicts) % 2 end
  end
end

local solvable = 0
for round = 1, 1500 do
  local problem = random_problem(4 + round % 7, 6 + round % 29)
  local solver = new_solver(problem, true)
  local found = solver:solve(choose_any)
  check(found == by_force(problem), "round %d: found %s", round, found)
  if found then
    solvable = solvable + 1
    check(holds(problem, function(var) return solver:is_true(var) end), "round %d: the solution is wrong", round)
  else
    -- The clauses that are said to be to blame must be impossible by themselves.
    local blamed = { count = problem.count, clauses = solver:core(), pairs = {}, groups = {} }
    check(not by_force(blamed), "round %d: the core can be satisfied", round)
  end
end
check(solvable > 300 and solvable < 1200, "%d solvable problems are no mixture", solvable)

-- Clauses that come when a variable of theirs becomes true: those with a negative literal wait for its variable.
for round = 1, 1500 do
  local problem = random_problem(4 + round % 7, 6 + round % 23)
  local waiting = {}
  local solver = new_solver(problem, false, function(solver, var)
    for _, clause in ipairs(waiting[var] or {}) do solver:clause(table.move(clause, 1, #clause, 1, {})) end
  end)
  for _, clause in ipairs(problem.clauses) do
    local negative
    for _, lit in ipairs(clause) do negative = negative or lit & 1 == 1 and lit >> 1 end
    if negative then
      waiting[negative] = waiting[negative] or {}
      table.insert(waiting[negative], clause)
    else
      solver:clause(table.move(clause, 1, #clause, 1, {}))
    end
  end
  local found = solver:solve(choose_any)
  check(found == by_force(problem), "late clauses, round %d: found %s", round, found)
  if found then
    check(holds(problem, function(var) return solver:is_true(var) end), "late clauses, round %d: a wrong solution", round)
  end
end

-- n + 1 pigeons do not fit into n holes, which takes learning and real backjumps.
do
  local solver = sat.new()
  local holes = 5
  local var = {}
  for pigeon = 1, holes + 1 do
    var[pigeon] = {}
    for hole = 1, holes do var[pigeon][hole] = solver:variable() end
  end
  for hole = 1, holes do
    local group = {}
    for pigeon = 1, holes + 1 do group[pigeon] = var[pigeon][hole] end
    solver:at_most_one(group)
  end
  for pigeon = 1, holes + 1 do
    local clause = {}
    for hole = 1, holes do clause[hole] = 2 * var[pigeon][hole] end
    solver:clause(clause)
  end
  check(not solver:solve(choose_any), "six pigeons fit into five holes")
  check(solver.conflicts > 10, "pigeons without conflicts")
end

-- Packages.

-- Makes a universe of stanzas written as a text.
local function universe_of(text)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  local fine, u = pcall(universe.load, { path })
  os.remove(path)
  return fine and u or error(u, 0)
end

local function solved(u, ...)
  local selected = roles.solve(u, roles.request(u, { ... }))
  if not selected then return nil end
  local labels = {}
  for i, v in ipairs(selected) do labels[i] = universe.label(u, v) end
  table.sort(labels)
  return table.concat(labels, ", ")
end

local function expect(u, want, ...)
  local got = solved(u, ...)
  check(got == want, "%s: %s, not %s", table.concat({ ... }, " + "), got, want)
end

-- "name version; Field: value; ..." a line.
local function small(text)
  local stanzas = text:gsub("[^\n]+", function(line)
    local name, number, rest = line:match("^%s*(%S+) ([^;%s]+);?%s*(.*)$")
    if not name then return "" end
    return "Package: " .. name .. "\nVersion: " .. number .. "\nArchitecture: amd64\n" .. rest:gsub(";%s*", "\n") .. "\n"
  end)
  return universe_of(stanzas)
end

do
  local u = small [[
    a 1
    a 2; Depends: b (>= 2)
    b 1
    b 2
    b 3
  ]]
  expect(u, "a 2, b 3", "a")
  expect(u, "a 2, b 2", "a", "b (<< 3)")
  expect(u, "a 1, b 1", "a", "b=1")
  expect(u, "a 1", "a", "!b")
  expect(u, "a 1", "a<<2")
  expect(u, nil, "a>=2", "!b")
  check(not pcall(roles.request, u, { "nowhere" }), "a name that nothing has")
  check(not pcall(roles.request, u, { "a (> > 1)" }), "a restriction that is none")
end
do
  -- Providing: as a version or as none, and who comes first.
  local u = small [[
    mta-a 1; Provides: mta; Conflicts: mta
    mta-b 1; Provides: mta (= 3); Conflicts: mta
    wants 1; Depends: mta
    wants-new 1; Depends: mta (>= 2)
    wants-a 1; Depends: mta-a | mta
    real 1; Depends: thing
    provider 1; Provides: thing
    thing 1
  ]]
  expect(u, "mta-a 1, wants 1", "wants")
  expect(u, "mta-b 1, wants-new 1", "wants-new")
  expect(u, "mta-b 1, wants 1, wants-new 1", "wants", "wants-new")
  expect(u, nil, "mta-a", "mta-b")
  expect(u, "mta-a 1, wants-a 1", "wants-a")
  expect(u, "mta-b 1, wants-a 1", "wants-a", "!mta-a")
  expect(u, "real 1, thing 1", "real")
  expect(u, "provider 1, real 1", "real", "!thing (>= 0)")
end
do
  -- Architectures, Pre-Depends and folded fields.
  local u = small [[
    a 1; Depends: b:any, c:amd64 | d; Conflicts: e:i386
    b 1; Pre-Depends: d
    c 1
    d 1
    e 1
    f 1; Depends: c:i386
    f 1.5; Architecture: i386
  ]]
  expect(u, "a 1, b 1, d 1, e 1", "a", "e")
  expect(u, nil, "f")
  local folded = universe_of("Package: x\nVersion: 1\nDepends: y,\n z\n\nPackage: y\nVersion: 1\n\n\nPackage: z\nVersion: 2\n")
  expect(folded, "x 1, y 1, z 2", "x")
end
do
  -- The newest of what is asked for comes before the newest of what that brings; dead ends are left.
  local u = small [[
    app 3; Depends: lib (>= 2), tool
    app 2; Depends: lib
    lib 2; Depends: gone
    lib 1
    tool 1
    pair 1; Depends: left | right, rival
    left 1; Conflicts: rival
    right 1
    rival 1
    loop 1; Depends: pool
    pool 1; Depends: loop (= 1)
    selfish 1; Provides: self; Conflicts: self
  ]]
  expect(u, "app 2, lib 1", "app")
  expect(u, nil, "app (>= 3)")
  expect(u, "pair 1, right 1, rival 1", "pair")
  expect(u, "loop 1, pool 1", "loop")
  expect(u, "selfish 1", "selfish")
  local request = roles.request(u, { "app (>= 3)" })
  local lines = table.concat(explain.failure(u, request), "\n")
  check(lines:find("app 3 needs lib (>= 2)", 1, true) and lines:find("gone: not in the indices", 1, true)
    and not lines:find("tool", 1, true), "an explanation that misses the point:\n%s", lines)
end
do
  -- Small random archives against trying every selection; and that every failure can be explained.
  local explained = 0
  for round = 1, 300 do
    local lines, count = {}, 5 + round % 4
    for p = 1, count do
      for v = 1, 2 do
        local line = string.format("p%d %d", p, v)
        if random(3) > 1 then
          line = line .. string.format("; Depends: p%d (%s %d) | p%d, p%d (= %d)", random(count),
            random(2) == 1 and ">=" or "<=", random(2), random(count), random(count), random(2))
        end
        if random(2) == 1 then line = line .. string.format("; Conflicts: p%d (= %d)", random(count), random(2)) end
        lines[#lines + 1] = line
      end
    end
    local u = small(table.concat(lines, "\n"))
    local request = roles.request(u, { "p1", "p" .. 2 + round % 3 })
    -- A digit in base 3 for each role: not selected, its first or its second version.
    local possible = false
    for code = 0, 3 ^ count // 1 - 1 do
      local chosen, rest = {}, code // 1 | 0
      for p = 1, count do
        local digit = rest % 3
        rest = rest // 3
        local role = u.role_of["p" .. p]
        if digit > 0 then chosen[u.versions[u.versions_first[role] + digit - 1]] = true end
      end
      local function one_of(list, first, last)
        for i = first, last do
          if chosen[list[i]] then return true end
        end
        return false
      end
      local fine = true
      for _, requirement in ipairs(request.requirements) do
        fine = fine and one_of(requirement.candidates, 1, #requirement.candidates)
      end
      for v in pairs(chosen) do
        for i = u.needs_first[v], u.needs_first[v + 1] - 1 do
          local q = u.needs[i]
          fine = fine and one_of(u.candidates, u.candidates_first[q], u.candidates_first[q + 1] - 1)
        end
        fine = fine and not one_of(u.clashes, u.clashes_first[v], u.clashes_first[v + 1] - 1)
      end
      if fine then
        possible = true
        break
      end
    end
    local selected = roles.solve(u, request)
    check((selected ~= nil) == possible, "archive %d: %s, by force %s\n%s", round, selected, possible, table.concat(lines, "\n"))
    if not selected then
      explained = explained + 1
      check(#explain.failure(u, request) > 0, "archive %d: no explanation", round)
    end
  end
  check(explained > 20, "only %d archives without a solution", explained)
end

-- Indices that are none.
for text, message in pairs { ["Package: x\n\n"] = "without Package or Version", ["hello\n"] = "not a package index" } do
  local fine, got = pcall(universe_of, text)
  check(not fine and got:find(message, 1, true), "%q: %s", text, got)
end
check(not pcall(index.read, here .. "no-such-index", print), "a file that is not there")

print(string.format("%d checks passed, %d failed", passed, failed))
os.exit(failed == 0, true)
