"""`alfirk ptf` and `alfirk new ptf`: results, explanations of failures, bad input, what is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROOT = Path(__file__).parents[2]
_ALFIRK = Path(os.environ.get("ALFIRK", _ROOT / "target" / "debug" / "alfirk")).absolute()
_ROUTER = Path(__file__).with_name("router.p4")
#: A router for Tofino.
_ROUTER_TNA = Path(__file__).with_name("router_tna.p4")
#: A program for Tofino with an object of each kind.
_OBJECTS = _ROOT / "bfrt" / "test_data" / "bfrt.p4"
#: A program with tables of all kinds.
_KINDS = _ROOT / "cli" / "tests" / "new_ptf_kinds.p4"
#: An unprivileged user.
_OTHER_USER = 65534

_HEAD = """\
import os
import signal
import time

from alfirk_ptf.client import Action, Rule
from alfirk_ptf.program import ProgramTest
from ptf.mask import Mask
from ptf.testutils import send_packet, simple_tcp_packet, test_param_get
from ptf.testutils import verify_no_other_packets, verify_packet

ROUTE = Rule("ingress.routes", {"hdr.ipv4.dst": (0x0A000200, 24)}, Action("ingress.forward", {"port": 2}))
SENT = simple_tcp_packet(ip_dst="10.0.2.7", ip_ttl=64)
ROUTED = simple_tcp_packet(ip_dst="10.0.2.7", ip_ttl=63)
UNKNOWN = simple_tcp_packet(ip_dst="10.0.3.7", ip_ttl=64)

"""


def _environment(folder: Path, **more: str) -> dict[str, str]:
    """Return the environment of the command, with the tests' Python and a folder for temporary files."""
    paths = os.pathsep.join(str(_ROOT / name) for name in ("ptf-tests", "mininet"))
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    temporary.chmod(0o777)
    return {
        **os.environ,
        "PYTHONPATH": paths,
        "ALFIRK_PYTHON": sys.executable,
        "TMPDIR": str(temporary),
        **more,
    }


def _alfirk(
    folder: Path, *arguments: str, user: int | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(_ALFIRK), *arguments],
        cwd=folder,
        env=_environment(folder, **more),
        user=user,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def _suite(folder: Path, text: str) -> None:
    """Copy the program to a folder, and write the module `own` of its tests."""
    (folder / "router.p4").write_text(_ROUTER.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "ptf").mkdir()
    (folder / "ptf" / "own.py").write_text(_HEAD + text, encoding="utf-8")


def _section(output: str, name: str) -> str:
    """Return the report of a failed test."""
    (section,) = (part for part in output.split("=" * 70) if f": own.{name}\n" in part)
    return section


def _has_in_order(text: str, parts: Sequence[str]) -> None:
    at = 0
    for part in parts:
        found = text.find(part, at)
        assert found >= 0, f"{part!r} is not in:\n{text[at:]}"
        at = found + len(part)


def _processes_in(folder: Path) -> Mapping[int, str]:
    """Return processes whose command lines name a folder."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(folder) in line:
                found[int(entry.name)] = line
    return found


def _assert_nothing_left(folder: Path) -> None:
    deadline = time.monotonic() + 10
    while left := _processes_in(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.root
@pytest.mark.parametrize(("source", "last", "count"), [(_ROUTER, "Routes", 2), (_KINDS, "RandomSources", 10)])
def written_tests_of_a_program_pass(tmp_path: Path, source: Path, last: str, count: int) -> None:
    (tmp_path / "router.p4").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    done = _alfirk(tmp_path, "new", "ptf", "router.p4")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "router-ptf" / "README.md").is_file()
    done = _alfirk(tmp_path, "ptf", "router.p4")
    assert done.returncode == 0, done.stdout + done.stderr
    _has_in_order(done.stdout, [f"router_tests.Ingress{last} ... ok", f"{count} passed, 0 failed"])
    assert list((tmp_path / "temporary").iterdir()) == []
    # Nothing is overwritten.
    again = _alfirk(tmp_path, "new", "ptf", "router.p4")
    assert again.returncode == 2
    assert "router-ptf exists; name another folder with --output" in again.stderr


@pytest.mark.root
def written_tests_fail_for_another_program(tmp_path: Path) -> None:
    text = _ROUTER.read_text(encoding="utf-8")
    (tmp_path / "router.p4").write_text(text, encoding="utf-8")
    assert _alfirk(tmp_path, "new", "ptf", "router.p4").returncode == 0
    (tmp_path / "router.p4").write_text(text.replace("ttl - 1", "ttl - 2"), encoding="utf-8")
    done = _alfirk(tmp_path, "ptf", "router.p4")
    assert done.returncode == 1, done.stdout + done.stderr
    _has_in_order(done.stdout, ["ipv4.ttl: expected 63, received 62", "1 passed, 1 failed"])


@pytest.mark.root
def failures_are_explained_by_fields_and_trace(tmp_path: Path) -> None:
    _suite(
        tmp_path,
        """\
class Routed(ProgramTest):
    def runTest(self):
        assert test_param_get("limit") == 7
        assert test_param_get("cpu_port") == 510
        self.switch.add(ROUTE)
        send_packet(self, 1, SENT)
        verify_packet(self, ROUTED, 2)
        verify_no_other_packets(self)

class StartsWithoutEntries(ProgramTest):
    def runTest(self):
        self.assertEqual([], self.switch.entries("ingress.routes"))
        self.assertEqual(Action("ingress.drop", {}), self.switch.default_action("ingress.routes"))

class WrongField(ProgramTest):
    def runTest(self):
        self.switch.add(ROUTE)
        send_packet(self, 1, SENT)
        verify_packet(self, SENT, 2)

class Dropped(ProgramTest):
    def runTest(self):
        self.switch.add(ROUTE)
        send_packet(self, 1, SENT)
        verify_packet(self, ROUTED, 2)
        send_packet(self, 1, UNKNOWN)
        verify_packet(self, UNKNOWN, 2)

class WrongPort(ProgramTest):
    def runTest(self):
        self.switch.add(ROUTE)
        send_packet(self, 1, UNKNOWN)
        send_packet(self, 1, SENT)
        verify_packet(self, Mask(ROUTED), 3)

class Masked(ProgramTest):
    def runTest(self):
        self.switch.add(ROUTE)
        send_packet(self, 1, SENT)
        expected = Mask(bytes([1]) + bytes(SENT)[1:])
        expected.set_do_not_care(8 * 22, 8)
        expected.set_do_not_care(8 * 24, 16)
        verify_packet(self, expected, 2)

class Unexpected(ProgramTest):
    def runTest(self):
        self.switch.add(ROUTE)
        send_packet(self, 1, SENT)
        verify_no_other_packets(self)

class OwnCheck(ProgramTest):
    def runTest(self):
        send_packet(self, 1, SENT)
        self.assertEqual(1, 2, "a check of the test")

class UnknownTable(ProgramTest):
    def runTest(self):
        self.switch.entries("lost")
""",
    )
    done = _alfirk(tmp_path, "ptf", "router.p4", "--param", "limit=7")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "own.Routed ... ok" in done.stdout
    assert "own.StartsWithoutEntries ... ok" in done.stdout
    assert done.stdout.endswith("2 passed, 7 failed\n")
    routed = [
        "trace of the packet sent into port 1:",
        " in port 1, 100 bytes",
        "table ingress.routes [hdr.ipv4.dst = 0xa000207] hit",
        " out port 2, 100 bytes",
    ]
    missed = [
        "table ingress.routes [hdr.ipv4.dst = 0xa000307] miss of 1: ingress.drop()",
        " dropped: ingress",
    ]
    for name, parts in {
        "WrongField": [
            "own.py",
            "verify_packet(self, SENT, 2)",
            "the packet at port 2 differs from the expected one:",
            "ipv4.ttl: expected 64, received 63",
            "ipv4.checksum: expected 0x",
            *routed,
        ],
        "Dropped": [
            "nothing left port 2; packets at other ports: none",
            "trace of the packet sent into port 1:",
            *missed,
        ],
        "WrongPort": [
            "nothing left port 3; the expected packet left port 2",
            "trace of packet 1 of 2 sent into port 1:",
            *missed,
            "trace of packet 2 of 2 sent into port 1:",
            " out port 2, 100 bytes",
        ],
        "Masked": ["ethernet.dst: expected 01:01:02:03:04:05, received 00:01:02:03:04:05", *routed],
        "Unexpected": [
            "A packet was received on device 0, port 2",
            "received at port 2: ethernet / ipv4",
            *routed,
        ],
        "OwnCheck": ["1 != 2 : a check of the test", "trace of the packet", " dropped: ingress"],
        "UnknownTable": ["the program has no `lost`; valid names: ingress.routes"],
    }.items():
        _has_in_order(_section(done.stdout, name), parts)
    assert "ttl" not in _section(done.stdout, "Masked").partition("trace of")[0]
    # Frames of PTF and of the runner are not of interest.
    assert "testutils.py" not in done.stdout
    assert "p4runtime.py" not in done.stdout
    (work,) = (tmp_path / "temporary").iterdir()
    assert f"logs and captures are in {work}" in done.stderr
    assert {"switch.log", "ptf.log", "ptf.pcap"} <= {path.name for path in work.iterdir()}


_BFRT_HEAD = """\
from alfirk_ptf.bfrt.program import BfRtTest
from alfirk_ptf.client import Action, Rule
from alfirk_ptf.program import ProgramTest
from ptf.testutils import send_packet, simple_tcp_packet, test_param_get
from ptf.testutils import verify_no_other_packets, verify_packet

PREFIX = {"hdr.ipv4.dst": (0x0A000200, 24)}
SENT = simple_tcp_packet(ip_src="10.0.0.1", ip_dst="10.0.2.7", ip_ttl=64)
# The program does not update the checksum.
ROUTED = simple_tcp_packet(ip_src="10.0.0.1", ip_dst="10.0.2.7", ip_ttl=63)
ROUTED["IP"].chksum = SENT.__class__(bytes(SENT))["IP"].chksum

"""


def _tofino_suite(folder: Path, text: str) -> None:
    """Copy the program for Tofino to a folder, and write the module `own` of its tests."""
    (folder / "router.p4").write_text(_ROUTER_TNA.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "ptf").mkdir()
    (folder / "ptf" / "own.py").write_text(_BFRT_HEAD + text, encoding="utf-8")


@pytest.mark.root
def tests_of_programs_for_tofino_use_bfruntime_and_p4runtime(tmp_path: Path) -> None:
    _tofino_suite(
        tmp_path,
        """\
class Routed(BfRtTest):
    def runTest(self):
        assert test_param_get("bfrtaddr") == "127.0.0.1:50052"
        routes, rules, hosts = (self.switch.table(name) for name in ("routes", "rules", "hosts"))
        routes.add(PREFIX, "forward", {"port": 2})
        low = {"src": (0x0A000000, 0xFF000000), "tos": (0, 7), "$MATCH_PRIORITY": 2}
        rules.add(low, "classify", {"class": 5})
        for _ in range(3):
            send_packet(self, 1, SENT)
            verify_packet(self, ROUTED, 2)
        self.assertEqual(3, routes.get(PREFIX)["$COUNTER_SPEC_PKTS"])
        self.assertEqual(3, self.switch.table("classes").get(5)["$COUNTER_SPEC_PKTS"])
        seen = self.switch.table("seen").get(0)
        self.assertEqual((3, 0x0A000001), (seen["packets"], seen["last_src"]))
        # The entry with the smaller priority wins.
        high = {"src": (0x0A000001, 0xFFFFFFFF), "$MATCH_PRIORITY": 1}
        rules.add(high, "classify", {"class": 6})
        send_packet(self, 1, SENT)
        verify_packet(self, ROUTED, 2)
        self.assertEqual(1, self.switch.table("classes").get(6)["$COUNTER_SPEC_PKTS"])
        hosts.add(0x00060708090A, "deny")
        send_packet(self, 1, SENT)
        verify_no_other_packets(self)
        self.assertEqual(0x00060708090A, hosts.entries()[0].key["hdr.ethernet.src"])

class StartsAsLoaded(BfRtTest):
    def runTest(self):
        for name in ("routes", "rules", "hosts"):
            self.assertEqual([], self.switch.table(name).entries())
        self.assertEqual(0, self.switch.table("seen").get(0)["packets"])
        self.assertEqual(0, self.switch.table("classes").get(5)["$COUNTER_SPEC_PKTS"])

class Metered(BfRtTest):
    def runTest(self):
        self.switch.table("routes").add(PREFIX, "forward", {"port": 2})
        rates = {f"$METER_SPEC_{name}": 1 for name in ("CIR_PPS", "PIR_PPS", "CBS_PKTS", "PBS_PKTS")}
        self.switch.table("limits").modify(0, data=rates)
        send_packet(self, 1, SENT)
        verify_packet(self, ROUTED, 2)
        send_packet(self, 1, SENT)
        verify_no_other_packets(self)

class WrongPort(BfRtTest):
    def runTest(self):
        self.switch.table("routes").add(PREFIX, "forward", {"port": 2})
        send_packet(self, 1, SENT)
        verify_packet(self, ROUTED, 3)

class WrongName(BfRtTest):
    def runTest(self):
        self.switch.table("routes").add(PREFIX, "forward", {"prt": 2})

class ByP4Runtime(ProgramTest):
    def runTest(self):
        self.switch.add(Rule("Ingress.routes", PREFIX, Action("Ingress.forward", {"port": 2})))
        send_packet(self, 1, SENT)
        verify_packet(self, ROUTED, 2)
""",
    )
    done = _alfirk(tmp_path, "ptf", "--arch", "tna", "router.p4")
    assert done.returncode == 1, done.stdout + done.stderr
    for name in ("Routed", "StartsAsLoaded", "Metered", "ByP4Runtime"):
        assert f"own.{name} ... ok" in done.stdout, done.stdout
    assert done.stdout.endswith("4 passed, 2 failed\n")
    wrong_port = [
        "nothing left port 3; the expected packet left port 2",
        "table Ingress.routes [hdr.ipv4.dst = 0xa000207] hit",
    ]
    _has_in_order(_section(done.stdout, "WrongPort"), wrong_port)
    wrong_name = (
        "table pipe.Ingress.routes, action Ingress.forward has no data field `prt`; valid names: port,"
    )
    assert f"\n{wrong_name}" in _section(done.stdout, "WrongName")
    # Frames of the client are not of interest, and the switch serves BfRuntime.
    assert "bfrt/client.py" not in done.stdout
    assert "BfRuntime is not served" not in done.stderr


@pytest.mark.root
def compiled_programs_have_bfruntime_by_the_schema_beside_them(tmp_path: Path) -> None:
    test = """\
class HasSchema(BfRtTest):
    def runTest(self):
        assert "pipe.Ingress.routes" in self.switch.tables
"""
    _tofino_suite(tmp_path, test)
    files = ["-o", "router.json", "--p4runtime-files", "router.p4info.txtpb", "--bf-rt-schema", "bf-rt.json"]
    assert _alfirk(tmp_path, "p4c", "--arch", "tna", "router.p4", *files).returncode == 0
    done = _alfirk(tmp_path, "ptf", "router.json")
    assert done.returncode == 0, done.stdout + done.stderr
    # A program for another switch in the same folder.
    other = ["-o", "other.json", "--p4runtime-files", "other.p4info.txtpb"]
    assert _alfirk(tmp_path, "p4c", str(_ROUTER), *other).returncode == 0
    done = _alfirk(tmp_path, "ptf", "other.json")
    assert done.returncode == 1
    assert "the switch does not serve BfRuntime" in _section(done.stdout, "HasSchema")


@pytest.mark.root
def tests_that_need_bfruntime_fail_for_other_architectures(tmp_path: Path) -> None:
    _suite(
        tmp_path,
        """\
from alfirk_ptf.bfrt.program import BfRtTest

class NoServer(BfRtTest):
    def runTest(self):
        pass
""",
    )
    done = _alfirk(tmp_path, "ptf", "router.p4")
    assert done.returncode == 1, done.stdout + done.stderr
    message = "the switch does not serve BfRuntime: `alfirk ptf` needs --arch tna or --arch t2na"
    assert message in _section(done.stdout, "NoServer")


@pytest.mark.root
@pytest.mark.parametrize("control", ["bfrt", "p4runtime"])
@pytest.mark.parametrize(
    ("source", "last", "tables", "arrays"), [(_ROUTER_TNA, "Hosts", 3, 3), (_OBJECTS, "Choose", 6, 3)]
)
def written_tests_of_a_program_for_tofino_pass(
    tmp_path: Path, source: Path, last: str, tables: int, arrays: int, control: str
) -> None:
    (tmp_path / "router.p4").write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    flags = [] if control == "bfrt" else ["--control", control]
    done = _alfirk(tmp_path, "new", "ptf", "router.p4", "--arch", "tna", *flags)
    assert (done.returncode, done.stderr) == (0, "")
    module = (tmp_path / "router-ptf" / "router_tests.py").read_text(encoding="utf-8")
    assert ("(BfRtTest):" in module) == (control == "bfrt")
    assert ("(ProgramTest):" in module) == (control == "p4runtime")
    done = _alfirk(tmp_path, "ptf", "--arch", "tna", "router.p4")
    assert done.returncode == 0, done.stdout + done.stderr
    # One without entries, one for each table, and by BfRuntime one for each array of cells.
    count = 1 + tables + arrays * (control == "bfrt")
    _has_in_order(done.stdout, [f"router_tests.Ingress{last} ... ok", f"{count} passed, 0 failed"])


@pytest.mark.root
def coverage_counts_what_the_packets_of_the_tests_execute(tmp_path: Path) -> None:
    _suite(
        tmp_path,
        """\
class Routed(ProgramTest):
    def runTest(self):
        self.switch.add(ROUTE)
        for _ in range(3):
            send_packet(self, 1, SENT)
            verify_packet(self, ROUTED, 2)
""",
    )
    done = _alfirk(tmp_path, "ptf", "--coverage", "cov.info", "router.p4")
    assert done.returncode == 0, done.stdout + done.stderr
    numbered = enumerate(_ROUTER.read_text(encoding="utf-8").splitlines(), start=1)
    line = {text.strip(): number for number, text in numbered}
    lines = (tmp_path / "cov.info").read_text(encoding="utf-8").splitlines()
    # The packets of the test alone: the runner sends none, and the kernel's are not IPv4.
    assert f"DA:{line['hdr.ipv4.ttl = hdr.ipv4.ttl - 1;']},3" in lines
    missed = _alfirk(tmp_path, "coverage", "cov.info", "--missed").stdout
    assert "never: miss: table routes {" in missed
    assert "hdr.ipv4.ttl" not in missed


@pytest.mark.root
def other_users_than_root_get_a_user_namespace() -> None:
    probe = ["unshare", "--map-root-user", "--net", "true"]
    if subprocess.run(probe, user=_OTHER_USER, check=False, capture_output=True).returncode:
        pytest.skip("the kernel does not permit user namespaces")
    # Folders of pytest are closed to other users, and each start of pytest closes them again.
    with tempfile.TemporaryDirectory(prefix="alfirk-ptf-test-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        _suite(
            folder, "class Loaded(ProgramTest):\n    def runTest(self):\n        assert os.getuid() == 0\n"
        )
        done = _alfirk(folder, "ptf", "router.p4", user=_OTHER_USER, HOME=name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 0 failed" in done.stdout


@pytest.mark.root
def tests_end_with_the_switch(tmp_path: Path) -> None:
    _suite(
        tmp_path,
        """\
class Kills(ProgramTest):
    def runTest(self):
        parent = os.getppid()
        with open(f"/proc/{parent}/task/{parent}/children") as children:
            for child in map(int, children.read().split()):
                if child != os.getpid():
                    os.kill(child, signal.SIGKILL)
        time.sleep(50)
""",
    )
    begin = time.monotonic()
    done = _alfirk(tmp_path, "ptf", "router.p4")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "alfirk ptf: the switch was killed by SIGKILL during the tests; see" in done.stderr
    assert time.monotonic() - begin < 45
    _assert_nothing_left(tmp_path)


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda n: n.name)
def interrupted_tests_leave_nothing(tmp_path: Path, number: signal.Signals) -> None:
    _suite(
        tmp_path,
        """\
class Waits(ProgramTest):
    def runTest(self):
        open("started", "w").close()
        time.sleep(50)
""",
    )
    process = subprocess.Popen(
        [str(_ALFIRK), "ptf", str(tmp_path / "router.p4")],
        cwd=tmp_path,
        env=_environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not (tmp_path / "started").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    if number is signal.SIGINT:
        # As the terminal does.
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    output, _ = process.communicate(timeout=30)
    _assert_nothing_left(tmp_path)
    if number is signal.SIGKILL:
        assert process.returncode == -number
    else:
        assert process.returncode == 130, output
        assert "alfirk ptf: interrupted" in output
        assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.root
def tests_that_cannot_run_are_reported_in_one_line(tmp_path: Path) -> None:
    _suite(tmp_path, "class Idle(ProgramTest):\n    def runTest(self):\n        pass\n")
    (tmp_path / "wrong.p4").write_text("header h_t { bit<8> a }\n")
    (tmp_path / "router.json").write_text("{}")
    for arguments, message in [
        (("wrong.p4",), "does not compile:"),
        (("router.p4", "own.Lost"), "has no class Lost; classes: Idle"),
        (("router.json",), "router.p4info.txtpb: no such file"),
        (("router.p4", "--ports", "3-1"), "--ports: expected port numbers and ranges"),
        (("router.p4", "--cpu-port", "3"), "--cpu-port 3 is also a port with an interface"),
        (("router.p4", "--switch", "/nowhere/switch"), "--switch /nowhere/switch: not an executable"),
    ]:
        done = _alfirk(tmp_path, "ptf", *arguments)
        assert done.returncode == 2, done.stdout + done.stderr
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    assert list((tmp_path / "temporary").iterdir()) == []
    (tmp_path / "ptf" / "own.py").write_text("import lost_module\n")
    done = _alfirk(tmp_path, "ptf", "router.p4")
    assert done.returncode == 2
    assert "No module named 'lost_module'" in done.stdout
    assert "PTF ended before it had run the tests" in done.stderr


def missing_programs_tests_and_packages_are_bad_input(tmp_path: Path) -> None:
    (tmp_path / "router.p4").write_text(_ROUTER.read_text(encoding="utf-8"), encoding="utf-8")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    for arguments, message in [
        (("lost.p4",), "lost.p4: no such file"),
        (("router.p4",), "no tests: router-ptf, ptf and router.stf do not exist"),
        (("router.p4", "a.stf", "b.py"), "STF files and PTF tests are run separately"),
        (("router.p4", "tests"), f"{python} lacks the Python packages ptf, scapy, grpc"),
    ]:
        done = _alfirk(tmp_path, "ptf", *arguments, ALFIRK_PYTHON=str(python))
        assert done.returncode == 2, done.stdout + done.stderr
        assert message in done.stderr
    done = _alfirk(tmp_path, "new", "ptf", "router.p4", "--control", "bfrt")
    assert done.returncode == 2
    assert "--control bfrt: BfRuntime is the interface of Tofino; add --arch tna or t2na" in done.stderr
    done = _alfirk(tmp_path, "new", "ptf", "lost.p4")
    assert done.returncode == 2
    assert "lost.p4" in done.stderr
    (tmp_path / "wrong.p4").write_text("header h_t { bit<8> a }\n")
    done = _alfirk(tmp_path, "new", "ptf", "wrong.p4")
    assert done.returncode == 1
    assert "wrong.p4:1:" in done.stderr
    assert not (tmp_path / "wrong-ptf").exists()


def stf_tests_of_a_program_run_without_interfaces(tmp_path: Path) -> None:
    (tmp_path / "router.p4").write_text(_ROUTER.read_text(encoding="utf-8"), encoding="utf-8")
    frame = "ffffffffffff00000000000108004500001400000000401100000a0000010a000207"
    (tmp_path / "router.stf").write_text(f"packet 1 {frame}\n")
    done = _alfirk(tmp_path, "ptf", "router.p4")
    assert (done.returncode, done.stdout) == (0, "router.stf: passed\n"), done.stderr
    (tmp_path / "wrong.stf").write_text(f"packet 1 {frame}\nexpect 2\n")
    done = _alfirk(tmp_path, "ptf", "router.p4", "router.stf", "wrong.stf")
    assert done.returncode == 1
    _has_in_order(
        done.stdout,
        ["router.stf: passed", "wrong.stf:1: packet", "miss of 0: ingress.drop()", "1 check failed"],
    )
