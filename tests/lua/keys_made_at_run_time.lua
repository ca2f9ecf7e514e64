-- Strings made at run time as keys: never the same object twice, always the same key.
local function word(i) return "w" .. i % 50 .. "." end
local words = {}
for i = 1, 200 do words[i] = word(i) end

local counts = {}
for round = 1, 20 do
  for _, w in ipairs(words) do counts[w] = (counts[w] or 0) + 1 end
  if round % 7 == 0 then collectgarbage() end
  if round % 3 == 0 then collectgarbage("step") end
end
local distinct, total = 0, 0
for w, c in pairs(counts) do distinct, total = distinct + 1, total + c; assert(c == 80 and w == word(tonumber(w:match("%d+")))) end
print(distinct, total)

-- The key keeps its text after a look-up, whoever else refers to it.
local w = "a" .. tostring(12)
local function get() return w end
local t = { a12 = "twelve" }
print(t[w], get() == w, w, #w, counts[w])
-- Keys that nothing has: nil, or what a metatable says.
local missing = "not" .. "there" .. #words
print(counts[missing], t[missing], ({})[missing], ({ 1 })[missing])
print(setmetatable(counts, { __index = function(_, k) return "no " .. k end })[missing], counts[w .. w])
-- A key whose only holder dies and comes back.
local late = "late" .. #words
local copy = late:sub(1, -1) .. ""
counts[late] = 1
print(counts[copy], rawget(counts, copy .. ""))
counts[late] = nil
collectgarbage()
print(rawget(counts, copy))
counts["la" .. "te" .. #words] = 2
print(counts[copy], counts[late])
-- Removal and assignment in a traversal, by keys made anew.
for k in pairs(counts) do counts[k:sub(1, 1) .. k:sub(2)] = nil end
print(next(counts))
-- Metamethod names that are computed take effect.
local mt = {}
for i = 1, 40 do mt["pad" .. i] = i end
local obj = setmetatable({}, mt)
print(obj.x)
local name = "__" .. "index"
print(mt[name])
mt[name] = function() return "computed" end
print(obj.x)
mt[name] = function() return "again" end
print(obj.x)
mt[name] = nil
print(obj.x)
