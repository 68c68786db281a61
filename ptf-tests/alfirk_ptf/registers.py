"""Register access by PacketOut and PacketIn: the header `register_control_t` of p4src/shared/headers.p4."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alfirk_ptf.p4runtime import Client

PACKET_OUT_REGISTERS = 1
PACKET_IN_REGISTERS = 1

INIT_GROUP, READ, WRITE = 1, 2, 3
OK, BAD_OP, BAD_REGISTER, OUT_OF_RANGE = 0, 1, 2, 3
AGG, NAK, SRC_PORT, ACK, MSN, FILTER = 1, 2, 3, 4, 5, 6

_FORM = struct.Struct("!BBBBHHQI")


@dataclass(frozen=True)
class Control:
    """One register access, or the answer to it."""

    op: int
    status: int = 0
    reg: int = 0
    count: int = 0
    group: int = 0
    index: int = 0
    value: int = 0
    cookie: int = 0

    def pack(self) -> bytes:
        """Give the header's bytes."""
        return _FORM.pack(
            self.op, self.status, self.reg, self.count, self.group, self.index, self.value, self.cookie
        )

    @staticmethod
    def unpack(data: bytes) -> Control:
        """Read the header's bytes."""
        return Control(*_FORM.unpack(data[: _FORM.size]))


class Registers:
    """The registers of a switch."""

    def __init__(self, switch: Client) -> None:
        self._switch = switch
        self._cookie = 0

    def ask(self, control: Control) -> Control:
        """Send one access and return its answer."""
        self._switch.packet_out(control.pack(), kind=PACKET_OUT_REGISTERS)
        packet = self._switch.packet_in()
        if packet.metadata["reason"] != PACKET_IN_REGISTERS:
            msg = f"another PacketIn came instead of the answer: {packet}"
            raise AssertionError(msg)
        return Control.unpack(packet.payload)

    def read(self, reg: int, group: int, index: int = 0) -> int:
        """Read one register."""
        self._cookie += 1
        control = Control(READ, reg=reg, group=group, index=index, cookie=self._cookie)
        answer = self.ask(control)
        if (answer.status, answer.cookie) != (OK, self._cookie):
            msg = f"{control} was answered by {answer}"
            raise AssertionError(msg)
        return answer.value

    def init_group(self, group: int, paths: int, first_psn: int) -> None:
        """Set all state of a group as before its first packet."""
        self._cookie += 1
        control = Control(INIT_GROUP, count=paths, group=group, value=first_psn, cookie=self._cookie)
        answer = self.ask(control)
        if (answer.status, answer.cookie) != (OK, self._cookie):
            msg = f"{control} was answered by {answer}"
            raise AssertionError(msg)
