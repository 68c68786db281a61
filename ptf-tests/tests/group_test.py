"""The flags of absent children in the tournament tree, which the controller writes for each path."""

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


def minimum_of_all_paths_reaches_the_root() -> None:
    # Simulate the tournament of the pipeline, with acknowledgements in random order.
    for paths in range(1, 1 + (1 << PATH_BITS)):
        source = random.Random(paths)
        values = [source.randrange(1, 1000) for _ in range(paths)]
        # INIT_GROUP sets every word of the tree to the value before the first PSN, 0 here.
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
