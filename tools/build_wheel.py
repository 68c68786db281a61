"""Builds the wheel: the command, and what Python users import, as `make wheel`.

The wheel has the package `alfirk` (python/), and below it folders of this repository: labs, packet test
classes, Mininet classes, P4 sources, experiments, topologies and Wireshark's dissector. A .pth file makes
their Python packages importable. maturin builds the command and packs all of it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
#: Folders of the wheel's Python packages: the project's own, and messages that the package p4runtime lacks.
PACKAGES = ("python/alfirk", "python/p4")
#: Folders of the wheel's share/, and those of them with Python packages.
SHARED = (
    "editors/wireshark", "experiments", "labs", "mininet", "p4include", "p4src", "ptf-tests", "topologies",
)  # fmt: skip
IMPORTED = ("mininet", "ptf-tests", "labs")
#: Maximum size of the wheel in bytes.
MAX_BYTES = 40 << 20


def stage(folder: Path) -> None:
    """Lay out the wheel's Python files in a folder.

    The layout below `alfirk/share` is that of the repository, so that each part finds the others.
    """
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *PACKAGES, *SHARED],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        path = Path(name)
        if not (ROOT / path).is_file() or "tests" in path.parts or "test_data" in path.parts:
            continue
        inside = Path(*path.parts[1:]) if path.parts[0] == "python" else Path("alfirk", "share") / path
        target = folder / inside
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, target)
    lines = [f"alfirk/share/{name}\n" for name in IMPORTED]
    (folder / "alfirk.pth").write_text("".join(lines), encoding="utf-8")


def project(folder: Path) -> None:
    """Write the project file beside the staged files."""
    text = (ROOT / "python" / "pyproject.toml").read_text(encoding="utf-8")
    text = text.replace("@MANIFEST@", str(ROOT / "cli" / "Cargo.toml"))
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    scripts = folder / "data" / "scripts"
    scripts.mkdir(parents=True)
    for name, function in tomllib.loads(text)["tool"]["alfirk"]["scripts"].items():
        module, _, attribute = function.partition(":")
        # pip replaces the first line by the path of the environment's Python.
        code = f"#!python\nfrom {module} import {attribute}\n\n{attribute}()\n"
        (scripts / name).write_text(code, encoding="utf-8")
        (scripts / name).chmod(0o755)
    shutil.copy2(ROOT / "README.md", folder / "README.md")


def build(maturin: Path, out: Path, flags: list[str]) -> Path:
    """Build the wheel into a folder; return its path."""
    with tempfile.TemporaryDirectory(prefix="alfirk-wheel-") as work:
        folder = Path(work)
        stage(folder / "src")
        project(folder)
        command = [str(maturin), "build", "--release", "--locked", "--strip", "--out", str(out), *flags]
        target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
        environment = os.environ | {"CARGO_TARGET_DIR": str(Path(target).absolute())}
        environment["PATH"] = f"{maturin.parent}{os.pathsep}{environment['PATH']}"
        subprocess.run(command, cwd=folder, env=environment, check=True)
    wheels = sorted(out.glob("alfirk-*.whl"), key=lambda path: path.stat().st_mtime)
    return wheels[-1]


def main() -> int:
    """Build the wheel, and check its size and contents."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--maturin", type=Path, required=True, help="the maturin command")
    parser.add_argument("--out", type=Path, required=True, help="folder of the wheel")
    parser.add_argument("flags", nargs="*", help="further flags of `maturin build`, after --")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        wheel = build(options.maturin.absolute(), options.out.absolute(), options.flags)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{Path(str(error.cmd[0])).name} failed (exit code {error.returncode})\n")
        return 1
    with zipfile.ZipFile(wheel) as archive:
        count = len(archive.namelist())
    size = wheel.stat().st_size
    sys.stdout.write(f"{wheel}: {size / (1 << 20):.1f} MiB, {count} files\n")
    if size > MAX_BYTES:
        sys.stderr.write(f"the wheel is larger than {MAX_BYTES >> 20} MiB\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
