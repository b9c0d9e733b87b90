"""The workloads, written once for both sides. Each returns its figures by name."""

from __future__ import annotations

import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from tests.benchmarks.counters import Counters, kept_bytes
from tests.benchmarks.sides import Side
from tests.benchmarks.stamps import Stamps
from tests.waiting import wait_until

SINGLES: Final = 500
CHAINS: Final = 50
CHAINS_ALONE: Final = 15
LENGTH: Final = 20
WIDTH: Final = 200
STARTS: Final = 100

_WARM: Final = 20
_IDLE_SECONDS: Final = 0.02
_PATIENCE_SECONDS: Final = 60

Figures = dict[str, float]


class Measuring:
    """One side, measured on one server that nobody else uses meanwhile."""

    def __init__(self, side: Side, stamps: Stamps, server: Any) -> None:
        self._side = side
        self._stamps = stamps
        self._server = server

    def with_one_worker(self) -> Figures:
        with self._workers(1):
            return {
                **self._latency(),
                **self._chains_alone(),
                **self._chains(1),
                **self._singles(1),
                **self._counted_fan(),
            }

    def with_two_workers(self) -> Figures:
        with self._workers(2):
            return {**self._singles(2), **self._chains(2), **self._fan()}

    def memory(self, *, without: str | None = None) -> Figures:
        """Bytes that a finished piece of work leaves behind, with no worker alive when they are read."""
        with self._workers(1):
            pass
        before = kept_bytes(self._server, without=without)
        indexes = self._stamps.take(SINGLES)
        with self._workers(1):
            for index in indexes:
                self._side.single(index)
            self._stamps.last_of(indexes)
            self._until_quiet()
        return {"bytes kept": (kept_bytes(self._server, without=without) - before) / (SINGLES + _WARM)}

    # -- workloads -------------------------------------------------------------------------------------------

    def _singles(self, workers: int) -> Figures:
        """Stopped workers, a backlog, and the time from their going on to the last body."""
        indexes = self._stamps.take(SINGLES)
        with self._stopped():
            began = time.monotonic()
            for index in indexes:
                self._side.single(index)
            handed_in = time.monotonic() - began
            before = Counters.of(self._server)
            began = time.monotonic()
        rate = SINGLES / (self._stamps.last_of(indexes) - began)
        figures = {f"single, {workers} w": rate}
        if workers == 1:
            figures["starts by a client"] = SINGLES / handed_in
            figures |= self._counted("single", SINGLES, before)
        return figures

    def _chains(self, workers: int) -> Figures:
        indexes = self._stamps.take(CHAINS * LENGTH)
        before = Counters.of(self._server)
        began = time.monotonic()
        for base in indexes[::LENGTH]:
            self._side.chain(base, LENGTH)
        # With several workers, rq 3.0 leaves links of a chain for its maintenance, which comes every 10 min:
        # `ReadyJobRegistry.enqueue_jobs` gives way when another worker has touched the queue's registry.
        count, last = self._stamps.ran(indexes)
        stalled = len(indexes) - count
        figures = {
            f"chain task, {workers} w": count / (last - began),
            f"chain task, {workers} w: stalled": float(stalled),
        }
        if workers == 1 and not stalled:
            figures |= self._counted("chain task", len(indexes), before)
        return figures

    def _chains_alone(self) -> Figures:
        def chain() -> float:
            indexes = self._stamps.take(LENGTH)
            began = time.monotonic()
            self._side.chain(indexes.start, LENGTH)
            return self._stamps.last_of(indexes) - began

        return {"chain alone, p50": statistics.median(self._one_by_one(chain, CHAINS_ALONE)) * 1000}

    def _fan(self) -> Figures:
        indexes = self._stamps.take(WIDTH + 2)
        began = time.monotonic()
        self._side.fan(indexes.start, WIDTH)
        count, last = self._stamps.ran(indexes)
        stalled = len(indexes) - count
        figures = {"fan out and in, 2 w: stalled": float(stalled)}
        return figures if stalled else {"fan out and in, 2 w": (last - began) * 1000, **figures}

    def _counted_fan(self) -> Figures:
        indexes = self._stamps.take(WIDTH + 2)
        before = Counters.of(self._server)
        began = time.monotonic()
        self._side.fan(indexes.start, WIDTH)
        wall = self._stamps.last_of(indexes) - began
        return {"fan out and in, 1 w": wall * 1000, **self._counted("fan item", WIDTH, before)}

    def _latency(self) -> Figures:
        def start() -> float:
            indexes = self._stamps.take(1)
            began = time.monotonic()
            self._side.single(indexes.start)
            return self._stamps.last_of(indexes) - began

        taken = sorted(self._one_by_one(start, STARTS))
        return {
            "idle start, p50": statistics.median(taken) * 1000,
            "idle start, p99": taken[round(0.99 * (STARTS - 1))] * 1000,
        }

    # -- how it is done --------------------------------------------------------------------------------------

    def _one_by_one(self, measure: Callable[[], float], count: int) -> list[float]:
        """Each on an idle system: the pause is part of what is measured."""
        taken = []
        for _ in range(count):
            taken.append(measure())
            self._until_quiet()
            time.sleep(_IDLE_SECONDS)
        return taken

    def _counted(self, what: str, count: int, before: Counters) -> Figures:
        # Asking whether all has ended would be counted, so wait first; ending takes milliseconds.
        time.sleep(0.5)
        spent = Counters.of(self._server).per(count, since=before)
        self._until_quiet()
        return {
            f"{what}: script calls": spent.scripts,
            f"{what}: client reads": spent.reads,
            f"{what}: commands": spent.commands,
            f"{what}: µs in scripts": spent.script_us,
        }

    def _until_quiet(self) -> None:
        wait_until(self._side.is_quiet, _PATIENCE_SECONDS, f"{self._side.name} has ended everything")

    @contextmanager
    def _workers(self, count: int) -> Iterator[None]:
        self._side.start(count)
        try:
            indexes = self._stamps.take(_WARM)
            for index in indexes:
                self._side.single(index)
            self._stamps.last_of(indexes)
            self._until_quiet()
            yield
        finally:
            self._side.stop()

    @contextmanager
    def _stopped(self) -> Iterator[None]:
        self._side.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._side.signal(signal.SIGCONT)


def per_round(rounds: Sequence[Mapping[str, float]], name: str) -> list[float]:
    """One figure in every round that has it."""
    return [figures[name] for figures in rounds if name in figures]
