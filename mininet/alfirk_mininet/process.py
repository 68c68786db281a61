"""Child processes of a network: each writes a log file, and all end with the network.

The kernel kills them when their parent ends, by any cause (PR_SET_PDEATHSIG, set by setpriv).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

#: Time limit in seconds for a process to end after SIGTERM.
GRACE = 5.0


def start_time(pid: int) -> int | None:
    """Return a process's start time in ticks since boot: with its id, a name that is never reused."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - hot and tiny
            # The second field, the command in parentheses, may contain any characters.
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Block the signals that end a network during a step that cannot be undone halfway.

    Ctrl-C at the terminal does not interrupt processes started inside either, so they must be short.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def real_time_priority() -> Iterator[None]:
    """Start processes inside this context with real-time priority.

    Without the permission they have normal priority.
    """
    policy, priority = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, priority)


@dataclass
class Child:
    """A child process with a log file."""

    #: Its name in messages: ``switch s1``.
    what: str
    process: subprocess.Popen[bytes]
    log: Path

    @staticmethod
    def spawn(what: str, command: Sequence[str], log: Path, *, real_time: bool = False) -> Child:
        """Start a process without waiting for it; it has no terminal and writes to ``log`` only.

        With ``real_time`` it has real-time priority, if the system permits it.
        """
        with log.open("wb") as output, real_time_priority() if real_time else contextlib.nullcontext():
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return Child(what, process, log)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def ended(self) -> str | None:
        """Describe how the process ended; ``None`` while it runs."""
        code = self.process.poll()
        if code is None:
            return None
        if code >= 0:
            return f"ended with exit code {code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"

    def last_lines(self, count: int = 8) -> str:
        """Return the last lines of the log."""
        with contextlib.suppress(OSError), self.log.open(encoding="utf-8", errors="replace") as log:
            return "".join(deque(log, count)).strip()
        return ""


def stop_all(children: Iterable[Child]) -> None:
    """Send SIGTERM to all, then kill those that do not end."""
    running = [child for child in children if child.process.poll() is None]
    for child in running:
        child.process.terminate()
    deadline = time.monotonic() + GRACE
    for child in running:
        try:
            child.process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()


def kill_host_processes(shells: Iterable[int]) -> None:
    """Kill all processes in the network namespaces of these shells, except the shells: also daemons of users.

    A daemon would keep the namespace with its links.  Mininet itself ends the shells later.
    """
    kept = set(shells)
    doomed = {_namespace(pid) for pid in kept} - {_namespace(os.getpid()), None}
    running = {int(entry.name) for entry in os.scandir("/proc") if entry.name.isdecimal()}
    for pid in running - kept:
        if _namespace(pid) in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _namespace(pid: int) -> str | None:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115 - not a path
    return None


def kill_same_process(pid: int, started: int) -> None:
    """Kill a process that is not our child, if its start time is still the same."""
    if start_time(pid) != started:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
