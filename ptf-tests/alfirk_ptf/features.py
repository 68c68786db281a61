"""A P4Runtime client for every kind of entity, and the tests that use it on `programs/features.p4`.

With `p4runtime`, the module that touches the generated classes, which have no types.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from p4.v1 import p4runtime_pb2
from ptf import testutils

from alfirk_ptf.collect import SENTINEL_MARK, CollectingTest
from alfirk_ptf.p4runtime import TIMEOUT, Client, P4RuntimeError, canonical, explain
from alfirk_ptf.probes import Op, Probe

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: A value; for LPM with its length, for ternary with its mask, for range with its end.
Match = int | tuple[int, int]


@dataclass(frozen=True)
class Action:
    """What an entry does, by P4Info names."""

    name: str
    params: Mapping[str, int]


@dataclass(frozen=True)
class Member:
    """An entry of this kind does what the member of its profile does."""

    number: int


@dataclass(frozen=True)
class Group:
    """An entry of this kind does what one of the members of the selector's group does."""

    number: int


@dataclass(frozen=True)
class OneShot:
    """An entry of this kind does one of these, each as often as its weight says."""

    actions: Sequence[tuple[Action, int]]


@dataclass(frozen=True)
class Rule:
    """A table entry by P4Info names."""

    table: str
    match: Mapping[str, Match]
    does: Action | Member | Group | OneShot
    priority: int = 0
    #: Nanoseconds without a packet after which the controller is notified; 0 for never.
    idle_timeout: int = 0


@dataclass(frozen=True)
class Rates:
    """A meter's configuration: units per second, and bursts in units."""

    cir: int
    cburst: int
    pir: int
    pburst: int


def hit(port: int, result: int) -> Action:
    """Leave by a port and show which entry was met."""
    return Action("hit", {"port": port, "result": result})


class FeatureClient(Client):
    """The primary controller of a switch with any program."""

    # Writing: what is inserted is deleted after the test.

    def add(self, *rules: Rule) -> None:
        """Insert table entries in one batch."""
        self._write(self._insertion("table_entry", self._rule(rule)) for rule in rules)

    def modify(self, rule: Rule) -> None:
        """Have an entry do something else."""
        update = self._insertion("table_entry", self._rule(rule))
        update.type = p4runtime_pb2.Update.MODIFY
        self._send([update])

    def add_members(self, profile: str, members: Mapping[int, Action]) -> None:
        """Insert members of a profile or selector."""
        entries = (self._member(profile, number, action) for number, action in members.items())
        self._write(self._insertion("action_profile_member", entry) for entry in entries)

    def modify_member(self, profile: str, number: int, action: Action) -> None:
        """Have a member do something else."""
        update = self._insertion("action_profile_member", self._member(profile, number, action))
        update.type = p4runtime_pb2.Update.MODIFY
        self._send([update])

    def add_group(self, selector: str, number: int, members: Sequence[int]) -> None:
        """Insert a group of members that have equal weights."""
        self._write([self._insertion("action_profile_group", self._group(selector, number, members))])

    def modify_group(self, selector: str, number: int, members: Sequence[int]) -> None:
        """Give a group other members."""
        update = self._insertion("action_profile_group", self._group(selector, number, members))
        update.type = p4runtime_pb2.Update.MODIFY
        self._send([update])

    def add_clone_session(self, session: int, ports: Sequence[int], length: int = 0) -> None:
        """Insert a clone session; a length cuts its copies."""
        entry = p4runtime_pb2.CloneSessionEntry(session_id=session, packet_length_bytes=length)
        for port in ports:
            entry.replicas.add(egress_port=port, instance=1)
        self._write([self._pre("clone_session_entry", entry)])

    def add_digest(self, name: str, ack_timeout: int) -> None:
        """Ask for lists of one digest each; one that came is not sent again until it is acknowledged."""
        entry = p4runtime_pb2.DigestEntry(digest_id=self._find(self._info.digests, name).preamble.id)
        entry.config.max_list_size = 1
        entry.config.ack_timeout_ns = ack_timeout
        self._write([self._insertion("digest_entry", entry)])

    # Writing what is always there: set it back afterwards.

    def set_value_set(self, name: str, values: Sequence[int]) -> None:
        """Say what a value set of one exact field holds."""
        entry = p4runtime_pb2.ValueSetEntry(value_set_id=self._find(self._info.value_sets, name).preamble.id)
        for value in values:
            entry.members.add().match.add(field_id=1).exact.value = canonical(value)
        self._modify("value_set_entry", entry)

    def set_meter(self, name: str, index: int, rates: Rates | None) -> None:
        """Configure a cell of a meter; with None all is green again."""
        entry = p4runtime_pb2.MeterEntry(meter_id=self._find(self._info.meters, name).preamble.id)
        entry.index.index = index
        if rates:
            entry.config.CopyFrom(_config(rates))
        self._modify("meter_entry", entry)

    def set_direct_meter(self, rule: Rule, rates: Rates) -> None:
        """Configure the meter of an entry."""
        entry = p4runtime_pb2.DirectMeterEntry(table_entry=self._rule(rule), config=_config(rates))
        entry.table_entry.ClearField("action")
        self._modify("direct_meter_entry", entry)

    def set_register(self, name: str, index: int, value: int) -> None:
        """Write a cell of a register."""
        entry = p4runtime_pb2.RegisterEntry(register_id=self._find(self._info.registers, name).preamble.id)
        entry.index.index = index
        entry.data.bitstring = canonical(value)
        self._modify("register_entry", entry)

    # Reading.

    def register(self, name: str, index: int) -> int:
        """Read a cell of a register."""
        entry = p4runtime_pb2.RegisterEntry(register_id=self._find(self._info.registers, name).preamble.id)
        entry.index.index = index
        (entity,) = self._read("register_entry", entry)
        return int.from_bytes(entity.register_entry.data.bitstring, "big")

    def counter(self, name: str, index: int) -> tuple[int, int]:
        """Read packets and bytes of a counter's cell."""
        entry = p4runtime_pb2.CounterEntry(counter_id=self._find(self._info.counters, name).preamble.id)
        entry.index.index = index
        (entity,) = self._read("counter_entry", entry)
        data = entity.counter_entry.data
        return data.packet_count, data.byte_count

    def direct_counter(self, rule: Rule) -> tuple[int, int]:
        """Read packets and bytes of an entry's counter."""
        entry = p4runtime_pb2.DirectCounterEntry(table_entry=self._rule(rule))
        entry.table_entry.ClearField("action")
        (entity,) = self._read("direct_counter_entry", entry)
        data = entity.direct_counter_entry.data
        return data.packet_count, data.byte_count

    # What the switch says by itself.

    def digest(self) -> tuple[list[int], Any]:
        """Wait for a list of one digest; give its fields, and what acknowledges the list."""
        answer = self._next("digest").digest
        (data,) = answer.data
        fields = [int.from_bytes(member.bitstring, "big") for member in data.struct.members]
        return fields, p4runtime_pb2.DigestListAck(digest_id=answer.digest_id, list_id=answer.list_id)

    def acknowledge(self, ack: Any) -> None:
        """Acknowledge a digest list."""
        self._requests.put(p4runtime_pb2.StreamMessageRequest(digest_ack=ack))

    def idle_entries(self) -> list[Any]:
        """Wait for news of entries that no packet has met for long; give them as they are notified."""
        return list(self._next("idle_timeout_notification").idle_timeout_notification.table_entry)

    def is_of(self, notified: Any, rule: Rule) -> bool:
        """Tell whether an entry that the switch tells of is one of ours."""
        ours = self._rule(rule)
        return bool(notified.table_id == ours.table_id and list(notified.match) == list(ours.match))

    # The rest is how.

    def _rule(self, rule: Rule) -> Any:
        table = self._find(self._info.tables, rule.table)
        entry = p4runtime_pb2.TableEntry(
            table_id=table.preamble.id, priority=rule.priority, idle_timeout_ns=rule.idle_timeout
        )
        left = dict(rule.match)
        for field in table.match_fields:
            if field.name in left:
                _set_match(entry.match.add(field_id=field.id), field, left.pop(field.name))
        if left:
            msg = f"{rule.table} has no key {', '.join(left)}"
            raise P4RuntimeError(msg)
        does = rule.does
        if isinstance(does, Action):
            entry.action.action.CopyFrom(self._action(does))
        elif isinstance(does, Member):
            entry.action.action_profile_member_id = does.number
        elif isinstance(does, Group):
            entry.action.action_profile_group_id = does.number
        else:
            for action, weight in does.actions:
                entry.action.action_profile_action_set.action_profile_actions.add(
                    action=self._action(action), weight=weight
                )
        return entry

    def _action(self, action: Action) -> Any:
        info = self._find(self._info.actions, action.name)
        message = p4runtime_pb2.Action(action_id=info.preamble.id)
        for param in info.params:
            message.params.add(param_id=param.id, value=canonical(action.params[param.name]))
        return message

    def _member(self, profile: str, number: int, action: Action) -> Any:
        return p4runtime_pb2.ActionProfileMember(
            action_profile_id=self._find(self._info.action_profiles, profile).preamble.id,
            member_id=number,
            action=self._action(action),
        )

    def _group(self, selector: str, number: int, members: Sequence[int]) -> Any:
        group = p4runtime_pb2.ActionProfileGroup(
            action_profile_id=self._find(self._info.action_profiles, selector).preamble.id,
            group_id=number,
            max_size=16,
        )
        for member in members:
            group.members.add(member_id=member, weight=1)
        return group

    def _modify(self, kind: str, message: Any) -> None:
        update = self._insertion(kind, message)
        update.type = p4runtime_pb2.Update.MODIFY
        self._send([update])

    def _read(self, kind: str, message: Any) -> list[Any]:
        request = p4runtime_pb2.ReadRequest(device_id=self._device_id)
        getattr(request.entities.add(), kind).CopyFrom(message)
        try:
            answers = list(self._stub.Read(request, timeout=TIMEOUT))
        except grpc.RpcError as error:
            raise P4RuntimeError(explain("Read", error)) from error
        return [entity for answer in answers for entity in answer.entities]


class FeatureTest(CollectingTest):
    """A test on a switch that runs `programs/features.p4`."""

    _client: FeatureClient | None = None

    def setUp(self) -> None:
        """Connect, and load the program once for all tests of a run."""
        super().setUp()
        if FeatureTest._client is None:
            client = FeatureClient(
                testutils.test_param_get("grpc"),
                int(testutils.test_param_get("device_id")),
                Path(testutils.test_param_get("p4info")),
            )
            client.push(Path(testutils.test_param_get("program")))
            FeatureTest._client = client
        self.switch = FeatureTest._client
        self.addCleanup(self.switch.undo, self.switch.mark())

    def sentinel(self, into: int, out: int) -> bytes:
        """Build the head of a frame that is forwarded as it says."""
        del into
        return _sentinel(out)

    def probe(self, sent: Probe, **out: Probe) -> None:
        """Send a probe into port 1: ``p2=probe`` is what must leave port 2; nothing else may."""
        frames = {port: probe.frame() for port, probe in out.items()}
        self.expect(1, sent.frame(), **frames)

    def expect_result(self, sent: Probe, port: int, result: int) -> None:
        """Send a probe into port 1: it leaves by this port alone, with this result."""
        self.probe(sent, **{f"p{port}": replace(sent, result=result)})

    def expect_no_frame(self, sent: Probe) -> None:
        """Send a probe into port 1: nothing leaves."""
        self.probe(sent)


@cache
def _sentinel(out: int) -> bytes:
    return Probe(Op.FORWARD, port=out, payload=SENTINEL_MARK.ljust(40, b".")).frame()


def _config(rates: Rates) -> Any:
    return p4runtime_pb2.MeterConfig(cir=rates.cir, cburst=rates.cburst, pir=rates.pir, pburst=rates.pburst)


def _set_match(match: Any, field: Any, value: Match) -> None:
    kinds = type(field).MatchType.Name(field.match_type)
    if isinstance(value, int):
        getattr(match, kinds.lower()).value = canonical(value)
        return
    first, second = value
    if kinds == "LPM":
        match.lpm.value, match.lpm.prefix_len = canonical(first), second
    elif kinds == "TERNARY":
        match.ternary.value, match.ternary.mask = canonical(first), canonical(second)
    else:
        match.range.low, match.range.high = canonical(first), canonical(second)
