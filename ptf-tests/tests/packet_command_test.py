"""Compares `alfirk packet` with scapy: random packets of either are read, and built again, by the other."""

from __future__ import annotations

import json
import os
import random
import subprocess
from functools import cache
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from alfirk_ptf.packets import ACKNOWLEDGE, Roce, aeth, reth
from scapy.contrib.lldp import LLDPDU
from scapy.contrib.mac_control import MACControl, MACControlClassBasedFlowControl, MACControlPause
from scapy.contrib.mpls import MPLS
from scapy.contrib.roce import AETH, BTH, CNPPadding
from scapy.layers.dhcp import BOOTP, DHCP
from scapy.layers.dns import DNS
from scapy.layers.inet import ICMP, IP, TCP, UDP, IPOption_NOP, IPOption_Router_Alert
from scapy.layers.inet6 import (
    ICMPv6EchoReply,
    ICMPv6EchoRequest,
    ICMPv6ND_NA,
    ICMPv6ND_NS,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
)
from scapy.layers.l2 import ARP, GRE, Dot1AD, Dot1Q, Ether
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet, Raw
from scapy.utils import RawPcapReader, wrpcap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ROOT = Path(__file__).parents[2]
_ALFIRK = Path(os.environ.get("ALFIRK", _ROOT / "target" / "debug" / "alfirk")).absolute()
#: Packets in each direction.
_COUNT = 10_000

#: Layers whose fields have the same names and values in both, with the fields to compare.
_FIELDS = {
    "Ether": (Ether, "dst src type"),
    "Dot1Q": (Dot1Q, "prio dei vlan type"),
    "Dot1AD": (Dot1AD, "prio dei vlan type"),
    "ARP": (ARP, "hwtype ptype hwlen plen op hwsrc psrc hwdst pdst"),
    "IP": (IP, "version ihl tos len id flags frag ttl proto chksum src dst"),
    "IPv6": (IPv6, "version tc fl plen nh hlim src dst"),
    "IPv6ExtHdrFragment": (IPv6ExtHdrFragment, "nh res1 offset res2 m id"),
    "IPv6ExtHdrRouting": (IPv6ExtHdrRouting, "nh len type segleft reserved"),
    "IPv6ExtHdrHopByHop": (IPv6ExtHdrHopByHop, "nh len"),
    "IPv6ExtHdrDestOpt": (IPv6ExtHdrDestOpt, "nh len"),
    "TCP": (TCP, "sport dport seq ack dataofs reserved flags window chksum urgptr"),
    "UDP": (UDP, "sport dport len chksum"),
    "ICMP": (ICMP, "type code chksum id seq"),
    "GRE": (
        GRE,
        "chksum_present routing_present key_present seqnum_present proto version chksum offset key"
        " sequence_number",
    ),
    "VXLAN": (VXLAN, "flags vni reserved2"),
    "MPLS": (MPLS, "label cos s ttl"),
    "BOOTP": (BOOTP, "op htype hlen hops xid secs flags ciaddr yiaddr siaddr giaddr"),
    "DNS": (DNS, "id qr opcode aa tc rd ra z ad cd rcode qdcount ancount nscount arcount"),
    "BTH": (BTH, "opcode solicited migreq padcount version pkey fecn becn resv6 dqpn ackreq resv7 psn"),
    "AETH": (AETH, "syndrome msn"),
    "CNP": (CNPPadding, "reserved1 reserved2"),
    "PFC": (
        MACControlClassBasedFlowControl,
        " ".join(f"c{number}_{name}" for number in range(8) for name in ("enabled", "pause_time")),
    ),
    "Pause": (MACControlPause, "pause_time"),
}
#: Fields that scapy computes where they are not set.
_COMPUTED = {
    IP: ("ihl", "len", "chksum"),
    IPv6: ("plen",),
    UDP: ("len", "chksum"),
    TCP: ("dataofs", "chksum"),
    ICMP: ("chksum",),
    GRE: ("chksum",),
    BTH: ("icrc",),
    ICMPv6EchoRequest: ("cksum",),
    ICMPv6EchoReply: ("cksum",),
    ICMPv6ND_NS: ("cksum",),
    ICMPv6ND_NA: ("cksum",),
}


def _alfirk(*arguments: str | Path) -> str:
    if not _ALFIRK.exists():
        pytest.fail(f"there is no {_ALFIRK}: run `make build`, or set ALFIRK")
    command = [str(_ALFIRK), "packet", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _dissected(capture: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _alfirk("dissect", capture, "--json").splitlines()]


def _frames(capture: Path) -> list[bytes]:
    with RawPcapReader(str(capture)) as reader:
        return [frame for frame, _ in reader]


def _layers(packet: Packet) -> Iterator[Packet]:
    layer = packet
    while layer and layer.name != "NoPayload":
        yield layer
        layer = layer.payload


def _rebuild(frame: bytes) -> bytes:
    """Dissect a frame with scapy, leave out the computed fields, and build it again."""
    packet = Ether(frame)
    for layer in _layers(packet):
        layer.raw_packet_cache = None
        for name in _COMPUTED.get(type(layer), ()):
            # RoCEv2 has no UDP checksum.
            if not (isinstance(layer, UDP) and name == "chksum" and BTH in layer):
                layer.delfieldval(name)
    built = bytes(packet)
    if MACControl in packet or LLDPDU in packet:
        # scapy pads these frames.
        built = built[: len(frame)] + built[len(frame) :].lstrip(b"\0")
    return built


def _value(layer: Packet, field: str) -> object:
    value = layer.getfieldval(field)
    if value is None or isinstance(value, str):
        return value
    return int(value)


def _compare(frame: bytes, seen: dict[str, Any], number: int) -> int:
    """Compare the layers of a frame as both dissect it; return the number of compared fields."""
    assert bytes.fromhex(seen["bytes"]) == frame, number
    compared = 0
    found: dict[str, int] = {}
    packet = Ether(frame)
    for layer in seen["layers"]:
        name = layer["layer"]
        nth = found[name] = found.get(name, 0) + 1
        if name not in _FIELDS:
            continue
        kind, fields = _FIELDS[name]
        other = packet.getlayer(kind, nth)
        if name == "AETH" and packet[BTH].opcode != ACKNOWLEDGE:
            # scapy has an AETH in acknowledgements only.
            continue
        assert other is not None, (number, name, packet.summary())
        for field in fields.split():
            if field in layer["fields"]:
                ours, theirs = layer["fields"][field], _value(other, field)
                assert ours == theirs, (number, name, field, ours, theirs)
                compared += 1
    return compared


def packets_of_alfirk_are_read_and_built_by_scapy(tmp_path: Path) -> None:
    capture = tmp_path / "random.pcap"
    _alfirk("random", "--count", str(_COUNT), "--seed", "5", "--write", capture)
    frames = _frames(capture)
    assert len(frames) == _COUNT
    compared = 0
    for number, (frame, seen) in enumerate(zip(frames, _dissected(capture), strict=True)):
        compared += _compare(frame, seen, number)
        assert _rebuild(frame).hex() == frame.hex(), (number, Ether(frame).summary())
    assert compared > 20 * _COUNT


class _Random:
    """Random packets of scapy."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def packet(self) -> Packet:
        return self._ethernet(depth=0)

    def _bits(self, count: int) -> int:
        return self._random.getrandbits(count)

    def _bytes(self, most: int = 64) -> bytes:
        return self._random.randbytes(self._random.randrange(1, most))

    def _mac(self) -> str:
        return self._random.randbytes(6).hex(":")

    def _ipv4(self) -> str:
        return str(IPv4Address(self._bits(32)))

    def _ipv6(self) -> str:
        return str(IPv6Address(self._bits(128)))

    def _port(self) -> int:
        """Return a port to which neither side binds a protocol."""
        return self._random.randrange(51_000, 53_000)

    def _ethernet(self, depth: int) -> Packet:
        ether = Ether(dst=self._mac(), src=self._mac())
        choices: list[Callable[[], Packet]] = [
            lambda: ARP(
                op=self._random.choice([1, 2]),
                hwsrc=self._mac(),
                psrc=self._ipv4(),
                hwdst=self._mac(),
                pdst=self._ipv4(),
            ),
            lambda: MACControlClassBasedFlowControl(
                c3_enabled=1, c3_pause_time=self._bits(16), c5_pause_time=self._bits(16)
            ),
            lambda: MACControlPause(pause_time=self._bits(16)),
            lambda: Dot1Q(vlan=self._bits(12), prio=self._bits(3)) / self._ip(depth),
            lambda: Dot1AD(vlan=self._bits(12)) / Dot1Q(vlan=self._bits(12), dei=1) / self._ip(depth),
            lambda: (
                MPLS(label=self._bits(20), s=0, ttl=9) / MPLS(label=self._bits(20), s=1) / self._ip(depth)
            ),
        ]
        choices += [lambda: self._ip(depth)] * 12
        return ether / self._random.choice(choices)()

    def _ip(self, depth: int) -> Packet:
        if self._random.random() < 0.3:
            packet = IPv6(
                src=self._ipv6(), dst=self._ipv6(), tc=self._bits(8), fl=self._bits(20), hlim=self._bits(8)
            )
            if self._bits(3) == 0:
                packet /= IPv6ExtHdrHopByHop()
            if self._bits(3) == 0:
                packet /= IPv6ExtHdrRouting(
                    addresses=[self._ipv6(), self._ipv6()], segleft=self._random.choice([0, 1, 2])
                )
            if self._bits(3) == 0:
                packet /= IPv6ExtHdrFragment(id=self._bits(32))
            if self._bits(3) == 0:
                packet /= IPv6ExtHdrDestOpt()
            icmp: list[Callable[[], Packet]] = [
                lambda: ICMPv6EchoRequest(id=self._bits(16), seq=self._bits(16), data=self._bytes()),
                lambda: ICMPv6EchoReply(id=self._bits(16), data=self._bytes()),
                lambda: ICMPv6ND_NS(tgt=self._ipv6()),
                lambda: ICMPv6ND_NA(tgt=self._ipv6(), R=0, S=1),
            ]
        else:
            options = [IPOption_NOP(), IPOption_Router_Alert()] if self._bits(3) == 0 else []
            packet = IP(
                src=self._ipv4(),
                dst=self._ipv4(),
                tos=self._bits(8),
                id=self._bits(16),
                ttl=self._bits(8),
                flags=self._random.choice(["", "DF"]),
                options=options,
            )
            icmp = [
                lambda: (
                    ICMP(type=self._random.choice([0, 8]), id=self._bits(16), seq=self._bits(16))
                    / self._bytes()
                )
            ]
        has_extensions = not isinstance(packet.lastlayer(), (IP, IPv6))
        choices: list[Callable[[], Packet]] = [
            lambda: self._tcp() / Raw(self._bytes()),
            lambda: UDP(sport=self._port(), dport=self._port()) / Raw(self._bytes()),
            lambda: UDP(sport=self._port(), dport=53) / DNS(id=self._bits(16), qd=[], qr=self._bits(1)),
            self._dhcp,
            *icmp,
        ]
        if not has_extensions:
            # The ICRC is not defined with extension headers.
            choices.append(self._roce)
        if depth < 2:
            choices.append(
                lambda: (
                    UDP(sport=self._port(), dport=4789)
                    / VXLAN(vni=self._bits(24))
                    / self._ethernet(depth + 1)
                )
            )
            choices.append(
                lambda: (
                    GRE(
                        chksum_present=self._bits(1),
                        key_present=1,
                        key=self._bits(32),
                        seqnum_present=1,
                        sequence_number=7,
                    )
                    / self._ip(depth + 1)
                )
            )
        return packet / self._random.choice(choices)()

    def _tcp(self) -> Packet:
        options = [
            ("MSS", self._bits(16)),
            ("NOP", None),
            ("WScale", 7),
            ("SAckOK", b""),
            ("Timestamp", (self._bits(32), 0)),
        ]
        return TCP(
            sport=self._port(),
            dport=self._port(),
            seq=self._bits(32),
            ack=self._bits(32),
            flags=self._bits(9),
            window=self._bits(16),
            urgptr=self._bits(16),
            options=options[: self._random.randrange(len(options) + 1)],
        )

    def _dhcp(self) -> Packet:
        options = [("message-type", "discover"), ("requested_addr", self._ipv4()), ("hostname", "h1"), "end"]
        return (
            UDP(sport=68, dport=67)
            / BOOTP(chaddr=self._random.randbytes(6), xid=self._bits(32), yiaddr=self._ipv4(), flags="B")
            / DHCP(options=options)
        )

    def _roce(self) -> Packet:
        body: dict[int, Callable[[], bytes]] = {
            0x04: lambda: self._random.randbytes(4 * self._bits(4)),
            0x0A: lambda: self._random.randbytes(16 + 4 * self._bits(4)),
            0x11: lambda: bytes(AETH(syndrome=self._bits(8), msn=self._bits(24))),
            0x13: lambda: self._random.randbytes(28),
            0x64: lambda: self._random.randbytes(8 + 4 * self._bits(4)),
            0x81: lambda: bytes(CNPPadding()),
        }
        opcode = self._random.choice(list(body))
        # The sender's UDP checksum is 0.
        return (
            UDP(sport=self._port(), dport=4791, chksum=0)
            / BTH(
                opcode=opcode,
                solicited=self._bits(1),
                migreq=self._bits(1),
                pkey=self._bits(16),
                becn=self._bits(1),
                dqpn=self._bits(24),
                ackreq=self._bits(1),
                psn=self._bits(24),
            )
            / Raw(body[opcode]())
        )


def packets_of_scapy_are_read_and_built_by_alfirk(tmp_path: Path) -> None:
    source = _Random(9)
    frames = [bytes(source.packet()) for _ in range(_COUNT)]
    capture, again = tmp_path / "scapy.pcap", tmp_path / "again.pcapng"
    wrpcap(str(capture), frames, linktype=1)
    compared = sum(
        _compare(frame, seen, number)
        for number, (frame, seen) in enumerate(zip(frames, _dissected(capture), strict=True))
    )
    assert compared > 20 * _COUNT
    _alfirk("dissect", capture, "--recompute", "--write", again)
    for number, (frame, built) in enumerate(zip(frames, _frames(again), strict=True)):
        assert built.hex() == frame.hex(), (number, Ether(frame).summary())


@cache
def _roce_cases() -> list[tuple[Roce, str]]:
    """RoCEv2 packets as the packet tests build them, and their layers as an expression."""
    return [
        (Roce(body=b"abcd", psn=7), 'Raw("abcd")'),
        (Roce(opcode=0x11, body=aeth(0x60, 5)), "AETH(syndrome=0x60, msn=5)"),
        (
            Roce(opcode=0x0A, body=reth(1 << 40, 3, 4) + b"data"),
            'RETH(va=0x10000000000, rkey=3, dlen=4)/"data"',
        ),
        (Roce(opcode=0x81, becn=1, body=bytes(16)), "CNP()"),
        (Roce(opcode=0x05, body=b"\0\0\0\1abcd", ackreq=1), 'ImmDt(data=1)/"abcd"'),
    ]


@pytest.mark.parametrize("number", range(5))
def packets_of_the_packet_tests_are_built_by_expressions(number: int) -> None:
    packet, inner = _roce_cases()[number]
    expression = (
        f'Ether(dst="{packet.eth_dst}", src="{packet.eth_src}")'
        f'/IP(src="{packet.src}", dst="{packet.dst}", id={packet.ident}, flags="DF")'
        f"/UDP(sport={packet.sport})"
        f"/BTH(opcode={packet.opcode}, migreq=1, dqpn={packet.dqpn}, ackreq={packet.ackreq},"
        f" psn={packet.psn})"
        f"/{inner}/ICRC()"
    )
    assert _alfirk("craft", expression).strip() == packet.frame().hex()


def lldp_frames_are_read_by_scapy() -> None:
    values = [r"\x04abcdef", r"\x05veth1", r"\x00x"]
    tlvs = "".join(f'LLDP(type={number}, value=b"{value}")/' for number, value in enumerate(values, 1))
    frame = bytes.fromhex(_alfirk("craft", f'Ether(dst="01:80:c2:00:00:0e")/{tlvs}LLDP()'))
    names = [layer.name for layer in _layers(Ether(frame)) if isinstance(layer, LLDPDU)]
    kinds = ["LLDPDUChassisID", "LLDPDUPortID", "LLDPDUTimeToLive", "LLDPDUEndOfLLDPDU"]
    assert names[-4:] == kinds, names


def _in_namespace(script: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a network namespace with two ends of a veth pair, v0 and v1."""
    setup = "ip link add v0 type veth peer name v1 && ip link set v0 up && ip link set v1 up"
    command = ["unshare", "--net", "sh", "-ec", f"{setup}\n{script}"]
    environment = {**os.environ, "ALFIRK": str(_ALFIRK)}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)


@pytest.mark.root
def sent_packets_are_sniffed() -> None:
    # The kernel removes the tag, and reports it beside the frame.
    packet = 'Ether(src="02:00:00:00:00:01")/Dot1Q(vlan=5)/IP(dst="10.0.0.2")/UDP(dport=9)/"abc"'
    done = _in_namespace(
        # The sender repeats the packet until the receiver, which starts later, has enough.
        f"""$ALFIRK packet send -i v0 '{packet}' --count 200 --interval 50ms &
        $ALFIRK packet sniff -i v1 --filter 'UDP.dport == 9' --count 2 --timeout 9s --hex
        kill $!"""
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == 2 * _alfirk("craft", packet)


@pytest.mark.root
def a_reply_is_printed() -> None:
    done = _in_namespace(
        # The other end is in a namespace of its own, whose kernel replies.
        """unshare --net sleep 30 &
        for n in 1 2 3 4 5 6 7 8 9; do
            test "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" && break; sleep 0.1
        done
        ip link set v1 netns $!
        nsenter --target $! --net sh -ec 'ip address add 10.0.0.2/24 dev v1; ip link set v1 up'
        $ALFIRK packet send -i v0 'Ether()/ARP(pdst="10.0.0.2", psrc="10.0.0.1")' --reply 5s
        $ALFIRK packet send -i v0 'Ether()/ARP(pdst="10.0.0.9", psrc="10.0.0.1")' --reply 100ms || test $? = 1
        kill $!"""
    )
    assert done.returncode == 0, done.stderr
    assert "op        = is-at" in done.stdout, done.stdout
    assert "psrc      = 10.0.0.2" in done.stdout, done.stdout
    assert "no reply within 100 ms" in done.stderr, done.stderr
