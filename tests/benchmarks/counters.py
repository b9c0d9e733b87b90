"""What the server has counted and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Counters:
    """Commands include those that scripts call; reads are close to round trips."""

    scripts: float
    script_us: float
    commands: float
    reads: float

    @classmethod
    def of(cls, server: Any) -> Self:
        info = {**server.info("commandstats"), **server.info("stats")}
        evalsha = info.get("cmdstat_evalsha", {"calls": 0, "usec": 0})
        return cls(
            scripts=evalsha["calls"],
            script_us=evalsha["usec"],
            commands=info["total_commands_processed"],
            reads=info["total_reads_processed"],
        )

    def per(self, count: int, *, since: Counters) -> Counters:
        """What came between the two, without what asking takes, for each of `count`."""
        return Counters(
            scripts=(self.scripts - since.scripts) / count,
            script_us=(self.script_us - since.script_us) / count,
            commands=(self.commands - since.commands - 2) / count,
            reads=(self.reads - since.reads - 2) / count,
        )


def kept_bytes(server: Any, *, without: str | None = None) -> int:
    """Memory that data takes, without buffers of clients and without one key of bounded size."""
    info = server.info("memory")
    used = info["used_memory"] - info["mem_clients_normal"] - info["mem_aof_buffer"]
    return int(used - (server.memory_usage(without, samples=0) or 0 if without else 0))
