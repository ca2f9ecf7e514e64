-- What of the module is written in Lua: the bodies of fibers that the module starts itself, and
-- methods of pools that are made of other methods.
local prelude = ...

-- An error with the position of the program's code. `error` with a level has none where the program has called by a tail call: its frame is gone, and what is below has a place.
local raise = prelude.raise

-- Timers ---------------------------------------------------------------------------------------

-- pl.after: calls f once.
function prelude.once(timer, f, ...)
  if timer:wait() then return f(...) end
end

-- pl.every: calls f with the number of the beat.
function prelude.again(timer, f, ...)
  local beat = timer:wait()
  while beat do
    f(beat, ...)
    beat = timer:wait()
  end
end

-- Spans of traces -----------------------------------------------------------------------------------

-- pl.trace.span with a function. It ends also if the function fails or is cancelled.
function prelude.span(begin, name, f, ...)
  local span <close> = begin(name)
  return f(...)
end

-- Parts of parallel loops ------------------------------------------------------------------------
-- A message handler finds the index of a failed body in the local variable 'index' of these functions.

local function each(f, lo, hi)
  for index = lo, hi do f(index) end
end

function prelude.each(part, f)
  local handler = part:handler()
  local lo, hi = part:take()
  while lo do
    if not xpcall(each, handler, f, lo, hi) then return end
    lo, hi = part:take()
  end
end

local function first(f, index)
  return (f(index))
end

local function fold(f, combine, acc, lo, hi)
  for index = lo, hi do acc = combine(acc, (f(index))) end
  return acc
end

function prelude.reduce(part, f, combine)
  local handler = part:handler()
  local lo, hi = part:take()
  if not lo then return end
  local ok, acc = xpcall(first, handler, f, lo)
  lo = lo + 1
  while ok and lo do
    ok, acc = xpcall(fold, handler, f, combine, acc, lo, hi)
    if ok then lo, hi = part:take() end
  end
  if ok then part:partial(acc) end
end

local function search(f, lo, hi)
  for index = lo, hi do
    local found = f(index)
    if found then return index, found end
  end
end

function prelude.find(part, f)
  local handler = part:handler()
  local lo, hi = part:take()
  while lo do
    local ok, index, found = xpcall(search, handler, f, lo, hi)
    if not ok then return end
    if index then return part:found(index, found) end
    lo, hi = part:take()
  end
end

-- The same where each bite is told from the others, to find races (PERILUNE_CHECK). What combines partial
-- results comes after the iterations that gave them.

local function each_apart(part, f, lo, hi)
  part:apart(lo, hi, 0)
  for index = lo, hi do f(index) end
  part:rejoin()
end

function prelude.each_apart(part, f)
  local handler = part:handler()
  local lo, hi = part:take()
  while lo do
    if not xpcall(each_apart, handler, part, f, lo, hi) then return end
    lo, hi = part:take()
  end
end

local function fold_apart(part, f, combine, acc, lo, hi, begun)
  for index = lo, hi do
    part:apart(index, hi, index - lo)
    local value = (f(index))
    part:rejoin()
    if begun then acc = combine(acc, value) else acc, begun = value, true end
  end
  return acc
end

function prelude.reduce_apart(part, f, combine)
  local handler = part:handler()
  local lo, hi = part:take()
  local ok, acc, begun
  while lo do
    ok, acc = xpcall(fold_apart, handler, part, f, combine, acc, lo, hi, begun)
    if not ok then return end
    lo, hi = part:take()
    begun = true
  end
  if begun then part:partial(acc) end
end

local function search_apart(part, f, lo, hi)
  for index = lo, hi do
    part:apart(index, hi, index - lo)
    local found = f(index)
    part:rejoin()
    if found then return index, found end
  end
end

function prelude.find_apart(part, f)
  local handler = part:handler()
  local lo, hi = part:take()
  while lo do
    local ok, index, found = xpcall(search_apart, handler, part, f, lo, hi)
    if not ok then return end
    if index then return part:found(index, found) end
    lo, hi = part:take()
  end
end

-- Actors -----------------------------------------------------------------------------------------

-- The task of an actor: when it ends, however it does, nobody can send to it any more.
function prelude.actor_body(mailbox, f, ...)
  local closed <close> = mailbox
  return f(mailbox, ...)
end

-- Methods of pools ---------------------------------------------------------------------------------
-- Functions run as crossed copies here too: what one does must not depend on where a piece of the work is done.

-- f with further arguments, for loops: they go along as captured variables do, so they are frozen over there. The
-- name of the parameter is the one that a message handler looks for.
function prelude.bound(f, n, argument, argument2, ...)
  if n == 1 then return function(index) return f(index, argument) end end
  if n == 2 then return function(index) return f(index, argument, argument2) end end
  local all = table.pack(argument, argument2, ...)
  local unpack = table.unpack
  return function(index) return f(index, unpack(all, 1, n)) end
end

-- The same for functions of two arguments.
local function bound_pair(f, ...)
  local n = select("#", ...)
  if n == 0 then return f end
  if n == 1 then
    local argument = ...
    return function(x, y) return f(x, y, argument) end
  end
  local all = table.pack(...)
  local unpack = table.unpack
  return function(x, y) return f(x, y, unpack(all, 1, n)) end
end

-- Tasks that nobody waits for any more, because of an error or a cancellation, are cancelled where the variable that holds them ends.
local leftovers = {
  __close = function(tasks)
    for _, task in ipairs(tasks) do task:cancel() end
  end,
}

-- The table of options, checked: an error, which the caller's caller has made, if there is an unknown one.
local function check_options(name, n, options, ...)
  if options == nil then return {} end
  if type(options) ~= "table" then
    raise(("bad argument #%d to '%s' (table expected, got %s)"):format(n, name, type(options)))
  end
  local trouble = prelude.option_trouble(options, ...)
  if trouble then raise(("bad argument #%d to '%s' (%s)"):format(n, name, trouble)) end
  local chunk = options.chunk
  if chunk ~= nil and (math.type(chunk) ~= "integer" or chunk < 1) then
    raise(("bad argument #%d to '%s' (option 'chunk' must be an integer, at least 1)"):format(n, name))
  end
  local timeout = options.timeout
  if timeout ~= nil and (type(timeout) ~= "number" or timeout ~= timeout) then
    local got = timeout ~= timeout and "nan" or type(timeout)
    raise(("bad argument #%d to '%s' (option 'timeout' must be a number of seconds, not %s)"):format(n, name, got))
  end
  return options
end

-- Arguments of methods, checked here: the messages of what is called below would name that, and lines of this file.

local function check_function(name, n, f)
  if type(f) ~= "function" then
    raise(("bad argument #%d to '%s' (function expected, got %s)"):format(n, name, type(f)))
  end
end

local function check_list(name, list)
  if type(list) ~= "table" and type(list) ~= "userdata" then
    raise(("bad argument #1 to '%s' (list or array expected, got %s)"):format(name, type(list)))
  end
end

-- What natives take for an integer.
local function check_integer(name, n, v)
  local number = (type(v) == "number" or type(v) == "string") and tonumber(v)
  if not number then
    local remedy = ""
    if n == 1 and (type(v) == "table" or type(v) == "userdata") then
      remedy = "; a loop goes over indices: pool:parallel_reduce(1, #list, init, function(i) ... end, combine)"
    end
    raise(("bad argument #%d to '%s' (number expected, got %s%s)"):format(n, name, type(v), remedy))
  end
  if not math.tointeger(number) then
    raise(("bad argument #%d to '%s' (number has no integer representation)"):format(n, name))
  end
end

-- The initial value is used once, and partial results are combined in order: the operator need be
-- neither commutative nor have a neutral element.
function prelude.parallel_reduce(pool, lo, hi, init, f, combine, options, ...)
  check_integer("parallel_reduce", 1, lo)
  check_integer("parallel_reduce", 2, hi)
  check_function("parallel_reduce", 4, f)
  check_function("parallel_reduce", 5, combine)
  options = check_options("parallel_reduce", 6, options, "chunk", "timeout")
  local partials, n, combine = pool:partials(lo, hi, f, combine, options, ...)
  if not partials then return nil, n end
  local acc = init
  for i = 1, n do acc = combine(acc, partials[i]) end
  return acc
end

-- Of an error that a task brings: its message, if no function of the program was running, but one of this file: what the program's function had returned was at fault, or an element.
local function fault_of_values(e)
  if type(e) ~= "string" then return nil end
  local message, trace = e:match("^(.-)\nin domain [^\n]*stack traceback:(.*)$")
  for place in (trace or ""):gmatch("\n\t([^\n]*)") do
    if not place:find("^%[C%]:") and not place:find("^perilune:") and not place:find("^%(...tail calls...%)") then return nil end
  end
  return message
end

-- Raises the error that a task brings. That what it has returned cannot go from there to here is one of the program's call.
local function raise_of_task(e)
  if type(e) == "string" and e:find "^what the function returned" and not e:find("\n", 1, true) then raise(e) end
  error(e, 0)
end

-- Waits for tasks; if one fails, the others are cancelled, and the error is raised when all have ended. False: the time is over before.
local function gather(tasks, deadline)
  local cancelled <close> = setmetatable(tasks, leftovers)
  tasks.timeout = deadline and deadline - prelude.now()
  local results = table.pack(pcall(prelude.await_all, tasks))
  -- Each of them returns a table.
  if results[1] and (results[2] or #tasks == 0) then return results end
  for _, t in ipairs(tasks) do t:cancel() end
  for _, t in ipairs(tasks) do pcall(t.await, t) end
  if results[1] then return false end
  -- The position is that of the program's call.
  local message = fault_of_values(results[2])
  if message then raise(message) end
  raise_of_task(results[2])
end

local function deadline_of(options)
  return options.timeout and prelude.now() + options.timeout
end

-- The table f(...), made here; false if the time is over before.
local function made_within(deadline, f, ...)
  if not deadline then return f(...) end
  return prelude.timeout(math.max(0, deadline - prelude.now()), f, ...) or false
end

-- How many elements of n a task gets.
local function block_size(pool, n)
  return math.max(1, -(-n // (pool:workers() * 4)))
end

-- A function of a block as a task, for each block of the list; shared lists are not copied.
local function blocks(pool, list, size, task, ...)
  local shared = prelude.is_shared(list)
  local tasks = {}
  for lo = 1, #list, size do
    local hi = math.min(lo + size - 1, #list)
    if shared then
      tasks[#tasks + 1] = pool:async(task, list, lo, hi, ...)
    else
      tasks[#tasks + 1] = pool:async(task, table.move(list, lo, hi, 1, {}), 1, hi - lo + 1, ...)
    end
  end
  return tasks
end

-- A block of a map: what f returns of list[lo] to list[hi], whose keys are those, or their places in the whole. It goes in bites of about BITE seconds, and if somebody has
-- nothing to do after one, the rest is left to the caller, unless that is a bite itself: how many have been done.
local BITE <const> = 50e-6
local is_hungry, now = prelude.is_hungry, prelude.now

local function map_block(pool, list, lo, hi, offset, keys, divides, into, f)
  local is_hungry, now = is_hungry, now
  local results, size, i, begun = {}, 1, lo, now()
  while i <= hi do
    local last = divides and i + size - 1 or hi
    if last > hi then last = hi end
    if into then
      for i = i, last do into[offset + i] = f(list[i], offset + i) end
    elseif keys then
      for i = i, last do results[i - lo + 1] = f(list[i], keys[i]) end
    else
      for i = i, last do results[i - lo + 1] = f(list[i], offset + i) end
    end
    i = last + 1
    if i <= hi then
      local time = now()
      local took = time - begun
      begun = time
      if took / size * (hi - last) > BITE and is_hungry(pool) then break end
      if took < BITE / 2 then size = size * 2 elseif took > BITE * 2 and size > 1 then size = size // 2 end
    end
  end
  return i - lo, results
end

-- f(v, k) of the n elements of a list; false if the time of the options was over before. A block that meets somebody idle comes back with its rest, which is divided: so expensive elements
-- that are neighbours do not stay with one worker.
local function map_list(pool, list, n, keys, options, f, store)
  local size = options.chunk or block_size(pool, n)
  local divides = not options.chunk
  local shared = prelude.is_shared(list)
  local tasks <close> = setmetatable({}, leftovers)
  local blocks = {}
  local deadline = options.timeout and now() + options.timeout
  local function begin(lo, hi)
    local part, names, first, last = list, nil, lo, hi
    if not shared then part, first, last = table.move(list, lo, hi, 1, {}), 1, hi - lo + 1 end
    if keys then names = shared and keys or table.move(keys, lo, hi, 1, {}) end
    local at = #tasks + 1
    tasks[at] = pool:async(map_block, pool, part, first, last, lo - first, names, divides, options.into, f)
    blocks[at] = lo
    blocks[-at] = hi
  end
  for lo = 1, n, size do begin(lo, math.min(lo + size - 1, n)) end
  while #tasks > 0 do
    tasks.timeout = deadline and deadline - now()
    local found = table.pack(pcall(prelude.await_any, tasks))
    tasks.timeout = nil
    if not found[1] or not found[2] then
      for _, t in ipairs(tasks) do t:cancel() end
      for _, t in ipairs(tasks) do pcall(t.await, t) end
      if found[1] then return false end
      local message = options.into and fault_of_values(found[2])
      if message then raise("the function of 'map' has returned what option 'into' cannot hold: " .. message) end
      raise_of_task(found[2])
    end
    local at, done, results = found[2], found[3], found[4]
    local lo, hi, last = blocks[at], blocks[-at], #tasks
    tasks[at], blocks[at], blocks[-at] = tasks[last], blocks[last], blocks[-last]
    tasks[last], blocks[last], blocks[-last] = nil, nil, nil
    store(lo, done, results)
    lo = lo + done
    if lo <= hi then
      local middle = (lo + hi) // 2
      begin(lo, middle)
      if middle < hi then begin(middle + 1, hi) end
    end
  end
  return true
end

-- f(v, k, ...) of each element, by the same keys; in order if it is a list.
function prelude.map(pool, list, f, options, ...)
  check_list("map", list)
  check_function("map", 2, f)
  options = check_options("map", 3, options, "chunk", "into", "timeout")
  f = bound_pair(f, ...)
  local n, keys, values = #list, nil, list
  if type(list) == "table" and prelude.count(list) ~= n then
    keys, values, n = {}, {}, 0
    for k, v in next, list do
      n = n + 1
      keys[n], values[n] = k, v
    end
  end
  local into = options.into
  if into then
    if not prelude.array_like(into, 0) then
      raise(("bad argument #3 to 'map' (option 'into' must be an array of pl.array, not %s)"):format(type(into)))
    end
    if keys then raise("bad argument #3 to 'map' (option 'into' needs a list, and this has other keys)") end
    if #into < n then
      raise(("bad argument #3 to 'map' (option 'into' has %d elements of the %d that are needed)"):format(#into, n))
    end
    if not map_list(pool, values, n, keys, options, f, function() end) then return nil, "timeout" end
    return into
  end
  -- Stored in order at the end, so that the list grows as a list.
  local starts, parts = {}, {}
  local done = map_list(pool, values, n, keys, options, f, function(lo, done, part)
    starts[#starts + 1] = lo
    parts[lo], parts[-lo] = part, done
  end)
  if not done then return nil, "timeout" end
  table.sort(starts)
  local results = {}
  for _, lo in ipairs(starts) do
    local part, before = parts[lo], lo - 1
    if keys then
      for i = 1, parts[-lo] do results[keys[before + i]] = part[i] end
    else
      for i = 1, parts[-lo] do results[before + i] = part[i] end
    end
  end
  return results
end

local function scan_block(list, lo, hi, op)
  local acc = list[lo]
  local results = { acc }
  for i = lo + 1, hi do
    acc = op(acc, list[i])
    results[i - lo + 1] = acc
  end
  return results
end

local function shift_block(list, lo, hi, op, before)
  local results = {}
  for i = lo, hi do results[i - lo + 1] = op(before, list[i]) end
  return results
end

local function scan_parts(parts, op)
  local before = { parts.n > 1 and parts[2][#parts[2]] or nil }
  for k = 3, parts.n - 1 do before[k - 1] = op(before[k - 2], parts[k][#parts[k]]) end
  return before
end

-- The inclusive prefixes: r[i] = a[1] op a[2] op ... op a[i]. op must be associative. An array gives an
-- array of its kind, anything else a list.
function prelude.parallel_scan(pool, list, op, options, ...)
  check_list("parallel_scan", list)
  check_function("parallel_scan", 2, op)
  options = check_options("parallel_scan", 3, options, "chunk", "timeout")
  op = prelude.crossed(bound_pair(op, ...))
  local n = #list
  local size = options.chunk or block_size(pool, n)
  local deadline = deadline_of(options)
  local parts = gather(blocks(pool, list, size, scan_block, op), deadline)
  if not parts then return nil, "timeout" end
  -- What stands before each block, before there are tasks that fail as `op` may fail here.
  local before = made_within(deadline, scan_parts, parts, op)
  if not before then return nil, "timeout" end
  local tasks = {}
  for k = 3, parts.n do tasks[k - 2] = pool:async(shift_block, parts[k], 1, #parts[k], op, before[k - 2]) end
  local shifted = gather(tasks, deadline)
  if not shifted then return nil, "timeout" end
  local results = prelude.array_like(list, n) or {}
  for k = 2, parts.n do
    local part = k == 2 and parts[2] or shifted[k - 1]
    local at = (k - 2) * size
    for i = 1, #part do results[at + i] = part[i] end
  end
  return results
end

local function sort_block(list, lo, hi, lt)
  local part = table.move(list, lo, hi, 1, {})
  table.sort(part, lt)
  return part
end

-- The same for what is to keep its identity: the elements' indices in order, instead of copies of the elements.
local function order_block(list, before, lt)
  local order = {}
  for i = 1, #list do order[i] = before + i end
  table.sort(order, function(i, j)
    local a, b = list[i - before], list[j - before]
    if lt then return lt(a, b) end
    return a < b
  end)
  return order
end

-- Two sorted lists as one; or, of things that belong to their elements, those in this order.
local function merge(a, b, lt, of_a, of_b)
  local from_a, from_b = of_a or a, of_b or b
  local r, i, j, n, m = {}, 1, 1, #a, #b
  for k = 1, n + m do
    local take_b
    if i > n then
      take_b = true
    elseif j <= m then
      if lt then take_b = lt(b[j], a[i]) else take_b = b[j] < a[i] end
    end
    if take_b then
      r[k] = from_b[j]
      j = j + 1
    else
      r[k] = from_a[i]
      i = i + 1
    end
  end
  return r
end

-- The elements with these indices.
local function pick(list, order)
  local picked = {}
  for k = 1, #order do picked[k] = list[order[k]] end
  return picked
end

-- Whether a copy of each element is as good as the element.
local function all_plain(list, n)
  for i = 1, n do
    local kind = type(list[i])
    if kind ~= "number" and kind ~= "string" then return false end
  end
  return true
end

-- Makes one run of many: neighbours in tasks as long as there are more than two, the last two here. False: the time is over before.
local function merge_runs(runs, deadline, async, here)
  while #runs > 2 do
    local tasks = {}
    for k = 1, #runs - 1, 2 do tasks[#tasks + 1] = async(runs[k], runs[k + 1]) end
    local merged = gather(tasks, deadline)
    if not merged then return false end
    local rest = #runs % 2 == 1 and runs[#runs] or nil
    runs = table.move(merged, 2, merged.n, 1, {})
    runs[#runs + 1] = rest
  end
  if #runs == 2 then return made_within(deadline, here, runs[1], runs[2]) end
  return runs[1] or {}
end

-- Sorts in place, as table.sort does, but stably between blocks. Workers sort copies: of numbers and strings these are what comes
-- back; of anything else the order comes back, and the elements themselves are moved here. If the time is over before, nothing has been moved.
function prelude.sort(pool, list, lt, options, surplus)
  check_list("sort", list)
  if surplus ~= nil then raise(("bad argument #4 to 'sort' (no further argument expected, got %s)"):format(type(surplus))) end
  if lt ~= nil then check_function("sort", 2, lt) end
  options = check_options("sort", 3, options, "timeout")
  local deadline = deadline_of(options)
  lt = prelude.crossed(lt)
  local n = #list
  local size = math.max(1, -(-n // pool:workers()))
  local sorted
  if prelude.is_shared(list) or all_plain(list, n) then
    local parts = gather(blocks(pool, list, size, sort_block, lt), deadline)
    sorted = parts and merge_runs(table.move(parts, 2, parts.n, 1, {}), deadline, function(a, b)
      return pool:async(merge, a, b, lt)
    end, function(a, b)
      return merge(a, b, lt)
    end)
  else
    local tasks = {}
    for lo = 1, n, size do
      local block = table.move(list, lo, math.min(lo + size - 1, n), 1, {})
      tasks[#tasks + 1] = pool:async(order_block, block, lo - 1, lt)
    end
    local parts = gather(tasks, deadline)
    local order = parts and merge_runs(table.move(parts, 2, parts.n, 1, {}), deadline, function(a, b)
      return pool:async(merge, pick(list, a), pick(list, b), lt, a, b)
    end, function(a, b)
      return merge(pick(list, a), pick(list, b), lt, a, b)
    end)
    sorted = order and pick(list, order)
  end
  if not sorted then return nil, "timeout" end
  for i = 1, n do list[i] = sorted[i] end
  return true
end
