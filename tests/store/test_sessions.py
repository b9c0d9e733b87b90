"""What placement reads of sessions and queues."""

from __future__ import annotations

import pytest

from tests.store.stage import Stage


def test_a_queue_whose_entry_cannot_be_read_is_left_out_and_the_others_go_on(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """G17: an error that names it, and the bytes are kept."""
    stage.register()
    view = stage.store.sessions.view()
    broken = stage.store.keys("queue", "other")
    stage.client.sadd(stage.store.keys("queues"), "other")
    stage.client.hset(broken, mapping={"pool": "p", "allocation": b"\xc1", "catalogue": b"\xc1"})

    assert stage.store.sessions.view().queues == view.queues
    assert "queue other" in caplog.text
    assert stage.client.hget(broken, "allocation") == b"\xc1"
