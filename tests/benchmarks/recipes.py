"""The same work as recipes, for `tenure worker --import`."""

from __future__ import annotations

from tenure import Run, recipe, task
from tests.benchmarks import bodies

alone = task(bodies.alone)
step = task(bodies.step)
root = task(bodies.root)
leaf = task(bodies.leaf)
join = task(bodies.join)


@recipe
def single(run: Run, index: int) -> dict[str, int]:
    return run.call(alone, index)


@recipe
def chain(run: Run, base: int, length: int) -> dict[str, int]:
    reached = {"base": base, "step": 0}
    for _ in range(length):
        reached = run.call(step, reached)
    return reached


@recipe
def fan(run: Run, base: int, width: int) -> dict[str, int]:
    begun = run.call(root, base)
    leaves = run.map(leaf, [{**begun, "number": number} for number in range(width)])
    return run.call(join, base, leaves)
