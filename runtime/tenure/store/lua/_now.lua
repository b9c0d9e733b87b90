-- The store's clock, the only one that decides anything (G3).
--
-- A test build adds the milliseconds stored at the clock key; the loader leaves the line out elsewhere.
local function read_clock()
  local time = redis.call('TIME')
  local us = tonumber(time[1]) * 1000000 + tonumber(time[2])
  us = us + (tonumber(redis.call('GET', Key.clock()) or '0') or 0) * 1000 --@test
  return us
end

local now_us = read_clock()
local now = math.floor(now_us / 1000)
