-- Writes the sample log: lua generate.lua [lines] [seed] > access.log
-- Its own generator of random numbers makes the file the same everywhere.

local lines = tonumber(arg[1]) or 2000
local state = tonumber(arg[2]) or 20261114

local function random(n)
  state = state * 16807 % 2147483647
  return state % n + 1
end

local function pick(weighted)
  local total = 0
  for _, choice in ipairs(weighted) do total = total + choice[1] end
  local at = random(total)
  for _, choice in ipairs(weighted) do
    at = at - choice[1]
    if at <= 0 then return choice[2] end
  end
end

-- weight, { path, usual milliseconds, usual bytes }
local pages = {
  { 30, { "/", 8, 5200 } },
  { 18, { "/search?q=lua", 90, 14000 } },
  { 6, { "/search?q=perilune&page=2", 95, 13000 } },
  { 14, { "/static/site.css", 2, 18200 } },
  { 14, { "/static/app.js", 3, 61000 } },
  { 9, { "/api/v1/packages", 40, 23000 } },
  { 8, { "/api/v1/packages/lpeg", 25, 2100 } },
  { 4, { "/api/v1/upload", 320, 310 } },
  { 5, { "/docs/manual.html", 12, 182000 } },
  { 2, { "/favicon.ico", 1, 1150 } },
  { 2, { "/old/page.html", 2, 420 } },
}
local clients = {}
for i = 1, 60 do clients[i] = { i < 6 and 12 or 1, ("192.0.2.%d"):format(i * 4 % 251 + 1) } end
local agents = {
  { 6, "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/133.0" },
  { 3, "curl/8.11.0" },
  { 1, "ExampleBot/1.0 (+https://bot.example)" },
}

-- More traffic by day than by night, and half an hour in the afternoon in which uploads fail.
local per_hour = {}
for hour = 0, 23 do per_hour[hour + 1] = { math.floor(20 + 100 * math.sin(math.pi * hour / 24) ^ 2), hour } end
local count = {}
for hour = 0, 23 do count[hour] = 0 end
for _ = 1, lines do
  local hour = pick(per_hour)
  count[hour] = count[hour] + 1
end

for hour = 0, 23 do
  for k = 0, count[hour] - 1 do
    local second = math.floor(k * 3600 / count[hour])
    local page = pick(pages)
    local path, usual, bytes = page[1], page[2], page[3]
    local outage = hour == 15 and second < 1800
    local upload = path == "/api/v1/upload"
    local ms = math.floor(usual * (0.5 + random(1000) / 1000) * (random(40) == 1 and 12 or 1)) + 1
    local status = 200
    if path:find("^/old/") then status = random(3) == 1 and 410 or 404
    elseif upload then status = outage and 503 or 201
    elseif random(outage and 8 or 150) == 1 then status = 500
    elseif path:find("^/static/") and random(3) == 1 then status = 304 end
    if status == 503 then ms = ms + 2000 end
    local size = status == 304 and "-" or tostring(math.floor(bytes * (0.8 + random(400) / 1000)))
    print(('%s - %s [14/Nov/2026:%02d:%02d:%02d +0000] "%s %s HTTP/1.1" %d %s "-" "%s" %d'):format(
      pick(clients), upload and "robin" or "-", hour, second // 60, second % 60, upload and "POST" or "GET", path,
      status, size, pick(agents), ms))
    if random(700) == 1 then print("\\x16\\x03\\x01\\x02 - garbled request") end
  end
end
