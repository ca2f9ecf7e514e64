-- perilune.log: levels, loggers, fields, both formats, limits, several domains.
local log, pl = require "perilune.log", require "perilune"

local function lines(file)
  local all = {}
  for line in io.lines(file) do all[#all + 1] = (line:gsub("%d+%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ", "TIME")) end
  return table.concat(all, "\n")
end

print(log.level(), log.is_on "debug", log.is_on "info")
assert(log.set { file = "text.log" })
log.debug("not written", { at = "all" })
log.info "plain"
log.warn("with fields", { b = 2, a = "one", c = 1.5, d = true, text = "two words", empty = "", number = "12", eq = "a=b" })
log.error("odd ones", { list = { 1, "x", { y = 1 } }, f = print, [1] = "first", ["a b"] = 1, nan = 0 / 0, inf = 1 / 0 })
log.info("line\nends\t\27[31m and \xff", { text = "line\nends \xff \"quotes\" \\" })
local http = log.new("http", { port = 80 })
http:info("listening", { address = "127.0.0.1" })
local request = http:with { id = 7 }
request:warn "slow"
print(http:level(), http:level "error", http:level(), http:is_on "warn", http:is_on "error")
http:warn "not written"
request:warn "has a level of its own"
print(http:level(false), http:level())
print(log.level "off", log.level "debug")
log.debug "written now"
print(lines "text.log")

assert(log.set { file = "json.log", format = "json", level = "info" })
log.info "plain"
log.info("fields", { message = "mine", b = 2, a = { x = 1, list = { 1, 2 }, deep = { { { { { 1 } } } } } }, s = "\n\"\\\u{e9}\xff", nan = 0 / 0, e = {} })
http:error("by a logger", { level = 3 })
print(lines "json.log")
for line in io.lines "json.log" do
  local record = require "perilune.json".decode(line)
  assert(record.time and record.level and record.message)
end

-- limits: for each message of each logger
assert(log.set { file = "limit.log", format = "text", limit = 2 })
for i = 1, 10 do
  log.info("often", { i = i })
  http:info "often"
end
log.info "seldom"
pl.sleep(1.05)
log.info("often", { i = 11 })
print(lines "limit.log")
assert(log.set { limit = false })

-- lines of several domains do not mix
assert(log.set { file = "domains.log" })
local tasks = {}
for t = 1, 4 do
  tasks[t] = pl.pool.default():async(function(http, t)
    local log = require "perilune.log"
    for i = 1, 100 do
      log.info("from a task", { t = t, i = i, filler = ("x"):rep(t * 50) })
      http:info "from a task"
    end
  end, http, t)
end
for _, task in ipairs(tasks) do task:await() end
local n, bad = 0, 0
for line in io.lines "domains.log" do
  n = n + 1
  if not line:find "^%S+Z INFO  .-from a task" then bad = bad + 1 end
end
print(n, bad)

-- what cannot be written is counted
assert(log.set { file = "/dev/full" })
log.info "lost"
log.info "lost"
assert(log.set { file = "found.log" })
log.info "found"
print(lines "found.log")

-- misuse
print(pcall(log.info))
print(pcall(log.info, "x", 1))
print(pcall(log.level, "loud"))
print(pcall(log.set, { format = "xml" }))
print(pcall(log.set, { fiel = "x" }))
print(log.set { file = "/nowhere/x" })
log.set { level = "off" }
-- off: not even arguments are looked at
print(pcall(log.info))
