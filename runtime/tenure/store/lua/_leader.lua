-- Every write of a duty carries the leader's token; nothing is taken over for one lease after the server's
-- run changed, since whoever holds a lease could not renew it while the server was away.
--
-- The run id is read here and not sent: a leader that has not noticed a restart would send the old one.

local function not_leader(a)
  if redis.call('HGET', Key.leader(), 'token') ~= string.format('%.0f', a.leader) then return reply('not_leader') end
end

local function server_run()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end

-- A run that no leader has recorded yet is in its grace too.
local function in_grace()
  local server = redis.call('HMGET', Key.server(), 'run', 'grace_until')
  return server[1] ~= server_run() or tonumber(server[2] or '0') > now
end
