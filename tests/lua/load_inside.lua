-- Readers that load texts while theirs is being compiled, and texts that break off, leave nothing behind.
local wrong = {
  "local a, b = 1; x = {a, b, function() for i = 1, 2 do local c = )", "for i = 1, 2 do goto nowhere end",
  "local function f() local a <const> = 1; a = 2 end", "x = 'abc", ("("):rep(300), "return function() return ... end",
  "local x; f(" .. ("x, "):rep(300) .. "x)",
}
local function loads(text, ...)
  local f, message = load(text, "=inside", ...)
  return f and f() or message
end

-- Loads inside of loads, to a depth; every other piece comes with a text that is wrong.
local function build(depth)
  local pieces = { "local a, b = " .. depth .. ", {} ", "local function f(n) return n + ", "a end ", "b.x = f(2) ", "return b.x" }
  local at = 0
  return assert(load(function()
    at = at + 1
    if pieces[at] then
      local text = wrong[(at + depth) % #wrong + 1]
      assert(not load(text, "=wrong"))
      assert(loads("local t = {x = " .. at .. "}; return t.x * 2") == at * 2)
      if depth > 0 then assert(build(depth - 1)() == depth + 1) end
    end
    return pieces[at]
  end, "=outside"))
end
print(build(3)())

for _, text in ipairs(wrong) do
  local _, message = load(text, "=wrong")
  print(message:match("^[^\n]*"), loads("local a <const>, b = 1, 2; for i = 1, 2 do b = b + a end return b"))
end

-- A reader that fails, with a load under way inside.
print((select(2, load(function() assert(load("x = ")) end, "=fails")):match("^[^\n]*")))
print(type(select(3, pcall(load, function() error({ 1 }) end))))
print(loads("return 'and goes on'"))

-- A large text between small ones, and names that come again in other places.
local parts = {}
for i = 1, 3000 do parts[i] = ("local function f%d(a%d) return a%d + %d, g%d end t[%d] = f%d"):format(i % 150, i, i, i, i, i, i % 150) end
local large = "local t = {} do " .. table.concat(parts, " end do ") .. " end return t"
for i = 1, 3 do
  local t = loads(large)
  print(#t, t[3000](1))
  print(loads("local g, a = 7; local function f() a = g return a end return f() + " .. i))
end

-- Lines and names are those of each text.
for i = 1, 3 do
  local f = load(("\n"):rep(i) .. "local u = ...\nlocal function g() return u.x end\n\nreturn g()", "=lines" .. i)
  print(pcall(f))
  print(debug.getinfo(f, "S").short_src, next(debug.getinfo(f, "L").activelines) ~= nil)
end
