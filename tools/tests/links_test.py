"""The check of links finds names of things that do not exist."""

from __future__ import annotations

import links
import pytest

_RUN = "Usage: alfirk run\n\nOptions:\n      --size <N>\n          The size\n      --[no-]rate\n"
_TOP = "Commands:\n  run     Runs\n  link    Links\n          of ports\n\nOptions:\n      --log <F>\n"
_COMMAND = links.Command({(): _TOP, ("run",): _RUN, ("link",): "", ("link", "set"): "--delay"})
_TREE = links.Tree(frozenset({"roce/src/rc/config.rs", "p4src/shared/sizes.p4", "README.md", "docs/a.md"}))
_CHECKER = links.Checker(
    _TREE, {"alfirk-roce": "roce"}, frozenset({"run", "test"}), _COMMAND, lambda text: text == "--keep"
)


def _on_a_page(text: str) -> list[str]:
    return [problem.what for problem in _CHECKER.markdown("README.md", text)]


def _in_a_comment(text: str) -> list[str]:
    return [problem.what for problem in _CHECKER.comments("roce/src/rc/mod.rs", text)]


@pytest.mark.parametrize(
    "text",
    [
        "`roce/src/{rc/config.rs}`, `p4src/shared/*.p4`, `sizes.p4`, `roce/src/`",
        "`alfirk run --size 1`, `alfirk link set 2 --delay 5ms`, `--size`, `--keep`, `make test`",
        "```sh\nalfirk run \\\n    --size 1 | grep --color x\nalfirk run -- --other\n# alfirk is fast\n```",
        "```console\n$ alfirk run --size 1\nalgorithm  alfirk is\n```",
        "`cargo test -p alfirk-roce`, `alfirk_roce::psn`",
        "`alfirk --log debug run --size 1`, `alfirk VERB --help`",
    ],
)
def links_to_existing_targets_are_accepted(text: str) -> None:
    assert _on_a_page(text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("`roce/src/rc/none.rs`", "no file or folder roce/src/rc/none.rs"),
        ("`none.p4`", "no file or folder none.p4"),
        ("`p4src/{shared,none}/sizes.p4`", "no file or folder p4src/{shared,none}/sizes.p4"),
        ("`alfirk none --size`", "no verb `alfirk none`"),
        ("`alfirk run --none`", "no flag `--none` of `alfirk run`"),
        ("`--none`", "no flag `--none`"),
        ("```sh\nx=1\nsudo alfirk link set --size 1\n```", "no flag `--size` of `alfirk link set`"),
        ("`make none`", "no target `make none`"),
        ("`cargo test -p alfirk-none`", "no crate alfirk-none"),
        ("`cargo test -p alfirk-roce --test none`", "no test `none` of alfirk-roce"),
        ("[a](none.md)", "link to none.md, which does not exist"),
        ("[a](#none)", "no heading for #none"),
    ],
)
def links_to_missing_targets_are_reported(text: str, problem: str) -> None:
    assert _on_a_page(text) == [problem]


def comment_can_name_a_file_relative_to_its_module() -> None:
    assert _in_a_comment("// See rc/config.rs and `config.rs`.\nlet a = b/none.rs;\n") == []
    assert _in_a_comment("fn f() {}\n    /// In `rc/none.rs`.\n") == ["no file or folder rc/none.rs"]
    assert _in_a_comment("// In rc/none.rs.\n") == ["no file or folder rc/none.rs"]


def problems_are_reported_with_their_line() -> None:
    problems = list(_CHECKER.markdown("README.md", "a\n\n`alfirk none`\n```sh\n\nalfirk none\n```\n"))
    assert sorted(problem.line for problem in problems) == [3, 6]


def subcommands_are_read_from_all_groups_of_the_help() -> None:
    text = "Experiments:\n  run  Runs\n\nP4:\n  p4c\n          Compiles\n\nOptions:\n  -h, --help  Help\n"
    assert links.verbs_of(text) == ["run", "p4c"]


def heading_anchors_follow_githubs_rules() -> None:
    assert links.anchors("# A `b`, c\n```\n# no\n```\n## The way-d\n") == {"a-b-c", "the-way-d"}
