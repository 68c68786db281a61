"""The image that guests boot: a kernel, and an initial root file system with RDMA tools and alfirk.

The folder of an image contains ``vmlinux``, ``initramfs`` and ``manifest.json``, which lists the inputs.
The image is rebuilt only when an input has changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from alfirk_interop import kernel
from alfirk_interop.cpio import Archive
from alfirk_interop.errors import InteropError

#: Programs in guests besides those of busybox, and the Debian packages that contain them.
PROGRAMS = {
    "rdma": "iproute2",
    "ip": "iproute2",
    "ethtool": "ethtool",
    "tcpdump": "tcpdump",
    "ibv_rc_pingpong": "ibverbs-utils",
    "ibv_devinfo": "ibverbs-utils",
    "ib_send_bw": "perftest",
    "ib_write_bw": "perftest",
    "ib_send_lat": "perftest",
    "busybox": "busybox-static",
}
#: The provider of libibverbs for rdma_rxe, and the file that registers it.
DRIVER = Path("/etc/libibverbs.d/rxe.driver")
PROVIDERS = "*-linux-gnu/libibverbs/librxe-rdmav*.so"
_HERE = Path(__file__).parent
#: The files of this package that determine the content of an image.
BUILDER = ["image.py", "kernel.py", "cpio.py", "init"]


@dataclass(frozen=True)
class Image:
    """A built image."""

    folder: Path
    #: Whether it was built by this call.
    fresh: bool


def build(folder: Path, alfirk: Path) -> Image:
    """Build the image for an alfirk binary, unless it is up to date."""
    files = _programs()
    package = kernel.package()
    parts = {"kernel": package, "system": _digest([*files, *(_HERE / name for name in BUILDER)])}
    binary = stamp(alfirk)
    manifest = _manifest(folder)
    if manifest == {**parts, "alfirk": binary}:
        return Image(folder, fresh=False)
    folder.mkdir(parents=True, exist_ok=True)
    if {key: manifest.get(key) for key in parts} != parts:
        _build_system(folder, package, files)
    (folder / "manifest.json").unlink(missing_ok=True)
    _add_alfirk(folder, alfirk)
    (folder / "manifest.json").write_text(json.dumps({**parts, "alfirk": binary}))
    return Image(folder, fresh=True)


def stamp(file: Path) -> str:
    """Identify the state of a big file without reading it."""
    try:
        found = file.resolve().stat()
    except OSError as error:
        message = f"{file}: {error.strerror}; build it first: make build"
        raise InteropError(message) from error
    return f"{found.st_size}-{found.st_mtime_ns}"


def _manifest(folder: Path) -> dict[str, str]:
    try:
        manifest: dict[str, str] = json.loads((folder / "manifest.json").read_text())
    except (OSError, ValueError):
        return {}
    return manifest


def _digest(files: list[Path]) -> str:
    """Compute a digest of the builder and of the system's files."""
    state = hashlib.sha256()
    for file in files:
        content = file.read_bytes() if file.parent == _HERE else stamp(file).encode()
        state.update(str(file).encode() + b"\0" + hashlib.sha256(content).digest())
    return state.hexdigest()


def _programs() -> list[Path]:
    """Find the programs and the provider on this machine."""
    found: list[Path] = []
    missing: set[str] = set()
    for program, of_package in PROGRAMS.items():
        path = shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin")
        if path:
            found.append(Path(path))
        else:
            missing.add(of_package)
    providers = [*Path("/usr/lib").glob(PROVIDERS)]
    if not providers or not DRIVER.is_file():
        missing.add("ibverbs-providers")
    if missing:
        message = f"packages are missing: {' '.join(sorted(missing))}; run tools/setup --interop"
        raise InteropError(message)
    return [*found, *providers, DRIVER]


def _build_system(folder: Path, package: str, files: list[Path]) -> None:
    # The unpacked package temporarily takes 400 MB.
    with tempfile.TemporaryDirectory(prefix="kernel-", dir=folder) as scratch:
        found = kernel.fetch(package, Path(scratch))
    archive = Archive()
    for path in ("bin", "dev", "etc", "proc", "sys", "tmp", "run", "root"):
        archive.folder(path)
    archive.file("init", (_HERE / "init").read_bytes(), executable=True)
    archive.file("etc/modules", "".join(f"{name}\n" for name, _ in found.modules).encode())
    for name, content in found.modules:
        archive.file(f"lib/modules/{name}.ko", content)
    for file in files:
        in_path = file.parent.name in ("bin", "sbin")
        archive.file(f"bin/{file.name}" if in_path else str(file), file.read_bytes(), executable=in_path)
    for library in libraries([file for file in files if file != DRIVER]):
        archive.file(str(library), library.read_bytes(), executable=True)
    (folder / "vmlinux").write_bytes(found.vmlinux)
    (folder / "system.cpio").write_bytes(archive.pack())


def _add_alfirk(folder: Path, alfirk: Path) -> None:
    """Append the alfirk binary, without debug information, after the archive of the system."""
    with tempfile.NamedTemporaryFile(dir=folder) as stripped:
        command = ["strip", "-o", stripped.name, str(alfirk)]
        try:
            done = subprocess.run(command, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            done = False
        content = Path(stripped.name).read_bytes() if done else alfirk.read_bytes()
    archive = Archive()
    archive.file("bin/alfirk", content, executable=True)
    for library in libraries([alfirk]):
        archive.file(str(library), library.read_bytes(), executable=True)
    draft = folder / "initramfs.draft"
    with draft.open("wb") as output:
        output.write((folder / "system.cpio").read_bytes())
        output.write(archive.pack())
    draft.replace(folder / "initramfs")


def libraries(programs: list[Path]) -> list[Path]:
    """List the shared libraries that these programs load, including the dynamic loader, each once."""
    found: dict[Path, None] = {}
    for program in programs:
        listed = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False)
        # For a static program ldd fails.
        for name, path in re.findall(r"^\s+(\S+)(?: => (\S+))? \(0x", listed.stdout, re.MULTILINE):
            library = path or name
            if library.startswith("/"):
                found[Path(library)] = None
        lost = re.findall(r"^\s+(\S+) => not found", listed.stdout, re.MULTILINE)
        if lost:
            message = f"{program} needs missing libraries: {', '.join(lost)}"
            raise InteropError(message)
    return list(found)
