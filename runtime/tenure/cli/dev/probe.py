"""Whether an application's modules can be loaded, tried in a process that ends right away.

    python -m tenure.cli.dev.probe MODULE...

The last line of its output is JSON: {"roots": [FOLDER, ...]}, the folders with the modules' sources, or
{"error": SENTENCE}. What the modules themselves print comes before.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

from tenure.engine import definitions
from tenure.errors import InvalidInput


def main(modules: Sequence[str]) -> None:
    """Load them, and print what came of it."""
    try:
        definitions.load_modules(modules)
    except InvalidInput as error:
        if error.__cause__ is not None:
            sys.stdout.writelines(_traceback(error.__cause__))
        report: dict[str, object] = {"error": str(error)}
    else:
        report = {"roots": sorted({str(root) for name in modules for root in _roots(name)})}
    sys.stdout.write("\n" + json.dumps(report) + "\n")
    sys.stdout.flush()
    # What the modules have started, or left for the end, is not ours to wait for.
    os._exit(0)


def _traceback(error: BaseException) -> Iterator[str]:
    """Where in the application it was raised; how it came to be imported tells nobody anything."""
    told = traceback.TracebackException.from_exception(error)
    machinery = (definitions.__file__, importlib.__file__)
    told.stack = traceback.StackSummary.from_list(
        [f for f in told.stack if f.filename not in machinery and not f.filename.startswith("<frozen")]
    )
    return told.format()


def _roots(name: str) -> Iterator[Path]:
    """The folders of the package a module is in, or the one that it lies in beside others."""
    top = sys.modules[name.partition(".")[0]]
    if hasattr(top, "__path__"):
        yield from map(Path, top.__path__)
    elif top.__file__ is not None:
        yield Path(top.__file__).parent


if __name__ == "__main__":
    main(sys.argv[1:])
