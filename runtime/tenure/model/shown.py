"""A value that was refused, as its error message shows it: never too long, and never an error itself.

What is refused may be anything, read from a store or given by a caller: a list nested deeper than `repr` can
follow, or an integer with more digits than Python writes.
"""

from __future__ import annotations

import reprlib
from typing import Final


class _Shown(reprlib.Repr):
    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 200
        self.maxlevel = 3

    def repr_int(self, x: int, level: int) -> str:
        try:
            return super().repr_int(x, level)
        except ValueError:
            return f"<an integer of {x.bit_length()} bits>"


shown: Final = _Shown().repr
