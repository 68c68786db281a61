"""A live switch with a program of a lab, and packet sockets at the other ends of its ports."""

from __future__ import annotations

import re
import socket
import struct
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from alfirk_ptf.live import DEVICE_ID, ROOT, SWITCH_LOG, compile_program, switch, veth_pairs
from alfirk_ptf.p4runtime import Client
from alfirk_ptf.trace import Sends, Steps, TraceFile

from alfirk_labs.outcome import LabError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from alfirk_ptf.group import MulticastGroup
    from alfirk_ptf.trace import Arrival

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
#: The numbers in a trace of a packet, and of its copy if the line or the name is that of one.
_NUMBER = re.compile(r"(?:^|(?<=, as ))#\d+(?:\.(\d+))?( |$)", re.MULTILINE)

#: Received frames by the switch's output port; ports without frames are omitted.
Frames = dict[int, list[bytes]]


class Bench:
    """Packet sockets of hosts: they send given frames, and collect received ones.

    `traces` are those of the switch; paths in them are shown without the folders in `folders`.
    """

    def __init__(self, interfaces: dict[int, str], traces: TraceFile, folders: Sequence[Path]) -> None:
        self._serial = 0
        self._sends = Sends()
        self._last: list[Arrival] = []
        self._traces = traces
        self._folders = folders
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
        padded = frame + bytes(max(0, _SMALLEST - len(frame)))
        self._sends.send(port, len(padded))
        self._sockets[port].send(padded)

    def exchange(self, port: int, *frames: bytes) -> Frames:
        """Send frames into a port; return all output frames by port.

        A mark for each port follows on the same path: when it arrives, all earlier frames have arrived.
        """
        self._serial += 1
        self._sends.start()
        for frame in frames:
            self.send(port, frame)
        self._last = self._sends.burst
        for out in self._sockets:
            source = bytes((2, 0, 0)) + self._serial.to_bytes(2, "big") + bytes((port,))
            self.send(port, _MARK.pack(b"\xff" * 6, source, ETHERTYPE_LAB, KIND_MARK << 24 | out))
        return {out: got for out in self._sockets if (got := self._until_mark(out))}

    def trace(self, port: int | None = None) -> list[str]:
        """Describe how the switch processed the last frame of the last `exchange`.

        With a port, copies that left by other ports are omitted.
        """
        lines = []
        for arrival, steps in self._traces.of(self._last[-1:]):
            lines.append(f"trace of the packet sent into port {arrival.port}:")
            lines += [f"  {line}" for line in self._shown(steps, port)]
        return lines

    def _shown(self, steps: Steps | None, port: int | None) -> list[str]:
        if steps is None:
            return ["the switch received no such packet"]
        chosen = steps if port is None else steps.without_copies(steps.out_ports - {port})
        text = "\n".join(chosen.shown())
        for folder in self._folders:
            text = text.replace(f"{folder}/", "")
        return _NUMBER.sub(lambda found: f"copy {found[1]}{found[2]}" if found[1] else "", text).split("\n")

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
    command = [str(setting.alfirk), "switch", "--trace"]
    with veth_pairs(ports, taps) as pairs, switch(command, setting.work, pairs, log=False) as address:
        client = Client(address, DEVICE_ID, pipeline.with_suffix(".p4info.txtpb"))
        client.push(pipeline)
        interfaces = {port: ends[1] for port, ends in pairs.items()}
        bench = Bench(
            {port: interface for port, interface in interfaces.items() if port not in taps},
            TraceFile(setting.work / SWITCH_LOG),
            ((program or setting.program).parent, ROOT / "labs" / "shared"),
        )
        try:
            yield Live(bench, client, interfaces, pipeline)
        finally:
            bench.close()
            client.close()


class Live:
    """A running switch with its hosts and its P4Runtime client."""

    def __init__(self, bench: Bench, client: Client, interfaces: dict[int, str], pipeline: Path) -> None:
        self.bench = bench
        self.client = client
        self.interfaces = interfaces
        self._pipeline = pipeline

    def restart(self, *groups: MulticastGroup) -> None:
        """Load the program again, which resets registers, counters and entries; then create groups."""
        self.client.push(self._pipeline)
        for group in groups:
            self.client.insert_multicast(group)
