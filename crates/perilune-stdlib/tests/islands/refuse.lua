-- What cannot be shared says so, with the path; the value is as it was afterwards.
local function refused(v, message)
  local ok, e = pcall(share, v)
  assert(not ok, "shared")
  assert(e:find(message, 1, true), e)
end
local co = coroutine.create(print)
refused(co, "cannot share: value is a coroutine")
refused({ config = { handler = co } }, "cannot share: value.config.handler is a coroutine")
refused({ { 1, { co } } }, "cannot share: value[1][2][1] is a coroutine")
refused({ ["a b"] = { co } }, [[cannot share: value["a b"][1] is a coroutine]])
refused({ [co] = 1 }, "cannot share: (a key of value) is a coroutine")
refused({ file = io.stdout }, "cannot share: value.file is a userdata")
refused(("x"):gmatch("x"), "is a native function with state of its own")
refused(setmetatable({}, { __gc = print }), "cannot share: (the metatable of value) has a field '__gc'")
refused({ cache = setmetatable({}, { __mode = "k" }) }, "(the metatable of value.cache) has a field '__mode'")
refused(setmetatable({}, { __close = print }), "'__close'")
local count = 0
local function counter() count = count + 1 return count end
refused({ f = counter }, "cannot share: value.f captures variable 'count' (declared on line 18), which is assigned on line 19.")
local handle = { co }
refused({ f = function() return handle end }, "cannot share: (variable 'handle' of value.f)[1] is a coroutine")
local t = { 1, 2, x = { y = {} } }
for i = 1, 100 do
  t.x.y[i] = { i }
end
t.x.y[50].bad = co
refused(t, "value.x.y[50].bad is a coroutine")
verify()
t.x.y[50].bad = nil
t.x.y[51].z, t.new = 1, 2
collectgarbage()
assert(share(t).x.y[51].z == 1)
assert(counter() == 1)

-- a variable that is assigned once, where it is declared without a value
do
  local even
  local function odd(n) if n == 0 then return false end return even(n - 1) end
  local ok, e = pcall(share, { odd })
  assert(not ok and e:find("'even'") and e:find("no value yet", 1, true), e)
  function even(n) if n == 0 then return true end return odd(n - 1) end
  assert(share({ odd })[1](7) == true)
end
