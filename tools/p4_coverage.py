"""Compare the places of p4src that its packet tests do not reach with those that the book lists.

``tools/p4_coverage.py ALFIRK FILE`` prints the coverage in an LCOV file of ``make ptf COVERAGE=FILE``. It
fails if docs/book/src/coverage.md does not list a place that was not reached, or lists one that was.
``--list`` prints the places in the form of that page instead.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "book" / "src" / "coverage.md"
#: A line of `alfirk coverage --missed`. Line numbers change more often than lines, so the page has none.
_MISSED = re.compile(r"(p4src/[^:]+):\d+: (.*)")
#: A place in the page.
_LISTED = re.compile(r"- `(p4src/[^`]+)`: ``(.*)``")


def missed(report: str) -> list[str]:
    """Return the places in the output of ``alfirk coverage --missed``, in the form of the page."""
    places = (match for match in map(_MISSED.fullmatch, report.splitlines()) if match)
    return list(dict.fromkeys(f"- `{match[1]}`: ``{match[2]}``" for match in places))


def listed(page: str) -> list[str]:
    """Return the places that the page lists."""
    return [line for line in page.splitlines() if _LISTED.fullmatch(line)]


def unknown(page: str, root: Path) -> list[str]:
    """Return the places of the page that are not in the sources: a file or its line has changed."""
    found = []
    for line in listed(page):
        match = _LISTED.fullmatch(line)
        file, text = (root / match[1], match[2].split(": ", 1)[1]) if match else (root, "")
        # The name of a branch precedes the line's text.
        lines = [source.strip() for source in file.read_text("utf-8").splitlines()] if file.is_file() else []
        if not any(source and text.endswith(source) for source in lines):
            found.append(line)
    return found


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    only_list = "--list" in arguments
    alfirk, file = [argument for argument in arguments if argument != "--list"]
    command = [alfirk, "coverage", file, "--sources", str(ROOT), "--only", "p4src/", "--missed"]
    report = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    places = missed(report)
    if only_list:
        sys.stdout.write("".join(f"{place}\n" for place in places))
        return 0
    sys.stdout.write(report)
    known = listed(PAGE.read_text("utf-8"))
    new, reached = set(places) - set(known), set(known) - set(places)
    for title, lines in (("not reached, and not in", new), ("reached, but still in", reached)):
        if lines:
            sys.stdout.write(
                f"\n{title} {PAGE.relative_to(ROOT)}:\n" + "".join(f"{line}\n" for line in sorted(lines))
            )
    return 1 if new or reached else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
