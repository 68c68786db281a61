"""``alfirk vxlan`` between two machines: packets are VXLAN, and foreign packets are dropped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from namespaces import ROOT, Machine, Site, eventually
from scapy.layers.inet import UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.root

ALFIRK = Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk"))
#: EtherType for experiments; the kernel does not answer it.
ETHERTYPE = 0x88B5

#: Prints the frames received on an interface as JSON; ends after a frame whose last byte is a full stop.
_LISTEN = """
import json, socket, sys
frames = []
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as wire:
    wire.bind((sys.argv[1], 0))
    wire.settimeout(20)
    print("listening", flush=True)
    while not frames or not frames[-1].endswith(b"."):
        frame, where = wire.recvfrom(1 << 16)
        if where[2] != socket.PACKET_OUTGOING:
            frames.append(frame)
print(json.dumps([frame.hex() for frame in frames]))
"""
_SEND = """
import socket, sys
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
    wire.bind((sys.argv[1], 0))
    for frame in sys.argv[2:]:
        wire.send(bytes.fromhex(frame))
"""


class _Listener:
    def __init__(self, machine: Machine, interface: str) -> None:
        command = machine.command(sys.executable, "-c", _LISTEN, interface)
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        assert self._process.stdout.readline() == "listening\n"

    def frames(self) -> list[bytes]:
        output, _ = self._process.communicate(timeout=30)
        return [bytes.fromhex(frame) for frame in json.loads(output)]


def _send(machine: Machine, interface: str, *frames: bytes) -> None:
    command = machine.command(sys.executable, "-c", _SEND, interface, *(frame.hex() for frame in frames))
    subprocess.run(command, check=True)


def _frame(payload: bytes) -> bytes:
    return bytes(Ether(dst="02:00:00:00:00:02", src="02:00:00:00:00:01", type=ETHERTYPE) / payload)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two machines joined by link 7 (interface `in` on each), carried by `alfirk vxlan`."""
    with Site(tmp_path_factory.mktemp("site"), 2) as site:
        processes = []
        for machine, other in zip(site.machines, reversed(site.machines), strict=True):
            machine.sh("ip link add in mtu 4200 type veth peer name out mtu 4200")
            machine.sh("ip link set in up; ip link set out up")
            command = [str(ALFIRK), "vxlan", "--local", machine.address, "--link", f"7@out={other.address}"]
            process = subprocess.Popen(machine.command(*command), stdout=subprocess.PIPE, text=True)
            assert process.stdout
            assert process.stdout.readline() == f"1 links at {machine.address}:4789\n"
            processes.append(process)
        yield site
        for process in processes:
            process.terminate()
            assert process.wait(20) == 0


def frames_arrive_unchanged(site: Site) -> None:
    here, there = site.machines
    sent = [_frame(bytes([number]) * size) for number, size in enumerate([46, 1500, 4200])]
    sent.append(_frame(b"The last one."))
    listener = _Listener(there, "in")
    _send(here, "in", *sent)
    received = [frame for frame in listener.frames() if frame[12:14] == sent[0][12:14]]
    assert received == sent


def packets_between_machines_are_vxlan(site: Site) -> None:
    here, _ = site.machines
    listener = _Listener(site.router, "v1")
    frame = _frame(b"x" * 4199 + b".")
    _send(here, "in", frame)
    on_the_way = [packet for packet in map(Ether, listener.frames()) if VXLAN in packet]
    # The kernel also sends frames through the link, such as IPv6 neighbour discovery.
    (packet,) = [packet for packet in on_the_way if bytes(packet[VXLAN].payload)[12:14] == frame[12:14]]
    assert (packet["IP"].src, packet["IP"].dst) == tuple(machine.address for machine in site.machines)
    assert packet["IP"].flags == "DF"
    assert (packet[UDP].dport, packet[UDP].chksum) == (4789, 0)
    assert (packet[VXLAN].vni, int(packet[VXLAN].flags)) == (7, 8)
    assert bytes(packet[VXLAN].payload) == frame
    assert packet["IP"].len == 4250


def packets_of_other_segments_and_machines_are_dropped(site: Site) -> None:
    here, there = site.machines
    listener = _Listener(there, "in")
    stray = bytes(VXLAN(vni=8, flags="Instance")) + _frame(b"another segment.")
    foreign = bytes(VXLAN(vni=7, flags="Instance")) + _frame(b"another machine.")
    script = (
        "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "s.sendto(bytes.fromhex(sys.argv[1]), (sys.argv[2], 4789))"
    )
    for machine, datagram in [(here, stray), (site.router, foreign)]:
        command = machine.command(sys.executable, "-c", script, datagram.hex(), there.address)
        subprocess.run(command, check=True)
    last = _frame(b"let in.")
    _send(here, "in", last)
    assert [frame for frame in listener.frames() if frame[12:14] == last[12:14]] == [last]


def path_with_too_small_mtu_is_rejected(site: Site) -> None:
    here, there = site.machines
    here.sh("ip link add wide mtu 4300 type veth peer name wide2 mtu 4300")
    command = [str(ALFIRK), "vxlan", "--local", here.address, "--port", "4790"]
    command += ["--link", f"9@wide={there.address}"]
    done = subprocess.run(here.command(*command), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "has an MTU of 4250 bytes" in done.stderr
    assert "ip link set dev NAME mtu 4350" in done.stderr
    here.sh("ip link delete wide")


def removal_of_an_interface_ends_the_process(site: Site) -> None:
    here, there = site.machines
    here.sh("ip link add gone mtu 1000 type veth peer name gone2; ip link set gone up")
    command = [str(ALFIRK), "vxlan", "--local", here.address, "--port", "4790"]
    command += ["--link", f"9@gone={there.address}"]
    process = subprocess.Popen(
        here.command(*command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline()
    here.sh("ip link delete gone")
    eventually(lambda: process.poll() is not None, "alfirk vxlan ends")
    assert process.returncode == 1
    assert process.stderr
    assert "interface gone is gone" in process.stderr.read()
