-- A crawler with limits: follows the links of a site and says which of them are broken.
--
--   perilune main.lua                                            a demonstration, on a site of its own
--   perilune main.lua URL [--pages N] [--depth D] [--at-once C] [--pause S]
--
-- It stays on the host where it began. Limits: N pages (1000), links of links D times (5), C requests at once (8), at least S seconds between the beginnings
-- of two (0.02), 1 MiB of a page, 10 s for each. Pages that are no HTML are looked at for their status alone.

local pl = require "perilune"
local http = require "perilune.http"

local function fail(...)
  io.stderr:write("crawler: ", string.format(...), "\n")
  os.exit(1)
end

-- The addresses that a page links to.
local function links(html, base)
  local found = {}
  for _, pattern in ipairs { [[<[aA]%s[^>]-[hH][rR][eE][fF]%s*=%s*"([^"]*)"]], [[<[aA]%s[^>]-[hH][rR][eE][fF]%s*=%s*'([^']*)']] } do
    for reference in html:gmatch(pattern) do
      local url = http.url((reference:gsub("&amp;", "&")), base)
      if url then found[#found + 1] = url end
    end
  end
  return found
end

-- Visits pages from `start` on; calls `visited(page)` with url, status or problem, depth, and the page that it was found on.
local function crawl(start, limits, visited)
  local first = assert(http.url(start))
  local queue, head, known = { { url = first.text, depth = 0 } }, 1, { [first.text] = true }
  local begun, working, next_start = 0, 0, pl.now()
  local news = pl.channel.new()
  local pool = http.pool { per_host = limits.at_once }

  local function visit(page)
    local wait = next_start - pl.now()
    next_start = math.max(pl.now(), next_start) + limits.pause
    if wait > 0 then pl.sleep(wait) end
    -- The page's own address counts for its links, wherever redirects have led.
    local res, message, code = http.get(page.url, { stream = true, timeout = 10, limit = 1 << 20, pool = pool })
    if not res then
      page.problem = code .. ": " .. message
      return
    end
    local res <close> = res
    page.status = res.status
    local is_html = (res.headers["content-type"] or ""):find("html", 1, true)
    local where = http.url(res.url)
    if res.status ~= 200 or not is_html or where.authority ~= first.authority or page.depth >= limits.depth then return end
    local html, problem = res:text()
    if not html then
      page.problem = problem
      return
    end
    for _, url in ipairs(links(html, res.url)) do
      if url.authority == first.authority and url.scheme == first.scheme and not known[url.text] then
        known[url.text] = true
        queue[#queue + 1] = { url = url.text, depth = page.depth + 1, from = page.url }
      end
    end
  end

  pl.scope(function(s)
    while head <= #queue and begun < limits.pages or working > 0 do
      while head <= #queue and begun < limits.pages and working < limits.at_once do
        local page = queue[head]
        head, begun, working = head + 1, begun + 1, working + 1
        s:spawn(function()
          visit(page)
          visited(page)
          news:send(true)
        end)
      end
      news:recv()
      working = working - 1
    end
  end)
  pool:close()
  return begun, #queue - begun
end

local function report(start, limits)
  local pages = {}
  local count, left = crawl(start, limits, function(page) pages[#pages + 1] = page end)
  table.sort(pages, function(a, b) return a.url < b.url end)
  local base = http.url(start).authority
  local function short(url) return (url:gsub("^https?://" .. base:gsub("%p", "%%%0"), "")) end
  for _, page in ipairs(pages) do
    if page.status ~= 200 then
      print(("%s %s, from %s"):format(page.status or page.problem, short(page.url), page.from and short(page.from) or "the beginning"))
    end
  end
  print(("%d pages visited, %d known and not visited"):format(count, left))
end

local function demonstrate()
  local at_once, most = 0, 0
  local srv = http.server()
  srv:use(function(req, next)
    at_once = at_once + 1
    most = math.max(most, at_once)
    pl.sleep(0.005)
    local res = next(req)
    at_once = at_once - 1
    return res
  end)
  local function page(...) return { headers = { ["content-type"] = "text/html" }, body = table.concat({ ... }, "\n") } end
  srv:get("/", function()
    return page([[<a href="/page/1">one</a> <a href='about?a=1&amp;b=2'>about</a>]], [[<a href="http://elsewhere.invalid/">not ours</a> <a href="/gone">gone</a>]])
  end)
  -- A site without an end.
  srv:get("/page/:n", function(req)
    local n = math.tointeger(tonumber(req.params.n))
    return page(([[<a href="%d">next</a> <a href="../page/%d#top">after that</a> <a href="/">home</a>]]):format(n + 1, n + 2))
  end)
  srv:get("/about", function() return page [[<a class="x" href="/secret">secret</a> <a href="/moved">moved</a> <a href="/loop">loop</a>]] end)
  srv:get("/secret", function() return 403 end)
  srv:get("/moved", function() return http.redirect "/about/team/" end)
  srv:get("/about/team/", function() return page [[<a href="../gone-too">gone, too</a>]] end)
  srv:get("/loop", function() return http.redirect "/loop" end)
  pl.scope(function()
    local l = assert(srv:listen "127.0.0.1:0")
    report("http://" .. l:endpoint() .. "/", { pages = 20, depth = 6, at_once = 3, pause = 0 })
    print("at most " .. most .. " at once")
  end)
end

local limits = { pages = 1000, depth = 5, at_once = 8, pause = 0.02 }
local start
local n = 1
while arg[n] do
  local name = arg[n]:match "^%-%-(.+)$"
  if name then
    local key, value = name:gsub("-", "_"), tonumber(arg[n + 1])
    if not limits[key] or not value then fail("what is %s %s?", arg[n], tostring(arg[n + 1])) end
    limits[key] = key == "pause" and value or math.tointeger(value) or fail("%s must be an integer", arg[n])
    n = n + 2
  else
    local url, problem = http.url(arg[n])
    if not url then fail("%s: %s", arg[n], problem) end
    start = url.text
    n = n + 1
  end
end
if start then report(start, limits) else demonstrate() end
