"""`tenure` as people run it, in a process of its own, on the namespace of the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from tenure import Client
from tenure.cli import cli
from tenure.engine.driver import Driver
from tenure.wiring import Store, open_store
from tests.engine.site import Site
from tests.harness import working_slot
from tests.samples import DEFINITIONS

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def data(self) -> Any:
        assert self.code == 0, self.err
        return json.loads(self.out)

    def rows(self, first: str) -> list[list[str]]:
        """The cells of all rows that begin so; two blanks or more are between cells."""
        found = [line for line in self.lines if line.split("  ")[0] == first]
        return [[cell.strip() for cell in row.split("  ") if cell.strip()] for row in found]


class Tenure:
    """Runs the command line in a process of its own, or `here` where one has been tried already."""

    def __init__(self, url: str, namespace: str) -> None:
        self.options = ["--url", url, "--namespace", namespace]

    def __call__(self, *words: str, cwd: Path = ROOT, **environment: str) -> Ended:
        done = subprocess.run(
            self.command(*words),
            cwd=cwd,
            env=self.environment(**environment),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert "Traceback" not in done.stderr or "TENURE_DEBUG" in environment, done.stderr
        return Ended(done.returncode, done.stdout, done.stderr)

    def here(self, *words: str) -> Ended:
        """Run it in this process: quicker, and with whatever modules other tests have loaded."""
        runner = CliRunner(env={name: None for name in os.environ if name.startswith("TENURE_")})
        done = runner.invoke(cli, [*self.options, *words], prog_name="tenure")
        return Ended(done.exit_code, done.stdout, done.stderr)

    def begin(self, *words: str, **options: Any) -> subprocess.Popen[str]:
        """Start it and let it run."""
        return subprocess.Popen(
            self.command(*words),
            cwd=ROOT,
            env=self.environment(),
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options,
        )

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "tenure.cli", *self.options, *words]

    @staticmethod
    def environment(**more: str) -> dict[str, str]:
        return {name: text for name, text in os.environ.items() if not name.startswith("TENURE_")} | more


@pytest.fixture
def tenure(url: str, namespace: str) -> Tenure:
    return Tenure(url, namespace)


@pytest.fixture
def store(url: str, namespace: str) -> Iterator[Store]:
    with open_store(url, namespace=namespace) as opened:
        yield opened


@pytest.fixture
def client(store: Store) -> Client:
    return Client(store=store)


@pytest.fixture
def records(store: Store, redis_client: redis.Redis) -> Site:
    """The same namespace, for tests that edit what is stored."""
    return Site(store, redis_client)


@pytest.fixture
def slot(store: Store) -> Driver:
    """A slot that has all samples loaded."""
    return working_slot(store, DEFINITIONS)
