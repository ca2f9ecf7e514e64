-- Names computed at run time mean the receiver's globals, unless the code reads `_G`: then all of the program's have travelled. Otherwise what was not named has not.
local pl = require "perilune"
secret = 7
local key = "secret"
print(pl.domain.spawn(function() return _G[key], _ENV[key], rawget(_G, "secret") end):join())
print(pl.domain.spawn(function() return load("return secret")() end):join())
print(pl.domain.spawn(function() return secret, _ENV[key] end):join())
print(pl.domain.spawn(function() return _G["pri" .. "nt"] == print, _G.string == string end):join())
local G = _G
print(pl.domain.spawn(function() return G == _G, G.secret end):join())
