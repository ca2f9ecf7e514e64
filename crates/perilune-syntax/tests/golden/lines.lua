-- Every instruction has the line that errors and hooks report.
local t =
  a +
  b
  .c
t
  .x = {
  y = 1,
  f(
    2
  ),
}
return function(
  x
)
  return x
    :m()
    :n(
      1)
end
