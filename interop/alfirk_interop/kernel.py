"""The guests' kernel: Debian's package for PCs, unpacked but not installed."""

from __future__ import annotations

import lzma
import re
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from alfirk_interop.errors import InteropError

#: The package that always depends on the newest kernel; not the cloud variant, which lacks rdma_rxe.
NEWEST = "linux-image-amd64"

#: Modules that guests need, in loading order; their dependencies are added.
MODULES = [
    *("virtio_ring", "virtio", "virtio_pci_modern_dev", "virtio_pci_legacy_dev", "virtio_pci"),
    *("failover", "net_failover", "virtio_net", "virtio_console", "9pnet_virtio", "9p"),
    *("crc32_generic", "crc32-pclmul", "udp_tunnel", "ip6_udp_tunnel", "ib_core", "ib_uverbs", "rdma_rxe"),
    *("configfs", "ib_cm", "iw_cm", "rdma_cm", "rdma_ucm", "af_packet"),
]


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel."""

    release: str
    #: The ELF file that QEMU boots without firmware.
    vmlinux: bytes
    #: Modules and their contents, each after its dependencies.
    modules: list[tuple[str, bytes]]


def package() -> str:
    """Return the name of the package of the newest kernel, without downloading it."""
    done = _run(["apt-cache", "depends", NEWEST])
    found = re.search(r"Depends: (linux-image-\S+)", done)
    if not found:
        message = f"apt does not list {NEWEST}; run `apt-get update` first"
        raise InteropError(message)
    return found[1]


def fetch(name: str, folder: Path) -> Kernel:
    """Download and unpack a kernel package into an empty folder."""
    _run(["apt-get", "-o", "APT::Sandbox::User=root", "download", name], folder)
    packages = list(folder.glob("*.deb"))
    if len(packages) != 1:
        message = f"apt-get download {name} gave {len(packages)} files, expected one"
        raise InteropError(message)
    root = folder / "root"
    _run(["dpkg-deb", "-x", str(packages[0]), str(root)])
    # A package is named linux-image-6.1.0-41-amd64, its kernel file vmlinuz-6.1.0-41-amd64.
    release = name.removeprefix("linux-image-").removesuffix("-unsigned")
    _run(["depmod", "-b", str(root), release])
    image = root / "boot" / f"vmlinuz-{release}"
    return Kernel(release, decompress(image.read_bytes()), _modules(root / "lib" / "modules" / release))


def decompress(image: bytes) -> bytes:
    """Extract the ELF file from a bzImage (Linux x86 boot protocol 2.08 and later, compressed by xz)."""
    magic, version = struct.unpack_from("<4sH", image, 0x202)
    if magic != b"HdrS" or version < 0x208:
        message = "the kernel is not a bzImage of boot protocol 2.08 or later"
        raise InteropError(message)
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = (setup_sectors + 1) * 512 + offset
    try:
        # Four bytes with the size follow the xz stream.
        elf = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(image[begin : begin + length])
    except lzma.LZMAError as error:
        message = f"the kernel is not compressed by xz: {error}"
        raise InteropError(message) from error
    if not elf.startswith(b"\x7fELF"):
        message = "the kernel contains no ELF file"
        raise InteropError(message)
    return elf


def _modules(folder: Path) -> list[tuple[str, bytes]]:
    needs: dict[str, list[str]] = {}
    for line in (folder / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    paths = {_module_name(path): path for path in needs}
    builtin = {_module_name(path) for path in (folder / "modules.builtin").read_text().splitlines()}
    ordered: list[str] = []
    for module in map(_module_name, MODULES):
        if module in paths:
            # The deepest dependency is listed last.
            ordered += [*reversed(needs[paths[module]]), paths[module]]
        elif module not in builtin:
            message = f"the kernel {folder.name} has no module {module}"
            raise InteropError(message)
    return [(_module_name(path), (folder / path).read_bytes()) for path in dict.fromkeys(ordered)]


def _module_name(path: str) -> str:
    return Path(path).name.partition(".ko")[0].replace("-", "_")


def _run(command: list[str], folder: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        message = f"command not found: {command[0]}: run tools/setup --interop on Debian or Ubuntu"
        raise InteropError(message) from error
    if done.returncode:
        words = done.stderr.strip().splitlines()
        message = f"{' '.join(command)} failed: {words[-1] if words else 'no output'}"
        raise InteropError(message)
    return done.stdout
