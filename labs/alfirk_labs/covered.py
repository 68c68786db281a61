"""The bytes that the ICRC covers, up to the end of the BTH, and the offsets of fields in them."""

from __future__ import annotations

from alfirk_ptf import icrc

#: Eight bytes of ones, IPv4, UDP, BTH.
LENGTH = 48
#: Offset and length of each field, in bytes.
FIELDS = {
    "identification": icrc.IDENTIFICATION,
    "source address": icrc.SOURCE_ADDRESS,
    "destination address": icrc.DESTINATION_ADDRESS,
    "source port": icrc.SOURCE_PORT,
    "destination queue pair": icrc.DESTINATION_QP,
}
#: The two fields that a receiver's queue pair does not check.
FREE = ("identification", "source port")


def place(field: str, difference: int) -> bytes:
    """Return the covered bytes of a change: zero except for the bits that change in a field."""
    offset, size = FIELDS[field]
    changed = bytearray(LENGTH)
    changed[offset : offset + size] = difference.to_bytes(size, "big")
    return bytes(changed)
