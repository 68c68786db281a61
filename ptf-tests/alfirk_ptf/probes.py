"""The probes that `programs/features.p4` processes: frame format and operation numbers."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

PROBE_KIND = 0x88B5
_ETHERNET = struct.Struct("!6s6sH")
_PROBE = struct.Struct("!BBHIII")
_PAYLOAD = b"a payload that is long enough for any Ethernet"


class Op(IntEnum):
    """The operation that a probe requests: OP_* of the program."""

    FORWARD = 0
    EXACT = 1
    LPM = 2
    TERNARY = 3
    RANGE = 4
    OPTIONAL = 5
    PROFILE = 6
    SELECTOR = 7
    METER = 8
    DIRECT_METER = 9
    REGISTER = 10
    DIGEST = 11
    CLONE_INGRESS = 12
    CLONE_EGRESS = 13
    MULTICAST = 14
    RESUBMIT = 15
    RECIRCULATE = 16
    TRUNCATE = 17
    PACKET_IN = 18
    PRIORITY = 19


@dataclass(frozen=True)
class Probe:
    """A frame that requests an operation; the switch writes the result into it."""

    op: Op
    key: int = 0
    other: int = 0
    #: Egress port, for operations that do not get it from a table.
    port: int = 0
    mark: int = 0
    result: int = 0
    kind: int = PROBE_KIND
    source: int = 0x02_00_00_00_00_01
    payload: bytes = _PAYLOAD

    def frame(self) -> bytes:
        """Encode the frame."""
        destination = bytes.fromhex("0200000000ff")
        head = _ETHERNET.pack(destination, self.source.to_bytes(6, "big"), self.kind)
        fields = (self.op, self.mark, self.port, self.key, self.other, self.result)
        return head + _PROBE.pack(*fields) + self.payload

    @staticmethod
    def parse(frame: bytes) -> Probe:
        """Decode a frame."""
        _, source, kind = _ETHERNET.unpack_from(frame)
        op, mark, port, key, other, result = _PROBE.unpack_from(frame, _ETHERNET.size)
        payload = frame[_ETHERNET.size + _PROBE.size :]
        source = int.from_bytes(source, "big")
        return Probe(Op(op), key, other, port, mark, result, kind, source, payload)
