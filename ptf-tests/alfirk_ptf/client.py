"""A P4Runtime client for every kind of entity of any program.

Only this module and `p4runtime` use the generated classes, which have no type annotations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from p4.v1 import p4runtime_pb2

from alfirk_ptf.p4runtime import TIMEOUT, Client, P4RuntimeError, canonical, explain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: A value; or value and prefix length (LPM), value and mask (ternary), low and high bound (range).
Match = int | tuple[int, int]


@dataclass(frozen=True)
class Action:
    """An action and its parameters, by P4Info names."""

    name: str
    params: Mapping[str, int]


@dataclass(frozen=True)
class Member:
    """An entry with this action refers to a member of an action profile."""

    number: int


@dataclass(frozen=True)
class Group:
    """An entry with this action refers to a group of an action selector."""

    number: int


@dataclass(frozen=True)
class OneShot:
    """An entry with this action has actions of its own with weights: a one-shot action selector."""

    actions: Sequence[tuple[Action, int]]


@dataclass(frozen=True)
class Rule:
    """A table entry by P4Info names."""

    table: str
    match: Mapping[str, Match]
    action: Action | Member | Group | OneShot
    priority: int = 0
    #: Nanoseconds without a matching packet after which the controller is notified; 0 for never.
    idle_timeout: int = 0


@dataclass(frozen=True)
class Rates:
    """A meter's configuration: rates in units per second, and bursts in units."""

    cir: int
    cburst: int
    pir: int
    pburst: int


class ProgramClient(Client):
    """The primary controller of a switch with any program."""

    # Writing entities that are inserted, and deleted after the test.

    def add(self, *rules: Rule) -> None:
        """Insert table entries in one batch."""
        self._write(self._insertion("table_entry", self._rule(rule)) for rule in rules)

    def modify(self, rule: Rule) -> None:
        """Change the action of a table entry."""
        update = self._insertion("table_entry", self._rule(rule))
        update.type = p4runtime_pb2.Update.MODIFY
        self._send([update])

    def add_members(self, profile: str, members: Mapping[int, Action]) -> None:
        """Insert members of an action profile or selector."""
        entries = (self._member(profile, number, action) for number, action in members.items())
        self._write(self._insertion("action_profile_member", entry) for entry in entries)

    def modify_member(self, profile: str, number: int, action: Action) -> None:
        """Change the action of a member."""
        update = self._insertion("action_profile_member", self._member(profile, number, action))
        update.type = p4runtime_pb2.Update.MODIFY
        self._send([update])

    def add_group(self, selector: str, number: int, members: Sequence[int]) -> None:
        """Insert a group whose members have equal weights."""
        self._write([self._insertion("action_profile_group", self._group(selector, number, members))])

    def modify_group(self, selector: str, number: int, members: Sequence[int]) -> None:
        """Replace the members of a group."""
        update = self._insertion("action_profile_group", self._group(selector, number, members))
        update.type = p4runtime_pb2.Update.MODIFY
        self._send([update])

    def add_clone_session(self, session: int, ports: Sequence[int], length: int = 0) -> None:
        """Insert a clone session; a length truncates the clones."""
        entry = p4runtime_pb2.CloneSessionEntry(session_id=session, packet_length_bytes=length)
        for port in ports:
            entry.replicas.add(egress_port=port, instance=1)
        self._write([self._pre("clone_session_entry", entry)])

    def add_digest(self, name: str, ack_timeout: int) -> None:
        """Enable a digest, with lists of one message; equal messages are suppressed until acknowledged."""
        entry = p4runtime_pb2.DigestEntry(digest_id=self._find(self._info.digests, name).preamble.id)
        entry.config.max_list_size = 1
        entry.config.ack_timeout_ns = ack_timeout
        self._write([self._insertion("digest_entry", entry)])

    # Writing entities that always exist; tests reset them.

    def set_default(self, table: str, action: Action) -> None:
        """Set the default action of a table."""
        entry = p4runtime_pb2.TableEntry(
            table_id=self._find(self._info.tables, table).preamble.id, is_default_action=True
        )
        entry.action.action.CopyFrom(self._action(action))
        self._modify("table_entry", entry)

    def set_value_set(self, name: str, values: Sequence[int]) -> None:
        """Set the members of a value set with one exact field."""
        entry = p4runtime_pb2.ValueSetEntry(value_set_id=self._find(self._info.value_sets, name).preamble.id)
        for value in values:
            entry.members.add().match.add(field_id=1).exact.value = canonical(value)
        self._modify("value_set_entry", entry)

    def set_meter(self, name: str, index: int, rates: Rates | None) -> None:
        """Configure a cell of a meter; None resets it, so that all packets are green."""
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

    def entries(self, table: str) -> list[Rule]:
        """Read all entries of a table, without its default entry."""
        wanted = p4runtime_pb2.TableEntry(table_id=self._find(self._info.tables, table).preamble.id)
        return [self._as_rule(entity.table_entry) for entity in self._read("table_entry", wanted)]

    def default_action(self, table: str) -> Action:
        """Read the default action of a table."""
        wanted = p4runtime_pb2.TableEntry(
            table_id=self._find(self._info.tables, table).preamble.id, is_default_action=True
        )
        (entity,) = self._read("table_entry", wanted)
        return self._as_action(entity.table_entry.action.action)

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

    # Stream messages of the switch.

    def digest(self) -> tuple[list[int], Any]:
        """Wait for a digest list of one message; return its fields, and the acknowledgement of the list."""
        answer = self._next("digest").digest
        (data,) = answer.data
        fields = [int.from_bytes(member.bitstring, "big") for member in data.struct.members]
        return fields, p4runtime_pb2.DigestListAck(digest_id=answer.digest_id, list_id=answer.list_id)

    def acknowledge(self, ack: Any) -> None:
        """Acknowledge a digest list."""
        self._requests.put(p4runtime_pb2.StreamMessageRequest(digest_ack=ack))

    def idle_entries(self) -> list[Any]:
        """Wait for an idle timeout notification; return its table entries."""
        return list(self._next("idle_timeout_notification").idle_timeout_notification.table_entry)

    def is_of(self, notified: Any, rule: Rule) -> bool:
        """Return whether an entry of a notification is that of a rule."""
        ours = self._rule(rule)
        return bool(notified.table_id == ours.table_id and list(notified.match) == list(ours.match))

    # Building and sending requests.

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
        action = rule.action
        if isinstance(action, Action):
            entry.action.action.CopyFrom(self._action(action))
        elif isinstance(action, Member):
            entry.action.action_profile_member_id = action.number
        elif isinstance(action, Group):
            entry.action.action_profile_group_id = action.number
        else:
            for weighted, weight in action.actions:
                entry.action.action_profile_action_set.action_profile_actions.add(
                    action=self._action(weighted), weight=weight
                )
        return entry

    def _action(self, action: Action) -> Any:
        info = self._find(self._info.actions, action.name)
        message = p4runtime_pb2.Action(action_id=info.preamble.id)
        for param in info.params:
            message.params.add(param_id=param.id, value=canonical(action.params[param.name]))
        return message

    def _as_rule(self, entry: Any) -> Rule:
        table = self._with_id(self._info.tables, entry.table_id)
        names = {field.id: field.name for field in table.match_fields}
        match = {names[found.field_id]: _match(found) for found in entry.match}
        return Rule(
            table.preamble.name,
            match,
            self._as_entry_action(entry.action),
            entry.priority,
            entry.idle_timeout_ns,
        )

    def _as_entry_action(self, action: Any) -> Action | Member | Group | OneShot:
        kind = action.WhichOneof("type")
        if kind == "action":
            return self._as_action(action.action)
        if kind == "action_profile_member_id":
            return Member(action.action_profile_member_id)
        if kind == "action_profile_group_id":
            return Group(action.action_profile_group_id)
        actions = action.action_profile_action_set.action_profile_actions
        return OneShot([(self._as_action(weighted.action), weighted.weight) for weighted in actions])

    def _as_action(self, action: Any) -> Action:
        info = self._with_id(self._info.actions, action.action_id)
        names = {param.id: param.name for param in info.params}
        params = {names[param.param_id]: int.from_bytes(param.value, "big") for param in action.params}
        return Action(info.preamble.name, params)

    @staticmethod
    def _with_id(things: Any, number: int) -> Any:
        for thing in things:
            if thing.preamble.id == number:
                return thing
        msg = f"the P4Info has no object with the id {number:#x}"
        raise P4RuntimeError(msg)

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


def _config(rates: Rates) -> Any:
    return p4runtime_pb2.MeterConfig(cir=rates.cir, cburst=rates.cburst, pir=rates.pir, pburst=rates.pburst)


def _set_match(match: Any, field: Any, value: Match) -> None:
    kind = type(field).MatchType.Name(field.match_type)
    if isinstance(value, int):
        getattr(match, kind.lower()).value = canonical(value)
        return
    first, second = value
    if kind == "LPM":
        match.lpm.value, match.lpm.prefix_len = canonical(first), second
    elif kind == "TERNARY":
        match.ternary.value, match.ternary.mask = canonical(first), canonical(second)
    else:
        match.range.low, match.range.high = canonical(first), canonical(second)


def _match(match: Any) -> Match:
    kind = match.WhichOneof("field_match_type")
    found = getattr(match, kind)
    if kind == "lpm":
        return int.from_bytes(found.value, "big"), found.prefix_len
    if kind == "ternary":
        return int.from_bytes(found.value, "big"), int.from_bytes(found.mask, "big")
    if kind == "range":
        return int.from_bytes(found.low, "big"), int.from_bytes(found.high, "big")
    return int.from_bytes(found.value, "big")
