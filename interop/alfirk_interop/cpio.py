"""Archives for the kernel's initial root file system (initramfs): uncompressed cpio of the "newc" format.

Written here so that the same content gives the same archive: root owns all entries, and none has a date.
Archives can be concatenated in one file.
"""

from __future__ import annotations

import stat
from pathlib import PurePosixPath


class Archive:
    """Collects files, folders and links; :meth:`pack` returns the archive."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._folders: set[PurePosixPath] = set()
        self._count = 0

    def folder(self, path: str) -> None:
        """Add a folder and its parents, unless they exist."""
        self._folder(PurePosixPath(path.strip("/")))

    def file(self, path: str, content: bytes, *, executable: bool = False) -> None:
        """Add a file and its parent folders."""
        self._add(path, stat.S_IFREG | (0o755 if executable else 0o644), content)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(path, stat.S_IFLNK | 0o777, target.encode())

    def pack(self) -> bytes:
        """Return the bytes of the archive."""
        return b"".join([*self._parts, _entry(0, "TRAILER!!!", 0, b"")])

    def _folder(self, path: PurePosixPath) -> None:
        if path == PurePosixPath() or path in self._folders:
            return
        self._folder(path.parent)
        self._folders.add(path)
        self._put(str(path), stat.S_IFDIR | 0o755, b"")

    def _add(self, path: str, mode: int, content: bytes) -> None:
        name = PurePosixPath(path.strip("/"))
        self._folder(name.parent)
        self._put(str(name), mode, content)

    def _put(self, name: str, mode: int, content: bytes) -> None:
        self._count += 1
        self._parts.append(_entry(self._count, name, mode, content))


def _entry(number: int, name: str, mode: int, content: bytes) -> bytes:
    encoded = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(mode) else 1
    # inode, mode, owner, group, links, date, size, device (2), special device (2), length of name, checksum
    numbers = [number, mode, 0, 0, links, 0, len(content), 0, 0, 0, 0, len(encoded), 0]
    head = b"070701" + b"".join(b"%08X" % value for value in numbers) + encoded
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
