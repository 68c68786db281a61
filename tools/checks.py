"""Runs every check of the repository and ends with one line that sums them up.

Each check prints one line when it has ended; its output only when it failed. Tools that run no tests of
their own (formatters, linters) count as one test. Called by `make test` and `make lint`.
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
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv" / "bin"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).absolute()
ALFIRK = TARGET / "debug" / "alfirk"
#: Property tests use the same cases in every run, so that a new failure is caused by the change under test.
#: `PROPTEST_RNG_SEED=N make test` uses others; plain `cargo test` always does.
RUST_TESTS = {"PROPTEST_RNG_SEED": os.environ.get("PROPTEST_RNG_SEED", "1")}
#: All tests are built with these features, so that `alfirk` is built once: guests and packet tests use the
#: command of the Rust tests. (Clippy checks it without them, as most people build it.)
FEATURES = ("--workspace", "--features", "alfirk-cli/verbs")
#: Path of the `alfirk` command, for tests that are not in Rust.
COMMAND = {"ALFIRK": str(ALFIRK)}

#: Variable with the path of the file in which tests record that they are skipped, as libtest reports them as
#: passed. `alfirk_test_budget::skip` appends to it.
SKIPPED_TESTS = "ALFIRK_SKIPPED_TESTS"

#: Info strings of the code blocks that rustdoc compiles.
RUN_BY_RUSTDOC = ("", "rust", "no_run", "should_panic", "compile_fail", "ignore")

#: Seconds for which the main thread waits at most before Python looks for signals: one that arrives
#: just before a wait begins does not end the wait.
SIGNAL_DELAY = 1

#: Checks that follow one another; lanes run side by side.
Lane = Iterable["Check"]


@dataclass(frozen=True)
class Count:
    """Numbers of tests that passed, failed, or were not run."""

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
    """Build a cargo command line with tools/cargo, the wrapper that CI and developers use."""
    return [str(ROOT / "tools" / "cargo"), *arguments]


def rust_lints() -> Iterator[Check]:
    """List the checks that only read the Rust source."""
    yield Check("rust format", cargo("fmt", "--all", "--check"))
    yield Check(
        "clippy", cargo("clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings")
    )
    yield Check("pure cores", [str(ROOT / "tools" / "check-pure")])
    yield Check(
        "rust documentation",
        cargo("doc", "--quiet", "--no-deps", "--workspace", "--document-private-items"),
        env={"RUSTDOCFLAGS": "-D warnings"},
    )


def python_lints() -> Iterator[Check]:
    """List the checks that only read the Python source, and the words of all text."""
    yield Check("words", [str(VENV / "python"), str(ROOT / "tools" / "words.py")])
    yield Check("ruff", [str(VENV / "ruff"), "check", "--quiet", "."])
    yield Check("python format", [str(VENV / "ruff"), "format", "--check", "--quiet", "."])
    yield Check("mypy", [str(VENV / "mypy"), *python_sources()])


def p4_format(*alfirk: str) -> Check:
    """Check the format of the P4 source with this command."""
    return Check("p4 format", [*alfirk, "fmt", "--check", "p4src"])


def python_sources() -> list[str]:
    """List the folders for the type checker."""
    roots = [
        "tools",
        "mininet/alfirk_mininet",
        "mininet/tests",
        "interop",
        "ptf-tests",
        "python",
        "labs",
        "docs",
        "editors/tests",
        "experiments/tests",
        "thrift/tests",
        "play/tests",
        "view/tests",
    ]
    return [root for root in roots if any((ROOT / root).rglob("*.py"))]


def rust_tests() -> Iterator[Check]:
    """List the Rust tests, which also build the `alfirk` command that all later checks use."""
    if shutil.which("cargo-nextest"):
        yield Check(
            "rust tests",
            cargo("nextest", "run", *FEATURES, "--no-fail-fast"),
            count=count_nextest,
            env=RUST_TESTS,
            # With the build, on a machine that does other work as well.
            limit=3000,
        )
        if any(has_doc_test(path.read_text()) for path in rust_sources()):
            yield Check(
                "rust doc tests", cargo("test", *FEATURES, "--doc", "--quiet"), count=count_cargo_test
            )
    else:
        yield Check(
            "rust tests",
            cargo("test", *FEATURES, "--no-fail-fast"),
            count=count_cargo_test,
            env=RUST_TESTS,
        )


def rust_sources() -> Iterator[Path]:
    """List the files that may have examples in their documentation: those of libraries."""
    for manifest in ROOT.glob("*/Cargo.toml"):
        yield from (manifest.parent / "src").rglob("*.rs")


def has_doc_test(source: str) -> bool:
    """Check whether rustdoc would run an example of a file, without compiling the crate."""
    blocks = re.findall(r"^\s*//[/!] ?```(.*)$", source, re.MULTILINE)
    return any(tag.strip() in RUN_BY_RUSTDOC for tag in blocks[::2])


def links() -> Check:
    """Check that the paths, verbs and flags that the text names exist."""
    command = [str(VENV / "python"), str(ROOT / "tools" / "links.py"), "--alfirk", str(ALFIRK)]
    return Check("links", command)


def python_tests() -> Check:
    """Run the tests of pytest that need nothing special."""
    command = [str(VENV / "pytest"), "-m", "not root"]
    return Check("python tests", command, count=count_pytest, env=COMMAND)


def mininet_tests() -> Iterator[Check]:
    """List the tests of pytest that need root, in two halves that take equally long.

    Each has interfaces, processes and `/run` of its own, and so does not affect the other.
    """
    script = 'mount -t sysfs sysfs /sys && mount -t tmpfs run /run && ip link set lo up && "$@"; exit $?'
    # The shell is process 1 of the namespace, and so reaps processes whose parents have ended.
    alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script, "sh"]
    first = [f"mininet/tests/{name}_test.py" for name in ("interactive", "life", "main_job", "mn", "vxlan")]
    first += ["docs/tests", "ptf-tests/tests", "python/tests"]
    halves = [("mininet tests", first), ("mininet tests, rest", [f"--ignore={path}" for path in first])]
    for name, which in halves:
        command = [*alone, str(VENV / "pytest"), "-m", "root", *which]
        yield Check(name, command, count=count_pytest, env=COMMAND)


def guest_tests() -> Iterator[Check]:
    """List the checks on guests with Linux's own RDMA stack."""
    interop = [str(ROOT / "interop" / "run"), "run", "--quick", "--alfirk", str(ALFIRK)]
    yield Check("interop", interop, count=count_pytest)
    yield Check("interop, Tofino", [*interop, "--target=tna", "--only=lost"], count=count_pytest)


def packet_tests() -> Iterator[Check]:
    """List the packet tests, each in a network of its own."""

    def ptf(name: str, *flags: str) -> Check:
        alone = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
        command = [*alone, str(ROOT / "ptf-tests" / "run"), "--alfirk", str(ALFIRK), *flags]
        return Check(name, command, count=count_pytest, env=COMMAND)

    yield ptf("packet tests")
    yield ptf("packet tests, Tofino", "--target=tna")
    yield ptf("packet tests, Tofino 2", "--target=t2na")
    core = ("control", "feedback", "hostile", "icrc_modes", "isolation", "replicate", "retransmission")
    yield ptf("packet tests, core", "--profile=core", *core)
    # The least and the most; the packet tests of Tofino have 32 paths, all others 64.
    modules = ("feedback", "min_psn", "replicate")
    yield ptf("packet tests, 128 paths", "--path-bits=7", *modules)
    yield ptf("packet tests, 4 paths", "--path-bits=2", *modules, "control", "conversation", "retransmission")


def fuzz_checks() -> Iterator[Check]:
    """List the fuzzers of programs, requests and packets.

    Each fuzz target runs for `seconds`.
    """
    for name, seconds, arguments in [
        ("compiler fuzz", 7, ("broken_programs", "--", "fuzz::")),
        ("switch fuzz", 6, ("fuzz",)),
        ("switch fuzz (gRPC)", 6, ("veth", "--", "random_bytes")),
    ]:
        yield Check(
            name,
            cargo("test", *FEATURES, "--test", *arguments),
            count=count_cargo_test,
            env={"ALFIRK_FUZZ_SECONDS": os.environ.get("ALFIRK_FUZZ_SECONDS", str(seconds))},
        )


def namespaces_work() -> bool:
    """Check whether this process may make network namespaces and veth pairs, as Mininet must."""
    if os.geteuid() != 0 or not shutil.which("mnexec"):
        return False
    probe = "ip link add alfirk-probe type veth peer name alfirk-probe2 && ip link del alfirk-probe"
    return (
        subprocess.run(["unshare", "-n", "sh", "-c", probe], capture_output=True, check=False).returncode == 0
    )


def stages(*, lint: bool, test: bool, root: bool) -> Iterator[list[Lane]]:
    """List the stages, one after the other, each with the lanes that share the processors during it.

    Cargo is in one lane, since it locks the target folder. Checks that leave a processor idle have another
    lane beside them: compilation at the end of a crate, packet tests while they wait for packets, networks
    while they are built. Guests are many processes themselves, so they run alone.
    """
    built = rust_tests() if test else [p4_format(*cargo("run", "--quiet", "--package", "alfirk-cli", "--"))]
    rust: list[Lane] = [rust_lints()] if lint else []
    lanes: list[Lane] = [chain(*rust, built)]
    yield [*lanes, python_lints()] if lint else lanes
    if not test:
        return
    formatted = [p4_format(str(ALFIRK))] if lint else []
    packets = list(packet_tests()) if root else []
    # Both lanes take about as long.
    yield [chain(formatted, [links()], fuzz_checks(), [python_tests()]), packets]
    if root:
        yield [guest_tests()]
        yield [[half] for half in mininet_tests()]


class Runner:
    """Runs checks, and prints a line at the end of each."""

    def __init__(self, log: Path) -> None:
        """Store the output of checks in this folder."""
        self._log = log
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run_stage(self, lanes: Sequence[Lane]) -> Count:
        """Run lanes side by side, to their ends; nothing that they started outlives an interrupt."""
        with ThreadPoolExecutor(max_workers=len(lanes)) as pool:
            # A signal may arrive as soon as the first lane runs.
            try:
                futures = [pool.submit(self.run_lane, lane) for lane in lanes]
                pending = set(futures)
                while pending:
                    done, pending = wait(pending, timeout=SIGNAL_DELAY, return_when=FIRST_COMPLETED)
                    for future in done:
                        future.result()
                return sum((future.result() for future in futures), Count())
            except BaseException:
                self.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def run_lane(self, lane: Lane) -> Count:
        """Run checks one after the other."""
        return sum((self.run(check) for check in lane if not self._stopped), Count())

    def run(self, check: Check) -> Count:
        """Run one check and print its line, and its output if it failed."""
        begin = time.monotonic()
        self._log.mkdir(parents=True, exist_ok=True)
        log = self._log / f"{check.name.replace(' ', '-')}.log"
        record = log.with_suffix(".skipped")
        record.unlink(missing_ok=True)
        good, output = self._execute(check, {SKIPPED_TESTS: str(record.absolute())})
        count = check.count(output) if check.count else Count(passed=int(good), failed=int(not good))
        if check.count and count.passed and record.exists():
            skipped = len(record.read_text().splitlines())
            count += Count(passed=-skipped, skipped=skipped)
        if count.failed == 0 and (not good or count.passed + count.skipped == 0):
            # Its tests did not run, or none was selected.
            count += Count(failed=1)
        took = time.monotonic() - begin
        log.write_text(output)
        words = [f"{count.passed} passed", f"{count.failed} failed"]
        if count.skipped:
            words.append(f"{count.skipped} skipped")
        lines = [f"{check.name:<24} {', '.join(words)} in {took:.1f} s"]
        if count.failed:
            lines.append(f"$ {' '.join(check.command)}")
            lines.extend(f"    {line}" for line in output.splitlines())
        with self._lock:
            sys.stdout.writelines(f"{line}\n" for line in lines)
            sys.stdout.flush()
        return count

    def stop(self) -> None:
        """End all commands that are running, and begin no other."""
        with self._lock:
            self._stopped = True
            for process in self._processes:
                os.killpg(process.pid, signal.SIGTERM)

    def _execute(self, check: Check, env: dict[str, str]) -> tuple[bool, str]:
        """Run the command of a check to its end or its time limit; nothing it started outlives it."""
        try:
            process = self._start(check, env)
        except OSError as problem:
            return False, f"{problem}\n"
        try:
            output, _ = process.communicate(timeout=check.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return False, f"{output}\nstopped after {check.limit} s\n"
        finally:
            with self._lock:
                self._processes.discard(process)
        return process.returncode == 0, output

    def _start(self, check: Check, env: dict[str, str]) -> subprocess.Popen[str]:
        with self._lock:
            if self._stopped:
                raise InterruptedError
            process = subprocess.Popen(
                check.command,
                cwd=ROOT,
                env={**os.environ, **env, **check.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            self._processes.add(process)
            return process


def stop_by_signal() -> None:
    """End this process on SIGTERM as on an interrupt, so that nothing that it started stays."""

    def stop(*_: object) -> NoReturn:
        raise SystemExit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)


def main() -> int:
    """Run the selected checks; 1 if one has failed."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--only", choices=["lint", "test"], help="leave out the other half")
    arguments.add_argument("--json", action="store_true", help="end with a JSON object instead of a line")
    options = arguments.parse_args()

    stop_by_signal()
    root = namespaces_work()
    runner = Runner(TARGET / "checks")
    total = Count()
    test = options.only != "lint"
    for lanes in stages(lint=options.only != "test", test=test, root=root):
        total += runner.run_stage(lanes)
        if test and total.failed and not ALFIRK.exists():
            # Each later check would fail for this one reason.
            sys.stdout.write(
                f"NOT RUN: all other tests, as {ALFIRK} was not built (see `rust tests` above)\n"
            )
            break
    if test and not root:
        sys.stdout.write(
            "NOT RUN: Mininet, guest and packet tests (they need root and namespaces): sudo make test\n"
        )
    if options.json:
        counts = {"passed": total.passed, "failed": total.failed, "skipped": total.skipped}
        sys.stdout.write(json.dumps(counts) + "\n")
    else:
        skipped = f", {total.skipped} skipped" if total.skipped else ""
        sys.stdout.write(f"{total.passed} passed, {total.failed} failed{skipped}\n")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
