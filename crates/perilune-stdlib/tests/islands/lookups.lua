-- What is remembered of look-ups by computed names in shared dictionaries must not outlive the strings and the islands that it is about.
local rounds <const> = ROUNDS or 400

local function dictionary(n, from)
  local d = {}
  for i = 1, n do d["name" .. i] = from + i end
  return d
end

-- A string is asked for twice (the second answer is remembered), dies young, and the next one takes its place.
do
  local d = share(dictionary(200, 0))
  for round = 1, rounds do
    for i = round % 7, 206 do
      local key = "name" .. i
      local want = i >= 1 and i <= 200 and i or nil
      for _ = 1, 3 do assert(d[key] == want, key) end
    end
    collectgarbage "step"
  end
end
verify()

-- The same for names that are interned, young and old: keys of a private table that comes and goes.
do
  local d = share(dictionary(200, 0))
  local private = {}
  for round = 1, rounds do
    local i = round % 210
    private["name" .. i] = true
    for key in pairs(private) do
      for _ = 1, 2 do
        local v = d[key]
        assert(v == nil and tonumber(key:sub(5)) % 210 > 200 or key == "name0" or v == tonumber(key:sub(5)), key)
      end
    end
    if round % 20 == 0 then private = {} end
    if round % 30 == 0 then collectgarbage() elseif round % 5 == 0 then collectgarbage "step" end
  end
end

-- An island goes, and the next one lies where it was: the keys stay.
do
  local keys = {}
  for i = 1, 50 do keys[i] = "name" .. i end
  for _, key in ipairs(keys) do keys[key] = true end
  collectgarbage()
  -- Islands of other states take places too: until one has come back, it goes on.
  local places, again, round = {}, 0, 0
  repeat
    round = round + 1
    local d = share(dictionary(round % 2 == 0 and 50 or 49, round * 1000))
    local place = tostring(d)
    again = again + (places[place] and 1 or 0)
    places[place] = true
    for _ = 1, 3 do
      for i, key in ipairs(keys) do
        local want = (i < 50 or round % 2 == 0) and round * 1000 + i or nil
        assert(d[key] == want and rawget(d, key) == want)
      end
    end
    d = nil
    collectgarbage()
    collectgarbage()
  until round >= rounds // 10 and (again > 0 or round >= 300)
  assert(again > 0, "no address was used again: this tests nothing")
end

-- One name in more tables than are remembered, in turns, and tables that lack it.
do
  local lists = {}
  for i = 1, 12 do
    local d = dictionary(i, i * 100)
    d.other, d["un" .. i] = -i, 0
    lists[i] = share(d)
  end
  local keys = {}
  for i = 1, 14 do keys[i] = "name" .. i; keys["name" .. i] = i end
  for round = 1, rounds // 4 do
    local most = round % 12 + 1
    for at = 1, most do
      for i = 1, 14 do
        assert(lists[at][keys[i]] == (i <= at and at * 100 + i or nil))
        assert(lists[at]["name" .. i] == (i <= at and at * 100 + i or nil))
      end
    end
    if round % 10 == 0 then collectgarbage "step" end
    if round % 50 == 0 then collectgarbage() end
  end
end

-- What a dictionary lacks, its metatable may have, and may change its mind about.
do
  local answer = 0
  local class = share(setmetatable(dictionary(5, 0), { __index = function(_, key) return answer_for(key) end }))
  function answer_for(key) return key .. answer end
  local key, present = "name" .. 9, "name" .. 3
  for i = 1, 20 do
    answer = i
    assert(class[key] == "name9" .. i and class[present] == 3)
  end
  answer_for = nil
end

-- Names that are strings of islands, of the same and of another one; values that are.
do
  local names = share { "name1", "name2", "name33", list = { "name3" } }
  local d = share { name1 = { "one" }, name2 = "two", name3 = names, ["name4"] = 4, f = function() return "called" end }
  local also = share { keys = { "name2", "name4", "none" }, name2 = 2, name4 = 4 }
  for _ = 1, 4 do
    assert(d[names[1]][1] == "one" and d[names[2]] == "two" and d[names[3]] == nil and d[names.list[1]] == names)
    assert(also[also.keys[1]] == 2 and also[also.keys[2]] == 4 and also[also.keys[3]] == nil)
    local f = "f"
    assert(d[f .. ""]() == "called" and d[("f"):rep(1)] == d.f)
    collectgarbage "step"
  end
end

-- A name keeps its meaning elsewhere: as a key of private tables, as a field of records, as text.
do
  local d = share(dictionary(20, 0))
  local record = { name1 = "x", name2 = "y" }
  local private = {}
  for i = 1, 20 do
    local key = "name" .. i
    assert(d[key] == i and d[key] == i)
    private[key] = i
    assert(private["name" .. i] == i and d[key] == i and key == "name" .. i and #key == (i < 10 and 5 or 6))
    record[key] = i
    assert(record["name" .. i] == i and share { [key] = key }[key] == "name" .. i)
  end
  assert(record.name1 == 1 and record.name20 == 20)
end

-- More names than are remembered.
if MANY then
  local n <const> = 150000
  local d = dictionary(n, 0)
  local s, keys = share(d), {}
  for key in pairs(d) do keys[#keys + 1] = key end
  d = nil
  for _ = 1, 6 do
    local sum = 0
    for i = 1, n do sum = sum + s[keys[i]] end
    assert(sum == n * (n + 1) // 2)
  end
  local t = share { [keys[1]] = "one", [keys[n]] = "last" }
  for _ = 1, 3 do assert(t[keys[1]] == "one" and t[keys[n]] == "last" and t[keys[2]] == nil and s[keys[n]] == tonumber(keys[n]:sub(5))) end
end
verify()
