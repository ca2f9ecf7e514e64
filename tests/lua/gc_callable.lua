-- A finaliser may be anything that can be called; what cannot be called is a warning.
do
  local log = {}
  local t = setmetatable({}, {__gc = setmetatable({}, {__call = function(self, o) log[#log+1] = type(o) end})})
  t = nil
  collectgarbage() collectgarbage()
  print(#log, log[1])
  setmetatable({}, {__gc = true})
  setmetatable({}, {__gc = 3})
  setmetatable({}, {__gc = "x"})
  collectgarbage() collectgarbage()
end
