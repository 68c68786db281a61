"""Simulates several machines by network namespaces, each with an sshd, joined by a router."""

from __future__ import annotations

import contextlib
import getpass
import pwd
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
#: The OpenSSH server that tools/setup unpacks.
SSHD = ROOT / ".venv" / "openssh-server" / "usr" / "sbin" / "sshd"
#: The MTU that VXLAN needs for links with an MTU of 4,200 bytes.
MTU = 4250

_APART = ("unshare", "--net", "--mount", "--propagation", "private")


class Machine:
    """A namespace for network and mounts, with its own /run and an address of the site."""

    def __init__(self, site: Site, number: int) -> None:
        self.name = f"m{number}"
        self.address = f"10.77.{number}.2"
        self._site = site
        self._process = subprocess.Popen([*_APART, "sleep", "infinity"], stdin=subprocess.DEVNULL)
        self.pid = self._process.pid
        # The namespace exists when unshare has executed its command.
        _until(lambda: Path(f"/proc/{self.pid}/comm").read_text() == "sleep\n")
        self._sshd: subprocess.Popen[bytes] | None = None
        users = site.folder / "passwd"
        # A /run of its own, for the journals of networks and for sshd; its /sys shows only its interfaces.
        self.sh(
            f"mount -t tmpfs run /run && mkdir -p /run/sshd && mount --bind {users} /etc/passwd"
            " && mount -t sysfs sysfs /sys && ip link set lo up"
        )

    def command(self, *words: str) -> list[str]:
        """Build the command line that runs something on this machine."""
        return ["nsenter", f"--target={self.pid}", "--net", "--mount", "--", *words]

    def sh(self, script: str) -> str:
        """Run a script on this machine."""
        done = subprocess.run(
            self.command("sh", "-eu", "-c", script), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start_sshd(self) -> None:
        """Start sshd, so that the site can log in."""
        config = self._site.folder / "sshd_config"
        command = self.command(str(_sshd()), "-D", "-e", "-f", str(config))
        with (self._site.folder / f"{self.name}.sshd").open("wb") as log:
            self._sshd = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=log)
        _until(lambda: "listening on 0.0.0.0" in (self._site.folder / f"{self.name}.sshd").read_text())

    def interfaces(self) -> set[str]:
        """Return the names of the machine's network interfaces."""
        return set(self.sh("ls /sys/class/net").split())

    def networks(self) -> list[str]:
        """List the journal files of networks on this machine."""
        return self.sh("ls /run/alfirk 2>/dev/null || true").split()

    def agents(self) -> list[int]:
        """List processes of `alfirk machine` that run here."""
        found = []
        here = Path(f"/proc/{self.pid}/ns/net").readlink()
        for process in Path("/proc").glob("[0-9]*"):
            # The process may end meanwhile.
            with contextlib.suppress(OSError):
                is_agent = b"\0machine\0--connection\0" in (process / "cmdline").read_bytes()
                if is_agent and (process / "ns" / "net").readlink() == here:
                    found.append(int(process.name))
        return found

    def end(self) -> None:
        """End the machine's processes and remove its namespace."""
        for process in (self._sshd, self._process):
            if process:
                process.kill()
                process.wait()


class Site:
    """Several machines joined by the namespace `router`, from which commands are run."""

    def __init__(self, folder: Path, machines: int, mtu: int = MTU) -> None:
        self.folder = folder
        _write_passwd(folder)
        for key in ("host", "client"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
        self._configure()
        self.router = Machine(self, 0)
        self.router.sh("echo 1 >/proc/sys/net/ipv4/ip_forward")
        self.machines = [Machine(self, number) for number in range(1, machines + 1)]
        for number, machine in enumerate(self.machines, start=1):
            self.router.sh(
                f"ip link add v{number} mtu {mtu} type veth peer name eth0 mtu {mtu} netns {machine.pid}\n"
                f"ip addr add 10.77.{number}.1/24 dev v{number}; ip link set v{number} up"
            )
            machine.sh(
                f"ip addr add {machine.address}/24 dev eth0; ip link set eth0 up; "
                f"ip route add default via 10.77.{number}.1"
            )
            machine.start_sshd()

    def __enter__(self) -> Site:
        return self

    def __exit__(self, *_: object) -> None:
        for machine in [*self.machines, self.router]:
            machine.end()

    def names(self) -> str:
        """Return the machines' names in the form of --machines."""
        return ",".join(machine.name for machine in self.machines)

    def shell(self) -> str:
        """Return the remote shell command (ssh with the site's configuration)."""
        return f"ssh -T -F {self.folder / 'ssh_config'}"

    def run(self, alfirk: Path, *flags: str, remote: str | None = None) -> list[str]:
        """Build the command line of `alfirk run` on the machines."""
        there = remote or f"env PYTHONPATH={ROOT / 'mininet'} {alfirk}"
        driver = ("--driver", "mininet", "--remote-shell", self.shell(), "--remote-alfirk", there)
        return self.router.command(str(alfirk), "run", "--json", *driver, *flags)

    def _configure(self) -> None:
        (self.folder / "sshd_config").write_text(
            f"HostKey {self.folder / 'host'}\nAuthorizedKeysFile {self.folder / 'client.pub'}\n"
            "ListenAddress 0.0.0.0\nStrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\n"
        )
        (self.folder / "ssh_config").write_text(
            f"IdentityFile {self.folder / 'client'}\nUser {getpass.getuser()}\nStrictHostKeyChecking no\n"
            "UserKnownHostsFile /dev/null\nLogLevel ERROR\nBatchMode yes\nConnectTimeout 5\n"
            + "".join(f"Host m{number}\n  HostName 10.77.{number}.2\n" for number in range(1, 10))
        )


def _sshd() -> Path:
    installed = shutil.which("sshd", path="/usr/sbin")
    return Path(installed) if installed else SSHD


def _write_passwd(folder: Path) -> None:
    """Write a passwd file with the user that sshd requires, even where sshd is not installed."""
    text = Path("/etc/passwd").read_text()
    try:
        pwd.getpwnam("sshd")
    except KeyError:
        text += "sshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
    (folder / "passwd").write_text(text)


def _until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(OSError):
            if condition():
                return
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.01)


def eventually(condition: Callable[[], bool], what: str, seconds: float = 30) -> None:
    """Wait until the condition is true; after the time limit, fail with `what` in the message."""
    try:
        _until(condition, seconds)
    except AssertionError as error:
        raise AssertionError(f"{what}: {error}") from None
