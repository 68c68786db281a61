"""Tests the boot image: archives that the kernel can read, and a kernel extracted from Debian's package."""

from __future__ import annotations

import lzma
import struct
from pathlib import Path

import pytest
from alfirk_interop import kernel
from alfirk_interop.cpio import Archive
from alfirk_interop.errors import InteropError
from alfirk_interop.image import libraries


def _entries(archive: bytes) -> list[tuple[str, int, bytes]]:
    """Read name, mode and content of each entry (Linux's buffer-format.rst)."""
    found = []
    at = 0
    while at < len(archive):
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * i : at + 14 + 8 * i], 16) for i in range(13)]
        name = archive[at + 110 : at + 110 + fields[11] - 1].decode()
        begin = (at + 110 + fields[11] + 3) // 4 * 4
        found.append((name, fields[1], archive[begin : begin + fields[6]]))
        at = (begin + fields[6] + 3) // 4 * 4
    return found


def archives_hold_folders_before_what_is_in_them() -> None:
    archive = Archive()
    archive.file("/usr/lib/a.so", b"12345", executable=True)
    archive.file("usr/lib/b", b"")
    archive.link("bin/sh", "/bin/busybox")
    assert _entries(archive.pack()) == [
        ("usr", 0o40755, b""),
        ("usr/lib", 0o40755, b""),
        ("usr/lib/a.so", 0o100755, b"12345"),
        ("usr/lib/b", 0o100644, b""),
        ("bin", 0o40755, b""),
        ("bin/sh", 0o120777, b"/bin/busybox"),
        ("TRAILER!!!", 0, b""),
    ]


def archives_of_the_same_content_are_the_same() -> None:
    def made() -> bytes:
        archive = Archive()
        archive.file("etc/modules", b"virtio\n")
        return archive.pack()

    assert made() == made()


def _image(payload: bytes) -> bytes:
    """Return a bzImage by the boot protocol, with one sector of setup code."""
    image = bytearray(1024)
    image[0x1F1] = 1
    struct.pack_into("<4sH", image, 0x202, b"HdrS", 0x20F)
    struct.pack_into("<II", image, 0x248, 16, len(payload))
    return bytes(image) + bytes(16) + payload


def kernel_is_taken_out_of_its_image() -> None:
    elf = b"\x7fELF and more"
    packed = lzma.compress(elf, format=lzma.FORMAT_XZ) + struct.pack("<I", len(elf))
    assert kernel.decompress(_image(packed)) == elf


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (bytes(2048), "not a bzImage"),
        (_image(b"\x1f\x8bgzip it is"), "not compressed by xz"),
        (_image(lzma.compress(b"MZ", format=lzma.FORMAT_XZ)), "no ELF file"),
    ],
)
def kernels_of_other_kinds_are_named(image: bytes, why: str) -> None:
    with pytest.raises(InteropError, match=why):
        kernel.decompress(image)


def libraries_of_a_program_are_found_with_its_loader() -> None:
    names = [path.name for path in libraries([Path("/bin/sh"), Path("/bin/ls")])]
    assert "libc.so.6" in names
    assert any(name.startswith("ld-linux") for name in names)
    assert len(names) == len(set(names))
