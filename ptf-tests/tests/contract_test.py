"""Compares the constants of `alfirk_ptf/probes.py` with those of `programs/features.p4`."""

from __future__ import annotations

import re
from pathlib import Path

from alfirk_ptf.probes import PROBE_KIND, Op

_FEATURES = Path(__file__).parents[1] / "programs" / "features.p4"


def _constants(source: Path) -> dict[str, int]:
    text = source.read_text()
    found = re.findall(r"^const \S+ (\w+) = (0[xb]\w+|\d+);", text, re.MULTILINE)
    return {name: int(value, 0) for name, value in found}


def probe_constants_equal_those_of_the_program() -> None:
    constants = _constants(_FEATURES)
    ops = {name: value for name, value in constants.items() if name.startswith("OP_")}
    assert {f"OP_{op.name}": op.value for op in Op} == ops
    assert constants["PROBE"] == PROBE_KIND
