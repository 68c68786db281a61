"""What a network has put into the system, written down before it is done.

Each network has a file in /run/alfirk as long as it stands.  One whose owner is dead was left by a kill
that nobody could catch; the next start, and ``python3 -m alfirk_mininet clean``, remove what it lists and
nothing else: other Mininet networks on the machine, ours or not, are left alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from alfirk_mininet.process import kill_stranger, start_time

#: Where networks are written down.
RUN_DIRECTORY = Path("/run/alfirk")
#: Alias of the interfaces that we make.
ALIAS = "alfirk"


@dataclass
class _Record:
    owner: int
    owner_started: int
    interfaces: list[str] = field(default_factory=list)
    #: Process id and start time.
    processes: list[tuple[int, int]] = field(default_factory=list)

    def owner_lives(self) -> bool:
        return start_time(self.owner) == self.owner_started


class Journal:
    """The file of one network; there is none before the first thing is written down.

    A signal may break off any method.  Whoever holds the journal then closes it, and nothing is left.
    """

    def __init__(self, directory: Path = RUN_DIRECTORY) -> None:
        owner = os.getpid()
        self._record = _Record(owner, start_time(owner) or 0)
        self._path = directory / f"{owner}.json"
        self._draft = self._path.with_suffix(".draft")

    def interfaces(self, names: list[str]) -> None:
        """Write down interfaces of the root namespace that are about to be made."""
        self._record.interfaces.extend(names)
        self._write()

    def process(self, pid: int) -> None:
        """Write down a process just started."""
        started = start_time(pid)
        if started is not None:
            self._record.processes.append((pid, started))
            self._write()

    def close(self) -> None:
        """Remove whatever is still there of what is written down, then the file."""
        _remove(self._record)
        self._draft.unlink(missing_ok=True)
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        self._path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        self._draft.write_text(json.dumps(asdict(self._record)))
        self._draft.replace(self._path)


def clean(directory: Path = RUN_DIRECTORY) -> list[str]:
    """Remove what networks with a dead owner have left; say what that was, one line for each network."""
    done: list[str] = []
    if not directory.is_dir():
        return done
    for path in sorted(directory.glob("*.json")):
        record = _read(path)
        if record is None:
            path.unlink(missing_ok=True)
        elif not record.owner_lives():
            removed = _remove(record)
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
        return _Record(int(data["owner"]), int(data["owner_started"]), list(data["interfaces"]), processes)
    return None


def _remove(record: _Record) -> str:
    for pid, started in record.processes:
        kill_stranger(pid, started)
    ours = _our_interfaces(set(record.interfaces))
    if ours:
        # One end takes the other with it, so half of these find nothing.
        batch = "".join(f"link delete dev {name}\n" for name in ours)
        subprocess.run(
            ["ip", "-force", "-batch", "-"], input=batch, text=True, capture_output=True, check=False
        )
    return f"{len(ours)} interfaces, {len(record.processes)} processes"


def _our_interfaces(names: set[str]) -> list[str]:
    """Of these names, those of our kinds that carry our alias: a name alone may be somebody else's."""
    links: list[dict[str, Any]] = []
    for kind in ("veth", "tun", "vxlan"):
        listed = subprocess.run(
            ["ip", "-json", "link", "show", "type", kind], capture_output=True, text=True, check=False
        )
        links += json.loads(listed.stdout or "[]") if listed.returncode == 0 else []
    return [
        str(link["ifname"]) for link in links if link.get("ifname") in names and link.get("ifalias") == ALIAS
    ]
