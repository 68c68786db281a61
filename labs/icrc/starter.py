"""Lab "the neutral ICRC": the start."""

from __future__ import annotations

import zlib

from alfirk_labs.covered import FREE, place


def register(change: bytes) -> int:
    """Return the change of the CRC when these bits of the covered bytes change, for any bytes."""
    # TODO 1: crc(a XOR d) = crc(a) XOR register(d). What must register(nothing) be?
    return zlib.crc32(change)


def columns() -> list[int]:
    """Return the effect of each free bit: the identification's 16 first, the highest bit first in both."""
    # TODO 2: all 16 bits of both fields.
    return [register(place(field, 1 << 15)) for field in FREE]


def solve(matrix: list[int], wanted: int) -> list[int] | None:
    """Return the indexes of columns whose XOR is `wanted`, or None if there are none."""
    # TODO 3: Gaussian elimination; a row is a bit, XOR is the sum.
    return [index for index, column in enumerate(matrix) if column == wanted] or None


def constants(changes: dict[str, int]) -> tuple[int, int]:
    """Return the values to XOR to identification and source port that compensate changes of other fields."""
    # TODO 4: what is the effect of all changes on the CRC, and which free bits compensate it?
    return 0 * len(changes), 0
