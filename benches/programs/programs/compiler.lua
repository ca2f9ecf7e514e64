-- A tokenizer, a recursive-descent parser, a compiler to a stack machine and the machine itself, for a small
-- language with functions, loops and arrays. It compiles a generated program many times, then runs programs.
-- bench: group=programs size=220 quick=15
local n = tonumber(arg and arg[1]) or 220

local keywords = {}
for w in ("func return while if else var end do then and or not"):gmatch("%a+") do keywords[w] = true end

local function tokenize(text)
  local kinds, values, count, i = {}, {}, 0, 1
  local find, sub = string.find, string.sub
  while true do
    i = find(text, "[^%s]", i)
    if not i then break end
    count = count + 1
    local _, stop, word = find(text, "^([%a_][%w_]*)", i)
    if word then
      kinds[count] = keywords[word] and word or "name"
      values[count] = word
    else
      local number
      _, stop, number = find(text, "^(%d+)", i)
      if number then
        kinds[count] = "number"
        values[count] = tonumber(number)
      else
        local op = sub(text, i, i + 1)
        if op == "==" or op == "<=" or op == "~=" then stop = i + 1
        else
          op = sub(text, i, i)
          stop = i
        end
        kinds[count] = op
        values[count] = op
      end
    end
    i = stop + 1
  end
  kinds[count + 1] = "eof"
  return { kinds = kinds, values = values, at = 1 }
end

local Parser = {}
Parser.__index = Parser
function Parser:peek() return self.kinds[self.at] end
function Parser:take(kind)
  if self.kinds[self.at] ~= kind then
    error("expected " .. kind .. ", got " .. tostring(self.kinds[self.at]), 0)
  end
  self.at = self.at + 1
  return self.values[self.at - 1]
end
function Parser:try(kind)
  if self.kinds[self.at] == kind then
    self.at = self.at + 1
    return true
  end
  return false
end
local binding = { ["or"] = 1, ["and"] = 2, ["=="] = 3, ["~="] = 3, ["<"] = 3, ["<="] = 3, ["+"] = 4, ["-"] = 4, ["*"] = 5, ["%"] = 5, ["/"] = 5 }
function Parser:primary()
  local k = self:peek()
  if k == "number" then return { op = "const", value = self:take(k) } end
  if k == "(" then
    self:take "("
    local e = self:expression(0)
    self:take ")"
    return e
  end
  if k == "not" or k == "-" then
    self:take(k)
    return { op = "unary", kind = k, a = self:expression(6) }
  end
  if k == "[" then
    self:take "["
    self:take "]"
    return { op = "array" }
  end
  local name = self:take "name"
  if self:try "(" then
    local args = {}
    if not self:try ")" then
      repeat args[#args + 1] = self:expression(0) until not self:try ","
      self:take ")"
    end
    return { op = "call", name = name, args = args }
  end
  local e = { op = "var", name = name }
  while self:try "[" do
    e = { op = "index", a = e, b = self:expression(0) }
    self:take "]"
  end
  return e
end
function Parser:expression(limit)
  local left = self:primary()
  while true do
    local k = self:peek()
    local p = binding[k]
    if not p or p <= limit then return left end
    self:take(k)
    left = { op = "binary", kind = k, a = left, b = self:expression(p) }
  end
end
function Parser:block(...)
  local list = {}
  while true do
    local k = self:peek()
    for i = 1, select("#", ...) do if k == select(i, ...) then return list end end
    list[#list + 1] = self:statement(k)
  end
end
function Parser:statement(k)
  if k == "var" then
    self:take "var"
    local name = self:take "name"
    self:take "="
    return { op = "local", name = name, value = self:expression(0) }
  elseif k == "while" then
    self:take "while"
    local c = self:expression(0)
    self:take "do"
    local b = self:block "end"
    self:take "end"
    return { op = "while", cond = c, body = b }
  elseif k == "if" then
    self:take "if"
    local c = self:expression(0)
    self:take "then"
    local a, b = self:block("else", "end"), nil
    if self:try "else" then b = self:block "end" end
    self:take "end"
    return { op = "if", cond = c, yes = a, no = b or {} }
  elseif k == "return" then
    self:take "return"
    return { op = "return", value = self:expression(0) }
  end
  local target = self:primary()
  if target.op == "call" then return { op = "drop", value = target } end
  self:take "="
  return { op = "assign", target = target, value = self:expression(0) }
end
function Parser:program()
  local functions = {}
  while self:peek() ~= "eof" do
    self:take "func"
    local f = { name = self:take "name", params = {} }
    self:take "("
    if not self:try ")" then
      repeat f.params[#f.params + 1] = self:take "name" until not self:try ","
      self:take ")"
    end
    f.body = self:block "end"
    self:take "end"
    functions[#functions + 1] = f
  end
  return functions
end

local Compiler = {}
Compiler.__index = Compiler
function Compiler:emit(op, x)
  local c = self.code
  c[#c + 1] = op
  c[#c + 1] = x or 0
  return #c
end
function Compiler:slot(name) return self.slots[name] or error("unknown variable " .. name, 0) end
local binary = { ["+"] = "add", ["-"] = "sub", ["*"] = "mul", ["/"] = "div", ["%"] = "mod", ["<"] = "lt", ["<="] = "le", ["=="] = "eq", ["~="] = "ne" }
local expression = {
  const = function(c, e) c:emit("push", e.value) end,
  array = function(c) c:emit("array") end,
  var = function(c, e) c:emit("load", c:slot(e.name)) end,
  index = function(c, e) c:expr(e.a); c:expr(e.b); c:emit("get") end,
  unary = function(c, e)
    if e.kind == "-" then
      c:emit("push", 0)
      c:expr(e.a)
      c:emit("sub")
    else
      c:expr(e.a)
      c:emit("not")
    end
  end,
  binary = function(c, e)
    c:expr(e.a)
    if e.kind == "and" or e.kind == "or" then
      local jump = c:emit(e.kind == "and" and "jump_false_keep" or "jump_true_keep")
      c:emit("drop")
      c:expr(e.b)
      c.code[jump] = #c.code + 1
    else
      c:expr(e.b)
      c:emit(binary[e.kind])
    end
  end,
  call = function(c, e)
    for i = 1, #e.args do c:expr(e.args[i]) end
    c:emit("call", c.numbers[e.name] or error("unknown function " .. e.name, 0))
  end,
}
function Compiler:expr(e) return expression[e.op](self, e) end
local statement = {
  ["local"] = function(c, s)
    c:expr(s.value)
    if not c.slots[s.name] then
      c.count = c.count + 1
      c.slots[s.name] = c.count
    end
    c:emit("store", c.slots[s.name])
  end,
  assign = function(c, s)
    local t = s.target
    if t.op == "var" then
      c:expr(s.value)
      c:emit("store", c:slot(t.name))
    else
      c:expr(t.a)
      c:expr(t.b)
      c:expr(s.value)
      c:emit("set")
    end
  end,
  drop = function(c, s) c:expr(s.value); c:emit("drop") end,
  ["return"] = function(c, s) c:expr(s.value); c:emit("return") end,
  ["while"] = function(c, s)
    local top = #c.code + 1
    c:expr(s.cond)
    local exit = c:emit("jump_false")
    c:block(s.body)
    c:emit("jump", top)
    c.code[exit] = #c.code + 1
  end,
  ["if"] = function(c, s)
    c:expr(s.cond)
    local other = c:emit("jump_false")
    c:block(s.yes)
    local done = c:emit("jump")
    c.code[other] = #c.code + 1
    c:block(s.no)
    c.code[done] = #c.code + 1
  end,
}
function Compiler:block(list) for i = 1, #list do statement[list[i].op](self, list[i]) end end

local function compile(text)
  local functions = setmetatable(tokenize(text), Parser):program()
  local numbers, out = {}, {}
  for i, f in ipairs(functions) do numbers[f.name] = i end
  for i, f in ipairs(functions) do
    local c = setmetatable({ code = {}, slots = {}, count = #f.params, numbers = numbers }, Compiler)
    for p, name in ipairs(f.params) do c.slots[name] = p end
    c:block(f.body)
    c:emit("push", 0)
    c:emit("return")
    out[i] = { name = f.name, params = #f.params, locals = c.count, code = c.code }
  end
  return out, numbers
end

local function run(functions, index, ...)
  local stack, sp, base = { ... }, select("#", ...), 0
  local f = functions[index]
  local frames, depth, steps = {}, 0, 0
  sp = base + f.locals
  local code, pc = f.code, 1
  while true do
    local op, x = code[pc], code[pc + 1]
    pc = pc + 2
    steps = steps + 1
    if op == "load" then sp = sp + 1; stack[sp] = stack[base + x]
    elseif op == "push" then sp = sp + 1; stack[sp] = x
    elseif op == "store" then stack[base + x] = stack[sp]; sp = sp - 1
    elseif op == "add" then sp = sp - 1; stack[sp] = stack[sp] + stack[sp + 1]
    elseif op == "sub" then sp = sp - 1; stack[sp] = stack[sp] - stack[sp + 1]
    elseif op == "mul" then sp = sp - 1; stack[sp] = stack[sp] * stack[sp + 1]
    elseif op == "mod" then sp = sp - 1; stack[sp] = stack[sp] % stack[sp + 1]
    elseif op == "div" then
      sp = sp - 1
      local a, b = stack[sp], stack[sp + 1]
      stack[sp] = (a - a % b) / b
    elseif op == "lt" then sp = sp - 1; stack[sp] = stack[sp] < stack[sp + 1]
    elseif op == "le" then sp = sp - 1; stack[sp] = stack[sp] <= stack[sp + 1]
    elseif op == "eq" then sp = sp - 1; stack[sp] = stack[sp] == stack[sp + 1]
    elseif op == "ne" then sp = sp - 1; stack[sp] = stack[sp] ~= stack[sp + 1]
    elseif op == "not" then stack[sp] = not stack[sp]
    elseif op == "jump" then pc = x
    elseif op == "jump_false" then if not stack[sp] then pc = x end; sp = sp - 1
    elseif op == "jump_false_keep" then if not stack[sp] then pc = x end
    elseif op == "jump_true_keep" then if stack[sp] then pc = x end
    elseif op == "drop" then sp = sp - 1
    elseif op == "array" then sp = sp + 1; stack[sp] = {}
    elseif op == "get" then sp = sp - 1; stack[sp] = stack[sp][stack[sp + 1]]
    elseif op == "set" then stack[sp - 2][stack[sp - 1]] = stack[sp]; sp = sp - 3
    elseif op == "call" then
      depth = depth + 1
      frames[depth] = { f = f, pc = pc, base = base }
      f = functions[x]
      base = sp - f.params
      sp = base + f.locals
      code, pc = f.code, 1
    else
      local value = stack[sp]
      if depth == 0 then return value, steps end
      sp = base + 1
      stack[sp] = value
      local frame = frames[depth]
      frames[depth] = nil
      depth = depth - 1
      f, pc, base = frame.f, frame.pc, frame.base
      code = f.code
    end
  end
end

local source = [[
func fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
func sieve(n)
  var flags = [] var i = 2
  while i <= n do flags[i] = 1 i = i + 1 end
  var count = 0 i = 2
  while i <= n do
    if flags[i] == 1 then
      count = count + 1
      var j = i * i
      while j <= n do flags[j] = 0 j = j + i end
    end
    i = i + 1
  end
  return count
end
func gcd(a, b) while b ~= 0 do var t = a % b a = b b = t end return a end
func main(n)
  var sum = 0 var i = 1
  while i <= n do
    if i % 3 == 0 and not (i % 5 == 0) or i == 1 then sum = sum + gcd(i * 12, 90) / 2 else sum = sum - -1 end
    i = i + 1
  end
  return fib(12) * 1000000 + sieve(500) * 10000 + sum
end
]]
local padding = {}
for i = 1, 20 do
  padding[i] = ("func pad%d(a, b, c) var x = (a + b) * c %% %d if x < 10 then x = pad%d(b, c, x) else x = x - 1 end return x end"):format(i, i + 1, i % 20 + 1)
end
local whole = source .. table.concat(padding, "\n")

local value, instructions, steps = 0, 0, 0
for i = 1, n do
  local functions, numbers = compile(whole)
  for _, f in ipairs(functions) do instructions = instructions + #f.code / 2 end
  local v, s = run(functions, numbers.main, 40 + i % 3)
  value = value + v
  steps = steps + s
end
do
  local functions, numbers = compile(source)
  assert(run(functions, numbers.fib, 15) == 610)
  assert(run(functions, numbers.sieve, 100) == 25)
  assert(run(functions, numbers.gcd, 84, 36) == 12)
  assert(not pcall(compile, "func f( return 1 end"))
  assert(not pcall(compile, "func f() return g() end"))
end
local result = string.format("compiler %d %d %d", value, instructions, steps)
local known = { [15] = "compiler 2174252005 10215 452730", [220] = "compiler 31889029404 149820 6640018" }
assert(not known[n] or result == known[n], result)
print(result)
