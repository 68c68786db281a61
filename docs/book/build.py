"""Builds the book with mdBook, and leads its links to pages of the source to where those are.

usage: docs/book/build.py [--source URL]

The appendix of error codes is made of the compiler's pages (compiler/explain), in a copy of the book.

mdBook takes every link to a Markdown file for one of its own pages.  Without a URL the source is taken to be
around the built book, as `make book` has it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BOOK = Path(__file__).resolve().parent
ROOT = BOOK.parents[1]
BUILT = ROOT / "target" / "book"
EXPLAIN = ROOT / "compiler" / "explain"
#: The title of a code's page, and the info string of an example.
_TITLE = re.compile(r"^# ([\w-]+): (.*)$", re.MULTILINE)
_ATTRIBUTES = re.compile(r"^```p4[,\w]+$", re.MULTILINE)
#: A link out of the folder of pages, which is as deep as this in the source.
_OUT = re.compile(r'href="(?:\.\./){2,3}([\w./-]+?)\.html(#[^"]*)?"')


def main() -> int:
    """Build; 2 when there is no mdBook."""
    parser = argparse.ArgumentParser(description="Builds the book with mdBook.")
    parser.add_argument("--source", help="where the source can be read (default: around the built book)")
    source = parser.parse_args().source or "../.."
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "book"
        shutil.copytree(BOOK, copy)
        errors = copy / "src" / "errors.md"
        errors.write_text(with_codes(errors.read_text(encoding="utf-8")), encoding="utf-8")
        try:
            done = subprocess.run(["mdbook", "build", str(copy), "--dest-dir", str(BUILT)], check=False)
        except FileNotFoundError:
            sys.stderr.write("mdbook is not installed: cargo install mdbook --locked\n")
            return 2
    if done.returncode:
        return done.returncode
    for page in BUILT.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(_OUT.sub(lambda link: _led(link, source), text), encoding="utf-8")
    sys.stdout.write(f"{BUILT / 'index.html'}\n")
    return 0


def with_codes(page: str) -> str:
    """Put the pages of all codes into the appendix, with the code as heading and so as anchor."""
    pages = [path.read_text(encoding="utf-8") for path in sorted(EXPLAIN.glob("*.md"))]
    sections = [_TITLE.sub(r"## \1\n\n**\2**", _ATTRIBUTES.sub("```p4", text)) for text in pages]
    program = (EXPLAIN / "v1model.p4").read_text(encoding="utf-8")
    sections.append(f"## The program around fragments\n\n```p4\n{program}```\n")
    return page.replace("<!-- pages of compiler/explain -->\n", "\n".join(sections))


def _led(link: re.Match[str], source: str) -> str:
    """Lead a link to a page of the source, of which it is written from the folder of the book's pages."""
    there = (BOOK / "src" / link[0].split('"')[1].split("#")[0]).with_suffix(".md").resolve()
    if not there.is_file():
        return link[0]
    return f'href="{source}/{there.relative_to(ROOT)}{link[2] or ""}"'


if __name__ == "__main__":
    sys.exit(main())
