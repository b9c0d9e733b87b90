"""Loading the `.lua` files and calling them: one atomic step per call.

A file names the fragments it uses in its header; the loader puts them in front, together with the names and
keys that Lua may not spell itself: the statuses and tables of moves of `tenure.model.status`, and the key
functions of `tenure.store.keys`.

A lost reply is resent, the same bytes with the same request id, until the budget is spent (G16).
"""

from __future__ import annotations

import hashlib
import logging
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Any

import msgpack
import redis
import redis.exceptions as failures

from tenure.errors import StoreFull, StoreUnreachable, Unconfirmed
from tenure.model import status
from tenure.model.ticket import TicketShape
from tenure.store.answers import ANSWERS
from tenure.store.keys import FAMILIES, RECIPE, SCHEMA, Keys

log = logging.getLogger(__name__)

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
    ) -> None:
        self._client = client
        self._resend_seconds = resend_seconds
        self._loaded: dict[str, _Loaded] = {}
        self.calls = 0
        for name in ANSWERS:
            source = assemble(name, keys, ticket, test_clock=test_clock)
            self._loaded[name] = _Loaded(source, hashlib.sha1(source.encode()).hexdigest())  # noqa: S324  # EVALSHA's

    def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run one script and return its reply, a table with at least `answer`.

        Raises:
            Unconfirmed: the reply was lost and the budget is spent; whether it took effect is not known.
            StoreUnreachable: the server could not be reached at all within the budget.
            StoreFull: the server's memory limit is reached; nothing was written.
        """
        # The server's msgpack has no binary type: bytes travel as raw strings.
        packed = msgpack.packb(dict(arguments), use_bin_type=False)
        raw = self._send(name, packed)
        # Lua strings have no encoding: payload bytes come back as surrogates, and `as_bytes` restores them.
        reply: dict[str, Any] = msgpack.unpackb(raw, unicode_errors="surrogateescape", strict_map_key=False)
        reply["answer"] = ANSWERS[name](reply["answer"])
        return reply

    def _send(self, name: str, packed: bytes) -> bytes:
        deadline = time.monotonic() + self._resend_seconds
        pause, sent = 0.02, False
        while True:
            try:
                return self._evaluate(name, packed)
            except failures.OutOfMemoryError as error:
                raise StoreFull(
                    f"the server's memory limit is reached, so {name!r} was refused and nothing was written; "
                    "make room or raise maxmemory, and try again"
                ) from error
            except (failures.ConnectionError, failures.TimeoutError, failures.ReadOnlyError) as error:
                sent = sent or "connecting to" not in str(error)
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

    def _given_up(self, name: str, *, sent: bool) -> Exception:
        seconds = self._resend_seconds
        if sent:
            return Unconfirmed(
                f"no reply to {name!r} within {seconds:g} s: it may or may not have taken effect; "
                "the store's state stands"
            )
        return StoreUnreachable(f"the server could not be reached for {seconds:g} s; {name!r} was not sent")


def as_bytes(text: str | bytes) -> bytes:
    """Payload bytes of a reply."""
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
