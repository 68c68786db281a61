"""The measurements of other software switches use the entries and frames of the benchmark."""

from __future__ import annotations

import pytest
from peers import frames, swx, xdp


def statistics_follow_messages_of_dpdk() -> None:
    result = swx.parse("EAL: ready\nns 12.50\nreceived 9\nsent 0 0\nsent 1 8\nsent 2 1\n")
    assert result == swx.Result(12.5, 9, (0, 8, 1))


def output_without_statistics_is_an_error() -> None:
    with pytest.raises(ValueError, match="no statistics"):
        swx.parse("EAL: ready\n")


def an_entry_has_the_mask_of_its_prefix_and_longer_ones_come_first() -> None:
    entry = swx.lpm("routes", 0x0A100000, 12, "discard")
    assert entry == "routes match 0x0a100000/0xfff00000 priority 20 action discard"


def captures_are_read_as_written() -> None:
    written = [frames.frame(1), frames.frame(2)[:60]]
    assert swx.read_pcap(swx.pcap(written)) == written


def each_replica_of_a_group_has_an_entry_and_one_is_the_last() -> None:
    replicas = [entry for entry in swx.replication(3).entries if entry.startswith("replicas")]
    assert [entry.endswith("last 1") for entry in replicas] == [False, False, True]


def a_routed_frame_has_a_correct_checksum() -> None:
    header = frames.routed(frames.frame(0x0A000001))[14:34]
    assert header[8] == 63
    assert frames.checksum(header) == 0


def flat_arrays_select_the_longest_prefix() -> None:
    cells, blocks = xdp.flat_arrays([(0x0A000080, 25), (0x0A000000, 8)])
    assert cells[0x0A0001] == 2
    block = (cells[0x0A0000] & 0x7FFFFFFF) << 8
    assert (blocks[block + 0x7F], blocks[block + 0x80]) == (2, 1)
    assert cells[0x0B0000] == 0
