-- Blocks and tests of one file: busted's words, in busted's order. See test.rs.
--
-- A block's body is run when its turn comes, and says what is in it; then that is run. So the file is run first, then its
-- blocks and tests one after the other.
local emit, now, config, lib, inspect, file = ...

local error, getmetatable, ipairs, next, pcall, rawset, select, setmetatable, tostring, type, xpcall =
  error, debug.getmetatable, ipairs, next, pcall, rawset, select, setmetatable, tostring, type, xpcall
local concat, insert, find, format, gmatch, gsub = table.concat, table.insert, string.find, string.format, string.gmatch, string.gsub
local traceback, getinfo, loadfile, rawget = debug.traceback, debug.getinfo, loadfile, rawget
local G, loaded, preload = _G, package.loaded, package.preload

local current, test
local PENDING = {}

local function new_block(kind, name, body, parent)
  return {
    kind = kind, name = name, body = body, parent = parent, children = {}, before_each = {}, after_each = {}, setup = {},
    teardown = {}, lazy_setup = {}, lazy_teardown = {},
  }
end

-- Errors -----------------------------------------------------------------------------------------

-- The frames of the program alone: neither those of this file and of assert.lua, nor what called it.
local function program_frames(text)
  local lines = {}
  for line in gmatch(text, "[^\n]+") do
    if find(line, "^%s") and not find(line, "[test]:", 1, true) and not find(line, "<[test]", 1, true) and not find(line, "^%s*%[C%]: in %?") and
        not find(line, "in function 'xpcall'", 1, true) and not find(line, "in function 'error'", 1, true) then
      lines[#lines + 1] = gsub(line, "^%s+", "")
    end
  end
  return concat(lines, "\n")
end

local function told(e)
  if type(e) == "string" or type(e) == "number" then return tostring(e) end
  local mt = getmetatable(e)
  if mt and rawget(mt, "__tostring") then
    local ok, text = pcall(tostring, e)
    if ok then return text end
  end
  return inspect(e)
end

local function handler(e)
  if type(e) == "table" and e[1] == PENDING then return e end
  return {message = told(e), is_failure = lib.is_failure(e), trace = program_frames(traceback("", 2))}
end

-- Calls f; true, or false and what handler made.
local function guard(f, ...) return xpcall(f, handler, ...) end

-- What is seen from outside ------------------------------------------------------------------------

local function full_name(t)
  local names, b = {}, t
  while b do
    if b.name and b.name ~= "" then insert(names, 1, b.name) end
    b = b.parent
  end
  return concat(names, " ")
end

local function has_tag(name, tags)
  for tag in gmatch(tags, "[^,%s]+") do
    tag = gsub(tag, "^#", "")
    -- A tag is a word that begins with #.
    for word in gmatch(name, "#([%w_%-]+)") do
      if word == tag then return true end
    end
  end
  return false
end

local function is_wanted(name)
  if config.filter and not find(name, config.filter) then return false end
  if config["filter-out"] and find(name, config["filter-out"]) then return false end
  if config.tags and not has_tag(name, config.tags) then return false end
  if config["exclude-tags"] and has_tag(name, config["exclude-tags"]) then return false end
  return true
end

local function report(name, began, problem, line)
  local seconds = format("%.6f", now() - began)
  if problem == nil then emit("passed", name, seconds, line or "")
  elseif problem[1] == PENDING then emit("pending", name, seconds, line or "", problem.reason or "")
  else emit(problem.is_failure and "failed" or "error", name, seconds, line or "", problem.message, problem.trace or "") end
end

-- Running ------------------------------------------------------------------------------------------

-- Functions of a list, until one fails.
local function run_all(list)
  for _, f in ipairs(list) do
    local ok, problem = guard(f)
    if not ok then return problem end
  end
end

local function ancestors(b)
  local list = {}
  while b do insert(list, 1, b) b = b.parent end
  return list
end

local function run_test(t)
  local name = full_name(t)
  if not is_wanted(name) then return end
  local began = now()
  if t.kind == "pending" or not t.body then
    report(name, began, {PENDING, reason = t.reason}, t.line)
    return
  end
  emit("begin", name)
  test = {name = t.name, finally = {}}
  local mark = lib.mark()
  local blocks, problem, reached = ancestors(t.parent), nil, 0
  for _, b in ipairs(blocks) do
    if not b.lazy_done then
      b.lazy_done = true
      b.lazy_problem = run_all(b.lazy_setup)
    end
    problem = problem or b.lazy_problem
  end
  for i, b in ipairs(blocks) do
    if problem then break end
    reached = i
    problem = run_all(b.before_each)
  end
  if not problem then
    local ok, e = guard(t.body)
    if not ok then problem = e end
  end
  for i = #test.finally, 1, -1 do
    local ok, e = guard(test.finally[i])
    if not ok then problem = problem or e end
  end
  for i = reached, 1, -1 do
    local e = run_all(blocks[i].after_each)
    problem = problem or e
  end
  lib.revert(mark)
  test = nil
  report(name, began, problem, t.line)
end

local function saved(t)
  local copy = {}
  for k, v in next, t do copy[k] = v end
  return copy
end

local function restore(t, copy)
  for k in next, t do
    if copy[k] == nil then rawset(t, k, nil) end
  end
  for k, v in next, copy do rawset(t, k, v) end
end

local run_block

local function run_children(b)
  for _, child in ipairs(b.children) do
    if child.kind == "it" or child.kind == "pending" then run_test(child) else run_block(child) end
  end
end

-- Whether the filters leave anything of it cannot be known before its body is run.
function run_block(b)
  local globals, modules
  if b.kind == "insulate" then globals, modules = saved(G), saved(loaded) end
  local mark, began = lib.mark(), now()
  current = b
  local problem
  if b.body then
    local ok, e = guard(b.body)
    if not ok then problem = e end
  end
  if not problem then problem = run_all(b.setup) end
  if not problem then run_children(b) end
  if b.lazy_done then
    local e = run_all(b.lazy_teardown)
    problem = problem or e
  end
  local e = run_all(b.teardown)
  problem = problem or e
  if problem then report(full_name(b), began, problem, b.line) end
  lib.revert(mark)
  if globals then
    restore(G, globals)
    restore(loaded, modules)
  end
  current = b.parent
end

-- The words ----------------------------------------------------------------------------------------

local function place()
  local info = getinfo(3, "Sl")
  return info and tostring(info.currentline) or ""
end

local function outside_of_tests(word)
  if test then error(format("'%s' cannot be called within a test", word), 3) end
end

local function block_word(word, kind)
  return function(name, body)
    outside_of_tests(word)
    if type(name) == "function" then name, body = "", name end
    if type(body) ~= "function" then error(format("%s: a function is needed behind the name", word), 2) end
    local b = new_block(kind, tostring(name), body, current)
    b.line = place()
    current.children[#current.children + 1] = b
  end
end

local function test_word(word)
  return function(name, body)
    outside_of_tests(word)
    if body ~= nil and type(body) ~= "function" then
      error(format("%s: a function is needed behind the name", word), 2)
    end
    local t = {kind = "it", name = tostring(name), body = body, parent = current, line = place()}
    current.children[#current.children + 1] = t
  end
end

local function list_word(word, list)
  return function(f)
    outside_of_tests(word)
    if type(f) ~= "function" then error(format("%s: a function is needed", word), 2) end
    local to = current[list]
    to[#to + 1] = f
  end
end

local words = {
  describe = block_word("describe", "describe"), context = block_word("context", "describe"),
  insulate = block_word("insulate", "insulate"), expose = block_word("expose", "expose"),
  it = test_word("it"), spec = test_word("spec"), test = test_word("test"),
  before_each = list_word("before_each", "before_each"), after_each = list_word("after_each", "after_each"),
  setup = list_word("setup", "setup"), teardown = list_word("teardown", "teardown"),
  strict_setup = list_word("strict_setup", "setup"), strict_teardown = list_word("strict_teardown", "teardown"),
  lazy_setup = list_word("lazy_setup", "lazy_setup"), lazy_teardown = list_word("lazy_teardown", "lazy_teardown"),
  pending = function(name, body)
    if test then error({PENDING, reason = tostring(name)}, 0) end
    local t = {kind = "pending", name = tostring(name), parent = current, line = place()}
    if type(body) == "string" then t.reason = body end
    current.children[#current.children + 1] = t
  end,
  finally = function(f)
    if not test then error("'finally' belongs into a test", 2) end
    test.finally[#test.finally + 1] = f
  end,
  randomize = function() end,
  assert = lib.assert, spy = lib.spy, stub = lib.stub, mock = lib.mock, match = lib.match, expect = lib.expect,
}
for word, f in next, words do G[word] = f end

local function module(name, value) preload[name] = function() return value end end
module("luassert", lib.assert)
module("luassert.assert", lib.assert)
module("luassert.spy", lib.spy)
module("luassert.stub", lib.stub)
module("luassert.mock", lib.mock)
module("luassert.match", lib.match)
module("luassert.util", {deepcompare = lib.same, deepcopy = lib.copy})
module("say", lib.say)
module("busted", words)
-- Files that start busted themselves go on.
module("busted.runner", function() end)

-- The file -----------------------------------------------------------------------------------------

local root = new_block("file", nil, nil, nil)
current = root
local began = now()
-- A file without blocks and tests is one test.
emit("begin", file)
local ok, problem = guard(function()
  -- A pattern that is none is told once.
  find("", config.filter or "")
  find("", config["filter-out"] or "")
  if config.helper then
    local f, message = loadfile(config.helper)
    if not f then error(message, 0) end
    f()
  end
  local f, message = loadfile(file)
  if not f then error(message, 0) end
  f(file)
end)
if not ok then
  report(file, began, problem)
elseif #root.children == 0 and #root.setup == 0 then
  if is_wanted(file) then report(file, began) end
else
  emit("body", file)
  run_block(root)
end
emit("done", tostring(lib.assertions))
