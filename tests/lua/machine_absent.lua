-- Fields that come and go, compiled: nil stored and replaced, absent in all classes, metatables of their own, methods that are the table's own, classes that change.
local A = {} A.__index = A
function A.new(v) return setmetatable({v = v, next = nil}, {__index = A}) end
function A:get() return self.v end
function A:len() local n, node = 0, self while node do n = n + 1 node = node.next end return n end
local B = setmetatable({}, {__index = A})
function B.new(v) return setmetatable({v = v}, {__index = B}) end
function B:get() return -self.v end
local log = {}
local N = setmetatable({}, {__index = function(t, k) log[#log + 1] = k return nil end, __newindex = function(t, k, v) rawset(t, k, v) log[#log + 1] = "new " .. k end})
local function chain(make, n) local head for i = n, 1, -1 do local o = make(i) o.next = head head = o end return head end
local function clear(o) local p = o.next o.next = nil o.v = nil o.v = 7 return p end
local function sum(h) local s = 0 while h do s = s + h:get() h = h.next end return s end
for round = 1, 200 do
  A.next = nil local a, b = chain(A.new, 20), chain(B.new, 20)
  assert(a:len() == 20 and sum(a) == 210 and sum(b) == -210)
  local o = a while o do o = clear(o) end
  assert(a:len() == 1 and a:get() == 7 and a.next == nil)
  if round == 150 then A.next = setmetatable({v = 1000}, {__index = A, __tostring = 1}) end
  if round == 150 then local x = A.new(1) print(x.next.v) A.next = nil end
  B.get = function(self) return self.v * 2 end
  assert(sum(chain(B.new, 3)) == 12) B.get = nil assert(sum(chain(B.new, 3)) == 6) B.get = function(self) return -self.v end
end
local function put(t, v) t.x = v return t.x end
for i = 1, 200 do local t = {x = 1} assert(put(t, nil) == nil and put(t, 2) == 2 and put(t, nil) == nil) end
local function watched() return setmetatable({x = 1}, {__newindex = function(t, k, v) rawset(t, k, (v or 0) * 10) end, __index = function() return "absent" end}) end
for i = 1, 200 do local t = watched() assert(put(t, nil) == "absent") assert(put(t, 3) == 30) end
for i = 1, 100 do N.a = i N.a = nil local _ = N.b end print(#log, log[1], log[2], log[3], log[4])
-- a class gets a field that it had as nil: who inherits from further up sees it
local Base = {} Base.__index = Base Base.f = function() return "base" end
local Mid = setmetatable({}, Base) Mid.__index = Mid Mid.f = function() return "mid" end
local obj = setmetatable({}, Mid)
local function call(o) return o:f() end
local function set(c, v) c.f = v end
local seen = {}
for i = 1, 300 do
  seen[call(obj)] = (seen[call(obj)] or 0) + 1
  if i == 100 then set(Mid, nil) elseif i == 200 then set(Mid, function() return "again" end) end
end
print(seen.base, seen.mid, seen.again)
-- methods that are the table's own, and change
local M = {n = 0} function M:inc() self.n = self.n + 1 end
local function run(m) m:inc() return m.n end
for i = 1, 300 do run(M) if i == 150 then function M:inc() self.n = self.n + 100 end end if i == 250 then M.extra = 1 end end print(M.n)
local m2 = setmetatable({}, {__index = M}) m2.n = 0
for i = 1, 100 do run(i % 2 == 0 and M or m2) end print(M.n, m2.n)
print(pcall(run, {n = 1}))
