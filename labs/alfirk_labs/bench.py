"""A live switch with a program of a lab, and packet sockets at the other ends of its ports."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from alfirk_ptf.live import DEVICE_ID, ROOT, compile_program, switch, veth_pairs
from alfirk_ptf.p4runtime import Client

from alfirk_labs.outcome import LabError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from alfirk_labs.outcome import Setting

#: Format of marks, as in labs/shared/*.p4.
ETHERTYPE_LAB = 0x88B6
KIND_MARK = 0xFF
#: Time limit in seconds until the mark arrives at a port, after all frames sent before it.
TIMEOUT = 10.0

_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_MARK = struct.Struct("!6s6sHI")
_SMALLEST = 60

#: Received frames by the switch's output port; ports without frames are omitted.
Frames = dict[int, list[bytes]]


class Bench:
    """Packet sockets of hosts: they send given frames, and collect received ones."""

    def __init__(self, interfaces: dict[int, str]) -> None:
        self._serial = 0
        self._sockets = {}
        for port, interface in interfaces.items():
            # Protocol 0 until it is bound: otherwise it would receive from all interfaces.
            self._sockets[port] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            self._sockets[port].bind((interface, _ETH_P_ALL))

    def close(self) -> None:
        """Close the sockets."""
        for opened in self._sockets.values():
            opened.close()

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame, padded to Ethernet's minimum length."""
        self._sockets[port].send(frame + bytes(max(0, _SMALLEST - len(frame))))

    def exchange(self, port: int, *frames: bytes) -> Frames:
        """Send frames into a port; return all output frames by port.

        A mark for each port follows on the same path: when it arrives, all earlier frames have arrived.
        """
        self._serial += 1
        for frame in frames:
            self.send(port, frame)
        for out in self._sockets:
            source = bytes((2, 0, 0)) + self._serial.to_bytes(2, "big") + bytes((port,))
            self.send(port, _MARK.pack(b"\xff" * 6, source, ETHERTYPE_LAB, KIND_MARK << 24 | out))
        return {out: got for out in self._sockets if (got := self._until_mark(out))}

    def _until_mark(self, port: int) -> list[bytes]:
        got = []
        deadline = time.monotonic() + TIMEOUT
        while True:
            self._sockets[port].settimeout(max(0.01, deadline - time.monotonic()))
            try:
                frame, address = self._sockets[port].recvfrom(9000)
            except TimeoutError:
                message = f"port {port}: no frames arrive; the program must forward KIND_MARK"
                raise LabError(message) from None
            if address[2] == _PACKET_OUTGOING:
                continue
            _, source, ether_type, word = _MARK.unpack_from(frame)
            if ether_type != ETHERTYPE_LAB or word >> 24 != KIND_MARK:
                got.append(frame)
            elif source[3:5] == (self._serial & 0xFFFF).to_bytes(2, "big"):
                return got


def compiled(setting: Setting, program: Path) -> Path:
    """Compile a program that may include files of labs/shared; return the JSON file."""
    return compile_program(setting.alfirk, program, setting.work, "-I", str(ROOT / "labs" / "shared"))


@contextmanager
def live(
    setting: Setting, ports: Sequence[int], program: Path | None = None, taps: Collection[int] = ()
) -> Iterator[Live]:
    """Run a program, by default the one to check, in a switch; some ports may have guests' taps."""
    pipeline = compiled(setting, program or setting.program)
    command = [str(setting.alfirk), "switch"]
    with veth_pairs(ports, taps) as pairs, switch(command, setting.work, pairs) as address:
        client = Client(address, DEVICE_ID, pipeline.with_suffix(".p4info.txtpb"))
        client.push(pipeline)
        interfaces = {port: ends[1] for port, ends in pairs.items()}
        bench = Bench({port: interface for port, interface in interfaces.items() if port not in taps})
        try:
            yield Live(bench, client, interfaces)
        finally:
            bench.close()
            client.close()


class Live:
    """A running switch with its hosts and its P4Runtime client."""

    def __init__(self, bench: Bench, client: Client, interfaces: dict[int, str]) -> None:
        self.bench = bench
        self.client = client
        self.interfaces = interfaces
