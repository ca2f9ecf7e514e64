-- Random graphs against their copies.
local rng = generator(42)
for round = 1, 60 do
  local graph = build(rng, rng(60))
  local shared = share(graph)
  compare(graph, shared, true)
  if round % 10 == 0 then
    collectgarbage()
    verify()
    compare(graph, shared, true)
  end
end
