"""What several processes print, in one terminal: each line with the name of who wrote it."""

from __future__ import annotations

import threading
from typing import IO, Final

from tenure.cli.output import Cell, print_line

_WIDTH: Final = len("dashboard")
_STYLES: Final = {
    "dev": "bold",
    "code": "bold magenta",
    "scheduler": "cyan",
    "worker": "green",
    "dashboard": "blue",
}


class Lines:
    """Prints whole lines, one at a time."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        #: Set once nobody reads what is printed.
        self.is_closed = False

    def say(self, name: str, text: str) -> None:
        """Print the lines of a text under a name."""
        with self._turn:
            for line in text.splitlines():
                self._print(name, line)

    def follow(self, name: str, pipe: IO[bytes]) -> threading.Thread:
        """Print what comes out of a pipe, until its end; the thread ends then."""
        thread = threading.Thread(target=self._drain, args=(name, pipe), name=f"lines-{name}", daemon=True)
        thread.start()
        return thread

    def _drain(self, name: str, pipe: IO[bytes]) -> None:
        with pipe:
            for line in pipe:
                self.say(name, line.decode(errors="replace").rstrip() or " ")

    def _print(self, name: str, line: str) -> None:
        if self.is_closed:
            return
        try:
            print_line(Cell(f"{name:>{_WIDTH}} | ", _STYLES.get(name, "")), line)
        except BrokenPipeError:
            self.is_closed = True
