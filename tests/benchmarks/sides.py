"""The two sides that are compared: the same calls, RQ's own way and Tenure's, with real worker processes."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Protocol

import redis
from rq import Queue

from tenure.settings import Settings
from tenure.store.connection import connect
from tests.benchmarks import bodies, recipes
from tests.processes import ROOT, Site
from tests.waiting import wait_until

PATIENCE_SECONDS: Final = 30


class Side(Protocol):
    """Work is named by the stamps its bodies leave: `base`, and those after it."""

    name: str

    def start(self, workers: int) -> None:
        """Start workers of one slot each and wait until they are ready."""

    def stop(self) -> None:
        """End them in good order."""

    def signal(self, number: int) -> None:
        """To every process that runs task bodies."""

    def single(self, index: int) -> object:
        """One task on its own."""

    def chain(self, base: int, length: int) -> object:
        """Tasks that each need the result of the one before."""

    def fan(self, base: int, width: int) -> object:
        """One task, `width` that need it, and one that needs them all."""

    def is_quiet(self) -> bool:
        """Whether everything that runs has been brought to its end, down to the last record."""


class Pickle:
    """RQ's own default, which opening a Tenure store replaces in this process."""

    dumps = staticmethod(pickle.dumps)
    loads = staticmethod(pickle.loads)


class RqSide:
    """`rq worker -w rq.SimpleWorker` on a queue of its own; a chain is `depends_on`."""

    name = "rq SimpleWorker"

    def __init__(self, url: str, namespace: str, folder: Path) -> None:
        self._url = url
        self._client: Any = connect(url)
        self._namespace = namespace
        self._starts = 0
        self._log = folder / "rq.log"
        self._workers: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int) -> None:
        # What a run leaves behind, jobs that stalled among them, is not in the way of the next one.
        self._starts += 1
        name = f"{self._namespace}-rq-{self._starts}"
        self._queue = Queue(name, connection=self._client, serializer=Pickle)
        command = [str(Path(sys.executable).parent / "rq"), "worker", "--url", self._url]
        command += ["--worker-class", "rq.SimpleWorker", "--logging_level", "WARNING", "--path", str(ROOT)]
        with self._log.open("ab") as log:
            self._workers = [
                subprocess.Popen(
                    [*command, self._queue.name],
                    cwd=ROOT,
                    env=os.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
                for _ in range(workers)
            ]
        known = f"rq:workers:{self._queue.name}"
        wait_until(lambda: self._client.scard(known) == workers, PATIENCE_SECONDS, "RQ's workers are there")

    def stop(self) -> None:
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.wait(PATIENCE_SECONDS)
        self._workers = []

    def signal(self, number: int) -> None:
        for worker in self._workers:
            worker.send_signal(number)

    def single(self, index: int) -> object:
        return self._queue.enqueue(bodies.alone, index)

    def chain(self, base: int, length: int) -> object:
        job = self._queue.enqueue(bodies.step, {"base": base, "step": 0})
        for _ in range(length - 1):
            job = self._queue.enqueue(bodies.step_after_another, depends_on=job)
        return job

    def fan(self, base: int, width: int) -> object:
        root = self._queue.enqueue(bodies.root, base)
        leaves = [
            self._queue.enqueue(bodies.leaf, {"base": base, "number": number}, depends_on=root)
            for number in range(width)
        ]
        return self._queue.enqueue(bodies.join_of_dependencies, base, depends_on=leaves)

    def is_quiet(self) -> bool:
        return self._client.zcard(f"rq:wip:{self._queue.name}") == 0 and self._queue.count == 0


class TenureSide:
    """`tenure worker` with one slot each and a `tenure scheduler`, all with the settings they ship with."""

    name = "tenure worker"

    def __init__(self, url: str, namespace: str, folder: Path) -> None:
        self._site = Site(url, namespace, folder, settings=Settings().to_environment())
        self._client = self._site.client
        self.feed = self._site.store.keys("feed")

    def start(self, workers: int) -> None:
        self._site.scheduler()
        for number in range(workers):
            self._site.worker(
                name=f"worker-{number}", allocation="cpu=1", modules=["tests.benchmarks.recipes"]
            )

    def stop(self) -> None:
        for process in self._site.processes:
            process.signal(signal.SIGTERM)
        for process in self._site.processes:
            process.wait()
        self._site.processes.clear()

    def signal(self, number: int) -> None:
        for process in self._site.processes:
            for slot in process.children():
                os.kill(slot, number)

    def single(self, index: int) -> object:
        return self._client.start(recipes.single, index)

    def chain(self, base: int, length: int) -> object:
        return self._client.start(recipes.chain, base, length)

    def fan(self, base: int, width: int) -> object:
        return self._client.start(recipes.fan, base, width)

    def is_quiet(self) -> bool:
        return self._site.raw.zcard(self._site.store.keys("live")) == 0  # type: ignore[no-any-return]


def server_of(url: str) -> redis.Redis:
    """A connection for counting."""
    return connect(url, client_name="counter")
