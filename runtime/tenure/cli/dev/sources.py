"""The source files of an application, and whether they have changed: by looking at them now and then."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

#: Folders that hold no source of the application, and many files.
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})

State = dict[Path, tuple[int, int]]


class Sources:
    """The Python files below some folders, as they were when last looked at."""

    def __init__(self, roots: Sequence[Path]) -> None:
        self._roots = roots
        self._state = self._look()

    def watch(self, roots: Sequence[Path]) -> None:
        """Look below these folders from now on."""
        if roots != self._roots:
            self._roots = roots
            self._state = self._look()

    def changed(self) -> list[Path]:
        """Files that were written, made or removed since the last look."""
        before, self._state = self._state, self._look()
        return sorted(
            path for path in before.keys() | self._state.keys() if before.get(path) != self._state.get(path)
        )

    def _look(self) -> State:
        found: State = {}
        for path in self._files():
            try:
                status = path.stat()
            except OSError:  # removed a moment ago, or a dangling link
                continue
            found[path] = (status.st_mtime_ns, status.st_size)
        return found

    def _files(self) -> Iterator[Path]:
        for root in self._roots:
            for folder, names, files in os.walk(root):
                names[:] = [name for name in names if not _is_skipped(Path(folder, name))]
                yield from (Path(folder, file) for file in files if file.endswith(".py"))


def _is_skipped(folder: Path) -> bool:
    is_environment = (folder / "pyvenv.cfg").exists()
    return folder.name.startswith(".") or folder.name in _SKIPPED or is_environment
