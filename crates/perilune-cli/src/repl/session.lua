-- Local variables that live on from one input of a session to the next: session.rs says how.
local join, getupvalue, pack = debug.upvaluejoin, debug.getupvalue, table.pack

-- By name: a function that captures the variable, which of its upvalues it is, and the variable's attribute.
local cells = {}
local session = {cells = cells}

-- Makes an input of `outer`, a chunk that returns it, and gives it the variables of the session. `declared` has names and
-- attributes of those that it declares, by turns.
function session.enter(outer, declared)
  local inner = outer(function(captures)
    local values, at = pack(captures()), {}
    local n = 1
    local name = getupvalue(captures, n)
    while name do
      at[name] = n
      n = n + 1
      name = getupvalue(captures, n)
    end
    for i = 1, #declared, 2 do
      local name, attrib = declared[i], declared[i + 1]
      if at[name] then
        cells[name] = {f = captures, n = at[name], attrib = attrib}
      else
        -- A constant of the compiler's: a value, not a variable.
        local value = values[(i + 1) // 2]
        cells[name] = {f = function() return value end, n = 1, attrib = attrib}
      end
    end
  end)
  local n = 1
  local name = getupvalue(inner, n)
  while name do
    local cell = cells[name]
    if cell then join(inner, n, cell.f, cell.n) end
    n = n + 1
    name = getupvalue(inner, n)
  end
  return inner
end

-- What a variable holds now.
function session.value(name)
  local cell = cells[name]
  if not cell then return nil end
  local _, value = getupvalue(cell.f, cell.n)
  return value
end

-- Forgets all of them; functions that captured some keep them.
function session.clear()
  for name in next, cells do cells[name] = nil end
end

return session
