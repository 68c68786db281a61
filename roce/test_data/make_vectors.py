#!/usr/bin/env python3
"""Write icrc_vectors.json: RoCEv2 packets whose ICRC Scapy computed.

Run it in an environment that has Scapy (the committed file was made with Scapy 2.8.0):

    python3 make_vectors.py > icrc_vectors.json
"""

import json
import random
import struct
import sys

import scapy
from scapy.contrib.roce import AETH, BTH, CNPPadding
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

ROCE_PORT = 4791


def packet(rng: random.Random, opcode: int, extension: bytes, length: int) -> IP:
    """A packet with random addresses, identification, ports, flags and payload."""
    pad = -length % 4
    return (
        IP(
            src=f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}",
            dst=f"10.{rng.randrange(256)}.{rng.randrange(256)}.{rng.randrange(1, 255)}",
            id=rng.randrange(1, 65536),
            tos=rng.randrange(256),
            ttl=rng.randrange(1, 256),
            flags="DF",
        )
        / UDP(sport=rng.randrange(0xC000, 0x10000), dport=ROCE_PORT, chksum=0)
        / BTH(
            opcode=opcode,
            padcount=pad,
            dqpn=rng.randrange(1 << 24),
            psn=rng.randrange(1 << 24),
            ackreq=rng.randrange(2),
            fecn=rng.randrange(2),
            becn=rng.randrange(2),
        )
        / Raw(extension + rng.randbytes(length) + bytes(pad))
    )


def main() -> None:
    rng = random.Random(4791)
    made = []

    def add(name: str, layers: IP) -> None:
        made.append({"name": name, "packet": bytes(layers).hex()})

    for length in (0, 1, 3, 4, 64, 255, 256, 1024, 4096):
        add(f"send only, {length} bytes", packet(rng, 0x04, b"", length))
    for length in (1, 256):
        reth = struct.pack(">QII", rng.getrandbits(64), rng.getrandbits(32), length)
        add(f"write only, {length} bytes", packet(rng, 0x0A, reth, length))
        add(f"write only with immediate, {length} bytes", packet(rng, 0x0B, reth + rng.randbytes(4), length))
    add("send middle", packet(rng, 0x01, b"", 256))
    add("send last with immediate", packet(rng, 0x03, rng.randbytes(4), 17))
    base = IP(src="10.0.0.2", dst="10.255.0.1", id=77, flags="DF") / UDP(
        sport=0xC011, dport=ROCE_PORT, chksum=0
    )
    add("acknowledge", base / BTH(opcode=0x11, dqpn=1, psn=0xFFFFFF) / AETH(syndrome=0x1F, msn=3))
    add("nak", base / BTH(opcode=0x11, dqpn=1, psn=5) / AETH(syndrome=0x60, msn=0))
    add("cnp", base / BTH(opcode=0x81, becn=1, dqpn=1) / CNPPadding())
    json.dump(
        {"made_by": f"make_vectors.py, scapy {scapy.__version__}", "vectors": made}, sys.stdout, indent=1
    )
    print()


if __name__ == "__main__":
    main()
