"""The invariant CRC of RoCEv2, and the constants that keep it when known header fields change.

Written from the IBTA specification (annex A17.3.3) and linear algebra alone, so that it checks both scapy
and the Rust solver.

A CRC is linear over GF(2) apart from a constant: changing input bits changes the CRC by the exclusive or of
what each changed bit contributes.  A rewrite with a fixed difference therefore changes the CRC's register
by a fixed amount once the headers are through, whatever the payload behind.  The 16-bit identification and
the 16-bit UDP source port can be changed at will and reach every value of the 32-bit register, so there is
exactly one pair of differences for them that brings the register back to where it was.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from functools import cache

#: Bytes of a header-less Ethernet frame that the ICRC covers, from its first byte of ones on.
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
    """Compute the trailer of an IPv4 packet that is given without it."""
    masked = bytearray(packet)
    masked[1] = 0xFF  # TOS
    masked[8] = 0xFF  # TTL
    masked[10:12] = b"\xff\xff"  # header checksum
    masked[26:28] = b"\xff\xff"  # UDP checksum
    masked[32] = 0xFF  # FECN, BECN, reserved
    return struct.pack("<I", zlib.crc32(b"\xff" * _GRH + masked))


def is_icrc_valid(packet: bytes) -> bool:
    """Check the trailer of an IPv4 packet."""
    return icrc(packet[:-4]) == packet[-4:]


@dataclass(frozen=True)
class Neutral:
    """Differences of identification and UDP source port that make up for a rewrite."""

    id_xor: int
    sport_xor: int


def solve(changes: dict[Field, int]) -> Neutral:
    """Find the pair for a rewrite, given as field and difference (old value xor new value)."""
    # The register must be back where the last header that changes ends, since anything may follow.
    with_reth = any(offset >= _RETH for offset, _ in changes)
    length = _PAYLOAD if with_reth else _RETH
    wanted = _register(changes, length)
    bits = 0
    for pivot, (vector, combination) in _basis(length).items():
        if wanted >> pivot & 1:
            wanted ^= vector
            bits ^= combination
    if wanted:
        msg = "identification and source port do not reach every CRC"
        raise ArithmeticError(msg)
    return Neutral(id_xor=bits >> 16, sport_xor=bits & 0xFFFF)


def _register(changes: dict[Field, int], length: int) -> int:
    """Run a difference through the CRC's register from zero, without the final complement: a linear map."""
    stream = bytearray(length)
    for (offset, size), value in changes.items():
        stream[offset : offset + size] = value.to_bytes(size, "big")
    return zlib.crc32(stream, 0xFFFFFFFF) ^ 0xFFFFFFFF


@cache
def _basis(length: int) -> dict[int, tuple[int, int]]:
    """Find, for each bit of the register, free bits that set it and otherwise only bits below it."""
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
