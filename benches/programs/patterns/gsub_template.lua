-- Templates filled with gsub: replacement by table, by function and by string with captures; escaping.
-- bench: group=patterns size=25000 quick=1700
local n = tonumber(arg and arg[1]) or 25000

local template = [[
Dear $title $name,
your order #$number of ${count} <items> costs $price & will arrive on $day.
$unknown stays. 100$ are enough. Write to shop@example.org or call 555-0199.
]]
local escapes = { ["<"] = "&lt;", [">"] = "&gt;", ["&"] = "&amp;" }
local function escape(s) return (s:gsub("[<>&]", escapes)) end

local length, replaced = 0, 0
for i = 1, n do
  local values = { title = i % 2 == 0 and "Dr" or "Ms", name = "N" .. i, number = i, count = i % 9, price = i * 3, day = "day " .. i % 30 }
  local text, k = template:gsub("%$(%w+)", values)
  replaced = replaced + k
  text = text:gsub("%${(%w+)}", function(w) return values[w] end)
  text = escape(text)
  text = text:gsub("(%w+)@(%w+)", "%2 at %1"):gsub("%s+", " "):gsub("^%s*(.-)%s*$", "%1")
  assert(text:find("example at shop", 1, true) and text:find("&lt;items&gt;", 1, true))
  length = length + #text
end
assert(replaced == 6 * n, replaced)
print(string.format("gsub_template %d", length))
