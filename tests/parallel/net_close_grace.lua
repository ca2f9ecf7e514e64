-- l:close(grace): waits for l:serve, in one domain and in several, and says whether anything had to be cancelled.
local pl, net = require "perilune", require "perilune.net"

for _, domains in ipairs { 0, 2 } do
  local options = { domains = domains > 0 and domains or nil, grace = 600 }
  -- `seconds`: what the one connection has to do yet when the listener is closed.
  local function serve(seconds, close)
    local l = assert(net.listen "127.0.0.1:0")
    pl.scope(function(s)
      local serving = s:spawn(function()
        return l:serve(function(c)
          c:write(c:read_line(), "\n")
          c:flush()
          require "perilune".sleep(seconds)
          c:write "done\n"
        end, options)
      end)
      local c <close> = assert(net.connect(l:endpoint()))
      c:write "hello\n"
      assert(c:read_line() == "hello")
      local by_themselves = close(l)
      print(domains, by_themselves, serving:await(), (c:read_line()))
    end)
  end
  serve(0.05, function(l) return l:close(60) end)
  serve(600, function(l) return l:close(0.05) end)
  serve(600, function(l) return l:close(0) end)
  -- Closed before: who has less time comes first.
  if domains == 0 then serve(600, function(l) assert(l:close() == true) return l:close(0.05) end) end
  -- Who waits may be cancelled; the rest goes on.
  serve(0.2, function(l)
    assert(select("#", pl.timeout(0.01, function() return l:close(60) end)) > 0)
    return l:close(60)
  end)
end

-- Nobody serves it.
local l = assert(net.listen "127.0.0.1:0")
print(l:close(1), l:close(1), l:close())
print(pcall(function() l:close(-1) end))
print(pcall(function() l:close(0 / 0) end))
print(pcall(function() l:close "soon" end))
