"""Tests of ICRC and solver, which compare them with scapy."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from alfirk_ptf import icrc
from alfirk_ptf.group import Group, Member, Path
from alfirk_ptf.packets import SEND_ONLY, WRITE_ONLY, Roce, bridge_entry, bridge_exit, reth

_H1 = Member("02:00:00:00:00:01", "10.0.0.1", 0x11)
_H2 = Member("02:00:00:00:00:02", "10.3.1.2", 0xABCDEF, va=0x7F00_0000_0000, r_key=0x1234_5678)
_GROUP = Group("10.255.0.7", 6, (Path(1, _H1), Path(2, _H2)), va=0x1_0000_0000, r_key=0x99)
_PAYLOADS = [0, 4, 64, 1000, 1024, 4096]


@pytest.mark.parametrize("length", _PAYLOADS)
def icrc_equals_that_of_scapy(length: int) -> None:
    frame = Roce(body=random.Random(length).randbytes(length), tos=3, ttl=9, becn=1).frame()
    assert icrc.is_icrc_valid(frame[14:])
    assert not icrc.is_icrc_valid(frame[14:-1] + bytes([frame[-1] ^ 1]))


@pytest.mark.parametrize("opcode", [SEND_ONLY, WRITE_ONLY])
@pytest.mark.parametrize("length", _PAYLOADS)
def bridge_keeps_the_icrc(opcode: int, length: int) -> None:
    source = random.Random(opcode << 16 | length)
    body = source.randbytes(length)
    if opcode == WRITE_ONLY:
        body = reth(_GROUP.va + 0x1230, _GROUP.r_key, length) + body
    sent = Roce(
        dst=_GROUP.mcst_id,
        opcode=opcode,
        body=body,
        ident=source.randrange(1 << 16),
        sport=source.randrange(0xC000, 1 << 16),
        psn=source.randrange(1 << 24),
    )
    inside = bridge_entry(sent, _GROUP, 1, _H1)
    received = bridge_exit(inside, _GROUP, 2, _H2)
    # scapy computes the ICRC of each packet.
    assert sent.frame()[-4:] == inside.frame()[-4:] == received.frame()[-4:]
    assert (received.src, received.dst, received.dqpn) == (_GROUP.mcst_id, _H2.ip, _H2.qpn)
    if opcode == WRITE_ONLY:
        assert received.body[:12] == (_H2.va + 0x1230).to_bytes(8, "big") + _H2.r_key.to_bytes(4, "big")


def every_free_bit_changes_the_icrc() -> None:
    sent = Roce(body=b"12345678").frame()
    for bit in range(16):
        for field in ({"ident": 0x1234 ^ 1 << bit}, {"sport": 0xC123 ^ 1 << bit}):
            assert replace(Roce(body=b"12345678"), **field).frame()[-4:] != sent[-4:]  # type: ignore[arg-type]


def unchanged_headers_need_no_correction() -> None:
    assert icrc.solve({}) == icrc.Neutral(0, 0)
