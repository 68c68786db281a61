"""Register access by PacketOut and PacketIn: the header `register_control_t` of p4src/shared/headers.p4."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alfirk_ptf.contract import (
    PacketInReason,
    PacketOutKind,
    RegisterControl,
    RegisterName,
    RegisterOp,
    RegisterStatus,
)
from alfirk_ptf.target import only_v1model

if TYPE_CHECKING:
    from alfirk_ptf.p4runtime import Client, PacketIn

INIT_GROUP, READ, WRITE, INIT_REGIONS = RegisterOp
OK, BAD_OP, BAD_REGISTER, OUT_OF_RANGE = RegisterStatus
AGG, NAK, SRC_PORT, ACK, MSN, FILTER, REGION_VA, REGION_KEYS, REGION_ANNOUNCED_AT, SENT, CLAIMED = (
    RegisterName
)


class Registers:
    """The registers of a switch; frames for the controller arrive on the same channel."""

    def __init__(self, switch: Client) -> None:
        self._switch = switch
        self._cookie = 0
        self._punted: list[PacketIn] = []

    def execute(self, control: RegisterControl) -> RegisterControl:
        """Send one access and return the reply."""
        self._switch.packet_out(control.pack(), kind=PacketOutKind.REGISTERS)
        while (packet := self._switch.packet_in()).metadata["reason"] != PacketInReason.REGISTERS:
            self._punted.append(packet)
        return RegisterControl.unpack(packet.payload)

    def read(self, reg: int, group: int, index: int = 0) -> int:
        """Read one register."""
        only_v1model("reading registers by packets")
        return self._execute_ok(RegisterControl(READ, reg=reg, group=group, index=index)).value

    def write(self, reg: int, group: int, value: int, index: int = 0) -> None:
        """Write one register."""
        only_v1model("writing registers by packets")
        self._execute_ok(RegisterControl(WRITE, reg=reg, group=group, index=index, value=value))

    def init_group(self, group: int, paths: int, first_psn: int, msn: int = 0) -> None:
        """Initialise all state of a group whose first PSN is `first_psn`, after `msn` messages."""
        self._execute_ok(RegisterControl(INIT_GROUP, count=paths, group=group, value=msn << 24 | first_psn))

    def read_region(self, reg: int, slot: int) -> int:
        """Read one register of a receiver, by its index."""
        return self.read(reg, slot >> 16, slot & 0xFFFF)

    def write_region(self, reg: int, slot: int, value: int) -> None:
        """Write one register of a receiver, by its index."""
        self.write(reg, slot >> 16, value, slot & 0xFFFF)

    def init_regions(self, first: int, receivers: int, first_psn: int) -> None:
        """Clear the memory regions of receivers, for a group whose first PSN is `first_psn`."""
        control = RegisterControl(
            INIT_REGIONS, count=receivers, group=first >> 16, index=first & 0xFFFF, value=first_psn
        )
        self._execute_ok(control)

    def take_punted(self) -> list[PacketIn]:
        """Return the frames for the controller that arrived since the last call.

        It sends a register access first: the switch keeps the order of frames for the controller, so all
        earlier ones have arrived when the reply does.
        """
        self.execute(RegisterControl(READ, reg=AGG))
        punted, self._punted = self._punted, []
        return punted

    def _execute_ok(self, control: RegisterControl) -> RegisterControl:
        self._cookie += 1
        answer = self.execute(replace(control, cookie=self._cookie))
        if (answer.status, answer.cookie) != (OK, self._cookie):
            msg = f"{control} got the reply {answer}"
            raise AssertionError(msg)
        return answer
