"""Loading the `.lua` files and calling them: one atomic step per call.

A file names the fragments it uses in its header; the loader puts them in front, together with the names and
keys that Lua may not spell itself: the statuses and tables of moves of `tenure.model.status`, and the key
functions of `tenure.store.keys`.

A lost reply is resent, the same bytes with the same request id, until the budget is spent (G16).
"""

from __future__ import annotations

import copy
import hashlib
import logging
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.resources import files
from typing import Any, Final, Self, TypeVar

import msgpack
import redis
import redis.exceptions as failures

from tenure.errors import StoreFull, StoreUnreachable, Unconfirmed
from tenure.model import status
from tenure.model.ticket import TicketShape
from tenure.store.answers import ANSWERS
from tenure.store.connection import was_never_sent
from tenure.store.keys import FAMILIES, RECIPE, SCHEMA, Keys

log = logging.getLogger(__name__)

R = TypeVar("R")

#: What one round trip of `call_many` carries at most: others' steps must fit in between.
BATCH: Final = 100
BATCH_BYTES: Final = 4 * 1024 * 1024

FOLDER = files("tenure.store") / "lua"

#: What scripts write as `Table.name`, each table from the enum that owns it.
NAMES: dict[str, type[StrEnum]] = {
    "Execution": status.ExecutionStatus,
    "Capability": status.CapabilityStatus,
    "Invocation": status.InvocationState,
    "Outcome": status.InvocationOutcome,
    "Where": status.RouteIndex,
    "Session": status.SessionState,
    "Effects": status.Effects,
}

_HEADER_LINE = re.compile(r"^-- (uses|flags|keys)\s+(.+)$", re.MULTILINE)
_PRELUDE = """
local function closed(names, what)
  local function refuse(_, name) error('no ' .. what .. ' is named ' .. tostring(name)) end
  return setmetatable(names, { __index = refuse })
end
local a = cmsgpack.unpack(ARGV[1])
local function reply(answer, fields)
  fields = fields or {}
  fields.answer = answer
  return cmsgpack.pack(fields)
end
"""


def header_of(name: str) -> dict[str, list[str]]:
    """The `uses`, `flags` and `keys` lines of a script's header."""
    text = (FOLDER / f"{name}.lua").read_text()
    return {key: value.split() for key, value in _HEADER_LINE.findall(text)}


def _lua(value: object) -> str:
    if isinstance(value, bytes):
        return "'" + "".join(f"\\{byte:03d}" for byte in value) + "'"
    if isinstance(value, int):
        return str(value)
    return "'" + str(value) + "'"


def _with_names(source: str) -> str:
    """Put the text in place of every `Table.name`, once and not at each call.

    Raises:
        KeyError: a script uses a name that its enum does not have.
    """
    texts = {table: {name.value: _lua(name.value) for name in names} for table, names in NAMES.items()}
    return re.sub(rf"\b({'|'.join(texts)})\.(\w+)", lambda found: texts[found[1]][found[2]], source)


def _tables_in_lua(source: str) -> str:
    parts = []
    for table, members in NAMES.items():
        if f"pairs({table})" in source:
            entries = ", ".join(f"{member.value} = {_lua(member.value)}" for member in members)
            parts.append(f"local {table} = {{ {entries} }}")
    for table, moves in (
        ("ExecutionMoves", status.EXECUTION_MOVES),
        ("CapabilityMoves", status.CAPABILITY_MOVES),
    ):
        if table in source:
            rows = ", ".join(
                f"{current.value} = {{ {', '.join(f'{to.value} = true' for to in sorted(targets))} }}"
                for current, targets in moves.items()
            )
            parts.append(f"local {table} = closed({{ {rows} }}, '{table}')")
    if "ExecutionTerminal" in source:
        ends = ", ".join(f"{s.value} = true" for s in status.ExecutionStatus if status.is_terminal(s))
        parts.append(f"local ExecutionTerminal = {{ {ends} }}")
    return "\n".join(parts) + "\n"


def assemble(name: str, keys: Keys, ticket: TicketShape, *, test_clock: bool) -> str:
    """The whole source of one script, as it is sent to the server."""
    header = header_of(name)
    body = "".join((FOLDER / f"{part}.lua").read_text() for part in [*header.get("uses", []), name])
    if not test_clock:
        body = re.sub(r"^.*--@test\n", "", body, flags=re.MULTILINE)
    families = {family for family in re.findall(r"\bKey\.(\w+)", body) if family in FAMILIES}
    families |= set(header.get("keys", []))
    if "Key[where]" in body:
        families |= {where.value for where in status.RouteIndex}
    flags = ",".join(header.get("flags", []))
    shebang = f"#!lua flags={flags}\n" if flags else "#!lua\n"
    fields = ", ".join(f"{f} = {_lua(getattr(ticket, f))}" for f in TicketShape.__slots__)
    constants = f"local Recipe, Schema = '{RECIPE}', '{SCHEMA}'\nlocal Ticket = {{ {fields} }}\n"
    return shebang + _PRELUDE + keys.lua(families) + _tables_in_lua(body) + constants + _with_names(body)


@dataclass(slots=True)
class _Loaded:
    source: str
    sha: str


class Scripts:
    """Calls scripts by name. One instance serves one namespace over one client; threads may share it."""

    def __init__(
        self,
        client: redis.Redis,
        keys: Keys,
        ticket: TicketShape,
        *,
        resend_seconds: float,
        test_clock: bool = False,
        on_away: Callable[[], None] | None = None,
    ) -> None:
        self._client = client
        self._resend_seconds = resend_seconds
        self._on_away = on_away
        self._loaded: dict[str, _Loaded] = {}
        self.calls = 0
        for name in ANSWERS:
            source = assemble(name, keys, ticket, test_clock=test_clock)
            self._loaded[name] = _Loaded(source, hashlib.sha1(source.encode()).hexdigest())  # noqa: S324  # EVALSHA's

    def with_resend(self, seconds: float) -> Self:
        """The same scripts over the same client, for callers that give a request up after so long."""
        other = copy.copy(self)
        other._resend_seconds, other.calls = seconds, 0  # noqa: SLF001  # a copy of itself
        return other

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run one script and return its reply, a table with at least `answer`.

        Raises:
            Unconfirmed: the reply was lost and the budget is spent; whether it took effect is not known.
            StoreUnreachable: the server could not be reached at all within the budget.
            StoreFull: the server's memory limit is reached; nothing was written.
        """
        packed = _pack(arguments)
        return _read(name, self._patiently(name, lambda: self._evaluate(name, packed)))

    def call_many(self, name: str, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Run one script once per request, a batch in each round trip; replies in the order of requests.

        Each is a step of its own. A batch of which replies were lost is resent whole, as `call` resends one.

        Raises:
            Unconfirmed, StoreUnreachable, StoreFull: as `call` does. Earlier batches have taken effect, and
                any part of the failed one may have.
        """
        replies: list[dict[str, Any]] = []
        for batch in _batches([_pack(request) for request in requests]):
            raw = self._patiently(name, partial(self._evaluate_many, name, batch))
            replies += [_read(name, one) for one in raw]
        return replies

    def _patiently(self, name: str, send: Callable[[], R]) -> R:
        """Send, and send again until there is a reply or the budget is spent."""
        deadline = time.monotonic() + self._resend_seconds
        pause, sent = 0.02, False
        while True:
            try:
                return send()
            except failures.OutOfMemoryError as error:
                raise StoreFull(
                    f"the server's memory limit is reached, so {name!r} was refused and nothing was written; "
                    "make room or raise maxmemory, and try again"
                ) from error
            except (failures.ConnectionError, failures.TimeoutError, failures.ReadOnlyError) as error:
                sent = sent or not was_never_sent(error)
                if self._on_away is not None:
                    self._on_away()
                if time.monotonic() + pause > deadline:
                    raise self._given_up(name, sent=sent) from error
                log.warning("resending %s: %s", name, error)
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # spreading resends needs no secrecy
            pause = min(pause * 2, 1.0)

    def _evaluate(self, name: str, packed: bytes) -> bytes:
        script = self._loaded[name]
        self.calls += 1
        try:
            return self._client.evalsha(script.sha, 0, packed)  # type: ignore[no-any-return]
        except failures.NoScriptError:
            return self._client.eval(script.source, 0, packed)  # type: ignore[no-any-return]

    def _evaluate_many(self, name: str, batch: Sequence[bytes]) -> list[bytes]:
        script = self._loaded[name]
        self.calls += len(batch)
        # In the same round trip, since a server that has restarted knows no script.
        with self._client.pipeline(transaction=False) as pipe:
            pipe.script_load(script.source)
            for packed in batch:
                pipe.evalsha(script.sha, 0, packed)
            # Not raised by redis-py, whose message would show what was sent.
            _, *replies = pipe.execute(raise_on_error=False)
        for reply in replies:
            if isinstance(reply, Exception):
                raise reply
        return replies

    def _given_up(self, name: str, *, sent: bool) -> Exception:
        seconds = self._resend_seconds
        if sent:
            return Unconfirmed(
                f"no reply to {name!r} within {seconds:g} s: it may or may not have taken effect; "
                "the store's state stands"
            )
        return StoreUnreachable(f"the server could not be reached for {seconds:g} s; {name!r} was not sent")


def _pack(arguments: Mapping[str, Any]) -> bytes:
    # The server's msgpack has no binary type: bytes travel as raw strings.
    packed: bytes = msgpack.packb(dict(arguments), use_bin_type=False)
    return packed


def _read(name: str, raw: bytes) -> dict[str, Any]:
    # Lua strings have no encoding: payload bytes come back as surrogates, and `as_bytes` restores them.
    reply: dict[str, Any] = msgpack.unpackb(raw, unicode_errors="surrogateescape", strict_map_key=False)
    reply["answer"] = ANSWERS[name](reply["answer"])
    return reply


def _batches(packed: Sequence[bytes]) -> Iterator[list[bytes]]:
    """In order; each holds at least one request and keeps to both limits otherwise."""
    batch: list[bytes] = []
    size = 0
    for one in packed:
        if batch and (len(batch) == BATCH or size + len(one) > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one)
    if batch:
        yield batch


def as_bytes(text: str | bytes) -> bytes:
    """Payload bytes of a reply."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
