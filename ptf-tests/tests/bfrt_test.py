"""BfRuntime of packet tests: messages, names and values of the schema, and requests to a switch."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from alfirk_mininet.process import Child, stop_all
from alfirk_ptf.bfrt import messages
from alfirk_ptf.bfrt.client import BfRtClient, Entry
from alfirk_ptf.bfrt.schema import BfRtError, TableSchema, parse
from alfirk_ptf.live import free_port, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alfirk_ptf.bfrt.schema import Match, Value

_ROOT = Path(__file__).parents[2]
_ALFIRK = Path(os.environ.get("ALFIRK", _ROOT / "target" / "debug" / "alfirk")).absolute()
_PROTO = _ROOT / "p4runtime" / "proto" / "bfrt_proto" / "bfruntime.proto"
#: A program with an object of each kind, and a router.
_OBJECTS = _ROOT / "bfrt" / "test_data" / "bfrt.p4"
_ROUTER = Path(__file__).with_name("router_tna.p4")

#: A field by name: number, type, whether it is repeated, oneof.
_Fields = dict[str, tuple[int, str, bool, str]]


class _Proto:
    """The declarations of a .proto file, without comments and options."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"//[^\n]*|\[[^\]]*\]", "", text)
        self._tokens = re.findall(r'"[^"]*"|[\w.]+|[{}();=]', text)
        self.messages: dict[str, _Fields] = {}
        self.enums: dict[str, dict[str, int]] = {}
        self.calls: dict[str, str] = {}
        while self._tokens:
            self._declaration("")

    def _declaration(self, outer: str) -> None:
        kind = self._tokens.pop(0)
        if kind == "message":
            name = self._open(outer)
            self.messages[name] = {}
            while self._tokens[0] != "}":
                self._member(name, "")
            self._tokens.pop(0)
        elif kind == "enum":
            body = self.enums[self._open(outer)] = {}
            while (value := self._tokens.pop(0)) != "}":
                body[value] = int(self._tokens[1])
                del self._tokens[:3]
        elif kind == "rpc":
            end = self._tokens.index("}")
            self.calls[self._tokens[0]] = " ".join(self._tokens[1:end])
            del self._tokens[: end + 1]
        elif kind == "service":
            self._open("")
        elif kind != "}":
            del self._tokens[: self._tokens.index(";") + 1]

    def _open(self, outer: str) -> str:
        name = f"{outer}.{self._tokens.pop(0)}".removeprefix(".")
        assert self._tokens.pop(0) == "{"
        return name

    def _member(self, message: str, oneof: str) -> None:
        if self._tokens[0] in {"message", "enum"}:
            self._declaration(message)
        elif self._tokens[0] == "oneof":
            _, name, _ = self._tokens.pop(0), self._tokens.pop(0), self._tokens.pop(0)
            while self._tokens[0] != "}":
                self._member(message, name)
            self._tokens.pop(0)
        else:
            end = self._tokens.index(";")
            *kind, name, _, number = self._tokens[:end]
            del self._tokens[: end + 1]
            self.messages[message][name] = (int(number), kind[-1], kind[0] == "repeated", oneof)


def declared_messages_are_those_of_the_proto() -> None:
    proto = _Proto(_PROTO.read_text(encoding="utf-8"))
    assert len(proto.messages) > 60
    assert proto.messages["KeyField"]["lpm"] == (4, "LPM", False, "match_type")
    for name in messages.MESSAGES:
        descriptor = messages.message(name).DESCRIPTOR
        assert descriptor.full_name == f"bfrt_proto.{name}"
        for field in descriptor.fields:
            number, kind, is_repeated, oneof = proto.messages[name][field.name]
            assert field.number == number, (name, field.name)
            assert (field.label == field.LABEL_REPEATED) == is_repeated, (name, field.name)
            assert (field.containing_oneof.name if field.containing_oneof else "") == oneof
            other = field.message_type or field.enum_type
            if other is None:
                assert field.type == getattr(field, f"TYPE_{kind.upper()}"), (name, field.name)
            else:
                # Types are named from within the message, or in full with a dot.
                assert f".{other.full_name}".endswith(f".{kind.removeprefix('.')}"), (name, field.name)
        for enum in descriptor.enum_types:
            assert {value.name: value.number for value in enum.values} == proto.enums[f"{name}.{enum.name}"]
    for call, (kind, request, response) in messages.CALLS.items():
        sent, received = (f"{'stream ' if part == 'stream' else ''}" for part in kind.split("_"))
        assert proto.calls[call] == f"( {sent}{request} ) returns ( {received}{response} ) {{"


@pytest.fixture(name="schema", scope="module")
def _schema() -> dict[str, TableSchema]:
    """Return tables with fields of each match kind and type."""
    keys = [
        {
            "id": number,
            "name": f"hdr.{kind.lower()}.x",
            "match_type": kind,
            "type": {"type": "bytes", "width": 9},
        }
        for number, kind in enumerate(["Exact", "Ternary", "LPM", "Range", "Optional"], start=1)
    ]

    def field(number: int, name: str, kind: dict[str, Any], *, repeated: bool = False) -> dict[str, Any]:
        return {"id": number, "name": name, "repeated": repeated, "type": kind}

    data = [
        {"singleton": field(1, "$NAME", {"type": "string", "choices": ["A", "B"]})},
        {"oneof": [field(2, "$SHARE", {"type": "float"}), field(3, "$FLAG", {"type": "bool"})]},
        {"singleton": field(4, "$NUMBERS", {"type": "uint32"}, repeated=True)},
        {"singleton": field(5, "$FLAGS", {"type": "bool"}, repeated=True)},
        {"singleton": {"id": 6, "name": "$BOX", "repeated": True, "container": []}},
    ]
    action = {"id": 7, "name": "In.set", "data": [field(9, "port", {"type": "bytes", "width": 9})]}
    tables = [
        {"name": "pipe.In.all", "id": 1, "table_type": "MatchAction_Direct", "key": keys, "data": data},
        {"name": "pipe.Out.all", "id": 2, "table_type": "Register", "key": [], "data": []},
    ]
    tables[0]["action_specs"] = [action]
    return {table.name: table for table in parse(json.dumps({"tables": tables}).encode())}


def keys_and_data_are_read_as_they_are_written(schema: dict[str, TableSchema]) -> None:
    table = schema["pipe.In.all"]
    key: dict[str, Match] = {
        "hdr.exact.x": 0x1FF,
        "hdr.ternary.x": (0x100, 0x180),
        "hdr.lpm.x": (0x100, 1),
        "hdr.range.x": (2, 0x101),
        "hdr.optional.x": 3,
    }
    encoded = table.encode_key(key)
    assert encoded.fields[0].exact.value == b"\x01\xff"
    assert table.decode_key(encoded) == key
    # One number for a pair: all bits, or both bounds.
    one = table.encode_key({"ternary.x": 1, "lpm.x": 1, "range.x": 1})
    assert table.decode_key(one) == {"hdr.ternary.x": (1, 0x1FF), "hdr.lpm.x": (1, 9), "hdr.range.x": (1, 1)}
    data: dict[str, Value] = {"port": 3, "$NAME": "B", "$SHARE": 0.5, "$NUMBERS": [1, 2], "$FLAGS": [True]}
    assert table.decode_data(table.encode_data("set", data)) == ("In.set", data)
    assert table.decode_data(table.encode_data(None, {"$FLAG": True, "$NUMBERS": []})) == (
        None,
        {"$FLAG": True, "$NUMBERS": []},
    )


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ({"y": 1}, "table pipe.In.all has no key field `y`; valid names: hdr.exact.x, hdr.ternary.x,"),
        ({"x": 1}, "table pipe.In.all: `x` is one of several key fields: hdr.exact.x,"),
        ({"exact.x": 0x200}, "table pipe.In.all, key field hdr.exact.x: 0x200 does not fit 9 bits"),
        ({"exact.x": -1}, "key field hdr.exact.x: -0x1 does not fit 9 bits"),
        ({"exact.x": (1, 2)}, "key field hdr.exact.x: expected a number for exact match, found (1, 2)"),
        ({"lpm.x": (1, 10)}, "key field hdr.lpm.x: expected a prefix length of 0 to 9, found 10"),
        ({"lpm.x": "1"}, "expected a number or (value, prefix length) for lpm match, found '1'"),
        ({"ternary.x": (1, 2, 3)}, "expected a number or (value, mask) for ternary match, found (1, 2, 3)"),
        ({"range.x": (2, 1)}, "key field hdr.range.x: the low bound 0x2 is above the high bound 0x1"),
    ],
)
def wrong_keys_are_rejected(schema: dict[str, TableSchema], key: dict[str, Any], message: str) -> None:
    with pytest.raises(BfRtError) as caught:
        schema["pipe.In.all"].encode_key(key)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("action", "data", "message"),
    [
        ("get", {}, "table pipe.In.all has no action `get`; valid names: In.set"),
        (
            "set",
            {"p": 1},
            "table pipe.In.all, action In.set has no data field `p`; valid names: port, $NAME,",
        ),
        ("set", {"port": "1"}, "action In.set, field port: expected a number of 9 bits, found '1'"),
        (None, {"port": 1}, "table pipe.In.all has no data field `port`"),
        (None, {"$NAME": "C"}, "field $NAME: expected one of A, B, found 'C'"),
        (None, {"$FLAG": 1}, "field $FLAG: expected a bool, found 1"),
        (None, {"$NUMBERS": 1}, "field $NUMBERS: expected a list, found 1"),
        (None, {"$BOX": []}, "field $BOX: containers are not supported"),
    ],
)
def wrong_data_is_rejected(
    schema: dict[str, TableSchema], action: str | None, data: dict[str, Any], message: str
) -> None:
    with pytest.raises(BfRtError) as caught:
        schema["pipe.In.all"].encode_data(action, data)
    assert message in str(caught.value)


def _client(source: Path, folder: Path) -> Iterator[BfRtClient]:
    """Start a switch without interfaces, and connect to it."""
    program = folder / "program.json"
    schema = folder / "bf-rt.json"
    command = [str(_ALFIRK), "p4c", "--arch=tna", str(source), "-o", str(program), f"--bf-rt-schema={schema}"]
    subprocess.run(command, check=True)
    addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    child = Child.spawn(
        "the switch",
        [
            *(str(_ALFIRK), "switch", "--bfrt-server-addr", addresses[0], str(program)),
            *("--", "--grpc-server-addr", addresses[1]),
        ],
        folder / "switch.log",
    )
    try:
        wait_for(addresses[0], child)
        client = BfRtClient(addresses[0])
        yield client
        client.close()
    finally:
        stop_all([child])


@pytest.fixture(name="router", scope="module")
def _router(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BfRtClient]:
    yield from _client(_ROUTER, tmp_path_factory.mktemp("router"))


@pytest.fixture(name="objects", scope="module")
def _objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BfRtClient]:
    yield from _client(_OBJECTS, tmp_path_factory.mktemp("objects"))


_PREFIX = {"hdr.ipv4.dst": (0x0A000200, 24)}
_OTHER = {"hdr.ipv4.dst": (0x0A000300, 24)}


def entries_are_written_read_and_undone(router: BfRtClient) -> None:
    assert router.program == "program"
    assert "pipe.Ingress.routes" in router.tables
    routes = router.table("routes")
    assert routes.name == router.table("Ingress.routes").name == "pipe.Ingress.routes"
    start = router.mark()
    routes.add(_PREFIX, "forward", {"port": 2, "$COUNTER_SPEC_PKTS": 9})
    routes.add(_OTHER, "drop")
    first = Entry(_PREFIX, "Ingress.forward", {"port": 2, "$COUNTER_SPEC_PKTS": 9})
    second = Entry(_OTHER, "Ingress.drop", {"$COUNTER_SPEC_PKTS": 0})
    assert routes.get(_PREFIX) == first
    assert sorted(routes.entries(), key=str) == sorted([first, second], key=str)
    assert first["port"] == 2
    with pytest.raises(BfRtError, match="the entry has no data field `prt`; valid names: port, "):
        _ = first["prt"]
    middle = router.mark()
    routes.modify(_PREFIX, "forward", {"port": 3})
    assert routes.get(_PREFIX)["port"] == 3
    routes.delete(_OTHER)
    assert [entry["port"] for entry in routes.entries()] == [3]
    routes.clear()
    assert routes.entries() == []
    routes.set_default("forward", {"port": 7})
    assert (routes.default().action, routes.default()["port"]) == ("Ingress.forward", 7)
    routes.reset_default()
    assert routes.default().action == "Ingress.drop"
    router.undo(middle)
    assert sorted(routes.entries(), key=str) == sorted([first, second], key=str)
    assert routes.default().action == "Ingress.drop"
    router.undo(start)
    assert routes.entries() == []


def priorities_are_fields_of_keys(router: BfRtClient) -> None:
    rules = router.table("rules")
    start = router.mark()
    key: dict[str, Match] = {
        "hdr.ipv4.src": (0x0A000000, 0xFF000000),
        "hdr.ipv4.tos": (0, 7),
        "$MATCH_PRIORITY": 3,
    }
    rules.add(key, "classify", {"class": 5})
    assert rules.entries() == [Entry(key, "Ingress.classify", {"class": 5})]
    # Fields that are left out match any value.
    rules.add({"$MATCH_PRIORITY": 4}, "NoAction")
    every: dict[str, Match] = {"hdr.ipv4.src": (0, 0), "hdr.ipv4.tos": (0, 0xFF), "$MATCH_PRIORITY": 4}
    assert rules.get(every).action == "NoAction"
    router.undo(start)
    assert rules.entries() == []


def cells_are_written_read_and_restored(router: BfRtClient) -> None:
    seen, classes, limits = (router.table(name) for name in ("seen", "classes", "limits"))
    start = router.mark()
    seen.modify(3, data={"packets": 7, "last_src": 0x0A000001})
    seen.add(4, data={"packets": 8})
    assert (seen.get(3)["packets"], seen.get(3)["Ingress.seen.last_src"]) == (7, 0x0A000001)
    assert [entry["packets"] for entry in seen.entries()][:5] == [0, 0, 0, 7, 8]
    before_clear = router.mark()
    seen.clear()
    assert seen.get(3)["packets"] == 0
    router.undo(before_clear)
    assert [entry["packets"] for entry in seen.entries()][:5] == [0, 0, 0, 7, 8]
    classes.modify({"$COUNTER_INDEX": 200}, data={"$COUNTER_SPEC_PKTS": 5, "$COUNTER_SPEC_BYTES": 500})
    assert classes.get(200).data == {"$COUNTER_SPEC_BYTES": 500, "$COUNTER_SPEC_PKTS": 5}
    unlimited = limits.get(0)
    rates = {f"$METER_SPEC_{name}": 10 for name in ("CIR_PPS", "PIR_PPS", "CBS_PKTS", "PBS_PKTS")}
    limits.modify(0, data=rates)
    assert limits.get(0).data == rates
    router.undo(start)
    assert seen.get(3)["packets"] == seen.get(4)["packets"] == classes.get(200)["$COUNTER_SPEC_PKTS"] == 0
    assert limits.get(0) == unlimited


def errors_of_batches_name_the_entry_and_nothing_is_written(router: BfRtClient) -> None:
    routes = router.table("routes")
    start = router.mark()
    routes.add(_PREFIX, "drop")
    with pytest.raises(BfRtError) as caught:
        routes.add_all([Entry(_OTHER, "forward", {"port": 1}), Entry(_PREFIX, "drop")])
    assert caught.value.code == "ALREADY_EXISTS"
    assert "add to pipe.Ingress.routes: entry 2: ALREADY_EXISTS: " in str(caught.value)
    assert [entry.key for entry in routes.entries()] == [_PREFIX]
    router.undo(start)
    wrong: list[tuple[Callable[[], object], str, str]] = [
        (lambda: routes.get(_PREFIX), "NOT_FOUND", "get from pipe.Ingress.routes: NOT_FOUND: "),
        (lambda: routes.delete(_PREFIX), "NOT_FOUND", "delete from pipe.Ingress.routes: NOT_FOUND: "),
        (lambda: routes.add(1, "forward", {"prt": 1}), "", "action Ingress.forward has no data field `prt`"),
        (lambda: router.table("seen").get(16), "INVALID_ARGUMENT", "the index 16 is beyond its size of 16"),
        (lambda: router.table("rules").get(1), "", "expected values of the key fields (hdr.ipv4.src, "),
        (lambda: router.table("lost"), "", "program program has no table `lost`; valid names: pipe.Ingress"),
    ]
    for request, code, text in wrong:
        with pytest.raises(BfRtError) as caught:
            request()
        assert caught.value.code == code
        assert text in str(caught.value)
    assert router.mark() == start


def a_parameter_without_a_value_is_zero(router: BfRtClient) -> None:
    start = router.mark()
    routes = router.table("routes")
    routes.add(_PREFIX, "forward")
    assert routes.get(_PREFIX)["port"] == 0
    router.undo(start)


def members_and_groups_are_entries(objects: BfRtClient) -> None:
    start = objects.mark()
    members, groups, choose = (objects.table(name) for name in ("members", "groups", "choose"))
    members.add(1, "learn")
    members.add(2, "NoAction")
    group: dict[str, Value] = {
        "$ACTION_MEMBER_ID": [1, 2],
        "$ACTION_MEMBER_STATUS": [True, False],
        "$MAX_GROUP_SIZE": 4,
    }
    groups.add(5, data=group)
    choose.add(7, data={"$SELECTOR_GROUP_ID": 5})
    choose.add(8, data={"$ACTION_MEMBER_ID": 2})
    assert groups.get(5)["$ACTION_MEMBER_STATUS"] == [True, False]
    assert [entry.data for entry in choose.entries()] == [
        {"$SELECTOR_GROUP_ID": 5},
        {"$ACTION_MEMBER_ID": 2},
    ]
    tables = (choose, groups, members)
    before, middle = [table.entries() for table in tables], objects.mark()
    for table in tables:
        table.clear()
    assert [table.entries() for table in tables] == [[], [], []]
    objects.undo(middle)
    assert [table.entries() for table in tables] == before
    # Newest first: entries before the group that they refer to.
    objects.undo(start)
    assert members.entries() == groups.entries() == choose.entries() == []


def a_reload_restores_the_program_as_loaded(router: BfRtClient) -> None:
    router.table("routes").add(_PREFIX, "drop")
    router.table("seen").modify(0, data={"packets": 1})
    router.reload()
    assert router.mark() == 0
    assert router.table("routes").entries() == []
    assert router.table("seen").get(0)["packets"] == 0


def multicast_groups_and_mirror_sessions_are_entries(router: BfRtClient) -> None:
    start = router.mark()
    nodes, groups, mirrors = (router.table(name) for name in ("$pre.node", "$pre.mgid", "$mirror.cfg"))
    nodes.add(1, data={"$MULTICAST_RID": 5, "$MULTICAST_LAG_ID": [], "$DEV_PORT": [1, 2]})
    group: dict[str, Value] = {
        "$MULTICAST_NODE_ID": [1],
        "$MULTICAST_NODE_L1_XID_VALID": [False],
        "$MULTICAST_NODE_L1_XID": [0],
    }
    groups.add(7, data=group)
    assert nodes.get(1)["$DEV_PORT"] == [1, 2]
    assert groups.get(7)["$MULTICAST_NODE_ID"] == [1]
    session: dict[str, Value] = {
        "$direction": "INGRESS",
        "$session_enable": True,
        "$ucast_egress_port": 3,
        "$ucast_egress_port_valid": True,
    }
    mirrors.add(9, "$normal", session)
    assert mirrors.get(9)["$ucast_egress_port"] == 3
    tables = (groups, nodes, mirrors)
    before, middle = [table.entries() for table in tables], router.mark()
    for table, key in zip(tables, (7, 1, 9), strict=True):
        table.delete(key)
    assert [table.entries() for table in tables] == [[], [], []]
    router.undo(middle)
    assert [table.entries() for table in tables] == before
    router.undo(start)
    assert nodes.entries() == groups.entries() == mirrors.entries() == []
