"""Two ways through an index, a page at a time, while entries leave and join it."""

from __future__ import annotations

from datetime import timedelta

from tenure.store.duties import DutyStore


class Ripe:
    """What has lapsed or is due, oldest first; with an age, what was so that long ago.

    What is dealt with leaves the index, so the next page begins where this one did, after what had to stay.
    """

    def __init__(self, *, duties: DutyStore, index: str, limit: int, age: timedelta = timedelta(0)) -> None:
        self._duties = duties
        self._index = index
        self._limit = limit
        self._age = age
        self._passed = 0

    def page(self) -> list[str]:
        """The next page."""
        return self._duties.page(self._index, limit=self._limit, after=self._passed, due=True, age=self._age)

    def done(self, page: list[str], *, stayed: int) -> bool:
        """Note how many of the page stayed in the index; says whether there may be more after it."""
        if len(page) < self._limit:
            self._passed = 0
            return False
        self._passed += stayed
        return True


class Walk:
    """Once through an index, from its newest entry to its oldest.

    Backwards, because entries leave: what leaves moves newer entries down, so a walk towards them would step
    over some, while one away from them meets a few twice. What joins meanwhile is not met.
    """

    def __init__(self, *, duties: DutyStore, index: str) -> None:
        self._duties = duties
        self._index = index
        self._before: int | None = None

    def page(self, limit: int) -> list[str]:
        """The next page; the same one again until `advance`."""
        if self._before is None:
            self._before = self._duties.size(self._index)
        first = max(0, self._before - limit)
        if first == self._before:
            return []
        return self._duties.page(self._index, limit=self._before - first, after=first)

    def advance(self, limit: int) -> bool:
        """Go on to the page after; says whether there is one. If not, the next walk begins."""
        self._before = max(0, (self._before or 0) - limit) or None
        return self._before is not None
