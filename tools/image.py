"""Carries out the steps of Containerfile in a folder, and tries the result, as `make image-check`.

Needs root, mmdebstrap and the package registries, and no container engine. The folder has a bare Debian 12
with the apt settings of this machine. All labs' solutions are checked in it, each in a network of its own.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Settings of this machine that apt and pip need to reach their registries.
SETTINGS = (
    "etc/apt/apt.conf.d",
    "etc/apt/sources.list.d",
    "etc/pip.conf",
    "etc/ssl/certs/ca-certificates.crt",
    "etc/resolv.conf",
)
#: A network and mounts of its own for a command.
APART = ["unshare", "--net", "--mount", "--pid", "--fork"]


class Image:
    """A folder with a system that is built as Containerfile says."""

    def __init__(self, root: Path) -> None:
        """Use this folder, which does not exist yet."""
        self.root = root
        self.environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
        }
        passed = ("PIP_", "SSL_CERT", "REQUESTS_CA")
        self.environment |= {name: value for name, value in os.environ.items() if name.startswith(passed)}

    def build(self, containerfile: str) -> None:
        """Carry out the instructions: FROM, RUN, COPY and ENV."""
        for line in containerfile.splitlines():
            word, _, rest = line.partition(" ")
            if word == "FROM":
                self._debian()
            elif word == "RUN":
                # Before each step, as packages replace certificates.
                self._copy_settings()
                self.run(rest)
            elif word == "COPY":
                pattern, target = rest.split()
                for path in sorted(ROOT.glob(pattern)):
                    shutil.copy2(path, self.root / target.lstrip("/"))
            elif word == "ENV":
                name, _, value = rest.partition("=")
                self.environment[name] = value
            elif word not in {"", "#", "CMD"}:
                message = f"Containerfile has the instruction {word}, which tools/image.py does not know"
                raise SystemExit(message)

    def _debian(self) -> None:
        sources = Path("/etc/apt/sources.list.d/debian.sources")
        given = [str(sources)] if sources.is_file() else []
        options = [f"--aptopt={path}" for path in sorted(Path("/etc/apt/apt.conf.d").glob("9*"))]
        subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", *options, "bookworm", str(self.root), *given],
            check=True,
        )

    def _copy_settings(self) -> None:
        for name in SETTINGS:
            source, target = Path("/") / name, self.root / name
            if source.is_dir():
                shutil.copytree(source, target, dirs_exist_ok=True, symlinks=False)
            elif source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                shutil.copy2(source, target)

    def run(self, script: str, *, apart: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a script in it; print its output and end if it fails."""
        # The folder becomes the root of a mount namespace: a process that joins the namespace of another, as
        # those of Mininet's hosts do, starts at its root, and would leave a chroot.
        mounts = 'mount --bind "$0" "$0"; cd "$0"; '
        mounts += "mount -t proc proc proc; mount -t sysfs sysfs sys; mount --rbind /dev dev; "
        mounts += "mount -t tmpfs run run; ip link set lo up; " if apart else ""
        enter = "mkdir -p outside; pivot_root . outside; cd /; umount -l outside; rmdir outside; "
        inside = f'{mounts}{enter}exec sh -euc "$1"'
        namespaces = APART if apart else ["unshare", "--mount", "--pid", "--fork"]
        done = subprocess.run(
            [*namespaces, "sh", "-euc", inside, str(self.root), script],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.stdout.write(done.stdout)
            message = f"failed in the image (exit code {done.returncode}): {script}"
            raise SystemExit(message)
        return done


def labs() -> list[tuple[str, str]]:
    """List the labs and the file names of their solutions."""
    solutions = sorted((ROOT / "labs").glob("*/solution.*"))
    return [(path.parent.name, path.name) for path in solutions]


def try_out(image: Image) -> int:
    """Check each lab's solution; return the number of tries."""
    tries = [f"alfirk-labs {lab} {solution}" for lab, solution in labs()]
    tries += ["alfirk run --size 1MiB --algorithms alfirk,chain", "p4c --version", "simple_switch_CLI --help"]
    tries += ['python -c \'import alfirk; assert alfirk.run(["alfirk"], size="64KiB")["alfirk"].verified\'']
    for command in tries:
        begin = time.monotonic()
        image.run(command, apart=True)
        sys.stdout.write(f"{command}: ok in {time.monotonic() - begin:.1f} s\n")
        sys.stdout.flush()
    return len(tries)


def main() -> int:
    """Build the image in a temporary folder, and try it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.parse_args()
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        sys.stderr.write("image-check needs root and mmdebstrap: sudo apt-get install mmdebstrap\n")
        return 2
    if not list(ROOT.glob("target/dist/alfirk-*.whl")):
        sys.stderr.write("no wheel in target/dist: make wheel\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="alfirk-image-") as work:
        image = Image(Path(work) / "root")
        text = (ROOT / "Containerfile").read_text(encoding="utf-8")
        begin = time.monotonic()
        image.build(re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
        sys.stdout.write(f"image: built in {time.monotonic() - begin:.1f} s\n")
        sys.stdout.write(f"{try_out(image)} passed, 0 failed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
