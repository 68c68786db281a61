"""The entries and frames of ``bmv2/benches/peers.rs``, for other switches."""

from __future__ import annotations

import struct

_MASK = 0xFFFFFFFF
#: Destination address of routed frames.
HOP_MAC = bytes((2, 0, 0, 0, 0, 9))
#: Destination addresses that are multicast: value and length of the prefix.
GROUP_PREFIX = (0x0A000000, 8)


def scattered(number: int) -> int:
    """Map numbers one-to-one to numbers spread over 32 bits, as the benchmark does."""
    return number * 0x9E3779B1 & _MASK


def prefix(index: int, prefixes: int) -> tuple[int, int]:
    """Return value and length of a prefix, as the benchmark does."""
    if prefixes <= 1000:
        value, length = 0x0A000000 | index << 12, 16 + 4 * (index % 5)
    else:
        value, length = scattered(index), (24, 24, 24, 22, 20)[index % 5]
    return value >> (32 - length) << (32 - length), length


def frame(address: int) -> bytes:
    """Return a frame of 64 bytes to an IPv4 address."""
    fields = (0x45, 0, 50, 0x1234, 0x4000, 64, 17, 0, 0x0B000001, address)
    header = bytearray(struct.pack(">BBHHHBBHII", *fields))
    header[10:12] = struct.pack(">H", checksum(bytes(header)))
    return bytes((2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0)) + bytes(header) + bytes(30)


def port_of(index: int) -> int:
    """Return the port of a prefix."""
    return index % 200


def routed_frames(prefixes: int) -> list[bytes]:
    """Return the frames of the benchmark, which are spread over the prefixes."""
    count = min(max(prefixes // 10, 1_000), 10_000)
    numbers = (scattered(index) * prefixes >> 32 for index in range(count))
    return [frame(prefix(number, prefixes)[0] | 1) for number in numbers]


def multicast_frames() -> list[bytes]:
    """Return the multicast frames of the benchmark."""
    return [frame(GROUP_PREFIX[0] | index) for index in range(1000)]


def replicas(receivers: int) -> list[tuple[bytes, bytes, bytes]]:
    """Return source MAC, destination MAC and IPv4 address of each copy of a multicast frame."""
    return [
        (bytes((2, 0, 0, 0, 0, n)), bytes((2, 0, 0, 0, 1, n)), bytes((10, 0, 0, n)))
        for n in range(1, receivers + 1)
    ]


def checksum(header: bytes) -> int:
    """Return the checksum of an IPv4 header, of which the checksum is zero."""
    total: int = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF


def sent(frame: bytes, dst_mac: bytes, src_mac: bytes, address: bytes) -> bytes:
    """Return a received frame as it is sent: new addresses, a smaller TTL, and a new checksum."""
    header = bytearray(frame[14:34])
    header[8] -= 1
    header[10:12] = bytes(2)
    header[16:20] = address
    header[10:12] = struct.pack(">H", checksum(bytes(header)))
    return dst_mac + src_mac + frame[12:14] + bytes(header) + frame[34:]


def routed(frame: bytes) -> bytes:
    """Return a received frame as every router of the benchmark sends it."""
    return sent(frame, HOP_MAC, frame[:6], frame[30:34])


def replicated(frame: bytes, addresses: tuple[bytes, bytes, bytes]) -> bytes:
    """Return a copy of a received multicast frame with the addresses of a replica."""
    src_mac, dst_mac, address = addresses
    return sent(frame, dst_mac, src_mac, address)
