"""Tests what a guest is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from alfirk_mininet.guests import Image

if TYPE_CHECKING:
    from pathlib import Path

#: Memory in megabytes that the kernel takes for itself, at most.
KERNEL = 64


@pytest.mark.parametrize("megabytes", [16, 110, 500])
def guest_has_room_to_unpack_its_root_file_system(tmp_path: Path, megabytes: int) -> None:
    with (tmp_path / "initramfs").open("wb") as file:
        file.truncate(megabytes << 20)
    unused = Image(tmp_path).memory - KERNEL - megabytes
    # Linux limits the files of a root file system in memory to half of what is unused.
    assert unused // 2 >= megabytes
