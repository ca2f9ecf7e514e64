-- Message handlers that fail in turn, by themselves or by what they close: how often they are called, and with what.
local function run(title, h, lim)
  local seen, n = {}, 0
  local function handler(m) n = n + 1 seen[#seen+1] = tostring(m) return h(m, n) end
  local r = table.pack(xpcall(error, handler, "x"))
  print(title, n, r[1], r[2])
  local counts, order = {}, {}
  for _, m in ipairs(seen) do if not counts[m] then order[#order+1] = m end counts[m] = (counts[m] or 0) + 1 end
  for _, m in ipairs(order) do print("", m, counts[m]) end
end
run("error", function(m) error("again", 0) end)
run("closer", function(m) local c <close> = setmetatable({}, {__close = function() error("closer", 0) end}) return m end)
run("closer, then well", function(m, n) if m:find"stack overflow" then return "well: "..m end local c <close> = setmetatable({}, {__close = function() error("closer", 0) end}) return m end)
run("error, then well", function(m, n) if m:find"stack overflow" then return "well: "..m end error("again", 0) end)
run("deep", function(m, n) local function f() return 1 + f() end if n < 3 then f() end return m end)
run("tostring closer", function(m) local c <close> = setmetatable({}, {__close = function(_, e) error("c:" .. #tostring(e), 0) end}) return m end)
run("pcall in", function(m, n) if n > 300 then return "end" end local c <close> = setmetatable({}, {__close = function(_, e) error((select(2, pcall(error, "p", 0))), 0) end}) return m end)
