-- Which handler a path belongs to. Patterns are paths whose segments may be names: '/u/:id' has a value for 'id' wherever it matches, '/f/*rest' one for the whole
-- rest. Words count more than ':name', and that more than '*name'. A segment's escapes are undone before it is compared, so '/%75/1' is '/u/1', and '%2F' is no border.
local core = ...
local concat, error, find, setmetatable, sub, type = table.concat, error, string.find, setmetatable, string.sub, type
local unescape = core.unescape

local Router = {}
Router.__index = Router

function core.router() return setmetatable({ root = { words = {} }, exact = {}, methods = {} }, Router) end

local function split(path)
  local segments, n, from = {}, 0, 2
  while true do
    local at = find(path, "/", from, true)
    n = n + 1
    if not at then
      segments[n] = sub(path, from)
      return segments, n
    end
    segments[n] = sub(path, from, at - 1)
    from = at + 1
  end
end

function Router:add(method, pattern, route)
  if type(pattern) ~= "string" or sub(pattern, 1, 1) ~= "/" then
    error("a route must begin with '/', not " .. (type(pattern) == "string" and "'" .. pattern .. "'" or "a " .. type(pattern)), 3)
  end
  local node, names = self.root, {}
  local segments, count = split(pattern)
  for n, segment in ipairs(segments) do
    local kind, name = segment:match "^([:*])(.*)$"
    if kind then
      if not name:match "^[%a_][%w_]*$" then error("'" .. segment .. "' in the route '" .. pattern .. "' is no name", 3) end
      for _, other in ipairs(names) do
        if other == name then error("the route '" .. pattern .. "' has two parts with the name '" .. name .. "'", 3) end
      end
      names[#names + 1] = name
      if kind == "*" and n < count then error("'*" .. name .. "' must be the last part of the route '" .. pattern .. "'", 3) end
      local key = kind == ":" and "one" or "rest"
      node[key] = node[key] or { words = {} }
      node = node[key]
    else
      node.words[segment] = node.words[segment] or { words = {} }
      node = node.words[segment]
    end
  end
  node.methods = node.methods or {}
  if node.methods[method] then error("there is a route for " .. method .. " " .. pattern .. " already", 3) end
  route.names = names
  -- for traces
  route.name = method .. " " .. pattern
  node.methods[method] = route
  self.methods[method] = true
  if #names == 0 then self.exact[pattern] = node end
end

local function match(node, segments, n, count, values, filled)
  if n > count then
    if node.methods then return node, filled end
    return nil
  end
  local segment = segments[n]
  local next = node.words[segment]
  if next then
    local found, f = match(next, segments, n + 1, count, values, filled)
    if found then return found, f end
  end
  next = node.one
  if next and segment ~= "" then
    values[filled + 1] = segment
    local found, f = match(next, segments, n + 1, count, values, filled + 1)
    if found then return found, f end
  end
  next = node.rest
  if next then
    values[filled + 1] = concat(segments, "/", n, count)
    return next, filled + 1
  end
  return nil
end

-- The methods that a path has, and the values of its parts; nil; false, if the path is none.
function Router:find(path)
  local node = self.exact[path]
  if node then return node.methods end
  local segments, count = split(path)
  if find(path, "%", 1, true) then
    for n = 1, count do
      local segment = unescape(segments[n])
      if not segment then return false end
      segments[n] = segment
    end
  end
  local values = {}
  local found, filled = match(self.root, segments, 1, count, values, 0)
  if not found then return nil end
  for n = filled + 1, #values do values[n] = nil end
  return found.methods, values
end
