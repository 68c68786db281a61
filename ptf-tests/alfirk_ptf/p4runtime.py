"""A small P4Runtime client for packet tests, which takes P4Info names and can undo what it wrote.

Only this module and `features` use the generated classes, which have no type annotations.  Section numbers
are those of the P4Runtime specification 1.4.
"""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf import text_format
from google.rpc import code_pb2, status_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from alfirk_ptf.stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from alfirk_ptf.group import Entry, Lpm, MulticastGroup, Value

#: Seconds to wait for a response.
TIMEOUT = 20.0


class P4RuntimeError(Exception):
    """The server rejected a request, or did not respond."""


@dataclass(frozen=True)
class PacketIn:
    """A frame that the pipeline sent to the controller, with its metadata by name."""

    payload: bytes
    metadata: dict[str, int]


class Client:
    """The primary controller of one switch.

    It remembers what it writes; :meth:`undo` deletes that, newest first, and resets meters.
    """

    def __init__(self, address: str, device_id: int, p4info: Path) -> None:
        self._device_id = device_id
        self._election = p4runtime_pb2.Uint128(high=0, low=1)
        self._info = p4info_pb2.P4Info()
        text_format.Parse(p4info.read_text(encoding="utf-8"), self._info)
        self._channel = grpc.insecure_channel(address)
        self._stub = p4runtime_pb2_grpc.P4RuntimeStub(self._channel)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._undo: list[Any] = []
        self._arbitrate()

    def close(self) -> None:
        """End the session."""
        self._requests.put(None)
        self._channel.close()

    # Session and pipeline (sections 5 and 7).

    def _arbitrate(self) -> None:
        open_stream(self._stub.StreamChannel, self._requests, self._answers.put)
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self._device_id
        request.arbitration.election_id.CopyFrom(self._election)
        self._requests.put(request)
        status = self._next("arbitration").arbitration.status
        if status.code != code_pb2.OK:
            msg = f"not the primary controller: {status.message or status.code}"
            raise P4RuntimeError(msg)

    def push(self, program: Path) -> None:
        """Load a pipeline, given as BMv2 JSON."""
        request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
            device_id=self._device_id,
            election_id=self._election,
            action=p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
        )
        request.config.p4info.CopyFrom(self._info)
        request.config.p4_device_config = program.read_bytes()
        self._call("SetForwardingPipelineConfig", request)

    # Writing (section 12).

    def insert(self, *entries: Entry) -> None:
        """Insert table entries in one batch."""
        self._write(self._insertion("table_entry", self._table_entry(entry)) for entry in entries)

    def insert_multicast(self, *groups: MulticastGroup) -> None:
        """Insert PRE groups."""
        self._write(self._pre("multicast_group_entry", _multicast_group(group)) for group in groups)

    def insert_clone_sessions(self, sessions: dict[int, int], length: int = 0) -> None:
        """Insert clone sessions, given as session and port; a length truncates the clones."""
        updates = []
        for session, port in sessions.items():
            entry = p4runtime_pb2.CloneSessionEntry(session_id=session, packet_length_bytes=length)
            entry.replicas.add(egress_port=port, instance=1)
            updates.append(self._pre("clone_session_entry", entry))
        self._write(updates)

    def set_rate(self, meter: str, index: int, rate: int, burst: int) -> None:
        """Set rate (units per second) and burst of a meter's cell."""
        update = p4runtime_pb2.Update(type=p4runtime_pb2.Update.MODIFY)
        entry = update.entity.meter_entry
        entry.meter_id = self._find(self._info.meters, meter).preamble.id
        entry.index.index = index
        entry.config.cir = entry.config.pir = rate
        entry.config.cburst = entry.config.pburst = burst
        self._write([update])

    def mark(self) -> int:
        """Return the present state, for :meth:`undo`."""
        return len(self._undo)

    def undo(self, mark: int = 0) -> None:
        """Delete what was inserted since the mark, newest first."""
        updates = self._undo[mark:][::-1]
        del self._undo[mark:]
        for update in updates:
            if update.entity.HasField("meter_entry"):
                update.entity.meter_entry.ClearField("config")
            else:
                update.type = p4runtime_pb2.Update.DELETE
        if updates:
            self._send(updates)

    # Reading (section 13).

    def counters(self, name: str) -> dict[int, int]:
        """Read the packet counts of a counter array that are not zero, by index."""
        expected = self._find(self._info.counters, name).preamble.id
        request = p4runtime_pb2.ReadRequest(device_id=self._device_id)
        request.entities.add().counter_entry.counter_id = expected
        try:
            answers = list(self._stub.Read(request, timeout=TIMEOUT))
        except grpc.RpcError as error:
            raise P4RuntimeError(explain("Read", error)) from error
        entries = [entity.counter_entry for answer in answers for entity in answer.entities]
        return {e.index.index: e.data.packet_count for e in entries if e.data.packet_count}

    # Packet I/O (section 16).

    def packet_out(self, payload: bytes, **metadata: int) -> None:
        """Send a frame into the pipeline."""
        request = p4runtime_pb2.StreamMessageRequest()
        request.packet.payload = payload
        for field in self._packet_metadata("packet_out"):
            value = metadata.get(field.name, 0)
            request.packet.metadata.add(metadata_id=field.id, value=canonical(value))
        self._requests.put(request)

    def packet_in(self) -> PacketIn:
        """Wait for a frame from the pipeline."""
        packet = self._next("packet").packet
        names = {field.id: field.name for field in self._packet_metadata("packet_in")}
        metadata = {names[m.metadata_id]: int.from_bytes(m.value, "big") for m in packet.metadata}
        return PacketIn(packet.payload, metadata)

    def no_packet_in(self) -> bool:
        """Return whether no message of the switch is waiting to be read."""
        return self._answers.empty()

    # Building and sending requests.

    def _next(self, kind: str) -> Any:
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                msg = f"no {kind} from the switch within {TIMEOUT:.0f} s"
                raise P4RuntimeError(msg) from None
            if answer.WhichOneof("update") == kind:
                return answer
            if answer.WhichOneof("update") == "error":
                raise P4RuntimeError(str(answer.error))

    def _packet_metadata(self, name: str) -> Any:
        return self._find(self._info.controller_packet_metadata, name).metadata

    def _insertion(self, kind: str, message: Any) -> Any:
        update = p4runtime_pb2.Update(type=p4runtime_pb2.Update.INSERT)
        getattr(update.entity, kind).CopyFrom(message)
        return update

    def _pre(self, kind: str, message: Any) -> Any:
        entry = p4runtime_pb2.PacketReplicationEngineEntry()
        getattr(entry, kind).CopyFrom(message)
        return self._insertion("packet_replication_engine_entry", entry)

    def _write(self, updates: Iterable[Any]) -> None:
        batch = list(updates)
        self._send(batch)
        self._undo.extend(batch)

    def _send(self, updates: list[Any]) -> None:
        request = p4runtime_pb2.WriteRequest(
            device_id=self._device_id, election_id=self._election, updates=updates
        )
        self._call("Write", request)

    def _call(self, method: str, request: Any) -> Any:
        try:
            return getattr(self._stub, method)(request, timeout=TIMEOUT)
        except grpc.RpcError as error:
            raise P4RuntimeError(explain(method, error)) from error

    @staticmethod
    def _find(things: Any, name: str) -> Any:
        for thing in things:
            if name in (thing.preamble.name, thing.preamble.alias):
                return thing
        known = ", ".join(sorted(thing.preamble.name for thing in things))
        msg = f"the program has no `{name}`; valid names: {known}"
        raise P4RuntimeError(msg)

    def _table_entry(self, entry: Entry) -> Any:
        table = self._find(self._info.tables, entry.table)
        message = p4runtime_pb2.TableEntry(table_id=table.preamble.id)
        for field in table.match_fields:
            if field.name not in entry.match:
                continue
            match = message.match.add(field_id=field.id)
            _set_match(match, entry.match[field.name])
        unknown = entry.match.keys() - {field.name for field in table.match_fields}
        action = self._find(self._info.actions, entry.action)
        message.action.action.action_id = action.preamble.id
        for param in action.params:
            value = canonical(entry.params[param.name])
            message.action.action.params.add(param_id=param.id, value=value)
        unknown |= entry.params.keys() - {param.name for param in action.params}
        if unknown:
            msg = f"{entry.table}: the program has no {', '.join(sorted(unknown))}"
            raise P4RuntimeError(msg)
        return message


def _multicast_group(group: MulticastGroup) -> Any:
    entry = p4runtime_pb2.MulticastGroupEntry(multicast_group_id=group.group_id)
    for port, instance in group.replicas:
        entry.replicas.add(egress_port=port, instance=instance)
    return entry


def _set_match(match: Any, value: Value | Lpm) -> None:
    if isinstance(value, tuple):
        match.lpm.value = canonical(value[0])
        match.lpm.prefix_len = value[1]
    else:
        match.exact.value = canonical(value)


def canonical(value: int) -> bytes:
    """Encode in the canonical form of section 8.4: no leading zero bytes, but at least one byte."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def explain(method: str, error: Any) -> str:
    """Format an error, with the per-update errors of section 12.3 from the status details."""
    lines = [f"{method}: {error.code().name}: {error.details()}"]
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        status = status_pb2.Status.FromString(value)
        for number, detail in enumerate(status.details):
            update = p4runtime_pb2.Error()
            if detail.Unpack(update) and update.canonical_code != code_pb2.OK:
                code = code_pb2.Code.Name(update.canonical_code)
                lines.append(f"update {number}: {code}: {update.message}")
    return "; ".join(lines)
