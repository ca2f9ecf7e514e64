-- Lists that end in a call, which gives one value for long, and then none, several, or nil.
local results = {}
local mode = "one"
local function last(x)
  if mode == "one" then return x end
  if mode == "none" then return end
  if mode == "several" then return x, x + 1, x + 2 end
  if mode == "nil" then return nil end
  return table.unpack({}, 1, 20)
end
local function one(x) return { x, last(x) } end
local function alone(x) return { last(x) } end
local function many(x) return { x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, last(x) } end
local function mixed(x) return { x, name = x, last(x) } end
local function nested(x) return { { x, last(x) }, last(x) } end
local function chosen(x) return { x and x or 1, last(x) } end
local function deep(d) if d == 0 then return {} end return { deep(d - 1), deep(d - 1) } end
local function size(t) return t[1] and 1 + size(t[1]) + size(t[2]) or 1 end
local function show(t)
  local out = {}
  for k, v in pairs(t) do out[#out + 1] = tostring(k) .. "=" .. (type(v) == "table" and "{" .. #v .. "}" or tostring(v)) end
  table.sort(out)
  local length = #t
  t[#t + 1] = "more"
  return length .. ":" .. #t .. " " .. table.concat(out, " ")
end
for _, m in ipairs { "one", "none", "one", "several", "nil", "one", "long", "one" } do
  mode = m
  for _, f in ipairs { one, alone, many, mixed, nested, chosen } do
    local text
    for i = 1, 150 do text = show(f(i)) end
    print(m, text)
  end
  print(size(deep(9)))
end
