-- Every write of a duty carries the leader's token; nothing is taken over for one lease after the server's
-- run changed, since whoever holds a lease could not renew it while the server was away.

local function not_leader(a)
  if redis.call('HGET', Key.leader(), 'token') ~= string.format('%.0f', a.leader) then return reply('not_leader') end
end

local function in_grace()
  return tonumber(redis.call('HGET', Key.server(), 'grace_until') or '0') > now
end
