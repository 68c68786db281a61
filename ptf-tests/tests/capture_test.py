"""Checks IPv4 checksum and ICRC of every packet that hosts receive in a run, with scapy."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from alfirk_mininet.topology import Topology
from alfirk_ptf.icrc import is_icrc_valid
from alfirk_ptf.packets import ACKNOWLEDGE
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path(__file__).parents[2]
_ALFIRK = Path(os.environ.get("ALFIRK", _ROOT / "target" / "release" / "alfirk"))
_GROUP_RANGE = "10.255."


@dataclass
class _Seen:
    """Counts of the packets in a capture, and descriptions of invalid ones."""

    received: int = 0
    of_group: int = 0
    acknowledgements: int = 0
    wrong: list[str] = field(default_factory=list)


def _alfirk_run(topology: str, captures: Path, *flags: str) -> None:
    if not _ALFIRK.exists():
        pytest.fail(f"there is no {_ALFIRK}: run `make build`, or set ALFIRK")
    file = _ROOT / "topologies" / f"{topology}.yaml"
    command = [str(_ALFIRK), "run", "--topology", str(file), "--pcap", str(captures), *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def _frames(file: Path) -> Iterator[bytes]:
    with RawPcapReader(str(file)) as reader:
        for frame, _ in reader:
            yield frame


def _examine(file: Path, mac: str) -> _Seen:
    """Check each packet for this host with scapy and with `alfirk_ptf.icrc`."""
    seen = _Seen()
    for number, frame in enumerate(_frames(file)):
        packet = Ether(frame)
        if packet.dst != mac or BTH not in packet:
            continue
        seen.received += 1
        seen.of_group += packet[IP].src.startswith(_GROUP_RANGE)
        seen.acknowledgements += packet[BTH].opcode == ACKNOWLEDGE
        # scapy computes the deleted fields again.
        computed = packet.copy()
        del computed[IP].chksum
        computed[BTH].icrc = None
        if bytes(computed) != frame or not is_icrc_valid(frame[14:]):
            seen.wrong.append(f"{file.name}, packet {number}: {packet.summary()}: {frame.hex()}")
    return seen


def _examine_all(captures: Path, topology: str, algorithm: str) -> dict[str, _Seen]:
    hosts = Topology.load(_ROOT / "topologies" / f"{topology}.yaml", _ALFIRK).hosts
    seen = {host.name: _examine(captures / f"{algorithm}-{host.name}.pcap", host.mac) for host in hosts}
    assert not [line for one in seen.values() for line in one.wrong]
    return seen


@pytest.mark.parametrize("op", ["send", "write", "write-imm"])
def every_copy_and_ack_has_valid_checksums(tmp_path: Path, op: str) -> None:
    _alfirk_run("testbed", tmp_path, "--algorithms", "alfirk", "--size", "300000B", "--op", op)
    seen = _examine_all(tmp_path, "testbed", "alfirk")
    # A packet has at most 4,096 bytes, so each receiver gets at least 74 from the group's address.
    for host in ("h2", "h3", "h4"):
        assert seen[host].of_group >= 74
    assert seen["h1"].acknowledgements > 0
    assert seen["h1"].of_group == seen["h1"].received


def packets_are_valid_under_loss(tmp_path: Path) -> None:
    flags = ("--algorithms", "alfirk,chain", "--size", "200000B", "--loss", "0.02", "--seed", "5")
    _alfirk_run("fat-tree-k4", tmp_path, *flags)
    seen = _examine_all(tmp_path, "fat-tree-k4", "alfirk")
    assert all(one.received for one in seen.values())
    assert all(one.received for one in _examine_all(tmp_path, "fat-tree-k4", "chain").values())
