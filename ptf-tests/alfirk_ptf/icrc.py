"""The invariant CRC of RoCEv2, and the constants that keep it when known header fields change.

Written from the IBTA specification (annex A17.3.3), independently of scapy and of the Rust solver, so that it
checks both.

A CRC is linear over GF(2) apart from a constant: changing input bits changes the CRC by the exclusive or of
the contributions of all changed bits.  A rewrite with a fixed difference therefore changes the CRC's register
after the headers by a fixed amount, for any payload.  The 16-bit identification and the 16-bit UDP source
port may have any value, and together they reach every value of the 32-bit register.  So there is exactly one
pair of differences for them that restores the register.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import cache

#: Offsets in the input of the ICRC, which begins with eight bytes of ones instead of a GRH.
_GRH = 8
_IPV4, _UDP, _BTH, _RETH = _GRH, _GRH + 20, _GRH + 28, _GRH + 40
_PAYLOAD = _RETH + 16

IDENTIFICATION = (_IPV4 + 4, 2)
SOURCE_ADDRESS = (_IPV4 + 12, 4)
DESTINATION_ADDRESS = (_IPV4 + 16, 4)
SOURCE_PORT = (_UDP, 2)
DESTINATION_QP = (_BTH + 5, 3)
VIRTUAL_ADDRESS = (_RETH, 8)
R_KEY = (_RETH + 8, 4)

Field = tuple[int, int]


def icrc(packet: bytes) -> bytes:
    """Compute the ICRC of an IPv4 packet, which is given without it."""
    masked = bytearray(packet)
    masked[1] = 0xFF  # TOS
    masked[8] = 0xFF  # TTL
    masked[10:12] = b"\xff\xff"  # header checksum
    masked[26:28] = b"\xff\xff"  # UDP checksum
    masked[32] = 0xFF  # FECN, BECN, reserved
    return struct.pack("<I", zlib.crc32(b"\xff" * _GRH + masked))


def is_icrc_valid(packet: bytes) -> bool:
    """Return whether the ICRC at the end of an IPv4 packet is valid."""
    return icrc(packet[:-4]) == packet[-4:]


@dataclass(frozen=True)
class Neutral:
    """Differences of identification and UDP source port that compensate a rewrite."""

    id_xor: int
    sport_xor: int


def solve(changes: dict[Field, int]) -> Neutral:
    """Find the differences for a rewrite, which is given as field and old value xor new value."""
    # The register must be restored at the end of the last changed header, because any bytes may follow.
    with_reth = any(offset >= _RETH for offset, _ in changes)
    length = _PAYLOAD if with_reth else _RETH
    wanted = _register(changes, length)
    bits = 0
    for pivot, (vector, combination) in _basis(length).items():
        if wanted >> pivot & 1:
            wanted ^= vector
            bits ^= combination
    if wanted:
        msg = "identification and source port do not reach every value of the CRC"
        raise ArithmeticError(msg)
    return Neutral(id_xor=bits >> 16, sport_xor=bits & 0xFFFF)


def _register(changes: dict[Field, int], length: int) -> int:
    """Compute the CRC of a difference, with initial value zero and no final complement: a linear map."""
    stream = bytearray(length)
    for (offset, size), value in changes.items():
        stream[offset : offset + size] = value.to_bytes(size, "big")
    return zlib.crc32(stream, 0xFFFFFFFF) ^ 0xFFFFFFFF


@cache
def _basis(length: int) -> dict[int, tuple[int, int]]:
    """Find, for each bit of the register, bits of the free fields whose sum has it as highest bit."""
    basis: dict[int, tuple[int, int]] = {}
    for bit in range(32):
        field, value = (IDENTIFICATION, 1 << (bit - 16)) if bit >= 16 else (SOURCE_PORT, 1 << bit)
        vector, combination = _register({field: value}, length), 1 << bit
        for pivot in sorted(basis, reverse=True):
            if vector >> pivot & 1:
                vector ^= basis[pivot][0]
                combination ^= basis[pivot][1]
        if vector:
            basis[vector.bit_length() - 1] = (vector, combination)
    return dict(sorted(basis.items(), reverse=True))
