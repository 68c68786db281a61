"""Where the ``alfirk`` command is."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Cargo's profiles, as the Makefile uses them.
PROFILES = ("release", "quick", "debug")


def find_alfirk() -> Path:
    """Find the command: what ALFIRK names, one on the PATH, or the newest build of this source tree."""
    named = os.environ.get("ALFIRK") or shutil.which("alfirk")
    if named:
        return Path(named)
    built = [path for path in _builds() if path.is_file()]
    return max(built, key=lambda path: path.stat().st_mtime, default=Path("alfirk"))


def _builds() -> Iterator[Path]:
    root = Path(__file__).resolve().parents[2]
    target = Path(os.environ.get("CARGO_TARGET_DIR") or root / "target")
    for profile in PROFILES:
        yield target / profile / "alfirk"
