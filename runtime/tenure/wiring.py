"""The one module that wires collaborators: from a URL and settings to a store, an engine, a client."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypedDict

import redis

from tenure.embedded import EmbeddedServer
from tenure.engine.placement import Placement
from tenure.errors import EmbeddedServerError, InvalidInput
from tenure.settings import Settings
from tenure.store.connection import check_server, connect, reaching
from tenure.store.duties import DutyStore
from tenure.store.events import Events
from tenure.store.execution_store import ExecutionStore
from tenure.store.executions import Executions
from tenure.store.grants import Holder
from tenure.store.keys import Keys
from tenure.store.leases import SlotLeases
from tenure.store.listing import Listing
from tenure.store.recordings import Recordings
from tenure.store.scripts import Scripts
from tenure.store.sessions import Sessions
from tenure.transport import tickets

log = logging.getLogger(__name__)

FOLDER = Path(".tenure")
NAMESPACE = "tenure"


@dataclass(frozen=True, kw_only=True)
class Store:
    """Everything one process needs to talk to one namespace. Close it, or use it as a context manager."""

    url: str
    namespace: str
    settings: Settings
    client: redis.Redis
    keys: Keys
    scripts: Scripts
    executions: Executions
    listing: Listing
    recordings: Recordings
    sessions: Sessions
    duties: DutyStore
    events: Events
    placement: Placement
    embedded: EmbeddedServer | None

    def run_id(self) -> str:
        """The server's run id as of now: it changes when the server restarts or fails over."""
        with reaching():
            return str(self.client.info("server")["run_id"])

    def slot_leases(self, holder: Holder) -> SlotLeases:
        """The lease calls of one slot life."""
        return SlotLeases(self.scripts, holder, events_kept=self.settings.events)

    def execution_store(self, instance: str | None = None) -> ExecutionStore:
        """The model's view of the stored executions, of one instance or of all."""
        return ExecutionStore(
            self.client,
            self.scripts,
            self.keys,
            payload_limit=self.settings.payload,
            events_kept=self.settings.events,
            instance_id=instance,
        )

    def with_resend(self, resend: timedelta) -> Store:
        """This store over the same connections, for callers that give a request up after `resend`.

        It is closed with this one.
        """
        return replace(
            self,
            settings=replace(self.settings, resend=resend),
            **_over(
                self.client,
                self.scripts.with_resend(resend.total_seconds()),
                self.keys,
                events_kept=self.settings.events,
            ),
        )

    def revive(self) -> None:
        """Start the embedded server again if it was killed; nothing to do for any other server."""
        if self.embedded is not None:
            _revive(self.embedded)

    def close(self) -> None:
        """Close the connections; the embedded server stops with its last user."""
        self.client.close()
        if self.embedded is not None:
            self.embedded.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_store(
    url: str | None = None,
    *,
    namespace: str | None = None,
    settings: Settings | None = None,
    environment: Mapping[str, str] | None = None,
    test_clock: bool = False,
) -> Store:
    """Connect to a server, or without a URL to the embedded one in `.tenure/`, and check that it suits.

    Raises:
        StoreUnreachable, UnsuitableServer: the server does not answer, or could lose data; says what to do.
        InvalidInput: a URL or setting that cannot be read.
    """
    environment = environment or {}
    settings = settings or Settings.from_environment(environment)
    namespace = namespace or environment.get("TENURE_NAMESPACE", NAMESPACE)
    _check_namespace(namespace)
    url = url or environment.get("TENURE_REDIS_URL") or None
    embedded = None
    if url is None:
        embedded = EmbeddedServer.attach(Path(environment.get("TENURE_FOLDER", FOLDER)))
        url = embedded.url
    client = connect(url)
    check_server(client, url)
    keys = Keys(namespace, tickets.RQ_PREFIX)
    scripts = Scripts(
        client,
        keys,
        tickets.shape(namespace),
        resend_seconds=settings.resend.total_seconds(),
        test_clock=test_clock or environment.get("TENURE_TEST_CLOCK") == "1",
        on_away=None if embedded is None else partial(_revive, embedded),
    )
    return Store(
        url=url,
        namespace=namespace,
        settings=settings,
        client=client,
        keys=keys,
        listing=Listing(client, keys),
        recordings=Recordings(client, keys),
        events=Events(client, keys),
        embedded=embedded,
        **_over(client, scripts, keys, events_kept=settings.events),
    )


class _Calling(TypedDict):
    """The parts of a store that call scripts."""

    scripts: Scripts
    executions: Executions
    sessions: Sessions
    duties: DutyStore
    placement: Placement


def _over(client: redis.Redis, scripts: Scripts, keys: Keys, *, events_kept: int) -> _Calling:
    sessions = Sessions(client, scripts, keys, events_kept=events_kept)
    return _Calling(
        scripts=scripts,
        executions=Executions(client, scripts, keys, events_kept=events_kept),
        sessions=sessions,
        duties=DutyStore(client, scripts, keys, events_kept=events_kept),
        placement=Placement(sessions),
    )


def _revive(embedded: EmbeddedServer) -> None:
    # Any of its users may have to: whoever killed the server has not told the others.
    try:
        embedded.revive()
    except EmbeddedServerError as error:
        log.warning("%s", error)


def _check_namespace(namespace: str) -> None:
    # RQ allows letters, digits, dash and underscore in job ids, and ours begin with the namespace.
    if not namespace or not all(c.isascii() and (c.isalnum() or c in "-_") for c in namespace):
        raise InvalidInput(f"namespace {namespace!r}: use letters, digits, '-' and '_'")
