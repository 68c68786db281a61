"""Quantities with units: ``100Gbps``, ``500ns``, ``1MiB``.

The same rules as the Rust side (``ctrl/src/topology/units.rs``): exact, no floating point; a quantity that
is not a whole number of base units is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction


class UnitError(ValueError):
    """A quantity that cannot be read."""


@dataclass(frozen=True)
class Quantity:
    """One kind of quantity: its units, each with its size in base units."""

    what: str
    example: str
    units: dict[str, int]

    def parse(self, text: str) -> int:
        """Read a quantity, giving base units."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(.*)", text.strip(), re.ASCII)
        if match is None:
            msg = f"`{text}` is not a {self.what}; write a number and a unit, as {self.example}"
            raise UnitError(msg)
        number, unit = match.groups()
        if unit not in self.units:
            found = f"the unit `{unit}`, unknown" if unit else "no unit"
            msg = f"`{text}` has {found} for a {self.what}; units are {', '.join(self.units)}"
            raise UnitError(msg)
        value = Fraction(number) * self.units[unit]
        if value.denominator != 1 or value >= 1 << 64:
            msg = f"`{text}` is not a whole number of {next(iter(self.units))} below 2^64"
            raise UnitError(msg)
        return int(value)


#: Bits per second.
RATE = Quantity(
    "rate",
    "100Gbps",
    {"bps": 1, "kbps": 10**3, "Mbps": 10**6, "Gbps": 10**9, "Tbps": 10**12},
)
#: Nanoseconds.
DELAY = Quantity("delay", "500ns", {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9})
#: Bytes.
SIZE = Quantity(
    "size",
    "1MiB",
    {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "kB": 10**3, "MB": 10**6, "GB": 10**9},
)
