-- One of several domains that send each other shared graphs. A graph is known by its seed.
local first, rounds = ...
local kept = {}
local rng = generator(first)
for round = 1, rounds do
  local seed = first + round
  local g = generator(seed)
  send(share(build(g, g(40))), seed)
  local v, from = receive()
  if v then
    local g = generator(from)
    compare(build(g, g(40)), v)
    if rng(3) == 1 then kept[rng(10)] = { v, from } end
    if rng(4) == 1 then send(share { inner = v, v }.inner, from) end
    if rng(4) == 1 then kept[rng(10)] = nil end
  end
  local k = kept[rng(10)]
  if k then
    local g = generator(k[2])
    compare(build(g, g(40)), k[1])
  end
  if round % 16 == 0 then
    collectgarbage()
    verify()
  end
end
