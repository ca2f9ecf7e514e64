-- Counts what a source tree is made of: lines of code, comment and blank by language, the largest files, the longest
-- functions, and runs of lines that occur more than once.
--
--   perilune main.lua [--top N] [--run N] [FILE...]   these files; default: those of sample/files.txt
--   perilune main.lua --list FILE                     the files that FILE names, one a line, relative to FILE
--   perilune main.lua --git [FOLDER]                  the files that git tracks there
--
-- The scanner knows comments and strings, not grammars: it finds functions by the line that opens them and by where
-- braces, `end`s or the indentation return to that level. That is enough for a table, and the same for every language.

-- open: pattern of a function's first line, with its name as capture.
-- depth: how its last line is found: "brace" (braces balance), "indent" (a closing word at the same indentation),
-- "layout" (the next line that is indented no deeper).
local languages = {
  lua = { name = "Lua", line = "--", block = { "--[[", "]]" }, quotes = "\"'", long = { "[[", "]]" }, depth = "indent",
    open = { "^%s*local%s+function%s+([%w_]+)", "^%s*function%s+([%w_.:]+)", "^%s*([%w_.]+)%s*=%s*function" } },
  rs = { name = "Rust", line = "//", block = { "/*", "*/" }, quotes = "\"", char = "^b?'\\?[^']'", depth = "brace",
    open = { "^%s*fn%s+([%w_]+)", "^%s*pub%s+fn%s+([%w_]+)", "^%s*pub%b()%s+fn%s+([%w_]+)", "^%s*unsafe%s+fn%s+([%w_]+)",
      "^%s*pub%s+unsafe%s+fn%s+([%w_]+)" } },
  c = { name = "C", line = "//", block = { "/*", "*/" }, quotes = "\"'", depth = "brace",
    open = { "^[%a_][%w_%s%*]-([%w_]+)%s*%([^;]*$" } },
  py = { name = "Python", line = "#", quotes = "\"'", depth = "layout", open = { "^%s*def%s+([%w_]+)" } },
  sh = { name = "Shell", line = "#", quotes = "\"'", depth = "brace", open = { "^%s*([%w_]+)%s*%(%)" } },
}
languages.h = languages.c

local function fail(...)
  io.stderr:write("srcstat: ", string.format(...), "\n")
  os.exit(1)
end

-- Splits a line into what is code and whether it has a comment, given what was open at its start: nil, or
-- { kind = "comment" | "string", stop = text that ends it }. Strings become spaces in the code.
local function scan(text, lang, open)
  local code, comment, at = {}, false, 1
  while at <= #text do
    if open then
      comment = comment or open.kind == "comment"
      local _, stop = text:find(open.stop, at, true)
      if open.kind == "string" then code[#code + 1] = " . " end
      if not stop then return table.concat(code), comment, open end
      at, open = stop + 1, nil
    else
      local c = text:sub(at, at)
      local function starts(mark) return mark and text:sub(at, at + #mark - 1) == mark end
      if lang.block and starts(lang.block[1]) then
        open, at = { kind = "comment", stop = lang.block[2] }, at + #lang.block[1]
        comment = true
      elseif starts(lang.line) then
        return table.concat(code), true, nil
      elseif lang.long and starts(lang.long[1]) then
        open, at = { kind = "string", stop = lang.long[2] }, at + #lang.long[1]
      elseif lang.char and text:find(lang.char, at) then
        code[#code + 1] = " . "
        at = select(2, text:find(lang.char, at)) + 1
      elseif lang.quotes:find(c, 1, true) then
        local stop = at + 1
        while stop <= #text and text:sub(stop, stop) ~= c do
          if text:sub(stop, stop) == "\\" then stop = stop + 1 end
          stop = stop + 1
        end
        code[#code + 1] = " . "
        at = stop + 1
      else
        code[#code + 1] = c
        at = at + 1
      end
    end
  end
  return table.concat(code), comment, open
end

local function indentation(text) return #text:match("^%s*") end

-- Follows functions through a file. `line` is called for each line of code and reports the functions that end.
local Tracker = {}
Tracker.__index = Tracker

function Tracker.new(lang, report) return setmetatable({ lang = lang, report = report, open = {}, last = 0 }, Tracker) end

function Tracker:close(from, number)
  for i = #self.open, from, -1 do
    local f = self.open[i]
    self.report(f.name, f.first, number - f.first + 1)
    self.open[i] = nil
  end
end

function Tracker:line(number, text, code)
  local lang = self.lang
  if lang.depth == "layout" then
    for i = #self.open, 1, -1 do
      if indentation(text) <= self.open[i].indent then self:close(i, self.last) end
    end
  end
  for _, pattern in ipairs(lang.open) do
    local name = code:match(pattern)
    if name then
      self.open[#self.open + 1] = { name = name, first = number, indent = indentation(text), braces = 0, seen = false }
      break
    end
  end
  local top = self.open[#self.open]
  if top and lang.depth == "brace" then
    for brace in code:gmatch("[{}]") do
      top.seen = true
      top.braces = top.braces + (brace == "{" and 1 or -1)
    end
    if top.seen and top.braces <= 0 then
      self:close(#self.open, number)
    elseif not top.seen and code:find(";%s*$") then
      self.open[#self.open] = nil -- a declaration without a body
    end
  elseif top and lang.depth == "indent" then
    local closes = code:find("^%s*end") and indentation(text) == top.indent
    if closes or (top.first == number and code:find("%f[%w]end%f[%W]")) then self:close(#self.open, number) end
  end
  self.last = number
end

local Tree = {}
Tree.__index = Tree

function Tree.new(run)
  return setmetatable({ run = run, languages = {}, files = {}, functions = {}, windows = {}, order = {}, other = 0 }, Tree)
end

-- Remembers every window of `run` consecutive lines of code, white space aside.
function Tree:window(name, recent, number)
  if #recent > self.run then table.remove(recent, 1) end
  if #recent < self.run then return end
  local key, letters = {}, 0
  for i, item in ipairs(recent) do
    key[i] = item.text
    letters = letters + select(2, item.text:gsub("%w", ""))
  end
  if letters < 8 * self.run then return end
  key = table.concat(key, "\n")
  local places = self.windows[key]
  if not places then
    places = {}
    self.windows[key] = places
    self.order[#self.order + 1] = key
  end
  places[#places + 1] = { name = name, first = recent[1].number, last = number }
end

function Tree:file(name, shown)
  local lang = languages[name:match("%.(%w+)$") or ""]
  if not lang then
    self.other = self.other + 1
    return
  end
  local file, why = io.open(name)
  if not file then fail("%s", why) end
  local entry = { name = shown, code = 0, comment = 0, blank = 0 }
  local tracker = Tracker.new(lang, function(f, first, lines)
    self.functions[#self.functions + 1] = { name = f, place = ("%s:%d"):format(shown, first), lines = lines }
  end)
  local open, number, recent = nil, 0, {}
  for text in file:lines() do
    number = number + 1
    local code, comment
    code, comment, open = scan(text, lang, open)
    if code:find("%S") then
      entry.code = entry.code + 1
      tracker:line(number, text, code)
      recent[#recent + 1] = { text = text:match("^%s*(.-)%s*$"), number = number }
      self:window(shown, recent, number)
    elseif comment then
      entry.comment = entry.comment + 1
    else
      entry.blank = entry.blank + 1
    end
  end
  file:close()
  tracker:close(1, number)
  self.files[#self.files + 1] = entry
  local sum = self.languages[lang.name]
  if not sum then
    sum = { name = lang.name, files = 0, code = 0, comment = 0, blank = 0 }
    self.languages[lang.name] = sum
  end
  sum.files = sum.files + 1
  for _, kind in ipairs { "code", "comment", "blank" } do sum[kind] = sum[kind] + entry[kind] end
end

-- Windows that occur twice, overlapping ones joined into one longer run.
function Tree:duplicates()
  local runs = {}
  for _, key in ipairs(self.order) do
    local places = self.windows[key]
    if #places > 1 then
      local a, b = places[1], places[2]
      local last = runs[#runs]
      if last and last.a.name == a.name and last.b.name == b.name and a.first <= last.a.last and b.first <= last.b.last
        and a.last - last.a.last == b.last - last.b.last then
        last.a.last, last.b.last = a.last, b.last
      else
        runs[#runs + 1] = { a = a, b = b, times = #places }
      end
    end
  end
  table.sort(runs, function(x, y)
    local m, k = x.a.last - x.a.first, y.a.last - y.a.first
    if m ~= k then return m > k end
    if x.a.name ~= y.a.name then return x.a.name < y.a.name end
    return x.a.first < y.a.first
  end)
  return runs
end

local function say(...) print(string.format(...)) end
local function title(text) say("\n%s\n%s", text, ("-"):rep(#text)) end

local function report(tree, limit)
  local list, all = {}, { name = "all", files = 0, code = 0, comment = 0, blank = 0 }
  for _, sum in pairs(tree.languages) do
    list[#list + 1] = sum
    for _, kind in ipairs { "files", "code", "comment", "blank" } do all[kind] = all[kind] + sum[kind] end
  end
  table.sort(list, function(a, b)
    if a.code ~= b.code then return a.code > b.code end
    return a.name < b.name
  end)
  list[#list + 1] = all
  say("%-10s %6s %8s %8s %8s", "language", "files", "code", "comment", "blank")
  for _, s in ipairs(list) do say("%-10s %6d %8d %8d %8d", s.name, s.files, s.code, s.comment, s.blank) end
  if tree.other > 0 then say("%d files in other languages", tree.other) end

  title "Largest files (lines of code)"
  table.sort(tree.files, function(a, b)
    if a.code ~= b.code then return a.code > b.code end
    return a.name < b.name
  end)
  for i = 1, math.min(limit, #tree.files) do say("%6d  %s", tree.files[i].code, tree.files[i].name) end

  title "Longest functions (lines)"
  table.sort(tree.functions, function(a, b)
    if a.lines ~= b.lines then return a.lines > b.lines end
    return a.place < b.place
  end)
  for i = 1, math.min(limit, #tree.functions) do
    local f = tree.functions[i]
    say("%6d  %-20s %s", f.lines, f.name, f.place)
  end

  title(("Runs of %d or more equal lines"):format(tree.run))
  local runs = tree:duplicates()
  for i = 1, math.min(limit, #runs) do
    local r = runs[i]
    say("%s:%d-%d  and  %s:%d%s", r.a.name, r.a.first, r.a.last, r.b.name, r.b.first,
      r.times > 2 and (" (%d times)"):format(r.times) or "")
  end
  if #runs == 0 then say("none") end
end

local function listed(file, folder)
  local names = {}
  for name in file:lines() do
    if name:find("%S") then names[#names + 1] = { folder .. name, name } end
  end
  file:close()
  return names
end

local function list_file(path)
  local file, why = io.open(path)
  if not file then fail("%s", why) end
  return listed(file, path:match("^(.*[/\\])") or "")
end

local limit, run, names, i = 8, 4, {}, 1
local function value(name)
  i = i + 1
  return arg[i] or fail("%s wants a value", name)
end
while arg[i] do
  local a = arg[i]
  if a == "--top" then limit = math.tointeger(tonumber(value(a))) or fail("--top wants a whole number")
  elseif a == "--run" then run = math.tointeger(tonumber(value(a))) or fail("--run wants a whole number")
  elseif a == "--list" then names = list_file(value(a))
  elseif a == "--git" then
    local folder = "."
    if arg[i + 1] and not arg[i + 1]:find("^%-") then folder = value(a) end
    local pipe = assert(io.popen(("git -C '%s' ls-files"):format(folder:gsub("'", "'\\''"))))
    names = listed(pipe, folder .. "/")
    if #names == 0 then fail("git lists no files in %s", folder) end
  elseif a:find("^%-%-") then fail("unknown option %s", a)
  else
    local file, why = io.open(a)
    if not file then fail("%s", why) end
    file:close()
    names[#names + 1] = { a, a }
  end
  i = i + 1
end
if #names == 0 then names = list_file((arg[0]:match("^(.*[/\\])") or "") .. "sample/files.txt") end

local tree = Tree.new(run)
for _, name in ipairs(names) do tree:file(name[1], name[2]) end
report(tree, limit)
