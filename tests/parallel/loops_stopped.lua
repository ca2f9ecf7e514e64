-- An error stops every part of a loop, also one that waits in another domain, whose fiber has the same number there as the one that failed.
local pl = require "perilune"
local pool = pl.pool.new { workers = 2 }
local never = pl.channel.new(1)
local started = pl.atomic(0)

for round = 1, 20 do
  started:store(0)
  local ok, what = pcall(function()
    pool:parallel_for(1, 2, function(i)
      if i == 1 then
        -- Until the other part waits, as a rule: it may be that the loop has not been divided.
        for _ = 1, 100000 do
          if started:load() ~= 0 then break end
        end
        error("x", 0)
      end
      started:store(1)
      -- Nothing comes, but something could: this is no deadlock.
      never:recv(20)
      started:store(2)
    end, { chunk = 1 })
  end)
  assert(not ok and tostring(what):find("^x"), what)
  assert(started:load() ~= 2, "the other part has waited to its end")
end
print "ok"
