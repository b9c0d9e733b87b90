"""An application may use RQ itself beside Tenure, in one process and on one server."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import pickle, sys
from rq import Queue
from rq.serializers import DefaultSerializer
from tenure.wiring import open_store

with open_store(sys.argv[1], namespace=sys.argv[2]) as store:
    job = Queue(sys.argv[2] + "-own", connection=store.client).enqueue("os.getpid")
    assert DefaultSerializer.dumps is pickle.dumps or DefaultSerializer.loads(pickle.dumps({1, 2})) == {1, 2}
    assert job.func_name == "os.getpid"
"""


def test_a_client_leaves_rqs_serializer_as_it_is(url: str, namespace: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, url, namespace],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
