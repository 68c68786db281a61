"""Networks that Mininet's own command line builds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.root, pytest.mark.skipif(shutil.which("mn") is None, reason="there is no mn here")]

ROOT = Path(__file__).parents[2]
ALFIRK = Path(os.environ.get("ALFIRK", ROOT / "target" / "release" / "alfirk"))
CUSTOM = ROOT / "mininet" / "alfirk.py"


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = set(os.listdir("/sys/class/net"))  # noqa: PTH208 - names only
    yield
    assert set(os.listdir("/sys/class/net")) == before  # noqa: PTH208


def _start(folder: Path, *flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ["mn", "--custom", str(CUSTOM), *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # Sockets have short paths only.
        env={**os.environ, "ALFIRK": str(ALFIRK), "TMPDIR": str(folder)},
    )


def _mn(folder: Path, *flags: str, lines: list[str]) -> str:
    said, _ = _start(folder, *flags).communicate("\n".join([*lines, "exit"]) + "\n", timeout=120)
    return said


def a_fat_tree_pings_measures_and_broadcasts(tmp_path: Path) -> None:
    said = _mn(
        tmp_path,
        *("--topo", "fattree,k=4", "--switch", "alfirk"),
        lines=[
            "pingall",
            "iperf h1 h16",
            "h1 alfirk-bcast 1MiB",
            "h3 alfirk-bcast 4KiB h1 h16",
            "link p1e1 p1a1 down",
            "h1 ping -c 2 -i 0.2 -W 5 h16",
            "link p1e1 p1a2 down",
            "h1 ping -c 1 -W 1 h16",
        ],
    )
    assert "Results: 0% dropped (240/240 received)" in said
    assert re.search(r"Results: \['[\d.]+ [GM]bits/sec', '[\d.]+ [GM]bits/sec'\]", said), said
    assert re.search(r"alfirk .* 15/15 ", said), said
    # Mininet makes addresses of names; the first and the last host of another source.
    assert re.search(r"h3 sends to 2 receivers", said), said
    assert re.search(r"alfirk .* 2/2 ", said), said
    around, nowhere = said.split(" ping statistics ---")[-2:]
    assert "2 received, 0% packet loss" in around
    assert "0 received, 100% packet loss" in nowhere
    assert "The controller was not told" not in said


def any_simple_switch_grpc_is_a_switch_and_captures(tmp_path: Path) -> None:
    other = tmp_path / "simple_switch_grpc"
    other.symlink_to(ALFIRK.absolute())
    said = _mn(
        tmp_path,
        *("--topo", "testbed", "--switch", f"simple_switch_grpc,path={other},pcap=1"),
        lines=["h1 alfirk-bcast 4KiB"],
    )
    assert re.search(r"alfirk .* 3/3 ", said), said
    (folder,) = tmp_path.glob("alfirk-mn-*")
    assert (folder / "s1.log").exists()
    assert (folder / "ctrl.log").exists()
    assert (folder / "pcaps" / "s1-eth1_in.pcap").stat().st_size > 4096


def a_killed_one_leaves_only_what_the_next_start_removes(tmp_path: Path) -> None:
    process = _start(tmp_path, "--topo", "testbed", "--switch", "alfirk")
    assert process.stdout
    for line in process.stdout:
        if "Starting CLI" in line:
            break
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 10
    while subprocess.run(["pgrep", "-f", str(tmp_path)], capture_output=True, check=False).stdout:
        assert time.monotonic() < deadline, "processes of the killed network live on"
        time.sleep(0.05)
    subprocess.run([str(ROOT / "mininet" / "run"), "clean"], check=True, capture_output=True)
