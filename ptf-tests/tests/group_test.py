"""What the controller writes for a group: where a path's neighbours in the tournament tree are missing."""

from __future__ import annotations

import random

import pytest
from alfirk_ptf.group import TREE_BITS, absent_children
from alfirk_ptf.live import PATH_BITS


@pytest.mark.parametrize(
    ("paths", "path", "flags"),
    [
        (1, 0, 0b1110_1110_1110_1110),
        (2, 1, 0b1110_1110_1110_1100),
        (4, 2, 0b1110_1110_1110_0000),
        (5, 0, 0b1110_1110_1100_0000),
        (5, 4, 0b1110_1110_1100_1110),
        (16, 15, 0b1110_1110_0000_0000),
        (17, 3, 0b1110_1100_0000_0000),
        (17, 16, 0b1110_1100_1110_1110),
        (64, 40, 0b1110_0000_0000_0000),
        (128, 127, 0b1100_0000_0000_0000),
    ],
)
def children_without_paths_are_flagged(paths: int, path: int, flags: int) -> None:
    assert absent_children(path, paths) == flags


def every_path_meets_every_other_in_the_tree() -> None:
    # Play the tournament as the pipeline does, in every order of arrival.
    for paths in range(1, 1 + (1 << PATH_BITS)):
        source = random.Random(paths)
        values = [source.randrange(1, 1000) for _ in range(paths)]
        # As INIT_GROUP leaves it: every word there is, whether a path has it or not, is before the first PSN.
        nodes: dict[tuple[int, int], int] = {}
        minimum = 0
        for path in source.sample(range(paths), paths):
            carried = values[path]
            absent = absent_children(path, paths)
            for level in range(PATH_BITS // TREE_BITS):
                nodes[level, path >> TREE_BITS * level] = carried
                first = path >> TREE_BITS * (level + 1) << TREE_BITS
                there = (child for child in range(4) if not absent >> (4 * level + child) & 1)
                carried = min(nodes.get((level, first + child), 0) for child in there)
            minimum = carried
        assert minimum == min(values)
