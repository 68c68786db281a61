#!/usr/bin/python3
"""Replaces podman and docker: a container is a process with a network namespace of its own.

For each container, a file in the folder FAKE_ENGINE has its process id.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

FOLDER = Path(os.environ["FAKE_ENGINE"])


def _process(name: str) -> int:
    return int((FOLDER / name).read_text())


def _run(words: list[str]) -> None:
    name = words[words.index("--name") + 1]
    assert words[words.index("--network") + 1] == "none"
    with subprocess.Popen(
        ["unshare", "--net", "sleep", "infinity"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        # The namespace exists when unshare has executed its command.
        while Path(f"/proc/{process.pid}/comm").read_text() != "sleep\n":
            pass
        (FOLDER / name).write_text(str(process.pid))
        os._exit(0)


def _main(verb: str, words: list[str]) -> None:
    match verb:
        case "info":
            return
        case "run":
            _run(words)
        case "inspect":
            sys.stdout.write(f"{_process(words[-1])}\n")
        case "exec":
            *_, name, shell, flag, script = words
            inside = ["nsenter", f"--target={_process(name)}", "--net", "--", shell, flag, script]
            os.execvpe(inside[0], inside, {**os.environ, "INSIDE": "a container"})
        case "rm":
            os.kill(_process(words[-1]), signal.SIGKILL)
            (FOLDER / words[-1]).unlink()
        case _:
            sys.exit(f"no verb {verb}")


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2:])
