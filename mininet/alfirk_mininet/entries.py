"""Table entries for a switch's start, from a JSON file in the form of p4lang's tutorials.

The file has an object with ``table_entries``, ``multicast_group_entries`` and ``clone_session_entries``,
each an optional list::

    {"table_entries": [
        {"table": "MyIngress.ipv4_lpm", "match": {"hdr.ipv4.dstAddr": ["10.0.0.1", 32]},
         "action_name": "MyIngress.forward", "action_params": {"port": 1}},
        {"table": "MyIngress.ipv4_lpm", "default_action": true, "action_name": "MyIngress.drop"}],
     "multicast_group_entries": [
        {"multicast_group_id": 1, "replicas": [{"egress_port": 1, "instance": 1}]}],
     "clone_session_entries": [{"clone_session_id": 5, "replicas": [{"egress_port": 3}]}]}

A value is a number, or text: an IPv4 or IPv6 address, an Ethernet address, a number.  Matches are a value
(``exact``), ``[value, prefix length]`` (``lpm``), ``[value, mask]`` (``ternary``) or ``[low, high]``
(``range``); omitted ``ternary``, ``range`` and ``optional`` keys match every value.  Of two entries
that match, the one with the larger ``priority`` applies, as in P4Runtime.

:func:`commands` is pure: it creates command lines of ``alfirk cli`` (BMv2's ``simple_switch_CLI``).
"""

from __future__ import annotations

import json
import re
import subprocess
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from alfirk_mininet.errors import NetworkError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

#: Hint that names the description of the format.
FORM = "see alfirk_mininet/entries.py for the form"
#: In BMv2 the smallest number has the highest priority; in P4Runtime the largest.
_PRIORITIES = 1 << 24


def load(file: Path) -> dict[str, Any]:
    """Read a file of entries."""
    try:
        entries = json.loads(file.read_text())
    except OSError as error:
        raise NetworkError(f"cannot read the entries {file}: {error.strerror}", "give a JSON file") from error
    except ValueError as error:
        raise NetworkError(f"{file} is not JSON: {error}", FORM) from error
    if not isinstance(entries, dict):
        raise NetworkError(f"{file} does not contain a JSON object", FORM)
    return entries


def commands(entries: Mapping[str, Any], program: Mapping[str, Any]) -> list[str]:
    """Return the commands that add entries to a switch that has just started with this BMv2 JSON."""
    try:
        return [
            *(_table_entry(entry, program) for entry in entries.get("table_entries", [])),
            *_multicast(entries.get("multicast_group_entries", [])),
            *_sessions(entries.get("clone_session_entries", [])),
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise NetworkError(
            f"entries: {error!r} is missing or has a wrong type",
            FORM,
        ) from error


def apply(lines: Sequence[str], alfirk: Path, thrift_port: int, switch: str) -> None:
    """Send the commands to the switch, and fail at the first that it rejects."""
    command = [str(alfirk), "cli", "--thrift-port", str(thrift_port)]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkError(f"switch {switch}: cannot add the entries", done.stderr.strip())
    answers = done.stdout.split("RuntimeCmd: ")[1:]
    for line, answer in zip(lines, answers, strict=False):
        refused = re.search(r"^(Invalid|Error).*$", answer, re.MULTILINE)
        if refused:
            raise NetworkError(f"switch {switch} rejected an entry: {refused[0]}", f"the command was: {line}")


def _table_entry(entry: Mapping[str, Any], program: Mapping[str, Any]) -> str:
    tables = [table for pipeline in program["pipelines"] for table in pipeline["tables"]]
    table = _named("table", entry["table"], {table["name"]: table for table in tables})
    actions = {action["name"]: action for action in program["actions"] if action["id"] in table["action_ids"]}
    action = _named(f"action of {table['name']}", entry["action_name"], actions)
    given = dict(entry.get("action_params", {}))
    params = [
        _value(_taken(given, parameter["name"], f"parameter of {action['name']}"))
        for parameter in action["runtime_data"]
    ]
    _nothing_left(given, f"parameter of {action['name']}")
    if entry.get("default_action"):
        return " ".join(["table_set_default", table["name"], action["name"], *params])
    match = dict(entry.get("match", {}))
    keys = [_key(key, match, table["name"], program) for key in table["key"]]
    _nothing_left(match, f"key of {table['name']}")
    line = ["table_add", table["name"], action["name"], *keys, "=>", *params]
    if any(key["match_type"] in ("ternary", "range", "optional") for key in table["key"]):
        line.append(str(_PRIORITIES - int(entry.get("priority", 1))))
    return " ".join(line)


def _key(key: Mapping[str, Any], match: dict[str, Any], table: str, program: Mapping[str, Any]) -> str:
    kind, name = key["match_type"], key["name"]
    if name not in match and kind in ("ternary", "optional"):
        return "0&&&0"
    if name not in match and kind == "range":
        return f"0->{_largest(key, program)}"
    given = _taken(match, name, f"key of {table}")
    if kind in ("exact", "valid"):
        return _value(given[0] if isinstance(given, list) else given)
    if kind == "optional":
        value = given[0] if isinstance(given, list) else given
        return f"{_value(value)}&&&{_largest(key, program)}"
    if not isinstance(given, list) or len(given) != 2:
        raise NetworkError(
            f"entries: {kind} key {name} of {table} is {given!r}", "write two values: [value, how far]"
        )
    between = {"lpm": "/", "ternary": "&&&", "range": "->"}[kind]
    second = str(int(given[1])) if kind == "lpm" else _value(given[1])
    return f"{_value(given[0])}{between}{second}"


def _largest(key: Mapping[str, Any], program: Mapping[str, Any]) -> str:
    """Return the largest value of a key, by the width of its field."""
    header, field = key["target"]
    kinds = {kind["name"]: kind for kind in program["header_types"]}
    (instance,) = (instance for instance in program["headers"] if instance["name"] == header)
    (bits,) = (width for name, width, *_ in kinds[instance["header_type"]]["fields"] if name == field)
    return f"0x{(1 << bits) - 1:x}"


def _multicast(groups: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    # Handles start at 0 in a switch that has just started.
    handle = 0
    for group in groups:
        number = int(group["multicast_group_id"])
        yield f"mc_mgrp_create {number}"
        for replica in group["replicas"]:
            yield f"mc_node_create {int(replica.get('instance', 0))} {int(replica['egress_port'])}"
            yield f"mc_node_associate {number} {handle}"
            handle += 1


def _sessions(sessions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for session in sessions:
        number, replicas = int(session["clone_session_id"]), session["replicas"]
        if len(replicas) != 1:
            raise NetworkError(
                f"entries: clone session {number} has {len(replicas)} replicas", "write one for each session"
            )
        yield f"mirroring_add {number} {int(replicas[0]['egress_port'])}"


def _named(what: str, name: str, known: Mapping[str, Any]) -> Mapping[str, Any]:
    if name not in known:
        raise NetworkError(f"entries: there is no {what} {name}", f"there are: {', '.join(sorted(known))}")
    found: Mapping[str, Any] = known[name]
    return found


def _taken(given: dict[str, Any], name: str, what: str) -> Any:
    if name not in given:
        raise NetworkError(f"entries: {what}: {name} is missing", "give it a value")
    return given.pop(name)


def _nothing_left(given: Mapping[str, Any], what: str) -> None:
    if given:
        raise NetworkError(
            f"entries: there is no {what} called {', '.join(given)}", "see its P4Info for the names"
        )


def _value(value: int | str) -> str:
    """Format a value as a number."""
    if isinstance(value, int):
        return str(int(value))
    if re.fullmatch(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", value):
        return f"0x{value.replace(':', '')}"
    if "." in value or ":" in value:
        return hex(int(ip_address(value)))
    return hex(int(value, 0))
