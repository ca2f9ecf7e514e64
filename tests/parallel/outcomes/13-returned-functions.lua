-- Results cross by the rules of messages, functions with what they capture included.
local pl = require "perilune"
greeting = "hello"
local function make(name)
  return function(mark) return greeting .. " " .. name .. mark end
end
local d = pl.domain.spawn(function() return make("world"), { make = make } end)
local f, t = d:join()
print(f("!"), t.make("moon")("?"))
greeting = "bye"
print(f("!"), make("world")("!"))
