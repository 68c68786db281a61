"""Wireshark's dissector of editors/wireshark agrees with the decoders of Alfirk, and has no error."""

from __future__ import annotations

import functools
import json
import os
import random
import re
import select
import shutil
import socket
import struct
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING, Any

import alfirk
import pytest
from alfirk_ptf.contract import (
    CPU_PORT,
    Feedback,
    Kind,
    PacketInReason,
    PacketOutKind,
    RegisterControl,
    RegisterName,
    RegisterOp,
    RegisterStatus,
)
from alfirk_ptf.p4runtime import Client
from alfirk_ptf.registers import Registers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ROOT = Path(__file__).parents[2]
_ALFIRK = Path(os.environ.get("ALFIRK", _ROOT / "target" / "debug" / "alfirk")).absolute()
_PLUGINS = _ROOT / "editors" / "wireshark"

#: Flags of `alfirk run` for captures of all kinds of packets.
_RUNS = {
    "registration": "--topology leaf-spine:2,2,4 --size 64KiB --loss 0.02 --seed 3 --registration mrp",
    "regions": "--topology testbed --size 64KiB --op write --registration mrp",
    "announced": "--topology testbed --size 64KiB --op write --write per-request --registration mrp",
    "selective": "--topology leaf-spine:2,2,4 --size 64KiB --loss 0.03 --seed 3 --recovery selective-repeat",
    "congestion": "--topology testbed --size 128KiB --congestion dcqcn --ecn 1,2,1 --rate h2-s1:10Gbps",
    "not-ready": "--topology testbed --size 16KiB --messages 4 --receives 1",
    "hostile": "--topology leaf-spine:2,2,4 --size 8KiB --hostile h5",
}
#: Runs whose hosts send well-formed packets only.
_HONEST = [name for name in _RUNS if name != "hostile"]
#: Link types of captures: Ethernet, and those whose dissectors the user chooses (link type USER 0 and 1).
_ETHERNET, _USER_0, _USER_1 = 1, 147, 148
#: UDP length of the shortest packet with a BTH: UDP (8) and BTH (12).
_BTH_END = 20
#: Frames that the test of damaged frames makes.
_DAMAGED = 2500
#: Frames of a run that tests use; a hostile member sends many more.
_FRAMES = 10_000


@dataclass(frozen=True)
class _Dissected:
    """Fields of each frame, as tshark prints them, and what it printed to stderr."""

    frames: list[dict[str, str]]
    errors: str


@functools.cache
def _tshark() -> str:
    """Return the path of tshark; its own plugins must not hide the dissector under test."""
    found = shutil.which("tshark")
    if found is None:
        pytest.fail("no tshark on the PATH: install Debian's package tshark, as `tools/setup --interop` does")
    folders = subprocess.run([found, "-G", "folders"], check=True, capture_output=True, text=True).stdout
    plugins = re.search(r"^Global Lua Plugins:\s*(.*)$", folders, re.MULTILINE)
    if plugins and (installed := Path(plugins[1]) / "alfirk" / "alfirk.lua").exists():
        pytest.fail(f"{installed} hides the dissector of this repository: remove it")
    return found


def _call(capture: Path, *flags: str, plugins: Path | None = _PLUGINS) -> subprocess.CompletedProcess[str]:
    """Run tshark for a user who has these plugins and no settings."""
    home = capture.parent / (f"home-{plugins.name}" if plugins else "home")
    personal = home / ".local" / "lib" / "wireshark" / "plugins"
    if not personal.exists():
        personal.mkdir(parents=True)
        if plugins:
            (personal / "alfirk").symlink_to(plugins)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "WIRESHARK_"))}
    command = [_tshark(), "-n", "-r", str(capture), *flags]
    done = subprocess.run(command, env=env | {"HOME": str(home)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def _dissect(
    capture: Path, fields: Sequence[str], *flags: str, plugins: Path | None = _PLUGINS
) -> _Dissected:
    """Return these fields of each frame; several values of a field have commas between them."""
    columns = [part for name in fields for part in ("-e", name)]
    form = ("-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=,")
    done = _call(capture, *form, *columns, *flags, plugins=plugins)
    frames = [dict(zip(fields, line.split("|"), strict=True)) for line in done.stdout.splitlines()]
    # Printed if tests run as root.
    errors = re.sub(r"^Running as user .*\n?", "", done.stderr, flags=re.MULTILINE)
    return _Dissected(frames, errors)


def _no_lua_error(capture: Path) -> None:
    """Check that neither loading the dissector nor any frame has an error of Lua."""
    done = _call(capture, "-V")
    assert "Lua" not in done.stdout + done.stderr


def _alfirk(*arguments: str | Path) -> str:
    """Run the command and return its output."""
    command = [_ALFIRK, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@functools.cache
def _program() -> Any:
    return alfirk.compile(_ROOT / "p4src" / "v1model" / "main.p4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("captures")


@pytest.fixture(scope="module", params=_RUNS)
def run(request: pytest.FixtureRequest, folder: Path) -> Path:
    """Capture of one run."""
    return _capture_of(request.param, folder, "pcapng")


def _capture_of(name: str, folder: Path, kind: str) -> Path:
    """Return the trace of a run, as a capture or as lines of JSON; both have the same frames."""
    path = folder / f"{name}.{kind}"
    if not path.exists():
        flags = _RUNS[name].split()
        _alfirk("run", "--algorithms", "alfirk", *flags, "--trace", path)
        if kind == "pcapng" and name == "hostile":
            whole = path.rename(folder / "whole.pcapng")
            _call(whole, "-c", str(_FRAMES), "-w", str(path), plugins=None)
    return path


@functools.cache
def _decoded(capture: Path) -> list[dict[str, Any]]:
    """Return the layers of each frame by `alfirk packet dissect`."""
    return [json.loads(line) for line in _alfirk("packet", "dissect", capture, "--json").splitlines()]


def _layers(frame: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [layer["fields"] for layer in frame["layers"] if layer["layer"] == name]


def _layer(frame: dict[str, Any], name: str) -> dict[str, Any] | None:
    found = _layers(frame, name)
    return found[0] if found else None


def _is_to(frame: dict[str, Any], port: int) -> bool:
    udp = _layer(frame, "UDP")
    return udp is not None and udp["dport"] == port


def _numbers(text: str) -> list[int]:
    return [int(value, 0) for value in text.split(",") if value]


def every_packet_of_an_honest_run_is_well_formed(folder: Path) -> None:
    for name in _HONEST:
        capture = _capture_of(name, folder, "pcapng")
        _no_lua_error(capture)
        bad = "_ws.malformed or alfirk.truncated or alfirk.invalid"
        assert _dissect(capture, ["frame.number"], "-Y", bad).frames == [], name


def packets_of_a_hostile_member_cause_no_lua_error(folder: Path) -> None:
    _no_lua_error(_capture_of("hostile", folder, "pcapng"))


def standard_fields_of_roce_are_those_without_the_dissector(run: Path) -> None:
    fields = [
        "frame.protocols",
        "infiniband.bth.opcode",
        "infiniband.bth.psn",
        "infiniband.bth.destqp",
        "infiniband.aeth.syndrome",
        "infiniband.aeth.msn",
        "infiniband.reth.r_key",
        "infiniband.invariant.crc",
        "_ws.malformed",
    ]
    roce = ("-Y", "udp.dstport == 4791")
    found = _dissect(run, fields, *roce).frames
    plain = _dissect(run, fields, *roce, plugins=None).frames
    for frame in found:
        frame["frame.protocols"] = frame["frame.protocols"].replace(":alfirk", "")
    assert found == plain
    assert len(found) > 50


def _expected(frame: dict[str, Any], groups: set[str]) -> dict[str, list[int | str]]:
    """Fields of a packet of a group, from Alfirk's decoder; without a group none."""
    ip, bth = _layer(frame, "IP"), _layer(frame, "BTH")
    aeth = _layer(frame, "AETH") or {"syndrome": None, "msn": 0}
    if not _is_to(frame, 4791) or ip is None or bth is None:
        return {}
    source, destination = ip["src"], ip["dst"]
    if source == destination:
        fields: dict[str, list[int | str]] = {"mcst_id": [source], "hop": [2]}
    elif destination in groups:
        fields = {"mcst_id": [destination], "hop": [1], "member": [source]}
    elif source in groups:
        fields = {"mcst_id": [source], "hop": [3], "member": [destination]}
    else:
        return {}
    kind = _kind(bth["opcode"], aeth["syndrome"])
    fields["kind"] = [kind]
    psn = bth["psn"]
    if kind in {Kind.DATA, Kind.READ}:
        fields["psn"] = [psn]
    elif kind == Kind.ACK:
        fields |= {"acked_psn": [psn], "msn": [aeth["msn"]]}
    elif kind == Kind.NAK:
        fields |= {"acked_psn": [(psn - 1) % 2**24], "expected_psn": [psn], "msn": [aeth["msn"]]}
    elif kind == Kind.FATAL_NAK:
        fields |= {"expected_psn": [psn], "msn": [aeth["msn"]]}
    elif kind == Kind.SELECTIVE_NAK and fields["hop"] == [3]:
        fields |= {"acked_psn": [(psn - 1) % 2**24], "lost_psn": [aeth["msn"]]}
    elif kind == Kind.SELECTIVE_NAK:
        fields |= {"lost_psn": [psn], "reports": [aeth["msn"]]}
    return fields


def _has_wrong_lengths(frame: dict[str, Any]) -> bool:
    """Whether UDP length and pad count of an ACK or NAK leave no bytes for an AETH.

    The decoder then finds none; the pipeline and Wireshark take the bytes behind the BTH.
    """
    bth = _layer(frame, "BTH")
    return bth is not None and bth["opcode"] == 0x11 and _layer(frame, "AETH") is None


def _kind(opcode: int, syndrome: int | None) -> Kind:
    """Kind of a packet by IBTA vol. 1, tables 38 and 45: written apart from the dissector."""
    if opcode <= 0x0B:
        return Kind.DATA
    if opcode == 0x81:
        return Kind.CNP
    if opcode in {0x0C, 0x13, 0x14, 0x16, 0x17, 0x1C, 0x1D}:
        return Kind.READ
    if opcode != 0x11 or syndrome is None or syndrome >= 0x80:
        return Kind.NONE
    by_upper = {0: Kind.ACK, 1: Kind.NAK}
    by_code = {0: Kind.NAK, 1: Kind.FATAL_NAK, 2: Kind.FATAL_NAK, 3: Kind.FATAL_NAK, 31: Kind.SELECTIVE_NAK}
    upper = syndrome >> 5
    return by_code.get(syndrome & 31, Kind.NONE) if upper == 3 else by_upper.get(upper, Kind.NONE)


_GROUP_FIELDS = [
    "mcst_id", "hop", "member", "kind", "psn", "acked_psn", "expected_psn", "lost_psn", "reports", "msn",
]  # fmt: skip
_ADDRESSES = {"mcst_id", "member"}


def fields_of_group_packets_agree_with_the_decoder(run: Path) -> None:
    columns = [f"alfirk.{name}" for name in _GROUP_FIELDS]
    found = _dissect(run, [*columns, "udp.dstport"]).frames
    decoded = _decoded(run)
    assert len(found) == len(decoded)
    seen = set()
    for number, (frame, own) in enumerate(zip(found, decoded, strict=True), 1):
        expected = _expected(own, {"10.255.0.1"})
        if frame["udp.dstport"] != "4791":
            # Registration; or a hostile frame that is not UDP for Wireshark, such as one of IP version 6.
            assert not expected or run.stem == "hostile", f"frame {number}"
            continue
        got: dict[str, list[int | str]] = {}
        for name in _GROUP_FIELDS:
            text = frame[f"alfirk.{name}"]
            if text:
                got[name] = [*text.split(",")] if name in _ADDRESSES else [*_numbers(text)]
        udp = _layer(own, "UDP")
        if udp is not None and udp["len"] < _BTH_END:
            assert got == {}, f"frame {number}"
            continue
        if _has_wrong_lengths(own):
            by_address = {"mcst_id", "hop", "member"}
            got, expected = (
                {name: value for name, value in fields.items() if name in by_address}
                for fields in (got, expected)
            )
        assert got == expected, f"frame {number}"
        seen |= set(expected.get("kind", []))
    assert {Kind.DATA, Kind.ACK} <= seen


def every_opcode_and_syndrome_has_its_kind(folder: Path) -> None:
    (ack,) = _craft(_roce("10.0.0.1", "10.255.0.1", "BTH(psn=9)/AETH(msn=3)"))
    opcode, syndrome = 14 + 20 + 8, 14 + 20 + 8 + 12
    changes = [(opcode, value) for value in range(256)] + [(syndrome, value) for value in range(256)]
    frames = [ack[:at] + bytes([value]) + ack[at + 1 :] for at, value in changes]
    expected = [_kind(frame[opcode], frame[syndrome]) for frame in frames]
    found = _dissect(_write(folder / "kinds.pcap", frames), ["alfirk.kind"]).frames
    assert [int(frame["alfirk.kind"]) for frame in found] == expected


def runs_contain_packets_of_every_kind(folder: Path) -> None:
    kinds = set()
    for name in _RUNS:
        found = _dissect(_capture_of(name, folder, "pcapng"), ["alfirk.kind"], "-Y", "alfirk.kind")
        kinds |= {int(frame["alfirk.kind"]) for frame in found.frames}
    required = {Kind.DATA, Kind.ACK, Kind.NAK, Kind.FATAL_NAK, Kind.CNP, Kind.READ, Kind.SELECTIVE_NAK}
    assert kinds >= required


def kinds_agree_with_the_trace_of_the_simulator(folder: Path) -> None:
    names = {
        Kind.DATA: "data",
        Kind.ACK: "ack",
        Kind.NAK: "nak",
        Kind.FATAL_NAK: "nak",
        Kind.SELECTIVE_NAK: "nak",
        Kind.CNP: "cnp",
    }
    for name in _HONEST:
        capture = _capture_of(name, folder, "pcapng")
        sent = "frame.packet_flags_direction == 2 and not frame.comment"
        fields = ["alfirk.kind", "infiniband.bth.psn", "udp.dstport"]
        found = _dissect(capture, fields, "-Y", sent).frames
        lines = [json.loads(line) for line in _capture_of(name, folder, "jsonl").read_text().splitlines()]
        traced = [line for line in lines if line.get("e") == "tx"]
        assert len(found) == len(traced), name
        for frame, line in zip(found, traced, strict=True):
            kind = int(frame["alfirk.kind"] or Kind.NONE)
            if kind or line["k"] != "other":
                assert names.get(Kind(kind), "other") == line["k"], line


def fields_of_registration_packets_agree_with_the_decoder(run: Path) -> None:
    metadata = ["version", "type", "seq", "total", "count", "psn", "flags"]
    node = ["ip", "qpn", "flags", "va", "rkey", "log2_len", "zero"]
    fields = [f"alfirk.mrp.{name}" for name in metadata] + [f"alfirk.mrp.node.{name}" for name in node]
    found = _dissect(run, [*fields, "alfirk.truncated", "alfirk.invalid"]).frames
    for frame, own in zip(found, _decoded(run), strict=True):
        if not _is_to(own, 4790):
            assert not frame["alfirk.mrp.version"]
            continue
        mrp = _layer(own, "MRP")
        is_bad = bool(frame["alfirk.truncated"] or frame["alfirk.invalid"])
        assert is_bad == (mrp is None)
        if mrp is None:
            continue
        for name in metadata:
            assert int(frame[f"alfirk.mrp.{name}"], 0) == mrp[name], name
        nodes = _layers(own, "MRPNode")
        for name in node:
            text = frame[f"alfirk.mrp.node.{name}"]
            expected = [values[name] for values in nodes if name in values]
            got = text.split(",") if name == "ip" and text else _numbers(text)
            assert got == expected, name


def registrations_have_nodes_and_regions(folder: Path) -> None:
    fields = ["alfirk.mrp.node.ip", "alfirk.mrp.node.va", "alfirk.mcst_id"]
    registered = _dissect(
        _capture_of("regions", folder, "pcapng"), fields, "-Y", "alfirk.mrp.type == 1 and alfirk.mrp.node.va"
    )
    assert registered.frames
    assert registered.frames[0]["alfirk.mrp.node.ip"].split(",")[0] == "10.255.0.1"
    assert {frame["alfirk.mcst_id"] for frame in registered.frames} == {"10.255.0.1"}


def announcements_of_memory_regions_agree_with_the_parser_of_the_pipeline(folder: Path) -> None:
    capture = _capture_of("announced", folder, "pcapng")
    names = ["va_xor", "rkey_xor", "id_xor", "sport_xor"]
    fields = [f"alfirk.mr_info.{name}" for name in names]
    found = _dissect(capture, ["alfirk.mr_info.receiver", *fields], "-Y", "alfirk.mr_info.receiver").frames
    program = _ROOT / "p4src" / "v1model" / "main.p4"
    text = _alfirk("packet", "dissect", "--p4", program, capture, "--filter", "mr_info", "--json")
    decoded = [json.loads(line) for line in text.splitlines()]
    assert len(found) == len(decoded) > 5
    for frame, own in zip(found, decoded, strict=True):
        region, reth = _layer(own, "mr_info"), _layer(own, "reth")
        assert region is not None
        assert reth is not None
        assert [int(frame[name], 0) for name in fields] == [region[name] for name in names]
        assert frame["alfirk.mr_info.receiver"] == str(IPv4Address(reth["va"] & 0xFFFFFFFF))


def a_filter_by_mcst_id_selects_one_group(folder: Path) -> None:
    frames = []
    for group in ("10.255.0.1", "10.255.0.2"):
        frames += _craft(
            _roce("10.0.0.1", group, 'BTH(psn=5)/Raw("ab")'),
            _roce(group, group, "BTH(psn=6)/AETH()"),
            f'Ether()/IP(src="10.0.0.1", dst="{group}")/UDP(dport=4790, sport=4790)/MRP(type="ALIVE")',
        )
    capture = _write(folder / "groups.pcap", frames)
    found = _dissect(capture, ["frame.number"], "-Y", "alfirk.mcst_id == 10.255.0.2").frames
    assert [frame["frame.number"] for frame in found] == ["4", "5", "6"]


def unicast_packets_have_no_fields_of_groups(folder: Path) -> None:
    frames = _craft(
        _roce("10.0.0.1", "10.0.0.2", 'BTH(psn=5)/Raw("ab")'),
        _roce("10.0.0.1", "224.1.2.3", "BTH(opcode=100)/DETH()"),
    )
    found = _dissect(_write(folder / "unicast.pcap", frames), ["frame.protocols", "alfirk.mcst_id"])
    assert [frame["alfirk.mcst_id"] for frame in found.frames] == ["", ""]
    assert all("infiniband" in frame["frame.protocols"] for frame in found.frames)


def groups_outside_the_default_network_are_found(folder: Path) -> None:
    to_group = _roce("10.0.0.1", "10.7.0.1", "BTH()/AETH()")
    inside = _roce("10.7.0.1", "10.7.0.1", "BTH()/AETH()")
    register = (
        'Ether()/IP(src="10.0.0.1", dst="10.7.0.1")/UDP(dport=4790, sport=4790)'
        '/MRP(type="REGISTER")/MRPNode(ip="10.7.0.1", flags=0x80)'
    )

    def found(name: str, expressions: Iterable[str], *flags: str) -> list[str]:
        capture = _write(folder / f"{name}.pcap", _craft(*expressions))
        return [frame["alfirk.mcst_id"] for frame in _dissect(capture, ["alfirk.mcst_id"], *flags).frames]

    assert found("unknown", [to_group]) == [""]
    assert found("inside", [inside, to_group]) == ["10.7.0.1", "10.7.0.1"]
    assert found("registered", [register, to_group]) == ["10.7.0.1", "10.7.0.1"]
    chosen = ("-o", "alfirk.groups:10.9.0.0/16 10.7.0.1/32")
    assert found("chosen", [to_group], *chosen) == ["10.7.0.1"]
    assert found("other", [to_group], "-o", "alfirk.groups:10.7.0.2/31, nonsense/99 1.2.3") == [""]


def default_network_of_groups_is_that_of_the_controller() -> None:
    text = _alfirk("ctrl", "--help")
    found = re.search(r"--group-range <PREFIX>.*?\[default: (\S+?)\]", text, re.DOTALL)
    assert found is not None
    assert f'"{IPv4Network(found[1])}"' in (_PLUGINS / "alfirk.lua").read_text()


def packets_of_vxlan_gpe_stay_with_their_dissector(folder: Path) -> None:
    header = struct.pack("!BHBI", 0x0C, 0, 3, 7 << 8)
    inner = _craft('Ether()/IP(src="10.0.0.1", dst="10.0.0.2")/UDP(dport=9)/"abc"')[0]
    frames = _craft(f'Ether()/IP()/UDP(sport=5000, dport=4790)/Raw("{_escape(header + inner)}")')
    fields = ["vxlan.vni", "udp.dstport", "alfirk.mrp.version"]
    found = _dissect(_write(folder / "gpe.pcap", frames), fields).frames
    assert found == [{"vxlan.vni": "7", "udp.dstport": "4790,9", "alfirk.mrp.version": ""}]


def the_summary_names_kind_and_psn(folder: Path) -> None:
    text = _call(_capture_of("registration", folder, "pcapng")).stdout
    assert re.search(r"RRoCE \d+ RC Send First QP=0x\w+ +\[DATA \d+\]", text)
    assert re.search(r"RC Acknowledge .*\[ACK \d+\]", text)
    assert re.search(r"MRP \d+ REGISTER, \d+ nodes, initial PSN \d+", text)


def frames_of_the_cpu_port_agree_with_the_header_in_python(folder: Path) -> None:
    requests = [
        RegisterControl(RegisterOp.INIT_GROUP, count=3, group=7, value=5 << 24 | 1000, cookie=1),
        RegisterControl(RegisterOp.READ, reg=RegisterName.AGG, group=7, cookie=2),
        RegisterControl(RegisterOp.READ, reg=RegisterName.ACK, group=7, index=2, cookie=3),
        RegisterControl(RegisterOp.WRITE, reg=RegisterName.NAK, group=7, value=0xE0 << 24 | 77, cookie=4),
        RegisterControl(RegisterOp.READ, reg=99, group=7, cookie=5),
        RegisterControl(RegisterOp.WRITE, reg=RegisterName.REGION_KEYS, value=0x1234567890ABCDEF, cookie=6),
    ]
    header = bytes([PacketOutKind.REGISTERS, 0, 0])
    outgoing = [header + request.pack() for request in requests]
    incoming = []
    with alfirk.Switch(_program()) as switch:
        for frame in outgoing:
            (reply,) = switch.send(CPU_PORT, frame)
            assert reply.port == CPU_PORT
            incoming.append(reply.data)
    replies = [RegisterControl.unpack(frame[3:]) for frame in incoming]
    assert [reply.cookie for reply in replies] == [1, 2, 3, 4, 5, 6]
    assert replies[4].status == RegisterStatus.BAD_REGISTER

    names = ["op", "status", "reg", "count", "group", "index", "value", "cookie"]
    fields = [f"alfirk.register_control.{name}" for name in names]
    out = _dissect(
        _write(folder / "out.pcap", outgoing, _USER_1), ["alfirk.packet_out.kind", *fields], *_CPU_PORT
    )
    into = ["alfirk.packet_in.reason", "alfirk.packet_in.ingress_port", *fields]
    replied = _dissect(_write(folder / "in.pcap", incoming, _USER_0), into, *_CPU_PORT)
    assert out.errors == replied.errors == ""
    for found, expected in ((out.frames, requests), (replied.frames, replies)):
        for shown, control in zip(found, expected, strict=True):
            assert [int(shown[name], 0) for name in fields] == [getattr(control, name) for name in names]
    assert {frame["alfirk.packet_out.kind"] for frame in out.frames} == {"1"}
    assert {int(frame["alfirk.packet_in.reason"]) for frame in replied.frames} == {PacketInReason.REGISTERS}
    assert {int(frame["alfirk.packet_in.ingress_port"]) for frame in replied.frames} == {CPU_PORT}


#: Dissectors of the link types of the CPU port's captures.
_CPU_PORT = (
    "-o",
    'uat:user_dlts:"User 0 (DLT=147)","alfirk.packet_in","0","","0",""',
    "-o",
    'uat:user_dlts:"User 1 (DLT=148)","alfirk.packet_out","0","","0",""',
)


def values_of_registers_have_their_parts(folder: Path) -> None:
    write = RegisterOp.WRITE
    values = [
        (RegisterControl(write, reg=RegisterName.AGG, value=1000 << 24 | 5), {"psn": 1000, "msn": 5}),
        (
            RegisterControl(write, reg=RegisterName.NAK, value=0xE0 << 24 | 77),
            {"is_sent": 1, "syndrome": 0xE0, "psn": 77},
        ),
        (RegisterControl(write, reg=RegisterName.SRC_PORT, value=300), {"port": 300}),
        (
            RegisterControl(write, reg=RegisterName.ACK, value=0xA << 32 | 1000 << 8 | 3),
            {"absent": 10, "psn": 1000, "path": 3},
        ),
        (RegisterControl(write, reg=RegisterName.MSN, value=0xABCD), {"low_msn": 0xABCD}),
        (RegisterControl(write, reg=RegisterName.FILTER, value=9), {"psn": 9}),
        (
            RegisterControl(write, reg=RegisterName.REGION_KEYS, value=1 << 32 | 2 << 16 | 3),
            {"rkey_xor": 1, "id_xor": 2, "sport_xor": 3},
        ),
        (RegisterControl(write, reg=RegisterName.SENT, value=10), {"psn": 10}),
        (RegisterControl(RegisterOp.INIT_GROUP, value=7 << 24 | 11), {"msn": 7, "psn": 11}),
        # The value of a request to read means nothing.
        (RegisterControl(RegisterOp.READ, reg=RegisterName.AGG, value=1), {}),
    ]
    frames = [bytes([PacketOutKind.REGISTERS, 0, 0]) + control.pack() for control, _ in values]
    names = sorted({name for _, parts in values for name in parts})
    fields = [f"alfirk.register_control.value.{name}" for name in names]
    found = _dissect(_write(folder / "values.pcap", frames, _USER_1), fields, *_CPU_PORT).frames
    for frame, (_, parts) in zip(found, values, strict=True):
        got = {name: int(frame[field], 0) for name, field in zip(names, fields, strict=True) if frame[field]}
        assert got == parts


def frames_behind_the_header_of_feedback_are_dissected(folder: Path) -> None:
    (ack,) = _craft(_roce("10.255.0.1", "10.255.0.1", "BTH(psn=9)/AETH(msn=3)"))
    feedback = Feedback(group=5, port=2, agg_psn=7, agg_msn=1)
    frame = bytes([PacketInReason.FEEDBACK, 0, 4]) + feedback.pack() + ack
    names = ["group", "port", "agg_psn", "agg_msn"]
    fields = [*(f"alfirk.feedback.{name}" for name in names), "alfirk.acked_psn", "alfirk.mcst_id"]
    found = _dissect(_write(folder / "feedback.pcap", [frame], _USER_0), fields, *_CPU_PORT).frames[0]
    assert [int(found[f"alfirk.feedback.{name}"]) for name in names] == [5, 2, 7, 1]
    assert (found["alfirk.acked_psn"], found["alfirk.mcst_id"]) == ("9", "10.255.0.1")


class _Recorder:
    """A proxy of one TCP connection, which records what passes, in order."""

    def __init__(self, server: int) -> None:
        self._server = server
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        #: Bytes, and whether the client sent them.
        self.sent: list[tuple[bool, bytes]] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with client, socket.create_connection(("127.0.0.1", self._server)) as server:
            to = {client: server, server: client}
            while True:
                for ready in select.select([client, server], [], [])[0]:
                    data = ready.recv(65536)
                    if not data:
                        return
                    self.sent.append((ready is client, data))
                    to[ready].sendall(data)

    def frames(self) -> list[bytes]:
        """Return the connection as frames of TCP, from its first byte on."""
        self._listener.close()
        self._thread.join(20)
        numbers = {True: 1, False: 1}
        ports = {True: (40000, 9559), False: (9559, 40000)}
        frames = []
        for is_client, data in list(self.sent):
            # Segments that fit into an IPv4 packet.
            for start in range(0, len(data), 30000):
                part = data[start : start + 30000]
                source, destination = ports[is_client]
                tcp = struct.pack(
                    "!HHIIBBHHH", source, destination, numbers[is_client], numbers[not is_client],
                    0x50, 0x18, 65535, 0, 0,
                )  # fmt: skip
                address = bytes([127, 0, 0, 1])
                ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + len(part), 0, 0, 64, 6, 0, address, address)
                frames.append(bytes(12) + b"\x08\x00" + ip + tcp + part)
                numbers[is_client] += len(part)
        return frames


def register_accesses_by_p4runtime_are_dissected(folder: Path, tmp_path: Path) -> None:
    """Record a connection of a P4Runtime client to a switch, and dissect it with the P4Runtime's messages."""
    program = _program().save(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = f"127.0.0.1:{port}"
    command = [_ALFIRK, "switch", "--no-p4", "--", "--grpc-server-addr", server]
    switch = subprocess.Popen([*map(str, command), "--cpu-port", str(CPU_PORT)], stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        recorder = _Recorder(port)
        info = _ROOT / "contract" / "alfirk.p4info.txtpb"
        client = Client(f"127.0.0.1:{recorder.port}", 0, info)
        client.push(program)
        registers = Registers(client)
        registers.init_group(3, 2, 1000, msn=5)
        assert registers.read(RegisterName.AGG, 3) == 999 << 24 | 5
        client.close()
        frames = recorder.frames()
    finally:
        switch.terminate()
        switch.wait()
    fields = ["alfirk.register_control.op", "alfirk.register_control.value.psn", "tcp.dstport"]
    # Of Protobuf's own messages, which Debian has in libprotobuf-dev, P4Runtime needs one.
    google = tmp_path / "google" / "protobuf"
    google.mkdir(parents=True)
    text = 'syntax = "proto3"; package google.protobuf; message Any { string type_url = 1; bytes value = 2; }'
    (google / "any.proto").write_text(text)
    paths = [_ROOT / "p4runtime" / "proto", tmp_path]
    flags = [part for path in paths for part in ("-o", f'uat:protobuf_search_paths:"{path}","TRUE"')]
    flags += ["-d", "tcp.port==9559,http2", "-Y", "alfirk.register_control.op"]
    found = _dissect(_write(folder / "p4runtime.pcap", frames), fields, *flags)
    assert found.errors == ""
    assert [tuple(frame.values()) for frame in found.frames] == [
        ("1", "1000", "9559"),
        ("1", "1000", "40000"),
        ("2", "", "9559"),
        ("2", "999", "40000"),
    ]


def _wait_for(port: int) -> None:
    """Wait until a server accepts connections, for 20 s at most."""
    for _ in range(200):
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.1)
    pytest.fail(f"nothing listens on port {port}")


def damaged_frames_cause_no_lua_error(folder: Path) -> None:
    choose = random.Random(4790)
    sources = [bytes.fromhex(frame["bytes"]) for name in _RUNS for frame in _samples(name, folder)]
    control = RegisterControl(RegisterOp.WRITE, reg=RegisterName.AGG).pack()
    to_switch = [bytes([kind, 0, 1]) + Feedback().pack() + choose.choice(sources) for kind in (0, 2)]
    to_switch.append(bytes([PacketOutKind.REGISTERS, 0, 0]) + control)
    for link, frames in ((_ETHERNET, sources), (_USER_0, to_switch), (_USER_1, to_switch)):
        damaged = [_damage(choose.choice(frames), choose) for _ in range(_DAMAGED)]
        capture = _write(folder / f"damaged{link}.pcap", damaged, link)
        text = _call(capture, "-V", *_CPU_PORT)
        assert "Lua" not in text.stdout + text.stderr


def _samples(name: str, folder: Path) -> list[dict[str, Any]]:
    """Return the short frames of a run."""
    return [frame for frame in _decoded(_capture_of(name, folder, "pcapng")) if frame["length"] < 200][:300]


def _damage(frame: bytes, choose: random.Random) -> bytes:
    """Change bytes, and mostly cut the frame; lengths of IPv4 and UDP then agree with it or not."""
    damaged = bytearray(frame)
    for _ in range(choose.randrange(4)):
        damaged[choose.randrange(min(len(frame), 12), len(frame))] = choose.choice(
            [0, 1, 0xFF, choose.randrange(256)]
        )
    if choose.random() < 0.7:
        del damaged[choose.randrange(1, len(damaged) + 1) :]
        if len(damaged) >= 42 and choose.random() < 0.8:
            damaged[16:18] = (len(damaged) - 14).to_bytes(2, "big")
            damaged[38:40] = (len(damaged) - 34).to_bytes(2, "big")
    return bytes(damaged)


def a_second_copy_is_not_loaded(folder: Path) -> None:
    twice = folder / "plugins"
    for name in ("a", "b"):
        shutil.copytree(_PLUGINS, twice / name, dirs_exist_ok=True)
    capture = _capture_of("not-ready", folder, "pcapng")
    found = _dissect(capture, ["alfirk.mcst_id"], "-Y", "alfirk", plugins=twice)
    assert found.errors == ""
    assert set(found.frames[0].values()) == {"10.255.0.1"}


def make_installs_the_dissector_and_removes_it(folder: Path, tmp_path: Path) -> None:
    where = ["PREFIX=/usr", f"DESTDIR={tmp_path}"]
    # The other steps of the target need an optimised command.
    plan = subprocess.run(
        ["make", "--dry-run", "install", *where], cwd=_ROOT, check=True, capture_output=True, text=True
    ).stdout
    steps = [line for line in plan.splitlines() if "editors/wireshark" in line]
    for step in steps:
        subprocess.run(step, cwd=_ROOT, shell=True, check=True)
    plugins = tmp_path / "usr" / "lib" / "wireshark" / "plugins" / "alfirk"
    assert sorted(plugins.iterdir()) == sorted(plugins / path.name for path in _PLUGINS.iterdir())
    installed = plugins.rename(tmp_path / "installed")
    capture = _capture_of("not-ready", folder, "pcapng")
    assert _dissect(capture, ["alfirk.mcst_id"], "-Y", "alfirk", plugins=installed).frames
    installed.rename(plugins)
    subprocess.run(["make", "uninstall", *where], cwd=_ROOT, check=True, capture_output=True)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def _escape(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)


def _craft(*expressions: str) -> list[bytes]:
    """Build frames from expressions of `alfirk packet`."""
    return [bytes.fromhex(line) for line in _alfirk("packet", "dissect", *expressions, "--hex").split()]


def _roce(source: str, destination: str, rest: str) -> str:
    """Return the expression of a RoCEv2 packet. The source port must not be one that Wireshark knows."""
    return f'Ether()/IP(src="{source}", dst="{destination}")/UDP(sport=50000, dport=4791)/{rest}/ICRC()'


def _write(path: Path, frames: Iterable[bytes], link: int = _ETHERNET) -> Path:
    """Write a capture in pcap format."""
    blocks = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, link)]
    for number, frame in enumerate(frames):
        blocks.append(struct.pack("<IIII", number, 0, len(frame), len(frame)) + frame)
    path.write_bytes(b"".join(blocks))
    return path
