-- Finalisers run wherever something is allocated, on the stack of what runs, which moves if it has no room for them.
local DEPTH <const> = 12
local calls, most = 0, 0
local function deep(n)
  if n == 0 then return 0 end
  local a, b, c, d, e = n, n, n, n, n
  return 1 + deep(n - 1) + (a - b) + (c - d) + (e - n)
end
local size = 0
local mt = {}
mt.__gc = function()
  calls = calls + 1
  size = size + DEPTH
  assert(deep(size) == size)
  if size > 3000 then size = 0 end
end
local function garbage() return setmetatable({}, mt) end
local function three() return 1, 2, 3 end

-- Each operation in a coroutine of its own, whose stack begins small, with collections at each of its allocations.
local operations = {
  constructor = function(i) garbage() local t = {i, i, i, three()} return #t + t[6] end,
  fields = function(i) garbage() local t = {x = i, y = {i}} return t.y[1] - t.x end,
  long = function(i) garbage() local t = {i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i, i} return #t end,
  concat = function(i) garbage() local s = "a" .. i .. "b" .. i .. "c" return #s - 2 * #tostring(i) end,
  closure = function(i) garbage() local f = function() return i end return f() - i end,
  store = function(i) garbage() local t = {} t.a = i t[i] = {} t.b = i return t.a - t.b end,
  native = function(i) garbage() return #string.rep("x", 10) end,
  results = function(i) garbage() return select("#", string.byte("abcdefgh", 1, -1)) end,
  iterate = function(i) garbage() local n = 0 for k, v in string.gmatch("a b c", "%a") do n = n + 1 end return n end,
  caught = function(i) garbage() return select("#", pcall(error, {})) end,
  varargs = function(i) garbage() return (function(...) local t = {...} return #t end)(three()) end,
  meta = function(i) garbage() return #(setmetatable({}, {__concat = function(a, b) return "xy" .. b end}) .. "z") end,
}
local names = {}
for name in pairs(operations) do names[#names + 1] = name end
table.sort(names)
collectgarbage("generational")
for _, name in ipairs(names) do
  local f = operations[name]
  local all = {}
  for round = 1, 40 do
    local co = coroutine.wrap(function()
      local before = f(1)
      for i = 2, 4 do
        collectgarbage "step"
        assert(f(i) == before)
      end
      return before
    end)
    all[co()] = true
  end
  local result = next(all)
  assert(next(all, result) == nil)
  print(name, result)
end
print(calls > 100)
