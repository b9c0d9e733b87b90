"""What a read-only replay reads."""

from __future__ import annotations

import pytest

from tests.store.stage import INSTANCE, Stage


@pytest.mark.parametrize("one_time", [True, False])
def test_every_execution_that_runs_is_listed_once_while_others_end(stage: Stage, one_time: bool) -> None:  # noqa: FBT001
    """More than a page, also of those that were started in one millisecond."""
    ids = [f"e{n:03}" for n in range(450)]
    for execution in ids:
        stage.start(execution, queues=())
    key = stage.store.keys("live")
    stage.client.zadd(key, {f"{INSTANCE}/{one}": 1 if one_time else n for n, one in enumerate(ids)})
    stage.client.zadd(key, {"another/e000": 1})

    found = []
    for instance, execution in stage.store.recordings.live():
        found.append((instance, execution))
        if execution in ids[:400:2]:
            stage.client.zrem(key, f"{INSTANCE}/{execution}")
        if execution == "e100":
            stage.start("late", queues=())

    assert found.count(("another", "e000")) == 1
    assert [one for instance, one in found if instance == INSTANCE] == ids


def test_nothing_runs(stage: Stage) -> None:
    assert list(stage.store.recordings.live()) == []
    assert stage.store.recordings.read(INSTANCE, "gone") is None
