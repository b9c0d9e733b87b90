"""What must hold between any two scripts (G6, G19), checked over a whole namespace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tenure.model.status import ExecutionStatus, InvocationState, RouteIndex, is_terminal
from tenure.store.executions import Record
from tenure.store.keys import RECIPE, route_member
from tenure.wiring import Store


def broken(store: Store) -> list[str]:
    """Everything that does not hold, in words; empty when all is well. Does not write."""
    return list(_Check(store).complaints())


class _Check:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._client: Any = store.client
        self._keys = store.keys
        self._entries = self._read_indexes()

    def complaints(self) -> Iterator[str]:
        live = {raw.decode() for raw in self._client.zrange(self._keys("live"), 0, -1)}
        ended = {raw.decode() for raw in self._client.zrange(self._keys("terminal"), 0, -1)}
        yield from (f"{name} is live and terminal" for name in live & ended)
        records: dict[str, Record] = {}
        for name in sorted(live | ended):
            instance, execution = name.split("/")
            status = self._store.executions.status(instance, execution)
            if status is None:
                yield f"{name} is listed and has no header"
                continue
            if is_terminal(status) != (name in ended):
                yield f"{name} is {status} and listed among the {'ended' if name in ended else 'live'}"
            found, _ = self._store.executions.replay_parts(instance, execution)
            records |= {f"{name}/{capability}": record for capability, record in found.items()}
            yield from self._execution(instance, execution, status, found)
        yield from self._back_pointers(records)
        yield from self._lives(records)

    def _execution(
        self, instance: str, execution: str, status: ExecutionStatus, records: dict[str, Record]
    ) -> Iterator[str]:
        flight = self._members("in_flight", instance, execution)
        open_ = {name for name, record in records.items() if record["invocation"] != InvocationState.SETTLED}
        if flight != open_:
            yield f"{execution}: in flight are {sorted(flight)}, unsettled are {sorted(open_)}"
        if is_terminal(status) and (flight or open_):
            yield f"{execution} is {status} with {sorted(flight | open_)} in flight"
        if not is_terminal(status) and RECIPE not in open_:
            yield f"{execution} is {status} and its recipe is settled"
        for capability, record in records.items():
            yield from self._route(route_member(instance, execution, capability), record)
        for ordinal in {record["group"] for record in records.values() if record.get("group") is not None}:
            expected = {name for name in open_ if records[name].get("group") == ordinal}
            if self._members("group_open", instance, execution, ordinal) != expected:
                yield f"{execution}: the open members of map {ordinal} are not {sorted(expected)}"

    def _route(self, route: str, record: Record) -> Iterator[str]:
        where = [index for index, members in self._entries.items() if route in members]
        settled = record["invocation"] == InvocationState.SETTLED
        if settled and (where or record.get("where")):
            yield f"{route} is settled and in {where}"
        if not settled and where != [self._index_of(record)]:
            yield f"{route} is in {where}, and its record says {record.get('where')} {record.get('queue')}"
        if record.get("where") == RouteIndex.LEASED and route not in self._members(
            "life_routes", record["life"]
        ):
            yield f"{route} is leased by {record['life']}, which does not know"

    def _back_pointers(self, records: dict[str, Record]) -> Iterator[str]:
        times = Counter(route for members in self._entries.values() for route in members)
        yield from (f"{route} is in {count} indexes" for route, count in times.items() if count > 1)
        for index, members in self._entries.items():
            for route in members:
                record = records.get(route)
                if record is None or self._index_of(record) != index:
                    yield f"{index} has {route}, whose record does not say so"
        parked = set(self._entries[self._keys("environment")])
        yield from (f"{route} is to be placed and not parked" for route in self._members("unplaced") - parked)

    def _lives(self, records: dict[str, Record]) -> Iterator[str]:
        for key in self._client.scan_iter(self._keys("life_routes", "*")):
            life = key.decode().split(":")[-2]
            for route in self._members("life_routes", life):
                record = records.get(route)
                if record is None or record.get("where") != RouteIndex.LEASED or record.get("life") != life:
                    yield f"life {life} has {route}, whose record does not say so"

    def _index_of(self, record: Record) -> str | None:
        where = record.get("where")
        return None if where is None else self._keys.index(RouteIndex(where), record.get("queue"))

    def _read_indexes(self) -> dict[str, list[str]]:
        waiting = [key.decode() for key in self._client.scan_iter(self._keys("waiting", "*"))]
        keys = waiting + [self._keys.index(where) for where in RouteIndex if where is not RouteIndex.WAITING]
        with self._client.pipeline() as pipe:
            for key in keys:
                pipe.zrange(key, 0, -1)
            rows = pipe.execute()
        return {key: [raw.decode() for raw in row] for key, row in zip(keys, rows, strict=True)}

    def _members(self, family: str, *ids: str | int) -> set[str]:
        return {raw.decode() for raw in self._client.smembers(self._keys(family, *ids))}
