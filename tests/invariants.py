"""What must hold between any two scripts (G6, G19), checked over a whole namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgpack

from tenure.model.status import ExecutionStatus, InvocationState, RouteIndex, is_terminal
from tenure.store.keys import RECIPE
from tenure.store.stored import Record
from tenure.wiring import Store


def broken(store: Store) -> list[str]:
    """Everything that does not hold, in words; empty when all is well. Does not write."""
    return list(_Check(store).complaints())


class _Check:
    """Reads the namespace in two round trips, so that it may run after each of many steps."""

    def __init__(self, store: Store) -> None:
        self._keys = store.keys
        self._content = _content(store)
        indexes = [self._keys.index(where) for where in RouteIndex if where is not RouteIndex.WAITING]
        waiting = [key for key in self._content if key.startswith(self._keys("waiting", ""))]
        self._entries = {key: self._members(key) for key in indexes + waiting}

    def complaints(self) -> Iterator[str]:
        live, ended = self._members(self._keys("live")), self._members(self._keys("terminal"))
        yield from (f"{name} is live and terminal" for name in live & ended)
        records: dict[str, Record] = {}
        for name in sorted(live | ended):
            header: Mapping[bytes, bytes] = self._content.get(self._keys("execution", *name.split("/")), {})
            if b"status" not in header:
                yield f"{name} is listed and has no header"
                continue
            status = ExecutionStatus(header[b"status"].decode())
            if is_terminal(status) != (name in ended):
                yield f"{name} is {status} and listed among the {'ended' if name in ended else 'live'}"
            found = self._records(name)
            records |= {f"{name}/{capability}": record for capability, record in found.items()}
            yield from self._execution(name, status, found)
        yield from self._back_pointers(records)
        yield from self._lives(records)

    def _execution(self, name: str, status: ExecutionStatus, records: Mapping[str, Record]) -> Iterator[str]:
        flight = self._members(self._keys("in_flight", *name.split("/")))
        unsettled = {one for one, r in records.items() if r["invocation"] != InvocationState.SETTLED}
        if flight != unsettled:
            yield f"{name}: in flight are {sorted(flight)}, unsettled are {sorted(unsettled)}"
        if is_terminal(status) == (RECIPE in unsettled):
            yield f"{name} is {status}, and unsettled are {sorted(unsettled)}"
        if is_terminal(status) and unsettled:
            yield f"{name} is {status} with {sorted(unsettled)} in flight"
        for capability, record in records.items():
            yield from self._route(f"{name}/{capability}", record)
        for ordinal in {record["group"] for record in records.values() if record.get("group") is not None}:
            expected = {one for one in unsettled if records[one].get("group") == ordinal}
            if self._members(self._keys("group_open", *name.split("/"), ordinal)) != expected:
                yield f"{name}: the open members of map {ordinal} are not {sorted(expected)}"

    def _route(self, route: str, record: Record) -> Iterator[str]:
        where = [index for index, members in self._entries.items() if route in members]
        if record.get("kind") == "timer":
            return  # no route: its recipe lies in the due index
        settled = record["invocation"] == InvocationState.SETTLED
        if settled and (where or record.get("where")):
            yield f"{route} is settled and in {where}"
        if not settled and where != [self._index_of(record)]:
            yield f"{route} is in {where}, and its record says {record.get('where')} {record.get('queue')}"
        leased = record.get("where") == RouteIndex.LEASED
        if leased and route not in self._members(self._keys("life_routes", record["life"])):
            yield f"{route} is leased by {record['life']}, which does not know"

    def _back_pointers(self, records: Mapping[str, Record]) -> Iterator[str]:
        times = Counter(route for members in self._entries.values() for route in members)
        yield from (f"{route} is in {count} indexes" for route, count in times.items() if count > 1)
        for index, members in self._entries.items():
            for route in members:
                if route not in records or self._index_of(records[route]) != index:
                    yield f"{index} has {route}, whose record does not say so"
        unplaced = self._members(self._keys("unplaced"))
        parked = self._entries[self._keys("environment")]
        yield from (f"{route} is to be placed and not parked" for route in unplaced - parked)

    def _lives(self, records: Mapping[str, Record]) -> Iterator[str]:
        beginning, end = self._keys("life_routes", "|").split("|")
        for key in self._content:
            if not (key.startswith(beginning) and key.endswith(end)):
                continue
            life = key.removeprefix(beginning).removesuffix(end)
            for route in self._members(key):
                record = records.get(route, {})
                if record.get("where") != RouteIndex.LEASED or record.get("life") != life:
                    yield f"life {life} has {route}, whose record does not say so"

    def _index_of(self, record: Record) -> str | None:
        where = record.get("where")
        return None if where is None else self._keys.index(RouteIndex(where), record.get("queue"))

    def _records(self, name: str) -> dict[str, Record]:
        stored: Mapping[bytes, bytes] = self._content.get(self._keys("records", *name.split("/")), {})
        return {
            one.decode(): msgpack.unpackb(raw, strict_map_key=False, unicode_errors="surrogateescape")
            for one, raw in stored.items()
        }

    def _members(self, key: str) -> set[str]:
        return {raw.decode() for raw in self._content.get(key, ())}


def _content(store: Store) -> dict[str, Any]:
    """Every hash, set and sorted set of the namespace by key, without scores."""
    client: Any = store.client
    found: dict[str, list[str]] = {}
    for kind in ("hash", "set", "zset"):
        keys = client.scan_iter(f"{store.namespace}:*", count=100_000, _type=kind)
        found[kind] = [key.decode() for key in keys]
    with client.pipeline(transaction=False) as pipe:
        for key in found["hash"]:
            pipe.hgetall(key)
        for key in found["set"]:
            pipe.smembers(key)
        for key in found["zset"]:
            pipe.zrange(key, 0, -1)
        rows = pipe.execute()
    return dict(zip([key for kind in found for key in found[kind]], rows, strict=True))
