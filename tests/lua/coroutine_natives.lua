-- Natives that may call Lua, inside coroutines: as leaves, and with yields from metamethods and callbacks.
-- The reference cannot yield there; it has nothing to check.
local function supported()
  local co = coroutine.create(function() table.sort({2, 1}, coroutine.yield) end)
  return coroutine.resume(co) and coroutine.status(co) == "suspended"
end
if not supported() then print "OK" return end
local text = {}
local function emit(...)
  local t = table.pack(...)
  for i = 1, t.n do t[i] = tostring(t[i]):gsub("^%S+:%d+: ", "") end
  text[#text + 1] = table.concat(t, "\t") .. "\n"
end
local y=coroutine.yield
local mt={__index=function(t,k) return y("index",k) end,__len=function() return y("len") end,__newindex=function(t,k,v) y("newindex",k,v) end,__tostring=function() return y("tostring") end,__lt=function(a,b) return y("lt") end,__pairs=function(t) return y("pairs"),1,2 end, __concat=function(a,b) return y("concat") end}
local function run(name,f,...)
  local co=coroutine.create(f)
  local args=table.pack(...)
  local r=table.pack(coroutine.resume(co))
  local i=0
  while coroutine.status(co)~="dead" do text[#text+1]="("..tostring(r[2]).." "..tostring(r[3])..") " i=i+1 r=table.pack(coroutine.resume(co,args[i])) end
  emit(name,table.unpack(r,1,r.n))
end
local p=setmetatable({},mt)
run("tostring",function() return tostring(p) end,"TS")
run("insert",function() table.insert(p,"v") return "done" end,3)
run("insert2",function() table.insert(p,1,"v") return "done" end,1,"e1")
run("remove",function() return table.remove(p) end,2,"last")
run("concat",function() return table.concat(p,",") end,3,"a","b","c")
run("unpack",function() return table.unpack(p) end,2,"u1","u2")
run("move",function() return #table.move(p,1,2,1,{}) end,"m1","m2")
run("sort",function() local t={3,1,2} table.sort(t,function(a,b) return y("cmp",a) and a<b or a<b end) return table.concat(t," ") end)
run("max",function() return math.max(p,p)==p end,true)
run("pairs",function() return pairs(p) end,"iter")
run("gsub",function() return (string.gsub("abc",".",function(c) return y("gsub",c) end)) end,"x","y","z")
run("gsubtab",function() return (string.gsub("ab",".",p)) end,"x","y")
run("format",function() return string.format("%s-%s",p,1) end,"FMT")
run("load",function() return load(function() return y("reader") end)() end,"return ","42",nil)
run("ipairs",function() local s="" for i,v in ipairs(p) do s=s..i..v end return s end,"A","B",nil)
run("time",function() return os.time(setmetatable({year=2000,month=1},mt)) ~= nil end,3,4,5,6,nil)
run("pcall",function() return pcall(table.concat,p) end,1,{})
run("error",function() table.insert(p,1,2,3) end,1)
run("arith",function() return "10"+setmetatable({},{__add=function(a,b) return y("add",a) end}) end,99)
package.preload.ymod=function(n) return y("require",n) end
run("require",function() return require("ymod") end,"MODULE")
run("leaf",function() local t={} for i=1,5 do table.insert(t,i) end table.insert(t,1,0) return table.concat(t,",")..tostring(12)..select("#",table.unpack(t)),pcall(table.concat,{{}}) end)
local f=coroutine.wrap(function() for i=1,3 do emit(i,tostring(nil)) y() end end) f() f() f()

local expected = [[
(tostring nil) tostring	true	TS
(len nil) (newindex 4) insert	true	done
(len nil) (index 1) (newindex 2) (newindex 1) insert2	true	done
(len nil) (index 2) (newindex 2) remove	true	last
(len nil) (index 1) (index 2) (index 3) concat	true	a,b,c
(len nil) (index 1) (index 2) unpack	true	u1	u2
(index 1) (index 2) move	true	2
(cmp 2) (cmp 1) sort	true	1 2 3
(lt nil) max	true	true
(pairs nil) pairs	true	iter	1	2
(gsub a) (gsub b) (gsub c) gsub	true	xyz
(index a) (index b) gsubtab	true	xy
(tostring nil) format	true	FMT-1
(reader nil) (reader nil) (reader nil) load	true	42
(index 1) (index 2) (index 3) ipairs	true	1A2B
(index day) (index hour) (index min) (index sec) (index isdst) (newindex day) (newindex hour) (newindex min) (newindex sec) (newindex yday) (newindex wday) (newindex isdst) time	true	true
(len nil) (index 1) pcall	true	false	invalid value (table) at index 1 in table for 'concat'
(len nil) error	false	wrong number of arguments to 'insert'
(add 10) arith	true	99
(require ymod) require	true	MODULE	:preload:
leaf	true	0,1,2,3,4,5126	false	invalid value (table) at index 1 in table for 'concat'
1	nil
2	nil
3	nil
]]
local got = table.concat(text)
if got ~= expected then print(got) end
assert(got == expected)
print "OK"
