"""A journal of the system objects of a network, written before they are created.

Each existing network has a file in /run/alfirk.  A file whose owner process is dead was left by SIGKILL.  The
next start, and ``python3 -m alfirk_mininet clean``, remove the objects that it lists and nothing else: other
Mininet networks on the machine, ours or not, stay.  Several networks can exist in a namespace at a time: each
has a number, and the interface names of all but the first contain it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alfirk_mininet.process import kill_same_process, start_time

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Folder of the journals.
RUN_DIRECTORY = Path("/run/alfirk")
#: Alias of our interfaces.
ALIAS = "alfirk"
#: Base number of interface groups for deletion; the process id is added.
_GROUPS = 0x616C0000


@dataclass
class _Record:
    owner: int
    owner_started: int
    interfaces: list[str] = field(default_factory=list)
    #: Process id and start time of the owner.
    processes: list[tuple[int, int]] = field(default_factory=list)
    #: Inode of the network namespace of the interfaces.
    namespace: int = 0
    #: Smallest number that no other network of the namespace had; 0 before one was needed.
    number: int = 0
    #: Engine and name of each container.
    containers: list[tuple[str, str]] = field(default_factory=list)

    def owner_lives(self) -> bool:
        return start_time(self.owner) == self.owner_started


class Journal:
    """The journal of one network; its file is created with the first entry.

    A signal may interrupt any method.  The owner then closes the journal, which removes everything.
    """

    def __init__(self, directory: Path = RUN_DIRECTORY) -> None:
        owner = os.getpid()
        self._record = _Record(owner, start_time(owner) or 0, namespace=_namespace())
        self._path = directory / f"{owner}.json"
        self._draft = self._path.with_suffix(".draft")

    @property
    def number(self) -> int:
        """Number of this network among those in its namespace: the first one is 1.

        It distinguishes the names of interfaces.
        """
        if self._record.number == 0:
            directory = self._path.parent
            directory.mkdir(mode=0o755, parents=True, exist_ok=True)
            with _locked(directory):
                taken = {other.number for other in self._neighbours()}
                self._record.number = min(set(range(1, len(taken) + 2)) - taken)
                self._write()
        return self._record.number

    def _neighbours(self) -> list[_Record]:
        """Read the journals of other networks in the same namespace."""
        others = [path for path in self._path.parent.glob("*.json") if path != self._path]
        records = [record for record in map(_read, others) if record and record.owner_lives()]
        return [record for record in records if record.namespace == self._record.namespace]

    def interfaces(self, names: list[str]) -> None:
        """Record interfaces of the root namespace before they are created."""
        self._record.interfaces.extend(names)
        self._write()

    def process(self, pid: int) -> None:
        """Record a process that has just started."""
        started = start_time(pid)
        if started is not None:
            self._record.processes.append((pid, started))
            self._write()

    def container(self, engine: str, name: str) -> None:
        """Record a container before it is created."""
        self._record.containers.append((engine, name))
        self._write()

    def close(self) -> None:
        """Remove the recorded objects that still exist, then the file."""
        _remove(self._record, set())
        self._draft.unlink(missing_ok=True)
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._draft.write_text(json.dumps(asdict(self._record)))
        self._draft.replace(self._path)


def clean(directory: Path = RUN_DIRECTORY) -> list[str]:
    """Remove the objects of networks whose owner is dead; return one line for each network."""
    done: list[str] = []
    if not directory.is_dir():
        return done
    records = {path: _read(path) for path in sorted(directory.glob("*.json"))}
    living = [record for record in records.values() if record and record.owner_lives()]
    here = {name for record in living if record.namespace == _namespace() for name in record.interfaces}
    for path, record in records.items():
        if record is None:
            path.unlink(missing_ok=True)
        elif record not in living:
            removed = _remove(record, here)
            path.unlink(missing_ok=True)
            done.append(f"network of process {record.owner}: removed {removed}")
    for draft in directory.glob("*.draft"):
        if start_time(int(draft.stem)) is None if draft.stem.isdecimal() else True:
            draft.unlink(missing_ok=True)
    return done


def _read(path: Path) -> _Record | None:
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        data = json.loads(path.read_text())
        processes = [(int(pid), int(started)) for pid, started in data["processes"]]
        return _Record(
            int(data["owner"]),
            int(data["owner_started"]),
            list(data["interfaces"]),
            processes,
            int(data.get("namespace", 0)),
            int(data.get("number", 0)),
            [(str(engine), str(name)) for engine, name in data.get("containers", [])],
        )
    return None


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock the folder, so that other networks cannot choose a number meanwhile."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _namespace() -> int:
    """Return the inode of this process's network namespace."""
    return Path("/proc/self/ns/net").stat().st_ino


def _remove(record: _Record, others: set[str]) -> str:
    """Remove the objects of a dead network; `others` are interfaces of existing networks."""
    for pid, started in record.processes:
        kill_same_process(pid, started)
    for engine, name in record.containers:
        remove_container(engine, name)
    # Interfaces of another namespace are removed with its processes.
    here = record.namespace == _namespace()
    ours = _our_interfaces(set(record.interfaces) - others) if here else []
    delete_interfaces(ours)
    removed = f"{len(ours)} interfaces, {len(record.processes)} processes"
    return removed + (f", {len(record.containers)} containers" if record.containers else "")


def remove_container(engine: str, name: str) -> None:
    """Remove a container, running or not."""
    if shutil.which(engine):
        subprocess.run([engine, "rm", "--force", name], capture_output=True, check=False)


def delete_interfaces(names: list[str]) -> None:
    """Delete interfaces of this namespace, with the other ends of veth pairs; missing ones are skipped.

    They are deleted as a group: individually, each deletion would wait 20 ms until the interface is unused.
    """
    if not names:
        return
    group = _GROUPS + os.getpid()
    batch = "".join(f"link set dev {name} group {group}\n" for name in names)
    batch += f"link delete group {group}\n"
    subprocess.run(["ip", "-force", "-batch", "-"], input=batch, text=True, capture_output=True, check=False)


def _our_interfaces(names: set[str]) -> list[str]:
    """Return which of these names are interfaces with our alias; a name alone may be a foreign one."""
    links: list[dict[str, Any]] = []
    for kind in ("veth", "tun", "vxlan"):
        listed = subprocess.run(
            ["ip", "-json", "link", "show", "type", kind], capture_output=True, text=True, check=False
        )
        links += json.loads(listed.stdout or "[]") if listed.returncode == 0 else []
    return [
        str(link["ifname"]) for link in links if link.get("ifname") in names and link.get("ifalias") == ALIAS
    ]
