"""Words of text files, and the lines of an index: what the durable job and the plain check both build on.

An index is text, sorted by word, one word a line: `word<TAB>file:line,line file:line`. Files are known by
their number in the listing. Two indexes of the same files are the same bytes.
"""

from __future__ import annotations

import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_NOT_SEARCHED: Final = frozenset({"__pycache__", "site-packages", "node_modules", ".git"})
_LOOKED_AT_BYTES: Final = 8192


@dataclass(slots=True)
class Listing:
    """The text files of a folder: their paths from there, and sizes. A file's number is its place here."""

    files: list[tuple[str, int]] = field(default_factory=list)
    skipped: int = 0
    is_complete: bool = True


def list_files(folder: Path, limit_bytes: int) -> Listing:
    """List the text files below `folder` in a fixed order, up to a limit of what indexing them costs.

    Links are not followed, so that nothing is counted twice and no loop is walked; caches and installed
    packages are not looked into.
    """
    listing = Listing()
    for path, size in _regular_files(folder):
        if not _looks_like_text(path):
            listing.skipped += 1
            continue
        limit_bytes -= cost_bytes(size)
        if limit_bytes < 0:
            listing.is_complete = False
            break
        listing.files.append((str(path.relative_to(folder)), size))
    return listing


def cost_bytes(size: int) -> int:
    """What indexing a file of this size costs: opening one takes about as long as reading 2 KiB."""
    return size + 2048


def read_text(path: Path) -> str | None:
    """The text of a file, whatever its encoding; None if it cannot be read."""
    try:
        return path.read_bytes().decode(errors="replace")
    except OSError:
        return None


def lines_of_words(text: str) -> dict[str, list[int]]:
    """Where each word occurs: line numbers from 1, one for every occurrence."""
    found: dict[str, list[int]] = {}
    for number, line in enumerate(unicodedata.normalize("NFKC", text).casefold().split("\n"), 1):
        for word in _WORD.findall(line):
            found.setdefault(word, []).append(number)
    return found


def add_file(index: dict[str, list[str]], file: int, text: str) -> None:
    """Add the words of one file. Files must come in the order of their numbers."""
    for word, lines in lines_of_words(text).items():
        index.setdefault(word, []).append(f"{file}:{','.join(map(str, lines))}")


def index_lines(index: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """The index as text, line by line."""
    for word in sorted(index):
        yield f"{word}\t{' '.join(index[word])}\n"


def _regular_files(folder: Path) -> Iterator[tuple[Path, int]]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_SEARCHED)
        for name in sorted(names):
            path = Path(where, name)
            try:
                status = path.lstat()
            except OSError:  # it has just been removed
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, status.st_size


def _looks_like_text(path: Path) -> bool:
    """By the rule that git has: no zero byte near the beginning. What cannot be read does not."""
    try:
        with path.open("rb") as file:
            return b"\0" not in file.read(_LOOKED_AT_BYTES)
    except OSError:
        return False
