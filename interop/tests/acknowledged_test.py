"""Tests the detection of false acknowledgements in captures."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
from alfirk_interop.acknowledged import acknowledgements, false_acknowledgement, first_psn, is_newer

if TYPE_CHECKING:
    from pathlib import Path

_ACK, _NAK, _SELECTIVE, _SEND = 0x1F, 0x60, 0x7F, 0x04


def _frame(opcode: int, psn: int, syndrome: int = 0) -> bytes:
    ip = b"\x45" + bytes(8) + b"\x11" + bytes(10)
    udp = b"\xc0\x00" + (4791).to_bytes(2, "big") + bytes(4)
    bth = bytes([opcode]) + bytes(8) + psn.to_bytes(3, "big")
    return bytes(12) + b"\x08\x00" + ip + udp + bth + bytes([syndrome]) + bytes(3 + 4)


def _capture(file: Path, frames: list[tuple[int, bytes]]) -> Path:
    data = struct.pack("=IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    for time, frame in frames:
        data += struct.pack("=IIII", 0, time, len(frame), len(frame)) + frame
    file.write_bytes(data)
    return file


def _ack_packet(psn: int, syndrome: int) -> bytes:
    return _frame(0x11, psn, syndrome)


def serial_numbers_wrap() -> None:
    assert is_newer(0, 0xFFFFFF)
    assert not is_newer(0xFFFFFF, 0)
    assert not is_newer(7, 7)


def acknowledgements_are_read_and_other_frames_are_not(tmp_path: Path) -> None:
    frames = [_ack_packet(5, _ACK), _frame(_SEND, 3), _ack_packet(6, _NAK)[:61], b"", _ack_packet(0, _NAK)]
    capture = _capture(tmp_path / "a.pcap", list(enumerate(frames)))
    assert [(a.time, a.acknowledged) for a in acknowledgements(capture)] == [(0, 5), (4, 0xFFFFFF)]
    assert first_psn(capture) == 3


@pytest.mark.parametrize(
    ("sent_acks", "found"),
    [
        ([(30, _ack_packet(5, _ACK))], None),
        # A NAK of the next packet acknowledges what all have; a NAK of the first packet acknowledges nothing.
        ([(30, _ack_packet(6, _NAK))], None),
        ([(1, _ack_packet(5, _NAK))], None),
        # Sent before the second receiver's acknowledgement.
        ([(15, _ack_packet(5, _ACK))], "h3"),
        ([(30, _ack_packet(6, _ACK))], "h2"),
        # A NAK with a reserved code also acknowledges the packets before its PSN.
        ([(30, _ack_packet(9, _SELECTIVE))], "h2"),
    ],
)
def acknowledgement_of_what_a_receiver_lacks_is_found(
    tmp_path: Path, sent_acks: list[tuple[int, bytes]], found: str | None
) -> None:
    receivers = {
        "h2": _capture(tmp_path / "h2.pcap", [(10, _ack_packet(5, _ACK))]),
        "h3": _capture(tmp_path / "h3.pcap", [(20, _ack_packet(5, _ACK))]),
    }
    sent = _capture(tmp_path / "in.pcap", [(0, _frame(_SEND, 5))])
    problem = false_acknowledgement(sent, _capture(tmp_path / "out.pcap", sent_acks), receivers)
    assert (problem is None) if found is None else (found in (problem or "")), problem
