"""Tries the packages of `make dist`, each in a bare Debian 12, as `make dist-check`.

Needs root, mmdebstrap and the package registries. The package for Debian is installed by apt with what it
recommends; nothing is installed beside the static binary.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from image import ROOT, Image

#: Installs a package, with the packages that it recommends.
_DEB = """
FROM debian:12
COPY {file} /tmp/alfirk.deb
RUN apt-get update && apt-get install -y /tmp/alfirk.deb && rm /tmp/alfirk.deb
"""
_STATIC = """
FROM debian:12
COPY {file} /usr/local/bin/alfirk
"""
#: Writes a program.
_PROGRAM = """cat >/tmp/a.p4 <<'END'
#include <core.p4>
#include <v1model.p4>
struct none {}
parser P(packet_in b, out none h, inout none m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control C(inout none h, inout none m) { apply {} }
control I(inout none h, inout none m, inout standard_metadata_t s) { apply { s.egress_spec = 1; } }
control D(packet_out b, in none h) { apply {} }
V1Switch(P(), C(), I(), I(), C(), D()) main;
END
"""


@dataclass(frozen=True)
class Package:
    """What is tried of a package."""

    #: Pattern of its file, from the repository's root.
    file: str
    #: How it is installed: instructions as in Containerfile.
    installed: str
    #: Commands that must end with 0.
    tries: tuple[str, ...]


PACKAGES = (
    Package(
        "target/dist/alfirk_*.deb",
        _DEB,
        (
            "alfirk run --size 1MiB --algorithms alfirk,chain",
            "alfirk run --driver mininet --size 1MiB --algorithms alfirk",
            "alfirk-mininet --help",
            _PROGRAM + "p4c-bm2-ss -o /tmp/a.json /tmp/a.p4; test -s /tmp/a.json; p4c --version",
            "p4c --target bmv2 --arch v1model -o /tmp /usr/share/alfirk/p4src/v1model/main.p4",
            "simple_switch_CLI --help; simple_switch_grpc --help; simple_switch --help",
            # Debian has no package of P4Runtime for Python.
            "alfirk-labs icrc 2>&1 | grep -q 'set ALFIRK_PYTHON'",
            "alfirk-ptf --help 2>&1 | grep -q 'set ALFIRK_PYTHON'",
            "test -s /usr/share/man/man1/alfirk-run.1.gz; test -s /usr/share/doc/alfirk/copyright",
            "test -s /usr/share/bash-completion/completions/alfirk",
            "apt-get remove -y alfirk; ! command -v p4c; test ! -e /usr/share/alfirk",
        ),
    ),
    Package(
        "target/dist/alfirk-*-unknown-linux-*",
        _STATIC,
        (
            "alfirk --version",
            "alfirk run --size 1MiB --algorithms alfirk,chain",
            _PROGRAM + "alfirk p4c /tmp/a.p4 -o /tmp/a.json; test -s /tmp/a.json",
            "alfirk topology --help; alfirk packet craft --help",
        ),
    ),
)


def attempt(package: Package, work: Path) -> int:
    """Install a package in a new system, and run its commands; return their number."""
    image = Image(work / "root")
    begin = time.monotonic()
    image.build(package.installed.format(file=package.file).strip())
    sys.stdout.write(f"{package.file}: installed in {time.monotonic() - begin:.1f} s\n")
    for command in package.tries:
        begin = time.monotonic()
        image.run(command, apart=True)
        sys.stdout.write(f"{command.splitlines()[-1]}: ok in {time.monotonic() - begin:.1f} s\n")
        sys.stdout.flush()
    return len(package.tries)


def main() -> int:
    """Try the packages that target/dist has."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.parse_args()
    if os.geteuid() != 0 or shutil.which("mmdebstrap") is None:
        sys.stderr.write("dist-check needs root and mmdebstrap: sudo apt-get install mmdebstrap\n")
        return 2
    missing = [package.file for package in PACKAGES if not list(ROOT.glob(package.file))]
    if missing:
        sys.stderr.write(f"there is no {', '.join(missing)}: make dist\n")
        return 2
    passed = 0
    for package in PACKAGES:
        with tempfile.TemporaryDirectory(prefix="alfirk-dist-") as work:
            passed += attempt(package, Path(work))
    sys.stdout.write(f"{passed} passed, 0 failed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
