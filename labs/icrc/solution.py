"""Lab "the neutral ICRC": one solution."""

from __future__ import annotations

import zlib

from alfirk_labs.covered import FREE, place


def register(change: bytes) -> int:
    """Return the change of the CRC when these bits of the covered bytes change, for any bytes."""
    return zlib.crc32(change) ^ zlib.crc32(bytes(len(change)))


def columns() -> list[int]:
    """Return the effect of each free bit: the identification's 16 first, the highest bit first in both."""
    return [register(place(field, 1 << bit)) for field in FREE for bit in reversed(range(16))]


def solve(matrix: list[int], wanted: int) -> list[int] | None:
    """Return the indexes of columns whose XOR is `wanted`, or None if there are none."""
    # By highest bit: a value, and the columns whose XOR it is.
    pivots: dict[int, tuple[int, frozenset[int]]] = {}

    def reduce(value: int, chosen: frozenset[int]) -> tuple[int, frozenset[int]]:
        while value and (pivot := value.bit_length()) in pivots:
            value ^= pivots[pivot][0]
            chosen ^= pivots[pivot][1]
        return value, chosen

    for index, column in enumerate(matrix):
        value, chosen = reduce(column, frozenset({index}))
        if value:
            pivots[value.bit_length()] = (value, chosen)
    value, chosen = reduce(wanted, frozenset())
    return None if value else sorted(chosen)


def constants(changes: dict[str, int]) -> tuple[int, int]:
    """Return the values to XOR to identification and source port that compensate changes of other fields."""
    wanted = 0
    for field, difference in changes.items():
        wanted ^= register(place(field, difference))
    chosen = solve(columns(), wanted)
    if chosen is None:
        message = "the free bits cannot compensate this change"
        raise ArithmeticError(message)
    bits = sum(1 << (31 - index) for index in chosen)
    return bits >> 16, bits & 0xFFFF
