-- What becomes of a route whose holder is gone: by abandonment, or by a lease that lapsed.
--
-- Elapsed time proves nothing about a run that had started: a `once` task becomes UNKNOWN (G7). A claim
-- without a start mark is proven not started, under the same run of the server only.

local function put_down(instance, execution, header, capability, record, cause)
  redis.call('RPUSH', Key.attempts(instance, execution), cmsgpack.pack({
    capability = capability, attempt = record.attempt, started_at = record.started_at, ended_at = now,
    outcome = 'lost', cause = cause, session = record.session, life = record.life, token = record.token,
  }))
  emit(instance, execution, 'lost', capability, { attempt = record.attempt, cause = cause, token = record.token })
end

local function causes(instance, execution, capability)
  local list = {}
  for _, raw in ipairs(redis.call('LRANGE', Key.attempts(instance, execution), 0, -1)) do
    local attempt = cmsgpack.unpack(raw)
    if attempt.capability == capability and attempt.outcome == 'lost' then list[#list + 1] = attempt.cause end
  end
  return table.concat(list, '; ')
end

local function lose_recipe(instance, execution, header, record, cause, charged)
  put_down(instance, execution, header, Recipe, record, cause)
  if charged then
    record.crashes = record.crashes + 1
    record.attempt = record.attempt + 1
  end
  record.frame = nil
  if header.intent then
    save(instance, execution, Recipe, record)
    return carry_out(instance, execution, header)
  end
  if record.crashes >= record.crash_limit then
    save(instance, execution, Recipe, record)
    return finish(instance, execution, header, Execution.failed, {
      recipe_status = Capability.failed,
      error = 'the recipe killed ' .. record.crashes .. ' slots: ' .. causes(instance, execution, Recipe),
    })
  end
  if record.where == Where.leased then
    dispatch(instance, execution, Recipe, record)
  else
    save(instance, execution, Recipe, record)
  end
end

-- An attempt that overran its timeout, by the store's clock, has failed: what follows was said at its start.
local function overran(record)
  local limit = record.on_timeout and record.on_timeout.timeout
  return limit ~= nil and record.started_at ~= nil and now - record.started_at >= limit
end

local function time_out(instance, execution, header, capability, record, cause)
  redis.call('RPUSH', Key.attempts(instance, execution), cmsgpack.pack({
    capability = capability, attempt = record.attempt, started_at = record.started_at, ended_at = now,
    outcome = Outcome.failed, cause = cause, session = record.session, life = record.life, token = record.token,
  }))
  local route, delay = member(instance, execution, capability), record.on_timeout.delay
  if not delay then
    local looks = settle(instance, execution, header, capability, record, Capability.failed,
      { error = cause, error_type = 'TaskTimeout', outcome = Outcome.failed })
    return after_settling(instance, execution, header, looks)
  end
  emit(instance, execution, 'retry', capability, { attempt = record.attempt, error = cause, delay = delay })
  record.attempt, record.failures = record.attempt + 1, record.failures + 1
  release(route, record)
  record.invocation, record.ready_at = Invocation.dispatching, nil
  move(route, record, Where.due, now + delay)
  save(instance, execution, capability, record)
end

local function lose_started(instance, execution, header, capability, record, cause, charged)
  put_down(instance, execution, header, capability, record, cause)
  if record.effects == Effects.once then
    local route = member(instance, execution, capability)
    release(route, record)
    record.invocation, record.cause = Invocation.unknown, cause
    move(route, record, Where.unknown, now)
    save(instance, execution, capability, record)
    emit(instance, execution, Invocation.unknown, capability, { attempt = record.attempt, cause = cause })
    if header.intent then carry_out(instance, execution, header) end
    return
  end
  if header.intent then return withdraw(instance, execution, header, capability, record) end
  record.attempt = record.attempt + 1
  if charged then record.crashes = record.crashes + 1 end
  if record.crashes >= record.crash_limit then
    local looks = settle(instance, execution, header, capability, record, Capability.failed, {
      error = 'killed ' .. record.crashes .. ' slots: ' .. causes(instance, execution, capability),
      error_type = 'Crashed', outcome = Outcome.failed,
    })
    after_settling(instance, execution, header, looks)
  else
    record.invocation = Invocation.dispatching
    dispatch(instance, execution, capability, record)
  end
end

-- `charge` is Recipe, 'task', 'timeout', or nil when the agent stopped the slot for another reason.
local function lose(instance, execution, capability, record, cause, charge, run)
  local header = header_of(instance, execution)
  if capability == Recipe then
    return lose_recipe(instance, execution, header, record, cause, charge == Recipe)
  end
  if record.invocation == Invocation.claimed and (record.run == run or record.effects ~= Effects.once) then
    emit(instance, execution, Outcome.not_started, capability, { attempt = record.attempt, cause = cause })
    if header.intent then return withdraw(instance, execution, header, capability, record) end
    record.invocation = Invocation.dispatching
    dispatch(instance, execution, capability, record)
  elseif charge == 'timeout' and record.effects ~= Effects.once and not header.intent and overran(record) then
    time_out(instance, execution, header, capability, record, cause)
  else
    lose_started(instance, execution, header, capability, record, cause, charge == 'task')
  end
end
