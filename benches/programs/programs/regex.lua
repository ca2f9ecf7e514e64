-- A regular expression engine: expressions parsed to a tree, compiled to an automaton of states, matched by
-- following all states at once; compared with string.find where Lua's patterns can say the same.
-- bench: group=programs size=850 quick=55
local n = tonumber(arg and arg[1]) or 850

local function parse(text)
  local at = 1
  local function peek() return text:sub(at, at) end
  local alternation
  local function atom()
    local c = peek()
    at = at + 1
    if c == "(" then
      local e = alternation()
      assert(peek() == ")", "')' expected")
      at = at + 1
      return e
    elseif c == "." then
      return { kind = "any" }
    elseif c == "[" then
      local set = {}
      while peek() ~= "]" do
        assert(peek() ~= "", "']' expected")
        local from = text:byte(at)
        local to = from
        if text:sub(at + 1, at + 1) == "-" then
          to = text:byte(at + 2)
          at = at + 2
        end
        for b = from, to do set[b] = true end
        at = at + 1
      end
      at = at + 1
      return { kind = "set", set = set }
    end
    assert(c ~= "" and not c:find("[*+?|)]"), "atom expected")
    return { kind = "byte", byte = c:byte() }
  end
  local function repeated()
    local e = atom()
    while true do
      local c = peek()
      if c ~= "*" and c ~= "+" and c ~= "?" then return e end
      at = at + 1
      e = { kind = c, a = e }
    end
  end
  local function sequence()
    local list = {}
    while peek() ~= "" and peek() ~= "|" and peek() ~= ")" do list[#list + 1] = repeated() end
    return { kind = "sequence", list = list }
  end
  function alternation()
    local e = sequence()
    while peek() == "|" do
      at = at + 1
      e = { kind = "|", a = e, b = sequence() }
    end
    return e
  end
  local e = alternation()
  assert(at == #text + 1, "end expected")
  return e
end

local function compile(tree)
  local states = { { accept = true } }
  local function state(s)
    states[#states + 1] = s
    return #states
  end
  local build
  local builders = {
    byte = function(e, out) return state { byte = e.byte, next = out } end,
    set = function(e, out) return state { set = e.set, next = out } end,
    any = function(_, out) return state { any = true, next = out } end,
    sequence = function(e, out)
      for i = #e.list, 1, -1 do out = build(e.list[i], out) end
      return out
    end,
    ["|"] = function(e, out) return state { split = { build(e.a, out), build(e.b, out) } } end,
    ["?"] = function(e, out) return state { split = { build(e.a, out), out } } end,
    ["*"] = function(e, out)
      local s = state { split = { 0, out } }
      states[s].split[1] = build(e.a, s)
      return s
    end,
    ["+"] = function(e, out)
      local s = state { split = { 0, out } }
      local body = build(e.a, s)
      states[s].split[1] = body
      return body
    end,
  }
  function build(e, out) return builders[e.kind](e, out) end
  return { states = states, start = build(tree, 1) }
end

local steps = 0
local function longest(machine, text, from)
  local states = machine.states
  local current, seen, stop = {}, {}, nil
  local function enter(list, mark, s)
    if mark[s] then return end
    mark[s] = true
    local state = states[s]
    if state.split then
      enter(list, mark, state.split[1])
      enter(list, mark, state.split[2])
    else
      list[#list + 1] = s
    end
  end
  enter(current, seen, machine.start)
  local i = from
  while #current > 0 do
    local after, mark, b = {}, {}, text:byte(i)
    for k = 1, #current do
      steps = steps + 1
      local s = states[current[k]]
      if s.accept then stop = i - 1
      elseif b and (s.byte == b or s.any or (s.set and s.set[b])) then enter(after, mark, s.next) end
    end
    current = after
    i = i + 1
  end
  return stop
end
local function search(machine, text, from)
  for i = from, #text + 1 do
    local stop = longest(machine, text, i)
    if stop then return i, stop end
  end
end

local cases = {
  { "[a-z]+", "[a-z]+" }, { "[0-9]+[.][0-9]+", "[0-9]+%.[0-9]+" }, { "th.", "th." }, { "a?nd", "a?nd" },
  { "(foo|bar|baz)+[0-9]*" }, { "([a-z]+ )*end" }, { "x*y*z" }, { "[A-Z][a-z]*( [A-Z][a-z]*)+" },
}
local machines = {}
for i, c in ipairs(cases) do machines[i] = compile(parse(c[1])) end
for _, bad in ipairs { "(a", "*", "[a", "a)" } do assert(not pcall(parse, bad)) end
local found, covered = 0, 0
for round = 1, n do
  local text = ("and then 12.5 and the foobarbaz%d at Old Stone Bridge until xxyz the end"):format(round)
  for i, c in ipairs(cases) do
    local at = 1
    while at <= #text do
      local from, to = search(machines[i], text, at)
      if not from then break end
      if c[2] then
        local f, t = text:find(c[2], at)
        assert(f == from and t == to, c[1])
      end
      found = found + 1
      covered = covered + (to - from + 1)
      at = to + 1
    end
  end
end
local result = string.format("regex %d %d %d", found, covered, steps)
local known = { [55] = "regex 1375 6976 83337", [850] = "regex 21250 108692 1304416" }
assert(not known[n] or result == known[n], result)
print(result)
