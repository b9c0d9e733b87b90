"""A random walk over everything that slots, agents and the scheduler may ask of the store."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tenure.errors import LeaseLost
from tenure.model.status import SessionState
from tenure.store.grants import Grant, StepReply
from tenure.store.leases import SlotLeases
from tests.store.stage import INSTANCE, Stage

QUEUES = ("small", "big")
MOST_EXECUTIONS = 12
#: What a recipe does next, each as often as it is named.
ADVANCES = "run run run run open open open map map map map value value hold complete fail block"


@dataclass
class Frame:
    """A recipe lease; `ran` is the task it runs in its chain, whose result is in hand."""

    grant: Grant
    token: int
    ran: dict[str, Any] | None = None


@dataclass
class Slot:
    """One slot life with what it believes to hold; some of that may be somebody else's by now."""

    session: str
    queue: str
    leases: SlotLeases
    frames: list[Frame] = field(default_factory=list)
    claimed: list[Grant] = field(default_factory=list)
    started: list[Grant] = field(default_factory=list)


class Walk:
    """Each step does one thing; `done` keeps what was done, for the message of a failure."""

    def __init__(self, stage: Stage, seed: int) -> None:
        self._stage = stage
        self._random = random.Random(seed)
        self._leader = stage.lead()
        self._ordinals: dict[str, int] = {}
        self.done: list[str] = []
        self._slots = [self._new_slot(f"agent{n}", QUEUES[n % 2]) for n in range(4)]

    def steps(self, count: int) -> Iterator[str]:
        """Do so many things, and say each time what it was."""
        for _ in range(count):
            actions = self._applicable()
            action = self._random.choices(list(actions), list(actions.values()))[0]
            with suppress(LeaseLost):  # what a slot believes to hold may be lost; then nothing has changed
                action()
            self.done.append(action.__name__)
            yield action.__name__

    def _applicable(self) -> dict[Callable[[], object], int]:
        """What there is to do for somebody, with how often it is chosen."""
        claimed = any(slot.claimed for slot in self._slots)
        started = any(slot.started for slot in self._slots)
        framed = any(slot.frames for slot in self._slots)
        actions: dict[Callable[[], object], int] = {self._claim: 12, self._make_ready: 3, self._place: 3}
        actions |= {self._renew: 1, self._die: 1, self._lapse: 1, self._come_and_go: 1, self._top_up: 1}
        if len(self._ordinals) < MOST_EXECUTIONS:
            actions |= {self._start: 2}
        if framed:
            actions |= {self._advance: 12}
        if claimed:
            actions |= {self._mark: 12}
        if started:
            actions |= {self._settle: 8, self._retry: 3, self._report: 1}
        if claimed or framed:
            actions |= {self._give_back: 2}
        return actions

    # --- clients and slots ---

    def _start(self) -> None:
        execution = f"e{len(self._ordinals)}"
        self._ordinals[execution] = 0
        limit, band = self._random.randint(1, 3), self._random.randint(0, 9)
        self._stage.start(execution, queues=self._queues(), band=band, crash_limit=limit)

    def _claim(self) -> None:
        slot = self._slot()
        self._take(slot, slot.leases.claim())

    def _take(self, slot: Slot, grant: Grant | None) -> None:
        if grant is not None and grant.is_recipe:
            slot.frames.append(Frame(grant, grant.token))
        elif grant is not None:
            slot.claimed.append(grant)

    def _advance(self) -> None:
        slot = self._slot(lambda s: bool(s.frames))
        frame = self._pick(slot.frames)
        name = self._random.choice(ADVANCES.split())
        ends = name not in ("hold", "run", "value")
        if ends:
            slot.frames.remove(frame)
        try:
            reply = self._step(slot, frame, name)
        except LeaseLost:
            if not ends:
                slot.frames.remove(frame)
            raise
        self._take(slot, reply.grant)
        if not ends and (reply.answer == "frame_lost" or (name == "run" and reply.run_token is None)):
            slot.frames.remove(frame)

    def _step(self, slot: Slot, frame: Frame, name: str) -> StepReply:
        execution = frame.grant.execution
        values, recipe = self._recipe(execution, name)
        ran, frame.ran = frame.ran, None
        reply = slot.leases.step(
            instance=INSTANCE,
            execution=execution,
            settle=ran,
            recipe={"frame": frame.grant.token, "token": frame.token, **recipe},
            values=values,
            claim=self._random.random() < 0.5,
        )
        frame.token = reply.recipe_token or frame.token
        if reply.run_token is not None:
            frame.ran = self._outcome(recipe["open"]["capability"], reply.run_token)
        return reply

    def _recipe(self, execution: str, name: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        ordinal = self._ordinals[execution]
        spec = self._stage.spec(
            ordinal,
            effects=self._random.choice(["once", "repeatable", "repeatable"]),
            queues=self._queues(),
            crash_limit=self._random.randint(1, 3),
        )
        if name in ("run", "open", "map", "value"):
            self._ordinals[execution] += 1
        values = [{**spec, "result": b"\x01\x01"}] if name == "value" else []
        recipe: dict[str, Any]
        match name:
            case "run":
                recipe = {"action": "run", "open": spec}
            case "open":
                recipe = {"action": "suspend", "open": spec, "awaits": {"capability": spec["capability"]}}
            case "map":
                group = self._stage.group(spec, size=self._random.randint(1, 5), window=2)
                recipe = {"action": "suspend", "group": group, "awaits": {"group": ordinal}}
            case "complete":
                recipe = {"action": "complete", "result": b"\x01\x01"}
            case "hold" | "value":
                recipe = {"action": "hold"}
            case _:
                recipe = {"action": name, "error": "it broke"}
        return values, recipe

    def _outcome(self, capability: str, token: int) -> dict[str, Any]:
        status = self._random.choice(["completed", "completed", "failed"])
        fields = {"result": b"\x01\x01"} if status == "completed" else {"error": "it broke"}
        return {"capability": capability, "token": token, "status": status, "outcome": status, **fields}

    def _mark(self) -> None:
        slot = self._slot(lambda s: bool(s.claimed))
        grant = self._pop(slot.claimed)
        slot.leases.mark_started(grant)
        slot.started.append(grant)

    def _settle(self) -> None:
        slot = self._slot(lambda s: bool(s.started))
        grant = self._pop(slot.started)
        reply = slot.leases.step(
            instance=INSTANCE,
            execution=grant.execution,
            settle=self._outcome(grant.capability, grant.token),
            claim=self._random.random() < 0.5,
        )
        self._take(slot, reply.grant)

    def _retry(self) -> None:
        slot = self._slot(lambda s: bool(s.started))
        grant = self._pop(slot.started)
        delay, claim = self._random.choice([10, 5000]), self._random.random() < 0.5
        in_place, other = slot.leases.retry(
            grant, error="it broke", error_type="E", delay_ms=delay, in_place_ms=999, claim=claim
        )
        self._take(slot, other)
        if in_place:
            slot.started.append(grant)

    def _give_back(self) -> None:
        slot = self._slot(lambda s: bool(s.claimed or s.frames))
        grants = [*slot.claimed, *(frame.grant for frame in slot.frames if frame.ran is None)]
        if grants:
            grant = self._pick(grants)
            slot.claimed = [one for one in slot.claimed if one is not grant]
            slot.frames = [frame for frame in slot.frames if frame.grant is not grant]
            block = self._random.choice([None, None, None, None, None, "it cannot be read"])
            slot.leases.reschedule(grant, reason="drain", avoid=self._random.random() < 0.5, block=block)

    def _report(self) -> None:
        slot = self._slot(lambda s: bool(s.started))
        slot.leases.report(self._pick(slot.started), progress=(1, 2, ""))

    # --- agents ---

    def _renew(self) -> None:
        slot = self._slot()
        pairs = [(grant.route, grant.token, True) for grant in slot.started]
        pairs += [(frame.grant.route, frame.token, True) for frame in slot.frames]
        holder = slot.leases.holder
        self._stage.store.sessions.renew(
            slot.session, holder.generation, pairs, lease_ms=self._stage.lease_ms
        )

    def _die(self) -> None:
        """A slot dies, and its agent says so; now and then it turns out to live on."""
        slot = self._slot()
        holder, charge = slot.leases.holder, self._random.choice([None, "task", "recipe"])
        self._stage.store.sessions.abandon(
            holder.life, holder.queue, cause="killed", charge=charge, run=holder.run
        )
        following = self._stage.slot(session=slot.session, generation=holder.generation, queue=slot.queue)
        if self._random.random() < 0.3:
            slot.leases = following
        else:
            self._slots[self._slots.index(slot)] = Slot(slot.session, slot.queue, following)

    def _come_and_go(self) -> None:
        slot = self._slot()
        holder, sessions = slot.leases.holder, self._stage.store.sessions
        state = self._random.choice([SessionState.DRAINING, SessionState.GONE])
        sessions.retire(slot.session, holder.generation, state)
        for queue in QUEUES:
            self._stage.store.duties.evict(self._leader, self._stage.queue(queue), limit=2)
        if self._random.random() < 0.7:
            sessions.retire(slot.session, holder.generation, SessionState.GONE)
            self._slots[self._slots.index(slot)] = self._new_slot(slot.session, slot.queue)

    def _new_slot(self, session: str, queue: str) -> Slot:
        generation = self._stage.register(session, queue)
        return Slot(session, queue, self._stage.slot(session=session, generation=generation, queue=queue))

    # --- the scheduler ---

    def _lapse(self) -> None:
        self._stage.let_leases_lapse()
        for route in self._sample("leased", due=True):
            self._stage.store.duties.take_over(self._leader, route, cause="lapsed")

    def _make_ready(self) -> None:
        self._stage.pass_ms(self._random.choice([0, 5001]))
        for route in self._sample("due", due=True):
            self._stage.store.duties.make_ready(self._leader, route)

    def _place(self) -> None:
        revision = self._stage.store.sessions.revision()
        for route in self._sample("environment"):
            candidates = [(self._stage.queue(name), 0) for name in self._queues()]
            self._stage.store.duties.place(self._leader, route, candidates, registry=revision)

    def _top_up(self) -> None:
        for queue in QUEUES:
            self._stage.client.lpop(self._stage.store.keys("tickets", self._stage.queue(queue)))
            for _ in range(2):
                self._stage.store.duties.top_up(self._leader, self._stage.queue(queue), limit=5)

    def _sample(self, index: str, *, due: bool = False) -> list[str]:
        routes = self._stage.store.duties.page(index, limit=100, due=due)
        return self._random.sample(routes, self._random.randint(0, len(routes)))

    # --- choices ---

    def _queues(self) -> Sequence[str]:
        return self._random.choice([QUEUES, QUEUES, QUEUES, QUEUES[:1], QUEUES[1:], ()])

    def _slot(self, wanted: Callable[[Slot], bool] = lambda _: True) -> Slot:
        return self._random.choice([slot for slot in self._slots if wanted(slot)] or self._slots)

    def _pick(self, things: list[Any]) -> Any:
        return self._random.choice(things)

    def _pop(self, things: list[Any]) -> Any:
        return things.pop(self._random.randrange(len(things)))
