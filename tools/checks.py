"""Runs every check of the repository and ends with one line that sums them up.

Each check prints one line; its output only when it fails. Tools that run no tests of their own
(formatters, linters) count as one test. Called by `make test` and `make lint`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv" / "bin"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
ALFIRK = TARGET / "debug" / "alfirk"
#: Property tests try the same cases in every run, so that a failure is of the change at hand.
#: `PROPTEST_RNG_SEED=N make test` tries others; plain `cargo test` always does.
RUST_TESTS = {"PROPTEST_RNG_SEED": os.environ.get("PROPTEST_RNG_SEED", "1")}
#: What every test is built with, so that it is built once: what the Rust tests leave behind is the command
#: that guests and packet tests run. (Clippy reads the command as most people build it, without.)
FEATURES = ("--workspace", "--features", "alfirk-cli/verbs")


@dataclass(frozen=True)
class Count:
    """Tests that ended well, badly, or were not run."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)


@dataclass(frozen=True)
class Check:
    """One command, and how to read its result."""

    name: str
    command: list[str]
    #: Reads the counts from the output; a check without it counts as one test.
    count: Callable[[str], Count] | None = None
    #: Extra environment.
    env: dict[str, str] = field(default_factory=dict)
    #: Seconds after which it counts as failed.
    limit: int = 1500


def count_nextest(output: str) -> Count:
    """Read nextest's summary line."""
    summary = re.findall(r"Summary \[.*?\] .*", re.sub(r"\x1b\[[0-9;]*m", "", output))
    return _count_words(summary[-1] if summary else "", failed=("failed", "timed out", "exec failed"))


def count_cargo_test(output: str) -> Count:
    """Add up the result lines of libtest, one per test binary."""
    total = Count()
    for line in re.findall(r"^test result: .*$", output, re.MULTILINE):
        total += _count_words(line.replace("ignored", "skipped"))
    return total


def count_pytest(output: str) -> Count:
    """Read pytest's last line, which our own runners print too."""
    lines = [line for line in output.splitlines() if re.search(r"\d+ (passed|failed|skipped|error)", line)]
    return _count_words(lines[-1] if lines else "", failed=("failed", "error", "errors"))


def _count_words(text: str, failed: tuple[str, ...] = ("failed",)) -> Count:
    def number(word: str) -> int:
        found = re.search(rf"(\d+) {word}\b", text)
        return int(found[1]) if found else 0

    return Count(number("passed"), sum(map(number, failed)), number("skipped"))


def cargo(*arguments: str) -> list[str]:
    """Build a cargo command line that CI and people use alike."""
    return [str(ROOT / "tools" / "cargo"), *arguments]


def lint_checks() -> Iterator[Check]:
    """List the checks that only read the source."""
    yield Check("rust format", cargo("fmt", "--all", "--check"))
    yield Check(
        "p4 format", cargo("run", "--quiet", "--package", "alfirk-cli", "--", "fmt", "--check", "p4src")
    )
    yield Check(
        "clippy", cargo("clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings")
    )
    yield Check("pure cores", [str(ROOT / "tools" / "check-pure")])
    yield Check("ruff", [str(VENV / "ruff"), "check", "--quiet", "."])
    yield Check("python format", [str(VENV / "ruff"), "format", "--check", "--quiet", "."])
    yield Check("mypy", [str(VENV / "mypy"), *python_sources()])


def python_sources() -> list[str]:
    """Name the roots of what the type checker reads."""
    roots = [
        "tools",
        "mininet/alfirk_mininet",
        "mininet/tests",
        "interop",
        "ptf-tests",
        "labs",
        "docs",
        "editors/tests",
        "experiments/tests",
        "thrift/tests",
        "view/tests",
    ]
    return [root for root in roots if any((ROOT / root).rglob("*.py"))]


def test_checks(*, root: bool) -> Iterator[Check]:
    """List the checks that run the code."""
    if shutil.which("cargo-nextest"):
        yield Check(
            "rust tests",
            cargo("nextest", "run", *FEATURES, "--no-fail-fast"),
            count=count_nextest,
            env=RUST_TESTS,
        )
        yield Check("rust doc tests", cargo("test", *FEATURES, "--doc", "--quiet"), count=count_cargo_test)
    else:
        yield Check(
            "rust tests",
            cargo("test", *FEATURES, "--no-fail-fast"),
            count=count_cargo_test,
            env=RUST_TESTS,
        )
    yield from fuzz_checks()
    environment = {"ALFIRK": str(ALFIRK)}
    yield Check(
        "python tests",
        [str(VENV / "pytest"), "-m", "not root"],
        count=count_pytest,
        env=environment,
    )
    if root:
        yield Check(
            "mininet tests",
            [str(VENV / "pytest"), "-m", "root"],
            count=count_pytest,
            env=environment,
        )
        yield Check(
            "interop",
            [str(ROOT / "interop" / "run"), "run", "--quick", "--alfirk", str(ALFIRK)],
            count=count_pytest,
        )
        yield Check(
            "interop, Tofino",
            [
                *(str(ROOT / "interop" / "run"), "run", "--quick", "--target=tna", "--only=lost"),
                *("--alfirk", str(ALFIRK)),
            ],
            count=count_pytest,
        )
        yield Check(
            "packet tests",
            [str(ROOT / "ptf-tests" / "run"), "--alfirk", str(ALFIRK)],
            count=count_pytest,
            env=environment,
        )
        yield Check(
            "packet tests, Tofino",
            [str(ROOT / "ptf-tests" / "run"), "--alfirk", str(ALFIRK), "--target=tna"],
            count=count_pytest,
            env=environment,
        )
        for bits in (2, 5, 7):
            yield Check(
                f"packet tests, {1 << bits} paths",
                [
                    *(str(ROOT / "ptf-tests" / "run"), "--alfirk", str(ALFIRK), f"--path-bits={bits}"),
                    *("control", "conversation", "feedback", "min_psn", "replicate", "retransmission"),
                ],
                count=count_pytest,
                env=environment,
            )


def fuzz_checks() -> Iterator[Check]:
    """List the checks that try programs, requests and packets by chance.

    A minute goes to the compiler and one to the switch; each target gets its share.
    """
    for name, seconds, arguments in [
        ("compiler fuzz", 15, ("damage", "--", "fuzz::")),
        ("switch fuzz", 10, ("fuzz",)),
        ("switch fuzz (gRPC)", 10, ("veth", "--", "any_bytes")),
    ]:
        yield Check(
            name,
            cargo("test", *FEATURES, "--test", *arguments),
            count=count_cargo_test,
            env={"ALFIRK_FUZZ_SECONDS": os.environ.get("ALFIRK_FUZZ_SECONDS", str(seconds))},
        )


def namespaces_work() -> bool:
    """Tell whether this process may make network namespaces and veth pairs, as Mininet must."""
    if os.geteuid() != 0 or not shutil.which("mnexec"):
        return False
    probe = "ip link add alfirk-probe type veth peer name alfirk-probe2 && ip link del alfirk-probe"
    return (
        subprocess.run(["unshare", "-n", "sh", "-c", probe], capture_output=True, check=False).returncode == 0
    )


def execute(check: Check) -> tuple[bool, str]:
    """Run the command of a check to its end or its time limit; nothing it started outlives it."""
    try:
        process = subprocess.Popen(
            check.command,
            cwd=ROOT,
            env={**os.environ, **check.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as problem:
        return False, f"{problem}\n"
    try:
        output, _ = process.communicate(timeout=check.limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return False, f"{output}\nstopped after {check.limit} s\n"
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise
    return process.returncode == 0, output


def run(check: Check, log: Path) -> Count:
    """Run one check and print its line."""
    sys.stdout.write(f"{check.name:<20} ")
    sys.stdout.flush()
    begin = time.monotonic()
    good, output = execute(check)
    count = check.count(output) if check.count else Count(passed=int(good), failed=int(not good))
    if not good and count.failed == 0:
        # It did not get as far as running its tests.
        count += Count(failed=1)
    took = time.monotonic() - begin
    words = [f"{count.passed} passed", f"{count.failed} failed"]
    if count.skipped:
        words.append(f"{count.skipped} skipped")
    sys.stdout.write(f"{', '.join(words)} in {took:.1f} s\n")
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{check.name.replace(' ', '-')}.log").write_text(output)
    if count.failed:
        sys.stdout.write(f"$ {' '.join(check.command)}\n")
        sys.stdout.writelines(f"    {line}\n" for line in output.splitlines())
    sys.stdout.flush()
    return count


def main() -> int:
    """Run what was asked for; 1 when anything failed."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--only", choices=["lint", "test"], help="leave out the other half")
    arguments.add_argument("--json", action="store_true", help="end with a JSON object instead of a line")
    options = arguments.parse_args()

    root = namespaces_work()
    checks: list[Check] = []
    if options.only != "test":
        checks.extend(lint_checks())
    if options.only != "lint":
        checks.extend(test_checks(root=root))

    total = Count()
    for check in checks:
        total += run(check, TARGET / "checks")
    if options.only != "lint" and not root:
        sys.stdout.write(
            "NOT RUN: Mininet, guest and packet tests (they need root and namespaces): sudo make test\n"
        )
    if options.json:
        sys.stdout.write(json.dumps({"passed": total.passed, "failed": total.failed}) + "\n")
    else:
        sys.stdout.write(f"{total.passed} passed, {total.failed} failed\n")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
