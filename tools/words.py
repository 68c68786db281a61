"""Checks the words of the repository: lists words and phrases that tools/words.toml replaces.

usage: tools/words.py [--all] [PATH ...]

Prints `file:line: word -> replacement` for each hit, and the number of hits last. The exit code is 1 if
there is a hit. Without a path, all text files that git tracks are read.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tools" / "words.toml"

#: What separates two words of a phrase: white space, and the comment sign of a new line.
_GAP = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:(?://[/!]?|\#:?|\*)[ \t]+)?)"


@dataclass(frozen=True)
class Word:
    """A word or phrase to avoid."""

    pattern: re.Pattern[str]
    replacement: str
    #: Texts in lower case: a file without any of them has no hit.
    stems: Sequence[str] = ()
    #: Text before the word that makes its use acceptable.
    not_after: re.Pattern[str] | None = None
    #: The word has acceptable uses; a reader must decide.
    needs_review: bool = False


@dataclass(frozen=True)
class Rules:
    """The content of the list."""

    words: Sequence[Word]
    exempt: Sequence[str]

    def is_exempt(self, path: str) -> bool:
        """Whether a file, relative to the root of the repository, is not checked."""
        return any(fnmatch.fnmatch(path, pattern) for pattern in self.exempt)


@dataclass(frozen=True)
class Hit:
    """A word of the list found in a file."""

    path: str
    line: int
    found: str
    replacement: str

    def __str__(self) -> str:
        """Format for a terminal."""
        return f"{self.path}:{self.line}: {self.found} -> {self.replacement}"


def read_rules(text: str) -> Rules:
    """Parse a list; raises `re.error` for a pattern that is not a regular expression."""
    table = tomllib.loads(text)
    words = [
        Word(
            _compile(
                entry["pattern"],
                in_identifiers=entry.get("identifiers", False),
                is_cased=entry.get("cased", False),
            ),
            entry["replacement"],
            entry.get("stems", ()),
            re.compile(rf"\b(?:{entry['not_after']}),?{_GAP}$", re.IGNORECASE)
            if "not_after" in entry
            else None,
            entry.get("level") == "review",
        )
        for entry in table["word"]
    ]
    return Rules(words, table.get("exempt", []))


def find_hits(path: str, text: str, words: Iterable[Word]) -> list[Hit]:
    """Find all words in the text of a file, in the order of its lines."""
    hits = []
    lowered = text.lower()
    for word in words:
        if word.stems and not any(stem in lowered for stem in word.stems):
            continue
        for match in word.pattern.finditer(text):
            before = text[max(0, match.start() - 80) : match.start()]
            if word.not_after and word.not_after.search(before):
                continue
            line = text.count("\n", 0, match.start()) + 1
            found = " ".join(re.sub(_GAP, " ", match[0]).split())
            hits.append(Hit(path, line, found, word.replacement))
    return sorted(hits, key=lambda hit: hit.line)


def _compile(pattern: str, *, in_identifiers: bool, is_cased: bool) -> re.Pattern[str]:
    # Spaces in lookbehinds stay, since a lookbehind has a fixed width.
    spaced = re.sub(r"(\(\?<![^)]*\))| ", lambda part: part[1] or _GAP, pattern)
    flags = re.NOFLAG if is_cased else re.IGNORECASE
    if not in_identifiers:
        return re.compile(rf"(?<!\w)(?:{spaced})(?!\w)", flags)
    if is_cased:
        return re.compile(rf"(?<![A-Za-z])(?:{spaced})(?![A-Za-z])")
    # A part of an identifier ends at an underscore, a digit, or where the case changes.
    apart = rf"(?<![A-Za-z])(?i:{spaced})(?![a-z])"
    inner = rf"(?<=[a-z0-9])(?=[A-Z])(?i:{spaced})(?![a-z])"
    return re.compile(rf"{apart}|{inner}")


def list_files(paths: Sequence[str]) -> Iterator[str]:
    """List the files that git tracks or would track below the paths, relative to the root."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    yield from sorted({name for name in done.stdout.split("\0") if (ROOT / name).is_file()})


def read_text(path: Path) -> str | None:
    """Read a file; `None` for one that is not text in UTF-8."""
    data = path.read_bytes()
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def main() -> int:
    """Print the hits; return 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--all", action="store_true", help="also list words that need a reader's decision")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: all)")
    options = parser.parse_args()

    rules = read_rules(LIST.read_text(encoding="utf-8"))
    words = [word for word in rules.words if options.all or not word.needs_review]
    paths = [str(Path(path).resolve()) for path in options.paths]
    hits = []
    for name in list_files(paths):
        text = None if rules.is_exempt(name) else read_text(ROOT / name)
        if text is not None:
            hits += find_hits(name, text, words)
    sys.stdout.writelines(f"{hit}\n" for hit in hits)
    sys.stdout.write(f"{len(hits)} hits\n")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
