"""What an agent says of itself: where it runs, what its slots have, and the queue of slots like them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import socket
from pathlib import Path
from typing import Final

from tenure.errors import InvalidInput
from tenure.model.allocation import Allocation
from tenure.store.keys import Keys
from tenure.store.sessions import Catalogue, Registration

_SESSION: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_DIGEST_LENGTH: Final = 10


def session_name(given: str | None) -> str:
    """The name as given, or one that nobody else has. Raises InvalidInput."""
    if given is None:
        host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname().split(".")[0])[:32].strip("-")
        return f"{host or 'worker'}-{secrets.token_hex(4)}"
    if not _SESSION.fullmatch(given):
        raise InvalidInput(
            f"{given!r} is no worker name: it is a letter or digit, then letters, digits, '.', '_' and '-', "
            "at most 63 in all"
        )
    return given


def host_name() -> str:
    """This host, and on Linux the pid namespace: only there does a pid of ours mean the same process."""
    try:
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}/{namespace}"


def boot_id() -> str:
    """What changes when the host boots, which proves that every earlier process is gone."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


def queue_digest(allocation: Allocation, catalogue: Catalogue) -> str:
    """The same for all slots that are interchangeable within a pool, whatever order facts came in."""
    canonical = json.dumps([allocation.to_data(), catalogue.to_data()], sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:_DIGEST_LENGTH]


def registration(
    *,
    session: str,
    nonce: str,
    pool: str,
    slots: int,
    allocation: Allocation,
    catalogue: Catalogue,
    keys: Keys,
) -> Registration:
    """Everything the store is told of this agent."""
    return Registration(
        session=session,
        nonce=nonce,
        pool=pool,
        host=host_name(),
        boot=boot_id(),
        pid=os.getpid(),
        queue=keys.queue_name(pool, queue_digest(allocation, catalogue)),
        slots=slots,
        allocation=allocation,
        catalogue=catalogue,
    )
