"""One run of `tenure dev`: a scheduler, a worker that follows the code, and a dashboard.

The worker changes only when the new code can be loaded, which is tried in a process of its own first. Until
then the old one goes on with the code it has.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tenure.cli.dev.lines import Lines
from tenure.cli.dev.services import Service
from tenure.cli.dev.sources import Sources
from tenure.cli.processes import Group, Interruptions
from tenure.errors import ModuleNotLoadable, TenureError
from tenure.settings import Settings

#: A reload should not take long; what has not ended by then runs again with the new code.
DRAIN_SECONDS: Final = 3.0

_LOOK_SECONDS: Final = 0.3
#: What a process is given beyond its drain budget, to say good-bye.
_FAREWELL_SECONDS: Final = 7.0
_PROBE: Final = (sys.executable, "-m", "tenure.cli.dev.probe")
_PROBE_SECONDS: Final = 60.0


class DevFailed(TenureError):
    """Something that `tenure dev` runs cannot be kept running."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The modules can be loaded; their sources are below these folders."""

    roots: Sequence[Path]


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """They cannot, and why."""

    error: str


class Development:
    """All processes of one run. Leaving it ends them."""

    def __init__(
        self,
        *,
        modules: Sequence[str],
        scheduler: Sequence[str],
        worker: Sequence[str],
        dashboard: Sequence[str] | None,
        reload: bool,
        environment: Mapping[str, str],
        lines: Lines,
        interruptions: Interruptions,
    ) -> None:
        self._modules = modules
        self._reload = reload
        self._environment = environment
        self._lines = lines
        self._interruptions = interruptions
        drain = Settings.from_environment(environment).drain
        self._patience_seconds = drain.total_seconds() + _FAREWELL_SECONDS
        with interruptions.held():
            self._group = Group()
        self._scheduler = self._service("scheduler", scheduler)
        self._worker = self._service("worker", worker)
        self._dashboard = None if dashboard is None else self._service("dashboard", dashboard)
        self._sources: Sources | None = None

    def run(self) -> None:
        """Go on until interrupted.

        Raises:
            DevFailed: the scheduler, or without reloading the worker, ends again and again.
            ModuleNotLoadable: without reloading, the modules cannot be loaded.
            BrokenPipeError: nobody reads what is printed.
        """
        with self._interruptions.held():
            self._scheduler.start()
            if self._dashboard is not None:
                self._dashboard.start()
        self._start_worker()
        while True:
            time.sleep(_LOOK_SECONDS)
            if self._lines.is_closed:
                raise BrokenPipeError
            self._look_after(self._scheduler, self._give_up)
            self._look_after(self._worker, self._wait_for_code if self._reload else self._give_up)
            self._look_after_dashboard()
            if self._sources is not None and (changed := self._settled(self._sources)):
                self._reload_worker(changed)

    # --- the worker and its code ---

    def _start_worker(self) -> None:
        found = self._probe()
        if self._reload:
            # Whatever cannot be loaded yet is most likely here.
            self._sources = Sources(found.roots if isinstance(found, Loaded) else [Path.cwd()])
        match found:
            case Loaded():
                with self._interruptions.held():
                    self._worker.start()
            case NotLoaded(error) if self._reload:
                self._lines.say("code", f"{error}\nthe worker starts as soon as it loads")
            case NotLoaded(error):
                raise ModuleNotLoadable(error)

    def _reload_worker(self, changed: Sequence[Path]) -> None:
        self._lines.say("code", f"changed: {', '.join(path.name for path in changed)}")
        match self._probe():
            case NotLoaded(error):
                goes_on = "the worker goes on with the code it has, until it loads again"
                waits = "the worker starts as soon as it loads"
                self._lines.say("code", f"{error}\n{goes_on if self._worker.is_running else waits}")
            case Loaded(roots):
                if self._sources is not None:
                    self._sources.watch(roots)
                self._lines.say("code", "loaded; the worker starts again with it")
                self._worker.stop(self._patience_seconds)
                with self._interruptions.held():
                    self._worker.start()

    def _probe(self) -> Loaded | NotLoaded:
        with self._interruptions.held():
            process = self._group.start(
                [*_PROBE, *self._modules],
                environment=self._environment,
                folder=Path.cwd(),
                output=subprocess.PIPE,
            )
        try:
            output, _ = process.communicate(timeout=_PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return NotLoaded(f"loading {', '.join(self._modules)} takes more than {_PROBE_SECONDS:g} s")
        printed, _, last = output.decode(errors="replace").rstrip().rpartition("\n")
        if printed.strip():
            self._lines.say("code", printed.strip())
        try:
            report = json.loads(last)
        except ValueError:  # it ended its process
            return NotLoaded(
                f"loading {', '.join(self._modules)} ended with code {process.returncode}: {last}"
            )
        if "error" in report:
            return NotLoaded(report["error"])
        return Loaded([Path(root) for root in report["roots"]])

    def _settled(self, sources: Sources) -> list[Path]:
        """What has changed, once it changes no more: an editor may write several files."""
        changed: set[Path] = set()
        while now := sources.changed():
            changed.update(now)
            time.sleep(_LOOK_SECONDS / 2)
        return sorted(changed)

    # --- those that end by themselves ---

    def _look_after(self, service: Service, give_up: Callable[[Service, int], None]) -> None:
        code = service.ended()
        if code is None:
            return
        if not service.had_settled():
            give_up(service, code)
            return
        self._lines.say("dev", f"{service.name} has ended with code {code}, and is started again")
        with self._interruptions.held():
            service.start()

    def _give_up(self, service: Service, code: int) -> None:
        raise DevFailed(
            f"the {service.name} has ended with code {code} right after its start; its lines say why"
        )

    def _wait_for_code(self, service: Service, code: int) -> None:
        self._lines.say(
            "dev", f"{service.name} has ended with code {code}; it starts again when a file changes"
        )

    def _look_after_dashboard(self) -> None:
        code = None if self._dashboard is None else self._dashboard.ended()
        if code is not None:
            self._lines.say(
                "dev", f"the dashboard has ended with code {code}; everything else goes on without"
            )

    # --- beginning and end ---

    def _service(self, name: str, arguments: Sequence[str]) -> Service:
        return Service(name, arguments, group=self._group, lines=self._lines, environment=self._environment)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End everything: politely for a while, and at once when a second interruption comes."""
        self._interruptions.ignore()
        services = [s for s in (self._worker, self._dashboard, self._scheduler) if s is not None]
        for service in services:
            service.ask_to_end()
        deadline = time.monotonic() + self._patience_seconds
        while any(s.is_running for s in services) and time.monotonic() < deadline:
            if self._interruptions.count > 1:
                break
            time.sleep(_LOOK_SECONDS / 10)
        self._group.kill()
        for service in services:
            service.wait(_FAREWELL_SECONDS)
