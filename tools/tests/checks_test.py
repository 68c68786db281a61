"""The test runner counts what the other runners print."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import checks
import pytest


def nextest_summary_is_parsed() -> None:
    output = """
        PASS [   0.1s] alfirk-roce psn::wraps
     Summary [  12.345s] 52 tests run: 49 passed (2 slow), 1 failed, 2 timed out, 3 skipped
        FAIL [   0.1s] alfirk-sim engine::order
    """
    assert checks.count_nextest(output) == checks.Count(49, 3, 3)


def nextest_run_that_stopped_early_counts_only_finished_tests() -> None:
    output = "Summary [   1.0s] 5/52 tests run: 4 passed, 1 failed, 0 skipped"
    assert checks.count_nextest(output) == checks.Count(4, 1, 0)


def libtest_results_are_added_up() -> None:
    output = (
        "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
        "test result: FAILED. 2 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n"
    )
    assert checks.count_cargo_test(output) == checks.Count(5, 4, 1)


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("72 passed, 16 deselected in 0.83s", (72, 0, 0)),
        ("1 failed, 56 passed in 14.23s", (56, 1, 0)),
        ("13 failed, 15 passed, 2 skipped, 4 errors in 0.58s", (15, 17, 2)),
        ("1 error in 0.05s", (0, 1, 0)),
        ("40 passed, 2 failed", (40, 2, 0)),
    ],
)
def pytest_and_custom_runner_summaries_are_parsed(line: str, count: tuple[int, int, int]) -> None:
    assert checks.count_pytest(f"....\n{line}\n") == checks.Count(*count)


def command_that_fails_before_its_tests_counts_as_one_failure(tmp_path: Path) -> None:
    check = checks.Check("broken", ["sh", "-c", "echo no tests here; exit 3"], count=checks.count_pytest)
    assert checks.Runner(tmp_path).run(check) == checks.Count(0, 1)


def missing_command_counts_as_one_failure(tmp_path: Path) -> None:
    assert checks.Runner(tmp_path).run(checks.Check("absent", ["/nowhere/at/all"])) == checks.Count(0, 1)


def command_without_a_test_summary_counts_as_one_test(tmp_path: Path) -> None:
    assert checks.Runner(tmp_path).run(checks.Check("linter", ["true"])) == checks.Count(1, 0)


def hanging_command_is_killed_with_its_children(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 1000 & echo $! > child; wait"]
    check = checks.Check("hangs", ["sh", "-c", f"cd {tmp_path}; {command[2]}"], limit=1)
    assert checks.Runner(tmp_path).run(check) == checks.Count(0, 1)
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "stat")
    # A killed process takes the time to end that its processor gives it.
    deadline = time.monotonic() + 20
    while not _has_ended(child):
        assert time.monotonic() < deadline, "what the command started is still running"


@pytest.mark.parametrize(
    ("source", "runs"),
    [
        ("/// ```\n/// assert!(true);\n/// ```\n", True),
        ("    //! ```no_run\n    //! loop {}\n    //! ```\n", True),
        ("/// ```text\n/// A -> B\n/// ```\nfn f() {}\n", False),
        ("// ```\n// no documentation\n// ```\n", False),
    ],
)
def examples_run_by_rustdoc_are_counted(source: str, runs: bool) -> None:
    assert checks.has_doc_test(source) == runs


def lanes_run_in_parallel_and_their_checks_in_order(tmp_path: Path) -> None:
    def wait_for(file: str, then: str) -> checks.Check:
        script = f"until [ -e {tmp_path}/{file} ]; do sleep 0.01; done; touch {tmp_path}/{then}"
        return checks.Check(then, ["sh", "-c", script], limit=60)

    (tmp_path / "begin").touch()
    lanes = [[wait_for("begin", "a"), wait_for("b", "c")], [wait_for("a", "b"), wait_for("c", "d")]]
    assert checks.Runner(tmp_path).run_stage(lanes) == checks.Count(4, 0)


def every_check_is_in_exactly_one_stage() -> None:
    def names(*, lint: bool, test: bool) -> list[str]:
        stages = checks.stages(lint=lint, test=test, root=True)
        return sorted(check.name for lanes in stages for lane in lanes for check in lane)

    everything = names(lint=True, test=True)
    assert len(set(everything)) == len(everything)
    assert sorted([*names(lint=True, test=False), *names(lint=False, test=True)]) == everything


def interrupt_ends_all_lanes(tmp_path: Path) -> None:
    def interrupt() -> Iterator[checks.Check]:
        yield checks.Check("first", ["true"])
        raise KeyboardInterrupt

    runner = checks.Runner(tmp_path)
    slow = [checks.Check("slow", ["sleep", "200"]), checks.Check("next", ["touch", str(tmp_path / "next")])]
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        runner.run_stage([interrupt(), slow])
    assert time.monotonic() - begin < 100
    assert not (tmp_path / "next").exists()


def sigterm_ends_all_lanes(tmp_path: Path) -> None:
    def signalled() -> Iterator[checks.Check]:
        yield checks.Check("first", ["true"])
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    runner = checks.Runner(tmp_path)
    slow = [checks.Check("slow", ["sleep", "200"]), checks.Check("next", ["touch", str(tmp_path / "next")])]
    begin = time.monotonic()
    checks.stop_by_signal()
    try:
        with pytest.raises(SystemExit):
            runner.run_stage([signalled(), slow])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert time.monotonic() - begin < 100
    assert not (tmp_path / "next").exists()


def _has_ended(stat: Path) -> bool:
    try:
        return stat.read_text().split()[2] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def check_that_selects_no_test_has_failed(tmp_path: Path) -> None:
    line = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 0.00s"
    check = checks.Check("renamed", ["echo", line], count=checks.count_cargo_test)
    assert checks.Runner(tmp_path).run(check) == checks.Count(0, 1)


def test_that_records_that_it_is_skipped_is_not_counted_as_passed(tmp_path: Path) -> None:
    line = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s"
    script = f"echo 'needs_ports: this is not root' >> $ALFIRK_SKIPPED_TESTS; echo '{line}'"
    check = checks.Check("some skipped", ["sh", "-c", script], count=checks.count_cargo_test)
    runner = checks.Runner(tmp_path)
    assert runner.run(check) == checks.Count(2, 0, 2)
    # The record of an earlier run has no effect.
    assert runner.run(check) == checks.Count(2, 0, 2)


def check_whose_tests_are_all_skipped_has_not_failed(tmp_path: Path) -> None:
    line = "test result: ok. 0 passed; 0 failed; 2 ignored"
    check = checks.Check("all skipped", ["echo", line], count=checks.count_cargo_test)
    assert checks.Runner(tmp_path).run(check) == checks.Count(0, 0, 2)
