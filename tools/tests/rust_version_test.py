"""The declared `rust-version` is not older than that of any dependency."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import tomllib

_ROOT = Path(__file__).parents[2]


def declared_rust_version_suffices_for_all_dependencies() -> None:
    manifest = tomllib.loads((_ROOT / "Cargo.toml").read_text())
    declared = _version(manifest["workspace"]["package"]["rust-version"])
    rustc = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    host = rustc.partition("host: ")[2].split()[0]
    # Only dependencies of this platform are sure to have been downloaded.
    flags = ["--locked", "--offline", "--format-version", "1", "--filter-platform", host]
    done = subprocess.run(
        [_ROOT / "tools" / "cargo", "metadata", *flags], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    packages = json.loads(done.stdout)["packages"]
    newer = [
        f"{package['name']} {package['version']} needs {package['rust_version']}"
        for package in packages
        if package["rust_version"] and _version(package["rust_version"]) > declared
    ]
    assert newer == []


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")[:2]))
