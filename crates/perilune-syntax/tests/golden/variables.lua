-- Upvalues through levels, constants that take no register, to-be-closed variables.
local K <const>, S <const>, N <const> = 10, "s", nil
local L <const> = -K * 2 + 0.5
local a = K + 1
local function f(p)
  local q <const> = p
  return function(r)
    a = a + K
    return p, q, r, S, N, L, function() return a, q, _ENV end
  end
end
do
  local h <close> = f(1)
  local b, c
  local d
  if h then return h end
end
do local unused <const> = 1 end
return f
