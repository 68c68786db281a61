"""Builds the playground as files for any web server (`make play-wasm`).

The engine is a WebAssembly module, which the page runs in a worker. The folder needs no program of ours
on the server.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "play" / "page"
TARGET = "wasm32-unknown-unknown"
PROFILE = "play-wasm"
#: Folders of the library, and the files of it, as in cli/build.rs.
LIBRARY = {"p4src": (".p4",), "labs": (".p4", ".stf"), "compiler/tests/programs": (".p4", ".stf")}
#: Maximum size of all files in bytes.
MAX_BYTES = 10 << 20
#: Bytes of linear memory: of the stack, which nested programs need, and in all.
STACK, MEMORY = 16 << 20, 1 << 30
#: Nothing is loaded from other servers. The editor adds a style with the nonce; browsers set style
#: attributes while text is edited.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; "
    "style-src 'self' 'nonce-page'; style-src-attr 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'"
)


def build() -> Path:
    """Compile the engine; return the module."""
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    command = ["rustc", "--quiet", "--package", "alfirk-play", "--lib", "--crate-type", "cdylib"]
    options = ["--profile", PROFILE, "--target", TARGET]
    link = ["-C", f"link-arg=-zstack-size={STACK}", "-C", f"link-arg=--max-memory={MEMORY}"]
    subprocess.run([str(ROOT / "tools" / "cargo"), *command, *options, "--", *link], cwd=ROOT, check=True)
    return folder / TARGET / PROFILE / "alfirk_play.wasm"


def library(*, solutions: bool) -> dict[str, str]:
    """Return the texts of the library by path."""
    files = {}
    for folder, endings in LIBRARY.items():
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT).as_posix()
            is_solution = folder == "labs" and path.name == "solution.p4"
            if path.suffix in endings and (solutions or not is_solution):
                files[name] = path.read_text()
    return files


def write(module: Path, out: Path, *, solutions: bool) -> None:
    """Write the folder anew."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    shutil.copy(module, out)
    for path in (*PAGE.glob("*.js"), *PAGE.glob("*.css"), *(PAGE / "vendor").iterdir()):
        shutil.copy(path, out)
    (out / "library.json").write_text(json.dumps(library(solutions=solutions)))
    page = (PAGE / "index.html").read_text()
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}" />'
    for before, after in (
        ('<meta name="engine" content="server" />', f'<meta name="engine" content="worker" />\n    {policy}'),
        ('content="NONCE"', 'content="page"'),
    ):
        if page.count(before) != 1:
            sys.exit(f"play/page/index.html does not have {before} once")
        page = page.replace(before, after)
    (out / "index.html").write_text(page)


def main() -> None:
    """Build the folder, and print its size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "target" / "play-wasm", help="folder to write")
    parser.add_argument(
        "--without-solutions", action="store_true", help="leave out the solutions of the labs"
    )
    arguments = parser.parse_args()
    sysroot = subprocess.run(
        ["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True
    ).stdout
    if not Path(sysroot.strip(), "lib", "rustlib", TARGET, "lib").is_dir():
        sys.exit(f"Rust's library for {TARGET} is missing: rustup target add {TARGET}")
    write(build(), arguments.out, solutions=not arguments.without_solutions)
    files = [path.read_bytes() for path in arguments.out.iterdir()]
    size, compressed = sum(map(len, files)), sum(len(gzip.compress(data, 6)) for data in files)
    sys.stdout.write(f"{arguments.out}: {size / 2**20:.1f} MiB, {compressed / 2**20:.1f} MiB compressed\n")
    if size > MAX_BYTES:
        sys.exit(f"the page is larger than {MAX_BYTES >> 20} MiB")


if __name__ == "__main__":
    main()
