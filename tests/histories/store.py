"""What the engine stores of live executions, recorded once per format and read back by every later version.

    python -m tests.histories.store NUMBER

records a new one, to be done when the format has changed: one execution that suspended, has recorded values
and a map behind it, and is parked in a scope that nobody meets; and one that sleeps in a scope.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import msgpack

from tenure import Client, Needs, Run, TaskContext, recipe, task
from tenure.embedded import EmbeddedServer
from tenure.engine.definitions import Definitions
from tenure.model.allocation import Allocation
from tenure.model.status import SessionState
from tenure.wiring import Store, open_store
from tests.harness import working_slot

FOLDER: Final = Path(__file__).parent
#: As long as the names that tests give their namespaces, since it is part of recorded texts.
NAMESPACE: Final = "t00000000"
#: What is not about executions: whoever reads the history has sessions and a scheduler of its own.
_LEFT_OUT: Final = ("session", "queue", "life", "registry", "unmet", "leader", "server", "nudge", "unplaced")

#: What ran, by task; a test looks that nothing recorded runs again.
ran: list[str] = []


@task
def plan(chapters: int, ctx: TaskContext) -> int:
    ran.append("plan")
    ctx.suspend(Needs(memory="2Gi"))
    return chapters


@task
def draft(number: int) -> str:
    ran.append(f"draft {number}")
    return f"chapter {number}"


@task(needs=Needs(gpu="0.5"))
def draw(text: str) -> str:
    ran.append("draw")
    return f"a picture of {text}"


@recipe(version="1", needs=Needs(cpu="1"))
def book(run: Run, chapters: int) -> list[str]:
    count = run.call(plan, chapters)
    run.now()
    drafts = run.map(draft, range(count))
    with run.needs(platform="linux/amd64"):
        return [*drafts, run.call(draw, drafts[0], needs=Needs(label={"zone": "eu"}))]


@recipe(version="1")
def nap(run: Run) -> str:
    with run.needs(memory="1Ti"):
        run.sleep("1h")
    return run.call(draft, 7)


DEFINITIONS: Final = Definitions.of([plan, draft, draw, book, nap])


def record(store: Store) -> bytes:
    """Make both executions and return all that is stored of them."""
    client = Client(store=store)
    slot = working_slot(store, DEFINITIONS, allocation=Allocation(cpu=2, memory="4Gi"))
    client.start(book, 3, id="book", priority=7)
    client.start(nap, id="nap")
    slot.drain()
    store.sessions.retire("s", 1, SessionState.GONE)
    raw: Any = store.client
    kept = {
        key: _read(raw, key)
        for key in sorted(raw.scan_iter(match=f"{store.namespace}:*"))
        if not key.decode().removeprefix(f"{store.namespace}:").startswith(_LEFT_OUT)
    }
    packed: bytes = msgpack.packb(kept)
    return packed


def restore(store: Store, history: bytes) -> None:
    """Put a recorded history into a namespace, which has a name of the same length."""
    own = history.replace(NAMESPACE.encode(), store.namespace.encode())
    raw: Any = store.client
    for key, (kind, value) in msgpack.unpackb(own).items():
        match kind:
            case "string":
                raw.set(key, value)
            case "hash":
                raw.hset(key, mapping=value)
            case "set":
                raw.sadd(key, *value)
            case "list":
                raw.rpush(key, *value)
            case "zset":
                raw.zadd(key, dict(value))
            case "stream":
                for entry, fields in value:
                    raw.xadd(key, fields, id=entry)
            case _:
                raise ValueError(f"{key!r} is a {kind}")


def _read(raw: Any, key: bytes) -> tuple[str, Any]:
    kind = raw.type(key).decode()
    read = {
        "string": raw.get,
        "hash": raw.hgetall,
        "set": lambda name: sorted(raw.smembers(name)),
        "list": lambda name: raw.lrange(name, 0, -1),
        "zset": lambda name: raw.zrange(name, 0, -1, withscores=True),
        "stream": raw.xrange,
    }
    return kind, read[kind](key)


def main(number: str) -> None:
    """Record a history under its number."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedServer.attach(Path(folder)) as server,
        open_store(server.url, namespace=NAMESPACE) as store,
    ):
        (FOLDER / f"store-{number}.bin").write_bytes(record(store))


if __name__ == "__main__":
    main(*sys.argv[1:])
