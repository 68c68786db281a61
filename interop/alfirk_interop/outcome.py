"""The outcome of a run: its report, its output, and its captures."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alfirk_mininet.interfaces import switch_interface

if TYPE_CHECKING:
    from alfirk_mininet.topology import Topology

#: Payload bytes of a data packet on links with an MTU of 4,200 bytes.
PATH_MTU = 4096
_DATA = ("Send", "Write")


@dataclass
class Outcome:
    """A completed run."""

    code: int
    errors: str
    report: dict[str, Any]
    topology: Topology
    alfirk: Path
    pcaps: Path
    guests: list[str]
    #: Hosts that send malformed packets on purpose.
    hostile: frozenset[str] = frozenset()
    _checked: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    @property
    def row(self) -> dict[str, Any]:
        """The first result; empty if there is none."""
        results: list[dict[str, Any]] = self.report.get("results", [])
        return results[0] if results else {}

    @property
    def source(self) -> str:
        """The source of the transfer."""
        return str(self.report.get("group", {}).get("source", "h1"))

    @property
    def packets_of_message(self) -> int:
        """Number of packets of the message."""
        size: int = self.report.get("input", {}).get("size", 0)
        return max(1, math.ceil(size / PATH_MTU))

    def data_from(self, host: str) -> int:
        """Count the data packets sent by a host."""
        opcodes: dict[str, int] = self.captures(host, "in")["opcodes"]
        return sum(count for name, count in opcodes.items() if name.startswith(_DATA))

    def opcode_from(self, host: str, name: str) -> int:
        """Count the packets of an opcode sent by a host."""
        return int(self.captures(host, "in")["opcodes"].get(name, 0))

    def opcode_to(self, host: str, name: str) -> int:
        """Count the packets of an opcode sent to a host."""
        return int(self.captures(host, "out")["opcodes"].get(name, 0))

    def naks_from(self, host: str) -> int:
        """Count the NAKs sent by a host."""
        return int(self.captures(host, "in")["naks"])

    def rnr_naks_from(self, host: str) -> int:
        """Count the RNR NAKs sent by a host."""
        return int(self.captures(host, "in")["rnr_naks"])

    def capture(self, host: str, way: str) -> Path:
        """Return the path of the capture of a host's port."""
        return self.pcaps / f"{self._port(host)}_{way}.pcap"

    def captures(self, host: str, way: str) -> dict[str, Any]:
        """Check the capture of a host's port: packets ``in`` from the host, or ``out`` to it."""
        if (host, way) not in self._checked:
            file = self.capture(host, way)
            command = [str(self.alfirk), "check-pcap", "--json", str(file)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if not done.stdout:
                nothing = dict.fromkeys(("frames", "roce", "bad_icrc", "naks", "rnr_naks"), 0)
                return {**nothing, "opcodes": {}, "bad": [done.stderr]}
            self._checked[host, way] = json.loads(done.stdout)[str(file)]
        return self._checked[host, way]

    def bad_packets(self) -> str | None:
        """Describe invalid packets to or from guests, or report that there were no packets at all."""
        seen = 0
        for host in self.guests:
            for way in ("in", "out"):
                found = self.captures(host, way)
                sends_bad = way == "in" and host in self.hostile
                if found["bad"] and not sends_bad:
                    return f"{host}, {way}: {'; '.join(found['bad'])}"
                seen += found["roce"]
        return None if seen else "no RoCEv2 packet to or from a guest was captured"

    def _port(self, host: str) -> str:
        for link in self.topology.links:
            for end, other in ((link.a, link.b), (link.b, link.a)):
                if end.node == host and other.port is not None:
                    switch = next(s for s in self.topology.switches if s.name == other.node)
                    return switch_interface(switch.name, switch.device_id, other.port)
        message = f"the topology has no host {host}"
        raise KeyError(message)
