-- Assertions, spies and matchers: the vocabulary of luassert and, behind expect(), that of lust. See test.rs.
local inspect = ...

local error, getmetatable, ipairs, next, pcall, rawequal, rawget, select, setmetatable, tostring, type =
  error, debug.getmetatable, ipairs, next, pcall, rawequal, rawget, select, setmetatable, tostring, type
local concat, pack, remove, unpack, math_type = table.concat, table.pack, table.remove, table.unpack, math.type
local find, gmatch, gsub, lower, format = string.find, string.gmatch, string.gsub, string.lower, string.format
local lib = {assertions = 0}

-- Values ---------------------------------------------------------------------------------------

local is_matcher, matches_value

-- Deep equality: contents and, where both have the same metatable with one, `__eq`. `seen` holds pairs under comparison.
local function same(a, b, seen)
  if is_matcher(a) then return matches_value(a, b) end
  if rawequal(a, b) then return true end
  if type(a) ~= type(b) then return false end
  if type(a) ~= "table" then return a == b end
  local mt = getmetatable(a)
  if mt and mt == getmetatable(b) and rawget(mt, "__eq") then return a == b end
  seen = seen or {}
  local of = seen[a]
  if of and of[b] then return true end
  if not of then of = {} seen[a] = of end
  of[b] = true
  for k, v in next, a do
    if not same(v, rawget(b, k), seen) then
      -- A key that is a table may have an equal one.
      if type(k) ~= "table" or rawget(b, k) ~= nil then return false end
      local found = false
      for k2, v2 in next, b do
        if type(k2) == "table" and same(k, k2, seen) and same(v, v2, seen) then found = true break end
      end
      if not found then return false end
    end
  end
  for k in next, b do
    if rawget(a, k) == nil then
      if type(k) ~= "table" then return false end
      local found = false
      for k2 in next, a do
        if type(k2) == "table" and same(k2, k, seen) then found = true break end
      end
      if not found then return false end
    end
  end
  return true
end
lib.same = same

local function copy(v, seen)
  if type(v) ~= "table" or is_matcher(v) then return v end
  seen = seen or {}
  if seen[v] then return seen[v] end
  local t = {}
  seen[v] = t
  for k, x in next, v do t[copy(k, seen)] = copy(x, seen) end
  return setmetatable(t, getmetatable(v))
end
lib.copy = copy

local function show(v)
  return inspect(v, {width = 100, depth = 6, items = 50, total = 500, string = 2000})
end

-- The lines of two texts, those that differ marked. Too long ones are only put below each other.
local function diff(a, b)
  local x, y = {}, {}
  for line in gmatch(a .. "\n", "(.-)\n") do x[#x + 1] = line end
  for line in gmatch(b .. "\n", "(.-)\n") do y[#y + 1] = line end
  if #x * #y > 250000 then return "expected:\n" .. a .. "\nactual:\n" .. b end
  -- common[i][j]: the longest common subsequence of the lines from i and from j on.
  local common = {}
  for i = #x + 1, 1, -1 do
    local row, below = {}, common[i + 1]
    common[i] = row
    for j = #y + 1, 1, -1 do
      if i > #x or j > #y then row[j] = 0
      elseif x[i] == y[j] then row[j] = below[j + 1] + 1
      else row[j] = below[j] >= row[j + 1] and below[j] or row[j + 1] end
    end
  end
  local out, i, j = {"- expected", "+ actual"}, 1, 1
  while i <= #x or j <= #y do
    if i <= #x and j <= #y and x[i] == y[j] then
      out[#out + 1] = "  " .. x[i]
      i, j = i + 1, j + 1
    elseif j > #y or i <= #x and common[i + 1][j] >= common[i][j + 1] then
      out[#out + 1] = "- " .. x[i]
      i = i + 1
    else
      out[#out + 1] = "+ " .. y[j]
      j = j + 1
    end
  end
  return concat(out, "\n")
end
lib.diff = diff

local function compared(expected, actual)
  if type(expected) == "table" and type(actual) == "table" or
      type(expected) == "string" and type(actual) == "string" and (find(expected, "\n") or find(actual, "\n")) then
    local function lines(v)
      if type(v) == "string" then return v end
      return inspect(v, {width = 0, depth = 12, items = 500, total = 5000})
    end
    local a, b = lines(expected), lines(actual)
    if a == b then return "they look alike:\n" .. a end
    return diff(a, b)
  end
  return "expected: " .. show(expected) .. "\n  actual: " .. show(actual)
end

-- Assertions -----------------------------------------------------------------------------------
-- Each gets its arguments, packed, and answers whether they are as it says, a text for when they are not, one for when
-- they should not be, and what it returns.

local assertions = {}

local function need(args, n, name)
  if args.n < n then
    error(format("assert.%s: %d arguments are needed, got %d", name, n, args.n), 0)
  end
end

function assertions.equal(args)
  need(args, 2, "equal")
  for i = 2, args.n do
    if args[1] ~= args[i] then
      return false, "expected objects to be equal\n" .. compared(args[1], args[i])
    end
  end
  return true, nil, "expected objects not to be equal, both are " .. show(args[1])
end

function assertions.same(args)
  need(args, 2, "same")
  for i = 2, args.n do
    if not same(args[1], args[i]) then
      return false, "expected objects to be the same\n" .. compared(args[1], args[i])
    end
  end
  return true, nil, "expected objects not to be the same, both are " .. show(args[1])
end

function assertions.near(args)
  need(args, 3, "near")
  local expected, actual, tolerance = args[1], args[2], args[3]
  local ok = type(actual) == "number" and actual >= expected - tolerance and actual <= expected + tolerance
  local text = format("a number near %s (within %s)\n  actual: %s", show(expected), show(tolerance), show(actual))
  return ok, "expected: " .. text, "expected not: " .. text
end

local function simple(name, test, what)
  -- A call that returns nothing is nil.
  assertions[name] = function(args)
    return test(args[1]), "expected: " .. what .. "\n  actual: " .. show(args[1]),
      "expected not: " .. what .. "\n      actual: " .. show(args[1])
  end
end

simple("true", function(v) return v == true end, "true")
simple("false", function(v) return v == false end, "false")
simple("nil", function(v) return v == nil end, "nil")
simple("truthy", function(v) return v and true or false end, "a true value")
simple("falsy", function(v) return not v end, "nil or false")
for _, kind in ipairs {"boolean", "number", "string", "table", "userdata", "function", "thread"} do
  simple(kind, function(v) return type(v) == kind end, "a " .. kind)
end
simple("callable", function(v)
  local mt = getmetatable(v)
  return type(v) == "function" or mt ~= nil and type(rawget(mt, "__call")) == "function"
end, "something that can be called")

function assertions.matches(args)
  need(args, 2, "matches")
  local pattern, actual, init, plain = args[1], args[2], args[3], args[4]
  if type(actual) == "number" then actual = tostring(actual) end
  local ok = type(actual) == "string" and find(actual, pattern, init, plain) ~= nil
  local text = format("%s %s\n  actual: %s", plain and "the text" or "to match", show(pattern), show(actual))
  return ok, "expected: " .. text, "expected not: " .. text
end

local function message_of(e)
  if type(e) == "string" then
    -- Without the place, which luassert does not compare either.
    return (gsub(e, "^[^\n]-:%d+: ", "", 1))
  end
  return e
end

function assertions.error(args)
  need(args, 1, "error")
  local results = pack(pcall(args[1]))
  if results[1] then
    return false, "expected an error, but none was raised"
  end
  local raised, expected = results[2], args[2]
  if args.n >= 2 and expected ~= nil then
    local ok = same(expected, raised) or same(expected, message_of(raised))
    return ok, "expected a different error\n" .. compared(expected, message_of(raised)),
      "expected another error than " .. show(raised), raised
  end
  return true, nil, "expected no error, but it raised\n" .. (type(raised) == "string" and raised or show(raised)), raised
end

function assertions.error_matches(args)
  need(args, 2, "error_matches")
  local ok, raised = pcall(args[1])
  if ok then return false, "expected an error, but none was raised" end
  local text = raised
  if type(text) ~= "string" then
    local mt = getmetatable(text)
    text = mt and rawget(mt, "__tostring") and tostring(text) or show(text)
  end
  ok = find(text, args[2], args[3], args[4]) ~= nil
  return ok, format("expected an error that matches %s\n  actual: %s", show(args[2]), show(text)),
    format("expected an error that does not match %s\n  actual: %s", show(args[2]), show(text)), raised
end

function assertions.unique(args)
  need(args, 1, "unique")
  local list, deep = args[1], args[2] == true
  for i = 1, #list do
    for j = i + 1, #list do
      if deep and same(list[i], list[j]) or not deep and list[i] == list[j] then
        return false, format("expected all values to differ, but %d and %d are %s", i, j, show(list[i]))
      end
    end
  end
  return true, nil, "expected values that are not unique: " .. show(list)
end

-- returned_arguments(n, ...): how many values follow.
function assertions.returned_arguments(args)
  need(args, 1, "returned_arguments")
  local ok = args.n - 1 == args[1]
  return ok, format("expected %d values, got %d", args[1], args.n - 1), format("expected not %d values", args[1])
end

local aliases = {
  equals = "equal", are = "equal", eq = "equal", ["true_"] = "true", errors = "error", match = "matches",
  matches_error = "error_matches", match_error = "error_matches", has_error_match = "error_matches",
  error_match = "error_matches", thrown = "error", string_matches = "matches",
}

-- Spies ----------------------------------------------------------------------------------------

local spies = {}   -- all that replace something, in order
local spy_mt = {}
spy_mt.__index = spy_mt

function spy_mt:__call(...)
  local call = pack(...)
  self.calls[#self.calls + 1] = {vals = copy(call), refs = call}
  local at = #self.calls
  local results = pack(self.callback(...))
  self.calls[at].returned = results
  return unpack(results, 1, results.n)
end

local function args_match(expected, actual)
  if expected.n ~= actual.n then return false end
  for i = 1, expected.n do
    if not same(expected[i], actual[i]) then return false end
  end
  return true
end

function spy_mt:called(times)
  if times then return #self.calls == times, #self.calls end
  return #self.calls > 0, #self.calls
end

function spy_mt:called_with(args)
  for _, call in ipairs(self.calls) do
    if args_match(args, call.vals) or args_match(args, call.refs) then return true end
  end
  return false
end

function spy_mt:returned_with(args)
  for _, call in ipairs(self.calls) do
    if call.returned and args_match(args, call.returned) then return true end
  end
  return false
end

function spy_mt:clear() self.calls = {} return self end

function spy_mt:revert()
  if self.target and not self.reverted then
    self.target[self.key] = self.original
    self.reverted = true
  end
  return self.original
end

local function is_spy(v) return type(v) == "table" and getmetatable(v) == spy_mt end

local function new_spy(callback)
  local mt = getmetatable(callback)
  if type(callback) ~= "function" and not (mt and rawget(mt, "__call")) then
    error("spy.new: a function is needed, got a " .. type(callback), 3)
  end
  return setmetatable({calls = {}, callback = callback}, spy_mt)
end

local function replace(target, key, made)
  made.target, made.key, made.original = target, key, target[key]
  target[key] = made
  spies[#spies + 1] = made
  return made
end

local spy = setmetatable({
  new = function(callback) return new_spy(callback) end,
  is_spy = is_spy,
  on = function(target, key) return replace(target, key, new_spy(target[key])) end,
}, {__call = function(_, callback) return new_spy(callback) end})

local function new_stub(target, key, ...)
  local made
  local default, cases = pack(...), {}
  local invoke = default.n == 1 and type(default[1]) == "function" and default[1] or nil
  made = new_spy(function(...)
    local args = pack(...)
    for i = #cases, 1, -1 do
      if args_match(cases[i].args, args) then
        if cases[i].invoke then return cases[i].invoke(...) end
        return unpack(cases[i].values, 1, cases[i].values.n)
      end
    end
    if invoke then return invoke(...) end
    return unpack(default, 1, default.n)
  end)
  made.returns = function(...) default, invoke = pack(...), nil return made end
  made.invokes = function(f) invoke = f return made end
  made.by_default = {returns = made.returns, invokes = made.invokes}
  made.on_call_with = function(...)
    local case = {args = pack(...), values = {n = 0}}
    cases[#cases + 1] = case
    return {
      returns = function(...) case.values = pack(...) return made end,
      invokes = function(f) case.invoke = f return made end,
    }
  end
  if target ~= nil then replace(target, key, made) end
  return made
end

local stub = setmetatable({new = new_stub}, {__call = function(_, ...) return new_stub(...) end})

local function each_spy(t, f, seen)
  seen = seen or {}
  if type(t) ~= "table" or seen[t] then return end
  seen[t] = true
  for _, v in next, t do
    if is_spy(v) then f(v) else each_spy(v, f, seen) end
  end
end

local function mocked(t, stubs, seen)
  seen = seen or {}
  if seen[t] then return t end
  seen[t] = true
  local keys = {}
  for k in next, t do keys[#keys + 1] = k end
  for _, k in ipairs(keys) do
    local v = t[k]
    if type(v) == "function" then
      if stubs then new_stub(t, k) else spy.on(t, k) end
    elseif type(v) == "table" and not is_spy(v) then
      mocked(v, stubs, seen)
    end
  end
  return t
end

local mock = setmetatable({
  new = function(t, stubs) return mocked(t, stubs) end,
  clear = function(t) each_spy(t, function(s) s:clear() end) return t end,
  revert = function(t)
    local found = {}
    each_spy(t, function(s) found[#found + 1] = s end)
    for _, s in ipairs(found) do s:revert() end
    return t
  end,
}, {__call = function(_, t, stubs) return mocked(t, stubs) end})

-- How many spies replace something now; takes back those that came later.
function lib.mark() return #spies end
function lib.revert(mark)
  for i = #spies, mark + 1, -1 do
    spies[i]:revert()
    spies[i] = nil
  end
end

local function of_spy(name, test, text)
  assertions[name] = function(args, subject)
    if not is_spy(subject) then error("assert." .. name .. ": assert.spy(s) has to come first", 0) end
    local ok, is, is_not = test(subject, args)
    return ok, "expected the function " .. text .. (is or ""), "expected the function not " .. text .. (is_not or is or "")
  end
end

local function calls_of(s)
  if #s.calls == 0 then return "\nit was never called" end
  local list = {}
  for i, call in ipairs(s.calls) do
    if i > 10 then list[#list + 1] = format("  and %d more", #s.calls - 10) break end
    local shown = {}
    for k = 1, call.vals.n do shown[k] = show(call.vals[k]) end
    list[#list + 1] = "  (" .. concat(shown, ", ") .. ")"
  end
  return "\ncalls:\n" .. concat(list, "\n")
end

local function list_of(args)
  local shown = {}
  for i = 1, args.n do shown[i] = show(args[i]) end
  return " (" .. concat(shown, ", ") .. ")"
end

of_spy("called", function(s, args)
  local times = args[1]
  local ok, n = s:called(times)
  return ok, times and format(" %d times, it was called %d times", times, n) or format(", it was called %d times", n)
end, "to be called")
of_spy("called_with", function(s, args) return s:called_with(args), list_of(args) .. calls_of(s) end, "to be called with")
of_spy("returned_with", function(s, args) return s:returned_with(args), list_of(args) end, "to return")
for name, test in next, {
  at_least = function(n, times) return n >= times end,
  at_most = function(n, times) return n <= times end,
  more_than = function(n, times) return n > times end,
  less_than = function(n, times) return n < times end,
} do
  of_spy("called_" .. name, function(s, args)
    return test(#s.calls, args[1]), format(" %d times, it was called %d times", args[1], #s.calls)
  end, "to be called " .. gsub(name, "_", " "))
end

-- Chains of words ------------------------------------------------------------------------------
-- assert.is_not_nil, assert.is.Not.Nil and assert.are_not.nil are words, of which some mean nothing, some negate, and
-- the others together are the name of an assertion. A name is the longest that the words end in.

local fillers = {}
for word in gmatch("is are was be been being has have had does do did a an the that to it of", "%a+") do fillers[word] = true end
local negators = {["not"] = true, no = true, never = true, isnt = true, ["nt"] = true}

-- Lua's own words are written with a capital or an underscore behind them.
local function words_of(key, words)
  for word in gmatch(key, "[^_]+") do words[#words + 1] = lower(word) end
  return words
end

-- The name that the words end in, whether they negate it; nil and what is no word of any.
local function parse(words, known)
  local negated = false
  for i = 1, #words do
    local name = concat(words, "_", i)
    if known[name] then return name, negated end
    local alias = aliases[name]
    if alias and known[alias] then return alias, negated end
    local word = words[i]
    if negators[word] then negated = not negated
    elseif not fillers[word] then return nil, name end
  end
  return nil, negated
end

local last_failure

-- Is this the error of an assertion?
function lib.is_failure(e) return e ~= nil and rawequal(e, last_failure) end

local function fail(message, level)
  local ok, raised = pcall(error, message, level + 2)
  last_failure = raised
  error(raised, 0)
end

local chain_mt = {}
local function chain(words, subject, message)
  return setmetatable({words = words, subject = subject, message = message}, chain_mt)
end

local function follow(words, key)
  local more = {unpack(words)}
  return words_of(key, more)
end

function chain_mt:__index(key)
  if type(key) ~= "string" then return nil end
  return chain(follow(rawget(self, "words"), key), rawget(self, "subject"), rawget(self, "message"))
end

-- Carries an assertion out; `level` is that of the code that asserts.
local function check(name, negated, args, subject, message, level)
  lib.assertions = lib.assertions + 1
  local f = assertions[name]
  local results = pack(f(args, subject))
  local ok, is, is_not = results[1], results[2], results[3]
  if negated then ok = not ok end
  if not ok then
    local text = negated and is_not or not negated and is or "assertion failed: " .. name
    if message == nil then message = results.message end
    if message ~= nil then text = tostring(message) .. "\n" .. text end
    fail(text, level + 1)
  end
  return results
end

-- How many arguments an assertion takes before one that is a message.
local arity = {
  equal = 2, same = 2, near = 3, ["true"] = 1, ["false"] = 1, ["nil"] = 1, truthy = 1, falsy = 1, boolean = 1, number = 1,
  string = 1, table = 1, userdata = 1, ["function"] = 1, thread = 1, callable = 1, unique = 2,
}

function chain_mt:__call(...)
  local words, subject, message = rawget(self, "words"), rawget(self, "subject"), rawget(self, "message")
  local last = words[#words]
  if last == "spy" or last == "stub" then
    local rest = {unpack(words, 1, #words - 1)}
    return chain(rest, (...), message)
  elseif last == "message" then
    local rest = {unpack(words, 1, #words - 1)}
    return chain(rest, subject, (...))
  end
  local name, negated = parse(words, assertions)
  if not name then
    error(format("there is no assertion 'assert.%s'", concat(words, "_")), 2)
  end
  local args = pack(...)
  local most = arity[name]
  if most and args.n > most and message == nil then
    message, args = args[most + 1], pack(unpack(args, 1, most))
  elseif name == "unique" and args.n == 2 and type(args[2]) == "string" then
    message, args = args[2], pack(args[1])
  end
  local results = check(name, negated, args, subject, message, 2)
  if results[4] ~= nil then return args[1], results[4] end
  return unpack(args, 1, args.n)
end

local assert_mt = {}
local assert = setmetatable({}, assert_mt)
function assert_mt.__index(_, key)
  if type(key) ~= "string" then return nil end
  return chain(words_of(key, {}))
end
function assert_mt.__call(_, ...)
  lib.assertions = lib.assertions + 1
  local v, message = ...
  if not v then
    if select("#", ...) < 2 then fail("assertion failed!", 2) end
    -- As the function that it stands for: the message as it is.
    last_failure = message
    error(message, 0)
  end
  return ...
end

-- assert:register("assertion", name, function(state, arguments) ... end, positive, negative): one of the program's own.
local texts = {}
function assert.register(_, kind, name, f, positive, negative)
  if kind == "matcher" then lib.matchers[lower(name)] = f return end
  if kind ~= "assertion" then return end
  assertions[lower(name)] = function(args)
    local state = {mod = true}
    local ok = f(state, args, 3)
    local function text(key)
      local form = texts[key] or key
      if not form then return nil end
      local shown = {}
      for i = 1, args.n do shown[i] = show(args[i]) end
      local filled, n = gsub(form, "%%s", function() return remove(shown, 1) or "" end)
      return filled, n
    end
    return ok, (text(positive)), (text(negative))
  end
end
function assert.unregister(_, kind, name)
  if kind == "assertion" then assertions[lower(name)] = nil end
end
-- Settings of luassert's formatter, which this one does not have.
function assert.set_parameter() end
function assert.get_parameter() end
function assert.add_formatter() end
function assert.remove_formatter() end
-- Spies that are made from here on, until revert().
function assert.snapshot()
  local mark = lib.mark()
  return {revert = function() lib.revert(mark) end}
end
function assert.level() return nil end

-- The texts of say, which luassert's own assertions are registered with.
lib.say = setmetatable({
  set = function(_, key, text) texts[key] = text end,
  set_namespace = function() end,
}, {__call = function(_, key) return texts[key] or key end})

-- Matchers -------------------------------------------------------------------------------------

local matcher_mt = {}
function is_matcher(v) return type(v) == "table" and getmetatable(v) == matcher_mt end

function matches_value(m, v)
  local ok = m.test(v)
  if m.negated then return not ok end
  return ok and true or false
end

local function matcher(name, test, negated)
  return setmetatable({name = name, test = test, negated = negated}, matcher_mt)
end
matcher_mt.__tostring = function(m) return (m.negated and "not " or "") .. "match." .. m.name end
matcher_mt.__name = "matcher"

lib.matchers = {}
local known = setmetatable({}, {__index = function(_, name)
  return lib.matchers[name] or ({ref = 1, all = 1, any = 1, none = 1, all_of = 1, any_of = 1, none_of = 1})[name] or
    assertions[name]
end})

local match_chain = {}
function match_chain:__index(key)
  return setmetatable({words = follow(rawget(self, "words"), key)}, match_chain)
end
function match_chain:__call(...)
  local name, negated = parse(rawget(self, "words"), known)
  if not name then error(format("there is no matcher 'match.%s'", concat(rawget(self, "words"), "_")), 2) end
  local args = pack(...)
  local function among(v)
    local n = 0
    for i = 1, args.n do
      if is_matcher(args[i]) and matches_value(args[i], v) then n = n + 1 end
    end
    return n
  end
  local test
  if lib.matchers[name] then test = lib.matchers[name]({mod = true}, args, 2)
  elseif name == "ref" then test = function(v) return rawequal(v, args[1]) end
  elseif name == "all_of" or name == "all" then test = function(v) return among(v) == args.n end
  elseif name == "any_of" or name == "any" then test = function(v) return among(v) > 0 end
  elseif name == "none_of" or name == "none" then test = function(v) return among(v) == 0 end
  elseif arity[name] == 1 then test = function(v) return (assertions[name](pack(v))) end
  else
    -- match.near(5, 0.1), match.matches("x"): the value is the second argument of the assertion.
    test = function(v) return (assertions[name](pack(args[1], v, unpack(args, 2, args.n)))) end
  end
  return matcher(name, test, negated)
end
local match = setmetatable({}, {
  __index = function(_, key)
    if key == "_" then return matcher("_", function() return true end) end
    if key == "is_matcher" then return is_matcher end
    return setmetatable({words = words_of(key, {})}, match_chain)
  end,
})

-- expect ---------------------------------------------------------------------------------------
-- expect(v).to.equal(x): the words of lust and of chai's kind. `be` is `==`, `equal` looks into tables.

local expectations = {
  equal = function(v, x) return same(x, v), "expected objects to be the same\n" .. compared(x, v), "expected them to differ, both are " .. show(v) end,
  be = function(v, x) return v == x, "expected objects to be equal\n" .. compared(x, v), "expected them to differ, both are " .. show(v) end,
  exist = function(v) return v ~= nil, "expected a value, got nil", "expected nil, got " .. show(v) end,
  truthy = function(v) return v and true or false, "expected a true value, got " .. show(v), "expected nil or false, got " .. show(v) end,
  falsy = function(v) return not v, "expected nil or false, got " .. show(v), "expected a true value, got " .. show(v) end,
  match = function(v, pattern)
    local ok = type(v) == "string" and find(v, pattern) ~= nil
    return ok, format("expected to match %s: %s", show(pattern), show(v)), format("expected not to match %s: %s", show(pattern), show(v))
  end,
  have = function(v, x)
    local ok = false
    if type(v) == "string" then ok = find(v, x, 1, true) ~= nil
    elseif type(v) == "table" then
      for _, item in next, v do if same(x, item) then ok = true break end end
    end
    return ok, format("expected %s to have %s", show(v), show(x)), format("expected %s not to have %s", show(v), show(x))
  end,
  fail = function(v, pattern)
    local ok, raised = pcall(v)
    if ok then return false, "expected an error, but none was raised" end
    local text = type(raised) == "string" and raised or show(raised)
    if pattern == nil then return true, nil, "expected no error, but it raised\n" .. text end
    return find(text, pattern) ~= nil, format("expected an error that matches %s\n  actual: %s", show(pattern), text),
      format("expected an error that does not match %s\n  actual: %s", show(pattern), text)
  end,
}
-- to.be.a("string"), to.be.an("array")... are types.
local function of_type(v, kind)
  return type(v) == kind or math_type(v) == kind, format("expected a %s, got %s", kind, show(v)),
    format("expected no %s, got %s", kind, show(v))
end
local expect_fillers = {to = true, has = true, it = true}

local expect_mt = {}
function expect_mt:__index(key)
  return setmetatable({words = follow(rawget(self, "words"), key), value = rawget(self, "value")}, expect_mt)
end
function expect_mt:__call(...)
  local words, v = rawget(self, "words"), rawget(self, "value")
  lib.assertions = lib.assertions + 1
  local negated, test, used = false, nil, {}
  for _, word in ipairs(words) do
    if negators[word] then negated = not negated
    elseif word == "a" or word == "an" then test = of_type
    elseif not expect_fillers[word] then
      local f = expectations[word] or word == "errors" and expectations.fail or word == "contain" and expectations.have or
        (word == "matches" and expectations.match)
      if word == "nil" then f = function(x) return x == nil, "expected nil, got " .. show(x), "expected another value than nil" end end
      if word == "true" or word == "false" then
        local want = word == "true"
        f = function(x) return x == want, format("expected %s, got %s", word, show(x)), "expected not " .. word end
      end
      if not f then error(format("there is no expectation 'expect(...).%s'", concat(words, ".")), 2) end
      -- `to.be.truthy`: the last one counts.
      test = f
    end
    used[#used + 1] = word
  end
  if not test then error(format("there is no expectation 'expect(...).%s'", concat(words, ".")), 2) end
  local ok, is, is_not = test(v, ...)
  if negated then ok = not ok end
  if not ok then fail(negated and is_not or is or "expectation failed", 2) end
end

function lib.expect(v) return setmetatable({words = {}, value = v}, expect_mt) end

lib.assert, lib.spy, lib.stub, lib.mock, lib.match = assert, spy, stub, mock, match
return lib
