"""Tickets are RQ jobs that carry ids and a title, and whose function is one fixed name (G10, G18).

The hash fields that RQ insists on, and their formats, are those of rq 3: `rq.job.Job.restore`. Scripts write
them; this module says what the constant ones are. `install` replaces RQ's default serializer, so that no
code path of RQ in this process unpickles what Redis contains.
"""

from __future__ import annotations

from typing import Any, Final

import msgpack
from rq import serializers
from rq.defaults import RQ_KEY_PREFIX
from rq.job import JobStatus

from tenure.model.ticket import TicketShape

#: What RQ shows as the function of a ticket. It is never imported: `tenure_workers` overrides the lookup.
ENTRY: Final = "tenure.work"
#: Seconds after which RQ may think that a ticket's worker is lost; agents renew the entry long before.
TIMEOUT: Final = 180
#: Seconds for which RQ keeps a ticket that its own sweep has failed: it drops it in the same sweep. Such a
#: ticket says that a slot is gone, which is no failure of what ran there, so nobody should be shown one.
FAILURE_TTL: Final = 0

RQ_PREFIX: Final = f"{RQ_KEY_PREFIX}:"


class MsgpackSerializer:
    """RQ's serializer protocol over msgpack: plain data in, plain data out."""

    @staticmethod
    def dumps(value: Any) -> bytes:
        """Pack plain data. Raises TypeError for anything else."""
        packed: bytes = msgpack.packb(value, datetime=True)
        return packed

    @staticmethod
    def loads(raw: bytes) -> Any:
        """Unpack; raises ValueError for bytes that are not msgpack, pickles among them."""
        return msgpack.unpackb(raw, timestamp=3, strict_map_key=False)


def install() -> None:
    """Make msgpack RQ's default, which some of its code uses whatever serializer it was given (G18).

    For processes that are ours alone. An application that starts executions may use RQ itself, with any
    serializer, and nothing in the client reads RQ's bytes.
    """
    serializers.DefaultSerializer.dumps = staticmethod(MsgpackSerializer.dumps)
    serializers.DefaultSerializer.loads = staticmethod(MsgpackSerializer.loads)


def shape(namespace: str) -> TicketShape:
    """The constant parts of a ticket of one namespace."""
    return TicketShape(
        prefix=f"{namespace}-",
        data=MsgpackSerializer.dumps([ENTRY, None, [], {}]),
        status=JobStatus.QUEUED.value,
        timeout=TIMEOUT,
        failure_ttl=FAILURE_TTL,
    )
