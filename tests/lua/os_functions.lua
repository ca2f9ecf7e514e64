-- os library: dates, files, processes.
local function msg(f, ...)
  local ok, e = pcall(f, ...)
  print(ok, (tostring(e):gsub("^[^:]+:%d+: ", "@ ")))
end
print(os.date("!%Y-%m-%d %H:%M:%S", 0), os.date("!%c", 86400), os.date("!%x %X %p %A %B %j %U %w %a %b %d %y %Z %%", 1e9))
print(os.date("!%D %e %F %g %G %h %I %n %R %t %T %u %V %C", 1234567890), os.date("!%Ex %Od %EY %OS", 1234567890), os.date("!plain \0 text", 0):byte(7))
local d = os.date("!*t", 1700000000)
print(d.year, d.month, d.day, d.hour, d.min, d.sec, d.wday, d.yday, d.isdst)
for _, f in ipairs {"%", "%Q", "%E", "%Ez", "%O", "%Oq", "%9", "x%", "%Ea"} do msg(os.date, f) end
msg(os.date, "%c", "x") msg(os.date, "%c", 1.5) msg(os.date, {}) msg(os.date, "!%c", math.maxinteger)
print(os.time(os.date("*t", 1234567890)), math.type(os.time()), type(os.date()))
local t = {year = 2020, month = 14, day = 35, hour = -5, min = 70, sec = 3601}
local stamp = os.time(t)
print(t.year, t.month, t.day, t.hour, t.min, t.sec, t.wday, t.yday, t.isdst)
print(os.time {year = 2000, month = 1, day = 2} - os.time {year = 2000, month = 1, day = 1}, os.time {year = "2000", month = "01", day = 1.0} == os.time {year = 2000, month = 1, day = 1})
msg(os.time, {}) msg(os.time, {year = 2000}) msg(os.time, {year = 2000, month = 1}) msg(os.time, {year = 2000, month = 1, day = 1.5}) msg(os.time, {year = 2000, month = "x", day = 1})
msg(os.time, {year = 2000, month = 1, day = {}}) msg(os.time, {year = 1e18 // 1 | 0, month = 1, day = 1}) msg(os.time, {year = 2000, month = 1, day = 1, sec = 2^40 | 0}) msg(os.time, 1)
print(os.time(setmetatable({}, {__index = function(_, k) return ({year = 1990, month = 5, day = 6, hour = 7})[k] end})) == os.time {year = 1990, month = 5, day = 6, hour = 7})
print(os.difftime(10, 4), os.difftime(4, 10), math.type(os.difftime(1, 1))) msg(os.difftime, 1) msg(os.difftime)
print(type(os.clock()), os.clock() >= 0)
print(os.getenv("HOME") ~= nil, os.getenv("SURELY_NOT_SET"), os.getenv(""), os.getenv("A=B")) msg(os.getenv)
print(os.setlocale(), os.setlocale(nil), os.setlocale("C"), os.setlocale(nil, "numeric"), os.setlocale("no_such_locale")) msg(os.setlocale, "C", "nonsense")

local name = os.tmpname()
local function clean(...) local t = table.pack(...) for i = 1, t.n do t[i] = type(t[i]) == "string" and t[i]:gsub("/tmp/lua_%w+", "NAME") or t[i] end return table.unpack(t, 1, t.n) end
print(io.open(name) ~= nil, clean(os.remove(name))) print(clean(os.remove(name)))
print(clean(os.rename(name, name .. "x"))) msg(os.rename, name)
print(os.remove("/no/such/dir/file"))
print(os.execute("true")) print(os.execute("exit 3")) print(os.execute("kill -9 $$")) print(os.execute()) print(os.execute("false"))
msg(os.exit, "x") msg(os.execute, {})
