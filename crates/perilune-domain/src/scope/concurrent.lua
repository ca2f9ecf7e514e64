-- Structured concurrency: what programs call as pl.scope, pl.timeout and so on. The essay is in mod.rs: a scope is held in a to-be-closed
-- variable, so that nothing of it outlives the call, however that is left.
local prelude = ...
local type, error, ipairs, next, setmetatable = type, error, ipairs, next, setmetatable
local math_type = math.type
local format, pack, unpack = string.format, table.pack, table.unpack
local open_scope, run_scope, raise = prelude.open_scope, prelude.run_scope, prelude.raise

-- The error that argument n of the program's call is something else.
local function wrong(n, name, expected, got)
  raise(format("bad argument #%d to '%s' (%s expected, got %s)", n, name, expected, got ~= got and "nan" or type(got)))
end

-- What a function has no argument for is without effect: it is refused.
local function none_behind(last, name, surplus)
  if surplus ~= nil then raise(format("bad argument #%d to '%s' (no further argument expected, got %s)", last + 1, name, type(surplus))) end
end

-- Runs f(s, ...) and whatever it starts in a scope s for this purpose; returns what f returns when all has ended.
local function scope(purpose, f, ...)
  local s <close> = open_scope(purpose)
  return run_scope(s, nil, f, s, ...)
end

function prelude.scope(f, ...)
  if type(f) ~= "function" then wrong(1, "scope", "function", f) end
  local s <close> = open_scope "scope"
  return run_scope(s, nil, f, s, ...)
end

-- f(...), or nil and "timeout" when the time is over; what f has started then is over too.
function prelude.timeout(seconds, f, ...)
  if type(seconds) ~= "number" or seconds ~= seconds then wrong(1, "timeout", "number of seconds", seconds) end
  if type(f) ~= "function" then wrong(2, "timeout", "function", f) end
  local s <close> = open_scope "timeout"
  return run_scope(s, seconds, f, ...)
end

-- f(...), to its end: a cancellation of the caller waits for it.
function prelude.shield(f, ...)
  if type(f) ~= "function" then wrong(1, "shield", "function", f) end
  local s <close> = open_scope "shield"
  return run_scope(s, nil, f, ...)
end

-- Cancels what is in a list, when the variable that holds it ends.
local leftovers = {
  __close = function(list)
    for _, waited in ipairs(list) do
      if waited:status() == "pending" then waited:cancel() end
    end
  end,
}

-- The elements of a list as things to await: functions are started, tasks and fibers are what they are.
local function begin(list, start)
  local begun, given = {}, setmetatable({}, leftovers)
  for i, f in ipairs(list) do
    if type(f) == "function" then
      begun[i] = start(f)
    else
      begun[i] = f
      given[#given + 1] = f
    end
  end
  return begun, given
end

local function check_list(list, name)
  if type(list) ~= "table" then
    raise(format("bad argument #1 to '%s' (table expected, got %s)", name, type(list)))
  end
  for i, f in ipairs(list) do
    if type(f) ~= "function" and not prelude.is_awaitable(f) then
      raise(format("bad argument #1 to '%s' (element %d is no function, fiber or task, but a %s)", name, i, type(f)))
    end
  end
end

-- The first result of each, in order. After the first error the others are cancelled.
function prelude.all(list, ...)
  none_behind(1, "all", ...)
  check_list(list, "all")
  return scope("scope", function(s)
    local begun, given = begin(list, function(f) return s:spawn(f) end)
    local cancelled <close> = given
    local results = {}
    for i = 1, #begun do results[i] = (begun[i]:await()) end
    return unpack(results, 1, #begun)
  end)
end

-- The number of the one that has ended first, and its results, or its error. The others are cancelled.
function prelude.race(list, ...)
  none_behind(1, "race", ...)
  check_list(list, "race")
  if #list == 0 then raise("bad argument #1 to 'race' (nothing would ever win)") end
  return scope("race", function(s)
    local begun, given = begin(list, function(f) return s:daemon(f) end)
    local cancelled <close> = given
    local results = pack(prelude.select(begun))
    return unpack(results, 1, results.n)
  end)
end

local function each(limit, list, f, ...)
  local keys, n = {}, 0
  for k in next, list do
    n = n + 1
    keys[n] = k
  end
  if n == #list then
    for i = 1, n do keys[i] = i end
  end
  local results, taken = {}, 0
  -- Its fibers are called by the name of the program's function: the first that they get.
  local function work(f, ...)
    while taken < n do
      taken = taken + 1
      local k = keys[taken]
      results[k] = f(list[k], k, ...)
    end
  end
  scope("scope", function(s, ...)
    for _ = 1, limit and limit < n and limit or n do s:spawn(work, f, ...) end
  end, ...)
  return results
end

-- f(v, k, ...) of each element, in fibers of this domain, at most options.limit at once. What it returns, by the same keys.
function prelude.each_element(list, options, ...)
  if type(list) ~= "table" then wrong(1, "each", "table", list) end
  if type(options) == "function" then return each(nil, list, options, ...) end
  local limit
  if options ~= nil then
    if type(options) ~= "table" then wrong(2, "each", "table of options", options) end
    local trouble = prelude.option_trouble(options, "limit")
    if trouble then raise("bad argument #2 to 'each' (" .. trouble .. ")") end
    limit = options.limit
    if limit ~= nil and (math_type(limit) ~= "integer" or limit < 1) then
      raise("bad argument #2 to 'each' (option 'limit' must be an integer, at least 1)")
    end
  end
  if type((...)) ~= "function" then wrong(3, "each", "function", (...)) end
  return each(limit, list, ...)
end

-- f(...) with a permit of a semaphore.
function prelude.with_permit(semaphore, f, ...)
  local permit <close> = semaphore:permit()
  return f(...)
end
