"""Hosts that are QEMU guests with a kernel of their own: Linux's RDMA stack without RDMA hardware.

A guest's network card is a tap that is itself the switch's port.  It shares the network's working folder
under the same path, runs ``NAME.start`` from there, and has two virtio-serial ports: ``alfirk.control`` for
``alfirk host``, which appears here as the Unix socket of any host, and ``alfirk.shell`` for commands
(:class:`Shell`).
"""

from __future__ import annotations

import json
import os
import secrets
import select
import shlex
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.interfaces import ip_batch
from alfirk_mininet.journal import ALIAS
from alfirk_mininet.process import Child

if TYPE_CHECKING:
    from pathlib import Path

    from alfirk_mininet.journal import Journal

QEMU = "qemu-system-x86_64"
#: Time limit in seconds until all guests are ready; emulated on one busy core each takes about ten.
START_LIMIT = 110.0
#: Memory of a guest in megabytes, without the root file system.
MEMORY = 160
#: Queue length of a guest's tap; the kernel's default of 1,000 is too short for a guest that is descheduled.
TAP_QUEUE = 4096
#: Names of the guest's only network interface, and of its RDMA device.
INTERFACE, DEVICE = "eth0", "rxe0"
#: Path of the control port in the guest.
CONTROL_PORT = "/dev/virtio-ports/alfirk.control"
#: Time limits in seconds for a kernel on KVM: for its first output, and for its boot.
KVM_FIRST_WORD, KVM_LIMIT = 1.5, 5.0


@dataclass(frozen=True)
class Image:
    """Kernel and root file system of guests; ``interop/run build`` creates them."""

    folder: Path

    @property
    def kernel(self) -> Path:
        """The kernel, an ELF file."""
        return self.folder / "vmlinux"

    @property
    def initramfs(self) -> Path:
        """The root file system."""
        return self.folder / "initramfs"

    @property
    def memory(self) -> int:
        """Memory of a guest in megabytes.

        While the root file system is unpacked, its archive is in memory too, and the kernel lets files take
        at most half of the rest.
        """
        return MEMORY + 3 * (self.initramfs.stat().st_size >> 20)

    def check(self, alfirk: Path) -> None:
        """Fail if the image is missing, or contains another version of alfirk."""
        try:
            manifest = json.loads((self.folder / "manifest.json").read_text())
            state = alfirk.resolve().stat()
        except (OSError, ValueError) as error:
            raise NetworkError(f"{self.folder} has no guest image", "create it: make guest-image") from error
        if manifest.get("alfirk") != f"{state.st_size}-{state.st_mtime_ns}":
            raise NetworkError(
                f"the guest image in {self.folder} contains another version of alfirk than {alfirk}",
                "create it again: make guest-image",
            )


@dataclass
class Guest:
    """One guest: its configuration, and its process once it is started."""

    name: str
    #: IPv4 address with prefix length.
    address: str
    mac: str
    #: MTU in bytes.
    mtu: int
    #: The tap that QEMU opens, in the network namespace of the guest's process.
    tap: str
    #: Folder for sockets and logs; the guest sees it under the same path.
    workdir: Path
    image: Image
    #: Whether the guest has an RDMA device.
    rxe: bool = True
    #: Shell commands that the guest runs after its boot; the guest ends when they end.
    program: str = ""
    child: Child | None = field(default=None, init=False)

    @property
    def control(self) -> Path:
        """Socket that is connected to the guest's port ``alfirk.control``."""
        return self.workdir / f"{self.name}.sock"

    @property
    def shell(self) -> Shell:
        """Return a connection for running commands in the guest."""
        return Shell(self.name, self.workdir / f"{self.name}.shell")

    def command(self) -> list[str]:
        """Build QEMU's command line."""
        words = [
            "console=ttyS0 quiet loglevel=3 panic=-1 rdinit=/init",
            "tsc=reliable no_timer_check mitigations=off",
            f"alfirk.name={self.name} alfirk.ip={self.address} alfirk.mtu={self.mtu}",
            f"alfirk.share={self.workdir} alfirk.rxe={int(self.rxe)}",
        ]
        # Offloads are disabled: rdma_rxe needs packets that are complete and not coalesced.
        plain = ",".join(f"{feature}=off" for feature in _OFFLOADS)
        line = [
            QEMU,
            "-accel",
            "kvm" if kvm_works(self.image.kernel) else "tcg",
            "-m",
            str(self.image.memory),
            "-smp",
            "1",
        ]
        line += _MACHINE
        line += ["-kernel", str(self.image.kernel), "-initrd", str(self.image.initramfs)]
        line += ["-append", " ".join(words), "-serial", "stdio"]
        line += ["-netdev", f"tap,id=net,ifname={self.tap},script=no,downscript=no"]
        line += ["-device", f"virtio-net-pci,netdev=net,romfile=,mac={self.mac},host_mtu={self.mtu},{plain}"]
        line += ["-device", "virtio-serial-pci"]
        for port, path in (("control", self.control), ("shell", self.shell.path)):
            line += ["-chardev", f"socket,id={port},path={path},server=on,wait=off"]
            line += ["-device", f"virtserialport,chardev={port},name=alfirk.{port}"]
        line += ["-fsdev", f"local,id=share,path={self.workdir},security_model=none,multidevs=remap"]
        line += ["-device", "virtio-9p-pci,fsdev=share,mount_tag=share"]
        return line

    def start(self, journal: Journal | None = None, namespace: int | None = None) -> None:
        """Boot the guest; :meth:`is_ready` is true when it is ready.

        `namespace` is a process in the network namespace of the tap, by default ours.
        """
        check_tools()
        if "," in str(self.workdir) or any(letter.isspace() for letter in str(self.workdir)):
            raise NetworkError(
                f"QEMU cannot share the folder {self.workdir}", "choose one without commas and spaces"
            )
        for path in (self._ready, self.control, self.shell.path):
            path.unlink(missing_ok=True)
        start = self.workdir / f"{self.name}.start"
        if self.program:
            start.write_text(self.program)
        else:
            start.unlink(missing_ok=True)
        enter = [] if namespace is None else ["mnexec", "-a", str(namespace)]
        log = self.workdir / f"{self.name}.log"
        self.child = Child.spawn(f"guest {self.name}", [*enter, *self.command()], log)
        if journal:
            journal.process(self.child.pid)

    def is_ready(self) -> bool:
        """Return whether the guest is ready."""
        return self._ready.exists()

    @property
    def _ready(self) -> Path:
        return self.workdir / f"{self.name}.ready"

    def remove_files(self) -> None:
        """Remove the guest's files, after it has ended."""
        for path in (self._ready, self.control, self.shell.path):
            path.unlink(missing_ok=True)


_OFFLOADS = [
    *("csum", "gso", "guest_csum", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo"),
    *("host_tso4", "host_tso6", "host_ecn", "host_ufo", "mrg_rxbuf"),
]


class Shell:
    """Runs commands in a guest, one at a time."""

    def __init__(self, guest: str, path: Path) -> None:
        self.guest = guest
        self.path = path

    def run(self, command: str, limit: float = 60) -> str:
        """Run a shell command and return its output; fails if its exit code is not 0."""
        code, output = self.attempt(command, limit)
        if code:
            raise NetworkError(
                f"guest {self.guest}: `{command}` ended with exit code {code}",
                output.strip() or "it printed nothing",
            )
        return output

    def attempt(self, command: str, limit: float = 60) -> tuple[int, str]:
        """Run a one-line shell command; return its exit code and output."""
        end = f"end-{secrets.token_hex(8)}"
        deadline = time.monotonic() + limit
        answer = b""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(limit)
            try:
                connection.connect(str(self.path))
                connection.sendall(f"{end} {command}\n".encode())
                while True:
                    connection.settimeout(max(0.01, deadline - time.monotonic()))
                    chunk = connection.recv(1 << 16)
                    answer += chunk
                    output, found, code = answer.rpartition(f"\n{end} ".encode())
                    if found and code.endswith(b"\n"):
                        return int(code), output.decode(errors="replace")
                    if not chunk:
                        raise NetworkError(f"guest {self.guest} has ended", "see its log")
            except OSError as error:
                raise NetworkError(
                    f"guest {self.guest}: no reply to `{command}` within {limit:.0f} s: {error}",
                    "see the guest's log",
                ) from error


def make_tap(name: str, mtu: int) -> None:
    """Create a tap for a guest, up, in this namespace; the kernel does not send on it."""
    done = ip_batch(
        [
            f"tuntap add dev {name} mode tap",
            f"link set dev {name} alias {ALIAS} mtu {mtu} txqueuelen {TAP_QUEUE} arp off",
        ]
    )
    if done.returncode:
        errors = done.stderr.strip().splitlines()
        raise NetworkError(
            f"cannot create the tap {name}: {errors[0] if errors else 'ip printed nothing'}",
            "guests need /dev/net/tun; if the name is in use, stop the other network that has it",
        )


def host_program(guest: Guest, *, seed: int) -> str:
    """Return the start script of a guest that runs ``alfirk host``, on Linux's RDMA stack if it has that."""
    device = ["--verbs", "--device", DEVICE] if guest.rxe else ["--interface", INTERFACE]
    flags = [*device, "--name", guest.name, "--control", CONTROL_PORT, "--seed", str(seed)]
    return f"exec alfirk host {shlex.join(flags)}\n"


def check_tools() -> None:
    """Fail if a tool that guests need is missing."""
    if shutil.which(QEMU) is None:
        raise NetworkError(f"{QEMU} is not on PATH", "sudo apt-get install qemu-system-x86")


@cache
def kvm_works(kernel: Path) -> bool:
    """Return whether KVM works on this machine: boots a kernel until it finds no root file system.

    The device file is not sufficient: on some machines it runs small programs, but no kernel.
    ``ALFIRK_KVM=1`` or ``0`` in the environment sets the result without a test.
    """
    setting = os.environ.get("ALFIRK_KVM")
    if setting is not None:
        return setting != "0"
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    command = [QEMU, "-accel", "kvm", *_MACHINE, "-m", "128", "-kernel", str(kernel), "-serial", "stdio"]
    command += ["-append", "console=ttyS0 earlyprintk=ttyS0 panic=-1"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            if process.stdout is None or not select.select([process.stdout], [], [], KVM_FIRST_WORD)[0]:
                return False
            output, _ = process.communicate(timeout=KVM_LIMIT)
            return b"Linux version" in output and process.returncode == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            process.kill()


_MACHINE = ["-machine", "pc", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
