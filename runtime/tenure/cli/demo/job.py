"""An inverted index of a folder as durable work: list, map over batches, merge, report.

This is application code. Like any application it keeps what is large in files and returns references to
them: results are for the store, which takes a megabyte at most.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from tenure import Needs, Run, TaskContext, recipe, task
from tenure.cli.demo.ledger import entered
from tenure.cli.demo.words import Listing, add_file, cost_bytes, index_lines, list_files, read_text

MAP_TASK: Final = "index_batch"
MERGE_TASK: Final = "merge"

_BATCHES: Final = 64
_SMALLEST_BATCH_BYTES: Final = 64 * 1024
_TOP: Final = 8


class Place(BaseModel):
    """The folder to index, and where work in progress is kept."""

    folder: Path
    workspace: Path
    limit_bytes: int

    @property
    def ledger(self) -> Path:
        return self.workspace / "ledger"

    @property
    def listing(self) -> Path:
        return self.workspace / "files.json"

    def read_listing(self) -> Listing:
        return Listing(**json.loads(self.listing.read_bytes()))


class Batch(BaseModel):
    """A piece of the listing."""

    number: int
    first: int
    end: int


class Part(BaseModel):
    """A reference to the index of some files, with what proves that it is whole."""

    path: Path
    sha256: str
    files: int
    skipped: int


class WordCount(BaseModel):
    """How often a word occurs."""

    word: str
    files: int
    occurrences: int


class Report(BaseModel):
    """What the index is like."""

    files: int
    skipped: int
    is_complete: bool
    words: int
    occurrences: int
    top: list[WordCount]
    largest_file: str
    largest_bytes: int
    sha256: str


@task
def list_batches(place: Place, ctx: TaskContext) -> list[Batch]:
    """Write the listing, and cut it into batches of about the same size."""
    with entered(place.ledger, ctx):
        listing = list_files(place.folder, place.limit_bytes)
        # JSON in ASCII keeps names that are not valid Unicode.
        _write(place.listing, [json.dumps(asdict(listing)).encode()], ctx)
        return cut([size for _, size in listing.files])


# The large machines are kept for what needs them, so this asks for a small one by its label.
@task(name=MAP_TASK, needs=Needs(cpu="1", label={"size": "small"}))
def index_batch(batch: Batch, place: Place, ctx: TaskContext) -> Part:
    """Index the files of one batch into a file of their own."""
    with entered(place.ledger, ctx):
        index: dict[str, list[str]] = {}
        files = place.read_listing().files[batch.first : batch.end]
        read = 0
        for number, (name, _) in enumerate(files, batch.first):
            text = read_text(place.folder / name)
            if text is not None:
                read += 1
                add_file(index, number, text)
            ctx.progress(number + 1 - batch.first, len(files), "files")
        packed = lzma.compress("".join(index_lines(index)).encode())
        path = place.workspace / f"part-{batch.number:03d}.xz"
        return Part(path=path, sha256=_write(path, [packed], ctx), files=read, skipped=len(files) - read)


# All parts are held in memory at once.
@task(name=MERGE_TASK, needs=Needs(memory="2Gi"))
def merge(parts: list[Part], place: Place, ctx: TaskContext) -> Part:
    """Merge the parts, which are in the order of their files, into one index."""
    with entered(place.ledger, ctx):
        index: dict[str, list[str]] = {}
        for number, part in enumerate(parts, 1):
            for line in _unpack(part).splitlines():
                word, _, places = line.partition("\t")
                index.setdefault(word, []).append(places)
            ctx.progress(number, len(parts), "parts")
        path = place.workspace / "index.txt"
        return Part(
            path=path,
            sha256=_write(path, (line.encode() for line in index_lines(index)), ctx),
            files=sum(part.files for part in parts),
            skipped=sum(part.skipped for part in parts),
        )


@task
def report(index: Part, place: Place, ctx: TaskContext) -> Report:
    """Say what the index is like."""
    with entered(place.ledger, ctx):
        counts: list[WordCount] = []
        with index.path.open(encoding="utf-8") as lines:
            for line in lines:
                word, _, places = line.partition("\t")
                files = places.count(":")
                counts.append(WordCount(word=word, files=files, occurrences=files + places.count(",")))
        listing = place.read_listing()
        largest, size = max(listing.files, key=lambda file: file[1], default=("", 0))
        return Report(
            files=index.files,
            skipped=index.skipped + listing.skipped,
            is_complete=listing.is_complete,
            words=len(counts),
            occurrences=sum(count.occurrences for count in counts),
            top=sorted(counts, key=lambda count: (-count.occurrences, count.word))[:_TOP],
            largest_file=largest.encode(errors="replace").decode(),
            largest_bytes=size,
            sha256=index.sha256,
        )


@recipe(name="index_folder", version="1")
def index_folder(run: Run, place: Place) -> Report:
    """Build the index of a folder, and report on it."""
    batches = run.call(list_batches, place)
    parts = run.map(index_batch, batches, place=place)
    index = run.call(merge, parts, place)
    return run.call(report, index, place)


def cut(sizes: Sequence[int]) -> list[Batch]:
    """Cut a listing, of which only the files' sizes matter, into batches: enough to share out, none tiny."""
    costs = [cost_bytes(size) for size in sizes]
    wanted = max(sum(costs) / _BATCHES, _SMALLEST_BATCH_BYTES)
    batches: list[Batch] = []
    first, cost = 0, 0
    for number, own in enumerate(costs, 1):
        cost += own
        if cost >= wanted or number == len(costs):
            batches.append(Batch(number=len(batches), first=first, end=number))
            first, cost = number, 0
    return batches


def _write(path: Path, chunks: Iterable[bytes], ctx: TaskContext) -> str:
    """Write a file whole or not at all; returns its SHA-256.

    The draft's name has the fencing token, so two runs of one task never write to the same draft.
    """
    digest = hashlib.sha256()
    draft = path.with_name(f"{path.name}.{ctx.fencing_token}")
    with draft.open("wb") as file:
        for chunk in chunks:
            digest.update(chunk)
            file.write(chunk)
    draft.replace(path)
    return digest.hexdigest()


def _unpack(part: Part) -> str:
    packed = part.path.read_bytes()
    if hashlib.sha256(packed).hexdigest() != part.sha256:
        raise ValueError(f"{part.path} is not what was recorded")
    return lzma.decompress(packed).decode()
