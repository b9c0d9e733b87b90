"""The memory that a slot and its agent share."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator

import pytest

from tenure.engine.presence import Phase
from tenure_workers.page import Shown, SlotPage

ROUTE = "default/book-7/0:render"


@pytest.fixture
def page() -> Iterator[SlotPage]:
    page = SlotPage.create()
    yield page
    page.close()


@pytest.fixture
def slot_side(page: SlotPage) -> Iterator[SlotPage]:
    side = SlotPage.attach(os.dup(page.descriptor))
    yield side
    side.close()


def test_a_fresh_page_says_idle(page: SlotPage) -> None:
    assert page.read() == Shown()


def test_what_a_slot_shows_is_read(page: SlotPage, slot_side: SlotPage) -> None:
    slot_side.show(Phase.TASK, [(ROUTE, 1_795_000_000_000_000, True)])
    slot_side.show_progress("1/3 first pass")
    slot_side.show_entry("job:execution")
    shown = page.read()
    assert shown.phase is Phase.TASK
    assert shown.leases == ((ROUTE, 1_795_000_000_000_000, True),)
    assert (shown.progress, shown.entry) == ("1/3 first pass", "job:execution")


def test_progress_ends_with_what_was_held(page: SlotPage, slot_side: SlotPage) -> None:
    slot_side.show(Phase.TASK, [(ROUTE, 1, True)])
    slot_side.show_progress("1/3")
    slot_side.show(Phase.TASK, [(ROUTE, 1, True)])
    assert page.read().progress == "1/3"
    slot_side.show(Phase.TASK, [(ROUTE, 2, True)])
    assert page.read().progress == ""


def test_a_list_that_the_engine_changes_later_changes_nothing_shown(
    page: SlotPage, slot_side: SlotPage
) -> None:
    leases = [(ROUTE, 1, True)]
    slot_side.show(Phase.RECIPE, leases)
    leases.clear()
    slot_side.show_entry("job:execution")
    assert page.read().leases == ((ROUTE, 1, True),)


def test_a_drain_is_asked_for_from_the_other_side(page: SlotPage, slot_side: SlotPage) -> None:
    assert not slot_side.draining()
    page.request_drain()
    assert slot_side.draining()


def test_a_value_that_was_half_written_is_not_read(page: SlotPage, slot_side: SlotPage) -> None:
    slot_side.show(Phase.TASK, [(ROUTE, 5, True)])
    # The writer dies after it has spoilt the copy that is not current, before it moves the counter.
    counter = int.from_bytes(slot_side._map[0:8], sys.byteorder)
    at = 64 + ((counter + 1) & 1) * 32 * 1024
    slot_side._map[at : at + 64] = b"\xff" * 64
    assert page.read().leases == ((ROUTE, 5, True),)


def test_a_page_that_cannot_be_read_gives_the_last_good_value(page: SlotPage, slot_side: SlotPage) -> None:
    slot_side.show(Phase.TASK, [(ROUTE, 5, True)])
    good = page.read()
    slot_side._map[64 : 64 + 2 * 32 * 1024] = b"\xff" * (2 * 32 * 1024)
    assert page.read() == good


def test_too_many_leases_are_refused_and_not_cut_off(slot_side: SlotPage) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        slot_side.show(Phase.TASK, [("x" * 200, n, True) for n in range(1000)])


def test_a_copy_full_of_zeros_is_no_value(page: SlotPage, slot_side: SlotPage) -> None:
    """Nothing has a checksum too, and it is zero."""
    slot_side.show(Phase.TASK, [(ROUTE, 1, True)])
    shown = page.read()
    slot_side._map[64:] = bytes(len(slot_side._map) - 64)
    assert page.read() == shown


def test_no_reader_ever_sees_parts_of_two_values() -> None:
    """A slot in a process of its own shows pairs that belong together as fast as it can."""
    page = SlotPage.create()
    writer = textwrap.dedent("""
        import sys
        from tenure.engine.presence import Phase
        from tenure_workers.page import SlotPage

        page = SlotPage.attach(int(sys.argv[1]))
        for n in range(10_000_000):
            page.show(Phase.TASK, [("x" * (n % 50), n, True), ("y" * (n % 50), n, False)])
    """)
    with subprocess.Popen(
        [sys.executable, "-c", writer, str(page.descriptor)], pass_fds=[page.descriptor]
    ) as process:
        try:
            seen: set[int] = set()
            until = time.monotonic() + 20
            while len(seen) < 2000 and time.monotonic() < until:
                leases = page.read().leases
                if leases:
                    (x, n, _), (y, m, _) = leases
                    assert (len(x), len(y), m) == (n % 50, n % 50, n)
                    seen.add(n)
            assert len(seen) == 2000
        finally:
            process.kill()
    assert page.read().leases  # also after its death
    page.close()
