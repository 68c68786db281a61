"""Checks that a killed run leaves nothing behind, at the latest when the next run starts."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from alfirk_interop.scenarios import ROOT

TESTBED = ROOT / "topologies" / "testbed.yaml"
#: Seconds within which all processes must have ended.
LIMIT = 15


def killed_run_leaves_nothing(alfirk: Path, image: Path, *, builder: bool) -> list[str]:
    """Kill a run with guests, or (`builder`) the builder of its network. Return what is left behind."""
    links = _links()
    command = [str(alfirk), "run", "--driver", "mininet", "--topology", str(TESTBED), "--size", "64MiB"]
    command += ["--guests", "h1,h2", "--guest-image", str(image), "--algorithms", "alfirk"]
    run = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    workdir = Path(tempfile.gettempdir()) / f"alfirk-run-{run.pid}"
    try:
        deadline = time.monotonic() + 90
        while not (workdir / "h1.ready").exists():
            if run.poll() is not None or time.monotonic() > deadline:
                return ["the guests did not get ready"]
            time.sleep(0.05)
        if builder:
            (pid,) = (pid for pid in _processes(f"{workdir}/topology.yaml") if pid != run.pid)
            os.kill(pid, signal.SIGKILL)
            if run.wait(60) == 0:
                return ["the run did not fail when its network went"]
        else:
            run.kill()
            run.wait()
        deadline = time.monotonic() + LIMIT
        while _processes(str(workdir)):
            if time.monotonic() > deadline:
                return [f"processes are left: {_processes(str(workdir))}"]
            time.sleep(0.1)
        # As the next run does when it starts.
        clean = [sys.executable, "-B", "-m", "alfirk_mininet", "clean"]
        subprocess.run(clean, check=True, capture_output=True)
        left = _links() - links
        return [f"interfaces are left: {', '.join(sorted(left))}"] if left else []
    finally:
        run.kill()
        run.wait()
        # Fails if no process was left that could remove it.
        shutil.rmtree(workdir, ignore_errors=True)


def _links() -> set[str]:
    return set(os.listdir("/sys/class/net"))  # noqa: PTH208 - names only


def _processes(text: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
