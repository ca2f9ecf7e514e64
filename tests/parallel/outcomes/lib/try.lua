-- Calls f and prints what came of it; errors without the position of the call.
return function(f, ...)
  local r = table.pack(pcall(f, ...))
  if r[1] then return print("ok", table.unpack(r, 2, r.n)) end
  local e = r[2]
  if type(e) == "string" then e = e:gsub("^[%w%-%./]+:%d+: ", ""):gsub("\n.*", "") end
  print("error", e)
end
