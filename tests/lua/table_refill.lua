-- A table that is emptied and filled again, with integers and with other things in turn, stays as small as it is.
local t = {}
for round = 1, 200 do
  for i = 1, 30 do t[i] = i end
  for i = 1, 31 do t[i] = nil end
  t[31] = 5
  for i = 1, 20 do t[i] = i + 0.5 end
  t[3] = "x"
  for i = 1, 20 do t[i] = nil end
  assert(t[31] == 5)
end
collectgarbage()
print(collectgarbage("count") < 4096, next(t), #t == 0 or #t == 31)
