"""The contract's numbers against the program's."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

import pytest
from alfirk_ptf import contract
from alfirk_ptf.group import GROUP_BITS
from alfirk_ptf.live import LOCAL_BITS, PATH_BITS
from alfirk_ptf.probes import PROBE_KIND, Op

_SHARED = Path(__file__).parents[2] / "p4src" / "shared"
_FEATURES = Path(__file__).parents[1] / "programs" / "features.p4"


def _constants(source: Path = _SHARED / "constants.p4") -> dict[str, int]:
    text = source.read_text()
    found = re.findall(r"^const \S+ (\w+) = (0[xb]\w+|\d+);", text, re.MULTILINE)
    return {name: int(value, 0) for name, value in found}


@pytest.mark.parametrize(
    ("prefix", "numbers"),
    [
        ("MIN_PSN_", contract.MinPsn),
        ("ICRC_", contract.IcrcMode),
        ("DROP_", contract.Drop),
        ("WORK_", contract.Work),
        ("PACKET_OUT_", contract.PacketOutKind),
        ("PACKET_IN_", contract.PacketInReason),
    ],
)
def numbers_are_the_programs(prefix: str, numbers: type[IntEnum]) -> None:
    wanted = {name: value for name, value in _constants().items() if name.startswith(prefix)}
    wanted.pop("DROP_NONE", None)
    assert {f"{prefix}{number.name}": number.value for number in numbers} == wanted


def addresses_and_keys_are_the_programs() -> None:
    constants = _constants()
    assert constants["VIRTUAL_MAC"] == int(contract.VIRTUAL_MAC.replace(":", ""), 16)
    assert constants["MR_INFO_RKEY"] == contract.MR_INFO_RKEY
    sizes = (_SHARED / "sizes.p4").read_text()
    assert f"#define PATH_BITS {PATH_BITS}\n" in sizes
    assert f"#define GROUP_BITS {GROUP_BITS}\n" in sizes
    assert f"#define LOCAL_BITS {LOCAL_BITS}\n" in sizes


def probes_are_the_programs() -> None:
    constants = _constants(_FEATURES)
    ops = {name: value for name, value in constants.items() if name.startswith("OP_")}
    assert {f"OP_{op.name}": op.value for op in Op} == ops
    assert constants["PROBE"] == PROBE_KIND
