"""Conversion of table entries in JSON to command lines of a switch; runs no process."""

from __future__ import annotations

from typing import Any

import pytest
from alfirk_mininet.entries import commands
from alfirk_mininet.errors import NetworkError

#: BMv2 JSON of two tables.
PROGRAM: dict[str, Any] = {
    "header_types": [
        {"name": "ethernet_t", "fields": [["dst", 48, False], ["type", 16, False]]},
        {"name": "ipv4_t", "fields": [["src", 32, False], ["dst", 32, False]]},
    ],
    "headers": [
        {"name": "ethernet", "header_type": "ethernet_t"},
        {"name": "ipv4", "header_type": "ipv4_t"},
    ],
    "actions": [
        {"name": "I.forward", "id": 1, "runtime_data": [{"name": "mac"}, {"name": "port"}]},
        {"name": "I.drop", "id": 2, "runtime_data": []},
        {"name": "I.other", "id": 3, "runtime_data": []},
    ],
    "pipelines": [
        {
            "tables": [
                {
                    "name": "I.routes",
                    "action_ids": [1, 2],
                    "key": [{"match_type": "lpm", "name": "hdr.ipv4.dst", "target": ["ipv4", "dst"]}],
                },
                {
                    "name": "I.acl",
                    "action_ids": [2],
                    "key": [
                        {"match_type": "ternary", "name": "hdr.ipv4.src", "target": ["ipv4", "src"]},
                        {"match_type": "range", "name": "hdr.ethernet.type", "target": ["ethernet", "type"]},
                    ],
                },
            ]
        }
    ],
}


def _table(**entry: Any) -> list[str]:
    return commands({"table_entries": [entry]}, PROGRAM)


def key_and_action_values_follow_the_order_of_the_program() -> None:
    line = _table(
        table="I.routes",
        match={"hdr.ipv4.dst": ["10.0.1.1", 32]},
        action_name="I.forward",
        action_params={"port": 3, "mac": "08:00:00:00:01:11"},
    )
    assert line == ["table_add I.routes I.forward 0xa000101/32 => 0x080000000111 3"]


def omitted_keys_match_everything_and_priorities_are_inverted() -> None:
    low, high = (
        _table(
            table="I.acl", match={"hdr.ethernet.type": [0x800, "0x8ff"]}, action_name="I.drop", priority=p
        )[0]
        for p in (1, 2)
    )
    assert low.startswith("table_add I.acl I.drop 0&&&0 2048->0x8ff => ")
    # BMv2 takes the smaller number first.
    assert int(low.split()[-1]) == int(high.split()[-1]) + 1
    (whole,) = _table(table="I.acl", match={}, action_name="I.drop")
    assert whole.startswith("table_add I.acl I.drop 0&&&0 0->0xffff => ")


def default_actions_groups_and_sessions_become_command_lines() -> None:
    lines = commands(
        {
            "table_entries": [{"table": "I.routes", "default_action": True, "action_name": "I.drop"}],
            "multicast_group_entries": [
                {"multicast_group_id": 7, "replicas": [{"egress_port": 1, "instance": 2}, {"egress_port": 4}]}
            ],
            "clone_session_entries": [{"clone_session_id": 5, "replicas": [{"egress_port": 3}]}],
        },
        PROGRAM,
    )
    assert lines == [
        "table_set_default I.routes I.drop",
        "mc_mgrp_create 7",
        "mc_node_create 2 1",
        "mc_node_associate 7 0",
        "mc_node_create 0 4",
        "mc_node_associate 7 1",
        "mirroring_add 5 3",
    ]


@pytest.mark.parametrize(
    ("entry", "what"),
    [
        ({"table": "I.route", "action_name": "I.drop"}, "no table I.route"),
        ({"table": "I.routes", "action_name": "I.other"}, "no action of I.routes I.other"),
        ({"table": "I.routes", "action_name": "I.drop"}, "hdr.ipv4.dst is missing"),
        (
            {"table": "I.routes", "action_name": "I.drop", "match": {"hdr.ipv4.dst": 1}},
            "lpm key hdr.ipv4.dst",
        ),
        ({"table": "I.acl", "action_name": "I.drop", "match": {"x": 1}}, "no key of I.acl called x"),
        ({"table": "I.routes"}, "action_name"),
    ],
)
def names_missing_in_the_program_are_reported(entry: dict[str, Any], what: str) -> None:
    with pytest.raises(NetworkError) as refused:
        _table(**entry)
    assert what in refused.value.what
