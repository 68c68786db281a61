"""Checks that links, paths, verbs, flags, crates, tests and make targets named in the documentation exist.

usage: tools/links.py [--alfirk COMMAND] [PATH ...]

Reads Markdown, the comments of sources, and the help of the command. Verbs and flags are checked against
`COMMAND VERB --help`, and not at all without a command. Links to other sites are not fetched.
Prints `file:line: problem` for each problem, and the number of problems last. The exit code is 1 if there is
a problem.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tomllib
from words import list_files, read_text

ROOT = Path(__file__).resolve().parent.parent

#: Files that are not checked: the changelog, and files of other projects.
_EXEMPT = re.compile(r"^(CHANGELOG\.md|p4runtime/proto/(google|p4)/|thrift/idl/|tools/tests/)")
#: Endings of files that a path in the text may have.
_ENDINGS = "rs|p4|py|md|toml|yaml|yml|proto|thrift|c|h|js|json|txtpb|stf|pyi|css|html|sh|svg|lock|lua"
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)#\s]*)(#[^)\s]*)?\)")
_PATH = re.compile(
    r"(?<![\w./$<~-])((?:[\w.{},*-]+/)+[\w.{},*-]*|[\w-]+\.(?:ENDINGS))(?![\w/-])".replace(
        "ENDINGS", _ENDINGS
    )
)
_FENCE = re.compile(r"^ *```([^\n]*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_FLAG = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]+)")
#: Where one command of a shell ends.
_END_OF_COMMAND = re.compile(r"\s--\s|[|;&)\n]|\s#|\s-- ?$|\s──")
_COMMAND = re.compile(r"(?:^|[;|&(`$]|[;|&$]\s|\bsudo |[^k] \S*/)alfirk[ \t]+(?=[a-z-])", re.MULTILINE)
_MAKE = re.compile(r"(?:^|[\s`;])(?:sudo )?make ((?:[a-z][a-z-]*)(?: (?=[a-z-]+\b)[a-z-]+)*)", re.MULTILINE)
_PACKAGE = re.compile(r"(?:-p|--package)[ =](alfirk-[a-z0-9-]+)|\b(alfirk_[a-z0-9_]+)::")
_TEST = re.compile(r"-p (alfirk-[a-z0-9-]+)[^`|\n]*? --(test|example|bench) ([a-z0-9_]+)")


#: Verbs that only other verbs start; the help does not list them.
_HIDDEN = {"machine"}
#: Files of other projects.
_FOREIGN = {
    "mininet/examples/cluster.py",
    "opensm/osm_mcast_mgr.c",
    "JSON_format.md",
    "simple_switch.md",
    "switch.p4",
}
#: Names of files that examples create.
_EXAMPLES = re.compile(r"^(a|b|x|mine|program|tiny|untidy|tofino|prog|p4)\.\w+$")
#: A cargo command line that selects tests by the beginning of their names.
_FILTER = re.compile(r"-p (alfirk-[a-z0-9-]+) --lib ([a-z0-9_]+)")


@dataclass(frozen=True)
class Problem:
    """Something that the text names and that does not exist."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        """Format for a terminal."""
        return f"{self.path}:{self.line}: {self.what}"


@dataclass
class Tree:
    """The files and folders of the repository."""

    files: frozenset[str]
    #: Their paths, and all sequences of components inside: of `a/b/c` also `a/b`, `b/c` and `b`.
    ends: frozenset[str] = field(init=False)
    #: All files and folders, by their whole paths.
    paths: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Index files and folders by their ends."""
        ends, paths = set(), set()
        for name in self.files:
            parts = name.split("/")
            paths |= {"/".join(parts[:end]) for end in range(1, len(parts) + 1)}
            for begin in range(len(parts)):
                for end in range(begin + 1, len(parts) + 1):
                    ends.add("/".join(parts[begin:end]))
        self.ends, self.paths = frozenset(ends), frozenset(paths)
        self.folders = {name.split("/")[0] for name in self.files if "/" in name}

    def has(self, path: str, *, whole: bool = False) -> bool:
        """Whether a file or folder has this path or, unless `whole`, ends with it; `*` and `{a,b}` match."""
        there = self.paths if whole else self.ends
        return all(_is_in(each.strip("/"), there) for each in expand_braces(path))


def _is_in(path: str, there: frozenset[str]) -> bool:
    if "*" not in path:
        return path in there
    pattern = re.compile(re.escape(path).replace(r"\*", "[^/]*"))
    return any(pattern.fullmatch(each) for each in there)


def expand_braces(path: str) -> list[str]:
    """Spell out `a/{b,c}`."""
    found = re.search(r"\{([^{}]*)\}", path)
    if found is None:
        return [path]
    return [
        each for choice in found[1].split(",") for each in expand_braces(path.replace(found[0], choice, 1))
    ]


class Command:
    """The verbs and flags of `alfirk`, by its help."""

    def __init__(self, helps: dict[tuple[str, ...], str]) -> None:
        """Take the help of each verb; that of the command itself is at `()`."""
        self.helps = helps

    @classmethod
    def of(cls, path: Path) -> Command:
        """Read the help of a built command; raises `OSError` if it cannot be started."""
        helps: dict[tuple[str, ...], str] = {}

        def read(verb: tuple[str, ...]) -> None:
            done = subprocess.run(
                [str(path), *verb, "--help"],
                capture_output=True,
                text=True,
                check=True,
                stdin=subprocess.DEVNULL,
            )
            helps[verb] = done.stdout
            for name in verbs_of(done.stdout):
                if name != "help" and len(verb) < 2:
                    read((*verb, name))

        read(())
        return cls(helps)

    def problem(self, words: Sequence[str]) -> str | None:
        """Check the words behind `alfirk` of one command line; `None` if verb and flags exist."""
        verb: tuple[str, ...] = ()
        if len(words) > 1 and words[0] == "--log":
            words = words[2:]
        if words and words[0] in _HIDDEN:
            return None
        for word in words:
            if (*verb, word) in self.helps:
                verb = (*verb, word)
            elif not word.startswith("-") and verb == () and re.fullmatch(r"[a-z][a-z0-9-]+", word):
                return f"no verb `alfirk {word}`"
            else:
                break
        known = "".join(self.helps[verb[:end]] for end in range(len(verb) + 1))
        if verb in {(), ("help",)}:
            known = "".join(self.helps.values())
        for flag in dict.fromkeys(flag for word in words for flag in _FLAG.findall(word)):
            if not re.search(rf"(?<![\w-]){flag}(?![\w-])", known):
                return f"no flag `{flag}` of `{' '.join(('alfirk', *verb))}`"
        return None

    def has_flag(self, flag: str) -> bool:
        """Whether any verb has this flag."""
        return any(re.search(rf"(?<![\w-]){flag}(?![\w-])", text) for text in self.helps.values())


def verbs_of(text: str) -> list[str]:
    """List the verbs of a help, under all headings."""
    lists = re.findall(r"^[A-Z][^\n:]*:\n((?:  [a-z ].*\n|\n(?=  [a-z]))+)", text, re.MULTILINE)
    return [
        verb for block in lists for verb in re.findall(r"^  ([a-z][a-z0-9-]+)(?:  |\n)", block, re.MULTILINE)
    ]


def anchors(text: str) -> set[str]:
    """List the anchors of a page's headings, as GitHub and mdBook build them."""
    text = re.sub(_FENCE, "", text)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@dataclass
class Checker:
    """Checks texts against the files of the repository and the verbs of the command."""

    tree: Tree
    crates: dict[str, str]
    targets: frozenset[str]
    command: Command | None
    #: Whether a script or source has this text; used for flags of other programs.
    has_literal: Callable[[str], bool]

    def markdown(self, path: str, text: str) -> Iterator[Problem]:
        """Check a page."""
        page = ROOT / path
        for match in _LINK.finditer(text):
            target, anchor = match[1], match[2]
            if "://" in target or target.startswith("mailto:"):
                continue
            there = page.parent / target if target else page
            if not there.exists():
                yield self._problem(path, text, match.start(), f"link to {target}, which does not exist")
            elif anchor and there.suffix == ".md" and anchor[1:] not in anchors(there.read_text()):
                yield self._problem(path, text, match.start(), f"no heading for {target}{anchor}")
        for match in _FENCE.finditer(text):
            if match[1].split(",")[0] in {"sh", "console", "text", ""}:
                yield from self._commands(path, text, match.start(2), match[2])
        # Code blocks are replaced by empty lines, so that line numbers stay right.
        flat = _FENCE.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
        yield from self._inline(path, flat)

    def comments(self, path: str, text: str) -> Iterator[Problem]:
        """Check the comments of a source file."""
        sign = r"#" if path.endswith((".py", ".sh", ".toml", ".yaml")) else r"//[/!]?"
        only = re.sub(rf"^(?!\s*{sign}).*$", lambda line: " " * len(line[0]), text, flags=re.MULTILINE)
        yield from self._inline(path, only)
        for match in _PATH.finditer(only):
            named = match[1].rstrip(".,")
            is_inline = "`" in only[match.start() - 1 : match.start()]
            if re.search(rf"[^/]\.({_ENDINGS})$", named) and not is_inline:
                yield from self._path(path, only, match.start(), named)

    def help(self) -> Iterator[Problem]:
        """Check the help of all verbs."""
        for verb, text in self.command.helps.items() if self.command else ():
            name = " ".join(("alfirk", *verb, "--help"))
            yield from self._inline(name, text)

    def _inline(self, path: str, text: str) -> Iterator[Problem]:
        for match in _INLINE.finditer(text):
            code = match[1]
            at = match.start(1)
            if re.fullmatch(_PATH, code):
                yield from self._path(path, text, at, code)
            flag = re.fullmatch(r"--[a-z][a-z0-9-]+", code)
            if flag and self.command and not self.command.has_flag(code) and not self.has_literal(code):
                yield self._problem(path, text, at, f"no flag `{code}`")
            yield from self._commands(path, text, at, code)

    def _path(self, path: str, text: str, at: int, named: str) -> Iterator[Problem]:
        first = named.split("/", maxsplit=1)[0]
        is_file = re.search(rf"\.({_ENDINGS})$", named) is not None
        ours = first in self.tree.folders or (is_file and "/" in named and "." not in first)
        if is_file and "/" not in named:
            ours = named.endswith((".rs", ".p4", ".py", ".md")) and not re.match(_EXAMPLES, named)
        if not ours or named in _FOREIGN or "NAME" in named or "FILE" in named:
            return
        # A page names paths from the root of the repository; a comment may begin at its crate or module.
        if self.tree.has(named, whole=path.endswith(".md") and first in self.tree.folders):
            return
        if named.startswith("target/") or (ROOT / path).parent.joinpath(named).exists():
            return
        yield self._problem(path, text, at, f"no file or folder {named}")

    def _commands(self, path: str, text: str, at: int, code: str) -> Iterator[Problem]:
        joined = code.replace("\\\n", "  ")
        for match in _COMMAND.finditer(joined):
            rest = joined[match.end() :]
            end = _END_OF_COMMAND.search(rest)
            try:
                words = shlex.split(rest[: end.start()] if end else rest)
            except ValueError:
                words = rest[: end.start()].split() if end else rest.split()
            what = self.command.problem(words) if self.command else None
            if what:
                yield self._problem(path, text, at + match.start(), what)
        for match in _MAKE.finditer(code):
            target = match[1].split()[0]
            in_prose = "\n" not in code and not code.startswith(("make ", "sudo make "))
            if target not in self.targets and not in_prose:
                yield self._problem(path, text, at + match.start(), f"no target `make {target}`")
        for match in _PACKAGE.finditer(code):
            crate = (match[1] or match[2]).replace("_", "-")
            if crate not in self.crates and not self.tree.has(crate.replace("-", "_")):
                yield self._problem(path, text, at + match.start(), f"no crate {crate}")
        for match in _TEST.finditer(code):
            kind = "benches" if match[2] == "bench" else f"{match[2]}s"
            folder = f"{self.crates.get(match[1], '?')}/{kind}/{match[3]}"
            if not {f"{folder}.rs", f"{folder}/main.rs"} & self.tree.files:
                yield self._problem(
                    path, text, at + match.start(), f"no {match[2]} `{match[3]}` of {match[1]}"
                )
        for match in _FILTER.finditer(code):
            if not self.has_literal(match[2]):
                yield self._problem(path, text, at + match.start(), f"no test `{match[2]}` of {match[1]}")

    @staticmethod
    def _problem(path: str, text: str, at: int, what: str) -> Problem:
        return Problem(path, text.count("\n", 0, at) + 1, what)


def crates() -> dict[str, str]:
    """Find the folder of each crate by its name."""
    found = {}
    for manifest in ROOT.glob("*/Cargo.toml"):
        package = tomllib.loads(manifest.read_text())["package"]
        found[package["name"]] = manifest.parent.name
    return found


def main() -> int:
    """Print the problems; 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--alfirk", type=Path, help="the built command, for verbs and flags")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="files or folders (default: all)")
    options = parser.parse_args()

    names = frozenset(list_files([]))
    sources = [name for name in names if not name.endswith((".md", ".lock", ".snap"))]
    literals = "\n".join(filter(None, (read_text(ROOT / name) for name in sources)))
    targets = re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    command = Command.of(options.alfirk.absolute()) if options.alfirk else None
    checker = Checker(Tree(names), crates(), frozenset(targets), command, lambda text: text in literals)

    problems = list(checker.help()) if not options.paths else []
    for name in list_files([str(Path(path).resolve()) for path in options.paths]):
        if _EXEMPT.match(name):
            continue
        text = read_text(ROOT / name)
        if text is None:
            continue
        if name.endswith(".md"):
            problems += checker.markdown(name, text)
        elif name.endswith((".rs", ".p4", ".py", ".c", ".h", ".js", ".proto", ".toml", ".yaml")):
            problems += checker.comments(name, text)
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    sys.stdout.write(f"{len(problems)} problems\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
