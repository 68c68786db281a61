"""An independent Thrift implementation as a client of the switch, with the interface files of this crate."""

from __future__ import annotations

import os
import struct
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import thriftpy2
from thriftpy2.protocol import TBinaryProtocolFactory, TMultiplexedProtocolFactory
from thriftpy2.thrift import TApplicationException, TClient
from thriftpy2.transport import TBufferedTransportFactory, TSocket

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
ALFIRK = Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk"))
IDL = ROOT / "thrift" / "idl"
PROGRAM = Path(__file__).parent / "forward.p4"
# Seconds.
DEADLINE = 30
FRAME = bytes.fromhex("0000000000020000000000010800") + bytes(46)


def _load(service: str) -> Any:
    return thriftpy2.load(str(IDL / f"{service}.thrift"), module_name=f"{service}_thrift")


STANDARD, PRE, SWITCH = _load("standard"), _load("simple_pre_lag"), _load("simple_switch")


@pytest.fixture(name="program", scope="module")
def _program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("program") / "forward.json"
    subprocess.run([ALFIRK, "p4c", PROGRAM, "-o", output], check=True)
    return output


@contextmanager
def _switch(program: Path, folder: Path) -> Iterator[int]:
    """Start the switch as simple_switch on files, and yield the port of its services."""
    command = (ALFIRK, "switch", "--as-simple-switch", "--thrift-port", "0", "--use-files", "0")
    ports = ("-i", "1@one", "-i", "2@two", "-i", "3@three")
    with subprocess.Popen(
        [*command, *ports, program, "--", "--enable-swap"], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as switch:
        try:
            assert switch.stdout
            line = next(line for line in switch.stdout if "Thrift server listening" in line)
            yield int(line.rsplit(":", 1)[1])
        finally:
            switch.terminate()


@contextmanager
def _client(service: Any, name: str, port: int) -> Iterator[Any]:
    transport = TBufferedTransportFactory().get_transport(TSocket("127.0.0.1", port))
    transport.open()
    binary = TBinaryProtocolFactory()
    yield TClient(service, TMultiplexedProtocolFactory(binary, name).get_protocol(transport))
    transport.close()


def _capture(frames: list[bytes]) -> bytes:
    """Write a pcap file as tcpdump does."""
    records = [struct.pack("<IIII", n, 0, len(frame), len(frame)) + frame for n, frame in enumerate(frames)]
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(records)


def _captured(path: Path) -> list[bytes]:
    data, frames, at = path.read_bytes(), [], 24
    while at < len(data):
        length = int.from_bytes(data[at + 8 : at + 12], "little")
        frames.append(data[at + 16 : at + 16 + length])
        at += 16 + length
    return frames


def frames_of_a_file_are_forwarded_by_entries(program: Path, tmp_path: Path) -> None:
    pipes = {name: tmp_path / f"{name}_in.pcap" for name in ("one", "two", "three")}
    for pipe in pipes.values():
        os.mkfifo(pipe)
    with _switch(program, tmp_path) as port, _client(STANDARD.Standard, "standard", port) as standard:
        key = STANDARD.BmMatchParam(
            type=STANDARD.BmMatchParamType.EXACT, exact=STANDARD.BmMatchParamExact(key=FRAME[:6])
        )
        options = STANDARD.BmAddEntryOptions()
        name, action = "MyIngress.forward", "MyIngress.send"
        entry = standard.bm_mt_add_entry(0, name, [key], action, [b"\x00\x02"], options)
        shown = standard.bm_mt_get_entry(0, name, entry)
        assert shown.match_key[0].exact.key == FRAME[:6]
        assert shown.action_entry.action_data == [b"\x02"]
        with pytest.raises(STANDARD.InvalidTableOperation) as refused:
            standard.bm_mt_add_entry(0, name, [key], action, [b"\x00\x03"], options)
        assert refused.value.code == STANDARD.TableOperationErrorCode.DUPLICATE_ENTRY

        with pipes["one"].open("wb") as file:
            file.write(_capture([FRAME, FRAME]))
        deadline = time.monotonic() + DEADLINE
        while len(sent := _captured(tmp_path / "two_out.pcap")) < 2:
            assert time.monotonic() < deadline, "the frames have not left"
        assert sent == [FRAME, FRAME]
        assert standard.bm_counter_read(0, "MyIngress.seen", 1).packets == 2
        assert _captured(tmp_path / "three_out.pcap") == []


def all_services_share_a_port_and_a_state(program: Path, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}_in.pcap").write_bytes(_capture([]))
    with (
        _switch(program, tmp_path) as port,
        _client(STANDARD.Standard, "standard", port) as standard,
        _client(PRE.SimplePreLAG, "simple_pre_lag", port) as pre,
        _client(SWITCH.SimpleSwitch, "simple_switch", port) as switch,
    ):
        assert standard.bm_mgmt_get_info().thrift_port == port
        assert standard.bm_get_config() == program.read_text()
        assert [info.iface_name for info in standard.bm_dev_mgr_show_ports()] == ["one", "two", "three"]
        pre.bm_mc_mgrp_create(0, 1)
        node = pre.bm_mc_node_create(0, 5, "110", "")
        pre.bm_mc_node_associate(0, 1, node)
        assert '"rid": 5' in pre.bm_mc_get_entries(0)
        switch.mirroring_session_add(7, SWITCH.MirroringSessionConfig(port=2))
        assert switch.mirroring_session_get(7).port == 2
        standard.bm_load_new_config(program.read_text())
        standard.bm_swap_configs()
        assert switch.get_time_elapsed_us() > 0


def unknown_services_are_rejected(program: Path, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}_in.pcap").write_bytes(_capture([]))
    with _switch(program, tmp_path) as port:
        with (
            _client(STANDARD.Standard, "unknown", port) as client,
            pytest.raises(TApplicationException, match="unknown"),
        ):
            client.bm_get_config()
        with _client(STANDARD.Standard, "standard", port) as client:
            assert client.bm_get_config()


def a_port_in_use_is_reported(program: Path, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / f"{name}_in.pcap").write_bytes(_capture([]))
    with _switch(program, tmp_path) as port:
        command = (ALFIRK, "switch", "--as-simple-switch", "--thrift-port", str(port), program)
        second = subprocess.run(command, capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert "another switch uses it" in second.stderr
