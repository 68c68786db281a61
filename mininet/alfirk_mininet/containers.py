"""Hosts of Mininet that are containers of podman or docker, with the parameters of Containernet's ``Docker``.

Where Containernet is installed its own class can be used as well: switches and links here accept any host.
The engine is the value of CONTAINER_ENGINE, else the first of podman and docker that works.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from typing import TYPE_CHECKING, Any

from mininet.node import Host

from alfirk_mininet.errors import NetworkError
from alfirk_mininet.journal import remove_container
from alfirk_mininet.nodes import shared_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ENGINES = ("podman", "docker")
#: Shell loop that executes Mininet's commands in a container, in place of bash's prompt.  Any shell works.
#: The image's own prompt is not used, as it may contain more than the character that Mininet waits for.
#: `mnexec -p` would report the container's process id, which is not valid outside.
SHELL = (
    "stty -echo -onlcr 2>/dev/null; trap : INT; mnexec() { shift; \"$@\"; }; printf '\\177'; "
    "while IFS= read -r line; do eval \"$line\"; printf '\\177'; done"
)
#: Command that keeps a container without a command running.
IDLE = ("sleep", "infinity")


@cache
def find_engine() -> str:
    """Return the first container engine that works."""
    named = os.environ.get("CONTAINER_ENGINE")
    problems = []
    for engine in (named,) if named else ENGINES:
        if shutil.which(engine) is None:
            problems.append(f"{engine} is not on PATH")
            continue
        done = subprocess.run([engine, "info"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return engine
        lines = done.stderr.strip().splitlines()
        problems.append(f"{engine}: {lines[-1] if lines else '`info` failed'}")
    raise NetworkError(
        f"hosts cannot be containers: {'; '.join(problems)}", "sudo apt-get install podman, or start docker"
    )


class Container(Host):
    """A host that is a container: ``net.addHost("h1", cls=Container, dimage="debian:12-slim")``.

    `image` (or Containernet's `dimage`) is the image, `dcmd` its command (by default it idles), `volumes` are
    ``HOST:CONTAINER`` pairs, `environment` has variables, `engine_options` are further arguments of ``run``.
    The image needs a shell.
    """

    def __init__(
        self,
        name: str,
        image: str | None = None,
        dimage: str | None = None,
        dcmd: str | Sequence[str] | None = None,
        volumes: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        engine_options: Sequence[str] = (),
        **params: Any,
    ) -> None:
        chosen = image or dimage
        if not chosen:
            raise NetworkError(f"host {name}: no image", "name one: image=debian:12-slim")
        self.engine = find_engine()
        #: Name of the container; it contains the process id, as several networks may have such a host.
        self.container = f"mn.{name}-{os.getpid()}"
        command = dcmd.split() if isinstance(dcmd, str) else dcmd
        self._run = [
            *(self.engine, "run", "--detach", "--name", self.container, "--hostname", name),
            *("--network", "none", "--cap-add", "NET_ADMIN", "--cap-add", "NET_RAW", "--entrypoint", ""),
            *(word for volume in volumes for word in ("--volume", volume)),
            *(word for key, value in (environment or {}).items() for word in ("--env", f"{key}={value}")),
            *engine_options,
            *(chosen, *(command or IDLE)),
        ]
        super().__init__(name, **params)

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Start the container, and a shell in it for Mininet's commands."""
        journal = shared_settings().journal
        if journal:
            journal.container(self.engine, self.container)
        done = subprocess.run(self._run, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NetworkError(
                f"host {self.name}: {self.engine} could not start its container: {done.stderr.strip()}",
                f"the command was: {' '.join(self._run)}",
            )
        super().startShell(mnopts)
        # The container's namespace: interfaces are moved to that of this process.
        self.pid = int(self._engine("inspect", "--format", "{{.State.Pid}}", self.container))

    def _popen(self, cmd: Sequence[str], **params: Any) -> subprocess.Popen[bytes]:
        """Start Mininet's shell in the container instead of a namespace of the machine."""
        if self.shell is None:
            cmd = [self.engine, "exec", "--interactive", "--tty", self.container, "sh", "-c", SHELL]
            # Mininet signals its process group.
            params["start_new_session"] = True
        popen: subprocess.Popen[bytes] = super()._popen(cmd, **params)
        return popen

    def popen(self, *args: Any, **kwargs: Any) -> subprocess.Popen[bytes]:
        """Start a program in the container; `ifconfig` runs outside, as the image may lack it."""
        words = args[0] if isinstance(args[0], list) else str(args[0]).split()
        outside = ["nsenter", f"--target={self.pid}", "--net", "--"]
        inside = [self.engine, "exec", "--interactive", self.container]
        kwargs.setdefault("mncmd", outside if words[0] == "ifconfig" else inside)
        started: subprocess.Popen[bytes] = super().popen(*args, **kwargs)
        return started

    def config(self, mac: str | None = None, ip: str | None = None, **params: Any) -> dict[str, Any]:
        """Configure the interface's addresses from outside: no tools of the image are needed."""
        result = super().config(**params)
        if not self.intfs:
            return result
        interface = self.defaultIntf()
        if mac:
            interface.mac = mac
            self.outside("ip", "link", "set", "dev", interface.name, "address", mac)
        if ip:
            interface.ip, _, interface.prefixLen = ip.partition("/")
            self.outside("ip", "address", "replace", ip, "dev", interface.name)
        self.outside("ip", "link", "set", "dev", interface.name, "up")
        return result

    def setARP(self, ip: str, mac: str) -> None:  # noqa: N802 - Mininet's name
        """Add a neighbour's address to the container's kernel."""
        interface = self.defaultIntf()
        self.outside(
            "ip", "neighbour", "replace", ip, "lladdr", mac, "dev", interface.name, "nud", "permanent"
        )

    def outside(self, *command: str) -> None:
        """Run a command of this machine in the container's network namespace."""
        line = ["nsenter", f"--target={self.pid}", "--net", "--", *command]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NetworkError(
                f"host {self.name}: {' '.join(command)}: {done.stderr.strip()}", "see its image"
            )

    def _engine(self, *words: str) -> str:
        done = subprocess.run([self.engine, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise NetworkError(f"{self.engine} {' '.join(words)} failed", done.stderr.strip())
        return done.stdout.strip()

    def terminate(self) -> None:
        """End the shell, and remove the container."""
        super().terminate()
        remove_container(self.engine, self.container)
