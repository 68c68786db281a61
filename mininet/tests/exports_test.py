"""Exported networks for containerlab and Kathara, built without these programs: one namespace per container.

Images and the programs' own management networks are not tested.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shlex
import subprocess
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

yaml = pytest.importorskip("yaml")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.root

ROOT = Path(__file__).parents[2]
ALFIRK = Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk"))


@dataclass(frozen=True)
class End:
    """One end of a link."""

    device: str
    interface: str
    mac: str | None


@dataclass
class Lab:
    """Nodes and links of a lab, parsed from its files."""

    links: list[tuple[End, End]] = field(default_factory=list)
    #: Commands that containers run at their start, before they have links.
    commands: dict[str, list[str]] = field(default_factory=dict)
    #: (container, script) to run once the links exist, in order.
    scripts: list[tuple[str, str]] = field(default_factory=list)
    #: Published ports: port of this machine to (device, port in the device).
    ports: dict[int, tuple[str, int]] = field(default_factory=dict)


def _containerlab(folder: Path) -> Lab:
    data = yaml.safe_load((folder / "lab.clab.yml").read_text())["topology"]
    lab = Lab()
    for name, node in data["nodes"].items():
        lab.commands[name] = shlex.split(node["cmd"])
        lab.scripts += [(name, command) for command in node.get("exec", [])]
        for published in node.get("ports", []):
            outside, inside = published.split(":")
            lab.ports[int(outside)] = (name, int(inside))
    for link in data["links"]:
        assert link["type"] == "veth"
        first, second = (End(end["node"], end["interface"], end.get("mac")) for end in link["endpoints"])
        lab.links.append((first, second))
        # Containerlab sets the MTU at both ends.
        lab.scripts += [
            (end.device, f"ip link set dev {end.interface} mtu {link['mtu']}") for end in (first, second)
        ]
    return lab


def _kathara(folder: Path) -> Lab:
    lab = Lab()
    domains: dict[str, list[End]] = {}
    devices: dict[str, None] = {}
    for line in (folder / "lab.conf").read_text().splitlines():
        data = re.fullmatch(r'([a-z0-9_]+)\[(\w+)\]="([^"]*)"', line)
        if not data:
            assert line == "" or line.startswith(("#", "LAB_")), line
            continue
        name, key, value = data.groups()
        devices[name] = None
        if key.isdecimal():
            domain, _, mac = value.partition("/")
            domains.setdefault(domain, []).append(End(name, f"eth{key}", mac or None))
        elif key == "port":
            outside, inside = value.removesuffix("/tcp").split(":")
            lab.ports[int(outside)] = (name, int(inside))
    for ends in domains.values():
        first, second = ends
        lab.links.append((first, second))
    lab.scripts += [(name, (folder / f"{name}.startup").read_text()) for name in devices]
    lab.commands = {name: ["sleep", "infinity"] for name in devices}
    return lab


class Carried:
    """A lab that runs in namespaces."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        tools = folder / "bin"
        tools.mkdir()
        (tools / "alfirk").symlink_to(ALFIRK.absolute())
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
        own = "mount -t sysfs sysfs /sys; for i in /run /var/log; do mount -t tmpfs own $i; done"
        for name, command in lab.commands.items():
            line = ["unshare", "--net", "--mount", "--", "sh", "-c", f'{own}; exec "$@"', "sh", *command]
            with (folder / f"{name}.out").open("wb") as out:
                self.processes[name] = subprocess.Popen(
                    line, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self.environment
                )
        for name in lab.commands:
            _until(partial(self._is_there, name), f"{name} is there")
        for first, second in lab.links:
            ends = [self._made(end) for end in (first, second)]
            _ip(f"link add {ends[0]} type veth peer {ends[1]}")
            for end in (first, second):
                self.run(end.device, f"ip link set dev {end.interface} up")
        for name, script in lab.scripts:
            self.run(name, script)
        #: Address of each device with published ports, on a link to this machine.
        self.addresses: dict[int, str] = {}
        for number, (outside, (name, inside)) in enumerate(sorted(lab.ports.items()), start=1):
            _ip(f"link add name lab{number} type veth peer name mgmt netns {self.processes[name].pid}")
            _ip(f"address add 172.31.{number}.1/24 dev lab{number}")
            _ip(f"link set dev lab{number} up")
            self.run(name, f"ip address add 172.31.{number}.2/24 dev mgmt; ip link set dev mgmt up")
            self.addresses[outside] = f"172.31.{number}.2:{inside}"

    def _made(self, end: End) -> str:
        """Return the arguments of `ip link` that create this end."""
        address = f"address {end.mac} " if end.mac else ""
        return f"name {end.interface} {address}netns {self.processes[end.device].pid}"

    def _is_there(self, name: str) -> bool:
        return self.run(name, "ls /sys/class/net; cat /proc/mounts").count("own /") == 2

    def run(self, name: str, script: str) -> str:
        """Run a script in a device."""
        inside = [
            "nsenter",
            f"--target={self.processes[name].pid}",
            "--net",
            "--mount",
            "--",
            "sh",
            "-c",
            script,
        ]
        done = subprocess.run(
            inside,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self.environment,
            check=False,
        )
        return done.stdout

    def end(self) -> None:
        """End all processes in the devices."""
        names = {os.readlink(f"/proc/{process.pid}/ns/net") for process in self.processes.values()}  # noqa: PTH115
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.readlink(entry / "ns" / "net") in names:  # noqa: PTH115
                    os.kill(int(entry.name), 9)
        for process in self.processes.values():
            process.wait()
        for number in itertools.count(1):
            if number > len(self.addresses):
                break
            subprocess.run(["ip", "link", "delete", f"lab{number}"], capture_output=True, check=False)


def _ip(line: str) -> None:
    subprocess.run(["ip", *line.split()], check=True)


def _until(condition: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


@contextlib.contextmanager
def _controller(folder: Path, carried: Carried) -> Iterator[None]:
    """Start the controller as the comment in the lab's file says, with the devices' addresses here."""
    program = [folder / "main.json", folder / "main.p4info.txtpb"]
    source = ROOT / "p4src" / "v1model" / "main.p4"
    compiling: list[str | Path] = [ALFIRK, "p4c", source, "-o", program[0]]
    compiling += ["--p4runtime-files", program[1]]
    subprocess.run(compiling, check=True)
    switches = folder / "here.txt"
    lines = (line.partition("=") for line in (folder / "switches.txt").read_text().splitlines())
    switches.write_text(
        "".join(
            f"{name}={carried.addresses[int(address.rpartition(':')[2])]}\n" for name, _, address in lines
        )
    )
    command: list[str | Path] = [
        ALFIRK,
        "ctrl",
        "--json",
        "--topology",
        folder / "topology.yaml",
        "--switches",
        switches,
    ]
    command += ["--p4info", program[1], "--device-config", program[0], "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as controller:
        try:
            assert controller.stdout
            assert json.loads(controller.stdout.readline())["ready"] is True
            yield
        finally:
            controller.terminate()


@pytest.mark.parametrize("kind", ["containerlab", "kathara"])
def exported_networks_carry_packets(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "lab"
    exporting: list[str | Path] = [ALFIRK, "topology", kind, "leaf-spine:2,1,1", "--out", folder]
    subprocess.run(exporting, check=True, capture_output=True)
    carried = Carried({"containerlab": _containerlab, "kathara": _kathara}[kind](folder), tmp_path)
    try:
        with _controller(folder, carried):
            answer = carried.run("h1", "ping -c 2 -i 0.2 -W 10 10.0.1.1")
            assert "2 received, 0% packet loss" in answer, answer
            for host in ("h1", "h2"):
                assert "/run/alfirk-host.sock" in carried.run(host, "ls /run/alfirk-host.sock"), host
    finally:
        carried.end()
