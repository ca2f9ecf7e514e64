-- What call and return hooks see of a native's values: from where on they are, and how many.

local function tr(name, f, ...)
  local t = {}
  debug.sethook(function(event)
    local i = debug.getinfo(2, "rf")
    if i.func ~= f then return end
    local values = {}
    for k = i.ftransfer, i.ftransfer + i.ntransfer - 1 do
      local _, v = debug.getlocal(2, k)
      values[#values + 1] = type(v) == "table" and "table" or tostring(v)
    end
    local first = event == "call" and i.ftransfer or i.ntransfer == 0 and i.ftransfer or "-"
    t[#t + 1] = event .. " " .. first .. "," .. i.ntransfer .. "(" .. table.concat(values, " ") .. ")"
  end, "cr")
  f(...)
  debug.sethook()
  print(name, table.concat(t, " "))
end
tr("max", math.max, 3, 4)
tr("select", select, 2, "a", "b", "c")
tr("select none", select, 5, "a")
tr("running", coroutine.isyieldable)
tr("insert", table.insert, {}, 1)
tr("sort", table.sort, {2, 1})
tr("rawset", rawset, {}, 1, 2)
tr("pcall", pcall, math.max, 1, 2)
tr("pcall error", pcall, error, "x")
tr("resume", coroutine.resume, coroutine.create(function(...) return ... end), 1, 2)
tr("find", string.find, "hello", "l")
tr("none", collectgarbage)
tr("lua", function(a, b, c) return b end, 1, 2)
tr("lua none", function() end)
tr("vararg", function(...) return ... end, 1, 2)
