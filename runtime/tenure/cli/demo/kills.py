"""What the demo does to its workers, and how long it takes until the work goes on.

Both kills strike while a task is marked started. A process that is not there any more left its task open in
the ledger if it was hit in the middle; if the task had just ended, the kill hit nothing and the next one has
a try.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tenure.cli.demo.ledger import Line
from tenure.cli.demo.processes import Member, kill, wait_until_gone
from tenure.cli.demo.stage import DemoFailed, Stage
from tenure.cli.demo.watch import Watch, is_map

_TRIES: Final = 5
#: A task that began this recently is not about to end.
_FRESH_SECONDS: Final = 0.1
#: How much of the map is to be done before each kill, so that there is something that must not run again.
_FIRST_AT_PERCENT: Final = 10
_SECOND_AT_PERCENT: Final = 25
_GONE_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Takeover:
    """One task that was lost and runs again; `seconds` from the kill to the first line of its next run."""

    victim: str
    lost: Line
    seconds: float


@dataclass(frozen=True, slots=True)
class Missed:
    """Nothing was hit: the map was over before."""

    victim: str


Outcome = Sequence[Takeover] | Missed


class Kills:
    """The two kills, one after the other."""

    def __init__(self, *, stage: Stage, watch: Watch, say: Callable[[str], None]) -> None:
        self._stage = stage
        self._watch = watch
        self._say = say

    def kill_slot(self) -> Outcome:
        """Kill -9 one slot while a batch is marked started in it."""
        for _ in range(_TRIES):
            target = self._await_target(_FIRST_AT_PERCENT)
            if target is None:
                break
            began = time.monotonic()
            self._strike([target.pid])
            lost = self._watch.left_open([target.pid])
            if lost:
                self._say(f"kill -9 of slot {target.pid}, in the middle of {_named(lost)}")
                return self._await_takeovers("a slot", began, lost)
            self._say(f"kill -9 of slot {target.pid}: it had just finished; the next one")
        return Missed("a slot")

    def kill_agent(self, replacement: str) -> Outcome:
        """Kill -9 an agent of pool small and all its slots at once; then start another one."""
        for attempt in range(_TRIES):
            found = self._await_agent(_SECOND_AT_PERCENT)
            if found is None:
                break
            agent, slots = found
            began = time.monotonic()
            self._strike([agent.pid, *slots])
            lost = [run for run in self._watch.left_open(slots) if is_map(run.capability)]
            self._stage.forget(agent)
            self._say(f"kill -9 of agent {agent.name} and its {len(slots)} slots, in {_named(lost)}")
            outcome = self._await_takeovers(f"agent {agent.name}", began, lost) if lost else None
            name = replacement if attempt == 0 else f"{replacement}{attempt + 1}"
            self._stage.start_small(name)
            self._say(f"agent {name} started in its place")
            if outcome is not None:
                return outcome
        return Missed("an agent")

    # -- finding one to kill ---------------------------------------------------------------------------------

    def _await_target(self, done_percent: int) -> Line | None:
        """Wait for a batch that has just been started, once so much is done; None if there are none left."""

        def look() -> tuple[Line | None] | None:
            if self._watch.map_is_over():
                return (None,)
            progress = self._watch.progress()
            batches = [run for run in self._watch.running() if is_map(run.capability)]
            newest = max(batches, key=lambda run: run.at_seconds, default=None)
            early = not progress.total or progress.done < progress.total * done_percent // 100
            if early or newest is None or time.monotonic() - newest.at_seconds > _FRESH_SECONDS:
                return None
            return (newest,)

        return self._watch.until(look, "a batch being started")[0]

    def _await_agent(self, done_percent: int) -> tuple[Member, list[int]] | None:
        while (target := self._await_target(done_percent)) is not None:
            found = self._stage.agent_of(target.pid)
            if found is not None:
                return found
        return None

    # -- what follows ----------------------------------------------------------------------------------------

    @staticmethod
    def _strike(pids: Sequence[int]) -> None:
        for pid in pids:
            kill(pid)
        if left := wait_until_gone(pids, _GONE_SECONDS):
            raise DemoFailed(f"kill -9 did not end {left}")

    def _await_takeovers(self, victim: str, began: float, lost: Sequence[Line]) -> list[Takeover]:
        return [self._await_takeover(victim, began, run) for run in lost]

    def _await_takeover(self, victim: str, began: float, lost: Line) -> Takeover:
        again = self._watch.until(
            lambda: self._watch.started_again(lost), f"{lost.capability} being started again"
        )
        seconds = again.at_seconds - began
        agent = self._watch.until(lambda: self._watch.session(again), f"the event of {lost.capability}")
        self._say(f"{lost.capability} runs again on {agent}, {seconds:.2f} s after the kill")
        return Takeover(victim, lost, seconds)


def _named(runs: Sequence[Line]) -> str:
    return " and ".join(run.capability for run in runs) or "nothing"
