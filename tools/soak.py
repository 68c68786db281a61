"""Runs a live switch at full rate while its tables fill and empty, and checks that its memory stays flat.

The work is that of the test `memory_does_not_grow_at_full_rate_and_churn` in switch/tests/veth/soak.rs; here
it runs for longer, on an optimised switch.  Called by ``make soak``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEST = "memory_does_not_grow_at_full_rate_and_churn"


def main() -> int:
    """Build the test and run it as the present user, who must be root; its exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--alfirk", type=Path, required=True, help="an optimised alfirk command")
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default: 30)")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.stderr.write("network namespaces and packet sockets need root: sudo make soak\n")
        return 2
    environment = {
        **os.environ,
        "ALFIRK": str(options.alfirk.absolute()),
        "ALFIRK_SOAK_SECONDS": str(round(options.minutes * 60)),
    }
    # The test reads files relative to its crate.
    return subprocess.run(
        [build(), TEST, "--exact"], cwd=ROOT / "switch", env=environment, check=False
    ).returncode


def build() -> str:
    """Build the tests on veth pairs; the program's path."""
    done = subprocess.run(
        [
            *(str(ROOT / "tools" / "cargo"), "test", "--quiet", "--workspace", "--test", "veth", "--no-run"),
            *("--message-format", "json"),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for line in done.stdout.splitlines():
        message = json.loads(line)
        if message.get("executable") and message["target"]["name"] == "veth":
            return str(message["executable"])
    raise RuntimeError("cargo reported no executable of the test")


if __name__ == "__main__":
    sys.exit(main())
