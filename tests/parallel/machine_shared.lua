-- Functions that several domains run while one of them makes their machine code, which others leave meanwhile, and count that.
local pl = require "perilune"
local pool = pl.pool.new { workers = 3 }

local function fib1(n)
  if n < 2 then return n end
  return fib1(n - 1) + fib1(n - 2)
end
local function in_tasks1(n)
  if n < 12 then return fib1(n) end
  local a = pool:async(in_tasks1, n - 1)
  local b = pool:async(in_tasks1, n - 2)
  return a:await() + b:await()
end
print(in_tasks1(17), fib1(17))

local function fib2(n)
  if n < 2 then return n end
  return fib2(n - 1) + fib2(n - 2)
end
local function in_tasks2(n)
  if n < 12 then return fib2(n) end
  local a = pool:async(in_tasks2, n - 1)
  local b = pool:async(in_tasks2, n - 2)
  return a:await() + b:await()
end
print(in_tasks2(17), fib2(17))

local function fib3(n)
  if n < 2 then return n end
  return fib3(n - 1) + fib3(n - 2)
end
local function in_tasks3(n)
  if n < 12 then return fib3(n) end
  local a = pool:async(in_tasks3, n - 1)
  local b = pool:async(in_tasks3, n - 2)
  return a:await() + b:await()
end
print(in_tasks3(17), fib3(17))

local function fib4(n)
  if n < 2 then return n end
  return fib4(n - 1) + fib4(n - 2)
end
local function in_tasks4(n)
  if n < 12 then return fib4(n) end
  local a = pool:async(in_tasks4, n - 1)
  local b = pool:async(in_tasks4, n - 2)
  return a:await() + b:await()
end
print(in_tasks4(17), fib4(17))

local function fib5(n)
  if n < 2 then return n end
  return fib5(n - 1) + fib5(n - 2)
end
local function in_tasks5(n)
  if n < 12 then return fib5(n) end
  local a = pool:async(in_tasks5, n - 1)
  local b = pool:async(in_tasks5, n - 2)
  return a:await() + b:await()
end
print(in_tasks5(17), fib5(17))

local function fib6(n)
  if n < 2 then return n end
  return fib6(n - 1) + fib6(n - 2)
end
local function in_tasks6(n)
  if n < 12 then return fib6(n) end
  local a = pool:async(in_tasks6, n - 1)
  local b = pool:async(in_tasks6, n - 2)
  return a:await() + b:await()
end
print(in_tasks6(17), fib6(17))
