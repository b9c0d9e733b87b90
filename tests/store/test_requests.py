"""Sending a request again, too late, or in vain."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import msgpack
import pytest
import redis

from tenure.errors import LeaseLost, StoreUnreachable, Unconfirmed
from tenure.model.blueprint import ExecutionBlueprint
from tenure.model.creation import new_execution
from tenure.model.status import SessionState
from tenure.settings import Settings
from tenure.store.answers import ANSWERS
from tenure.wiring import open_store
from tests.posting import post
from tests.proxy import LossyProxy
from tests.store.facade import facade
from tests.store.stage import Stage

Arguments = Mapping[str, Any]


@dataclass
class Wire:
    """Notes what is sent by `scripts.call`, and the replies; everything goes to the real server."""

    stage: Stage
    calls: list[tuple[str, Arguments, dict[str, Any]]] = field(default_factory=list)

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = self.stage.store.scripts.call

        def call(name: str, arguments: Arguments) -> dict[str, Any]:
            reply = real(name, arguments)
            self.calls.append((name, arguments, reply))
            return reply

        monkeypatch.setattr(self.stage.store.scripts, "call", call)

    def last(self, name: str) -> tuple[Arguments, dict[str, Any]]:
        return next((sent, reply) for called, sent, reply in reversed(self.calls) if called == name)


@pytest.fixture
def wire(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Wire:
    one = Wire(stage)
    one.install(monkeypatch)
    return one


def start(stage: Stage) -> None:
    stage.register()
    stage.start()


def claim(stage: Stage) -> None:
    stage.recipe_leased()


def mark_started(stage: Stage) -> None:
    stage.task_leased()


def retry(stage: Stage) -> None:
    slot, grant = stage.task_leased()
    stage.start("other")
    slot.retry(grant, error="it broke", error_type="E", delay_ms=5000, in_place_ms=999, claim=True)


def step(stage: Stage) -> None:
    slot, recipe = stage.recipe_leased()
    stage.start("other")
    stage.advance(slot, recipe, "complete", result=b"\x01\x01", claim=True)


def reschedule(stage: Stage) -> None:
    slot, grant = stage.task_leased(started=False)
    slot.reschedule(grant, reason="drain")


def write_params(stage: Stage) -> None:
    slot, recipe = stage.recipe_leased()
    slot.write_params(instance="default", execution="e", token=recipe.token, params=["0:draw:0", b"x"])


def report(stage: Stage) -> None:
    slot, grant = stage.task_leased()
    slot.report(grant, message="half way")


def register(stage: Stage) -> None:
    stage.register()


def renew(stage: Stage) -> None:
    _, grant = stage.task_leased(started=False)
    pairs = [(grant.route, grant.token, True), ("default/e/9:draw", 1, True)]
    assert stage.store.sessions.renew("agent", 1, pairs, lease_ms=stage.lease_ms)


def abandon(stage: Stage) -> None:
    slot, _ = stage.task_leased()
    holder = slot.holder
    stage.store.sessions.abandon(
        holder.life, holder.queue, cause="killed by SIGKILL", charge="task", run=holder.run
    )


def cancel(stage: Stage) -> None:
    stage.task_leased()
    stage.store.executions.cancel("default", "e", reason="enough", nonce="n")


def overdue(stage: Stage) -> None:
    stage.start("e", deadline=1000)
    stage.pass_ms(1001)
    stage.store.duties.end_overdue(stage.lead(), "default/e")


def retire(stage: Stage) -> None:
    stage.register()
    stage.store.sessions.retire("agent", 1, SessionState.GONE)


def lead(stage: Stage) -> None:
    stage.lead()


def scan(stage: Stage) -> None:
    stage.recipe_leased()
    stage.store.duties.page("leased", limit=10)


def takeover(stage: Stage) -> None:
    _, grant = stage.task_leased()
    leader = stage.lead()
    stage.let_leases_lapse()
    stage.store.duties.take_over(leader, grant.route, cause="its lease lapsed:")


def due(stage: Stage) -> None:
    slot, grant = stage.task_leased()
    slot.retry(grant, error="it broke", error_type="E", delay_ms=5000, in_place_ms=999, claim=False)
    stage.pass_ms(5001)
    stage.store.duties.make_ready(stage.lead(), grant.route)


def place(stage: Stage) -> None:
    stage.start(queues=())
    stage.register()
    revision = stage.store.sessions.revision()
    stage.store.duties.place(stage.lead(), "default/e/recipe", [(stage.queue(), 0)], registry=revision)


def evict(stage: Stage) -> None:
    start(stage)
    stage.store.sessions.retire("agent", 1, SessionState.GONE)
    assert stage.store.duties.evict(stage.lead(), stage.queue(), limit=10)


def top_up(stage: Stage) -> None:
    start(stage)
    stage.client.delete(stage.store.keys("tickets", stage.queue()))
    leader = stage.lead()
    assert [stage.store.duties.top_up(leader, stage.queue(), limit=10) for _ in range(2)] == [0, 1]


def repair(stage: Stage) -> None:
    start(stage)
    stage.client.delete(stage.store.keys("waiting", stage.queue()))
    assert stage.store.duties.repair(stage.lead(), "default/e", lease=timedelta(seconds=15)) == ["recipe"]


def save(stage: Stage) -> None:
    store, execution = facade(stage), new_execution(ExecutionBlueprint("book", ("draw",)), execution_id="e")
    store.add(execution)
    execution.start({}, 1)
    execution.mark_capability_ready("draw", {})
    store.save(execution)


def delete(stage: Stage) -> None:
    stage.task_leased()
    assert facade(stage).delete("e")


def forget(stage: Stage) -> None:
    slot, recipe = stage.recipe_leased()
    stage.advance(slot, recipe, "complete", result=b"\x01\x01")
    stage.pass_ms(1000)
    stage.store.duties.forget(stage.lead(), "default/e", age=timedelta(seconds=1))


def deliver(stage: Stage) -> None:
    event_id = post(stage.store)
    stage.store.duties.remove_event(stage.lead(), event_id)


SCENES: dict[str, Callable[[Stage], None]] = {
    scene.__name__: scene
    for scene in (
        *(
            start,
            claim,
            mark_started,
            retry,
            step,
            reschedule,
            write_params,
            report,
            register,
            renew,
            abandon,
        ),
        *(
            cancel,
            overdue,
            retire,
            lead,
            scan,
            takeover,
            due,
            place,
            evict,
            top_up,
            repair,
            save,
            delete,
            forget,
            deliver,
        ),
    )
}

#: Families whose times the second call moves on, which is what these scripts are for.
TIMES = {"renew": ("leased", "sessions"), "lead": ("leader",)}

#: What a second call says that finds the work done. Only counts and log lines are made of these answers.
SECOND = {
    "abandon": {"answer": "abandoned", "routes": []},
    "takeover": {"answer": "live"},
    "due": {"answer": "not_due"},
    "overdue": {"answer": "not_due"},
    "place": {"answer": "not_waiting"},
    "evict": {"answer": "evicted", "count": 0, "left": 0},
    "top_up": {"answer": "topped_up", "count": 0},
    "repair": {"answer": "checked", "repaired": []},
    "forget": {"answer": "kept"},
    "deliver": {"answer": "gone"},
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_resend_gets_the_first_answer_and_has_no_second_effect(name: str, stage: Stage, wire: Wire) -> None:
    """G16: a reply may be lost after any script; the same bytes are then sent again."""
    SCENES[name](stage)
    arguments, first = wire.last(name)
    times = TIMES.get(name, ())
    before = stage.dump(without=times)

    again = stage.store.scripts.call(name, arguments)

    assert stage.dump(without=times) == before
    assert again == SECOND.get(name, first)


def test_a_claim_that_undid_itself_meanwhile_still_gets_its_first_answer(stage: Stage, wire: Wire) -> None:
    """G16: the answer is the one of that time, whoever has undone it since; the token in it is stale then."""
    _, grant = stage.recipe_leased()
    arguments, first = wire.last("claim")
    leader = stage.lead()
    stage.let_leases_lapse()
    stage.store.duties.take_over(leader, grant.route, cause="lapsed")

    assert stage.store.scripts.call("claim", arguments) == first
    assert stage.record()["where"] == "waiting"


def test_an_older_request_of_a_life_is_superseded(stage: Stage, wire: Wire) -> None:
    """G16: a copy of an earlier request that the network kept has no effect when it arrives at last."""
    slot, recipe = stage.recipe_leased()
    arguments, _ = wire.last("claim")
    slot.reschedule(recipe, reason="drain")
    before = stage.dump()

    assert stage.store.scripts.call("claim", arguments) == {"answer": "superseded"}
    assert stage.dump() == before


@pytest.mark.parametrize("name", ["claim", "mark_started", "retry", "step", "reschedule", "report"])
def test_every_request_of_an_abandoned_life_is_refused(name: str, stage: Stage, wire: Wire) -> None:
    """G2, G16: nothing that a dead slot has sent takes effect after its agent has buried it."""
    SCENES[name](stage)
    arguments, _ = wire.last(name)
    stage.store.sessions.abandon(
        arguments["life"], stage.queue(), cause="killed", charge=None, run=stage.store.run_id()
    )
    before = stage.dump()

    for request in (arguments["request"], arguments["request"] + 1):
        assert stage.store.scripts.call(name, {**arguments, "request": request}) == {"answer": "closed"}
    assert stage.dump() == before


def test_a_slot_whose_life_was_closed_is_told_that_it_is_no_owner(stage: Stage) -> None:
    """G16: it must stop, and not take this for an empty queue."""
    slot, _ = stage.recipe_leased()
    holder = slot.holder
    stage.store.sessions.abandon(holder.life, holder.queue, cause="killed", charge=None, run=holder.run)

    with pytest.raises(Unconfirmed, match="abandoned by its agent"):
        slot.claim()


def test_a_claim_that_was_still_in_the_socket_of_a_dead_slot_gets_nothing(stage: Stage) -> None:
    """G1: else the route would be leased to nobody until the lease lapses."""
    slot, recipe = stage.recipe_leased()
    slot.reschedule(recipe, reason="drain")
    holder, sha = slot.holder, stage.store.scripts._loaded["claim"].sha
    packed = msgpack.packb({**holder.arguments(), "request": 9, "cap": 10}, use_bin_type=False)
    command = b"*4\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$1\r\n0\r\n$%d\r\n%b\r\n" % (
        sha.encode(),
        len(packed),
        packed,
    )
    path = unquote(stage.store.url.removeprefix("unix://"))

    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as wire:
        wire.connect(path)
        wire.sendall(command[:-10])
        stage.store.sessions.abandon(holder.life, holder.queue, cause="killed", charge="task", run=holder.run)
        wire.sendall(command[-10:])
        reply = wire.recv(4096)

    assert msgpack.unpackb(reply.split(b"\r\n", 1)[1].removesuffix(b"\r\n")) == {"answer": "closed"}
    assert stage.claim(stage.slot()).route == recipe.route


@pytest.fixture
def proxy(url: str) -> Iterator[LossyProxy]:
    with LossyProxy(unquote(url.removeprefix("unix://"))) as one:
        yield one


@pytest.fixture
def remote(proxy: LossyProxy, redis_client: redis.Redis, namespace: str) -> Iterator[Stage]:
    """A store behind the proxy, which gives up after half a second."""
    settings = Settings(resend=timedelta(seconds=0.5))
    with open_store(proxy.url, namespace=namespace, settings=settings, test_clock=True) as store:
        yield Stage(store, redis_client)


def test_a_reply_that_is_lost_within_the_budget_is_asked_for_again(remote: Stage, proxy: LossyProxy) -> None:
    """G16: the caller gets the first answer, and the step has happened once."""
    slot, recipe = remote.recipe_leased()
    remote.suspend(slot, recipe, remote.spec(0))
    grant = remote.claim(slot)
    slot.mark_started(grant)
    remote.start("other")
    proxy.lose_replies(3)

    in_place, other = slot.retry(
        grant, error="it broke", error_type="E", delay_ms=5000, in_place_ms=999, claim=True
    )

    assert proxy.lost == 3
    assert not in_place
    assert other is not None
    assert other.execution == "other"
    assert (remote.record("e", "0:draw")["attempt"], len(remote.stored().attempts)) == (2, 1)
    assert remote.record("other")["token"] == other.token


def test_a_reply_that_is_lost_beyond_the_budget_is_unconfirmed(remote: Stage, proxy: LossyProxy) -> None:
    """G16: the write may stand, and whoever sent it must not go on as the owner."""
    slot, recipe = remote.recipe_leased()
    remote.advance(slot, recipe, "hold")
    proxy.lose_replies(1000)

    with pytest.raises(Unconfirmed, match="may or may not have taken effect"):
        remote.advance(slot, recipe, "complete", result=b"\x01\x01")

    assert proxy.lost > 1
    proxy.lose_replies(0)
    assert remote.stored().status == "completed"
    with pytest.raises(LeaseLost):
        remote.advance(slot, recipe, "fail", error="late")


def test_a_request_that_could_never_be_sent_is_not_unconfirmed(remote: Stage, proxy: LossyProxy) -> None:
    """G16: nothing has happened then, and the caller may know it."""
    slot, _ = remote.recipe_leased()
    proxy.close()
    remote.store.client.close()

    with pytest.raises(StoreUnreachable, match="was not sent"):
        slot.claim()
